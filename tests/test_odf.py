"""Files of OpenDocument are translated, and everything else in them stays."""

import re
from collections import Counter
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.system.errors import DragomanError
from tests.office_files import (
    capitals,
    member,
    read,
    sentences,
    shuffled,
    text_file,
    translate,
    unpack,
    words,
)

STYLES = "".join(
    f'<style:style style:name="{name}" style:family="text"><style:text-properties {look}/></style:style>'
    for name, look in (
        ("T1", 'style:language-asian="ja"'),
        ("T2", 'fo:weight="bold"'),
        ("T3", 'fo:country="AT" fo:weight="bold"'),
    )
)
INLINE = st.recursive(
    st.sampled_from(
        (
            "One ", "two.", " ", "Three! ", "x &amp; &lt;y&gt; 😀", "{name} a@b.org", "عربي", "\n ",
            "<text:tab/>",
            "<text:s/>", '<text:s text:c="3"/>', "<text:line-break/>", "<text:soft-page-break/>",
            "<!-- no -->",
            '<text:bookmark text:name="a"/>', '<text:bookmark-start text:name="b"/>',
            "<![CDATA[c & d]]>",
            '<text:bookmark-end text:name="b"/>', "<text:page-number>Seven</text:page-number>",
            '<draw:frame draw:name="f"/>',
        )
    ),
    lambda inner: st.tuples(
        st.sampled_from(
            (
                *(f'<text:span text:style-name="T{number}">{{}}</text:span>' for number in (1, 2, 3)),
                '<text:a office:name="x">{}</text:a>', "<draw:text-box><text:p>{}</text:p></draw:text-box>",
                "<text:note><text:note-body><text:p>{}</text:p></text:note-body></text:note>",
            )
        ),
        st.lists(inner, max_size=4),
    ).map(lambda pair: pair[0].format("".join(pair[1]))),
    max_leaves=8,
)  # fmt: skip
BODY = st.lists(INLINE.map(lambda text: f"<text:p>{text}</text:p>"), max_size=4).map("".join)


def shape(content: bytes) -> Counter:
    """The elements with their attributes, without those for spaces and formats."""
    body = ET.fromstring(member(content, "content.xml"))[1]
    names = ((element, element.tag.partition("}")[2]) for element in body.iter())
    return Counter(
        (name, *element.attrib.values())
        for element, name in names
        if name not in {"s", "span", "soft-page-break"}
    )


@settings(max_examples=20)
@given(BODY, st.booleans())
def test_a_file_comes_back_with_its_own_sentences(body, split):
    content = text_file(body, STYLES, body)
    document = read("odf", content, split=split)
    assert unpack(document.write([segment.sentence for segment in document.segments])) == unpack(content)


@settings(max_examples=20)
@given(BODY)
def test_only_texts_change(body):
    content = text_file(body, STYLES)
    result = translate("odf", content)
    assert shape(result) == shape(content)
    assert words(sentences("odf", result)) == words(map(capitals, sentences("odf", content)))
    assert [part[:2] for part in unpack(result)] == [part[:2] for part in unpack(content)]
    assert unpack(result)[0] == ("mimetype", 0, b"application/vnd.oasis.opendocument.text")


@settings(max_examples=20)
@given(BODY, st.randoms(use_true_random=False))
def test_marks_keep_the_structure_wherever_they_come_to_stand(body, chance):
    content = text_file(body, STYLES)
    result = translate("odf", content, *(shuffled(text, chance) for text in sentences("odf", content)))
    assert shape(result) == shape(content)


@settings(max_examples=20)
@given(st.text() | st.text("a<&>]\"'  \n\t\x00\x0b\u2028\ud800\ufffe</g1>", max_size=8))
def test_any_text_can_be_written(text):
    root = ET.fromstring(member(translate("odf", text_file("<text:p>One</text:p>"), text), "content.xml"))
    paragraph = root.find(".//{*}p")
    assert paragraph is not None
    read_back = (paragraph.text or "") + "".join(
        " " * int(next(iter(element.attrib.values()))) + (element.tail or "") for element in paragraph
    )
    written = re.sub("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]", " ", text)
    assert read_back == (written if text.strip() else "One")


def test_spans_without_a_look_are_no_marks_and_those_with_the_same_are_one():
    span = '<text:span text:style-name="T{}">{}</text:span>'.format
    content = text_file(f"<text:p>A {span(1, 'small')} {span(2, 'hou')}{span(3, 'se')}.</text:p>", STYLES)
    assert sentences("odf", content) == ["A small <g1>house</g1>."]
    result = member(translate("odf", content, "Ein <g1>Haus</g1>."), "content.xml")
    assert f"<text:p>Ein {span(2, 'Haus')}.</text:p>" in result


def test_a_sentence_goes_on_behind_a_note():
    note = "<text:note><text:note-body><text:p>{}</text:p></text:note-body></text:note>"
    content = text_file(
        f"<text:p>A house{note.format('A note.')} is big.</text:p>", page="<text:p>Top</text:p>"
    )
    assert sentences("odf", content) == ["A note.", "A house<g1/> is big.", "Top"]
    result = translate("odf", content, "X", "Ein Haus<g1/> ist groß.", "Y")
    assert f"<text:p>Ein Haus{note.format('X')} ist groß.</text:p>" in member(result, "content.xml")
    assert "<style:header><text:p>Y</text:p></style:header>" in member(result, "styles.xml")


def test_numbers_and_formulas_of_cells_are_kept():
    cell = "<table:table-cell {}><text:p>May</text:p></table:table-cell>".format
    values = ('office:value-type="date"', 'office:value-type="string" table:formula="of:=A1"',
              'office:value-type="string"', "")  # fmt: skip
    content = text_file("".join(map(cell, values)), kind="spreadsheet")
    assert sentences("odf", content) == ["May", "May"]


def test_a_translation_changes_the_language():
    content = text_file("<text:p>One</text:p>", page='<text:p>12 fo:language="en"</text:p>')
    assert read("odf", content).language == "en"
    text = '<text:p>12 fo:language="en"</text:p>'
    assert text in member(translate("odf", content, "Eins", '12 fo:language="en"'), "styles.xml")
    assert 'fo:language="de" fo:country="none"' in member(translate("odf", content), "styles.xml")


def test_values_of_attributes_that_nobody_expects_are_read():
    spaces = f'<text:s text:c="{"9" * 5000}"/><text:s text:c="x"/><text:s text:c="²"/>'
    style = "<text:span text:style-name='a\"b'>two</text:span>"
    result = translate("odf", text_file(f"<text:p>One{spaces}{style} three</text:p>"))
    assert "ONE" in "".join(ET.fromstring(member(result, "content.xml")).itertext())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("<text:tracked-changes><text:changed-region/></text:tracked-changes>", "accept or reject"),
        ("<text:p>", "damaged"),
        ("&unknown;", "damaged"),
    ],
)
def test_what_cannot_be_read_is_refused(body, message):
    with pytest.raises(DragomanError, match=message):
        read("odf", text_file(body))
