"""A recipe with `guided_alignment`: what it excludes, the head that is guided, and the objective."""

from dataclasses import replace

from torch import nn

from dragoman.model.architectures import check_architecture
from dragoman.model.interface import Model
from dragoman.pipeline.recipe import Recipe
from dragoman.system.errors import OptionError
from dragoman.text.mixture import is_parallel
from dragoman.text.settings import DataSettings
from dragoman.text.token_alignment import AlignedCorpus, check_alignment
from dragoman.training.context import TrainingContext
from dragoman.training.guided_alignment import GuidedObjective
from dragoman.training.objective import Objective
from dragoman.training.settings import TrainingSettings


def with_alignment_head(recipe: Recipe, texts: DataSettings) -> Recipe:
    """The recipe with the head that is guided: the first, unless it names one.

    `texts` has the paths. Raises `DragomanError` for what guided alignment excludes, and for an alignment
    that is not of the text.
    """
    refuse_contradictions(recipe)
    recipe = replace(recipe, model=replace(recipe.model, alignment_head=recipe.model.alignment_head or 1))
    check_architecture(recipe.model)
    assert texts.guided_alignment is not None
    if texts.source is None or texts.target is None or is_parallel(texts.source):
        raise OptionError(
            "{guided_alignment} has the links of line n of two files, and the training text is not two "
            "files; write it to a file of sources and a file of targets, or leave {guided_alignment} out."
        )
    check_alignment(texts.guided_alignment, (texts.source, texts.target))
    return recipe


def refuse_contradictions(recipe: Recipe) -> None:
    """Raise `DragomanError` for settings that guided alignment excludes."""
    model, tokenizer = recipe.model, recipe.tokenizer
    if model.architecture in ("lstm", "gru", "conv"):
        raise OptionError(
            "{guided_alignment} guides a head of multi-head attention, and the architecture "
            f"{model.architecture} has none; leave it out."
        )
    if model.attention_score is not None:
        raise OptionError(
            "{guided_alignment} is for scaled dot products, and {attention_score} is "
            f"{model.attention_score}; leave one of them out."
        )
    if tokenizer.bpe_dropout or tokenizer.sampling_alpha:
        name = "bpe_dropout" if tokenizer.bpe_dropout else "sampling_alpha"
        raise OptionError(
            f"{{guided_alignment}} is for one segmentation of the text, and {{{name}}} samples several; "
            "leave one of them out."
        )
    if recipe.adaptation.replay is not None:
        raise OptionError(
            "{guided_alignment} has no links of the text to replay; leave {guided_alignment} or {replay} out."
        )


def guided(context: TrainingContext, recipe: Recipe) -> TrainingContext:
    """What the loop is given, with a `GuidedObjective`.

    Raises `DragomanError` if a resumed run was changed to what guided alignment excludes, and for data that
    has no links.
    """
    refuse_contradictions(recipe)
    head, weight = recipe.model.alignment_head, recipe.training.guided_alignment_weight
    assert head is not None
    corpus = AlignedCorpus(context.folder / "data" / "train")

    def make_objective(model: Model, settings: TrainingSettings) -> nn.Module:
        return GuidedObjective(Objective.of(model, settings), corpus, head, weight)

    return replace(context, make_objective=make_objective)
