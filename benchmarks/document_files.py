"""Files of all formats with the same sentences, for benchmarks/documents.py."""

import html
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from dragoman.documents.formats import DocumentFormat

BOLD = re.compile("(<b>.*?</b>)")


class Template(NamedTuple):
    """A text with TEXT for each sentence, NUMBER for its number, and TIME for a time of its own."""

    head: str
    item: str
    tail: str = ""
    separator: str = "\n"
    plain: str = "TEXT"
    """How a part of a sentence is written."""
    bold: str = "<b>TEXT</b>"
    """The same in bold type."""

    def write(self, sentences: Sequence[str]) -> str:
        """The text with the sentences, in which <b>…</b> is bold."""
        items = [
            self.item.replace("TEXT", self.sentence(sentence))
            .replace("NUMBER", str(number))
            .replace("TIME", f"0{timedelta(seconds=5 * number)}")
            for number, sentence in enumerate(sentences, 1)
        ]
        return self.head + self.separator.join(items) + self.tail

    def sentence(self, sentence: str) -> str:
        """A sentence as it is written."""
        return "".join(
            self.bold.replace("TEXT", part[3:-4])
            if part.startswith("<b>")
            else self.plain.replace("TEXT", part)
            for part in BOLD.split(sentence)
            if part
        )


XML = '<?xml version="1.0" encoding="UTF-8"?>\n'
PAGE = '<html xmlns="http://www.w3.org/1999/xhtml"><head><title></title></head><body>\n'
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OPEN = "urn:oasis:names:tc:opendocument:xmlns:"
TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
OFFICE = "application/vnd.openxmlformats-officedocument."

TEMPLATES: Mapping[DocumentFormat, Template] = {
    "text": Template("", "TEXT", "\n"),
    "html": Template(f"<!DOCTYPE html>\n{PAGE}", "<p>TEXT</p>", "</body></html>\n"),
    "xml": Template(f"{XML}<texts>", "<text>TEXT</text>", "</texts>\n"),
    "po": Template(
        'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n',
        '#: file:NUMBER\nmsgid "TEXT"\nmsgstr ""\n',
    ),
    "xliff": Template(
        f'{XML}<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">\n'
        '<file original="a" source-language="en" datatype="plaintext"><body>\n',
        '<trans-unit id="NUMBER"><source>TEXT</source></trans-unit>',
        "</body></file></xliff>\n",
    ),
    "json": Template("{\n", '  "key.NUMBER": "TEXT"', "\n}\n", separator=",\n"),
    "properties": Template("", "key.NUMBER = TEXT", "\n"),
    "android": Template(f"{XML}<resources>\n", '<string name="key_NUMBER">TEXT</string>', "</resources>\n"),
    "strings": Template("", '"key.NUMBER" = "TEXT";', "\n"),
    "resx": Template(f"{XML}<root>\n", '<data name="key_NUMBER"><value>TEXT</value></data>', "</root>\n"),
    "table": Template("source\ttarget\n", "TEXT\t", "\n"),
    "fluent": Template("", "key-NUMBER = TEXT", "\n"),
    "yaml": Template("", 'key_NUMBER: "TEXT"', "\n"),
    "srt": Template("", "NUMBER\nTIME,000 --> TIME,900\nTEXT\n"),
    "vtt": Template("WEBVTT\n\n", "TIME.000 --> TIME.900\nTEXT\n"),
    "ass": Template(
        "[Events]\nFormat: Start, End, Style, Text\n", "Dialogue: TIME.00,TIME.90,Default,TEXT", "\n"
    ),
    "md": Template("", "TEXT\n"),
    "ipynb": Template(
        '{"cells": [\n',
        '{"cell_type": "markdown", "metadata": {}, "source": ["TEXT"]}',
        '\n], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}\n',
        separator=",\n",
    ),
    "rst": Template("", "TEXT\n"),
    "tex": Template("\\documentclass{article}\n\\begin{document}\n", "TEXT\n", "\\end{document}\n"),
}
ARCHIVES: Mapping[DocumentFormat, Mapping[str, str | Template]] = {
    "docx": {
        "[Content_Types].xml": f'{XML}<Types xmlns="{TYPES}"><Override PartName="/word/document.xml" '
        f'ContentType="{OFFICE}wordprocessingml.document.main+xml"/></Types>',
        "word/document.xml": Template(
            f'{XML}<w:document xmlns:w="{WORD}"><w:body>',
            "<w:p>TEXT</w:p>",
            "</w:body></w:document>",
            plain='<w:r><w:t xml:space="preserve">TEXT</w:t></w:r>',
            bold='<w:r><w:rPr><w:b/></w:rPr><w:t xml:space="preserve">TEXT</w:t></w:r>',
        ),
    },
    "pptx": {
        "[Content_Types].xml": f'{XML}<Types xmlns="{TYPES}"><Override PartName="/ppt/slides/slide1.xml" '
        f'ContentType="{OFFICE}presentationml.slide+xml"/></Types>',
        "ppt/slides/slide1.xml": Template(
            f'{XML}<p:sld xmlns:p="{SLIDES}" xmlns:a="{DRAWING}"><p:cSld><p:spTree><p:sp><p:txBody>',
            "<a:p>TEXT</a:p>",
            "</p:txBody></p:sp></p:spTree></p:cSld></p:sld>",
            plain="<a:r><a:t>TEXT</a:t></a:r>",
            bold='<a:r><a:rPr b="1"/><a:t>TEXT</a:t></a:r>',
        ),
    },
    "xlsx": {
        "[Content_Types].xml": f'{XML}<Types xmlns="{TYPES}"><Override PartName="/xl/sharedStrings.xml" '
        f'ContentType="{OFFICE}spreadsheetml.sharedStrings+xml"/><Override PartName="/xl/sheet1.xml" '
        f'ContentType="{OFFICE}spreadsheetml.worksheet+xml"/></Types>',
        "xl/sharedStrings.xml": Template(f'{XML}<sst xmlns="{SHEETS}">', "<si><t>TEXT</t></si>", "</sst>"),
        "xl/sheet1.xml": f'{XML}<worksheet xmlns="{SHEETS}"/>',
    },
    "odf": {
        "mimetype": "application/vnd.oasis.opendocument.text",
        "content.xml": Template(
            f'{XML}<office:document-content xmlns:office="{OPEN}office:1.0" xmlns:text="{OPEN}text:1.0">'
            "<office:body><office:text>",
            "<text:p>TEXT</text:p>",
            "</office:text></office:body></office:document-content>",
            bold='<text:span text:style-name="bold">TEXT</text:span>',
        ),
    },
    "epub": {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": f"{XML}<container><rootfiles>"
        '<rootfile full-path="OEBPS/content.opf"/></rootfiles></container>',
        "OEBPS/content.opf": f'{XML}<package xmlns="http://www.idpf.org/2007/opf"><manifest>'
        '<item id="a" href="a.xhtml" media-type="application/xhtml+xml"/></manifest>'
        '<spine><itemref idref="a"/></spine></package>',
        "OEBPS/a.xhtml": Template(
            f'<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>{PAGE}',
            "<p>TEXT</p>",
            "</body></html>\n",
        ),
    },
}
"""The members of archives. One of them has the sentences."""
BOLD_PARTS: Mapping[DocumentFormat, str] = {
    "docx": r"<w:r>\s*<w:rPr>(?:(?!</w:rPr>).)*<w:b\s*/>(?:(?!</w:rPr>).)*</w:rPr>(.*?)</w:r>",
    "pptx": r'<a:r>\s*<a:rPr [^>]*b="1"[^>]*/>(.*?)</a:r>',
    "odf": r'<text:span text:style-name="bold">(.*?)</text:span>',
}
PARAGRAPH = re.compile(r"<(?:\w+:)?p(?:\s[^>]*)?>(.*?)</(?:\w+:)?p>", re.DOTALL)


def write_document(sentences: Sequence[str], file_format: DocumentFormat) -> bytes:
    """A file with the sentences. Some formats have <b>…</b> as bold type."""
    if file_format in TEMPLATES:
        return TEMPLATES[file_format].write(sentences).encode()
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, member in ARCHIVES[file_format].items():
            archive.writestr(name, member if isinstance(member, str) else member.write(sentences))
    return output.getvalue()


def read_sentences(content: bytes, file_format: DocumentFormat) -> list[str]:
    """The sentences of such a file in html, srt, docx, pptx, odf or epub, with <b>…</b> around bold words."""
    if file_format == "srt":
        cues = content.decode("utf-8-sig").replace("\r", "").strip().split("\n\n")
        return [" ".join(cue.split("\n")[2:]) for cue in cues]
    text = content.decode() if file_format == "html" else member_with_sentences(content, file_format)
    bold = re.compile(BOLD_PARTS.get(file_format, "<b>(.*?)</b>"), re.DOTALL)
    sentences = []
    for paragraph in PARAGRAPH.findall(text):
        marked = re.sub("<[^>]*>", "", bold.sub("\x01\\1\x02", paragraph))
        marked = re.sub("\x02( *)\x01", r"\1", marked)  # runs that follow each other are one
        sentences.append(html.unescape(marked).replace("\x01", "<b>").replace("\x02", "</b>"))
    return sentences


def member_with_sentences(content: bytes, file_format: DocumentFormat) -> str:
    """The member of an archive that has the sentences."""
    (name,) = (name for name, member in ARCHIVES[file_format].items() if isinstance(member, Template))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.read(name).decode()
