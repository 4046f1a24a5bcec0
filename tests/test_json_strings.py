"""JSON: the values that are texts, as i18next, Chrome and Flutter keep them, and messages of ICU."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.documents import json_strings
from dragoman.documents.document import MARK
from dragoman.documents.file import Reading
from dragoman.documents.icu import spans_of_message
from dragoman.system.errors import DragomanError

READING = Reading("a.json", "en", "de")


def upper(sentence):
    return "".join(
        part if MARK.fullmatch(part) else part.upper() for part in re.split(f"({MARK.pattern})", sentence)
    )


def translate(text):
    file = json_strings.read(text.encode(), READING)
    assert file.write([segment.sentence for segment in file.segments]) == text.encode()
    return file.write([upper(segment.sentence) for segment in file.segments]).decode()


@pytest.mark.parametrize(
    ("value", "translation"),
    [
        ("Save {{count}} files in $t(folder)", "SAVE {{count}} FILES IN $t(folder)"),
        ("it's {{name}}'s {{count}}", "IT'S {{name}}'S {{count}}"),
        ("{n, plural, =0 {no files} one {# file} other {# files in {place}}}",
         "{n, plural, =0 {NO FILES} one {# FILE} other {# FILES IN {place}}}"),
        ("Hi {x, select, a {sir {n, plural, one {x} other {y}} now} other {you}}!",
         "HI {x, select, a {SIR {n, plural, one {X} other {Y}} NOW} other {YOU}}!"),
        ("A <b>bold</b> word<br>and a line", "A <b>BOLD</b> WORD<br>AND A LINE"),
        ("{n, plural, one {broken}", "{n, plural, one {broken}"),
        ("https://x.org/a", "https://x.org/a"), ("icon_name", "icon_name"), ("#ff00aa", "#ff00aa"),
        ("The :name is @:a.b or @.upper:(c_d).", "THE :name IS @:a.b OR @.upper:(c_d)."),
        ("no car | one car | {n} cars", "NO CAR | ONE CAR | {n} CARS"),
        ("at 10:am :) a::b", "AT 10:AM :) A::B"),
        ("yyyy-MM-dd", "yyyy-MM-dd"), ("img/a.png", "img/a.png"), ("12", "12"),
        ("", ""), ("Yes/No", "YES/NO"),
    ],
)  # fmt: skip
def test_a_value(value, translation):
    assert json.loads(translate(json.dumps({"Key": value}))) == {"Key": translation}


def test_plural_forms_between_bars_are_texts_of_their_own():
    for value, sentences in (("one car | two cars", ["one car", "two cars"]), ("a|b", ["a|b"])):
        found = json_strings.read(json.dumps([value]).encode(), READING).segments
        assert [segment.sentence for segment in found] == sentences


def test_the_form_of_the_file_is_kept():
    text = '\ufeff{ "a":"One\\u0020\\"t\\"",\r\n\t"b" : [ "two" , 1.0e5, null,true, {"c": "caf\\u00e9"} ] }\n'
    assert translate(text) == (
        '\ufeff{ "a":"ONE \\"T\\"",\r\n\t"b" : [ "TWO" , 1.0e5, null,true, {"c": "CAF\\u00c9"} ] }\n'
    )  # ASCII stays ASCII


def test_chrome_and_flutter_keep_their_metadata():
    chrome = {
        "a": {"message": "Hi $NAME$, $1", "description": "no", "placeholders": {"name": {"content": "$1"}}}
    }
    changed = json.loads(json.dumps(chrome).replace("Hi", "HI"))
    assert json.loads(translate(json.dumps(chrome))) == changed
    flutter = {
        "@@locale": "en",
        "a": "Hi {name}",
        "@a": {"description": "no", "placeholders": {"name": {"x": "no"}}},
    }
    assert json.loads(translate(json.dumps(flutter))) == flutter | {"a": "HI {name}"}
    assert json_strings.read(json.dumps(flutter).encode(), READING).language == "en"
    other = {"a": {"message": "yes", "text": "yes"}}
    assert json.loads(translate(json.dumps(other))) == {"a": {"message": "YES", "text": "YES"}}
    for more in ("yes", ["yes"]):  # Chrome has none beside its messages
        other = json.dumps({"a": {"message": "yes", "description": "yes"}, "b": more})
        assert translate(other) == other.replace("yes", "YES")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50)
@given(JSON, st.sampled_from([None, 2]), st.booleans())
def test_only_values_change_in_any_file(value, indent, ascii_only):
    def lengths(node):
        if isinstance(node, dict):
            return {key: lengths(inner) for key, inner in node.items()}
        return [lengths(inner) for inner in node] if isinstance(node, list) else type(node)

    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert lengths(json.loads(translate(text))) == lengths(value)


MESSAGE = st.recursive(
    st.text("ab '#", max_size=4).map(lambda text: ([text], text.replace("'", "''"))),
    lambda inner: st.tuples(inner, inner, st.sampled_from(["plural", "select"])).map(
        lambda parts: (
            ["x ", *parts[0][0], *parts[1][0], " y"],
            f"x {{n, {parts[2]}, one {{{parts[0][1]}}} other {{{parts[1][1]}}}}} y",
        )
    ),
    max_leaves=6,
)


@given(MESSAGE)
def test_the_texts_of_a_message_are_those_of_its_branches(message):
    texts, source = message
    spans = spans_of_message(source)
    if len(texts) == 1:
        assert spans is None
    else:
        assert [source[first:last].replace("''", "'") for first, last in spans] == texts


@pytest.mark.parametrize(
    "text", ["", "{", '{"a" 1}', "[1,]", '{"a":1,}', "[}", '"a', '"\\x"', "1 2", "nul", "[" * 50_000]
)
def test_what_is_no_json_is_refused(text):
    with pytest.raises(DragomanError, match=r"a\.json, line 1"):
        json_strings.read(text.encode(), READING)


def test_the_numbered_tags_of_react_are_marks():
    file = json_strings.read(b'{"a": "One <1>two</1> three<0/>."}', READING)
    assert [segment.sentence for segment in file.segments] == ["One <g1>two</g1> three<g2/>."]
