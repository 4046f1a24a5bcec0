"""Random files of program texts, whose texts come back in capitals, and whose other parts stay.

Other readers judge: Fluent's own parser, PyYAML, json, csv and lxml; or each part of a text says what becomes
of it.
"""

import csv
import io
import json
import re
from functools import partial

import pytest
import yaml
from fluent.syntax import ast, parse
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.documents.file import Reading
from dragoman.documents.read import READERS
from dragoman.system.errors import DragomanError
from tests.document_laws import in_capitals


def translate(file_format, text, **options):
    """A file in capitals, whose lines are not cut into sentences."""
    reading = Reading("a.file", "en", "de", **{"split": False, **options})
    content = text if isinstance(text, bytes) else text.encode()
    written = in_capitals(lambda raw: READERS[file_format](raw, reading), content)
    return written if isinstance(text, bytes) else written.decode()


def texts_of(pairs):
    """A text of parts that each say what becomes of them, and what becomes of it. Words stand around it."""
    return st.lists(st.sampled_from(pairs), max_size=5).map(
        lambda parts: tuple(
            " ".join(["one", *(part if isinstance(part, str) else part[side] for part in parts), "two"])
            if side == 0
            else " ".join(
                ["ONE", *(part.upper() if isinstance(part, str) else part[1] for part in parts), "TWO"]
            )
            for side in (0, 1)
        )
    )


def kept(*texts):
    return [(text, text) for text in texts]


PLACES = kept("{name}", "%s", "%1$d", "%name%", "{{ name }}", "https://x.org/a", "<!-- no -->",
              "<var>no</var>", "<code>no</code>", "<kbd>no</kbd>", "<samp>no</samp>", "<script>no</script>",
              "<style>no</style>")  # fmt: skip
TAGS = [("<b>bold</b>", "<b>BOLD</b>"), ("a<br>line", "A<br>LINE"), ("a <p>line</p> b", "A <p>LINE</p> B")]


# ---- values that are no text


@pytest.mark.parametrize(
    "value",
    [
        "ltr", "rtl", "12", "%Y-%m-%d", "%-d. %-m.", "yy", "yyyy", "M/d/yyyy", "MMM d", "EEEE, MMMM dd",
        "HH:mm:ss", "H:mm", "HH mm ss", "H h hh", "yy MM dd", "d M yyyy", "EEEE MMM", "EEE dd MMMM",
        "%-d %B", "icon_name", "a\\b", "#ff00aa", "/path", "a/b/c", "a.png",
        "org.x.Main", "a:b", ":symbol", ".class", "$x", "@name", "0123abcd-0123-4567", "{name}", "%s %d",
    ],
)  # fmt: skip
def test_a_value_that_is_no_text_stays(value):
    for text in (value, f" {value} "):
        content = json.dumps({"k": text}) + "\n"
        assert translate("json", content) == content
    assert json.loads(translate("json", json.dumps([f"{value} word"])))[0].endswith(" WORD")


@pytest.mark.parametrize("value", ["Yes/No", "one", "it's", "well-known", "One.", "a b_c", "é_a", "left"])
def test_a_value_that_is_a_text_is_translated(value):
    assert json.loads(translate("json", json.dumps([value]))) == [value.upper()]


# ---- JSON and the messages of ICU


JSON_PIECES = [
    "word", "é", "😀", *PLACES, *TAGS, ("<1>bold</1>", "<1>BOLD</1>"), ("a<2/>b", "A<2/>B"),
    *kept("$t(no.key, {x})", "$name_1@x$", "$1", "\\", '"', "\n", "\t", "@:no.key",
          "@.lower:no", ":name", "|"),
]  # fmt: skip
JSON_TEXT = texts_of(JSON_PIECES)
JSON_VALUE = st.recursive(
    st.sampled_from([(value, value) for value in (None, True, -1, 2.5e-3, "", "12")]) | JSON_TEXT,
    lambda inner: (
        st.lists(inner, max_size=3).map(
            lambda pairs: tuple([pair[side] for pair in pairs] for side in (0, 1))
        )
        | st.dictionaries(st.sampled_from(["a", "b", "message x", "\\ü"]), inner, max_size=3).map(
            lambda pairs: tuple({key: pair[side] for key, pair in pairs.items()} for side in (0, 1))
        )
    ),
    max_leaves=6,
)


@settings(max_examples=50)
@given(JSON_VALUE, st.sampled_from([None, 1, "\t"]), st.booleans(), st.booleans())
def test_only_texts_of_json_change(value, indent, is_ascii, is_capital):
    """Escapes may have capitals, and a bar may be escaped."""
    text = json.dumps(value[0], indent=indent, ensure_ascii=is_ascii)
    if is_capital:
        text = re.sub(r"\\u(\w{4})", lambda match: f"\\u{match[1].upper()}", text).replace("/", "\\/")
    assert json.loads(translate("json", text)) == value[1]
    assert not is_ascii or translate("json", text).isascii()


@settings(max_examples=30)
@given(st.lists(st.sampled_from(["{", "}", "[", "]", ",", ":", '"a"', "1", "-1", "null", " "]), max_size=8))
def test_a_file_is_json_if_another_reader_says_so(tokens):
    text = "".join(tokens)
    try:
        json.loads(text)
    except ValueError:
        with pytest.raises(DragomanError, match=r"a\.file, line 1"):
            translate("json", text)
    else:
        assert translate("json", text).lower() == text


@given(st.text('aé1"\\/bfnrtuUdDcC89', max_size=8))
@example("\\ud83d\\ude00")
@example("\\UD83D")
@example("\\uD83D\\uDE00 \\uDaaa\\uDfff")
def test_a_string_of_json_is_read_as_another_reader_reads_it(inside):
    text = f'["word {inside} word"]'
    try:
        (value,) = json.loads(text)
    except ValueError:
        with pytest.raises(DragomanError):
            translate("json", text)
        return
    reading = Reading("a.file", "en", "de", split=False)
    read = READERS["json"](text.encode(), reading)
    sentences = " ".join(segment.sentence for segment in read.segments)
    blanks = r"[\s\x00-\x1f\x7f-\x9f]+"
    assert re.sub(blanks, " ", sentences) == re.sub(blanks, " ", value)


ARGUMENTS = kept("{x}", "{ x , number }", "{d, date, ::yMMMd}", "'{no}'", "'{no'}'")


def message(depth):
    """A message of ICU, and the same in capitals; in a branch # is a number."""
    words = texts_of(["word", "é", *ARGUMENTS[:4], *(kept("#") if depth < 2 else [])])
    if not depth:
        return words
    branch = st.tuples(st.sampled_from(["one", "=0", "=12", "other", "few-er", "male"]), message(depth - 1))
    kind = st.sampled_from(
        [
            "{n, plural,",
            "{ n ,selectordinal ,",
            "{a.b-c,select,",
            "{n, plural, offset:1 ",
            "{n,plural,offset: 2 ",
        ]
    )
    return st.tuples(words, kind, st.lists(branch, min_size=1, max_size=3), words).map(
        lambda parts: tuple(
            parts[0][side] + parts[1] + " ".join(f"{key}{{{text[side]}}}" for key, text in parts[2])
            + " }" + parts[3][side]
            for side in (0, 1)
        )
    )  # fmt: skip


@settings(max_examples=40)
@given(message(2) | message(1), st.sampled_from(["json", "yaml", "properties"]))
def test_only_texts_in_branches_of_a_message_change(pair, file_format):
    source, expected = pair
    write = {"json": '{{"k": "{}"}}\n', "yaml": 'k: "{}"\n', "properties": "k={}\n"}[file_format]
    text = write.format(source)
    assert translate(file_format, text) == write.format(expected)


@pytest.mark.parametrize(
    "damaged", ["{n, plural, one {a}", "{n, plural, one {a} other {b}}}", "x {n, select, a} y",
                "{n, plural, one {a {b} other {c}}"]
)  # fmt: skip
def test_a_message_that_is_not_well_formed_stays(damaged):
    text = json.dumps({"k": damaged})
    assert translate("json", text) == text


def test_a_number_sign_and_braces_of_a_translation_are_text_in_a_branch():
    file = READERS["json"](
        b'{"k": "{n, plural, other {one}}", "l": "{x} one", "m": "one"}', Reading("a", "en", "de")
    )
    texts = ["a # {b} it's", "c # {d} it's", "e # {f} it's"]
    assert list(json.loads(file.write(texts)).values()) == [
        "{n, plural, other {a ＃ (b) it’s}}", "{x} c # (d) it’s", "e # {f} it's",
    ]  # fmt: skip


@pytest.mark.parametrize("place", [0, 1, 2])
def test_chrome_has_messages_descriptions_and_placeholders_alone(place):
    """With any other key a file is one of texts."""
    inside = [
        '"message": "one"',
        '"description": "one"',
        '"placeholders": {"message": {"message": "one", "content": "one"}}',
    ]
    text = f'{{"a": {{{", ".join(inside)}}}}}'
    assert translate("json", text) == text.replace("one", "ONE", 1)
    other = text.replace(
        ['message": "one", "d', "description", "placeholders"][place],
        ['text": "one", "d', "more", "ends"][place],
        1,
    )
    assert translate("json", other) == other.replace("one", "ONE")


# ---- properties


def properties_of(text):
    """Keys and values by the definition of `java.util.Properties.load`, and the comments."""
    lines = re.split(r"\r\n|\r|\n", text)
    pairs, comments, place = [], [], 0
    while place < len(lines):
        line = lines[place].lstrip(" \t\f")
        place += 1
        if not line:
            continue
        if line[0] in "#!":
            comments.append(line)
            continue
        while re.search(r"(?<!\\)(?:\\\\)*\\\Z", line) and place < len(lines):
            line = line[:-1] + lines[place].lstrip(" \t\f")
            place += 1
        match = re.match(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", line, re.DOTALL)
        pairs.append(tuple(unescaped(part) for part in match.groups()))
    return pairs, comments


def unescaped(text):
    names = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
    text = re.sub(
        r"\\(?:u(\w{4})|(.))",
        lambda match: chr(int(match[1], 16)) if match[1] else names.get(match[2], match[2]),
        text,
        flags=re.DOTALL,
    )
    return text.encode("utf-16", "surrogatepass").decode("utf-16")


PROPERTY = texts_of(["word", "\\u00e9a", "\\uD83D\\ude00", "\\\n \t more", "\\\r\nmore", "\\=", "é:", "\\f",
    "\\t", "\\n",
                     "\\r", "\\\\", "#", "!", "\\a", "{0}", "{1,number,#.#}", "{0,choice,0#no|1#no {0} no}",
                     "%s"])  # fmt: skip


@settings(max_examples=30)
@given(
    st.lists(
        st.one_of(
            st.tuples(
                st.sampled_from(["k", "a.b", "a\\ b", "a\\:b", "\\#", "é"]),
                st.sampled_from([" = ", "=", ":", " : ", " ", "\t", "\f=\f"]),
                PROPERTY,
            ),
            st.sampled_from(["# no", "! no", "  # no = no", "", " \t", "k", "k=", "k=org.x.Main"]),
        ),
        max_size=5,
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_only_values_of_properties_change(lines, end):
    parts = [line if isinstance(line, str) else line[0] + line[1] + line[2][0] for line in lines]
    text = end.join(re.sub(r"\\\r?\n", f"\\\\{end}", part) for part in parts)
    before, after = properties_of(text), properties_of(translate("properties", text))
    assert after[1] == before[1]
    places = r"\{0,choice.*?no\}|\{[^{}]*\}|%s|org\.x\.Main"
    assert after[0] == [
        (key, re.sub(rf"({places})|.", lambda match: match[1] or match[0].upper(), value, flags=re.DOTALL))
        for key, value in before[0]
    ]


@pytest.mark.parametrize(
    ("encoding", "written"), [("ascii", "\\u00e9\\u20ac"), ("latin-1", "é\\u20ac"), ("utf-8", "é€")]
)
def test_characters_that_an_encoding_lacks_are_escapes(encoding, written):
    content = ("k=one\n" + {"ascii": "", "latin-1": "# ü", "utf-8": "# ü"}[encoding]).encode(encoding)
    file = READERS["properties"](content, Reading("a", "en", "de"))
    assert file.write(["é€"]).decode(encoding).startswith(f"k={written}\n")
    with pytest.raises(DragomanError):
        READERS["properties"](b"k=\0\xff", Reading("a", "en", "de"))


# ---- YAML


def yaml_lines(pair, style, depth):
    """A value in a style, with what stands behind its key; and its value in capitals."""
    words = pair[0].split(" ")
    pad = "  " * depth
    broken = f"\n{pad}".join(" ".join(words[start : start + 3]) for start in range(0, len(words), 3))
    if style[:1] in {"|", ">"}:
        return f"{style}\n{pad}{broken}\n"
    if style == "'":
        return "'" + pair[0].replace("'", "''") + "'  # no\n"
    if style == '"':
        return json.dumps(pair[0], ensure_ascii=False) + "\n"
    return f"{pair[0]} # no\n"


YAML_TEXT = texts_of(
    ["word", "it's", "é", "a:b", "c#d", *kept("%{name}", "{{x}}", "<code>no</code>"), *TAGS[:1]]
)
STYLES = ["", "'", '"', "|", "|-", "|+", ">", ">-", "> # no", "|2-"]
OTHERS = ["1", "1.5", "true", "no", "null", "~", "2020-01-01", "*anchor", "[1, 2]", "{}", "!x no", "", ":sym"]


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.sampled_from(STYLES), YAML_TEXT) | st.tuples(st.just(None), st.sampled_from(OTHERS)),
        max_size=5,
    ),
    st.sampled_from(["", "en", "en-US", '"en"', "fr"]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.booleans(),
)
def test_only_texts_of_yaml_change_and_their_styles_stay(values, root, newline, is_list, has_another_root):
    depth = 2 if root else 1
    pad = "  " * (depth - 1)
    text = f"# no\n{root + ':' * bool(root)}\n{pad}a: &anchor one two\n"
    for number, (style, value) in enumerate(values):
        indent = depth + (1 if is_list else 0)
        inside = f"{value}\n" if style is None else yaml_lines(value, style, indent)
        head = f"k{number}:\n{pad}  - " if is_list else f"k{number}: "
        text += f"{pad}{head}{inside}"
    text = (text + "it:\n  a: one\n" * has_another_root).replace("\n", newline)
    written = translate("yaml", text)
    loader = partial(yaml.load, Loader=Loader)
    expected = capitals_of(loader(text))
    if root.strip('"').startswith("en") and not has_another_root:
        expected = {"de": expected.pop(root.strip('"'))}
    assert loader(written) == expected
    styles = [style.replace(">", "|") for style in styles_of(text)]
    assert [
        written for style, written in zip(styles, styles_of(written), strict=True) if written != style
    ] == []
    assert re.findall("# no", written) == re.findall("# no", text)
    assert not re.search(r"(?<!\r)\n", written) or newline == "\n"


class Loader(yaml.SafeLoader):
    """It also reads tags that it does not know."""


Loader.add_constructor("!x", lambda loader, node: f"{{{node.value}}}")


def capitals_of(value):
    if isinstance(value, dict):
        return {key: capitals_of(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return list(map(capitals_of, value))
    places = r"%\{name\}|\{\{x\}\}|<code>no</code>|\{no\}|</?b>|:sym"
    return (
        re.sub(rf"({places})|.", lambda match: match[1] or match[0].upper(), value)
        if isinstance(value, str)
        else value
    )


def styles_of(text):
    """The styles of the values; one in quotation marks that need not be there is plain."""
    events = [event for event in yaml.parse(text) if isinstance(event, yaml.ScalarEvent)]
    return [
        "" if re.search(r"[{}]|:\S|#", event.value) and event.style == '"' else event.style or ""
        for event in events
    ]


# ---- Android, Apple, .NET


ANDROID_TEXT = texts_of([
    "word", "é", *kept("\\n", "\\t", "\\'", "\\\"", "&amp;", "%1$s", "\"", "\\\\"),
    ("\\u00e9", "É"), ("&#233;", "É"), ("a\\u0020b", "A B"), TAGS[0],
    ("<br/>", "<br/>"), ("a<br />b", "A<br />B"),
    *kept('<xliff:g id="x">no <b>no</b></xliff:g>', '<q:g>no</q:g>', "<g>no</g>", '<b translate="no">no</b>'),
    ("<![CDATA[one <b>two</b><br>three\\n<p>four</p>]]>",
        "<![CDATA[ONE <b>TWO</b><br>THREE\\n<p>FOUR</p>]]>"),
])  # fmt: skip
ANDROID_HEAD = '<resources xmlns:xliff="x" xmlns:q="x">'


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [
                    "string",
                    "plurals/item",
                    "string-array/item",
                    "array/item",
                    "integer-array/item",
                    "color",
                    "item",
                ]
            ),
            st.sampled_from(["", ' translatable="false"', ' translatable="true"', ' translate="no"']),
            st.sampled_from(["", "", ' translatable="false"']),
            ANDROID_TEXT
            | st.sampled_from(
                kept("@string/no", "?attr/no", "@+id/no", "@android:string/ok", "#ff00aa", "12")
            ),
        ),
        max_size=5,
    )
)
def test_only_strings_of_android_change(elements):
    texts = []
    for side in (0, 1):
        parts = []
        for kind, outer, inner, text in elements:
            name, _, item = kind.partition("/")
            is_text = kind in {"string", "plurals/item", "string-array/item"} and not re.search(
                '"(?:false|no)"', outer
            )
            is_text = is_text and not (item and inner)
            content = text[side if is_text else 0]
            inside = f"<item{inner}>{content}</item>" if item else content
            parts.append(f'<{name} name="a"{outer}>{inside}</{name}>\n')
        texts.append(f'{ANDROID_HEAD}<string name="x">one</string><!-- no -->{"".join(parts)}</resources>')
    assert translate("xml", texts[0]) == texts[1].replace('"x">one<', '"x">ONE<')


@pytest.mark.parametrize(
    ("text", "written"),
    [("a  b   c", "a \\u0020b \\u0020\\u0020c"), ("@me", "\\@me"), (" ?me", "\\?me"), ("a@b", "a@b"),
        ("a\rb", "a b"),
     ("a\nb\tc", "a\\nb\\tc"), ("it's \"x\" \\", "it\\'s \\\"x\\\" \\\\"), ("<&>", "&lt;&amp;&gt;")],
)  # fmt: skip
def test_a_text_of_android_is_escaped(text, written):
    file = READERS["android"](
        b'<resources><string name="a">one</string></resources>', Reading("a", "en", "de")
    )
    assert re.search(">([^>]*)</string>", file.write([text]).decode())[1].strip() == written


@pytest.mark.parametrize("name", ["string", "plurals", "string-array"])
def test_a_file_with_one_kind_of_texts_is_one_of_android(name):
    inside = "one &#233;x" if name == "string" else "<item>one &#233;x</item>"
    text = f'<?xml version="1.0"?><!-- no --><resources><{name} name="a">{inside}</{name}></resources>'
    assert translate("xml", text) == text.replace("one", "ONE").replace("&#233;x", "ÉX")
    other = text.replace("resources", "doc")
    assert "ONE" in translate("xml", other)


APPLE_TEXT = texts_of([
    "word", "é", *kept("\\n", "\\t", "\\\"", "\\\\", "%@", "%1$@", "\\r", "\\a", "\\b", "\\f", "\\v"),
    ("\\u00e9", "É"), ("\\U00e9", "É"), ("\\101b", "AB"), ("\\'x", "'X"), *TAGS,
])  # fmt: skip
SPACE = st.sampled_from(["", " ", "\n", "/* no */", "// no\n", '/* no * " = ; */', "\r\n\t"])


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(
            SPACE, st.sampled_from(['"k"', '"k \\" ="', "k ", "k.a-b/c:d$e_1 "]), SPACE,
            APPLE_TEXT | st.sampled_from([None, ("a.b", "a.b"), ("no_value", "no_value")]), SPACE,
        ),
        max_size=5,
    ),
    SPACE,
)  # fmt: skip
def test_only_values_of_apple_change(pairs, end):
    texts = []
    for side in (0, 1):
        text = ""
        for before, key, space, value, behind in pairs:
            word = value is not None and value[side] == "no_value"
            inside = (
                ""
                if value is None
                else f"={space}{value[side] + ' ' if word else f'{chr(34)}{value[side]}{chr(34)}'}{behind}"
            )
            text += f"{before}{key}{space}{inside};"
        texts.append(text + end)
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        written = translate("strings", texts[0].encode(encoding)).decode(encoding)
        assert named_escapes(written) == named_escapes(texts[1])


def named_escapes(text):
    """A text of Apple whose characters without a name of their own are escapes in one form."""
    names = {"a": 7, "b": 8, "f": 12, "v": 11}
    return re.sub(r"(\\\\)|\\([abfv])", lambda match: match[1] or f"\\U{names[match[2]]:04x}", text)


RESX_TEXT = texts_of(
    ["word", "é", *kept("{0}", "%s", "&amp;", "&lt;code&gt;", "12"), ("&#233;", "É"), *TAGS[:1]]
)


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["data", "metadata", "resheader", "assembly"]),
            st.sampled_from(['name="a"', 'name="a" type="x"', 'name="a" mimetype="x"', 'name=">>a"',
                'name="&gt;a"']),
            RESX_TEXT | st.sampled_from(kept("a.b", "")),
            st.sampled_from(["<value>{}</value>", "<comment>one</comment>\n<value>{}</value>",
                "<value>{}</value><comment>one</comment>",
                             "<value>one: a\n{}</value>", "<comment>one</comment>"]),
        ),
        max_size=4,
    )
)  # fmt: skip
def test_only_values_of_net_change(elements):
    texts = []
    for side in (0, 1):
        parts = []
        for name, attributes, text, some_form in elements:
            form = some_form if text[0] != "a.b" else "<value>{}</value>"
            is_text = name == "data" and attributes in {'name="a"', 'name="&gt;a"'} and "<value>" in form
            content = form.format(text[side if is_text else 0])
            if is_text and side:
                content = content.replace("one: a", "ONE: A")
            parts.append(f"<{name} {attributes}>{content}</{name}>\n")
        texts.append(f"<root>\n<!-- one -->{''.join(parts)}</root>")
    assert translate("resx", texts[0]) == texts[1]


# ---- tables


TABLE_TEXT = texts_of(["word", "é", 'say "x"', "a,b", "a;b", "a|b", "a\tb", *kept("%s"), *TAGS])


@settings(max_examples=30)
@given(
    st.sampled_from(",;\t|"),
    st.permutations(["source", "target", "x", "key"]),
    st.sampled_from([("Source", "target"), ("en", "translation"), ("en_US", "de-AT"), ("source", "DE"),
        ('EN', " de ")]),
    st.sampled_from(["x", "a, b", "a;b;c;d;e", 'say "source",target', "a|b\tc", "one\ntwo", '5" x']),
    st.lists(
        st.tuples(
            TABLE_TEXT | st.sampled_from(kept("a.b", "12", "")),
            st.sampled_from(["", " ", "Da"]),
            st.integers(1, 4),
            st.booleans(),
        ),
        max_size=4,
    ),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["\n", "\r\n", "\r\n\r\n"]),
    st.booleans(),
)  # fmt: skip
def test_only_empty_cells_of_the_column_of_translations_change(
    delimiter, columns, names, other, entries, quoting, end, everything
):
    """A row may end before its translation, and the name of a column may contain delimiters."""
    source, target = columns.index("source"), columns.index("target")
    named = {**dict(zip(("source", "target"), names, strict=True)), "x": other}
    header = [named.get(name, name) for name in columns]
    quoting = csv.QUOTE_ALL if other.count(";") > 3 else quoting  # or else nobody could tell the delimiter
    rows, expected = [header], [header]
    for text, translation, length, _ in entries:
        row = ["one"] * 4
        row[source], row[target] = text[0].replace("\n", " "), translation
        if target >= length > source and length > 1:
            row = row[:length]
        rows.append(row)
        filled = [*row, *[""] * 4][: max(len(row), target + 1)]
        is_text = any(map(str.isalpha, text[0])) and text[0] != "a.b" and len(row) > source
        if is_text and (everything or not filled[target].strip()):
            filled[target] = text[1]
            expected.append(filled)
        else:
            expected.append(row)
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=end).writerows(rows)
    text = file.getvalue()
    written = translate("table", text, everything=everything)
    found = [row for row in csv.reader(io.StringIO(written, newline=""), delimiter=delimiter) if row]
    assert found == expected
    assert translate("table", "\ufeff" + text, everything=everything) == "\ufeff" + written


@pytest.mark.parametrize("text", [" one ", "one;", "one", ' "one"'])
def test_a_cell_is_in_quotation_marks_where_it_has_to_be_or_its_source_is(text):
    file = READERS["table"](b'en;de\nword;\n"word";\n', Reading("a", "en", "de"))
    first, second = file.write([text, text]).decode().splitlines()[1:]
    assert next(csv.reader([first], delimiter=";"))[1] == next(csv.reader([second], delimiter=";"))[1] == text
    assert second.partition(";")[2].startswith('"')
    assert first.partition(";")[2].startswith('"') == (text != "one")


def test_a_quotation_mark_is_a_character_where_tabs_divide_cells():
    assert translate("table", 'en\tde\n"one\t\n') == 'en\tde\n"one\t"""ONE"\n'
    with pytest.raises(DragomanError, match="line 2: a cell begins"):
        translate("table", 'en,de\n"one,\n')


@pytest.mark.parametrize("header", ["en,en", "source,source", "a,de", "en,a", "e_n,de"])
def test_a_header_names_two_columns(header):
    with pytest.raises(DragomanError, match="add it"):
        translate("table", f"{header}\none,\n", everything=True)


# ---- Fluent

KEPT_ATTRIBUTES = ("accesskey", "key", "keycode", "commandkey", "style", "href", "src", "width", "height")
TEXT_ATTRIBUTES = ("label", "title", "aria-label", "value", "placeholder", "tooltiptext", "alt", "Key2")


@pytest.mark.parametrize("name", KEPT_ATTRIBUTES + TEXT_ATTRIBUTES)
def test_attributes_that_are_no_text_are_kept(name):
    """These are keys to press, and what a style sheet or a program reads."""
    text = f"a = one\n    .{name} = two\n"
    written = text.replace("one", "ONE") if name in KEPT_ATTRIBUTES else f"a = ONE\n    .{name} = TWO\n"
    assert translate("fluent", text) == written


FLUENT_PLACES = ["{ $x }", "{-brand}", "{ a.label }", '{ "}" }', '{ "*" }', '{"[" }', '{ "." }',
    '{ "\\u00e9 }" }',
                 '{ NUMBER($n, style: "one", digits: 1) }', '{ -brand(case: "x{") }', "{ 1 }"]  # fmt: skip


def fluent_pattern(depth):
    """A pattern as it stands behind a sign of equality, or in a variant."""
    words = st.lists(
        st.sampled_from(["word", "é", "it's", "12", "\n        more", "\n\n        line", "\n  {-brand}",
            *FLUENT_PLACES]), max_size=4
    ).map(" ".join).map("one {}".format)  # fmt: skip
    if not depth:
        return words.map(lambda text: f"{text} end")
    keys = st.lists(st.sampled_from(["one", "0", "1.5", "few-x", "A_b"]), max_size=2)
    inside = st.lists(fluent_pattern(depth - 1), min_size=3, max_size=3)
    space = st.sampled_from(["", " "])
    return st.tuples(words, keys, inside, words, space, st.booleans()).map(
        lambda parts: (
            f"{parts[0]} {{{parts[4]}$n ->\n"
            + "".join(f"    [{parts[4]}{key}{parts[4]}]{parts[4]}{text}\n" for key,
                text in zip(parts[1], parts[2], strict=False))
            + f"   *[other] {parts[2][2]}\n" + "    " * parts[5] + f"}} {parts[3]}"
        )
    )  # fmt: skip


def flat(node, is_text):
    """A pattern as its texts and what stands between them."""
    if node is None:
        return None
    parts = []
    for element in node.elements:
        if isinstance(element, ast.TextElement):
            text = re.sub(r"\s*\n\s*\n\s*", "\0", element.value)
            text = re.sub(r"\s+", " ", text)
            parts.append(text.upper() if is_text else text)
        elif isinstance(element.expression, ast.StringLiteral) and element.expression.value in set("{}[*."):
            parts.append(element.expression.value)
        elif isinstance(element.expression, ast.SelectExpression):
            select = element.expression
            parts.append(str((repr_of(select.selector), [
                (repr_of(variant.key), variant.default, flat(variant.value, is_text))
                for variant in select.variants
            ])))  # fmt: skip
        else:
            parts.append(repr_of(element))
    return re.sub(r" *\0 *", "\0", re.sub(r" +", " ", "".join(parts)).strip())


def repr_of(node):
    return json.dumps(without_spans(node.to_json()), sort_keys=True)


def without_spans(value):
    if isinstance(value, dict):
        return {key: without_spans(inner) for key, inner in value.items() if key != "span"}
    return list(map(without_spans, value)) if isinstance(value, list) else value


def fluent_entries(text, is_text):
    """The entries that Fluent reads; the texts of messages in capitals."""
    result = []
    for entry in parse(text).body:
        if isinstance(entry, ast.Message):
            result.append((entry.id.name, flat(entry.value, is_text), [
                (attribute.id.name, flat(attribute.value, is_text
                    and attribute.id.name not in KEPT_ATTRIBUTES))
                for attribute in entry.attributes
            ]))  # fmt: skip
        elif isinstance(entry, ast.Term):
            attributes = [(attribute.id.name, flat(attribute.value, False)) for attribute in entry.attributes]
            result.append(("-" + entry.id.name, flat(entry.value, False), attributes))
        else:
            result.append(repr_of(entry) if not isinstance(entry, ast.Junk) else entry.content)
    return result


@pytest.mark.long
@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a = ", "Abc-1=", "b_c =\n    ", "-term = ", "# no = no\na = ", "a =", "junk "]),
            fluent_pattern(0) | fluent_pattern(1) | fluent_pattern(2),
            st.lists(st.tuples(st.sampled_from(["    .label = ", " .style = ", "  .title=", ".alt = ",
                "\n .label = ", "  .key =\n    "]), fluent_pattern(0) | fluent_pattern(1)), max_size=2),
            st.sampled_from(["\n", "\n\n", "\n\n\n## no\n\n"]),
        ),
        max_size=4,
    ),
    st.sampled_from(["\n", "\r\n"]),
)  # fmt: skip
def test_only_texts_of_fluent_change(entries, newline):
    text = "".join(
        name + value + "".join(f"\n{head}{attribute}" for head, attribute in attributes) + end
        for name, value, attributes, end in entries
    ).replace("\n", newline)
    before, after = (
        fluent_entries(content, is_text)
        for content, is_text in ((text, True), (translate("fluent", text), False))
    )
    assert after == before
