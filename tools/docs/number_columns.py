"""Tables of the site: columns of numbers are aligned at the right."""

import re

from docutils import nodes
from sphinx.transforms import SphinxTransform

NUMBER = re.compile(r"[≈~<>+−-]*\d[\d., ]*(\s?[%×KMG]?B?|e[+−-]?\d+)( (±|\(|to ).*)?")
NO_NUMBER = {"", "—", "-"}


def is_number(text: str) -> bool:
    """Whether a cell is a number, perhaps with a sign, a unit and a spread, or a range of numbers."""
    return NUMBER.fullmatch(text) is not None


class NumberColumns(SphinxTransform):
    """Gives the cells of each column of numbers the class `number`. Some of its cells may have none."""

    default_priority = 500

    def apply(self, **_: object) -> None:
        for body in self.document.findall(nodes.tbody):
            rows = [[cell for cell in row.children if isinstance(cell, nodes.entry)] for row in body.children]
            for cells in zip(*rows, strict=False):
                texts = {cell.astext().strip() for cell in cells} - NO_NUMBER
                if texts and all(map(is_number, texts)):
                    for cell in cells:
                        cell["classes"].append("number")
