"""Which of the pairs of languages of a model is the one that is asked for."""

from collections.abc import Sequence
from dataclasses import replace

from dragoman.system.errors import DragomanError, OptionError
from dragoman.text.language_codes import nearest
from dragoman.text.settings import LanguagePair, Languages, common_languages


def choose_pair(
    pairs: Sequence[LanguagePair], languages: Languages, target: str, source: str = ""
) -> LanguagePair | None:
    """The pair of languages, of those of a model, that is closest to these; None if the model has one pair.

    `languages` are those of a model of one pair. "" stands for the only language. Raises `DragomanError`
    for a language that the model does not have, and for "" as the target if it has several.
    """
    known: Sequence[Languages] = pairs or [languages]
    sources, targets = (
        list(dict.fromkeys(getattr(pair, side) for pair in known)) for side in ("source", "target")
    )
    for word, code, codes in (("from", source, sources), ("into", target, targets)):
        if nearest(code, codes) is None:
            raise DragomanError(f"This model translates {word} {' and '.join(codes)}, and not {word} {code}.")
    if not pairs:
        return None
    if not target and len(targets) > 1:
        raise open_target(pairs)
    chosen = nearest(target, targets)
    into = [pair for pair in pairs if pair.target == chosen]
    read = nearest(source, sources) if source else None
    return replace(into[0], source=read or common_languages(into).source)


def open_target(pairs: Sequence[LanguagePair]) -> DragomanError:
    """The error of a model of several target languages, of which none is chosen."""
    targets = list(dict.fromkeys(pair.target for pair in pairs))
    return OptionError(
        "This model translates into {targets}, and none of these languages is chosen; give "
        "{target_language} {first}, for example.",
        targets=" and ".join(targets),
        first=targets[0],
    )
