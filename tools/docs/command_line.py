"""The pages of the command line, from the parsers: a page a verb."""

from collections.abc import Iterator
from inspect import getdoc
from typing import Any

from dragoman.cli.parsing import SHORT, Command, Option
from dragoman.cli.verbs import commands
from tools.docs.markdown import escaped, page, table, toctree

INTRODUCTION = """\
`dragoman VERB [arguments] [options]`. `dragoman VERB --help` shows the common options, and `--help-all` shows
every option. If an option takes several values, give it once, with all its values: `--ban-words Hund Katze`.

Results go to standard output. Messages go to standard error. The exit status is 0 on success, 2 for an error
that you can correct, which is printed as a sentence, 129 after SIGHUP, 130 after Ctrl-C, 141 if the program
that reads the output has ended, and 143 after SIGTERM. `dragoman serve` ends with 0 after these signals,
and `dragoman doctor` with 1 if it found something.
"""


def pages() -> dict[str, str]:
    """The pages by their names."""
    verbs = table(
        ("verb", "what it does"),
        ([f"[`{name}`]({name}.md)", escaped(command.summary)] for name, command in commands().items()),
    )
    index = page("Command line", INTRODUCTION, verbs, toctree(commands()))
    return {"index": index} | {name: verb_page(command) for name, command in commands().items()}


def verb_page(command: Command[Any]) -> str:
    """The page of a verb."""
    usage = f"dragoman {command.name} {command.arguments} [options]".replace("  ", " ")
    return page(
        f"dragoman {command.name}",
        escaped(getdoc(command.settings) or command.summary),
        f"```text\n{usage}\n```",
        "An example:",
        f"```sh\n{command.example}\n```",
        f"```text\n{command.notes}\n```" if command.notes else "",
        f":::{{program}} dragoman {command.name}\n:::",
        *groups(command),
    )


def groups(command: Command[Any]) -> Iterator[str]:
    """The options under their headings."""
    for heading, options in grouped(command):
        yield f"## {heading[0].upper()}{heading[1:]}"
        yield from (described(command, option) for option in options)


def grouped(command: Command[Any]) -> Iterator[tuple[str, list[Option]]]:
    """The headings with their options, those that people use first, as in the help."""
    headings = {name: heading for heading, names in command.groups.items() for name in names}
    for heading in dict.fromkeys(
        [*headings.values(), *(option.group or "other options" for option in command.options.values())]
    ):
        options = [
            option
            for name, option in command.options.items()
            if option.help and headings.get(name, option.group or "other options") == heading
        ]
        if options:
            yield heading, options


def described(command: Command[Any], option: Option) -> str:
    """An option with its forms, meaning and default."""
    text = f"{escaped(meaning(command, option))}{default(command, option)}"
    return f"::::{{option}} {forms(command, option)}\n{text}\n::::"


def meaning(command: Command[Any], option: Option) -> str:
    """What an option does; the help of what is on by default begins with a verb, which is negated."""
    text = command.meaning(option)
    return f"Do not {text[0].lower()}{text[1:]}" if option.default is True else text


def forms(command: Command[Any], option: Option) -> str:
    """How an option is written."""
    name = option.field.name
    metavar = command.metavars.get(name, option.metavar)
    if name in command.positional:
        return command.metavars.get(name, name.upper())
    if option.kinds == (bool,):
        return f"--no-{option.flag[2:]}" if option.default else option.flag
    metavar += " ..." * option.is_list
    short = f", {SHORT[name]} {metavar}" if name in SHORT else ""
    return f"{option.flag} {metavar}{short}"


def default(command: Command[Any], option: Option) -> str:
    """A sentence about the default, if it has one to name."""
    value = option.default
    if option.field.name in command.from_preset:
        return " The default comes from the preset."
    named = isinstance(value, int | float | str) and str(value) not in ("", "0", "0.0", "True", "False")
    return f" The default is `{value}`." if named else ""
