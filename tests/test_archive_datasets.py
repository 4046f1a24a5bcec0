"""Datasets from archives: put together, verified, and what is wrong with an archive said in a sentence."""

import gzip
import io
import json
import tarfile
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.system.errors import DragomanError
from dragoman.system.files import file_hash
from dragoman.text.named_datasets import datasets
from dragoman.text.named_datasets.archive_dataset import ArchiveDataset, ArchivePart, Text
from dragoman.text.named_datasets.archives import Archive, plain_lines, read_member, segments, talk_lines
from dragoman.text.named_datasets.datasets import DATASETS, resolve_dataset
from dragoman.text.settings import DataSettings

MEMBERS = {
    "./one.en": "a\r\nb\x00c\rd\ne\u2028f\n".encode(),
    "one.de": b"A\nB\n\xff\n",
    "two.en.gz": gzip.compress(b"g\n"),
    "two.de.gz": gzip.compress(b"G\n"),
    "../../outside": b"never\n",
    "test.en.sgm": b'<refset>\n<seg id="1"> x &amp; y </seg>\n<hl>\n<seg id="2">z</seg>\n</hl>\n',
    "test.de.sgm": b'<seg id="1">X &amp; Y</seg>\n<seg id="2">Z</seg>\n',
}


def write_tar(path, members=MEMBERS, mode="w:gz"):
    with tarfile.open(path, mode) as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A dataset in one archive, whose address is a file; its folder is empty."""
    (tmp_path / "web").mkdir()
    path = tmp_path / "web" / "toy.tgz"
    write_tar(path)
    archive = Archive(path.as_uri(), file_hash(path))
    one, two = ArchivePart(archive, "one.en", "one.de"), ArchivePart(archive, "two.en.gz", "two.de.gz")
    test = ArchivePart(archive, "test.en.sgm", "test.de.sgm", segments)
    texts = (
        Text("train", (replace(one, keeps=lambda n: n != 2), two)),
        Text("valid", (replace(one, keeps=lambda n: n == 2),)),
        Text("test", (test,)),
    )
    monkeypatch.setitem(datasets.DATASETS, "toy", ArchiveDataset("a toy", "ours", ("en", "de"), texts, 1_000))
    return DataSettings(dataset="toy", folder=tmp_path / "here")


def with_archive(monkeypatch, archive):
    """The toy with another archive."""
    found = DATASETS["toy"]
    texts = tuple(
        replace(text, parts=tuple(replace(part, archive=archive) for part in text.parts))
        for text in found.texts
    )
    monkeypatch.setitem(datasets.DATASETS, "toy", replace(found, texts=texts))


def test_texts_are_put_together_from_members_in_their_order(toy, tmp_path):
    found = resolve_dataset(toy)
    assert found.source.read_text() == "a\ne\u2028f\ng\n"
    assert found.target.read_text() == "A\n\ufffd\nG\n"
    assert found.valid_source.read_text() == "b c d\n"
    assert found.test_source.read_text() == "x & y\nz\n"
    assert found.test_target.read_text() == "X & Y\nZ\n"
    names = {path.name for path in toy.folder.iterdir()} - {".lock"}
    assert names == {
        *(f"{text}.{side}" for text in ("train", "valid", "test") for side in ("en", "de")),
        "toy.tgz",
        "hashes.json",
    }
    assert not list(tmp_path.rglob("outside"))
    hashes = json.loads((toy.folder / "hashes.json").read_text())
    for name in names - {"hashes.json"}:
        assert hashes[name] == file_hash(toy.folder / name)


def test_texts_that_are_there_need_no_archive_and_may_be_compressed(toy, tmp_path):
    resolve_dataset(toy)
    (tmp_path / "web" / "toy.tgz").unlink()
    (toy.folder / "toy.tgz").unlink()
    text = toy.folder / "train.en"
    (toy.folder / "train.en.gz").write_bytes(gzip.compress(text.read_bytes()))
    text.unlink()
    assert resolve_dataset(toy).source.name == "train.en.gz"


def test_a_text_that_has_changed_is_refused(toy):
    path = resolve_dataset(toy).source
    path.write_text("other\n")
    with pytest.raises(DragomanError, match=r"train\.en has changed: the SHA-256 of its text was .* and is"):
        resolve_dataset(toy)
    path.unlink()
    assert resolve_dataset(toy).source.read_text().startswith("a\n")


def test_an_archive_with_another_hash_than_the_published_one_is_refused(toy, monkeypatch, tmp_path):
    archive = Archive((tmp_path / "web" / "toy.tgz").as_uri(), "0" * 64)
    with_archive(monkeypatch, archive)
    with pytest.raises(
        DragomanError, match=r"toy\.tgz is not the file .* and the one that is published is 0000"
    ):
        resolve_dataset(toy)
    assert not (toy.folder / "train.en").exists()


def test_a_hash_that_is_not_known_is_recorded_and_then_compared(toy, monkeypatch, tmp_path):
    with_archive(monkeypatch, Archive((tmp_path / "web" / "toy.tgz").as_uri()))
    path = resolve_dataset(toy).source
    path.unlink()
    write_tar(toy.folder / "toy.tgz", MEMBERS | {"one.de": b"other\n"})
    with pytest.raises(DragomanError, match=r"and the one that was recorded in .*hashes\.json is"):
        resolve_dataset(toy)


def test_without_a_network_all_that_is_missing_is_listed(toy, tmp_path):
    (tmp_path / "web" / "toy.tgz").unlink()
    with pytest.raises(DragomanError) as error:
        resolve_dataset(toy)
    for words in (
        "toy.tgz is not in",
        "put these files into",
        "toy.tgz   from file:",
        "plain or gzip: train.en, train.de, valid.en, valid.de, test.en, test.de.",
    ):
        assert words in str(error.value)
    assert {path.name for path in toy.folder.iterdir()} == {".lock"}


@pytest.mark.parametrize("mode", ["w:gz", "w"])
def test_a_truncated_archive_is_refused(tmp_path, mode):
    path = tmp_path / "toy.tgz"
    write_tar(path, {"one.en": bytes(range(10, 256)) * 100}, mode)
    path.write_bytes(path.read_bytes()[: 400 if mode == "w:gz" else 2_000])
    with pytest.raises(DragomanError, match=r"toy\.tgz is not a complete archive: .* Delete it"):
        list(read_member(path, "one.en"))


def test_a_member_that_is_missing_is_named(tmp_path):
    write_tar(tmp_path / "toy.tgz")
    with pytest.raises(DragomanError, match=r"toy\.tgz has no file three\.en"):
        list(read_member(tmp_path / "toy.tgz", "three.en"))


@pytest.mark.parametrize("kind", [tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.FIFOTYPE])
def test_only_a_file_is_a_member_that_is_read(tmp_path, kind):
    with tarfile.open(tmp_path / "toy.tar", "w") as tar:
        for name, own in (("one.en", tarfile.REGTYPE), ("two.en", kind)):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = own, "one.en" if own == tarfile.SYMTYPE else ""
            tar.addfile(entry)
    assert list(read_member(tmp_path / "toy.tar", "one.en")) == []
    with pytest.raises(DragomanError, match=r"toy\.tar has no file two\.en"):
        list(read_member(tmp_path / "toy.tar", "two.en"))


def test_members_of_different_lengths_are_refused(toy, monkeypatch, tmp_path):
    path = tmp_path / "web" / "other.tgz"
    write_tar(path, MEMBERS | {"one.de": b"A\n"})
    with_archive(monkeypatch, Archive(path.as_uri()))
    with pytest.raises(DragomanError, match=r"have different numbers of lines: one ends before line 2"):
        resolve_dataset(toy)
    assert not (toy.folder / "train.en").exists()


def test_damaged_records_are_refused(toy):
    resolve_dataset(toy)
    (toy.folder / "hashes.json").write_text("[]")
    with pytest.raises(DragomanError, match=r"hashes\.json is not a table of names with their SHA-256"):
        resolve_dataset(toy)


def test_a_compressed_text_that_is_cut_off_is_refused(toy):
    text = resolve_dataset(toy).source
    (toy.folder / "train.en.gz").write_bytes(gzip.compress(text.read_bytes())[:-4])
    text.unlink()
    with pytest.raises(DragomanError, match=r"train\.en\.gz is not a complete gzip file"):
        resolve_dataset(toy)


def test_of_talks_the_title_the_description_and_the_sentences_stay():
    raw = [
        b"<url>http://talks</url>\n",
        b"<keywords>words</keywords>\n",
        b"<talkid>5</talkid>\n",
        b"<title>A title</title>\n",
        b"<description>About it.</description>\n",
        b" A sentence. \n",
        b"3 < 4 and 5 > 4\n",
        b"<i>Laughter</i> A sentence\n",
        b"A sentence. <i>Laughter</i>\n",
    ]
    sentences = [
        "A sentence.",
        "3 < 4 and 5 > 4",
        "<i>Laughter</i> A sentence",
        "A sentence. <i>Laughter</i>",
    ]
    assert list(talk_lines(raw)) == ["A title", "About it.", *sentences]


@given(
    st.lists(st.text("a é&<;\t\n\r\u2028\xa0", max_size=6), max_size=4),
    st.sampled_from(["&#{};", "&#x{:x};"]),
)
def test_a_segment_is_one_line_without_spaces_around_it_whatever_it_escapes(texts, reference):
    escaped = ("".join(reference.format(ord(each)) for each in text) for text in texts)
    raw = [f'<seg id="{number}"> {text} </seg>\r\n'.encode() for number, text in enumerate(escaped)]
    assert list(segments(raw)) == [text.replace("\n", " ").replace("\r", " ").strip() for text in texts]


def test_a_line_ends_at_a_line_feed_alone():
    assert list(plain_lines([b"a\x0bb\xc2\x85c\n", b"\n"])) == ["a\x0bb\x85c", ""]


def test_the_other_direction_has_the_same_files():
    one, other = DATASETS["multi30k-en-de"], DATASETS["multi30k-de-en"]
    assert set(one.files) == set(other.files)
    for forward, backward in zip(one.files, other.files, strict=True):
        assert forward.name.split(".")[0] == backward.name.split(".")[0]
        assert {forward.name[-2:], backward.name[-2:]} == {"en", "de"}


@pytest.mark.parametrize("name", ["wmt14-en-de", "wmt14-en-fr", "iwslt14-de-en"])
def test_published_datasets_name_members_of_both_languages(name):
    dataset = DATASETS[name]
    assert name.endswith("-".join(dataset.languages))
    for text in dataset.texts:
        for part in text.parts:
            for language, member in zip(dataset.languages, (part.source, part.target), strict=True):
                assert f".{language}" in member
            assert part.archive.sha256 is None or len(part.archive.sha256) == 64
