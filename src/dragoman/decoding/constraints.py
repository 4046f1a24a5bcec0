"""What a translation must and must not contain. Shapes: B sentences, W hypotheses each, T tokens so far (START first), V vocabulary."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.decoding.settings import SearchSettings
from dragoman.errors import DragomanError
from dragoman.model.symbols import END, UNKNOWN
from dragoman.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Constraints:
    """Rules for every translation. None of them changes the probability of a token that it allows."""

    min_length: int = 0
    """Tokens before END, at least."""
    no_repeat_ngram: int = 0
    """No sequence of this many tokens occurs twice; 0 allows all."""
    banned: Sequence[Sequence[int]] = ()
    """Sequences of tokens that do not occur."""
    prefix: Sequence[int] = ()
    """How every translation begins."""
    forced: Sequence[Sequence[int]] = ()
    """Sequences of tokens that occur, in any order. `forced_search` sees to it; `apply` does not."""

    @property
    def any(self) -> bool:
        """Whether `apply` has anything to do."""
        return bool(self.min_length or self.no_repeat_ngram or self.banned or self.prefix)

    @property
    def least(self) -> int:
        """Tokens before END that every translation must be able to have."""
        return max(self.min_length, len(self.prefix) + sum(map(len, self.forced)))

    def apply(self, log_p: Float[Tensor, "B W V"], live: Int[Tensor, "B W T"], at_end: Bool[Tensor, "B"]) -> Float[Tensor, "B W V"]:
        """The log-probabilities with -inf for what the rules forbid after these prefixes.

        Sentences that are `at_end`, and hypotheses that could not go on at all, may always write END.
        """
        if not self.any:
            return log_p
        allowed = log_p != -torch.inf
        written = live.size(2) - 1
        if written < self.min_length:
            allowed[..., END] = False
        if written < len(self.prefix):
            allowed &= torch.arange(log_p.size(2), device=log_p.device) == self.prefix[written]
        for sequence in self.banned:
            if written >= len(sequence) - 1:
                begun = live[..., live.size(2) - len(sequence) + 1 :] == live.new_tensor(sequence[:-1])
                allowed[..., sequence[-1]] &= ~begun.all(-1)
        if 0 < self.no_repeat_ngram <= written:
            allowed &= ~self._repeats(live[..., 1:], log_p.size(2))
        allowed[..., END] |= at_end[:, None] | ~allowed.any(-1)
        return log_p.masked_fill(~allowed, -torch.inf)

    def _repeats(self, written: Int[Tensor, "B W L"], vocabulary: int) -> Bool[Tensor, "B W V"]:
        """The tokens that would end a sequence which has occurred before."""
        windows = written.unfold(2, self.no_repeat_ngram, 1)
        here = written[..., written.size(2) - self.no_repeat_ngram + 1 :]
        again = (windows[..., :-1] == here[:, :, None]).all(-1)
        counts = written.new_zeros(*written.shape[:2], vocabulary)
        return counts.scatter_add_(2, windows[..., -1], again.to(counts.dtype)) > 0


def constraints_of(settings: SearchSettings, tokenizer: Tokenizer) -> Constraints:
    """The rules of the settings in tokens. Raises `DragomanError` where they contradict each other."""
    prefix, *others = tokenizer.encode([settings.prefix, *settings.ban, *settings.force])
    banned, forced = others[: len(settings.ban)], others[len(settings.ban) :]
    for text, ids in zip((*settings.ban, *settings.force), others, strict=True):
        if not ids:
            raise DragomanError(f"{'ban' if text in settings.ban else 'force'} is {text!r}, which has no tokens.")
    for text, ids in zip((settings.prefix, *settings.ban, *settings.force), (prefix, *others), strict=True):
        if UNKNOWN in ids:
            raise DragomanError(f"{text!r} cannot be written with this model's vocabulary; leave it out of prefix, ban and force.")
    for text, ids in zip(settings.ban, banned, strict=True):
        if any(ids in ngrams(phrase, len(ids)) for phrase in forced):
            raise DragomanError(f"{text!r} is banned, and in what force asks for.")
        if ids in ngrams(prefix, len(ids)):
            raise DragomanError(f"The prefix {settings.prefix!r} has {text!r}, which is banned.")
    size = settings.no_repeat_ngram
    if size and any(len(set(map(tuple, found))) < len(found) for found in (ngrams(phrase, size) for phrase in forced)):
        raise DragomanError(f"What force asks for repeats {size} tokens, which no_repeat_ngram forbids.")
    if size and len(prefix) >= size and len(set(map(tuple, ngrams(prefix, size)))) < len(prefix) - size + 1:
        raise DragomanError(f"The prefix {settings.prefix!r} repeats {size} tokens, which no_repeat_ngram forbids.")
    return Constraints(settings.min_length, size, banned, prefix, forced)


def ngrams(ids: list[int], size: int) -> list[list[int]]:
    """All sequences of so many tokens that follow each other."""
    return [ids[first : first + size] for first in range(len(ids) - size + 1)]
