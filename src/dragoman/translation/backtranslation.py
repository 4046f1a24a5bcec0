"""Back-translation: text in the target language becomes pairs, whose sources a reverse model has translated.

Sennrich et al. (2016) add such pairs to the parallel ones. Edunov et al. (2018) compare how the sources are
made: sampling, or a beam with noise, gives better models than plain beam search; with few parallel pairs
(80,000 there) plain beam search is better. Caswell et al. (2019) mark such sources by a tag instead, which
does as well as noise.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from dragoman.system.errors import DragomanError
from dragoman.system.files import atomic_write
from dragoman.text.compression import plain_name
from dragoman.text.language_codes import could_be_same
from dragoman.text.lines import raw_lines, read_lines
from dragoman.text.mixture import refuse_both_sides
from dragoman.text.records import primary
from dragoman.text.settings import UNKNOWN_LANGUAGE, Languages, language_of_name

REPORT = "report.json"


@dataclass
class BacktranslationReport:
    """Numbers of lines; the fields are the keys of report.json."""

    source: str
    target: str
    tag: str
    lines: int = 0
    empty: int = 0
    untranslated: int = 0
    """Lines whose translation is empty, or has a NUL, which training refuses."""
    pairs: int = 0


def check_text(text: Path, languages: Languages) -> None:
    """Raise `DragomanError` unless a model that reads a language can translate every line of a text.

    The text's language is what the ending of its name says. A language that is not known may be any.
    """
    refuse_both_sides(text)
    language, expected = language_of_name(text.name), languages.source
    if UNKNOWN_LANGUAGE not in (language, expected) and not could_be_same(language, expected):
        raise DragomanError(
            f"{text} is in {language}, and the run translates from {expected} to {languages.target}. "
            f"Back-translation needs a run that translates from {language}."
        )
    if not sum(bool(line.strip()) for line in read_lines(text)):  # reads all, before hours of translation
        raise DragomanError(f"{text} has only empty lines.")


def pair_names(text: Path, languages: Languages) -> tuple[str, str]:
    """The names of the files of sources and targets, such as mono.en and mono.de for mono.de."""
    name = plain_name(text.name)
    base = name.rpartition(".")[0] if language_of_name(name) != UNKNOWN_LANGUAGE else name
    source, target = primary(languages.target), primary(languages.source)
    if source == target:
        source, target = "source", "target"
    return f"{base}.{source}", f"{base}.{target}"


def write_pairs(
    text: Path, translations: Path, folder: Path, names: tuple[str, str], tag: str
) -> BacktranslationReport:
    """Write the pairs of a text and its translations, and report.json; each file appears when it is complete.

    `tag` is the first word of every source; "" is none. Line n of `translations` belongs to line n of `text`.
    Raises `DragomanError` if no pair is left.
    """
    report = BacktranslationReport(*names, tag)
    prefix = f"{tag} " if tag else ""
    with atomic_write(folder / names[0]) as new_source, atomic_write(folder / names[1]) as new_target:
        with (
            new_source.open("w", encoding="utf-8") as source,
            new_target.open("w", encoding="utf-8") as target,
        ):
            for line, raw in zip(read_lines(text), raw_lines(translations), strict=True):
                report.lines += 1
                translation = raw.decode().removesuffix("\n")
                if not line.strip():
                    report.empty += 1
                elif not translation.strip() or "\0" in translation:
                    report.untranslated += 1
                else:
                    report.pairs += 1
                    source.write(f"{prefix}{translation}\n")
                    target.write(f"{line}\n")
        if not report.pairs:
            raise DragomanError(f"No line of {text} has a translation that is not empty.")
    with atomic_write(folder / REPORT) as new:
        new.write_text(json.dumps(asdict(report), indent=2) + "\n")
    return report
