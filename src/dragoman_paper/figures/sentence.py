"""Figures of a model while it translates a sentence."""

from collections.abc import Callable
from pathlib import Path

from dragoman.inspection.inspect import inspect
from dragoman.inspection.inspection import Inspection
from dragoman.inspection.record.inspected import one_transformer
from dragoman.search.settings import SearchSettings
from dragoman.translation.translator import Translator
from dragoman_paper.figures import attention_figures, measured, measured_pictures, steps
from dragoman_paper.figures.attention_figures import layer_number, layer_weights, one_head, query_number
from dragoman_paper.figures.choice import Choice
from dragoman_paper.figures.neighbours_picture import neighbours_picture

DRAWN_FROM_INSPECTIONS: dict[str, Callable[[Inspection, Choice], str]] = {
    "figure-3": attention_figures.figure_3,
    "figure-4": attention_figures.figure_4,
    "figure-5": attention_figures.figure_5,
    "head-comparison": attention_figures.head_comparison,
    "softmax": steps.softmax,
    "decoding-steps": steps.decoding_steps,
}


def draw_for_words(run: Path, text: str) -> str:
    """The nearest tokens of words."""
    return neighbours_picture(Translator.load(run, native=False), text)


def draw_for_sentence(name: str, run: Path, sentence: str, choice: Choice, search: SearchSettings) -> str:
    """Translate with PyTorch, and draw."""
    translator = Translator.load(run, native=False)
    if name == "figure-1":
        return inspect(translator, sentence, search).svg("model")
    if name != "softmax" and choice.kind != "cross":
        one_transformer(translator)
    if name in DRAWN_FROM_INSPECTIONS:
        return DRAWN_FROM_INSPECTIONS[name](inspect(translator, sentence, search), choice)
    if name == "feed-forward":
        return measured_pictures.feed_forward_picture(measured.hidden_units(translator, sentence, search))
    model = one_transformer(translator).settings
    layer = layer_number(choice.layer, model.encoder_layers)
    if name == "layer-norm":
        measurement = measured.normalisation(translator, sentence, search, layer)
        return measured_pictures.normalisation_picture(measurement, layer)
    head = one_head(choice.heads, model.heads)
    inspection = inspect(translator, sentence, search)
    if name == "query-key-value":
        return measured_pictures.head_matrices(inspection, layer, head)
    query = query_number(layer_weights(inspection, choice), choice.query, [head])
    return inspection.svg("numbers", layer + 1, head + 1, kind="encoder", query=query + 1)
