"""Laws of document formats that the tests of several formats state: damaged files, and time."""

import re
import time
from contextlib import suppress

from hypothesis import strategies as st

from dragoman.system.errors import DragomanError


def damaged(files, texts):
    """Random bytes, random texts, and parts of files, as bytes."""
    parts = files.flatmap(
        lambda text: st.integers(0, len(text)).map(lambda end: text[end // 2 : end].encode())
    )
    return st.one_of(st.binary(), texts.map(str.encode), parts)


def ends_in_a_sentence_or_a_document(read, content):
    """A damaged file is refused with a sentence, or it can be written as it was and with other texts."""
    with suppress(DragomanError):
        document = read(content)
        assert document.write([segment.sentence for segment in document.segments]) == content
        document.write(["Wort"] * len(document.segments))


def takes_linear_time(work, length):
    """Ten times the length takes less than forty times the processor's time; a quadratic one is a hundred."""

    def seconds(length):
        start = time.process_time()
        work(length)
        return time.process_time() - start

    most = 40 * max(seconds(length // 10), 0.0025)
    assert any(seconds(length) < most for _ in range(3))  # other programs slow some of them down


def repeated_part_takes_linear_time(read, begin, part, length=4_000, end=""):
    """To read a file in which a part is repeated, and to write it."""

    def work(length):
        document = read(f"{begin}{part * (length // len(part))}{end}".encode())
        document.write([f"{segment.sentence} x" for segment in document.segments])

    takes_linear_time(work, length)


def upper(sentence):
    """A translation that keeps the length of the letters of most scripts: the sentence in capitals."""
    return re.sub(r"(</?g\d+/?>)|[^<]+|<", lambda match: match[1] or match[0].upper(), sentence)


def in_capitals(read, content, change=upper):
    """A file whose sentences are in capitals. With its own sentences it is the same file."""
    document = read(content)
    assert document.write([segment.sentence for segment in document.segments]) == content
    return document.write([change(segment.sentence) for segment in document.segments])
