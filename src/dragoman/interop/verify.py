"""Verification of exported and imported models: sample sentences in the foreign engine and in ours.

Shapes: T target tokens, V vocabulary.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.interop.vocabulary import FORBIDDEN_BIAS, is_word
from dragoman.model.interface import Model
from dragoman.model.symbols import END, START, UNKNOWN
from dragoman.search.beam import greedy_search, max_target_lengths
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError, OptionError
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import Tokenizers

TOLERANCE = 1e-3
"""Nats by which a log-probability may differ: the engines sum float32 numbers in different orders."""
QUANTIZED_TOLERANCE = 0.2
"""The same for a quantised model, whose differences are averaged over the tokens of a translation."""
SEARCH = SearchSettings(beam_size=1, max_extra_tokens=8)  # few tokens: an untrained model never writes END


@dataclass(frozen=True)
class ReferenceEngine:
    """A model in another engine, to compare with. All ids are ours, and source ids end with END."""

    name: str
    encode: Callable[[str], list[int]]
    """Source ids of a text."""
    log_probs: Callable[[list[int], list[int]], Tensor]
    """Log-probabilities at each token of a translation, of all tokens [T V] or of the translation's own [T].

    The arguments are source ids and target ids, both with END.
    """
    greedy: Callable[[list[int], int], list[int]]
    """Target ids of the greedy translation, without END, from source ids and a maximum length."""
    decode: Callable[[list[int]], str]
    """The text of target ids."""
    first_ids: Sequence[int]
    """For each of our source ids, the first id with the same row of the embedding: the one `encode` gives."""
    longest: int | None = None
    """Tokens of the longest text that it can read or write. None is no limit."""
    quantized: bool = False
    """Whether its weights are quantised; its translations may then differ from ours."""
    searches: bool = True
    """Whether its search computes the same as its log-probabilities; otherwise these alone are compared."""


def samples(tokenizers: Tokenizers, longest: int | None = None, count: int = 8) -> list[str]:
    """Make up to `count` sentences of random source tokens, the same at each call.

    With END they have at most `longest` tokens. Raises `DragomanError` if the vocabulary gives no sentence.
    """
    tokenizer = tokenizers.source
    tokens = range(END + 1, len(tokenizer))
    encoded = tokenizer.encode([tokenizer.decode([token]) for token in tokens])
    known = [  # the tokens whose text is read as known tokens again
        token
        for token, piece, ids in zip(tokens, tokenizer.pieces(tokens), encoded, strict=True)
        if is_word(piece) and ids and UNKNOWN not in ids
    ]
    generator = torch.Generator().manual_seed(1)
    lengths = range(2, 2 * count + 2, 2) if known else ()
    drawn = [torch.randint(len(known), (length,), generator=generator).tolist() for length in lengths]
    texts = [" ".join(tokenizer.decode([known[index] for index in indices]).split()) for indices in drawn]
    sentences = [
        text
        for text, ids in zip(texts, tokenizer.encode(texts), strict=True)
        if UNKNOWN not in ids and len(ids) < (longest or math.inf)
    ]
    if not any(sentences):
        raise OptionError(
            "No sentence to compare with could be made from the model's vocabulary; give some with {samples}."  # noqa: RUF027  a setting
        )
    return sentences


@torch.no_grad()
def verify(engine: ReferenceEngine, model: Model, tokenizers: Tokenizers, sentences: Sequence[str]) -> float:
    """Compare the engine with the model; return the largest difference of a log-probability, in nats.

    Raises `DragomanError`, which names the sentence, if the engine tokenizes or translates it otherwise, if a
    log-probability differs too much, or if the sentence or its translation may be too long for the engine.
    """
    largest = 0.0
    for sentence, ids in zip(sentences, tokenizers.source.encode(sentences), strict=True):
        source = [*ids, END]
        if not ids:
            continue  # a blank line has no translation
        max_length = int(max_target_lengths(model, torch.tensor([source]), SEARCH)) + 1  # with END
        if engine.longest is not None and max(len(source), max_length) > engine.longest:
            raise OptionError(
                f"The sample that begins with {{text!r}} has {len(source)} tokens and its translation may "
                f"have {max_length}, and {engine.name} with this model reads and writes at most "
                f"{engine.longest}; give shorter ones with {{samples}}.",
                text=sentence[:40],
            )
        if (engine_ids := engine.encode(sentence)) != [engine.first_ids[token] for token in source]:
            raise DragomanError(
                f"{engine.name} tokenizes {sentence!r} as {pieces_text(tokenizers.source, engine_ids)}, and "
                f"Dragoman as {pieces_text(tokenizers.source, source)}."
            )
        [[best]] = greedy_search(model, torch.tensor([source]), SEARCH)
        largest = max(largest, compare(engine, model, sentence, source, [*best.ids, END]))
        if engine.searches and not engine.quantized:
            refuse_other_translation(engine, model, tokenizers, sentence, source, best.ids)
    return largest


@torch.no_grad()
def compare(
    engine: ReferenceEngine, model: Model, sentence: str, source: list[int], target: list[int]
) -> float:
    """Return the largest difference of a log-probability at the target's tokens, in nats.

    Raises `DragomanError` if it is larger than `TOLERANCE`, or, for a quantised model, if the mean difference
    is larger than `QUANTIZED_TOLERANCE`.
    """
    log_probs = log_probabilities(model, source, target)
    engine_log_probs = engine.log_probs(source, target)
    if engine_log_probs.dim() == 1:
        differences = (engine_log_probs - log_probs.gather(1, torch.tensor(target)[:, None])[:, 0]).abs()
    else:
        # Tokens that our model can never write are left out: the engine may give them any probability.
        is_forbidden = log_probs < FORBIDDEN_BIAS / 2
        differences = torch.where(is_forbidden, 0.0, engine_log_probs - log_probs).abs().amax(1)
    difference = differences.mean() if engine.quantized else differences.max()
    tolerance = QUANTIZED_TOLERANCE if engine.quantized else TOLERANCE
    if not difference <= tolerance:  # true for NaN too
        raise DragomanError(
            f"{engine.name} and Dragoman disagree on the translation of {sentence!r}: the log-probabilities "
            f"of token {int(differences.argmax()) + 1} differ by {differences.max():.3g} nats, and "
            f"{differences.mean():.3g} in the mean; {tolerance:g} are allowed."
        )
    return float(differences.max())


def log_probabilities(model: Model, source: list[int], target: list[int]) -> Float[Tensor, "T V"]:
    """Our log-probabilities of all tokens at each token of the target. Source and target include END."""
    features, _ = model.decode(torch.tensor([[START, *target[:-1]]]), model.encode(torch.tensor([source])))
    return model.logits(features[0]).float().log_softmax(-1)


def refuse_other_translation(
    engine: ReferenceEngine,
    model: Model,
    tokenizers: Tokenizers,
    sentence: str,
    source: list[int],
    translation: list[int],
) -> None:
    """Raise `DragomanError` if the engine's greedy translation is not `translation`, in ids or in text.

    Where two tokens are equally likely within the tolerance, either may be chosen.
    """
    engine_translation = engine.greedy(source, int(max_target_lengths(model, torch.tensor([source]), SEARCH)))
    if engine_translation != translation:
        position, token, engine_token = next(  # the first difference
            (position, token, engine_token)
            for position, (token, engine_token) in enumerate(
                zip([*translation, END], [*engine_translation, END], strict=False)
            )
            if token != engine_token
        )
        log_probs = log_probabilities(model, source, [*translation, END])[position]
        if log_probs[token] - log_probs[engine_token] > TOLERANCE:
            raise DragomanError(
                f"{engine.name} translates {sentence!r} as "
                f"{pieces_text(tokenizers.target, engine_translation)}, and Dragoman as "
                f"{pieces_text(tokenizers.target, translation)}."
            )
    engine_text, text = (
        " ".join(text.split()) for text in (engine.decode(translation), tokenizers.target.decode(translation))
    )
    if engine_text != text and UNKNOWN not in translation:
        raise DragomanError(
            f"{engine.name} spells the translation of {sentence!r} as {engine_text!r}, and Dragoman as "
            f"{text!r}."
        )


def pieces_text(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """The pieces of ids, separated by spaces, for an error message."""
    return " ".join(tokenizer.pieces(ids))
