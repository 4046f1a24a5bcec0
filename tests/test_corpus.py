"""Text files become a corpus of memory-mapped ids."""

import json
import resource
import unicodedata
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dragoman.system.errors import DragomanError
from dragoman.text.corpus import (
    Corpus,
    CorpusStatistics,
    PairFilter,
    sample_pairs,
    scan_corpus,
    source_hashes,
    write_corpus,
)
from dragoman.text.held_out import HeldOutSources, fitting_pairs, held_out_pairs
from dragoman.text.lines import line_hash
from dragoman.text.quality.checks import count_words
from dragoman.text.settings import DataSettings, TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from tests.conftest import write_copies

WORDS = Tokenizer.train(["a b"], "word", TokenizerSettings(), 9)


@pytest.fixture
def files(tmp_path):
    return write_copies(tmp_path, "train", 120)


@pytest.fixture
def models(tmp_path, files):
    lines = [line for path in files for line in path.read_text().splitlines()]
    Tokenizer.train(lines, "word", TokenizerSettings(), 100).save(tmp_path / "tokenizer.model")
    return tmp_path / "tokenizer.model", tmp_path / "tokenizer.model"


def build(folder, files, models, pair_filter=None, longest=0, **more):
    settings = DataSettings(longest=longest)
    statistics, _ = scan_corpus(files, settings, {}, None)
    return write_corpus(folder, files, models, settings, pair_filter or PairFilter(), statistics, **more)


def test_ids_are_those_of_the_lines(tmp_path, files, models):
    corpus = build(tmp_path / "corpus", files, models)
    tokenizer = Tokenizer.load(models[0])
    encoded = [tokenizer.encode(path.read_text().splitlines()) for path in files]
    assert len(corpus) == 120
    for pair in range(120):
        assert [side.tolist() for side in corpus[pair]] == [side[pair] for side in encoded]
    assert corpus.lengths()[0].tolist() == [len(ids) for ids in encoded[0]]


def test_the_corpus_does_not_depend_on_the_number_of_shards(tmp_path, files, models):
    whole = build(tmp_path / "whole", files, models)
    shards = build(tmp_path / "shards", files, models, shard_lines=50)
    assert len(list((tmp_path / "shards").glob("*.source.npy"))) == 3
    assert len(shards) == len(whole)
    for pair in range(len(whole)):
        assert all(np.array_equal(one, other) for one, other in zip(whole[pair], shards[pair], strict=True))
    assert shards.statistics == whole.statistics


def test_the_limit_of_open_files_is_raised_for_many_shards(tmp_path, files, models):
    build(tmp_path / "corpus", files, models, shard_lines=5)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, limits[1]))
    try:
        corpus = Corpus(tmp_path / "corpus")
        assert [corpus.line_number(pair) for pair in range(120)] == list(range(1, 121))
    finally:
        del corpus
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_pairs_that_are_too_long_are_left_out_and_counted(tmp_path, files, models):
    corpus = build(tmp_path / "corpus", files, models, longest=4)
    assert corpus.lengths()[0].max() == 4
    assert corpus.statistics.too_long == 120 - len(corpus) > 0
    short = [
        number for number, line in enumerate(files[0].read_text().splitlines(), 1) if len(line.split()) <= 4
    ]
    assert [corpus.line_number(pair) for pair in range(len(corpus))] == short
    assert f"{corpus.statistics.too_long} longer than the recipe allows" in "; ".join(
        corpus.statistics.describe()
    )


def test_one_is_told_in_the_singular():
    told = CorpusStatistics(pairs=1, empty=1, crlf=1).describe()
    lines = "1 line with CRLF at the end; the carriage return is removed"
    assert told == ["1 pair", "1 with an empty side, left out", lines]


def test_nothing_is_counted_before_the_first_pair():
    assert CorpusStatistics(pairs=2).describe() == ["2 pairs"]


def test_empty_sides_copies_and_overlap_are_counted(tmp_path):
    source, target = tmp_path / "s", tmp_path / "t"
    source.write_text("a\nsame\n\nb\nknown\n")
    target.write_text("A\nsame\nC\n \nK\n")
    others = {"test": source_hashes(source) | source_hashes(target)}
    statistics, _ = scan_corpus((source, target), DataSettings(), others, None)
    assert (statistics.pairs, statistics.empty, statistics.copies) == (5, 2, 1)
    assert statistics.overlap == {"test": 3}
    told = "; ".join(statistics.describe())
    assert "2 with an empty side, left out" in told
    assert "1 with a source equal to its target" in told
    assert "3 with a source that is also in the test data" in told


def test_drop_copies_and_drop_overlap_leave_such_pairs_out(tmp_path):
    source, target, test = tmp_path / "s", tmp_path / "t", tmp_path / "test"
    source.write_text("a\nsame\nknown\n")
    target.write_text("A\nsame\nK\n")
    test.write_text("known\n")
    settings = DataSettings(drop_copies=True, drop_overlap=True)
    _, pair_filter = scan_corpus((source, target), settings, {"test": source_hashes(test)}, None)
    assert list(sample_pairs(source, target, pair_filter, 3, 10)) == [("a", "A")]


def test_pairs_in_the_test_data_that_are_left_out_are_not_held_out_either(tmp_path):
    source, target, test = tmp_path / "s", tmp_path / "t", tmp_path / "test"
    source.write_text("".join(f"line {number}\n" for number in range(200)))
    target.write_text("".join(f"Zeile {number}\n" for number in range(200)))
    test.write_text("".join(f"line {number}\n" for number in range(100)))
    others = {"test": source_hashes(test)}
    _, pair_filter = scan_corpus((source, target), DataSettings(drop_overlap=True), others, HeldOutSources())
    assert len(pair_filter.held_out) == 4
    assert not pair_filter.held_out & others["test"]


def test_a_source_in_another_unicode_form_is_the_same(tmp_path):
    (tmp_path / "s").write_text(unicodedata.normalize("NFD", "Ein Mädchen läuft.\n"))
    (tmp_path / "test").write_text("Ein Mädchen läuft.\n")
    others = {"test": source_hashes(tmp_path / "test")}
    statistics, _ = scan_corpus((tmp_path / "s",) * 2, DataSettings(), others, None)
    assert statistics.overlap == {"test": 1}


def test_pairs_without_a_token_on_a_side_are_left_out_and_counted(tmp_path):
    source, target = tmp_path / "s", tmp_path / "t"
    source.write_text("".join(f"line {number}\n" for number in range(40)) + "\u200b\n")
    target.write_text("".join(f"line {number}\n" for number in range(41)))
    tokenizer = Tokenizer.train(source.read_text().splitlines(), "bpe", TokenizerSettings(), 300)
    tokenizer.save(tmp_path / "tokenizer.model")
    corpus = build(tmp_path / "corpus", (source, target), (tmp_path / "tokenizer.model",) * 2)
    assert (len(corpus), corpus.statistics.too_long) == (40, 1)


def test_held_out_sources_are_not_in_training(tmp_path):
    source, target = tmp_path / "s", tmp_path / "t"
    source.write_text("".join(f"line {number % 150}\n" for number in range(300)))
    target.write_text("".join(f"Zeile {number}\n" for number in range(300)))
    settings = DataSettings()
    statistics, pair_filter = scan_corpus((source, target), settings, {}, HeldOutSources())
    held_out = held_out_pairs(source, target, pair_filter.held_out, DataSettings())
    kept = list(sample_pairs(source, target, pair_filter, 300, 1000))
    assert len(held_out) + len(kept) == statistics.pairs
    assert not {one for one, _ in held_out} & {one for one, _ in kept}
    assert len(held_out) == 6  # 300 / 50, of sentences that are there twice


def test_a_source_that_is_repeated_too_often_is_not_held_out(tmp_path):
    often, *others = sorted(map("sentence {}".format, range(901)), key=line_hash)
    for text in (tmp_path / "s", tmp_path / "t"):
        text.write_text("".join(f"{one}\n" for one in [often] * 100 + others))
    _, pair_filter = scan_corpus((tmp_path / "s", tmp_path / "t"), DataSettings(), {}, HeldOutSources())
    held_out = held_out_pairs(tmp_path / "s", tmp_path / "t", pair_filter.held_out, DataSettings())
    assert len(held_out) == 20
    assert often not in dict(held_out)
    (tmp_path / "few").write_text("amber\nbirch\n" * 30 + "amber\n")
    _, pair_filter = scan_corpus((tmp_path / "few",) * 2, DataSettings(), {}, HeldOutSources())
    few = held_out_pairs(tmp_path / "few", tmp_path / "few", pair_filter.held_out, DataSettings())
    assert few == [("birch", "birch")] * 30


@given(st.lists(st.integers(0, 400), min_size=2, max_size=300), st.integers(1, 9), st.randoms())
def test_the_sources_that_are_held_out_are_those_with_the_smallest_hashes_in_any_order(sources, most, draw):
    """A 50th of all pairs and no more than the maximum, or else the source with the fewest pairs."""
    assume(len({*sources}) > 1)
    counts, pairs, left = Counter(sources), 50 * len(sources), min(most, len(sources))
    expected = set()
    for source in sorted(counts)[: most + 1]:
        if counts[source] <= left:
            expected.add(source)
            left -= counts[source]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("dragoman.text.held_out.MAX_HELD_OUT", most)
        for _ in range(2):
            candidates = HeldOutSources()
            for source in sources:
                candidates.add(source)
            found = candidates.choose(Path("s"), pairs)
            few = min(sorted(counts)[: most + 1], key=lambda source: (counts[source], source))
            assert found == (expected or {few})
            draw.shuffle(sources)


@pytest.mark.parametrize("pairs", [2, 99, 100, 149, 5_000, 99_999, 100_000, 10**6])
def test_a_fiftieth_of_the_pairs_is_held_out_and_2000_at_most(pairs):
    candidates = HeldOutSources()
    for source in range(3_000):
        candidates.add(source)
    assert len(candidates.choose(Path("s"), pairs)) == min(2_000, max(1, pairs // 50))


def test_no_copy_is_held_out_if_copies_are_left_out(tmp_path):
    """Also one whose source has a translation elsewhere, which is held out."""
    source, target = tmp_path / "s", tmp_path / "t"
    source.write_text("".join(f"line {number // 2}\n" for number in range(200)))
    target.write_text(
        "".join(f"{'Zeile' if number % 2 else 'line'} {number // 2}\n" for number in range(200))
    )
    for drop_copies, count in ((True, 4), (False, 4)):
        settings = DataSettings(drop_copies=drop_copies)
        _, pair_filter = scan_corpus((source, target), settings, {}, HeldOutSources())
        found = held_out_pairs(source, target, pair_filter.held_out, settings)
        assert len(found) == count
        assert any(one == other for one, other in found) != drop_copies


def test_no_pair_with_an_empty_side_is_held_out_or_trained_on(tmp_path):
    source, target = tmp_path / "s", tmp_path / "t"
    source.write_text("".join(f"line {number // 2}\n" for number in range(200)) + " \n")
    target.write_text("".join(f"Zeile {number}\n" if number % 2 else " \n" for number in range(201)))
    _, pair_filter = scan_corpus((source, target), DataSettings(), {}, HeldOutSources())
    found = held_out_pairs(source, target, pair_filter.held_out, DataSettings())
    kept = list(sample_pairs(source, target, pair_filter, 201, 1000))
    assert len(found) == 4
    assert len(found) + len(kept) == 100
    assert all(side.strip() for pair in (*found, *kept) for side in pair)


LINES = st.lists(st.integers(1, 6).map(lambda count: " ".join(["a"] * count)), min_size=1, max_size=6)


@given(st.data(), LINES, st.integers(0, 7))
def test_held_out_pairs_that_fit_have_at_most_the_longest_number_of_tokens(data, sources, longest):
    targets = data.draw(st.permutations(sources))
    pairs, settings = list(zip(sources, targets, strict=True)), DataSettings(longest=longest)
    fitting = [pair for pair in pairs if not longest or max(map(count_words, pair)) <= longest]
    if fitting:
        assert fitting_pairs(pairs, settings, (WORDS, WORDS)) == fitting
    else:
        with pytest.raises(DragomanError, match=f"All validation pairs, .* have more than {longest} tokens"):
            fitting_pairs(pairs, settings, (WORDS, WORDS))


@pytest.mark.long
def test_ids_of_a_large_vocabulary_are_those_of_the_lines(tmp_path):
    """Those of a vocabulary with more than 2¹⁶ tokens need more than two bytes."""
    words = [f"{number:x}" for number in range(2**16)]
    path = tmp_path / "text"
    path.write_text("".join(f"{' '.join(words[start : start + 64])}\n" for start in range(0, 2**16, 64)))
    lines = path.read_text().splitlines()
    tokenizer = Tokenizer.train(lines, "word", TokenizerSettings(), 2**17)
    assert len(tokenizer) > 2**16
    tokenizer.save(tmp_path / "tokenizer.model")
    corpus = build(tmp_path / "corpus", (path, path), (tmp_path / "tokenizer.model",) * 2)
    assert [source.tolist() for source, _ in corpus] == tokenizer.encode(lines)


def test_the_tokenizer_is_trained_on_every_kth_pair(tmp_path, files):
    sampled = list(sample_pairs(*files, PairFilter(), 120, 50))
    assert len(sampled) == 40
    assert sampled[1][0] == files[0].read_text().splitlines()[3]


def test_a_corpus_without_pairs_is_refused_and_leaves_no_folder(tmp_path, files, models):
    with pytest.raises(DragomanError, match="No pair of .* is left for training: 120 pairs; 120 longer"):
        build(tmp_path / "corpus", files, models, longest=1)
    assert not list(tmp_path.glob("corpus*"))


def test_a_damaged_corpus_is_refused_by_name(tmp_path, files, models):
    build(tmp_path / "corpus", files, models)
    offsets = tmp_path / "corpus" / "000000000.source.npy"
    offsets.write_bytes(offsets.read_bytes()[:-10])
    with pytest.raises(DragomanError, match="corpus is not a complete corpus"):
        Corpus(tmp_path / "corpus")
    with pytest.raises(DragomanError, match="absent is not a complete corpus"):
        Corpus(tmp_path / "absent")


def test_a_corpus_without_one_of_its_shards_is_refused(tmp_path, files, models):
    build(tmp_path / "corpus", files, models, shard_lines=50)
    (tmp_path / "corpus" / "000000050.source.npy").unlink()
    message = r"corpus is not a complete corpus \(it has 70 pairs, and corpus.json says 120\)"
    with pytest.raises(DragomanError, match=message):
        Corpus(tmp_path / "corpus")


def test_too_few_different_sources_to_hold_out_are_refused(tmp_path):
    (tmp_path / "s").write_text("a\na\n")
    for candidates, names in (
        (HeldOutSources(), "valid_source and valid_target"),
        (HeldOutSources("{replay_valid}"), "replay_valid"),
    ):
        with pytest.raises(DragomanError, match="too few different sentences to hold") as error:
            scan_corpus((tmp_path / "s",) * 2, DataSettings(), {}, candidates)
        assert f"give {names}." in str(error.value)


def test_the_statistics_are_written_to_corpus_json(tmp_path, files, models):
    build(tmp_path / "corpus", files, models)
    assert json.loads((tmp_path / "corpus" / "corpus.json").read_text())["pairs"] == 120


@pytest.mark.parametrize(
    "changes",
    [
        {"weights": {"1": 1.0, "7": -0.5}},
        {"weights": {"first": 1.0}},
        {"weights": {"1": 0.0, "7": 0.0}},
        {"kept": 0},
        {"sampled_copies": 0},
    ],
)
def test_a_corpus_json_that_gives_no_shares_is_refused_by_what_is_wrong(tmp_path, files, models, changes):
    build(tmp_path / "corpus", files, models)
    path = tmp_path / "corpus" / "corpus.json"
    before = json.loads(path.read_text())
    path.write_text(json.dumps(before | {"weights": {"1": 0.0, "7": 2.5}}))
    assert Corpus(tmp_path / "corpus").statistics.weights == {"1": 0.0, "7": 2.5}
    path.write_text(json.dumps(before | changes))
    with pytest.raises(DragomanError, match=rf"corpus\.json: .*{next(iter(changes))}"):
        Corpus(tmp_path / "corpus")


@given(st.lists(st.sampled_from(["a", "a\r"]), min_size=1, max_size=5), st.booleans())
def test_as_many_carriage_returns_are_counted_as_are_removed(tmp_path_factory, lines, ended):
    path = tmp_path_factory.mktemp("crlf") / "s"
    path.write_bytes("\n".join([*lines, ""] if ended else lines).encode())
    statistics, _ = scan_corpus((path, path), DataSettings(), {}, None)
    assert statistics.crlf == 2 * sum(line.endswith("\r") for line in lines)
    assert statistics.pairs == len(lines)


def test_crlf_line_ends_are_removed_and_counted(tmp_path, files, models):
    windows = tuple(tmp_path / f"windows.{path.name}" for path in files)
    for path, copy in zip(files, windows, strict=True):
        copy.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    unix, crlf = build(tmp_path / "unix", files, models), build(tmp_path / "crlf", windows, models)
    assert (unix.statistics.crlf, crlf.statistics.crlf) == (0, 240)
    assert "240 lines with CRLF at the end; the carriage return is removed" in crlf.statistics.describe()
    assert not any("CRLF" in sentence for sentence in unix.statistics.describe())
    for pair in range(len(unix)):
        for ours, theirs in zip(unix[pair], crlf[pair], strict=True):
            assert ours.tolist() == theirs.tolist()
