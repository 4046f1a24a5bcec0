"""The laws of all formats that keep the texts of programs, with other readers of these formats as judges."""

import contextlib
import csv
import io
import json
import re
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

import pytest
import yaml
from fluent.syntax import ast, parse
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.documents.file import Reading
from dragoman.documents.read import READERS
from dragoman.system.errors import DragomanError
from tests.document_laws import takes_linear_time


def read(file_format, content, **options):
    return READERS[file_format](content, Reading("a.file", "en", "de", **options))


# ---- the same texts in each format, and its reader


def json_file(texts):
    return json.dumps({f"k{n}": text for n, text in enumerate(texts)}, indent=1, ensure_ascii=False)


def properties(texts):
    names = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
    escaped = [re.sub(r"[\\\n\r\t\f]|^ ", lambda m: names.get(m[0], "\\ "), text) for text in texts]
    return "# Häder\n" + "".join(f"key.{n} = {text}\n" for n, text in enumerate(escaped))


def read_properties(content):
    lines = re.sub(r"(?<!\\)((?:\\\\)*)\\\n\s*", r"\1", content.decode()).split("\n")
    values = [line.partition("=")[2].lstrip(" \t\f") for line in lines if "=" in line and line[0] != "#"]
    names = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
    return [
        re.sub(
            r"\\(u....|.)",
            lambda m: chr(int(m[1][1:], 16)) if len(m[1]) > 1 else names.get(m[1], m[1]),
            value,
        )
        for value in values
    ]


def apple(texts):
    return "/* A */\n" + "".join(
        f'"k{n}" = {json.dumps(text, ensure_ascii=False)};\n' for n, text in enumerate(texts)
    )


def read_apple(content):
    strings = re.findall(r'= ("(?:[^"\\]|\\.)*");', content.decode(), re.DOTALL)
    return [json.loads(string.replace("\\U", "\\u"), strict=False) for string in strings]


@pytest.mark.parametrize(
    ("value", "sentences"),
    [
        ("&amp;Save", ["Save"]),
        ("Save &amp;all files", ["Save <g1/>all files"]),
        ("(&amp;Öffnen)", ["(<g1/>Öffnen)"]),
        ("&amp;One &amp;two", ["&One &two"]),
        ("R&amp;D &amp; more", ["R&D & more"]),
        ("&lt;&amp;a", ["<&a"]),
    ],
)
def test_the_mark_of_a_key_to_press_is_kept(value, sentences):
    content = f'<root><data name="a"><value>{value}</value></data></root>'.encode()
    document = read("resx", content)
    found = [segment.sentence for segment in document.segments]
    assert found == sentences
    written = document.write([sentence.replace("a", "b") for sentence in found]).decode()
    assert written.count("&amp;") == value.count("&amp;")


def resx(texts):
    values = "".join(
        f'<data name="k{n}" xml:space="preserve"><value>{escape(t)}</value></data>'
        for n, t in enumerate(texts)
    )
    return f'<?xml version="1.0" encoding="utf-8"?>\n<root><!-- a -->{values}</root>\n'


def read_resx(content):
    return [value.text or "" for value in ET.fromstring(content).iter("value")]


def properties_xml(texts):
    entries = "".join(f'<entry key="k{n}">{escape(text)}</entry>\n' for n, text in enumerate(texts))
    head = '<?xml version="1.0"?>\n<!DOCTYPE properties SYSTEM "http://java.sun.com/dtd/properties.dtd">\n'
    return f"{head}<properties><comment>No text = no</comment>\n{entries}</properties>\n"


def read_properties_xml(content):
    return [entry.text or "" for entry in ET.fromstring(content).iter("entry")]


def android(texts):
    strings = "".join(
        f'<string name="k{n}">{escape(android_text(t))}</string>\n' for n, t in enumerate(texts)
    )
    return f"<resources>\n{strings}</resources>"


def android_text(text):
    names = {"\n": "\\n", "\t": "\\t", "\\": "\\\\", "'": "\\'", '"': '\\"'}
    return re.sub(r"[\\'\"\n\t]|^[@?]", lambda m: names.get(m[0], "\\" + m[0]), text)


def read_android(content):
    texts = [element.text or "" for element in ET.fromstring(content).iter("string")]
    names = {"n": "\n", "t": "\t"}
    collapsed = [re.sub(r"[ \t\r\n]+", " ", text).strip(" ") for text in texts]
    assert not any(text.startswith(("@", "?")) for text in collapsed)  # a reference to something else
    return [
        re.sub(
            r"\\(u....|.)", lambda m: chr(int(m[1][1:], 16)) if len(m[1]) > 1 else names.get(m[1], m[1]), text
        )
        for text in collapsed
    ]


def xliff(texts):
    units = "".join(
        f'<trans-unit id="{n}"><source>{escape(text)}</source></trans-unit>\n' for n, text in enumerate(texts)
    )
    return f'<xliff version="1.2"><file source-language="en"><body>\n{units}</body></file></xliff>\n'


def xliff2(texts):
    units = "".join(
        f'<unit id="{n}"><segment><source>{escape(text)}</source>\n<target/></segment></unit>\n'
        for n, text in enumerate(texts)
    )
    return f'<xliff version="2.0" srcLang="en"><file id="f">\n{units}</file></xliff>\n'


def read_xliff(content):
    return [target.text or "" for target in ET.fromstring(content).iter("target")]


def table(texts):
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerows([["key", "en", "de"], *([f"k{n}", text, ""] for n, text in enumerate(texts))])
    return file.getvalue()


def read_table(content):
    return [row[2] for row in csv.reader(io.StringIO(content.decode(), newline=""))][1:]


def yaml_file(texts):
    styles = ('"', "'", "|", None)
    lines = [
        yaml.safe_dump({f"k{n}": text}, allow_unicode=True, default_style=styles[n % 4], width=2**30)
        for n, text in enumerate(texts)
    ]
    return "# A\n" + "".join(lines)


def read_yaml(content):
    return [text.rstrip("\n") for text in (yaml.safe_load(content) or {}).values()]


def fluent(texts):
    texts = [re.sub(r"[{}]", r'{"\g<0>"}', re.sub(r"\s", " ", text)) for text in texts]
    return "-term = No\n" + "".join(f"# A\nk{n} =\n    {text}\n" for n, text in enumerate(texts))


def read_fluent(content):
    messages = (entry for entry in parse(content.decode()).body if isinstance(entry, ast.Message))
    return [
        "".join(
            element.value if isinstance(element, ast.TextElement) else element.expression.parse()["value"]
            for element in message.value.elements
        )
        for message in messages
    ]


XML = str.maketrans(dict.fromkeys([*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF], " "))
SPACE = re.compile(r"[ \t\r\n]+")
FORMATS = {
    # how a file is written, how it is read, and what it has of a text
    "json": (json_file, lambda content: list(json.loads(content).values()), str),
    "properties": (properties, read_properties, lambda text: text.lstrip(" ")),
    "properties in XML": (
        properties_xml, read_properties_xml, lambda text: re.sub("\r\n?", "\n", text.translate(XML))
    ),
    "strings": (apple, read_apple, str),
    "resx": (resx, read_resx, lambda text: re.sub("\r\n?", "\n", text.translate(XML))),
    "android": (android, read_android, lambda text: text.translate(XML).replace("\r", " ")),
    "xliff": (xliff, read_xliff, lambda text: re.sub("\r\n?", "\n", text.translate(XML))),
    "xliff 2": (xliff2, read_xliff, lambda text: re.sub("\r\n?", "\n", text.translate(XML))),
    "table": (table, read_table, lambda text: text.replace("\0", " ")),
    "fluent": (fluent, read_fluent, lambda text: re.sub("[\r\n]+", " ", text).strip(" ")),
    "yaml": (yaml_file, read_yaml, lambda text: text.rstrip("\n")),
}  # fmt: skip
CHARACTERS = st.characters(codec="utf-8") | st.sampled_from("\n\t\r\"'\\&<>{}[]|:;,#%@?=! \xa0\u2028\u200f😀")
ANY = st.text(CHARACTERS, max_size=30)


@pytest.mark.short_form(3)
@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=30, deadline=None)
@given(ANY)
@example("- a: b # c")
@example("'a'\"b\"\\n\\u0041\n\n c  d ")
@example("true")
@example("...")
@example(" [a]")
@example(" ?a")
@example("\ufeff\x85")
@example("\b?")
def test_any_text_is_written_and_read_back_as_it_was_or_nearly(name, text):
    write, read_back, nearest = FORMATS[name]
    content = write(["Abc def"] * 4).encode()  # YAML has four styles
    file = read(name.split()[0], content)
    assert [segment.sentence for segment in file.segments] == ["Abc def"] * 4
    answer = read_back(file.write([text] * 4))
    if not text.strip():
        assert answer == {"table": [""] * 4, "xliff": [], "xliff 2": [""] * 4}.get(name, ["Abc def"] * 4)
    elif name == "android":
        expected = SPACE.sub(" ", nearest(text)).strip()
        assert [SPACE.sub(" ", one).strip() for one in answer] == [expected] * 4
    else:
        assert answer == [nearest(text)] * 4


MESSAGE = str.maketrans("'{}", "’()")
"""What a text with places of ICU cannot have, with what it has instead."""
SAMPLE = st.lists(st.text(st.sampled_from("ab c.D:#'\"\\\n-<>&{}%|é😀,;"), max_size=12), max_size=5)


def skeleton(file):
    """What stands between the sentences, without what quotes a value."""
    text = file.write(["-"] * len(file.segments)).decode()
    return re.sub("['\"]", "", text)


@pytest.mark.short_form(4)
@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=20, deadline=None)
@given(SAMPLE)
@example(["# {c}"])
@example(["}'{D}"])
def test_only_the_sentences_change(name, texts):
    write, read_back, _ = FORMATS[name]
    texts = [f"Word {text} word" for text in texts]
    content = write(texts).encode()
    file = read(name.split()[0], content)
    changed = [segment.sentence.replace("ord", "ÖRD") for segment in file.segments]
    answer = file.write(changed)
    assert [text.count("W") for text in read_back(answer)] == [1] * len(texts)
    if name not in {"table", "xliff", "xliff 2"}:  # these keep the source
        nearest = MESSAGE if name == "json" else {}
        file_format = name.split()[0]
        found = [segment.sentence for segment in read(file_format, answer).segments]
        assert [text.translate(nearest) for text in found] == [text.translate(nearest) for text in changed]
        assert skeleton(file) == skeleton(read(file_format, answer))


HOSTILE = {
    "json": b'{"a": {"b": ["One text.", 1e5, true, null]}, '
    b'"c": "\\u00e9 {n, plural, one {# file} other {# files}} $t(x)"}',
    "properties": b"# No: no\na = One text\\\n  goes on.\n! no\nb: \\u00e9 {0} and ''\n",
    "strings": b'/* no */ "a" = "One text.\\n"; // no\n"b" = "Two %@ \\U00e9";\n',
    "resx": b'<root><data name="a"><value>One &amp; text.</value></data>'
    b'<data name="b" type="x"><value>no</value></data></root>',
    "android": b'<resources><string name="a">One <b>text</b> \\\'s <![CDATA[<p>Two</p>]]> %1$s</string>'
    b'<plurals name="b"><item quantity="one">"One"</item></plurals></resources>',
    "xml": b'<resources><string name="a">One</string></resources>',
    "xliff": b'<xliff version="1.2"><file source-language="en"><body><trans-unit id="1"><source>One '
    b'<bpt id="1">x</bpt>text<ept id="1">y</ept>.</source><target state="new"/></trans-unit></body></file>'
    b"</xliff>",
    "fluent": b"a =\n    One { $x } text\n    .b = Two\n-c = No\n"
    b"d = { $n ->\n    [one] a\n   *[other] { $n } b\n } c\n",
    "table": b'key,en,de\na,"One, ""text"".",\nb,Two\nc,Three,Drei\n',
    "yaml": b'en:\n  a: One text\n  b: "Two \\n texts"\n  c: |\n    A block\n    goes on.\n'
    b"  d: [x, 'y z', 1]\n  e: &a\n    - Four\n  f: *a\n",
    "po": b'msgid ""\nmsgstr "Language: \\n"\n\n#, fuzzy, c-format\nmsgid "One %s text"\n'
    b'msgid_plural "%d"\nmsgstr[0] ""\nmsgstr[1] "x"\n',
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_byte_order_mark_stays_and_changes_nothing_else(name):
    content = HOSTILE[name]
    plain, marked = read(name.split()[0], content), read(name.split()[0], b"\xef\xbb\xbf" + content)
    sentences = [segment.sentence for segment in plain.segments]
    assert [segment.sentence for segment in marked.segments] == sentences
    for texts in (sentences, [f"X {sentence}" for sentence in sentences]):
        assert marked.write(texts).decode("utf-8-sig") == plain.write(texts).decode()
        assert marked.write(texts).startswith(b"\xef\xbb\xbf")


@pytest.mark.short_form(3)
@pytest.mark.parametrize("name", HOSTILE)
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_damaged_file_is_refused_or_read_and_written_as_it_was(name, data):
    content = HOSTILE[name]
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(content)))
        end = data.draw(st.integers(start, min(len(content), start + 20)) | st.just(len(content)))
        part = data.draw(
            st.binary(max_size=4) | st.sampled_from([b'"', b"\\", b"<", b"{", b"}", b"\n", b"'", b"&x;"])
        )
        content = content[:start] + part + content[end:]
    try:
        file = read(name, content)
    except DragomanError:
        pass
    else:
        assert file.write([segment.sentence for segment in file.segments]) == content
        file.write(["Ein Text"] * len(file.segments))
        with pytest.raises(DragomanError):
            file.write(["x"] * (len(file.segments) + 1))


PARTS = (
    "[", "{", "<a>", '"', "\\", "'", "a,", "&", "a: ", "\n", "{a,plural,one{", "<", "<![CDATA[", "/*",
    'msgid "a"\n', "% &a_", "- ",
)  # fmt: skip


@pytest.mark.short_form(4)
@pytest.mark.parametrize("name", HOSTILE)
def test_the_time_is_linear(name):
    def work(length):
        for part in PARTS[2:] if name == "yaml" else PARTS:  # PyYAML looks 1,024 characters ahead
            content = (part * (length // len(part))).encode()
            head, _, tail = HOSTILE[name].partition(b"One")
            for hostile in (content, head + content + tail):
                with contextlib.suppress(DragomanError):
                    file = read(name, hostile)
                    file.write(["Eins"] * len(file.segments))

    takes_linear_time(work, 2_000)
