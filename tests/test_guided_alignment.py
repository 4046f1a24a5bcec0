"""The benchmark of guided alignment: the statistical aligner, planted tags, and a run at toy size."""

import gzip
import json
import random
import runpy
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
WORDS = {"red": "rot", "dog": "Hund", "house": "Haus", "tree": "Baum", "two": "zwei", "bus": "Bus"}


@pytest.fixture
def benchmark(monkeypatch):
    """The names of the benchmark."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return runpy.run_path(str(BENCHMARKS / "guided_alignment.py"))


def pairs(count, seed):
    """Sentences of known words, their translations in another order, and the alignments."""
    draws = random.Random(seed)
    found = []
    for _ in range(count):
        words = draws.sample(sorted(WORDS), 4)
        order = [1, 0, 2, 3]
        target = [WORDS[words[place]] for place in order]
        links = {(read, place) for place, read in enumerate(order)}
        found.append((" ".join(words) + ".", " ".join(target) + ".", links))
    return found


def test_the_aligner_finds_planted_links(benchmark):
    sources, targets, links = map(list, zip(*pairs(200, 1), strict=True))
    grown, both = benchmark["align"](sources, targets, 5)
    assert grown == links
    assert both == links


def test_a_planted_tag_is_right_around_the_translation_alone(benchmark):
    (planted,) = benchmark["planted_words"](["A dog, a cow and a cow."])
    assert benchmark["with_tag"](planted, "A dog, a cow and a cow.") == "A <b>dog</b>, a cow and a cow."
    assert benchmark["places"](planted, "Ein Hund, eine Kuh") == [1]
    assert benchmark["lands"](planted, "Ein <b>Hund</b>, eine Kuh") == (True, True)
    assert benchmark["lands"](planted, "<b>Ein Hund</b>, eine Kuh") == (False, True)
    assert benchmark["lands"](planted, "Ein Hund, <b>eine</b> Kuh") == (False, False)
    assert benchmark["lands"](planted, "Ein Hund, eine Kuh <b></b>") == (False, False)


def test_a_tag_around_two_words_is_right_around_both(benchmark):
    line = "Two black dogs, red"
    phrases = benchmark["planted_phrases"]([line])
    assert [benchmark["with_tag"](each, line) for each in phrases] == [
        "<b>Two black</b> dogs, red",
        "Two <b>black dogs</b>, red",
    ]
    assert benchmark["lands"](phrases[1], "Zwei <b>schwarze Hunde</b>, rot") == (True, True)
    assert benchmark["lands"](phrases[1], "Zwei <b>schwarze</b> Hunde, rot") == (False, False)
    assert benchmark["lands"](phrases[1], "<b>Zwei schwarze Hunde</b>, rot") == (False, True)


@pytest.mark.long
def test_the_benchmark_trains_measures_and_resumes(benchmark, monkeypatch, tmp_path, capsys):
    for name, count, seed in (("train", 80, 1), ("valid", 12, 2), ("test2016", 12, 3)):
        for side, lines in zip(("en", "de"), list(zip(*pairs(count, seed), strict=True))[:2], strict=True):
            text = "".join(f"{line}\n" for line in lines).encode()
            (tmp_path / f"{name}.{side}.gz").write_bytes(gzip.compress(text))
    command = [str(tmp_path), "--seeds", "1", "--guide", "1:0.1", "--updates", "4", "--save-every", "2"]
    command += ["--precision", "float32", "--runs", str(tmp_path / "runs"), "--results", str(tmp_path)]
    for attempt in range(2):
        monkeypatch.setattr("sys.argv", ["guided_alignment.py", *command])
        benchmark["main"]()
        assert ("update 4" in capsys.readouterr().out) == (attempt == 0)
    first, second = (
        json.loads(path.read_text()) for path in sorted(tmp_path.glob("guided-alignment-*.json"))
    )
    assert [row["guide"] for row in first["rows"]] == ["ordinary", "1:0.1"]
    assert first["rows"] == second["rows"]
    assert first["rows"][0]["valid"]["product"]["links_ahead"]["points"] == 0
