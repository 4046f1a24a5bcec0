"""Import of fairseq's Transformer: a checkpoint, with the dictionaries and the subword model beside it.

Decoding starts with END there, so the row of START is a copy of END's.
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
from dragoman.interop.pickles import load_pickle, only_checkpoint
from dragoman.interop.vocabulary import (
    Vocabulary,
    check_size,
    read_codes,
    refuse_subword_pieces,
    sentencepiece_tokenizer,
    split_lines,
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
    languages_named,
    layer_names,
    map_option,
    settings_in,
)
from dragoman.model.settings import Activation, ModelSettings, PositionKind
from dragoman.system.callers import warn_caller
from dragoman.system.errors import DragomanError
from dragoman.system.wording import shown
from dragoman.translation.model_folder import Tokenizers

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
PAD_ID, END_ID, UNKNOWN_ID = 1, 2, 3
FIRST_POSITION = PAD_ID + 1
"""The row of the first position in fairseq's tables of positions."""
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
SIZES = {  # defaults; old checkpoints leave them out
    "encoder_embed_dim": 512,
    "encoder_ffn_embed_dim": 2048,
    "encoder_attention_heads": 8,
    "encoder_layers": 6,
    "decoder_attention_heads": 8,
    "decoder_layers": 6,
}
SHARED_OPTIONS = (
    "embed_dim",
    "attention_heads",
    "normalize_before",
    "learned_pos",
)  # the same in the encoder and the decoder
REQUIRED: dict[str, object] = {
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
"""Options that change what a model computes, and the values that turn them off."""
OLD_NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}
OLD_NORM = re.compile(r"(encoder|decoder)(\.layers\.\d+)\.layer_norms\.([012])(\.\w+)")
CODES = ("bpecodes", "code", "codes", "bpe.codes")
OVERWRITE = " #fairseq:overwrite"
TRAINING_CLASSES = (
    *(f"fairseq.meters.{name}" for name in ("AverageMeter", "TimeMeter", "StopwatchMeter")),
    *(
        f"{module}.{name}"
        for module in ("numpy.core.multiarray", "numpy._core.multiarray")
        for name in ("_reconstruct", "scalar")
    ),
    "numpy.ndarray",
    "numpy.dtype",
)
"""Classes of timers and averages that a checkpoint may keep from training."""


class Ignored:
    """Replaces an object that is not needed. It keeps and runs nothing."""

    def __init__(self, *arguments: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass


def read(path: Path) -> Imported:
    """Read a checkpoint, or the only one in a folder, with the files beside it.

    Raises `DragomanError`, naming the file, if a file is damaged or Dragoman cannot hold the model.
    """
    path = checkpoint_of(path)
    checkpoint = load_checkpoint(path)
    model, task = configuration(checkpoint, path)
    refuse_other_subwords(checkpoint, path)
    if not isinstance(checkpoint.get("model"), Mapping) or not all(
        isinstance(tensor, Tensor) for tensor in checkpoint["model"].values()
    ):
        raise DragomanError(
            f"{path} holds no weights under the name 'model'; it is not a fairseq checkpoint."
        )
    tensors = Tensors(rename_old_tensors(checkpoint["model"]), path)
    settings = settings_of(model, path)
    settings, positions = take_positions(tensors, settings)
    files = dictionary_files(path.parent, task, path)
    pieces_of_sides = [read_dictionary(file) for file in files]
    if model.get("share_all_embeddings") and pieces_of_sides[0] != pieces_of_sides[1]:
        raise DragomanError(
            f"{path}: share_all_embeddings is True, and {files[0].name} and {files[1].name} are not the same."
        )
    for side, file, pieces in zip(SIDES, files, pieces_of_sides, strict=True):
        check_size(
            file, pieces, path, f"{side}.embed_tokens.weight", tensors.rows(f"{side}.embed_tokens.weight")
        )
    embeddings = take_embeddings(
        tensors, model, settings.d_model, [len(pieces) for pieces in pieces_of_sides]
    )
    imported = import_layers(settings, name_map(settings), tensors)
    tensors.discard(
        [f"{side}.{buffer}" for side in SIDES for buffer in ("version", "embed_positions._float_tensor")]
    )
    tensors.refuse_unused()
    vocabularies, tokenizers = read_tokenizers(path.parent, files, pieces_of_sides)
    return Imported(
        build_model(settings, {**imported, **positions}, embeddings, None, vocabularies, path),
        tokenizers,
        vocabularies,
        languages=languages_named(task.get("source_lang"), task.get("target_lang")),
    )


def checkpoint_of(path: Path) -> Path:
    """The file itself, or the only checkpoint in a folder.

    Raises `DragomanError` if a folder has none or several.
    """
    if not path.is_dir():
        return path
    named = [path / name for name in ("checkpoint_best.pt", "checkpoint_last.pt", "model.pt")]
    files = [file for file in named if file.exists()] or sorted(path.glob("*.pt"))
    return only_checkpoint(path, files, "name the file that is to be read")


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Load the checkpoint as `load_pickle`, without the objects that only training needs."""
    with torch.serialization.safe_globals([(Ignored, name) for name in TRAINING_CLASSES]):
        return load_pickle(path)


def configuration(checkpoint: Mapping[str, Any], origin: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of the model and of the task, with nested sections of the model's flattened.

    Raises `DragomanError` if there are none.
    """
    if checkpoint.get("args") is not None:
        options = as_dict(checkpoint["args"], "args", origin)
        return options, options
    config = as_dict(checkpoint.get("cfg"), "cfg", origin)
    model, task = (as_dict(config.get(part), f"cfg.{part}", origin) for part in ("model", "task"))
    for part in ("encoder", "decoder", "quant_noise"):
        if isinstance(model.get(part), Mapping):
            model |= {f"{part}_{name}": value for name, value in model[part].items()}
    return model, task


def as_dict(value: object, name: str, origin: Path) -> dict[str, Any]:
    """A namespace or a dictionary as a dictionary. Raises `DragomanError` if it is neither."""
    if isinstance(value, Namespace):
        return dict(vars(value))
    if not isinstance(value, Mapping):
        raise DragomanError(
            f"{origin} has no settings under the name {name!r}; it is not a fairseq checkpoint."
        )
    return dict(value)


def refuse_other_subwords(checkpoint: Mapping[str, Any], origin: Path) -> None:
    """Raise `DragomanError` for subwords that Dragoman cannot make. Warns of a tokenizer.

    A checkpoint names both only if they were options of its training.
    """
    bpe, tokenizer = (preprocessing(checkpoint, name) for name in ("bpe", "tokenizer"))
    if bpe not in (None, "subword_nmt", "fastbpe", "sentencepiece"):
        raise DragomanError(
            f"{origin}: bpe is {shown(bpe)}; Dragoman reads models with subword_nmt, fastbpe or "
            "sentencepiece."
        )
    if tokenizer not in (None, "space"):
        warn_caller(
            f"{origin}: the tokenizer is {shown(tokenizer)}, which Dragoman does not have. Tokenise text "
            "with it before you translate, and join the tokens of translations."
        )


def preprocessing(checkpoint: Mapping[str, Any], option: str) -> object:
    """The value of an option of fairseq's preprocessing; None if it was not given."""
    if checkpoint.get("args") is not None:
        return getattr(checkpoint["args"], option, None)
    section = (checkpoint.get("cfg") or {}).get(option)
    return section.get("_name") if isinstance(section, Mapping) else section


def settings_of(model: Mapping[str, Any], origin: Path) -> ModelSettings:
    """The model's settings. Raises `DragomanError` for options that Dragoman does not have."""
    architecture = model.get("_name") or model.get("arch")
    if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
        raise DragomanError(
            f"{origin}: the architecture is {shown(architecture)}; Dragoman reads "
            f"{', '.join(sorted(ARCHITECTURES))}."
        )
    check_options(origin, {name: value for name, value in model.items() if value}, REQUIRED)
    sizes = {name: model.get(name, default) for name, default in SIZES.items()}
    sizes["decoder_ffn_embed_dim"] = model.get("decoder_ffn_embed_dim", sizes["encoder_ffn_embed_dim"])
    if invalid := [name for name, size in sizes.items() if not isinstance(size, int)]:
        raise DragomanError(
            f"{origin}: {invalid[0]} is {shown(sizes[invalid[0]])}, and a number was expected."
        )
    options = {"activation_fn": "relu", **model, **sizes}
    for name in SHARED_OPTIONS:
        encoder, decoder = f"encoder_{name}", f"decoder_{name}"
        options.setdefault(encoder, False)
        options.setdefault(decoder, options[encoder])
        check_equal(origin, options, encoder, decoder)
    learned = bool(model.get("encoder_learned_pos"))
    encoder_width, decoder_width = sizes["encoder_ffn_embed_dim"], sizes["decoder_ffn_embed_dim"]
    with settings_in(origin):
        return ModelSettings(
            d_model=sizes["encoder_embed_dim"],
            d_ff=encoder_width,
            decoder_d_ff=None if decoder_width == encoder_width else decoder_width,
            heads=sizes["encoder_attention_heads"],
            encoder_layers=sizes["encoder_layers"],
            decoder_layers=sizes["decoder_layers"],
            dropout=model.get("dropout", 0.1),
            attention_dropout=model.get("attention_dropout", 0.0),
            positions="learned" if learned else TENSOR2TENSOR,
            first_position=0 if learned else FIRST_POSITION,
            norm="pre" if model.get("encoder_normalize_before") else "post",
            activation=map_option(origin, options, "activation_fn", ACTIVATIONS),
            attention_bias=True,
            scale_embeddings=not model.get("no_scale_embedding"),
        )


def name_map(settings: ModelSettings) -> dict[str, list[str]]:
    """Names of our layers, and fairseq's."""
    names = layer_names("encoder", "encoder.layers", settings.encoder_layers, ENCODER)
    names |= layer_names("decoder", "decoder.layers", settings.decoder_layers, DECODER)
    if settings.norm == "pre":
        names |= {f"{side}_norm": [f"{side}.layer_norm"] for side in SIDES}
    return names


def rename_old_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename tensors of versions before 0.9, and split joint projections of queries, keys and values."""
    renamed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name.endswith((".in_proj_weight", ".in_proj_bias")):
            module, kind = name.split(".in_proj_")
            renamed |= {
                f"{module}.{part}_proj.{kind}": rows
                for part, rows in zip("qkv", tensor.chunk(3), strict=False)
            }
        elif (old := OLD_NORM.fullmatch(name)) and int(old[3]) < len(OLD_NORMS[old[1]]):
            renamed[f"{old[1]}{old[2]}.{OLD_NORMS[old[1]][int(old[3])]}{old[4]}"] = tensor
        else:
            renamed[name] = tensor
    return renamed


def take_positions(tensors: Tensors, settings: ModelSettings) -> tuple[ModelSettings, dict[str, Tensor]]:
    """The settings with the number of learned positions, and the learned tables [N D] by our names.

    Raises `DragomanError` if the two tables differ in length, or a stored table is not fairseq's sinusoids.
    """
    d_model = settings.d_model
    if settings.positions != "learned":
        if d_model % 2:
            raise DragomanError(
                f"{tensors.origin}: encoder_embed_dim is {d_model}; fairseq's sinusoids of an odd width have "
                "no last cosine."
            )
        stored = [f"{side}.embed_positions.weights" for side in SIDES]
        check_sinusoids(tensors, stored, d_model, TENSOR2TENSOR, FIRST_POSITION)
        return settings, {}
    lengths = [tensors.rows(f"{side}.embed_positions.weight") - FIRST_POSITION for side in SIDES]
    if lengths[0] != lengths[1]:
        raise DragomanError(
            f"{tensors.origin} has learned {lengths[0]} positions of sources and {lengths[1]} of targets; "
            "Dragoman needs equal numbers."
        )
    table = (lengths[0] + FIRST_POSITION, d_model)
    source, target = (
        tensors.take(f"{side}.embed_positions.weight", table)[FIRST_POSITION:] for side in SIDES
    )
    return replace(settings, max_positions=lengths[0]), {
        "source_positions.table": source,
        "target_positions.table": target,
    }


def take_embeddings(
    tensors: Tensors, model: Mapping[str, Any], d_model: int, sizes: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """The embeddings [V D] of the source, the target and the output.

    Raises `DragomanError` if the settings share embeddings that differ.
    """
    source, target = (
        tensors.take(f"{side}.embed_tokens.weight", (size, d_model))
        for side, size in zip(SIDES, sizes, strict=True)
    )
    output, old = "decoder.output_projection.weight", "decoder.embed_out"
    all_shared = bool(model.get("share_all_embeddings"))
    shared = all_shared or bool(model.get("share_decoder_input_output_embed"))
    stored = not shared or output in tensors
    logits = tensors.take(old if old in tensors else output, (sizes[1], d_model)) if stored else target
    if (shared and not torch.equal(target, logits)) or (all_shared and not torch.equal(source, target)):
        raise DragomanError(
            f"{tensors.origin}: its settings share the embeddings, and its tensors of them are not the same."
        )
    return source, target, logits


def dictionary_files(folder: Path, task: Mapping[str, Any], origin: Path) -> tuple[Path, Path]:
    """The files of the source's and the target's dictionary.

    Raises `DragomanError` if they are missing or ambiguous, or for another task.
    """
    if (name := task.get("_name") or task.get("task", "translation")) != "translation":
        raise DragomanError(
            f"{origin}: the task is {shown(name)}; Dragoman reads models of 'translation' alone."
        )
    languages = [task.get("source_lang"), task.get("target_lang")]
    if any(language is not None and (type(language) is not str or "/" in language) for language in languages):
        raise DragomanError(f"{origin}: its languages are {shown(languages)}; they have to be names.")
    if None not in languages:
        source, target = (folder / f"dict.{language}.txt" for language in languages)
        if missing := [file.name for file in (source, target) if not file.exists()]:
            raise DragomanError(
                f"{folder} lacks {missing[0]}; copy it from the folder of fairseq's data to its checkpoint."
            )
        return source, target
    files = sorted(folder.glob("dict.*.txt"))
    if len(files) == 2 and files[0].read_bytes() == files[1].read_bytes():
        return files[0], files[1]
    names = ", ".join(file.name for file in files) or "none"
    raise DragomanError(
        f"{origin} does not name its languages, and which dictionary is the source's is not clear: there "
        f"are {names}."
    )


def read_dictionary(path: Path) -> list[str]:
    """Tokens in fairseq's order of ids.

    A token that a later one overwrites gets a name that no text has.

    Raises `DragomanError` with the line that is not a token and its count.
    """
    tokens, ids = list(SPECIAL), {token: number for number, token in enumerate(SPECIAL)}
    for number, line in enumerate(split_lines(path), 1):
        entry = line.rstrip()
        token, _, count = entry.removesuffix(OVERWRITE).rpartition(" ")
        if not re.fullmatch(r"-?\d+", count):
            raise DragomanError(f"{path}, line {number}: {entry!r} is not a token and its count.")
        if token in ids:
            if not entry.endswith(OVERWRITE):
                raise DragomanError(f"{path}, line {number}: {token!r} occurs twice.")
            tokens[ids[token]] = f"<dragoman:{ids[token]}>"
        ids[token] = len(tokens)
        tokens.append(token)
    return tokens


def read_tokenizers(
    folder: Path, files: Sequence[Path], pieces_of_sides: Sequence[list[str]]
) -> tuple[tuple[Vocabulary, Vocabulary], Tokenizers]:
    """The vocabularies and tokenizers of the source and the target.

    Raises `DragomanError` if there are several subword models, or if the SentencePiece model is missing.
    """
    source, target = (
        Vocabulary.from_foreign(pieces, PAD_ID, UNKNOWN_ID, END_ID, END_ID) for pieces in pieces_of_sides
    )
    default = folder / "sentencepiece.bpe.model"
    models = [default] if default.exists() else sorted(folder.glob("*.model"))
    codes = [folder / name for name in CODES if (folder / name).exists()]
    if len(models) + len(codes) > 1:
        names = ", ".join(file.name for file in (*models, *codes))
        raise DragomanError(
            f"{folder} has several subword models, {names}; leave the one that the model was trained with."
        )
    if models:
        source, target = source.with_sentencepiece(models[0]), target.with_sentencepiece(models[0])
        return (source, target), Tokenizers.of(
            *(sentencepiece_tokenizer(models[0], side.pieces) for side in (source, target))
        )
    merges = read_codes(codes[0]) if codes else None
    for file, pieces in zip(files, pieces_of_sides, strict=True):
        if merges is None:
            refuse_subword_pieces(f"{file}: the vocabulary", pieces)
    return (source, target), Tokenizers.of(
        *(word_tokenizer(side.pieces, merges) for side in (source, target))
    )
