"""`dragoman figure`: the paper's figures, and others that explain it, from a model of one's own."""

from dataclasses import dataclass, field, fields
from pathlib import Path

from dragoman.cli.console import say
from dragoman.cli.parsing import (
    Arguments,
    Command,
    option_name,
    refuse_missing_folder,
    refuse_replacing,
    settings_from,
)
from dragoman.inspection.record.kinds import Kind
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.system.files import atomic_write
from dragoman_paper.figures import catalogue
from dragoman_paper.figures.choice import Choice


@dataclass(frozen=True)
class FigureOptions:
    """Draw a figure of the paper, or one that explains it, from a model."""

    name: str | None = None
    """The name of the figure; --list shows all."""
    run: Path | None = None
    """The run's folder, or the folder `model` in it."""
    sentence: str | None = None
    """The sentence, or words for neighbours."""
    out: Path | None = None
    """The file, .svg or .png, or NAME.svg if none is given."""
    listed: bool = field(default=False, metadata=option_name("list"))
    """Print the figures: what each shows, its section of the paper, and what it needs."""
    layer: int | None = None
    """The layer, counted from 1; without it the last but one, as in the paper's figures (5 of 6)."""
    kind: Kind | None = None
    """The kind of attention in figures 3 to 5 and head-comparison: of the encoder, as in the paper, of the
    decoder, or between them (cross)."""
    heads: tuple[int, ...] | None = None
    """The heads, counted from 1; figures that compare heads need two."""
    query: str | None = None
    """The token whose attention is shown: its text, or its number, counted from 1."""
    step: int | None = None
    """The step of decoding of the figure softmax, counted from 1."""
    search: SearchSettings = field(default_factory=SearchSettings)


def figure(arguments: Arguments) -> None:
    """Draw a figure, or list them."""
    settings = settings_from(FigureOptions, arguments)
    if settings.listed:
        print(catalogue.listing())
        return
    if settings.name is None:
        raise DragomanError("Which figure? Give its name; dragoman figure --list shows all.")
    chosen = catalogue.figure(settings.name)
    out = settings.out or Path(f"{chosen.name}.svg")
    if out.suffix.lower() not in (".svg", ".png"):
        raise DragomanError(f"--out is {out}; its name has to end with .svg or .png.")
    refuse_missing_folder("--out", out)
    refuse_replacing("--out", out)
    parts, option_names = (
        ("layer", "kind", "heads", "query", "step"),
        {setting.name for setting in fields(FigureOptions)},
    )
    catalogue.refuse_missing(
        chosen,
        settings.run,
        settings.sentence,
        [name for name in parts if name in arguments],
        [name for name in arguments if name not in option_names],
    )
    settings.search.refuse_contradictions(arguments)
    from dragoman.inspection.views.png import to_png
    from dragoman_paper.figures.draw import draw_figure

    choice = Choice(
        settings.layer, settings.heads or (), settings.query, settings.step, settings.kind or "encoder"
    )
    svg = draw_figure(chosen, settings.run, settings.sentence, choice, settings.search)
    content = to_png(svg) if out.suffix.lower() == ".png" else svg.encode("utf-8", "replace")
    with atomic_write(out) as path:
        path.write_bytes(content)
    say(f"{out} shows {chosen.shows} ({chosen.of}).")


COMMAND = Command(
    "figure",
    "Draw the paper's figures, and others that explain it, from a model.",
    figure,
    FigureOptions,
    example='dragoman figure figure-3 runs/ende "A man rides a bike." --out figure-3.svg',
    arguments="NAME [RUN] [SENTENCE]",
    positional=("name", "run", "sentence"),
    groups={
        "figure": ("name", "run", "sentence"),
        "output": ("out", "listed"),
        "part of the model": ("layer", "kind", "heads", "query", "step"),
        "search": ("beam_size", "length_penalty", "prefix"),
    },
    metavars={"name": "NAME", "run": "RUN", "sentence": "SENTENCE"},
    notes=f"figures (--list says what each shows):\n{catalogue.names()}\n",
)
