"""Trees as sequences of symbols, and back (section 6.3; Vinyals et al. 2015). Strings only.

`(TOP (S (NP (PRP It)) (VP (VBZ works))))` is `(S (NP PRP )NP (VP VBZ )VP )S`: closing brackets have their
label, and a word's part of speech stands for the word. The words are those of the sentence, so that the model
need not copy them. Vinyals et al. write XX for each word instead, which loses the parts of speech.
"""

import re
from collections import Counter
from collections.abc import Sequence

from dragoman_paper.treebank.trees import Constituent, Leaf, Tree

BRACKETS = ("(", ")")
BRACKET = re.compile("[()]")
"""No label or tag has one inside it."""
UNKNOWN_TAG = "XX"
"""The tag of a word whose part of speech is not known."""
# The kinds of repairs that `restore` counts.
UNOPENED = "closing brackets without an opening one"
UNCLOSED = "opening brackets without a closing one"
MALFORMED = "labels that are empty or have a bracket inside"
EMPTY = "brackets without a word"
EXTRA = "words too many"
MISSING = "words too few"


def linearise(tree: Tree, tags: bool = True) -> str:
    """The symbols of a tree, with a space between; without `tags` each word is XX.

    Every constituent of the tree has to have a word.
    """

    def symbol(kind: str, text: str) -> str:
        if kind in BRACKETS:
            return kind + text
        return kind if tags else UNKNOWN_TAG

    return " ".join(symbol(kind, text) for kind, text in tree.brackets())


def restore(line: str, words: Sequence[str]) -> tuple[Tree, Counter[str]]:
    """The tree of a sentence from its symbols, and the number of repairs of each kind.

    The inverse of `linearise`: `restore(linearise(tree), tree.words)` is the tree and no repairs. Ill-formed
    symbols give a tree too. A closing bracket closes the innermost open constituent with its label, and those
    inside it; one that has nothing to close is dropped, and so is a bracket without a label. Brackets inside
    labels and tags are removed. After the last symbol, missing words are added as XX, and then all open
    constituents are closed. Words that are too many and constituents without a word are dropped.
    """
    leaves: list[Leaf] = []
    spans: list[Constituent] = []
    opened: list[int] = []  # the places in `spans` of the constituents that are open
    repairs = Counter[str]()

    def close_innermost() -> str:
        last = opened.pop()
        spans[last] = spans[last]._replace(end=len(leaves))
        return spans[last].label

    for symbol in line.split():
        kind, label = symbol[0], BRACKET.sub("", symbol[1:])  # of a tag, the first letter and the others
        has_no_label = kind in BRACKETS and not label
        repairs[MALFORMED] += has_no_label or label != symbol[1:]
        if has_no_label:
            continue
        if kind == "(":
            opened.append(len(spans))
            spans.append(Constituent(label, len(leaves), -1))
        elif kind == ")" and all(spans[place].label != label for place in opened):
            repairs[UNOPENED] += 1
        elif kind == ")":
            while close_innermost() != label:
                repairs[UNCLOSED] += 1
        elif len(leaves) == len(words):
            repairs[EXTRA] += 1
        else:
            leaves.append(Leaf(kind + label, words[len(leaves)]))
    missing = words[len(leaves) :]
    leaves += (Leaf(UNKNOWN_TAG, word) for word in missing)
    repairs[MISSING] = len(missing)
    repairs[UNCLOSED] += len(opened)
    while opened:
        close_innermost()
    constituents = tuple(span for span in spans if span.start < span.end)
    repairs[EMPTY] = len(spans) - len(constituents)
    return Tree(tuple(leaves), constituents), +repairs  # without zeros
