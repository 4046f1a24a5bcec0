"""Books are translated, and everything else in them stays."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

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
