"""Every picture of the README and the site, from models that run: `make screenshots RUN=… TEXT=…`.

RUN is a finished run from English to German; the folder TEXT has train.en, train.de, test.en and test.de. The
quickstart is trained in the folder of work, unless it is there.
"""

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from dragoman.inspection.views.drawing import Drawing, columns_of
from tests.browser import CHROMIUM
from tests.servers import serving

DOCS = Path(__file__).parents[1] / "docs"
PICTURES = DOCS / "pictures"
COLUMNS, SIZE, LEADING = 92, 13, 19
FIRST, LAST = 8, 44  # lines of a long output that are shown
SENTENCE = "A man in a blue shirt is standing on a ladder cleaning a window."
THEMES = {"light": "", "dark": "-dark"}
"""What follows the name of a screenshot in each theme."""

DRAWN = {
    "beam-tree.svg": 'inspect runs/ende "A dog runs in the snow." --beam-size 3 --show beam',
    "figure-3.svg": f'figure figure-3 runs/ende "{SENTENCE}" --query cleaning',
}
"""Pictures that a command writes. They follow the reader's theme."""

RECORDED = {
    "quickstart": ["dragoman quickstart --minutes 3"],
    "spelling": [
        "echo dragoman | dragoman translate runs/quickstart",
        "echo dragoman | dragoman translate runs/quickstart --n-best 3 --json",
    ],
    "doctor": ["dragoman doctor train.en train.de --test-source test.en --test-target test.de"],
    "train": ["dragoman train train.en train.de --preset tiny --minutes 5 --out runs/new"],
    "evaluate": ["dragoman evaluate runs/ende --source test.en --target test.de"],
    "requests": [
        "curl -s localhost:8000/ready",
        """curl -s localhost:8000/v1/translate --json '{"text": "A man rides a bike."}'""",
        "curl -s localhost:8000/translate "
        """--json '{"q": "A man rides a bike.", "source": "en", "target": "de"}'""",
    ],
}
"""Recordings of a terminal: commands, which are shown with what they print."""


# ---- terminals


def terminal(name: str, commands: list[str], outputs: list[str]) -> str:
    """Commands and what they printed, as a picture. Long lines are wrapped."""
    drawing = Drawing(name, "Terminal", "; ".join(commands))
    drawing.parts.clear()  # a terminal shows its own text alone
    y = 16
    for command, output in zip(commands, outputs, strict=True):
        for line, bold in [(f"$ {command}", True), *((line, False) for line in shortened(output))]:
            for part in wrapped(line):
                y += LEADING
                drawing.text(16, y, part, SIZE, bold=bold)
        y += LEADING // 2
    drawing.rectangle(8, 8, 0.62 * SIZE * COLUMNS + 16, y + 4, "fill-box stroke-grid", radius=6)
    drawing.parts.insert(0, drawing.parts.pop())  # behind the text
    return drawing.svg().replace("system-ui,sans-serif", "ui-monospace,Menlo,Consolas,monospace")


def shortened(output: str) -> list[str]:
    """The lines of an output; of a long one the first and the last."""
    lines = output.splitlines()
    return lines if len(lines) <= FIRST + LAST else [*lines[:FIRST], "…", *lines[-LAST:]]


def wrapped(line: str) -> list[str]:
    """A line in parts that fit the terminal; the later ones are indented."""
    if columns_of(line) <= COLUMNS:
        return [line]
    return textwrap.wrap(line, COLUMNS, subsequent_indent="    ", break_on_hyphens=False)


def output_of(command: str, work: Path) -> str:
    """What a command prints on both streams. Exits if it fails; a doctor with findings ends with 1."""
    done = subprocess.run(  # noqa: S603
        ["/bin/bash", "-c", command],
        cwd=work,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode not in {0, int(command.startswith("dragoman doctor "))}:
        sys.exit(f"{command} ended with {done.returncode}: {done.stdout}")
    return done.stdout


def environment() -> dict[str, str]:
    """Where `dragoman` is this Python's, and a terminal has so many columns."""
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": str(COLUMNS),
    }


def interrupted(command: str, work: Path) -> str:
    """What a training prints until its first validation, where it is interrupted, and after that."""
    shutil.rmtree(work / "runs" / "new", ignore_errors=True)  # else it would be resumed
    process = subprocess.Popen(  # noqa: S603
        shlex.split(command),
        cwd=work,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines = []
    with process:
        for line in process.stdout:
            lines.append(line)
            if line.startswith("Validation"):
                lines.append("^C\n")
                process.send_signal(signal.SIGINT)
                break
        lines += process.stdout
    return "".join(lines)


def trained(command: str, work: Path) -> str:
    """What the quickstart prints: now, or when it was trained."""
    log = work / "quickstart.txt"
    if not log.exists():
        log.write_text(output_of(command, work), "utf-8")
    return log.read_text("utf-8")


# ---- pages


def translation(page: Page, address: str) -> None:
    """The page with a text, its translation, and the alternatives of a word."""
    page.goto(address)
    page.wait_for_selector(".languages select:not([disabled])")
    page.fill(
        "textarea",
        "A man is riding a bike.\n\nTwo dogs are running through the snow. A girl is sitting on a bench.",
    )
    page.locator(".words [data-word]", has_text="Fahrrad").first.click()
    page.wait_for_selector("text=/^\\d+ %$/")


def spelling(page: Page, address: str) -> None:
    """The page of the quickstart with two words."""
    page.goto(address)
    page.wait_for_selector(".languages select:not([disabled])")
    page.fill("textarea", "dragoman\nattention")
    page.wait_for_selector("text=Look inside")


def view_of(
    sentence: str, tab: str, then: Callable[[Page], None] | None = None
) -> Callable[[Page, str], None]:
    """The inspection of a sentence, with a tab open."""

    def show(page: Page, address: str) -> None:
        page.goto(f"{address}/inspect#text={sentence.replace(' ', '+')}")
        page.get_by_role("tab", name=tab).click()
        if then:
            then(page)

    return show


def cross_attention(page: Page) -> None:
    """Choose the attention between decoder and encoder."""
    page.get_by_role("button", name="Encoder-decoder attention").click()


Show = Callable[[Page, str], None]
SHOWN: dict[str, tuple[str, int, Show]] = {
    "page": ("ende", 620, translation),
    "pictures/report": ("ende", 1040, view_of(SENTENCE, "Attention", cross_attention)),
    "pictures/spelling-page": ("quickstart", 480, spelling),
    "pictures/spelling-beam": ("quickstart", 760, view_of("dragoman", "Beam")),
}
"""Screenshots: the model that is served, the height of the window, and what is done on the page."""


def screenshots(browser: Browser, address: str, name: str) -> None:
    """A screenshot in both themes."""
    _, height, show = SHOWN[name]
    for theme, suffix in THEMES.items():
        page = browser.new_page(viewport={"width": 1100, "height": height}, color_scheme=theme)
        show(page, address)
        page.mouse.move(0, 0)
        page.wait_for_timeout(500)  # transitions
        page.screenshot(path=DOCS / f"{name}{suffix}.png")
        page.close()


# ---- all of it


def names() -> set[str]:
    """Every picture, as a path from docs/."""
    vectors = {f"pictures/{name}" for name in [*DRAWN, *(f"{name}.svg" for name in RECORDED)]}
    return vectors | {f"{name}{suffix}.png" for name in SHOWN for suffix in THEMES.values()}


def main(run: Path, text: Path, work: Path, only: str) -> None:
    """Make the pictures whose names contain a text."""
    ende = work / "runs" / "ende"
    shutil.rmtree(ende, ignore_errors=True)
    shutil.copytree(run, ende)  # the page shows the name of the folder, and the server follows links
    for path in text.iterdir():
        link = work / path.name
        link.unlink(missing_ok=True)
        link.symlink_to(path.resolve())
    for name, command in DRAWN.items():
        if only in name:
            print(output_of(f"dragoman {command} --out {PICTURES / name}", work), end="")
    special = {"quickstart": trained, "train": interrupted}
    for name, commands in RECORDED.items():
        if only in name and name != "requests":
            write(name, [special.get(name, output_of)(command, work) for command in commands])
    os.chdir(work)
    with sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for model in ("ende", "quickstart"):
            shown = [name for name, (served, *_) in SHOWN.items() if served == model and only in name]
            asks = model == "ende" and only in "requests"
            if not shown and not asks:
                continue
            with serving(f"runs/{model}", "--precision", "int8") as server:
                for name in shown:
                    screenshots(browser, server.address, name)
                if asks:
                    there = server.address.removeprefix("http://")
                    asked = [each.replace("localhost:8000", there) for each in RECORDED["requests"]]
                    write("requests", [output_of(each, work) for each in asked])
        browser.close()


def write(name: str, outputs: list[str]) -> None:
    """Write the recording of a terminal."""
    (PICTURES / f"{name}.svg").write_text(terminal(name, RECORDED[name], outputs), "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--work", type=Path, default=Path("runs/screenshots"), help="a folder of work")
    parser.add_argument("--only", default="", help="a part of the names of the pictures to make")
    given = parser.parse_args()
    main(given.run, given.text, given.work.resolve(), given.only)
