"""Import and export of Hugging Face's MarianMTModel (extra: dragoman[huggingface]).

An import needs dragoman[import] alone. Marian's positions are the paper's sinusoids with all sines before all
cosines: a permutation of the d_model features. Hugging Face's Pegasus is the same model with pre-norm and one
embedding for both sides: it holds such models, with Marian's tokenizer.
"""

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from dragoman.interop.pickles import load_pickle, refuse_pipe
from dragoman.interop.verify import ReferenceEngine
from dragoman.interop.vocabulary import (
    FORBIDDEN_BIAS,
    Vocabulary,
    check_size,
    marian_name,
    pieces_by_id,
    sentencepiece_tokenizer,
)
from dragoman.interop.weights import (
    Imported,
    Tensors,
    build_model,
    check_equal,
    check_exportable,
    check_sinusoids,
    export_layers,
    import_layers,
    languages_named,
    layer_names,
    map_option,
    settings_in,
)
from dragoman.model.settings import Activation, ModelSettings, PositionKind
from dragoman.model.symbols import END, PAD, START, UNKNOWN
from dragoman.model.transformer import Transformer
from dragoman.model.weights import load_tensors, load_weights, save_tensors, weights
from dragoman.system.errors import DragomanError, reason
from dragoman.system.readers import MAX_LIST, read_json
from dragoman.system.wording import shown
from dragoman.text.settings import Languages
from dragoman.text.tokenizer import Tokenizer
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
FINAL_NORMS = {"encoder_norm": ["model.encoder.layer_norm"], "decoder_norm": ["model.decoder.layer_norm"]}
"""Of a Pegasus."""
NORMS: dict[str, Literal["post", "pre"]] = {"marian": "post", "pegasus": "pre"}
"""By the model's type in config.json."""
ARCHITECTURES = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}
ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
MARIAN_DEFAULTS: dict[str, Any] = {
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
SPECIAL_OF_PEGASUS = {"vocab_size": 50265, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
DEFAULTS = {"marian": MARIAN_DEFAULTS, "pegasus": MARIAN_DEFAULTS | SPECIAL_OF_PEGASUS}
"""Those of MarianConfig and PegasusConfig, for keys that a config.json leaves out."""
GENERATION = {"num_beams": 4, "max_length": 512, "bad_words_ids": [[PAD], [START]]}
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
SIDES = (("source", "vocab.json"), ("target", "target_vocab.json"))
POSITIONS = 1024  # rows of Marian's table of sinusoids: tokens of the longest text
LONGEST = "dragoman_longest_source"  # as that of `StoredModel`
LANGUAGES = ("dragoman_source_language", "dragoman_target_language")  # likewise
HALVES: PositionKind = "sinusoidal-halves"


def read(folder: Path) -> Imported:
    """Read a folder of `save_pretrained`.

    Raises `DragomanError`, naming the file, if a file is damaged or Dragoman cannot hold the model.
    """
    config = configuration(folder / "config.json")
    refuse_other_generation(folder, config)
    settings = settings_of(config, folder / "config.json")
    path = next((path for path in (folder / name for name in WEIGHTS) if path.exists()), None)
    if path is None:
        raise DragomanError(f"{folder} has no weights: neither {' nor '.join(WEIGHTS)} is there.")
    refuse_pipe(path)
    tensors = Tensors(load_tensors(path) if path.suffix == ".safetensors" else load_pickle(path), path)
    stored = [f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")]
    check_sinusoids(tensors, stored, settings.d_model, HALVES)
    imported = import_layers(settings, name_map(settings), tensors)
    sides, embeddings = vocabularies(folder, config), take_embeddings(tensors, config)
    for (file, pieces, _), (name, embedding) in zip(sides, embeddings, strict=False):
        check_size(file, pieces, path, name, len(embedding))
    bias = (
        tensors.take("final_logits_bias", (1, len(embeddings[2][1])), FORBIDDEN_BIAS)[0]  # in half precision
        if "final_logits_bias" in tensors
        else None
    )
    tensors.refuse_unused()
    source_vocabulary, target_vocabulary = (vocabulary for _, _, vocabulary in sides)
    source, target, output = (embedding for _, embedding in embeddings)
    model = build_model(
        settings, imported, (source, target, output), bias, (source_vocabulary, target_vocabulary), path
    )
    if config.get("dragoman_positions") != HALVES:
        model = permute_features(model, torch.argsort(halves_order(settings.d_model)), "sinusoidal")
    tokenizers = Tokenizers.of(
        sentencepiece_tokenizer(folder / "source.spm", source_vocabulary.pieces),
        sentencepiece_tokenizer(folder / "target.spm", target_vocabulary.pieces),
    )
    longest = config.get(LONGEST)
    if longest is not None and (type(longest) is not int or not 1 <= longest < 2**31):
        raise DragomanError(
            f"{folder / 'config.json'}: {LONGEST} is {shown(longest)}, and must be a number of at least 1."
        )
    languages = languages_named(*map(config.get, LANGUAGES))
    return Imported(model, tokenizers, (source_vocabulary, target_vocabulary), longest, languages)


def refuse_other_generation(folder: Path, config: Mapping[str, Any]) -> None:
    """Raise `DragomanError` if transformers begins or ends translations by other tokens than config.json has.

    generation_config.json also has settings of the search, which a model does not depend on.
    """
    path = folder / "generation_config.json"
    generation = read_object(path) if path.exists() else {}
    for file, values in (("config.json", config), (path.name, generation)):
        if (token := values.get("forced_bos_token_id")) is not None:
            raise DragomanError(
                f"{folder / file}: forced_bos_token_id is {shown(token)}, and Dragoman forces no first token."
            )
    for name in ("decoder_start_token_id", "eos_token_id"):
        if (token := generation.get(name)) not in (None, config[name], [config[name]]):
            raise DragomanError(
                f"{path}: {name} is {shown(token)}, and {config[name]} in config.json; they have to be the "
                "same."
            )


def configuration(path: Path) -> dict[str, Any]:
    """Read config.json, with the defaults for keys that it lacks.

    Raises `DragomanError` for another type of model, a value of another type, and for several ends.
    """
    config = {name: value for name, value in read_object(path).items() if value is not None}
    if isinstance(ends := config.get("eos_token_id"), list) and ends:
        if len(ends) > 1:
            raise DragomanError(f"{path}: eos_token_id is {shown(ends)}; Dragoman has one token that ends.")
        config["eos_token_id"] = ends[0]
    model_type = config.get("model_type")
    if model_type not in NORMS:
        raise DragomanError(
            f"{path}: model_type is {shown(model_type)}; Dragoman reads 'marian' and 'pegasus' models."
        )
    for name, default in DEFAULTS[model_type].items():
        types = (int, float) if isinstance(default, float) else type(default)
        if name in config and (
            not isinstance(config[name], types) or isinstance(config[name], bool) != isinstance(default, bool)
        ):
            raise DragomanError(
                f"{path}: {name} is {shown(config[name])}; a value like {default!r} was expected."
            )
    return DEFAULTS[model_type] | config


def settings_of(config: Mapping[str, Any], origin: Path) -> ModelSettings:
    """The model's settings. Raises `DragomanError` for options that Dragoman does not have."""
    check_equal(origin, config, "encoder_attention_heads", "decoder_attention_heads")
    encoder_width, decoder_width = config["encoder_ffn_dim"], config["decoder_ffn_dim"]
    if type(head := config.get("dragoman_alignment_head", 1)) is not int:
        raise DragomanError(f"{origin}: dragoman_alignment_head is {shown(head)}; it has to be a number.")
    with settings_in(origin):
        return ModelSettings(
            d_model=config["d_model"],
            d_ff=encoder_width,
            decoder_d_ff=None if decoder_width == encoder_width else decoder_width,
            heads=config["encoder_attention_heads"],
            encoder_layers=config["encoder_layers"],
            decoder_layers=config["decoder_layers"],
            dropout=config["dropout"],
            attention_dropout=config["attention_dropout"],
            positions=HALVES,
            norm=NORMS[config["model_type"]],
            activation=map_option(origin, config, "activation_function", ACTIVATIONS),
            attention_bias=True,
            scale_embeddings=config["scale_embedding"],
            alignment_head=config.get("dragoman_alignment_head"),
        )


def name_map(settings: ModelSettings) -> dict[str, list[str]]:
    """Names of our layers, and Marian's."""
    encoder = layer_names("encoder", "model.encoder.layers", settings.encoder_layers, ENCODER)
    decoder = layer_names("decoder", "model.decoder.layers", settings.decoder_layers, DECODER)
    return encoder | decoder | (FINAL_NORMS if settings.norm == "pre" else {})


def take_embeddings(tensors: Tensors, config: Mapping[str, Any]) -> list[tuple[str, Tensor]]:
    """Names and embeddings [V D] of the source, the target and the output, as transformers chooses them."""
    shared = "model.shared.weight"
    places = [
        ["model.encoder.embed_tokens.weight", shared],
        ["model.decoder.embed_tokens.weight", shared],
    ]
    if config["share_encoder_decoder_embeddings"]:
        places = [[shared, *(place[0] for place in places), "lm_head.weight"]] * 2
    places.append(places[1] if config["tie_word_embeddings"] else ["lm_head.weight"])
    sizes = [config["vocab_size"], *[config.get("decoder_vocab_size") or config["vocab_size"]] * 2]
    names = [next((name for name in place if name in tensors), place[0]) for place in places]
    embeddings = {
        name: tensors.take(name, (size, config["d_model"]))
        for name, size in dict(zip(names, sizes, strict=True)).items()
    }
    other_names = [
        shared,
        *(f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")),
        "lm_head.weight",
    ]
    tensors.discard(other_names)  # pickles have tied weights under all their names
    return [(name, embeddings[name]) for name in names]


def vocabularies(folder: Path, config: Mapping[str, Any]) -> list[tuple[Path, list[str], Vocabulary]]:
    """The file, its tokens in the order of their ids, and the vocabulary, for the source and the target.

    Raises `DragomanError` if a special token is missing.
    """
    source_file, target_file = folder / "vocab.json", folder / "target_vocab.json"
    special = {
        "pad": config["pad_token_id"],
        "start": config["decoder_start_token_id"],
        "end": config["eos_token_id"],
    }
    if config["share_encoder_decoder_embeddings"] or not target_file.exists():
        file, pieces, shared = vocabulary_of(source_file, special)
        return [(file, pieces, shared.with_sentencepiece(folder / "source.spm", folder / "target.spm"))] * 2
    ids = read_object(source_file)
    if missing := [piece for piece in ("<pad>", "</s>") if piece not in ids]:
        raise DragomanError(f"{source_file} lacks {', '.join(missing)}.")
    # The encoder never reads START, so its id does not matter.
    source_special = {"pad": ids["<pad>"], "start": ids.get("<s>", ids["<pad>"]), "end": ids["</s>"]}
    sides = (vocabulary_of(source_file, source_special), vocabulary_of(target_file, special))
    return [
        (file, pieces, side.with_sentencepiece(folder / f"{name}.spm"))
        for (file, pieces, side), (name, _) in zip(sides, SIDES, strict=True)
    ]


def vocabulary_of(path: Path, special: Mapping[str, int]) -> tuple[Path, list[str], Vocabulary]:
    """The file, its tokens and the vocabulary. Raises `DragomanError` if it lacks a special token."""
    ids = read_object(path)
    pieces = pieces_by_id(path, ids)
    if "<unk>" not in ids or not all(0 <= number < len(pieces) for number in special.values()):
        raise DragomanError(
            f"{path} has {len(pieces)} tokens, and lacks '<unk>' or one of the ids that config.json names: "
            f"{dict(special)}."
        )
    return path, pieces, Vocabulary.from_foreign(pieces, unknown=ids["<unk>"], **special)


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object. Raises `DragomanError` if the file is missing or holds no object."""
    content = read_json(path, MAX_LIST)
    if not isinstance(content, dict):
        raise DragomanError(f"{path} holds no JSON object.")
    return content


def halves_order(d_model: int) -> Tensor:
    """The paper's index of each of Marian's features [D]: sines 0, 2, 4 …, then cosines 1, 3, 5 …."""
    return torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])


OUTPUT_FEATURES = tuple(
    f"{module}.{kind}" for module in ("attention.output", "outer", "norm") for kind in ("weight", "bias")
)
INPUT_FEATURES = ("query_key_value.weight", "inner.weight", "embedding.weight", "output.weight")


def permute_features(model: Transformer, order: Tensor, positions: PositionKind) -> Transformer:
    """The same function with its d_model features permuted: feature i was feature `order[i]` [D]."""
    permuted = Transformer(
        replace(model.settings, positions=positions),
        model.source_embedding.num_embeddings,
        model.output.num_embeddings,
    )
    tensors = weights(model)
    for name, weight in tensors.items():
        if name.endswith(OUTPUT_FEATURES):
            tensors[name] = weight[order]
        elif name.endswith(INPUT_FEATURES):
            tensors[name] = weight[:, order]
    load_weights(permuted, tensors, Path("the model"))
    return permuted.eval()


def write(
    model: Transformer,
    tokenizers: Tokenizers,
    folder: Path,
    longest_trained: int | None = None,
    languages: Languages | None = None,
) -> None:
    """Write a folder that `AutoModelForSeq2SeqLM` and `AutoTokenizer` load.

    `longest_trained` and `languages` are those of `StoredModel`; only Dragoman reads them. Raises
    `DragomanError` if the format cannot hold the model.
    """
    settings = model.settings
    allowed: dict[str, Sequence[object]] = {
        "norm": ("post", "pre"),
        "norm_epsilon": (1e-5,),
        "positions": ("sinusoidal", HALVES),
        "first_position": (0,),
        "source_end": (True,),
    }
    format_name = "Hugging Face's Marian"
    if settings.norm == "pre":
        format_name, allowed = "Hugging Face's Pegasus, for pre-norm,", allowed | {"tied": ("all",)}
    check_exportable(format_name, settings, tokenizers, allowed)
    refuse_language_symbols(tokenizers.source)
    if settings.positions == "sinusoidal":
        model = permute_features(model, halves_order(settings.d_model), HALVES)
    save_tensors(
        folder / "model.safetensors", export_layers(model, name_map(settings)) | embedding_tensors(model)
    )
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
    codes = (languages.source, languages.target) if languages else (None, None)
    extra = {LONGEST: longest_trained, **dict(zip(LANGUAGES, codes, strict=True))}
    write_json(folder / "config.json", config_of(settings, tokenizers) | special | extra)
    write_json(folder / "generation_config.json", special | GENERATION)
    pieces = dict(
        zip(
            ("pad_token", "unk_token", "eos_token"),
            tokenizers.target.pieces([PAD, UNKNOWN, END]),
            strict=True,
        )
    )
    tokenizer_config = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": not shared,
        "model_max_length": POSITIONS,
    }
    write_json(folder / "tokenizer_config.json", tokenizer_config | pieces)


def refuse_language_symbols(tokenizer: Tokenizer) -> None:
    """Raise `DragomanError` for a symbol such as >>fra<<, which transformers takes for a language's name.

    It would find the symbol at the beginning of a text alone, and with a space before it.
    """
    for piece in tokenizer.pieces(range(len(tokenizer))):
        if piece.startswith(">>") and piece.endswith("<<"):
            raise DragomanError(
                f"Hugging Face's Marian cannot hold this model: it takes the symbol {piece} for the name of "
                "a language. Train with another form, such as <2fr>."
            )


def embedding_tensors(model: Transformer) -> dict[str, Tensor]:
    """Embeddings and the bias of the logits by Marian's names, each once."""
    if model.settings.tied == "all":
        tensors = {"model.shared.weight": model.source_embedding.weight}
    else:
        tensors = {
            "model.encoder.embed_tokens.weight": model.source_embedding.weight,
            "model.decoder.embed_tokens.weight": model.target_embedding.weight,
        }
    if model.settings.tied == "none":
        tensors["lm_head.weight"] = model.output.weight
    bias = torch.zeros(model.output.num_embeddings) if model.output_bias is None else model.output_bias
    return tensors | {"final_logits_bias": bias[None]}


def config_of(settings: ModelSettings, tokenizers: Tokenizers) -> dict[str, Any]:
    """Our settings as the keys of MarianConfig, and of PegasusConfig."""
    model_type = "pegasus" if settings.norm == "pre" else "marian"
    return {
        "model_type": model_type,
        "architectures": [ARCHITECTURES[model_type]],
        "vocab_size": len(tokenizers.source),
        "decoder_vocab_size": len(tokenizers.target),
        "d_model": settings.d_model,
        "encoder_layers": settings.encoder_layers,
        "decoder_layers": settings.decoder_layers,
        "encoder_ffn_dim": settings.d_ff,
        "decoder_ffn_dim": settings.decoder_d_ff or settings.d_ff,
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
        "dragoman_alignment_head": settings.alignment_head,
    }


def write_json(path: Path, content: object) -> None:
    """Write an object as JSON."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")


def engine(folder: Path, source_rows: Sequence[int], target_rows: Sequence[int]) -> ReferenceEngine:
    """A folder's model and tokenizer in transformers, given its id for each of ours.

    Raises `DragomanError` if transformers is not installed or cannot load the folder.
    """
    try:
        from transformers import AutoModelForSeq2SeqLM, GenerationConfig, MarianTokenizer
        from transformers.utils import logging
    except ImportError as error:
        raise DragomanError("transformers is not installed; pip install 'dragoman[huggingface]'.") from error
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # it recommends sacremoses
            model = AutoModelForSeq2SeqLM.from_pretrained(folder, torch_dtype=torch.float32).eval()
            tokenizer = MarianTokenizer.from_pretrained(folder)
    except Exception as error:  # a damaged file makes transformers raise nearly anything
        raise DragomanError(f"transformers cannot load {folder}: {reason(error)}") from error
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

    return ReferenceEngine(
        name="transformers",
        encode=lambda text: [source_ids[row] for row in tokenizer(text).input_ids],
        log_probs=log_probs,
        greedy=greedy,
        decode=decode,
        first_ids=[source_ids[row] for row in source_rows],
        longest=model.config.max_position_embeddings,
    )
