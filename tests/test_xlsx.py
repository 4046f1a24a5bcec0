"""Workbooks are translated, and everything else in them stays."""

import re
from xml.etree import ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.office_files import capitals, member, read, sentences, translate, unpack, words, workbook

STRINGS = "xl/sharedStrings.xml"
STRING = st.one_of(
    st.sampled_from(
        (
            "<t>One two.</t>", '<t xml:space="preserve"> 12 </t>', "<t>One&#10;two\nthree</t>", "<t/>",
            "<t>a _x0041_ b &amp; c</t>", "<t>漢字</t><rPh sb='0' eb='2'><t>kanji</t></rPh><phoneticPr/>",
        )
    ),
    st.lists(
        st.sampled_from(
            ("<r><t>One </t></r>", "<r><rPr><b/></rPr><t>bold\n</t></r>", "<r><rPr><i/></rPr><t>it</t></r>")
        ),
        max_size=6,
    ).map("".join),
).map(lambda inner: f"<si>{inner}</si>")  # fmt: skip
STRINGS_OF_FILE = st.lists(STRING, max_size=5).map("".join)


@settings(max_examples=15)
@given(STRINGS_OF_FILE, st.booleans())
def test_a_file_comes_back_with_its_own_sentences(strings, split):
    content = workbook(strings)
    document = read("xlsx", content, split=split)
    assert unpack(document.write([segment.sentence for segment in document.segments])) == unpack(content)


@settings(max_examples=15)
@given(STRINGS_OF_FILE)
def test_only_texts_change(strings):
    content = workbook(strings)
    result = translate("xlsx", content)
    assert words(sentences("xlsx", result)) == words(map(capitals, sentences("xlsx", content)))
    before, after = (ET.fromstring(member(data, STRINGS)) for data in (content, result))
    assert len(before) == len(after)
    assert ["".join(string.itertext()).count("\n") for string in before] == [
        "".join(string.itertext()).count("\n") for string in after
    ]


@settings(max_examples=15)
@given(st.text() | st.text("a_x0041<&>]\n\x00\ud800</g1>", max_size=9))
def test_any_text_can_be_written(text):
    result = translate("xlsx", workbook("<si><t>One</t></si>"), text)
    written = re.sub("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]", " ", text)
    read_back = "".join(ET.fromstring(member(result, STRINGS)).itertext())
    assert read_back.replace("_x005F_x", "_x") == (written if text.strip() else "One")
    assert not re.search("(?<!_x005F)_x(?!005F_x)[0-9A-Fa-f]{4}_", read_back)


def test_texts_in_cells_are_translated_and_formulas_are_not():
    sheet = '<c t="inlineStr"><is><t>Two</t></is></c><c t="str"><f>UPPER(A1)</f><v>Three</v></c>'
    content = workbook("<si><r><rPr><b/></rPr><t>On</t></r><r><rPr><b/></rPr><t>e</t></r></si>", sheet)
    assert sentences("xlsx", content) == ["One", "Two"]
    result = translate("xlsx", content, "Eins", "Zwei")
    assert '<si><r><rPr><b/></rPr><t xml:space="preserve">Eins</t></r></si>' in member(result, STRINGS)
    assert "<v>Three</v>" in member(result, "xl/worksheets/sheet1.xml")


def test_the_heads_of_tables_are_kept():
    content = workbook(
        "<si><t>Net price</t></si><si><t>Red</t></si>", columns='<tableColumn name="Net price"/>'
    )
    assert sentences("xlsx", content) == ["Red"]
