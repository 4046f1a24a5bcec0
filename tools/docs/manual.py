"""The manual pages, from the parsers: `dragoman.1`, and a page a verb. The build puts them into the wheel."""

import os
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from inspect import getdoc
from typing import Any

from dragoman import __version__
from dragoman.cli.parsing import Command
from dragoman.cli.verbs import commands
from tools.docs.command_line import INTRODUCTION, default, forms, grouped, meaning

STATUS = (
    "0 on success, 2 for an error that the user can correct, 129 after SIGHUP, 130 after Ctrl-C, 141 if the "
    "program that reads the output has ended, 143 after SIGTERM. serve ends with 0 after these signals, "
    "doctor with 1 if it found something."
)
HELP = {
    "--help": "Print the common options.",
    "--help-all": "Print every option.",
}


def pages() -> dict[str, str]:
    """The pages by the names of their files."""
    verbs = {f"dragoman-{name}.1": verb_page(command) for name, command in commands().items()}
    return {"dragoman.1": main_page()} | verbs


def main_page() -> str:
    """The page of the program."""
    summary = 'the Transformer of "Attention Is All You Need" for your own text'
    usage, *paragraphs = INTRODUCTION.split("\n\n")
    verbs = (
        tagged(bold(name), f"{each.summary} See dragoman-{name}(1).") for name, each in commands().items()
    )
    return written(
        head("dragoman", summary),
        [".SH SYNOPSIS", f"{bold('dragoman')} {roff('VERB [arguments] [options]')}"],
        [".SH DESCRIPTION", roff(plain(usage.split(". ", 1)[1])), *map(paragraph, paragraphs)],
        [".SH VERBS", *verbs],
        [".SH OPTIONS", tagged(bold("--version"), "Print the version."), help_options()],
        [".SH EXIT STATUS", roff(STATUS)],
    )


def verb_page(command: Command[Any]) -> str:
    """The page of a verb."""
    about, *more = (getdoc(command.settings) or command.summary).split("\n\n")
    notes = [".SH NOTES", *literal(command.notes)] if command.notes else []
    return written(
        head(f"dragoman-{command.name}", command.summary),
        [
            ".SH SYNOPSIS",
            f"{bold(f'dragoman {command.name}')} {roff(f'{command.arguments} [options]'.strip())}",
        ],
        [".SH DESCRIPTION", roff(plain(about)), *map(paragraph, more)],
        [".SH OPTIONS", *options(command), help_options()],
        [".SH EXAMPLES", *literal(command.example)],
        notes,
        [".SH EXIT STATUS", roff(STATUS)],
        [".SH SEE ALSO", f"{bold('dragoman')}(1)"],
    )


def head(name: str, summary: str) -> list[str]:
    """The title of a page with the date of the build, and its first section, which apropos reads."""
    seconds = float(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    date = datetime.fromtimestamp(seconds, UTC).date().isoformat()
    title = f'.TH "{roff(name.upper())}" 1 "{date}" "dragoman {__version__}" "Dragoman manual"'
    return [title, ".ad l", ".SH NAME", rf"{roff(name)} \- {roff(plain(summary).rstrip('.'))}"]


def options(command: Command[Any]) -> Iterator[str]:
    """The options under their headings, as on the site."""
    for heading, found in grouped(command):
        yield f".SS {roff(heading[0].upper() + heading[1:])}"
        for each in found:
            text = f"{meaning(command, each)}{default(command, each)}"
            yield tagged(bold(forms(command, each)), text)


def help_options() -> str:
    """The options that every verb has."""
    return "\n".join([".SS Help", *(tagged(bold(flag), text) for flag, text in HELP.items())])


def written(*sections: list[str]) -> str:
    """A page of sections."""
    return "\n".join(line for section in sections for line in section) + "\n"


def tagged(tag: str, text: str) -> str:
    """A paragraph with a tag."""
    return f".TP\n{tag}\n{roff(plain(text))}"


def paragraph(text: str) -> str:
    """A paragraph."""
    return f".PP\n{roff(plain(text))}"


def literal(text: str) -> list[str]:
    """Lines that stay as they are."""
    return [".nf", *map(roff, text.splitlines()), ".fi"]


def bold(text: str) -> str:
    """A text in bold."""
    return rf"\fB{roff(text)}\fR".replace(",", r",\:")  # a list of choices may break after a comma


def plain(text: str) -> str:
    """A docstring in one line, without backticks."""
    return " ".join(text.replace("`", "").split())


def roff(text: str) -> str:
    """A text in which roff sees no requests and no escapes; characters beyond ASCII by their numbers."""
    safe = re.sub(r"^(?=[.'])", r"\&", text.replace("\\", r"\e").replace("-", r"\-"))
    return re.sub(r"[^\x00-\x7f]", lambda found: f"\\[u{ord(found[0]):04X}]", safe)
