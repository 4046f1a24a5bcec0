"""Recipes: strict, and written so that they read back."""

import dataclasses
import pickle
import re
import typing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli.parsing import settings_from
from dragoman.cli.serve import Serve
from dragoman.native.settings import EngineSettings
from dragoman.pipeline.minutes import VALIDATIONS
from dragoman.pipeline.recipe import Recipe
from dragoman.pipeline.settings import AdaptationSettings
from dragoman.system.device import check_device
from dragoman.system.errors import DragomanError, OptionError, OptionMessage
from dragoman.system.toml import check_types, overlay, read_toml, to_table, write_toml
from dragoman.text.settings import DataSettings
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
        (
            "[data]\nd_model = 3",
            r"\[data\]: there is no key 'd_model'. Did you mean 'd_model' in the table \[mod",
        ),
        ("qqq = 3", "r.toml: there is no key 'qqq'. There are: out, preset, data"),
        (
            "d_modle = 3",
            r"r.toml: there is no key 'd_modle'. Did you mean 'd_model' in the table \[model\]\?",
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
    scale: float = 1.0


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    beams: int = 4


def test_a_wrong_option_is_named_as_in_python_or_as_on_the_command_line():
    with pytest.raises(OptionError, match=r"^port is 99999; it must be at most 65535\.$") as raised:
        settings_from(Serve, {"port": 99_999})
    assert raised.value.fields == ("port",)
    assert raised.value.told({"port": "--port"}) == "--port is 99999; it must be at most 65535."
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_braces_in_a_value_are_no_setting():
    error = OptionError("{n_best} is {value!r} of {text}.", value="a", text="{top_k}")
    assert error.fields == ("n_best",)
    assert error.told({"n_best": "-n", "top_k": "-k"}) == "-n is 'a' of {top_k}."


def test_a_switch_is_turned_off_as_python_and_the_command_line_do():
    message = OptionMessage("Add {mbr=False}.")
    assert (str(message), message.told({"mbr": "--mbr"})) == ("Add mbr=False.", "Add --no-mbr.")
    assert message.fields == ("mbr",)


@given(st.text("{}!:.[]a_0 ", max_size=9), st.text("{}a", max_size=4))
def test_every_sentence_about_options_is_told(text, value):
    """Also one with braces that are no place of a name, such as a key of a file."""
    told = OptionError(f"{text}{{value}}", value=value).told({})
    assert told.endswith(value)
    assert re.sub("[{}]", "", told) == re.sub("[{}]", "", text + value)


def test_what_nobody_asks_for_is_as_in_the_paper():
    """Sections 5.4 and 6.1; gradients are not clipped."""
    training = TrainingSettings()
    assert (training.label_smoothing, training.average, training.clip_norm) == (0.1, 5, 0)


def test_the_intervals_that_nobody_asks_for_are_those_of_the_reference_and_end_a_run_that_gains_nothing():
    """A run has 20 validations, so that its patience is over before."""
    training, page = TrainingSettings(), Path(__file__).parents[1] / "docs/reference/files.md"
    documented = re.search(r"every (\d+) updates \(`--log-every`\)", page.read_text("utf-8"))
    assert training.log_every == int(documented[1])
    assert 0 < training.patience < VALIDATIONS


COUNTS = ("updates", "warmup_steps", "cooldown_steps", "average", "threads", "validate_every")
COUNTS += ("checkpoint_every", "log_every")
FACTORS = (
    "learning_rate_scale",
    "label_smoothing",
    "clip_norm",
    "guided_alignment_weight",
    "seed",
    "patience",
)
LEAST = [(TrainingSettings, name, 1, 0) for name in COUNTS]
LEAST += [(TrainingSettings, name, 0, -1) for name in (*FACTORS, "patience")]
LEAST += [(TrainingSettings, "minutes", 0.01, 0)]
LEAST += [(EngineSettings, "workers", 1, 0), (AdaptationSettings, "lora_rank", 1, 0)]
LEAST += [(AdaptationSettings, "replay_share", 0, -0.1)]
LEAST += [(AdaptationSettings, name, 1e-9, 0) for name in ("peak_rate", "lora_alpha")]
MOST = [(TrainingSettings, "label_smoothing", 0.99, 1), (AdaptationSettings, "replay_share", 0.99, 1)]
MOST += [(AdaptationSettings, "peak_rate", 1, 1.01), (TrainingSettings, "seed", 2**63 - 1, 2**63)]


@pytest.mark.parametrize(("settings", "name", "allowed", "refused"), LEAST + MOST)
def test_a_setting_is_what_it_counts_or_multiplies(settings, name, allowed, refused):
    """A count is at least 1, a factor is not negative, and a share of all is below 1."""
    assert getattr(settings(**{name: allowed}), name) == allowed
    with pytest.raises(OptionError, match=rf"^{name} is {refused}(\.0)?; it must be (at |below )"):
        settings(**{name: refused})


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:0", "cuda:17", "cuda:1234"])
def test_a_device_is_the_processor_or_a_gpu(device):
    check_device(device)
    for other in (f" {device}", f"{device}x", f"{device}\n", device.upper(), f"{device}:", "cuda:12345", ""):
        with pytest.raises(DragomanError, match="it has to be cpu, cuda, cuda:N or mps"):
            check_device(other)


def test_int8_and_shortlists_are_for_a_processor_and_a_shortlist_for_cpp(tmp_path):
    for precision in ("float32", "bfloat16", "int8"):
        for shortlist in (None, tmp_path / "list"):
            settings = EngineSettings(precision=precision, shortlist=shortlist)
            assert settings.needs_cpu == (precision == "int8" or shortlist is not None)
    with pytest.raises(DragomanError, match="which native = false turns off"):
        EngineSettings(shortlist=tmp_path / "list", native=False)


def numbers_of(settings, names=()):
    """The names of all settings that may be numbers, or have numbers in them, each with its tables."""
    for name, hint in typing.get_type_hints(settings).items():
        if dataclasses.is_dataclass(hint):
            yield from numbers_of(hint, (*names, name))
        elif {int, float} & {hint, *typing.get_args(hint)} and bool not in typing.get_args(hint):
            yield (*names, name)


@pytest.mark.parametrize("names", [*numbers_of(Recipe)], ids=".".join)
def test_true_and_false_are_no_numbers(names):
    for value in [True, False]:
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


@pytest.mark.parametrize(
    ("kind", "key"), [(TrainingSettings, "compile"), (DataSettings, "strip_carriage_returns")]
)
def test_a_recipe_may_have_a_setting_that_was_removed_if_it_has_no_effect(kind, key):
    assert overlay(kind(), {key: False}, "r.toml") == kind()
    with pytest.raises(DragomanError, match=rf"r\.toml: there is no key '{key}'"):
        overlay(kind(), {key: True}, "r.toml")
