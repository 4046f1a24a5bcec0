"""No model leaves unseen, and none arrives so from Hugging Face: sample sentences in the foreign engine and
in ours, token by token.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.interop.vocabulary import NEVER, is_word
from dragoman.model.interface import Model
from dragoman.model.symbols import END, START, UNKNOWN
from dragoman.search.beam import greedy_search, max_target_lengths
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.translation.model_folder import Tokenizers

TOLERANCE = 1e-3
"""Nats by which a log-probability may differ: float32 sums in another order, not another model."""
ROUNDED = 0.2
"""The same for weights that were rounded, in the mean of a translation's tokens."""
SEARCH = SearchSettings(
    beam_size=1, max_extra_tokens=8
)  # not many more tokens than the source: endings of untrained models never come


@dataclass(frozen=True)
class Engine:
    """What a foreign engine does with a model, in our ids, which end with END on the source's side."""

    name: str
    tokens: Callable[[str], list[int]]
    """The source ids of a text."""
    log_p: Callable[[list[int], list[int]], Tensor]
    """Of a source and the T tokens of a translation, END among them: log-probabilities of all V tokens at
    each, or of these alone."""
    greedy: Callable[[list[int], int], list[int]]
    """The greedy translation of a source, of at most so many tokens, without END."""
    text: Callable[[list[int]], str]
    """The text of a translation's ids."""
    first_ids: Sequence[int]
    """For each of our source ids the first with the same row of the embedding, which `tokens` gives."""
    longest: int | None = None
    """Tokens of the longest text that it can read or write, where it has an end."""
    rounded: bool = False
    """Whether its weights are rounded, so that its translations may differ."""


def samples(tokenizers: Tokenizers, longest: int | None = None, count: int = 8) -> list[str]:
    """Sentences of tokens that the model's source can have, drawn at random but always alike, of `longest`
    tokens at most with END.

    Raises `DragomanError` if nothing can be said with the vocabulary.
    """
    side = tokenizers.source
    written = side.encode([side.decode([token]) for token in range(END + 1, len(side))])
    words = map(is_word, side.pieces(range(END + 1, len(side))))
    known = [
        token
        for token, (ids, word) in enumerate(zip(written, words, strict=True), END + 1)
        if word and ids and UNKNOWN not in ids
    ]
    generator = torch.Generator().manual_seed(1)
    drawn = [
        torch.randint(len(known), (length,), generator=generator).tolist()
        for length in range(2, 2 * count + 2, 2)
        if known
    ]
    texts = [" ".join(side.decode([known[number] for number in numbers]).split()) for numbers in drawn]
    plain = [
        text
        for text, ids in zip(texts, side.encode(texts), strict=True)
        if UNKNOWN not in ids and len(ids) < (longest or math.inf)
    ]
    if not any(plain):
        raise DragomanError(
            "No sentence to compare with could be made of the model's vocabulary; give some with --samples."
        )
    return plain


@torch.no_grad()
def verify(engine: Engine, model: Model, tokenizers: Tokenizers, sentences: Sequence[str]) -> float:
    """The largest difference of a log-probability, in nats.

    Raises `DragomanError` with the sentence, where the engine cuts it into other tokens, expects others, or
    writes another translation.
    """
    largest = 0.0
    for sentence, ids in zip(sentences, tokenizers.source.encode(sentences), strict=True):
        source = [*ids, END]
        if not ids:
            continue  # what is blank has no translation
        most = int(max_target_lengths(model, torch.tensor([source]), SEARCH)) + 1
        if engine.longest is not None and max(len(source), most) > engine.longest:
            raise DragomanError(
                f"The sample that begins with {sentence[:40]!r} has {len(source)} tokens, and {engine.name} "
                "with this model reads and "
                f"writes {engine.longest}; give shorter ones."
            )
        if (theirs := engine.tokens(sentence)) != [engine.first_ids[token] for token in source]:
            raise DragomanError(
                f"{engine.name} cuts {sentence!r} into {spell(tokenizers, theirs)}, and Dragoman into "
                f"{spell(tokenizers, source)}."
            )
        [[best]] = greedy_search(model, torch.tensor([source]), SEARCH)
        largest = max(largest, compare(engine, model, sentence, source, [*best.ids, END]))
        if not engine.rounded:
            refuse_other_text(engine, model, tokenizers, sentence, source, best.ids)
    return largest


@torch.no_grad()
def compare(engine: Engine, model: Model, sentence: str, source: list[int], target: list[int]) -> float:
    """The largest difference of a log-probability. Raises `DragomanError` if it is too large."""
    ours = log_probabilities(model, source, target)
    theirs = engine.log_p(source, target)
    if theirs.dim() == 1:
        apart = (theirs - ours.gather(1, torch.tensor(target)[:, None])[:, 0]).abs()
    else:
        apart = torch.where(ours < NEVER / 2, 0.0, theirs - ours).abs().amax(1)
    found, allowed = (apart.mean(), ROUNDED) if engine.rounded else (apart.max(), TOLERANCE)
    if not found <= allowed:
        raise DragomanError(
            f"{engine.name} and Dragoman disagree on the translation of {sentence!r}: the log-probabilities "
            "of token "
            f"{int(apart.argmax()) + 1} differ by {apart.max():.3g} nats, and {apart.mean():.3g} in the "
            f"mean; {allowed:g} are allowed."
        )
    return float(apart.max())


def log_probabilities(model: Model, source: list[int], target: list[int]) -> Float[Tensor, "T V"]:
    """Ours, of all tokens at each place of a translation."""
    features, _ = model.decode(torch.tensor([[START, *target[:-1]]]), model.encode(torch.tensor([source])))
    return model.logits(features[0]).float().log_softmax(-1)


def refuse_other_text(
    engine: Engine, model: Model, tokenizers: Tokenizers, sentence: str, source: list[int], written: list[int]
) -> None:
    """Raise `DragomanError` if the engine writes another greedy translation, or spells the same one in
    another way.

    Two tokens that are equally likely, as far as the tolerance goes, may each be written.
    """
    theirs = engine.greedy(source, int(max_target_lengths(model, torch.tensor([source]), SEARCH)))
    if theirs != written:
        place, one, other = next(
            (place, one, other)
            for place, (one, other) in enumerate(zip([*written, END], [*theirs, END], strict=False))
            if one != other
        )
        here = log_probabilities(model, source, [*written, END])[place]
        if here[one] - here[other] > TOLERANCE:
            raise DragomanError(
                f"{engine.name} translates {sentence!r} by {spell(tokenizers, theirs, target=True)}, and "
                "Dragoman by "
                f"{spell(tokenizers, written, target=True)}."
            )
    spelt, ours = (
        " ".join(text.split()) for text in (engine.text(written), tokenizers.target.decode(written))
    )
    if spelt != ours and UNKNOWN not in written:
        raise DragomanError(
            f"{engine.name} spells the translation of {sentence!r} {spelt!r}, and Dragoman {ours!r}."
        )


def spell(tokenizers: Tokenizers, ids: Sequence[int], target: bool = False) -> str:
    """Tokens for a message."""
    return " ".join((tokenizers.target if target else tokenizers.source).pieces(ids))
