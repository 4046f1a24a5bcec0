"""OpenNMT-py's Transformers, read: checkpoints of version 3, and the subword models beside them.

Its layers are pre-norm, and its sources have no END. Its vocabularies are of the words that occurred: what
else a SentencePiece model writes is unknown to it, so each such piece gets a token of its own here, with the
unknown token's row.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from dragoman.interop.pickles import load_pickle
from dragoman.interop.vocabulary import (
    Vocabulary,
    codes_of,
    refuse_other_size,
    sentencepiece_in_order,
    words_in_order,
)
from dragoman.interop.weights import Imported, Tensors, import_layers, layers, model_of, refuse
from dragoman.model.positions import sinusoids
from dragoman.model.settings import Activation, ModelSettings, PositionKind
from dragoman.system.errors import DragomanError
from dragoman.text.tokenizer import SPACE, Tokenizer
from dragoman.translation.model_folder import Tokenizers

Value = TypeVar("Value")

FEED_FORWARD = {
    "feed_forward.inner": ["feed_forward.w_1"],
    "feed_forward.outer": ["feed_forward.w_2"],
    "feed_forward_residual.norm": ["feed_forward.layer_norm"],
}
SELF_ATTENTION = {
    "self_attention.query_key_value": [
        "self_attn.linear_query",
        "self_attn.linear_keys",
        "self_attn.linear_values",
    ],
    "self_attention.output": ["self_attn.final_linear"],
}
ENCODER = {**SELF_ATTENTION, "self_attention_residual.norm": ["layer_norm"], **FEED_FORWARD}
DECODER = {
    **SELF_ATTENTION,
    "self_attention_residual.norm": ["layer_norm_1"],
    "cross_attention.query_key_value": [
        "context_attn.linear_query",
        "context_attn.linear_keys",
        "context_attn.linear_values",
    ],
    "cross_attention.output": ["context_attn.final_linear"],
    "cross_attention_residual.norm": ["layer_norm_2"],
    **FEED_FORWARD,
}
NORMS = {"encoder_norm": ["encoder.layer_norm"], "decoder_norm": ["decoder.layer_norm"]}
EMBEDDINGS = (
    "encoder.embeddings.make_embedding.emb_luts.0.weight",
    "decoder.embeddings.make_embedding.emb_luts.0.weight",
)
TABLES = ("encoder.embeddings.make_embedding.pe.pe", "decoder.embeddings.make_embedding.pe.pe")
OUTPUT = "generator.weight"

ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "gelu": "gelu"}
POSITIONS: dict[str, PositionKind] = {
    "SinusoidalInterleaved": "sinusoidal",
    "SinusoidalConcat": "sinusoidal-tensor2tensor",
}
DEFAULTS: dict[str, Any] = {  # the toolkit's, for options that a checkpoint does not name
    "encoder_type": "rnn",
    "decoder_type": "rnn",
    "position_encoding": False,
    "position_encoding_type": "SinusoidalInterleaved",
    "layers": -1,
    "enc_layers": 2,
    "dec_layers": 2,
    "hidden_size": -1,
    "enc_hid_size": 500,
    "dec_hid_size": 500,
    "heads": 8,
    "transformer_ff": 2048,
    "pos_ffn_activation_fn": "relu",
    "self_attn_type": "scaled-dot-flash",
    "add_qkvbias": False,
    "add_ffnbias": False,
    "norm_eps": 1e-6,
    "dropout": 0.3,
    "attention_dropout": 0.1,
}
WANTED: dict[str, Any] = {
    "model_task": "seq2seq",
    "model_type": "text",
    "encoder_type": "transformer",
    "decoder_type": "transformer",
    "max_relative_positions": 0,
    "relative_positions_buckets": 0,
    "position_encoding": True,
    "layer_norm": "standard",
    "parallel_residual": False,
    "multiquery": False,
    "num_kv": 0,
    "num_experts": 0,
    "sliding_window": 0,
    "copy_attn": False,
    "generator_function": "softmax",
    "n_src_feats": 0,
    "quant_layers": [],
    "lora_layers": [],
    "lora_embedding": False,
}
CUTTING = {"sentencepiece", "bpe"}
OF_TRAINING = {
    "filtertoolong",
    "clean",
    "bart",
    "switchout",
    "tokendrop",
    "tokenmask",
    "uppercase",
    "inlinetags",
}
SIDES = {"src": ("src", "source"), "tgt": ("tgt", "target")}  # how the names of a side's files begin


def read(path: Path) -> Imported:
    """The model in a checkpoint, or in the only one in a folder, with the subword models in the same folder.

    Raises `DragomanError`, naming the file, for what is damaged or of another kind.
    """
    path = checkpoint_of(path)
    found = load(path)
    options = options_of(found, path)
    settings = settings_of(options, path)
    source, target, start = token_lists(found, path)
    tensors = Tensors(tensors_of(found, options, path), path)
    check_positions(tensors, settings)
    imported = import_layers(settings, names(settings), tensors)
    embeddings = (
        table(tensors, EMBEDDINGS[0], source, settings),
        table(tensors, EMBEDDINGS[1], target, settings),
        table(tensors, OUTPUT, target, settings),
    )
    bias = tensors.take("generator.bias", (len(target),))
    tensors.refuse_rest()
    of_source, source_tokenizer = side("src", source, start, options, path)
    of_target, target_tokenizer = side("tgt", target, start, options, path)
    model = model_of(settings, imported, embeddings, bias, (of_source, of_target), path)
    return Imported(model, Tokenizers.of(source_tokenizer, target_tokenizer), (of_source, of_target))


def checkpoint_of(path: Path) -> Path:
    """The file, or the only checkpoint in the folder. Raises `DragomanError` if there are none or several."""
    if not path.is_dir():
        return path
    files = sorted(path.glob("*.pt"))
    if len(files) != 1:
        raise DragomanError(f"{path} holds {len(files)} checkpoints (*.pt); name the one to be read.")
    return files[0]


def load(path: Path) -> dict[str, Any]:
    """The checkpoint's dictionary.

    Raises `DragomanError` as `load_pickle`, and with advice for files of version 2.
    """
    try:
        return load_pickle(path)
    except DragomanError as error:
        if any(f"holds {package}." in str(error) for package in ("onmt", "torchtext")):
            raise DragomanError(
                f"{path} is a checkpoint of OpenNMT-py 2 or older: its vocabularies are pickled classes, "
                "and nothing of it was run. "
                "OpenNMT-py's tools/convertv2_v3.py makes a checkpoint of version 3 from it, which Dragoman "
                "reads."
            ) from error
        raise


def options_of(found: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The options that the model was trained with. Raises `DragomanError` if the file has none."""
    if not isinstance(options := found.get("opt"), argparse.Namespace):
        raise DragomanError(f"{path} has no options under 'opt'; it is no checkpoint of OpenNMT-py.")
    return DEFAULTS | vars(options)


def settings_of(options: Mapping[str, Any], path: Path) -> ModelSettings:
    """Raises `DragomanError` for options that we cannot hold."""
    refuse(path, options, WANTED)
    chosen(path, "self_attn_type", options, {"scaled-dot": "", "scaled-dot-flash": ""})
    widths = [
        options[name] if options["hidden_size"] <= 0 else options["hidden_size"]
        for name in ("enc_hid_size", "dec_hid_size")
    ]
    if widths[0] != widths[1]:
        raise DragomanError(
            f"{path}: enc_hid_size is {widths[0]} and dec_hid_size {widths[1]}; in Dragoman they are the "
            "same."
        )
    return ModelSettings(
        d_model=widths[0],
        d_ff=options["transformer_ff"],
        heads=options["heads"],
        encoder_layers=options["enc_layers"] if options["layers"] <= 0 else options["layers"],
        decoder_layers=options["dec_layers"] if options["layers"] <= 0 else options["layers"],
        dropout=first(options["dropout"]),
        attention_dropout=first(options["attention_dropout"]),
        positions=chosen(path, "position_encoding_type", options, POSITIONS),
        source_end=False,
        norm="pre",
        norm_epsilon=options["norm_eps"],
        activation=chosen(path, "pos_ffn_activation_fn", options, ACTIVATIONS),
        attention_bias=bool(options["add_qkvbias"]),
    )


def chosen(path: Path, name: str, options: Mapping[str, Any], ours: Mapping[str, Value]) -> Value:
    """What an option's value is called here. Raises `DragomanError` for a value that we do not have."""
    if (value := options[name]) not in ours:
        raise DragomanError(
            f"{path}: {name} is {value!r}; Dragoman can hold models with {' or '.join(map(repr, ours))} "
            "alone."
        )
    return ours[value]


def first(dropout: Any) -> float:
    """Training may have changed a dropout on its way: its first value."""
    return float(dropout[0] if isinstance(dropout, list) else dropout)


def token_lists(found: Mapping[str, Any], path: Path) -> tuple[list[str], list[str], str]:
    """The source's and the target's tokens, and the one that decoding starts with.

    Raises `DragomanError` if one is missing.
    """
    vocabularies = found.get("vocab")
    if not isinstance(vocabularies, dict) or not all(
        isinstance(vocabularies.get(name), list) for name in SIDES
    ):
        raise DragomanError(
            f"{path} has no lists of tokens under 'vocab', as checkpoints of OpenNMT-py 3 have."
        )
    refuse(path, vocabularies, {"data_task": "seq2seq", "src_feats": []})
    start = vocabularies.get("decoder_start_token", "<s>")
    for name, wanted in {
        "src": ("<unk>", "<blank>", "</s>"),
        "tgt": ("<unk>", "<blank>", "</s>", start),
    }.items():
        pieces = vocabularies[name]
        if lacking := [piece for piece in wanted if piece not in pieces]:
            raise DragomanError(f"{path}: the vocabulary {name!r} lacks {', '.join(map(repr, lacking))}.")
        if len(set(pieces)) != len(pieces):
            raise DragomanError(
                f"{path}: the vocabulary {name!r} has {len(pieces)} tokens, and {len(set(pieces))} "
                "different ones."
            )
    return vocabularies["src"], vocabularies["tgt"], start


def tensors_of(found: Mapping[str, Any], options: Mapping[str, Any], path: Path) -> dict[str, Tensor]:
    """All tensors by their names, with zeros for the biases of feed-forward layers that have none.

    Raises `DragomanError` if weights are missing or quantised.
    """
    state, generator = found.get("model"), found.get("generator")
    if not isinstance(state, dict) or not isinstance(generator, dict):
        raise DragomanError(
            f"{path} has no weights under 'model' and 'generator'; Dragoman reads those saved in the "
            "checkpoint itself."
        )
    tensors = state | {
        f"generator.{name.removeprefix('0.')}": tensor for name, tensor in generator.items()
    }  # "0.weight" in version 2
    for name, tensor in tensors.items():
        if not (isinstance(tensor, Tensor) and tensor.is_floating_point()):
            raise DragomanError(
                f"{path}: {name} holds no floating-point numbers; Dragoman reads weights that are not "
                "quantised."
            )
    if options["add_ffnbias"] or any(name.endswith("w_1.bias") for name in tensors):
        return tensors
    weights = {
        name: tensor for name, tensor in tensors.items() if name.endswith((".w_1.weight", ".w_2.weight"))
    }
    return tensors | {
        f"{name.removesuffix('weight')}bias": torch.zeros(weight.shape[:1])
        for name, weight in weights.items()
    }


def check_positions(tensors: Tensors, settings: ModelSettings) -> None:
    """Raises `DragomanError` if the tables of positions in the file are not the sinusoids that its options
    name.
    """
    for name in TABLES:
        if name in tensors:
            rows = (*tensors.shape(name), 0)[0]
            wanted = sinusoids(rows, settings.d_model, settings.positions)[:, None]
            if not torch.allclose(
                tensors.take(name, wanted.shape), wanted, atol=5e-3
            ):  # theirs are made, and may be kept, in less precision
                raise DragomanError(
                    f"{tensors.origin}: {name} is not the table of sinusoids that position_encoding_type "
                    "names."
                )


def names(settings: ModelSettings) -> dict[str, list[str]]:
    """Our layers and OpenNMT-py's."""
    return {
        **layers("encoder", "encoder.transformer", settings.encoder_layers, ENCODER),
        **layers("decoder", "decoder.transformer_layers", settings.decoder_layers, DECODER),
        **NORMS,
    }


def table(tensors: Tensors, name: str, pieces: Sequence[str], settings: ModelSettings) -> Tensor:
    """A table of one row a token. Raises `DragomanError` if the vocabulary does not fit."""
    refuse_other_size(tensors.origin, pieces, tensors.origin, name, tensors.rows(name))
    return tensors.take(name, (len(pieces), settings.d_model))


def side(
    name: str, pieces: list[str], start: str, options: Mapping[str, Any], path: Path
) -> tuple[Vocabulary, Tokenizer]:
    """A side's tokens in our order, and what cuts its text.

    Raises `DragomanError` if its subword model is missing or no such model.
    """
    place = {piece: number for number, piece in enumerate(pieces)}
    end = place["</s>"]
    vocabulary = Vocabulary.in_our_order(pieces, place["<blank>"], place["<unk>"], place.get(start, end), end)
    transforms = transforms_of(options, path)
    model = subword_model(name, transforms, options, path)
    if model is None:
        refuse_pieces(name, pieces, path)
        return vocabulary, words_in_order(vocabulary.pieces)
    if "bpe" in transforms or ("sentencepiece" not in transforms and model.suffix != ".model"):
        return vocabulary, words_in_order(vocabulary.pieces, codes_of(model))
    vocabulary = vocabulary.with_unknowns(model)
    return vocabulary, sentencepiece_in_order(model, vocabulary.pieces)


def transforms_of(options: Mapping[str, Any], path: Path) -> set[str]:
    """What OpenNMT-py does with a text. Raises `DragomanError` if it does something that Dragoman cannot."""
    found = {*(options.get("transforms") or ()), *(options.get("_all_transform") or ())}
    if others := sorted(found - CUTTING - OF_TRAINING):
        raise DragomanError(
            f"{path}: OpenNMT-py changes its texts by {', '.join(others)}; Dragoman has sentencepiece and "
            "bpe alone."
        )
    return found & CUTTING


def subword_model(name: str, transforms: set[str], options: Mapping[str, Any], path: Path) -> Path | None:
    """The file beside the checkpoint that cuts a side's words: the one that the options name, or the only one
    of its kind.

    Raises `DragomanError` if one is needed and is not there, or where it is used in a way that we cannot.
    """
    if transforms and options.get(f"{name}_vocab_threshold") and options.get(f"{name}_subword_vocab"):
        raise DragomanError(
            f"{path}: {name}_vocab_threshold restricts the pieces of words to frequent ones; Dragoman "
            "cannot do that."
        )
    named = options.get(f"{name}_subword_model") or (
        options.get("src_subword_model") if options.get("share_vocab") else None
    )
    if named and (file := path.parent / Path(named).name).is_file():
        return file
    files = sorted({*path.parent.glob("*.model"), *path.parent.glob("*code*")})
    own = [file for file in files if file.name.startswith(SIDES[name])] if len(files) > 1 else files
    if len(own) == 1:
        return own[0]
    if files or transforms:
        wanted = (
            Path(named).name if named else "a SentencePiece model (*.model) or subword-nmt's codes (*code*)"
        )
        raise DragomanError(
            f"{path}: of {len(files)} files beside it, none is known to be what cuts the words of {name!r}; "
            f"put {wanted} there."
        )
    return None


def refuse_pieces(name: str, pieces: Sequence[str], path: Path) -> None:
    """Raise `DragomanError` for a vocabulary of SentencePiece's, of which one in ten tokens at least has a
    space, without its model.
    """
    if sum(piece.startswith(SPACE) for piece in pieces) * 10 > len(pieces):
        raise DragomanError(
            f"{path}: the vocabulary {name!r} is of SentencePiece's pieces; put the SentencePiece model "
            "(*.model) beside it."
        )
