"""The command line: it runs a verb, and prints errors as sentences.

Nothing imports torch before the arguments are understood.
"""

import io
import os
import signal
import sys
from pathlib import Path

from dragoman import __version__
from dragoman.cli.console import print_own_warnings, say, silence_write_errors_of_threads
from dragoman.cli.verbs import GROUPS, command, commands
from dragoman.system.errors import NEEDS_PYTORCH, DragomanError, OptionError
from dragoman.system.messages import messages_to
from dragoman.system.processors import configure_threads


def usage() -> str:
    """The verbs in their groups."""
    known = commands()
    lines = [
        "usage: dragoman VERB [arguments] [options]\n\n"
        f'Dragoman {__version__}: the Transformer of "Attention Is All You Need" for your own text.'
    ]
    for group, verbs in GROUPS.items():
        lines += [f"\n{group}:", *(f"  {name:<14}{known[name].summary}" for name in verbs)]
    return "\n".join([*lines, "\nOptions of a verb: dragoman VERB --help"])


def run(arguments: list[str]) -> None:
    """Run the verb of these arguments, or print the version or the verbs."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        verb = next(
            (argument for argument in arguments[1:] if not argument.startswith("-") and argument != "help"),
            None,
        )
        if verb is None:
            print(usage())
            return
        arguments = [verb, "--help"]
    if arguments[0] == "--version":
        print(f"dragoman {__version__}")
        return
    if sys.stdin is None or sys.stdout is None:
        raise DragomanError("Standard input or output is closed; if there is none, give /dev/null.")
    silence_write_errors_of_threads()
    configure_threads()
    chosen = command(arguments[0])
    print_own_warnings(chosen.told)
    values = chosen.parse(arguments[1:])
    try:
        with messages_to(say, chosen.told):
            chosen.run(values)
    except OptionError as error:
        raise DragomanError(chosen.told(error)) from error


def main() -> None:
    """Run a verb. Errors that the user can correct are printed as a sentence, with exit status 2."""
    if sys.stderr is None:  # it is closed, and print would write to standard output
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115  for as long as the program
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for terminals that lack a character
    try:
        try:
            run(sys.argv[1:])
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # its errors become sentences here
    except DragomanError as error:
        sys.exit(print_error(str(error)))
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        sys.exit(print_error(NEEDS_PYTORCH))
    except BrokenPipeError:  # the reader of the output has ended
        sys.stdout = None
        sys.exit(141)
    except OSError as error:
        from dragoman.cli.os_errors import sentence_of

        sys.stdout = None  # it would try again to write what is left
        sys.exit(print_error(sentence_of(error)))
    except UnicodeEncodeError as error:
        from dragoman.cli.os_errors import sentence_of_name

        sys.exit(print_error(sentence_of_name(error)))
    except KeyboardInterrupt:
        signal.signal(
            signal.SIGINT, signal.SIG_DFL
        )  # a second Ctrl-C, while threads end, prints no traceback
        sys.exit(130)


def print_error(message: str) -> int:
    """Print an error, and return the exit status."""
    print(f"dragoman: {message}", file=sys.stderr)
    return 2
