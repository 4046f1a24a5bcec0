"""Hostile and damaged files of office programs end in a sentence or in a document."""

import io
import random
import time
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.documents.file import ArchiveLimits, read_members
from dragoman.documents.nested import put_back
from dragoman.system.errors import DragomanError
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
