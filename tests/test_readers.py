"""Files that others wrote: any bytes give a value or a sentence that names the file, in bounded work."""

import dataclasses
import json
import math
import os
import shutil
import struct
import threading
import typing
from pathlib import Path

import pytest
import tomli_w
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dragoman.cli.main import run as run_command
from dragoman.cli.os_errors import sentence_of
from dragoman.interop.huggingface import read_object
from dragoman.interop.joeynmt import read_config
from dragoman.interop.vocabulary import load_sentencepiece, split_lines
from dragoman.model.settings import ModelSettings
from dragoman.model.weights import load_tensors
from dragoman.native.settings import EngineSettings
from dragoman.pipeline.from_python import resume
from dragoman.pipeline.recipe import Recipe, read_recipe
from dragoman.pipeline.result import read_run_result
from dragoman.pipeline.run import run
from dragoman.pipeline.runs import runs_under
from dragoman.pipeline.settings import AdaptationSettings
from dragoman.search.settings import SearchSettings
from dragoman.search.shortlist import Shortlist
from dragoman.serving.settings import ServerSettings
from dragoman.system import readers
from dragoman.system.errors import DragomanError
from dragoman.system.files import array_types, file_hash, read_arrays, read_manifest, write_manifest
from dragoman.system.messages import silent
from dragoman.system.readers import check_brackets, check_toml, parse_json, read_json, read_yaml
from dragoman.system.toml import overlay, read_toml, type_hints
from dragoman.text.compression import open_compressed
from dragoman.text.corpus import read_statistics
from dragoman.text.lines import read_lines
from dragoman.text.quality.clean_settings import CleanSettings
from dragoman.text.settings import BatchSettings, DataSettings, TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.training.checkpoint import checkpoints, read_state
from dragoman.training.curves import training_of
from dragoman.training.log import MAX_LINE, read_events
from dragoman.training.settings import TrainingSettings
from dragoman.translation.adapter import Adapter
from dragoman.translation.model_folder import StoredModel
from tests.conftest import small_recipe

READERS = {
    "recipe.toml": lambda path: overlay(Recipe(), read_toml(path), str(path)),
    "model.toml": lambda path: overlay(ModelSettings(), read_toml(path), str(path)),
    "config.yaml": read_config,
    "hparams.yaml": read_yaml,
    "config.json": read_object,
    "place.json": lambda path: read_state(path.parent),
    "result.json": lambda path: read_run_result(path.parent),
    "corpus.json": read_statistics,
    "manifest.json": lambda path: read_manifest(path.parent),
    "log.jsonl": read_events,
    "vocab.txt": split_lines,
    "source.spm": load_sentencepiece,
    "tokenizer.model": Tokenizer.load,
    "model.safetensors": load_tensors,
    "adapter.safetensors": read_arrays,
    "types.safetensors": array_types,
}


def attempt(read):
    """What a function returns, and the sentence with which it refuses to."""
    try:
        return read(), None
    except DragomanError as error:
        return None, str(error)


def read(name, content, folder):
    """What the reader of this name makes of the content: None if it is refused by a sentence."""
    path = folder / name
    path.write_bytes(content)
    value, refusal = attempt(lambda: READERS[name](path))
    assert refusal is None or str(path) in refusal
    assert len(refusal or "") < 2000
    return value


def safetensors(header):
    """The bytes of a file with this header and no data."""
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(content)) + content


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda within: st.lists(within, max_size=3) | st.dictionaries(st.text(max_size=8), within, max_size=3),
    max_leaves=8,
)
CONTENT = st.one_of(
    st.binary(max_size=60),
    JSON.map(lambda value: json.dumps(value).encode()),
    JSON.map(safetensors),
    st.text("[]{}\"'#=.,: \n-&*<aé1\\", max_size=60).map(str.encode),
)
FAST = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.short_form(3)
@pytest.mark.parametrize("name", READERS)
@FAST
@given(CONTENT)
def test_any_bytes_give_a_value_or_a_sentence_that_names_the_file(name, tmp_path, content):
    read(name, content, tmp_path)


LAUGHS = "a0: &a0 {x: 1, y: 2}\n" + "".join(
    f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 60)
)
EMPTY = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
HOSTILE = {
    "dotted keys": ("recipe.toml", ".".join("a" * 20_000) + " = 1"),
    "quoted keys": ("model.toml", ".".join(['"a"'] * 20_000) + " = 1"),
    "spaced keys": ("recipe.toml", "[ " + " . ".join("a" * 20_000) + " ]"),
    "keys after a string": ("recipe.toml", 'x = [""" """", {' + ".".join("a" * 20_000) + " = 1}]"),
    "deep TOML": ("recipe.toml", "a = " + "[" * 100_000),
    "deep tables of TOML": ("recipe.toml", "a = " + "{a = " * 100_000),
    "many digits": ("model.toml", "heads = " + "1" * 100_000),
    "a huge number": ("model.toml", "heads = 0x" + "f" * 100_000),
    "much TOML": ("recipe.toml", "#\n" * 2**20),
    "merges": ("config.yaml", LAUGHS),
    "aliases": ("hparams.yaml", LAUGHS.replace("<<", "z")),
    "an alias of itself": ("config.yaml", "a: &a [*a]"),
    "deep YAML": ("config.yaml", "[" * 30_000),
    "deep blocks": ("config.yaml", "- " * 15_000),
    "much YAML": ("hparams.yaml", "a: 1\n" * 2**14),
    "a huge number of YAML": ("config.yaml", "a: 0x" + "f" * 30_000),
    "deep place": ("place.json", "[" * 100_000),
    "deep result": ("result.json", '{"a":' * 100_000),
    "an infinite step": ("place.json", '{"step": 1e999}'),
    "NaN": ("place.json", '{"step": NaN}'),
    "a later field": ("place.json", '{"later": 1}'),
    "digits in JSON": ("result.json", '{"updates": ' + "1" * 100_000 + "}"),
    "half a character": ("config.json", '{"a": "\\ud800"}'),
    "much JSON": ("corpus.json", " " * 2**21),
    "a long line": ("log.jsonl", " " * MAX_LINE),
    "a wrong loss": ("log.jsonl", '{"event": "validation", "step": 1, "loss": []}\n'),
    "a wrong step": ("log.jsonl", '{"event": "train", "step": -1}\n'),
    "many tensors": ("model.safetensors", safetensors({f"{n:x}": EMPTY for n in range(70_000)})),
    "many arrays": ("adapter.safetensors", safetensors({f"{n:x}": EMPTY for n in range(70_000)})),
    "many types": ("types.safetensors", safetensors({f"{n:x}": EMPTY for n in range(70_000)})),
    "a long header": ("types.safetensors", safetensors(b"{" + b" " * 2**24 + b"}")),
}


@pytest.mark.short_form(13)
@pytest.mark.parametrize("attack", HOSTILE)
def test_hostile_files_are_refused(attack, tmp_path):
    name, content = HOSTILE[attack]
    assert read(name, content if isinstance(content, bytes) else content.encode(), tmp_path) is None


@pytest.mark.parametrize("attack", [name for name in HOSTILE if "TOML" in name or "keys" in name])
def test_tomllib_never_sees_hostile_toml(attack, tmp_path, monkeypatch):
    """The bounds come before the parser, whose work is the square of a key."""
    (tmp_path / "a.toml").write_text(HOSTILE[attack][1])
    monkeypatch.setattr("tomllib.loads", lambda _: pytest.fail("it was parsed"))
    with pytest.raises(DragomanError):
        read_toml(tmp_path / "a.toml")


TABLES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=20) | st.floats(allow_nan=False),
    lambda within: st.lists(within, max_size=3) | st.dictionaries(st.text(max_size=9), within, max_size=3),
    max_leaves=12,
)


@pytest.mark.long
@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.text(max_size=9), TABLES, max_size=4), st.text("\"'#.[]{}\\ \n", max_size=12))
def test_the_bounds_refuse_no_toml_of_few_tables(table, text):
    """What is in texts and comments is neither key nor bracket, in any of the four kinds of strings."""
    dots = "a." * 50 + "[" * 50
    written = tomli_w.dumps(table | {"text": dots + text}, multiline_strings=True)
    check_toml(written + f"# {dots}\nx = '{dots}'\ny = '''\n{dots}'''\n", "a.toml")


def test_aliases_of_real_configurations_are_read(tmp_path):
    """PyYAML writes an alias where two lists are the same object, as in hparams.yaml of COMET."""
    import yaml

    sizes = [512, 128]
    config = {"a": sizes, "b": sizes, "base": {"x": 1}}
    text = yaml.dump(config) + "c: &c {x: 1, y: 2}\nd: {<<: *c, y: 3}\n"
    assert "*id001" in text
    (tmp_path / "a.yaml").write_text(text)
    assert read_yaml(tmp_path / "a.yaml") == config | {"c": {"x": 1, "y": 2}, "d": {"x": 1, "y": 3}}


def test_what_a_diverged_training_writes_is_read(tmp_path):
    line = {"event": "train", "step": 1, "loss": math.nan, "gradient_norm": math.inf}
    (tmp_path / "log.jsonl").write_text(json.dumps(line) + "\n")
    (event,) = read_events(tmp_path / "log.jsonl")
    assert math.isnan(event["loss"])
    assert math.isinf(event["gradient_norm"])


# ---- files that cannot be read

UNREADABLE = Path("/proc/self/mem")  # the system answers its reading with an input/output error


def consumed(read):
    """A reader of lines as a function that reads them all."""
    return lambda path: list(read(path))


def all_of(open_file):
    """A function that opens a file and reads it."""

    def read(path):
        with open_file(path) as file:
            return file.read()

    return read


@pytest.mark.skipif(not UNREADABLE.exists(), reason="no file that cannot be read")
@pytest.mark.parametrize(
    ("name", "read"),
    [
        *((name, read) for name, read in READERS.items()),
        ("text", consumed(read_lines)),
        ("text.gz", consumed(read_lines)),
        ("text.gz", all_of(open_compressed)),
        ("any", file_hash),
        ("any", all_of(readers.open_file)),
        ("any", lambda path: Shortlist.load(path, (5, 5))),
    ],
)
def test_a_file_that_fails_while_it_is_read_is_named(tmp_path, name, read):
    path = tmp_path / name
    path.symlink_to(UNREADABLE)
    if name == "manifest.json":
        pytest.skip("a manifest is read where links are refused before")
    with pytest.raises(DragomanError) as told:
        read(path)
    assert str(path) in str(told.value)


@pytest.mark.skipif(not UNREADABLE.exists(), reason="no file that cannot be read")
@pytest.mark.parametrize("side", [0, 1, 2, 3])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_text_that_fails_while_it_is_read_is_named_and_not_the_folder(tmp_path, side, ending):
    lines = "".join(f"line {number}\n" for number in range(30))
    files = [tmp_path / f"{number}{ending if number == side else ''}" for number in range(4)]
    for file in files:
        file.write_text(lines)
    files[side].unlink()
    files[side].symlink_to(UNREADABLE)
    recipe = small_recipe(tmp_path, tmp_path / "folder")
    texts = DataSettings(*files)
    with pytest.raises((DragomanError, OSError)) as told:
        run(dataclasses.replace(recipe, data=texts))
    assert str(files[side]) in str(told.value)
    assert str(recipe.out) not in str(told.value)


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_refused_where_a_file_is_read(tmp_path, name):
    os.mkfifo(tmp_path / name)
    refusals = []
    reader = threading.Thread(
        target=lambda: refusals.append(attempt(lambda: READERS[name](tmp_path / name))), daemon=True
    )
    reader.start()
    reader.join(60)
    ((_, refusal),) = refusals  # empty if it waits for ever
    assert f"{tmp_path / name} is not a regular file" in refusal


def test_a_recipe_may_be_a_link_and_no_pipe(tmp_path, monkeypatch):
    (tmp_path / "real.toml").write_text('preset = "tiny"')
    (tmp_path / "link.toml").symlink_to("real.toml")
    assert read_toml(tmp_path / "link.toml") == {"preset": "tiny"}
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(DragomanError, match="fifo is not a regular file"):
        run_command(["train", str(tmp_path / "fifo")])


def test_a_link_to_nothing_is_called_so(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    recipe = small_recipe(tmp_path, tmp_path / "link")
    with pytest.raises(FileExistsError) as told:
        run(recipe)
    assert sentence_of(told.value) == (
        f"{tmp_path / 'link'} is a symbolic link to nowhere, which does not exist. Make a folder there, or "
        "give another name."
    )


# ---- settings

SETTINGS = (
    ModelSettings,
    DataSettings,
    TokenizerSettings,
    BatchSettings,
    TrainingSettings,
    SearchSettings,
    AdaptationSettings,
    EngineSettings,
    ServerSettings,
    CleanSettings,
)
NUMBERS = [
    (kind, name, number)
    for kind in SETTINGS
    for name, hint in type_hints(kind).items()
    for number in (int, float)
    if number in (typing.get_args(hint) or (hint,))
]


@pytest.mark.parametrize(("kind", "name", "number"), NUMBERS)
def test_every_number_of_settings_has_bounds(kind, name, number):
    values = [1e308, -1e308, math.inf, -math.inf, math.nan] if number is float else []
    large = [] if name == "learning_rate_scale" else [2**63]  # training reports what such a rate does
    for value in [*values, *large, -(2**63), -1 if number is int else -1.0]:
        with pytest.raises(DragomanError, match=name):
            kind(**{name: value})


@pytest.mark.parametrize(
    ("kind", "name", "least", "most"),
    [
        (DataSettings, "longest", 0, 2**31 - 1),
        (TokenizerSettings, "vocabulary", 5, 10**7),
        (TokenizerSettings, "character_coverage", 0.98, 1.0),
        (TokenizerSettings, "tokenizer_pairs", 1, 2**31 - 1),
        (TokenizerSettings, "sampled_copies", 1, 100),
        (BatchSettings, "source_tokens_per_batch", 1, 2**31 - 1),
        (BatchSettings, "target_tokens_per_batch", 1, 2**31 - 1),
        (BatchSettings, "accumulate", 1, 2**31 - 1),
        (BatchSettings, "micro_batch_tokens", 1, 2**31 - 1),
        (CleanSettings, "max_words", 0, 2**31 - 1),
        (CleanSettings, "max_ratio", 0.0, 1e6),
    ],
)
def test_a_number_of_the_text_may_be_its_least_and_its_most_and_nothing_beyond(kind, name, least, most):
    for bound, direction in ((least, -1), (most, 1)):
        assert getattr(kind(**{name: bound}), name) == bound
        beyond = bound + direction if isinstance(bound, int) else math.nextafter(bound, direction * math.inf)
        with pytest.raises(DragomanError, match=f"{name} is "):
            kind(**{name: beyond})


# ---- runs with a damaged file


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """A folder with an intact run, and a copy of it to damage."""
    folder = tmp_path_factory.mktemp("damaged")
    run(small_recipe(folder, folder / "intact"))
    shutil.copytree(folder / "intact", folder / "run")
    return folder


def mutated(value):
    """Values that differ from a JSON value at one place: a key dropped or added, another type, one deeper."""
    here = st.one_of(JSON, st.just([value]), st.just({"within": value}))
    if isinstance(value, dict) and value:
        names = st.sampled_from(sorted(value))
        dropped = names.map(lambda name: {key: each for key, each in value.items() if key != name})
        added = st.tuples(st.text(max_size=8), JSON).map(lambda pair: value | {pair[0]: pair[1]})
        changed = names.flatmap(lambda name: mutated(value[name]).map(lambda each: value | {name: each}))
        return st.one_of(dropped, added, changed, changed, here)
    return here


def written(value, name):
    """A value in the format of a file, or None if it has none there."""
    if name.endswith(".json"):
        return json.dumps(value)
    if name.endswith(".jsonl"):
        return "".join(json.dumps(each) + "\n" for each in (value if isinstance(value, list) else [value]))
    try:
        return tomli_w.dumps(value)
    except (TypeError, AttributeError, ValueError):
        return None


def parsed(path):
    """The value of an intact file."""
    if path.suffix == ".jsonl":
        return dict(enumerate_lines(path))
    return read_toml(path) if path.suffix == ".toml" else json.loads(path.read_text())


def enumerate_lines(path):
    """The lines of a log by their numbers, so that `mutated` chooses one."""
    return ((str(number), json.loads(line)) for number, line in enumerate(path.read_text().splitlines()))


FILES = (
    "recipe.toml",
    "log.jsonl",
    "result.json",
    "data/train/corpus.json",
    "data/manifest.json",
    "model/model.toml",
    "model/about.json",
    "model/manifest.json",
    "place.json",
)


def looked_at(folder):
    """All that commands do with a run first: list, resume, translate, inspect."""
    other = [state.folder.name for state in runs_under(folder)]
    assert "intact" in other
    for look in (
        lambda: read_recipe(folder / "run"),
        lambda: StoredModel.load(folder / "run"),
        lambda: training_of(folder / "run"),
        lambda: [read_state(each) for each in checkpoints(folder / "run")],
        lambda: resume(folder / "run", silent),
    ):
        _, refusal = attempt(look)
        assert refusal is None or str(folder / "run") in refusal


@pytest.mark.short_form(1)
@pytest.mark.parametrize("name", FILES)
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_commands_name_a_damaged_file_of_a_run(damaged, name, data):
    place = checkpoints(damaged / "intact")[-1].name
    path = f"checkpoints/{place}/place.json" if name == "place.json" else name
    intact = parsed(damaged / "intact" / path)
    value = data.draw(st.one_of(JSON, mutated(intact)))
    if name == "log.jsonl" and isinstance(value, dict):
        value = list(value.values())
    assume((content := written(value, name)) is not None)
    shutil.rmtree(damaged / "run")
    shutil.copytree(damaged / "intact", damaged / "run")
    (damaged / "run" / path).write_text(content)
    folder = (damaged / "run" / path).parent
    if name in ("log.jsonl", "place.json"):
        (damaged / "run" / "result.json").unlink()
    if (folder / "manifest.json").exists() and "manifest" not in path:
        (folder / "manifest.json").unlink()
        write_manifest(folder)
    looked_at(damaged)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(JSON | mutated({"base": "0" * 64, "longest_source": 7, "alignment_head": None}))
def test_any_description_of_an_adapter_is_read_or_refused(tmp_path, about):
    shutil.rmtree(tmp_path / "adapter", ignore_errors=True)
    Adapter("0" * 64, {}, 7).save(tmp_path / "adapter")
    (tmp_path / "adapter" / "adapter.json").write_text(json.dumps(about))
    (tmp_path / "adapter" / "manifest.json").unlink()
    write_manifest(tmp_path / "adapter")
    adapter, refusal = attempt(lambda: Adapter.load(tmp_path / "adapter"))
    assert (refusal is None) == isinstance(adapter and adapter.base, str)
    assert refusal is None or str(tmp_path / "adapter") in refusal


# ---- the bounds themselves


BAD = ["\ud800", "a\udfff", 2**64 + 1, -(2**64) - 1, math.nan, math.inf, -math.inf]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["list", "value", "key"]), max_size=30), st.sampled_from(BAD))
def test_a_value_that_is_refused_is_refused_wherever_it_is(within, bad):
    def nested(value):
        for place in within:
            is_key = place == "key" and isinstance(value, str)
            value = [1, value] if place == "list" else {value: 1} if is_key else {"a": 1, "b": value}
        return value

    with pytest.raises(DragomanError, match="place has "):
        parse_json(json.dumps(nested(bad)), "place")
    for good in ("é漢😀", 2**64, -(2**64), 1e308, True, None):
        assert parse_json(json.dumps(nested(good)), "place") == nested(good)


def test_yaml_may_have_numbers_that_are_not_finite_and_json_where_it_is_asked_for(tmp_path):
    (tmp_path / "a.yaml").write_text("best: .inf\nworst: -.inf\n")
    assert read_yaml(tmp_path / "a.yaml") == {"best": math.inf, "worst": -math.inf}
    (tmp_path / "a.json").write_text('{"best": Infinity, "worst": -Infinity}')
    assert read_json(tmp_path / "a.json", is_finite=False) == {"best": math.inf, "worst": -math.inf}


@given(st.text("]}", max_size=50), st.text("[{", min_size=32, max_size=32))
def test_brackets_that_close_nothing_make_no_room_for_others(closed, opened):
    check_brackets(closed + opened, "a")
    check_brackets(closed + opened + "]" * 32 + opened, "a")
    with pytest.raises(DragomanError, match="it has lists within more than 32 others"):
        check_brackets(f"{closed}{opened}[", "a")


@pytest.mark.parametrize(
    ("name", "read", "start"),
    [("a.json", read_json, ""), ("a.yaml", read_yaml, ""), ("a.toml", read_toml, "a = ")],
)
def test_a_value_may_be_within_32_lists(tmp_path, name, read, start):
    path = tmp_path / name
    path.write_text(start + "[" * readers.MAX_DEPTH + "1" + "]" * readers.MAX_DEPTH)
    expected = 1
    for _ in range(readers.MAX_DEPTH):
        expected = [expected]
    assert read(path) in (expected, {"a": expected})
    path.write_text(start + "[" * (readers.MAX_DEPTH + 2) + "]" * (readers.MAX_DEPTH + 2))
    with pytest.raises(DragomanError, match=f"{name} cannot be read: it has lists within more than 32"):
        read(path)


def test_a_key_of_toml_may_have_eight_parts(tmp_path):
    path = tmp_path / "a.toml"
    for joint in (".", " . "):
        path.write_text(joint.join("abcdefgh") + " = 1")
        assert read_toml(path)["a"]["b"]["c"]["d"]["e"]["f"]["g"]["h"] == 1
        path.write_text(joint.join("abcdefghi") + " = 1")
        with pytest.raises(DragomanError, match="a.toml has a key with more than 8 parts"):
            read_toml(path)


def test_a_file_may_have_as_many_bytes_values_and_tensors_as_its_bound(tmp_path, monkeypatch):
    (tmp_path / "a.json").write_text("[1, 2]")
    assert read_json(tmp_path / "a.json", 6) == [1, 2]
    with pytest.raises(DragomanError, match="a.json has more than 5 bytes"):
        read_json(tmp_path / "a.json", 5)
    (tmp_path / "a.yaml").write_text("[1, 2, [3, 4]]")
    monkeypatch.setattr(readers, "MAX_NODES", 6)
    assert read_yaml(tmp_path / "a.yaml") == [1, 2, [3, 4]]
    monkeypatch.setattr(readers, "MAX_NODES", 5)
    with pytest.raises(DragomanError, match="a.yaml has more than 5 values"):
        read_yaml(tmp_path / "a.yaml")
    names = [f"t{number}" for number in range(4)]
    content = safetensors({"__metadata__": {"a": "b"}, **dict.fromkeys(names, EMPTY)})
    (tmp_path / "a.safetensors").write_bytes(content)
    monkeypatch.setattr(readers, "MAX_HEADER", len(content) - 8)
    monkeypatch.setattr(readers, "MAX_TENSORS", 4)
    assert sorted(array_types(tmp_path / "a.safetensors")) == names
    monkeypatch.setattr(readers, "MAX_TENSORS", 3)
    with pytest.raises(DragomanError, match="a.safetensors has more than 3 tensors"):
        array_types(tmp_path / "a.safetensors")
    monkeypatch.setattr(readers, "MAX_HEADER", len(content) - 9)
    with pytest.raises(DragomanError, match="a.safetensors has a header of"):
        array_types(tmp_path / "a.safetensors")


def test_json_that_is_too_large_is_not_parsed(tmp_path, monkeypatch):
    (tmp_path / "a.json").write_text(" " * 20)
    monkeypatch.setattr(readers.json, "loads", lambda _: pytest.fail("it was parsed"))
    with pytest.raises(DragomanError, match="a.json has more than 19 bytes"):
        read_json(tmp_path / "a.json", 19)
