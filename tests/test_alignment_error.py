"""Alignment error rate: cases counted by hand, its bounds, and the format of the files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.evaluation.alignment_error import alignment_error_rate, read_alignments
from dragoman.system.errors import DragomanError


def rate(found, gold):
    return alignment_error_rate(list(read_alignments(found, "found")), list(read_alignments(gold, "gold")))


@pytest.mark.parametrize(
    ("found", "gold", "expected", "precision", "recall"),
    [
        # |A| = 3, |S| = 2, |A ∩ S| = 1, |A ∩ P| = 2: 1 − 3/5
        (["0-0 1-2 3-3"], ["0-0 1?2 2-2"], 40, 200 / 3, 50),
        # counted over both sentences: |A| = 3, |S| = 3, |A ∩ S| = 2, |A ∩ P| = 3: 1 − 5/6
        (["0-0", "0-0 1-1"], ["0-0 1-1", "0p0 1-1"], 100 / 6, 100, 200 / 3),
        # a sure link that is also given as possible, and a link that is given twice, count once
        (["0-0 0-0"], ["0-0 0?0 1-1"], 100 / 3, 100, 50),
        (["1-0"], ["0-1"], 100, 0, 0),
        (["", "2-1"], ["", "2-1"], 0, 100, 100),
    ],
)
def test_it_is_that_counted_by_hand(found, gold, expected, precision, recall):
    score = rate(found, gold)
    assert score.value == pytest.approx(expected)
    assert score.detail == f"(precision = {precision:.2f}, recall = {recall:.2f})"


LINKS = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1)


def written(sure, possible=frozenset()):
    return [" ".join([*(f"{i}-{j}" for i, j in sure), *(f"{i}?{j}" for i, j in possible)])]


@given(LINKS, LINKS, LINKS)
def test_it_is_between_0_and_100_and_0_between_the_sure_and_the_possible_links(found, sure, possible):
    gold = written(sure, possible)
    score = rate(written(found), gold)
    assert 0 <= score.value <= 100
    counts = f"links:{len(found)}|sure:{len(sure)}|possible:{len(sure | possible)}"
    assert score.signature == f"lines:1|{counts}"
    assert rate(written(sure), gold).value == rate(written(sure | possible), gold).value == 0
    assert rate(written(found), written(sure)).value == pytest.approx(
        rate(written(sure), written(found)).value
    )  # without possible links it is one minus F1


@given(LINKS, LINKS, LINKS)
def test_sentences_and_links_may_be_in_any_order_and_words_counted_from_1(found, sure, possible):
    one, other = [*written(found), "0-0"], [*written(sure, possible), "0-1 0-0"]
    turned = [" ".join(reversed(line.split())) for line in reversed(one)]
    assert rate(turned, list(reversed(other))) == rate(one, other)
    from_one = written({(i + 1, j + 1) for i, j in sure}, {(i + 1, j + 1) for i, j in possible})
    assert list(read_alignments(from_one, "gold", first=1)) == list(
        read_alignments(written(sure, possible), "")
    )


@given(st.text("019-?px٣ ", min_size=1, max_size=5).filter(lambda text: " " not in text))
def test_a_link_is_two_numbers_with_one_sign_between_them_and_nothing_else_is(text):
    signs = [sign for sign in "-?p" if text.count(sign)]
    parts = text.split(signs[0]) if len(signs) == 1 else []
    if len(parts) == 2 and all(part.isascii() and part.isdigit() for part in parts):
        (alignment,) = read_alignments([text], "file")
        link = frozenset([(int(parts[0]), int(parts[1]))])
        assert alignment == (link if signs == ["-"] else frozenset(), link)
    else:
        with pytest.raises(DragomanError, match="file, line 2: .* is not a link"):
            list(read_alignments(["0-0", text], "file"))


@pytest.mark.parametrize(
    ("found", "gold", "options", "message"),
    [
        ("0-0 1:1", "0-0", [], "found, line 1: '1:1' is not a link. A link is the number of a source word"),
        ("0-0", "0-0\n1--1", [], "gold, line 2: '1--1' is not a link"),
        ("0-0", "9999999999-0", [], "'9999999999-0' is not a link"),
        (
            "0-0",
            "1-1 2-0",
            ["--one-indexed"],
            "line 1: the link 2-0 has a word 0, and words are counted from 1.",
        ),
        (
            "0-0\n0-0",
            "0-0",
            [],
            "Alignments: 2, gold alignments: 1; line n has to belong to line n.",
        ),
        ("\n", "0-0", [], "There are 0 links and 1 sure gold links; an alignment error rate needs both."),
        ("0-0", "0?0", [], "There are 1 links and 0 sure gold links"),
        (
            "0?0",
            "0-0",
            [],
            "found has possible links, which only gold alignments have; the gold file is the second one.",
        ),
        ("", "0-0", [], "found is empty"),
    ],
)
def test_what_cannot_be_scored_is_refused(command_line, tmp_path, found, gold, options, message):
    (tmp_path / "found").write_text(found)
    (tmp_path / "gold").write_text(gold)
    status, out, err = command_line("aer", tmp_path / "found", tmp_path / "gold", *options)
    assert (status, out) == (2, "")
    assert message in err
