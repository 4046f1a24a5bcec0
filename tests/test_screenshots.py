"""The pictures of the documents are those that `make screenshots` makes."""

import re

import pytest

pytest.importorskip("playwright", reason="Playwright is missing: pip install playwright")

from tests.test_docs import DOCS, TEXTS
from tools import screenshots

MAX_BYTES = 150_000


def used_pictures() -> set[str]:
    """The pictures of the documents, as paths from docs/."""
    found = set()
    for path in TEXTS:
        for link in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", path.read_text("utf-8")):
            found.add(str((path.parent / link).resolve().relative_to(DOCS)))
    return found


def test_every_picture_is_made_and_used():
    used = used_pictures()
    dark = {name.replace(".png", "-dark.png") for name in used if name.endswith(".png")}
    files = {str(path.relative_to(DOCS)) for path in [*DOCS.glob("*.*g"), *(DOCS / "pictures").iterdir()]}
    assert used | dark == screenshots.names() == files


def test_pictures_are_small():
    assert all((DOCS / name).stat().st_size < MAX_BYTES for name in screenshots.names())


@pytest.mark.parametrize("name", list(screenshots.RECORDED))
def test_no_recording_shows_an_error(name):
    picture = (screenshots.PICTURES / f"{name}.svg").read_text("utf-8")
    lines = re.findall(r"<text[^>]*>([^<]*)</text>", picture)
    assert len(lines) > 2 * len(screenshots.RECORDED[name])
    assert not [line for line in lines if line.startswith(("dragoman: ", "curl: ")) or "Traceback" in line]


@pytest.mark.long
def test_a_command_that_fails_makes_no_recording(tmp_path):
    with pytest.raises(SystemExit, match="no such file"):
        screenshots.output_of("dragoman doctor one other", tmp_path)


def test_a_terminal_shows_each_command_and_its_output():
    long = "word " * 40
    picture = screenshots.terminal("name", ["one", "two"], ["first\n", f"{long}\n" + "n\n" * 80])
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", picture)
    assert texts[:4] == ["$ one", "first", "$ two", texts[3]]
    assert " ".join(text.strip() for text in texts[3:6]) == long.strip()
    assert max(map(len, texts)) <= screenshots.COLUMNS
    assert texts.count("…") == 1
    assert texts.count("n") == screenshots.FIRST + screenshots.LAST - 1
