"""The picture of a what-if: the tree of the search without the changes, and below it the tree with them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dragoman.inspection.views.drawing import Drawing, decimal
from dragoman.inspection.views.labels import Window, in_window
from dragoman.inspection.views.layout import finished
from dragoman.inspection.views.tree import draw_dot, draw_tree, search_name, tree_columns, tree_key
from dragoman.search.trace import Node

if TYPE_CHECKING:
    from dragoman.inspection.record.record import Record
    from dragoman.inspection.what_if import WhatIf


def what_if_trees(case: "WhatIf", window: Window | None = None) -> str:
    """Both trees of a case. A dot marks the hypotheses that are in one of them alone."""
    before, after = case.before, case.after
    changes = ", ".join(map(str, case.changes))
    same = "stays the same" if after.translation == before.translation else "changes"
    drawing = Drawing(
        "what-if",
        f"What if: {changes}. The translation {same}",
        f"The tree of the search without and with the changes. Sentence: {before.sentence} "
        f"Before: {before.translation} After: {after.translation}",
    )
    notes = [
        draw_search(drawing, "Before", before, set(hypotheses(after.nodes)), window),
        draw_search(drawing, "After", after, set(hypotheses(before.nodes)), window),
    ]
    y = drawing.height + 22
    draw_dot(drawing, 31, y - 3)
    drawing.text(56, y + 8, "only in this search", css="fill-faint")
    tree_key(drawing, 16, y + 18, bool(before.drawn or after.drawn))
    return finished(drawing, notes)


def draw_search(
    drawing: Drawing, name: str, inspection: "Record", others: set[tuple[str, ...]], window: Window | None
) -> str:
    """A tree with its heading, below what is drawn; `others` are the hypotheses of the other search.

    Returns a sentence if steps are left out.
    """
    steps, paths = tree_columns(inspection.nodes), hypotheses(inspection.nodes)
    last, y = len(steps) - 1, drawing.height + 30
    drawn = in_window(last, window)
    drawing.text(16, y, f"{name}: {inspection.translation}", 13, bold=True)
    log_prob, score = (decimal(value, 3) for value in (inspection.log_probability, inspection.score))
    size = f"{search_name(inspection)}; {len(paths) - 1} hypotheses in {last} steps"
    numbers = f"Log-probability {log_prob} nats, score {score}. {size}."
    drawing.text(16, y + 19, numbers, css="fill-faint")
    marked = {number for number, path in enumerate(paths) if path not in others}
    draw_tree(
        drawing, inspection, steps[drawn.start : drawn.stop + 1], drawn.start, drawing.height + 26, marked
    )
    note = f"{name}: only steps {drawn.start + 1} to {drawn.stop} of {last} are drawn."
    return note if drawn != slice(0, last) else ""


def hypotheses(nodes: Sequence[Node]) -> list[tuple[str, ...]]:
    """The tokens of each hypothesis."""
    paths: list[tuple[str, ...]] = []
    for node in nodes:
        parent = () if node.parent is None else paths[node.parent]
        paths.append((*parent, node.token))
    return paths
