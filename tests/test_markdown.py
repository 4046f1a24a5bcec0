"""Markdown files come back with other texts in the same tree, as markdown-it-py reads it."""

import re

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from dragoman.documents.file import Reading
from dragoman.documents.markdown import read
from tests.document_laws import damaged, ends_in_a_sentence_or_a_document, repeated_part_takes_linear_time

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
@given(
    BLOCK,
    st.sampled_from(
        ["!!! note", '!!! danger "One two"', '??? tip inline end "One two"', "???+ x", '=== "One two"']
    ),
    st.sampled_from(["\n", "\n\n"]),
    st.sampled_from(["", "> ", "- "]),
    st.sampled_from(["x", "zwei Wörter"]),
)
def test_what_is_in_an_admonition_is_as_outside_of_it(block, head, end, around, word):
    # Blocks of HTML of several lines are kept in quotations, also those that are in lists there.
    around = "" if re.search(r"^[\s>*#\d.\-\[\]]*<", block, re.MULTILINE) else around
    block = "Six\n\n" + block

    def inside(text):
        admonition = indent(f"{head}{end}{text}", "", "    ")
        return indent(f"{admonition}\n\nlast", around, " " * len(around) if around == "- " else around)

    text = inside(block)
    change = words_changed(word)
    title = re.search('".*"', head)
    expected = inside(translate(block, change)).replace("last", word)
    if title:
        expected = expected.replace(head, head.replace("One", word).replace("two", word), 1)
    assert translate(text, change) == expected
    assert translate(text, lambda sentence: sentence) == text


@pytest.mark.parametrize(
    "kept",
    [
        "{% highlight x %}\n\none\n\n{% endhighlight %}", "{{< highlight go >}}\none\n{{< /highlight >}}",
        "{%- comment -%}\none\n{%- endcomment -%}", "import A from 'b'", 'export * from "b";',
        "*[HTML]: One two", "[[One two|three]]",
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", ["\n", "\n\n"])
def test_a_block_of_an_extension_stays(kept, end):
    text = f"Before.{end}{kept}{end}after"
    written = translate(text, str.upper)
    assert written.replace(" ", end) == text.replace("Before", "BEFORE").replace("after", "AFTER").replace(
        " ", end
    )


@pytest.mark.parametrize("around", ["", "> ", "- "])
@pytest.mark.parametrize("alert", ["[!NOTE]", "[!x-y]-", "[!TIP]+"])
@given(st.sampled_from(["", " One *two*"]), st.lists(st.sampled_from(["three", "four."]), max_size=2))
def test_the_title_of_an_alert_has_its_line(around, alert, title, lines):
    rest = "> " if around == "> " else " " * len(around)
    text = "\n".join([f"{around}{alert}{title}", *(rest + line for line in lines)])
    lines = [" ".join(lines)] * bool(lines)
    expected = "\n".join([f"{around}{alert}{title.upper()}", *(rest + line.upper() for line in lines)])
    assert translate(
        text, lambda sentence: re.sub(r"[a-z]+(?![^<]*>)", lambda word: word[0].upper(), sentence)
    ) == (expected)


@pytest.mark.parametrize(
    ("first", "rest"), [("", ""), ("> ", "> "), ("- ", "  "), ("> - ", ">   "), ("> > ", "> > ")]
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@given(
    st.sampled_from(
        [
            "`a\nb`",
            '[ONE](a\n"b")',
            "![a\nb](c)",
            "<b\nid=a>ONE</b>",
            "a <!-- b\nc -->",
            "$$a\nb$$",
            "{{ a\nb }}",
            "`a \nb`",
        ]
    ),
    st.sampled_from(["", "ONE "]),
)
def test_a_mark_over_two_lines_is_read_in_quotations_and_lists(first, rest, end, mark, before):
    text = indent(f"{before}{mark} ONE", first, rest).replace("\n", end)
    assert translate(text, lambda sentence: sentence.replace("ONE", "two")) == text.replace("ONE", "two")


@pytest.mark.parametrize("around", ["> ", "- ", "> - ", "1. > > "])
@pytest.mark.parametrize("block", ["<div>One <b>two</b></div>", "<!-- c --> One", "<p>One"])
def test_html_of_a_line_is_translated_in_quotations_and_lists(around, block):
    text = f"{around}{block}\n\nThree"
    assert translate(text, words_changed("x")) == re.sub("One|two|Three", "x", text)


@pytest.mark.parametrize("mark", [":", ":  ", "~\t"])
def test_a_definition_keeps_its_line(mark):
    text = f"Term\n{mark} one\n  two\n{mark} three\n"
    assert translate(text, str.upper) == f"TERM\n{mark} ONE TWO\n{mark} THREE\n"


@pytest.mark.long
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


@pytest.mark.short_form(4)
@pytest.mark.parametrize(
    "part",
    ["[", "](", "*", "a*", "**a ", "`", "<", "<a ", "&", "![", "[a](", "> ", "- ", "|a", "\n|-", "$a", "{{",
     "_a", "\\", "a\n", "- a\n", "[a]", "a  \n", "<b>", "~~"],
)  # fmt: skip
def test_the_time_is_linear(part):
    repeated_part_takes_linear_time(lambda raw: read(raw, READING), "[a]: b\n\n", part)


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


# ---- constructs one by one, which come back as they were with words in capitals around them

KEPT = (
    "$x_1$", "$$x$$", "$a \\$ b$", "{% if no %}", "{{ no.x }}", "{: .no}", "{#no}", "{.no x}", "[^no]",
    "[!NOTE]", "[!no]", ":no_x:", ":no-1+:", "`no`", "``n`o``",
    "![no](no.png)", "![no][r]", "<https://no.org>", "<kbd>no</kbd>", "<code>no <b>no</b></code>",
    "<var>no</var>", "<!-- no -->", "<img alt='no'>", "<https://no.org/>",
    "https://no.org/a_b", "@no", "<wbr>", "<span/>", "<samp>no</samp>",
)  # fmt: skip
PAIRS = (
    "*{}*",
    "_{}_",
    "**{}**",
    "__{}__",
    "~~{}~~",
    "***{}***",
    "[{}](no)",
    "[{}](no 'no')",
    "[{}][r]",
    "<b>{}</b>",
    "<a href='no'>{}</a>",
    "**[{}](no)**",
)
PLAIN_TEXTS = (
    "\\*",
    "a_b",
    "5 * 6",
    "$5",
    "1 $ 2",
    "a $ b $ c",
    "[x",
    "a]",
    "{ a }",
    "a: b:",
    "&amp;",
    "10.",
    "~",
    "a*",
    "&copy;",
    "\\[x\\]",
    "a | b",
    "$5 and $6",
    "$5-$6",
)


@pytest.mark.parametrize("kept", KEPT)
def test_what_is_kept_is_a_mark(kept):
    text = f"One {kept} two.\n\n[r]: no\n"
    (sentence,) = sentences_of(text)
    assert re.fullmatch(r"One <g1/?> two\.", sentence)
    assert (
        translate(text, str.upper) == text.replace("One", "ONE").replace("two", "TWO")
        or "G1" in sentence.upper()
    )
    assert translate(text, words_changed("x")) == f"x {kept} x.\n\n[r]: no\n"


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("inside", ["two", "two `no` three", "two. Four"])
def test_a_pair_of_marks_stands_around_its_words(pair, inside):
    text = f"One {pair.format(inside)} five.\n\n[r]: no\n"
    written = translate(text, words_changed("x"))
    expected = re.sub("One|two|three|Four|five", "x", text)
    assert written == expected
    assert "no" not in "".join(sentences_of(text))
    assert "<g1>" in sentences_of(text)[0]
    assert re.match("One (<g1>)?<g[12]>two", sentences_of(text)[0])


@pytest.mark.parametrize("text", PLAIN_TEXTS)
def test_what_marks_nothing_is_text(text):
    (sentence,) = sentences_of(f"One {text} two")
    (paragraph,) = (token for token in ORACLE.parse(f"One {text} two") if token.type == "inline")
    assert sentence == "".join(child.content for child in paragraph.children)


@pytest.mark.parametrize("tag", ["<br>", "<br/>", "<BR />", "  \n", "\\\n"])
def test_a_hard_break_ends_a_sentence(tag):
    assert sentences_of(f"one{tag}two") == ["one", "two"]
    assert translate(f"one{tag}two", str.upper) == f"ONE{tag}TWO"
    assert sentences_of("one \n two\tthree\x01four") == ["one two three", "four"]


FORMS = ["{}", "- {}", "> {}", "## {}", "1) {}", "- [X] {}", "| {} |\n|---|\n", "{}\n===", "{} [no](no)"]
FORMS += ["**{}** no", "_{}_ no"]


@pytest.mark.parametrize(
    "text",
    [
        "*a*", "_a_", "a _b_", "_a", "a_", "a_b", "`a`", "[a]", "[a](b)", "~~a~~", "$a$", "\\a", "<b>",
        "</b>", "<!-- a", "<?a", "&amp;", "&#38;", "&#x26;", "a <", "# a", "#",
        "a #", "a ##", "- a", "+ a", "> a", "= a", "===", "| a", ": a", "1. a", "123456789) a", "12.",
        "1) a", "1.5 a", "- ", "---", "***", "a | b", "![a](b)", "  a", "    a",
    ],
)  # fmt: skip
def test_no_text_becomes_markup(text):
    for form in FORMS:
        source = form.format("Word")
        document = read(source.encode(), READING)
        written = document.write(
            [
                document.segments[0].sentence.replace("Word", text),
                *[s.sentence for s in document.segments[1:]],
            ]
        ).decode()
        assert tree(written) == tree(source)
        shown = "".join(child.content for token in ORACLE.parse(written) for child in token.children or [])
        assert re.sub(r"\s", "", shown).replace("no", "").replace("[X]", "") == re.sub(r"\s", "", text)


@pytest.mark.parametrize("word", ["zu lang", "a|b"])
def test_a_link_that_is_known_by_its_text_has_its_label(word):
    definitions = "\n\n[One two]: a\n[One]: b\n[x *y*]: c\n"
    for link, changed in (
        ("[One two]", f"[{word}][One two]"),
        ("[One two][]", f"[{word}][One two]"),
        ("[one *two*](b)", None),
        ("[One\ntwo]", f"[{word}][One two]"),
    ):
        written = translate(
            f"So {link} is.{definitions}", lambda sentence: re.sub(r">[^<]+<", f">{word}<", sentence, count=1)
        )
        if changed:
            assert written == f"So {changed} is.{definitions}"
        assert (
            tree(written)[1][5]
            == [("link_close", "", "{}"), ("link_open", "", str({"href": "b" if changed is None else "a"}))]
            or changed is None
        )
    assert translate(f"[One two]{definitions}", lambda _: word) == f"[{word}][One two]{definitions}"
    assert (
        translate(f"[One two] [One] so{definitions}", words_changed("x"))
        == f"[x x][One two] [x][One] x{definitions}"
    )
    assert translate("A [One. Two] b\n\n[One. Two]: c\n", words_changed("x")).endswith("\n\n[One. Two]: c\n")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_tables_fences_and_notes_have_their_cells_and_lines(end):
    text = (
        "| One | `no|` b\\|c | |\n|---|:-:|---|\n| two | | three *four* |\nfive | six\n\n"
        "> | seven |\n> |---|\n> | eight |\n\n- a\n\n  nine | ten\n  --|--\n  b | c\n\n"
        "> six\\|seven | eight |\n> --|--\n> ten | a\n> | b\n\n1. > one|two\n   > -|-\n   > a\\|b|c\n\n"
        ":::no\neleven\n:::\n\n[^no]: twelve a\n\n<div>no\n</div>\n\n"
        "> <p>kept\n> </p>\n\n<p>fourteen</p>\n\nfifteen\n---\n\n# sixteen ##\n\n## C# a #b ##\n"
    ).replace("\n", end).replace("`no|`", "`no`")  # fmt: skip
    text = text.replace("<div>no", "<div>seventeen")
    document = read(text.encode(), READING)
    assert document.write([segment.sentence for segment in document.segments]) == text.encode()
    written = translate(
        text,
        lambda sentence: re.sub(
            r"<[^>]*>|[^<]+", lambda match: match[0] if match[0][0] == "<" else match[0].upper(), sentence
        ),
    )
    assert written == re.sub(r"(no|:::|kept|<[^>]*>)|[a-z]", lambda match: match[1] or match[0].upper(), text)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("---\ntitle: One\n---\n", ["One"]), ("+++\ntitle = \"One\"\n+++\n", ["One"]),
        ("---\ndescription: 'It''s'\n---", ["It's"]), ("---\ntitle: One # no\n---\n", ["One"]),
        ("---\ntitle: One\n  two\n---\n", []), ("---\ntitle: |\n  no\n---\n", []),
        ("---\ntitle: >-\n  no\n---\n", []), ("---\ntitle: [no]\n---\n", []),
        ("---\ntitle: {no: no}\n---\n", []),
        ("---\ntitle: &a no\n---\n", []), ("---\ntitle: *no\n---\n", []), ("---\ntitle: !x no\n---\n", []),
        ("---\nsubtitle: no\n title: no\ntitles: no\n---\n", []), ("---\ntitle: 12\n---\n", []),
        ('---\ntitle: "a \\\\ b \\" c"\n---\n', ['a \\ b " c']), ('---\ntitle: "a \\n b"\n---\n', []),
        ("\ufeff---\r\ntitle: One\r\n---\r\nTwo", ["One", "Two"]),
        ("---\ntitle: One. Two\n---\n", ["One. Two"]),
        ("---\ntitle: One {{ no }}\n---\n", []), ("--- \ntitle: 'a \\\\ b'\n--- \n", ["a \\\\ b"]),
        ('---\ntitle: "a\'\'b"\n---\n', ["a''b"]), ("+++\ntitle: no\n---\n", None),
    ],
)  # fmt: skip
def test_the_front_matter_has_a_title_and_a_description(text, sentences):
    if sentences is None:
        assert sentences_of(text) != []
        return
    assert sentences_of(text) == sentences
    written = translate(text, lambda sentence: f'{sentence} "x" \\ y')
    if sentences and text.startswith("---") and "#" not in text:
        head = yaml.safe_load(re.split(r"\r?\n--- ?", text.removeprefix("\ufeff"))[0].removeprefix("---"))
        new = yaml.safe_load(re.split(r"\r?\n--- ?", written.removeprefix("\ufeff"))[0].removeprefix("---"))
        assert new == {key: f'{value} "x" \\ y' for key, value in head.items()}
