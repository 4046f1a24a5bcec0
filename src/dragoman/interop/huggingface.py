"""Hugging Face's MarianMTModel, both ways (extra: dragoman[huggingface].

To read its folder dragoman[import] is enough).

Its positions are the paper's sinusoids with all sines before all cosines: our features in another order, and
nothing else.
"""

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.interop.pickles import load_pickle
from dragoman.interop.verify import Engine
from dragoman.interop.vocabulary import (
    Vocabulary,
    ids_of,
    marian_name,
    refuse_other_size,
    sentencepiece_in_order,
)
from dragoman.interop.weights import (
    Imported,
    Tensors,
    export_layers,
    import_layers,
    layers,
    model_of,
    refuse_to_hold,
)
from dragoman.model.positions import sinusoids
from dragoman.model.settings import Activation, ModelSettings, PositionKind
from dragoman.model.symbols import END, PAD, START, UNKNOWN
from dragoman.model.transformer import Transformer
from dragoman.model.weights import load_tensors, load_weights, save_tensors, weights
from dragoman.system.errors import DragomanError
from dragoman.translation.model_folder import Tokenizers

ENCODER = {
    "self_attention.query_key_value": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "self_attention.output": ["self_attn.out_proj"],
    "self_attention_residual.norm": ["self_attn_layer_norm"],
    "feed_forward.inner": ["fc1"],
    "feed_forward.outer": ["fc2"],
    "feed_forward_residual.norm": ["final_layer_norm"],
}
DECODER = {
    **ENCODER,
    "cross_attention.query_key_value": ["encoder_attn.q_proj", "encoder_attn.k_proj", "encoder_attn.v_proj"],
    "cross_attention.output": ["encoder_attn.out_proj"],
    "cross_attention_residual.norm": ["encoder_attn_layer_norm"],
}
ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
DEFAULTS: dict[str, Any] = {  # MarianConfig's, which a config.json may leave out
    "vocab_size": 58101,
    "d_model": 1024,
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_ffn_dim": 4096,
    "decoder_ffn_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
    "activation_function": "gelu",
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "scale_embedding": False,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
    "pad_token_id": 58100,
    "eos_token_id": 0,
    "decoder_start_token_id": 58100,
}
GENERATION = {"num_beams": 4, "max_length": 512, "bad_words_ids": [[PAD], [START]]}
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
SIDES = (("source", "vocab.json"), ("target", "target_vocab.json"))
POSITIONS = 1024  # rows of Marian's table of sinusoids: the longest text there
HALVES: PositionKind = "sinusoidal-halves"


def read(folder: Path) -> Imported:
    """The model in a folder of `save_pretrained`.

    Raises `DragomanError`, naming the file, for what is damaged or of another kind.
    """
    config = configuration(folder / "config.json")
    settings = settings_of(config, folder / "config.json")
    path = next((path for path in (folder / name for name in WEIGHTS) if path.exists()), None)
    if path is None:
        raise DragomanError(f"{folder} has no weights: neither {' nor '.join(WEIGHTS)} is there.")
    tensors = Tensors(load_tensors(path) if path.suffix == ".safetensors" else load_pickle(path), path)
    check_positions(tensors, settings.d_model)
    imported = import_layers(settings, names(settings), tensors)
    found, tables = vocabularies(folder, config), embeddings(tensors, config)
    for (file, pieces, _), (name, table) in zip(found, tables, strict=False):
        refuse_other_size(file, pieces, path, name, len(table))
    bias = (
        tensors.take("final_logits_bias", (1, len(tables[2][1])))[0]
        if "final_logits_bias" in tensors
        else None
    )
    tensors.refuse_rest()
    of_source, of_target = (vocabulary for _, _, vocabulary in found)
    model = model_of(
        settings, imported, (tables[0][1], tables[1][1], tables[2][1]), bias, (of_source, of_target), path
    )
    if config.get("dragoman_positions") != HALVES:
        model = with_features(model, torch.argsort(halves_order(settings.d_model)), "sinusoidal")
    source = sentencepiece_in_order(folder / "source.spm", of_source.pieces)
    tokenizers = Tokenizers.of(source, sentencepiece_in_order(folder / "target.spm", of_target.pieces))
    return Imported(model, tokenizers, (of_source, of_target))


def configuration(path: Path) -> dict[str, Any]:
    """A config.json with what it leaves open, and one END.

    Raises `DragomanError` for a value of another kind.
    """
    found = {name: value for name, value in read_json(path).items() if value is not None}
    if isinstance(ends := found.get("eos_token_id"), list) and ends:
        found["eos_token_id"] = ends[0]
    for name, usual in DEFAULTS.items():
        kinds = (int, float) if isinstance(usual, float) else type(usual)
        if name in found and (
            not isinstance(found[name], kinds) or isinstance(found[name], bool) != isinstance(usual, bool)
        ):
            raise DragomanError(f"{path}: {name} is {found[name]!r}; a value like {usual!r} was expected.")
    return DEFAULTS | found


def settings_of(config: Mapping[str, Any], origin: Path) -> ModelSettings:
    """Raises `DragomanError` for a configuration that we cannot hold."""
    if config.get("model_type") != "marian":
        raise DragomanError(
            f"{origin}: model_type is {config.get('model_type')!r}; Dragoman reads 'marian' models."
        )
    for name in ("ffn_dim", "attention_heads"):
        one, other = config[f"encoder_{name}"], config[f"decoder_{name}"]
        if one != other:
            raise DragomanError(
                f"{origin}: encoder_{name} is {one} and decoder_{name} {other}; in Dragoman they are the "
                "same."
            )
    if (activation := config["activation_function"]) not in ACTIVATIONS:
        raise DragomanError(
            f"{origin}: activation_function is {activation!r}; Dragoman has {', '.join(ACTIVATIONS)}."
        )
    return ModelSettings(
        d_model=config["d_model"],
        d_ff=config["encoder_ffn_dim"],
        heads=config["encoder_attention_heads"],
        encoder_layers=config["encoder_layers"],
        decoder_layers=config["decoder_layers"],
        dropout=config["dropout"],
        attention_dropout=config["attention_dropout"],
        positions=HALVES,
        activation=ACTIVATIONS[activation],
        attention_bias=True,
        scale_embeddings=config["scale_embedding"],
    )


def names(settings: ModelSettings) -> dict[str, list[str]]:
    """Our layers and Marian's."""
    encoder = layers("encoder", "model.encoder.layers", settings.encoder_layers, ENCODER)
    return encoder | layers("decoder", "model.decoder.layers", settings.decoder_layers, DECODER)


def embeddings(tensors: Tensors, config: Mapping[str, Any]) -> list[tuple[str, Tensor]]:
    """The names and tables of the source's and the target's embeddings and of the logits: the one that
    transformers would take.
    """
    everywhere = "model.shared.weight"
    places = [
        ["model.encoder.embed_tokens.weight", everywhere],
        ["model.decoder.embed_tokens.weight", everywhere],
    ]
    if config["share_encoder_decoder_embeddings"]:
        places = [[everywhere, *places[0], "lm_head.weight"]] * 2
    places.append(places[1] if config["tie_word_embeddings"] else ["lm_head.weight"])
    sizes = [config["vocab_size"], *[config.get("decoder_vocab_size") or config["vocab_size"]] * 2]
    chosen = [next((name for name in place if name in tensors), place[0]) for place in places]
    tables = {
        name: tensors.take(name, (size, config["d_model"]))
        for name, size in dict(zip(chosen, sizes, strict=True)).items()
    }
    other_names = [
        everywhere,
        *(f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")),
        "lm_head.weight",
    ]
    tensors.leave(other_names)  # pickles have tied weights under all of them
    return [(name, tables[name]) for name in chosen]


def vocabularies(folder: Path, config: Mapping[str, Any]) -> list[tuple[Path, list[str], Vocabulary]]:
    """The source's and the target's file, tokens in its order, and tokens in ours."""
    of_source, of_target = folder / "vocab.json", folder / "target_vocab.json"
    special = {
        "pad": config["pad_token_id"],
        "start": config["decoder_start_token_id"],
        "end": config["eos_token_id"],
    }
    if config["share_encoder_decoder_embeddings"] or not of_target.exists():
        file, pieces, shared = vocabulary_of(of_source, special)
        return [(file, pieces, shared.with_unknowns(folder / "source.spm", folder / "target.spm"))] * 2
    own = read_json(of_source)
    if lacking := [piece for piece in ("<pad>", "</s>") if piece not in own]:
        raise DragomanError(f"{of_source} lacks {', '.join(lacking)}.")
    of_its_own = {
        "pad": own["<pad>"],
        "start": own.get("<s>", own["<pad>"]),
        "end": own["</s>"],
    }  # none reads a start
    sides = (vocabulary_of(of_source, of_its_own), vocabulary_of(of_target, special))
    return [
        (file, pieces, side.with_unknowns(folder / f"{name}.spm"))
        for (file, pieces, side), (name, _) in zip(sides, SIDES, strict=True)
    ]


def vocabulary_of(path: Path, special: Mapping[str, int]) -> tuple[Path, list[str], Vocabulary]:
    """Raises `DragomanError` if the file lacks a special token."""
    found = read_json(path)
    theirs = ids_of(path, found)
    if "<unk>" not in found or not all(0 <= number < len(theirs) for number in special.values()):
        raise DragomanError(
            f"{path} has {len(theirs)} tokens, and lacks '<unk>' or one of the ids that config.json names: "
            f"{dict(special)}."
        )
    return path, theirs, Vocabulary.in_our_order(theirs, unknown=found["<unk>"], **special)


def read_json(path: Path) -> dict[str, Any]:
    """Raises `DragomanError` with the file's name where there is no such file, or no object in it."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise DragomanError(f"{path} cannot be read: {error}.") from error
    if not isinstance(found, dict):
        raise DragomanError(f"{path} holds no JSON object.")
    return found


def check_positions(tensors: Tensors, d_model: int) -> None:
    """Old files hold the table of positions.

    Raises `DragomanError` if it is not the sinusoids that transformers makes now.
    """
    for side in ("encoder", "decoder"):
        if (name := f"model.{side}.embed_positions.weight") in tensors:
            rows = tensors.rows(name)
            if not torch.allclose(
                tensors.take(name, (rows, d_model)), sinusoids(rows, d_model, HALVES), atol=5e-3
            ):
                raise DragomanError(
                    f"{tensors.origin}: {name} is not the table of sinusoids that Marian has; Dragoman "
                    "cannot read it."
                )


def halves_order(d_model: int) -> Tensor:
    """For each of Marian's features, its place in the paper's order: sines from 0, 2, 4 and on, then cosines
    from 1, 3, 5 and on.
    """
    return torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])


ROWS = tuple(
    f"{module}.{kind}" for module in ("attention.output", "outer", "norm") for kind in ("weight", "bias")
)
COLUMNS = ("query_key_value.weight", "inner.weight", "embedding.weight", "output.weight")


def with_features(model: Transformer, order: Tensor, positions: PositionKind) -> Transformer:
    """The same function with its d_model features permuted: feature i was feature `order[i]`."""
    other = Transformer(
        replace(model.settings, positions=positions),
        model.source_embedding.num_embeddings,
        model.output.num_embeddings,
    )
    moved = weights(model)
    for name, weight in moved.items():
        if name.endswith(ROWS):
            moved[name] = weight[order]
        elif name.endswith(COLUMNS):
            moved[name] = weight[:, order]
    load_weights(other, moved, Path("the model"))
    return other.eval()


def write(model: Transformer, tokenizers: Tokenizers, folder: Path) -> None:
    """Fill a folder that `AutoModelForSeq2SeqLM` and `AutoTokenizer` load.

    Raises `DragomanError` if the format cannot hold the model.
    """
    settings = model.settings
    wanted = {
        "norm": ("post",),
        "norm_epsilon": (1e-5,),
        "positions": ("sinusoidal", HALVES),
        "first_position": (0,),
        "source_end": (True,),
    }
    refuse_to_hold("Hugging Face's Marian", settings, tokenizers, wanted)
    if settings.positions == "sinusoidal":
        model = with_features(model, halves_order(settings.d_model), HALVES)
    save_tensors(folder / "model.safetensors", export_layers(model, names(settings)) | tables(model))
    shared = settings.tied == "all"
    for (side, name), tokenizer in zip(SIDES, (tokenizers.source, tokenizers.target), strict=True):
        (folder / f"{side}.spm").write_bytes(tokenizer.model)
        if side == "source" or not shared:
            write_json(
                folder / name,
                {
                    marian_name(piece): number
                    for number, piece in enumerate(tokenizer.pieces(range(len(tokenizer))))
                },
            )
    special = {"pad_token_id": PAD, "eos_token_id": END, "decoder_start_token_id": START}
    write_json(folder / "config.json", config_of(settings, tokenizers) | special)
    write_json(folder / "generation_config.json", special | GENERATION)
    pieces = dict(
        zip(
            ("pad_token", "unk_token", "eos_token"),
            tokenizers.target.pieces([PAD, UNKNOWN, END]),
            strict=True,
        )
    )
    about = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": not shared,
        "model_max_length": POSITIONS,
    }
    write_json(folder / "tokenizer_config.json", about | pieces)


def tables(model: Transformer) -> dict[str, Tensor]:
    """Embeddings and logits in Marian's names, each table once."""
    if model.settings.tied == "all":
        found = {"model.shared.weight": model.source_embedding.weight}
    else:
        found = {
            "model.encoder.embed_tokens.weight": model.source_embedding.weight,
            "model.decoder.embed_tokens.weight": model.target_embedding.weight,
        }
    if model.settings.tied == "none":
        found["lm_head.weight"] = model.output.weight
    bias = torch.zeros(model.output.num_embeddings) if model.output_bias is None else model.output_bias
    return found | {"final_logits_bias": bias[None]}


def config_of(settings: ModelSettings, tokenizers: Tokenizers) -> dict[str, Any]:
    """MarianConfig's names for our settings."""
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "vocab_size": len(tokenizers.source),
        "decoder_vocab_size": len(tokenizers.target),
        "d_model": settings.d_model,
        "encoder_layers": settings.encoder_layers,
        "decoder_layers": settings.decoder_layers,
        "encoder_ffn_dim": settings.d_ff,
        "decoder_ffn_dim": settings.d_ff,
        "encoder_attention_heads": settings.heads,
        "decoder_attention_heads": settings.heads,
        "activation_function": settings.activation,
        "dropout": settings.dropout,
        "attention_dropout": settings.attention_dropout,
        "scale_embedding": settings.scale_embeddings,
        "share_encoder_decoder_embeddings": settings.tied == "all",
        "tie_word_embeddings": settings.tied != "none",
        "max_position_embeddings": POSITIONS,
        "static_position_embeddings": True,
        "is_encoder_decoder": True,
        "bos_token_id": None,
        "forced_eos_token_id": None,
        "dragoman_positions": settings.positions,
    }


def write_json(path: Path, content: object) -> None:
    """Write an object as JSON."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")


def engine(folder: Path, source_rows: Sequence[int], target_rows: Sequence[int]) -> Engine:
    """A folder's model and tokenizer in transformers, given its id for each of ours.

    Raises `DragomanError` if transformers is not installed or cannot load the folder.
    """
    try:
        from transformers import GenerationConfig, MarianMTModel, MarianTokenizer
        from transformers.utils import logging
    except ImportError as error:
        raise DragomanError("transformers is not installed; pip install 'dragoman[huggingface]'.") from error
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # it recommends sacremoses
            model = MarianMTModel.from_pretrained(folder, torch_dtype=torch.float32).eval()
            tokenizer = MarianTokenizer.from_pretrained(folder)
    except Exception as error:  # a damaged file makes transformers raise nearly anything
        raise DragomanError(f"transformers cannot load {folder}: {error}") from error
    source_ids, target_ids = (
        {row: token for token, row in reversed(list(enumerate(rows)))} for rows in (source_rows, target_rows)
    )
    pad, start, end = (target_rows[token] for token in (PAD, START, END))
    # The folder's own may ask for beam search or penalties.
    model.generation_config = GenerationConfig(
        pad_token_id=pad,
        decoder_start_token_id=start,
        eos_token_id=end,
        bad_words_ids=[[token] for token in sorted({pad, start} - {end})],
    )

    def batch(ids: list[int], rows: Sequence[int]) -> Tensor:
        return torch.tensor([[rows[token] for token in ids]])

    def log_probs(source: list[int], target: list[int]) -> Tensor:
        decoder_input = batch([START, *target[:-1]], target_rows)
        logits = model(input_ids=batch(source, source_rows), decoder_input_ids=decoder_input).logits[0]
        return logits.float().log_softmax(-1)[:, torch.tensor(target_rows)]

    def greedy(source: list[int], max_length: int) -> list[int]:
        generated = model.generate(batch(source, source_rows), max_new_tokens=max_length + 1)[0, 1:].tolist()
        ids = [target_ids[row] for row in generated]
        return ids[: ids.index(END)] if END in ids else ids[:max_length]

    def decode(ids: list[int]) -> str:
        return tokenizer.decode(
            [target_rows[token] for token in ids],
            skip_special_tokens=True,
            clean_up_tokenization_spaces=False,
        )

    return Engine(
        name="transformers",
        encode=lambda text: [source_ids[row] for row in tokenizer(text).input_ids],
        log_probs=log_probs,
        greedy=greedy,
        decode=decode,
        first_ids=[source_ids[row] for row in source_rows],
        longest=model.config.max_position_embeddings,
    )
