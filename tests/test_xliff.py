"""XLIFF: the targets that are missing are filled, and inline codes are kept."""

import re
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from dragoman.documents import xliff
from dragoman.documents.document import MARK
from dragoman.documents.file import Reading
from dragoman.system.errors import DragomanError

READING = Reading("a.xlf", "en", "de")
FIRST = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2"><file source-language="en-US" original="a"><body>
  <trans-unit id="a">
    <source>Open <g id="1">the file</g><x id="2"/>.</source>
    <note>For translators</note>
  </trans-unit>
  <trans-unit id="b"><source>A <bpt id="1">&lt;b></bpt>bold<ept id="1">&lt;/b></ept> word</source>
    <target state="new"/></trans-unit>
  <trans-unit id="c" translate="no"><source>Kept</source></trans-unit>
  <group translate="no"><trans-unit id="d"><source>Kept</source></trans-unit></group>
  <trans-unit id="e"><source>Done</source><target>Fertig</target></trans-unit>
  <trans-unit id="f"><source>One. Two.</source>
    <seg-source><mrk mtype="seg" mid="1">One.</mrk> <mrk mtype="seg" mid="2">Two.</mrk></seg-source>
    <alt-trans><target>Alt</target></alt-trans></trans-unit>
  <trans-unit id="g"><source><![CDATA[a & <b>b</b>]]></source></trans-unit>
  <trans-unit id="h"><source>{n, plural, =1 {one} other {many}}</source></trans-unit>
</body></file></xliff>
"""
SECOND = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">
<file id="f"><unit id="1"><originalData><data id="d1">x</data></originalData>
<segment id="s1" state="initial">
<source>A <pc id="1">bold</pc> <sc id="2"/>word<ec startRef="2"/>.</source></segment>
<ignorable><source> </source></ignorable>
<segment><source>Two<ph id="3"/> words.</source><target></target></segment>
<segment state="final"><source>Done.</source><target>Fertig.</target></segment></unit>
<unit id="2" translate="no"><segment><source>Kept</source></segment></unit></file></xliff>
"""


def upper(sentence):
    return "".join(
        part if MARK.fullmatch(part) else part.upper() for part in re.split(f"({MARK.pattern})", sentence)
    )


def translate(text, reading=READING):
    file = xliff.read(text.encode(), reading)
    assert file.write([segment.sentence for segment in file.segments]) == text.encode()
    return file.write([upper(segment.sentence) for segment in file.segments]).decode()


def test_a_file_of_version_1_2():
    written = translate(FIRST)
    assert '<file source-language="en-US" original="a" target-language="de">' in written
    assert (
        '<source>Open <g id="1">the file</g><x id="2"/>.</source>\n'
        '    <target state="translated">OPEN <g id="1">THE FILE</g><x id="2"/>.</target>\n    <note>'
    ) in written
    assert (
        '<target state="translated">A <bpt id="1">&lt;b></bpt>BOLD<ept id="1">&lt;/b></ept> WORD</target>'
        in written
    )
    assert written.count("<target>Fertig</target>") == written.count("<target>Alt</target>") == 1
    assert (
        '</seg-source>\n    <target state="translated"><mrk mtype="seg" mid="1">ONE.</mrk> '
        '<mrk mtype="seg" mid="2">TWO.</mrk></target>\n    <alt-trans>'
    ) in written
    assert '<target state="translated">A &amp; &lt;b&gt;B&lt;/b&gt;</target>' in written
    assert written.count("Kept") == 2
    assert written.count("<target") == 6
    assert xliff.read(FIRST.encode(), READING).language == "en-US"
    assert ">FERTIG<" not in written
    assert ">DONE<" in translate(FIRST, Reading("a", "en", "de", everything=True))


def test_a_file_of_version_2():
    written = translate(SECOND)
    assert 'srcLang="en" trgLang="de">' in written
    assert (
        '<segment id="s1" state="translated">\n'
        '<source>A <pc id="1">bold</pc> <sc id="2"/>word<ec startRef="2"/>.</source>\n'
        '<target>A <pc id="1">BOLD</pc> <sc id="2"/>WORD<ec startRef="2"/>.</target></segment>'
    ) in written
    assert '<segment state="translated"><source>Two<ph id="3"/>' in written
    assert '<target>TWO<ph id="3"/> WORDS.</target>' in written
    assert written.count("Kept") == written.count("Fertig.") == 1
    assert '<segment state="final">' in written


@pytest.mark.parametrize(
    "text", ["", "<html></html>", "<xliff>", "<xliff></file>", "<xliff><file></xliff></file>"]
)
def test_what_is_no_xliff_is_refused(text):
    with pytest.raises(DragomanError, match=r"a\.xlf"):
        xliff.read(text.encode(), READING)


def test_a_file_says_what_language_its_translations_are_in():
    text = '<xliff version="2.0" srcLang="en" trgLang="it-IT"><file/></xliff>'
    assert xliff.read(text.encode(), READING).translated_into == "it-IT"
    assert not xliff.read(text.replace(' trgLang="it-IT"', "").encode(), READING).translated_into


CODES = (
    "<bpt id='1'>no</bpt> one <ept id='1'>no</ept>", "<ph id='2'>no</ph>", "<it id='3' pos='open'>no</it>",
    "<x id='4'/>", "<bx id='5' rid='1'/>one<ex id='6' rid='1'/>", "<ph id='6'>no<sub>no</sub></ph>",
    "<sc id='2'/>one<ec startRef='2'/>", "<cp hex='0001'/>", "<sm id='3'/>", "<!-- no -->",
)  # fmt: skip
WORDS = ("word", "é", "&amp;", "a &lt;b&gt;", "%s", "<g id='9'>one %s</g>", "<pc id='8'>one</pc>")
TEXT = st.lists(st.sampled_from([*CODES, *WORDS]), max_size=5).map(
    lambda parts: " ".join(["one", *parts, "two"])
)
TARGET = st.sampled_from(
    ["", "<target/>", "<target>Da</target>", "<target a='b'>Da</target>", "<target>\n </target>"]
)
STATES = ["", "new", "needs-translation", "initial", "translated", "final", "signed-off"]
UNTRANSLATED = {"new", "needs-translation", "initial"}


def inside(element):
    """What is in an element, in one form."""
    text = etree.tostring(element, encoding="unicode", with_tail=False)
    return re.sub(r"\A<[^>]*>|<[^>]*>\Z", "", text) if not text.endswith("/>") else ""


def capitals(xml):
    """A text in capitals, but for its codes."""
    kept = r"<(bpt|ept|ph|it)\b[^>]*>.*?</\2>|<[^>]*>|&lt;b&gt;|&\w+;|%s"
    return re.sub(rf"({kept})|.", lambda match: match[1] or match[0].upper(), xml, flags=re.DOTALL)


@pytest.mark.short_form(1)
@pytest.mark.parametrize(
    ("version", "unit_name", "prefix"),
    [("1.2", "trans-unit", ""), ("1.2", "trans-unit", "x:"), ("2.1", "segment", "")],
)
@settings(max_examples=40)
@given(
    units=st.lists(
        st.tuples(TEXT, TARGET, st.sampled_from(STATES), st.sampled_from(["", "\n  "]), st.booleans(),
                  st.sampled_from(["", ' translate="no"', ' approved="yes"', ' approved="no"'])),
        max_size=4,
    ),
    everything=st.booleans(),
    target_language=st.sampled_from(["", "fr", "de"]),
)  # fmt: skip
def test_only_targets_that_are_missing_change(version, unit_name, prefix, units, everything, target_language):
    is_second = version > "2"
    text = ""
    for source, plain_target, state, space, has_more, attributes in units:
        stated = f' state="{state}"' * bool(state)
        target = plain_target if is_second else plain_target.replace("<target", f"<target{stated}")
        head = (
            f"<unit id='1'{attributes}><segment{stated}>" if is_second else f"<trans-unit id='1'{attributes}>"
        )
        more = (
            "<notes/>" if is_second else "<note>no</note><alt-trans><target>Alt</target></alt-trans>"
        ) * has_more
        more = "" if is_second else more
        text += f"{head}{space}<source>{source}</source>{target}{more}</{unit_name}>{'</unit>' * is_second}\n"
    names = ("srcLang", "trgLang") if is_second else ("source-language", "target-language")
    languages = f'{names[0]}="en"' + f' {names[1]}="{target_language}"' * bool(target_language)
    first, second = (languages, "") if is_second else ("", languages)
    text = f'<xliff version="{version}" {first}><file id="a" {second}>{text}</file></xliff>'
    if prefix:
        text = re.sub(r"(</?)(?=[a-z])", rf"\1{prefix}", text).replace(" version", ' xmlns:x="x" version', 1)
    written = translate(text, Reading("a", "en", "de", split=False, everything=everything))
    before, after = (etree.fromstring(content.replace("x:", "").encode()) for content in (text, written))
    has_changed = False
    for one, other in zip(before.iter(unit_name), after.iter(unit_name), strict=True):
        unit, target, new = one.getparent() if is_second else one, one.find("target"), other.find("target")
        state = (one if is_second else target).get("state", "") if target is not None else ""
        has_text = target is not None and bool("".join(target.itertext()).strip())
        is_done = unit.get("approved", one.get("approved")) == "yes" and target is not None and not is_second
        is_done = is_done or (has_text and state not in UNTRANSLATED)
        if unit.get("translate") == "no" or (is_done and not everything):
            assert etree.tostring(one, with_tail=False) == etree.tostring(other, with_tail=False)
            continue
        has_changed = True
        assert inside(new) == capitals(inside(one.find("source")))
        assert (other if is_second else new).get("state") == "translated"
        assert new.get("a") == (target.get("a") if target is not None else None)
        assert other.index(new) == other.index(other.find("source")) + 1
        if target is None:
            assert other.find("source").tail == one.text
            other.find("source").tail = one.find("source").tail
            other.remove(new)
        else:
            one.remove(target), other.remove(new)
        for element in (one, other):
            element.attrib.pop("state", None)
    root = after if is_second else after[0]
    assert root.get(names[1]) == (target_language or ("de" if has_changed else None))
    for tree in (before, after):
        (tree if is_second else tree[0]).attrib.pop(names[1], None)
    assert etree.tostring(before) == etree.tostring(after)


def in_a_unit(inside):
    return f"<xliff version='1.2'><file><trans-unit>{inside}</trans-unit></file></xliff>"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a <bpt id='1'>x</bpt>b<ept id='1'>y</ept> c", "a <g1>b</g1> c"),
        ("a <bx id='1' rid='7'/>b<ex id='2' rid='7'/> c", "a <g1>b</g1> c"),
        ("a <bx id='1'/>b<ex id='1'/> c", "a <g1>b</g1> c"),
        ("a <sc id='1'/>b<ec startRef='1'/> c", "a <g1>b</g1> c"),
        ("a <bx id='1'/>b<ex id='2'/> c", "a <g1>b</g2> c"),
        ("a <it id='1'>x</it> b <x id='2'/> c", "a <g1/> b <g2/> c"),
    ],
)
def test_codes_that_belong_together_are_a_pair(text, sentence):
    file = xliff.read(
        in_a_unit(f"<source>{text}</source>").encode(),
        READING,
    )
    (segment,) = file.segments
    assert segment.sentence == sentence


@pytest.mark.parametrize(("space", "count"), [("preserve", 2), ("default", 1)])
@pytest.mark.parametrize("place", ["file", "trans-unit", "source"])
def test_lines_are_texts_of_their_own_where_white_space_is_preserved(space, count, place):
    text = in_a_unit("<source>One word\nand more</source>")
    text = text.replace(f"<{place}", f"<{place} xml:space='{space}'")
    assert len(xliff.read(text.encode(), READING).segments) == count
    inner = text.replace("<source", "<source xml:space='default'") if place != "source" else text
    assert len(xliff.read(inner.encode(), READING).segments) == (1 if place != "source" else count)


def test_segments_are_cut_where_the_file_says_so_and_other_marks_cut_none():
    marks = '<mrk mtype="seg" mid="1">One <mrk mtype="term">two</mrk></mrk>'
    marks += '<mrk mtype="seg" mid="2">three</mrk> four'
    text = in_a_unit(f"<source>x</source><seg-source>{marks}</seg-source>")
    assert [s.sentence for s in xliff.read(text.encode(), READING).segments] == [
        "One <g1>two</g1>",
        "three",
        "four",
    ]


@pytest.mark.parametrize("empty", ['<mrk mtype="seg" mid="{}"/>', "<mrk mid='{}' mtype='seg'> </mrk>"])
@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=4).filter(
        lambda kinds: any(is_done for is_done, _ in kinds)
    ),
    st.sampled_from(['state="translated"', "", 'state="final"']),
)
def test_the_empty_segments_of_a_target_are_filled_and_others_stay(empty, kinds, state):
    mark = '<mrk mtype="seg" mid="{}">{}</mrk>'.format
    sources = [f"One {number}." if has_text else "" for number, (_, has_text) in enumerate(kinds)]
    source = "".join(map(mark, count(), sources))

    def file(segments):
        return (
            f'<xliff version="1.2"><file target-language="de"><trans-unit><source>x</source>'
            f"<seg-source>{source}</seg-source><target {state}>{' '.join(segments)}</target></trans-unit>"
            "</file></xliff>"
        )

    segments = [
        mark(number, "Eins.") if done else empty.format(number) for number, (done, _) in enumerate(kinds)
    ]
    new = [
        re.sub("/?>.*", f">{text.upper()}</mrk>", segment) if text and not done else segment
        for segment, text, (done, _) in zip(segments, sources, kinds, strict=True)
    ]
    document = xliff.read(file(segments).encode(), READING)
    sentences = [segment.sentence for segment in document.segments]
    assert document.write(sentences) == file(segments).encode()
    assert document.write([sentence.upper() for sentence in sentences]).decode() == file(new)


def test_no_language_is_named_that_is_not_known():
    text = in_a_unit("<source>One</source>").replace("<file", "<file source-language='en'")
    assert "target-language" not in translate(text, Reading("a", "en", "und"))
    two = text.replace("</file>", "</file><file source-language='fr' target-language='it'></file>")
    file = xliff.read(two.encode(), READING)
    assert (file.language, file.translated_into) == ("en", "it")
