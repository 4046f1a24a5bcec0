"""Messages of ICU, as {count, plural, one {# file} other {# files}}: the texts in their branches."""

import re
from collections.abc import Iterator

from dragoman.documents.document import Block
from dragoman.documents.strings import Value, part_pattern

COMPLEX = re.compile(r"\{\s*[\w.-]+\s*,\s*(?:plural|selectordinal|select)\s*,(?:\s*offset:\s*\d+)?")
SIMPLE = re.compile(r"\{\s*[\w.-]+\s*(?:,[^{}]*)?\}")
BRANCH = re.compile(r"\s*(?:=\d+|[\w-]+)\s*\{")
END = re.compile(r"\s*\}")
MARK = re.compile(r"''|'[{}][^']*(?:'|\Z)|[{}]")
"""An apostrophe, a quoted brace, or one that has a meaning."""
PLACES = r"\{\s*[\w.-]+\s*(?:,[^{}]*)?\}|'[{}][^']*'?"
PARTS = part_pattern(rf"{PLACES}|\#")


def spans_of_message(text: str) -> list[tuple[int, int]] | None:
    """Where the texts of a message stand that has branches; None if it has none, or is not well-formed."""
    spans: list[tuple[int, int]] = []
    depth = start = position = 0
    has_branches = False
    while mark := MARK.search(text, position):
        position = mark.end()
        if mark[0].startswith("'"):
            continue
        if opening := COMPLEX.match(text, mark.start()):
            spans.append((start, mark.start()))
            position = opening.end()
            has_branches = True
        elif mark[0] == "}" and depth:  # of a branch
            spans.append((start, mark.start()))
            depth -= 1
        elif simple := SIMPLE.match(text, mark.start()):
            position = simple.end()
            continue
        else:
            return None
        if end := END.match(text, position):
            start = position = end.end()
        elif branch := BRANCH.match(text, position):
            start = position = branch.end()
            depth += 1
        else:
            return None
    return [*spans, (start, len(text))] if has_branches and not depth else None


def blocks_of_message(value: Value) -> Iterator[Block] | None:
    """The blocks of a message with branches, each for itself; None for any other text."""
    spans = spans_of_message(value.text)
    if spans is None:
        return None
    return (block for first, last in spans for block in value.cut(first, last).blocks(PARTS))


def escape_message(text: str) -> str:
    """A text as it stands in a message: apostrophes as ’, for ' may quote; braces as parentheses."""
    return text.translate(TO_TEXT)


def escape_branch(text: str) -> str:
    """A text as it stands in a branch, where # is the number: as `escape_message`, and # as ＃."""
    return escape_message(text).replace("#", "＃")


TO_TEXT = str.maketrans({"'": "’", "{": "(", "}": ")"})
