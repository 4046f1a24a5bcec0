"""How several processes share an update's batches."""

import numpy as np
import numpy.typing as npt

Pairs = npt.NDArray[np.int64]


def share_batches(
    update: list[Pairs], target_lengths: npt.NDArray[np.int32], rank: int, ranks: int
) -> list[Pairs]:
    """The batches of an update, or the parts of them, that a rank computes.

    If the number of batches is a multiple of `ranks`, each rank gets whole batches: they are assigned from
    the fullest to the emptiest to ranks 0, 1, …, 1, 0, 0, 1, …, so that shares have about the same number of
    tokens. Otherwise each rank gets every `ranks`-th pair of each batch. A batch is sorted by length, so its
    parts have about the same number of tokens. The rank with the longest pair varies.
    """
    if len(update) % ranks == 0:
        fullest_first = sorted(
            range(len(update)), key=lambda number: -int(target_lengths[update[number]].sum())
        )
        turns = [*range(ranks), *reversed(range(ranks))]
        assigned = {number for turn, number in enumerate(fullest_first) if turns[turn % len(turns)] == rank}
        return [pairs for number, pairs in enumerate(update) if number in assigned]
    return [part for pairs in update if len(part := pairs[(rank + int(pairs[0])) % ranks :: ranks])]
