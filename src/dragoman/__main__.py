"""`python -m dragoman`."""

import signal
import threading


def main() -> None:
    """Run the command line. Ctrl-C ends it without a traceback while it is still being imported."""
    handler = signal.getsignal(signal.SIGINT)
    is_usual = handler is signal.default_int_handler  # it may be ignored
    if is_usual and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        from dragoman.cli.main import main as run_command

        signal.signal(signal.SIGINT, handler)
    else:
        from dragoman.cli.main import main as run_command
    run_command()


if __name__ == "__main__":
    main()
