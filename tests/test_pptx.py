"""Presentations are translated, and everything else in them stays."""

from collections import Counter
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.documents.file import Reading
from dragoman.documents.read import READERS
from dragoman.system.errors import DragomanError
from tests.office_files import (
    A,
    capitals,
    member,
    pack,
    read,
    sentences,
    shuffled,
    slides,
    translate,
    types,
    unpack,
    words,
)

SLIDE = "ppt/slides/slide1.xml"
PARTS = st.sampled_from(
    (
        "<a:r><a:t>One </a:t></a:r>", '<a:r><a:rPr lang="en-US" dirty="0"/><a:t>two.</a:t></a:r>', "<a:br/>",
        '<a:r><a:rPr lang="en-US" b="1"><a:hlinkClick r:id="x"/></a:rPr><a:t>a link &amp; more</a:t></a:r>',
        '<a:r><a:rPr b="1"/><a:t> bold </a:t></a:r>', '<a:fld type="slidenum"><a:t>Seven</a:t></a:fld>',
        "<a:r><a:t/></a:r>", "<!-- no -->",
    )
)  # fmt: skip
BODY = st.lists(
    st.lists(PARTS, max_size=7).map(
        lambda parts: f'<a:p><a:pPr lvl="1"/>{"".join(parts)}<a:endParaRPr lang="en-US"/></a:p>'
    ),
    max_size=3,
).map("".join)


def shape(content: bytes) -> Counter:
    """The elements, without those of runs."""
    names = (element.tag.partition("}")[2] for element in ET.fromstring(member(content, SLIDE)).iter())
    return Counter(name for name in names if name not in {"r", "t", "rPr", "hlinkClick"})


@settings(max_examples=15)
@given(BODY, st.booleans())
def test_a_file_comes_back_with_its_own_sentences(body, split):
    content = slides(body, body)
    document = read("pptx", content, split=split)
    assert unpack(document.write([segment.sentence for segment in document.segments])) == unpack(content)


@settings(max_examples=15)
@given(BODY, st.randoms(use_true_random=False))
def test_only_texts_change(body, chance):
    content = slides(body)
    result = translate("pptx", content)
    assert shape(result) == shape(content)
    assert words(sentences("pptx", result)) == words(map(capitals, sentences("pptx", content)))
    result = translate("pptx", content, *(shuffled(text, chance) for text in sentences("pptx", content)))
    assert shape(result) == shape(content)
    assert all(paragraph[-1].tag.endswith("endParaRPr") for paragraph in
               ET.fromstring(member(result, SLIDE)).iterfind(".//{*}p"))  # fmt: skip


def test_runs_are_joined_and_have_the_new_language():
    text = (
        '<a:r><a:rPr lang="en-US" err="1"/><a:t>Tw</a:t></a:r><a:r><a:rPr lang="en-US"/><a:t>o </a:t></a:r>'
    )
    bold = '<a:r><a:rPr lang="en-GB" b="1"/><a:t>bold</a:t></a:r>'
    content = slides("", *[f"<a:p>{text}{bold}</a:p>"] * 10)
    assert sentences("pptx", content) == ["Two <g1>bold</g1>"] * 10
    result = member(translate("pptx", content, *["Zwei <g1>fett</g1>"] * 10), "ppt/slides/slide11.xml")
    assert '<a:rPr lang="de"/><a:t>Zwei </a:t></a:r><a:r><a:rPr lang="de" b="1"/><a:t>fett</a:t>' in result


def test_slides_are_read_in_their_order():
    content = slides(*(f"<a:p><a:r><a:t>Number {number}</a:t></a:r></a:p>" for number in range(1, 12)))
    assert sentences("pptx", content) == [f"Number {number}" for number in range(1, 12)]


# ---- elements one by one


def text(inside, properties=""):
    return f"<a:r>{properties}<a:t>{inside}</a:t></a:r>"


@pytest.mark.parametrize(
    ("inside", "found"),
    [("<a:br/>", ["One", "two"]), ('<a:br><a:rPr lang="en"/></a:br>', ["One", "two"]),
        ("<a:fld><a:t>no</a:t></a:fld>", ["One <g1/> two"]), ("<m:oMath>no</m:oMath>", ["One <g1/> two"]),
     (text("x", '<a:rPr b="1"/>'), ["One <g1>x</g1> two"]), (text("x",
         '<a:rPr lang="fr" dirty="0" err="1" smtClean=\'0\' altLang="de" bmk="x"/>'),
         ["One <g1>x</g1> two"])],
)  # fmt: skip
def test_each_part_of_a_paragraph(inside, found):
    end = "<a:endParaRPr/>"
    content = slides(f"<a:p><a:pPr/>{text('One ')}{inside}{text(' two')}{end}</a:p>")
    assert sentences("pptx", content) == found
    result = member(translate("pptx", content), SLIDE)
    assert result.count(end + "</a:p>") == 1
    assert "no" not in inside or inside in result


@pytest.mark.parametrize("name", ["dirty", "err", "smtClean", "altLang", "bmk"])
def test_properties_that_only_the_program_sees_are_no_format(name):
    first, second = (
        f'<a:rPr lang="{language}"{more}/>' for language, more in (("en-US", ""), ("en-GB", f' {name}="1"'))
    )
    content = slides(f"<a:p>{text('wo', first)}{text('rd', second)}{text('', '')}</a:p>")
    assert sentences("pptx", content) == ["word"]
    assert '<a:rPr lang="de"/><a:t>WORD</a:t>' in member(translate("pptx", content), SLIDE)
    unknown = READERS["pptx"](
        slides(f"<a:p>{text('wo', first)}{text('rd', first)}</a:p>"), Reading("a", "en", "und")
    )
    assert f"{first}<a:t>x</a:t>" in member(unknown.write(["x"]), SLIDE)
    bold = text("a", '<a:rPr b="1"/>')
    plain = slides(f"<a:p>{bold}{text('bcd')}</a:p>")
    assert sentences("pptx", plain) == ["<g1>a</g1>bcd"]


PRESENTATION = "application/vnd.openxmlformats-officedocument.{}+xml"


@pytest.mark.parametrize(
    ("kind", "is_read"),
    [
        ("presentationml.notesSlide", True),
        ("drawingml.chart", True),
        ("drawingml.diagramData", True),
        ("presentationml.slideLayout", False),
        ("presentationml.slideMaster", False),
        ("drawing", True),
    ],
)
def test_each_kind_of_member_with_texts_is_translated(kind, is_read):
    body = f'<x xmlns:a="{A}"><a:p>{{}}</a:p></x>'
    content = pack({"[Content_Types].xml": types(**{"a.xml": PRESENTATION.format("presentationml.slide"),
        "b.xml": PRESENTATION.format(kind)}),
                    "a.xml": body.format(text("One")), "b.xml": body.format(text("Two"))})  # fmt: skip
    assert sentences("pptx", content) == ["One", *["Two"] * is_read]
    if kind != "presentationml.notesSlide":
        with pytest.raises(DragomanError, match="no slides"):
            read(
                "pptx",
                pack({"[Content_Types].xml": types(**{"b.xml": PRESENTATION.format(kind)}), "b.xml": body}),
            )
