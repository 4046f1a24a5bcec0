"""The claims and verdicts that the inspection page shows, from the recorded results of the lab.

    python -m tools.lab_claims

Writes src/dragoman/inspection/page/claims.js: the title, the claim and the verdict in experiments/lab of each
experiment that lab.js names. A test compares the two.
"""

import json
import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "experiments" / "lab", ROOT / "src" / "dragoman" / "inspection" / "page"
HEAD = "// Claims that the lab tests, and their verdicts: written by tools/lab_claims.py.\n\n"


def named() -> list[str]:
    """The experiments that lab.js names, in alphabetical order."""
    lists = re.findall(r'^  "?[a-z-]+"?: \[(.*)\],$', (PAGE / "lab.js").read_text("utf-8"), re.MULTILINE)
    return sorted({name for listed in lists for name in re.findall(r'"([a-z0-9-]+)"', listed)})


def claims() -> str:
    """The text of claims.js."""
    entries = []
    for name in named():
        record = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
        values = (f"    {key}: {literal(record[key])},\n" for key in ("title", "claim", "verdict"))
        entries.append(f'  "{name}": {{\n{"".join(values)}  }},\n')
    return f"{HEAD}export const CLAIMS = {{\n{''.join(entries)}}};\n"


def literal(text: str) -> str:
    """A string of JavaScript, of several lines if it is long."""
    parts = textwrap.wrap(text, 90, drop_whitespace=False, break_on_hyphens=False)
    return " +\n      ".join(json.dumps(part, ensure_ascii=False) for part in parts)


if __name__ == "__main__":
    (PAGE / "claims.js").write_text(claims(), "utf-8")
