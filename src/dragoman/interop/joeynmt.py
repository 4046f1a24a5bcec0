"""Import of JoeyNMT's Transformers: model folders of versions 2.0 to 2.3.

A folder holds `config.yaml`, a checkpoint, vocabularies, and the files of the tokenizers. Checkpoints
that hold more than tensors and plain values are refused; docs/interop.md says how to remove the rest.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.interop.pickles import load_pickle, only_checkpoint
from dragoman.interop.vocabulary import (
    FORBIDDEN_BIAS,
    Vocabulary,
    empty_sentencepiece,
    load_sentencepiece,
    read_codes,
    with_pieces,
    word_tokenizer,
)
from dragoman.interop.weights import (
    Imported,
    Tensors,
    build_model,
    check_options,
    check_sinusoids,
    import_layers,
    layer_names,
    settings_in,
    take_embedding,
)
from dragoman.model.settings import Activation, ModelSettings
from dragoman.system.errors import DragomanError
from dragoman.system.readers import MAX_TOKENS_FILE, read_text, read_yaml
from dragoman.system.wording import shown
from dragoman.text.settings import TokenizerSettings
from dragoman.text.subword_nmt import WITHIN_VOCABULARY
from dragoman.text.tokenizer import Tokenizer
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
NORMS = {"encoder_norm": ["encoder.layer_norm"], "decoder_norm": ["decoder.layer_norm"]}  # with pre-norm
EMBEDDINGS = (
    ("src_embed.lut.weight", "src"),
    ("trg_embed.lut.weight", "trg"),
    ("decoder.output_layer.weight", "trg"),
)
ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "gelu": "gelu", "swish": "swish"}
DEFAULTS: dict[str, dict[str, Any]] = {  # for keys that config.yaml leaves out
    "encoder": {"type": "recurrent", "num_layers": 8, "num_heads": 4},
    "decoder": {"type": "transformer", "num_layers": 4, "num_heads": 8},
    "both": {"hidden_size": 512, "ff_size": 2048, "dropout": 0.1, "alpha": 1.0, "activation": "relu"},
}
NUMBER_TYPES: dict[str, type | tuple[type, ...]] = {
    "hidden_size": int,
    "ff_size": int,
    "num_heads": int,
    "num_layers": int,
    "dropout": (int, float),
}
SHARED_OPTIONS = (
    "hidden_size",
    "num_heads",
    "activation",
    "layer_norm",
    "scale",
)  # the same in the encoder and the decoder
SPECIAL = {
    "unk": "<unk>",
    "pad": "<pad>",
    "bos": "<s>",
    "eos": "</s>",
}  # the first four ids of every vocabulary, in this order


@dataclass(frozen=True)
class Side:
    """The source's or the target's vocabulary and tokenizer."""

    file: Path
    pieces: list[str]
    """All tokens in the order of their ids."""
    unknown: list[str]
    """Pieces of the tokenizer that the vocabulary lacks. JoeyNMT reads them as unknown tokens."""
    make_tokenizer: Callable[[Sequence[str]], Tokenizer]
    """Makes the tokenizer whose ids are the order of the given pieces."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Ids of the pieces, with JoeyNMT's order of the four symbols."""
        return Vocabulary.from_foreign(self.pieces, unknown=0, pad=1, start=2, end=3).with_unknown(
            self.unknown
        )


def read(path: Path) -> Imported:
    """Read a model folder of JoeyNMT.

    Raises `DragomanError`, naming the file, if a file is damaged or Dragoman cannot hold the model.
    """
    origin = path / "config.yaml"
    config = read_config(origin)
    tensors = tensors_of(checkpoint_of(path, config))
    settings = settings_of(config, tensors, origin)
    special = special_tokens(config, origin)
    sides = {name: side_of(name, config, special, origin) for name in ("src", "trg")}
    imported = import_layers(settings, name_map(settings), tensors)
    source, target, output = (
        take_embedding(tensors, name, settings.d_model, sides[side].pieces, sides[side].file)
        for name, side in EMBEDDINGS
    )
    check_sinusoids(tensors, ("encoder.pe.pe", "decoder.pe.pe"), settings.d_model, "sinusoidal")
    tensors.refuse_unused()
    vocabularies = (sides["src"].vocabulary, sides["trg"].vocabulary)
    bias = torch.zeros(len(output))
    bias[len(SPECIAL) : len(special)] = FORBIDDEN_BIAS  # a separator is read, never written
    model = build_model(settings, imported, (source, target, output), bias, vocabularies, tensors.origin)
    tokenizers = Tokenizers.of(
        *(
            side.make_tokenizer(vocabulary.pieces)
            for side, vocabulary in zip(sides.values(), vocabularies, strict=True)
        )
    )
    return Imported(model, tokenizers, vocabularies)


def read_config(path: Path) -> dict[str, Any]:
    """Read a mapping. Raises `DragomanError` if the file holds none, and as `read_yaml`."""
    config = read_yaml(path)
    if not isinstance(config, dict):
        raise DragomanError(f"{path} holds no configuration of JoeyNMT.")
    return config


def section(config: Mapping[str, Any], origin: Path, *keys: str) -> dict[str, Any]:
    """A section of the configuration. Raises `DragomanError` if there is none."""
    value: Any = config
    for depth, key in enumerate(keys, 1):
        value = value.get(key)
        if not isinstance(value, dict):
            raise DragomanError(
                f"{origin}: {'.'.join(keys[:depth])} is {shown(value)}; Dragoman reads what JoeyNMT 2 "
                "writes, a section."
            )
    return dict(value)


def checkpoint_of(folder: Path, config: Mapping[str, Any]) -> Path:
    """The checkpoint that JoeyNMT translates with.

    Raises `DragomanError` if the folder has none, or several of which none has such a name.
    """
    named = (config.get("testing") or {}).get("load_model")
    for name in [*([Path(named).name] if isinstance(named, str) else []), "best.ckpt", "latest.ckpt"]:
        if (folder / name).is_file():
            return folder / name
    return only_checkpoint(folder, sorted(folder.glob("*.ckpt")), "rename the one that is meant to best.ckpt")


def tensors_of(path: Path) -> Tensors:
    """The weights in a checkpoint. Raises `DragomanError` if there are none."""
    state = load_pickle(path).get("model_state")
    if not isinstance(state, dict) or not all(isinstance(tensor, Tensor) for tensor in state.values()):
        raise DragomanError(f"{path} has no tensors as its model_state; it is not a JoeyNMT checkpoint.")
    return Tensors(state, path)


def settings_of(config: Mapping[str, Any], tensors: Tensors, origin: Path) -> ModelSettings:
    """The model's settings. Raises `DragomanError` for options that Dragoman does not have."""
    encoder, decoder = (stack_of(name, config, tensors, origin) for name in ("encoder", "decoder"))
    if section(config, origin, "model").get("tied_embeddings", False):
        decoder["scale"] = encoder["scale"]  # JoeyNMT then uses the encoder's embedding, with its scale
    for name in SHARED_OPTIONS:
        if encoder[name] != decoder[name]:
            raise DragomanError(
                f"{origin}: {name} is {shown(encoder[name])} in the encoder and {shown(decoder[name])} in "
                "the decoder; in Dragoman they are the same."
            )
    with settings_in(origin):
        return ModelSettings(
            d_model=encoder["hidden_size"],
            d_ff=encoder["ff_size"],
            decoder_d_ff=None if decoder["ff_size"] == encoder["ff_size"] else decoder["ff_size"],
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
    """The options of the encoder or the decoder. Raises `DragomanError` for those that Dragoman lacks."""
    stack = DEFAULTS["both"] | DEFAULTS[name] | section(config, origin, "model", name)
    check_options(
        origin,
        {f"model.{name}.{key}": value for key, value in stack.items()},
        {f"model.{name}.type": "transformer", f"model.{name}.alpha": 1.0},
    )
    for key, types in NUMBER_TYPES.items():
        if not isinstance(stack[key], types):
            raise DragomanError(
                f"{origin}: model.{name}.{key} is {shown(stack[key])}, which is not a valid number."
            )
    stack["layer_norm"] = norm_of(name, stack, tensors, origin)
    scale = section(config, origin, "model", name, "embeddings").get("scale", False)
    stack["scale"] = bool(scale) if scale in (0, 1) else scale  # JoeyNMT reads a number as true or false
    for key, values in {
        "activation": tuple(ACTIVATIONS),
        "layer_norm": ("pre", "post"),
        "scale": (True, False),
    }.items():
        if stack[key] not in values:
            raise DragomanError(
                f"{origin}: {key} is {shown(stack[key])} in the {name}; Dragoman has "
                f"{', '.join(map(repr, values))}."
            )
    return stack


def norm_of(name: str, stack: Mapping[str, Any], tensors: Tensors, origin: Path) -> Any:
    """Whether layers are pre-norm or post-norm.

    Raises `DragomanError` if neither the configuration nor the tensors say which.
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


def name_map(settings: ModelSettings) -> dict[str, list[str]]:
    """Names of our layers, and JoeyNMT's."""
    encoder = layer_names("encoder", "encoder.layers", settings.encoder_layers, ENCODER)
    decoder = layer_names("decoder", "decoder.layers", settings.decoder_layers, DECODER)
    return encoder | decoder | (NORMS if settings.norm == "pre" else {})


def special_tokens(config: Mapping[str, Any], origin: Path) -> list[str]:
    """The special tokens in the order of their ids.

    Raises `DragomanError` for other ids, and for models that need prompts.
    """
    data = section(config, origin, "data")
    symbols = section(config, origin, "data", "special_symbols") if data.get("special_symbols") else {}
    check_options(origin, symbols, {f"{name}_id": number for number, name in enumerate(SPECIAL)})
    if symbols.get("lang_tags") or any(
        section(config, origin, "data", side).get("has_prompt", False) for side in ("src", "trg")
    ):
        raise DragomanError(
            f"{origin}: this model reads prompts or the names of languages (lang_tags, has_prompt); "
            "Dragoman cannot give it these."
        )
    tokens = [symbols.get(f"{name}_token", token) for name, token in SPECIAL.items()]
    return [*tokens, symbols["sep_token"]] if symbols.get("sep_token") else tokens


def side_of(name: str, config: Mapping[str, Any], special: Sequence[str], origin: Path) -> Side:
    """The vocabulary and the tokenizer of the source or the target.

    Raises `DragomanError` if a file is missing, or if JoeyNMT preprocesses the text.
    """
    side = section(config, origin, "data", name)
    refuse_preprocessing(name, side, origin)
    file = file_beside(origin, side.get("voc_file") or f"{name}_vocab.txt", f"{name}_vocab.txt")
    lines = read_text(file, MAX_TOKENS_FILE).splitlines()
    pieces = list(dict.fromkeys([*special, *lines]))
    make_tokenizer, unknown = tokenizer_of(name, config, pieces, origin)
    return Side(file, pieces, unknown, make_tokenizer)


def refuse_preprocessing(name: str, side: Mapping[str, Any], origin: Path) -> None:
    """Raise `DragomanError`, with advice, if JoeyNMT changes text before the tokenizer."""
    options = {**side, **(side.get("tokenizer_cfg") or {})}
    for key, default in {"lowercase": "false", "normalize": "false", "pretokenizer": "none"}.items():
        value = options.get(key, default)
        if not isinstance(value, str | bool | None) or str(value).lower() != default:
            raise DragomanError(
                f"{origin}: {key} is {shown(value)} in data.{name}, and Dragoman does not change text "
                "before it tokenizes it. To read the model "
                f"all the same write {default} there, and prepare what you translate as JoeyNMT does."
            )


def file_beside(origin: Path, *files: str) -> Path:
    """The first of these file names that exists in the configuration's folder, or the last one."""
    paths = [origin.parent / Path(file).name for file in files]
    return next((path for path in paths if path.is_file()), paths[-1])


def tokenizer_of(
    name: str, config: Mapping[str, Any], pieces: Sequence[str], origin: Path
) -> tuple[Callable[[Sequence[str]], Tokenizer], list[str]]:
    """A function that makes the tokenizer, and the tokenizer's pieces that the vocabulary lacks.

    Raises `DragomanError` for another level or type.
    """
    side = section(config, origin, "data", name)
    level = side.get("level")
    if level == "word":
        return word_tokenizer, []
    if level == "char":
        return character_tokenizer, []
    keys = ("data", name, "tokenizer_cfg")
    kind = side.get("tokenizer_type", side.get("bpe_type", "sentencepiece"))
    if (level, kind) == ("bpe", "sentencepiece"):
        model, unknown = restrict_sentencepiece(
            file_of(section(config, origin, *keys), "model_file", origin), pieces
        )
        return partial(with_pieces, model), unknown
    if (level, kind) == ("bpe", "subword-nmt"):
        options = section(config, origin, *keys)
        check_options(origin, options, {"separator": "@@"})
        return partial(
            word_tokenizer, codes=WITHIN_VOCABULARY + read_codes(file_of(options, "codes", origin))
        ), []
    raise DragomanError(
        f"{origin}: data.{name} has the level {shown(level)} and the tokenizer_type {shown(kind)}; "
        "JoeyNMT has no such tokenizer."
    )


def file_of(options: Mapping[str, Any], key: str, origin: Path) -> Path:
    """A tokenizer's file. Raises `DragomanError` if the configuration names none."""
    if not isinstance(options.get(key), str):
        raise DragomanError(
            f"{origin}: tokenizer_cfg.{key} is {shown(options.get(key))}, and a file's name was expected."
        )
    return file_beside(origin, options[key])


def restrict_sentencepiece(path: Path, pieces: Sequence[str]) -> tuple[Any, list[str]]:
    """A SentencePiece model restricted to these pieces and single characters, and its other pieces.

    This is SentencePiece's own "vocabulary restriction". Byte-pair merges need intermediate pieces, which are
    split again. Raises `DragomanError` if the file is not a SentencePiece model.
    """
    model = load_sentencepiece(path)
    kind, known, unknown = type(model).SentencePiece, set(pieces), []
    is_bpe = model.trainer_spec.model_type == type(model.trainer_spec).BPE
    for piece in model.pieces:
        if piece.type in (kind.NORMAL, kind.UNUSED):
            piece.type = kind.NORMAL if piece.piece in known or len(piece.piece) == 1 else kind.UNUSED
        if (
            piece.type not in (kind.CONTROL, kind.UNKNOWN)
            and piece.piece not in known
            and (is_bpe or piece.type != kind.UNUSED)
        ):
            unknown.append(piece.piece)
    return model, unknown


def character_tokenizer(pieces: Sequence[str]) -> Tokenizer:
    """A tokenizer of characters, all spaces included, with the order of `pieces` as ids.

    Raises `DragomanError` if protobuf is not installed.
    """
    model = empty_sentencepiece()
    model.ParseFromString(
        Tokenizer.train(["a"], "char", TokenizerSettings(normalization="identity"), 5).model
    )
    model.normalizer_spec.remove_extra_whitespaces = False
    return with_pieces(model, pieces, encode_new=True)
