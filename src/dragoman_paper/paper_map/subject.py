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
    """The subject of a name or path; `vocabulary` replaces the sizes of its vocabularies.

    Raises `DragomanError` for a name that is nothing of all that, and as the files' readers do.
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
            "and there is no such recipe or run."
        )
    if vocabulary is not None:
        sizes = vocabulary, vocabulary
    if sizes is None:
        size = recipe.tokenizer.vocabulary or PAPER_VOCABULARY
        sizes = size, size
    return Subject(name, recipe, *sizes)


def read_run(folder: Path) -> tuple[Recipe, tuple[int, int] | None]:
    """The recipe of a run or a model alone, and the sizes of its vocabularies; None before it has a model.

    Raises `DragomanError` if the folder is neither.
    """
    is_run = (folder / "recipe.toml").exists()
    if is_run and not (folder / "model").exists():
        return read_recipe(folder), None
    model = model_folder(folder)
    settings = read_settings(model)
    recipe = read_recipe(folder) if is_run else Recipe(preset="base", model=settings)
    types = array_types(model / WEIGHTS)
    target = types["target_embedding.weight"][1][0]
    source = types.get("source_embedding.weight", types["target_embedding.weight"])[1][0]
    return recipe, (source, target)


def read_recipe_file(path: Path) -> Recipe:
    """The recipe of a TOML file, on its preset.

    Raises `DragomanError` if the preset is `auto` and the file does not give all sizes: then they depend on
    the text.
    """
    table = read_toml(path)
    first = overlay(Recipe(), {key: value for key, value in table.items() if key != "model"}, str(path))
    model = PRESETS.get(first.preset, ModelSettings())
    model_table = table.get("model", {})
    if first.preset == "auto" and not (isinstance(model_table, dict) and model_table.keys() >= {*SIZES}):
        raise DragomanError(
            f"{path} leaves the sizes of its model to the text: its preset is auto. Give it a preset, or all "
            f"of {', '.join(SIZES)}; or name the folder of a run."
        )
    return overlay(overlay(Recipe(preset=first.preset, model=model), {}, str(path)), table, str(path))
