"""Options of a verb from a TOML file and from variables of the environment, besides the command line.

All three have the names of the settings' fields: `--max-tokens`, `DRAGOMAN_MAX_TOKENS`, and `max_tokens` in
the table [server] of a file.
"""

import difflib
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.cli.parsing import Arguments, Command, Option, settings_from
from dragoman.native.build import split_words
from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.toml import flat_values, read_toml

PREFIX = "DRAGOMAN_"
OTHERS = ("DRAGOMAN_COMPILE", "DRAGOMAN_CXXFLAGS", "DRAGOMAN_SERVE")
"""Variables with this prefix that are no options: `native/build.py` and `serving/server.py` read them."""
SWITCH = {"true": True, "false": False}


@dataclass(frozen=True)
class Configuration:
    """The values of options by the names of their fields, and what an error calls each option."""

    values: Arguments
    names: Mapping[str, str]


def configured(command: Command[Any], arguments: Arguments, only_typed: Collection[str]) -> Configuration:
    """The options of the command line, of the environment, and of the file that `config` names.

    The command line wins over the environment, and that over the file. The options `only_typed` are those of
    the command line alone. Raises `DragomanError` for an unknown key or variable, and for a wrong value.
    """
    options = {name: option for name, option in command.options.items() if name not in only_typed}
    variables = {name: f"{PREFIX}{name.upper()}" for name in options}
    refuse_unknown(variables.values(), os.environ)
    environment = {
        name: value_of(options[name], variable)
        for name, variable in variables.items()
        if variable in os.environ and not is_of_kubernetes(variable, os.environ)
    }
    flags = {name: option.flag for name, option in command.options.items()}
    names = flags | {name: variables[name] for name in environment.keys() - arguments.keys()}
    path = arguments.get("config", environment.get("config"))
    if path is None:
        return Configuration(environment | arguments, names)
    values = read_configuration(path, command.settings(), {*only_typed, "config"})
    names |= {name: f"{name} of {path}" for name in values.keys() - environment.keys() - arguments.keys()}
    return Configuration(values | environment | arguments, names)


def configured_settings(command: Command[Any], configuration: Configuration) -> Any:
    """The settings of a verb. Raises `DragomanError`, which names each option by where it comes from."""
    try:
        return settings_from(command.settings, configuration.values)
    except OptionError as error:
        raise DragomanError(error.told(configuration.names)) from error


def read_configuration(path: Path, settings: Any, excluded: Collection[str]) -> Arguments:
    """The options in a file. Raises `DragomanError` for an excluded one, and as `flat_values`."""
    values = flat_values(settings, read_toml(path), str(path))
    if wrong := next((name for name in values if name in excluded), None):
        raise DragomanError(f"{path} has {wrong!r}, which is for the command line alone; leave it out.")
    return values


def value_of(option: Option, variable: str) -> Any:
    """The value of an option's variable; a list has words as the shell divides them.

    Raises `DragomanError` if it is not of the option's type.
    """
    text = os.environ[variable]
    words = split_words(variable) if option.is_list else [text]
    try:
        if option.kinds == (bool,):
            return switch(text)
        values = tuple(map(option.converted, words))
    except ValueError as wanted:
        raise DragomanError(f"{variable} is {text!r}; it has to be {wanted}") from wanted
    return values if option.is_list else values[0]


def switch(text: str) -> bool:
    """A switch. Raises `ValueError` with what is wanted."""
    if text not in SWITCH:
        raise ValueError("true or false.")
    return SWITCH[text]


def refuse_unknown(known: Collection[str], environment: Mapping[str, str]) -> None:
    """Raise `DragomanError` for a variable with the prefix that is no option; its value is not shown."""
    for variable in environment:
        if not variable.upper().startswith(PREFIX) or variable in (*known, *OTHERS):
            continue
        if not is_of_kubernetes(variable, environment):
            options = {name.removeprefix(PREFIX): name for name in known}
            near = difflib.get_close_matches(variable.upper().removeprefix(PREFIX), options, n=3)
            hint = (
                f"Did you mean {' or '.join(options[name] for name in near)}?"
                if near
                else "dragoman serve --help-all lists the options."
            )
            raise DragomanError(f"There is no option for the variable {variable} of the environment. {hint}")


def is_of_kubernetes(variable: str, environment: Mapping[str, str]) -> bool:
    """Whether Kubernetes has set a variable for a service whose name begins with dragoman.

    It gives every container such variables: DRAGOMAN_SERVICE_HOST, and an address as DRAGOMAN_PORT.
    """
    suffix = "_SERVICE_HOST"
    services = [re.escape(name.removesuffix(suffix)) for name in environment if name.endswith(suffix)]
    for service in services:
        if re.fullmatch(rf"{service}_(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_\w+)", variable):
            return True
        if re.fullmatch(rf"{service}_PORT", variable) and "://" in environment[variable]:
            return True
    return False
