"""Table 1 (section 4): measured costs and distances of layer types, beside the paper's orders of growth."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dragoman.pipeline.passport import passport
from dragoman.system.files import atomic_write
from dragoman_paper.tables import table_files
from dragoman_paper.tables.complexity import (
    FEWEST_FLOPS,
    Distance,
    LayerCost,
    distance,
    fit,
    measure,
    slope,
)
from dragoman_paper.tables.layers import ROWS, LayerType

logger = logging.getLogger(__name__)
POSITIONS, WIDTHS = (16, 64, 256, 1024, 4096), (64, 256, 1024)
QUICK_POSITIONS, QUICK_WIDTHS = (64, 256, 1024), (64, 256)
DISTANCES, QUICK_DISTANCES = (16, 32, 64, 128, 256), (16, 64)


@dataclass(frozen=True)
class Measurements:
    """All that the table is made of."""

    costs: list[LayerCost]
    distances: list[Distance]


def measure_table(quick: bool) -> Measurements:
    """Measure every layer type, in minutes."""
    positions, widths = (QUICK_POSITIONS, QUICK_WIDTHS) if quick else (POSITIONS, WIDTHS)
    costs, distances = [], []
    for number, row in enumerate(ROWS, 1):
        logger.info(f"{number} of {len(ROWS)}: {row.name}")
        costs += [measure(row, n, width) for n in positions for width in widths]
        distances += [distance(row, n) for n in (QUICK_DISTANCES if quick else DISTANCES)]
    return Measurements(costs, distances)


PICTURES = {
    "time": "Time of a forward pass",
    "operations": "Operations",
    "memory": "Memory kept for the backward pass",
    "sequential": "Sequential operations",
    "path": "Maximum path length",
}
"""The picture of each column: its file is NAME.svg."""


def content(measured: Measurements, command: str, version: str) -> dict[str, Any]:
    """What table.json holds. The passport names the command, and the version of the package."""
    return {
        "table": "table1",
        "costs": [asdict(cost) for cost in measured.costs],
        "distances": [asdict(distance) for distance in measured.distances],
        "exponents": {
            row.name: exponents(row, measured.costs) | distance_exponents(row, measured.distances)
            for row in ROWS
        },
        "paper": {
            row.name: {
                "flops": row.complexity,
                "seconds": row.complexity,
                "sequential": row.sequential_text,
                "path": row.path_text,
            }
            for row in ROWS
        },
        "passport": passport(command, version, {}),
    }


def write_table(
    folder: Path, measured: Measurements, table: Mapping[str, Any], pictures: Mapping[str, str]
) -> str:
    """Write table.json, table.md and the pictures, SVG by name, to the folder; returns the page's text."""
    for name in PICTURES:
        with atomic_write(folder / f"{name}.svg") as new:
            new.write_text(pictures[name], "utf-8")
    return table_files.write_table(folder, table, markdown(measured))


QUANTITIES: dict[str, Callable[[LayerCost], float]] = {
    "flops": lambda cost: cost.flops,
    "seconds": lambda cost: cost.seconds,
    "saved_bytes": lambda cost: cost.saved_bytes,
}


def exponents(row: LayerType, costs: Sequence[LayerCost]) -> dict[str, dict[str, Any]]:
    """The exponents of n and d in each quantity; of seconds, over the layers that are not too small."""
    row_costs = [cost for cost in costs if cost.layer == row.name]
    large = [cost for cost in row_costs if cost.flops >= FEWEST_FLOPS]
    fits = {}
    for name, quantity in QUANTITIES.items():
        chosen = large if name == "seconds" and len(large) >= 4 else row_costs
        fits[name] = dict(zip("nd", map(asdict, fit(chosen, quantity)), strict=True))
    return fits


def distance_exponents(row: LayerType, distances: Sequence[Distance]) -> dict[str, dict[str, Any]]:
    """The exponent of n in the number of sequential operations and in the path length."""
    row_distances = [distance for distance in distances if distance.layer == row.name]
    return {
        "sequential": {"n": asdict(slope(row_distances, lambda distance: distance.sequential))},
        "path": {"n": asdict(slope(row_distances, lambda distance: distance.path))},
    }


def markdown(measured: Measurements) -> str:
    """The page."""
    links = "\n\n".join(f"![{title}]({name}.svg)" for name, title in PICTURES.items())
    fits = {row.name: exponents(row, measured.costs) for row in ROWS}
    return f"# Table 1: layer types\n\n{table(fits, measured.distances)}\n\n{METHOD}\n{links}\n"


def written_table(content: Mapping[str, Any]) -> str:
    """The table of a table.json."""
    return table(content["exponents"], [Distance(**entry) for entry in content["distances"]])


def table(fits: Mapping[str, Mapping[str, Any]], distances: Sequence[Distance]) -> str:
    """The table with the paper's columns beside what was measured; the exponents are by layer type."""
    shortest, *_, longest = dict.fromkeys(distance.positions for distance in distances)
    at = f"at n = {shortest} and {longest}"
    head = (
        "layer type",
        "complexity (paper)",
        "operations, counted",
        "time, measured",
        "memory kept for the backward pass",
        f"sequential operations {at} (paper)",
        f"maximum path length {at} (paper)",
    )
    return table_files.table(head, [cells(row, fits[row.name], distances) for row in ROWS])


def cells(row: LayerType, fits: Mapping[str, Any], distances: Sequence[Distance]) -> tuple[str, ...]:
    """A row's cells."""
    shortest, *_, longest = (distance for distance in distances if distance.layer == row.name)
    return (
        row.name,
        row.complexity,
        *(growth(*fits[name].values()) for name in QUANTITIES),
        f"{shortest.sequential}, {longest.sequential} ({row.sequential_text})",
        f"{shortest.path}, {longest.path} ({row.path_text})",
    )


def growth(n: dict[str, float], width: dict[str, float]) -> str:
    """`n^1.98 (1.95 to 2.01) · d^1.00 (0.99 to 1.01)`; an interval of width 0 is left out."""
    parts = []
    for name, exponent in (("n", n), ("d", width)):
        exact = round(exponent["low"], 2) == round(exponent["high"], 2)
        interval = "" if exact else f" ({exponent['low']:.2f} to {exponent['high']:.2f})"
        parts.append(f"{name}^{exponent['value']:.2f}{interval}")
    return " · ".join(parts)


METHOD = f"""\
- Attention is equation 1 alone with heads of 64 features; its projections cost O(n·d²) in every row with
  attention. The exponents are fitted to all n and d of table.json by least squares of the logarithms, with
  95 % confidence intervals; those of time where a layer has at least {FEWEST_FLOPS:,.0f} operations: in
  smaller ones, the time is that of calling PyTorch.
- Operations are those of matrix products. Time is the fastest of several forward passes of one text.
- Sequential operations: the longest chain of matrix products that wait for each other, in autograd's graph,
  where PyTorch's fused attention is one node.
- Path length: layers, or steps of the recurrent layer, until every position has reached every other one by
  gradients that are not zero. The recurrent and the dilated layer look back, so it is every later one there.
- The pictures, one a column, have logarithmic axes; their numbers are in table.json.
"""
