"""`dragoman inspect`: what a model computes for a sentence, as one HTML file, a picture, or data."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from dragoman.cli.console import say
from dragoman.cli.languages import TargetLanguage
from dragoman.cli.parsing import Arguments, Command, refuse_missing_folder, refuse_replacing, settings_from
from dragoman.inspection.analyse.methods import DEFAULT_METHODS, Method
from dragoman.inspection.record.kinds import Kind
from dragoman.inspection.views.pictures import Picture
from dragoman.search.contradictions import refuse_truncation
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.files import atomic_write
from dragoman.system.options import Excludes, Needs, OnlyWith, check_options, option
from dragoman.system.wording import counted

if TYPE_CHECKING:
    from dragoman.inspection.analyse.changes import Change
    from dragoman.inspection.inspection import Inspection
    from dragoman.translation.translator import Translator

Computed = Literal["heads", "attribution", "value-zeroing"]
"""Views that an inspection has only if they are asked for."""
VIEWS = (*get_args(Picture), *get_args(Computed))
WITH_WINDOW = tuple(view for view in get_args(Picture) if view not in ("statistics", "model"))
ENDINGS = (".html", ".json", ".svg", ".png")
OF_ATTENTION = OnlyWith("show", ("encoder", "decoder", "cross"))
OF_ATTRIBUTION = OnlyWith("show", ("attribution",))


@dataclass(frozen=True)
class Inspect:
    """Show what a model computes while it translates a sentence."""

    run: Path
    """The run's folder, or the folder `model` in it."""
    sentence: str | None = None
    """The sentence."""
    file: Path | None = option(
        None,
        OnlyWith("show", ("heads", "neurons")),
        Excludes(("what_if", "window"), "a view of many sentences shows none of them"),
    )
    """With --show heads or neurons: a file of sentences, one per line.
    Effects of heads are means over its lines, with confidence intervals. The most active neurons of each
    layer or of a --layer, or one --neuron, are shown with the tokens at which they are most active."""
    out: Path = Path("inspection.html")
    """The file: .html has the views, .json the data, .svg and .png one picture."""
    show: Picture | Computed | None = None
    """The picture: the beam search, the attention of encoder, decoder, or between them (cross), the word
    alignment, one query of a head in numbers, the statistics of all heads, what each head (heads) and each
    source token (attribution) contributes, masks, positions, their dot products by distance, the residual
    stream, the logit lens, the hidden units of the feed-forward sub-layers (neurons), the model, how much a
    layer mixes each token into the others (value-zeroing). The views heads, attribution and value-zeroing can
    also be added to .html and .json."""
    layer: int | None = None
    """The layer of a picture of attention or neurons, counted from 1; without it all layers are drawn. For
    value-zeroing the default is the last layer. For attribution it is an encoder layer, to whose output the
    numbers are attributed. For .html it is the layer whose numbers the file contains if there is no room for
    all; the default is the last."""
    head: int | None = None
    """The head, counted from 1; the default is the mean of all heads, or the first one for numbers."""
    lines: bool = option(False, OF_ATTENTION, Needs("layer"))
    """Draw attention as lines between tokens, as in the paper's Figures 3 to 5."""
    words: bool = option(False, OF_ATTENTION)
    """Draw attention between words: weights are added over a word's keys and averaged over its queries."""
    window: tuple[int, ...] | None = option(None, OnlyWith("show", WITH_WINDOW))
    """The first and the last token (step, position) of a long sentence to draw, counted from 1; by default 1
    to 60."""
    kind: Kind | None = None
    """The attention whose numbers, statistics or value-zeroing are drawn, by default cross, between encoder
    and decoder; for neurons, the side, by default both."""
    query: int | None = option(None, OnlyWith("show", ("numbers",)))
    """The query whose numbers are drawn, counted from 1, by default the first."""
    neuron: int | None = option(None, OnlyWith("show", ("neurons",)), Needs("layer"))
    """The neuron of the layer to draw, counted from 1; without it the most active ones are drawn."""
    method: Method | None = option(None, OF_ATTRIBUTION)
    """How contributions of tokens are computed for --show attribution, by default integrated-gradients. A
    .html or .json file has the first four methods and this one."""
    target_tokens: bool = option(False, OF_ATTRIBUTION)
    """With --show attribution: also attribute to the target tokens before each one."""
    contrast: bool = option(False, OF_ATTRIBUTION)
    """With --show attribution: why this token and not another. Attribute the log-probability of each target
    token minus that of the likeliest other token after the same tokens."""
    what_if: tuple[str, ...] = ()
    """Cases for the views: the same sentence with changes, such as "cross.2.3=off beam_size=1" for one head
    switched off in a greedy search. With --show beam, one case: the picture has both trees.
    docs/inspection.md lists all changes."""
    search: SearchSettings = field(default_factory=SearchSettings)
    into: TargetLanguage = field(default_factory=TargetLanguage)

    def __post_init__(self) -> None:
        check_options(self)


def inspect(arguments: Arguments) -> None:
    """Translate a sentence, and write what the model computed."""
    settings = settings_from(Inspect, arguments)
    settings.search.refuse_contradictions(arguments)
    refuse_contradictions(settings)
    cases = parse_cases(settings.what_if)
    if settings.file is not None:
        if settings.show == "neurons":
            inspect_neurons(settings, settings.file)
        else:
            inspect_heads(settings, settings.file)
        return
    from dragoman.inspection.inspect import inspect as inspect_sentence
    from dragoman.training.curves import training_of
    from dragoman.translation.segmentation import long_message
    from dragoman.translation.translator import Translator

    translator = Translator.load(settings.run, native=False).into(settings.into.code)
    assert settings.sentence is not None
    if count := translator.count_long_sentences([settings.sentence], settings.search):
        say(long_message(count, translator.longest_trained, "inspected whole; translate splits it"))
    inspection = inspect_sentence(translator, settings.sentence, settings.search)
    inspection = replace(inspection, training=training_of(settings.run))
    if settings.out.suffix.lower() == ".html":
        from dragoman.inspection.contents import contents

        contents(
            inspection, None, settings.layer, settings.head
        )  # raises before minutes of other computations
    inspection = with_cases(translator, inspection, cases)
    if settings.show == "heads":
        from dragoman.inspection.analyse.ablation import head_effects

        effects = head_effects(translator, inspection.sentence, inspection.target)
        inspection = replace(inspection, head_effects=effects)
    if settings.show == "attribution":
        from dragoman.inspection.analyse.attribution import attribute

        contributions = attribute(
            translator,
            inspection.sentence,
            inspection.target,
            with_prefix=settings.target_tokens,
            contrast=settings.contrast,
            methods=methods_of(settings),
            layer=None if settings.out.suffix.lower() == ".html" else settings.layer,
        )
        inspection = replace(inspection, attribution=contributions)
    if settings.show == "value-zeroing":
        from dragoman.inspection.analyse.value_zeroing import value_zeroing

        zeroing = value_zeroing(translator, inspection.sentence, inspection.target)
        inspection = replace(inspection, value_zeroing=zeroing)
    if settings.out.suffix.lower() == ".html":
        page = inspection.to_html(settings.layer, settings.head)
        with atomic_write(settings.out) as path:
            path.write_bytes(page.encode("utf-8", "replace"))
    else:
        from dragoman.inspection.schema import to_json

        write(settings.out, lambda: to_json(inspection), lambda: picture(inspection, settings))
    say(f"{inspection.translation}\nWritten: {settings.out}")


def refuse_contradictions(settings: Inspect) -> None:
    """Raise `DragomanError` for options that do not fit each other."""
    ending = settings.out.suffix.lower()
    if ending not in ENDINGS:
        raise DragomanError(
            f"--out is {settings.out}; its name has to end with {', '.join(ENDINGS[:-1])} or .png."
        )
    refuse_missing_folder("--out", settings.out)
    refuse_replacing("--out", settings.out, *filter(None, (settings.file,)))
    if (settings.sentence is None) == (settings.file is None):
        raise DragomanError(
            "Give a sentence after the run, or with --show heads or neurons a --file of sentences, not both."
        )
    if (
        settings.what_if
        and ending in (".svg", ".png")
        and (settings.show != "beam" or len(settings.what_if) > 1)
    ):
        raise DragomanError(
            "A picture of --what-if shows the trees of one case: give --show beam and one case, or for --out "
            "a name that ends with .html or .json."
        )
    if settings.file is not None:
        if ending == ".html":
            raise OptionError(
                "{out} is {path}; with {file} its name has to end with .json, .svg or .png.",
                path=settings.out,
            )
        refuse_options_of_other_views(settings, ending)
        return
    if ending in (".svg", ".png") and settings.show is None:
        raise DragomanError(f"A picture shows one view: give --show {', '.join(VIEWS)}.")
    if ending in (".html", ".json") and settings.show not in (None, *get_args(Computed)):
        raise DragomanError(
            f"--show is for pictures, and {settings.out} holds the other views; leave it out. "
            "--show heads adds the effects of all heads, --show attribution the contributions of tokens, "
            "--show value-zeroing how much a layer mixes each token into the others."
        )
    if settings.show in get_args(Computed):
        refuse_truncation(settings.search.truncate, f"--show {settings.show}")
    refuse_options_of_other_views(settings, ending)


def refuse_options_of_other_views(settings: Inspect, ending: str) -> None:
    """Raise `DragomanError` for options that do not belong to the view."""
    is_attention, is_neurons = settings.show in ("encoder", "decoder", "cross"), settings.show == "neurons"
    has_heads = is_attention or settings.show == "numbers" or ending == ".html"
    is_zeroing = settings.show == "value-zeroing" and ending in (".svg", ".png")
    has_layers = is_neurons or is_zeroing or (settings.show == "attribution" and ending != ".html")
    if (settings.head is not None and not has_heads) or (
        settings.layer is not None and not (has_heads or has_layers)
    ):
        raise OptionError(
            "{layer} and {head} are for {show} encoder, decoder, cross or numbers and for .html, and {layer} "
            "is also for {show} neurons, attribution and pictures of value-zeroing."
        )
    if is_attention and settings.layer is None and settings.head is not None:
        raise OptionError("{head} needs {layer}; give both, or leave {head} out.")
    if settings.kind is not None and not (
        is_zeroing or settings.show in ("numbers", "statistics", "neurons")
    ):
        raise OptionError("{kind} is for {show} numbers, statistics, neurons, and pictures of value-zeroing.")
    if settings.window and len(settings.window) != 2:
        raise OptionError("{window} has two numbers, the first and the last token: {window} 61 120.")


def methods_of(settings: Inspect) -> tuple[Method, ...]:
    """The methods of attribution: in a picture one, in a file of all views the default ones and this one."""
    if settings.out.suffix.lower() in (".svg", ".png"):
        return (settings.method or DEFAULT_METHODS[0],)
    return (*dict.fromkeys([*DEFAULT_METHODS, settings.method or DEFAULT_METHODS[0]]),)


def parse_cases(texts: Sequence[str]) -> "list[list[Change]]":
    """The changes of each case; spaces separate them. Raises `DragomanError` as `parse_changes`."""
    from dragoman.inspection.analyse.changes import parse_changes

    if not all(map(str.strip, texts)):
        raise DragomanError("--what-if is empty; give changes such as cross.2.3=off, or leave it out.")
    return [parse_changes([change for change in text.split(" ") if change]) for text in texts]


def with_cases(
    translator: "Translator", inspection: "Inspection", cases: "Sequence[Sequence[Change]]"
) -> "Inspection":
    """The inspection with these cases recorded."""
    from dragoman.inspection.what_if import WhatIf, inspect_changed

    sentence, search = inspection.sentence, inspection.search
    what_ifs = [
        WhatIf(tuple(changes), inspection, inspect_changed(translator, sentence, changes, search))
        for changes in cases
    ]
    return replace(inspection, what_ifs=tuple(what_ifs))


def picture(inspection: "Inspection", settings: Inspect) -> str:
    """The picture that is asked for, as SVG."""
    if inspection.head_effects is not None:
        from dragoman.inspection.views.heads import head_effects_picture

        return head_effects_picture(inspection, inspection.head_effects)
    if inspection.attribution is not None:
        from dragoman.inspection.views.attribution import attribution_picture

        return attribution_picture(inspection, methods_of(settings)[0])
    if inspection.value_zeroing is not None:
        from dragoman.inspection.views.value_zeroing import value_zeroing_picture

        kind = settings.kind or "cross"
        return value_zeroing_picture(inspection, kind, settings.layer)
    assert settings.show is not None
    assert settings.show not in get_args(Computed)
    show = cast(Picture, settings.show)
    window = (settings.window[0], settings.window[1]) if settings.window else None
    if inspection.what_ifs:
        from dragoman.inspection.views.what_if_picture import what_if_trees

        return what_if_trees(inspection.what_ifs[0], window)
    return inspection.svg(
        show,
        settings.layer,
        settings.head,
        settings.lines,
        settings.words,
        window,
        settings.kind,
        1 if settings.query is None else settings.query,
        settings.neuron,
    )


def inspect_heads(settings: Inspect, file: Path) -> None:
    """Write the mean effect of each head on the translations of a file's lines."""
    from dragoman.inspection.analyse.mean_effects import mean_effects_json, mean_head_effects
    from dragoman.inspection.views.heads import mean_effects_picture
    from dragoman.text.lines import read_lines
    from dragoman.translation.translator import Translator

    lines, translator = list(read_lines(file)), Translator.load(settings.run).into(settings.into.code)
    say(f"Translating {counted(len(lines), 'line')} of {file}, then scoring without each head.")
    with progress_of("heads") as progress:
        effects = mean_head_effects(translator, lines, settings.search, progress)
    write(settings.out, lambda: mean_effects_json(effects), lambda: mean_effects_picture(effects))
    say(f"{settings.out} has the mean effect of each head on {counted(effects.lines, 'line')}.")


def inspect_neurons(settings: Inspect, file: Path) -> None:
    """Write where neurons are most active, over the lines of a file."""
    from dragoman.inspection.analyse.neuron_samples import neuron_samples, neuron_samples_json
    from dragoman.inspection.views.neuron_samples_picture import neuron_samples_picture
    from dragoman.text.lines import read_lines
    from dragoman.translation.translator import Translator

    lines, translator = list(read_lines(file)), Translator.load(settings.run).into(settings.into.code)
    with progress_of("lines") as progress:
        samples = neuron_samples(
            translator,
            lines,
            settings.search,
            settings.kind,
            settings.layer,
            settings.neuron,
            progress=progress,
        )
    write(settings.out, lambda: neuron_samples_json(samples), lambda: neuron_samples_picture(samples))
    say(f"{settings.out} has the strongest tokens of neurons in {counted(samples.lines, 'line')}.")


@contextmanager
def progress_of(what: str) -> Iterator[Callable[[int, int], None]]:
    """A function that shows how many of all are done, in a terminal."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn(what), MofNCompleteColumn(), TimeRemainingColumn()
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def write(out: Path, table: Callable[[], dict[str, Any]], svg: Callable[[], str]) -> None:
    """Write JSON or a picture, by the ending. Raises `DragomanError` if the package for PNG is missing."""
    ending = out.suffix.lower()
    if ending == ".png":
        from dragoman.inspection.views.png import to_png

        content = to_png(svg())
    else:
        text = json.dumps(table(), ensure_ascii=False, allow_nan=False) if ending == ".json" else svg()
        content = text.encode("utf-8", "replace")
    with atomic_write(out) as path:
        path.write_bytes(content)


COMMAND = Command(
    "inspect",
    "Show what a model computes for a sentence: search, attention, and more.",
    inspect,
    Inspect,
    example='dragoman inspect runs/ende "A man rides a bike." --out report.html',
    arguments="RUN [SENTENCE]",
    positional=("run", "sentence"),
    groups={
        "sentence": ("run", "target_language", "sentence", "file"),
        "output": (
            "out",
            "show",
            "layer",
            "head",
            "lines",
            "words",
            "window",
            "kind",
            "what_if",
        ),
        "search": ("beam_size", "length_penalty", "prefix"),
    },
    metavars={"run": "RUN", "target_language": "CODE", "sentence": "SENTENCE", "what_if": "CHANGES"},
)
