"""What an option needs and excludes: it stands beside the field of a settings class, and one check reads it.

    top_k: int = option(0, Needs("temperature", "is for sampling"), at_least=0)

Names in braces in the sentences are those of fields (`OptionError`).
"""

import functools
import typing
from collections.abc import Collection
from dataclasses import dataclass, field, fields
from typing import Any

from dragoman.system.errors import OptionError
from dragoman.system.toml import check_bounds

BOUNDS = ("at_least", "above", "at_most", "below")


@dataclass(frozen=True)
class Needs:
    """The option has an effect only with another one."""

    other: str
    because: str = ""
    """What the option is, such as "is for sampling", if its name does not say it."""

    def check(self, settings: Any, name: str, given: Collection[str]) -> None:
        """Raise `OptionError` if the other option is not in use."""
        if not is_in_use(settings, self.other, given):
            default = settings.__dataclass_fields__[self.other].default
            above = f" above {default:g}" if type(default) in (int, float) else ""
            because = f"{self.because} and " if self.because else ""
            raise OptionError(
                f"{{{name}}} {because}needs {{{self.other}}}{above}; give both, or leave {{{name}}} out."
            )


@dataclass(frozen=True)
class Excludes:
    """The option and any of these others contradict each other."""

    others: tuple[str, ...]
    because: str

    def check(self, settings: Any, name: str, given: Collection[str]) -> None:
        """Raise `OptionError` if one of the other options is in use."""
        for other in self.others:
            if is_in_use(settings, other, given):
                raise OptionError(
                    f"{{{name}}} and {{{other}}} exclude each other: {self.because}; leave one of them out."
                )


@dataclass(frozen=True)
class OnlyWith:
    """The option is for these values of another one."""

    other: str
    values: tuple[str, ...]

    def check(self, settings: Any, name: str, given: Collection[str]) -> None:  # noqa: ARG002
        """Raise `OptionError` if the other option has another value."""
        if (value := getattr(settings, self.other)) not in self.values:
            values = " or ".join(filter(None, (", ".join(self.values[:-1]), self.values[-1])))
            but = f", and not {value}" if value else ""
            raise OptionError(
                f"{{{name}}} is for {{{self.other}}} {values}{but}; give that, or leave {{{name}}} out."
            )


Rule = Needs | Excludes | OnlyWith


def option(
    default: Any,
    *rules: Rule,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    off: Any = None,
) -> Any:
    """A field of a settings class with the bounds of its numbers, and its rules.

    The value `off` turns the option off, as None and "" do, and a default that is 0, empty or False.
    """
    bounds = {"at_least": at_least, "above": above, "at_most": at_most, "below": below}
    return field(default=default, metadata={"rules": rules, "off": off, **bounds})


def is_in_use(settings: Any, name: str, given: Collection[str]) -> bool:
    """Whether an option has an effect: it is not off, and it is `given` or not the default."""
    value, setting = getattr(settings, name), settings.__dataclass_fields__[name]
    if value in (None, "", setting.metadata.get("off")):
        return False
    return bool(value != setting.default or (setting.default and name in given))


@functools.cache  # settings are made for each request of a server
def stated(settings: type, what: str) -> dict[str, Any]:
    """The rules, or the bounds of a kind, that stand beside fields, by their names."""
    known = fields(typing.cast(Any, settings))
    return {each.name: each.metadata[what] for each in known if each.metadata.get(what) not in (None, ())}


def check_options(settings: Any) -> None:
    """Raise `OptionError` as `check_values` and `check_rules`."""
    check_values(settings)
    check_rules(settings)


def check_values(settings: Any) -> None:
    """Raise `OptionError` for numbers that are out of bounds, and `DragomanError` as `check_types`."""
    check_bounds(settings, **{kind: stated(settings.__class__, kind) for kind in BOUNDS})


def check_rules(settings: Any, given: Collection[str] = ()) -> None:
    """Raise `OptionError` for options, `given` or not the defaults, that break one of their rules."""
    rules = [
        (rule, name)
        for name, rules in stated(settings.__class__, "rules").items()
        if is_in_use(settings, name, given)
        for rule in rules
    ]
    for rule, name in sorted(rules, key=lambda pair: not isinstance(pair[0], Excludes)):
        rule.check(settings, name, given)  # first those that no other option can satisfy
