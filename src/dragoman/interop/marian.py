"""Import and export of Marian's own models, compared with Marian itself (the package pymarian).

Marian has neither padding nor a start: its decoder begins with an embedding of zeros. PAD and START have a
row of zeros here and are never written, unless the SentencePiece model has its own.
"""

import json
import math
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import sentencepiece
import torch
from torch import Tensor

from dragoman.interop.marian_files import OPTIONS, Array, read_arrays, write_npz
from dragoman.interop.pickles import only_checkpoint
from dragoman.interop.verify import ReferenceEngine
from dragoman.interop.vocabulary import (
    FORBIDDEN_BIAS,
    Vocabulary,
    check_size,
    load_sentencepiece,
    pieces_by_id,
    read_codes,
    refuse_subword_pieces,
    sentencepiece_tokenizer,
    word_tokenizer,
)
from dragoman.interop.weights import (
    Imported,
    Tensors,
    build_model,
    check_exportable,
    check_options,
    map_option,
    settings_in,
)
from dragoman.model.settings import Activation, ModelSettings
from dragoman.model.shapes.weight_shapes import weight_shapes
from dragoman.model.symbols import START
from dragoman.model.transformer import Transformer
from dragoman.model.weights import weights
from dragoman.system.errors import DragomanError
from dragoman.system.readers import (
    MAX_TOKENS_FILE,
    MAX_YAML,
    parse_yaml,
    read_json,
    read_yaml,
    read_yaml_table,
)
from dragoman.system.wording import shown
from dragoman.text.subword_nmt import make_segmenter
from dragoman.text.tokenizer import UNKNOWN_TEXT, Tokenizer
from dragoman.translation.model_folder import Tokenizers

ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "swish": "swish"}
DEFAULTS: dict[str, Any] = {  # Marian's, for options that a model does not have
    "enc-depth": 1,
    "dec-depth": 1,
    "tied-embeddings": False,
    "tied-embeddings-src": False,
    "tied-embeddings-all": False,
    "output-omit-bias": False,
    "transformer-heads": 8,
    "transformer-dim-ffn": 2048,
    "transformer-decoder-dim-ffn": 0,
    "transformer-decoder-ffn-depth": 0,
    "transformer-ffn-activation": "swish",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": "",
    "transformer-tied-layers": [],
    "transformer-decoder-autoreg": "self-attention",
    "dec-cell": "gru",
}
REQUIRED: dict[str, Any] = {
    "type": "transformer",
    "right-left": False,
    "ulr": False,
    "lemma-dim-emb": 0,
    "lemma-dependency": "",
    "transformer-attention-mask": "default",
    "transformer-alibi-shift": False,
    "transformer-alibi-trainable": False,
    "transformer-disable-position-embeddings": False,
    "transformer-ffn-depth": 2,
    "transformer-no-affine": False,
    "transformer-no-bias": False,
    "transformer-no-projection": False,
    "transformer-pool": False,
}
REQUIRED_OF_RECURRENCE = {
    "dec-cell": "ssru",
    "layer-normalization": False,
    "transformer-rnn-projection": False,
}
"""The same for decoders that have a recurrence in place of self-attention."""
MIXERS: dict[str, Literal["self-attention", "ssru"]] = {"self-attention": "self-attention", "rnn": "ssru"}
ALLOWED: dict[str, Sequence[object]] = {
    "norm_epsilon": (1e-6, 1e-5),  # Marian's, and the default here, which makes no difference that counts
    "positions": ("sinusoidal-tensor2tensor",),
    "first_position": (0,),
    "source_end": (True,),
    "scale_embeddings": (True,),
    "activation": ("relu", "swish"),
    "alignment_head": (None, 1),
}
SEARCH = {"beam-size": 4, "normalize": 0.6, "mini-batch": 16}
"""Of decoder.yml. `normalize` is an exponent of the length."""
NORMS = {("", "an", ""): "post", ("n", "a", "n"): "pre"}
"""The operations before and after each sub-layer, and after the last layer: `n` is a norm, `a` a sum."""
END_NAMES, UNKNOWN_NAMES = ("</s>", "eos"), ("<unk>", "UNK")  # the second ones are those of Nematus
DECODER_LAYER = re.compile(r"decoder_l(\d+)_(.*)")
TABLES = (".yml", ".yaml", ".json")
SUBWORDS = ("source.spm", "target.spm")
CODES = ("bpecodes", "code", "codes", "bpe.codes")
ON_ONE_CORE = ("--cpu-threads", "1", "--workspace", "512", "--quiet", "--mini-batch", "1")
PROGRAM = "import sys, _pymarian; sys.exit(_pymarian.main(sys.argv[1:]))"
ADVICE = "name its files in decoder.yml (models: [model.npz], vocabs: [SOURCE, TARGET])"


@dataclass(frozen=True)
class Side:
    """The vocabulary of the source or the target, in Marian's order of ids."""

    file: Path
    pieces: list[str]
    unknown: int
    end: int
    pad: int | None = None
    start: int | None = None
    """PAD and START, if the SentencePiece model has them."""
    subwords: Path | None = None
    """A SentencePiece model that cuts text into `pieces`, if the vocabulary is a table."""
    codes: str | None = None
    """Byte-pair merges of subword-nmt that do so."""

    def vocabulary(self, has_start: bool) -> Vocabulary:
        """Our order of ids; the row after the last one is the zeros of PAD and START."""
        pad = len(self.pieces) if self.pad is None else self.pad
        start = self.start if has_start and self.start is not None else len(self.pieces)
        zeros = [] if max(pad, start) < len(self.pieces) else [self.zeros_name()]
        vocabulary = Vocabulary.from_foreign([*self.pieces, *zeros], pad, self.unknown, start, self.end)
        return vocabulary if self.subwords is None else vocabulary.with_sentencepiece(self.subwords)

    def zeros_name(self) -> str:
        """A name for the row of zeros, which no piece has."""
        return next(name for name in ("<pad>", "<dragoman:pad>") if name not in self.pieces)

    def tokenizer(self, vocabulary: Vocabulary) -> Tokenizer:
        """The tokenizer with our order of ids. Raises `DragomanError` if its files are damaged."""
        if self.file.suffix == ".spm":
            return sentencepiece_tokenizer(self.file, vocabulary.pieces)
        if self.subwords is not None:
            return sentencepiece_tokenizer(self.subwords, vocabulary.pieces)
        if self.codes is None:
            refuse_subword_pieces(f"{self.file}: the vocabulary", self.pieces)
        return word_tokenizer(vocabulary.pieces, self.codes)

    def encode(self, text: str) -> list[int]:
        """Marian's ids of a text, without that of END."""
        if self.file.suffix == ".spm":
            ids: list[int] = processor_of(self.file).encode(text)
            return ids
        known = {piece: number for number, piece in enumerate(self.pieces)}
        return [known.get(piece, self.unknown) for piece in self.cut(text)]

    def cut(self, text: str) -> list[str]:
        """The pieces of a text that a table numbers."""
        if self.subwords is not None:
            pieces: list[str] = processor_of(self.subwords).encode_as_pieces(text)
            return pieces
        if self.codes is not None:
            return make_segmenter(self.codes, self.pieces)(text).split(" ")
        return text.split(" ")

    def decode(self, ids: Sequence[int]) -> str:
        """The text of Marian's ids."""
        if self.file.suffix == ".spm":
            return str(processor_of(self.file).decode(list(ids)))
        pieces = [self.pieces[row] if row != self.unknown else UNKNOWN_TEXT for row in ids]
        if self.subwords is not None:
            return str(processor_of(self.subwords).decode_pieces(pieces))
        return " ".join(pieces).replace("@@ ", "") if self.codes is not None else " ".join(pieces)


def processor_of(path: Path) -> sentencepiece.SentencePieceProcessor:
    """SentencePiece with the model in a file, which has been read before."""
    return sentencepiece.SentencePieceProcessor(model_file=str(path))


def read(path: Path) -> Imported:
    """Read a model, or the only one of a folder, with the vocabularies beside it.

    Raises `DragomanError`, naming the file, if a file is damaged or Dragoman cannot hold the model.
    """
    path, files = files_of(path)
    arrays = read_arrays(path)
    options = options_of(arrays.pop(OPTIONS, None), path)
    settings = settings_of(options, path)
    arrays = untie_layers(arrays, options["transformer-tied-layers"])
    tensors = Tensors(
        {name: torch.tensor(np.ascontiguousarray(array)) for name, array in arrays.items()}, path
    )
    imported = import_tensors(settings, tensors)
    names, embeddings = take_embeddings(tensors, options, settings.d_model)
    sides = [
        read_side(file, name, len(embedding))
        for file, name, embedding in zip(files, SUBWORDS, embeddings, strict=False)
    ]
    for side, name, embedding in zip(sides, names, embeddings, strict=False):
        check_size(side.file, side.pieces, path, name, len(embedding))
    rows = len(embeddings[2])
    bias = torch.zeros(rows)
    if not options["output-omit-bias"]:
        bias = tensors.take("decoder_ff_logit_out_b", (1, rows), FORBIDDEN_BIAS)[0]
    tensors.refuse_unused()
    vocabularies = vocabularies_of(sides, embeddings[1])
    zeros = torch.zeros(1, settings.d_model)
    source, target, output = (torch.cat([embedding, zeros]) for embedding in embeddings)
    bias = torch.cat([bias, torch.tensor([FORBIDDEN_BIAS])])
    model = build_model(settings, imported, (source, target, output), bias, vocabularies, path)
    tokenizers = Tokenizers.of(
        *(side.tokenizer(vocabulary) for side, vocabulary in zip(sides, vocabularies, strict=True))
    )
    return Imported(model, tokenizers, vocabularies)


def vocabularies_of(sides: Sequence[Side], target_embedding: Tensor) -> tuple[Vocabulary, Vocabulary]:
    """Our order of ids for both sides.

    A start of the SentencePiece model is START if its row is zeros, with which Marian's decoder begins.
    """
    source, target = sides
    has_start = target.start is not None and not target_embedding[target.start].any()
    return source.vocabulary(has_start or source.pieces != target.pieces), target.vocabulary(has_start)


# ---- files


def files_of(path: Path) -> tuple[Path, tuple[Path, Path]]:
    """The model and its vocabularies, of the source and the target.

    Raises `DragomanError` if they are missing or ambiguous.
    """
    folder = path if path.is_dir() else path.parent
    candidates = sorted(
        file
        for file in (*folder.glob("*.npz"), *folder.glob("*.bin"))
        if not file.name.endswith(".optimizer.npz") and not file.name.startswith("lex")
    )
    config = read_config(folder / "decoder.yml")
    if path.is_dir():
        named = [file for file in candidates if file.name in names_in(config, "models")]
        path = only_checkpoint(folder, named or candidates, ADVICE)
    for name in (f"{path.name}.decoder.yml", f"{path.name}.yml"):
        config = config or read_config(folder / name)
    names = names_in(config, "vocabs")
    files = [folder / name for name in names if (folder / name).is_file()]
    if not names:
        files = sorted(folder.glob("*.spm")) or [
            file for suffix in TABLES for file in sorted(folder.glob(f"*vocab*{suffix}"))
        ]
        files = files * 2 if len(files) == 1 else files if are_named(files) else []
    if len(files) != 2:
        raise DragomanError(f"{folder} has not the vocabularies of the model; {ADVICE}.")
    if others := [file.name for file in files if file.suffix not in (".spm", *TABLES)]:
        raise DragomanError(
            f"{folder}: the vocabulary {others[0]} is neither SentencePiece's (.spm) nor a table "
            "(.yml, .json); Dragoman does not read factors."
        )
    return path, (files[0], files[1])


def are_named(files: Sequence[Path]) -> bool:
    """Whether the names of these files say that they are of the source and of the target."""
    prefixes = (("source", "src"), ("target", "trg", "tgt"))
    return len(files) == 2 and all(map(lambda file, names: file.name.startswith(names), files, prefixes))


def read_config(path: Path) -> dict[str, Any]:
    """The settings in a file; none if it is missing. Raises `DragomanError` if they are no table."""
    config = read_yaml(path) if path.is_file() else {}
    if not isinstance(config, dict):
        raise DragomanError(f"{path} holds no settings of Marian.")
    return config


def names_in(config: Mapping[str, Any], key: str) -> list[str]:
    """Names of files in the settings, without their folders."""
    paths = config.get(key)
    return [Path(path).name for path in paths if isinstance(path, str)] if isinstance(paths, list) else []


def options_of(content: Any, path: Path) -> dict[str, Any]:
    """The options in the model's file. Raises `DragomanError` if there are none."""
    if content is None:
        raise DragomanError(f"{path} has no {OPTIONS}; Dragoman reads models with their options.")
    text = content.tobytes()[: MAX_YAML + 1].rstrip(b"\0")
    if len(text) > MAX_YAML:
        raise DragomanError(f"{path}: {OPTIONS} has more than {MAX_YAML:,} bytes.")
    options = parse_yaml(text.decode(), f"{path}: {OPTIONS}")
    if not isinstance(options, dict):
        raise DragomanError(f"{path}: {OPTIONS} holds no options of Marian.")
    return DEFAULTS | options


# ---- options


def settings_of(options: Mapping[str, Any], origin: Path) -> ModelSettings:
    """The model's settings. Raises `DragomanError` for options that Dragoman does not have."""
    check_options(origin, options, REQUIRED)
    if any(kind != "sequence" for kind in options.get("input-types") or []):
        raise DragomanError(
            f"{origin}: input-types is {shown(options['input-types'])}; Dragoman reads sequences alone."
        )
    if options["transformer-decoder-ffn-depth"] not in (0, 2):
        raise DragomanError(
            f"{origin}: transformer-decoder-ffn-depth is {shown(options['transformer-decoder-ffn-depth'])}; "
            "Dragoman supports only 2."
        )
    for name in ("dim-emb", "enc-depth", "dec-depth", "transformer-heads", "transformer-dim-ffn"):
        if type(options.get(name)) is not int:
            raise DragomanError(f"{origin}: {name} is {shown(options.get(name))}; it has to be a number.")
    if options["dim-emb"] % 2:
        raise DragomanError(f"{origin}: dim-emb is {options['dim-emb']}; Dragoman supports even ones alone.")
    mixer = map_option(origin, options, "transformer-decoder-autoreg", MIXERS)
    if mixer == "ssru":
        check_options(origin, options, REQUIRED_OF_RECURRENCE)
    width, decoder_width = options["transformer-dim-ffn"], options["transformer-decoder-dim-ffn"] or None
    is_last = options.get("transformer-guided-alignment-layer") in ("last", options["dec-depth"])
    with settings_in(origin):
        return ModelSettings(
            d_model=options["dim-emb"],
            d_ff=width,
            decoder_d_ff=None if decoder_width == width else decoder_width,
            heads=options["transformer-heads"],
            encoder_layers=options["enc-depth"],
            decoder_layers=options["dec-depth"],
            positions="sinusoidal-tensor2tensor",
            decoder_mixer=mixer,
            norm=norm_of(options, origin),
            norm_epsilon=1e-6,
            activation=map_option(origin, options, "transformer-ffn-activation", ACTIVATIONS),
            attention_bias=True,
            alignment_head=1 if is_last else None,
        )


def norm_of(options: Mapping[str, Any], origin: Path) -> Any:
    """Post-norm or pre-norm. Raises `DragomanError` for other operations than those of `NORMS`."""
    names = ("transformer-preprocess", "transformer-postprocess", "transformer-postprocess-top")
    embedded = str(options["transformer-postprocess-emb"])
    if embedded.replace("d", ""):
        raise DragomanError(
            f"{origin}: transformer-postprocess-emb is {embedded!r}; Dragoman has dropout ('d') alone there."
        )
    before, after, top = operations = [str(options[name]) for name in names]
    norm = NORMS.get((before.replace("d", ""), after.replace("d", ""), top.replace("d", "")))
    if norm is None:
        listed = ", ".join(f"{name} {shown(value)}" for name, value in zip(names, operations, strict=True))
        raise DragomanError(
            f"{origin} has {listed}; Dragoman has post-norm ('', 'dan', '') and pre-norm ('n', 'da', 'n')."
        )
    return norm


# ---- tensors


def tensor_names(settings: ModelSettings) -> dict[str, list[str]]:
    """For each of our tensors, those of Marian whose rows, concatenated, are its rows."""
    names: dict[str, list[str]] = {}
    is_pre = settings.norm == "pre"
    for side, depth in (("encoder", settings.encoder_layers), ("decoder", settings.decoder_layers)):
        for number in range(depth):
            layer, foreign = f"{side}.{number}", f"{side}_l{number + 1}"
            if side == "decoder":
                names |= attention_names(f"{layer}.cross_attention", f"{foreign}_context", is_pre)
            if side == "decoder" and settings.decoder_mixer == "ssru":
                names |= recurrence_names(f"{layer}.self_attention", f"{foreign}_rnn", is_pre)
            else:
                names |= attention_names(f"{layer}.self_attention", f"{foreign}_self", is_pre)
            for name, part in (("inner", 1), ("outer", 2)):
                names[f"{layer}.feed_forward.{name}.weight"] = [f"{foreign}_ffn_W{part}"]
                names[f"{layer}.feed_forward.{name}.bias"] = [f"{foreign}_ffn_b{part}"]
            names |= norm_names(f"{layer}.feed_forward_residual.norm", f"{foreign}_ffn_ffn", is_pre)
        if is_pre:
            names |= norm_names(f"{side}_norm", f"{side}_top", is_before=False)
    return names


def attention_names(name: str, foreign: str, is_pre: bool) -> dict[str, list[str]]:
    """The names of an attention and of its norm."""
    names = norm_names(f"{name}_residual.norm", f"{foreign}_Wo", is_pre)
    for kind, letter in (("weight", "W"), ("bias", "b")):
        names[f"{name}.query_key_value.{kind}"] = [f"{foreign}_{letter}{part}" for part in "qkv"]
        names[f"{name}.output.{kind}"] = [f"{foreign}_{letter}o"]
    return names


def recurrence_names(name: str, foreign: str, is_pre: bool) -> dict[str, list[str]]:
    """The names of a simpler simple recurrent unit and of its norm."""
    names = norm_names(f"{name}_residual.norm", foreign if is_pre else f"{foreign}_ffn", is_pre)
    names[f"{name}.candidate.weight"] = [f"{foreign}_W"]
    names |= {
        f"{name}.forget.{kind}": [f"{foreign}_{letter}f"] for kind, letter in (("weight", "W"), ("bias", "b"))
    }
    return names


def norm_names(name: str, foreign: str, is_before: bool) -> dict[str, list[str]]:
    """The names of a layer norm, before a sub-layer or after it."""
    suffix = "_pre" if is_before else ""
    return {
        f"{name}.weight": [f"{foreign}_ln_scale{suffix}"],
        f"{name}.bias": [f"{foreign}_ln_bias{suffix}"],
    }


def untie_layers(arrays: dict[str, Array], tied: Sequence[int]) -> dict[str, Array]:
    """The arrays with a copy of its weights for each decoder layer, given the layer whose weights it has."""
    if not tied:
        return arrays
    layers: dict[str, dict[str, Array]] = {}
    for name in list(arrays):
        if match := DECODER_LAYER.fullmatch(name):
            layers.setdefault(match[1], {})[match[2]] = arrays.pop(name)
    copies = {
        f"decoder_l{number}_{rest}": array
        for number, layer in enumerate(tied, 1)
        for rest, array in layers.get(str(layer), {}).items()
    }
    return arrays | copies


def import_tensors(settings: ModelSettings, tensors: Tensors) -> dict[str, Tensor]:
    """Take the layers, as tensors of our names and of the shapes that the settings give.

    Marian's matrices are transposed, and its vectors have one row. Raises `DragomanError` as `Tensors.take`.
    """
    with settings_in(tensors.origin):
        shapes = weight_shapes(replace(settings, tied="all"), START, START)
    imported = {}
    for name, parts in tensor_names(settings).items():
        rows, *columns = shapes[name]
        shape = (*(columns or [1]), rows // len(parts))
        joined = torch.cat([tensors.take(part, shape) for part in parts], -1)
        imported[name] = joined.T.contiguous() if columns else joined[0]
    return imported


def take_embeddings(
    tensors: Tensors, options: Mapping[str, Any], d_model: int
) -> tuple[list[str], list[Tensor]]:
    """Names and embeddings [V D] of the source, the target and the output, as Marian shares them."""
    is_shared = options["tied-embeddings-src"] or options["tied-embeddings-all"]
    names = ["Wemb", "Wemb"] if is_shared else ["encoder_Wemb", "decoder_Wemb"]
    if options["tied-embeddings"] or options["tied-embeddings-all"]:
        names.append(names[1])
    else:
        names.append("decoder_ff_logit_out_Wt")
    embeddings = {name: tensors.take(name, (tensors.rows(name), d_model)) for name in dict.fromkeys(names)}
    return names, [embeddings[name] for name in names]


# ---- vocabularies


def read_side(file: Path, subwords: str, rows: int) -> Side:
    """The vocabulary in a file, for an embedding of so many rows.

    `subwords` is the name of the SentencePiece model beside a table of its pieces, which may be missing.

    Raises `DragomanError` if the file is damaged, or lacks the end or the unknown token.
    """
    if file.suffix == ".spm":
        pieces = [piece.piece for piece in load_sentencepiece(file).pieces]
        processor = processor_of(file)
        end, unknown = processor.eos_id(), processor.unk_id()
        pad, start = (None if number < 0 else number for number in (processor.pad_id(), processor.bos_id()))
        if end < 0:
            raise DragomanError(f"{file} has no token that ends a sentence.")
        return Side(file, pieces, unknown, end, pad, start)
    table = read_json(file, MAX_TOKENS_FILE) if file.suffix == ".json" else table_of(file)
    if not isinstance(table, dict):
        raise DragomanError(f"{file} is no table of tokens and their numbers.")
    ids = {piece: number for piece, number in table.items() if type(number) is not int or number < rows}
    pieces = pieces_by_id(file, ids)
    end, unknown = (special_id(file, ids, names) for names in (END_NAMES, UNKNOWN_NAMES))
    model = file.parent / subwords
    if model.is_file():
        return Side(file, pieces, unknown, end, subwords=model)
    return Side(file, pieces, unknown, end, codes=codes_of(file.parent))


def table_of(file: Path) -> dict[str, Any]:
    """The tokens of a table in YAML, with their numbers."""
    return {
        piece: int(number) if re.fullmatch(r"[0-9]{1,9}", number) else number
        for piece, number in read_yaml_table(file, MAX_TOKENS_FILE).items()
    }


def special_id(file: Path, ids: Mapping[str, int], names: Sequence[str]) -> int:
    """The id of a special token. Raises `DragomanError` if the vocabulary lacks it."""
    for name in names:
        if name in ids:
            return ids[name]
    raise DragomanError(f"{file} lacks {names[0]}.")


def codes_of(folder: Path) -> str | None:
    """The byte-pair merges beside the model, if there are any."""
    file = next((folder / name for name in CODES if (folder / name).is_file()), None)
    return None if file is None else read_codes(file)


# ---- export


def write(model: Transformer, tokenizers: Tokenizers, folder: Path) -> None:
    """Write a folder for `marian-decoder --config decoder.yml`. Raises `DragomanError` if Marian differs."""
    settings = model.settings
    # After the first token, Marian's search leaves out the norm before keys and values (docs/interop.md).
    norms = ("post", "pre") if settings.decoder_mixer == "ssru" else ("post",)
    check_exportable("Marian", settings, tokenizers, {**ALLOWED, "norm": norms})
    tensors, arrays = with_start_of_zeros(model), {}
    for name, parts in tensor_names(settings).items():
        tensor = tensors.get(name)
        if tensor is None:  # a bias that the model does not have
            tensor = torch.zeros(len(tensors[name.replace(".bias", ".weight")]))
        for part, rows in zip(parts, tensor.chunk(len(parts)), strict=True):
            arrays[part] = (rows.T if rows.ndim == 2 else rows[None]).numpy()
    for name, place in embedding_names(settings.tied).items():
        arrays[name] = tensors[place].numpy()
    if settings.output_bias:
        arrays["decoder_ff_logit_out_b"] = tensors["output_bias"][None].numpy()
    sizes = [len(tokenizers.source), len(tokenizers.target)]
    text = json.dumps(options_for(settings, sizes), indent=1).encode()
    padded = text.ljust(256 * (len(text) // 256 + 1), b"\0")
    write_npz(folder / "model.npz", arrays | {OPTIONS: np.frombuffer(padded, np.int8)})
    sides = {"source": tokenizers.source, "target": tokenizers.target}
    names = ["vocab.spm"] * 2 if tokenizers.source is tokenizers.target else [f"{side}.spm" for side in sides]
    for name, tokenizer in zip(names, sides.values(), strict=True):
        (folder / name).write_bytes(tokenizer.model)
    config = {"relative-paths": True, "models": ["model.npz"], "vocabs": names} | SEARCH
    (folder / "decoder.yml").write_text(json.dumps(config, indent=1) + "\n", "utf-8")


def with_start_of_zeros(model: Transformer) -> dict[str, Tensor]:
    """The tensors of the same function with an embedding of zeros for START.

    START's embedding is taken from all embeddings, and given back by the biases of the first layers, which
    have no norm before them. The logits of an output that shares the embeddings all change by one number.
    Raises `DragomanError` for a decoder without such biases.
    """
    tensors, settings = weights(model), model.settings
    start = tensors["target_embedding.weight"][START]
    if not start.any():
        return tensors
    if settings.decoder_mixer == "ssru":
        raise DragomanError(
            "Marian cannot hold this model: its decoder begins with an embedding of zeros, and this model's "
            "with one that it has learned, which a decoder with a recurrence cannot give back by biases."
        )
    tensors["target_embedding.weight"] = tensors["target_embedding.weight"] - start
    shift = math.sqrt(settings.d_model) * start.double()
    for side in ("encoder", "decoder") if settings.tied == "all" else ("decoder",):
        name = f"{side}.0.self_attention"
        projected = tensors[f"{name}.query_key_value.weight"].double() @ shift
        for part, change in (("query_key_value", projected), ("output", shift)):
            bias = tensors.get(f"{name}.{part}.bias", torch.zeros(len(change)))
            tensors[f"{name}.{part}.bias"] = (bias + change).float()
    return tensors


def embedding_names(tied: str) -> dict[str, str]:
    """Marian's names of the embeddings and the output, each with ours."""
    if tied == "all":
        return {"Wemb": "target_embedding.weight"}
    names = {"encoder_Wemb": "source_embedding.weight", "decoder_Wemb": "target_embedding.weight"}
    return names if tied == "target" else {**names, "decoder_ff_logit_out_Wt": "output.weight"}


def options_for(settings: ModelSettings, sizes: Sequence[int]) -> dict[str, Any]:
    """Our settings as Marian's options."""
    operations = next(operations for operations, norm in NORMS.items() if norm == settings.norm)
    before, after, top = operations
    guided = {} if settings.alignment_head is None else {"transformer-guided-alignment-layer": "last"}
    return {
        "type": "transformer",
        "dim-vocabs": sizes,
        "dim-emb": settings.d_model,
        "enc-depth": settings.encoder_layers,
        "dec-depth": settings.decoder_layers,
        "tied-embeddings": settings.tied == "target",
        "tied-embeddings-src": False,
        "tied-embeddings-all": settings.tied == "all",
        "output-omit-bias": not settings.output_bias,
        "transformer-heads": settings.heads,
        "transformer-dim-ffn": settings.d_ff,
        "transformer-decoder-dim-ffn": settings.decoder_d_ff or settings.d_ff,
        "transformer-ffn-depth": 2,
        "transformer-ffn-activation": settings.activation,
        "transformer-decoder-autoreg": "rnn" if settings.decoder_mixer == "ssru" else "self-attention",
        "dec-cell": "ssru" if settings.decoder_mixer == "ssru" else "gru",
        "transformer-preprocess": before,
        "transformer-postprocess": f"d{after}",
        "transformer-postprocess-emb": "d",
        "transformer-postprocess-top": top,
        **guided,
    }


# ---- Marian itself


def engine(path: Path, vocabularies: tuple[Vocabulary, Vocabulary]) -> ReferenceEngine:
    """Marian with the model that `read` has read from this path, given its vocabularies.

    Of a binary file it gets the weights as `read` reads them: it would round activations, too. Each question
    is a process of its own, because Marian ends its process where it does not like a file. Raises
    `DragomanError` if it cannot answer.
    """
    path, files = files_of(path)
    arrays = read_arrays(path)
    options = options_of(arrays.get(OPTIONS), path)
    sizes = options["dim-vocabs"]
    sides = [read_side(file, name, rows) for file, name, rows in zip(files, SUBWORDS, sizes, strict=True)]
    source_ids, target_ids = (
        {row: token for token, row in reversed(list(enumerate(vocabulary.rows)))}
        for vocabulary in vocabularies
    )

    def ask(command: str, *arguments: str, texts: Sequence[Sequence[int]]) -> str:
        with TemporaryDirectory() as folder:
            model, names = path, []
            if path.suffix == ".bin":
                model = Path(folder) / "model.npz"
                write_npz(model, arrays)
            for number, (side, rows) in enumerate(zip(sides, sizes, strict=True)):
                table = {str(row): row for row in range(rows) if row not in (side.end, side.unknown)}
                names.append(Path(folder) / f"{number}.json")
                names[-1].write_text(json.dumps({"</s>": side.end, "<unk>": side.unknown} | table))
            inputs = []
            for number, (side, rows) in enumerate(zip(sides, texts, strict=False)):
                words = ["<unk>" if row == side.unknown else str(row) for row in rows]
                inputs.append(Path(folder) / f"{number}.txt")
                inputs[-1].write_text(" ".join(words) + "\n")
            options = ["-m", str(model), "-v", *map(str, names), *ON_ONE_CORE, *arguments, *map(str, inputs)]
            process = subprocess.run(  # noqa: S603  no text of a user is a command
                [sys.executable, "-c", PROGRAM, command, *options],
                check=False,
                capture_output=True,
                text=True,
            )
        if process.returncode:
            lines = [line for line in process.stderr.splitlines() if "Error" in line] or [
                str(process.returncode)
            ]
            raise DragomanError(f"Marian cannot read {path}: {lines[0]}")
        return process.stdout

    def log_probs(source: list[int], target: list[int]) -> Tensor:
        rows = [vocabularies[0].rows[token] for token in source[:-1]]
        target_rows = [vocabularies[1].rows[token] for token in target[:-1]]
        answer = ask("score", "--word-scores", "-t", texts=[rows, target_rows])
        return torch.tensor([float(score) for score in answer.split("WordScores=")[1].split()])

    def greedy(source: list[int], max_length: int) -> list[int]:
        rows = [vocabularies[0].rows[token] for token in source[:-1]]
        factor = (max_length + 1) / len(source)
        limits = ["--max-length-factor", str(factor), "--beam-size", "1", "--allow-unk"]
        words = ask("decode", *limits, "-i", texts=[rows]).split()
        unknown = sides[1].unknown
        return [target_ids[unknown if word == "<unk>" else int(word)] for word in words][:max_length]

    return ReferenceEngine(
        name="Marian",
        encode=lambda text: [source_ids[row] for row in [*sides[0].encode(text), sides[0].end]],
        log_probs=log_probs,
        greedy=greedy,
        decode=lambda ids: sides[1].decode([vocabularies[1].rows[token] for token in ids]),
        first_ids=[source_ids[row] for row in vocabularies[0].rows],
        searches=options["transformer-preprocess"] == "" or options["transformer-decoder-autoreg"] == "rnn",
    )
