"""Books are translated, and everything else in them stays."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from dragoman.documents.file import Reading
from dragoman.documents.read import READERS
from dragoman.system.errors import DragomanError
from tests.office_files import book, capitals, member, pack, read, sentences, translate, unpack, words

PARTS = st.sampled_from(
    ("One ", "two. ", "<b>three</b> ", "<i>four, ", "</i>", "<p>", "</p>", "<br/>", "&amp; ", "&#233; ",
     "<img/>",
     "<code>x</code> ", "😀", "عربي", "<!-- no -->")
)  # fmt: skip
PAGE = st.lists(PARTS, max_size=20).map("".join)
ENCRYPTION = '<encryption><EncryptionMethod Algorithm="{}"/></encryption>'


@settings(max_examples=15)
@given(PAGE, st.booleans())
def test_a_book_comes_back_with_its_own_sentences(page, split):
    content = book(page)
    document = read("epub", content, split=split)
    assert unpack(document.write([segment.sentence for segment in document.segments])) == unpack(content)


@settings(max_examples=15)
@given(PAGE)
def test_only_texts_change(page):
    content = book(page)
    result = translate("epub", content)
    assert words(sentences("epub", result)) == words(map(capitals, sentences("epub", content)))
    assert [part[:2] for part in unpack(result)] == [part[:2] for part in unpack(content)]
    assert unpack(result)[0] == ("mimetype", 0, b"application/epub+zip")


@settings(max_examples=15)
@given(st.text() | st.text("a<&>]\"'\n\t\x00\x0b\u2028\ud800\ufffe</g1>", max_size=8))
def test_pages_stay_well_formed_with_any_text(text):
    content = book("<p>One <b>two</b></p>")
    result = translate("epub", content, *[text] * len(sentences("epub", content)))
    for name in ("OEBPS/a page.xhtml", "OEBPS/nav.xhtml", "OEBPS/a.opf", "OEBPS/toc.ncx"):
        etree.fromstring(member(result, name).encode())


def test_title_pages_and_both_tables_of_contents_are_translated():
    content = book("<p>Two <b>words</b>.</p>")
    assert sentences("epub", content) == ["A book", "One", "Two <g1>words</g1>.", "Start", "Top"]
    assert read("epub", content).language == "en"
    result = translate("epub", content, "Ein Buch", "Eins", "Zwei <g1>Wörter</g1>.", "Anfang", "Oben")
    package = member(result, "OEBPS/a.opf")
    assert "<dc:title>Ein Buch</dc:title><dc:creator>An author</dc:creator><dc:language>de<" in package
    assert 'lang="de" xml:lang="de"' in member(result, "OEBPS/a page.xhtml")
    assert "<p>Zwei <b>Wörter</b>.</p>" in member(result, "OEBPS/a page.xhtml")
    assert 'href="a%20page.xhtml">Anfang<' in member(result, "OEBPS/nav.xhtml")
    assert "<text>Oben</text></docTitle><docAuthor><text>An author<" in member(result, "OEBPS/toc.ncx")


def test_encrypted_books_are_refused_and_hidden_fonts_are_not():
    with pytest.raises(DragomanError, match="DRM"):
        read("epub", book("One", encryption=ENCRYPTION.format("http://www.w3.org/2001/04/xmlenc#aes128-cbc")))
    assert read(
        "epub", book("One", encryption=ENCRYPTION.format("http://www.idpf.org/2008/embedding"))
    ).segments


def test_what_is_no_book_is_refused():
    with pytest.raises(DragomanError, match="no book"):
        read("epub", pack({"a.txt": "One"}))


# ---- parts of a book one by one


def changed(content, **parts):
    """A book in which texts of members are others."""
    members = {name: data for name, _, data in unpack(content)}
    for name, (old, new) in parts.items():
        path = next(path for path in members if path.endswith(name.replace("_", ".")))
        assert old in members[path].decode()
        members[path] = members[path].replace(old.encode(), new.encode())
    return pack(members)


@pytest.mark.parametrize(
    "kind",
    ["application/xhtml+xml", "text/html", "text/x-oeb1-document", "Application/XHTML+xml", "image/svg+xml"],
)
def test_each_kind_of_page_is_read(kind):
    content = changed(
        book("<p>Two</p>"),
        a_opf=(
            'href="a%20page.xhtml" media-type="application/xhtml+xml"',
            f'href="a%20page.xhtml" media-type="{kind}"',
        ),
    )
    assert ("Two" in sentences("epub", content)) == ("svg" not in kind)


def test_pages_are_in_the_order_of_reading_and_each_once():
    content = book("<p>Two</p>")
    twice = changed(
        content,
        a_opf=(
            '<itemref idref="p"/>',
            '<itemref idref="p"/><itemref idref="n"/><itemref idref="p"/><itemref idref="none"/>',
        ),
    )
    assert sentences("epub", twice) == sentences("epub", content) == ["A book", "One", "Two", "Start", "Top"]
    first = changed(content, a_opf=('<itemref idref="x"/>', '<itemref idref="n"/>'))
    assert sentences("epub", first) == ["A book", "Start", "One", "Two", "Top"]
    without = changed(content, a_opf=('properties="nav"', 'properties="scripted"'))
    assert "Start" not in sentences("epub", without)
    assert "Start" in sentences(
        "epub", changed(content, a_opf=('properties="nav"', 'properties="scripted nav"'))
    )
    moved = changed(content, a_opf=('href="a%20page.xhtml"', 'href="../OEBPS/./a%20page.xhtml"'))
    assert sentences("epub", moved) == sentences("epub", content)


@pytest.mark.parametrize("prefix", ["dc:", "", "x:"])
def test_titles_and_languages_of_a_package_have_any_prefix(prefix):
    content = book("<p>Two</p>")
    package = {name: data for name, _, data in unpack(content)}["OEBPS/a.opf"].decode()
    more = package.replace(
        "</metadata>",
        "<dc:title id='t'>Another &amp; one</dc:title><dc:title/><dc:language>fr</dc:language></metadata>",
    )
    more = more.replace("<dc:language>en<", "<dc:language>it<").replace("dc:", prefix)
    content = pack({**{name: data for name, _, data in unpack(content)}, "OEBPS/a.opf": more})
    assert sentences("epub", content)[:2] == ["A book", "Another & one"]
    assert read("epub", content).language == "it"
    result = member(translate("epub", content), "OEBPS/a.opf")
    assert f"<{prefix}language>de</{prefix}language>" in result
    assert f"<{prefix}language>fr</{prefix}language>" in result
    assert "ANOTHER &amp; ONE" in result


def test_a_book_without_a_language_has_that_of_its_first_page_with_one():
    content = changed(
        book("<p>Two</p>"),
        a_opf=("<dc:language>en</dc:language>", ""),
        page_xhtml=(' lang="en" xml:lang="en"', ""),
    )
    assert read("epub", content).language == "en"
    none = changed(content, nav_xhtml=(' lang="en" xml:lang="en"', ""))
    assert read("epub", none).language == ""
    content = changed(
        book("<p lang='en'>Two</p>"),
        toc_ncx=("<ncx>", "<ncx version='1' xml:lang='en'>"),
        nav_xhtml=('lang="en" xml', "xml"),
    )
    result = translate("epub", content)
    assert "<ncx version='1' xml:lang='de'>" in member(result, "OEBPS/toc.ncx")
    assert ' xml:lang="de">' in member(result, "OEBPS/nav.xhtml")
    assert "<p lang='en'>" in member(result, "OEBPS/a page.xhtml")
    unknown = READERS["epub"](content, Reading("a", "en", "und"))
    assert 'xml:lang="en"' in member(unknown.write(["x"] * len(unknown.segments)), "OEBPS/nav.xhtml")


def test_the_author_is_kept_in_a_table_of_contents_with_any_prefix():
    content = book("<p>Two</p>")
    assert "An author" not in sentences("epub", content)
    members = {name: data for name, _, data in unpack(content)}
    members["OEBPS/toc.ncx"] = members["OEBPS/toc.ncx"].replace(b"docAuthor", b"ncx:docAuthor")
    assert "An author" not in sentences("epub", pack(members))


@pytest.mark.parametrize(
    ("algorithms", "is_read"),
    [
        (["http://www.idpf.org/2008/embedding"], True),
        (["http://ns.adobe.com/pdf/enc#RC"], True),
        (["http://www.idpf.org/2008/embedding", "http://www.w3.org/2001/04/xmlenc#aes128-cbc"], False),
    ],
)
def test_a_book_is_encrypted_if_one_part_is(algorithms, is_read):
    content = book("One", encryption="".join(map(ENCRYPTION.format, algorithms)))
    if is_read:
        assert read("epub", content).segments
    else:
        with pytest.raises(DragomanError, match="DRM"):
            read("epub", content)
