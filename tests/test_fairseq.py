"""Imported fairseq models compute fairseq's equations and read the same tokens; what Dragoman cannot hold
is told.

Checkpoints are written as commit 3d262bb (2025, after release 0.12.3) writes them in fairseq/trainer.py,
`Trainer.state_dict`, with the tensors of fairseq/models/transformer; the older ones as release 0.6.2 did
(fairseq/utils.py, `save_state`), with the names that `upgrade_state_dict_named` turns into today's. The
forward pass is that of transformer_encoder.py, transformer_decoder.py, transformer_layer.py,
multihead_attention.py and sinusoidal_positional_embedding.py, in plain torch, from these tensors' names.
"""

import io
import math
import pickle
import re
import sys
import types
import warnings
from argparse import Namespace
from collections import OrderedDict
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from subword_nmt.apply_bpe import BPE
from torch.nn import functional as F

from dragoman.interop import fairseq
from dragoman.interop.vocabulary import FORBIDDEN_BIAS
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END, START, UNKNOWN
from dragoman.search.beam import greedy_search
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.text import subword_nmt
from dragoman.text.settings import Languages
from dragoman.text.subword_nmt import make_segmenter
from dragoman.text.tokenizer import UNKNOWN_TEXT
from dragoman.translation.model_folder import StoredModel, save_model, torch_model

SOURCE = ["ein Mann fährt Rad", "zwei Hunde spielen im Schnee", "der Schnee ist kalt .", "ein Kind spielt"]
TARGET = ["a man rides a bike", "two dogs play in the snow", "the snow is cold .", "a child plays"]
BASE = {
    "_name": "transformer_iwslt_de_en",
    "activation_fn": "relu",
    "dropout": 0.3,
    "attention_dropout": 0.1,
    "encoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 20,
    "encoder_layers": 2,
    "encoder_attention_heads": 2,
    "encoder_normalize_before": False,
    "encoder_learned_pos": False,
    "encoder_layerdrop": 0.2,
    "decoder_embed_dim": 16,
    "decoder_ffn_embed_dim": 20,
    "decoder_layers": 2,
    "decoder_attention_heads": 2,
    "decoder_normalize_before": False,
    "decoder_learned_pos": False,
    "decoder_layerdrop": 0,
    "max_source_positions": 40,
    "max_target_positions": 40,
    "share_decoder_input_output_embed": False,
    "share_all_embeddings": False,
    "no_scale_embedding": False,
    "layernorm_embedding": False,
    "adaptive_input": False,
    "adaptive_softmax_cutoff": None,
    "quant_noise_pq": 0,
}
PRE = {"encoder_normalize_before": True, "decoder_normalize_before": True}
KINDS = {
    "nothing shared": {},
    "all embeddings shared": {"share_all_embeddings": True},
    "the target's shared, other depths": {
        "share_decoder_input_output_embed": True,
        "encoder_layers": 1,
        "decoder_layers": 3,
        "decoder_ffn_embed_dim": 8,
    },
    "norms before, gelu, unscaled": {**PRE, "activation_fn": "gelu", "no_scale_embedding": True},
    "learned positions": {
        "encoder_learned_pos": True,
        "decoder_learned_pos": True,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
    },
}


def write_dictionary(path, tokens):
    path.write_text("".join(f"{token} {1000 - number}\n" for number, token in enumerate(tokens)), "utf-8")


def read_dictionary(path):
    """fairseq/data/dictionary.py: the number of each token."""
    indices = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
    number = 4
    for line in path.read_text("utf-8").splitlines():
        token, *_ = line.rsplit(" #", 1)[0].rsplit(" ", 1)
        indices[token] = number
        number += 1
    return indices, number


def random_tensors(options, source, target):
    """What `model.state_dict()` holds, in the names of today."""
    generator = torch.Generator().manual_seed(11)
    width = options["encoder_embed_dim"]
    found = OrderedDict()

    def linear(name, rows, columns):
        found[f"{name}.weight"] = torch.randn(rows, columns, generator=generator) * columns**-0.5
        found[f"{name}.bias"] = torch.randn(rows, generator=generator) * 0.1

    def norm(name):
        found[f"{name}.weight"] = 1 + torch.randn(width, generator=generator) * 0.2
        found[f"{name}.bias"] = torch.randn(width, generator=generator) * 0.2

    for side, tokens, attentions in (
        ("encoder", source, ["self_attn"]),
        ("decoder", target, ["self_attn", "encoder_attn"]),
    ):
        inner = options[f"{side}_ffn_embed_dim"]
        found[f"{side}.version"] = torch.tensor([3.0])
        found[f"{side}.embed_tokens.weight"] = torch.randn(tokens, width, generator=generator) * width**-0.5
        if options[f"{side}_learned_pos"]:
            rows = options["max_source_positions"] + 2
            found[f"{side}.embed_positions.weight"] = torch.randn(rows, width, generator=generator) * 0.3
        else:
            found[f"{side}.embed_positions._float_tensor"] = torch.tensor([0.5])
        for number in range(options[f"{side}_layers"]):
            layer = f"{side}.layers.{number}"
            for attention in attentions:
                for part in ("k_proj", "v_proj", "q_proj", "out_proj"):
                    linear(f"{layer}.{attention}.{part}", width, width)
                norm(f"{layer}.{attention}_layer_norm")
            linear(f"{layer}.fc1", inner, width)
            linear(f"{layer}.fc2", width, inner)
            norm(f"{layer}.final_layer_norm")
        if options[f"{side}_normalize_before"]:
            norm(f"{side}.layer_norm")
    if options["share_all_embeddings"]:
        found["decoder.embed_tokens.weight"] = found["encoder.embed_tokens.weight"]
    found["decoder.output_projection.weight"] = torch.randn(target, width, generator=generator) * 0.3
    if options["share_all_embeddings"] or options["share_decoder_input_output_embed"]:
        found["decoder.output_projection.weight"] = found["decoder.embed_tokens.weight"]
    return found


def positions(tensors, options, side, length):
    """Rows of the table from padding_idx + 1 on."""
    if options[f"{side}_learned_pos"]:
        return tensors[f"{side}.embed_positions.weight"][2 : 2 + length]
    half = options[f"{side}_embed_dim"] // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float) * -(math.log(10000) / (half - 1)))
    angles = torch.arange(2, 2 + length, dtype=torch.float)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1)


def forward(tensors, options, source, target):
    """Logits [T, V] of a decoder that has read `target`, for a source with </s>, in fairseq's ids."""
    width, heads = options["encoder_embed_dim"], options["encoder_attention_heads"]
    before = options["encoder_normalize_before"]
    activation = {"relu": F.relu, "gelu": F.gelu}[options["activation_fn"]]

    def linear(x, name):
        return F.linear(x, tensors[f"{name}.weight"], tensors[f"{name}.bias"])

    def norm(x, name):
        return F.layer_norm(x, (width,), tensors[f"{name}.weight"], tensors[f"{name}.bias"], 1e-5)

    def attention(x, memory, name, causal):
        def split(y):
            return y.view(len(y), heads, width // heads).transpose(0, 1)

        scores = split(linear(x, f"{name}.q_proj") * (width // heads) ** -0.5) @ split(
            linear(memory, f"{name}.k_proj")
        ).transpose(1, 2)
        if causal:
            scores = scores + torch.full((len(x), len(x)), -math.inf).triu(1)
        y = scores.softmax(-1) @ split(linear(memory, f"{name}.v_proj"))
        return linear(y.transpose(0, 1).reshape(len(x), width), f"{name}.out_proj")

    def sublayer(x, name, function):
        return x + function(norm(x, name)) if before else norm(x + function(x), name)

    def stack(ids, side, memory):
        scale = 1.0 if options["no_scale_embedding"] else math.sqrt(width)
        x = scale * tensors[f"{side}.embed_tokens.weight"][torch.tensor(ids)] + positions(
            tensors, options, side, len(ids)
        )
        for number in range(options[f"{side}_layers"]):
            layer = f"{side}.layers.{number}"
            x = sublayer(
                x,
                f"{layer}.self_attn_layer_norm",
                lambda y: attention(y, y, f"{layer}.self_attn", memory is not None),
            )
            if memory is not None:
                x = sublayer(
                    x,
                    f"{layer}.encoder_attn_layer_norm",
                    lambda y: attention(y, memory, f"{layer}.encoder_attn", False),
                )
            x = sublayer(
                x,
                f"{layer}.final_layer_norm",
                lambda y: linear(activation(linear(y, f"{layer}.fc1")), f"{layer}.fc2"),
            )
        return norm(x, f"{side}.layer_norm") if before else x

    return (
        stack(target, "decoder", stack(source, "encoder", None))
        @ tensors["decoder.output_projection.weight"].T
    )


def state_of(tensors, options, languages=("de", "en")):
    """`Trainer.state_dict`: settings as plain values, and much that a translation does not need."""
    task = {
        "_name": "translation",
        "data": "data-bin",
        "source_lang": languages[0],
        "target_lang": languages[1],
        "eval_bleu": False,
    }
    metrics = OrderedDict(
        train=[(0, "loss", "AverageMeter", {"val": 1.5, "sum": 3.0, "count": 2, "round": 3})]
    )
    return {
        "args": None,
        "cfg": {
            "_name": None,
            "common": {"seed": 1},
            "task": task,
            "model": Namespace(**options),
            "optimizer": {"_name": "adam"},
        },
        "model": tensors,
        "criterion": None,
        "optimizer_history": [
            {
                "criterion_name": "LabelSmoothedCrossEntropyCriterion",
                "num_updates": 7,
                "lr_scheduler_state": {},
            }
        ],
        "task_state": {},
        "extra_state": {"metrics": metrics, "previous_training_time": 1.0, "train_iterator": {"epoch": 1}},
        "last_optimizer_state": {"state": {}, "param_groups": []},
    }


def lists(shared):
    """The dictionaries' tokens, padded to a multiple of eight as fairseq does."""
    source, target = (sorted({word for line in lines for word in line.split()}) for lines in (SOURCE, TARGET))
    if shared:
        source = target = sorted({*source, *target})
    return [
        [*words, *(f"madeupword{number:04d}" for number in range(-(len(words) + 4) % 8))]
        for words in (source, target)
    ]


def folder_of(path, words=None, **changed):
    """A folder with a random model, as fairseq saves it, and its tensors and options."""
    options = {**BASE, **changed}
    words = words or lists(options["share_all_embeddings"])
    path.mkdir(exist_ok=True)
    for language, tokens in zip(("de", "en"), words, strict=True):
        write_dictionary(path / f"dict.{language}.txt", tokens)
    tensors = random_tensors(options, *(len(tokens) + 4 for tokens in words))
    torch.save(state_of(tensors, options), path / "checkpoint_best.pt")
    return tensors, options


def ids_there(line, indices, cut=lambda line: line):
    return [indices.get(word, 3) for word in cut(line).split()] + [2]


def greedy_there(tensors, options, source, most):
    written = []
    while len(written) < most:
        logits = forward(tensors, options, source, [2, *written])[-1]
        logits[1] = -math.inf  # sequence_generator.py: padding is never written
        if (best := int(logits.argmax())) == 2:
            break
        written.append(best)
    return written


def agree(tensors, options, imported, lines, there):
    """The same ids, the same logits and the same greedy translations, for sentences and for what lies beyond
    them.
    """
    of_source, of_target = imported.vocabularies
    own = [number for number in range(len(of_target.rows)) if number not in of_target.never_written]
    for line in lines:
        [ids] = imported.tokenizers.source.encode([line])
        source = there(line)
        assert [of_source.rows[token] for token in [*ids, END]] == source
        [[best]] = greedy_search(
            imported.model, torch.tensor([[*ids, END]]), SearchSettings(beam_size=1, max_extra_tokens=4)
        )
        theirs = greedy_there(tensors, options, source, len(ids) + 4)
        assert [of_target.rows[token] for token in best.ids] == theirs
        prefix = torch.tensor([[START, *best.ids]])
        with torch.no_grad():
            features, _ = imported.model.decode(prefix, imported.model.encode(torch.tensor([[*ids, END]])))
            ours = imported.model.logits(features[0])
        expected = forward(tensors, options, source, [2, *theirs])
        torch.testing.assert_close(
            ours[:, own], expected[:, [of_target.rows[token] for token in own]], rtol=0, atol=1e-5
        )
        assert START in of_target.never_written
        assert (ours[:, of_target.never_written] < FORBIDDEN_BIAS / 2).all()


@pytest.mark.short_form(1)
@pytest.mark.parametrize("kind", KINDS)
def test_an_imported_model_has_the_same_logits_and_translations(kind, tmp_path):
    tensors, options = folder_of(tmp_path / "theirs", **KINDS[kind])
    imported = fairseq.read(tmp_path / "theirs")
    indices, _ = read_dictionary(tmp_path / "theirs" / "dict.de.txt")
    agree(
        tensors,
        options,
        imported,
        [*SOURCE, "zwei Katzen spielen", "<s> kalt"],
        lambda line: ids_there(line, indices),
    )
    assert imported.model.settings.tied == (
        "all" if options["share_all_embeddings"] else "target" if "target" in kind else "none"
    )


def test_an_imported_model_is_the_same_after_saving(tmp_path):
    tensors, options = folder_of(tmp_path / "theirs", **PRE)
    imported = fairseq.read(tmp_path / "theirs" / "checkpoint_best.pt")
    save_model(tmp_path / "ours", imported.model, imported.model.settings, imported.tokenizers)
    stored = StoredModel.load(tmp_path / "ours")
    model, tokenizers = torch_model(stored), stored.tokenizers
    assert tokenizers == imported.tokenizers
    indices, _ = read_dictionary(tmp_path / "theirs" / "dict.de.txt")
    again = fairseq.Imported(model.eval(), tokenizers, imported.vocabularies)
    agree(tensors, options, again, SOURCE, lambda line: ids_there(line, indices))


def test_the_command_line_imports_without_verification(tmp_path, command_line):
    folder_of(tmp_path / "theirs", **PRE)
    command = ["import", tmp_path / "theirs", "--from", "fairseq", "--out", tmp_path / "ours"]
    status, _, err = command_line(*command, "--samples", tmp_path / "theirs" / "dict.de.txt")
    assert status == 2
    assert "--samples is for --from huggingface or marian; models of fairseq are not compared." in err
    status, _, err = command_line(*command)
    assert status == 0
    assert "The names and shapes of all tensors fit; there is no comparison with fairseq itself." in err
    assert StoredModel.load(tmp_path / "ours" / "model").languages == Languages("de", "en")
    command = ["import", tmp_path / "ours", "--from", "fairseq", "--out", tmp_path / "again"]
    status, _, err = command_line(*command)
    assert (status, "ours is a model of Dragoman, which needs no import." in err) == (2, True)


def nested(options):
    """The same options in the groups of fairseq/models/transformer/transformer_config.py."""
    parts = {part: {} for part in ("encoder", "decoder", "quant_noise")}
    flat = {}
    for name, value in options.items():
        part = next((part for part in parts if name.startswith(f"{part}_")), None)
        if part is None:
            flat[name] = value
        else:
            parts[part][name.removeprefix(f"{part}_")] = value
    return {**flat, **parts}


@pytest.mark.short_form(1)
@pytest.mark.parametrize("written", ["a dictionary", "groups", "args"])
def test_settings_are_read_from_every_place_where_fairseq_writes_them(written, tmp_path):
    tensors, options = folder_of(tmp_path, **PRE, encoder_layers=1)
    state = state_of(tensors, options)
    if written == "args":
        name = options.pop("_name")
        state = state | {
            "args": Namespace(**options, arch=name, task="translation", source_lang="de", target_lang="en")
        }
        del state["cfg"]
    else:
        state["cfg"]["model"] = nested(options) if written == "groups" else options
    torch.save(state, tmp_path / "checkpoint_best.pt")
    indices, _ = read_dictionary(tmp_path / "dict.de.txt")
    agree(tensors, options, fairseq.read(tmp_path), SOURCE, lambda line: ids_there(line, indices))


def as_of_old(tensors, output):
    """Names of release 0.6.2 and before."""
    old = {}
    norms = {"encoder": ["self_attn", "final"], "decoder": ["self_attn", "encoder_attn", "final"]}
    for name, tensor in tensors.items():
        side = name.split(".")[0]
        place, _, last = name.rpartition(".")
        if place.endswith(".q_proj"):
            stem = place.removesuffix("q_proj")
            old[f"{stem}in_proj_{last}"] = torch.cat([tensors[f"{stem}{part}_proj.{last}"] for part in "qkv"])
        elif ".layers." in name and place.endswith("_layer_norm"):
            layer, norm = place.rsplit(".", 1)
            old[f"{layer}.layer_norms.{norms[side].index(norm.removesuffix('_layer_norm'))}.{last}"] = tensor
        elif not place.endswith(("k_proj", "v_proj")) and name != "decoder.output_projection.weight":
            old[name] = tensor
    return old | output


@pytest.mark.short_form(1)
@pytest.mark.parametrize("shared", [True, False])
def test_a_model_of_an_old_version_is_imported(shared, tmp_path, monkeypatch):
    tensors, options = folder_of(tmp_path, **PRE, share_decoder_input_output_embed=shared)
    tensors = {name: tensor.half().float() for name, tensor in tensors.items()}
    meters = types.ModuleType("fairseq.meters")
    for name in ("AverageMeter", "TimeMeter", "StopwatchMeter"):
        setattr(meters, name, type(name, (), {"__module__": "fairseq.meters"}))
    monkeypatch.setitem(sys.modules, "fairseq", types.ModuleType("fairseq"))
    monkeypatch.setitem(sys.modules, "fairseq.meters", meters)
    clock = meters.TimeMeter()
    clock.start = 1.0
    kept = OrderedDict(train_loss=meters.AverageMeter(), wps=clock, train_wall=meters.StopwatchMeter())
    name = options.pop("_name")
    output = {} if shared else {"decoder.embed_out": tensors["decoder.output_projection.weight"]}
    state = {
        "args": Namespace(**options, arch=name, source_lang="de", target_lang="en"),
        "model": {name: tensor.half() for name, tensor in as_of_old(tensors, output).items()},
        "optimizer_history": [{"lr_scheduler_state": {"best": np.float64(1.5)}}],
        "extra_state": {"train_meters": kept, "_bleu_counts": np.array([4, 3, 2, 1])},
    }
    torch.save(state, tmp_path / "checkpoint_best.pt", _use_new_zipfile_serialization=False)
    indices, _ = read_dictionary(tmp_path / "dict.de.txt")
    agree(tensors, options, fairseq.read(tmp_path), SOURCE, lambda line: ids_there(line, indices))
    unknown = "encoder.layers.0.layer_norms.2.weight"  # a layer of an encoder has two
    state["model"][unknown] = torch.ones(2)
    torch.save(state, tmp_path / "checkpoint_best.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(DragomanError, match=re.escape(unknown)):
        fairseq.read(tmp_path)


def test_old_tables_of_sinusoids_are_compared_with_the_formula(tmp_path):
    tensors, options = folder_of(tmp_path)
    table = torch.cat([torch.zeros(2, 16), positions(tensors, options, "encoder", 30)])
    for side in ("encoder", "decoder"):
        tensors[f"{side}.embed_positions.weights"] = table

    def read_with(decoder_table):
        tensors["decoder.embed_positions.weights"] = decoder_table
        torch.save(state_of(tensors, options), tmp_path / "checkpoint_best.pt")
        fairseq.read(tmp_path)

    def changed_in(row):
        return table.index_add(0, torch.tensor([row]), torch.full((1, 16), 0.01))

    for same in (table, table.half(), changed_in(0), changed_in(1)):  # no text reads the first two rows
        read_with(same)
    for other in (table.flip(1), changed_in(2), changed_in(31)):
        with pytest.raises(
            DragomanError, match=r"decoder\.embed_positions\.weights is not the table of sinusoids"
        ):
            read_with(other)


CODES = "#version: 0.2\ne i\nei n</w>\nd e\nde r</w>\nS c\nSc h\nh n\nS chn\n"
FAST = "e i 912\nei n</w> 500\nd e 44\nde r</w> 12\nS c 9\nSc h 8\nh n 7\nS chn 6\n"


@pytest.mark.short_form(1)
@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("bpecodes", CODES),
        ("code", CODES.removeprefix("#version: 0.2\n")),
        ("code", CODES.replace("0.2", "0.1")),
        ("codes", CODES.replace("\n", " \r\n")),
        ("codes", FAST),
        ("codes", f"{FAST}\n \n"),
        ("bpe.codes", CODES),
    ],
    ids=[
        "0.2",
        "0.1",
        "0.1 with its number",
        "Windows lines",
        "fastBPE",
        "fastBPE, blank at the end",
        "another name",
    ],
)
def test_codes_segment_words_as_subword_nmt_does(name, codes, tmp_path):
    cutter = BPE(io.StringIO(CODES if codes.startswith(FAST) else codes))
    cut = sorted({piece for line in SOURCE for piece in cutter.process_line(line).split()} - {"t"})
    tensors, options = folder_of(tmp_path, words=[cut, lists(False)[1]])
    (tmp_path / name).write_text(codes, "utf-8")
    indices, _ = read_dictionary(tmp_path / "dict.de.txt")
    imported = fairseq.read(tmp_path)
    agree(
        tensors,
        options,
        imported,
        [SOURCE[1], "Schneider", "ein X kalt", "  Schnee der  Mann "],
        lambda line: ids_there(line, indices, cutter.process_line),
    )
    [ids] = imported.tokenizers.source.encode([SOURCE[1]])
    decode = imported.tokenizers.source.decode
    assert decode(ids) == SOURCE[1]
    ends = [decode(ids[:length]) for length in range(len(ids) + 1)]  # also where a word is cut
    assert all(SOURCE[1].startswith(end) for end in ends)
    assert ends == sorted(set(ends), key=len)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ("#version: 0.2\na\n", "These byte-pair merges are damaged: subword-nmt cannot read them"),
        ("#version: x\na b\n", "These byte-pair merges are damaged"),
        ("#version: 0.3\na b\n", r"of version 0\.3 of subword-nmt's format; those of 0\.1 and 0\.2"),
    ],
)
def test_codes_that_cannot_be_read_are_refused(codes, message):
    with pytest.raises(DragomanError, match=message):
        make_segmenter(codes, [])


def test_the_words_whose_pieces_are_remembered_are_bounded(monkeypatch):
    monkeypatch.setattr(subword_nmt, "MAX_CACHED", 3)
    segment = make_segmenter(CODES, [])
    fresh = [make_segmenter(CODES, [])(f"kalt{number}") for number in range(9)]
    assert [segment(f"kalt{number}") for number in range(9)] == fresh
    (bpe,) = [cell.cell_contents for cell in segment.__closure__ if isinstance(cell.cell_contents, BPE)]
    assert len(bpe.cache) <= 4


def learnt(path, kind):
    """A SentencePiece model with its own numbers, of both languages."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*SOURCE, *TARGET] * 9),
        model_writer=model,
        model_type=kind,
        vocab_size=70,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    path.write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


@pytest.mark.short_form(1)
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize(("name", "shared"), [("sentencepiece.bpe.model", True), ("spm.model", False)])
def test_sentencepiece_and_a_dictionary_that_lacks_pieces_give_the_same_ids(kind, name, shared, tmp_path):
    side = learnt(tmp_path / name, kind)
    pieces = [side.id_to_piece(number) for number in range(3, side.get_piece_size())]
    kept = [piece for piece in pieces if piece not in ("▁e", "ein", "▁", "S", "▁ein", "t")][::-1]
    tensors, options = folder_of(tmp_path, words=[[*kept, "madeupword0000"]] * 2, share_all_embeddings=shared)
    indices, _ = read_dictionary(tmp_path / "dict.de.txt")

    def there(line):
        return ids_there(line, indices, lambda text: " ".join(side.encode(text, out_type=str)))

    assert any(3 in there(line) for line in SOURCE)
    imported = fairseq.read(tmp_path)
    agree(tensors, options, imported, [*SOURCE[1:3], "das ist 漢字 im Schnee", "madeupword0000  kalt"], there)
    assert (imported.model.settings.tied == "all") == shared
    [ids] = imported.tokenizers.source.encode([SOURCE[1]])
    decode = imported.tokenizers.source.decode
    assert decode(ids) == SOURCE[1]


def test_a_whole_dictionary_shares_one_vocabulary_with_sentencepiece(tmp_path):
    side = learnt(tmp_path / "sentencepiece.bpe.model", "bpe")
    pieces = [side.id_to_piece(number) for number in range(3, side.get_piece_size())]
    folder_of(tmp_path, words=[pieces] * 2, share_all_embeddings=True)
    imported = fairseq.read(tmp_path)
    assert imported.model.settings.tied == "all"
    assert imported.tokenizers.source is imported.tokenizers.target
    assert imported.tokenizers.target.decode([UNKNOWN]) == UNKNOWN_TEXT


def test_a_token_that_overwrites_another_is_the_one_that_is_read(tmp_path):
    words = [
        [*lists(False)[0], "<unk> 0 #fairseq:overwrite #", "ein 1 #fairseq:overwrite #"],
        lists(False)[1],
    ]
    tensors, options = folder_of(tmp_path, words=words)
    text = "".join(
        line.split(" #")[0] + " #fairseq:overwrite\n" if "#" in line else f"{line}\n"
        for line in (tmp_path / "dict.de.txt").read_text("utf-8").splitlines()
    )
    (tmp_path / "dict.de.txt").write_text(text, "utf-8")
    indices, size = read_dictionary(tmp_path / "dict.de.txt")
    assert indices["ein"] == size - 1
    agree(
        tensors,
        options,
        fairseq.read(tmp_path),
        ["ein Mann fährt", "ein Kind spielt ein"],
        lambda line: ids_there(line, indices),
    )


def test_dictionaries_that_are_the_same_need_no_languages(tmp_path):
    tensors, options = folder_of(tmp_path, share_all_embeddings=True)
    torch.save(state_of(tensors, options, (None, None)), tmp_path / "checkpoint_best.pt")
    fairseq.read(tmp_path)
    write_dictionary(tmp_path / "dict.en.txt", lists(True)[0][::-1])
    with pytest.raises(
        DragomanError,
        match=r"checkpoint_best\.pt does not name its languages.*: there are dict\.de\.txt, dict",
    ):
        fairseq.read(tmp_path)
    write_dictionary(tmp_path / "dict.en.txt", lists(True)[0])
    write_dictionary(tmp_path / "dict.fr.txt", lists(True)[0])
    with pytest.raises(
        DragomanError,
        match=r"checkpoint_best\.pt does not name its languages.*dict\.de\.txt, dict\.en\.txt, dict\.fr\.txt",
    ):
        fairseq.read(tmp_path)


TOKENS = st.text(" ab▁#@\t\x85\u2028é漢", min_size=1, max_size=5).filter(
    lambda token: token not in fairseq.SPECIAL
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(st.lists(st.tuples(TOKENS, st.integers(-9, 9999)), unique_by=lambda entry: entry[0], min_size=1))
def test_a_line_of_a_dictionary_is_a_token_of_any_letters_and_its_count(tmp_path, entries):
    path = tmp_path / "dict.de.txt"
    path.write_text("".join(f"{token} {count}\n" for token, count in entries), "utf-8", newline="")
    assert fairseq.read_dictionary(path) == [*fairseq.SPECIAL, *(token for token, _ in entries)]


OPTIONS = {
    "adaptive_input": True,
    "adaptive_softmax_cutoff": "1000,2000",
    "layernorm_embedding": True,
    "cross_self_attention": True,
    "no_cross_attention": True,
    "no_token_positional_embeddings": True,
    "quant_noise_pq": 0.1,
    "encoder_layers_to_keep": "0,2",
    "scale_heads": True,
    "scale_attn": True,
    "scale_fc": True,
    "scale_resids": True,
    "base_layers": 1,
    "char_inputs": True,
    "merge_src_tgt_embed": True,
    "quant_noise_scalar": 0.5,
    "decoder_layers_to_keep": "1",
    "encoder_xformers_att_config": "{'name': 'linformer'}",
    "decoder_xformers_att_config": "{}",
    "activation_fn": "gelu_accurate",
    "_name": "fconv",
    "decoder_embed_dim": 8,
    "decoder_attention_heads": 4,
    "decoder_normalize_before": True,
    "decoder_learned_pos": True,
    "encoder_layers": "six",
}


@pytest.mark.short_form(13)
@pytest.mark.parametrize(("name", "written"), [*zip(OPTIONS, cycle([dict, nested]), strict=False)])
def test_an_option_that_dragoman_does_not_have_is_refused(name, written, tmp_path):
    tensors, options = folder_of(tmp_path)
    state = state_of(tensors, options)
    state["cfg"]["model"] = written(options | {name: OPTIONS[name]})
    torch.save(state, tmp_path / "checkpoint_best.pt")
    with pytest.raises(DragomanError) as told:
        fairseq.read(tmp_path)
    assert "checkpoint_best.pt: " in str(told.value)
    assert {"_name": "architecture"}.get(name, name) in str(told.value)
    assert str(OPTIONS[name]) in str(told.value)


# Those of BASE that have the default of fairseq's base_architecture: for the decoder's sizes the encoder's.
DEFAULTS = [
    name
    for name in BASE
    if name.startswith(("share", "no_scale", "adaptive", "layernorm", "quant", "activation", "decoder_embed"))
    or name.endswith(("normalize_before", "learned_pos", "decoder_ffn_embed_dim"))
]


@pytest.mark.short_form(2)
@pytest.mark.parametrize("name", DEFAULTS)
def test_an_option_that_is_left_out_has_its_default(name, tmp_path):
    tensors, options = folder_of(tmp_path)
    expected = fairseq.read(tmp_path).model.settings
    del options[name]
    torch.save(state_of(tensors, options), tmp_path / "checkpoint_best.pt")
    assert fairseq.read(tmp_path).model.settings == expected


@pytest.mark.parametrize(
    "name",
    [
        "transformer",
        "transformer_tiny",
        "transformer_iwslt_de_en",
        *(f"transformer_{task}" for task in ("wmt_en_de", "wmt_en_de_big", "wmt_en_de_big_t2t")),
        *(f"transformer_vaswani_{task}_big" for task in ("wmt_en_de", "wmt_en_fr")),
    ],
)
def test_every_named_size_without_options_is_the_papers_base_model(name):
    """fairseq's base_architecture; a checkpoint has the options in which its architecture differs."""
    found = fairseq.settings_of({"arch": name}, Path("model.pt"))
    assert found == ModelSettings(positions="sinusoidal-tensor2tensor", first_position=2, attention_bias=True)


def without(name):
    return lambda tensors: tensors.pop(name)


def with_shape(name, *shape):
    return lambda tensors: tensors.update({name: torch.zeros(shape)})


DAMAGE = {
    "a missing tensor": (
        without("encoder.layers.1.fc1.weight"),
        {},
        r"lacks the tensor encoder\.layers\.1\.fc1\.weight, of shape \(20, 16\)",
    ),
    "a wrong shape": (
        with_shape("decoder.layers.0.fc2.weight", 16, 21),
        {},
        r"fc2\.weight has the shape \(16, 21\), and \(16, 20\) was expected",
    ),
    "old projections of a wrong shape": (
        with_shape("encoder.layers.0.self_attn.in_proj_weight", 48, 8),
        {},
        r"encoder\.layers\.0\.self_attn\.q_proj\.weight has the shape \(16, 8\), and \(16, 16\)",
    ),
    "no last norm": (
        without("decoder.layer_norm.weight"),
        PRE,
        r"lacks the tensor decoder\.layer_norm\.weight, of shape \(16,\)",
    ),
    "no logits": (
        without("decoder.output_projection.weight"),
        {},
        r"lacks the tensor decoder\.output_projection\.weight, of shape \(\d+, 16\)",
    ),
    "no embedding": (
        without("encoder.embed_tokens.weight"),
        {},
        r"lacks the tensor encoder\.embed_tokens\.weight",
    ),
    "more rows than tokens": (
        with_shape("encoder.embed_tokens.weight", 99, 16),
        {},
        r"dict\.de\.txt has \d+ tokens, and encoder\.embed_tokens\.weight in .*checkpoint_best\.pt has 99 "
        r"rows",
    ),
    "another tensor": (
        with_shape("decoder.project_out_dim.weight", 8, 16),
        {},
        r"has the tensor decoder\.project_out_dim\.weight, which",
    ),
    "shared embeddings that differ": (
        with_shape("decoder.embed_tokens.weight", len(lists(True)[0]) + 4, 16),
        {"share_all_embeddings": True},
        "its settings share the embeddings",
    ),
    "an encoder's embeddings of its own": (
        with_shape("encoder.embed_tokens.weight", len(lists(True)[0]) + 4, 16),
        {"share_all_embeddings": True},
        "its settings share the embeddings",
    ),
    "logits of their own": (
        with_shape("decoder.output_projection.weight", len(lists(False)[1]) + 4, 16),
        {"share_decoder_input_output_embed": True},
        "its settings share the embeddings",
    ),
    "tables of two lengths": (
        with_shape("decoder.embed_positions.weight", 12, 16),
        KINDS["learned positions"],
        "has learned 40 positions of sources and 10 of targets",
    ),
    "no tensors": (
        lambda tensors: tensors.update(nothing=None),
        {},
        "holds no weights under the name 'model'",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_tensors_that_do_not_fit_are_refused_with_names_and_shapes(kind, tmp_path):
    damage, changed, message = DAMAGE[kind]
    tensors, options = folder_of(tmp_path, **changed)
    damage(tensors)
    torch.save(state_of(tensors, options), tmp_path / "checkpoint_best.pt")
    with pytest.raises(DragomanError, match=message) as told:
        fairseq.read(tmp_path)
    assert "checkpoint_best.pt" in str(told.value)


def test_an_odd_width_is_refused(tmp_path):
    folder_of(
        tmp_path,
        **dict.fromkeys(("encoder_embed_dim", "decoder_embed_dim"), 15),
        **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 3),
    )
    with pytest.raises(DragomanError, match=r"checkpoint_best\.pt: encoder_embed_dim is 15"):
        fairseq.read(tmp_path)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("share", [0, 0.3, 0.9, 0.999])
def test_a_truncated_checkpoint_is_refused(zipped, share, tmp_path):
    tensors, options = folder_of(tmp_path)
    path = tmp_path / "checkpoint_best.pt"
    torch.save(state_of(tensors, options), path, _use_new_zipfile_serialization=zipped)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(DragomanError, match=r"checkpoint_best\.pt"):
        fairseq.read(tmp_path)


class Harmful:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("place", ["args", "extra_state", "model"])
def test_another_class_is_refused_and_not_run(place, tmp_path):
    tensors, options = folder_of(tmp_path)
    torch.save(
        state_of(tensors, options) | {place: Harmful(tmp_path / "harm")}, tmp_path / "checkpoint_best.pt"
    )
    with pytest.raises(
        DragomanError, match=r"checkpoint_best\.pt holds _?io\.open.*no code of the file was run"
    ):
        fairseq.read(tmp_path)
    (tmp_path / "checkpoint_best.pt").write_bytes(pickle.dumps(Harmful(tmp_path / "harm")))
    with pytest.raises(DragomanError, match=r"checkpoint_best\.pt"):
        fairseq.read(tmp_path)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    "state",
    [{}, {"model": {}}, {"args": None, "cfg": None, "model": {}}, {"args": 3}, {"cfg": {"task": {}}}, [1]],
    ids=str,
)
def test_a_file_that_is_not_a_checkpoint_is_refused(state, tmp_path):
    torch.save(state, tmp_path / "model.pt")
    with pytest.raises(DragomanError, match=r"model\.pt (has no settings|holds a list)"):
        fairseq.read(tmp_path)


@pytest.mark.parametrize("name", ["_name", "source_lang"])
def test_names_that_are_no_texts_are_shown_in_brief(tmp_path, command_line, name):
    """Pickles share parts: a list of ten times the same list, and so on, is as large as one likes."""
    tensors, options = folder_of(tmp_path / "theirs")
    state = state_of(tensors, options)
    value = ["a"]
    for _ in range(9):
        value = [value] * 10
    state["cfg"]["task"][name] = value
    torch.save(state, tmp_path / "theirs" / "checkpoint_best.pt")
    asked = ["import", tmp_path / "theirs", "--from", "fairseq", "--out", tmp_path / "ours"]
    status, _, err = command_line(*asked)
    assert (status, "checkpoint_best.pt" in err) == (2, True)
    assert len(err) < 1_000


@pytest.mark.parametrize("place", ["cfg", "args"])
def test_another_task_is_refused(place, tmp_path):
    tensors, options = folder_of(tmp_path)
    state, task = state_of(tensors, options), "translation_multi_simple_epoch"
    state["cfg"]["task"]["_name"] = task
    if place == "args":
        del options["_name"]
        languages = {"source_lang": "de", "target_lang": "en"}
        state["args"] = Namespace(**options, arch="transformer", task=task, **languages)
    torch.save(state, tmp_path / "checkpoint_best.pt")
    with pytest.raises(
        DragomanError, match=r"checkpoint_best\.pt: the task is 'translation_multi_simple_epoch'"
    ):
        fairseq.read(tmp_path)


def test_a_language_names_no_file_elsewhere(tmp_path):
    tensors, options = folder_of(tmp_path / "theirs")
    (tmp_path / "theirs" / "dict.x").mkdir()
    (tmp_path / "theirs" / "dict.de.txt").rename(tmp_path / "other.txt")
    state = state_of(tensors, options, ("x/../../other", "en"))
    torch.save(state, tmp_path / "theirs" / "checkpoint_best.pt")
    with pytest.raises(DragomanError, match=r"checkpoint_best\.pt: its languages are .*have to be names"):
        fairseq.read(tmp_path / "theirs")


def test_a_folder_without_exactly_one_checkpoint_is_refused(tmp_path):
    folder_of(tmp_path)
    with pytest.raises(DragomanError, match=r"nowhere\.pt cannot be read: No such file"):
        fairseq.read(tmp_path / "nowhere.pt")
    whole = (tmp_path / "checkpoint_best.pt").read_bytes()
    (tmp_path / "checkpoint3.pt").write_bytes(whole)
    fairseq.read(tmp_path)
    (tmp_path / "checkpoint_last.pt").write_bytes(whole)
    with pytest.raises(DragomanError, match=r"has checkpoint_best\.pt, checkpoint_last\.pt; name the file"):
        fairseq.read(tmp_path)
    fairseq.read(tmp_path / "checkpoint_last.pt")
    (tmp_path / "checkpoint_best.pt").unlink()
    (tmp_path / "checkpoint_last.pt").unlink()
    fairseq.read(tmp_path)
    (tmp_path / "model.pt").write_bytes(whole)
    fairseq.read(tmp_path)
    (tmp_path / "model.pt").unlink()
    (tmp_path / "checkpoint3.pt").unlink()
    with pytest.raises(DragomanError, match="should hold one checkpoint, and has none"):
        fairseq.read(tmp_path)


TEXTS = {
    "dict.de.txt": {
        "ein 3\nein 4\n": "dict.de.txt, line 2: 'ein' occurs twice",
        "<unk> 4\n": "dict.de.txt, line 1: '<unk>' occurs twice",
        "ein 3\nMann\n": "dict.de.txt, line 2: 'Mann' is not a token and its count",
        "ein 3\nMann viele\n": "dict.de.txt, line 2: 'Mann viele' is not a token and its count",
        "\xff": "dict.de.txt cannot be read",
        "▁ein 3\n": "dict.de.txt has",
    },
    "bpecodes": {
        "#version: 0.2\ne i\nein\n": "bpecodes, line 3: 'ein' is not a pair of pieces",
        "e i 4\nei n\n": "bpecodes, line 2: 'ei n' is not a pair of pieces to merge, with their count",
        "e i 4\nei n x\n": "bpecodes, line 2: 'ei n x' is not a pair of pieces to merge, with their",
        "e i 4\n\nei n 2\n": "bpecodes, line 2: '' is not a pair of pieces to merge, with their count",
        "#version: 0.3\ne i\n": "bpecodes begins with '#version: 0.3'",
        "": "bpecodes, line 1: '' is not a pair of pieces",
    },
    "spm.model": {"no model": "spm.model is not a SentencePiece model"},
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in TEXTS.items() for text in texts])
def test_a_damaged_dictionary_or_codes_file_is_refused(name, text, tmp_path):
    folder_of(tmp_path)
    (tmp_path / name).write_text(text, "latin-1" if text == "\xff" else "utf-8")
    with pytest.raises(DragomanError) as told:
        fairseq.read(tmp_path)
    assert TEXTS[name][text] in str(told.value)


@pytest.mark.parametrize("side", [0, 1])
def test_sentencepiece_tokens_without_their_model_are_refused(side, tmp_path):
    words = [["ein", "Mann"], ["a"]]
    words[side] = ["▁ein", "▁Mann"]
    folder_of(tmp_path, words=words)
    with pytest.raises(
        DragomanError,
        match=rf"dict\.{('de', 'en')[side]}\.txt: the vocabulary is of SentencePiece's pieces; put",
    ):
        fairseq.read(tmp_path)


@pytest.mark.parametrize("side", [0, 1])
def test_pieces_of_subword_nmt_without_their_codes_are_refused(side, tmp_path):
    words = [["a"], ["a"]]
    words[side] = ["M@@", "a@@", "n"]
    folder_of(tmp_path, words=words)
    with pytest.raises(DragomanError, match=r"is of subword-nmt's pieces; put its codes \(bpecodes, codes"):
        fairseq.read(tmp_path)
    (tmp_path / "bpe.codes").write_text(CODES)
    fairseq.read(tmp_path)


def test_a_few_words_may_have_the_mark_of_a_space(tmp_path):
    folder_of(tmp_path, words=[["▁ein", "a▁b", *map(str, range(20))], ["a"]])
    assert fairseq.read(tmp_path).tokenizers.source.encode(["7"])


def named_in(folder, option, value):
    """A model whose checkpoint names an option of fairseq's preprocessing."""
    folder_of(folder)
    state = torch.load(folder / "checkpoint_best.pt", weights_only=False)
    state["cfg"][option] = {"_name": value}
    torch.save(state, folder / "checkpoint_best.pt")
    return folder


def test_other_subwords_are_refused(tmp_path):
    with pytest.raises(
        DragomanError, match="bpe is 'gpt2'; Dragoman reads models with subword_nmt, fastbpe or"
    ):
        fairseq.read(named_in(tmp_path, "bpe", "gpt2"))
    fairseq.read(named_in(tmp_path, "bpe", None))


NAMED = {
    "a group": lambda option, value: {"args": None, "cfg": {option: {"_name": value}}},
    "a text": lambda option, value: {"cfg": {option: value}},
    "args": lambda option, value: {"args": Namespace(**{option: value})},
}


@pytest.mark.parametrize("place", NAMED)
def test_a_checkpoint_names_its_preprocessing_in_every_place_where_fairseq_writes_it(place):
    def asked(option, value):
        fairseq.refuse_other_subwords(NAMED[place](option, value), Path("model.pt"))

    with warnings.catch_warnings(action="error"):
        for name in (None, "subword_nmt", "fastbpe", "sentencepiece"):
            asked("bpe", name)
        for name in (None, "space"):
            asked("tokenizer", name)
        with pytest.raises(DragomanError, match=r"model\.pt: bpe is 'gpt2'; Dragoman reads"):
            asked("bpe", "gpt2")
    with pytest.warns(
        UserWarning, match=r"model\.pt: the tokenizer is 'moses', which Dragoman does not have"
    ):
        asked("tokenizer", "moses")


def test_a_tokenizer_is_warned_of(tmp_path):
    with pytest.warns(UserWarning, match="the tokenizer is 'moses', which Dragoman does not have") as warned:
        fairseq.read(named_in(tmp_path, "tokenizer", "moses"))
    assert warned[0].filename == __file__


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda weight: weight.fill_(torch.nan), "has NaN or infinite numbers"),
        (lambda weight: weight.double() * 1e300, "has NaN or infinite numbers"),
        (lambda weight: weight.to(torch.int8), r"is a tensor of torch\.int8 .*; floating-point numbers were"),
        (lambda weight: weight.to_sparse(), r"is a tensor of torch\.float32 \(torch\.sparse_coo"),
    ],
)
def test_tensors_without_finite_real_numbers_are_refused(tmp_path, change, wanted):
    folder_of(tmp_path)
    state = torch.load(tmp_path / "checkpoint_best.pt", weights_only=False)
    name = "encoder.layers.0.fc1.weight"
    state["model"][name] = change(state["model"][name])
    torch.save(state, tmp_path / "checkpoint_best.pt")
    with pytest.raises(DragomanError, match=f"{name} {wanted}"):
        fairseq.read(tmp_path)


def test_a_setting_out_of_bounds_is_told_with_the_file(tmp_path):
    folder_of(tmp_path, dropout=-1.0)
    with pytest.raises(DragomanError, match=r"checkpoint_best\.pt: dropout is -1\.0; it must be at least 0"):
        fairseq.read(tmp_path)


def test_a_lack_of_memory_is_no_damage(tmp_path, command_line, monkeypatch):
    folder_of(tmp_path)

    def load(*_, **__):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:117] can't allocate memory: you tried 9 bytes.")

    monkeypatch.setattr(torch, "load", load)
    command = ["import", tmp_path, "--from", "fairseq", "--out", tmp_path / "there"]
    status, _, err = command_line(*command)
    assert (status, "There is not enough memory to read" in err) == (2, True)


def test_names_of_special_tokens_that_are_taken_get_a_number(tmp_path):
    words = ["<start>", "<dragoman:start0>", "ein"]
    folder_of(tmp_path, words=[words, words])
    assert fairseq.read(tmp_path).tokenizers.source.pieces([START]) == ["<dragoman:start1>"]


def test_a_token_with_a_nul_is_never_read(tmp_path):
    folder_of(tmp_path, words=[["a\0b", "ein"], ["a"]])
    assert fairseq.read(tmp_path).tokenizers.source.decode([6]) == "ein"


def test_several_subword_models_are_refused(tmp_path):
    folder_of(tmp_path)
    (tmp_path / "codes").write_text(CODES)
    learnt(tmp_path / "spm.model", "bpe")
    with pytest.raises(DragomanError, match=r"has several subword models, spm\.model, codes"):
        fairseq.read(tmp_path)


def test_fairseqs_own_name_of_a_subword_model_is_preferred(tmp_path):
    folder_of(tmp_path)
    learnt(tmp_path / "sentencepiece.bpe.model", "bpe")
    expected = fairseq.read(tmp_path).tokenizers
    (tmp_path / "a.model").write_bytes(b"of something else")
    assert fairseq.read(tmp_path).tokenizers == expected


def test_a_missing_or_different_dictionary_is_refused(tmp_path):
    folder_of(tmp_path, share_all_embeddings=True)
    words = lists(True)[0]
    write_dictionary(tmp_path / "dict.en.txt", words[::-1])
    with pytest.raises(
        DragomanError,
        match=r"checkpoint_best\.pt: share_all_embeddings is True, and dict\.de\.txt and dict\.en\.txt are "
        r"not the same",
    ):
        fairseq.read(tmp_path)
    (tmp_path / "dict.en.txt").unlink()
    with pytest.raises(DragomanError, match=r"lacks dict\.en\.txt; copy it"):
        fairseq.read(tmp_path)
