"""No model leaves or arrives unseen: sample sentences in the foreign engine and in ours, token by token."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dragoman.decoding.folder import Tokenizers
from dragoman.decoding.search import greedy_search
from dragoman.decoding.settings import SearchSettings
from dragoman.errors import DragomanError
from dragoman.interop.vocabulary import NEVER, is_word
from dragoman.model.contract import Model
from dragoman.model.symbols import END, START, UNKNOWN

TOLERANCE = 1e-3
"""Nats by which a log-probability may differ: float32 sums in another order, not another model."""
EXTRA_LENGTH = 8  # tokens that a sample's translation may have more than its source: endings of untrained models never come


@dataclass(frozen=True)
class Engine:
    """What a foreign engine does with a model, in our ids, which end with END on the source's side."""

    name: str
    tokens: Callable[[str], list[int]]
    """The source ids of a text."""
    log_p: Callable[[list[int], list[int]], Tensor]
    """Of a source and the T tokens of a translation, END among them: log-probabilities of all V tokens at each, or of these alone."""
    greedy: Callable[[list[int], int], list[int]]
    """The greedy translation of a source, of at most so many tokens, without END."""
    text: Callable[[list[int]], str]
    """The text of a translation's ids."""
    same: Sequence[int]
    """For each of our source ids the first with the same row of the embedding, which `tokens` gives."""
    tolerance: float = TOLERANCE
    """Above the default one where the engine rounds weights: then its translations may differ."""


def samples(tokenizers: Tokenizers, count: int = 8) -> list[str]:
    """Sentences of tokens that the model's source can have, drawn at random but always alike."""
    side = tokenizers.source
    written = side.encode([side.decode([token]) for token in range(END + 1, len(side))])
    words = map(is_word, side.pieces(range(END + 1, len(side))))
    known = [token for token, (ids, word) in enumerate(zip(written, words, strict=True), END + 1) if word and ids and UNKNOWN not in ids]
    generator = torch.Generator().manual_seed(1)
    drawn = [torch.randint(len(known), (length,), generator=generator).tolist() for length in range(2, 2 * count + 2, 2)]
    texts = [" ".join(side.decode([known[number] for number in numbers]).split()) for numbers in drawn]
    return [text for text in texts if text]


@torch.no_grad()
def verify(engine: Engine, model: Model, tokenizers: Tokenizers, sentences: Sequence[str]) -> float:
    """The largest difference of a log-probability, in nats.

    Raises `DragomanError` with the sentence, where the engine cuts it into other tokens, expects others, or writes another translation.
    """
    largest = 0.0
    for sentence in sentences:
        [ids] = tokenizers.source.encode([sentence])
        source = [*ids, END]
        if (theirs := engine.tokens(sentence)) != [engine.same[token] for token in source]:
            raise DragomanError(
                f"{engine.name} cuts {sentence!r} into {spell(tokenizers, theirs)}, and Dragoman into {spell(tokenizers, source)}."
            )
        [[best]] = greedy_search(model, torch.tensor([source]), SearchSettings(beam_size=1, extra_length=EXTRA_LENGTH))
        target = [*best.ids, END]
        apart = differences(engine.log_p(source, target), model, source, target)
        if not apart.max() <= engine.tolerance:
            place = int(apart.argmax())
            raise DragomanError(
                f"{engine.name} and Dragoman disagree on token {place + 1} of the translation of {sentence!r}, by {apart[place]:.3g} nats "
                f"in its log-probability; {engine.tolerance:g} are allowed."
            )
        largest = max(largest, float(apart.max()))
        if engine.tolerance <= TOLERANCE:
            refuse_other_text(engine, tokenizers, sentence, source, best.ids)
    return largest


def differences(theirs: Tensor, model: Model, source: list[int], target: list[int]) -> Tensor:
    """The largest difference of a log-probability at each token."""
    features, _ = model.decode(torch.tensor([[START, *target[:-1]]]), model.encode(torch.tensor([source])))
    ours = model.logits(features[0]).float().log_softmax(-1)
    if theirs.dim() == 1:
        return (theirs - ours.gather(1, torch.tensor(target)[:, None])[:, 0]).abs()
    return torch.where(ours < NEVER / 2, 0.0, theirs - ours).abs().amax(1)


def refuse_other_text(engine: Engine, tokenizers: Tokenizers, sentence: str, source: list[int], written: list[int]) -> None:
    """Raise `DragomanError` where the engine writes another greedy translation, or spells the same one in another way."""
    most = len(source) - 1 + EXTRA_LENGTH
    if (theirs := engine.greedy(source, most)) != written:
        raise DragomanError(
            f"{engine.name} translates {sentence!r} by {spell(tokenizers, theirs, target=True)}, and Dragoman by "
            f"{spell(tokenizers, written, target=True)}."
        )
    one, other = (" ".join(text.split()) for text in (engine.text(written), tokenizers.target.decode(written)))
    if one != other and UNKNOWN not in written:
        raise DragomanError(f"{engine.name} spells the translation of {sentence!r} {one!r}, and Dragoman {other!r}.")


def spell(tokenizers: Tokenizers, ids: Sequence[int], target: bool = False) -> str:
    """Tokens for a message."""
    return " ".join((tokenizers.target if target else tokenizers.source).pieces(ids))
