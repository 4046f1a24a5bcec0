"""The language that a model of several translates into; whether names of files agree with the languages."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dragoman.cli.console import say
from dragoman.cli.parsing import option_name
from dragoman.text.language_codes import could_be_same
from dragoman.text.records import primary
from dragoman.text.settings import LANGUAGE_CODE, UNKNOWN_LANGUAGE, Languages, language_of_name

WITHOUT_LANGUAGE = frozenset((UNKNOWN_LANGUAGE, "mis", "mul", "zxx"))
"""Codes of ISO 639 that name no single language; office programs write zxx for text that has none."""


@dataclass(frozen=True)
class TargetLanguage:
    """The target language of a verb."""

    target_language: str | None = field(default=None, metadata=option_name("to"))
    """The language to translate into, such as fr, by a model that has several."""

    @property
    def code(self) -> str:
        """The language; "" for the only one."""
        return self.target_language or ""


def warn_of_files(
    run: Path, languages: Languages, sources: Sequence[Path], targets: Sequence[Path] = ()
) -> None:
    """Say which files are, by the ends of their names, in another language than the run reads or writes.

    It is no error: a name can be wrong.
    """
    for expected, paths in ((languages.source, sources), (languages.target, targets)):
        for path in paths:
            language = language_of_name(path.name)
            warn_of_language(
                run, languages, f"{path} is in {language} by the end of its name", language, expected
            )


def warn_of_document(
    run: Path, languages: Languages, path: Path, declared: str, endings: Collection[str]
) -> None:
    """Say if a document is in another language than the run reads: that declared in it, or else by its name.

    The end of its name may be one of the endings of formats; the language stands before that.
    """
    if LANGUAGE_CODE.fullmatch(declared) and primary(declared) not in WITHOUT_LANGUAGE:
        statement = f"{path} is in {declared} by its own declaration"
        warn_of_language(run, languages, statement, declared, languages.source)
        return
    plain_path = path.with_suffix("") if path.suffix.lower() in endings else path
    language = language_of_name(plain_path.name)
    warn_of_language(
        run, languages, f"{path} is in {language} by the end of its name", language, languages.source
    )


def warn_of_language(run: Path, languages: Languages, statement: str, language: str, expected: str) -> None:
    """Say the statement where it gives another language than wanted. One that is not known may be any."""
    if UNKNOWN_LANGUAGE not in (language, expected) and not could_be_same(language, expected):
        say(
            f"{statement}, but {run} translates from {languages.source} to {languages.target}; {expected} is "
            "expected there."
        )
