"""`python -m dragoman`."""

import signal
import threading


def main() -> None:
    """Run the command line. Ctrl-C ends it without a traceback while it is still being imported."""
    handler = signal.getsignal(signal.SIGINT)
    is_main_thread = threading.current_thread() is threading.main_thread()
    is_usual = is_main_thread and handler is signal.default_int_handler  # it may be ignored
    if is_usual:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from dragoman.cli.main import main as run_command

    if is_usual:
        signal.signal(signal.SIGINT, handler)
    run_command()


if __name__ == "__main__":
    main()
