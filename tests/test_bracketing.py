"""Labelled bracketing: trees that were counted by hand, a second scorer, and the command line."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.system.errors import DragomanError
from dragoman_paper.cli.parse_f1 import score_table
from dragoman_paper.treebank.bracketing import PUNCTUATION, Bracketing, bracketing_by_length, compare_trees
from dragoman_paper.treebank.linearise import linearise, restore
from dragoman_paper.treebank.trees import Constituent, read_tree, simplify
from tests.test_trees import SYMBOLS, check_nesting, trees

GOLD = "( (S (NP-SBJ (DT The) (NN cat)) (VP (VBZ sits) (PP-LOC (IN on) (NP (DT a) (NN mat)))) (. .)) )"


@pytest.mark.parametrize(
    ("hypothesis", "matched", "found", "gold"),
    [
        # The same tree: S, NP, VP, PP, NP.
        ("(S (NP (DT The) (NN cat)) (VP (VBZ sits) (PP (IN on) (NP (DT a) (NN mat)))) (. .))", 5, 5, 5),
        # The PP is not in the VP: the VP is another one.
        ("(S (NP (DT The) (NN cat)) (VP (VBZ sits)) (PP (IN on) (NP (DT a) (NN mat))) (. .))", 4, 5, 5),
        # The full stop in the VP changes nothing: it is deleted.
        ("(S (NP (DT The) (NN cat)) (VP (VBZ sits) (PP (IN on) (NP (DT a) (NN mat))) (. .)))", 5, 5, 5),
        # A constituent of the full stop alone is deleted with it, whatever its part of speech is here.
        ("(S (NP (DT The) (NN cat)) (VP (VBZ sits) (PP (IN on) (NP (DT a) (NN mat)))) (X (XX .)))", 5, 5, 5),
        # Two NPs for one: one matches.
        ("(S (NP (NP (DT The) (NN cat))) (VP (VBZ sits) (PP (IN on) (NP (DT a) (NN mat)))) (. .))", 5, 6, 5),
        # A wrong label, and no PP.
        ("(S (ADVP (DT The) (NN cat)) (VP (VBZ sits) (IN on) (NP (DT a) (NN mat))) (. .))", 3, 4, 5),
        # No constituent at all.
        ("(TOP (DT The) (NN cat) (VBZ sits) (IN on) (DT a) (NN mat) (. .))", 0, 0, 5),
    ],
)
def test_counts_by_hand(hypothesis, matched, found, gold):
    counts = compare_trees(simplify(read_tree(hypothesis)), simplify(read_tree(GOLD)))
    assert counts == Bracketing(1, int(matched == found == gold), matched, found, gold)
    assert counts.recall == 100 * matched / gold
    assert counts.precision == (100 * matched / found if found else 0)


def test_prt_counts_as_advp_and_traces_as_nothing():
    gold = read_tree("(S (NP (-NONE- *)) (VP (VB Give) (PRT (RP up)) (, ,) (NP=1 (-NONE- 0) (NN hope))))")
    tree = read_tree("(S (VP (VB Give) (ADVP (RP up)) (, ,) (NP (NN hope))))")
    assert compare_trees(simplify(tree), simplify(gold)) == Bracketing(1, 1, 4, 4, 4)


def test_evalb_counts_no_punctuation_and_no_top_wherever_they_stand():
    gold = simplify(read_tree("(TOP (S (NP (NN a)) (. (VP (VB b)))))"))
    assert compare_trees(gold, simplify(read_tree("(TOP (S (NP (NN a)) (VP (VB b))))"))).f1 == 100
    assert compare_trees(simplify(read_tree("(TOP (TOP (S (NP (NN a)) (VP (VB b)))))")), gold).f1 == 100
    dots = simplify(read_tree("(TOP (X (. .) (: ;)))"))
    assert compare_trees(dots, dots) == Bracketing(), "EVALB skips a sentence of punctuation alone"


# ---- a second scorer, which knows a tree as nested lists and a constituent as the set of its words


def nested(line):
    """A tree in brackets as lists: [label, child, …], where a word is a string."""
    stack = [[]]
    for part in re.findall(r"[()]|[^\s()]+", line):
        if part == "(":
            stack.append([])
        elif part == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(part)
    return stack[0][0]


def second_scorer(line, gold_line):
    """Matched, found and gold brackets, by lists."""
    punctuation = [",", ":", "``", "''", "."]

    def visit(node, out, places):
        label, *children = node
        if isinstance(children[0], str):
            places.append((len(places), label))
            return {len(places) - 1}
        slot = len(out)
        out.append(None)
        covered = set().union(*(visit(child, out, places) for child in children))
        out[slot] = (label.split("-")[0].split("=")[0].replace("PRT", "ADVP"), covered)
        return covered

    sides = []
    for each in (line, gold_line):
        out, places = [], []
        visit(nested(each), out, places)
        sides.append((out, places))
    deleted = {place for place, tag in sides[1][1] if tag in punctuation}
    found, gold = (
        [
            (label, frozenset(covered - deleted))
            for label, covered in out
            if label != "TOP" and covered - deleted
        ]
        for out, _ in sides
    )
    matched, left = 0, list(gold)
    for each in found:
        if each in left:
            left.remove(each)
            matched += 1
    return matched, len(found), len(gold)


@given(trees(), SYMBOLS, st.lists(st.integers(0, 20), max_size=3))
def test_a_second_scorer_counts_the_same(gold, symbols, dropped):
    near = linearise(gold).split()  # the gold tree without some of its symbols, and any symbols
    near = [symbol for number, symbol in enumerate(near) if number not in dropped]
    for hypothesis in (near, [symbol for symbol in symbols if len(symbol) > 1]):
        tree, _ = restore(" ".join(hypothesis), gold.words)
        counts = compare_trees(tree, gold)
        assert (counts.matched, counts.found, counts.gold) == second_scorer(str(tree), str(gold))


# ---- laws


@given(trees())
def test_a_tree_agrees_with_itself(tree):
    counts = compare_trees(tree, tree)
    assert counts.complete == counts.sentences
    assert counts.matched == counts.found == counts.gold <= len(tree.constituents)
    if counts.gold:
        assert counts.f1 == counts.recall == counts.precision == 100


@given(trees(), SYMBOLS)
def test_exchanging_the_trees_exchanges_recall_and_precision(gold, symbols):
    tree, _ = restore(" ".join(symbols), gold.words)
    tree = replace(tree, leaves=gold.leaves)  # whose tags say what is deleted
    check_nesting(tree)
    one, other = compare_trees(tree, gold), compare_trees(gold, tree)
    assert (one.recall, one.precision, one.f1) == (other.precision, other.recall, other.f1)
    assert min(one.recall, one.precision) - 1e-9 <= one.f1 <= max(one.recall, one.precision) + 1e-9


@given(st.lists(trees(), min_size=1, max_size=5))
def test_all_is_the_sum_of_the_lengths(gold):
    counts = bracketing_by_length(gold, gold)
    total = counts.pop("all")
    assert sum(counts.values(), Bracketing()) == total
    assert total.sentences == sum(any(leaf.tag not in PUNCTUATION for leaf in tree.leaves) for tree in gold)


def test_sentences_are_counted_at_their_length():
    lengths = (1, 10, 11, 40, 41, 300)
    gold = [read_tree(f"(S {'(NN a)' * length})") for length in lengths]
    counts = bracketing_by_length(gold, gold)
    assert {name: count.sentences for name, count in counts.items()} == {
        "1 to 10": 2,
        "11 to 20": 1,
        "21 to 30": 0,
        "31 to 40": 1,
        "over 40": 2,
        "all": 6,
    }


def test_unequal_trees_are_refused():
    tree, other = read_tree("(S (NN a) (NN b))"), read_tree("(S (NN a) (NN c))")
    with pytest.raises(
        DragomanError, match="Line 2: The trees have different words: word 2 is 'c', and 'b' in"
    ):
        bracketing_by_length([tree, other], [tree, tree])
    with pytest.raises(DragomanError, match="word 3 is 'the end', and 'c' in the gold tree"):
        compare_trees(tree, replace(tree, leaves=(*tree.leaves, other.leaves[1])))
    with pytest.raises(DragomanError, match="Trees: 1, gold trees: 2; line n has to belong to line n"):
        bracketing_by_length([tree], [tree, tree])
    with pytest.raises(DragomanError, match="There is nothing to score: no trees and no gold trees"):
        bracketing_by_length([], [])


# ---- the command line


@pytest.fixture
def treebank(tmp_path):
    """A file of three trees."""
    path = tmp_path / "gold.ptb"
    path.write_text(f"{GOLD}\n(S (NP (PRP It)) (VP (VBZ works)))\n( (NP (NN Abstract)) )\n")
    return path


def test_a_treebank_becomes_text_files_and_its_symbols_score_100(treebank, command_line):
    words, symbols = treebank.with_name("words"), treebank.with_name("symbols")
    status, _, err = command_line("linearise", treebank, "-s", words, "-t", symbols)
    assert (status, "the words of 3 trees" in err) == (0, True)
    assert words.read_text().splitlines() == ["The cat sits on a mat .", "It works", "Abstract"]
    assert symbols.read_text().splitlines()[1:] == ["(S (NP PRP )NP (VP VBZ )VP )S", "(NP NN )NP"]
    again, gold = treebank.with_name("again"), treebank.with_name("gold")
    outputs = ("-o", again, "--gold-output", gold)
    status, out, _ = command_line("parse-f1", symbols, treebank, *outputs)
    assert status == 0
    assert out.startswith("F1 = 100.00")
    assert "0 of 3 lines were ill-formed and repaired." in out
    assert [read_tree(line) for line in again.read_text().splitlines()] == [
        simplify(read_tree(line)) for line in treebank.read_text().splitlines()
    ]
    assert gold.read_text() == again.read_text(), "with the outermost bracket that EVALB expects"
    status, out, _ = command_line("parse-f1", again, treebank, "--bracketed")
    assert (status, out.startswith("F1 = 100.00"), "ill-formed" in out) == (0, True, False)


def test_without_tags_each_word_is_xx(treebank, command_line):
    files = ["-s", treebank.with_name("words"), "-t", treebank.with_name("symbols")]
    assert command_line("linearise", treebank, *files, "--no-tags")[0] == 0
    assert treebank.with_name("symbols").read_text().splitlines()[2] == "(NP XX )NP"


def test_ill_formed_lines_are_repaired_counted_and_scored(treebank, command_line):
    symbols = treebank.with_name("symbols")
    symbols.write_text("(S (NP DT NN )NP (VP VBZ (PP IN (NP DT NN\n(S (NP PRP )NP )VP )S\n(NP NN )NP\n")
    written = treebank.with_name("written")
    status, out, _ = command_line("parse-f1", symbols, treebank, "--output", written)
    assert status == 0
    # The first tree has all five brackets: its full stop is missing and deleted. The second has NP, and its S
    # without the second word. The third is right.
    assert re.search(r"^all +3 +77\.78 +87\.50 +82\.35 +66\.67$", out, re.M)
    repairs = (
        "opening brackets without a closing one: 4; words too few: 2; closing brackets without an opening"
    )
    assert f"2 of 3 lines were ill-formed and repaired: {repairs} one: 1." in out
    trees = [read_tree(line) for line in written.read_text().splitlines()]
    assert [tree.leaves for tree in trees] == [
        simplify(read_tree(line)).leaves for line in treebank.read_text().splitlines()
    ], "parts of speech are the gold trees', as EVALB needs them"
    status, again, _ = command_line("parse-f1", written, treebank, "--bracketed")
    assert again.strip() == out.rpartition("\n\n")[0].strip(), "and the scores are the same"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "(NP NN )NP\n",
            [],
            "Lines of symbols: 1, gold trees: 3; line n has to belong to line n.",
        ),
        ("(S (NN a))\n", ["--bracketed"], "Trees: 1, gold trees: 3"),
        ("word\n", ["--bracketed"], "symbols, line 1: 'word' is not a tree"),
        (
            f"{GOLD}\n" * 3,
            ["--bracketed"],
            "Line 2: The trees have different words: word 1 is 'The', and 'It'",
        ),
        ("", [], "symbols is empty; it has to hold a line for each sentence."),
        (f"{GOLD}\n" * 3, [], "symbols has trees in brackets, and a parser's symbols were expected; add"),
        (
            "(NP NN )NP\n",
            ["-o", "x", "--gold-output", "./x"],
            "--output and --gold-output are both x; give two files.",
        ),
    ],
)
def test_files_that_do_not_match_are_refused(treebank, command_line, text, options, message):
    symbols = treebank.with_name("symbols")
    symbols.write_text(text)
    status, out, err = command_line("parse-f1", symbols, treebank, *options)
    assert (status, out) == (2, "")
    assert message in err


def test_the_trees_are_written_before_the_scores_are_printed(treebank, command_line, monkeypatch, tmp_path):
    asked = ["parse-f1", treebank, treebank, "--bracketed", "-o"]
    status, _, err = command_line(*asked, tmp_path / "none" / "own")
    assert (status, f"--output {tmp_path / 'none' / 'own'} cannot be written" in err) == (2, True)

    def ended(*parts):
        raise BrokenPipeError

    monkeypatch.setattr("builtins.print", ended)
    command_line(*asked, tmp_path / "own")
    assert (tmp_path / "own").read_text().count("\n") == 3


def test_nothing_to_score_and_lines_without_brackets_are_said(treebank, command_line, tmp_path):
    (symbols := tmp_path / "symbols").write_text("word\n" * 3)
    status, _, err = command_line("parse-f1", symbols, treebank)
    assert (status, "symbols has no bracket; it has to hold symbols such as" in err) == (0, True)
    (marks := tmp_path / "marks.ptb").write_text("(S (. .))\n")
    status, _, err = command_line("parse-f1", marks, marks, "--bracketed")
    assert (status, "has no constituent with a word that counts; nothing can be scored" in err) == (2, True)


def test_linearise_refuses_bad_files(treebank, command_line):
    def refusal(trees, source, target):
        status, _, err = command_line("linearise", trees, "-s", source, "-t", target)
        assert status == 2
        return err

    words, symbols = treebank.with_name("words"), treebank.with_name("symbols")
    assert f"--source and --target are both {words}; give two files." in refusal(treebank, words, words)
    (other := treebank.with_name("other")).symlink_to(words)
    assert f"--source and --target are both {words}; give two files." in refusal(treebank, words, other)
    assert "is what this command reads; give another file." in refusal(treebank, treebank, words)
    assert "is what this command reads; give another file." in refusal(treebank, words, treebank)
    treebank.write_text(f"{GOLD}\nIt works.\n")
    assert "gold.ptb, line 2: 'It works.' is not a tree" in refusal(treebank, words, symbols)
    assert not words.exists()
    assert not symbols.exists(), "files are written as a whole or not at all"


def test_a_constituent_of_a_deleted_word_is_deleted():
    gold = read_tree("(S (NN a) (PRN (, ,) (: ;)))")
    assert compare_trees(gold, gold).gold == 1
    assert Constituent("PRN", 1, 3) in gold.constituents


@pytest.mark.parametrize("tag", [",", ":", "``", "''", "."])
def test_punctuation_of_collins_is_deleted_wherever_it_stands(tag):
    inside, outside = (
        simplify(read_tree(f"(TOP (S (NP (DT The) (NN cat){one}) (VP (VBZ sits)){other}))"))
        for one, other in ((f" ({tag} x)", ""), ("", f" ({tag} x)"))
    )
    moved = read_tree(f"(TOP (S (NP (DT The) (NN cat)) (VP (VBZ sits) ({tag} x))))")
    for tree, gold in ((inside, inside), (outside, moved), (moved, outside)):
        counts = compare_trees(tree, gold)
        assert (counts.matched, counts.found, counts.gold) == (3, 3, 3)


@pytest.mark.parametrize("lengths", [[3], [3, 50], [3, 5, 15, 25, 50]])
def test_trees_beside_themselves_are_complete_at_every_length(lengths):
    gold = [read_tree(f"(S (NP {'(NN a) ' * (length - 1)})(VP (VB b)))") for length in lengths]
    header, *rows = score_table(bracketing_by_length(gold, gold)).splitlines()
    assert header.split()[-1] == "complete"
    assert len(rows) >= 1 + (len(lengths) > 1)
    assert all(row.split()[-4:] == ["100.00"] * 4 for row in rows)
