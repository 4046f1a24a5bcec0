"""JoeyNMT's Transformers, from a model folder:

`config.yaml`, a checkpoint, vocabularies, and the files of the tokenizers.

These are the folders of versions 2.0 to 2.3. Checkpoints that hold more than tensors and plain values are
refused: docs/interop.md says how somebody who trusts one takes the rest away.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.interop.pickles import load_pickle
from dragoman.interop.vocabulary import (
    NEVER,
    Vocabulary,
    codes_of,
    in_order,
    parsed,
    refuse_other_size,
    sentencepiece_model,
    words_in_order,
)
from dragoman.interop.weights import Imported, Tensors, import_layers, layers, model_of, refuse
from dragoman.model.positions import sinusoids
from dragoman.model.settings import Activation, ModelSettings
from dragoman.system.errors import DragomanError
from dragoman.text.settings import TokenizerSettings
from dragoman.text.tokenizer import WITHIN_VOCABULARY, Tokenizer
from dragoman.translation.model_folder import Tokenizers

FEED_FORWARD = {
    "feed_forward.inner": ["feed_forward.pwff_layer.0"],
    "feed_forward.outer": ["feed_forward.pwff_layer.3"],
    "feed_forward_residual.norm": ["feed_forward.layer_norm"],
}
ENCODER = {
    "self_attention.query_key_value": ["src_src_att.q_layer", "src_src_att.k_layer", "src_src_att.v_layer"],
    "self_attention.output": ["src_src_att.output_layer"],
    "self_attention_residual.norm": ["layer_norm"],
    **FEED_FORWARD,
}
DECODER = {
    "self_attention.query_key_value": ["trg_trg_att.q_layer", "trg_trg_att.k_layer", "trg_trg_att.v_layer"],
    "self_attention.output": ["trg_trg_att.output_layer"],
    "self_attention_residual.norm": ["x_layer_norm"],
    "cross_attention.query_key_value": ["src_trg_att.q_layer", "src_trg_att.k_layer", "src_trg_att.v_layer"],
    "cross_attention.output": ["src_trg_att.output_layer"],
    "cross_attention_residual.norm": ["dec_layer_norm"],
    **FEED_FORWARD,
}
LAST = {"encoder_norm": ["encoder.layer_norm"], "decoder_norm": ["decoder.layer_norm"]}  # of pre-norm
TABLES = (
    ("src_embed.lut.weight", "src"),
    ("trg_embed.lut.weight", "trg"),
    ("decoder.output_layer.weight", "trg"),
)
ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "gelu": "gelu", "swish": "swish"}
DEFAULTS: dict[str, dict[str, Any]] = {  # what config.yaml may leave out
    "encoder": {"type": "recurrent", "num_layers": 8, "num_heads": 4},
    "decoder": {"type": "transformer", "num_layers": 4, "num_heads": 8},
    "both": {"hidden_size": 512, "ff_size": 2048, "dropout": 0.1, "alpha": 1.0, "activation": "relu"},
}
NUMBERS: dict[str, type | tuple[type, ...]] = {
    "hidden_size": int,
    "ff_size": int,
    "num_heads": int,
    "num_layers": int,
    "dropout": (int, float),
}
SAME = (
    "hidden_size",
    "ff_size",
    "num_heads",
    "activation",
    "layer_norm",
    "scale",
)  # in the encoder and the decoder
SPECIAL = {
    "unk": "<unk>",
    "pad": "<pad>",
    "bos": "<s>",
    "eos": "</s>",
}  # the first four ids of every vocabulary, in this order


@dataclass(frozen=True)
class Side:
    """One language's vocabulary."""

    file: Path
    pieces: list[str]
    """All tokens in the order of their ids."""
    others: list[str]
    """What the tokenizer cuts text into and the vocabulary lacks: JoeyNMT reads these as unknown tokens."""
    cutter: Callable[[Sequence[str]], Tokenizer]
    """The tokenizer, for tokens and others in any order."""

    @property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary.in_our_order(self.pieces, unknown=0, pad=1, start=2, end=3).with_others(self.others)


def read(path: Path) -> Imported:
    """The model in a folder of JoeyNMT's.

    Raises `DragomanError`, naming the file, for what is damaged or cannot be held.
    """
    origin = path / "config.yaml"
    config = read_yaml(origin)
    tensors = tensors_of(checkpoint_of(path, config))
    settings = settings_of(config, tensors, origin)
    special = special_tokens(config, origin)
    sides = {name: side_of(name, config, special, origin) for name in ("src", "trg")}
    imported = import_layers(settings, names(settings), tensors)
    source, target, output = (table_of(tensors, name, sides[side], settings.d_model) for name, side in TABLES)
    check_positions(tensors, settings.d_model)
    tensors.refuse_rest()
    vocabularies = (sides["src"].vocabulary, sides["trg"].vocabulary)
    bias = torch.zeros(len(output))
    bias[len(SPECIAL) : len(special)] = NEVER  # a separator is read, and not written
    model = model_of(settings, imported, (source, target, output), bias, vocabularies, tensors.origin)
    cut = [
        side.cutter(vocabulary.pieces) for side, vocabulary in zip(sides.values(), vocabularies, strict=True)
    ]
    return Imported(model, Tokenizers.of(*cut), vocabularies)


def read_yaml(path: Path) -> dict[str, Any]:
    """Raises `DragomanError` with the file's name where there is no such file, or no mapping in it, or no
    PyYAML to read it.
    """
    try:
        import yaml
    except ImportError as error:
        raise DragomanError(f"To read {path} PyYAML is needed: pip install 'dragoman[import]'.") from error
    try:
        found = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise DragomanError(f"{path} cannot be read: {' '.join(str(error).split())}.") from error
    if not isinstance(found, dict):
        raise DragomanError(f"{path} holds no configuration of JoeyNMT.")
    return found


def section(config: Mapping[str, Any], origin: Path, *place: str) -> dict[str, Any]:
    """A part of the configuration. Raises `DragomanError` if there is none."""
    found: Any = config
    for depth, name in enumerate(place, 1):
        found = found.get(name)
        if not isinstance(found, dict):
            raise DragomanError(
                f"{origin}: {'.'.join(place[:depth])} is {found!r}; Dragoman reads what JoeyNMT 2 writes, a "
                "section."
            )
    return dict(found)


def checkpoint_of(folder: Path, config: Mapping[str, Any]) -> Path:
    """What JoeyNMT would translate with.

    Raises `DragomanError` if the folder has no checkpoint, or several that may be meant.
    """
    named = (config.get("testing") or {}).get("load_model")
    for name in [*([Path(named).name] if isinstance(named, str) else []), "best.ckpt", "latest.ckpt"]:
        if (folder / name).is_file():
            return folder / name
    found = sorted(folder.glob("*.ckpt"))
    if len(found) != 1:
        told = ", ".join(path.name for path in found) or "no checkpoint"
        raise DragomanError(f"{folder} has {told}; name the one that is meant best.ckpt.")
    return found[0]


def tensors_of(path: Path) -> Tensors:
    """The weights in a checkpoint. Raises `DragomanError` if there are none."""
    state = load_pickle(path).get("model_state")
    if not isinstance(state, dict) or not all(isinstance(tensor, Tensor) for tensor in state.values()):
        raise DragomanError(f"{path} has no tensors as its model_state; it is no checkpoint of JoeyNMT.")
    return Tensors(state, path)


def settings_of(config: Mapping[str, Any], tensors: Tensors, origin: Path) -> ModelSettings:
    """Raises `DragomanError` for a configuration that we cannot hold."""
    encoder, decoder = (stack_of(name, config, tensors, origin) for name in ("encoder", "decoder"))
    if section(config, origin, "model").get("tied_embeddings", False):
        decoder["scale"] = encoder[
            "scale"
        ]  # JoeyNMT has the encoder's embedding in both places then, and its setting
    for name in SAME:
        if encoder[name] != decoder[name]:
            raise DragomanError(
                f"{origin}: {name} is {encoder[name]!r} in the encoder and {decoder[name]!r} in the "
                "decoder; in Dragoman they are the same."
            )
    return ModelSettings(
        d_model=encoder["hidden_size"],
        d_ff=encoder["ff_size"],
        heads=encoder["num_heads"],
        encoder_layers=encoder["num_layers"],
        decoder_layers=decoder["num_layers"],
        dropout=encoder["dropout"],
        attention_dropout=encoder["dropout"],
        norm=encoder["layer_norm"],
        norm_epsilon=1e-6,
        activation=ACTIVATIONS[encoder["activation"]],
        attention_bias=True,
        scale_embeddings=encoder["scale"],
    )


def stack_of(name: str, config: Mapping[str, Any], tensors: Tensors, origin: Path) -> dict[str, Any]:
    """The settings of the encoder or the decoder. Raises `DragomanError` for what we cannot hold."""
    stack = DEFAULTS["both"] | DEFAULTS[name] | section(config, origin, "model", name)
    refuse(
        origin,
        {f"model.{name}.{key}": value for key, value in stack.items()},
        {f"model.{name}.type": "transformer", f"model.{name}.alpha": 1.0},
    )
    for key, kind in NUMBERS.items():
        if not isinstance(stack[key], kind):
            raise DragomanError(f"{origin}: model.{name}.{key} is {stack[key]!r}, which is no such number.")
    stack["layer_norm"] = norm_of(name, stack, tensors, origin)
    stack["scale"] = section(config, origin, "model", name, "embeddings").get("scale", False)
    for key, known in {
        "activation": tuple(ACTIVATIONS),
        "layer_norm": ("pre", "post"),
        "scale": (True, False),
    }.items():
        if stack[key] not in known:
            raise DragomanError(
                f"{origin}: {key} is {stack[key]!r} in the {name}; Dragoman has "
                f"{', '.join(map(repr, known))}."
            )
    return stack


def norm_of(name: str, stack: Mapping[str, Any], tensors: Tensors, origin: Path) -> Any:
    """Where layer normalisation is, which a configuration may leave open.

    Raises `DragomanError` if nothing else tells it.
    """
    if "layer_norm" in stack:
        return stack["layer_norm"]
    if f"{name}.layer_norm.weight" in tensors:
        return "pre"  # JoeyNMT 1 had no other
    if name == "decoder":
        return "post"
    raise DragomanError(
        f"{origin}: model.encoder has no layer_norm. JoeyNMT 2.3 makes a pre-norm encoder without a last "
        "normalisation of this, which "
        "Dragoman cannot hold. JoeyNMT 2.0 to 2.2 made a post-norm encoder: if it was one of these, write "
        'layer_norm: "post" there.'
    )


def names(settings: ModelSettings) -> dict[str, list[str]]:
    """Our layers and JoeyNMT's."""
    encoder = layers("encoder", "encoder.layers", settings.encoder_layers, ENCODER)
    decoder = layers("decoder", "decoder.layers", settings.decoder_layers, DECODER)
    return encoder | decoder | (LAST if settings.norm == "pre" else {})


def table_of(tensors: Tensors, name: str, side: Side, d_model: int) -> Tensor:
    """A table of embeddings. Raises `DragomanError` if it does not fit the vocabulary."""
    rows = tensors.rows(name)
    refuse_other_size(side.file, side.pieces, tensors.origin, name, rows)
    return tensors.take(name, (rows, d_model))


def check_positions(tensors: Tensors, d_model: int) -> None:
    """Checkpoints hold the table of positions. Raises `DragomanError` if it is not the paper's sinusoids."""
    for name in ("encoder.pe.pe", "decoder.pe.pe"):
        if name in tensors:
            rows = (*tensors.shape(name), 0)[1]
            if not torch.allclose(
                tensors.take(name, (1, rows, d_model))[0], sinusoids(rows, d_model), atol=1e-3
            ):
                raise DragomanError(
                    f"{tensors.origin}: {name} is not the table of sinusoids that JoeyNMT has; Dragoman "
                    "cannot read it."
                )


def special_tokens(config: Mapping[str, Any], origin: Path) -> list[str]:
    """The tokens with a purpose, in the order of their ids.

    Raises `DragomanError` for other ids, and for models that need prompts.
    """
    data = section(config, origin, "data")
    found = section(config, origin, "data", "special_symbols") if data.get("special_symbols") else {}
    refuse(origin, found, {f"{name}_id": number for number, name in enumerate(SPECIAL)})
    if found.get("lang_tags") or any(
        section(config, origin, "data", side).get("has_prompt", False) for side in ("src", "trg")
    ):
        raise DragomanError(
            f"{origin}: this model reads prompts or the names of languages (lang_tags, has_prompt); "
            "Dragoman cannot give it these."
        )
    own = [found.get(f"{name}_token", token) for name, token in SPECIAL.items()]
    return [*own, found["sep_token"]] if found.get("sep_token") else own


def side_of(name: str, config: Mapping[str, Any], special: Sequence[str], origin: Path) -> Side:
    """A language's vocabulary and tokenizer.

    Raises `DragomanError` if a file is lacking, or text is prepared as we do not.
    """
    side = section(config, origin, "data", name)
    refuse_preparation(name, side, origin)
    file = beside(origin, side.get("voc_file") or f"{name}_vocab.txt", f"{name}_vocab.txt")
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise DragomanError(f"{file} cannot be read: {error}.") from error
    pieces = list(dict.fromkeys([*special, *lines]))
    cutter, others = cutter_of(name, config, pieces, origin)
    return Side(file, pieces, others, cutter)


def refuse_preparation(name: str, side: Mapping[str, Any], origin: Path) -> None:
    """Raise `DragomanError` if JoeyNMT changes text before it is cut, with what can be done about it."""
    found = {**side, **(side.get("tokenizer_cfg") or {})}
    for key, none in {"lowercase": "false", "normalize": "false", "pretokenizer": "none"}.items():
        if str(found.get(key, none)).lower() != none:
            raise DragomanError(
                f"{origin}: {key} is {found[key]!r} in data.{name}, and Dragoman does not change text "
                "before it cuts it. To read the model "
                f"all the same write {none} there, and prepare what you translate as JoeyNMT does."
            )


def beside(origin: Path, *places: str) -> Path:
    """The first of these files, by their names alone, that is in the configuration's folder; or the last."""
    paths = [origin.parent / Path(place).name for place in places]
    return next((path for path in paths if path.is_file()), paths[-1])


def cutter_of(
    name: str, config: Mapping[str, Any], pieces: Sequence[str], origin: Path
) -> tuple[Callable[[Sequence[str]], Tokenizer], list[str]]:
    """What makes the tokenizer, and its tokens that the vocabulary lacks.

    Raises `DragomanError` for a kind that we do not know.
    """
    side = section(config, origin, "data", name)
    level = side.get("level")
    if level == "word":
        return words_in_order, []
    if level == "char":
        return characters_in_order, []
    place = ("data", name, "tokenizer_cfg")
    kind = side.get("tokenizer_type", side.get("bpe_type", "sentencepiece"))
    if (level, kind) == ("bpe", "sentencepiece"):
        model, others = sentencepiece_within(
            file_of(section(config, origin, *place), "model_file", origin), pieces
        )
        return partial(in_order, model), others
    if (level, kind) == ("bpe", "subword-nmt"):
        cut = section(config, origin, *place)
        refuse(origin, cut, {"separator": "@@"})
        return partial(words_in_order, codes=WITHIN_VOCABULARY + codes_of(file_of(cut, "codes", origin))), []
    raise DragomanError(
        f"{origin}: data.{name} has the level {level!r} and the tokenizer_type {kind!r}; JoeyNMT has none "
        "such."
    )


def file_of(cut: Mapping[str, Any], key: str, origin: Path) -> Path:
    """A tokenizer's file. Raises `DragomanError` if the configuration names none."""
    if not isinstance(cut.get(key), str):
        raise DragomanError(
            f"{origin}: tokenizer_cfg.{key} is {cut.get(key)!r}, and a file's name was expected."
        )
    return beside(origin, cut[key])


def sentencepiece_within(path: Path, pieces: Sequence[str]) -> tuple[Any, list[str]]:
    """A SentencePiece model that cuts text into these pieces and single characters alone, and what it needs
    for that beside the pieces.

    This is its own "vocabulary restriction". Byte-pair merges go through pieces that are then cut again.
    Raises `DragomanError` if the file is no such model.
    """
    model = parsed(path)
    kind, known, others = type(model).SentencePiece, set(pieces), []
    by_merges = model.trainer_spec.model_type == type(model.trainer_spec).BPE
    for piece in model.pieces:
        if piece.type in (kind.NORMAL, kind.UNUSED):
            piece.type = kind.NORMAL if piece.piece in known or len(piece.piece) == 1 else kind.UNUSED
        if (
            piece.type not in (kind.CONTROL, kind.UNKNOWN)
            and piece.piece not in known
            and (by_merges or piece.type != kind.UNUSED)
        ):
            others.append(piece.piece)
    return model, others


def characters_in_order(pieces: Sequence[str]) -> Tokenizer:
    """A vocabulary of characters, spaces among them as they stand, with the places of `pieces` for ids.

    Needs protobuf.
    """
    model = sentencepiece_model()
    model.ParseFromString(
        Tokenizer.train(["a"], "char", TokenizerSettings(normalization="identity"), 5).model
    )
    model.normalizer_spec.remove_extra_whitespaces = False
    return in_order(model, pieces, known=True)
