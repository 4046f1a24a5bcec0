"""Which target tokens may translate a sentence."""

import json
import random
import resource
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.model.symbols import END, PAD, START, UNKNOWN
from dragoman.model.weights import save_tensors
from dragoman.native.settings import EngineSettings
from dragoman.search.settings import SearchSettings
from dragoman.search.shortlist import EM_ITERATIONS, Shortlist, best_translations
from dragoman.system.errors import DragomanError
from dragoman.system.files import file_hash
from dragoman.translation.token_ids import encode_sentences
from dragoman.translation.translator import Translator
from tests.test_translator import LINES, folder  # noqa: F401  a fixture

SIZES = (60, 70)


def pairs_of_a_dictionary(count, seed=1):
    """Sentences whose token n is translated by token n + 10, in another order, and by a second token half as
    often.
    """
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        source = [draw.randrange(4, 50) for _ in range(draw.randrange(1, 9))]
        target = [token + 10 if draw.random() < 0.67 else token + 11 for token in source]
        draw.shuffle(target)
        found.append((source, target))
    return found


def test_translations_are_found_in_parallel_text():
    found = best_translations(pairs_of_a_dictionary(3000), SIZES[1], 2)
    for token in range(4, 50):
        assert [
            target for (source, target), _ in sorted(found, key=lambda one: one[1]) if source == token
        ] == [token + 10, token + 11]


def model_1(pairs):
    """The probability of each target token given a source token, as Brown et al. (1993) write IBM Model 1."""
    links = {(s, t) for source, target in pairs for s in source for t in target}
    p = dict.fromkeys(links, 1.0)
    for _ in range(EM_ITERATIONS):
        counts = dict.fromkeys(links, 0.0)
        for source, target in pairs:
            for t in target:
                for s in source:
                    counts[s, t] += p[s, t] / sum(p[other, t] for other in source)
        totals = {s: sum(counts[link] for link in links if link[0] == s) for s, _ in links}
        p = {link: count / totals[link[0]] for link, count in counts.items()}
    return p


SENTENCE = st.lists(st.integers(4, 8), max_size=5)


@settings(max_examples=40)
@given(st.lists(st.tuples(SENTENCE, SENTENCE), max_size=6), st.integers(1, 4))
def test_the_best_translations_are_those_of_model_1(pairs, most):
    p, found = model_1(pairs), {}
    for (source, target), rank in best_translations(pairs, 10, most):
        found[source, rank] = p[source, target]
    for token in {source for source, _ in p}:
        best = sorted((each for (source, _), each in p.items() if source == token), reverse=True)[:most]
        assert [found.pop((token, rank)) for rank in range(len(best))] == pytest.approx(best)
    assert not found


def test_a_sentence_has_the_translations_of_its_tokens_and_the_frequent_ones():
    pairs = [*pairs_of_a_dictionary(2000), *[([4], [69])] * 1000]
    learnt = Shortlist.learn(pairs, SIZES, most=1, always=1)
    assert learnt.always.tolist() == [UNKNOWN, END, 69]
    assert learnt.allowed([20, 31, 20, END]).tolist() == [UNKNOWN, END, 30, 41, 69]
    assert learnt.allowed([59]).tolist() == [UNKNOWN, END, 69]
    assert Shortlist.learn([], SIZES, 3, 5).allowed([20, END]).tolist() == [UNKNOWN, END]


@given(st.lists(st.tuples(SENTENCE, SENTENCE), max_size=6), st.integers(0, 6))
def test_the_most_frequent_target_tokens_are_always_allowed_beside_unknown_and_end(pairs, always):
    found = set(Shortlist.learn(pairs, (9, 9), most=2, always=always).always.tolist())
    counts = Counter(token for _, target in pairs for token in target)
    frequent = found - {UNKNOWN, END}
    assert {UNKNOWN, END} <= found
    assert len(frequent) == min(always, len(counts))
    assert all(counts[one] >= counts[other] for one in frequent for other in counts.keys() - frequent)


def test_what_is_saved_is_loaded(tmp_path):
    learnt = Shortlist.learn(pairs_of_a_dictionary(50), SIZES, most=3, always=4)
    learnt.save(tmp_path / "list")
    loaded = Shortlist.load(tmp_path / "list", SIZES)
    for name in ("translations", "always"):
        assert np.array_equal(getattr(learnt, name), getattr(loaded, name))
    for sizes in ((59, 70), (60, learnt.highest)):
        with pytest.raises(
            DragomanError,
            match="was made for 60 source tokens and at least .* make one with this model's vocabularies",
        ):
            Shortlist.load(tmp_path / "list", sizes)
    (tmp_path / "list").write_bytes(b"no safetensors")
    with pytest.raises(DragomanError, match="list is no shortlist; make one with: dragoman shortlist"):
        Shortlist.load(tmp_path / "list", SIZES)
    right = {name: torch.from_numpy(getattr(learnt, name)) for name in ("translations", "always")}
    wrong = (
        *({"always": right["always"][right["always"] != token]} for token in (END, UNKNOWN)),
        {"always": right["always"] - 9},
        {"translations": right["always"].clone()},
    )
    for tensors in (
        {"weight": torch.zeros(2)},
        *(right | part for part in (*wrong, {"always": right["always"].float()})),
    ):
        save_tensors(tmp_path / "other", tensors)
        with pytest.raises(DragomanError, match="is no shortlist; make one with: dragoman shortlist RUN"):
            Shortlist.load(tmp_path / "other", SIZES)


@given(
    st.sampled_from(["translations", "always"]),
    st.sampled_from([PAD, START, -2, SIZES[1], 2**31 - 1]),
    st.integers(0, 200),
)
def test_a_list_with_a_token_that_no_translation_has_is_refused_wherever_it_stands(
    tmp_path_factory, name, token, place
):
    learnt = Shortlist.learn(pairs_of_a_dictionary(50), SIZES, most=3, always=8)
    arrays = {each: getattr(learnt, each).copy() for each in ("translations", "always")}
    arrays[name].flat[place % arrays[name].size] = token
    path = tmp_path_factory.mktemp("wrong") / "list"
    Shortlist(**arrays).save(path)
    with pytest.raises(DragomanError, match="is no shortlist|was made for 60 source tokens"):
        Shortlist.load(path, SIZES)


def test_a_full_disk_is_an_error_of_the_system(tmp_path):
    learnt = Shortlist.learn(pairs_of_a_dictionary(50), SIZES, most=3, always=4)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            learnt.save(tmp_path / "list")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_from_the_command_line(folder, tmp_path, command_line):  # noqa: F811
    files = [tmp_path / name for name in ("source", "target", "list")]
    for path in files[:2]:
        path.write_text("\n".join(LINES * 5) + "\n", "utf-8")
    asked = ["shortlist", folder, "--source", files[0], "--target", files[1], "--out", files[2]]
    status, _, said = command_line(*asked)
    assert (status, "has the translations of the tokens of 20 pairs" in said) == (0, True)
    assert command_line(*asked, "--most", 0)[0] == 2
    (long := tmp_path / "long").write_text("amber " * 300 + "\n")
    for path, messages in (
        (long, ["1 pair with more than 250 tokens in a side: left out.", "have no pair to learn from."]),
        (tmp_path / "both.tmx", ["both.tmx has both sides of a corpus, and text of one language is read"]),
    ):
        status, _, said = command_line("shortlist", folder, "-s", path, "-t", path, "-o", tmp_path / "x")
        assert (status, [text for text in messages if text not in said]) == (2, [])
    for verb in ("score", "align"):
        both = ("--source", files[0], "--target", tmp_path / "both.tmx")
        assert "both.tmx has both sides" in command_line(verb, folder, *both)[2]
    plain, listed = (Translator.load(folder, shortlist=path) for path in (None, files[2]))
    asked = SearchSettings(max_extra_tokens=4)
    sources = encode_sentences(plain.tokenizers.source, LINES)
    shortlist = Shortlist.load(files[2], (len(plain.tokenizers.source), len(plain.tokenizers.target)))
    for source, (best,) in zip(sources, listed.search(listed.prepare(LINES, asked)), strict=True):
        assert set(best.ids) <= set(shortlist.allowed(source).tolist())
    asked = ["translate", folder, "--input", files[0], "--output", tmp_path / "out", "--max-extra-tokens", 4]
    assert command_line(*asked, "--shortlist", files[2])[0] == 0
    assert json.loads((tmp_path / "out.json").read_text())["shortlist"] == file_hash(files[2])
    assert (
        command_line(*asked)[0] == 2
    )  # what was written with a list is not taken for what is written without
    (tmp_path / "empty").write_text("")
    files[0].rename(tmp_path / "list")  # a text is no shortlist, whatever the input is
    for path, message in (("list", "list is no shortlist; make one with"), ("none", "none is missing; make")):
        given = ["--input", tmp_path / "empty", "--shortlist", tmp_path / path]
        status, out, err = command_line("translate", folder, *given)
        assert (status, out) == (2, "")
        assert message in err
    with pytest.raises(
        DragomanError, match="A shortlist is for search in C.., which native = false turns off"
    ):
        EngineSettings(shortlist=files[2], native=False)


@pytest.fixture
def learnt(folder, tmp_path, command_line):  # noqa: F811
    """The list that `dragoman shortlist` learns from pairs, as bytes, and what it says."""

    def learn(pairs):
        for path, side in zip((tmp_path / "s", tmp_path / "t"), zip(*pairs, strict=True), strict=True):
            path.write_text("".join(f"{line}\n" for line in side), "utf-8")
        out = tmp_path / "learnt"
        asked = ("-s", tmp_path / "s", "-t", tmp_path / "t", "-o", out)
        status, _, said = command_line("shortlist", folder, *asked)
        written = out.read_bytes() if out.exists() else b""
        out.unlink(missing_ok=True)
        return status, written, said

    return learn


LONG = "amber " * 300


@pytest.mark.parametrize("long", [(LONG, LINES[0]), (LINES[0], LONG), (LONG, LONG)])
def test_a_pair_with_a_long_side_teaches_nothing(learnt, long):
    pairs = [(line, line) for line in LINES]
    status, alone, _ = learnt(pairs)
    assert (status, bool(alone)) == (0, True)
    for place in (0, 2, len(pairs)):
        status, found, said = learnt([*pairs[:place], long, *pairs[place:]])
        assert (status, found) == (0, alone)
        assert "1 pair with more than 250 tokens in a side: left out." in said


@pytest.mark.parametrize("pairs", [[("", "")], [("", LINES[0])], [(LINES[0], "")], [("", "a"), ("a", "")]])
def test_without_a_pair_that_has_two_sides_there_is_nothing_to_learn(learnt, pairs):
    status, written, said = learnt(pairs)
    assert (status, written, "have no pair to learn from." in said) == (2, b"", True)
