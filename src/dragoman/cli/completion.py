"""`dragoman completion`: a script that completes verbs and options in a shell."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from dragoman.cli.parsing import SHORT, Command, Given, settings_from

BASH = """\
_dragoman() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} words
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{verbs}"
    elif [[ $current == -* ]]; then
        case ${{COMP_WORDS[1]}} in
{cases}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _dragoman dragoman"""
ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


@dataclass(frozen=True)
class Completion:
    """Print a script that completes verbs and options in a shell."""

    shell: Literal["bash", "zsh", "fish"]
    """The shell: bash, zsh or fish."""


def completion_script(shell: str, commands: Iterable[Command[Any]]) -> str:
    """The script of a shell for the commands."""
    commands = list(commands)
    if shell == "fish":
        return "\n".join(fish_lines(commands))
    flags = {each.name: ["--help", "--help-all", *flags_of(each)] for each in commands}
    cases = "\n".join(f'            {name}) words="{" ".join(each)}";;' for name, each in flags.items())
    bash = BASH.format(verbs=" ".join(flags), cases=cases)
    return ZSH + bash if shell == "zsh" else bash


def flags_of(command: Command[Any]) -> list[str]:
    """The long forms of a command's options."""
    return [option.flag for name, option in command.options.items() if name not in command.positional]


def fish_lines(commands: Iterable[Command[Any]]) -> list[str]:
    """A line for each verb, and for each option of it."""
    lines = []
    for command in commands:
        lines.append(
            f"complete -c dragoman -f -n __fish_use_subcommand -a {command.name} -d {quoted(command.summary)}"
        )
        seen = f"-n '__fish_seen_subcommand_from {command.name}'"
        for name, option in command.options.items():
            if name not in command.positional:
                short = f" -s {SHORT[name][1]}" if name in SHORT else ""
                lines.append(
                    f"complete -c dragoman {seen} -l {option.flag[2:]}{short} -d {quoted(option.help)}"
                )
    return lines


def quoted(text: str) -> str:
    """The text as one word of fish."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def completion(given: Given) -> None:
    """Print the script."""
    from dragoman.cli.main import COMMANDS

    print(completion_script(settings_from(Completion, given).shell, COMMANDS.values()))


COMMAND = Command(
    "completion",
    "Print a script that completes verbs and options in bash, zsh or fish.",
    completion,
    Completion,
    example='eval "$(dragoman completion bash)"',
    arguments="SHELL",
    positional=("shell",),
    metavars={"shell": "SHELL"},
    groups={"options": ("shell",)},
    notes="To keep it, add the line of the example to ~/.bashrc or ~/.zshrc; for fish, run\n"
    "  dragoman completion fish > ~/.config/fish/completions/dragoman.fish",
)
