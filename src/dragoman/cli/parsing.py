"""Options from dataclasses, by argparse: a field is an option, and its docstring is the help."""

import argparse
import difflib
import re
import shutil
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from functools import cached_property, partial
from itertools import takewhile
from pathlib import Path
from shlex import quote
from typing import Any, Generic, Literal, NoReturn, TypeVar

from dragoman.system.docs import field_docs
from dragoman.system.errors import DragomanError, OptionMessage

T = TypeVar("T")
Arguments = dict[str, Any]  # values of the options that the user gave, by the names of their fields
SHORT = {"source": "-s", "target": "-t", "out": "-o", "output": "-o", "n_best": "-n", "beam_size": "-b"}
METAVARS: dict[Any, str] = {int: "N", float: "X", str: "TEXT", Path: "FILE"}
WANTED = {
    int: "a whole number",
    float: "a number",
    str: "text in UTF-8",
    Path: "the path of a file or a folder",
}


def flag_of(setting: Field[Any]) -> str:
    """The long form of a setting's option."""
    return "--" + setting.metadata.get("option", setting.name).replace("_", "-")


def option_name(name: str) -> dict[str, str]:
    """Metadata of a field whose option has another name, as `from`, which no field can have."""
    return {"option": name}


@dataclass(frozen=True)
class Option:
    """A field of a settings class as an option."""

    field: Field[Any]
    hint: Any
    group: str
    """The field of settings that it is in; "" for a verb's own."""
    help: str

    @property
    def flag(self) -> str:
        """The long form."""
        return flag_of(self.field)

    @cached_property
    def kinds(self) -> tuple[Any, ...]:
        """The types that a value may have, without None."""
        union = typing.get_origin(self.hint) in (types.UnionType, typing.Union)
        kinds = typing.get_args(self.hint) if union else (self.hint,)
        return tuple(kind for kind in kinds if kind is not types.NoneType)

    @property
    def is_required(self) -> bool:
        """Whether a value has to be given."""
        return self.default is MISSING

    @property
    def default(self) -> Any:
        """The default; `MISSING` if the option is required."""
        return self.field.default if self.field.default_factory is MISSING else self.field.default_factory()

    @property
    def is_list(self) -> bool:
        """Whether it has several values."""
        return typing.get_origin(self.kinds[0]) is tuple

    @property
    def is_repeated(self) -> bool:
        """Whether it is given several times, each time with several values."""
        return self.is_list and typing.get_origin(typing.get_args(self.kinds[0])[0]) is tuple

    @property
    def kind(self) -> Any:
        """The type of one of its values."""
        kind = self.kinds[0]
        while typing.get_origin(kind) is tuple:
            kind = typing.get_args(kind)[0]
        return kind

    @cached_property
    def choices(self) -> tuple[str, ...] | None:
        """The values that it may have, if they are listed."""
        is_choice = all(typing.get_origin(kind) is Literal for kind in self.kinds)
        return tuple(value for kind in self.kinds for value in typing.get_args(kind)) if is_choice else None

    @property
    def metavar(self) -> str:
        """What stands for its value in the help."""
        if self.choices:
            return "{" + ",".join(self.choices) + "}"
        kinds = (self.kind,) if self.is_repeated else self.kinds
        words = (typing.get_args(kind) if typing.get_origin(kind) else (kind,) for kind in kinds)
        return "|".join(METAVARS.get(word, str(word)) for types in words for word in types if word is not ...)

    def value(self, text: str) -> Any:
        """The value that a text after the flag stands for."""
        try:
            return self.converted(text)
        except ValueError as wanted:
            raise argparse.ArgumentTypeError(f"{self.flag} is {text!r}; it has to be {wanted}") from wanted

    def positional_value(self, text: str) -> Any:
        """The value that a positional argument stands for."""
        text = text.removeprefix("\0")
        try:
            return self.converted(text)
        except ValueError as wanted:
            raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}") from wanted

    def converted(self, text: str) -> Any:
        """The value that a text stands for. Raises `ValueError` with what is wanted."""
        if self.choices:
            if text in self.choices:
                return text
            suggestions = difflib.get_close_matches(text, self.choices, n=1)
            hint = f" Did you mean {suggestions[0]}?" if suggestions else ""
            raise ValueError(f"one of {', '.join(self.choices)}.{hint}")
        kind = self.kind
        others = [value for other in self.kinds[1:] for value in typing.get_args(other)]
        if text in others:
            return text
        try:
            if kind is Path and not text:
                raise ValueError  # `Path` would take the current folder for a variable that is not set
            return text.encode().decode() if kind is str else kind(text)
        except ValueError as error:
            raise ValueError(" or ".join([WANTED[kind], *map(repr, others)]) + ".") from error


def options_of(settings: type, group: str = "") -> Iterator[Option]:
    """The fields of the settings, those of settings within too."""
    docs, hints = field_docs(settings), typing.get_type_hints(settings)
    for setting in fields(settings):
        if is_dataclass(kind := hints[setting.name]):
            yield from options_of(typing.cast(type, kind), setting.name)
        elif not any(map(is_dataclass, typing.get_args(kind))):  # a list of tables, which only a recipe has
            yield Option(setting, kind, group, docs.get(setting.name, ""))


def settings_from(settings: type[T], arguments: Mapping[str, Any], default: T | None = None) -> T:
    """Settings with the given values in place of the defaults, also in settings within.

    Raises `OptionError` for options that are out of bounds or contradict each other.
    """
    hints = typing.get_type_hints(settings)
    names = [setting.name for setting in fields(typing.cast(Any, settings))]
    values: Arguments = {name: arguments[name] for name in names if name in arguments}
    for name, hint in hints.items():
        if is_dataclass(hint):
            inner_default = None if default is None else getattr(default, name)
            values[name] = settings_from(typing.cast(type, hint), arguments, inner_default)
    return settings(**values) if default is None else replace(typing.cast(Any, default), **values)


def with_dashes(argument: str) -> str:
    """The argument with dashes in its option's name, where it may have underscores."""
    flag, equals, value = argument.partition("=")
    return flag.replace("_", "-") + equals + value if is_flag(flag) else argument


def is_flag(argument: str) -> bool:
    """Whether an argument names an option: a text with a space is none, as in argparse."""
    return argument.startswith("--") and " " not in argument


class Parser(argparse.ArgumentParser):
    """A parser whose errors are sentences. A negative number is a value, also with an exponent."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._negative_number_matcher = re.compile(r"-(\d|\.\d|inf|nan)")

    def error(self, message: str) -> NoReturn:
        """Raise `DragomanError`."""
        message = re.sub(r"ignored explicit argument (.*)", r"it takes no value, and \1 was given", message)
        text = re.sub(r"^argument [^:]*: (?=[-'\"])", "", message)  # ours begin with the option or the value
        sentence = re.sub(r"^argument (?:-./)?([^:]*): (.*)", r"\1: \2", text)
        stop = "" if sentence.endswith((".", "?")) else "."
        raise DragomanError(f"{sentence[0].upper()}{sentence[1:]}{stop} See {self.prog} --help.")


class ListOnce(argparse.Action):
    """An option of several values that is given once: a second one would replace the first."""

    def __call__(
        self, _: Any, namespace: argparse.Namespace, values: Any, _option: str | None = None
    ) -> None:
        """Store the values. An error if there are some already."""
        if self.dest in vars(namespace):
            flag = self.option_strings[-1]
            raise argparse.ArgumentError(
                None, f"{flag} is given more than once; give it once, with all its values: {flag} A B"
            )
        setattr(namespace, self.dest, tuple(values))


@dataclass(frozen=True)
class Command(Generic[T]):
    """A verb: its settings, and how its help presents them."""

    name: str
    summary: str
    """A line in the list of verbs."""
    run: Callable[[Arguments], None]
    settings: type[T]
    example: str
    groups: Mapping[str, Sequence[str]]
    """Headings of --help, with the options that people use; --help-all shows the others too, but not a field
    without a docstring."""
    arguments: str = "RUN"
    """What stands before the options."""
    positional: Sequence[str] = ("run",)
    metavars: Mapping[str, str] = field(default_factory=dict)
    from_preset: Sequence[str] = ()
    """Options whose defaults come from a preset."""
    notes: str = ""

    @cached_property
    def options(self) -> dict[str, Option]:
        """The options by the names of their fields."""
        return {option.field.name: option for option in options_of(self.settings)}

    @cached_property
    def flags(self) -> list[str]:
        """The long forms of the options; a switch has two."""
        options = [option for name, option in self.options.items() if name not in self.positional]
        switches = [option for option in options if option.kinds == (bool,)]
        return [option.flag for option in options] + [f"--no-{option.flag[2:]}" for option in switches]

    def told(self, message: OptionMessage) -> str:
        """A message with the flags of options. An option that the verb lacks is another verb's."""
        flags = {name: f"--{name.replace('_', '-')}" for name in message.fields}
        flags |= {name: option.flag for name, option in self.options.items()}
        return message.told({name: flag for name, flag in flags.items() if name not in self.positional})

    def parse(self, arguments: Sequence[str]) -> Arguments:
        """The values of the options that are given. Prints help and ends the program if it is asked for.

        Raises `DragomanError` for arguments that are not understood.
        """
        before = list(takewhile(lambda argument: argument != "--", arguments))
        texts = arguments[len(before) :]  # after --, where nothing is an option
        # Marked by NUL, which no argument has: argparse takes some of them for options after all.
        arguments = [*map(with_dashes, before), *(f"\0{text}" for text in texts[1:])]
        for argument in arguments[: len(before)]:
            flag = argument.partition("=")[0]
            if is_flag(flag) and flag not in (*self.flags, "--help", "--help-all"):
                self.refuse_unknown(flag)  # before the parser tells what is missing
        parser = self.parser(everything="--help-all" in before)
        if "--help-all" in before:
            parser.print_help()
            parser.exit()
        namespace, unknown = parser.parse_known_intermixed_args(arguments)
        if unknown:
            self.refuse_unknown(unknown[0].removeprefix("\0").split("=")[0])
        values = {name: value for name, value in vars(namespace).items() if value not in (None, [])}
        self.refuse_missing(values)
        return values

    def refuse_missing(self, arguments: Arguments) -> None:
        """Raise `DragomanError` with all arguments that are required and missing."""
        missing = [
            self.metavars.get(name, option.metavar)
            if name in self.positional
            else "/".join(filter(None, (SHORT.get(name), option.flag)))
            for name, option in self.options.items()
            if option.is_required and name not in arguments
        ]
        if missing:
            names = ", ".join(missing)
            raise DragomanError(
                f"The following arguments are required: {names}. See dragoman {self.name} --help."
            )

    def refuse_unknown(self, argument: str) -> NoReturn:
        """Raise `DragomanError` for an argument that the verb does not have."""
        if not argument.startswith("-") or argument in self.flags:  # the latter after --
            raise DragomanError(f"{argument!r} is one argument too many. See dragoman {self.name} --help.")
        names = {flag.lstrip("-"): flag for flag in self.flags}
        suggestions = difflib.get_close_matches(argument.lstrip("-"), names, n=1, cutoff=0.65)
        hint = (
            f"Did you mean {names[suggestions[0]]}?"
            if suggestions
            else f"See dragoman {self.name} --help-all."
        )
        raise DragomanError(f"dragoman {self.name} has no option {argument}. {hint}")

    def parser(self, everything: bool = False) -> Parser:
        """The parser; its help shows the common options, or everything."""
        width = min(100, shutil.get_terminal_size().columns)
        lines = filter(None, (self.notes, f"example:\n  {self.example}"))
        parser = Parser(
            prog=f"dragoman {self.name}",
            usage=f"dragoman {self.name} {self.arguments} [options]".replace("  ", " "),
            description=(self.settings.__doc__ or "").split("\n")[0],
            epilog="\n\n".join(lines)
            + ("" if everything else f"\n\nAll options: dragoman {self.name} --help-all"),
            formatter_class=partial(argparse.RawDescriptionHelpFormatter, max_help_position=28, width=width),
            argument_default=argparse.SUPPRESS,
            allow_abbrev=False,
            add_help=False,
        )
        common = {name: heading for heading, names in self.groups.items() for name in names}
        order = sorted(
            self.options, key=lambda name: list(common).index(name) if name in common else len(common)
        )
        groups: dict[str, argparse._ArgumentGroup] = {}
        for name in order:
            option = self.options[name]
            heading = common.get(name, option.group or "other options")
            group = groups.get(heading) or groups.setdefault(heading, parser.add_argument_group(heading))
            self._add(
                group,
                option,
                self.help_text(option, everything).replace("%", "%%")
                if option.help and (everything or name in common)
                else argparse.SUPPRESS,
            )
        help_group = parser.add_argument_group("help")
        help_group.add_argument("-h", "--help", action="help", help="show this help")
        help_group.add_argument("--help-all", action="help", help="show the help of all options")
        return parser

    def _add(self, group: "argparse._ArgumentGroup", option: Option, help_text: str) -> None:
        """Add an option, or a positional argument."""
        name, flag = option.field.name, option.flag
        metavar = self.metavars.get(name, option.metavar)
        if option.kinds == (bool,):
            off_flag, is_on = f"--no-{flag[2:]}", bool(option.default)
            hidden = argparse.SUPPRESS
            group.add_argument(flag, dest=name, action="store_true", help=hidden if is_on else help_text)
            group.add_argument(off_flag, dest=name, action="store_false", help=help_text if is_on else hidden)
        elif name in self.positional:
            nargs = "*" if option.is_list else "?"
            group.add_argument(
                name,
                metavar=metavar,
                type=option.positional_value,
                nargs=nargs,
                default=None,
                help=help_text,
            )
        else:
            short = [SHORT[name]] if name in SHORT else []
            values, action = ("+", ListOnce) if option.is_list else (None, "store")
            if option.is_repeated:
                action = "append"
            group.add_argument(
                *short,
                flag,
                dest=name,
                metavar=metavar,
                type=option.value,
                nargs=values,
                action=action,
                help=help_text,
            )

    def meaning(self, option: Option) -> str:
        """The option's docstring, with other options in place of their settings: --n-best for n_best.

        The names of the paper's sizes, such as d_model, stay.
        """
        settings = [name for name in self.options if "_" in name and not name.startswith("d_")]
        names = re.compile(rf"\b({'|'.join(settings) or '(?!)'})\b(?!=)")
        return names.sub(lambda match: self.options[match[0]].flag, option.help)

    def help_text(self, option: Option, everything: bool) -> str:
        """The option's docstring, of which --help shows the first sentence, with its default.

        The docstring of what is on by default begins with a verb, which "Do not" negates.
        """
        text = self.meaning(option)
        if not everything:
            text = re.split(r"(?<=[.:;]) (?=[A-Z(])|; ", text, maxsplit=1)[0]
        text = text.rstrip(".;:")
        default = option.default
        if default is True:
            return f"Do not {text[0].lower()}{text[1:]}"
        if option.field.name in self.from_preset:
            return f"{text} (from the preset)"
        is_value = (
            isinstance(default, int | float | str | Path)
            and default is not False
            and str(default) not in ("", "0", "0.0")
        )
        return f"{text} (default: {default})" if is_value else text


FILES_OF_RUNS = (
    "recipe.toml",
    "budget.json",
    "log.jsonl",
    "passport.json",
    "result.json",
    "test.hypotheses.txt",
    "distilled.txt",
    "distilled.txt.json",
    "sources.txt",
)


def refuse_missing_folder(option: str, out: Path) -> None:
    """Raise `DragomanError` for a file in a folder that does not exist, before hours of work."""
    if not out.parent.is_dir():
        raise DragomanError(
            f"{option} {out} cannot be written: there is no such folder. Make it first: mkdir -p "
            f"{quote(str(out.parent))}"
        )


def refuse_model_folder(out: Path, what: str | None = None) -> None:
    """Raise `DragomanError` for a folder with a manifest, such as a model's; `what` begins the sentence."""
    if (out / "manifest.json").exists():
        raise DragomanError(
            f"{what or f'--out {out} is a folder'} whose files manifest.json lists, and another file would "
            "make it incomplete; choose another folder."
        )


def refuse_replacing(option: str, out: Path, *inputs: Path) -> None:
    """Raise `DragomanError` if a file to write is a folder, is in a model's folder, is one that the command
    reads, is one that a run has written, or has the name of a compressed one.
    """
    if out.is_dir():
        raise DragomanError(f"{option} {out} is a folder; give the name of a file.")
    if out.suffix in {".gz", ".zst"}:
        raise DragomanError(
            f"{option} {out} would not be compressed, as its name says; give one that does not end in "
            f"{out.suffix}."
        )
    refuse_model_folder(out.parent, f"{option} {out} is in a folder")
    if out.name in FILES_OF_RUNS and (out.parent / "recipe.toml").exists():
        raise DragomanError(f"{option} {out} is a file of the run {out.parent}; give another file.")
    for path in inputs:
        if out.exists() and path.exists() and out.samefile(path):
            raise DragomanError(f"{option} {out} is what this command reads; give another file.")
