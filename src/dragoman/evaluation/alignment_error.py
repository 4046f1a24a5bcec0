"""Alignment error rate (Och and Ney 2003): word alignments against gold ones. Strings only.

An alignment is a line of links, source-target, counted from 0: `0-0 1-2`. In gold alignments a link is sure
(`0-0`) or possible (`1?2` or `1p2`). A sure link is possible too.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dragoman.evaluation.metrics import Score
from dragoman.system.errors import DragomanError

LINK = re.compile(r"(\d{1,9})([-?p])(\d{1,9})", re.ASCII)


class Alignment(NamedTuple):
    """The links of a sentence pair. The possible links include the sure ones."""

    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]


def read_alignments(lines: Sequence[str], name: str, first: int = 0) -> Iterator[Alignment]:
    """The alignment of each line of a file, whose words are counted from `first`; here from 0.

    Raises `DragomanError` with the file's name and the line for what is not a link.
    """
    for number, line in enumerate(lines, 1):
        sure, possible = set(), set()
        for text in line.split():
            match = LINK.fullmatch(text)
            if not match:
                raise DragomanError(
                    f"{name}, line {number}: {text!r} is not a link. A link is the number of a source word, "
                    "then - if it is sure, ? or p if it is possible, then the number of a target word."
                )
            link = int(match[1]) - first, int(match[3]) - first
            if min(link) < 0:
                raise DragomanError(
                    f"{name}, line {number}: the link {text} has a word 0, and words are counted from 1."
                )
            possible.add(link)
            if match[2] == "-":
                sure.add(link)
        yield Alignment(frozenset(sure), frozenset(possible))


def alignment_error_rate(alignments: Sequence[Alignment], gold: Sequence[Alignment]) -> Score:
    """1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|) over all sentences, in percent: 0 is best, 100 worst.

    A are the links found, S the sure and P the possible gold links. Precision is |A ∩ P| / |A| and recall
    |A ∩ S| / |S|. Raises `DragomanError` for different numbers of lines, or if either side lacks links.
    """
    if len(alignments) != len(gold):
        raise DragomanError(
            f"Alignments: {len(alignments)}, gold alignments: {len(gold)}; line n has to belong to line n."
        )
    pairs = list(zip(alignments, gold, strict=True))
    links = sum(len(alignment.sure) for alignment in alignments)
    sure, possible = (
        sum(len(alignment.sure) for alignment in gold),
        sum(len(alignment.possible) for alignment in gold),
    )
    if not links or not sure:
        raise DragomanError(
            f"There are {links:,} links and {sure:,} sure gold links; an alignment error rate needs both."
        )
    in_sure = sum(len(alignment.sure & reference.sure) for alignment, reference in pairs)
    in_possible = sum(len(alignment.sure & reference.possible) for alignment, reference in pairs)
    rate = 100 - 100 * (in_sure + in_possible) / (links + sure)
    signature = f"lines:{len(gold)}|links:{links}|sure:{sure}|possible:{possible}"
    detail = f"(precision = {100 * in_possible / links:.2f}, recall = {100 * in_sure / sure:.2f})"
    return Score("AER", rate, signature, detail)
