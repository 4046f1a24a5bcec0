"""Workbooks are translated, and everything else in them stays."""

import re
from html import escape
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.system.errors import DragomanError
from tests.office_files import (
    A,
    S,
    capitals,
    member,
    pack,
    read,
    sentences,
    text_file,
    translate,
    types,
    unpack,
    words,
    workbook,
)

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


@pytest.mark.parametrize(
    ("kind", "column"), [("table", "tableColumn"), ("pivotCacheDefinition", "cacheField")]
)
def test_the_heads_of_columns_that_others_refer_to_are_kept(kind, column):
    content = workbook(
        "<si><t>Net price</t></si><si><t>Red</t></si>", columns=f'<{column} name="Net price"/>'
    )
    parts = {name: data.replace(b".table+xml", f".{kind}+xml".encode()) for name, _, data in unpack(content)}
    assert sentences("xlsx", pack(parts)) == ["Red"]


CODES = st.from_regex(r"[A-Z0-9]{1,4}(?:[-./][A-Z0-9]{1,4}){0,2}", fullmatch=True).filter(
    lambda code: any(map(str.isdigit, code))
)


@given(st.lists(CODES, max_size=3), st.sampled_from(["xlsx", "odf"]))
def test_the_number_of_an_article_is_no_text(codes, file_format):
    texts = [*codes, *(f"for {code}" for code in codes), "IT", "A-b"]
    if file_format == "xlsx":
        content = workbook("".join(f"<si><t>{text}</t></si>" for text in texts))
    else:
        cells = "".join(f"<table:table-cell><text:p>{text}</text:p></table:table-cell>" for text in texts)
        content = text_file(f"<office:spreadsheet>{cells}</office:spreadsheet>")
    assert len(sentences(file_format, content)) == len(codes) + 2


@given(
    st.lists(st.text("ab &<\"'é", min_size=1, max_size=5).map("x{}".format), min_size=1, max_size=4),
    st.sampled_from(
        [
            '<dataValidation type="list" sqref="A1"><formula1>{}</formula1></dataValidation>',
            '<x14:dataValidation sqref="A1" type="list" >\n<x14:formula1><xm:f>{}</xm:f></x14:formula1>'
            "</x14:dataValidation>",
        ]
    ),
)
def test_a_cell_keeps_a_value_of_a_list_of_allowed_ones(values, form):
    quoted = ",".join(values).replace('"', '""')
    rules = form.format(escape(f'"{quoted}"'))
    texts = [*values, "free text", *(f"{value} z" for value in values)]
    content = workbook("".join(f"<si><t>{escape(text)}</t></si>" for text in texts), f"<!-- -->{rules}")
    assert sentences("xlsx", content) == [" ".join(text.split()) for text in texts[len(values) :]]
    for other in (rules.replace('"list"', '"custom"'), form.format("Sheet2!$A$1:$A$9")):
        content = workbook("".join(f"<si><t>{escape(text)}</t></si>" for text in texts), other)
        assert len(sentences("xlsx", content)) == len(texts)


# ---- parts of a text one by one


@pytest.mark.parametrize(
    "end",
    ["\n", "\r\n", "&#10;", "&#13;", "&#xa;", "&#xA;", "&#xD;", "&#xd;", "_x000D_", "_x000a_", "_x0041_"],
)
@pytest.mark.parametrize("form", ["<t>{}</t>", "<r><rPr><b/></rPr><t>{}</t></r>"])
def test_a_line_end_ends_a_sentence(end, form):
    content = workbook(f"<si>{form.format(f'One{end}two')}</si>")
    assert sentences("xlsx", content) == ["One", "two"]
    result = member(translate("xlsx", content), STRINGS)
    assert end in result
    before, after = (
        "".join(ET.fromstring(member(data, STRINGS)).itertext())
        for data in (content, translate("xlsx", content))
    )
    assert after.replace("X", "x") == before.replace("One", "ONE").replace("two", "TWO").replace("X", "x")
    assert result.count("<b/>") >= form.count("<b/>")


@pytest.mark.parametrize(
    ("inside", "found"),
    [("<r><t>On</t></r><r><t>e</t></r>", ["One"]), ("<r><t>One </t></r><r><rPr><b/></rPr><t>two</t></r>",
        ["<g1>One </g1>two"]), ("<t>One</t><rPh><t>no</t></rPh><phoneticPr/>", ["One"]),
     ("<t>12</t>", []), ("<t/>", []), ("<r><rPr><b/></rPr><t>One</t></r><rPh><t>no</t></rPh>", ["One"])],
)  # fmt: skip
def test_the_runs_of_a_text(inside, found):
    content = workbook(f"<si>{inside}</si>")
    assert [re.sub("</?g1>", "", one) for one in sentences("xlsx", content)] == [
        re.sub("</?g1>", "", one) for one in found
    ]
    result = member(translate("xlsx", content), STRINGS)
    assert "<rPh>" not in result
    assert result.count("<phoneticPr/>") == inside.count("<phoneticPr/>")
    if "<r>" not in inside:
        assert "<r>" not in result


@pytest.mark.parametrize(
    ("heading", "column"),
    [("A&amp;b", "A&amp;b"), ("A  b", "A b"), ("A\nb", "A_x000a_b"), ("A&#10;b", "A&#10;b"), ("A b", "A b")],
)
def test_the_head_of_a_table_is_known_however_it_is_written(heading, column):
    content = workbook(
        f"<si><t>{heading}</t></si><si><t>{heading} c</t></si>",
        columns=f'<tableColumn id="1" name="{column}"/>',
    )
    assert len(sentences("xlsx", content)) == len(re.split(r"\n|&#10;", heading))


KIND = "application/vnd.openxmlformats-officedocument.{}+xml"


@pytest.mark.parametrize(("kind", "name", "is_read"), [("spreadsheetml.comments", "text", True),
    ("drawingml.chart", "", True), ("drawing", "", True), ("spreadsheetml.worksheet", "is", True),
                                                       ("spreadsheetml.worksheet", "f", False),
                                                       ("spreadsheetml.styles", "si", False)])  # fmt: skip
def test_each_kind_of_member_with_texts_is_translated(kind, name, is_read):
    body = (
        f'<x xmlns="{S}"><c t="inlineStr"><{name}><t>Two</t></{name}></c></x>'
        if name
        else f'<x xmlns:a="{A}"><a:p><a:r><a:t>Two</a:t></a:r></a:p></x>'
    )
    parts = {"a.xml": KIND.format("spreadsheetml.sheet.main"), "b.xml": KIND.format(kind)}
    content = pack({"[Content_Types].xml": types(**parts), "a.xml": f'<x xmlns="{S}"/>', "b.xml": body})
    assert sentences("xlsx", content) == ["Two"] * is_read
    with pytest.raises(DragomanError, match="no sheets"):
        read(
            "xlsx", pack({"[Content_Types].xml": types(**{"b.xml": KIND.format("drawing")}), "b.xml": "<x/>"})
        )


@pytest.mark.parametrize("text", ["_x0041_", "_x00aF_", "a_x000D_b", "_x_", "_x41_"])
def test_what_looks_like_an_escape_stays_a_text(text):
    written = member(translate("xlsx", workbook("<si><t>One</t></si>"), text), STRINGS)
    assert written.count("_x005F_") == len(re.findall("_x[0-9A-Fa-f]{4}_", text))
