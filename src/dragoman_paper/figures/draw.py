"""A figure by its name, as SVG. Figures that need no model are drawn without torch."""

from collections.abc import Callable
from pathlib import Path

from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.system.files import read_arrays
from dragoman.system.toml import overlay, read_toml, section
from dragoman.training.settings import TrainingSettings
from dragoman.translation.model_folder import WEIGHTS, Tokenizers, model_folder, read_settings
from dragoman_paper.figures.catalogue import Figure
from dragoman_paper.figures.choice import Choice

PAPER_VOCABULARY = 37_000  # section 5.1
PAPER = "ε and V are the paper's (V: section 5.1, about 37000 tokens)."


def draw_figure(
    figure: Figure, run: Path | None, text: str | None, choice: Choice, search: SearchSettings
) -> str:
    """Draw a figure that has what it needs: `refuse_missing` has been called.

    Raises `DragomanError` if the run or the sentence does not allow it, and for layers, heads, tokens and
    steps that do not exist.
    """
    if figure.needs == "nothing" and not (figure.name == "figure-1" and run is not None and text is not None):
        return formula_figure(figure.name, run, text)
    assert run is not None
    if figure.name == "training":
        from dragoman_paper.figures.training_picture import training_picture

        return training_picture(run)
    assert text is not None
    from dragoman_paper.figures.sentence import draw_for_sentence, draw_for_words

    if figure.needs == "words":
        return draw_for_words(run, text)
    return draw_for_sentence(figure.name, run, text, choice, search)


def formula_figure(name: str, run: Path | None, text: str | None) -> str:
    """A figure of sizes alone: those of the run's model, or of the paper's base model without a run.

    Raises `DragomanError` for a sentence without a run, and a run without the attention of the figure.
    """
    from dragoman_paper.figures.attention_diagram import attention_diagram
    from dragoman_paper.figures.complexity import complexity
    from dragoman_paper.figures.recurrence import TOKENS, recurrence_paths
    from dragoman_paper.figures.smoothing import label_smoothing

    if text is not None and run is None:
        raise DragomanError(f"A sentence needs a run, which tokenizes it: {name} RUN SENTENCE.")
    model = ModelSettings() if run is None else transformer_settings(run)
    if name == "figure-2" and model.attention_score is not None:
        raise DragomanError(
            f"{run} has {model.attention_score} scores, and Figure 2 is of scaled dot products; leave the "
            "run out for the paper's base model."
        )
    tokens = None if run is None or text is None else source_tokens(run, text)
    drawings: dict[str, Callable[[], str]] = {
        "figure-1": lambda: layers_figure(model, run),
        "figure-2": lambda: attention_diagram(model),
        "positions": lambda: positions_figure(model, run),
        "complexity": lambda: complexity(model.d_model, None if tokens is None else len(tokens)),
        "recurrence-paths": lambda: recurrence_paths(TOKENS if tokens is None else tokens),
        "label-smoothing": lambda: label_smoothing(*smoothing_of(run)),
    }
    return drawings[name]()


def positions_figure(model: ModelSettings, run: Path | None) -> str:
    """The sinusoids, or the learned tables of a run. Raises `DragomanError` for a model without positions."""
    from dragoman_paper.figures.position_layouts import learned_positions, position_layouts

    if model.positions == "none":
        raise DragomanError(
            f"{run} has no positions (positions = none); leave the run out for the paper's sinusoids."
        )
    if run is None or model.positions != "learned":
        return position_layouts(model)
    weights = read_arrays(model_folder(run) / WEIGHTS)
    sides = ("source", "target")
    return learned_positions({f"{side} positions": weights[f"{side}_positions.table"] for side in sides})


def layers_figure(model: ModelSettings, run: Path | None) -> str:
    """Figure 1 of a run's model, or of the paper's base model without a run."""
    from dragoman.inspection.views.architecture import architecture_of

    title, source, target = "The Transformer (base model)", PAPER_VOCABULARY, PAPER_VOCABULARY
    about = f", {target:,} as in the paper (section 5.1)"
    if run is not None:
        tokenizers = Tokenizers.load(model_folder(run))
        source, target = len(tokenizers.source), len(tokenizers.target)
        title, about = "The Transformer of this model", ""
    lengths = (
        f"S source and T target tokens; d_model = {model.d_model}; V is the size of the target "
        f"vocabulary{about}."
    )
    embeddings = {"target_embedding": target * model.d_model}
    if model.tied != "all":
        embeddings["source_embedding"] = source * model.d_model
    return architecture_of(model, embeddings, title, lengths)


def transformer_settings(run: Path) -> ModelSettings:
    """The settings of a run's model. Raises `DragomanError` if it is no Transformer."""
    settings = read_settings(model_folder(run))
    if settings.architecture != "transformer":
        raise DragomanError(
            f"{run} holds a model of the architecture {settings.architecture}, and the figures are of the "
            "Transformer; leave the run out for the paper's base model."
        )
    return settings


def source_tokens(run: Path, text: str) -> list[str]:
    """A sentence's tokens, END included. Raises `DragomanError` if it is blank."""
    tokenizer = Tokenizers.load(model_folder(run)).source
    (ids,) = tokenizer.encode([text])
    if not ids:
        raise DragomanError("The sentence is blank: it has no tokens. Give one with words.")
    return tokenizer.pieces([*ids, END])


def smoothing_of(run: Path | None) -> tuple[float, int, str]:
    """ε, V, and a sentence about where they come from."""
    if run is None:
        return 0.1, PAPER_VOCABULARY, PAPER
    vocabulary = len(Tokenizers.load(model_folder(run)).target)
    if not (run / "recipe.toml").exists():
        return 0.1, vocabulary, "ε is the paper's: a model folder does not say with which it was trained."
    path = run / "recipe.toml"
    table = section(read_toml(path), "training", path)
    smoothing = overlay(TrainingSettings(), table, str(path)).label_smoothing
    return smoothing, vocabulary, "ε is that of the run's recipe, V the size of its target vocabulary."
