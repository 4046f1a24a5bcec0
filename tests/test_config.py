"""Recipes: strict, and written so that they read back."""

import dataclasses
import pickle
import typing
import warnings
from dataclasses import dataclass, field

import pytest

from dragoman.cli.parsing import settings_from
from dragoman.cli.serve import Serve
from dragoman.pipeline.recipe import Recipe
from dragoman.serving.settings import ServerSettings
from dragoman.system.errors import DragomanError, OutOfBoundsError
from dragoman.system.keys import RenamedSetting, former_name
from dragoman.system.toml import check_types, overlay, read_toml, to_table, write_toml
from dragoman.training.settings import TrainingSettings


def read(text, tmp_path):
    (tmp_path / "r.toml").write_text(text)
    return overlay(Recipe(), read_toml(tmp_path / "r.toml"), "r.toml")


def test_what_is_written_reads_back(tmp_path):
    recipe = read(
        'out = "a"\n[model]\nd_model = 64\nheads = 2\n[training]\nminutes = 5\nprecision = "bfloat16"\n',
        tmp_path,
    )
    assert (recipe.model.d_model, recipe.training.minutes, recipe.training.precision) == (64, 5.0, "bfloat16")
    write_toml(recipe, tmp_path / "w.toml")
    assert overlay(Recipe(), read_toml(tmp_path / "w.toml"), "w.toml") == recipe
    assert "updates" not in to_table(recipe)["training"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model]\nd_modle = 3", r"r.toml \[model\]: there is no key 'd_modle'. Did you mean 'd_model'\?"),
        ("qqq = 3", "r.toml: there is no key 'qqq'. There are: out, preset, data"),
        (
            "d_modle = 3",
            r"r.toml: there is no key 'd_modle'. Did you mean 'd_model' in the table \[model\]\?",
        ),
        (
            "max_tokens = 3",  # a former name, in another table than the setting
            r"there is no key 'max_tokens'. Did you mean 'micro_batch_tokens' in the table \[batches\]\?",
        ),
        ('[model]\nd_model = "big"', r"r.toml \[model\]: d_model is 'big'; it has to be a whole number"),
        ("[model]\nscale_embeddings = 1", "scale_embeddings is 1; it has to be true or false"),
        ('[model]\nnorm = "both"', "norm is 'both'; it has to be one of 'post', 'pre'"),
        ('[training]\nprecision = "half"', "precision is 'half'; it has to be one of 'float32', 'bfloat16'"),
        ("[data]\nsource = 3", "source is 3; it has to be a path in quotes"),
        ("model = 3", "r.toml: model is a table, and 3 is not"),
        ("[model]\nheads = 0", r"r.toml \[model\]: heads is 0; it must be at least 1"),
        ("a = [", "r.toml is not TOML"),
    ],
)
def test_wrong_recipes_are_refused_with_the_place(tmp_path, text, message):
    with pytest.raises(DragomanError, match=message):
        read(text, tmp_path)


def test_a_byte_order_mark_is_no_part_of_a_recipe(tmp_path):
    (tmp_path / "r.toml").write_text("preset = 'tiny'\n", "utf-8-sig")
    assert read_toml(tmp_path / "r.toml") == {"preset": "tiny"}


def test_a_recipe_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DragomanError, match="none.toml cannot be read: No such file"):
        read_toml(tmp_path / "none.toml")


@dataclass(frozen=True)
class Inner:
    scale: float = field(default=1.0, metadata=former_name("pace"))


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    beams: int = 4


def test_a_former_name_works_and_warns_once_with_both_names():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        settings = overlay(Outer(), {"inner": {"pace": 2}}, "r.toml")
    assert settings == Outer(Inner(2.0))
    assert [(each.category, str(each.message)) for each in caught] == [
        (
            RenamedSetting,
            "r.toml [inner]: pace is now called scale; the former name works until the next release.",
        )
    ]


def test_a_recipe_may_have_a_setting_that_was_removed_with_its_default():
    settings = TrainingSettings()
    assert overlay(settings, {"compile": False}, "r.toml") == settings
    with pytest.raises(DragomanError, match=r"r\.toml: there is no key 'compile'"):
        overlay(settings, {"compile": True}, "r.toml")


def test_the_name_of_today_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert overlay(Outer(), {"inner": {"scale": 2}}, "r.toml") == Outer(Inner(2.0))


def test_the_former_name_and_the_name_of_today_together_are_refused():
    with pytest.raises(DragomanError, match="r.toml: pace and scale are the same setting; give one of them"):
        overlay(Inner(), {"pace": 2, "scale": 3}, "r.toml")


def test_a_value_out_of_bounds_is_named_by_its_option_if_the_command_line_gave_it():
    with pytest.raises(OutOfBoundsError, match=r"^--port is 99999; it must be at most 65535\.$") as raised:
        settings_from(Serve, {"port": 99_999})
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    with pytest.raises(OutOfBoundsError, match=r"^port is 99999; it must be"):
        ServerSettings(port=99_999)


def numbers_of(settings, names=()):
    """The names of all settings that may be numbers, or have numbers in them, each with its tables."""
    for name, hint in typing.get_type_hints(settings).items():
        if dataclasses.is_dataclass(hint):
            yield from numbers_of(hint, (*names, name))
        elif {int, float} & {hint, *typing.get_args(hint)} and bool not in typing.get_args(hint):
            yield (*names, name)


@pytest.mark.parametrize("names", [*numbers_of(Recipe)], ids=".".join)
@pytest.mark.parametrize("value", [True, False])
def test_true_and_false_are_no_numbers(names, value):
    *tables, name = names
    table = {name: value}
    for outer in reversed(tables):
        table = {outer: table}
    with pytest.raises(DragomanError, match=rf"{name} is {value}; it has to be"):
        overlay(Recipe(), table, "r.toml")
    settings = Recipe()
    for outer in tables:
        settings = getattr(settings, outer)
    with pytest.raises(DragomanError, match=rf"{name} is {value}; it has to be"):
        check_types(dataclasses.replace(settings, **{name: value}))
