"""Trees and their symbols: reading is strict, and restoring is the inverse of linearising."""

import re
from itertools import pairwise, takewhile

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dragoman.system.errors import DragomanError
from dragoman_paper.treebank.linearise import (
    EMPTY,
    EXTRA,
    MALFORMED,
    MISSING,
    UNCLOSED,
    UNKNOWN_TAG,
    UNOPENED,
    linearise,
    restore,
)
from dragoman_paper.treebank.trees import (
    Constituent,
    Leaf,
    Tree,
    delete_words,
    read_tree,
    read_trees,
    simplify,
)

LABELS = st.sampled_from(["S", "NP", "VP", "NML", "PRT"])
LEAVES = st.builds(Leaf, st.sampled_from(["NN", "VBZ", ",", "-LRB-"]), st.text("abc-=*'", min_size=1))
SYMBOLS = st.lists(st.sampled_from(["(S", ")S", "(NP", ")NP", "NN", "XX", "(", ")", ")PP", "()VP", "N)x("]))


@st.composite
def trees(draw):
    """A tree whose root may be several, with constituents that may cover the same words."""
    leaves = tuple(draw(st.lists(LEAVES, min_size=1, max_size=8)))

    def constituents(start, end, depth):
        for low, high in parts(start, end):
            if depth and draw(st.booleans()):
                yield Constituent(draw(LABELS), low, high)
            if depth:
                yield from constituents(low, high, depth - 1)

    def parts(start, end):
        inner = draw(st.sets(st.integers(start, end), max_size=2))
        cuts = sorted({start, end, *inner})
        return pairwise(cuts)

    return Tree(leaves, tuple(constituents(0, len(leaves), 3)))


def check_nesting(tree):
    """Constituents hold words, in the order in which they open, and do not cross."""
    for number, (_, start, end) in enumerate(tree.constituents):
        assert 0 <= start < end <= len(tree.leaves)
        for _, low, high in tree.constituents[number + 1 :]:
            assert low >= end or (start <= low and high <= end)


@given(trees())
def test_restoring_is_the_inverse_of_linearising(tree):
    check_nesting(tree)
    assert restore(linearise(tree), tree.words) == (tree, {})


@given(trees())
def test_without_tags_the_parts_of_speech_alone_are_lost(tree):
    symbols = linearise(tree, tags=False)
    assert {symbol for symbol in symbols.split() if symbol[0] not in "()"} == {UNKNOWN_TAG}
    restored, repairs = restore(symbols, tree.words)
    assert not repairs
    assert (restored.words, restored.constituents) == (tree.words, tree.constituents)


@pytest.mark.long
@given(trees())
def test_reading_is_the_inverse_of_writing(tree):
    assert read_tree(str(tree)) == tree
    assert read_tree(re.sub(r"([()])", r" \1 ", str(tree)).replace("( ", "(")) == tree, "spaces do not matter"


def test_symbols_are_those_of_the_literature():
    tree = read_tree("(S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .))")
    assert linearise(tree) == "(S (NP NNP )NP (VP VBZ (NP DT NN )NP )VP . )S"
    assert linearise(tree, tags=False) == "(S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S"
    assert tree.words == ["John", "has", "a", "dog", "."]


@pytest.mark.parametrize("outer", ["( {})", "(TOP {})", "(ROOT {} )", "(S1 {})", "{}"])
def test_the_outermost_bracket_is_no_constituent(outer):
    assert read_tree(outer.format("(S (NP (PRP It)))")).constituents == (("S", 0, 1), ("NP", 0, 1))


def test_simplifying_removes_traces_function_tags_and_what_is_then_empty():
    verb = "(VP=2 (VBD said) (SBAR (-NONE- 0) (S (-NONE- *T*-1))))"
    line = f"( (S (NP-SBJ-1 (-NONE- *)) {verb} (PP-LOC (-LRB- -))))"
    assert str(simplify(read_tree(line))) == "(TOP (S (VP (VBD said)) (PP (-LRB- -))))"


@given(st.text("AB-=1", min_size=1))
def test_a_simplified_label_is_its_first_character_and_what_follows_up_to_a_hyphen_or_equals_sign(label):
    expected = label[0] + "".join(takewhile(lambda character: character not in "-=", label[1:]))
    assert simplify(read_tree(f"(TOP ({label} (NN a)))")).constituents == ((expected, 0, 1),)


@given(trees(), st.data())
def test_deleting_words_at_once_is_deleting_them_one_by_one(tree, data):
    places = data.draw(st.sets(st.integers(0, len(tree.leaves) - 1)))
    deleted = delete_words(tree, places)
    for place in sorted(places, reverse=True):
        tree = delete_words(tree, {place})
    assert deleted == tree
    check_nesting(deleted)


# ---- ill-formed symbols


@given(SYMBOLS, st.lists(st.text("ab", min_size=1), max_size=5))
def test_any_symbols_give_a_tree_of_the_words(symbols, words):
    tree, repairs = restore(" ".join(symbols), words)
    assert tree.words == words
    check_nesting(tree)
    assume(words)
    assert read_tree(str(tree)) == tree
    assert restore(linearise(tree), words) == (tree, {}), "a tree that was repaired is well-formed"
    assert bool(repairs) == (linearise(tree) != " ".join(symbols)), "repaired if and only if changed"


@pytest.mark.parametrize(
    ("symbols", "tree", "repairs"),
    [
        ("(S (NP DT NN", "(TOP (S (NP (DT a) (NN b))))", {UNCLOSED: 2}),
        ("(S (NP DT NN )S", "(TOP (S (NP (DT a) (NN b))))", {UNCLOSED: 1}),
        ("(S DT NN )NP )S )S", "(TOP (S (DT a) (NN b)))", {UNOPENED: 2}),
        ("(S (NP DT )S NN )NP", "(TOP (S (NP (DT a))) (NN b))", {UNCLOSED: 1, UNOPENED: 1}),
        ("(S DT NN NN NN )S", "(TOP (S (DT a) (NN b)))", {EXTRA: 2}),
        ("(S DT )S", "(TOP (S (DT a)) (XX b))", {MISSING: 1}),
        ("(S DT", "(TOP (S (DT a) (XX b)))", {MISSING: 1, UNCLOSED: 1}),
        ("(S (NP )NP DT NN )S", "(TOP (S (DT a) (NN b)))", {EMPTY: 1}),
        ("(S ( N)N NN ) )S", "(TOP (S (NN a) (NN b)))", {MALFORMED: 3}),
        ("", "(TOP (XX a) (XX b))", {MISSING: 2}),
    ],
)
def test_repairs(symbols, tree, repairs):
    restored, found = restore(symbols, ["a", "b"])
    assert (str(restored), found) == (tree, repairs)


def test_deep_symbols_need_no_deep_stack():
    tree, repairs = restore("(NP " * 10_000 + "NN", ["a"])
    assert repairs == {UNCLOSED: 10_000}
    assert read_tree(str(tree)) == tree


# ---- lines that are no tree


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "it does not begin with the bracket of a constituent"),
        ("It works.", "it does not begin with the bracket of a constituent"),
        (")", "it does not begin with the bracket of a constituent"),
        ("(NN word)", "it does not begin with the bracket of a constituent"),
        ("(S (NN a)) (S (NN b))", "'(S' comes after its last bracket"),
        ("(S (NN a)))", "')' comes after its last bracket"),
        ("(S (NP (NN a))", "brackets are missing at its end: 1"),
        ("(S ((NN a)))", "a bracket inside it has no label"),
        ("(S (NP ))", "its bracket 'NP' holds no word"),
        ("()", "its bracket '' holds no word"),
        ("(S (NN a) b)", "the word 'b' is not alone in a bracket with its part of speech"),
        ("(S (NN a b))", "the word 'a' is not alone in a bracket with its part of speech"),
        ("(S (NP word (NN a)))", "the word 'word' is not alone in a bracket with its part of speech"),
    ],
)
def test_a_line_that_is_no_tree_is_refused(line, reason):
    with pytest.raises(DragomanError) as error:
        read_tree(line)
    assert str(error.value).startswith(f"{line!r} is not a tree: {reason}. A line has to hold one tree")


@pytest.mark.parametrize("length", range(55, 66))
def test_a_line_that_is_no_tree_is_named_whole_or_by_its_first_60_characters(length):
    line = ("(S (NN a) " + 30 * "(NN b) ")[: length - 1] + "x"
    with pytest.raises(DragomanError) as error:
        read_tree(line)
    named = line if length <= 60 else f"{line[:60].strip()} …"
    assert str(error.value).startswith(f"{named!r} is not a tree: ")


def test_a_file_with_a_line_that_is_no_tree_or_has_no_word_is_refused_with_the_line():
    good = "(S (NN a))"
    with pytest.raises(DragomanError, match=r"^a\.ptb, line 2: .* is not a tree"):
        list(read_trees([good, good[:-1] + " " * 80], "a.ptb"))
    with pytest.raises(
        DragomanError, match=r"a\.ptb, line 2: the tree has traces alone and no word; remove it\."
    ):
        list(read_trees([good, "(S (NP (-NONE- *)))"], "a.ptb"))
