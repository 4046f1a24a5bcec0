"""Lines are read as they are, and every invalid file is refused."""

import gzip
import tracemalloc
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.system.errors import DragomanError
from dragoman.text.lines import MAX_LINE, line_offsets, open_bytes, raw_lines, read_lines, read_pairs
from dragoman.text.quality.checks import check_readable, lossy_lines


def write(path, data):
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("end", [b"\n", b""])
def test_only_a_line_feed_ends_a_line(tmp_path, end):
    path = write(tmp_path / "a", "one\u2028two\x0bthree\x85\n\n four ".encode() + end)
    assert list(read_lines(path)) == ["one\u2028two\x0bthree\x85", "", " four "]


PIECES = st.lists(st.sampled_from(["one", " ", "é", "\ufeff", "\u2028", "\x0c", "\x85"]), max_size=4)


@given(st.lists(PIECES.map("".join), min_size=1, max_size=6), st.sampled_from(["\n", "\r\n"]))
def test_lines_that_are_counted_are_those_that_are_trained_on(tmp_path_factory, lines, end):
    path = write(tmp_path_factory.mktemp("lines") / "a", "".join(line + end for line in lines).encode())
    expected = [lines[0].removeprefix("\ufeff"), *lines[1:]]
    assert list(read_lines(path)) == list(lossy_lines(path)) == expected
    assert list(raw_lines(path)) == [(line + end).encode() for line in lines]


def test_gzip_is_decompressed_and_a_byte_order_mark_is_removed(tmp_path):
    path = write(tmp_path / "a.gz", gzip.compress("\ufeffone\ntwo\n".encode()))
    assert list(read_lines(path)) == ["one", "two"]


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_a_file_that_is_closed_before_its_end_is_not_open_any_more(tmp_path, ending):
    text = b"amber\n" * 100_000
    packed = {"": lambda: text, ".gz": lambda: gzip.compress(text), ".zst": lambda: compressed(text)}
    path = write(tmp_path / f"a{ending}", packed[ending]())

    def is_open():
        return any(each.readlink() == path for each in Path("/proc/self/fd").iterdir() if each.is_symlink())

    with open_bytes(path) as file:
        assert file.readline() == b"amber\n"
        assert is_open()
    assert not is_open()


def compressed(text):
    """Bytes as zstd packs them."""
    return pytest.importorskip("backports.zstd").compress(text)


def test_lines_can_be_read_from_an_offset(tmp_path):
    path = write(tmp_path / "a", "ä\nbb\nccc\nd\n".encode())
    starts = line_offsets(path, 2)
    assert [
        next(read_lines(path, offset=start, first_line=1 + 2 * number)) for number, start in enumerate(starts)
    ] == ["ä", "ccc"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"fine\nb\xffd\n", "a, line 2, byte 2: not UTF-8 \\(0xff\\)"),
        (b"fine\nnul\0\n", "a, line 2, byte 4: a NUL"),
        (b"in\rside\r\n", "a, line 1, byte 3: a carriage return inside the line; remove it from the file"),
        (b"", "a is empty; it has to hold a line for each sentence"),
    ],
)
def test_an_invalid_file_is_refused_with_line_and_byte(tmp_path, data, message):
    with pytest.raises(DragomanError, match=message):
        list(read_lines(write(tmp_path / "a", data)))


def test_a_line_without_an_end_is_refused_before_memory_is_full(tmp_path):
    path = write(tmp_path / "a.gz", gzip.compress(bytes(2**26)))  # 64 KiB
    tracemalloc.start()
    try:
        with pytest.raises(DragomanError, match="a.gz has a line of 16,777,216 bytes; a line holds one sent"):
            list(read_lines(path))
        assert tracemalloc.get_traced_memory()[1] < 2.5 * MAX_LINE
    finally:
        tracemalloc.stop()


def test_the_carriage_return_of_a_crlf_line_end_is_removed(tmp_path):
    assert list(read_lines(write(tmp_path / "a", b"one\r\ntwo\r\n"))) == ["one", "two"]


def test_a_missing_file_and_a_truncated_gzip_file_are_refused_by_name(tmp_path):
    with pytest.raises(DragomanError, match="none cannot be read: No such file"):
        list(read_lines(tmp_path / "none"))
    with pytest.raises(DragomanError, match="cut.gz is not a complete gzip file"):
        list(read_lines(write(tmp_path / "cut.gz", gzip.compress(b"line\n" * 1000)[:-9])))
    with pytest.raises(DragomanError, match="no.gz is not a complete gzip file"):
        list(read_lines(write(tmp_path / "no.gz", b"plain text")))


def test_a_corrupt_gzip_file_is_refused_by_name(tmp_path):
    packed = bytearray(gzip.compress(bytes(range(32, 127)) * 50))
    packed[15] ^= 255
    with pytest.raises(
        DragomanError, match="hurt.gz is not a complete gzip file: it is damaged, cut off, or"
    ):
        list(read_lines(write(tmp_path / "hurt.gz", bytes(packed))))


@pytest.mark.parametrize("sides", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("wrong", [None, 0, 1])
def test_one_side_of_a_text_or_both_are_read_to_the_end(tmp_path, sides, wrong):
    paths = [
        write(tmp_path / str(number), b"fine\n" * 9 + (b"\xff\n" if number == wrong else b"fine\n"))
        if is_given
        else None
        for number, is_given in enumerate(sides)
    ]
    refused = wrong is not None and sides[wrong]
    with pytest.raises(DragomanError, match=f"{wrong}, line 10, byte 1") if refused else nullcontext():
        check_readable(*paths)


@pytest.mark.parametrize(
    ("one", "other", "counts"), [(3, 5, "has 3 lines and .* has 5"), (4, 1, "has 4 lines and .* has 1")]
)
def test_files_of_different_length_are_refused_with_both_line_counts(tmp_path, one, other, counts):
    with pytest.raises(DragomanError, match=counts):
        list(read_pairs(write(tmp_path / "a", b"x\n" * one), write(tmp_path / "b", b"x\n" * other)))
