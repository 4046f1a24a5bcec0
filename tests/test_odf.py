"""Files of OpenDocument are translated, and everything else in them stays."""

import re
from collections import Counter
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.documents.file import Reading
from dragoman.documents.odf import TEXT_NAMESPACE
from dragoman.documents.read import READERS
from dragoman.system.errors import DragomanError
from tests.office_files import (
    capitals,
    member,
    pack,
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
            '<draw:frame draw:name="f"/>', '<text:change text:change-id="d"/>',
            '<text:change-start text:change-id="e"/>', '<text:change-end text:change-id="e"/>',
        )
    ),
    lambda inner: st.tuples(
        st.sampled_from(
            (
                *(f'<text:span text:style-name="T{number}">{{}}</text:span>' for number in (1, 2, 3)),
                '<text:a office:name="x">{}</text:a>', "<draw:text-box><text:p>{}</text:p></draw:text-box>",
                "<text:note><text:note-body><text:p>{}</text:p></text:note-body></text:note>",
                '<text:tracked-changes><text:p text:style-name="P">{}</text:p></text:tracked-changes>',
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


def spans_around_links(content: bytes) -> Counter:
    """For each link how often the spans around it look bold."""
    result: Counter = Counter()

    def count(element: ET.Element, bold: int) -> None:
        name = element.tag.partition("}")[2]
        result[bold] += name == "a"
        is_bold = name == "span" and not {"T1"} & set(element.attrib.values())
        for child in element:
            count(child, bold + is_bold)

    for paragraph in ET.fromstring(member(content, "content.xml")).iter(f"{{{TEXT_NAMESPACE}}}p"):
        count(paragraph, 0)
    return result


def nested(styles: list[str], text: str) -> str:
    for style in styles:
        text = f'<text:span text:style-name="{style}">{text}</text:span>'
    return text


@settings(max_examples=20)
@given(
    st.lists(st.tuples(*[st.lists(st.sampled_from(["T1", "T2", "T3"]), max_size=2)] * 2), max_size=4),
    st.randoms(use_true_random=False),
)
def test_the_spans_around_a_link_stay_around_it(links, chance):
    texts = (
        nested(outside, f"One <text:a>{nested(inside, 'two')}</text:a> three") for outside, inside in links
    )
    content = text_file(f"<text:p>Zero {' '.join(texts)}</text:p>", STYLES)
    result = translate("odf", content, *(shuffled(text, chance) for text in sentences("odf", content)))
    assert spans_around_links(result) == spans_around_links(content)


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


@pytest.mark.parametrize(
    ("condition", "is_kept"),
    [
        ("is-in-list(&quot;May&quot;;&quot;June&quot;)", True),
        ("is-in-list([$A.A1:.A9])", False),
        ("x()", False),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_cell_keeps_a_value_of_a_list_of_allowed_ones(condition, is_kept, is_first):
    attributes = ['table:name="v1"', f'table:condition="of:cell-content-{condition}"']
    rule = f'<table:content-validation {" ".join(attributes[:: 1 if is_first else -1])} table:x=""/>'
    cell = "<table:table-cell{}><text:p>{}</text:p></table:table-cell>".format
    cells = cell(' table:content-validation-name="v1"', "May") + cell(
        ' table:content-validation-name="v2"', "June"
    )
    content = text_file(f"<table:content-validations>{rule}</table:content-validations>{cells}")
    assert sentences("odf", content) == ["May"] * (not is_kept) + ["June"]


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
        ("<text:p>", "damaged"),
        ("&unknown;", "damaged"),
    ],
)
def test_what_cannot_be_read_is_refused(body, message):
    with pytest.raises(DragomanError, match=message):
        read("odf", text_file(body))


# ---- elements one by one


def paragraph(inside, kind="p"):
    return f"<text:{kind}>One {inside} three</text:{kind}>"


@pytest.mark.parametrize(
    ("xml", "shown"),
    [
        ("<text:a>{}</text:a>", "<g1>{}</g1>"), ("<text:meta>{}</text:meta>", "<g1>{}</g1>"),
        ("<text:span>{}</text:span>", "{}"), ("<draw:frame>no</draw:frame>", "<g1/>"),
        ('<text:span text:style-name="Bold">{}</text:span>', "<g1>{}</g1>"),
        ("<text:a><office:event-listeners><x/></office:event-listeners>{}</text:a>", "<g1>{}</g1>"),
        *((f'<text:{name}-start text:name="a"/>{{}}<text:{name}-end text:name="a"/>', "<g1>{}</g1>")
            for name in ("bookmark", "reference-mark")),
        ('<text:bookmark-start text:name="a"/>{}<text:bookmark-end text:name="b"/>', "<g1>{}</g2>"),
        ('<text:bookmark-start text:name="a"/>{}<text:reference-mark-end text:name="a"/>', "<g1>{}</g2>"),
        ('<text:bookmark-start text:name="_GoBack"/>{}<text:bookmark-end text:name="_GoBack"/>', "{}"),
        ('<text:bookmark text:name="a"/>{}', "<g1/>{}"), ("<text:soft-page-break/>{}", "{}"),
        ("<text:page-number>no</text:page-number>", "<g1/>"),
        ("<text:note><text:note-body/></text:note>{}", "<g1/>{}"), ("<text:reference-mark/>{}", "<g1/>{}"),
        ("<!-- no -->{}", "{}"),
        ("<text:s/>{}", "{}"), ("<![CDATA[two]]>", "two"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["p", "h"])
def test_each_element_of_a_text_is_read_as_what_it_is(xml, shown, kind):
    content = text_file(paragraph(xml.format("two"), kind))
    expected = f"One {shown.format('two')} three"
    found = [re.sub(" +", " ", one) for one in sentences("odf", content)]
    assert found == [re.sub(" +", " ", expected)] or (found == [expected.replace("<g1/>two", "<g1>two")])
    if (
        "no" not in xml
        and "GoBack" not in xml
        and "page-break" not in xml
        and "<!" not in xml
        and ":s/" not in xml
        and shown != "{}"
    ):
        written = member(translate("odf", content), "content.xml")
        assert xml.format("TWO") in re.sub(r"(?<=O)\s+(?=<)", "", written)


@pytest.mark.parametrize("name", ["tab", "line-break"])
def test_a_break_ends_a_sentence(name):
    assert sentences("odf", text_file(paragraph(f"<text:{name}/>"))) == ["One", "three"]


@pytest.mark.parametrize(
    ("count", "spaces"),
    [("", 1), (' text:c="1"', 1), (' text:c="3"', 3), (' text:c="12"', 12), (' text:c="x"', 1)],
)
def test_spaces_are_as_many_as_they_say(count, spaces):
    content = text_file(f"<text:p>One<text:s{count}/>two</text:p>")
    assert sentences("odf", content) == ["One two"]
    result = member(translate("odf", content, "a  b   c d"), "content.xml")
    assert '<text:p>a <text:s text:c="1"/>b <text:s text:c="2"/>c d</text:p>' in result
    document = read("odf", text_file(f"<text:p>One,<text:s{count}/>two.</text:p><text:p>x</text:p>"))
    assert [segment.source.count(" ") for segment in document.segments] == [spaces, 0]


LOOKS = {
    'fo:font-weight="bold"': True, 'fo:language="de"': False, 'fo:country="AT"': False,
    'fo:script="x"': False, 'style:language-asian="x"': False, 'style:country-asian="x"': False,
    'style:rfc-language-tag="x"': False, 'style:script-type="x"': False, 'officeooo:rsid="1"': False,
    'loext:x="1"': False, 'style:text-scale="9%"': True,
}  # fmt: skip


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("parent", ["", ' style:parent-style-name="Strong"'])
def test_a_style_is_a_mark_if_it_is_seen(look, parent):
    style = (
        '<style:style style:name="{}" style:family="{}"{} xmlns:officeooo="a" xmlns:loext="b">'
        "\n  <style:text-properties {}/>\n</style:style>"
    ).format
    span = '<text:span text:style-name="{}">two</text:span>'.format
    content = text_file(paragraph(span("A")), style("A", "text", parent, look))
    is_seen = LOOKS[look] or bool(parent)
    assert sentences("odf", content) == ["One <g1>two</g1> three" if is_seen else "One two three"]
    both = (
        style("A", "text", parent, f'{look} fo:x="1"')
        + style("P", "paragraph", "", 'fo:y="2"')
        + style("B", "text", parent, f'fo:x="1" {look}')
    )
    assert sentences("odf", text_file(paragraph(span("A") + span("B")), both)) == [
        "One <g1>twotwo</g1> three"
    ]
    other = both.replace('fo:x="1"/>', 'fo:x="2"/>') if not parent else both.replace("Strong", "Weak", 1)
    expected = "One <g1>two</g1><g2>two</g2> three"
    assert sentences("odf", text_file(paragraph(span("A") + span("B")), other)) == [expected]


def test_spans_in_each_other_are_one_format_and_come_back_so():
    span = '<text:span text:style-name="{}">{}</text:span>'.format
    content = text_file(paragraph(span("A", "a " + span("B", "b") + " c")))
    written = member(translate("odf", content), "content.xml")
    assert span("A", span("B", "B")) in written
    assert written.count("<text:span") == written.count("</text:span")


@pytest.mark.parametrize(
    ("attributes", "is_text"),
    [('office:value-type="string"', True), ('office:value-type="float" office:value="1"', False),
        ('office:value-type="date"', False), ("office:value-type='percentage'", False),
     ('table:formula="of:=A1" office:value-type="string"', False), ('table:style-name="x"', True),
     ("", True)],
)  # fmt: skip
def test_a_cell_with_a_value_or_a_formula_is_kept(attributes, is_text):
    note = "<office:annotation><text:p>Two</text:p></office:annotation>"
    for name in ("table-cell", "covered-table-cell"):
        content = text_file(
            f"<table:{name} {attributes}>{note}<text:p>One</text:p></table:{name}><text:p>three</text:p>",
            kind="spreadsheet",
        )
        assert sentences("odf", content) == ["Two", *["One"] * is_text, "three"]


@pytest.mark.parametrize("kind", ["text", "table"])
def test_what_is_inserted_is_translated_and_what_is_deleted_stays(kind):
    gone = f"<{kind}:tracked-changes><text:p>old</text:p></{kind}:tracked-changes>"
    deleted, start, end = (f'<text:change{name} text:change-id="c"/>' for name in ("", "-start", "-end"))
    content = text_file(f"{gone}<text:p>The {deleted}{start}new{end} house.</text:p>")
    assert sentences("odf", content) == ["The <g1/><g2>new</g2> house."]
    result = member(translate("odf", content, "Das <g1/><g2>neue</g2> Haus."), "content.xml")
    assert f"{gone}<text:p>Das {deleted}{start}neue{end} Haus.</text:p>" in result


@pytest.mark.parametrize(
    ("target", "language", "country"),
    [
        ("de", "de", "none"),
        ("pt-BR", "pt", "BR"),
        ("zh-Hant", "zh", "none"),
        ("de-at", "de", "AT"),
        ("und", "en", "US"),
    ],
)
def test_the_styles_name_the_language_and_the_country(target, language, country):
    styles = (
        '<style:style><style:text-properties fo:language="none" fo:country="none"/>'
        '<style:text-properties fo:language="zxx"/></style:style>'
    )
    content = text_file("<text:p>One</text:p>", styles)
    document = READERS["odf"](content, Reading("a", "en", target))
    written = document.write(["x"])
    assert f'fo:language="{language}" fo:country="{country}"' in member(written, "styles.xml")
    assert styles in member(written, "content.xml")


def test_objects_in_a_document_are_read_and_encrypted_ones_refused():
    parts = {name: data for name, _, data in unpack(text_file("<text:p>One</text:p>"))}
    parts["Object 1/content.xml"] = parts["content.xml"].replace(b"One", b"Two")
    parts["Object 1/meta.xml"] = parts["content.xml"]
    assert sentences("odf", pack(parts)) == ["One", "Two"]
    with pytest.raises(DragomanError, match="password"):
        read("odf", pack({**parts, "META-INF/manifest.xml": "<x><manifest:encryption-data/></x>"}))
