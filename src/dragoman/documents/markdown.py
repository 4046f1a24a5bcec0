"""Markdown (CommonMark with GitHub's tables): the texts of its blocks, and how translations are written.

markdown-it-py says which lines are paragraphs, headings and cells, and markdown_inline.py what is in them.
"""

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from markdown_it.token import Token

from dragoman.documents.document import Block, Document, Segment, compose
from dragoman.documents.file import DocumentFile, Reading, decode_text
from dragoman.documents.front_matter import front_matter, front_matter_end
from dragoman.documents.markdown_extensions import HEAD
from dragoman.documents.markdown_inline import PARSER, keep_html, pieces_of, read_inline
from dragoman.documents.markdown_text import CELL, HTML_BLOCK, PARAGRAPH, TITLE, MarkdownSegment
from dragoman.documents.markup import html
from dragoman.text.letters import has_letter

LINE_END = re.compile(r"\r\n?|\n")
LIST_START = re.compile(r"[ \t>]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t>]++)*+(?:\[[ xX]\][ \t]+)?\Z")
"""What stands before a text at the start of its block."""
NOTE = re.compile(r"\[\^[^\]\s]+\]:[ \t]*")
KEPT_LINE = re.compile(
    r":{3}|/{3}|\*?\[[^\]\n]+\]:[ \t]"
    r"""|(?:import|export)[ \t][^\n]*\bfrom[ \t]+(?:"[^"\n]*"|'[^'\n]*');?[ \t]*$""",
    re.MULTILINE,
)
"""A line in a paragraph that is the fence of a block, a definition behind a footnote, an abbreviation, or an
import of MDX, in extensions."""
ALERT = re.compile(r"\[![\w-]+\][+-]?[ \t]*")
"""What stands before the title of an alert, which has its own line."""
DEFINITION = re.compile(r"[:~][ \t]+(?=\S)")
"""What begins the definition of the term in the line before it."""
SHORT_ENDS = frozenset(("]", "][]"))


def read(content: bytes, reading: Reading) -> DocumentFile:
    """A Markdown file."""
    text, encoding = decode_text(content, reading.name)
    end = front_matter_end(text)
    front = tuple(front_matter(text, end, reading.source))
    document = markdown(text, reading.source, reading.split, end)
    return replace(document, segments=(*front, *document.segments), encoding=encoding)


def markdown(text: str, language: str, split: bool = True, start: int = 0) -> Document:
    """The sentences of Markdown in a language (ISO 639, "und" if unknown), from `start` on."""
    source = Source(text, start)
    segments: list[Segment] = []
    for syntax, blocks in ((PARAGRAPH, source.paragraphs), (CELL, source.cells), (TITLE, source.titles)):
        for segment in compose(text, blocks, language, split, syntax).segments:
            segments += source.segment(segment)
    for first, last in source.html_blocks:
        for segment in html(text[first:last], language, split=split).segments:
            segments.append(
                replace(segment, start=first + segment.start, end=first + segment.end, syntax=HTML_BLOCK)
            )
    return Document(text, tuple(sorted(segments, key=lambda segment: segment.start)))


class Source:
    """A text of Markdown, and its blocks."""

    def __init__(self, text: str, start: int) -> None:
        self.text = text
        breaks = list(LINE_END.finditer(text, start))
        starts = [start, *(match.end() for match in breaks)]
        self.lines = list(zip(starts, [*(match.start() for match in breaks), len(text)], strict=True))
        """The start and the end of each."""
        self.paragraphs: list[Block] = []
        self.cells: list[Block] = []
        self.titles: list[Block] = []
        self.html_blocks: list[tuple[int, int]] = []
        self.links: list[Link] = []
        env: dict[str, Any] = {"notes": []}
        tokens = PARSER.parse(text[start:], env)
        self.references: Mapping[str, Any] = env.get("references", {})
        for place, token in enumerate(tokens):
            if token.type == "inline" and tokens[place - 1].type in {"paragraph_open", "heading_open"}:
                self.add_paragraph(token, tokens[place - 1].markup.startswith("#"))
            elif token.type == "admonition" and token.map:
                head = HEAD.search(text, *self.lines[token.map[0]])
                if head and head[1]:
                    self.add(self.titles, head[1], range(head.start(1), head.end(1) + 1))
            elif token.type == "tr_open" and token.map:
                end = next(end for end in range(place, len(tokens)) if tokens[end].type == "tr_close")
                contents = [cell.content for cell in tokens[place:end] if cell.type == "inline"]
                self.add_row(contents, *self.lines[token.map[0]])
            elif token.type == "html_block" and token.map:
                first, last = self.lines[token.map[0]][0], self.lines[token.map[1] - 1][1]
                line, *others = map(str.strip, LINE_END.split(text[first:last]))
                inside, *others_inside = map(str.strip, token.content.strip("\n").split("\n"))
                if line.endswith(inside) and others == others_inside:  # in no block quote, or one line
                    self.html_blocks.append((text.index(inside, first), last))
        self.links.sort()

    def add_paragraph(self, token: Token, is_heading: bool) -> None:
        """Add the texts of a paragraph or heading."""
        content = token.content
        places = self.places(token, is_heading)
        if places is None:
            return
        cuts: list[tuple[int, int]] = []
        start = offset = 0
        if alert := ALERT.match(content):
            line_end = (content + "\n").index("\n", alert.end())
            cuts.append((alert.end(), line_end))
            start = line_end
        for line in content.split("\n"):
            definition = DEFINITION.match(content, offset) if offset else None
            if mark := definition or NOTE.match(content, offset):
                cuts.append((start, offset))
                start = mark.end()
            elif KEPT_LINE.match(content, offset):
                cuts.append((start, offset))
                start = offset + len(line)
            offset += len(line) + 1
        for first, last in [*cuts, (start, len(content))]:
            self.add(self.paragraphs, content[first:last], places[first : last + 1])

    def add(self, blocks: list[Block], text: str, places: Sequence[int]) -> None:
        """Add the blocks of a text whose characters have these places."""
        notes = read_inline(text, self.references)
        pieces = keep_html(list(pieces_of(text, notes)))
        words = [piece.start for piece in pieces if piece and piece.is_content]
        for noted in notes:
            first = noted.start - len(noted.label)
            if bisect_left(words, first) < bisect_left(words, noted.start):  # else it stands alone
                stop = places[noted.end - 1] + 1
                self.links.append(Link(places[first - 1], places[noted.start], stop, noted.label))
        block: Block = []
        for piece in pieces:
            if piece is None:
                blocks.append(block)
                block = []
            else:
                is_break = piece.kind == "text" and "\n" in text[piece.start : piece.end]
                end = places[piece.end] if is_break else places[piece.end - 1] + 1
                block.append(piece._replace(start=places[piece.start], end=end))
        blocks.append(block)

    def places(self, token: Token, is_heading: bool) -> Sequence[int] | None:
        """The place of each character of a token's content, and of its end; None if they are not clear."""
        places = array("q")
        number = token.map[0] if token.map else 0
        for line in token.content.split("\n"):
            text = line.lstrip(" \t")
            while number < len(self.lines):
                place = self.find(text, *self.lines[number], is_heading)
                number += 1
                if place >= 0:
                    break
                if number - 1 > (token.map or [0, 0])[1]:
                    return None
            else:
                return None
            places.extend([place] * (len(line) - len(text)))
            places.extend(range(place, place + len(text) + 1))
        return places

    def find(self, text: str, start: int, end: int, is_heading: bool) -> int:
        """Where a text stands at the end of a line, or in a heading; -1 if it does not."""
        if not is_heading:
            place = self.text.rfind(text, start, end) if text else -1
            return place if place >= 0 and not self.text[place + len(text) : end].strip() else -1
        place = self.text.find(text, start, end) if text else -1
        while place >= 0:
            before, after = self.text[start:place], self.text[place + len(text) : end]
            if before.rstrip(" \t").endswith("#") and not after.strip(" \t#"):
                return place
            place = self.text.find(text, place + 1, end)
        return -1

    def add_row(self, contents: Sequence[str], start: int, end: int) -> None:
        """Add the cells of a row of a table with these contents."""
        line = self.text[start:end]
        bars = [match.start() for match in re.finditer(r"(?<!\\)\|", line)]
        edges = list(zip([0, *(bar + 1 for bar in bars)], [*bars, len(line)], strict=True))
        for offset in (0, 1):
            cells = edges[offset : offset + len(contents)]
            texts = [line[first:last].strip().replace("\\|", "|") for first, last in cells]
            if cells and contents[0] and texts[0].endswith(contents[0]):
                first_text = line[slice(*cells[0])].rstrip()
                raw = contents[0].replace("|", "\\|")
                if first_text.endswith(raw):
                    cells[0] = (cells[0][0] + len(first_text) - len(raw), cells[0][1])
                    texts[0] = contents[0]
            if texts == list(contents[: len(texts)]) and not any(contents[len(texts) :]):
                for first, last in cells:
                    text = line[first:last].strip()
                    place = start + first + len(line[first:last]) - len(line[first:last].lstrip())
                    self.add(self.cells, text, range(place, place + len(text) + 1))
                return

    def segment(self, segment: Segment) -> Iterator[MarkdownSegment]:
        """The segment with the ends of links that are known by their own text as they are with another one.

        None if these are not clear.
        """
        text, start, end = self.text, segment.start, segment.end
        number = bisect_left(self.links, start, key=lambda link: link.end)
        inside: list[Link] = []
        while number < len(self.links) and self.links[number].end < end:
            inside.append(self.links[number])
            number += 1
        names = [name for name, source in segment.marks if name.startswith("</") and source in SHORT_ENDS]
        if len(inside) != len(names):
            return
        ends = {name: f"][{link.label}]" for name, link in zip(names, inside, strict=True)}
        marks = tuple((name, ends.get(name, source)) for name, source in segment.marks)
        suffix = ""
        if number < len(self.links) and self.links[number].start < start:
            link = self.links[number]
            if has_letter(text[link.start : start] + text[end : link.end]):
                return
            suffix = f"{text[end : link.end]}][{link.label}]"
            end = link.stop
        line, _ = self.lines[bisect_right(self.lines, start, key=lambda line: line[0]) - 1]
        is_start = LIST_START.fullmatch(text, line, start) is not None
        yield MarkdownSegment(
            segment.sentence, start, end, text[start:end], segment.syntax, marks, is_start, suffix
        )


class Link(NamedTuple):
    """A link that is known by its own text, which ends at `end`; the link ends at `stop`."""

    start: int
    end: int
    stop: int
    label: str
