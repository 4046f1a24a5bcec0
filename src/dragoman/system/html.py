"""Small tables for notebooks, which show the HTML that `_repr_html_` of an object gives."""

from collections.abc import Iterable
from html import escape


def html_table(caption: str, rows: Iterable[tuple[str, str]]) -> str:
    """A table with a caption and two columns, names and values. All are texts, not HTML."""
    lines = "".join(
        f'<tr><th style="text-align: left">{escape(name)}</th>'
        f'<td dir="auto" style="text-align: left">{escape(value)}</td></tr>'
        for name, value in rows
    )
    return f"<table><caption>{escape(caption)}</caption>{lines}</table>"
