"""The pages "Move from ..." and tools/docs/moves.toml name the same options of other toolkits."""

import re
import subprocess
from pathlib import Path

import pytest

from dragoman.cli.verbs import commands
from tools.docs import check_moves
from tools.docs.check_moves import TOOLKITS, defines, main, missing

PAGES = {
    path.stem.removeprefix("move-from-"): path.read_text(encoding="utf-8")
    for path in (Path(__file__).parents[1] / "docs" / "how-to").glob("move-from-*.md")
}
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def names(page: str) -> set[str]:
    """The options and values of another toolkit: in code that is not a command of ours, and in examples."""
    code = re.findall(r"`([^`]+)`", FENCE.sub("", page))
    theirs = [span for span in code if span.split()[0] not in commands()]
    examples = re.findall(r"^#.*", "\n".join(FENCE.findall(page)), re.MULTILINE)
    found = {name for span in theirs for name in re.findall(r"(?<![\w./-])-{0,2}[A-Za-z][\w./-]+", span)}
    return found.union(re.findall(r"(?<= )--[a-z-]+", "\n".join(examples)))


@pytest.mark.parametrize("toolkit", PAGES)
def test_what_a_page_names_for_another_toolkit_was_found_in_its_source_code(toolkit):
    assert names(PAGES[toolkit]) == {name for file in TOOLKITS[toolkit]["files"].values() for name in file}


@pytest.mark.parametrize("toolkit", PAGES)
def test_a_page_names_the_commit_that_was_read(toolkit):
    about = TOOLKITS[toolkit]
    assert f"{about['version']}, commit {about['commit'][:7]}." in PAGES[toolkit]


def test_names_are_found_in_tables_sentences_and_examples():
    page = "```sh\n# theirs --max-tokens 9\ndragoman train --out DIR\n```\n"
    page += "| `--a-b 'c d'` | `train --seed N` |\n"
    page += "Theirs are `data: level: bpe` and `-n_best 0.9:1e-9 A B 100Ku`."
    assert names(page) == {"--max-tokens", "--a-b", "data", "level", "bpe", "-n_best"}


@pytest.mark.parametrize(
    "text",
    [
        'add("--save-dir", default="out")',
        "add('-save_dir')",
        'add("--save-dir,-s")',
        "save_dir: str",
        'settings["save_dir"]',
        '"save-dir = package:main"',
        "OUTPUT_NAME save-dir)",
    ],
)
def test_definitions_of_an_option(text):
    assert defines(text, "--save-dir")
    assert not defines(text, "--save")
    assert not defines(text, "--dir")


def test_what_a_clone_lacks_is_reported(tmp_path, monkeypatch, capsys):
    clone = tmp_path / "toy"
    clone.mkdir()
    (clone / "options.py").write_text('add("--beam")\n', encoding="utf-8")
    git = ["git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "Options"]):
        subprocess.run([*git, *arguments], check=True)
    files = {"options.py": ["--beam", "--lenpen", "options.py"], "gone.py": ["--seed"]}
    monkeypatch.setattr(check_moves, "TOOLKITS", {"toy": {"commit": "HEAD", "files": files}})
    lenpen, gone = missing("toy", clone, "HEAD")
    assert lenpen == "options.py: --lenpen"
    assert re.fullmatch(r"gone\.py: .*gone\.py.*", gone)  # git's message
    monkeypatch.setattr("sys.argv", ["check_moves", str(tmp_path)])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code
    assert capsys.readouterr().out == f"toy: 2 missing\n    {lenpen}\n    {gone}\n"
