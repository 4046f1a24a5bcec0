"""`dragoman align`: which words of sentences and their translations belong together."""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.cli.languages import TargetLanguage, warn_of_files
from dragoman.cli.parsing import Arguments, Command, settings_from
from dragoman.cli.score import blocks_of_pairs
from dragoman.text.mixture import refuse_both_sides

if TYPE_CHECKING:
    from dragoman.translation.translator import Translator


@dataclass(frozen=True)
class Align:
    """Write the word alignment of each pair of lines as source-target pairs, counted from 0: 0-0 1-2 …"""

    run: Path
    """The run's folder, or the folder `model` in it."""
    source: Path
    """Sentences."""
    target: Path
    """Their translations: line n is that of source line n."""
    layer: int | None = None
    """The decoder layer whose attention is read, counted from 1. None is the last."""
    head: int | None = None
    """The head that is read, counted from 1. None is the one that a word alignment guided in training, or the
    mean of all."""
    into: TargetLanguage = field(default_factory=TargetLanguage)
    json: bool = False
    """Write one JSON object per line: the pair, its alignment, its tokens, and the attention weights."""


def align(arguments: Arguments) -> None:
    """Write word alignments."""
    settings = settings_from(Align, arguments)
    for path in (settings.source, settings.target):
        refuse_both_sides(path)
    from dragoman.translation.translator import Translator

    translator = Translator.load(settings.run).into(settings.into.code)
    warn_of_files(settings.run, translator.languages, [settings.source], [settings.target])
    for block in blocks_of_pairs(translator, settings.source, settings.target, "aligned"):
        for pair, links in zip(block, translator.align(block, settings.layer, settings.head), strict=True):
            if settings.json:
                line = attention_as_json(translator, settings, pair, links)
            else:
                line = " ".join(f"{source}-{target}" for source, target in links)
            sys.stdout.buffer.write(line.encode("utf-8", "replace") + b"\n")


def attention_as_json(
    translator: "Translator", settings: Align, pair: tuple[str, str], links: list[tuple[int, int]]
) -> str:
    """The alignment of a pair with its attention weights as a line of JSON."""
    from dragoman.search.attention_weights import alignment_head
    from dragoman.translation.alignment import select_head

    attention, guided = translator.attention(*pair), alignment_head(translator.torch_backend.model)
    weights = select_head(attention.cross[:, None], settings.layer, settings.head, guided)[0].tolist()
    tokens = {"source_tokens": attention.source, "target_tokens": attention.target}
    record = {"source": pair[0], "target": pair[1], "alignment": links, **tokens, "weights": weights}
    return json.dumps(record, ensure_ascii=False)


COMMAND = Command(
    "align",
    "Align the words of sentences and their translations.",
    align,
    Align,
    example="dragoman align runs/ende -s test.en -t test.de > test.align",
    arguments="RUN -s FILE -t FILE",
    groups={"text": ("run", "target_language", "source", "target"), "alignment": ("layer", "head", "json")},
    metavars={"run": "RUN", "target_language": "CODE"},
)
