"""Corpora of OPUS by name, from a server on this machine that answers as OPUS does."""

import gzip
import io
import json
import os
import resource
import tarfile
from contextlib import contextmanager
from dataclasses import replace
from http.client import IncompleteRead

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.system.errors import DragomanError
from dragoman.system.files import file_hash
from dragoman.text.dataset_names import OpusName, parse_opus
from dragoman.text.named_datasets import opus as opus_module
from dragoman.text.named_datasets import packages as packages_module
from dragoman.text.named_datasets.datasets import resolve_dataset
from dragoman.text.named_datasets.downloads import download
from dragoman.text.named_datasets.opus import find_corpus, packages, terms, terms_of
from dragoman.text.named_datasets.packages import read_package
from dragoman.text.settings import DataSettings, Languages

from .opus_server import moses, opus_server

TATOEBA = OpusName("en", "de", "Tatoeba")
CODES = ("en", "de")


@pytest.fixture(scope="module")
def server():
    with opus_server() as opus:
        yield opus


@pytest.fixture
def opus(server, monkeypatch):
    """The server with Tatoeba and TED2020."""
    for field in (server.files, server.entries, server.requests):
        field.clear()
    server.sends_parts, server.cut_off_after = True, None
    server.add("Tatoeba", moses())
    server.add("TED2020", moses("TED2020", lines=2))
    monkeypatch.setattr(opus_module, "API", f"{server.address}/opusapi/")
    return server


def texts(paths):
    return [path.read_text() for path in paths]


def names_in(folder):
    return {path.name for path in folder.iterdir()} - {".lock"}


word = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,8}", fullmatch=True)
code = st.from_regex(r"[a-z]{2,3}(_[A-Z]{2})?", fullmatch=True)


@given(code, code, word, st.one_of(st.just(""), word))
def test_a_name_is_what_it_is_written_as(source, target, corpus, release):
    name = OpusName(source, target, corpus, release)
    if source == target:
        with pytest.raises(DragomanError):
            parse_opus(str(name))
    else:
        assert parse_opus(str(name)) == name
        assert parse_opus(str(replace(name, corpus="", release=""))).corpus == ""
        assert all("/" not in text and not text.startswith(".") for text in name.texts)


@pytest.mark.parametrize(
    "name",
    [
        "opus:",
        "opus:en",
        "opus:en-de/",
        "opus:en-de/../x",
        "opus:en-de/a/b/c",
        "opus:en-de/.x",
        "opus:en-en/x",
    ],
)
def test_another_form_of_name_is_refused(name, command_line):
    status, _, err = command_line("data", name)
    assert status == 2
    assert "is no name of a corpus; it has to be as opus:en-de/Tatoeba" in err


def test_a_corpus_becomes_two_texts_in_the_direction_of_its_name(opus, tmp_path, messages):
    folder = tmp_path / "corpora"
    found = find_corpus(TATOEBA, folder)
    assert texts(found) == ["en 0\nen 1\nen 2\n", "de 0\nde 1\nde 2\n"]
    assert [path.name for path in found] == ["Tatoeba.en-de.en", "Tatoeba.en-de.de"]
    assert names_in(folder) == {*TATOEBA.texts, "Tatoeba.en-de.README", "hashes.json"}
    hashes = json.loads((folder / "hashes.json").read_text())
    assert all(hashes[path.name] == file_hash(path) for path in found)
    assert len(hashes["Tatoeba.en-de.zip"]) == 64
    assert messages[0].startswith(
        "opus:en-de/Tatoeba/v2, 3 pairs, 0.0 MiB. Its licence: CC-BY 2.0 FR. Please"
    )
    assert texts(find_corpus(OpusName("de", "en", "Tatoeba"), folder)) == texts(found[::-1])


def test_what_is_there_is_not_asked_for_again_and_not_used_if_it_has_changed(opus, tmp_path):
    found = find_corpus(TATOEBA, tmp_path)
    opus.requests.clear()
    assert find_corpus(TATOEBA, tmp_path) == found
    assert not opus.requests
    found[0].write_text("other\n")
    with pytest.raises(DragomanError, match=r"Tatoeba\.en-de\.en has changed: the SHA-256 of its text was"):
        find_corpus(TATOEBA, tmp_path)


def test_terms_are_read_without_the_archive(opus):
    content = moses(lines=200_000)
    opus.add("Large", content)
    package = packages(OpusName("en", "de", "Large"))[0]
    opus.requests.clear()
    known = terms(package)
    assert known.licence == "CC-BY 2.0 FR"
    assert "J. Tiedemann, 2012, Parallel Data" in known.citations[0]
    parts = [part.removeprefix("bytes=").split("-") for _, part in opus.requests]
    assert 0 < sum(int(end) - int(start) + 1 for start, end in parts) < len(content) / 2
    opus.sends_parts = False
    assert "not known before the download" in terms(package).licence


def test_what_a_readme_says_cannot_control_a_terminal():
    known = terms_of("License: MIT\x1b[2J\x07\n\nPlease cite\x1b]0;x\n\rus.\n")
    assert all(letter.isprintable() for letter in known.licence + "".join(known.citations))
    assert terms_of("").citations


@given(
    st.binary(min_size=4, max_size=60),
    st.sets(st.floats(0, 1, exclude_max=True), max_size=3),
    st.one_of(st.none(), st.binary(min_size=1, max_size=60)),
)
def test_an_interrupted_download_goes_on_to_the_same_file(opus_of_parts, content, shares, other):
    server, folder = opus_of_parts
    for path in folder.iterdir():
        path.unlink()
    server.files["/file"], server.sends_parts, there = content, True, 0
    for place in sorted({int(share * len(content)) for share in shares} - {0}):
        server.cut_off_after = place - there
        with pytest.raises(IncompleteRead):
            download(f"{server.address}/file", folder / "file")
        assert (folder / ".file.part").read_bytes() == content[:place]
        there = place
    server.cut_off_after = None
    if other is not None:
        content = server.files["/file"] = other
    download(f"{server.address}/file", folder / "file")
    assert (folder / "file").read_bytes() == content
    assert len(list(folder.iterdir())) == 1


@pytest.fixture(scope="module")
def opus_of_parts(server, tmp_path_factory):
    return server, tmp_path_factory.mktemp("parts")


def test_an_interrupted_corpus_goes_on_and_asks_for_the_rest_alone(opus, tmp_path):
    opus.cut_off_after = 100
    with pytest.raises(DragomanError, match=r"was cut off\. Run the same command again; it goes on where"):
        find_corpus(TATOEBA, tmp_path)
    opus.cut_off_after = None
    find_corpus(TATOEBA, tmp_path)
    assert opus.requests[-1] == ("/OPUS-Tatoeba/v2/moses/de-en.txt.zip", "bytes=100-")


def test_a_server_without_parts_sends_the_whole_file_again(opus, tmp_path):
    opus.sends_parts, opus.cut_off_after = False, 100
    with pytest.raises(DragomanError, match="was cut off"):
        find_corpus(TATOEBA, tmp_path)
    assert not list(tmp_path.glob(".Tatoeba*"))
    opus.cut_off_after = None
    assert texts(find_corpus(TATOEBA, tmp_path))[0].startswith("en 0\n")


def test_what_opus_does_not_have_is_said_with_what_it_has(opus, command_line):
    for name, words in (
        ("opus:en-de/tatoba", "no corpus 'tatoba' in en and de; there are: Tatoeba, TED2020"),
        ("opus:en-de/Tatoeba/v9", "no release v9 of Tatoeba in en and de; there are: v2"),
        ("opus:de-xx/Tatoeba", "no corpora in de and xx. de is there with: en, fr"),
        ("opus:xx-de", "OPUS has no corpora in 'xx'"),
    ):
        status, _, err = command_line("data", name)
        assert (status, words in err) == (2, True), err


def test_the_latest_release_is_taken_or_the_one_that_is_named(opus, tmp_path):
    opus.add("Tatoeba", moses(lines=1), release="v1", latest="False")
    assert len(texts(find_corpus(TATOEBA, tmp_path))[0].splitlines()) == 3
    old = find_corpus(replace(TATOEBA, release="v1"), tmp_path)
    assert [path.name for path in old] == ["Tatoeba-v1.en-de.en", "Tatoeba-v1.en-de.de"]
    assert texts(old) == ["en 0\n", "de 0\n"]


def test_a_corpus_that_is_gone_and_a_server_that_cannot_be_reached(opus, tmp_path, monkeypatch):
    opus.files.clear()
    with pytest.raises(DragomanError, match=r"Tatoeba/v2 is gone: OPUS lists it, and .* answers 404"):
        find_corpus(TATOEBA, tmp_path)
    monkeypatch.setattr(opus_module, "API", "http://127.0.0.1:1/opusapi/")
    with pytest.raises(DragomanError, match=r"cannot be reached \(Connection refused\)\. Without a network"):
        find_corpus(TATOEBA, tmp_path)
    for text in TATOEBA.texts:  # put there by hand
        (tmp_path / f"{text}.gz").write_bytes(gzip.compress(b"one\n"))
    assert [path.suffix for path in find_corpus(TATOEBA, tmp_path)] == [".gz", ".gz"]


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b'{"error": 1}', b'{"corpora": [1, {}]}'])
def test_another_answer_than_the_api_gives_is_said(opus, monkeypatch, tmp_path, answer):
    opus.files["/other"] = answer
    monkeypatch.setattr(opus_module, "API", f"{opus.address}/other")
    with pytest.raises(DragomanError, match=r"did not answer as the API of OPUS does|OPUS has no"):
        find_corpus(TATOEBA, tmp_path)


@contextmanager
def files_of_at_most(size):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [40, 3_000])
def test_a_disk_that_fills_is_named_and_nothing_is_fetched_twice(opus, tmp_path, command_line, size):
    content = opus.files[opus.add("Tatoeba", moses(lines=2_000), release="v3")]
    assert len(content) > size
    arguments = "data", "opus:en-de/Tatoeba/v3", "--out", tmp_path
    with files_of_at_most(size):
        status, _, err = command_line(*arguments)
    assert status == 2
    assert "could not be written: File too large. Free some space" in err
    assert str(tmp_path) in err
    assert not set(names_in(tmp_path)) & {*replace(TATOEBA, release="v3").texts}
    assert len(texts(find_corpus(parse_opus(arguments[1]), tmp_path))[0].splitlines()) == 2_000
    assert opus.requests[-1][1].startswith(f"bytes={size}-")


def pack(path, members):
    """A zip or tar file, or a file compressed with gzip, by the end of its name."""
    if path.name.endswith((".tmx.gz", ".tsv.gz")):
        path.write_bytes(gzip.compress(members[path.name.removesuffix(".gz")]))
    elif path.suffix == ".zip":
        path.write_bytes(moses(members=members))
    else:
        with tarfile.open(path, "w" if path.suffix == ".tar" else "w:gz") as package:
            for name, content in members.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                package.addfile(entry, io.BytesIO(content))


UNITS = "".join(
    f'<tu><tuv xml:lang="de"><seg>de {n}</seg></tuv><tuv xml:lang="en"><seg>en {n}</seg></tuv></tu>'
    for n in range(3)
)
TMX = f'<tmx version="1.4"><header srclang="de"/><body>{UNITS}</body></tmx>'.encode()
TSV = b"".join(f"en {n}\tde {n}\n".encode() for n in range(3))
MOSES = {"x/C.de-en.de": b"de 0\nde 1\nde 2\n", "x/C.de-en.en": b"en 0\nen 1\nen 2\n", "x/README": b""}


@pytest.mark.parametrize("ending", [".zip", ".tgz", ".tar.gz", ".tar"])
@pytest.mark.parametrize("members", [MOSES, {"corpus.tmx": TMX}, {"a/corpus.tsv": TSV}])
def test_every_package_gives_the_same_pairs(tmp_path, ending, members):
    pack(path := tmp_path / f"corpus{ending}", members)
    assert list(read_package(path, CODES, tmp_path)) == [(f"en {n}", f"de {n}") for n in range(3)]


@pytest.mark.parametrize("name", ["corpus.tmx.gz", "corpus.tsv.gz"])
def test_a_file_of_both_sides_gives_its_pairs(tmp_path, name):
    pack(path := tmp_path / name, {"corpus.tmx": TMX, "corpus.tsv": TSV})
    assert list(read_package(path, CODES, tmp_path)) == [(f"en {n}", f"de {n}") for n in range(3)]


def test_a_corpus_that_is_only_a_translation_memory_is_read(opus, tmp_path):
    opus.add("Memory", gzip.compress(TMX), ending=".tmx.gz", form="tmx")
    assert texts(find_corpus(OpusName("de", "en", "Memory"), tmp_path))[0] == "de 0\nde 1\nde 2\n"


@pytest.mark.parametrize("ending", [".zip", ".tgz"])
@pytest.mark.parametrize(
    ("members", "words"),
    [
        (MOSES | {"../../outside.en": b"x"}, "which leads outside of a folder"),
        (MOSES | {"/etc/x.en": b"x"}, "which leads outside of a folder"),
        (MOSES | {"..\\..\\x.en": b"x"}, "which leads outside of a folder"),
        (MOSES | {"x/C.de-en.de": bytes(50_000_000)}, "text is never compressed that far"),
        (MOSES | {"x/C.de-en.de": b"one\n"}, "have different numbers of lines: one ends before line 2"),
        ({"a.txt": b"x"}, "has no text in en and de: it has 1 file, 'a.txt'"),
        ({}, "has no text in en and de: it has 0 files"),
        (MOSES | {"y/C.de": b"x"}, "has no text in en and de: it has 4 files"),
        ({"corpus.tmx": b"<tmx><!DOCTYPE"}, "not well-formed XML"),
    ],
)
def test_a_package_that_is_no_corpus_ends_with_a_sentence(opus, tmp_path, ending, members, words):
    pack(path := tmp_path / f"corpus{ending}", members)
    opus.add("Bad", path.read_bytes(), ending=ending)
    folder = tmp_path / "deep" / "folder"
    with pytest.raises(DragomanError, match=words):
        find_corpus(OpusName("en", "de", "Bad"), folder)
    assert names_in(folder) <= {f"Bad.en-de{ending}"}
    assert sorted(found.name for found in tmp_path.rglob("*.en")) == []
    assert {found.name for found in tmp_path.iterdir()} == {path.name, "deep"}


@pytest.mark.parametrize("ending", [".zip", ".tgz", ".tar", ".tmx.gz"])
def test_a_damaged_package_is_refused(tmp_path, ending):
    pack(path := tmp_path / f"corpus{ending}", MOSES | {"corpus.tmx": TMX})
    content = path.read_bytes()
    for damaged in (b"", b"<html>", content[: len(content) // 2 if ending != ".tar" else 600]):
        path.write_bytes(damaged)
        with pytest.raises(DragomanError, match=r"corpus|well-formed"):
            list(read_package(path, CODES, tmp_path))


def test_a_line_without_an_end_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(packages_module, "MAX_LINE", 1_000)
    pack(path := tmp_path / "corpus.zip", MOSES | {"x/C.de-en.de": os.urandom(600).hex().encode()})
    with pytest.raises(DragomanError, match="a line of more than 1,000 bytes"):
        list(read_package(path, CODES, tmp_path))


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://127.0.0.1/x.zip"])
def test_only_the_web_is_read(opus, tmp_path, address):
    opus.entries[0]["url"] = address
    with pytest.raises(DragomanError, match="OPUS has no"):
        find_corpus(TATOEBA, tmp_path)


def test_an_unknown_ending_is_said(opus, tmp_path):
    opus.add("Odd", moses(), ending=".en")
    with pytest.raises(DragomanError, match=r"de-en\.en ends in none of \.zip, "):
        find_corpus(OpusName("en", "de", "Odd"), tmp_path)


def test_the_verb_shows_before_it_downloads(opus, tmp_path, command_line):
    status, out, _ = command_line("data", "opus:en-de")
    assert status == 0
    assert out.index("opus:en-de/TED2020") > 0 < out.index("opus:en-de/Tatoeba")
    names = "opus:en-de/Tatoeba", "opus:en-de/TED2020"
    status, _, err = command_line("data", *names)
    assert (status, err.count("Its licence: CC-BY 2.0 FR")) == (0, 2)
    assert not list(tmp_path.iterdir())
    status, _, err = command_line("data", *names, "--out", tmp_path / "corpora")
    assert status == 0
    assert err.index("Its licence") < err.index("Downloading")
    assert err.count("Its licence") == 2
    folder = ["--folder", str(tmp_path / "corpora")]
    assert f"dragoman train --dataset {' '.join(names)} {' '.join(folder)} --out" in err
    opus.requests.clear()
    status, _, err = command_line("data", names[0], "--out", tmp_path / "corpora")
    assert (status, opus.requests) == (0, [])
    assert f"dragoman train {tmp_path / 'corpora' / 'Tatoeba.en-de.en'} " in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["data"], "Name the corpora: dragoman data opus:en-de/Tatoeba --out corpora"),
        (["data", "opus:en-de", "--out", "x"], "name corpora to download, such as opus:en-de/Tatoeba"),
        (["data", "multi30k-en-de"], "dragoman train --dataset multi30k-en-de downloads it"),
        (["train", "--dataset", "opus:en-de", "--out", "x"], "`dragoman data opus:en-de` lists them"),
        (
            ["train", "--dataset", "opus:en-de/A", "multi30k-en-de", "--out", "x"],
            "give it alone as --dataset",
        ),
        (["train", "--dataset", "opus:en-de/A", "opus:de-en/A", "--out", "x"], "have other languages"),
        (["train", "--dataset", "opus:en-de/A", "opus:en-de/A", "--out", "x"], "is given twice"),
        (
            ["train", "a.de", "a.en", "--dataset", "opus:en-de/A", "--preset=tiny"],
            "Exchange the sides",
        ),
        (["train", "a.en", "a.de", "--dataset", "multi30k-en-de", "--out", "x"], "has its own files"),
    ],
)
def test_names_that_cannot_be_used_are_refused(command_line, monkeypatch, tmp_path, arguments, words):
    monkeypatch.chdir(tmp_path)
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text("x\n")
    status, _, err = command_line(*arguments)
    assert status == 2
    assert words in err
    assert not (tmp_path / "x").exists()


def test_datasets_stand_beside_local_text(opus, tmp_path):
    for name in ("own.en", "own.de", "valid.en", "valid.de"):
        (tmp_path / name).write_text(f"{name}\n")
    settings = DataSettings(
        source=tmp_path / "own.en",
        target=tmp_path / "own.de",
        valid_source=tmp_path / "valid.en",
        valid_target=tmp_path / "valid.de",
        dataset=("opus:en-de/Tatoeba", "opus:en-de/TED2020"),
        folder=tmp_path / "corpora",
    )
    found = resolve_dataset(settings)
    assert [corpus.source.name for corpus in found.corpus] == [
        "own.en",
        "Tatoeba.en-de.en",
        "TED2020.en-de.en",
    ]
    assert found.valid_target == tmp_path / "valid.de"
    assert (found.source, found.dataset, found.languages) == (None, None, Languages("en", "de"))
    one = resolve_dataset(DataSettings(dataset="opus:de-en/Tatoeba", folder=tmp_path / "corpora"))
    assert one.source.read_text() == "de 0\nde 1\nde 2\n"
    assert (one.corpus, one.languages) == ((), Languages("de", "en"))


@pytest.mark.long
def test_a_model_is_trained_on_local_text_and_on_datasets(opus, tmp_path, command_line):
    for side in ("en", "de"):
        (tmp_path / f"own.{side}").write_text("".join(f"{side} own {n}\n" for n in range(40)))
    opus.add("Tatoeba", moses(lines=60), release="v3")
    arguments = ["train", tmp_path / "own.en", tmp_path / "own.de"]
    arguments += ["--dataset", "opus:en-de/Tatoeba/v3", "opus:en-de/TED2020", "--preset", "tiny"]
    arguments += ["--updates", 1, "--vocabulary", 300, "--folder", tmp_path, "--out", tmp_path / "run"]
    status, _, err = command_line(*arguments)
    assert status == 0, err
    assert "Corpus 2: 60 pairs of" in err
    statistics = [json.loads(path.read_text())["pairs"] for path in (tmp_path / "run").rglob("corpus.json")]
    assert max(statistics) == 40 + 60 + 2
    recipe = (tmp_path / "run" / "recipe.toml").read_text()
    assert '"opus:en-de/Tatoeba/v3"' in recipe
