"""fairseq's Transformer, from a checkpoint of any of its versions, with the dictionaries and the subwords'
file beside it.

Its vocabulary has no token that only begins a translation: decoding starts with the end, and a row of START
is a copy of that one's.
"""

import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.interop.huggingface import DECODER, ENCODER  # fairseq's names, which transformers has kept
from dragoman.interop.pickles import load_pickle
from dragoman.interop.vocabulary import (
    Vocabulary,
    codes_of,
    lines_of,
    refuse_other_size,
    sentencepiece_in_order,
    words_in_order,
)
from dragoman.interop.weights import Imported, Tensors, import_layers, layers, model_of, refuse
from dragoman.model.positions import sinusoids
from dragoman.model.settings import Activation, ModelSettings, PositionKind
from dragoman.system.errors import DragomanError
from dragoman.text.tokenizer import SPACE
from dragoman.translation.model_folder import Tokenizers

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
START_AND_END, PADDING, UNKNOWN_ROW = 2, 1, 3
FIRST = PADDING + 1
"""The row of a text's first position in the tables of positions."""
SIDES = ("encoder", "decoder")
TENSOR2TENSOR: PositionKind = "sinusoidal-tensor2tensor"
ARCHITECTURES = {
    "transformer",
    "transformer_tiny",
    "transformer_iwslt_de_en",
    "transformer_wmt_en_de",
    "transformer_vaswani_wmt_en_de_big",
    "transformer_vaswani_wmt_en_fr_big",
    "transformer_wmt_en_de_big",
    "transformer_wmt_en_de_big_t2t",
}
ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "gelu": "gelu"}
SIZES = {  # that settings of an old version may leave out
    "encoder_embed_dim": 512,
    "encoder_ffn_embed_dim": 2048,
    "encoder_attention_heads": 8,
    "encoder_layers": 6,
    "decoder_attention_heads": 8,
    "decoder_layers": 6,
}
ALIKE = (
    "embed_dim",
    "ffn_embed_dim",
    "attention_heads",
    "normalize_before",
    "learned_pos",
)  # in the encoder and the decoder
REFUSED: dict[str, object] = {
    "adaptive_input": False,
    "adaptive_softmax_cutoff": None,
    "base_layers": 0,
    "char_inputs": False,
    "cross_self_attention": False,
    "decoder_layers_to_keep": None,
    "decoder_xformers_att_config": None,
    "encoder_layers_to_keep": None,
    "encoder_xformers_att_config": None,
    "layernorm_embedding": False,
    "merge_src_tgt_embed": False,
    "no_cross_attention": False,
    "no_token_positional_embeddings": False,
    "quant_noise_pq": 0,  # has a linear map after the embeddings
    "quant_noise_scalar": 0,  # rounds weights in translation too
    "scale_attn": False,
    "scale_fc": False,
    "scale_heads": False,
    "scale_resids": False,
}
"""Options that change what a model computes, and the values with which they do not."""
OLD_NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}
OLD_NORM = re.compile(r"(encoder|decoder)(\.layers\.\d+)\.layer_norms\.([012])(\.\w+)")
CODES = ("bpecodes", "code", "codes", "bpe.codes")
OVERWRITE = " #fairseq:overwrite"
OF_TRAINING = (
    *(f"fairseq.meters.{name}" for name in ("AverageMeter", "TimeMeter", "StopwatchMeter")),
    *(
        f"{module}.{name}"
        for module in ("numpy.core.multiarray", "numpy._core.multiarray")
        for name in ("_reconstruct", "scalar")
    ),
    "numpy.ndarray",
    "numpy.dtype",
)
"""Classes of the clocks and averages that a checkpoint may keep of its training."""


class Forgotten:
    """Stands for an object that is not needed; nothing of it is kept or run."""

    def __init__(self, *arguments: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass


def read(path: Path) -> Imported:
    """The model in a checkpoint, or in a folder with one.

    Raises `DragomanError`, naming the file, for what is damaged or of another kind.
    """
    path = checkpoint_of(path)
    found = load_checkpoint(path)
    model, task = configuration(found, path)
    if not isinstance(found.get("model"), Mapping) or not all(
        isinstance(tensor, Tensor) for tensor in found["model"].values()
    ):
        raise DragomanError(
            f"{path} holds no weights under the name 'model'; it is no checkpoint of fairseq."
        )
    tensors = Tensors(with_new_names(found["model"]), path)
    settings = settings_of(model, path)
    settings, positions = take_positions(tensors, settings)
    files = dictionaries(path.parent, task, path)
    both = [dictionary(file) for file in files]
    if model.get("share_all_embeddings") and both[0] != both[1]:
        raise DragomanError(
            f"{path}: share_all_embeddings is True, and {files[0].name} and {files[1].name} are not the same."
        )
    for side, file, pieces in zip(SIDES, files, both, strict=True):
        refuse_other_size(
            file, pieces, path, f"{side}.embed_tokens.weight", tensors.rows(f"{side}.embed_tokens.weight")
        )
    tables = embeddings(tensors, model, settings.d_model, [len(pieces) for pieces in both])
    imported = import_layers(settings, names(settings), tensors)
    tensors.leave(
        [f"{side}.{useless}" for side in SIDES for useless in ("version", "embed_positions._float_tensor")]
    )
    tensors.refuse_rest()
    vocabularies, tokenizers = texts(path.parent, files, both)
    return Imported(
        model_of(settings, {**imported, **positions}, tables, None, vocabularies, path),
        tokenizers,
        vocabularies,
    )


def checkpoint_of(path: Path) -> Path:
    """The file itself, or the one checkpoint of a folder.

    Raises `DragomanError` if a folder has none or several.
    """
    if not path.is_dir():
        return path
    named = [path / name for name in ("checkpoint_best.pt", "checkpoint_last.pt", "model.pt")]
    found = [file for file in named if file.exists()] or sorted(path.glob("*.pt"))
    if len(found) != 1:
        told = ", ".join(file.name for file in found) or "none"
        raise DragomanError(
            f"{path} should hold one checkpoint, and has {told}; name the file that is to be read."
        )
    return found[0]


def load_checkpoint(path: Path) -> dict[str, Any]:
    """As `load_pickle`, and raises as it does.

    What is known to belong to the training alone is passed over.
    """
    with torch.serialization.safe_globals([(Forgotten, name) for name in OF_TRAINING]):
        return load_pickle(path)


def configuration(found: Mapping[str, Any], origin: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of the model and of the task, in names without dots.

    Raises `DragomanError` if there are none.
    """
    if found.get("args") is not None:
        every = plain(found["args"], "args", origin)
        return every, every
    config = plain(found.get("cfg"), "cfg", origin)
    model, task = (plain(config.get(part), f"cfg.{part}", origin) for part in ("model", "task"))
    for part in ("encoder", "decoder", "quant_noise"):
        if isinstance(model.get(part), Mapping):
            model |= {f"{part}_{name}": value for name, value in model[part].items()}
    return model, task


def plain(value: object, name: str, origin: Path) -> dict[str, Any]:
    """The values of a namespace, or of a dictionary. Raises `DragomanError` if it is neither."""
    if isinstance(value, Namespace):
        return dict(vars(value))
    if not isinstance(value, Mapping):
        raise DragomanError(
            f"{origin} has no settings under the name {name!r}; it is no checkpoint of fairseq."
        )
    return dict(value)


def settings_of(model: Mapping[str, Any], origin: Path) -> ModelSettings:
    """Raises `DragomanError` for a configuration that we cannot hold."""
    if (architecture := model.get("_name") or model.get("arch")) not in ARCHITECTURES:
        raise DragomanError(
            f"{origin}: the architecture is {architecture!r}; Dragoman reads "
            f"{', '.join(sorted(ARCHITECTURES))}."
        )
    refuse(origin, {name: value for name, value in model.items() if value}, REFUSED)
    sizes = {name: model.get(name, usual) for name, usual in SIZES.items()}
    if wrong := [name for name, size in sizes.items() if not isinstance(size, int)]:
        raise DragomanError(f"{origin}: {wrong[0]} is {sizes[wrong[0]]!r}, and a number was expected.")
    every = {**model, **sizes}
    for name in ALIKE:
        one = every.get(f"encoder_{name}", False)
        other = every.get(f"decoder_{name}", one)
        if one != other:
            raise DragomanError(
                f"{origin}: encoder_{name} is {one} and decoder_{name} {other}; in Dragoman they are the "
                "same."
            )
    if (activation := model.get("activation_fn", "relu")) not in ACTIVATIONS:
        raise DragomanError(
            f"{origin}: activation_fn is {activation!r}; of fairseq's, Dragoman has {', '.join(ACTIVATIONS)}."
        )
    learned = bool(model.get("encoder_learned_pos"))
    return ModelSettings(
        d_model=sizes["encoder_embed_dim"],
        d_ff=sizes["encoder_ffn_embed_dim"],
        heads=sizes["encoder_attention_heads"],
        encoder_layers=sizes["encoder_layers"],
        decoder_layers=sizes["decoder_layers"],
        dropout=model.get("dropout", 0.1),
        attention_dropout=model.get("attention_dropout", 0.0),
        positions="learned" if learned else TENSOR2TENSOR,
        first_position=0 if learned else FIRST,
        norm="pre" if model.get("encoder_normalize_before") else "post",
        activation=ACTIVATIONS[activation],
        attention_bias=True,
        scale_embeddings=not model.get("no_scale_embedding"),
    )


def names(settings: ModelSettings) -> dict[str, list[str]]:
    """Our layers and fairseq's."""
    found = layers("encoder", "encoder.layers", settings.encoder_layers, ENCODER)
    found |= layers("decoder", "decoder.layers", settings.decoder_layers, DECODER)
    if settings.norm == "pre":
        found |= {f"{side}_norm": [f"{side}.layer_norm"] for side in SIDES}
    return found


def with_new_names(found: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors named as they are since version 0.9: queries, keys and values each for themselves, and norms by
    what they follow.
    """
    new: dict[str, Tensor] = {}
    for name, tensor in found.items():
        if name.endswith((".in_proj_weight", ".in_proj_bias")):
            place, kind = name.split(".in_proj_")
            new |= {
                f"{place}.{part}_proj.{kind}": rows
                for part, rows in zip("qkv", tensor.chunk(3), strict=False)
            }
        elif (old := OLD_NORM.fullmatch(name)) and int(old[3]) < len(OLD_NORMS[old[1]]):
            new[f"{old[1]}{old[2]}.{OLD_NORMS[old[1]][int(old[3])]}{old[4]}"] = tensor
        else:
            new[name] = tensor
    return new


def take_positions(tensors: Tensors, settings: ModelSettings) -> tuple[ModelSettings, dict[str, Tensor]]:
    """The settings with the length of learned tables, and these.

    Raises `DragomanError` if the two differ in length, or where sinusoids are not fairseq's.
    """
    d_model = settings.d_model
    if settings.positions != "learned":
        refuse_other_sinusoids(tensors, d_model)
        return settings, {}
    lengths = [tensors.rows(f"{side}.embed_positions.weight") - FIRST for side in SIDES]
    if lengths[0] != lengths[1]:
        raise DragomanError(
            f"{tensors.origin} has learned {lengths[0]} positions of sources and {lengths[1]} of targets; "
            "in Dragoman they are as many."
        )
    table = (lengths[0] + FIRST, d_model)
    source, target = (tensors.take(f"{side}.embed_positions.weight", table)[FIRST:] for side in SIDES)
    return replace(settings, max_positions=lengths[0]), {
        "source_positions.table": source,
        "target_positions.table": target,
    }


def refuse_other_sinusoids(tensors: Tensors, d_model: int) -> None:
    """Old files may hold the table of positions.

    Raises `DragomanError` if it is not what fairseq makes now, or for an odd width.
    """
    if d_model % 2:
        raise DragomanError(
            f"{tensors.origin}: encoder_embed_dim is {d_model}; fairseq's sinusoids of an odd width have no "
            "last cosine."
        )
    for side in SIDES:
        if (name := f"{side}.embed_positions.weights") in tensors:
            rows = tensors.rows(name)
            if not torch.allclose(
                tensors.take(name, (rows, d_model))[FIRST:],
                sinusoids(rows, d_model, TENSOR2TENSOR)[FIRST:],
                atol=1e-3,
            ):
                raise DragomanError(
                    f"{tensors.origin}: {name} is not fairseq's table of sinusoids; Dragoman cannot read it."
                )


def embeddings(
    tensors: Tensors, model: Mapping[str, Any], d_model: int, sizes: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Tables of the source, the target and the logits.

    Raises `DragomanError` if those that should be one are not.
    """
    source, target = (
        tensors.take(f"{side}.embed_tokens.weight", (size, d_model))
        for side, size in zip(SIDES, sizes, strict=True)
    )
    output, old = "decoder.output_projection.weight", "decoder.embed_out"
    shared_by_all = bool(model.get("share_all_embeddings"))
    shared = shared_by_all or bool(model.get("share_decoder_input_output_embed"))
    own = not shared or output in tensors
    logits = tensors.take(old if old in tensors else output, (sizes[1], d_model)) if own else target
    if (shared and not torch.equal(target, logits)) or (shared_by_all and not torch.equal(source, target)):
        raise DragomanError(
            f"{tensors.origin}: its settings share the embeddings, and its tensors of them are not the same."
        )
    return source, target, logits


def dictionaries(folder: Path, task: Mapping[str, Any], origin: Path) -> tuple[Path, Path]:
    """The files of the source's and the target's dictionary.

    Raises `DragomanError` if they cannot be told, or for another task.
    """
    if (name := task.get("_name") or task.get("task", "translation")) != "translation":
        raise DragomanError(f"{origin}: the task is {name!r}; Dragoman reads models of 'translation' alone.")
    languages = [task.get("source_lang"), task.get("target_lang")]
    if None not in languages:
        source, target = (folder / f"dict.{language}.txt" for language in languages)
        if lacking := [file.name for file in (source, target) if not file.exists()]:
            raise DragomanError(
                f"{folder} lacks {lacking[0]}; copy it from the folder of fairseq's data to its checkpoint."
            )
        return source, target
    found = sorted(folder.glob("dict.*.txt"))
    if len(found) == 2 and found[0].read_bytes() == found[1].read_bytes():
        return found[0], found[1]
    told = ", ".join(file.name for file in found) or "none"
    raise DragomanError(
        f"{origin} does not name its languages, and which dictionary is the source's is not clear: there "
        f"are {told}."
    )


def dictionary(path: Path) -> list[str]:
    """Tokens in fairseq's order.

    A token that a later one overwrites is no longer read, and gets a name that no text has.

    Raises `DragomanError` with the line that is none of a dictionary.
    """
    tokens, places = list(SPECIAL), {token: number for number, token in enumerate(SPECIAL)}
    for number, line in enumerate(lines_of(path), 1):
        entry = line.rstrip()
        token, _, count = entry.removesuffix(OVERWRITE).rpartition(" ")
        if not re.fullmatch(r"-?\d+", count):
            raise DragomanError(f"{path}, line {number}: {entry!r} is not a token and its count.")
        if token in places:
            if not entry.endswith(OVERWRITE):
                raise DragomanError(f"{path}, line {number}: {token!r} occurs twice.")
            tokens[places[token]] = f"<dragoman:{places[token]}>"
        places[token] = len(tokens)
        tokens.append(token)
    return tokens


def texts(
    folder: Path, files: Sequence[Path], both: Sequence[list[str]]
) -> tuple[tuple[Vocabulary, Vocabulary], Tokenizers]:
    """The source's and the target's tokens in our order, and what cuts texts into them.

    Raises `DragomanError` if it is not clear what does, or where SentencePiece's tokens have no model of
    SentencePiece.
    """
    source, target = (
        Vocabulary.in_our_order(pieces, PADDING, UNKNOWN_ROW, START_AND_END, START_AND_END) for pieces in both
    )
    usual = folder / "sentencepiece.bpe.model"
    models = [usual] if usual.exists() else sorted(folder.glob("*.model"))
    codes = [folder / name for name in CODES if (folder / name).exists()]
    if len(models) + len(codes) > 1:
        told = ", ".join(file.name for file in (*models, *codes))
        raise DragomanError(
            f"{folder} has several files that cut words, {told}; leave the one that the model was trained "
            "with."
        )
    if models:
        source, target = source.with_unknowns(models[0]), target.with_unknowns(models[0])
        return (source, target), Tokenizers.of(
            *(sentencepiece_in_order(models[0], side.pieces) for side in (source, target))
        )
    for file, pieces in zip(files, both, strict=True):
        if piece := next((piece for piece in pieces if SPACE in piece), None):
            raise DragomanError(
                f"{file} has SentencePiece's token {piece!r}, and there is no model of SentencePiece beside "
                "it."
            )
    merges = codes_of(codes[0]) if codes else None
    return (source, target), Tokenizers.of(
        *(words_in_order(side.pieces, merges) for side in (source, target))
    )
