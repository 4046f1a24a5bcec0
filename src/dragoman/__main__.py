"""`python -m dragoman`."""

import signal


def main() -> None:
    """Run the command line. Ctrl-C ends it without a traceback while it is still being imported."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # not where it is ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from dragoman.cli.main import main as run_command

    signal.signal(signal.SIGINT, handler)
    run_command()


if __name__ == "__main__":
    main()
