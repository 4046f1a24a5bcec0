"""Small office files, and what is in them."""

import io
import re
import zipfile
from collections.abc import Iterable
from random import Random

from dragoman.documents.file import Reading
from dragoman.documents.formats import DocumentFormat
from dragoman.documents.read import READERS

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
S = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
WORD_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml"
TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
ODF = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{space}:1.0"'
    for name, space in (
        ("office", "office"), ("text", "text"), ("style", "style"), ("table", "table"), ("draw", "drawing"),
        ("fo", "xsl-fo-compatible"),
    )
)  # fmt: skip


def pack(members: dict[str, str | bytes], *, is_packed: bool = True) -> bytes:
    """A zip file, the first member of which is stored, or all."""
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, (name, content) in enumerate(members.items()):
            archive.writestr(
                name, content, zipfile.ZIP_DEFLATED if number and is_packed else zipfile.ZIP_STORED
            )
    return output.getvalue()


def unpack(content: bytes) -> list[tuple[str, int, bytes]]:
    """Name, compression and content of each member, in order."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [
            (member.filename, member.compress_type, archive.read(member)) for member in archive.infolist()
        ]


def member(content: bytes, name: str) -> str:
    """A member's text."""
    return next(data for other, _, data in unpack(content) if other == name).decode()


def types(**parts: str) -> str:
    """The list of types of an Office Open XML file."""
    overrides = "".join(
        f'<Override PartName="/{part}" ContentType="{kind}"/>' for part, kind in parts.items()
    )
    return f'<Types xmlns="{TYPES}"><Default Extension="xml" ContentType="text/xml"/>{overrides}</Types>'


def word_file(body: str, styles: str = '<w:lang w:val="en-US"/>', notes: str = "") -> bytes:
    """A file of Word with this body, and these footnotes."""
    return pack(
        {
            "[Content_Types].xml": types(
                **{
                    "word/document.xml": f"{WORD_TYPE}.document.main+xml",
                    "word/styles.xml": f"{WORD_TYPE}.styles+xml",
                    "word/footnotes.xml": f"{WORD_TYPE}.footnotes+xml",
                }
            ),
            "word/document.xml": f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>',
            "word/styles.xml": f'<w:styles xmlns:w="{W}">{styles}</w:styles>',
            "word/footnotes.xml": f'<w:footnotes xmlns:w="{W}">{notes}</w:footnotes>',
            "word/media/image.png": b"\x89PNG\x00\xff",
        }
    )


def text_file(body: str, styles: str = "", page: str = "", kind: str = "text") -> bytes:
    """A file of OpenDocument with this body, automatic styles, and header."""
    return pack(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"<office:document-content {ODF}><office:automatic-styles>{styles}"
            f"</office:automatic-styles><office:body>{body}</office:body></office:document-content>",
            "styles.xml": f'<office:document-styles {ODF}><style:default-style style:family="paragraph">'
            '<style:text-properties fo:language="en" fo:country="US"/></style:default-style>'
            f"<style:header>{page}</style:header></office:document-styles>",
            "META-INF/manifest.xml": "<manifest/>",
        }
    )


def book(page: str, title: str = "A book", encryption: str = "") -> bytes:
    """A book with one page, a navigation and an older table of contents."""
    html = '<html xmlns="http://www.w3.org/1999/xhtml" lang="en" xml:lang="en">'
    return pack(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="OEBPS/a.opf"/></rootfiles>'
            "</container>",
            "OEBPS/a.opf": '<package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
            f"<dc:title>{title}</dc:title><dc:creator>An author</dc:creator><dc:language>en</dc:language>"
            '</metadata><manifest><item id="n" href="nav.xhtml" media-type="application/xhtml+xml" '
            'properties="nav"/><item id="t" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
            '<item id="p" href="a%20page.xhtml" media-type="application/xhtml+xml"/>'
            '<item id="x" href="../../../etc/passwd" media-type="application/xhtml+xml"/></manifest>'
            '<spine toc="t"><itemref idref="x"/><itemref idref="p"/></spine></package>',
            "OEBPS/a page.xhtml": f'<?xml version="1.0"?><!DOCTYPE html>{html}<head><title>One</title></head>'
            f"<body>{page}</body></html>",
            "OEBPS/nav.xhtml": f'{html}<body><nav><ol><li><a href="a%20page.xhtml">Start</a></li></ol></nav>'
            "</body></html>",
            "OEBPS/toc.ncx": '<?xml version="1.0"?><!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "x">'
            "<ncx><docTitle><text>Top</text></docTitle><docAuthor><text>An author</text></docAuthor></ncx>",
            **({"META-INF/encryption.xml": encryption} if encryption else {}),
        }
    )


def slides(*bodies: str) -> bytes:
    """A presentation with these texts."""
    kind = "application/vnd.openxmlformats-officedocument.presentationml.slide+xml"
    names = [f"ppt/slides/slide{number}.xml" for number in range(1, len(bodies) + 1)]
    slide = f'<p:sld xmlns:p="p" xmlns:a="{A}" xmlns:r="r"><p:txBody>{{}}</p:txBody></p:sld>'
    return pack(
        {
            "[Content_Types].xml": types(**dict.fromkeys(names, kind)),
            **{name: slide.format(body) for name, body in zip(names, bodies, strict=True)},
        }
    )


def workbook(strings: str, sheet: str = "", columns: str = "") -> bytes:
    """A workbook with these shared strings, a sheet, and a table with these columns."""
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    return pack(
        {
            "[Content_Types].xml": types(
                **{
                    "xl/sharedStrings.xml": f"{kind}.sharedStrings+xml",
                    "xl/worksheets/sheet1.xml": f"{kind}.worksheet+xml",
                    "xl/tables/table1.xml": f"{kind}.table+xml",
                }
            ),
            "xl/sharedStrings.xml": f'<sst xmlns="{S}">{strings}</sst>',
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{S}"><sheetData>{sheet}</sheetData></worksheet>',
            "xl/tables/table1.xml": f'<table xmlns="{S}"><tableColumns>{columns}</tableColumns></table>',
        }
    )


def read(file_format: DocumentFormat, content: bytes, *, split: bool = False):
    """A file that is translated from English to German."""
    return READERS[file_format](content, Reading("file", "en", "de", split))


def sentences(file_format: DocumentFormat, content: bytes, *, split: bool = False) -> list[str]:
    """The sentences of a file."""
    return [segment.sentence for segment in read(file_format, content, split=split).segments]


def translate(file_format: DocumentFormat, content: bytes, *texts: str, split: bool = False) -> bytes:
    """A file with these translations; without any, with its words in capitals."""
    document = read(file_format, content, split=split)
    return document.write(texts or [capitals(segment.sentence) for segment in document.segments])


def capitals(sentence: str) -> str:
    """The sentence in capitals, but for marks."""
    return re.sub(r"(</?g\d+/?>)|.", lambda match: match[1] or match[0].upper(), sentence)


def words(texts: Iterable[str]) -> list[list[str]]:
    """The words of each text, without marks."""
    return [re.sub("</?g[0-9]+/?>", "", text).split() for text in texts]


def shuffled(sentence: str, chance: Random) -> str:
    """The words and marks of a sentence in another order; most often each pair with what is in it."""
    parts = [match[0] for match in re.finditer(r"<g(\d+)>.*?</g\1>|[^<\s]+|<[^<>]*>", sentence)]
    chance.shuffle(parts)
    return " ".join(parts) or "x"
