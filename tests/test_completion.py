"""`dragoman completion`: each script offers what the help shows, and its shell completes with it."""

import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli import completion
from dragoman.cli import main as cli
from tests.conftest import MAX_SECONDS

SHELLS = ("bash", "zsh", "fish")


def script_of(shell):
    return completion.completion_script(shell, cli.commands().values())


def printed_by(shell, text):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is missing: apt-get install {shell}")
    own = ["-f"] if shell == "zsh" else []  # no settings of the user
    done = subprocess.run(
        [shell, *own, "-c", text], capture_output=True, text=True, timeout=MAX_SECONDS, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_of_completion_has_the_verbs_and_the_options_that_the_help_shows(shell):
    script = script_of(shell)
    for command in cli.commands().values():
        assert command.name in script
        help_text = command.parser(everything=True).format_help()
        shown = set(re.findall(r"^  (?:-\w\b[^,\n]*, )?(--[\w-]+)", help_text, re.M))
        assert {*completion.summaries(command)} == shown
        for flag in shown:
            assert (f"-l {flag[2:]} " if shell == "fish" else flag) in script


@given(st.text())
def test_fish_reads_a_quoted_text_as_it_is(text):
    """Within single quotes of fish a backslash escapes itself and the quote alone."""
    quoted = completion.quoted(text)
    inner = re.fullmatch(r"'((?:[^\\']|\\[\\'])*)'", quoted, re.DOTALL)
    assert inner is not None
    assert re.sub(r"\\(.)", r"\1", inner[1], flags=re.DOTALL) == text


def completed_by_bash(*words):
    state = f"COMP_WORDS=({' '.join(words)})\nCOMP_CWORD={len(words) - 1}"
    line = f'{script_of("bash")}\n{state}\n_dragoman\necho "${{COMPREPLY[@]}}"'
    return printed_by("bash", line)[0].split()


def completed_by_fish(*words):
    lines = printed_by("fish", f"{script_of('fish')}\ncomplete -C '{' '.join(words)}'")
    return [line.partition("\t")[0] for line in lines]


def completed_by_zsh(*words):
    """What the function offers to zsh, which chooses those that begin as the last word."""
    offers = "compdef() { : }\n_describe() { print -l -- ${(@P)@[-1]} }\n_files() { : }\n"
    state = f"words=({' '.join(words)}) CURRENT={len(words)}\n_dragoman"
    lines = printed_by("zsh", f"{offers}{script_of('zsh')}\n{state}")
    return [
        name for name in (line.partition(":")[0] for line in lines) if name.startswith(words[-1].strip("'"))
    ]


def test_the_verb_prints_the_script_of_a_shell(command_line):
    for shell in SHELLS:
        assert command_line("completion", shell)[:2] == (0, script_of(shell) + "\n")


@pytest.mark.parametrize("completed", [completed_by_bash, completed_by_zsh, completed_by_fish])
def test_a_shell_completes_verbs_and_options(completed):
    assert sorted(completed("dragoman", "tra")) == ["train", "translate"]
    assert completed("dragoman", "translate", "--beam") == ["--beam-size"]
    assert completed("dragoman", "translate", "--no-na") == ["--no-native"]  # it is on by default
    assert completed("dragoman", "translate", "--nati") == []
    assert completed("dragoman", "score", "--beam") == []


@pytest.mark.parametrize("completed", [completed_by_bash, completed_by_zsh, completed_by_fish])
def test_a_shell_completes_values_that_are_listed(completed):
    assert sorted(completed("dragoman", "train", "--precision", "b")) == ["bfloat16"]
    assert sorted(completed("dragoman", "train", "--precision", "''")) == ["bfloat16", "float32"]
    assert completed("dragoman", "completion", "z") == ["zsh"]


def test_every_listed_value_is_offered_after_its_option():
    for command in cli.commands().values():
        for name, option in command.options.items():
            if option.choices and name not in command.positional:
                assert completion.listed_values(command)[option.flag].split() == [*option.choices]


def test_zsh_loads_the_function_from_a_file(tmp_path):
    (tmp_path / "_dragoman").write_text(script_of("zsh"), "utf-8")
    offers = "_describe() { print -l -- ${(@P)@[-1]} }\n"
    loaded = f"fpath=({tmp_path} $fpath)\nautoload -U _dragoman\nwords=(dragoman tra) CURRENT=2\n"
    for calls in (1, 2):  # the first call loads it
        lines = printed_by("zsh", offers + loaded + "_dragoman\n" * calls)
        assert lines == [f"{each.name}:{each.summary}" for each in cli.commands().values()] * calls
