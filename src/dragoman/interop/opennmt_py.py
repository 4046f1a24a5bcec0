"""Import of OpenNMT-py's Transformers: checkpoints of version 3, with the subword models beside them.

Its layers are pre-norm, and its sources have no END. Its vocabularies may lack pieces of the SentencePiece
model. It reads these as unknown, so each gets a token of its own here, with the unknown token's row.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.interop.pickles import load_pickle, only_checkpoint
from dragoman.interop.vocabulary import (
    Vocabulary,
    read_codes,
    refuse_subword_pieces,
    sentencepiece_tokenizer,
    word_tokenizer,
)
from dragoman.interop.weights import (
    Imported,
    Tensors,
    build_model,
    check_equal,
    check_options,
    check_sinusoids,
    import_layers,
    layer_names,
    map_option,
    settings_in,
    take_embedding,
)
from dragoman.model.settings import Activation, ModelSettings, PositionKind
from dragoman.system.errors import DragomanError
from dragoman.system.wording import shown
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import Tokenizers

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
DEFAULTS: dict[str, Any] = {  # OpenNMT-py's, for options that a checkpoint does not have
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
REQUIRED: dict[str, Any] = {
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
SUBWORD_TRANSFORMS = {"sentencepiece", "bpe"}
TRAINING_TRANSFORMS = {
    "filtertoolong",
    "clean",
    "bart",
    "switchout",
    "tokendrop",
    "tokenmask",
    "uppercase",
    "inlinetags",
}
SIDES = {"src": ("src", "source"), "tgt": ("tgt", "target")}  # prefixes of the names of a side's files


def read(path: Path) -> Imported:
    """Read a checkpoint, or the only one in a folder, with the subword models beside it.

    Raises `DragomanError`, naming the file, if a file is damaged or Dragoman cannot hold the model.
    """
    path = checkpoint_of(path)
    checkpoint = load(path)
    options = options_of(checkpoint, path)
    settings = settings_of(options, path)
    source, target, start = token_lists(checkpoint, path)
    tensors = Tensors(tensors_of(checkpoint, options, path), path)
    check_sinusoids(tensors, TABLES, settings.d_model, settings.positions)
    imported = import_layers(settings, name_map(settings), tensors)
    embeddings = (
        take_embedding(tensors, EMBEDDINGS[0], settings.d_model, source, path),
        take_embedding(tensors, EMBEDDINGS[1], settings.d_model, target, path),
        take_embedding(tensors, OUTPUT, settings.d_model, target, path),
    )
    bias = tensors.take("generator.bias", (len(target),))
    tensors.refuse_unused()
    source_vocabulary, source_tokenizer = read_side("src", source, start, options, path)
    target_vocabulary, target_tokenizer = read_side("tgt", target, start, options, path)
    vocabularies = (source_vocabulary, target_vocabulary)
    model = build_model(settings, imported, embeddings, bias, vocabularies, path)
    return Imported(model, Tokenizers.of(source_tokenizer, target_tokenizer), vocabularies)


def checkpoint_of(path: Path) -> Path:
    """The file, or the only checkpoint in the folder. Raises `DragomanError` if there are none or several."""
    if not path.is_dir():
        return path
    return only_checkpoint(path, sorted(path.glob("*.pt")), "name the file that is to be read")


def load(path: Path) -> dict[str, Any]:
    """Load the checkpoint's dictionary.

    Raises `DragomanError` as `load_pickle`, and for checkpoints of version 2 with advice.
    """
    try:
        return load_pickle(path)
    except DragomanError as error:
        if any(f"holds {package}." in str(error) for package in ("onmt", "torchtext")):
            raise DragomanError(
                f"{path} is a checkpoint of OpenNMT-py 2 or older: its vocabularies are pickled classes, "
                "and no code of it was run. "
                "OpenNMT-py's tools/convertv2_v3.py makes a checkpoint of version 3 from it, which Dragoman "
                "reads."
            ) from error
        raise


def options_of(checkpoint: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The options that the model was trained with. Raises `DragomanError` if the file has none."""
    if not isinstance(options := checkpoint.get("opt"), argparse.Namespace):
        raise DragomanError(f"{path} has no options under 'opt'; it is not an OpenNMT-py checkpoint.")
    return DEFAULTS | vars(options)


def settings_of(options: Mapping[str, Any], path: Path) -> ModelSettings:
    """The model's settings. Raises `DragomanError` for options that Dragoman does not have."""
    check_options(path, options, REQUIRED)
    map_option(path, options, "self_attn_type", {"scaled-dot": "", "scaled-dot-flash": ""})
    if options["hidden_size"] <= 0:
        check_equal(path, options, "enc_hid_size", "dec_hid_size")
    with settings_in(path):
        return ModelSettings(
            d_model=options["enc_hid_size"] if options["hidden_size"] <= 0 else options["hidden_size"],
            d_ff=options["transformer_ff"],
            heads=options["heads"],
            encoder_layers=options["enc_layers"] if options["layers"] <= 0 else options["layers"],
            decoder_layers=options["dec_layers"] if options["layers"] <= 0 else options["layers"],
            dropout=first_value(options["dropout"]),
            attention_dropout=first_value(options["attention_dropout"]),
            positions=map_option(path, options, "position_encoding_type", POSITIONS),
            source_end=False,
            norm="pre",
            norm_epsilon=options["norm_eps"],
            activation=map_option(path, options, "pos_ffn_activation_fn", ACTIVATIONS),
            attention_bias=bool(options["add_qkvbias"]),
        )


def first_value(dropout: Any) -> float:
    """A dropout rate; the first one if training had a schedule of several."""
    return float(dropout[0] if isinstance(dropout, list) else dropout)


def token_lists(checkpoint: Mapping[str, Any], path: Path) -> tuple[list[str], list[str], str]:
    """The source's and the target's tokens by id, and the token that decoding starts with.

    Raises `DragomanError` if a vocabulary or one of its special tokens is missing, or a token is repeated.
    """
    vocabularies = checkpoint.get("vocab")
    if not isinstance(vocabularies, dict) or not all(
        isinstance(vocabularies.get(name), list) for name in SIDES
    ):
        raise DragomanError(
            f"{path} has no lists of tokens under 'vocab', as checkpoints of OpenNMT-py 3 have."
        )
    check_options(path, vocabularies, {"data_task": "seq2seq", "src_feats": []})
    start = vocabularies.get("decoder_start_token", "<s>")
    if not isinstance(start, str):
        raise DragomanError(f"{path}: decoder_start_token is {shown(start)}; it has to be a token.")
    for name, special in {
        "src": ("<unk>", "<blank>", "</s>"),
        "tgt": ("<unk>", "<blank>", "</s>", start),
    }.items():
        pieces = vocabularies[name]
        if missing := [piece for piece in special if piece not in pieces]:
            raise DragomanError(f"{path}: the vocabulary {name!r} lacks {', '.join(map(repr, missing))}.")
        if len(set(pieces)) != len(pieces):
            raise DragomanError(
                f"{path}: the vocabulary {name!r} has {len(pieces)} tokens, and {len(set(pieces))} "
                "different ones."
            )
    return vocabularies["src"], vocabularies["tgt"], start


def tensors_of(checkpoint: Mapping[str, Any], options: Mapping[str, Any], path: Path) -> dict[str, Tensor]:
    """All tensors by their names, with zeros for the biases of feed-forward layers that have none.

    Raises `DragomanError` if weights are missing or quantised.
    """
    state, generator = checkpoint.get("model"), checkpoint.get("generator")
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


def name_map(settings: ModelSettings) -> dict[str, list[str]]:
    """Names of our layers, and OpenNMT-py's."""
    return {
        **layer_names("encoder", "encoder.transformer", settings.encoder_layers, ENCODER),
        **layer_names("decoder", "decoder.transformer_layers", settings.decoder_layers, DECODER),
        **NORMS,
    }


def read_side(
    name: str, pieces: list[str], start: str, options: Mapping[str, Any], path: Path
) -> tuple[Vocabulary, Tokenizer]:
    """The vocabulary and the tokenizer of the source or the target.

    Raises `DragomanError` if the subword model is missing or damaged.
    """
    ids = {piece: number for number, piece in enumerate(pieces)}
    end = ids["</s>"]
    vocabulary = Vocabulary.from_foreign(pieces, ids["<blank>"], ids["<unk>"], ids.get(start, end), end)
    transforms = transforms_of(options, path)
    model = subword_model(name, transforms, options, path)
    if model is None:
        refuse_subword_pieces(f"{path}: the vocabulary {name!r}", pieces)
        return vocabulary, word_tokenizer(vocabulary.pieces)
    if "bpe" in transforms or ("sentencepiece" not in transforms and model.suffix != ".model"):
        return vocabulary, word_tokenizer(vocabulary.pieces, read_codes(model))
    vocabulary = vocabulary.with_sentencepiece(model)
    return vocabulary, sentencepiece_tokenizer(model, vocabulary.pieces)


def transforms_of(options: Mapping[str, Any], path: Path) -> set[str]:
    """The subword transforms of the options. Raises `DragomanError` for transforms that Dragoman lacks."""
    transforms = {*(options.get("transforms") or ()), *(options.get("_all_transform") or ())}
    if others := sorted(transforms - SUBWORD_TRANSFORMS - TRAINING_TRANSFORMS):
        raise DragomanError(
            f"{path}: OpenNMT-py changes its texts by {', '.join(others)}; Dragoman has sentencepiece and "
            "bpe alone."
        )
    return transforms & SUBWORD_TRANSFORMS


def refuse_same_name(name: str, options: Mapping[str, Any], path: Path) -> None:
    """Raise `DragomanError` if the models of both sides are different files of this name."""
    named = {str(options.get(f"{side}_subword_model") or "") for side in SIDES}
    if not options.get("share_vocab") and len(named) > 1 and {Path(model).name for model in named} == {name}:
        raise DragomanError(
            f"{path}: the subword models of source and target, {' and '.join(sorted(named))}, have the same "
            f"name, and {name} beside the checkpoint can be only one of them; Dragoman cannot read this "
            "model."
        )


def subword_model(name: str, transforms: set[str], options: Mapping[str, Any], path: Path) -> Path | None:
    """The subword model of a side: the file that the options name, or the only one beside the checkpoint.

    Raises `DragomanError` if it is missing or ambiguous, or if the options restrict its pieces.
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
        refuse_same_name(file.name, options, path)
        return file
    neighbours = {*path.parent.glob("*.model"), *path.parent.glob("*code*")}
    files = sorted(file for file in neighbours if file.is_file() and file.suffix != ".pt" and file != path)
    candidates = [file for file in files if file.name.startswith(SIDES[name])] if len(files) > 1 else files
    if len(candidates) == 1:
        return candidates[0]
    if files or transforms:
        expected = (
            Path(named).name if named else "a SentencePiece model (*.model) or subword-nmt's codes (*code*)"
        )
        raise DragomanError(
            f"{path}: of {len(files)} files beside it, none is known to segment the words of {name!r}; "
            f"put {expected} there."
        )
    return None
