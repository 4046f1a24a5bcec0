"""Random segmentations have the probabilities of the papers; without randomness they are SentencePiece's."""

import io
import math
import random as python_random
import subprocess
import sys
from collections import Counter
from itertools import combinations, pairwise

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2
from subword_nmt.apply_bpe import BPE

from dragoman.model.symbols import END, PAD, START, UNKNOWN
from dragoman.text.model_proto import PieceType, model_kind, piece_types, read_fields
from dragoman.text.segmentation_sampling import BpeDropout, SegmentationSampler, UnigramSampling
from dragoman.text.settings import TokenizerSettings
from dragoman.text.tokenizer import Tokenizer, replace_surrogates
from tests.conftest import MAX_SECONDS

LINES = [
    "Ein Mann in einem blauen Hemd fährt mit dem Rad über die Straße .",
    "Zwei junge Hunde spielen im frischen Schnee und rennen umher .",
    "A man in a blue shirt rides a bike down the street .",
    "Two young dogs are playing and running in the fresh snow .",
    'Three children are standing under a 12-metre tree; "look!"',
] * 20
TEXTS = [
    *LINES[:5],
    "Größenwahn über Äpfel, naïve Übergrößenträger",
    "emoji 😀👩‍👩‍👧 and 你好世界 ß ж жжж x",
    " two  spaces\tand a tab ",
    "a <bt> <name><bt>tag<bt>s <b t> <",
    "lone \ud800 and \udc00\ud800",
    "<s> </s> <unk> <pad> <0x41> ▁ ▁▁a a▁b \ufffd ﬁ ½",
    "a\u00a0b\u200bc\u2028d",
    "aaaaaaaaaaaaaaaaaaaa" * 10,
    "",
    "  ",
]
SYMBOLS = "<bt>", "<name>"
STRONG = {"bpe": 0.5, "unigram": 0.1}
NOT_RANDOM = {"bpe": 0.0, "unigram": 1e9}


def trained(kind, **fields):
    return Tokenizer.train(LINES, kind, TokenizerSettings(kind, symbols=SYMBOLS, **fields), 400)


@pytest.fixture(
    scope="module",
    params=[(kind, fallback) for kind in ("bpe", "unigram") for fallback in (True, False)],
    ids=lambda both: f"{both[0]}{'-bytes' * both[1]}",
)
def tokenizer(request):
    return trained(request.param[0], byte_fallback=request.param[1])


def sampler(tokenizer, strengths):
    return SegmentationSampler(tokenizer.model, strengths[model_kind(tokenizer.model)])


def generator(seed=0):
    return np.random.default_rng(seed)


# ---- beside SentencePiece's encoder and decoder


def test_without_randomness_the_segmentation_is_that_of_sentencepiece(tokenizer):
    exact, random = sampler(tokenizer, NOT_RANDOM), generator()
    assert [exact.sample(text, random) for text in TEXTS] == tokenizer.encode(TEXTS)
    get_score = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model).get_score

    @given(st.text(max_size=30))
    @settings(max_examples=40, deadline=None)
    def check(text):
        found, (expected,) = exact.sample(text, random), tokenizer.encode([text])
        # Two segmentations may have the same probability: 0 and 00 for 000.
        assert found == expected or math.isclose(
            sum(get_score(found)), sum(get_score(expected)), rel_tol=1e-6
        )

    check()


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("normalization", ["nfkc", "identity"])
def test_without_randomness_it_is_that_of_sentencepiece_in_other_normal_forms(kind, normalization):
    tokenizer = trained(kind, normalization=normalization)
    exact = sampler(tokenizer, NOT_RANDOM)
    assert [exact.sample(text, generator()) for text in TEXTS] == tokenizer.encode(TEXTS)


def test_samples_differ_and_decode_to_the_text_of_the_ordinary_segmentation(tokenizer):
    strong, random = sampler(tokenizer, STRONG), generator()
    for text, ordinary in zip(TEXTS, tokenizer.encode(TEXTS), strict=True):
        samples = [strong.sample(text, random) for _ in range(20)]
        assert {tokenizer.decode(ids) for ids in samples} == {tokenizer.decode(ordinary)}
        if text in LINES:
            assert len(set(map(tuple, samples))) > 10

    @given(st.text(max_size=30), st.integers(0, 99))
    @settings(max_examples=40, deadline=None)
    def check(text, seed):
        (ordinary,) = tokenizer.encode([text])
        assert tokenizer.decode(strong.sample(text, generator(seed))) == tokenizer.decode(ordinary)

    check()


def test_symbols_are_never_split(tokenizer):
    strong, random = sampler(tokenizer, STRONG), generator()
    ((*_, tag),) = tokenizer.encode(["<bt>"])
    for _ in range(50):
        assert strong.sample("a <bt>b<bt><name> <bt", random).count(tag) == 2


@pytest.mark.parametrize("byte_fallback", [True, False])
def test_a_dropout_of_one_gives_characters(byte_fallback):
    tokenizer = trained("bpe", byte_fallback=byte_fallback)
    ids = SegmentationSampler(tokenizer.model, 1.0).sample("Ein Hund <bt>ж", generator())
    last = ["<0xD0>", "<0xB6>"] if byte_fallback else ["<unk>"]
    assert tokenizer.pieces(ids) == [*"▁Ein▁Hund▁", "<bt>", *last]


def changed(model, change):
    """A model after a change of its protocol buffer."""
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    change(proto)
    return proto.SerializeToString()


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_unused_pieces_are_not_in_a_sample(kind):
    def leave_out(proto):
        for number, piece in enumerate(proto.pieces):
            if piece.type == PieceType.NORMAL and len(piece.piece) > 1 and number % 3 == 0:
                piece.type = PieceType.UNUSED

    tokenizer = Tokenizer(changed(trained(kind).model, leave_out))
    unused = {token for token, type_ in enumerate(piece_types(tokenizer.model)) if type_ == PieceType.UNUSED}
    exact, strong = sampler(tokenizer, NOT_RANDOM), sampler(tokenizer, STRONG)
    for text, ordinary in zip(TEXTS, tokenizer.encode(TEXTS), strict=True):
        assert exact.sample(text, generator()) == ordinary
        ids = strong.sample(text, generator())
        assert not unused.intersection(ids)
        assert tokenizer.decode(ids) == tokenizer.decode(ordinary)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_pieces_may_have_spaces_inside(kind):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=model,
        model_type=kind,
        vocab_size=300,
        hard_vocab_limit=False,
        split_by_whitespace=False,
        pad_id=PAD,
        unk_id=UNKNOWN,
        bos_id=START,
        eos_id=END,
        minloglevel=2,
    )
    tokenizer = Tokenizer(model.getvalue())
    assert any("▁" in piece[1:] for piece in tokenizer.pieces(range(len(tokenizer))))
    exact, strong = sampler(tokenizer, NOT_RANDOM), sampler(tokenizer, STRONG)
    for text, ordinary in zip(TEXTS, tokenizer.encode(TEXTS), strict=True):
        assert exact.sample(text, generator()) == ordinary
        assert tokenizer.decode(strong.sample(text, generator())) == tokenizer.decode(ordinary)


# ---- probabilities


def check_counts(counts, probabilities, deviations=4.0):
    """Compare counts with probabilities by Pearson's chi-square.

    The statistic of k + 1 classes has the mean k and the variance 2k. Classes with fewer than 5 expected
    samples are taken as one.
    """
    total = sum(counts.values())
    assert set(counts) <= set(probabilities)
    rare = [each for each, share in probabilities.items() if share * total < 5]
    classes = [[each] for each in probabilities if each not in rare] + [rare] * bool(rare)
    assert len(classes) > 2
    expected = [total * sum(probabilities[each] for each in members) for members in classes]
    found = [sum(counts[each] for each in members) for members in classes]
    statistic = sum((f - e) ** 2 / e for f, e in zip(found, expected, strict=True))
    freedom = len(classes) - 1
    assert statistic < freedom + deviations * math.sqrt(2 * freedom)


def dropout_probabilities(word, scores, dropout):
    """The probability of each segmentation by Algorithm 1 of Provilkov et al. (2020), read literally."""
    ended = Counter()
    reached = {tuple(word): 1.0}
    while reached:
        following = Counter()
        for pieces, probability in reached.items():
            merges = [
                (-scores[joined], place)
                for place, (left, right) in enumerate(pairwise(pieces))
                if (joined := left + right) in scores
            ]
            for size in range(len(merges) + 1):
                for kept in combinations(merges, size):
                    share = probability * (1 - dropout) ** size * dropout ** (len(merges) - size)
                    if kept:
                        _, place = min(kept)
                        joined = pieces[place] + pieces[place + 1]
                        following[*pieces[:place], joined, *pieces[place + 2 :]] += share
                    else:
                        ended[pieces] += share
        reached = following
    return ended


MERGES = ["ab", "cd", "bc", "abc", "abcd", "aa", "aaab"]
SCORES = {piece: -float(rank) for rank, piece in enumerate(MERGES)}


@pytest.mark.parametrize("word", ["abcd", "aaabcdx", "ababcd"])
@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_dropout_has_the_probabilities_of_the_papers_algorithm(word, dropout):
    probabilities = dropout_probabilities(word, SCORES, dropout)
    assert math.isclose(sum(probabilities.values()), 1)
    random, splitter = generator(), BpeDropout(SCORES, set(), dropout)
    counts = Counter(tuple(splitter.split(word, random.random)) for _ in range(1_500))
    check_counts(counts, probabilities)


def test_dropout_of_subword_nmt_has_the_same_probabilities():
    codes = "#version: 0.2\nb c\na b\nc d\nab cd\n"
    scores = {line.replace(" ", ""): -float(rank) for rank, line in enumerate(codes.splitlines()[1:])}
    theirs = BPE(io.StringIO(codes))
    python_random.seed(0)
    lines = (theirs.process_line("abcdx", dropout=0.4) for _ in range(1_500))
    counts = Counter(tuple(line.replace("@@", "").split()) for line in lines)
    check_counts(counts, dropout_probabilities("abcdx", scores, 0.4))


def segmentations(word, scores):
    """All segmentations of a word in pieces."""
    if not word:
        yield ()
    for size in range(1, len(word) + 1):
        if word[:size] in scores:
            yield from ((word[:size], *others) for others in segmentations(word[size:], scores))


def unigram_probabilities(word, scores, alpha):
    """The probability of each segmentation, to the power alpha (Kudo 2018, section 3.2)."""
    weights = {
        pieces: math.exp(alpha * sum(scores[piece] for piece in pieces))
        for pieces in segmentations(word, scores)
    }
    return {pieces: weight / sum(weights.values()) for pieces, weight in weights.items()}


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1.0])
def test_unigram_samples_have_the_probabilities_of_the_segmentations(alpha):
    scores = {"a": -3.0, "b": -3.5, "c": -4.0, "ab": -5.0, "bc": -6.5, "abc": -7.0, "ca": -5.5}
    random, sampling = generator(), UnigramSampling(scores, alpha)
    counts = Counter(tuple(sampling.split("abcab", random.random)) for _ in range(1_500))
    check_counts(counts, unigram_probabilities("abcab", scores, alpha))


def test_unigram_samples_of_sentencepiece_have_the_same_probabilities():
    """Its samples have another seed in every process: the limit is one that chance does not reach."""
    model, alpha = trained("unigram").model, 0.3
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    tokens = [token for token, type_ in enumerate(piece_types(model)) if type_ == PieceType.NORMAL]
    scores = dict(zip(processor.id_to_piece(tokens), processor.get_score(tokens), strict=True))
    probabilities = unigram_probabilities("▁street", scores, alpha)
    theirs = (
        processor.encode("street", out_type=str, enable_sampling=True, alpha=alpha, nbest_size=-1)
        for _ in range(1_500)
    )
    check_counts(Counter(map(tuple, theirs)), probabilities, deviations=20)
    ours, random = SegmentationSampler(model, alpha), generator()
    counts = Counter(tuple(processor.id_to_piece(ours.sample("street", random))) for _ in range(1_500))
    check_counts(counts, probabilities)


def test_dropout_of_sentencepiece_is_the_same_where_a_merge_has_one_chance():
    """SentencePiece leaves a merge out for good, the paper at one step.

    The two are one where a step has one possible merge, as in the word of this test.
    """
    scores = {"ab": -1.0, "abc": -2.0, "abcd": -3.0, "▁abcd": -4.0}

    def replace_pieces(proto):
        del proto.pieces[END + 1 :]
        for piece, score in (scores | dict.fromkeys("▁abcd", -9.0)).items():
            proto.pieces.add(piece=piece, score=score)

    model = changed(trained("bpe", byte_fallback=False).model, replace_pieces)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    probabilities = dropout_probabilities("▁abcd", scores, 0.3)
    theirs = (
        processor.encode("abcd", out_type=str, enable_sampling=True, alpha=0.3, nbest_size=-1)
        for _ in range(1_500)
    )
    check_counts(Counter(map(tuple, theirs)), probabilities, deviations=20)


@pytest.mark.short_form(1)
def test_another_process_has_the_same_samples_of_a_seed(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "a.model")
    program = (
        "import sys, numpy as np\n"
        "from pathlib import Path\n"
        "from dragoman.text.segmentation_sampling import SegmentationSampler\n"
        "sampler = SegmentationSampler(Path(sys.argv[1]).read_bytes(), 0.3)\n"
        "randoms = map(np.random.default_rng, ([7, n] for n in range(len(sys.argv))))\n"
        "print(list(map(sampler.sample, sys.argv[2:], randoms)))\n"
    )
    texts = [replace_surrogates(text) for text in TEXTS]
    ran = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "a.model", *texts],
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS,
        check=True,
    )
    ours = SegmentationSampler(tokenizer.model, 0.3)
    assert ran.stdout == f"{[ours.sample(text, generator([7, n])) for n, text in enumerate(texts)]}\n"


# ---- reading a model


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "char"])
def test_kind_and_types_are_those_that_protobuf_reads(kind):
    model = trained(kind).model
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    assert model_kind(model) == kind
    assert piece_types(model) == [piece.type for piece in proto.pieces]
    assert b"".join(field.encoded for field in read_fields(model)) == model


def test_fields_of_every_wire_type_are_read():
    message = b"\x08\x96\x01" + b"\x11" + bytes(8) + b"\x1a\x02hi" + b"\x25" + bytes(4)
    fields = [(field.number, field.value) for field in read_fields(message)]
    assert fields == [(1, 150), (2, bytes(8)), (3, b"hi"), (4, bytes(4))]


@given(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=4))
def test_of_a_number_that_is_written_several_times_the_last_counts(numbers):
    """Whether within a message or in several messages of one field."""
    names = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
    apart = b"".join(bytes([0x12, 2, 0x18, number]) for number in numbers)
    joined = bytes([0x12, 2 * len(numbers)]) + b"".join(bytes([0x18, number]) for number in numbers)
    assert model_kind(apart) == model_kind(joined) == names[numbers[-1]]
    piece = bytes([0x0A, 2 * len(numbers)]) + joined[2:]
    assert piece_types(piece * 2) == [PieceType(numbers[-1])] * 2
