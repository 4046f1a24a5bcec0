"""Names of corpora of OPUS (Tiedemann 2012): `opus:en-de/Tatoeba`, `opus:en-de/Tatoeba/v2023-04-12`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.system.errors import DragomanError, OptionError

PREFIX = "opus:"
LANGUAGE = r"[A-Za-z]{2,3}(?:_[A-Za-z0-9]+)*"
WORD = r"[A-Za-z0-9][\w.+-]*"
NAME = re.compile(rf"{PREFIX}({LANGUAGE})-({LANGUAGE})(?:/({WORD})(?:/({WORD}))?)?", re.ASCII)


@dataclass(frozen=True)
class OpusName:
    """A corpus of OPUS in two languages, or all of two languages."""

    source: str
    """The language to translate from, as OPUS writes it: `en`, `pt_BR`."""
    target: str
    corpus: str = ""
    """"" stands for all corpora of these languages."""
    release: str = ""
    """"" is the latest."""

    def __str__(self) -> str:
        parts = filter(None, (f"{self.source}-{self.target}", self.corpus, self.release))
        return PREFIX + "/".join(parts)

    @property
    def stem(self) -> str:
        """The name of the corpus's files, without their endings."""
        release = f"-{self.release}" if self.release else ""
        return f"{self.corpus}{release}.{self.source}-{self.target}"

    @property
    def texts(self) -> tuple[str, str]:
        """The names of the two texts."""
        return f"{self.stem}.{self.source}", f"{self.stem}.{self.target}"


def is_opus(name: str) -> bool:
    """Whether a name is one of OPUS, right or wrong."""
    return name.startswith(PREFIX)


def check_datasets(names: Sequence[str], has_texts: bool) -> None:
    """Raise `DragomanError` for datasets that cannot be used together, or not with texts of the user's own.

    Those of OPUS have training text alone, in one pair of languages; others have validation and test text.
    """
    others = [name for name in names if not is_opus(name)]
    if others and has_texts:
        raise OptionError(
            "The dataset {name!r} has its own files; leave {dataset} out for yours.", name=others[0]
        )
    if others and len(names) > 1:
        raise OptionError(
            "The dataset {name!r} has its own validation and test text; give it alone as {dataset}. Those of "
            "OPUS can be given together.",
            name=others[0],
        )
    corpora = [parse_opus(name) for name in names if is_opus(name)]
    for corpus in corpora:
        if not corpus.corpus:
            raise OptionError(
                "{name} is all that OPUS has in two languages; give corpora, such as {name}/Tatoeba. "
                "`dragoman data {name}` lists them.",
                name=corpus,
            )
        if (corpus.source, corpus.target) != (corpora[0].source, corpora[0].target):
            raise OptionError(
                "The datasets {one} and {other} have other languages. Download them with `dragoman data`, "
                "and give their texts as several pairs: dragoman train --pair en-de SOURCE TARGET …",
                one=corpora[0],
                other=corpus,
            )
    if repeated := [corpus for corpus in corpora if corpora.count(corpus) > 1]:
        raise OptionError("The dataset {name} is given twice; give it once.", name=repeated[0])


def parse_opus(name: str) -> OpusName:
    """The parts of a name. Raises `DragomanError` for one of another form."""
    match = NAME.fullmatch(name)
    if match is None or match[1] == match[2]:
        raise DragomanError(
            f"{name!r} is no name of a corpus; it has to be as {PREFIX}en-de/Tatoeba, with two languages as "
            f"OPUS writes them (pt_BR), a corpus and, if it is not the latest, a release: "
            f"{PREFIX}en-de/Tatoeba/v2023-04-12."
        )
    return OpusName(*(part or "" for part in match.groups()))
