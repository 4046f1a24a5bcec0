"""What `dragoman paper` is asked about: a preset, a row of Table 3, a recipe or a run. Imports no torch."""

from dataclasses import dataclass
from pathlib import Path

from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.pipeline.recipe import Recipe, read_recipe
from dragoman.system.errors import DragomanError
from dragoman.system.files import array_types
from dragoman.system.toml import overlay, read_toml
from dragoman.text.settings import DataSettings
from dragoman.translation.model_folder import WEIGHTS, model_folder, read_settings
from dragoman_paper.tables.published import PAPER_VOCABULARY
from dragoman_paper.tables.table3 import TABLE3

SIZES = ("d_model", "d_ff", "heads", "encoder_layers", "decoder_layers")


@dataclass(frozen=True)
class Subject:
    """A recipe with its name and the sizes of its vocabularies."""

    name: str
    recipe: Recipe
    source_vocabulary: int
    target_vocabulary: int


def subject_of(name: str, vocabulary: int | None) -> Subject:
    """The preset, row of Table 3, recipe or run of this name or path.

    `vocabulary` is the size of both vocabularies; None is that of the model, or of the recipe, or else the
    paper's. Raises `DragomanError` for a name that is none of these, and as `read_run` and
    `read_recipe_file`.
    """
    rows = {row.name: row for row in TABLE3.rows}
    path = Path(name)
    sizes = None
    if name in PRESETS:
        recipe = overlay(Recipe(model=PRESETS[name]), {"preset": name}, name)
    elif name in rows:
        recipe = TABLE3.scale("paper").recipe(rows[name], 1, DataSettings())
    elif path.is_dir():
        recipe, sizes = read_run(path)
    elif path.is_file():
        recipe = read_recipe_file(path)
    else:
        raise DragomanError(
            f"{name!r} is not a preset ({', '.join(PRESETS)}), not a row of Table 3 ({', '.join(rows)}), "
            "and there is no recipe or run of this path. Give one of these names or an existing path."
        )
    if vocabulary is not None:
        sizes = vocabulary, vocabulary
    if sizes is None:
        size = recipe.tokenizer.vocabulary or PAPER_VOCABULARY
        sizes = size, size
    return Subject(name, recipe, *sizes)


def read_run(folder: Path) -> tuple[Recipe, tuple[int, int] | None]:
    """The recipe of a run or of a model folder, and the sizes of its source and target vocabularies.

    The sizes are None for a run that has no model yet. Raises `DragomanError` if the folder is neither.
    """
    is_run = (folder / "recipe.toml").exists()
    if is_run and not (folder / "model").exists():
        return read_recipe(folder), None
    model = model_folder(folder)
    settings = read_settings(model)
    # A model folder does not name its preset; all sizes are in its settings.
    recipe = read_recipe(folder) if is_run else Recipe(preset="base", model=settings)
    shapes = {name: shape for name, (_, shape) in array_types(model / WEIGHTS).items()}
    target = shapes["target_embedding.weight"]
    source = shapes.get("source_embedding.weight", target)  # tied embeddings are one
    return recipe, (source[0], target[0])


def read_recipe_file(path: Path) -> Recipe:
    """The recipe of a TOML file, on its preset.

    Raises `DragomanError` if the preset is `auto` and the file does not give all sizes: then they depend on
    the text.
    """
    table = read_toml(path)
    # First without the table of the model, which may fit its preset alone: this tells the preset.
    first = overlay(Recipe(), {key: value for key, value in table.items() if key != "model"}, str(path))
    model = PRESETS.get(first.preset, ModelSettings())
    model_table = table.get("model", {})
    if first.preset == "auto" and not (isinstance(model_table, dict) and model_table.keys() >= {*SIZES}):
        raise DragomanError(
            f"{path} leaves the sizes of its model to the text: its preset is auto. Give it a preset, or all "
            f"of {', '.join(SIZES)}; or name the folder of a run."
        )
    return overlay(Recipe(preset=first.preset, model=model), table, str(path))
