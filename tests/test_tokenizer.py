"""Tokenizers of all kinds encode, decode and refuse invalid models."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.symbols import END, PAD, START, UNKNOWN
from dragoman.system.errors import DragomanError
from dragoman.text.settings import TokenizerSettings
from dragoman.text.tokenizer import Tokenizer, replace_surrogates

LINES = [
    "Ein Mann fährt Rad .",
    "Zwei Hunde spielen im Schnee .",
    "A man rides a bike .",
    "Two dogs play in the snow .",
] * 20
IDENTITY = TokenizerSettings(normalization="identity")


@pytest.fixture(scope="module", params=["bpe", "unigram", "char", "word"])
def tokenizer(request):
    return Tokenizer.train(LINES, request.param, IDENTITY, 400)


def test_decode_inverts_encode_on_the_training_text(tokenizer):
    for line, ids in zip(LINES, tokenizer.encode(LINES), strict=True):
        assert not {PAD, UNKNOWN, START, END} & set(ids)
        assert tokenizer.decode(ids) == line


def test_blank_lines_have_no_ids(tokenizer):
    assert tokenizer.encode(["", "  "]) == [[], []]


def test_decode_stops_at_end_and_ignores_padding(tokenizer):
    (ids,) = tokenizer.encode(["Ein Mann ."])
    assert tokenizer.decode([START, *ids, END, *ids, PAD]) == "Ein Mann ."


def test_a_loaded_tokenizer_equals_the_saved_one(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "one.model")
    loaded = Tokenizer.load(tmp_path / "one.model")
    assert loaded.encode(LINES) == tokenizer.encode(LINES)
    assert len(loaded) == len(tokenizer)
    assert loaded.pieces([PAD, UNKNOWN]) == ["<pad>", "<unk>"]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_byte_fallback_encodes_any_text_without_unknown_tokens(kind):
    tokenizer = Tokenizer.train(LINES, kind, IDENTITY, 400)

    @given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20))
    def check(text):
        (ids,) = tokenizer.encode([text])
        assert UNKNOWN not in ids
        assert tokenizer.decode(ids).split(" ") == [
            word for word in text.replace("\u2581", " ").split(" ") if word
        ] or not text.strip(" \u2581")

    check()


def test_word_tokens_are_what_spaces_separate():
    tokenizer = Tokenizer.train(["AH0 B K", "K AH0"], "word", IDENTITY, 100)
    (ids,) = tokenizer.encode(["K B AH0"])
    assert tokenizer.pieces(ids) == ["▁K", "▁B", "▁AH0"]
    assert tokenizer.encode(["ZH"]) == [[UNKNOWN]]
    assert (
        tokenizer.decode([UNKNOWN, *ids])
        == tokenizer.decode([START, UNKNOWN, *ids])
        == "\N{REPLACEMENT CHARACTER} K B AH0"
    )


@pytest.mark.parametrize(("kind", "vocabulary"), [("char", 5), ("char", 400), ("word", 400)])
@pytest.mark.parametrize("before", ["", "a " * 5_000], ids=["short line", "long line"])
def test_the_rarest_character_and_word_of_the_text_have_tokens(kind, vocabulary, before):
    lines = ["a b " * 50] * 200 + [f"{before}ж"]
    tokenizer = Tokenizer.train(lines, kind, TokenizerSettings(), vocabulary)
    (ids,) = tokenizer.encode(["ж b a"])
    assert UNKNOWN not in ids
    assert tokenizer.decode(ids) == "ж b a"


def test_lone_surrogates_are_replaced_and_pairs_are_joined():
    assert replace_surrogates("a\ud800b") == "a\N{REPLACEMENT CHARACTER}b"
    assert replace_surrogates("\ud83d\ude00") == "\N{GRINNING FACE}"


def test_a_vocabulary_smaller_than_the_alphabet_is_refused():
    with pytest.raises(
        DragomanError, match="A vocabulary of 50 tokens is too small: the text's characters alone need"
    ):
        Tokenizer.train(LINES, "bpe", IDENTITY, 50)


def test_an_empty_training_text_is_refused():
    with pytest.raises(DragomanError, match="SentencePiece cannot make a vocabulary from this text"):
        Tokenizer.train([], "bpe", IDENTITY, 300)


def test_a_file_that_is_no_sentencepiece_model_is_refused_by_name(tmp_path):
    (tmp_path / "bad.model").write_bytes(b"nonsense")
    with pytest.raises(DragomanError, match=r"bad.model: This is not a SentencePiece model"):
        Tokenizer.load(tmp_path / "bad.model")
    with pytest.raises(DragomanError, match="absent.model"):
        Tokenizer.load(tmp_path / "absent.model")


def test_a_model_with_other_special_ids_is_refused():
    import io

    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=model,
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    with pytest.raises(
        DragomanError, match=r"has the ids \[-1, 0, 1, 2\] for padding, unknown, start and end"
    ):
        Tokenizer(model.getvalue())


def test_text_is_normalised_by_nmt_nfkc_unless_the_settings_say_otherwise():
    default = Tokenizer.train(LINES, "bpe", TokenizerSettings(), 400)
    for text, normal in (
        ("ﬁnden", "finden"),
        ("Ｒａｄ", "Rad"),
        ("a\u00a0b", "a b"),
        ("a\u200bb", "a b"),
        ("½", "1⁄2"),
    ):
        assert default.encode([text]) == default.encode([normal])
        same = Tokenizer.train(LINES, "bpe", IDENTITY, 400)
        assert same.encode([text]) != same.encode([normal])
    assert (
        default.model == Tokenizer.train(LINES, "bpe", TokenizerSettings(normalization="nmt_nfkc"), 400).model
    )
