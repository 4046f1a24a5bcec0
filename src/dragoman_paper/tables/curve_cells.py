"""The cells of learning curves: rows trained on nested parts of a corpus."""

from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from dragoman.pipeline.recipe import Recipe
from dragoman.system.files import write_lines
from dragoman.text.lines import read_lines, read_pairs
from dragoman.text.settings import DataSettings
from dragoman_paper.tables.cells import Result, make_cell
from dragoman_paper.tables.learning_curves import (
    DRAW,
    PATIENCE,
    SETTINGS,
    SIZES,
    VALIDATIONS,
    vocabulary,
)
from dragoman_paper.tables.rows import Row, Scale
from dragoman_paper.tables.runner import Request, find_texts, run_cells
from dragoman_paper.tables.tuning import tuned


@dataclass(frozen=True)
class CurvePoint:
    """The results of a row with a size of corpus, one per seed."""

    row: str
    pairs: int
    results: list[Result]

    @property
    def bleu(self) -> list[float]:
        """Of the validation data, one per seed."""
        return [result.bleu for result in self.results]


def subsets(data: DataSettings, folder: Path, sizes: tuple[int, ...]) -> dict[int, DataSettings]:
    """By number of pairs: corpora that each contain the smaller ones, and the whole one.

    The smaller ones are the first pairs in an order drawn with the seed `DRAW`; they are written to `folder`.
    Raises `DragomanError` as `read_pairs`.
    """
    assert data.source is not None
    assert data.target is not None
    texts = data.source, data.target
    pairs = list(read_pairs(*texts))
    total = len(pairs)
    Random(DRAW).shuffle(pairs)  # noqa: S311
    folder.mkdir(parents=True, exist_ok=True)
    corpora = {}
    for size in (size for size in sizes if size < total):
        files = [folder / f"{size}{path.suffixes[0]}" for path in texts]
        for path, lines in zip(files, zip(*pairs[:size], strict=True), strict=True):
            if not path.exists() or [*read_lines(path)] != [*lines]:  # a run warns of a text that is newer
                write_lines(path, lines)
        corpora[size] = replace(data, source=files[0], target=files[1])
    return corpora | {total: data}


def curve_recipe(scale: Scale, row: Row, seed: int, data: DataSettings, pairs: int) -> Recipe:
    """The recipe of a row with this many pairs of text."""
    scale = replace(scale, vocabulary=vocabulary(scale, pairs))
    recipe = tuned(scale.recipe(row, seed, data), SETTINGS)
    interval = max(1, scale.updates // VALIDATIONS)
    return replace(recipe, training=replace(recipe.training, validate_every=interval, patience=PATIENCE))


def run_curves(request: Request, sizes: tuple[int, ...] = SIZES) -> list[CurvePoint]:
    """Run the cells that are missing, the smallest corpora first. Raises `DragomanError` as `run_table`."""
    corpora = subsets(find_texts(request.scale, request.data), request.folder / "texts", sizes)
    cells = [
        make_cell(
            request.folder, f"{row.name}/{pairs}", seed, curve_recipe(request.scale, row, seed, data, pairs)
        )
        for seed in range(1, request.seeds + 1)
        for pairs, data in corpora.items()
        for row in request.rows
    ]
    results = run_cells(request, cells, request.table.title)
    return [
        CurvePoint(row.name, pairs, [result for result in results if result.row == f"{row.name}/{pairs}"])
        for row in request.rows
        for pairs in corpora
    ]
