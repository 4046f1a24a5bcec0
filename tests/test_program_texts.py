"""What properties, strings of Android, Apple and .NET, tables and YAML keep, and what they translate."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.documents.document import MARK
from dragoman.documents.file import Reading
from dragoman.documents.read import READERS
from dragoman.system.errors import DragomanError


def upper(sentence):
    return "".join(
        part if MARK.fullmatch(part) else part.upper() for part in re.split(f"({MARK.pattern})", sentence)
    )


def translate(file_format, content, **options):
    file = READERS[file_format](content, Reading("a.file", "en", "de", **options))
    assert file.write([segment.sentence for segment in file.segments]) == content
    return file.write([upper(segment.sentence) for segment in file.segments])


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        (
            b"# No\n! no\nKey.a = One \\\n    two\\n three\nb:x\n",
            b"# No\n! no\nKey.a = ONE TWO\\n THREE\nb:X\n",
        ),
        (b"a\\ b = caf\\u00e9", b"a\\ b = CAF\\u00c9"),
        ("a = café".encode(), "a = CAFÉ".encode()),
        ("a = café".encode("latin-1"), "a = CAFÉ".encode("latin-1")),
        (b"a = It''s {0}!\r\nclass = org.x.Main\r\n", b"a = IT''S {0}!\r\nclass = org.x.Main\r\n"),
    ],
)
def test_properties(source, translation):
    assert translate("properties", source) == translation


@given(st.lists(st.sampled_from(["a b", "''", " ", "{0}", "{1,number,#.#}", "\\u00e9"]), max_size=8))
@example(["''", "a b", "''"])
def test_only_letters_change_in_a_message_of_java(parts):
    text = f"key = a{''.join(parts)}{{0}}''\n"
    expected = re.sub(r"(\{[^{}]*\})|[ab]|e9", lambda match: match[1] or match[0].upper(), text)
    assert translate("properties", text.encode()).decode() == expected.replace("E9", "c9")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_strings_of_apple(encoding):
    text = '/* No */\n"Key" = "Two %1$@ \\"x\\"";  // no\nplain = "y\\U00e9";\n'
    assert translate("strings", text.encode(encoding)) == (
        '/* No */\n"Key" = "TWO %1$@ \\"X\\"";  // no\nplain = "YÉ";\n'.encode(encoding)
    )


@pytest.mark.parametrize("text", ['"a" = "b"', '"a" "b";', '"a" = "b', "/* x"])
def test_what_are_no_strings_of_apple_is_refused(text):
    with pytest.raises(DragomanError, match=r"a\.file, line 1"):
        translate("strings", text.encode())


ANDROID = """<?xml version="1.0" encoding="utf-8"?>
<!-- no --><resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
    <string name="a">It\\'s <b>bold</b>,\\n"%1$s" &amp; <xliff:g id="n">no</xliff:g> more</string>
    <string name="b" translatable="false">no</string><string name="c">@string/no</string>
    <string name="d"><![CDATA[<p>One</p> two &amp; <i>three</i>]]></string>
    <plurals name="e"><item quantity="one">%d file</item><item quantity="other">%d files</item></plurals>
    <string-array name="f"><item>\\@me</item></string-array><array name="g"><item>no</item></array>
    <color name="h">no</color>
</resources>
"""


def test_strings_of_android():
    written = translate("xml", ANDROID.encode()).decode()
    assert written == (
        ANDROID.replace("It\\'s <b>bold</b>", "IT\\'S <b>BOLD</b>")
        .replace("</xliff:g> more", "</xliff:g> MORE")
        .replace("<p>One</p> two &amp; <i>three", "<p>ONE</p> TWO &amp; <i>THREE")
        .replace("%d file", "%d FILE").replace("FILEs", "FILES")
    ).replace("\\@me", "\\@me")  # fmt: skip
    other = b"<resources><text>One</text></resources>"
    assert translate("xml", other) == b"<resources><text>ONE</text></resources>"  # as any XML


def test_resources_of_net():
    text = (
        '<root><!-- no --><xsd:schema id="x"/><resheader name="v"><value>no</value></resheader>'
        '<data name="A" xml:space="preserve"><value>One {0}\n&lt;b&gt;two</value><comment>no</comment></data>'
        '<data name="B" type="System.Drawing.Size"><value>no</value></data>'
        '<data name="&gt;&gt;C.Name"><value>no</value></data><data name=">>D"><value>no</value></data></root>'
    ).replace('<data name="&gt;&gt;C.Name"><value>no</value></data>', "")
    written = translate("resx", text.encode()).decode()
    assert written == text.replace("One", "ONE").replace("two", "TWO")


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        (b"key,en,de\r\na,One,\r\nb,Two,Zwei\r\n\r\nc,\"x, \"\"y\"\"\",\"\"\r\n",
         b"key,en,de\r\na,One,ONE\r\nb,Two,Zwei\r\n\r\nc,\"x, \"\"y\"\"\",\"X, \"\"Y\"\"\"\r\n"),
        (b"source;target\nOne; two", b"source;target\nOne; two"),
        (b"source;x;target\nOne", b"source;x;target\nOne;;ONE"),
        (b"id\ten_US\tde-AT\n1\tSay \"x\"\t\n", b"id\ten_US\tde-AT\n1\tSay \"x\"\t\"SAY \"\"X\"\"\"\n"),
    ],
)  # fmt: skip
def test_tables(source, translation):
    assert translate("table", source) == translation


@pytest.mark.parametrize("text", ["", "a,b\nc,d", "en,fr\nOne,", 'en,de\n"One,'])
def test_a_table_without_its_columns_is_refused_with_advice(text):
    with pytest.raises(DragomanError, match=r"a\.file.*add"):
        translate("table", text.encode())


def test_yaml():
    text = """# no
en:  # no
  a: One two  # no
  b: 'It''s'
  c: "Three: %{name}\\n"
  d: |-
    A block.

    Two.
  e: >
    Folded
    text
  f: [Sun, 'Mon', 1, true, :sym]
  g: &x Four
  h: *x
  yes: no
  i: 2020-01-01
  j: !ruby/sym no
"""
    assert (
        translate("yaml", text.encode()).decode()
        == """# no
de:  # no
  a: ONE TWO  # no
  b: 'IT''S'
  c: "THREE: %{name}\\n"
  d: |-
    A BLOCK.

    TWO.
  e: |
    FOLDED TEXT
  f: [SUN, 'MON', 1, true, :sym]
  g: &x FOUR
  h: *x
  yes: no
  i: 2020-01-01
  j: !ruby/sym no
"""
    )


def test_yaml_that_is_nested_very_deeply_or_damaged_is_refused():
    with pytest.raises(DragomanError, match=r"a\.file is nested"):
        translate("yaml", b"[" * 1000)
    with pytest.raises(DragomanError, match=r"a\.file, line 2: this is not YAML"):
        translate("yaml", b"a: b\n c: d\n")


def test_fluent():
    text = """# no
-brand = No
a = One { -brand } two
    goes on.

    A line.
    .title = Three
    .accesskey = T
b = You have { $n ->
        [one] one file
       *[other] { $n } files { $x ->
            [a] x
           *[b] y
        }
    } now.
c = { junk
"""
    assert (
        translate("fluent", text.encode()).decode()
        == """# no
-brand = No
a = ONE { -brand } TWO GOES ON.

    A LINE.
    .title = THREE
    .accesskey = T
b = YOU HAVE { $n ->
        [one] ONE FILE
       *[other] { $n } FILES { $x ->
            [a] X
           *[b] Y
        }
    } NOW.
c = { junk
"""
    )
