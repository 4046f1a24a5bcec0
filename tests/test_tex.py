"""LaTeX files come back with other texts between the same commands."""

import re
import unicodedata
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.documents.file import Reading
from dragoman.documents.tex import read
from dragoman.system.errors import DragomanError
from tests.document_laws import damaged, ends_in_a_sentence_or_a_document, repeated_part_takes_linear_time

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


@pytest.mark.long
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


@settings(max_examples=30, deadline=None)
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


@settings(max_examples=30, deadline=None)
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
    repeated_part_takes_linear_time(lambda raw: read(raw, READING), "One\n\n", part)


@pytest.mark.long
def test_deep_nesting_is_read_or_refused():
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


# ---- commands, environments and characters one by one

ONE_ARGUMENT = [
    "emph",
    "textbf",
    "textit",
    "textsc",
    "textsf",
    "textrm",
    "textsl",
    "textup",
    "textmd",
    "textnormal",
    "underline",
    "uline",
    "enquote",
    "mbox",
    "textsuperscript",
    "alert",
    "text",
]
TWO_ARGUMENTS = ["href", "textcolor", "colorbox", "hyperref", "foreignlanguage"]
HEADINGS = [
    "part",
    "chapter",
    "section",
    "subsection",
    "subsubsection",
    "paragraph",
    "subparagraph",
    "title",
    "subtitle",
    "caption",
    "frametitle",
    "framesubtitle",
    "thanks",
    "dedication",
]
TEXTS = [
    "document",
    "abstract",
    "itemize",
    "enumerate",
    "description",
    "quote",
    "quotation",
    "verse",
    "center",
    "flushleft",
    "flushright",
    "figure",
    "table",
    "tabular",
    "tabularx",
    "longtable",
    "frame",
    "theorem",
    "lemma",
    "proof",
    "definition",
    "corollary",
    "remark",
    "example",
    "proposition",
    "minipage",
    "block",
    "alertblock",
    "exampleblock",
    "columns",
    "column",
    "titlepage",
    "appendix",
    "multicols",
    "acknowledgements",
    "acknowledgments",
    "wrapfigure",
    "sidewaystable",
    "small",
    "footnotesize",
    "mine",
]
OTHERS = ["equation", "align", "tikzpicture", "thebibliography", "array", "unknown"]
VERBATIMS = ["verbatim", "Verbatim", "lstlisting", "minted", "comment", "filecontents", "alltt", "BVerbatim"]
BREAKS = ["par", "newline", "newpage", "clearpage", "linebreak", "hline", "item", "maketitle", "bigskip"]


@pytest.mark.parametrize("name", [*ONE_ARGUMENT, *TWO_ARGUMENTS])
@pytest.mark.parametrize("star", ["", "*"])
def test_the_last_argument_of_a_command_of_fonts_is_text(name, star):
    command = f"\\{name}{star}" + "[no]" * (name != "hyperref") + "{no}" * (name in TWO_ARGUMENTS)
    text = f"One {command}{{two}} three {{no}}."
    assert sentences_of(f"One {command}{{two}} three.") == ["One <g1>two</g1> three."]
    assert translate(text.replace(" {no}", ""), words_changed("x")) == f"x {command}{{x}} x."


@pytest.mark.parametrize("name", ["multicolumn", "multirow"])
def test_the_third_argument_of_a_cell_over_several_is_text(name):
    text = f"\\begin{{tabular}}{{ll}}\n\\{name}{{2}}{{c}}{{One}} & two \\\\\n\\end{{tabular}}"
    assert sentences_of(text) == ["One", "two"]
    assert translate(text, words_changed("x")) == text.replace("One", "x").replace("two", "x")


@pytest.mark.parametrize("name", HEADINGS)
def test_a_heading_is_a_text_of_its_own(name):
    text = f"one \\{name}*[no]{{two \\emph{{three}}}} four"
    assert sentences_of(text) == ["one", "two <g1>three</g1>", "four"]
    head = f"\\documentclass{{no}}\n\\{name}{{two}} no\n\\begin{{document}}\nfour\\end{{document}}"
    assert sentences_of(head) == (["two", "four"] if name in {"title", "subtitle"} else ["four"])


@pytest.mark.parametrize("name", [*TEXTS, *OTHERS, *VERBATIMS])
def test_an_environment_has_texts_or_is_kept(name):
    for star in ("", "*"):
        head = "\\newtheorem{mine}[no]{no}" + "\\newtheorem*{own}{no}"
        begin, end = f"\\begin{{{name}{star}}}", f"\\end{{{name}{star}}}"
        if name == "document":
            return
        text = f"one {begin}[no]{{two}} three{end} four \\begin{{own}}five\\end{{own}}"
        text = f"{head}\\begin{{document}}{text}\\end{{document}}"
        sentences = ["one", "four", "five"]
        if name in TEXTS:
            sentences[1:1] = (
                ["two", "three"] if name in {"frame", "block", "alertblock", "exampleblock"} else ["three"]
            )
        elif name in VERBATIMS:
            sentences = ["one <g1/> four", "five"]
        assert sentences_of(text) == sentences
        if name in VERBATIMS:
            assert sentences_of(f"one {begin}{{no}} $ \\no{end} four") == ["one <g1/> four"]
            with pytest.raises(DragomanError, match="without its end"):
                read(f"one {begin} no".encode(), READING)


@pytest.mark.parametrize("name", [*BREAKS, "\\", "\\*", "\\[2pt]", "\\*[2pt]"])
def test_a_break_ends_a_text(name):
    assert sentences_of(f"one \\{name} two\\{name}* three".replace("]*", "]").replace("**", "*")) == [
        "one",
        "two",
        "three",
    ]
    assert (
        sentences_of("one & two")
        == sentences_of("one\n\ntwo")
        == sentences_of("one\r\n \r\ntwo")
        == sentences_of("one\r\rtwo")
        == ["one", "two"]
    )
    assert sentences_of("one\ntwo") == sentences_of("one\r\ntwo") == sentences_of("one\rtwo") == ["one two"]


ACCENTS = {"`": "\u0300", "'": "\u0301", "^": "\u0302", "~": "\u0303", "=": "\u0304", "u": "\u0306",
    ".": "\u0307", '"': "\u0308", "r": "\u030a", "H": "\u030b",
           "v": "\u030c", "c": "\u0327", "k": "\u0328"}  # fmt: skip
NAMED = {"ss": "ß", "ae": "æ", "AE": "Æ", "o": "ø", "O": "Ø", "aa": "å", "AA": "Å", "l": "ł", "L": "Ł",
    "oe": "œ", "OE": "Œ", "ldots": "…", "dots": "…",
         "textbackslash": "\\", "textasciitilde": "~", "textasciicircum": "^"}  # fmt: skip


@pytest.mark.parametrize("accent", ACCENTS)
def test_an_accent_and_its_letter_are_one_character(accent):
    for letter in ["e", "\\i", "\\j", "Z"]:
        expected = unicodedata.normalize("NFC", letter[-1] + ACCENTS[accent])
        forms = [f"\\{accent}{{{letter}}}", f"\\{accent} {letter}", f"\\{accent} {{ {letter} }}"]
        forms += [f"\\{accent}{letter}"] * (not accent.isalpha())
        for form in forms:
            assert sentences_of(f"one a{form} two") == [
                f"one a{expected}" + " " * (form[-1] not in "ij") + "two"
                if form[-1] not in "ij"
                else f"one a{expected} two"
            ]


@pytest.mark.parametrize("name", NAMED)
def test_a_command_for_a_letter_is_that_letter(name):
    assert sentences_of(f"one a\\{name}{{}}b") == [f"one a{NAMED[name]}b"]
    assert sentences_of(f"one a\\{name} b\\{name}.") == [f"one a{NAMED[name]}b{NAMED[name]}."]
    assert translate(f"one\\{name}{{}} two", lambda sentence: sentence + " x").startswith("one")


@pytest.mark.parametrize(
    ("source", "shown"),
    [("``", "“"), ("''", "”"), ("---", "—"), ("--", "–"), ("~", "\xa0"), (",,", "„"), ("\\{", "{"),
        ("\\}", "}"), ("\\%", "%"), ("\\$", "$"), ("\\&", "&"), ("\\#", "#"),
     ("\\_", "_"), ("\\,", "<g1/>"), ("\\ ", "<g1/>"), ("\\/", "<g1/>"), ("$no$", "<g1/>"),
     ("\\(no\\)", "<g1/>"), ("\\verb|no|", "<g1/>"), ("\\verb*+n{o+", "<g1/>"),
     ("\\lstinline!no!", "<g1/>"), ("\\lstinline[no]!no!", "<g1/>"), ("\\LaTeX", "<g1/>"),
     ("\\cite[no][no]{no}", "<g1/>"), ("\\no@no{no}[no]{no}", "<g1/>"),
     ("\\no*{no}", "<g1/>"), ("%no\n  ", "<g1/>"), ("{[}", "["), ("{*}", "*"), ("[", "["), ("]", "]"),
     ("\\let\\no=\\no", None), ("\\def\\no#1{no}", None)],
)  # fmt: skip
def test_a_sign_is_read_as_it_is_shown(source, shown):
    (sentence,) = sentences_of(f"one {source} two")
    if shown:
        assert re.sub(" *(?=<g1>)|(?<=/>) *(?=two)", "", re.sub(r"<g1/?>", "<g1/>", sentence)) == re.sub(
            "(?<=/>) *(?=two)", "", f"one {shown} two"
        )
    assert "no" not in sentence
    assert translate(f"one {source} two", words_changed("x")).count("no") == source.count("no")


@pytest.mark.parametrize("opening", ["\\[", "$$", "\\begin{equation}"])
def test_a_displayed_formula_ends_a_text(opening):
    closing = {"\\[": "\\]", "$$": "$$"}.get(opening, "\\end{equation}")
    text = f"one {opening} no = x \\text{{no}} {closing} two $no \\text{{no}}$ three"
    assert sentences_of(text) == ["one", "two <g1/> three"]
    assert "no" not in "".join(sentences_of("one $ no\n\ntwo"))


@pytest.mark.parametrize(
    "name", ["cite", "citep", "ref", "eqref", "cref", "Cref", "autoref", "url", "LaTeX", "TeX"]
)
def test_a_reference_is_a_word_of_its_sentence(name):
    assert sentences_of(f"One is three. \\{name}{{no}} has two.") == ["One is three.", "has two."]
    document = read(f"One is \\{name}{{a. B}} has two.".encode(), READING)
    assert [s.sentence for s in document.segments] == ["One is <g1/> has two."]


@pytest.mark.parametrize(
    ("new", "written"),
    [("\\", "\\textbackslash{}"), ("~", "\\textasciitilde{}"), ("^", "\\textasciicircum{}"), ("\xa0", "~"),
        ("a{b}%$&#_", "a\\{b\\}\\%\\$\\&\\#\\_"), ("[a]", "{[}a]"), ("*a", "{*}a"),
     (" [a", "{[}a"), ("a [b]", "a [b]"), ("a\n\nb\x01c", "a b c")],
)  # fmt: skip
def test_a_translation_has_no_commands(new, written):
    if new.strip():
        assert translate("\\item One\n", lambda _: new).strip() == f"\\item {written}"


@pytest.mark.parametrize("letter", ["a", "Z", "@", "*", "["])
def test_a_command_ends_before_a_letter(letter):
    assert (
        translate("So \\LaTeX{} is.", lambda _: f"x <g1/>{letter}")
        == f"x \\LaTeX{{}}{letter.replace('[', '[')}"
        or letter in "*["
    )
    assert (
        translate("So \\LaTeX is.", lambda _: f"x<g1/>{letter} y").replace("{", "").replace("}", "")
        == f"x\\LaTeX {letter} y"
    )
    written = translate("\\bfseries\nOne", lambda _: f"{letter}x").replace("{", "").replace("}", "")
    assert re.fullmatch(rf"\\bfseries\s+{re.escape(letter)}x", written)
    assert translate("So \\LaTeX is.", lambda _: "x<g1/>é y.") == "x\\LaTeXé y."


@pytest.mark.parametrize("command", ["catcode", "lccode", "DeclareActiveChar", "MakeShortVerb"])
def test_a_file_that_changes_characters_is_refused(command):
    with pytest.raises(DragomanError, match=command):
        read(f"\\{command}`|=13".encode(), READING)
    assert sentences_of(f"\\{command}s{{no}} one") == ["one"]


@pytest.mark.parametrize(
    "text", ["{a", "a}", "\\begin{a}b}", "{\\end{a}", "\\begin{a}\\begin{b}\\end{a}\\end{b}", "\\end{a}"]
)
def test_groups_and_environments_that_do_not_match_are_refused(text):
    with pytest.raises(DragomanError, match=r"a\.tex has"):
        read(text.encode(), READING)
