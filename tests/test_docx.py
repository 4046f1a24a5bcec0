"""Files of Word are translated, and everything else in them stays."""

import re
from collections import Counter
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.documents.file import Reading
from dragoman.documents.read import READERS
from dragoman.system.errors import DragomanError
from tests.office_files import (
    WORD_TYPE,
    A,
    W,
    capitals,
    member,
    pack,
    read,
    sentences,
    shuffled,
    translate,
    types,
    unpack,
    word_file,
    words,
)

RUNS = {"r", "t", "rPr", "b", "lang", "proofErr", "lastRenderedPageBreak", "softHyphen", "noBreakHyphen"}
"""What a paragraph that is translated may have more or fewer of."""


def run(text: str, properties: str = "") -> str:
    properties = properties and f"<w:rPr>{properties}</w:rPr>"
    return f'<w:r>{properties}<w:t xml:space="preserve">{text}</w:t></w:r>'


def field(code: str, result: str) -> str:
    begin, separate, end = (
        f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end")
    )
    return f"{begin}<w:r><w:instrText> {code} </w:instrText></w:r>{separate}{result}{end}"


BOX = "<w:r><w:pict><w:txbxContent><w:p>{}</w:p></w:txbxContent></w:pict></w:r>"
SIMPLE = st.sampled_from(
    (
        run("One "), run("two."), run("bold", "<w:b/>"), run(" "), run("Three! ", '<w:lang w:val="en-US"/>'),
        run("x &amp; &lt;y&gt; &#x1F600; "), run("{name} a@b.org"), run("عربي"),
        run("hidden", "<w:vanish/>"),
        '<w:r w:rsidR="1"><w:t> A</w:t><w:tab/><w:t>b </w:t><w:br/><w:noBreakHyphen/></w:r>', "<w:r/>",
        "<w:r><w:rPr><w:b/></w:rPr><w:footnoteReference w:id='2'/></w:r>",
        '<w:proofErr w:type="spellStart"/>',
        '<w:bookmarkStart w:id="1" w:name="a"/>', '<w:bookmarkEnd w:id="1"/>', "<w:r><w:softHyphen/></w:r>",
        '<w:bookmarkStart w:id="0" w:name="_GoBack"/>', '<w:bookmarkEnd w:id="0"/>', "<w:t>loose</w:t>",
        field("PAGE", run("Seven")), field("REF _a", run("Section two")), field("HYPERLINK", run("a link")),
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r>', '<w:r><w:fldChar w:fldCharType="end"/></w:r>',
        "<w:r><w:t><![CDATA[c & d]]></w:t></w:r>", "<!-- no -->",
        '<w:del w:id="5"><w:r><w:delText>Gone. </w:delText></w:r></w:del>',
        '<w:moveFrom w:id="6"><w:r><w:t>Elsewhere. </w:t></w:r></w:moveFrom>',
        '<w:moveFromRangeStart w:id="7" w:name="m"/>', '<w:moveFromRangeEnd w:id="7"/>',
    )
)  # fmt: skip
INLINE = st.recursive(
    SIMPLE,
    lambda inner: st.tuples(
        st.sampled_from(
            (
                '<w:hyperlink r:id="x">{}</w:hyperlink>',
                "<w:sdt><w:sdtPr/><w:sdtContent>{}</w:sdtContent></w:sdt>",
                BOX, '<w:fldSimple w:instr=" REF a ">{}</w:fldSimple>', "<w:smartTag>{}</w:smartTag>",
                '<w:ins w:id="8">{}</w:ins>', '<w:moveTo w:id="9">{}</w:moveTo>',
                '<w:hyperlink r:id="y"><w:r><w:fldChar w:fldCharType="begin"/></w:r>{}</w:hyperlink>',
            )
        ),
        st.lists(inner, max_size=4),
    ).map(lambda pair: pair[0].format("".join(pair[1]))),
    max_leaves=6,
)  # fmt: skip
PARAGRAPH = st.lists(INLINE, max_size=6).map(
    lambda parts: f"<w:p><w:pPr><w:b/></w:pPr>{''.join(parts)}</w:p>"
)
BODY = st.lists(PARAGRAPH, max_size=3).map("".join)


def shape(content: bytes) -> Counter:
    """The elements with their attributes, without those of runs."""
    root = ET.fromstring(member(content, "word/document.xml").replace("r:id", "id"))
    return Counter(
        (element.tag, *sorted(element.attrib.items()))
        for element in root.iter()
        if element.tag.partition("}")[2] not in RUNS
        and not any(value in {"0", "_GoBack"} for value in element.attrib.values())
    )


def letters(content: bytes) -> str:
    """All letters of the body, and of hidden text."""
    return "".join(ET.fromstring(member(content, "word/document.xml").replace("r:id", "id")).itertext())


@settings(max_examples=20)
@given(BODY, st.booleans())
def test_a_file_comes_back_with_its_own_sentences(body, split):
    content = word_file(body, notes=body)
    document = read("docx", content, split=split)
    assert unpack(document.write([segment.sentence for segment in document.segments])) == unpack(content)


@settings(max_examples=25)
@given(BODY)
def test_only_texts_change(body):
    content = word_file(body)
    result = translate("docx", content)
    assert shape(result) == shape(content)
    assert words(sentences("docx", result)) == words(map(capitals, sentences("docx", content)))
    changed = {name for (name, *before), (_, *after) in zip(unpack(content), unpack(result), strict=True)
               if before != after}  # fmt: skip
    assert changed <= {"word/document.xml", "word/styles.xml"}


@settings(max_examples=20)
@given(BODY, st.randoms(use_true_random=False))
def test_marks_keep_the_structure_wherever_they_come_to_stand(body, chance):
    content = word_file(body)
    result = translate("docx", content, *(shuffled(text, chance) for text in sentences("docx", content)))
    assert shape(result) == shape(content)


@settings(max_examples=20)
@given(BODY, st.text() | st.text("a<&>]\"'\n\t\x00\x0b\u2028\ud800\ufffe</g1>", max_size=8))
def test_any_text_can_be_written(body, text):
    content = word_file(f"<w:p>{run('First words')}</w:p>" + body)
    count = len(sentences("docx", content))
    result = translate("docx", content, *[text] * count)
    assert shape(result) == shape(content)
    written = re.sub("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]", " ", text)
    if text.strip():
        assert written in letters(result)


def test_runs_with_the_same_format_are_one_text():
    text = run("The ") + '<w:proofErr w:type="x"/>' + run("qui", '<w:lang w:val="en-GB"/>') + run("ck fox")
    content = word_file(f"<w:p>{text}{run(' jumps', '<w:b/>')}{run('.')}</w:p>")
    assert sentences("docx", content) == ["The quick fox <g1>jumps</g1>."]
    result = member(translate("docx", content, "Der <g1>springt</g1> schnelle Fuchs."), "word/document.xml")
    assert run("Der ") + run("springt", "<w:b/>") + run(" schnelle Fuchs.") in result


def test_a_link_and_the_format_of_its_text_are_one_pair():
    link = f'<w:hyperlink w:anchor="a">{run("this page", "<w:u/>")}</w:hyperlink>'
    content = word_file(f"<w:p>{run('See ')}{link}{run(' now.')}</w:p>")
    assert sentences("docx", content) == ["See <g1>this page</g1> now."]
    result = member(translate("docx", content, "Jetzt <g1>diese Seite</g1> sehen."), "word/document.xml")
    assert f'<w:hyperlink w:anchor="a">{run("diese Seite", "<w:u/>")}</w:hyperlink>' in result


def test_a_pair_that_moves_into_another_takes_no_format_along():
    bold, link = run("bold", "<w:b/>"), f"<w:hyperlink>{run('link', '<w:u/>')}</w:hyperlink>"
    content = word_file(f"<w:p>{run('plain text ')}{bold}{run(' and ')}{link}{run(' end')}</w:p>")
    result = member(translate("docx", content, "<g2>a <g1>b</g1> c</g2> d"), "word/document.xml")
    inner = run("a ", "<w:u/>") + run("b", "<w:b/>") + run(" c", "<w:u/>")
    assert f"<w:hyperlink>{inner}</w:hyperlink>{run(' d')}" in result


def test_a_sentence_goes_on_behind_a_note_and_a_text_box():
    note = '<w:r><w:rPr><w:i/></w:rPr><w:footnoteReference w:id="2"/></w:r>'
    box = BOX.format(run("In the box."))
    content = word_file(
        f"<w:p>{run('A house')}{note}{run(' is')}{box}{run(' big.')}</w:p>",
        notes=f"<w:footnote><w:p>{run('A note.')}</w:p></w:footnote>",
    )
    assert sentences("docx", content) == ["In the box.", "A house<g1/> is<g2/> big.", "A note."]
    result = translate("docx", content, "X", "Ein Haus<g1/> ist<g2/> groß.", "Y")
    assert f"{run('Ein Haus')}{note}{run(' ist')}{box.replace('In the box.', 'X')}{run(' groß.')}" in member(
        result, "word/document.xml"
    )


def test_an_untouched_paragraph_is_written_as_it_was():
    first = f"<w:p>{run('One ')}{run('word.')}</w:p>"
    result = translate("docx", word_file(first + f"<w:p>{run('Two.')}</w:p>"), "One word.", "Zwei.")
    assert first in member(result, "word/document.xml")


def test_codes_and_results_of_fields_are_kept_but_for_those_with_text():
    content = word_file(
        f"<w:p>{run('See ')}{field('REF x', run('Section two'))}{run(' on page ')}"
        f"{field('PAGEREF x', run('seven'))}{run('.')}{field('MERGEFIELD Name', run('«Name»'))}</w:p>"
    )
    assert sentences("docx", content) == ["See <g1>Section two</g1> on page <g2/>."]
    result = member(translate("docx", content), "word/document.xml")
    assert field("PAGEREF x", run("seven")) in result
    assert field("REF x", run("SECTION TWO")) in result


def test_a_field_goes_on_in_the_next_paragraph():
    begin, rest = field("TOC", "|").split("|")
    content = word_file(
        f"<w:p>{begin}{run('One')}</w:p><w:p>{run('Two')}</w:p><w:p>{rest}{run('Three')}</w:p>"
    )
    assert sentences("docx", content) == ["One", "Two", "Three"]
    content = word_file(
        f"<w:p>{begin.replace('TOC', 'ADDIN')}{run('One')}</w:p><w:p>{run('Two')}{rest}{run('Three')}</w:p>"
    )
    assert sentences("docx", content) == ["Three"]


def test_tabs_and_line_breaks_end_a_sentence():
    content = word_file("<w:p><w:r><w:t>Name:</w:t><w:tab/><w:t>Ann</w:t><w:br/><w:t>Lee</w:t></w:r></w:p>")
    assert sentences("docx", content) == ["Name:", "Ann", "Lee"]


def test_a_translation_changes_the_language_of_the_styles():
    content = word_file(f"<w:p>{run('One')}</w:p>")
    assert read("docx", content).language == "en-US"
    assert 'w:val="de"' in member(translate("docx", content), "word/styles.xml")
    text = run("Un", '<w:lang w:val="fr-FR"/>')
    assert read("docx", word_file(f"<w:p>{text}</w:p>")).language == "fr-FR"


@pytest.mark.parametrize("inserted", ["ins", "moveTo"])
@pytest.mark.parametrize("deleted", ["del", "moveFrom"])
def test_what_is_inserted_is_translated_and_what_is_deleted_stays(inserted, deleted):
    old = f'<w:{deleted} w:id="1" w:author="A">{run("old")}</w:{deleted}>'
    new = f'<w:{inserted} w:id="2" w:author="A">{{}}</w:{inserted}>'
    content = word_file(f"<w:p>{run('The ')}{old}{new.format(run('new'))}{run(' house.')}</w:p>")
    assert sentences("docx", content) == ["The <g1/><g2>new</g2> house."]
    result = member(translate("docx", content, "Das <g1/><g2>neue</g2> Haus."), "word/document.xml")
    assert f"<w:p>{run('Das ')}{old}{new.format(run('neue'))}{run(' Haus.')}</w:p>" in result


@pytest.mark.parametrize("namespace", [W, "http://purl.oclc.org/ooxml/wordprocessingml/main"])
@pytest.mark.parametrize("prefix", ["w:", "ns0:", ""])
def test_other_prefixes_and_strict_files_are_read(prefix, namespace):
    parts = {name: data for name, _, data in unpack(word_file(""))}
    text = f"<w:document xmlns:w='{namespace}'><w:p>{run('One ')}{run('word')}</w:p></w:document>"
    text = text.replace("xmlns:w", f"xmlns:{prefix[:-1]}" if prefix else "xmlns").replace("w:", prefix)
    parts["word/document.xml"] = text.encode()
    content = pack(parts)
    assert sentences("docx", content) == ["One word"]
    assert ET.fromstring(member(translate("docx", content), "word/document.xml"))[0][0][0].text == "ONE WORD"


def test_a_hint_for_the_font_is_no_format():
    text = run("一", '<w:rFonts w:hint="eastAsia"/>') + run("二", '<w:lang w:val="zh-CN"/>') + run("三")
    assert sentences("docx", word_file(f"<w:p>{text}</w:p>")) == ["一二三"]


def test_the_properties_of_a_container_stay_at_its_start():
    tag = '<w:smartTag w:element="place"><w:smartTagPr><w:attr w:name="a"/></w:smartTagPr>{}</w:smartTag>'
    content = word_file(f"<w:p>{run('From ')}{tag.format(run('Rome'))}{run(' here')}</w:p>")
    assert sentences("docx", content) == ["From <g1>Rome</g1> here"]
    assert tag.format(run("Rom")) in member(
        translate("docx", content, "<g1>Rom</g1> hier"), "word/document.xml"
    )


# ---- elements one by one


@pytest.mark.parametrize(
    "kind", ["document", "template", "header", "footer", "footnotes", "endnotes", "comments"]
)
@pytest.mark.parametrize(
    "form",
    [
        "{}.{}.main+xml",
        "{}.{}+xml",
        "application/vnd.ms-word.{1}.macroEnabled.main+xml",
        "application/vnd.ms-word.{1}.macroEnabledTemplate.main+xml",
    ],
)
def test_each_kind_of_member_with_paragraphs_is_translated(kind, form):
    body = f'<w:x xmlns:w="{W}"><w:p>{run("One")}</w:p></w:x>'
    content = pack(
        {
            "[Content_Types].xml": types(
                **{"a.xml": form.format(WORD_TYPE, kind), "b.xml": f"{WORD_TYPE}.settings+xml"}
            ),
            "a.xml": body,
            "b.xml": body,
        }
    )
    assert sentences("docx", content) == ["One"]
    assert "ONE" in member(translate("docx", content), "a.xml")


def test_drawings_of_a_document_are_translated():
    chart = f'<c:x xmlns:c="c" xmlns:a="{A}"><a:p><a:r><a:t>One</a:t></a:r></a:p></c:x>'
    for name in ("chart", "diagramData", "diagramDrawing"):
        kind = f"application/vnd.openxmlformats-officedocument.drawingml.{name}+xml"
        content = pack({"[Content_Types].xml": types(**{"a.xml": f"{WORD_TYPE}.document.main+xml",
            "b.xml": kind}),
                        "a.xml": f'<w:x xmlns:w="{W}"><w:p>{run("Two")}</w:p></w:x>',
                        "b.xml": chart})  # fmt: skip
        assert sentences("docx", content) == ["Two", "One"]
    content = pack({"[Content_Types].xml": types(**{"a.xml": f"{WORD_TYPE}.styles+xml"}), "a.xml": "<a/>"})
    with pytest.raises(DragomanError, match="no text of Word"):
        read("docx", content)


@pytest.mark.parametrize("name", ["hyperlink", "smartTag", "customXml", "dir", "bdo"])
@pytest.mark.parametrize(
    "first", ["", "<w:smartTagPr/>", "<w:customXmlPr><w:attr/></w:customXmlPr>", "<w:fldData>no</w:fldData>"]
)
def test_a_container_is_a_pair_around_its_text(name, first):
    xml = f"<w:{name}>{first}{{}}</w:{name}>"
    content = word_file(f"<w:p>{run('One ')}{xml.format(run('two'))}{run(' three')}</w:p>")
    assert sentences("docx", content) == ["One <g1>two</g1> three"]
    assert xml.format(run("x")) in member(translate("docx", content, "<g1>x</g1> y"), "word/document.xml")


@pytest.mark.parametrize("kind", ["bookmark", "commentRange", "perm", "moveFromRange", "moveToRange"])
def test_a_range_is_a_pair_with_the_same_number(kind):
    names = (f"{kind}Start", f"{kind}End")

    def body(first, second, key="a"):
        start, end = f"<w:{names[0]} w:id='1' w:name='{key}'/>", f"<w:{first} w:id='{second}'/>"
        return f"<w:p>{run('One ')}{start}{run('two')}{end}{run(' three')}</w:p>"

    assert sentences("docx", word_file(body(names[1], 1))) == ["One <g1>two</g1> three"]
    assert sentences("docx", word_file(body(names[1], 2))) == ["One <g1>two</g2> three"]
    other = next(name for name in ("commentRangeEnd", "bookmarkEnd") if name != names[1])
    assert sentences("docx", word_file(body(other, 1))) == ["One <g1>two</g2> three"]
    assert sentences("docx", word_file(body(names[1], 1, "_GoBack"))) == ["One two three"]


@pytest.mark.parametrize("inside", ["<w:tab/>", "<w:br/>", "<w:cr/>", "<w:ptab/>"])
def test_a_break_in_a_run_ends_a_sentence(inside):
    assert sentences("docx", word_file(f"<w:p><w:r><w:t>One</w:t>{inside}<w:t>two</w:t></w:r></w:p>")) == [
        "One",
        "two",
    ]


@pytest.mark.parametrize("inside", ["<w:proofErr/>", "<w:lastRenderedPageBreak/>", "<w:softHyphen/>"])
def test_what_word_writes_itself_is_dropped(inside):
    for paragraph in (f"<w:r><w:t>wo</w:t>{inside}<w:t>rd</w:t></w:r>", f"{run('wo')}{inside}{run('rd')}"):
        content = word_file(f"<w:p>{paragraph}</w:p>")
        assert sentences("docx", content) == ["word"]
        assert inside not in member(translate("docx", content), "word/document.xml")


FIELDS = [
    "HYPERLINK",
    "REF",
    "TOC",
    "INDEX",
    "TOA",
    "IF",
    "FORMTEXT",
    "STYLEREF",
    "TITLE",
    "SUBJECT",
    "QUOTE",
    "ref",
]


@pytest.mark.parametrize("code", [*FIELDS, "PAGE", "DATE", "PAGEREF", "CITATION", "SEQ"])
def test_a_field_has_text_or_is_kept(code):
    is_text = code in FIELDS
    inner = run("two")
    for xml in (
        field(f"{code} x", inner),
        f'<w:fldSimple w:instr=" {code} x ">{inner}</w:fldSimple>',
        field(f"{code} {field('PAGE', run('no'))}", inner),
    ):
        content = word_file(f"<w:p>{run('One ')}{xml}{run(' three')}</w:p>")
        (sentence,) = sentences("docx", content)
        assert sentence == ("One <g1>two</g1> three" if is_text else "One <g1/> three")
        assert (xml if not is_text else xml.replace("two", "TWO")) in member(
            translate("docx", content), "word/document.xml"
        )
    nested = field("PAGE", run("no") + field("REF x", run("no")) + run("no"))
    assert sentences("docx", word_file(f"<w:p>{run('One ')}{nested}{run(' three')}</w:p>")) == [
        "One <g1/> three"
    ]
    begin, end = (f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "end"))
    no_result = f'{begin}<w:r><w:instrText>XE "no"</w:instrText></w:r>{end}'
    assert sentences("docx", word_file(f"<w:p>{run('One')}{no_result}{run(' three')}</w:p>")) == [
        "One<g1/> three"
    ]


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [("<w:vanish/>", "One <g1/> three"), ('<w:vanish w:val="0"/>', "One <g1>two</g1> three"),
        ('<w:vanish w:val="off"/>', "One <g1>two</g1> three"),
     ('<w:vanish w:val="false"/>', "One <g1>two</g1> three"), ('<w:vanish w:val="1"/>', "One <g1/> three"),
     ("<w:b/>", "One <g1>two</g1> three"), ("<w:noProof/>", "One two three"),
     ('<w:lang w:val="fr"/>', "One two three"), ('<w:rFonts w:hint="cs"/>', "One two three"),
     ('<w:rFonts w:ascii="x" w:hint="cs"/>', "One <g1>two</g1> three"),
     ('<w:noProof w:val="1"/><w:b/>', "One <g1>two</g1> three")],
)  # fmt: skip
def test_a_format_that_is_seen_is_a_pair(properties, sentence):
    content = word_file(f"<w:p>{run('One ')}{run('two', properties)}{run(' three')}</w:p>")
    assert sentences("docx", content) == [sentence]
    result = member(translate("docx", content), "word/document.xml")
    assert result.count("preserve") >= 1
    assert ("two" in result) == ("/>" in sentence)


def test_what_stands_for_a_character_or_a_word_is_read_as_such():
    hyphen = "<w:r><w:noBreakHyphen/></w:r>"
    base = "<w:rubyBase><w:r><w:t>kan&amp;ji</w:t></w:r></w:rubyBase>"
    ruby = f"<w:r><w:ruby><w:rt><w:r><w:t>no</w:t></w:r></w:rt>{base}</w:ruby></w:r>"
    formula = "<m:oMath>no</m:oMath>"
    for inside, shown in (
        (hyphen, "\u2011"),
        (ruby, "kanji"),
        (formula, "<g1/>"),
        ("<w:r><w:drawing>no</w:drawing></w:r>", "<g1/>"),
    ):
        assert [
            one.replace("\n", "")
            for one in sentences("docx", word_file(f"<w:p>{run('One ')}{inside}{run(' two')}</w:p>"))
        ] == [f"One {shown} two"]
    assert (
        sentences(
            "docx", word_file(f"<w:p>{run('One is.')}{run(' ')}{formula}{run(' has. Two')}</w:p>"), split=True
        )[0]
        == "One is."
    )


@pytest.mark.parametrize(
    ("tag", "shown"), [("<w:t>", "Onetwo three"), ('<w:t xml:space="preserve">', "One two three")]
)
def test_white_space_at_the_edges_of_a_run_counts_if_it_is_preserved(tag, shown):
    content = word_file(f"<w:p>{run('One')}<w:r>{tag} two</w:t></w:r>{run(' three')}</w:p>")
    assert sentences("docx", content) == [shown]


def test_a_control_is_a_pair_around_its_content():
    xml = "<w:sdt><w:sdtPr><w:alias/></w:sdtPr><w:sdtContent>{}</w:sdtContent><w:sdtEndPr/></w:sdt>"
    content = word_file(f"<w:p>{run('One ')}{xml.format(run('two'))}{run(' three')}</w:p>")
    assert sentences("docx", content) == ["One <g1>two</g1> three"]
    assert xml.format(run("TWO")) in member(translate("docx", content), "word/document.xml")
    empty = "<w:sdt><w:sdtPr/><w:sdtContent/></w:sdt>"
    assert sentences("docx", word_file(f"<w:p>{run('One ')}{empty}{run('two')}</w:p>")) == ["One <g1/>two"]


def test_the_language_is_that_of_most_characters():
    def file(*lengths):
        return word_file(
            "<w:p>"
            + "".join(
                run("x" * length, f'<w:lang w:val="{code}"/>' if code else "") for code, length in lengths
            )
            + "</w:p>"
        )

    assert read("docx", file(("fr", 3), ("it", 9), ("fr", 3))).language == "it"
    assert read("docx", file(("fr", 3), ("", 9))).language == "en-US"
    assert read("docx", file(("fr", 3), ("fr", 3), ("it", 5))).language == "fr"
    content = file(("", 3))
    unknown = READERS["docx"](content, Reading("a", "en", "und"))
    assert 'w:val="en-US"' in member(unknown.write(["x"]), "word/styles.xml")
