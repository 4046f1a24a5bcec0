"""The pages of settings: the keys of a recipe and the presets, from the dataclasses."""

import re
from collections.abc import Iterator
from dataclasses import asdict, fields, is_dataclass
from inspect import getdoc
from typing import Any, get_type_hints

from dragoman.cli.parsing import Option, options_of
from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.pipeline.recipe import Recipe
from dragoman.search.settings import SearchSettings
from tools.docs.markdown import escaped, page, table, toctree

KINDS = {
    "N": "whole number",
    "X": "number",
    "TEXT": "text",
    "FILE": "path",
    "<class 'bool'>": "true or false",
}
INTRODUCTION = """\
A recipe is a TOML file with every setting of a run. Every key is also an option of
[`dragoman train`](../command-line/train.md): `d_model` in the table `[model]` is `--d-model`. Options
override the recipe, and both override the preset. Only the tables `[[data.corpus]]`, of
[several corpora](../../data.md), are not options. A key that is left out has its default. Unknown keys are
refused, with the nearest name.

```toml
out = "runs/base"
preset = "base"

[data]
source = "train.en"
target = "train.de"

[training]
updates = 100000
```

`dragoman train` writes the complete recipe of a run to `recipe.toml` in the run's folder, including the
values that were chosen for you.
"""


def pages() -> dict[str, str]:
    """The pages by their names."""
    hints = get_type_hints(Recipe)
    sections = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    own = [option for option in options_of(Recipe) if not option.group]
    contents = [
        (f"[`[{name}]`]({name}.md)", escaped(first_sentence(kind))) for name, kind in sections.items()
    ]
    index = page(
        "Recipes",
        INTRODUCTION,
        "## Keys outside of a table",
        *(described("", option) for option in own),
        "## Tables",
        table(("table", "what it sets"), contents),
        toctree([*sections, "presets"]),
    )
    return {
        "index": index,
        "presets": presets(),
        **{name: section(name, kind) for name, kind in sections.items()},
    }


def first_sentence(kind: type) -> str:
    """What a class of settings is for."""
    return (getdoc(kind) or "").split("\n\n")[0].replace("\n", " ").split(". ")[0].rstrip(".") + "."


def without_errors(docstring: str) -> str:
    """A docstring without the exceptions, which a recipe does not have."""
    return re.sub(r"\s*Raises `DragomanError`[^.]*\.", "", docstring)


def section(name: str, kind: type) -> str:
    """The page of a table of a recipe."""
    return page(
        f"[{name}]",
        escaped(without_errors(getdoc(kind) or "")),
        used_by(kind),
        *(described(f"{name}.", option) for option in options_of(kind) if option.help),
    )


def used_by(kind: type) -> str:
    """Who else takes these settings."""
    if kind is SearchSettings:
        return (
            "The verbs that translate have these options, and `Translator.translate` takes them as keyword "
            "arguments."
        )
    return ""


def described(prefix: str, option: Option) -> str:
    """A key with its type, default and meaning."""
    lines = [
        f"::::{{confval}} {prefix}{option.field.name}",
        f"{kind_of(option)}{default_of(option)}",
        "",
        escaped(option.help),
        "::::",
    ]
    return "\n".join(lines)


def kind_of(option: Option) -> str:
    """The type of a value in words."""
    if option.choices:
        return "one of " + ", ".join(f"`{choice}`" for choice in option.choices)
    words = " or ".join(KINDS.get(word, f"`{word}`") for word in option.metavar.split("|"))
    return f"list of {words}s" if option.is_list else words


def default_of(option: Option) -> str:
    """The default, if it is not None, as TOML writes it."""
    value = option.default
    return "" if value is None else f", default `{toml(value)}`"


def toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(toml, value))}]"
    return str(value) if isinstance(value, int | float) else f'"{value}"'


def presets() -> str:
    """The table of presets: what differs from the paper's base model."""
    return page(
        "Presets",
        escaped(
            "A preset sets the sizes of a model and its dropout. Settings that are not listed are those of "
            "the paper's base model. With preset auto, training chooses one by the corpus and the machine."
        ),
        table(("preset", "settings"), ([f"`{name}`", preset(each)] for name, each in PRESETS.items())),
    )


def preset(settings: ModelSettings) -> str:
    """Sizes first, then what else differs from the defaults."""
    sizes = ["d_model", "d_ff", "heads", "encoder_layers", "decoder_layers", "dropout"]
    return ", ".join(dict.fromkeys(f"`{name}` {value}" for name, value in changed(settings, sizes)))


def changed(settings: ModelSettings, sizes: list[str]) -> Iterator[tuple[str, Any]]:
    """Each setting to list."""
    values, plain = asdict(settings), ModelSettings()
    yield from ((name, values[name]) for name in sizes)
    for each in fields(ModelSettings):
        if values[each.name] != getattr(plain, each.name):
            yield each.name, values[each.name]
