"""Guided alignment in training: links, the loss, the head that alignments are read from, what is refused."""

import gzip
import json
import math
import operator
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli import distil, train
from dragoman.cli.adapter import export_adapter
from dragoman.cli.main import main
from dragoman.inspection.inspect import inspect
from dragoman.interop import huggingface
from dragoman.model.attention import attention
from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END
from dragoman.pipeline.guided_alignment import with_alignment_head
from dragoman.pipeline.prepare import prepare
from dragoman.pipeline.prepared import PreparedData, make_batches
from dragoman.pipeline.recipe import read_recipe, resolve_paths
from dragoman.pipeline.run import run
from dragoman.search.attention_weights import cross_attention
from dragoman.system.errors import DragomanError
from dragoman.system.files import write_manifest
from dragoman.system.messages import messages_to
from dragoman.system.toml import write_toml
from dragoman.text.corpus import CorpusStatistics, PairFilter, write_corpus
from dragoman.text.mixture import WeightedCorpus
from dragoman.text.settings import BatchSettings, TokenizerSettings
from dragoman.text.token_alignment import (
    AlignedCorpus,
    check_alignment,
    parse_links,
    token_links,
    write_alignment,
)
from dragoman.training.checkpoint import checkpoints
from dragoman.training.context import DivergenceError
from dragoman.training.guided_alignment import GuidedObjective, batch_links, log_attention
from dragoman.training.log import read_events
from dragoman.training.objective import Objective
from dragoman.training.settings import TrainingSettings
from dragoman.training.world import World
from dragoman.translation.adapter import Adapter
from dragoman.translation.alignment import select_head, word_alignment
from dragoman.translation.analysis import target_weights
from dragoman.translation.model_folder import StoredModel, read_settings
from dragoman.translation.translator import Translator
from tests.conftest import MODELS, TINY, VARIANTS, small_recipe, write_copies
from tests.test_adapt import complete, table

PIECES = TokenizerSettings(vocabulary=340)
MARIAN = huggingface.DEFAULTS["marian"] | {"model_type": "marian"}


def write_links(folder, lines):
    """A word alignment of `train.source` and `train.target`, which have as many words: random links."""
    draws, path = random.Random(1), folder / "train.links"
    with path.open("w") as file:
        for line in lines:
            words = range(len(line.split()))
            every = [f"{one}-{other}" for one in words for other in words]
            file.write(" ".join(draws.sample(every, draws.randint(0, len(words)))) + "\n")
    return path


def guided_recipe(folder, out="run", **training):
    """The recipe of a small run with a word alignment."""
    recipe = small_recipe(folder, folder / out, **training)
    links = folder / "train.links"
    if not links.exists():
        write_links(folder, recipe.data.source.read_text().splitlines())
    return replace(recipe, data=replace(recipe.data, guided_alignment=links))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A recipe and its data, with pieces of words; read only."""
    folder = tmp_path_factory.mktemp("guided")
    recipe = replace(guided_recipe(folder), tokenizer=PIECES)
    recipe = replace(recipe, batches=BatchSettings(400, 400))
    prepare(recipe.out, recipe)
    return recipe, PreparedData.load(recipe.out / "data"), AlignedCorpus(recipe.out / "data" / "train")


@pytest.fixture(scope="module")
def batch(prepared):
    recipe, data, _ = prepared
    batches = make_batches(recipe, data, World())
    return batches.load(batches.plan(0)[0])


# ---- links


def expected_links(data, recipe, pair):
    """The links of a pair by the definition: of each token of a target word with each of a source word."""
    number = data.train.line_number(pair) - 1
    read = [path.read_text().split("\n")[number] for path in (recipe.data.source, recipe.data.target)]
    links = {
        tuple(map(int, each.split("-")))
        for each in recipe.data.guided_alignment.read_text().split("\n")[number].split()
    }
    source, target = (
        side.word_ids(text)
        for side, text in zip((data.tokenizers.source, data.tokenizers.target), read, strict=True)
    )
    return [[t, s] for t, to in enumerate(target) for s, of in enumerate(source) if (of, to) in links]


@pytest.mark.long
def test_links_follow_their_pairs_whatever_is_left_out(tmp_path):
    """Pairs are empty, copies, too long, or held out for validation."""
    source, target = write_copies(tmp_path, "train", 120)
    lines = [path.read_text().split("\n")[:-1] for path in (source, target)]
    for side, word in zip(lines, ("amber ", "AMBER "), strict=True):
        side[3], side[40] = "", word * 100
    lines[1][7] = lines[0][7]
    for path, side in zip((source, target), lines, strict=True):
        path.write_text("".join(f"{line}\n" for line in side))
    write_links(tmp_path, ["" if number in {3, 7} else line for number, line in enumerate(lines[0])])
    recipe = replace(guided_recipe(tmp_path), tokenizer=PIECES)
    recipe = replace(recipe, data=replace(recipe.data, drop_copies=True, longest=90))
    prepare(recipe.out, recipe)
    data, corpus = PreparedData.load(recipe.out / "data"), AlignedCorpus(recipe.out / "data" / "train")
    assert data.train.statistics.too_long == 1
    assert data.train.statistics.held_out
    for pair in range(len(data.train)):
        assert corpus.links(pair).tolist() == expected_links(data, recipe, pair)
    # by several processes
    paths, files = data.tokenizers.paths(recipe.out / "data"), (source, target)
    write_corpus(tmp_path / "shards", files, paths, recipe.data, PairFilter(), CorpusStatistics(), 50)
    write_alignment(tmp_path / "shards", recipe.data.guided_alignment, files, paths, 50)
    sharded = AlignedCorpus(tmp_path / "shards")
    for pair in range(len(sharded)):
        data = replace(data, train=sharded)
        assert sharded.links(pair).tolist() == expected_links(data, recipe, pair)


words = st.lists(st.integers(0, 5), max_size=8).map(sorted)


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=9), words, words)
def test_linked_words_are_linked_by_all_their_tokens(links, source, target):
    """Words without a token are among them."""
    found = token_links(links, source, target)
    expected = [[t, s] for t, to in enumerate(target) for s, of in enumerate(source) if (of, to) in links]
    assert found.tolist() == expected


@pytest.mark.parametrize("line", ["", " ", "0-0", "1-2 0-0 1-2\t"])
def test_a_line_has_any_number_of_links(line):
    assert parse_links(line, ("a b", "a b c"), "") == [
        tuple(map(int, each.split("-"))) for each in line.split()
    ]


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ("0-0\n\n", "links has 2 lines, and .*source and .*target have 3. Line n has to hold the links of"),
        ("0-0\n\n\n\n\n", "links has 5 lines, and .* have 3"),
        (
            "0-0\n\n2-0\n",
            "links, line 3: the link 2-0 is to word 2 of the source, which has 2; words are count",
        ),
        ("0-3\n\n\n", "links, line 1: the link 0-3 is to word 3 of the target, which has 3"),
        ("\n0-0\n\n", "links, line 2: the link 0-0 is to word 0 of the source, which has 0"),
        (
            "0-0 1\n\n\n",
            "links, line 1: '1' is not a link. A link is the number of a source word, - and the n",
        ),
        ("-1-0\n\n\n", "links, line 1: '-1-0' is not a link"),
        ("0--1\n\n\n", "'0--1' is not a link"),
        ("a-b\n\n\n", "'a-b' is not a link"),
        ("0?0\n\n\n", "'0.0' is not a link"),
        ("0-0-0\n\n\n", "'0-0-0' is not a link"),
        ("٣-0\n\n\n", "is not a link"),
        (f"{'9' * 5000}-0\n\n\n", "is not a link"),
        ("", "is empty"),
    ],
)
def test_an_alignment_of_another_text_is_refused(tmp_path, links, message):
    for name, text in (("source", "a b\n\na b\n"), ("target", "a b c\nd\na\n"), ("links", links)):
        (tmp_path / name).write_text(text)
    with pytest.raises(DragomanError, match=message):
        check_alignment(tmp_path / "links", (tmp_path / "source", tmp_path / "target"))


def test_a_bad_alignment_is_refused_before_anything_is_written(tmp_path):
    recipe = guided_recipe(tmp_path)
    recipe.data.guided_alignment.write_text("0-0\n")
    with pytest.raises(DragomanError, match="has 1 lines, and .* have 200"):
        run(recipe)
    assert not recipe.out.exists()
    recipe.data.guided_alignment.unlink()
    with pytest.raises(DragomanError, match="guided_alignment is .*links, and there is no such file"):
        run(recipe)
    recipe.data.guided_alignment.write_bytes(b"0-0\xff\n")
    with pytest.raises(DragomanError, match="line 1, byte 4: not UTF-8"):
        run(recipe)


def test_data_without_links_are_refused(tmp_path):
    recipe = small_recipe(tmp_path, tmp_path / "run")
    prepare(recipe.out, recipe)
    with pytest.raises(
        DragomanError, match="has no word alignment .* which guided_alignment needs; begin again"
    ):
        AlignedCorpus(recipe.out / "data" / "train")


# ---- the loss


def plain_cross_entropy(model, batch, corpus, head):
    """Of the average of each token's links, and the head's weights by equation 1 as it is written."""
    weights = cross_attention(model, batch.source, batch.target_out)[-1, :, head - 1]
    total = 0.0
    for row, pair in enumerate(batch.pairs):
        links = corpus.links(pair).tolist()
        for token in range(batch.target_out.size(1)):
            sources = [s for t, s in links if t == token]
            total -= sum(math.log(weights[row, token, s]) / len(sources) for s in sources)
    return total


@pytest.mark.parametrize(
    "kind", ["transformer", "transformer, other options", "restricted", "conv, enriched", "lstm, enriched"]
)
def test_the_loss_is_its_definition(prepared, batch, kind):
    _, data, corpus = prepared
    torch.manual_seed(1)
    model = build_model((MODELS | VARIANTS)[kind], *(2 * [len(data.tokenizers.source)])).eval()
    objective = Objective(model, 0.1, bfloat16=False)
    loss, nll = objective(batch)
    for head in range(1, model.settings.heads + 1):
        with_links, same = GuidedObjective(objective, corpus, head, 0.25)(batch)
        expected = plain_cross_entropy(model, batch, corpus, head)
        assert expected > 1
        assert (with_links - loss).item() == pytest.approx(0.25 * expected, rel=1e-4)
        assert torch.equal(same, nll)


def gradients(objective, batch, seed=1):
    """The loss of a batch and the gradients of all weights."""
    torch.manual_seed(seed)
    objective.zero_grad()
    loss, _ = objective(batch)
    loss.backward()
    return [loss.detach(), *(weight.grad.clone() for weight in objective.parameters())]


def without_links(corpus):
    """The corpus with an empty alignment."""
    corpus.links = lambda pair: torch.zeros(0, 2, dtype=torch.int64).numpy()
    return corpus


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("bfloat16", [False, True])
def test_no_weight_or_no_links_is_no_guide_to_the_last_bit(prepared, batch, native, bfloat16):
    """With dropout, also on attention weights."""
    recipe, data, corpus = prepared
    torch.manual_seed(1)
    model = build_model(replace(TINY, attention_dropout=0.1), *(2 * [len(data.tokenizers.source)]))
    objective = Objective(model, 0.1, bfloat16, native).train()
    plain = gradients(objective, batch)
    empty = without_links(AlignedCorpus(recipe.out / "data" / "train"))
    for guide in (GuidedObjective(objective, corpus, 1, 0.0), GuidedObjective(objective, empty, 1, 1.0)):
        assert all(map(torch.equal, plain, gradients(guide, batch)))
    assert not torch.equal(plain[0], gradients(GuidedObjective(objective, corpus, 1, 0.1), batch)[0])


@pytest.mark.parametrize("bfloat16", [False, True])
def test_the_kernels_give_the_gradient_of_pytorch(prepared, batch, bfloat16):
    _, data, corpus = prepared
    found = []
    for native in (False, True):
        torch.manual_seed(1)
        model = build_model(replace(TINY, dropout=0.0), *(2 * [len(data.tokenizers.source)]))
        objective = GuidedObjective(Objective(model, 0.1, bfloat16, native).train(), corpus, 2, 1.0)
        found.append(torch.cat([gradient.flatten() for gradient in gradients(objective, batch)[1:]]))
    assert (found[0] - found[1]).norm() < (0.05 if bfloat16 else 1e-4) * found[0].norm()


def test_a_token_without_links_has_no_gradient():
    torch.manual_seed(1)
    query, key = torch.randn(2, 5, 4, requires_grad=True), torch.randn(2, 6, 4, requires_grad=True)
    mask = torch.ones(2, 1, 6, dtype=torch.bool)
    mask[0, 0, 4:] = mask[1] = False
    log_weights = log_attention(query, key, mask)
    expected = attention(query[:, None], key[:, None], key[:, None], mask[:, None])[1][:, 0]
    torch.testing.assert_close(log_weights[0].exp(), expected[0])
    log_weights[0, 2, 1].backward()
    assert query.grad[0, 2].abs().sum() > 0
    query.grad[0, 2] = 0
    assert not query.grad.any()
    assert key.grad.isfinite().all()
    assert not key.grad[1].any()


def test_the_weights_are_computed_in_float32_whatever_the_precision():
    torch.manual_seed(1)
    query, key = (3 * torch.randn(2, 5, 16, dtype=torch.bfloat16) for _ in range(2))
    mask = torch.ones(2, 1, 5, dtype=torch.bool)
    found, expected = log_attention(query, key, mask), log_attention(query.double(), key.double(), mask)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected.float(), rtol=1e-5, atol=1e-5)


def test_parts_of_a_batch_have_its_gradient(prepared, batch):
    """As micro-batches, and where memory runs out. A batch without pairs, which a rank may get, has none."""
    recipe, data, corpus = prepared
    torch.manual_seed(1)
    model = build_model(TINY, *(2 * [len(data.tokenizers.source)])).double().eval()
    objective = GuidedObjective(Objective(model, 0.1, bfloat16=False), corpus, 1, 0.5)
    whole = gradients(objective, batch)
    parts = [gradients(objective, half) for half in batch.halves()]
    for one, *others in zip(whole, *parts, strict=True):
        torch.testing.assert_close(one, sum(others), rtol=1e-5, atol=1e-5)
    empty = make_batches(recipe, data, World())._empty_batch()
    assert not batch_links(corpus, empty)[0].numel()
    assert not any(gradient.any() for gradient in gradients(objective, empty))


# ---- training


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory):
    """A folder with a run whose head 2 is guided to the mirrored words, which no translation is made of."""
    folder = tmp_path_factory.mktemp("mirrored")
    source, _ = write_copies(folder, "train", 200)
    counts = [len(line.split()) for line in source.read_text().splitlines()]
    mirror = (" ".join(f"{count - 1 - n}-{n}" for n in range(count)) for count in counts)
    (folder / "train.links").write_text("".join(f"{line}\n" for line in mirror))
    recipe = guided_recipe(
        folder,
        updates=120,
        warmup_steps=30,
        learning_rate_scale=0.5,
        validate_every=120,
        checkpoint_every=60,
        average=1,
        guided_alignment_weight=1.0,
    )
    recipe = replace(recipe, model=replace(recipe.model, d_model=32, d_ff=64, dropout=0.0, alignment_head=2))
    run(replace(recipe, batches=BatchSettings(400, 400)))
    return folder


@pytest.mark.long
def test_alignments_and_tags_are_read_from_the_head_that_was_guided(mirrored):
    translator = Translator.load(mirrored / "run")
    assert read_settings(mirrored / "run" / "model").alignment_head == 2
    lines = (mirrored / "train.source").read_text().splitlines()[:40]
    pairs = [(line, line.upper()) for line in lines]
    found = translator.align(pairs)
    assert found == translator.align(pairs, head=2) == translator.align(pairs, layer=1)
    assert found != translator.align(pairs, head=1)
    counts = [len(line.split()) for line in lines]
    mirror = [[(count - 1 - n, n) for n in range(count)] for count in counts]

    def right(alignments):
        return sum(len(set(one) & set(other)) for one, other in zip(alignments, mirror, strict=True))

    assert right(found) > 2 * right(translator.align(pairs, head=1))
    tokenizer = translator.tokenizers.source
    rows = [
        [*tokenizer.encode([text])[0], END] for text in pairs[0]
    ]  # tags and unknown words read these weights
    weights = cross_attention(translator.torch_backend.model, *(torch.tensor([row]) for row in rows))
    assert torch.equal(target_weights(translator, rows[0], rows[1][:-1]), weights[-1, 0, 1])


def test_a_resumed_run_equals_an_uninterrupted_one_without_the_file(tmp_path):
    recipe = guided_recipe(tmp_path, "whole", updates=12, warmup_steps=4, validate_every=6)
    recipe = replace(recipe, batches=replace(recipe.batches, accumulate=3, micro_batch_tokens=60))
    stopped = replace(recipe, out=tmp_path / "stopped")

    def copy(words):
        if words.startswith("Validation at update 6"):  # as if the run had ended here
            shutil.copytree(recipe.out, stopped.out)

    with messages_to(copy):
        run(recipe)
    recipe.data.guided_alignment.rename(tmp_path / "moved")
    run(stopped)
    weights = [checkpoints(folder)[-1] / "model.safetensors" for folder in (recipe.out, stopped.out)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


@pytest.mark.long
def test_a_weight_of_zero_trains_the_ordinary_model(tmp_path):
    """And a compressed alignment is read as the plain one."""
    short = {"updates": 6, "warmup_steps": 3, "validate_every": 6, "checkpoint_every": 6, "average": 1}
    ordinary, weights = small_recipe(tmp_path, tmp_path / "ordinary", **short), []
    zero = guided_recipe(tmp_path, "zero", guided_alignment_weight=0.0, **short)
    links = zero.data.guided_alignment
    (tmp_path / "links.gz").write_bytes(gzip.compress(links.read_bytes()))
    plain, compressed = (
        replace(guided_recipe(tmp_path, out, **short), data=replace(zero.data, guided_alignment=path))
        for out, path in (("plain", links), ("compressed", tmp_path / "links.gz"))
    )
    for recipe in (ordinary, zero, plain, compressed):
        run(recipe)
        weights.append((checkpoints(recipe.out)[-1] / "model.safetensors").read_bytes())
    assert weights[0] == weights[1] != weights[2] == weights[3]
    log = [json.loads((recipe.out / "log.jsonl").read_text().split("\n")[0]) for recipe in (zero, plain)]
    assert log[0]["nll"] == pytest.approx(log[1]["nll"], rel=0.2)
    assert log[0]["loss"] < log[1]["loss"]


def test_divergence_is_located(tmp_path):
    with pytest.raises(
        DivergenceError, match=r"First non-finite value: the output of objective\.model\.\S+\."
    ):
        run(guided_recipe(tmp_path, learning_rate_scale=1e30))


@pytest.mark.short_form(1)
@pytest.mark.parametrize("lora", [{}, {"lora_rank": 2}], ids=["all weights", "lora"])
def test_an_initial_model_gets_a_head(trained, tmp_path, lora):
    source, _ = write_copies(tmp_path, "new", 60, 5)
    write_copies(tmp_path, "valid", 6, 6)
    asked = table(trained, tmp_path, tmp_path / "run", lora, updates=2)
    links = write_links(tmp_path, source.read_text().splitlines())
    with_links = asked | {"data": asked["data"] | {"guided_alignment": str(links)}}
    losses = []
    for each, out in ((with_links, "run"), (asked, "ordinary")):
        run(complete(each | {"out": str(tmp_path / out)}))
        losses.append(
            [line["loss"] for line in read_events(tmp_path / out / "log.jsonl") if "seconds" in line]
        )
    assert all(map(operator.gt, *losses))
    run(complete(with_links))  # the same command has nothing to do
    heads = [StoredModel.load(out).settings.alignment_head for out in (trained / "run", tmp_path / "run")]
    assert heads == [None, 1]
    if lora:
        export_adapter(tmp_path / "run", trained / "run", tmp_path / "adapter")
        merged = Adapter.load(tmp_path / "adapter").merged(trained / "run")
        assert merged.settings.alignment_head == 1
        about = tmp_path / "adapter" / "adapter.json"
        about.write_text(json.dumps(json.loads(about.read_text()) | {"alignment_head": "1"}))
        (tmp_path / "adapter" / "manifest.json").unlink()
        write_manifest(tmp_path / "adapter")
        with pytest.raises(DragomanError, match="not an adapter .* alignment_head is '1', and must be a num"):
            Adapter.load(tmp_path / "adapter")


# ---- what is read, and what is refused


def test_the_alignment_head_is_read_where_no_head_is_asked_for():
    weights = torch.rand(2, 3, 4, 5, 6)
    assert torch.equal(select_head(weights, None, None, 3), weights[1, :, 2])
    assert torch.equal(select_head(weights, 2, None, 3), weights[1, :, 2])
    assert torch.equal(select_head(weights, 1, None, 3), weights[0].mean(1))
    assert torch.equal(select_head(weights, None, 1, 3), weights[1, :, 0])
    with pytest.raises(DragomanError, match="There is no head 5; this model has 4"):
        select_head(weights, None, None, 5)


@pytest.mark.long
def test_an_inspection_and_lines_of_json_have_the_head_too(mirrored, tmp_path, monkeypatch, capfdbinary):
    translator = Translator.load(mirrored / "run")
    found = inspect(translator, "amber birch cedar delta")
    weights = torch.from_numpy(found.attention.cross)[-1, 1]
    sides = found.source_words[:-1], found.target_words[:-1]
    assert list(found.alignment) == word_alignment(weights, *sides)
    files = []
    for side in ("source", "target"):
        files += [f"--{side}", str(tmp_path / side)]
        (tmp_path / side).write_text((mirrored / f"train.{side}").read_text().partition("\n")[0] + "\n")
    monkeypatch.setattr("sys.argv", ["dragoman", "align", str(mirrored / "run"), *files, "--json"])
    main()
    first = json.loads(capfdbinary.readouterr().out)
    expected = translator.attention(first["source"], first["target"]).cross[-1, 1].tolist()
    assert first["weights"] == expected


def test_a_head_that_is_no_number_is_not_imported():
    with pytest.raises(DragomanError, match="dragoman_alignment_head is '2'; it has to be a number"):
        huggingface.settings_of(MARIAN | {"dragoman_alignment_head": "2"}, Path("config.json"))


def changed(recipe, table, **values):
    return replace(recipe, **{table: replace(getattr(recipe, table), **values)})


@pytest.mark.parametrize(
    ("table", "values", "message"),
    [
        (
            "model",
            {"architecture": "lstm"},
            "multi-head attention, and the architecture lstm has none; leave it",
        ),
        (
            "model",
            {"architecture": "conv"},
            "multi-head attention, and the architecture conv has none; leave it",
        ),
        (
            "model",
            {"attention_score": "additive"},
            "for scaled dot products, and attention_score is additive",
        ),
        ("tokenizer", {"source_tokens": "bpe", "bpe_dropout": 0.1}, "segmentation .* bpe_dropout samples"),
        ("tokenizer", {"source_tokens": "unigram", "sampling_alpha": 0.1}, "and sampling_alpha samples"),
        ("adaptation", {"replay": ("a", "b")}, "no links of the text to replay"),
    ],
)
def test_what_guided_alignment_excludes_is_refused(tmp_path, table, values, message):
    recipe = changed(guided_recipe(tmp_path), table, **values)
    with pytest.raises(DragomanError, match=message):
        with_alignment_head(recipe, resolve_paths(recipe.data))


def test_a_weight_without_an_alignment_is_refused(trained):
    text, message = (
        str(trained / "train.source"),
        "belongs to --guided-alignment FILE of dragoman train, which is missing; ",
    )
    weight = ["--guided-alignment-weight", "0.5"]
    with pytest.raises(DragomanError, match=message):
        train.recipe_of(train.COMMAND.parse([text, str(trained / "train.target"), *weight]))
    with pytest.raises(DragomanError, match=message):
        distil.plan(distil.COMMAND.parse([str(trained / "run"), "--data", text, *weight]))


def test_several_corpora_and_files_with_both_sides_are_refused(tmp_path):
    recipe = guided_recipe(tmp_path)
    (tmp_path / "both.tsv").write_text("a\tb\n" * 200)
    several = (WeightedCorpus(recipe.data.source, recipe.data.target),)
    for texts in (
        {"source": None, "target": None, "corpus": several},
        {"source": tmp_path / "both.tsv", "target": None},
    ):
        with pytest.raises(
            DragomanError, match="the training text is not two files; write it to a file of so"
        ):
            run(changed(recipe, "data", **texts))
        assert not recipe.out.exists()


def test_a_run_is_not_resumed_with_what_guided_alignment_excludes(mirrored, tmp_path):
    shutil.copytree(mirrored / "run", tmp_path / "run")
    recipe, path = read_recipe(tmp_path / "run"), tmp_path / "run" / "recipe.toml"
    sampled = {"source_tokens": "bpe", "target_tokens": "bpe", "bpe_dropout": 0.1}
    write_toml(changed(recipe, "tokenizer", **sampled), path)  # as by hand
    with pytest.raises(DragomanError, match="guided_alignment is for one segmentation of the text"):
        run(changed(read_recipe(tmp_path / "run"), "training", updates=150))
    write_toml(recipe, path)
    (tmp_path / "run" / "data" / "train" / "000000000.alignment.npy").unlink()
    with pytest.raises(DragomanError, match="begin again|would continue with another text"):
        run(changed(recipe, "training", updates=160))


@pytest.mark.parametrize(
    ("settings", "values", "message"),
    [
        (
            TrainingSettings,
            {"guided_alignment_weight": -0.1},
            "guided_alignment_weight is -0.1; it must be at l",
        ),
        (
            TrainingSettings,
            {"guided_alignment_weight": math.inf},
            "guided_alignment_weight is inf; it must be a finite number",
        ),
        (ModelSettings, {"alignment_head": 0}, "alignment_head is 0; it must be at least 1"),
        (ModelSettings, {"alignment_head": 9}, "alignment_head is 9; it must be at most 8"),
    ],
)
def test_numbers_out_of_bounds_are_refused(settings, values, message):
    with pytest.raises(DragomanError, match=message):
        settings(**values)
