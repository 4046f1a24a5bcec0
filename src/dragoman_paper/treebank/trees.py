"""Constituency trees in the Penn Treebank's brackets (Marcus et al. 1993). Strings only."""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from dragoman.system.errors import DragomanError

PART = re.compile(
    r"\(\s*(?P<tag>[^\s()]+)\s+(?P<word>[^\s()]+)\s*\)"  # a word with its part of speech
    r"|\(\s*(?P<label>[^\s()]*)|\)|[^\s()]+"  # an opening bracket, a closing one, a word without a bracket
)
FUNCTION = re.compile(r"(?<=.)[-=].*")  # of NP-SBJ and NP=2
OUTERMOST = ("", "TOP", "ROOT", "S1")
"""Labels of the bracket around a whole tree, which is no constituent."""
TRACE = "-NONE-"


class Leaf(NamedTuple):
    """A word with its part of speech."""

    tag: str
    word: str


class Constituent(NamedTuple):
    """A labelled bracket around the words from `start` to `end`, which is excluded."""

    label: str
    start: int
    end: int


@dataclass(frozen=True)
class Tree:
    """A tree as its words and its constituents, in the order in which their brackets open."""

    leaves: tuple[Leaf, ...]
    constituents: tuple[Constituent, ...]

    @property
    def words(self) -> list[str]:
        """The words of the sentence."""
        return [leaf.word for leaf in self.leaves]

    def brackets(self) -> Iterator[tuple[str, str]]:
        """Yield the tree from left to right: "(" or ")" with a label, or a word's tag with the word.

        Needs constituents with words.
        """
        opened: list[list[str]] = [[] for _ in range(len(self.leaves) + 1)]
        closed: list[list[str]] = [[] for _ in opened]
        for label, start, end in self.constituents:
            opened[start].append(label)
            closed[end].append(label)
        for place, leaf in enumerate(self.leaves):
            yield from (("(", label) for label in opened[place])
            yield leaf
            yield from ((")", label) for label in reversed(closed[place + 1]))

    def __str__(self) -> str:
        templates = {"(": lambda label: f"({label}", ")": lambda _: ")"}
        parts = (
            templates[kind](text) if kind in templates else f"({kind} {text})"
            for kind, text in self.brackets()
        )
        return f"(TOP {' '.join(parts)})".replace(" )", ")")


def read_tree(line: str) -> Tree:
    """Read one tree, such as `( (S (NP-SBJ (PRP It)) (VP (VBZ works)) (. .)) )`.

    The outermost bracket without a label, or with TOP, ROOT or S1, is not kept. Raises `DragomanError` for a
    line that is not exactly one tree.
    """
    leaves: list[Leaf] = []
    constituents: list[Constituent] = []
    opened: list[int] = []  # the places in `constituents` of the brackets that are open
    for part in PART.finditer(line):
        if constituents and not opened:
            raise no_tree(line, f"{part[0]!r} comes after its last bracket")
        if part["label"] is not None:
            if opened and not part["label"]:
                raise no_tree(line, "a bracket inside it has no label")
            opened.append(len(constituents))
            constituents.append(Constituent(part["label"], len(leaves), -1))
        elif not opened:
            break
        elif part["word"] is not None:
            leaves.append(Leaf(part["tag"], part["word"]))
        elif part[0] == ")":
            last = opened.pop()
            constituents[last] = constituents[last]._replace(end=len(leaves))
            if constituents[last].start == len(leaves):
                raise no_tree(line, f"its bracket {constituents[last].label!r} holds no word")
        else:
            raise no_tree(line, f"the word {part[0]!r} is not alone in a bracket with its part of speech")
    if not constituents:
        raise no_tree(line, "it does not begin with the bracket of a constituent")
    if opened:
        raise no_tree(line, f"brackets are missing at its end: {len(opened)}")
    return Tree(tuple(leaves), tuple(constituents[constituents[0].label in OUTERMOST :]))


def no_tree(line: str, reason: str) -> DragomanError:
    """The error for a line that is not a tree."""
    excerpt = line.strip() if len(line) <= 60 else f"{line[:60].strip()} …"
    return DragomanError(
        f"{excerpt!r} is not a tree: {reason}. A line has to hold one tree with its parts of speech, such as "
        "(TOP (S (NP (PRP It)) (VP (VBZ works))))."
    )


def read_trees(lines: Iterable[str], name: str) -> Iterator[Tree]:
    """Yield the trees of the lines of the file `name`, simplified.

    Raises `DragomanError` with the line's number for one that is not a tree, or has no word.
    """
    for number, line in enumerate(lines, 1):
        try:
            tree = simplify(read_tree(line))
        except DragomanError as error:
            raise DragomanError(f"{name}, line {number}: {error}") from error
        if not tree.leaves:
            raise DragomanError(f"{name}, line {number}: the tree has traces alone and no word; remove it.")
        yield tree


def delete_words(tree: Tree, deleted: Collection[int]) -> Tree:
    """The tree without the words at some places, and without constituents in which no word is left."""
    mask = [place not in deleted for place in range(len(tree.leaves))]
    new = list(accumulate(mask, initial=0))  # the number of words that are kept before each place
    moved = (Constituent(label, new[start], new[end]) for label, start, end in tree.constituents)
    leaves = (leaf for leaf, is_kept in zip(tree.leaves, mask, strict=True) if is_kept)
    return Tree(
        tuple(leaves), tuple(constituent for constituent in moved if constituent.start < constituent.end)
    )


def simplify(tree: Tree) -> Tree:
    """The tree as parsers are trained on it: without traces, function tags and indices."""
    traces = {place for place, leaf in enumerate(tree.leaves) if leaf.tag == TRACE}
    tree = delete_words(tree, traces)
    labels = (
        constituent._replace(label=FUNCTION.sub("", constituent.label)) for constituent in tree.constituents
    )
    return replace(tree, constituents=tuple(labels))
