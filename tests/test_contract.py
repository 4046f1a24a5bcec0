"""The contract of decoding with PyTorch: batches and threads change no text, and scores by rounding alone."""

import itertools

import pytest
import torch

from dragoman import SearchSettings, Translator
from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman.system.errors import DragomanError
from dragoman.text.settings import TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import Tokenizers, save_model

WORDS = ["a", "man", "two", "dogs", "play", "der", "Schnee", "ist", "kalt", "rides", "bike", "fährt"]
LINES = [
    " ".join(WORDS[(3 * number + step * (number % 5 + 1)) % len(WORDS)] for step in range(number % 11 + 1))
    for number in range(36)
]
NATS = 1e-4
"""How far a score, and the log-probability of a token, may differ between batches in float32."""


def save_random_model(run, kind, seed=0):
    """A model whose choices differ in the folder of a run, with a vocabulary of such tokens."""
    tokenizer = Tokenizer.train(LINES, kind, TokenizerSettings(), 320)
    settings = ModelSettings(d_model=32, d_ff=64, heads=4, encoder_layers=2, decoder_layers=2)
    torch.manual_seed(seed)
    model = build_model(settings, len(tokenizer), len(tokenizer))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2)
    save_model(run / "model", model, settings, Tokenizers(tokenizer, tokenizer))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    save_random_model(folder, "bpe")
    return folder


SEARCHES = [
    pytest.param(SearchSettings(beam_size=1, max_extra_tokens=8), marks=pytest.mark.long),
    SearchSettings(beam_size=4, n_best=4, max_extra_tokens=8),
    pytest.param(SearchSettings(beam_size=4, groups=2, max_extra_tokens=8), marks=pytest.mark.long),
    pytest.param(SearchSettings(temperature=1.0, n_best=3, max_extra_tokens=8), marks=pytest.mark.long),
]


@pytest.mark.short_form(1)
@pytest.mark.parametrize("search", SEARCHES, ids=["greedy", "beam", "groups", "draws"])
def test_no_batch_and_no_number_of_threads_changes_a_text_by_pytorch(run, search):
    lines, found = LINES[::4], []
    for workers, batch_tokens in ((1, 1), (1, 32_000), (3, 200)):
        translator = Translator.load(run, native=False, workers=workers)
        found.append(translator.n_best(lines, search, batch_tokens=batch_tokens))
    for other in found[1:]:
        for one, same in zip(itertools.chain(*found[0]), itertools.chain(*other), strict=True):
            assert one.text == same.text
            summed = NATS * len(one.tokens)
            assert one.log_probability == pytest.approx(same.log_probability, abs=summed, rel=0)
            assert one.score == pytest.approx(same.score, abs=summed if search.temperature else NATS, rel=0)
    assert len({best[0].text for best in found[0]}) > len(set(lines)) // 2


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ("ab", "A list of pairs of texts is needed, and this is str"),
        (zip(["a"], ["b"], strict=True), "A list of pairs of texts is needed, and this is zip"),
        (["ab"], r"Pair 0 \(counted from 0\) is 'ab'; it has to be a source and a target"),
        ([("a", "b"), ("a",)], r"Pair 1 \(counted from 0\) is \('a',\)"),
        ([("a", None)], r"Pair 0 .* is \('a', None\)"),
        ([("a", b"b")], r"Pair 0 .* is \('a', b'b'\)"),
        ([(5, "b")], r"Pair 0 .* is \(5, 'b'\)"),
    ],
)
def test_what_is_no_list_of_pairs_is_refused(run, pairs, message):
    translator = Translator.load(run)
    for read in (translator.score, translator.align):
        with pytest.raises(DragomanError, match=message):
            read(pairs)


def test_words_are_aligned_in_texts_alone(run):
    with pytest.raises(DragomanError, match=r"The target of pair 1 \(counted from 0\) is a list of tokens"):
        Translator.load(run).align([(LINES[0], LINES[0]), (LINES[0], ["a"])])


def test_scoring_by_pytorch_does_not_depend_on_the_batch(run):
    translator = Translator.load(run, native=False)
    pairs = list(zip(LINES, LINES[::-1], strict=True))
    alone = [translator.score([pair])[0] for pair in pairs]
    for likelihood, other in zip(translator.score(pairs), alone, strict=True):
        assert likelihood.tokens == other.tokens
        assert likelihood.log_probabilities == pytest.approx(other.log_probabilities, abs=NATS, rel=0)
