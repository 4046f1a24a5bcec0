"""Marian models imported from and exported to Hugging Face compute the same there and here."""

import io
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import sentencepiece
import torch
from safetensors.torch import load_file, save_file

import dragoman
from dragoman.interop import huggingface
from dragoman.interop.verify import samples, verify
from dragoman.interop.vocabulary import FORBIDDEN_BIAS
from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END, PAD, START
from dragoman.model.transformer import Transformer
from dragoman.model.weights import weights
from dragoman.system.errors import DragomanError
from dragoman.text.settings import Languages, TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import Tokenizers

SOURCE = [
    "ein Mann fährt Rad",
    "zwei Hunde spielen im Schnee",
    "der Schnee ist kalt",
    "ein Kind spielt mit dem Hund",
]
TARGET = ["a man rides a bike", "two dogs play in the snow", "the snow is cold", "a child plays with the dog"]
SIZES = {"d_model": 16, "d_ff": 24, "heads": 2, "encoder_layers": 2, "decoder_layers": 1}
THEIRS = {
    "as OPUS-MT's": {"activation_function": "swish", "scale_embedding": True},
    "relu, unscaled, other depths": {"activation_function": "relu", "encoder_layers": 1, "decoder_layers": 3},
    "two vocabularies": {"share_encoder_decoder_embeddings": False, "scale_embedding": True},
    "nothing tied": {
        "share_encoder_decoder_embeddings": False,
        "tie_word_embeddings": False,
        "activation_function": "gelu",
    },
    "odd width": {"d_model": 14, "decoder_ffn_dim": 10, "scale_embedding": True},
}
OURS = {
    "the paper's": ModelSettings(**SIZES),
    "other options": ModelSettings(
        **SIZES, activation="swish", attention_bias=True, output_bias=True, tied="target"
    ),
    "Marian's positions": ModelSettings(
        **SIZES,
        decoder_d_ff=9,
        scale_embeddings=False,
        activation="gelu",
        positions="sinusoidal-halves",
        tied="none",
        alignment_head=2,
    ),
    "pre-norm": ModelSettings(**SIZES, norm="pre", activation="swish"),
}


def learnt(lines, size):
    """A SentencePiece model as Marian's are: unigram, with SentencePiece's own numbers."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 9),
        model_writer=model,
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model.getvalue()


def pieces_of(model):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(number) for number in range(3, processor.get_piece_size())]


def marian(folder, **options):
    """A folder with a random MarianMTModel and a vocabulary, as transformers saves it."""
    folder.mkdir()
    for name, content in saved(**options).items():
        (folder / name).write_bytes(content)
    return folder


@cache
def saved(**options):
    """The files of `marian`, by name."""
    with TemporaryDirectory() as folder:
        save_marian(Path(folder), **options)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def save_marian(folder, languages=(">>eng<<",), **options):
    """Save a random MarianMTModel and its vocabulary, with the names of languages."""
    from transformers import MarianConfig, MarianMTModel  # a second, for the process that runs the tests

    torch.manual_seed(5)
    sides = {"source": learnt(SOURCE, 60), "target": learnt(TARGET, 50)}
    for side, model in sides.items():
        (folder / f"{side}.spm").write_bytes(model)
    shared = options.get("share_encoder_decoder_embeddings", True)
    lists = [pieces_of(sides["source"]), pieces_of(sides["target"])]
    if shared:
        lists = [sorted({*lists[0], *lists[1]}), []]
    ids = [
        {piece: number for number, piece in enumerate(["</s>", "<unk>", *languages, *pieces, "<pad>"])}
        for pieces in lists
    ]
    (folder / "vocab.json").write_text(json.dumps(ids[0]))
    if not shared:
        (folder / "target_vocab.json").write_text(json.dumps(ids[1]))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "MarianTokenizer", "separate_vocabs": not shared})
    )
    last = len(ids[0 if shared else 1]) - 1
    sizes = {
        "d_model": 16,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
    }
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    special = {
        "pad_token_id": last,
        "decoder_start_token_id": last,
        "eos_token_id": 0,
        "forced_eos_token_id": None,
    }
    config = MarianConfig(
        vocab_size=len(ids[0]), decoder_vocab_size=last + 1, **{**sizes, **heads, **special, **options}
    )
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.3)
        model.final_logits_bias.copy_(torch.randn(model.final_logits_bias.shape))
    model.save_pretrained(folder)


def engine_of(folder, imported):
    return huggingface.engine(folder, *(vocabulary.rows for vocabulary in imported.vocabularies))


@pytest.mark.short_form(1)
@pytest.mark.parametrize("kind", THEIRS)
def test_an_imported_model_has_the_same_logits_and_translations(kind, tmp_path):
    folder = marian(tmp_path / "theirs", **THEIRS[kind])
    imported = huggingface.read(folder)
    assert (
        verify(
            engine_of(folder, imported),
            imported.model,
            imported.tokenizers,
            [*SOURCE[:2], *samples(imported.tokenizers, count=2)],
        )
        < 1e-5
    )


def test_the_name_of_a_language_is_read_as_a_token(tmp_path):
    folder = marian(tmp_path / "theirs")
    imported = huggingface.read(folder)
    verify(
        engine_of(folder, imported),
        imported.model,
        imported.tokenizers,
        [f">>eng<< {line}" for line in SOURCE[:2]],
    )


@pytest.mark.long
def test_a_model_of_several_languages_reads_the_name_of_the_one_that_is_chosen(tmp_path, command_line):
    """As transformers reads it at the beginning of a text; in a text it is text."""
    names = {"en": ">>eng<<", "fr": ">>fra<<", "pt-BR": ">>pt_br<<"}
    folder = marian(tmp_path / "opus-mt-de-mul", languages=(*names.values(), ">>x<<"))
    plain = huggingface.read(folder).tokenizers.source
    status, _, error = command_line(
        "import", folder, "--from", "huggingface", "--source-language", "de", "--out", tmp_path / "run"
    )
    assert status == 0, error
    assert "The model translates into en, fr, pt-BR." in error
    for translator in (dragoman.load(folder), dragoman.Translator.load(tmp_path / "run")):
        assert [pair.target for pair in translator.pairs] == list(names)
        for code, name in names.items():
            of_code = translator.into(code)
            for line in SOURCE[:2]:
                assert of_code.prepare([line]).sources == [[*plain.encode([f"{name} {line}"])[0], END]]
                ids = of_code.prepare([f">>fra<< {line}"]).sources[0]
                assert not {*translator.tokenizers.source.ids([*names.values()])}.intersection(ids[1:])
        with pytest.raises(DragomanError, match="into en and fr and pt-BR, and none of these"):
            translator.translate(SOURCE[0])


@pytest.mark.short_form(1)
@pytest.mark.parametrize("shared", [True, False])
def test_a_model_with_the_name_of_a_language_can_be_exported_and_imported_again(shared, tmp_path):
    """source.spm then has the name with a space before it, and vocab.json has not."""
    options = {"share_encoder_decoder_embeddings": shared, "tie_word_embeddings": shared}
    first = huggingface.read(marian(tmp_path / "theirs", **options))
    (tmp_path / "there").mkdir()
    huggingface.write(first.model, first.tokenizers, tmp_path / "there")
    again = huggingface.read(tmp_path / "there")
    assert again.tokenizers == first.tokenizers
    before, after = weights(first.model), weights(again.model)
    assert before.keys() == after.keys()
    assert all(torch.equal(weight, after[name]) for name, weight in before.items())


def test_a_symbol_that_transformers_takes_for_a_language_is_not_exported(tmp_path):
    settings = TokenizerSettings(symbols=(">>fra<<",))
    tokenizer = Tokenizer.train(SOURCE, "bpe", settings, 350)
    model = build_model(replace(ModelSettings(**SIZES), tied="all"), len(tokenizer), len(tokenizer))
    with pytest.raises(DragomanError, match="it takes the symbol >>fra<< for the name of a language"):
        huggingface.write(model, Tokenizers(tokenizer, tokenizer), tmp_path)


@pytest.mark.short_form(1)
@pytest.mark.parametrize("kind", OURS)
def test_export_then_import_gives_the_same_model_bit_for_bit(kind, tmp_path):
    model, tokenizers = ours(OURS[kind])
    folder = tmp_path / "there"
    folder.mkdir()
    huggingface.write(model, tokenizers, folder, longest_trained=29, languages=Languages("en", "pt-BR"))
    everyone = [range(len(side)) for side in (tokenizers.source, tokenizers.target)]
    sentences = [*SOURCE[:2], *samples(tokenizers, count=2)]
    assert verify(huggingface.engine(folder, *everyone), model, tokenizers, sentences) < 1e-5
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    AutoModelForSeq2SeqLM.from_pretrained(folder).save_pretrained(tmp_path / "back")
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "back")
    back = huggingface.read(tmp_path / "back")
    assert back.tokenizers == tokenizers
    assert (back.longest_trained, back.languages) == (29, Languages("en", "pt-BR"))
    assert back.model.settings == model.settings
    before, after = weights(model), weights(back.model)
    assert before.keys() == after.keys()
    assert all(torch.equal(weight, after[name]) for name, weight in before.items())


def ours(settings):
    """A random model of ours; with two vocabularies where the embeddings are not tied."""
    torch.manual_seed(0)
    both = Tokenizer.train([*SOURCE, *TARGET] * 5, "bpe", TokenizerSettings(), 350)
    target = (
        both if settings.tied == "all" else Tokenizer.train(TARGET * 5, "unigram", TokenizerSettings(), 320)
    )
    model = Transformer(settings, len(both), len(target)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.1)
    return model, Tokenizers(both, target)


def changed(folder, **settings):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def without(folder, name):
    tensors = load_file(folder / "model.safetensors")
    del tensors[name]
    save_file(tensors, folder / "model.safetensors")


def with_shape(folder, name, *shape):
    save_file(
        load_file(folder / "model.safetensors") | {name: torch.zeros(shape)}, folder / "model.safetensors"
    )


def cut(folder, name):
    (folder / name).write_bytes((folder / name).read_bytes()[:-99])


K_PROJ = "model.encoder.layers.0.self_attn.k_proj.weight"
DAMAGE = [
    (
        lambda at: changed(at, model_type="bart"),
        "config.json: model_type is 'bart'; Dragoman reads 'marian' and 'pegasus' models",
    ),
    (
        lambda at: changed(at, dragoman_longest_source="9"),
        "dragoman_longest_source is '9', and must be a number of at least 1",
    ),
    (
        lambda at: changed(at, dragoman_longest_source=10**12),
        "dragoman_longest_source is 1000000000000, and must be a number of at least 1",
    ),
    (
        lambda at: changed(at, dragoman_longest_source=0),
        "dragoman_longest_source is 0, and must be a number of at least 1",
    ),
    (
        lambda at: changed(at, dragoman_longest_source=True),
        "dragoman_longest_source is True, and must be a number of at least 1",
    ),
    (
        lambda at: changed(at, eos_token_id=[0, 4]),
        r"eos_token_id is \[0, 4\]; Dragoman has one token that ends",
    ),
    (lambda at: changed(at, d_model="16"), "config.json: d_model is '16'; a value like 1024 was expected"),
    (
        lambda at: changed(at, scale_embedding=1),
        "config.json: scale_embedding is 1; a value like False was expected",
    ),
    (
        lambda at: changed(at, eos_token_id=False),
        "config.json: eos_token_id is False; a value like 0 was expected",
    ),
    (
        lambda at: changed(at, eos_token_id=[]),
        r"config.json: eos_token_id is \[\]; a value like 0 was expected",
    ),
    (
        lambda at: (at / "vocab.json").write_text('{"<unk>": 0, "a": "1"}'),
        "vocab.json has '1' as the number of the token 'a'",
    ),
    (lambda at: (at / "source.spm").write_bytes(b""), "source.spm is not a whole SentencePiece model"),
    (
        lambda at: (at / "model.safetensors").unlink(),
        "has no weights: neither model.safetensors nor pytorch_model.bin is there",
    ),
    (
        lambda at: changed(at, decoder_attention_heads=4),
        "encoder_attention_heads is 2 and decoder_attention_heads 4; in Dragoman they are the same",
    ),
    (
        lambda at: changed(at, activation_function="tanh"),
        "activation_function is 'tanh'; Dragoman supports only 'relu' or 'gelu' or 'swish' or 'silu'",
    ),
    (
        lambda at: changed(at, pad_token_id=999),
        "vocab.json has [0-9]+ tokens, and lacks '<unk>' or one of the ids .*'pad': 999",
    ),
    *(
        (
            lambda at, name=name: (at / "generation_config.json").unlink() or changed(at, **{name: -1}),
            "vocab.json has [0-9]+ tokens, and lacks '<unk>' or one of the ids .*: -1",
        )
        for name in ("pad_token_id", "decoder_start_token_id", "eos_token_id")
    ),
    (
        lambda at: changed(at, pad_token_id=len(json.loads((at / "vocab.json").read_text()))),
        "vocab.json has ([0-9]+) tokens, and lacks '<unk>' or one of the ids .*'pad': \\1,",
    ),
    (
        lambda at: changed(at, encoder_layers=1),
        "model.safetensors has the tensor model.encoder.layers.1.*and 15 more, which a model of its",
    ),
    (lambda at: without(at, K_PROJ), rf"model.safetensors lacks the tensor {K_PROJ}, of shape \(16, 16\)"),
    (
        lambda at: with_shape(at, K_PROJ, 16, 3),
        rf"model.safetensors: {K_PROJ} has the shape \(16, 3\), and \(16, 16\) was expected",
    ),
    (
        lambda at: with_shape(at, "model.shared.weight", 5, 16),
        r"model.shared.weight has the shape \(5, 16\), and \([0-9]+, 16\) was expected",
    ),
    (
        lambda at: with_shape(at, "model.encoder.embed_positions.weight", 9, 16),
        "is not the table of sinusoids",
    ),
    (lambda at: cut(at, "model.safetensors"), "model.safetensors cannot be read"),
    (lambda at: cut(at, "config.json"), "config.json cannot be read"),
    (lambda at: cut(at, "vocab.json"), "vocab.json cannot be read"),
    (lambda at: cut(at, "source.spm"), "source.spm is not a SentencePiece model"),
    (
        lambda at: (at / "config.json").write_text("[" * 100_000),
        "config.json cannot be read: it has lists",
    ),
    (lambda at: (at / "vocab.json").write_text("[]"), "vocab.json holds no JSON object"),
    (
        lambda at: (at / "vocab.json").write_text('{"<unk>": 0, "a": 2}'),
        "does not number its 2 tokens from 0 to 1, each once",
    ),
    (lambda at: (at / "target.spm").unlink(), "target.spm"),
]


@pytest.mark.short_form(19)
@pytest.mark.parametrize(("damage", "message"), DAMAGE, ids=range(len(DAMAGE)))
def test_damaged_or_unsupported_files_are_refused_by_name(damage, message, tmp_path):
    folder = marian(tmp_path / "theirs")
    damage(folder)
    with pytest.raises(DragomanError, match=message):
        huggingface.read(folder)


def test_a_vocabulary_of_another_size_is_refused(tmp_path):
    folder = marian(tmp_path / "theirs")
    rows = load_file(folder / "model.safetensors")["model.shared.weight"].shape[0]
    pieces = json.loads((folder / "vocab.json").read_text())
    (folder / "vocab.json").write_text(json.dumps(pieces | {"new": len(pieces)}))
    with pytest.raises(
        DragomanError,
        match=f"has {rows + 1} tokens, and model.shared.weight in .*safetensors has {rows} rows",
    ):
        huggingface.read(folder)


def test_the_folders_precision_and_generation_settings_are_ignored(tmp_path):
    from transformers import MarianMTModel

    folder = marian(tmp_path / "theirs")
    MarianMTModel.from_pretrained(folder).half().save_pretrained(folder)
    search = {"no_repeat_ngram_size": 1, "min_length": 9, "repetition_penalty": 2.0}
    (folder / "generation_config.json").write_text(json.dumps(search))
    changed(folder, eos_token_id=[0])
    imported = huggingface.read(folder)
    assert verify(engine_of(folder, imported), imported.model, imported.tokenizers, SOURCE[:2]) < 1e-5
    cut(folder, "tokenizer_config.json")
    with pytest.raises(DragomanError, match="transformers cannot load .*theirs: "):
        engine_of(folder, imported)


def test_a_forbidden_token_stays_forbidden_in_half_precision(tmp_path):
    from transformers import MarianMTModel

    folder = marian(tmp_path / "theirs")
    theirs = MarianMTModel.from_pretrained(folder)
    theirs.final_logits_bias[0, 4] = -1e9  # minus infinity in half precision
    theirs.half().save_pretrained(folder)
    imported = huggingface.read(folder)
    token = imported.vocabularies[1].rows.index(4)
    assert imported.model.output_bias[token] == FORBIDDEN_BIAS


@pytest.mark.parametrize(
    ("file", "setting", "wanted"),
    [
        ("generation_config.json", {"decoder_start_token_id": 4}, "decoder_start_token_id is 4, and "),
        (
            "generation_config.json",
            {"eos_token_id": [0, 4]},
            r"eos_token_id is \[0, 4\], and 0 in config.json",
        ),
        (
            "generation_config.json",
            {"forced_bos_token_id": 4},
            "forced_bos_token_id is 4, and Dragoman forces",
        ),
        ("config.json", {"forced_bos_token_id": 4}, "forced_bos_token_id is 4, and Dragoman forces"),
    ],
)
def test_other_first_and_last_tokens_of_a_translation_are_refused(tmp_path, file, setting, wanted):
    folder = marian(tmp_path / "theirs")
    found = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(found | setting))
    with pytest.raises(DragomanError, match=f"{file}: {wanted}"):
        huggingface.read(folder)


def test_pieces_that_the_vocabulary_lacks_are_unknown(tmp_path):
    folder = marian(tmp_path / "theirs")
    pieces = json.loads((folder / "vocab.json").read_text())
    names = sorted(pieces, key=pieces.get)
    lost = [name for name in names if name in ("e", "n", "▁Schnee")]
    assert lost
    renamed = {f"lost {name}" if name in lost else name: number for number, name in enumerate(names)}
    (folder / "vocab.json").write_text(json.dumps(renamed))
    imported = huggingface.read(folder)
    assert verify(engine_of(folder, imported), imported.model, imported.tokenizers, SOURCE[:2]) < 1e-5
    assert any(
        imported.vocabularies[0].rows[token] == 1
        for token in imported.tokenizers.source.encode(["der Schnee"])[0]
    )


@pytest.mark.short_form(1)
@pytest.mark.parametrize("kind", THEIRS)
def test_pickled_weights_are_read_under_every_name_of_tied_ones(kind, tmp_path):
    from transformers import MarianMTModel

    folder = marian(tmp_path / "theirs", **THEIRS[kind])
    one = huggingface.read(folder)
    torch.save(MarianMTModel.from_pretrained(folder).state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    other = huggingface.read(folder)
    assert all(torch.equal(weight, weights(other.model)[name]) for name, weight in weights(one.model).items())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ModelSettings(**SIZES, norm="pre", tied="target"),
            "Pegasus, for pre-norm, cannot hold this model: its tied is 'target', and .* has 'all' alone",
        ),
        (
            ModelSettings(**SIZES, norm="none"),
            "Marian cannot hold this model: its norm is 'none', and Hugging Face's Marian has 'post' or",
        ),
        (
            ModelSettings(**SIZES, positions="learned"),
            "its positions is 'learned', and Hugging Face's Marian has 'sinusoidal' or",
        ),
        (
            ModelSettings(**SIZES, first_position=2),
            "its first_position is 2, and Hugging Face's Marian has 0 alone",
        ),
        (
            ModelSettings(**SIZES, norm_epsilon=1e-6),
            "its norm_epsilon is 1e-06, and Hugging Face's Marian has 1e-05 alone",
        ),
        (
            ModelSettings(**SIZES, source_end=False),
            "its source_end is False, and Hugging Face's Marian has True alone",
        ),
        (
            ModelSettings(**SIZES, d_v=3),
            "heads of width d_model / heads = 8 alone, and this model's d_k is 8, its d_v 3",
        ),
    ],
)
def test_a_model_that_marian_cannot_hold_is_not_exported(settings, message, tmp_path):
    with pytest.raises(DragomanError, match=message):
        huggingface.write(*ours(settings), tmp_path)


def test_a_model_with_codes_is_not_exported(tmp_path):
    model, tokenizers = ours(ModelSettings(**SIZES))
    plain = tokenizers.source
    coded = Tokenizer(plain.model, "#version: 0.2\na b\n")
    for sides in (Tokenizers(coded, coded), Tokenizers(coded, plain), Tokenizers(plain, coded)):
        with pytest.raises(
            DragomanError,
            match="comes with SentencePiece, and this model's words are cut by subword-nmt's codes",
        ):
            huggingface.write(model, sides, tmp_path)


# ---- what a folder may leave out, or write otherwise


@pytest.mark.parametrize("model_type", huggingface.DEFAULTS)
@pytest.mark.parametrize("is_null", [False, True], ids=["missing", "null"])
def test_a_key_that_config_json_lacks_has_the_default_of_transformers(tmp_path, model_type, is_null):
    from transformers import MarianConfig, PegasusConfig

    left_out = dict.fromkeys(huggingface.DEFAULTS[model_type]) if is_null else {}
    (tmp_path / "config.json").write_text(json.dumps(left_out | {"model_type": model_type}))
    found = huggingface.configuration(tmp_path / "config.json")
    theirs = {"marian": MarianConfig, "pegasus": PegasusConfig}[model_type]()
    always = {"share_encoder_decoder_embeddings": True}  # of a Pegasus, which has no such key
    assert found == {name: getattr(theirs, name, always.get(name)) for name in found}


@pytest.mark.parametrize("written", [lambda token: token, lambda token: [token], lambda token: None])
def test_the_same_first_and_last_tokens_of_a_translation_may_be_written_in_any_form(tmp_path, written):
    tokens = {"decoder_start_token_id": 9, "eos_token_id": 3}
    search = {name: written(token) for name, token in tokens.items()}
    (tmp_path / "generation_config.json").write_text(json.dumps(search))
    huggingface.refuse_other_generation(tmp_path, tokens)


def same(one, other):
    """Whether two imports have the same settings, vocabularies and weights."""
    before, after = weights(one.model), weights(other.model)
    return (
        one.model.settings == other.model.settings
        and one.vocabularies == other.vocabularies
        and before.keys() == after.keys()
        and all(torch.equal(weight, after[name]) for name, weight in before.items())
    )


@pytest.mark.parametrize(
    "name", ["model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"]
)
def test_tied_embeddings_may_have_any_of_their_names(tmp_path, name):
    folder = marian(tmp_path / "theirs")
    one, tensors = huggingface.read(folder), load_file(folder / "model.safetensors")
    tensors[name] = tensors.pop("model.shared.weight")
    save_file(tensors, folder / "model.safetensors")
    assert same(huggingface.read(folder), one)


def test_a_file_of_pickled_weights_beside_safetensors_is_not_read(tmp_path):
    folder = marian(tmp_path / "theirs")
    one = huggingface.read(folder)
    torch.save({"model.shared.weight": torch.zeros(1)}, folder / "pytorch_model.bin")
    assert same(huggingface.read(folder), one)


def test_the_targets_vocabulary_has_the_size_of_the_sources_unless_it_is_given(tmp_path):
    folder = marian(tmp_path / "theirs")
    one = huggingface.read(folder)
    changed(folder, decoder_vocab_size=None)
    assert same(huggingface.read(folder), one)


def test_a_model_without_a_bias_of_the_logits_has_none(tmp_path):
    folder = marian(tmp_path / "theirs")
    without(folder, "final_logits_bias")
    imported = huggingface.read(folder)
    assert verify(engine_of(folder, imported), imported.model, imported.tokenizers, SOURCE[:2]) < 1e-5
    assert imported.model.output_bias.count_nonzero() == len(imported.vocabularies[1].never_written)


def test_one_vocabulary_may_have_an_embedding_for_each_side(tmp_path):
    folder = marian(tmp_path / "theirs")
    tensors = load_file(folder / "model.safetensors")
    shared = tensors.pop("model.shared.weight")
    tensors |= {
        "model.encoder.embed_tokens.weight": shared,
        "model.decoder.embed_tokens.weight": shared.flip(0).contiguous(),
    }
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    changed(folder, share_encoder_decoder_embeddings=False)
    imported = huggingface.read(folder)
    assert imported.model.settings.tied == "target"
    assert verify(engine_of(folder, imported), imported.model, imported.tokenizers, SOURCE[:2]) < 1e-5


def test_a_search_by_the_folders_own_settings_writes_neither_padding_nor_start(tmp_path):
    from transformers import AutoModelForSeq2SeqLM

    model, tokenizers = ours(OURS["other options"])
    with torch.no_grad():
        model.output_bias[[PAD, START]], model.output_bias[END] = 50.0, -50.0
    huggingface.write(model, tokenizers, tmp_path)
    theirs = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    [written] = theirs.generate(torch.tensor([[7, 8, END]]), max_new_tokens=5).tolist()
    assert written[0] == START
    assert not {PAD, START} & {*written[1:]}
