"""`dragoman score`: the log-probability of given translations."""

import dataclasses
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.cli.console import say
from dragoman.cli.languages import TargetLanguage, warn_of_files
from dragoman.cli.parsing import Arguments, Command, settings_from
from dragoman.cli.translate import load
from dragoman.model.settings import Precision
from dragoman.native.settings import EngineSettings
from dragoman.system.wording import counted
from dragoman.text.mixture import refuse_both_sides

if TYPE_CHECKING:
    from dragoman.translation.translator import Translator


@dataclass(frozen=True)
class Score:
    """Write the log-probability of each given translation in nats, by forced decoding, END included."""

    run: Path
    """The run's folder, or the folder `model` in it."""
    source: Path
    """Sentences."""
    target: Path
    """Their translations: line n is that of source line n."""
    ensemble: tuple[Path, ...] = ()
    """Other runs with the same vocabulary, whose probabilities are averaged with this one's."""
    precision: Precision = "float32"
    """Number type of matrix products, as for `translate`."""
    tokens: bool = False
    """The translations are given as tokens separated by spaces, as in `translate --json`."""
    into: TargetLanguage = field(default_factory=TargetLanguage)
    json: bool = False
    """Write one JSON object per line, with the log-probability of each token."""


def score(arguments: Arguments) -> None:
    """Score given translations."""
    settings = settings_from(Score, arguments)
    for path in (settings.source, settings.target):
        refuse_both_sides(path)
    engine = EngineSettings(settings.precision)
    translator = load((settings.run, *settings.ensemble), engine, settings.into.code)
    from dragoman.model.loss import perplexity

    total, tokens = 0.0, 0
    warn_of_files(settings.run, translator.languages, [settings.source], [settings.target])
    for block in blocks_of_pairs(translator, settings.source, settings.target, "scored"):
        forced = [
            (source, list(filter(None, target.split(" "))) if settings.tokens else target)
            for source, target in block
        ]
        for (source, target), likelihood in zip(block, translator.score(forced), strict=True):
            total, tokens = total + likelihood.log_probability, tokens + len(likelihood.tokens)
            line = f"{likelihood.log_probability:.4f}"
            if settings.json:
                about = {"log_probability": likelihood.log_probability, "perplexity": likelihood.perplexity}
                record = {"source": source, "target": target, **about, **dataclasses.asdict(likelihood)}
                line = json.dumps(record, ensure_ascii=False)
            sys.stdout.buffer.write(line.encode("utf-8", "replace") + b"\n")
        sys.stdout.buffer.flush()
    nll = -total / tokens
    losses = f"negative log-likelihood {nll:.4f} per token, perplexity {perplexity(nll):.4g}"
    say(f"{counted(tokens, 'token')}; {losses}.")


def blocks_of_pairs(
    translator: "Translator", source: Path, target: Path, done: str
) -> Iterator[list[tuple[str, str]]]:
    """The pairs of two files in blocks. At the end it reports long sources, which were `done` whole."""
    from dragoman.text.lines import read_pairs
    from dragoman.translation.files import BLOCK
    from dragoman.translation.segmentation import long_message

    pairs = read_pairs(source, target)
    count = 0
    while block := list(islice(pairs, BLOCK)):
        count += translator.count_long_sentences([sentence for sentence, _ in block])
        yield block
    if count:
        say(long_message(count, translator.longest_trained, f"{done} whole"))


COMMAND = Command(
    "score",
    "Write the log-probability of given translations.",
    score,
    Score,
    example="dragoman score runs/ende -s test.en -t test.de > test.scores",
    arguments="RUN -s FILE -t FILE",
    groups={
        "text": ("run", "target_language", "source", "target", "tokens"),
        "model": ("ensemble", "precision"),
        "output": ("json",),
    },
    metavars={"run": "RUN", "target_language": "CODE", "ensemble": "RUN"},
)
