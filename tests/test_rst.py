"""Files of reStructuredText come back with other texts in the same tree, as docutils reads it."""

import re

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.documents.file import Reading
from dragoman.documents.rst import read
from tests.document_laws import damaged, ends_in_a_sentence_or_a_document, repeated_part_takes_linear_time

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


def sentences_of(text):
    return [segment.sentence for segment in read(text.encode(), READING).segments]


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


@pytest.mark.long
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
    repeated_part_takes_linear_time(lambda raw: read(raw, READING), "One\n\n", part)


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


# ---- constructs one by one

KEPT_INLINE = (
    "``no``", "``n`o``", "|no|", "|no|_", "|no|__", "[1]_", "[#no]_", "[*]_", "[no-1.a]_", "_`no`", "`no`_",
    "`no`__", "no_", "no__", "no-a.b_", ":ref:`no`", ":sub:`no`",
    ":py:class:`no`", "`no`", "`no`:sub:", "https://no.org/a",
)  # fmt: skip
PAIRS_INLINE = (
    "*{}*",
    "**{}**",
    "`{} <no>`_",
    "`{} <no>`__",
    ":ref:`{} <no>`",
    ":doc:`{} <no>`",
    ":term:`{} <no>`",
    ":numref:`{} <no>`",
    ":any:`{} <no>`",
    ":download:`{} <no>`",
)


@pytest.mark.parametrize("kept", KEPT_INLINE)
def test_what_is_kept_within_a_text(kept):
    for before, after in zip("('\"[{<-/:“«–—    ", ")'\"]}>-/:”»–—.,;!?", strict=False):
        if before + kept[0] not in {"::", "<h", "[[", "/h", ":`", "-n"} and not (
            before == ":" and kept.startswith("`no`")
        ):
            text = f"One {before.strip()}{kept}{after} two.\n"
            assert "no" not in sentences_of(text)[0]
            assert translate(text, words_changed("x")) == text.replace("One", "x").replace("two", "x")


@pytest.mark.parametrize("pair", PAIRS_INLINE)
@pytest.mark.parametrize("inside", ["two", "two three", "t\\*o"])
def test_a_pair_stands_around_its_words(pair, inside):
    text = f"One {pair.format(inside)} four.\n"
    (sentence,) = sentences_of(text)
    assert sentence == f"One <g1>{inside.replace(chr(92), '')}</g1> four."
    assert translate(text, lambda _: "x <g1>y</g1> z") == f"x {pair.format('y')} z\n"
    assert translate(text, lambda _: "<g1>y</g1>z") == f"{pair.format('y')}\\ z\n"


@pytest.mark.parametrize(
    "text", ["a * b", "2*3", "a_b", "\\*a\\*", "a\\ b", "**", "x|y", "a_ b".replace("_", "\\_"), "* a"]
)
def test_what_marks_nothing_is_text(text):
    (sentence,) = sentences_of(f"One {text} two\n")
    assert (
        re.sub("<g1/?>", "", sentence)
        == publish_doctree(f"One {text} two\n", settings_overrides=QUIET).astext()
    )


ADMONITIONS = [
    "admonition",
    "attention",
    "caution",
    "danger",
    "error",
    "hint",
    "important",
    "note",
    "rubric",
    "seealso",
    "sidebar",
    "tip",
    "title",
    "todo",
    "topic",
    "warning",
    "centered",
]
CONTENTS = [
    "class",
    "compound",
    "container",
    "epigraph",
    "figure",
    "highlights",
    "list-table",
    "only",
    "pull-quote",
    "table",
    "attribute",
    "classmethod",
    "cmdoption",
    "data",
    "decorator",
    "describe",
    "envvar",
    "exception",
    "function",
    "method",
    "module",
    "object",
    "option",
    "program",
    "staticmethod",
]
KEPT_DIRECTIVES = [
    "code",
    "code-block",
    "math",
    "image",
    "include",
    "toctree",
    "raw",
    "csv-table",
    "literalinclude",
    "glossary",
    "parsed-literal",
    "replace",
    "unknown",
]


@pytest.mark.parametrize(
    "name",
    [
        *ADMONITIONS,
        *CONTENTS,
        *KEPT_DIRECTIVES,
        "py:function",
        "c:x-y",
        "deprecated",
        "versionadded",
        "versionchanged",
        "versionremoved",
    ],
)
def test_the_texts_of_a_directive(name):
    text = f".. {name}:: 1.2 zero\n   :option: no\n   :other: no\n\n   Two.\n\n   - three\n\nFour.\n"
    kind = name.rpartition(":")[2]
    expected = ["Four."]
    if kind in {*ADMONITIONS, *CONTENTS} or kind in {
        "deprecated",
        "versionadded",
        "versionchanged",
        "versionremoved",
    }:
        expected = ["Two.", "three", "Four."]
    if kind in ADMONITIONS:
        expected.insert(0, "1.2 zero")
    elif kind.startswith(("deprecated", "version")):
        expected.insert(0, "zero")
        text = re.sub("   :o.*\n", "", text)
    assert sentences_of(text) == expected
    assert sentences_of(text.replace(f".. {name}", f".. |a b| {name}")) == expected
    assert sentences_of(text.replace(f".. {name}:: ", f"..  {name}::  ")) == expected


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        *((f"{mark} One\n{' ' * len(mark)} two\n", ["One two"])
            for mark in ("-", "*", "+", "•", "‣", "⁃", "1.", "12)", "(3)", "a.", "(B)", "iv.", "XII)", "#.",
                "(#)", "|")),
        *((f"{option}  One two\n", ["One two"]) for option in ("-a", "-a x", "--long", "--long=x y", "/V")),
        ("-a\n   One two\n", ["One two"]),
        (":a b: One\n   two\n", ["One two"]), (":a\\: b: One\n", ["One"]),
        (":a:`no` One\n", ["<g1/> One".replace("<g1/> ", "")]),
        *((f":{name}: no\n   no\n\nOne\n", ["One"]) for name in (
            "author", "Authors", "organization", "contact", "address", "version", "revision", "status",
            "date", "copyright", "orphan", "tocdepth", "nocomments", "no-search",
            "type x", "rtype", "vartype y")),
        (":param x: One\n:returns: two\n", ["One", "two"]), ("term : no\n  One\n", ["term", "One"]),
        ("term\n  One\n", ["term", "One"]), ("a : b\n", ["a : b"]),
        ("One::\n\n  no\n\n no\n\nTwo\n", ["One", "Two"]), ("- One::\n\n    no\n\n  Two\n", ["One", "Two"]),
        ("One ::\n\n  no\n", ["One"]), ("::\n\n  no\n\nOne\n", ["One"]),
        (">>> no\nno\n\nOne\n", ["One"]), ("__ no\n\nOne\n", ["One"]),
        ("+--+\n|no|\n+--+\n\nOne\n", ["One"]), ("=== ==\nno no\n\nno no\n=== ==\n\nOne\n", ["One"]),
        (".. [1] One\n   two\n", ["One two"]), (".. [#a] One\n\n   Two\n", ["One", "Two"]),
        (".. _no: no\n\nOne\n", ["One"]),
        (".. no\n   no\n\n   no\n\nOne\n", ["One"]), ("..\n   no\n\nOne\n", ["One"]),
        ("..\n\n   One\n", ["One"]), ("One\n\n----\n\nTwo\n", ["One", "Two"]),
        ("\ufeffOne\n===\n\nTwo\n", ["One", "Two"]),
        ("====\nOne\n====\n\n~~~~\n\nTwo\n", ["One", "Two"]), ("One\n::\n", ["One"]),
        ("One\n\tTwo\n        three\n", ["One", "Two three"]), ("=====\n One\n=====\n", ["One"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_texts_of_blocks(text, sentences, end):
    text = text.replace("\n", end)
    assert sentences_of(text) == sentences
    written = translate(text, lambda sentence: sentence.upper().replace("<G", "<g").replace("</G", "</g"))
    assert written.lower().split() == text.lower().split()
    assert written.count("no") == text.count("no")


FORMS = [
    "{}\n",
    "- {}\n",
    "   {}\n\nmore\n",
    ".. note:: {}\n",
    "{}\n====\n",
    "*no* {}\n",
    ":a: {}\n",
    "| {}\n",
]


@pytest.mark.short_form(1)
@pytest.mark.parametrize(
    "new",
    ["- x", "+ x", "• x", "1. x", "(2) x", "a) x", "iv. x", "#. x", ".. x", ".. x:: y", "__ x", ">>> x",
        ":x: y", "-a x", "--ab x", "/V x", "+-- x", "== x", "--", "=== ==", "x::", "x ::",
     "*x*", "x_", "x__", "_x", "`x`", "|x|", "[1]_", "**", "a\\b", ": x", "!", "\\", "x:", "''", "A. x",
     "= x"],
)  # fmt: skip
def test_no_text_becomes_markup(new):
    for form in FORMS:
        text = form.format("Word")
        written = translate(text, lambda sentence: sentence.replace("Word", new))
        assert tree(written) == tree(text)
        shown, expected = (
            publish_doctree(part, settings_overrides=QUIET).astext() for part in (written, text)
        )
        assert re.sub(r"\s", "", shown) == re.sub(r"\s", "", expected.replace("Word", new))


@pytest.mark.parametrize("name", ["One  Two", "one\ntwo", "ONE two"])
def test_a_title_is_referred_to_by_its_name_in_any_case(name):
    for reference in (f"`{name}`_", f"`{name} <no>`_ `{name}`_"):
        text = f"One Two\n=======\n\nSee {reference}.\n"
        assert translate(text, lambda sentence: sentence.replace("One Two", "Eins")).startswith(
            ".. _`One Two`:\n\nEins\n=======\n"
        )
    assert (
        translate("One\n===\n\nSee one_.\n", lambda s: s.replace("One", "Ä"))
        == ".. _`One`:\n\nÄ\n===\n\nSee one_.\n"
    )
    for text in (
        "One\n===\n\nSee `one`__.\n",
        "One\n===\n\nSee two_.\n",
        "One `x`\n=======\n\nSee `one x`_.\n",
    ):
        assert ".. _" not in translate(text, lambda s: s.replace("One", "Ä"))


@pytest.mark.parametrize(
    ("title", "columns"),
    [("x", 5), ("abcdefg", 7), ("日本語。", 8), ("e\u0301e\u0301e\u0301abcd", 7), ("ｆｆｆ", 6)],
)
def test_the_lines_of_a_title_are_as_wide_as_it_is(title, columns):
    assert (
        translate("=====\nFirst\n=====\n", lambda _: title) == f"{'=' * columns}\n{title}\n{'=' * columns}\n"
    )
    assert translate("First\n=====", lambda _: title) == f"{title}\n{'=' * columns}"
    assert translate(
        "=======\n First\n=======\n", lambda _: title
    ) == f"{'=' * max(columns + 1, 7)}\n {title}\n{'=' * max(columns + 1, 7)}\n".replace("=" * 8, "=" * 8)


@given(
    st.lists(st.sampled_from(["One two.", "?", "! ", " ", "(Three)", "* ", "\n", "\n\n"]), max_size=8).map(
        "".join
    )
)
def test_a_sentence_begins_a_line_if_nothing_or_the_mark_of_a_list_stands_before_it(text):
    for segment in read(text.encode(), READING).segments:
        before = text[: segment.start].rpartition("\n")[2].strip()
        assert not before.strip("* ") if segment.is_line_start else before
