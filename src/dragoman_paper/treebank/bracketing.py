"""Labelled bracketing: recall, precision and F1 of parse trees. Strings only.

The rules are those of EVALB (Sekine and Collins 1997) with its parameter file COLLINS.prm, which published
figures for section 23 of the Wall Street Journal follow. docs/parsing.md lists them.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from dragoman.system.errors import DragomanError
from dragoman_paper.treebank.trees import Tree, delete_words

PUNCTUATION = {",", ":", "``", "''", "."}
"""Words with these parts of speech are deleted (DELETE_LABEL)."""
UNCOUNTED = PUNCTUATION | {"TOP"}
"""Brackets with these labels are not counted (DELETE_LABEL, too)."""
EQUAL_LABELS = {"PRT": "ADVP"}
"""Labels that count as another one (EQ_LABEL)."""
LENGTHS = (10, 20, 30, 40)
"""Maximum numbers of words of the sentences that are counted together; longer ones are counted apart."""


@dataclass(frozen=True)
class Bracketing:
    """Counts of one or more sentences, and their scores in percent."""

    sentences: int = 0
    complete: int = 0
    """Sentences of which all brackets match."""
    matched: int = 0
    found: int = 0
    """Brackets of the parser's trees."""
    gold: int = 0
    """Brackets of the gold trees."""

    def __add__(self, other: "Bracketing") -> "Bracketing":
        return Bracketing(
            *(count + other_count for count, other_count in zip(astuple(self), astuple(other), strict=True))
        )

    @property
    def recall(self) -> float:
        """The share of the gold trees' brackets that the parser has found."""
        return 100 * self.matched / self.gold if self.gold else 0.0

    @property
    def precision(self) -> float:
        """The share of the parser's brackets that the gold trees have."""
        return 100 * self.matched / self.found if self.found else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of recall and precision."""
        brackets = self.found + self.gold
        return 200 * self.matched / brackets if brackets else 0.0


def compare_trees(tree: Tree, gold: Tree) -> Bracketing:
    """The counts of one sentence, of simplified trees.

    The gold tree's parts of speech decide in both trees which words are deleted. Raises `DragomanError` for
    trees of different words.
    """
    if tree.words != gold.words:
        pairs = list(zip([*tree.words, "the end"], [*gold.words, "the end"], strict=False))
        place = next(number for number, (word, other) in enumerate(pairs) if word != other)
        raise DragomanError(
            f"The trees have different words: word {place + 1} is {pairs[place][0]!r}, and "
            f"{pairs[place][1]!r} in the gold tree."
        )
    deleted = {place for place, leaf in enumerate(gold.leaves) if leaf.tag in PUNCTUATION}
    if len(deleted) == len(gold.leaves):
        return Bracketing()  # EVALB skips such a sentence
    brackets, gold_brackets = (
        Counter(
            constituent._replace(label=EQUAL_LABELS.get(constituent.label, constituent.label))
            for constituent in delete_words(candidate, deleted).constituents
            if constituent.label not in UNCOUNTED
        )
        for candidate in (tree, gold)
    )
    matched = (brackets & gold_brackets).total()
    return Bracketing(1, int(brackets == gold_brackets), matched, brackets.total(), gold_brackets.total())


def bracketing_by_length(trees: Sequence[Tree], gold: Sequence[Tree]) -> dict[str, Bracketing]:
    """The counts of the sentences of each length in words, and of `all`.

    Raises `DragomanError` for different numbers of trees, or none, and with the line for different words.
    """
    if len(trees) != len(gold):
        raise DragomanError(f"Trees: {len(trees)}, gold trees: {len(gold)}; line n has to belong to line n.")
    if not gold:
        raise DragomanError("There is nothing to score: no trees and no gold trees.")
    bounds = zip((0, *LENGTHS), LENGTHS, strict=False)
    names = [f"{low + 1} to {high}" for low, high in bounds] + [f"over {LENGTHS[-1]}"]
    counts = dict.fromkeys([*names, "all"], Bracketing())
    for line, (tree, other) in enumerate(zip(trees, gold, strict=True), 1):
        try:
            compared = compare_trees(tree, other)
        except DragomanError as error:
            raise DragomanError(f"Line {line}: {error}") from error
        for name in (names[sum(len(other.leaves) > length for length in LENGTHS)], "all"):
            counts[name] += compared
    return counts
