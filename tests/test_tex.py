"""LaTeX files come back with other texts between the same commands."""

import re
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.documents.file import Reading
from dragoman.documents.tex import read
from dragoman.system.errors import DragomanError
from tests.document_laws import damaged, ends_in_a_sentence_or_a_document, takes_linear_time

READING = Reading("a.tex", "en", "de")
PARTS = (
    "One ", "two. ", "Three!\n", "\\emph{four} ", "{\\bf five} six ", "$x_{1}$ ", "\\cite[p.~1]{no} ",
    "% no\n", "\\'e",
    '\\"{o}', "\\LaTeX", "\\ ", "~", "``seven''", "\n\n", "\\section{Eight \\textbf{nine}}\n", "\\\\[2pt]\n",
    "\\item ",
    "\\[ no \\]", "\\begin{equation}no\\end{equation}", "\\begin{itemize}\\item ten\\end{itemize}",
    "\\verb|no{|",
    "\\begin{verbatim}\n{no\n\\end{verbatim}", "\\unknown{no}[no]{no} ", "\\&", "\\href{no}{eleven} ",
    "é日。", "\\ss{} ",
    "\\footnote{Twelve. a} ", "\\begin{tabular}{ll} a & b \\\\ c \\end{tabular}", "\\begin{x}no\\end{x}",
    "[a] ", "- ",
)  # fmt: skip
FILE = st.lists(st.sampled_from(PARTS), max_size=15).map("".join)
COMMAND = re.compile(r"\\begin\{\w+\}|\\[A-Za-z]+|\\\\\[2pt\]|\\[\[\]]|no|[{}$]|%")


def translate(text, change):
    document = read(text.encode(), READING)
    return document.write([change(segment.sentence) for segment in document.segments]).decode()


def words_changed(word):
    return lambda sentence: re.sub(r"[^\W\d_]+(?![^<]*>)", word, sentence)


def words_of(sentences):
    """The words, without marks."""
    return re.findall(r"\w+", re.sub("<.*?>", "", " ".join(sentences)))


@settings(max_examples=40, deadline=None)
@given(FILE, st.sampled_from(["x", "Wort", "語", "zwei Wörter"]))
def test_other_texts_are_between_the_same_commands(text, word):
    assert translate(text, str) == text
    written = translate(text, words_changed(word))
    plain = re.sub(r"""\\['"]\{?[a-z]\}?|\\ss\{\}""", " ", text)
    plain_written = re.sub(r"""\\['"]\{?[a-z]\}?|\\ss\{\}""", " ", written)
    assert Counter(COMMAND.findall(plain)) == Counter(COMMAND.findall(plain_written.replace("{[}", "[")))
    again = [segment.sentence for segment in read(written.encode(), READING).segments]
    expected = [words_changed(word)(segment.sentence) for segment in read(text.encode(), READING).segments]
    assert words_of(again) == words_of(expected)


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(st.text(), st.text("\\{}[]$&%#^_~`'-*a é\n", max_size=12)),
    st.sampled_from(
        ["One.\n", "\\item One\n", "\\section{One}", "a \\emph{one} b", "\\LaTeX{} one \\LaTeX b\\\\One\n"]
    ),
)
def test_any_text_can_be_written(new, text):
    document = read(text.encode(), READING)
    texts = [re.sub("[^<]*", lambda _: new, s.sentence, count=1) for s in document.segments]
    written = document.write(texts).decode("utf-8", "surrogateescape")
    again = read(written.encode("utf-8", "surrogateescape"), READING)
    has_letters = any(map(str.isalpha, new)) and not re.search(r"[{%$<@]|\.\w|//|\[X|www", new)
    if has_letters and not any(segment.marks for segment in document.segments):
        shown = "".join(segment.sentence for segment in again.segments)
        assert list(filter(str.isalpha, shown)) == list(filter(str.isalpha, new * len(document.segments)))


@settings(max_examples=60, deadline=None)
@given(damaged(FILE, st.text("\\{}[]$%abc\n ")))
def test_damaged_files_end_in_a_sentence_or_a_document(content):
    ends_in_a_sentence_or_a_document(lambda raw: read(raw, READING), content)


@pytest.mark.parametrize(
    "part",
    [
        "{}",
        "\\a{}",
        "\\a[",
        "\\[",
        "$",
        "%",
        "\\'",
        "\\emph{a} ",
        "\\verb|",
        "\\item ",
        "a\n",
        " \n",
        "\\begin{x}\\end{x}",
        "``",
    ],
)
def test_the_time_is_linear(part):
    takes_linear_time(lambda raw: read(raw, READING), "One\n\n", part)
    with suppress(DragomanError):
        read(b"{" * 100_000, READING)


def sentences_of(text):
    return [segment.sentence for segment in read(text.encode(), READING).segments]


def test_what_is_translated_and_what_is_kept():
    text = (
        "\\documentclass[no]{no}\n\\newcommand{\\no}[1]{no #1}\n\\title{One \\emph{two}}\n"
        "\\begin{document}\n\\maketitle\n"
        "\\section[no]{Three}\\label{no}\nFour~\\cite{no} $no$ f\\\"unf --- ``six''% no\n"
        " seven \\LaTeX{} {\\it eight}.\n"
        "\\begin{equation} no \\end{equation}\n\\begin{itemize}\n\\item Nine \\& ten.\n\\end{itemize}\n"
        "\\begin{no} no \\end{no}\\begin{frame}{Eleven}Twelve\\end{frame}\n\\end{document}\n"
    )
    assert sentences_of(text) == [
        "One <g1>two</g1>", "Three", "Four\xa0<g1/> <g2/> fünf — “six”<g3/>seven <g4/> <g5><g6/> eight</g5>.",
        "Nine & ten.", "Eleven", "Twelve",
    ]  # fmt: skip


def test_a_command_is_separated_from_letters():
    assert translate("So \\LaTeX is.", lambda _: "Das<g1/>ist so.") == "Das\\LaTeX ist so."
    assert translate("\\item One\n", lambda _: "[a] 50 % & {b}") == "\\item {[}a] 50 \\% \\& \\{b\\}\n"


@pytest.mark.parametrize("text", ["a } b", "{ a", "\\begin{a}", "\\begin{verbatim} a", "\\catcode`|=13 a"])
def test_what_cannot_be_told_is_refused(text):
    with pytest.raises(DragomanError, match=r"a\.tex"):
        read(text.encode(), READING)


def test_labels_and_arguments_in_brackets_are_kept():
    text = "\\item[\\textbf{no}] One\n\\item[$x$]Two\n\\item [no] Three \\cite[no][p.~1]{no}.\n"
    expected = text.replace("One", "x").replace("Two", "x").replace("Three", "x")
    assert translate(text, words_changed("x")) == expected


def test_a_footnote_is_a_text_of_its_own():
    text = "\\newcommand{\\n}[1]{\\footnote{No #1.}}\n\\begin{document}"
    text += "One\\footnote{Two. \\emph{Three.}} four.\n"
    text += "\\section{Five\\footnote{Six % no\n}}\\end{document}\n"
    sentences = [segment.sentence for segment in read(text.encode(), READING).segments]
    assert sentences == ["One<g1/> four.", "Five", "Two.", "Three.", "Six"]
    expected = re.sub("One|four|Two|Three|Five|Six", "x", text)
    assert translate(text, words_changed("x")) == expected
