"""Adapters (LoRA): trained on an initial model, stored apart, merged with their base."""

import json
import re
import shutil
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from torch import nn

from dragoman.cli.adapter import export_adapter, import_adapter
from dragoman.cli.export import Export
from dragoman.cli.import_model import Import
from dragoman.model.build import build_model
from dragoman.native.settings import EngineSettings
from dragoman.pipeline.adaptation.initial_model import is_trained
from dragoman.pipeline.recipe import read_recipe
from dragoman.pipeline.run import run
from dragoman.pipeline.settings import AdaptationSettings
from dragoman.serving.loading import load_models
from dragoman.system.errors import DragomanError
from dragoman.system.files import write_folder
from dragoman.system.toml import write_toml
from dragoman.text.settings import TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.training.low_rank import LowRankAdam
from dragoman.training.objective import step_optimizer
from dragoman.translation.adapter import Adapter, low_rank_factors
from dragoman.translation.model_folder import StoredModel, Tokenizers, model_hash, save_model
from dragoman.translation.translator import Translator
from tests.conftest import MODELS, TINY
from tests.test_adapt import adapt, complete, folder, last_checkpoint, table, weights

__all__ = ["folder"]
RANK = 3


@pytest.fixture(scope="module")
def base(trained) -> Path:
    return trained / "run"


@pytest.fixture(scope="module")
def tuned(trained, folder) -> Path:
    """A run that trained adapters of the attention and of the feed-forward networks; read only."""
    lora = {"lora_rank": RANK, "lora_maps": ["attention", "feed_forward"], "peak_rate": 0.01}
    return adapt(trained, folder, folder / "tuned", lora, updates=6)


@pytest.fixture(scope="module")
def exported(tuned, folder) -> Path:
    export_adapter(tuned, None, folder / "adapter")
    return folder / "adapter"


def test_an_update_is_adam_on_the_factors():
    torch.manual_seed(0)
    layer, source, target = (
        nn.Linear(5, 4, bias=False).double(),
        torch.randn(9, 5).double(),
        torch.randn(9, 4),
    )
    initial, scale = layer.weight.detach().clone(), 7 / 2
    ours = LowRankAdam(layer, rank=2, alpha=7, seed=3)
    factors: list[torch.Tensor] = []
    for step in range(1, 6):
        loss = (layer(source) - target).square().sum()
        loss.backward()
        step_optimizer(ours, layer, 0.01 * step, 0.0)
        ours.zero_grad()
        if not factors:  # A as it began: Adam changes nothing of it while B is zero
            a = ours.state[layer.weight]["a"].clone()
            factors = [a.requires_grad_(), torch.zeros(4, 2).double().requires_grad_()]
            theirs = torch.optim.Adam(factors, betas=(0.9, 0.98), eps=1e-9)
        a, b = factors
        (source @ (initial + scale * b @ a).T - target).square().sum().backward()
        theirs.param_groups[0]["lr"] = 0.01 * step
        theirs.step()
        theirs.zero_grad()
        torch.testing.assert_close(layer.weight.detach(), (initial + scale * b @ a).detach())


def test_the_first_factor_keeps_the_size_of_its_input_and_the_second_is_zero():
    model = nn.Linear(400, 30, bias=False)
    optimizer = LowRankAdam(model, 8, 16.0, seed=1)
    optimizer.step()
    state = optimizer.state[model.weight]
    assert state["a"].std().item() == pytest.approx(400**-0.5, rel=0.1)
    assert not state["b"].any()


def test_the_first_factors_are_those_of_their_seed_and_each_weight_has_its_own():
    drawn = []
    for seed in (1, 1, 2):
        model = nn.Sequential(nn.Linear(6, 5, bias=False), nn.Linear(6, 5, bias=False))
        optimizer = LowRankAdam(model, 2, 4.0, seed)
        optimizer.step()
        drawn.append([optimizer.state[weight]["a"] for weight in model.parameters()])
    assert all(map(torch.equal, drawn[0], drawn[1]))
    own = [tuple(factor.flatten().tolist()) for factors in drawn[1:] for factor in factors]
    assert len({*own}) == 4


def test_a_gradient_that_is_not_finite_changes_nothing():
    layer = nn.Linear(5, 4, bias=False)
    optimizer, before = LowRankAdam(layer, rank=2, alpha=4, seed=3), layer.weight.detach().clone()
    layer.weight.grad = torch.full((4, 5), torch.nan)
    step_optimizer(optimizer, layer, 0.1, 0.0)
    assert torch.equal(layer.weight, before)
    assert not optimizer.state


def test_only_the_named_maps_change_and_by_matrices_of_the_rank(base, tuned):
    before, after = weights(base / "model"), weights(last_checkpoint(tuned))
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed == {name for name, each in before.items() if each.ndim == 2 and "embedding" not in name}
    for name in changed:
        values = np.linalg.svd(after[name].astype(np.float64) - before[name], compute_uv=False)
        assert values[RANK - 1] > 1e-4
        assert values[RANK] < 1e-6


def test_a_resumed_run_of_adapters_equals_one_that_ran_through(trained, folder, tuned, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(tuned, out)
    (out / "result.json").unlink()
    shutil.rmtree(last_checkpoint(out))
    lora = {"lora_rank": RANK, "lora_maps": ["attention", "feed_forward"], "peak_rate": 0.01}
    run(complete(table(trained, folder, out, lora, updates=6)))
    ended, expected = last_checkpoint(out), last_checkpoint(tuned)
    assert ended.name == expected.name
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert (ended / name).read_bytes() == (expected / name).read_bytes()


def test_merged_equals_unmerged_and_the_run_itself(base, tuned, exported, tmp_path, folder):
    adapter, before, after = Adapter.load(exported), StoredModel.load(base), StoredModel.load(tuned)
    merged = adapter.merged(base)
    assert adapter.factors.keys() == {
        name for name, each in after.weights.items() if not np.array_equal(each, before.weights[name])
    }
    rows = np.random.default_rng(0).normal(size=(5, 2048))
    for name, each in merged.weights.items():
        np.testing.assert_allclose(each, after.weights[name], rtol=0, atol=1e-6)
        if name in adapter.factors:
            assert sum(factor.size for factor in adapter.factors[name]) == RANK * sum(each.shape)
            a, b, weight = (x.astype(np.float64) for x in (*adapter.factors[name], before.weights[name]))
            row = rows[:, : each.shape[1]]
            rounding = 2.0**-24 * np.abs(row) @ (np.abs(weight) + (RANK + 1) * np.abs(b) @ np.abs(a)).T
            assert (np.abs(row @ each.T - (row @ weight.T + row @ a.T @ b.T)) <= rounding).all()
    assert (merged.tokenizers, merged.longest_trained) == (after.tokenizers, after.longest_trained)
    import_adapter(Import(exported, "adapter", tmp_path / "merged", base=base))
    lines = (folder / "valid.source").read_text().splitlines()
    assert Translator.load(tmp_path / "merged").translate(lines) == Translator.load(tuned).translate(lines)


@pytest.mark.parametrize("limits", [(4, None), (90, 2), (None, 1)], ids=str)
def test_a_merged_model_splits_and_aligns_as_the_adapted_one_whatever_its_base(base, tmp_path, limits):
    longest, head = limits
    before = replace(StoredModel.load(base), longest_trained=33)
    before.save(tmp_path / "base")
    settings = replace(before.settings, alignment_head=head)
    replace(before, settings=settings, longest_trained=longest).save(tmp_path / "adapted")
    export_adapter(tmp_path / "adapted", tmp_path / "base", tmp_path / "adapter")
    import_adapter(Import(tmp_path / "adapter", "adapter", tmp_path / "merged", base=tmp_path / "base"))
    merged = StoredModel.load(tmp_path / "merged")
    assert (merged.longest_trained, merged.settings) == (longest, settings)
    (served,) = load_models([tmp_path / "base", tmp_path / "adapter"], EngineSettings()).models
    assert served.translator.longest_trained == 33
    assert [each.translator.longest_trained for each in served.adapted] == [longest]


def test_a_run_and_its_model_folder_give_the_same_adapter(base, tuned, exported, tmp_path, capsys):
    export_adapter(tuned / "model", None, tmp_path / "adapter")
    (said,) = re.findall(r"differ from those of .* by (\S+) at most", capsys.readouterr().err)
    merged, after = Adapter.load(exported).merged(base).weights, StoredModel.load(tuned).weights
    largest = max(np.abs(weight - after[name]).max() for name, weight in merged.items())
    assert said == f"{largest:.1g}"
    found, wanted = Adapter.load(tmp_path / "adapter").factors, Adapter.load(exported).factors
    assert found.keys() == wanted.keys()
    for name, factors in wanted.items():
        for mine, theirs in zip(found[name], factors, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.long
def test_the_size_of_an_adapter_is_that_of_its_numbers_in_mebibytes(base, tmp_path, capsys):
    rank, width, inner, random = 48, 64, 4096, np.random.default_rng(0)
    settings = replace(TINY, d_model=width, d_ff=inner, encoder_layers=1, decoder_layers=1)
    tokenizers = StoredModel.load(base).tokenizers
    save_model(
        tmp_path / "base",
        build_model(settings, len(tokenizers.source), len(tokenizers.target)),
        settings,
        tokenizers,
    )
    before = StoredModel.load(tmp_path / "base")
    added = {
        name: random.normal(size=(rank, weight.shape[0])).T @ random.normal(size=(rank, weight.shape[1]))
        for name, weight in before.weights.items()
        if sorted(weight.shape) == [width, inner]
    }
    after = {
        name: (weight + added.get(name, 0)).astype(np.float32) for name, weight in before.weights.items()
    }
    replace(before, weights=after).save(tmp_path / "adapted")
    export_adapter(tmp_path / "adapted", tmp_path / "base", tmp_path / "adapter")
    (said,) = re.findall(r"(\S+) MiB", capsys.readouterr().err)
    size = len(added) * rank * (width + inner) * 4 / 2**20
    assert float(said) == pytest.approx(size, rel=0.02)


def test_a_base_that_is_given_is_taken_and_not_that_of_the_recipe(base, tuned, exported, tmp_path):
    shutil.copytree(tuned, tmp_path / "run")
    recipe = read_recipe(tuned)
    adaptation = replace(recipe.adaptation, initial_model=tmp_path / "moved away")
    write_toml(replace(recipe, adaptation=adaptation), tmp_path / "run" / "recipe.toml")
    with pytest.raises(DragomanError, match="moved away"):
        export_adapter(tmp_path / "run", None, tmp_path / "adapter")
    export_adapter(tmp_path / "run", base, tmp_path / "adapter")
    for name in ("adapter.safetensors", "adapter.json"):
        assert (tmp_path / "adapter" / name).read_bytes() == (exported / name).read_bytes()


@pytest.mark.parametrize("name", ["source_language", "target_language", "samples"])
def test_what_a_merged_model_has_from_its_base_is_not_an_option(base, exported, tmp_path, name):
    value = exported / "adapter.json" if name == "samples" else "fr"
    with pytest.raises(DragomanError, match=f"--{name.replace('_', '-')} is not for --from adapter"):
        import_adapter(Import(exported, "adapter", tmp_path / "out", base=base, **{name: value}))
    assert not (tmp_path / "out").exists()


@pytest.mark.short_form(1)
@pytest.mark.parametrize("alpha", [None, 2.5])
def test_alpha_is_twice_the_rank_unless_it_is_given(trained, folder, tmp_path, alpha):
    """The first update of B is as large as the rate; its product with A is multiplied by alpha / rank."""
    out = [
        adapt(trained, folder, tmp_path / str(number), {"lora_rank": RANK, "lora_alpha": each}, updates=2)
        for number, each in enumerate((alpha, 2.0 * RANK if alpha is None else alpha, 7.5))
    ]
    one, same, other = (weights(last_checkpoint(each)) for each in out)
    assert all(np.array_equal(one[name], same[name]) for name in one)
    assert not all(np.array_equal(one[name], other[name]) for name in one)


def test_another_base_and_a_change_of_full_rank_are_refused(base, tuned, exported, tmp_path, trained):
    with pytest.raises(
        DragomanError, match="is not the model that the adapter was trained on; give that one"
    ):
        Adapter.load(exported).merged(tuned)
    stored = StoredModel.load(base)
    noise = np.random.default_rng(0).normal(size=(32, 32)).astype(np.float32)
    name = next(name for name, each in stored.weights.items() if each.shape == (32, 32))
    replace(stored, weights=stored.weights | {name: noise}).save(tmp_path / "trained")
    with pytest.raises(
        DragomanError, match=f"The change of {name} is not of low rank, .* or the rank is too high for maps"
    ):
        Adapter.between(base, tmp_path / "trained")
    with pytest.raises(DragomanError, match="is not an adapter: it has no adapter.json"):
        Adapter.load(base / "model")
    a, b = next(iter(Adapter.load(exported).factors.values()))
    for name in ("unknown.weight", "source_embedding.weight", "target_embedding.weight"):
        with pytest.raises(DragomanError, match=f"The adapter's factors of {name} do not fit the base model"):
            replace(Adapter.load(exported), factors={name: (a[:, :3], b)}).merged(base)
        with pytest.raises(DragomanError, match=f"The adapter's factors of {name} do not fit the base model"):
            replace(Adapter.load(exported), factors={name: (a[0, 0], b[0, 0])}).merged(base)
    assert json.loads((exported / "adapter.json").read_text())["base"] == model_hash(base)


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({}, "'base'"),
        ({"longest_source": 9}, "'base'"),
        ({"base": "", "longest_source": "9"}, "longest_source is '9', and must be a number"),
        ({"base": "", "longest_source": 0}, "longest_source is 0, and must be a number of at least 1"),
        ({"base": "", "longest_source": True}, "longest_source is True, and must be a number"),
        (
            {"base": "", "longest_source": 9, "alignment_head": "0"},
            "alignment_head is '0', and must be a number",
        ),
        (
            {"base": "", "longest_source": 9, "rank": 4},
            "adapter.json has 'rank', which this version does not",
        ),
        ([], r"adapter.json holds \[\], and has to hold an object"),
        (None, "adapter.json holds None, and has to hold an object"),
    ],
)
def test_an_adapter_that_describes_itself_wrongly_is_refused(exported, tmp_path, about, message):
    def write(folder):
        shutil.copyfile(exported / "adapter.safetensors", folder / "adapter.safetensors")
        (folder / "adapter.json").write_text(json.dumps(about))

    write_folder(tmp_path / "odd", write)
    with pytest.raises(DragomanError, match=f"is not an adapter as dragoman export writes it: {message}"):
        Adapter.load(tmp_path / "odd")


def test_an_adapter_that_would_make_weights_infinite_is_refused(base, exported, tmp_path):
    factors = load_file(exported / "adapter.safetensors")

    def write(folder):
        save_file(
            {name: np.full_like(each, 1e30) for name, each in factors.items()}, folder / "adapter.safetensors"
        )
        shutil.copyfile(exported / "adapter.json", folder / "adapter.json")

    write_folder(tmp_path / "odd", write)
    with pytest.raises(DragomanError, match="are so large that the weights overflow"):
        Adapter.load(tmp_path / "odd").merged(base / "model")


@pytest.mark.parametrize("factor", [np.float32("nan"), np.float32("inf"), np.int64(1)])
def test_an_adapter_whose_factors_are_no_finite_numbers_is_refused(exported, tmp_path, factor):
    factors = load_file(exported / "adapter.safetensors")
    name = min(factors)

    def write(folder):
        save_file(factors | {name: factors[name] * factor}, folder / "adapter.safetensors")
        shutil.copyfile(exported / "adapter.json", folder / "adapter.json")

    if isinstance(factor, np.int64):
        factors[name] = factors[name].astype(np.int64)
    write_folder(tmp_path / "odd", write)
    with pytest.raises(DragomanError, match="has to hold finite numbers in float32"):
        Adapter.load(tmp_path / "odd")


OF_ADAPTERS = {"lora_alpha": 4.0, "lora_maps": ["attention"]}


def test_each_option_of_adapters_is_tried_without_a_rank():
    options = {each.name for each in fields(AdaptationSettings) if each.name.startswith("lora_")}
    assert options == {"lora_rank", *OF_ADAPTERS}


@pytest.mark.parametrize(
    ("adaptation", "training", "message"),
    [
        *(
            (
                {option: value},
                {},
                f"{option} needs lora_rank; give both, or leave {option} out",
            )
            for option, value in OF_ADAPTERS.items()
        ),
        ({"lora_rank": 0}, {}, "lora_rank is 0; it must be at least 1"),
        (
            {"lora_rank": 2},
            {"shard": True},
            "Adapters are not trained with shard; leave it out, or lora_rank",
        ),
        ({"lora_rank": 2}, {"average": 4}, "average is 4, and checkpoints of adapters are not averaged"),
        ({"lora_rank": 32}, {}, r"lora_rank is 32, and .* is a matrix of \d+ × \d+; give a rank below 32"),
        (
            {"lora_rank": 2, "lora_maps": ["attention", "attn"]},
            {},
            "lora_maps names 'attn', and no linear map .* are made of .*, encoder, .*self_attention",
        ),
        (
            {"lora_rank": 2, "lora_maps": ["encoder.0"], "freeze": ["encoder"]},
            {},
            "No weight .* to train: freeze is 'encoder'; lora_maps is 'encoder.0'",
        ),
    ],
)
def test_settings_of_adapters_that_do_not_fit_are_refused(
    trained, folder, tmp_path, adaptation, training, message
):
    with pytest.raises(DragomanError, match=message):
        adapt(trained, folder, tmp_path / "out", adaptation, **training)
    assert not (tmp_path / "out").exists()


def test_a_base_is_asked_for_where_it_is_needed_and_only_there(base, exported, tmp_path, command_line):
    with pytest.raises(DragomanError, match="does not say which model was adapted; give it as --base RUN"):
        export_adapter(base, None, tmp_path / "out")
    with pytest.raises(DragomanError, match="There is no folder .*nowhere"):
        export_adapter(tmp_path / "nowhere", None, tmp_path / "out")
    with pytest.raises(
        DragomanError, match="--from adapter needs the model that it was trained on: give --base"
    ):
        import_adapter(Import(exported, "adapter", tmp_path / "out"))
    with pytest.raises(DragomanError, match="--source-language is not for --from adapter: the base model"):
        import_adapter(Import(exported, "adapter", tmp_path / "out", source_language="fr", base=base))
    with pytest.raises(DragomanError, match="--base is for --from adapter; a model of fairseq is complete"):
        import_adapter(Import(base, "fairseq", tmp_path / "out", base=base))
    for options in ([], ["--base", base]):
        given = [exported, "--from", "huggingface", "--out", tmp_path / "out", *options]
        status, _, err = command_line("import", *given)
        assert status == 2
        assert f"{exported} is an adapter: give --from adapter and its model, --base RUN." in err
    with pytest.raises(
        DragomanError, match="base is for to adapter, and not onnx; give that, or leave base out"
    ):
        Export(base, "onnx", tmp_path / "out", base=base)
    tokenizer = Tokenizer.train(iter(["some other words"]), "word", TokenizerSettings(byte_fallback=False), 9)
    small = build_model(replace(TINY, tied="none"), len(tokenizer), len(tokenizer))
    save_model(tmp_path / "small", small, replace(TINY, tied="none"), Tokenizers(tokenizer, tokenizer))
    with pytest.raises(DragomanError, match="was not adapted from .*: sizes or vocabularies differ"):
        Adapter.between(base, tmp_path / "small")
    other = Tokenizer.train(iter(["yet more words"]), "word", TokenizerSettings(byte_fallback=False), 9)
    assert len(other) == len(tokenizer)
    replace(StoredModel.load(tmp_path / "small"), tokenizers=Tokenizers(other, other)).save(
        tmp_path / "other"
    )
    with pytest.raises(DragomanError, match="was not adapted from .*: sizes or vocabularies differ"):
        Adapter.between(tmp_path / "small", tmp_path / "other")


def test_the_score_of_additive_attention_gets_no_adapter():
    settings = AdaptationSettings(initial_model=Path("run"), lora_rank=4)
    shapes = {name: weight.shape for name, weight in build_model(MODELS["lstm"], 11, 11).named_parameters()}
    adapted = [name for name, shape in shapes.items() if is_trained(name, shape, settings)]
    assert not is_trained("encoder.0.self_attention.score", (8, 8), settings)  # vectors of heads, not a map
    assert adapted
    assert "attention.score.weight" in shapes.keys() - set(adapted)


@settings(max_examples=30)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
@example(4, 4, 2, 0)
def test_an_adapter_has_fewer_numbers_than_its_weight_or_is_refused(rows, columns, rank, seed):
    draw = np.random.default_rng(seed)
    before = draw.normal(size=(rows, columns)).astype(np.float32)
    product = draw.normal(size=(rows, rank)) @ draw.normal(size=(rank, columns))
    after = (before + product).astype(np.float32)
    if min(rank, rows, columns) * (rows + columns) < rows * columns:
        a, b = low_rank_factors(before, after, "a weight")
        assert a.size + b.size < before.size
        np.testing.assert_allclose(before + b @ a, after, atol=1e-4)
    else:
        with pytest.raises(DragomanError, match="is not of low rank"):
            low_rank_factors(before, after, "a weight")
