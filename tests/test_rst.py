"""Files of reStructuredText come back with other texts in the same tree, as docutils reads it."""

import re

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.documents.file import Reading
from dragoman.documents.rst import read
from tests.document_laws import damaged, ends_in_a_sentence_or_a_document, takes_linear_time

READING = Reading("a.rst", "en", "de")
QUIET = {"report_level": 5, "halt_level": 5, "file_insertion_enabled": False, "_disable_config": True}


def tree(text):
    """The elements of a text, without texts; those within a paragraph may change their order."""
    document = publish_doctree(text, settings_overrides=QUIET)

    def shape(node):
        if isinstance(node, nodes.literal_block | nodes.comment):
            return type(node).__name__, node.astext()
        notes = (nodes.Text, nodes.system_message)  # that a title stands there twice, for example
        children = [shape(child) for child in node.children if not isinstance(child, notes)]
        is_inline = isinstance(node, nodes.TextElement)
        target = node.get("refuri", "") if isinstance(node, nodes.reference) else ""
        return type(node).__name__, target, sorted(children) if is_inline else children

    return shape(document)


def translate(text, change):
    document = read(text.encode(), READING)
    return document.write([change(segment.sentence) for segment in document.segments]).decode()


def words_changed(word):
    return lambda sentence: re.sub(r"[^\W\d_]+(?![^<]*>)", word, sentence)


WORDS = (
    "One", "two.", "Three!", "*four*", "**five six**", "``seven``", "`eight <http://a.b>`__", "name__", "\\*",
    "a_b", "2.", "(*nine*)", ":sub:`x`", "http://x.org/a_b", "-", "x\\ y", "*", "日本。", "Ten:",
)  # fmt: skip
LINE = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(lambda words: " ".join(["So", *words]))
PARAGRAPH = st.lists(LINE, min_size=1, max_size=3).map("\n".join)
FIXED = (
    "Code::\n\n    x = *1\n\n      y", ".. note:: One two.", ".. code:: python\n\n   x",
    ".. a comment\n   One",
    "+---+\n| a |\n+---+", "===  ===\na    b\n===  ===", "term : x\n    One two.", ":One: two\n   three",
    ".. _target: http://x.org", "| One\n| two", ">>> 1\n1", ".. image:: x.png\n   :alt: no", "-o x  One two",
    ".. [#] One two.",
)  # fmt: skip


def indent(text, first):
    return first + text.replace("\n", "\n" + " " * len(first))


BLOCK = st.recursive(
    st.one_of(PARAGRAPH, st.sampled_from(FIXED)),
    lambda inner: st.tuples(
        st.lists(inner, min_size=1, max_size=2).map("\n\n".join),
        st.sampled_from(["- ", "1. ", "   ", "\\* "]),
    ).map(lambda pair: indent(*pair)),
    max_leaves=4,
)
SECTION = st.sampled_from(["One\n===\n\n", "=====\n One \n=====\n\n", "One *two*\n---------\n\n"])
FILE = st.tuples(st.just("") | SECTION, st.lists(BLOCK, max_size=3)).map(
    lambda pair: pair[0] + "\n\n".join(pair[1]) + "\n"
)


@settings(max_examples=40, deadline=None)
@given(FILE, st.sampled_from(["x", "Wort", "語", "zwei lange Wörter"]))
def test_other_texts_are_in_the_same_tree(text, word):
    assert translate(text, str) == text
    assert translate(text.replace("\n", "\r\n"), str) == text.replace("\n", "\r\n")
    written = translate(text, words_changed(word))
    assert tree(written) == tree(text)


@settings(max_examples=40, deadline=None)
@given(
    st.one_of(st.text(), st.text("*_`|[]()<>.:#+-=1 ~\\ax\n", max_size=12)),
    st.sampled_from(["So two.\n", "- So two.\n", "So\n==\n", "a **one** b\n", ".. note:: One\n"]),
)
def test_any_text_can_be_written(new, text):
    document = read(text.encode(), READING)
    texts = [re.sub("[^<]*", lambda _: new, s.sentence, count=1) for s in document.segments]
    written = document.write(texts).decode("utf-8", "surrogateescape")
    assert tree(written) == tree(text)
    space = r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\xad]"
    if "**" not in text and (expected := re.sub(space, "", new)):
        shown = publish_doctree(written, settings_overrides=QUIET).astext()
        assert re.sub(r"[\s\xad]", "", shown) == expected


@settings(max_examples=40, deadline=None)
@given(damaged(FILE, st.text()))
def test_damaged_files_end_in_a_sentence_or_a_document(content):
    ends_in_a_sentence_or_a_document(lambda raw: read(raw, READING), content)


@pytest.mark.parametrize(
    "part",
    [
        "*",
        "**a ",
        "`",
        "``",
        "|",
        "_",
        "a_ ",
        ":a:",
        "`a <",
        "\\",
        "- ",
        "a\n",
        " a\n",
        "== ==\n",
        "::\n\n",
        "+--+\n",
        ".. ",
        "-o ",
    ],
)
def test_the_time_is_linear(part):
    takes_linear_time(lambda raw: read(raw, READING), "One\n\n", part)


def test_a_line_under_a_title_is_long_enough():
    text = "===\nOne\n===\n\nTwo\n---\n"
    assert translate(text, lambda _: "語 lang") == "=======\n語 lang\n=======\n\n語 lang\n-------\n"
    assert translate(text, lambda _: "a") == "===\na\n===\n\na\n---\n"


def test_marks_are_separated_from_letters():
    assert translate("One **two** three.\n", lambda _: "Ein<g1> zwei </g1>drei") == "Ein **zwei** drei\n"
    assert translate("One **two** three.\n", lambda _: "Ein<g1>zwei</g1>drei") == "Ein\\ **zwei**\\ drei\n"
    assert translate("One **two** three.\n", lambda _: "Ein") == "One **two** three.\n"


def test_a_title_that_is_referred_to_stays_a_target():
    text = "One two\n=======\n\nSee `one two`_.\n"
    written = translate(text, lambda sentence: sentence.replace("One two", "Eins"))
    assert written == ".. _`One two`:\n\nEins\n=======\n\nSee `one two`_.\n"
    assert not list(publish_doctree(written, settings_overrides=QUIET).findall(nodes.problematic))


def test_an_empty_comment_keeps_nothing():
    text = "..\n\n   One.\n\n..\n   no\n\n.. no\n\n   no\n"
    assert translate(text, words_changed("Wort")) == text.replace("One", "Wort")
