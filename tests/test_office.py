"""Hostile and damaged files of office programs end in a sentence or in a document."""

import io
import random
import re
import time
import zipfile
from collections import Counter
from itertools import permutations
from pathlib import PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.documents.file import ArchiveLimits, Reading, read_members
from dragoman.documents.formats import OTHERS, format_of_name
from dragoman.documents.markup import read_markup
from dragoman.documents.nested import put_back, rewrite
from dragoman.documents.office import content_types, element_ends, escape_text, plain_characters, prefix_of
from dragoman.documents.read import READERS
from dragoman.documents.runs import Item, normal_form, run_blocks, write_runs
from dragoman.system.errors import DragomanError
from dragoman.text.settings import Languages
from tests.office_files import book, pack, slides, text_file, translate, unpack, word_file, workbook

WORD_PARAGRAPH = "<w:p><w:r><w:t>One two.</w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>Three</w:t></w:r></w:p>"
FILES = {
    "docx": lambda text="": word_file(WORD_PARAGRAPH + text),
    "odf": lambda text="": text_file(f"<text:p>One <text:span>two</text:span>.</text:p>{text}"),
    "epub": lambda text="": book(f"<p>One <b>two</b>.</p>{text}"),
    "pptx": lambda text="": slides(f"<a:p><a:r><a:t>One two.</a:t></a:r></a:p>{text}"),
    "xlsx": lambda text="": workbook(f"<si><t>One two.</t></si>{text}"),
}
NESTED = {
    "docx": ("<w:p><w:r><w:pict><w:txbxContent>", WORD_PARAGRAPH, "</w:txbxContent></w:pict></w:r></w:p>"),
    "odf": ("<text:p><draw:text-box>", "<text:p>One</text:p>", "</draw:text-box></text:p>"),
    "epub": ("<p><b>", "One", "</b></p>"),
    "pptx": ("<a:p><a:r>", "<a:p><a:r><a:t>One</a:t></a:r></a:p>", "</a:r></a:p>"),
    "xlsx": ("<si><r>", "<si><t>One</t></si>", "</r></si>"),
}
PARAGRAPHS = {
    "docx": "<w:p>{}</w:p>",
    "odf": "<text:p>{}</text:p>",
    "epub": "<p>{}</p>",
    "pptx": "<a:p>{}</a:p>",
    "xlsx": "<si>{}</si>",
}
REPEATED = [
    ("docx", "<w:r><w:t>One </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t> a</w:t></w:r>", ""),
    ("docx", '<w:hyperlink><w:bookmarkStart w:id="1"/>', "</w:hyperlink>"),
    ("docx", '<w:r><w:fldChar w:fldCharType="begin"/></w:r>', ""),
    ("docx", "<w:sdt><w:sdtContent>", "</w:sdtContent></w:sdt>"),
    ("docx", "<w:r><w:tab/></w:r>", ""),
    ("docx", '<w:r><w:t xml:space="preserve">  </w:t></w:r>', ""),
    ("odf", "<text:span>One </text:span> a ", ""),
    ("odf", "<text:a><text:bookmark-start/>", "</text:a>"),
    ("odf", "<text:span>a", "</text:span>"),
    ("odf", "<text:s/>", ""),
    ("odf", "  ", ""),
    ("epub", "<b>One</b> a ", ""),
    ("epub", "<b>", ""),
    ("pptx", "<a:r><a:rPr b='1'/><a:t>One</a:t></a:r><a:r><a:t> a</a:t></a:r>", ""),
    ("pptx", "<a:r>", "</a:r>"),
    ("xlsx", "<r><rPr><b/></rPr><t>One</t></r><r><t> a&#10;b</t></r>", ""),
    ("xlsx", "<r><x>", "</x></r>"),
]


ENDINGS = {"docx": ".docx", "odf": ".odt", "epub": ".epub", "pptx": ".pptx", "xlsx": ".xlsx"}


def outcome(file_format, content: bytes) -> str:
    """Read a file and write it, if it can be read: "read" or the sentence that refuses it."""
    try:
        translate(file_format, content)
    except DragomanError as error:
        return str(error)
    return "read"


@pytest.mark.parametrize("file_format", FILES)
def test_a_damaged_file_is_refused_with_a_sentence(file_format):
    content = FILES[file_format]()
    chance = random.Random(1)
    for end in range(0, len(content), 97):
        assert outcome(file_format, content[:end]).startswith(("file", "A part of file"))
    for _ in range(60):
        damaged = bytearray(content)
        for _ in range(chance.randint(1, 8)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        outcome(file_format, bytes(damaged))


@pytest.mark.parametrize("file_format", FILES)
def test_a_file_with_a_damaged_member_is_refused_or_read(file_format):
    chance = random.Random(2)
    parts = [(name, data) for name, _, data in unpack(FILES[file_format]())]
    for _ in range(60):
        damaged = dict(parts)
        name = chance.choice(list(damaged))
        data = bytearray(damaged[name])
        start = chance.randrange(len(data))
        data[start : start + chance.randint(0, 9)] = chance.randbytes(chance.randint(0, 9))
        outcome(file_format, pack({**damaged, name: bytes(data)}))


@pytest.mark.parametrize(("file_format", "other"), [*permutations(FILES, 2)])
def test_an_archive_with_a_wrong_ending_is_refused_with_its_own(file_format, other):
    assert f"whose name ends in {ENDINGS[other]}" in outcome(file_format, FILES[other]())


OFFICE = "application/vnd.openxmlformats-officedocument."
TYPES_OF_ENDINGS = {
    ".docm": "application/vnd.ms-word.document.macroEnabled.main+xml",
    ".dotx": f"{OFFICE}wordprocessingml.template.main+xml",
    ".dotm": "application/vnd.ms-word.template.macroEnabledTemplate.main+xml",
    ".pptm": "application/vnd.ms-powerpoint.presentation.macroEnabled.main+xml",
    ".ppsx": f"{OFFICE}presentationml.slideshow.main+xml",
    ".ppsm": "application/vnd.ms-powerpoint.slideshow.macroEnabled.main+xml",
    ".potx": f"{OFFICE}presentationml.template.main+xml",
    ".potm": "application/vnd.ms-powerpoint.template.macroEnabled.main+xml",
    ".xlsm": "application/vnd.ms-excel.sheet.macroEnabled.main+xml",
    ".xltx": f"{OFFICE}spreadsheetml.template.main+xml",
    ".xltm": "application/vnd.ms-excel.template.macroEnabled.main+xml",
    ".ott": "application/vnd.oasis.opendocument.text-template",
    ".otp": "application/vnd.oasis.opendocument.presentation-template",
    ".ots": "application/vnd.oasis.opendocument.spreadsheet-template",
}
"""What the main member of an office file is by its ending, if it is a template, a show, or has macros."""


@pytest.mark.parametrize("ending", TYPES_OF_ENDINGS)
def test_templates_shows_and_files_with_macros_are_read_as_the_files_that_they_are(ending):
    file_format = format_of_name(PurePath(f"a{ending}"), Languages("en", "de"))
    members = {name: data.decode("latin-1") for name, _, data in unpack(FILES[file_format]())}
    if "mimetype" in members:
        members["mimetype"] = TYPES_OF_ENDINGS[ending]
    else:
        main = {"docx": "word/document.xml", "pptx": "ppt/presentation.xml", "xlsx": "xl/workbook.xml"}
        override = f'<Override PartName="/{main[file_format]}" ContentType="{TYPES_OF_ENDINGS[ending]}"/>'
        types = re.sub(
            rf'<Override PartName="/{main[file_format]}"[^>]*>', "", members["[Content_Types].xml"]
        )
        members["[Content_Types].xml"] = types.replace("</Types>", f"{override}</Types>")
    content = pack({name: text.encode("latin-1") for name, text in members.items()})
    document = READERS[file_format](content, Reading(f"a{ending}", "en", "de"))
    sentences = [segment.sentence for segment in document.segments]
    assert "One two." in " ".join(sentences).replace("<g1>", "").replace("</g1>", "")
    assert unpack(document.write(sentences)) == unpack(content)


@pytest.mark.parametrize("ending", [*OTHERS, ".unknown"])
def test_a_file_that_is_not_read_is_refused_with_what_to_do(ending):
    with pytest.raises(
        DragomanError, match=rf"\{ending} (is not read, since it is .+; |ends in .+ --format )"
    ):
        format_of_name(PurePath(f"a{ending}"), Languages("en", "de"))


@pytest.mark.parametrize("file_format", FILES)
@pytest.mark.parametrize("start", [b"\xd0\xcf\x11\xe0", b"%PDF-1.7", b"{\\rtf1", b"", b"PK\x03\x04"])
def test_other_files_are_refused_with_advice(file_format, start):
    assert outcome(file_format, start + b"x" * 99).startswith("file ")


@pytest.mark.parametrize("file_format", FILES)
def test_bombs_and_doubled_members_are_refused(file_format):
    assert "200 times" in outcome(file_format, pack({"a": b"", "b": bytes(10**7)}))
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w") as archive:
        archive.writestr("aa", "1")
        archive.writestr("ab", "2")
    assert "same name" in outcome(file_format, output.getvalue().replace(b"ab", b"aa"))


@given(st.lists(st.integers(0, 99), min_size=1, max_size=5))
def test_an_archive_may_unpack_to_as_much_as_the_limits_allow_and_no_more(sizes):
    members = {str(number): bytes(size) for number, size in enumerate(sizes)}
    content = pack(members)
    assert read_members(content, "file", ArchiveLimits(sum(sizes), len(sizes))) == members
    for limits in (ArchiveLimits(sum(sizes) - 1, len(sizes)), ArchiveLimits(sum(sizes), len(sizes) - 1)):
        with pytest.raises(DragomanError, match="are allowed; remove what it embeds"):
            read_members(content, "file", limits)


@pytest.mark.parametrize(
    ("file_format", "name"),
    [("docx", "word/document.xml"), ("odf", "content.xml"), ("xlsx", "xl/sharedStrings.xml")],
)
def test_entities_are_refused(file_format, name):
    parts = {name: data for name, _, data in unpack(FILES[file_format]())}
    parts[name] = b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]>' + parts[name]
    assert "document type" in outcome(file_format, pack(parts))


def check_time(file_format, text):
    def seconds(count):
        members = {name: data for name, _, data in unpack(FILES[file_format](text(count)))}
        content = pack(members, is_packed=False)
        start = time.process_time()
        assert outcome(file_format, content) == "read"
        return time.process_time() - start

    # Quadratic is 100. The least of three: other programs slow some of them down.
    most = 50 * max(seconds(100), 0.005)
    assert any(seconds(1000) < most for _ in range(3))


@pytest.mark.parametrize("file_format", FILES)
def test_the_time_is_linear_in_depth(file_format):
    opening, inner, closing = NESTED[file_format]
    check_time(file_format, lambda count: opening * count + inner + closing * count)


@pytest.mark.short_form(1)
@pytest.mark.parametrize(("file_format", "opening", "closing"), REPEATED)
def test_the_time_is_linear_in_length(file_format, opening, closing):
    inner = NESTED[file_format][1] if file_format == "epub" else ""
    check_time(
        file_format, lambda count: PARAGRAPHS[file_format].format(opening * count + inner + closing * count)
    )


def test_nested_units_are_put_back():
    assert put_back("a\x0eb\x0f\x0ec\x100\x11d\x0fe\x101\x11f") == "aecbdf"


@pytest.mark.parametrize("file_format", FILES)
def test_more_tags_than_memory_is_for_are_refused(file_format, monkeypatch):
    monkeypatch.setattr("dragoman.documents.office.MAX_TAGS", 100)
    assert "tags" in outcome(file_format, FILES[file_format](PARAGRAPHS[file_format].format("") * 60))


# ---- the parts of all formats


@pytest.mark.parametrize(
    "character",
    [
        "\t",
        "\n",
        "\r",
        "\x00",
        "\x1f",
        "\x7f",
        "\x85",
        "\u2028",
        "\u2029",
        "\ud800",
        "\ufffe",
        "\uffff",
        "\u1680",
    ],
)
def test_a_character_that_has_no_place_in_a_text_is_a_space(character):
    assert escape_text(f"a{character}b") == "a b"


@pytest.mark.parametrize(
    "character",
    ["\xa0", "\u2000", "\u2003", "\u2007", "\u200a", "\u202f", "\u3000", "é", "😀", " ", "\u200b"],
)
def test_other_spaces_and_characters_stay(character):
    assert escape_text(f"a{character}b") == f"a{character}b"
    assert escape_text("<&>\"'") == "&lt;&amp;&gt;\"'"


@pytest.mark.parametrize(
    ("xml", "text"),
    [
        ("a<![CDATA[<b>&]]>c", "a&lt;b&gt;&amp;c"),
        ("a<!-- <b>\n -->c", "ac"),
        ("a<?x <b>\n?>c", "ac"),
        ("a&amp;b", "a&amp;b"),
        ("<![CDATA[]]>a<![CDATA[b]]>", "ab"),
    ],
)
def test_characters_of_a_text_are_those_that_xml_has(xml, text):
    assert plain_characters(xml) == text


@pytest.mark.parametrize(
    ("tag", "prefix"),
    [
        ("<a xmlns:w='n'>", "w:"),
        ('<a xmlns="n">', ""),
        ("<a xmlns:b='m' xmlns:x.y-z = \"n\">", "x.y-z:"),
        ("<a xmlns:b='nn'>", ""),
        ("<a>", ""),
        ("<a xmlns:b='o'>", "b:"),
    ],
)
def test_the_prefix_of_a_namespace(tag, prefix):
    assert prefix_of(tag, "n", "o") == prefix


def test_types_are_those_of_members_in_the_order_of_the_file():
    overrides = (
        '<Override PartName="/b" ContentType="x"/><o:Override PartName="/none" ContentType="y"/>'
        '<o:Override PartName="a" ContentType="z"></o:Override>'
    )
    members = {
        "[Content_Types].xml": f'<Types xmlns:o="o">{overrides}</Types>'.encode(),
        "a": b"",
        "b": b"",
        "c": b"",
    }
    assert list(content_types(members, "x").items()) == [("a", "z"), ("b", "x")]
    with pytest.raises(DragomanError, match="not one of Microsoft Office"):
        content_types({}, "x")


@pytest.mark.parametrize("tags", ["<a></b>", "<a>", "</a>", "<a><b></a></b>", "<a></a></a>"])
def test_elements_that_do_not_match_are_refused(tags):
    with pytest.raises(DragomanError, match="damaged"):
        element_ends(read_markup(tags, is_html=False), "x")


def test_an_element_ends_with_its_own_tag():
    assert element_ends(read_markup("<a>x<b/><a></a></a>", is_html=False), "x") == [5, 1, 2, 4, 4, 5]


FORMATS = ("", "<w:b/>", "<w:i/>")
ITEM = st.one_of(
    st.tuples(st.just("text"), st.sampled_from(["one", "two words", " ", "x"]), st.sampled_from(FORMATS)),
    st.tuples(st.sampled_from(["alone", "word", "break"]), st.just("<x/>"), st.just("")),
)
PAIR = st.tuples(st.sampled_from([("open", "close"), ("start", "stop")]), st.lists(ITEM, max_size=3)).map(
    lambda pair: [(pair[0][0], "<y>", ""), *pair[1], (pair[0][1], "</y>", "")]
)


@given(st.lists(ITEM.map(lambda item: [item]) | PAIR, max_size=6))
def test_runs_have_the_texts_and_formats_of_their_parts_in_order(groups):
    """Each letter comes back in its format, and what is kept in its place; only blanks may change theirs."""
    items = [
        Item(kind, xml, text_format, "n" if kind in {"open", "close", "start", "stop"} else "")
        for group in groups
        for kind, xml, text_format in group
    ]
    form = normal_form(items)
    if not any(item.kind == "text" and item.xml.strip() for item in items):
        assert form == ""
        return
    letters = [
        (item.format, letter) for item in items if item.kind == "text" for letter in item.xml if letter != " "
    ]
    written = []
    rest = write_runs(
        form,
        lambda text_format, text: "".join(written.extend([(text_format, letter)]) or "." for letter in text),
    )
    assert [(text_format, letter) for text_format, letter in written if letter != " "] == letters
    assert re.findall("<[^>]*>", rest) == [item.xml for item in items if item.kind != "text"]
    assert len(written) == sum(len(item.xml) for item in items if item.kind == "text")
    base = form[1 : form.index("\x05")]
    counts = Counter()
    depth = 0
    for item in items:
        depth += (item.kind == "open") - (item.kind == "close")
        if item.kind == "text" and not depth:
            counts[item.format] += len(item.xml)
    assert not counts or counts[base] == max(counts.values())
    texts = [piece for block in run_blocks(form) for piece in block if piece.kind == "text"]
    assert "".join(piece.text for piece in texts).replace(" ", "") == "".join(letter for _, letter in letters)


@given(
    st.recursive(
        st.lists(st.sampled_from(["a", "b "]), max_size=3),
        lambda inner: st.lists(inner | st.sampled_from(["a", "b "]), max_size=3),
        max_leaves=8,
    )
)
def test_paragraphs_in_others_are_taken_out_and_put_back(tree):
    def xml(node):
        return node if isinstance(node, str) else f"<p>{''.join(map(xml, node))}</p>"

    text = f"<d>{xml(tree)}x{xml(tree)}</d>"
    tokens = read_markup(text, is_html=False)
    whole, slots = rewrite(text, tokens, {"p"}, lambda paragraph, _: (tokens[paragraph.first - 1].end, ""))
    assert (put_back(whole), slots) == (text, ())

    def form(paragraph, last):
        start = tokens[paragraph.first - 1].end
        source = paragraph.source(start, tokens[last].start)
        return start, f"[{source}]" if source else ""

    changed, slots = rewrite(text, tokens, {"p"}, form)
    assert put_back(changed) == re.sub("</p>", "]</p>", text.replace("<p>", "<p>[")).replace("[]", "")
    assert all(changed[slot.start + 1 : slot.end - 1] == slot.source for slot in slots)
