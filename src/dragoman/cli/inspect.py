"""`dragoman inspect`: what a model computes for a sentence, as one HTML file, a picture, or data."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from dragoman.cli.console import say
from dragoman.cli.parsing import Command, Given, settings_from
from dragoman.inspection.views import Kind, Picture
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.system.files import atomic_write

if TYPE_CHECKING:
    from dragoman.inspection.inspection import Inspection
    from dragoman.translation.translator import Translator

VIEWS = (*get_args(Picture), "heads")
WITH_WINDOW = ("encoder", "decoder", "cross", "numbers", "stream", "lens")
ENDINGS = (".html", ".json", ".svg", ".png")


@dataclass(frozen=True)
class Inspect:
    """Show what a model computes while it translates a sentence."""

    run: Path
    """The run's folder, or the folder `model` in it."""
    sentence: str
    """The sentence."""
    out: Path = Path("inspection.html")
    """The file: .html has all views, .json the data, .svg and .png one picture."""
    show: Picture | Literal["heads"] | None = None
    """The picture: the beam search, the attention of encoder, decoder, or between them (cross), one query of
    a head in numbers, what each head contributes (heads), masks, positions, their dot products by distance,
    the residual stream, the logit lens, the model."""
    layer: int | None = None
    """The layer of an attention picture, counted from 1; without it all layers and heads are drawn. Of .html:
    the layer whose numbers it holds if it has no room for all, by default the last."""
    head: int | None = None
    """The head, counted from 1; without it the mean of all, and in numbers the first."""
    lines: bool = False
    """Draw attention as lines between tokens, as the paper's Figures 3 to 5."""
    words: bool = False
    """Draw attention between words: weights to the tokens of a word are summed, its queries averaged."""
    window: tuple[int, ...] | None = None
    """The first and the last token that are drawn of a long sentence, counted from 1; by default 1 to 60."""
    kind: Kind | None = None
    """The attention whose numbers are drawn, by default between encoder and decoder (cross)."""
    query: int | None = None
    """The query whose numbers are drawn, counted from 1, by default the first."""
    search: SearchSettings = field(default_factory=SearchSettings)


def inspect(given: Given) -> None:
    """Translate a sentence, and write what the model computed."""
    asked = settings_from(Inspect, given)
    asked.search.refuse_contradictions(given)
    refuse_contradictions(asked)
    from dragoman.inspection.inspect import inspect as inspect_sentence
    from dragoman.translation.segmentation import long_message
    from dragoman.translation.translator import Translator

    translator = Translator.load(asked.run, native=False)
    if count := translator.count_long_sentences([asked.sentence], asked.search):
        say(long_message(count, translator.longest_trained, "inspected whole; translate splits it"))
    inspection = inspect_sentence(translator, asked.sentence, asked.search)
    content = written(translator, inspection, asked)
    with atomic_write(asked.out) as path:
        path.write_bytes(content)
    say(f"{inspection.translation}\n{asked.out} shows how it was found.")


def refuse_contradictions(asked: Inspect) -> None:
    """Raise `DragomanError` for options that do not fit each other."""
    ending = asked.out.suffix.lower()
    if ending not in ENDINGS:
        raise DragomanError(
            f"--out is {asked.out}; its name has to end with {', '.join(ENDINGS[:-1])} or .png."
        )
    if ending in (".svg", ".png") and asked.show is None:
        raise DragomanError(f"A picture shows one view: give --show {', '.join(VIEWS)}.")
    if ending in (".html", ".json") and asked.show is not None:
        raise DragomanError(f"--show is for pictures, and {asked.out} holds all views; leave it out.")
    attention, numbers = asked.show in ("encoder", "decoder", "cross"), asked.show == "numbers"
    chosen = asked.layer is not None or asked.head is not None
    if (asked.lines and not attention) or (chosen and not (attention or numbers or ending == ".html")):
        raise DragomanError(
            "--layer, --head and --lines are for --show encoder, decoder or cross; --layer and --head are "
            "also for --show numbers and for .html."
        )
    if attention and asked.layer is None and (asked.head is not None or asked.lines):
        raise DragomanError("--head and --lines need a --layer.")
    if asked.words and not attention:
        raise DragomanError("--words is for --show encoder, decoder or cross.")
    if (asked.kind is not None or asked.query is not None) and not numbers:
        raise DragomanError("--kind and --query are for --show numbers.")
    if asked.window and asked.show not in WITH_WINDOW:
        raise DragomanError(f"--window is for --show {', '.join(WITH_WINDOW[:-1])} or {WITH_WINDOW[-1]}.")
    if asked.window and len(asked.window) != 2:
        raise DragomanError("--window has two numbers, the first and the last token: --window 61 120.")


def written(translator: "Translator", inspection: "Inspection", asked: Inspect) -> bytes:
    """The content of the file."""
    ending = asked.out.suffix.lower()
    if ending == ".html":
        return inspection.to_html(asked.layer, asked.head).encode("utf-8", "replace")
    if ending == ".json":
        from dragoman.inspection.schema import to_json

        return json.dumps(to_json(inspection), ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    svg = picture(translator, inspection, asked)
    if ending == ".svg":
        return svg.encode("utf-8", "replace")
    try:
        import vl_convert
    except ImportError as error:
        raise DragomanError("PNG needs vl-convert: pip install 'dragoman[plot]', or write .svg.") from error
    from dragoman.inspection.drawing import in_light_colours

    return vl_convert.svg_to_png(in_light_colours(svg), scale=2)


def picture(translator: "Translator", inspection: "Inspection", asked: Inspect) -> str:
    """The picture that is asked for, as SVG."""
    if asked.show == "heads":
        from dragoman.inspection.ablation import head_effects
        from dragoman.inspection.heads import head_effects_picture

        effects = head_effects(translator, inspection.sentence, inspection.target)
        return head_effects_picture(inspection, effects)
    assert asked.show is not None
    window = (asked.window[0], asked.window[1]) if asked.window else None
    return inspection.svg(
        asked.show,
        asked.layer,
        asked.head,
        asked.lines,
        asked.words,
        window,
        asked.kind or "cross",
        1 if asked.query is None else asked.query,
    )


COMMAND = Command(
    "inspect",
    "Show what a model computes for a sentence: search, attention, and all else.",
    inspect,
    Inspect,
    example='dragoman inspect runs/ende "A man rides a bike." --out report.html',
    arguments="RUN SENTENCE",
    positional=("run", "sentence"),
    groups={
        "sentence": ("run", "sentence"),
        "output": ("out", "show", "layer", "head", "lines", "words", "window", "kind", "query"),
        "search": ("beam_size", "length_penalty", "prefix"),
    },
    metavars={"run": "RUN", "sentence": "SENTENCE"},
)
