"""What-ifs: a sentence inspected again with changes to the model, its input, or the search."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Unpack

from torch import Tensor

from dragoman.inspection.analyse.changes import (
    Change,
    Intervention,
    SearchSetting,
    SourceToken,
    TargetToken,
    changed_settings,
    refuse_contradictions,
)
from dragoman.inspection.analyse.convolutional_interventions import with_convolutional_interventions
from dragoman.inspection.analyse.enriched_interventions import with_enriched_interventions
from dragoman.inspection.analyse.interventions import with_interventions
from dragoman.inspection.inspect import inspect, inspect_ids
from dragoman.inspection.inspection import Inspection
from dragoman.inspection.record.inspected import InspectedModel, one_model, one_transformer
from dragoman.model.convolutional import Convolutional
from dragoman.model.enriched import Enriched
from dragoman.model.recurrent import Recurrent
from dragoman.model.symbols import END, PAD, START
from dragoman.search.contradictions import refuse_more_than_a_search
from dragoman.search.options import SearchOptions
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError, OptionError
from dragoman.translation.analysis import source_and_constraints
from dragoman.translation.translator import Translator


@dataclass(frozen=True)
class WhatIf:
    """A sentence inspected without and with changes."""

    changes: tuple[Change, ...]
    before: Inspection
    after: Inspection


def what_if(
    translator: Translator,
    sentence: str,
    changes: Sequence[Change],
    settings: SearchSettings | None = None,
    **options: Unpack[SearchOptions],
) -> WhatIf:
    """Inspect a sentence without and with changes; both are searches by PyTorch.

    Raises `DragomanError` as `inspect`, for changes that contradict each other, and for a layer, head,
    position or token that does not exist.
    """
    settings = translator.search_settings(settings, options)
    before = inspect(translator, sentence, settings)
    return WhatIf(tuple(changes), before, inspect_changed(translator, sentence, changes, settings))


def inspect_changed(
    translator: Translator, sentence: str, changes: Sequence[Change], settings: SearchSettings
) -> Inspection:
    """The inspection with the changes; without any it is that of `inspect`. Raises as `what_if`."""
    refuse_contradictions(changes)
    if not changes:
        return inspect(translator, sentence, settings)
    interventions = [
        change for change in changes if not isinstance(change, SourceToken | TargetToken | SearchSetting)
    ]
    changed = translator
    if interventions:
        model = changed_model(translator, interventions)
        changed = Translator.from_model(model, translator.tokenizers, symbol=translator.symbol)
    after = changed_settings(translator.search_settings(settings, {}), changes)
    refuse_more_than_a_search(after, "An inspection needs a single search")
    source, constraints = source_and_constraints(changed, sentence, after)
    source = overwritten(translator, source, changes)
    forced = forced_prefix(translator, sentence, changes, settings)
    prefix = forced + list(constraints.prefix[len(forced) :])
    constraints = replace(constraints, prefix=prefix)
    inspection = inspect_ids(changed, sentence, source, after, constraints)
    refuse_other_beginning(inspection, translator.tokenizers.target.pieces(prefix))
    return inspection


def changed_model(translator: Translator, interventions: Sequence[Intervention]) -> InspectedModel:
    """The model with these interventions. Raises `DragomanError` for a part that it does not have."""
    model = one_model(translator)
    if isinstance(model, Convolutional):
        return with_convolutional_interventions(model, interventions)
    if isinstance(model, Enriched):
        return with_enriched_interventions(model, interventions)
    if isinstance(model, Recurrent):
        raise DragomanError(
            f"{interventions[0]}: this model is an LSTM or GRU, of which no part is changed. What can be "
            "changed: tokens (source.1=TOKEN, target.1=TOKEN) and settings of the search (beam_size=1)."
        )
    return with_interventions(one_transformer(translator), interventions)


def overwritten(translator: Translator, source: Tensor, changes: Sequence[Change]) -> Tensor:
    """The ids of the source [1 S] with the tokens that the changes give.

    Raises `DragomanError` for a position that the sentence does not have, and as `token_id`.
    """
    ids, last = source.clone(), source.size(1) - 1
    for change in changes:
        if isinstance(change, SourceToken):
            if not 1 <= change.position <= last:
                raise DragomanError(
                    f"{change}: there is no position {change.position}; the sentence has {last} tokens "
                    "before its end."
                )
            ids[0, change.position - 1] = token_id(translator, change)
    return ids


def forced_prefix(
    translator: Translator, sentence: str, changes: Sequence[Change], settings: SearchSettings
) -> list[int]:
    """The first ids of every translation: the forced tokens, and those of the translation between them.

    Raises `DragomanError` for a position below 1 or beyond the translation, and as `token_id`.
    """
    tokenizer = translator.tokenizers.target
    forced = {
        change.position: token_id(translator, change) for change in changes if isinstance(change, TargetToken)
    }
    if not forced:
        return []
    first, last, known = min(forced), max(forced), list[int]()
    if first < 1:
        raise DragomanError(f"target.{first}: there is no position {first}; tokens are counted from 1.")
    if len(forced) < last:
        known = tokenizer.ids(inspect(translator, sentence, settings).target[:-1])
    missing = [place for place in range(1, last) if place not in forced and place > len(known)]
    if missing:
        raise DragomanError(
            f"target.{last}: the translation has {len(known)} tokens before its end; force "
            f"target.{missing[0]} too."
        )
    return [forced[place] if place in forced else known[place - 1] for place in range(1, last + 1)]


def token_id(translator: Translator, change: SourceToken | TargetToken) -> int:
    """The id of a token.

    Raises `DragomanError` if the vocabulary does not have it, and for PAD, START and END: no key of padding
    is attended to, and search sets the other two.
    """
    sides = translator.tokenizers
    tokenizer = sides.source if isinstance(change, SourceToken) else sides.target
    try:
        (number,) = tokenizer.ids([change.token])
    except DragomanError as error:
        raise DragomanError(
            f"{change}: {change.token!r} is not a token of the {change.part[0]} vocabulary. Give a token as "
            "an inspection shows it, with ▁ where a word begins."
        ) from error
    if number in (PAD, START, END):
        raise DragomanError(
            f"{change}: {change.token} is a control symbol, which no sentence contains; give another token."
        )
    return number


def refuse_other_beginning(inspection: Inspection, tokens: Sequence[str]) -> None:
    """Raise `DragomanError` if other constraints did not let the translation begin with these tokens."""
    if list(inspection.target[: len(tokens)]) != list(tokens):
        raise OptionError(
            "The other settings of the search do not allow a translation that begins with {beginning}; leave "
            "{no_repeat_ngram} and banned words out.",
            beginning=" ".join(tokens),
        )
