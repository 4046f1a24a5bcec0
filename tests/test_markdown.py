"""Markdown files come back with other texts in the same tree, as markdown-it-py reads it."""

import re

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from dragoman.documents.file import Reading
from dragoman.documents.markdown import read
from tests.document_laws import damaged, ends_in_a_sentence_or_a_document, takes_linear_time

READING = Reading("a.md", "en", "de")
ORACLE = MarkdownIt("commonmark").enable(["table", "strikethrough"])
TEXT_KINDS = {"text", "softbreak", "text_special"}
AS_HTML = {"<em>": "em_open", "</em>": "em_close", "<strong>": "strong_open", "</strong>": "strong_close",
           "<del>": "s_open", "</del>": "s_close"}  # fmt: skip


def tree(text):
    """The blocks and what is in them, without texts; what is inline may change its order."""
    result = []
    for token in ORACLE.parse(text):
        content = "" if token.type in {"inline", "html_block"} else token.content
        attributes = tuple(sorted(token.attrs.items()))
        inline = sorted(
            (
                AS_HTML.get(child.content, child.type),
                child.content * (child.type != "html_inline"),
                str(child.attrs),
            )
            for child in token.children or []
            if child.type not in TEXT_KINDS
        )
        result.append((token.type, token.tag, token.level, content, attributes, inline))
    return result


def translate(text, change):
    document = read(text.encode(), READING)
    return document.write([change(segment.sentence) for segment in document.segments]).decode()


def words_changed(word):
    return lambda sentence: re.sub(r"[^\W\d_]+(?![^<]*>)", word, sentence)


WORDS = (
    "One", "two.", "Three!", "*four*", "**five six**", "_sev_", "`eight`", "[nine](http://a.b)", "[ten][r]",
    "[r]", "![x](y.png)", "<b>one</b>", "<https://a.b>", "&amp;", "\\*", "$x_1$", "{{ v }}", "~~two~~",
    "a_b_c",
    "2.", "-", "#", "**[one](c)**", "<!-- c -->", "*", "`", "[", "日本。", "(**one**)", "http://x.org/a_b_",
)  # fmt: skip
LINE = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
PARAGRAPH = st.lists(LINE, min_size=1, max_size=3).map("\n".join)
FIXED = (
    "---", "```\ncode *x*\n```", "    code", "<div>\n<p>One <b>two</b>.</p>\n</div>", "[r]: http://r.org",
    "| One | *two* |\n|---|---|\n| three `a\\|b` | four. Five |", "<!-- no -->", "[^1]: One two.", "***",
)  # fmt: skip


def indent(text, first, rest):
    return first + text.replace("\n", "\n" + rest)


BLOCK = st.recursive(
    st.one_of(PARAGRAPH, st.sampled_from(FIXED), LINE.map("## {}".format), LINE.map("{}\n===".format)),
    lambda inner: st.tuples(
        st.lists(inner, min_size=1, max_size=2).map("\n\n".join),
        st.sampled_from([("- ", "  "), ("> ", "> "), ("1. ", "   "), ("* [ ] ", "  ")]),
    ).map(lambda pair: indent(pair[0], *pair[1])),
    max_leaves=4,
)
FILE = st.lists(BLOCK, max_size=4).map("\n\n".join)


@settings(max_examples=50, deadline=None)
@given(FILE, st.sampled_from(["\n", "\r\n"]), st.sampled_from(["x", "Wort", "語", "zwei Wörter"]))
def test_other_texts_are_in_the_same_tree(text, end, word):
    text = text.replace("\n", end)
    assert translate(text, str) == text
    written = translate(text, words_changed(word))
    assert tree(written) == tree(text)


@settings(max_examples=50, deadline=None)
@given(
    st.one_of(st.text(), st.text("*_`[]()<>!#+-=|:.1 ~\\&;ax$\n", max_size=12)),
    st.sampled_from(
        [
            "One two.",
            "- One two.",
            "> > One.\n> > Two.",
            "## One",
            "One\n===",
            "a **one** b",
            "1. One\n   * two",
        ]
    ),
)
def test_any_text_can_be_written(new, text):
    document = read(text.encode("utf-8"), READING)
    texts = [re.sub("[^<]*", lambda _: new, s.sentence, count=1) for s in document.segments]
    written = document.write(texts).decode("utf-8", "surrogatepass")
    assert tree(written) == tree(text)
    written_words = re.sub(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]", "", new)
    if "**" not in text and written_words:
        plain = "".join(child.content for token in ORACLE.parse(written) for child in token.children or [])
        assert re.sub(r"\s", "", plain) == written_words * len(document.segments)


@settings(max_examples=40, deadline=None)
@given(damaged(FILE, st.text()))
def test_damaged_files_end_in_a_sentence_or_a_document(content):
    ends_in_a_sentence_or_a_document(lambda raw: read(raw, READING), content)


@pytest.mark.parametrize(
    "part",
    ["[", "](", "*", "a*", "**a ", "`", "<", "<a ", "&", "![", "[a](", "> ", "- ", "|a", "\n|-", "$a", "{{",
     "_a", "\\", "a\n", "- a\n", "[a]", "a  \n", "<b>", "~~"],
)  # fmt: skip
def test_the_time_is_linear(part):
    takes_linear_time(lambda raw: read(raw, READING), "[a]: b\n\n", part)


def sentences_of(text):
    return [segment.sentence for segment in read(text.encode(), READING).segments]


def test_what_is_translated_and_what_is_kept():
    text = (
        '\ufeff---\ntitle: "One: \\"a\\""\ndescription: it\'s two # no\nlayout: no\n---\n# Three #\n\n'
        "Four `no` *five* <kbd>no</kbd> "
        "\\* &amp;\nsix [seven](no). :no: $no$ ![no](no)\n\n> [!NOTE]\n> Eight  \n> nine.\n\n- [ ] Ten\n\n"
        "| a | b\\|c |\n|-|-|\n"
        "| `no` | d |\n\n<p class='no'>Eleven</p>\n\n[^no]: Twelve a.\n[no]: no\n\n:::{no} no\nThirteen\n"
        ":::\n\n    no\n\n~~~no\nno\n~~~\n"
    )
    assert sentences_of(text) == [
        'One: "a"', "it's two", "Three", "Four <g1/> <g2>five</g2> <g3/> * & six <g4>seven</g4>.", "Eight",
        "nine.", "Ten", "a", "b|c", "d", "Eleven", "Twelve a.", "Thirteen",
    ]  # fmt: skip
    written = translate(text, words_changed("x"))
    assert written.count("no") == text.count("no")
    assert 'title: "x: \\"x\\""\ndescription: "x\'x x" # no\n' in written


@given(
    st.text("b\\'\"", max_size=8).map("a{}c".format),
    st.sampled_from("'\""),
    st.sampled_from(["title", "description"]),
)
@example("a\\\\c", "'", "title")
def test_a_title_is_read_as_yaml_reads_it(text, style, key):
    file = f"---\n{key}: {yaml.dump(text, default_style=style)}---\n"
    assert sentences_of(file) == [text]
    written = translate(file, lambda sentence: f"{sentence} {text}")
    assert yaml.safe_load(written.split("---\n")[1]) == {key: f"{text} {text}"}


def test_a_link_that_is_known_by_its_text_keeps_its_target():
    text = "See [the manual] and [it][].\n\n[the manual]: a\n[it]: b\n"
    assert sentences_of(text) == ["See <g1>the manual</g1> and <g2>it</g2>."]
    written = translate(text, lambda _: "<g2>Es</g2> und <g1>das Buch</g1>.")
    assert written.startswith("[Es][it] und [das Buch][the manual].\n")


def test_marks_that_asterisks_cannot_enclose_become_tags():
    text = "A **bold** word."
    assert translate(text, lambda _: "Ein<g1>„fettes“</g1>Wort.") == "Ein<strong>„fettes“</strong>Wort."
    assert translate(text, lambda _: "Ein<g1> fettes </g1>Wort.") == "Ein **fettes** Wort."
    assert translate(text, lambda _: "Ein Wort.") == "<strong></strong> Ein Wort."


def test_a_start_of_a_line_becomes_no_list_and_no_heading():
    for new, written in (("1. Mai", "1\\. Mai"), ("- so", "\\- so"), ("# so", "\\# so"), ("a\nb", "a b")):
        assert translate("> One.", lambda _: new) == f"> {written}"
    assert translate("## One.", lambda _: "1. Mai") == "## 1. Mai"
    assert translate("[`a`] is [a].\n\n[`a`]: b\n[a]: c\n", words_changed("x")).startswith("[`a`] x [x][a].")
    text = "- **[One][]**\n\n[one]: a\n"
    assert translate(text, lambda _: "Eins").startswith("- **[Eins][One]**\n")
