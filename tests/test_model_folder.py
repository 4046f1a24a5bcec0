"""Model folders from elsewhere: a loaded model or a sentence, within bounds of time and memory."""

import json
import os
import shlex
import shutil
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman.model.shapes.weight_shapes import weight_shapes
from dragoman.system.errors import DragomanError
from dragoman.system.files import MANIFEST, OLD, beside, write_manifest
from dragoman.text.settings import LanguagePair, Languages, TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.missing_model import ADAPTER
from dragoman.translation.model_folder import FORMAT, StoredModel, Tokenizers, save_model, torch_model
from dragoman.translation.weight_errors import count_layers, first_names
from tests.conftest import MODELS, SSRU, VARIANTS

SIZES = {"d_model": 8, "d_ff": 12, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
FILES = ("model.safetensors", "model.toml", "about.json", "tokenizer.model", MANIFEST)


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    folder = tmp_path_factory.mktemp("intact") / "model"
    words = Tokenizer.train(["amber birch cedar delta"] * 3, "word", TokenizerSettings(), 20)
    sizes = ModelSettings(**SIZES)
    save_model(folder, build_model(sizes, len(words), len(words)), sizes, Tokenizers(words, words), 7)
    return folder


@pytest.fixture
def folder(intact, tmp_path):
    return shutil.copytree(intact, tmp_path / "model")


def sign(folder):
    """A manifest of the folder's files as they are now."""
    (folder / MANIFEST).unlink(missing_ok=True)
    write_manifest(folder)


def refused(folder, message):
    with pytest.raises(DragomanError, match=message):
        StoredModel.load(folder)


@pytest.mark.parametrize(
    "sizes",
    [
        ModelSettings(**SIZES),
        ModelSettings(**SIZES, tied="none", d_k=3, d_v=5, norm="pre", attention_bias=True, output_bias=True),
        ModelSettings(
            **{**SIZES, "encoder_layers": 3, "decoder_layers": 2},
            tied="target",
            positions="learned",
            max_positions=7,
        ),
        *(MODELS | VARIANTS).values(),
        SSRU,
        *(
            ModelSettings(
                architecture=kind, tied=tied, d_model=8, encoder_layers=depth, decoder_layers=3 - depth
            )
            for kind in ("lstm", "gru")
            for tied, depth in (("target", 1), ("none", 2))
        ),
        ModelSettings("conv", d_model=8, encoder_layers=3, decoder_layers=2, kernel_width=2),
        ModelSettings(
            "conv", d_model=8, encoder_layers=1, decoder_layers=3, positions="learned", tied="target"
        ),
    ],
)
def test_the_computed_shapes_are_those_of_the_built_model(sizes):
    vocabularies = (10, 10) if sizes.tied == "all" else (9, 10)
    built = {
        name: tuple(weight.shape) for name, weight in build_model(sizes, *vocabularies).named_parameters()
    }
    assert weight_shapes(sizes, *vocabularies) == built
    assert count_layers(built) == {"encoder": sizes.encoder_layers, "decoder": sizes.decoder_layers}


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ("{}", "about.json is not listed in manifest.json"),
        ("[]", "manifest.json has to be a table of file names"),
        ("nonsense", "manifest.json cannot be read as JSON"),
        ("[" * 100_000, "manifest.json cannot be read: it has lists within"),
        (
            '{"../../../../etc/passwd": "%s"}' % ("0" * 64),
            "which is not the relative name of a file in this folder",
        ),
        ('{"/etc/passwd": "%s"}' % ("0" * 64), "which is not the relative name of a file in this folder"),
        ('{"a/./b": "%s"}' % ("0" * 64), "which is not the relative name of a file in this folder"),
        *(
            (
                json.dumps({name: "0" * 64}),
                "manifest.json lists .*, which is not the relative name of a file in this folder",
            )
            for name in ("", ".", "./a", "a//b", "a/", "a/../b", "a\\b", "a\nb", "a\x1b[2J", MANIFEST)
        ),
        ('{"model.toml": 3}', "the value of 'model.toml' is not a SHA-256"),
        ('{"model.toml": "%s"}' % ("0" * 63), "the value of 'model.toml' is not a SHA-256"),
        ('{"model.toml": "%s"}' % ("0" * 65), "the value of 'model.toml' is not a SHA-256"),
        ('{"model.toml": "%s"}' % ("F" * 64), "the value of 'model.toml' is not a SHA-256"),
    ],
)
def test_an_invalid_manifest_is_refused(folder, manifest, message):
    (folder / MANIFEST).write_text(manifest)
    refused(folder, message)


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_the_files_of_a_folder_have_the_mode_of_the_umask(intact, tmp_path, umask, mode):
    stored, former = StoredModel.load(intact), os.umask(umask)
    try:
        stored.save(tmp_path / "model")
    finally:
        os.umask(former)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "model").iterdir()}
    assert modes == dict.fromkeys(modes, mode)
    assert modes.keys() >= {"model.safetensors", MANIFEST}


def test_only_listed_regular_files_are_accepted(folder, tmp_path):
    (folder / "more.txt").write_text("x")
    refused(folder, "more.txt is not listed in manifest.json; move it out of this folder")
    (folder / "more.txt").unlink()
    (folder / "within").mkdir()
    StoredModel.load(folder)
    (folder / "within" / "more.txt").write_text("x")
    refused(folder, "within/more.txt is not listed in manifest.json; move it out of this folder")
    (folder / "within" / "more.txt").unlink()
    (folder / "within" / "link").symlink_to(folder / "model.toml")
    refused(folder, "within/link is a symbolic link")
    (folder / "within" / "link").unlink()
    (folder / "model.safetensors").rename(tmp_path / "elsewhere")
    (folder / "model.safetensors").symlink_to(tmp_path / "elsewhere")
    refused(folder, "model.safetensors is a symbolic link")
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")
    refused(folder, "model.safetensors is not a regular file")
    (folder / "model.safetensors").unlink()
    refused(folder, "model.safetensors is missing, and manifest.json lists it")


@pytest.mark.parametrize("wrong", [None, "elsewhere", "a link in blobs", "blobs", "a pipe", "a circle"])
def test_links_are_accepted_in_the_cache_of_the_hub_to_its_own_files(folder, tmp_path, wrong):
    cache = tmp_path / "models--us--en-de"
    snapshot, blobs = cache / "snapshots" / "0123", cache / "blobs"
    snapshot.parent.mkdir(parents=True)
    folder.rename(blobs)
    for path in sorted(blobs.iterdir()):
        (snapshot / path.name).parent.mkdir(exist_ok=True)
        (snapshot / path.name).symlink_to(f"../../blobs/{path.name}")
    (snapshot / "README.md").write_text("of the repository")
    StoredModel.load(snapshot)
    link, blob = snapshot / "about.json", blobs / "about.json"
    if wrong in {"elsewhere", "a link in blobs"}:
        blob.rename(tmp_path / "elsewhere")
        (blob if wrong == "a link in blobs" else link).unlink(missing_ok=True)
        (blob if wrong == "a link in blobs" else link).symlink_to(tmp_path / "elsewhere")
    elif wrong == "blobs":
        blobs.rename(tmp_path / "elsewhere")
        blobs.symlink_to(tmp_path / "elsewhere")
    elif wrong is not None:
        blob.unlink()
        os.mkfifo(blob) if wrong == "a pipe" else blob.symlink_to(blob)
    if wrong is None:
        StoredModel.load(snapshot)
    else:
        refused(snapshot, "is a symbolic link|is not a regular file|is missing|is not listed")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("about.json", "nonsense", "about.json cannot be read as JSON"),
        (
            "about.json",
            '{"longest_source": "7"}',
            "about.json has to hold longest_source as a positive whole number",
        ),
        *(
            (
                "about.json",
                json.dumps({"longest_source": number}),
                "about.json has to hold longest_source as a positive whole number",
            )
            for number in (0, -1, 2**31, True, 7.0)
        ),
        *(
            (
                "about.json",
                json.dumps({"format": number}),
                "about.json has to hold format as a positive whole number",
            )
            for number in ("1", 0, -1, True, 1.0, None)
        ),
        (
            "about.json",
            f'{{"format": {FORMAT + 1}}}',
            f"format {FORMAT + 1}; .* up to {FORMAT}. Install",
        ),
        ("about.json", "[7]", "about.json has to hold an object; it holds"),
        (
            "about.json",
            '{"source_language": "../x"}',
            "about.json: The source language is '../x'; it has to be",
        ),
        ("model.toml", "", "model.toml is empty; it has to hold the settings of the model"),
        ("model.toml", "encoder_layers = 100000000", "encoder_layers is 100000000; it must be at most 1024"),
        (
            "model.toml",
            "encoder_layers = 1000",
            "model.toml: encoder_layers is 1000, and model.safetensors has weights of 1",
        ),
        ("model.toml", "d_model = 1000000000", "d_model is 1000000000; it must be at most 65536"),
        (
            "model.toml",
            "d_model = 65536",
            "d_model is 65536, and the embeddings in model.safetensors have 8 features",
        ),
        (
            "model.toml",
            "d_ff = 65536",
            r"has the shape \(12, 8\); the settings and vocabularies give \(65536, 8\)",
        ),
        ("model.toml", "dropout = 1%s" % ("0" * 400), "dropout is 1000.* a number of at most 64 bits"),
        ("model.toml", "heads = 0x%s" % ("f" * 5000), "heads is"),
        ("tokenizer.model", "nonsense", "tokenizer.model: This is not a SentencePiece model"),
    ],
)
def test_invalid_content_gets_a_sentence_with_the_file(folder, name, text, message):
    if name == "model.toml" and "=" in text:
        kept = (
            line for line in (folder / name).read_text().splitlines() if line.split()[0] != text.split()[0]
        )
        text = "\n".join([*kept, text])
    (folder / name).write_text(text)
    sign(folder)
    refused(folder, message)


@pytest.mark.parametrize(
    "pairs", [(), (LanguagePair("en", "de", "<2de>"), LanguagePair("en", "fr", "<2fr>"))]
)
def test_a_folder_has_the_least_number_that_its_content_needs_and_one_without_is_read(folder, pairs):
    replace(StoredModel.load(folder), pairs=pairs).save(folder)
    about = json.loads((folder / "about.json").read_text())
    assert about.pop("format") == (FORMAT if pairs else 1)
    before = StoredModel.load(folder)
    assert before.pairs == pairs
    (folder / "about.json").write_text(json.dumps(about))
    sign(folder)
    after = StoredModel.load(folder)
    assert (after.settings, after.longest_trained, after.languages, after.pairs) == (
        before.settings,
        before.longest_trained,
        before.languages,
        pairs,
    )


@pytest.mark.parametrize("longest", [None, 1, 2**31 - 1])
def test_any_longest_source_is_kept(intact, tmp_path, longest):
    stored = replace(StoredModel.load(intact), longest_trained=longest)
    stored.save(tmp_path / "model")
    assert StoredModel.load(tmp_path).longest_trained == longest


def test_a_folder_of_before_0_1_without_facts_of_its_training_is_read(folder):
    (folder / "about.json").unlink()
    sign(folder)
    found = StoredModel.load(folder)
    assert (found.longest_trained, found.languages) == (None, Languages())


def test_a_model_that_is_being_replaced_is_the_former_one(folder):
    before = StoredModel.load(folder.parent)
    folder.rename(beside(folder, OLD))
    after = StoredModel.load(folder.parent)
    assert all(np.array_equal(weight, after.weights[name]) for name, weight in before.weights.items())


def test_the_making_of_a_model_draws_no_random_numbers_of_the_caller(intact):
    stored, before = StoredModel.load(intact), torch.get_rng_state()
    torch_model(stored)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("holds", "verb", "format_"),
    [
        (None, "translate", None),
        ((), "train", None),
        (("recipe.toml",), "resume", None),
        (("config.json", "recipe.toml"), "import", "huggingface"),
        ((ADAPTER, "config.json"), "import", "adapter"),
    ],
)
def test_what_to_do_about_a_folder_without_a_model_is_a_command_for_a_shell(tmp_path, holds, verb, format_):
    """The first row is a file."""
    folder = tmp_path / "it's here"
    if holds is None:
        folder.write_text("amber\n")
    else:
        folder.mkdir()
        for name in holds:
            (folder / name).touch()
    with pytest.raises(DragomanError) as error:
        StoredModel.load(folder)
    said = str(error.value)
    words = shlex.split(said[said.index("dragoman ") :])
    assert words[1] == verb
    assert str(folder) in words
    assert dict(pairwise(words)).get("--from") == format_


@given(st.lists(st.text("ab", min_size=1, max_size=99), max_size=12))
def test_of_many_names_the_first_are_shown_and_the_others_counted(names):
    listed, _, more = first_names(names).partition(" and ")
    shown = listed.split(", ") if names else []
    assert shown == [name[:80] for name in names[: len(shown)]]
    assert 0 < len(shown) <= 5 or not names
    assert len(names) == len(shown) + int(more.removesuffix(" more") or 0)


def test_weights_of_another_type_or_shape_are_named(folder):
    weights = load_file(folder / "model.safetensors")
    save_file(
        weights | {"target_embedding.weight": weights["target_embedding.weight"].astype(np.float16)},
        folder / "model.safetensors",
    )
    sign(folder)
    refused(folder, "target_embedding.weight is of the type F16; it has to be F32")
    save_file(
        weights | {"target_embedding.weight": np.zeros((3, 8), np.float32)}, folder / "model.safetensors"
    )
    sign(folder)
    refused(folder, r"target_embedding.weight has the shape \(3, 8\)")


# ---- fuzzing

VALUES = st.one_of(
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.booleans(),
    st.none(),
    st.lists(st.integers(), max_size=2),
)


@st.composite
def mutations(draw):
    """The name of a file, what is done to its bytes, and whether the manifest is made to fit."""
    name, kind = draw(st.sampled_from(FILES)), draw(st.sampled_from(("flip", "cut", "value", "replace")))
    if kind == "flip":
        places = draw(
            st.lists(
                st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=8
            )
        )
        head = draw(st.booleans())  # a header is a small part of its file

        def change(data):
            data = bytearray(data)
            for place, bits in places:
                data[int(place * (min(len(data), 600) if head else len(data)))] ^= bits
            return bytes(data)
    elif kind == "cut":
        share = draw(st.floats(0, 1))

        def change(data):
            return data[: int(share * len(data))]
    elif kind == "value":
        key, value = draw(st.integers(0, 30)), draw(VALUES)
        written = json.dumps(value).encode()

        def change(data):
            lines = data.split(b"\n")
            number = key % len(lines)
            for sign in (b" = ", b": "):
                if sign in lines[number]:
                    lines[number] = lines[number].split(sign)[0] + sign + written
            return b"\n".join(lines)
    else:
        new = draw(st.one_of(st.binary(max_size=40), VALUES.map(lambda value: json.dumps(value).encode())))

        def change(_):
            return new

    return name, change, draw(st.booleans()) or name != MANIFEST


def load_or_refuse(intact, mutation):
    """Load a mutated copy of the folder."""
    name, change, signed = mutation
    folder = intact.parent / "mutated"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(intact, folder)
    (folder / name).write_bytes(change((folder / name).read_bytes()))
    if signed and name != MANIFEST:
        sign(folder)
    with suppress(DragomanError):
        StoredModel.load(folder)


FUZZ = {"deadline": 2000, "suppress_health_check": list(HealthCheck), "derandomize": True, "database": None}


@settings(max_examples=100, **FUZZ)
@given(mutations())
def test_a_mutated_folder_is_loaded_or_refused_with_a_sentence(intact, mutation):
    load_or_refuse(intact, mutation)


@pytest.mark.long
@settings(max_examples=10_000, **FUZZ)
@given(mutations())
def test_ten_thousand_mutated_folders_are_loaded_or_refused_with_a_sentence(intact, mutation):
    load_or_refuse(intact, mutation)
