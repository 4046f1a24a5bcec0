"""The tree of a search: a column for each step, a box for each hypothesis."""

import math
from collections.abc import Collection, Sequence

from dragoman.inspection.record.record import Record
from dragoman.inspection.views.drawing import Drawing, decimal, visible, widest
from dragoman.inspection.views.labels import Window, in_window
from dragoman.inspection.views.layout import finished, sentences
from dragoman.search.trace import Node

BOX_HEIGHT, BOX_GAP, STEP_GAP = 36, 8, 40
LEFT, MAX_WIDTH = 16.0, 1600.0  # of a row of steps
ROW_GAP = 30
NEXT_TOKENS = 5  # in the title of a hypothesis

Place = tuple[float, float, float]  # of a box: x, y and width


def beam_tree(inspection: Record, window: Window | None = None) -> str:
    """All hypotheses of the search: a column for each step, lines from a hypothesis to its extensions."""
    steps = tree_columns(inspection.nodes)
    last, hypotheses = len(steps) - 1, len(inspection.nodes) - 1
    drawing = Drawing(
        "beam-tree",
        f"{search_name(inspection)}; {hypotheses} hypotheses in {last} steps",
        "A box is a hypothesis: its last token and its log-probability in nats. The thick orange path is the "
        f"translation. {sentences(inspection)}",
    )
    drawn = in_window(last, window)
    draw_tree(drawing, inspection, steps[drawn.start : drawn.stop + 1], drawn.start)
    tree_key(drawing, 16, drawing.height + 22, bool(inspection.drawn))
    note = f"Only steps {drawn.start + 1} to {drawn.stop} of {last} are drawn, after those that they extend."
    return finished(drawing, [note] * (drawn != slice(0, last)))


def draw_tree(
    drawing: Drawing,
    inspection: Record,
    steps: Sequence[Sequence[int]],
    first: int = 0,
    top: float = 62.0,
    marked: Collection[int] = (),
) -> None:
    """Draw these steps of the search; a step is the numbers of its hypotheses from top to bottom, and
    `first` is the number of the first. The names of the steps are at y = `top`. A dot is on hypotheses that
    are `marked`.

    Many steps are several rows. Each later row begins with the hypotheses of the step before that it extends.
    """
    nodes = inspection.nodes
    details = [hypothesis_details(inspection, number) for number in range(len(nodes))]
    widths = [column_width(nodes, column, details) for column in steps]
    for row in tree_rows(widths):
        columns, start = [*steps[row]], row.start
        if start:
            parents = {nodes[number].parent for number in columns[0]}
            start -= 1
            columns = [[number for number in steps[start] if number in parents], *columns]
        places = tree_places(columns, widths[start : row.stop], top + 12)
        draw_row(drawing, inspection, columns, first + start, top, places, details, marked)
        top = drawing.height + ROW_GAP


def draw_row(
    drawing: Drawing,
    inspection: Record,
    steps: Sequence[Sequence[int]],
    first: int,
    top: float,
    places: dict[int, Place],
    details: Sequence[str],
    marked: Collection[int],
) -> None:
    """Draw the steps of a row. The parameters are as those of `draw_tree`."""
    nodes, best = inspection.nodes, set(inspection.best_path)
    for number in sorted(places, key=lambda number: number in best):  # the best path is on top
        parent = nodes[number].parent
        if parent in places:
            draw_branch(drawing, places[parent], places[number], number in best)
    for step, column in enumerate(steps, first):
        x = places[column[0]][0]
        drawing.text(x, top, "start" if step == 0 else f"step {step}", 11, "fill-faint")
        for number in column:
            title = hypothesis_title(inspection, number)
            draw_hypothesis(drawing, nodes[number], details[number], title, places[number], number in best)
            if number in marked:
                draw_dot(drawing, places[number][0] + places[number][2], places[number][1])


def tree_columns(nodes: Sequence[Node]) -> list[list[int]]:
    """The numbers of the nodes of each step, in an order in which no lines cross.

    Extensions of a hypothesis stand together, likeliest first.
    """
    depths: list[int] = []
    for node in nodes:
        depths.append(0 if node.parent is None else depths[node.parent] + 1)
    steps: list[list[int]] = [[] for _ in range(max(depths) + 1)]
    for number, depth in enumerate(depths):
        steps[depth].append(number)
    ranks = {0: 0}
    for column in steps[1:]:
        column.sort(key=lambda number: (ranks[nodes[number].parent or 0], -nodes[number].log_probability))
        ranks |= {number: rank for rank, number in enumerate(column)}
    return steps


def column_width(nodes: Sequence[Node], column: Sequence[int], details: Sequence[str]) -> float:
    """The width of the boxes of a step."""
    tokens = widest([visible(nodes[number].token) for number in column], 13) + 26
    return max(54.0, tokens, widest([details[number] for number in column], 10.5) + 12)


def tree_rows(widths: Sequence[float]) -> list[slice]:
    """The steps of each row, by the widths of all steps: as many as fit into `MAX_WIDTH`, at least one."""
    rows, first, x = [], 0, LEFT
    for step, width in enumerate(widths):
        if x + width > MAX_WIDTH and step > first:
            rows.append(slice(first, step))
            first, x = step, LEFT + widths[step - 1] + STEP_GAP
        x += width + STEP_GAP
    return [*rows, slice(first, len(widths))]


def tree_places(steps: Sequence[Sequence[int]], widths: Sequence[float], highest: float) -> dict[int, Place]:
    """The box of each node: x, y and width. The first box of the longest column is at y = `highest`."""
    places: dict[int, Place] = {}
    x, tallest = LEFT, max(map(len, steps))
    for column, width in zip(steps, widths, strict=True):
        top = highest + (tallest - len(column)) * (BOX_HEIGHT + BOX_GAP) / 2
        for rank, number in enumerate(column):
            places[number] = x, top + rank * (BOX_HEIGHT + BOX_GAP), width
        x += width + STEP_GAP
    return places


def draw_branch(drawing: Drawing, parent: Place, child: Place, best: bool) -> None:
    """A line from the right of a box to the left of another."""
    start, end = parent[0] + parent[2], child[0]
    middle, high, low = (start + end) / 2, parent[1] + BOX_HEIGHT / 2, child[1] + BOX_HEIGHT / 2
    data = f"M{start:.1f} {high:.1f}C{middle:.1f} {high:.1f} {middle:.1f} {low:.1f} {end:.1f} {low:.1f}"
    drawing.path(data, f"curve {'stroke-best' if best else 'stroke-line'}", stroke=3.5 if best else 1)


def search_name(inspection: Record) -> str:
    """The kind of search, with its size."""
    search = inspection.search
    if search.temperature:
        truncation = f", top {search.top_k}" if search.top_k else ""
        truncation += f", top p {search.top_p}" if search.top_p < 1 else ""
        return f"Sampling: {search.n_best} samples at temperature {search.temperature}{truncation}"
    if search.force_words:
        return f"Grid beam search: beams of {search.beam_size} for {', '.join(search.force_words)}"
    groups = f" in {search.groups} groups" if search.groups > 1 else ""
    return f"Beam search: beam {search.beam_size}{groups}"


def hypothesis_details(inspection: Record, number: int) -> str:
    """The log-probability; for a sample also its token's probability, for a grid search the tokens met."""
    node = inspection.nodes[number]
    log_prob = decimal(node.log_probability)
    if inspection.met:
        return f"{log_prob} · {inspection.met[number].tokens} met"
    drawn = inspection.drawn.get(-1 if node.parent is None else node.parent, ())
    shares = [math.exp(candidate.log_probability) for candidate in drawn if candidate.token == node.token]
    return f"{log_prob} · p {shares[0]:.2f}" if shares else log_prob


def hypothesis_title(inspection: Record, number: int) -> str:
    """What a hypothesis scores, why it ended, and the likeliest of its next tokens with probabilities."""
    node, following = inspection.nodes[number], inspection.candidates.get(number, ())
    lines = [
        visible(node.token),
        f"log-probability: {node.log_probability:.2f} nats",
        f"score: {node.score:.3f}",
        f"ended: {node.end}" if node.end else "extended",
    ]
    if node.cut_by is not None:
        replacement = inspection.nodes[node.cut_by]
        lines.append(f"in its place: {visible(replacement.token)}, {replacement.log_probability:.2f} nats")
    if inspection.met:
        words = ", ".join(inspection.met[number].words) or "none"
        lines.append(f"forced tokens met: {inspection.met[number].tokens}; whole words: {words}")
    for name, tokens in (("drawn from", inspection.drawn.get(number, ())), ("next", following)):
        shares = [
            (visible(candidate.token), math.exp(candidate.log_probability))
            for candidate in tokens[:NEXT_TOKENS]
        ]
        lines += [f"{name}: {token} {share:.3f}" for token, share in shares]
    return "\n".join(lines)


def draw_hypothesis(drawing: Drawing, node: Node, details: str, title: str, place: Place, best: bool) -> None:
    """A box with the last token and the details."""
    x, y, width = place
    token = visible(node.token)
    with drawing.group(title=title):
        draw_box(drawing, x, y, width, BOX_HEIGHT, node.end, best)
        drawing.label(x + 8, y + 16, token, 13, "fill-ink", bold=best)
        drawing.text(x + 8, y + 30, details, 10.5, "fill-faint")


def draw_box(
    drawing: Drawing, x: float, y: float, width: float, height: float, end: str | None, best: bool
) -> None:
    """The box of a hypothesis: thick if it is of the translation or finished, dashed if it was dropped."""
    line, stroke = ("ink", 2) if end == "finished" else ("line", 1)
    line, stroke = ("best", 3) if best else (line, stroke)
    dashed = end not in (None, "finished")
    drawing.rectangle(x, y, width, height, f"fill-box stroke-{line}", radius=5, stroke=stroke, dashed=dashed)


def draw_dot(drawing: Drawing, right: float, top: float) -> None:
    """A dot in the upper right corner of a box."""
    drawing.rectangle(right - 11, top + 4, 7, 7, "fill-best", radius=3.5)


def tree_key(drawing: Drawing, x: float, y: float, drawn: bool) -> None:
    """What the boxes mean."""
    rows: list[tuple[str, str | None, bool]] = [
        ("on the path of the translation", None, True),
        ("finished with the end token", "finished", False),
        ("extended", None, False),
        ("not extended; its tooltip says why", "dropped", False),
    ]
    for row, (words, end, best) in enumerate(rows):
        draw_box(drawing, x, y + row * 24, 30, 16, end, best)
        drawing.text(x + 40, y + row * 24 + 12, words, css="fill-faint")
    unit = "Numbers are log-probabilities of the hypothesis, in nats."
    unit += " p is the probability that a token was drawn with." if drawn else ""
    drawing.text(x, y + len(rows) * 24 + 14, unit, css="fill-faint")
