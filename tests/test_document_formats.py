"""Each ending of a name says its format, each format has its reader, and archives are read within bounds."""

import io
import re
import zipfile
from contextlib import suppress
from functools import partial
from html import unescape
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.documents.file import (
    Archive,
    ArchiveLimits,
    EncodingError,
    Reading,
    decode_text,
    read_members,
)
from dragoman.documents.formats import ARCHIVES, ENDINGS, OTHERS, format_of_name
from dragoman.documents.read import ESCAPES, READERS, read_bytes, read_file
from dragoman.system.errors import DragomanError
from dragoman.text.settings import Languages
from tests.document_laws import repeated_part_takes_linear_time
from tests.office_files import book, pack, slides, text_file, word_file, workbook

CUES = "00:00:01{0}000 --> 00:00:02{0}000\nOne &amp; two\n"
FILES = {
    "": ("# <b>One</b>", ["<b>One</b>"]), ".txt": ("# <b>One</b>", ["<b>One</b>"]),
    **dict.fromkeys((".html", ".htm", ".xhtml"), ("<p>One</p><CODE>no</CODE><P>two", ["One", "two"])),
    ".xml": ('<resources><string name="a">It\\\'s</string><color name="no">no</color></resources>', ["It's"]),
    **dict.fromkeys((".po", ".pot"), ('msgid "One"\nmsgstr ""\n', ["One"])),
    **dict.fromkeys(
        (".xlf", ".xliff"),
        (
            '<xliff version="1.2"><file><trans-unit><source>One</source></trans-unit>'
            "<note>no</note></file></xliff>",
            ["One"],
        ),
    ),
    **dict.fromkeys((".json", ".arb"), ('{"a": "One"}', ["One"])),
    ".properties": ("a=One\\u0020two", ["One two"]),
    ".strings": ('"a" = "One";', ["One"]),
    ".resx": ('<root><data name="a"><value>One</value><comment>no</comment></data></root>', ["One"]),
    ".csv": ("en,de\nOne,\n", ["One"]), ".tsv": ("en\tde\nOne\t\n", ["One"]),
    ".ftl": ("a = One\n", ["One"]),
    **dict.fromkeys((".yml", ".yaml"), ("a: One\n", ["One"])),
    ".srt": ("1\n" + CUES.format(","), ["One &amp; two"]),
    ".vtt": ("WEBVTT\n\n" + CUES.format("."), ["One & two"]),
    **dict.fromkeys((".ass", ".ssa"), ("[Events]\nDialogue: 0,0:00:01.00,0:00:02.00,,,0,0,0,,One\\Ntwo",
        ["One two"])),
    **dict.fromkeys((".md", ".markdown"), ("# One *two*", ["One <g1>two</g1>"])),
    ".ipynb": ('{"cells": [{"cell_type": "markdown", "source": "# One"}]}', ["One"]),
    ".rst": ("One **two**\n", ["One <g1>two</g1>"]),
    ".tex": ("One \\emph{two}", ["One <g1>two</g1>"]),
    **dict.fromkeys((".docx", ".docm", ".dotx", ".dotm"), (word_file("<w:p><w:r><w:t>One</w:t></w:r></w:p>"),
        ["One"])),
    ".epub": (book("<p>Two</p>"), ["A book", "One", "Two", "Start", "Top"]),
    **dict.fromkeys((".odt", ".ott", ".odp", ".otp", ".ods", ".ots"), (text_file("<text:p>One</text:p>"),
        ["One"])),
    **dict.fromkeys((".pptx", ".pptm", ".ppsx", ".ppsm", ".potx", ".potm"),
        (slides("<a:p><a:r><a:t>One</a:t></a:r></a:p>"), ["One"])),
    **dict.fromkeys((".xlsx", ".xlsm", ".xltx", ".xltm"), (workbook("<si><t>One</t></si>"), ["One"])),
}  # fmt: skip
"""For each ending a file, which files of other formats are not, and its sentences."""


@pytest.mark.parametrize("ending", FILES)
@pytest.mark.parametrize("is_upper", [False, True])
def test_a_file_is_read_as_its_ending_says(tmp_path, ending, is_upper):
    content, sentences = FILES[ending]
    path = tmp_path / f"a.en{ending.upper() if is_upper else ending}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    kind = format_of_name(path, Languages("en", "de"))
    assert [
        one.sentence for one in read_file(path, kind, Reading(str(path), "en", "de")).segments
    ] == sentences
    assert (kind in ARCHIVES) == path.read_bytes().startswith(b"PK")


@pytest.mark.parametrize(
    ("ending", "file"),
    [("txt", "{}"), ("tex", "{}"), ("rst", "{}\n"), ("ass", FILES[".ass"][0].replace("One\\Ntwo", "{}"))],
)
@given(st.sampled_from(["<b>two</b>", "<br/>", "<Enter>", "</p>", "<-", "a<b>c"]))
def test_what_looks_like_a_tag_is_a_word_where_a_format_has_other_tags(ending, file, word):
    sentence = f"One {word} three"
    content = file.replace("{}", sentence).encode()
    document = read_bytes(content, ENDINGS[f".{ending}"], Reading("a", "en", "de"))
    assert [segment.sentence for segment in document.segments] == [sentence]


@pytest.mark.parametrize(
    ("ending", "file"),
    [("json", '{"a": "{}"}'), ("properties", "a={}"), ("strings", '"a" = "{}";'), ("ftl", "a = {}\n"),
     ("yml", "a: {}\n"), ("po", 'msgid "{}"\nmsgstr ""\n')],
)  # fmt: skip
@given(st.sampled_from(["<b>two</b>", "<x/>", "<Enter>", "</b>"]))
def test_what_looks_like_a_tag_is_kept_in_texts_of_programs(ending, file, word):
    content = file.replace("{}", f"One {word} three").encode()
    document = read_bytes(content, ENDINGS[f".{ending}"], Reading("a", "en", "de"))
    (segment,) = document.segments
    assert re.sub("</?g1/?>", "", segment.sentence) == f"One {re.sub('<.*?>', '', word)} three"
    if ending != "po":  # it keeps the source
        assert document.write([segment.sentence]) == content


def test_the_endings_are_those_of_the_documentation():
    assert set(ENDINGS) == set(FILES)
    assert {*ENDINGS.values(), "android"} == set(READERS)
    assert {".pdf", ".doc", ".xls", ".ppt", ".rtf"} <= set(OTHERS)
    assert not set(OTHERS) & set(ENDINGS)
    page = Path("docs/documents.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\.\w+)`", page.partition("## Where sentences end")[0]))
    named |= {
        ending for row in re.findall(r"(?m)^\| .*\|$", page) for ending in re.findall(r"`(\.\w+)`", row)
    }
    assert named <= {*ENDINGS, ".guide"}


@pytest.mark.parametrize(
    ("name", "languages", "kind"),
    [("a.en", ("en", "de"), "text"), ("a.DE", ("en", "de"), "text"), ("a.pt", ("en", "pt-BR"), "text"),
        ("a.zh", ("zh-Hant", "en"), "text"),
     ("a.fr", ("en", "de"), None), ("a.und", ("und", "de"), None), ("a.", ("en", "de"), "text"),
     ("a.md", ("md", "de"), "text")],
)  # fmt: skip
def test_the_code_of_a_language_of_the_model_ends_a_text(name, languages, kind):
    if kind:
        assert format_of_name(Path(name), Languages(*languages)) == kind
    else:
        with pytest.raises(DragomanError, match="is not known"):
            format_of_name(Path(name), Languages(*languages))


@pytest.mark.parametrize("ending", OTHERS)
def test_other_endings_are_refused_with_advice(ending):
    with pytest.raises(DragomanError, match=r"is not read, since"):
        format_of_name(Path("a" + ending), Languages("en", "de"))


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "none.txt"):
        with pytest.raises(DragomanError, match="cannot be read"):
            read_file(path, "text", Reading(str(path), "en", "de"))


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]
)
def test_a_byte_order_mark_names_the_encoding(encoding):
    text = ("\ufeff" if encoding[-2:] in {"le", "be"} else "") + "Ä\n😀"
    content = text.encode(encoding)
    decoded, name = decode_text(content, "a")
    assert (decoded.removeprefix("\ufeff"), decoded.encode(name)) == (text.removeprefix("\ufeff"), content)
    if encoding[:5] != "utf-8":
        with pytest.raises(DragomanError, match="convert it"):
            decode_text(content + b"\xd8", "a")


TEXTS = sorted(set(ENDINGS) - {ending for ending in ENDINGS if ENDINGS[ending] in ARCHIVES})
LEGACY = ["latin-1", "cp1252", "cp1250", "koi8-r", "shift_jis", "gb18030", "cp037", "iso2022_jp", "utf-7",
    "utf-16", "utf-16-be", "utf-8-sig", "utf-32"]  # fmt: skip


@pytest.mark.parametrize("ending", TEXTS)
@settings(max_examples=6)
@given(st.sampled_from(LEGACY), st.sampled_from(["Pöst", "Пост", "ポスト", "a€ 😀 “b”", "Wort"]))
def test_a_document_is_written_in_the_encoding_that_its_user_says(ending, encoding, translation):
    text, _ = FILES[ending]
    kind = format_of_name(Path(f"a{ending}"), Languages("en", "de"))
    content = text.encode(encoding)
    document = read_bytes(content, kind, Reading("a", "en", "de", encoding=encoding))
    plain = READERS[kind](text.encode(), Reading("a", "en", "de"))
    sentences = [segment.sentence for segment in plain.segments]
    assert [segment.sentence for segment in document.segments] == sentences
    assert document.write(sentences).decode(encoding) == text
    translations = [translation] * len(sentences)
    with suppress(UnicodeEncodeError):
        expected = plain.write(translations).decode()
        expected.encode(encoding)
        assert document.write(translations).decode(encoding) == expected
        return
    if kind not in ESCAPES:
        with pytest.raises(DragomanError, match="lacks; convert"):
            document.write(translations)
        return
    written = document.write(translations)
    if kind == "xliff":  # whose source stays
        assert unescape(written.decode(encoding)) == plain.write(translations).decode()
    else:  # a reader of the format reads the characters that the encoding lacks
        again = read_bytes(written, kind, Reading("a", "en", "de", encoding=encoding))
        assert {segment.sentence for segment in again.segments} == {translation}


@pytest.mark.parametrize("name", ["", "none", "hex", "rot13", "zip", "utf-9", "a" * 99, "undefined", "é"])
def test_what_is_no_encoding_of_texts_is_refused(name):
    with pytest.raises(DragomanError, match="is not an encoding; give one"):
        read_bytes(b"a", "text", Reading("a", "en", "de", encoding=name))


@pytest.mark.parametrize("content", [b"\xff\xfea\0", b"a\0", b"\x81"])
def test_bytes_in_another_encoding_are_refused(content):
    with pytest.raises(EncodingError, match="; give another encoding"):
        read_bytes(content, "text", Reading("a", "en", "de", encoding="cp1252"))


@pytest.mark.parametrize("ending", TEXTS)
@settings(max_examples=8)
@given(st.sampled_from([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\0"]), st.floats(0, 1))
def test_bytes_that_are_no_text_are_refused_in_every_format(ending, wrong, share):
    """Properties are in ISO 8859-1 if they are not in UTF-8."""
    text, _ = FILES[ending]
    place = round(share * len(text))
    content = text[:place].encode() + wrong + text[place:].encode()
    if ending == ".properties" and wrong != b"\0":
        assert read_bytes(content, "properties", Reading("a", "en", "de")).encoding == "latin-1"
        return
    with pytest.raises(DragomanError, match=r"^a\b"):
        read_bytes(content, ENDINGS[ending], Reading("a", "en", "de"))


def test_an_archive_has_no_encoding():
    with pytest.raises(DragomanError, match="is an archive"):
        read_bytes(FILES[".docx"][0], "docx", Reading("a", "en", "de", encoding="cp1252"))


def test_an_encoding_that_is_declared_gives_way_to_that_of_the_user():
    html = '<meta charset="iso-8859-1"><p>é</p>'.encode("latin-1")
    assert read_bytes(html, "html", Reading("a", "en", "de", encoding="latin-1")).write(
        ["à"]
    ) == html.replace(b"\xe9", b"\xe0")
    with pytest.raises(EncodingError):
        read_bytes(html, "html", Reading("a", "en", "de"))
    template = b'msgid ""\nmsgstr "Content-Type: text/plain; charset=CHARSET\\n"\n\nmsgid "One"\nmsgstr ""\n'
    written = read_bytes(template, "po", Reading("a", "en", "de", encoding="latin-1")).write(["é"])
    assert b"charset=latin-1" in written
    assert read_bytes(written, "po", Reading("a", "en", "de", encoding="latin-1")).segments == ()


def test_bytes_that_are_no_text_are_named_with_their_line():
    with pytest.raises(DragomanError, match=r"line 3\b"):
        decode_text(b"a\nb\n\0c\n", "a")


@pytest.mark.parametrize(
    ("limits", "is_read"),
    [
        (ArchiveLimits(members=2), True),
        (ArchiveLimits(members=1), False),
        (ArchiveLimits(bytes=30), True),
        (ArchiveLimits(bytes=29), False),
    ],
    ids=str,
)
def test_archives_have_bounds(limits, is_read):
    content = pack({"a": b"x" * 10, "b": b"y" * 20})
    if is_read:
        assert read_members(content, "a", limits) == {"a": b"x" * 10, "b": b"y" * 20}
    else:
        with pytest.raises(DragomanError, match="are allowed"):
            read_members(content, "a", limits)


@pytest.mark.parametrize(("size", "is_read"), [(2**20, True), (2**20 + 3 * 10**5, False)])
def test_a_member_unpacks_to_a_bounded_multiple_of_its_size(size, is_read):
    content = pack({"a": b"", "b": bytes(size)})
    if is_read:
        assert len(read_members(content, "a", ArchiveLimits())["b"]) == size
    else:
        with pytest.raises(DragomanError, match="200 times"):
            read_members(content, "a", ArchiveLimits())


def test_an_encrypted_archive_is_refused():
    content = bytearray(pack({"a": b"x"}))
    content[content.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(DragomanError, match="encrypted"):
        read_members(bytes(content), "a", ArchiveLimits())


def test_an_archive_keeps_its_comment_and_names_its_language_once_a_sentence_is_translated():
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w") as archive:
        archive.comment = b"no"
        for name in ("a", "b", "style"):
            archive.writestr(name, "One. Two." if name != "style" else "en")
    content = output.getvalue()
    parts = {name: READERS["text"](b"One. Two.", Reading(name, "en", "de")) for name in ("a", "b")}
    document = Archive(content, parts, "en", {"style": lambda data: data + b" de"})
    for texts, style in (
        (["One.", "Two."] * 2, "en"),
        (["One.", "", " ", "Two."], "en"),
        (["A", "B", "C", "D"], "en de"),
    ):
        with zipfile.ZipFile(io.BytesIO(document.write(texts))) as archive:
            assert (archive.comment, archive.read("style").decode()) == (b"no", style)
            if style == "en de":
                assert (archive.read("a"), archive.read("b")) == (b"A B", b"C D")
    for count in (0, 3, 5):
        with pytest.raises(DragomanError, match=f"4 sentences, and there are {count} "):
            document.write(["A"] * count)


@pytest.mark.long
@pytest.mark.parametrize(
    ("file_format", "begin", "part", "end"),
    [
        ("html", "", "<b>", "word" + "</b>" * 10_000),
        ("json", '["<', "A", '"]'),
        ("po", 'msgid "', "&A", '"\nmsgstr ""\n'),
        ("rst", "", "a_", "b"),
        ("rst", "", "a.", ""),
        ("rst", "a", " ", "a"),
        ("rst", "", ":", "a"),
        ("md", "---\ntitle: a", " ", "a\n---\n"),
    ],
)
def test_what_once_took_quadratic_time_takes_linear_time(file_format, begin, part, end):
    reading = Reading("a", "en", "de")
    read = partial(READERS[file_format], reading=reading)
    repeated_part_takes_linear_time(read, begin, part, 40_000, end)


def test_a_format_that_each_part_of_a_text_would_repeat_is_bounded():
    """Else a small file with one long format and many parts would take memory that grows with its square."""
    files = {
        "docx": lambda name: word_file(f"<w:p><w:r><w:rPr><w:{name}/></w:rPr><w:t>One</w:t></w:r></w:p>"),
        "pptx": lambda name: slides(f"<a:p><a:r><a:rPr><a:{name}/></a:rPr><a:t>One</a:t></a:r></a:p>"),
        "xlsx": lambda name: workbook(f"<si><r><rPr><{name}/></rPr><t>One</t></r></si>"),
        "odf": lambda name: text_file(
            f'<text:p><text:span text:style-name="{name}">One</text:span></text:p>'
        ),
    }
    for file_format, file in files.items():
        read = READERS[file_format]
        assert len(read(file("b"), Reading("a", "en", "de")).segments) == 1
        with pytest.raises(DragomanError, match="characters of XML"):
            read(file("b" * 20_001), Reading("a", "en", "de"))
