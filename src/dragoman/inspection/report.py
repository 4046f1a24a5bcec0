"""The HTML report of an inspection: one file that opens from disk and loads no other file."""

import base64
import hashlib
import html
import json
from typing import Any

from dragoman.inspection.bundle import PAGE, VENDOR, bundle
from dragoman.inspection.contents import FILE, contents
from dragoman.inspection.record.record import Record
from dragoman.inspection.schema import to_json

DOCUMENT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div id="page"><noscript><p>This report needs JavaScript.</p></noscript></div>
<script type="text/plain" id="licenses">{licenses}</script>
<script type="application/json" id="inspection">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def to_html(inspection: Record, layer: int | None = None, head: int | None = None) -> str:
    """The report: views of the beam, attention, positions, the residual stream, masks and the model.

    Its data are the JSON of `schema.to_json`. If the file would be too large with all layers and heads, it
    has those that `contents.contents` chooses for `layer` and `head`, which are counted from 1. The content
    security policy names the script and the style by their hashes and refuses all else, so no text of the
    data can become a script.
    """
    script, style = bundle(PAGE / "file.js"), styles()
    policy = (
        f"default-src 'none'; script-src '{source_hash(script)}'; style-src '{source_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return DOCUMENT.format(
        policy=policy,
        # ASCII alone: a lone surrogate in the sentence could not be written as UTF-8.
        title=html.escape(f"Inspection: {inspection.sentence}").encode("ascii", "xmlcharrefreplace").decode(),
        style=style,
        licenses=licenses(),
        data=json_for_html(to_json(inspection, contents(inspection, FILE, layer, head))),
        script=script,
    )


def styles() -> str:
    """What all pages have in common, and the style of the inspector."""
    return "".join((PAGE / name).read_text("utf-8") for name in ("theme.css", "style.css"))


def source_hash(text: str) -> str:
    """The hash of an inline script or style, as a content security policy names it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"


def json_for_html(table: dict[str, Any]) -> str:
    """JSON in ASCII, without `<`, so that no text in it can end the script element that it stands in."""
    text = json.dumps(table, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def licenses() -> str:
    """The licences of Preact and htm, which the script contains."""
    return "\n\n".join(file.read_text("utf-8") for file in sorted(VENDOR.glob("LICENSE-*")))
