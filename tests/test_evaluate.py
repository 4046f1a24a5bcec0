"""`dragoman evaluate` prints sacreBLEU's own numbers of the written files, p-values included."""

import random
import re
import subprocess
import sys

import pytest
import sacrebleu

from dragoman import Translator
from tests.conftest import MAX_SECONDS
from tests.test_contract import LINES, save_random_model


def call(*command, folder):
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """A folder with the files of an evaluation, and what the command has printed."""
    folder, chance = tmp_path_factory.mktemp("evaluate"), random.Random(3)
    save_random_model(folder, "word")
    outputs = Translator.load(folder).translate(LINES, max_extra_tokens=4)
    words = sorted({word for output in outputs for word in output.split()})

    def changed(share):
        """The outputs with some words replaced and some left out: shorter than they were."""
        noisy = [[word for word in output.split() if chance.random() > share / 2] for output in outputs]
        lines = [
            [chance.choice(words) if chance.random() < share else word for word in line] for line in noisy
        ]
        return "".join(" ".join(line) + "\n" for line in lines)

    (folder / "source").write_text("".join(f"{line}\n" for line in LINES))
    (folder / "references").write_text(changed(0.3))
    (folder / "baseline").write_text(changed(0.2))
    options = ["--hypotheses", "hypotheses", "--baseline", "baseline", "--max-extra-tokens", 4]
    files = ["--source", "source", "--target", "references"]
    printed = call("dragoman", "evaluate", folder, *files, *options, folder=folder)
    assert (folder / "hypotheses").read_text().splitlines() == outputs
    return folder, printed.splitlines()


def lines_of(folder, *names):
    return [(folder / name).read_text().splitlines() for name in names]


@pytest.mark.long
def test_scores_are_sacrebleus_of_the_written_files(evaluated):
    folder, printed = evaluated
    hypotheses, references = lines_of(folder, "hypotheses", "references")
    bleu = sacrebleu.corpus_bleu(hypotheses, [references], force=True).score
    chrf = sacrebleu.corpus_chrf(hypotheses, [references]).score
    assert printed[0].startswith(f"BLEU = {bleu:.2f} ")
    assert printed[1].startswith(f"chrF2 = {chrf:.2f} ")
    plus, ter = (
        sacrebleu.corpus_chrf(hypotheses, [references], word_order=2),
        sacrebleu.corpus_ter(hypotheses, [references]),
    )
    assert printed[2].startswith(f"chrF2++ = {plus.score:.2f} ")
    assert printed[3].startswith(f"TER = {ter.score:.2f} ")
    exchanged = sacrebleu.corpus_bleu(references, [hypotheses], force=True).score
    assert f"{exchanged:.2f}" != f"{bleu:.2f}"


@pytest.mark.long
def test_the_comparison_is_sacrebleus_of_the_written_files(evaluated):
    folder, printed = evaluated
    options = ["-m", "bleu", "chrf", "ter", "--paired-bs", "--width", "2", "-f", "text"]
    table = call("sacrebleu", "references", "-i", "baseline", "hypotheses", *options, folder=folder)
    scores = re.findall(
        r"([\d.]+) \([\d.]+ ±", table
    )  # the baseline's BLEU, chrF2 and TER, then the system's
    p_values = re.findall(r"\(p = ([\d.]+)\)", table)
    assert len(scores) == 6
    for line, name, baseline, system, p_value in zip(
        [*printed[4:6], printed[7]], ("BLEU", "chrF2", "TER"), scores[:3], scores[3:], p_values, strict=True
    ):
        assert line.startswith(
            f"{name} = {system}, baseline {baseline}: {float(system) - float(baseline):+.2f}"[:-1]
        )
        assert f"(p = {p_value})" in line
        assert system != baseline
