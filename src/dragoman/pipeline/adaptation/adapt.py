"""The recipe of an adaptation (fine-tuning), where `--initial-model` stands in place of a preset.

Does not import torch.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from dragoman.model.settings import PRESETS
from dragoman.pipeline.adaptation.fewer_layers import LAYERS, can_leave_out_layers, with_guided_head
from dragoman.pipeline.byte_lengths import with_byte_lengths
from dragoman.pipeline.language_pairs import pairs_of_model
from dragoman.pipeline.recipe import Recipe, check_recipe, read_recipe
from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.options import check_rules
from dragoman.system.toml import overlay
from dragoman.text.language_codes import could_be_same
from dragoman.text.mixture import is_parallel
from dragoman.text.sampling_settings import SubwordSampling
from dragoman.text.settings import UNKNOWN_LANGUAGE, DataSettings, TokenizerSettings
from dragoman.training.settings import TrainingSettings
from dragoman.translation.model_folder import Tokenizers, model_folder, read_about, read_settings

# Settings of the model that no weight depends on.
CHANGEABLE = ("dropout", "attention_dropout", "alignment_head")
SAMPLING = {field.name for field in fields(SubwordSampling)}
"""Settings of the tokenizer that concern the training text alone, and may differ from the initial model's."""


def adapted_recipe(
    requested: Recipe, table: dict[str, Any], origin: str, flags: Callable[[Recipe], Recipe]
) -> Recipe:
    """`complete_recipe` for an initial model. A run that has begun needs that model's folder no longer.

    Raises `DragomanError` for settings that the initial model contradicts, and where `check_recipe` does.
    """
    refuse_contradictions(requested)
    initial_model, out = requested.adaptation.initial_model, requested.out
    assert initial_model is not None
    recorded = read_recipe(out) if out is not None and (out / "recipe.toml").exists() else None
    if recorded is not None:
        initial = Recipe(model=recorded.model, tokenizer=recorded.tokenizer)
        initial = with_byte_lengths(initial, recorded.tokenizer)
    else:
        initial = kept_settings(initial_model)
        if requested.adaptation.new_vocabulary:
            initial = with_new_vocabulary(initial, requested)
    refuse_other_languages(requested.data, initial.data, initial_model)
    recipe = with_replay_in_folder(flags(overlay(initial, table, origin)))
    if recorded is None:  # a run that has begun refuses changes itself
        refuse_changes(recipe, initial, initial_model)
        pairs_of_model(recipe)  # raises for a text in languages that the initial model does not know
        alignment_head = flags(overlay(Recipe(), table, origin)).model.alignment_head
        recipe = replace(recipe, model=with_guided_head(recipe.model, initial.model, alignment_head))
    check_recipe(recipe)
    return recipe if recipe.adaptation.lora_rank is None else without_average(recipe)


def with_replay_in_folder(recipe: Recipe) -> Recipe:
    """The recipe with the files of the old text joined to the folder of the text files, if it has one."""
    folder, adaptation = recipe.data.folder, recipe.adaptation
    if folder is None:
        return recipe
    replay, replay_valid = (
        files and tuple(str((folder / path).absolute()) for path in files)  # a second joining changes nothing
        for files in (adaptation.replay, adaptation.replay_valid)
    )
    return replace(recipe, adaptation=replace(adaptation, replay=replay, replay_valid=replay_valid))


def without_average(recipe: Recipe) -> Recipe:
    """The recipe without an average of checkpoints, whose rank would be that of all of them together.

    Raises `DragomanError` if it asks for one.
    """
    if recipe.training.average not in (1, TrainingSettings().average):
        raise DragomanError(
            f"average is {recipe.training.average}, and checkpoints of adapters are not averaged: the "
            "average would have a higher rank. Leave average out."
        )
    return replace(recipe, training=replace(recipe.training, average=1))


def refuse_contradictions(recipe: Recipe) -> None:
    """Raise `DragomanError` for settings of the adaptation that do not belong together."""
    adaptation = recipe.adaptation
    check_rules(adaptation)
    for name, paths in (("replay", adaptation.replay), ("replay_valid", adaptation.replay_valid)):
        parallel_paths = [path for path in paths or () if is_parallel(Path(path))]
        if parallel_paths and len(paths or ()) != 1:
            raise OptionError(
                f"{{path}} has both sides of a corpus; give it alone, as {{{name}}}.", path=parallel_paths[0]
            )
        if paths is not None and not parallel_paths and len(paths) != 2:
            raise OptionError(
                f"{{{name}}} needs two files, source and target, or one that has both, and has {len(paths)}."
            )
    if adaptation.lora_rank is not None and recipe.training.shard:
        raise OptionError("Adapters are not trained with {shard}; leave it out, or {lora_rank}.")


def run_of(model: Path) -> Path:
    """The run of a model: the folder itself, or the run whose folder `model` it is."""
    return model.parent if model.name == "model" and (model.parent / "recipe.toml").exists() else model


def kept_settings(initial_model: Path) -> Recipe:
    """The settings that a recipe has from its initial model; the languages, unless others are given.

    Raises `DragomanError` if there is no model.
    """
    folder = model_folder(initial_model)
    tokenizers, languages = Tokenizers.load(folder), read_about(folder).languages
    tokenizer = TokenizerSettings(
        vocabulary=max(len(tokenizers.source), len(tokenizers.target)),
        share_vocabulary=tokenizers.source is tokenizers.target,
        source_tokens="byte" if tokenizers.source.is_bytes else "bpe",
        target_tokens="byte" if tokenizers.target.is_bytes else None,
    )
    run = run_of(initial_model)
    if (run / "recipe.toml").exists():
        tokenizer = read_recipe(run).tokenizer
    source, target = (
        None if code == UNKNOWN_LANGUAGE else code for code in (languages.source, languages.target)
    )
    data = DataSettings(source_language=source, target_language=target)
    return with_byte_lengths(Recipe(data=data, tokenizer=tokenizer, model=read_settings(folder)), tokenizer)


def with_new_vocabulary(initial: Recipe, requested: Recipe) -> Recipe:
    """What is kept of a parent whose child has another vocabulary: the sizes and the number of vocabularies.

    Raises `DragomanError` for several pairs of languages, whose symbols are tokens of the vocabulary.
    """
    initial_model = requested.adaptation.initial_model
    assert initial_model is not None
    if read_about(model_folder(initial_model)).pairs or len(requested.data.pairs) > 1:
        raise OptionError(
            "{new_vocabulary} is for a model and a text of one pair of languages each; leave it out to keep "
            "the vocabulary of the initial model in {model}.",
            model=initial_model,
        )
    tokenizer = TokenizerSettings(share_vocabulary=initial.tokenizer.share_vocabulary)
    return with_byte_lengths(Recipe(model=initial.model, tokenizer=tokenizer), requested.tokenizer)


def refuse_other_languages(data: DataSettings, initial_data: DataSettings, initial_model: Path) -> None:
    """Raise `DragomanError` if the name of a text says another language than that of the initial model.

    Languages that corpora name are checked by `pairs_of_model`.
    """
    if data.pairs:
        return
    for side in ("source", "target"):
        language, known = getattr(data.languages, side), getattr(initial_data, f"{side}_language")
        is_given = getattr(data, f"{side}_language") is not None
        is_known = known is not None and language != UNKNOWN_LANGUAGE
        if not is_given and is_known and not could_be_same(language, known):
            raise OptionError(
                f"The {side} text is called {{path}}, and the {side} language of the initial model in "
                f"{{model}} is {known}. Exchange the files, or give {{{side}_language}} {language}. With "
                "{new_vocabulary} the language may be another one.",
                path=getattr(data, side),
                model=initial_model,
            )


def refuse_changes(recipe: Recipe, initial: Recipe, initial_model: Path) -> None:
    """Raise `DragomanError` for the first setting that the initial model contradicts.

    A model may have fewer layers, except with adapters, which are exported as changes of the initial model's.
    """
    model, tokenizer = initial.model, initial.tokenizer
    if recipe.adaptation.new_vocabulary:
        tokenizer = replace(recipe.tokenizer, share_vocabulary=tokenizer.share_vocabulary)
    free = set(CHANGEABLE)
    if can_leave_out_layers(model) and recipe.adaptation.lora_rank is None:
        free |= {name for name in LAYERS if getattr(recipe.model, name) < getattr(model, name)}
    changeable = {name: getattr(model, name) for name in CHANGEABLE}
    if recipe.preset != "auto" and replace(PRESETS[recipe.preset], **changeable) != model:
        raise DragomanError(
            f"The preset is {recipe.preset}, and the initial model in {initial_model} has other sizes "
            f"({model.architecture}, d_model {model.d_model}, {model.encoder_layers} + "
            f"{model.decoder_layers} layers), which are kept; leave the preset out."
        )
    for new, old in (
        (recipe.model, replace(model, **{name: getattr(recipe.model, name) for name in free})),
        (recipe.tokenizer, tokenizer),
    ):
        for field in fields(old):
            if field.name in SAMPLING:
                continue
            if (value := getattr(new, field.name)) != (before := getattr(old, field.name)):
                raise OptionError(
                    f"{{{field.name}}} is {{value!r}}, and the initial model in {{folder}} has {{before!r}}, "
                    f"which is kept; leave {{{field.name}}} out.",
                    value=value,
                    folder=initial_model,
                    before=before,
                )
