"""`dragoman completion`: a script that completes verbs, options and their values in a shell."""

from collections.abc import Iterable
from dataclasses import dataclass
from shlex import quote
from typing import Any, Literal

from dragoman.cli.parsing import SHORT, Arguments, Command, Option, settings_from

BASH = """\
_dragoman() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{verbs}"
    elif [[ $current == -* ]]; then
        case ${{COMP_WORDS[1]}} in
{options}
        esac
    else
        case "${{COMP_WORDS[1]}} $before" in
{values}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _dragoman dragoman"""
# The first call of an autoloaded function runs the whole file, which has to end with a call of the function.
ZSH = """\
#compdef dragoman
_dragoman() {{
    local -a choices
    if (( CURRENT == 2 )); then
        choices=(
{verbs}
        )
        _describe -t verbs verb choices
    elif [[ $words[CURRENT] == -* ]]; then
        case $words[2] in
{options}
        esac
        _describe -o -t options option choices
    else
        case "$words[2] $words[CURRENT-1]" in
{values}
            *) _files; return;;
        esac
        _describe -t values value choices
    fi
}}
if [[ $funcstack[1] == _dragoman ]]; then
    _dragoman "$@"
else
    (( $+functions[compdef] )) || {{ autoload -U compinit && compinit; }}
    compdef _dragoman dragoman
fi"""
HELP = {"--help": "Print the common options", "--help-all": "Print every option"}
"""The options that every verb has."""


@dataclass(frozen=True)
class Completion:
    """Print a script that completes verbs, options and their values in a shell."""

    shell: Literal["bash", "zsh", "fish"]
    """The shell: bash, zsh or fish."""


def completion_script(shell: str, commands: Iterable[Command[Any]]) -> str:
    """The script of a shell for the commands."""
    commands = list(commands)
    if shell == "bash":
        return bash(commands)
    return zsh(commands) if shell == "zsh" else fish(commands)


def shown_options(command: Command[Any]) -> dict[str, Option]:
    """The options that `--help-all` shows, by their flags: of a switch the one that changes its default."""
    options = {}
    for name, option in command.options.items():
        if option.help and name not in command.positional:
            is_on = option.kinds == (bool,) and bool(option.default)
            options[f"--no-{option.flag[2:]}" if is_on else option.flag] = option
    return options


def summaries(command: Command[Any]) -> dict[str, str]:
    """The first sentence of the help of each flag."""
    return HELP | {flag: command.help_text(option, False) for flag, option in shown_options(command).items()}


def listed_values(command: Command[Any]) -> dict[str, str]:
    """The values that may follow a word, if they are listed: after an option, or after the verb itself."""
    values = {}
    for name, option in command.options.items():
        if option.choices and name not in command.positional[1:]:
            word = command.name if name in command.positional else option.flag
            values[word] = " ".join(option.choices)
    return values


def bash(commands: list[Command[Any]]) -> str:
    """The script of bash, which shows no help beside an option."""
    options = "\n".join(
        f'            {command.name}) words="{" ".join(summaries(command))}";;' for command in commands
    )
    values = "\n".join(
        f'            "{command.name} {word}") words="{values}";;'
        for command in commands
        for word, values in listed_values(command).items()
    )
    return BASH.format(verbs=" ".join(command.name for command in commands), options=options, values=values)


def zsh(commands: list[Command[Any]]) -> str:
    """The script of zsh. It can be evaluated, and it can be a file `_dragoman` in a folder of `$fpath`."""
    verbs = "\n".join(f"            {quote(f'{command.name}:{command.summary}')}" for command in commands)
    values = "\n".join(
        f'            "{command.name} {word}") choices=({values});;'
        for command in commands
        for word, values in listed_values(command).items()
    )
    return ZSH.format(verbs=verbs, options="\n".join(map(zsh_case, commands)), values=values)


def zsh_case(command: Command[Any]) -> str:
    """The options of a verb, each with its help, as a case of `_dragoman`."""
    lines = (f"                {quote(f'{flag}:{text}')}" for flag, text in summaries(command).items())
    return "\n".join([f"            {command.name}) choices=(", *lines, "            );;"])


def fish(commands: list[Command[Any]]) -> str:
    """The script of fish: a line for each verb, and for each option of it."""
    lines = []
    for command in commands:
        first = "complete -c dragoman -f -n __fish_use_subcommand"
        lines.append(f"{first} -a {command.name} -d {quoted(command.summary)}")
        options, condition = shown_options(command), f"-n '__fish_seen_subcommand_from {command.name}'"
        listed = listed_values(command)
        if command.name in listed:
            lines.append(f"complete -c dragoman {condition} -f -a {quoted(listed[command.name])}")
        for flag, text in summaries(command).items():
            name = options[flag].field.name if flag in options else ""
            short = f" -s {SHORT[name][1]}" if name in SHORT else ""
            values = f" -x -a {quoted(listed[flag])}" if flag in listed else ""
            lines.append(f"complete -c dragoman {condition} -l {flag[2:]}{short}{values} -d {quoted(text)}")
    return "\n".join(lines)


def quoted(text: str) -> str:
    """The text as one word of fish, whose quotes differ from those that `shlex.quote` makes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def completion(arguments: Arguments) -> None:
    """Print the script."""
    from dragoman.cli.verbs import commands

    print(completion_script(settings_from(Completion, arguments).shell, commands().values()))


COMMAND = Command(
    "completion",
    "Print a script that completes verbs, options and their values in bash, zsh or fish.",
    completion,
    Completion,
    example='eval "$(dragoman completion bash)"',
    arguments="SHELL",
    positional=("shell",),
    metavars={"shell": "SHELL"},
    groups={"options": ("shell",)},
    notes="To keep it, add the line of the example, with the name of your shell, to ~/.bashrc or ~/.zshrc.\n"
    "For fish, run\n  dragoman completion fish > ~/.config/fish/completions/dragoman.fish",
)
