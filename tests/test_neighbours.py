"""The nearest tokens: those with the greatest cosine, and never the token itself."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman import SearchSettings
from dragoman.inspection.inspect import inspect
from dragoman.inspection.record.inspected import one_transformer
from dragoman.inspection.record.neighbours import NEAREST, nearest, neighbours
from dragoman.inspection.schema import to_json
from dragoman.inspection.views.drawing import visible
from dragoman.system.errors import DragomanError
from dragoman.text.settings import TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import Tokenizers
from dragoman_paper.figures.neighbours_picture import neighbours_picture, piece_note
from tests.conftest import MODELS
from tests.test_inspection import LINES, TRANSFORMERS, translator_of

SEARCH = SearchSettings(max_extra_tokens=3)


@pytest.fixture(scope="module", params=TRANSFORMERS)
def translator(request):
    return translator_of(MODELS[request.param])


def cosine(one, other):
    return float(one @ other / (one.norm() * other.norm()))


def test_they_are_those_of_brute_force():
    torch.manual_seed(1)
    weights = torch.randn(40, 6, dtype=torch.float64)
    for token, found in zip([3, 0, 39], nearest(weights, [3, 0, 39]), strict=True):
        every = [(cosine(weights[token], row), other) for other, row in enumerate(weights) if other != token]
        best = sorted(every, reverse=True)[:NEAREST]
        assert [other for other, _ in found] == [other for _, other in best]
        assert [value for _, value in found] == pytest.approx([value for value, _ in best], abs=1e-12)


def test_a_copy_is_nearest_and_the_token_itself_is_left_out():
    weights = torch.randn(9, 4)
    weights[5] = 2 * weights[2]
    ((first, *others),) = nearest(weights, [2])
    assert first == (5, pytest.approx(1))
    assert 2 not in [first[0], *(other for other, _ in others)]


def test_a_row_of_zeros_has_cosine_0_and_a_small_vocabulary_has_fewer():
    weights = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    assert nearest(weights, [1, 0]) == [[(0, 0.0), (2, 0.0)], [(1, 0.0), (2, 0.0)]]


def test_parts_that_are_tied_are_one_matrix(translator):
    model, (source, target) = one_transformer(translator), (LINES[0].split(), LINES[1].split())
    ids = [
        [token for row in side.encode(words) for token in row]
        for side, words in ((translator.tokenizers.source, source), (translator.tokenizers.target, target))
    ]
    found = neighbours(model, translator.tokenizers, *ids)
    tied = {"all": 1, "target": 2, "none": 3}[model.settings.tied]
    assert len(found) == tied
    assert [part for matrix in found for part in matrix.parts] == [
        "source embedding",
        "target embedding",
        "output projection",
    ]
    for matrix in found:
        assert all(len(near) == NEAREST for _, near in matrix.tokens)
        assert all(token not in [other for other, _ in near] for token, near in matrix.tokens)


def test_an_inspection_has_those_of_its_tokens(translator):
    found = inspect(translator, LINES[0], SEARCH)
    shown = {part: [token for token, _ in each.tokens] for each in found.neighbours for part in each.parts}
    assert set(found.source) <= set(shown["source embedding"])
    assert set(found.target) <= set(shown["output projection"])
    table = to_json(found)["neighbours"]
    assert [tuple(each["parts"]) for each in table] == [each.parts for each in found.neighbours]


def test_an_inspection_has_the_numbers_of_its_tokens(translator):
    found = inspect(translator, LINES[0], SEARCH)
    for side in ("source", "target"):
        ids = getattr(found, f"{side}_ids")
        pieces = getattr(translator.tokenizers, side).pieces(ids)
        assert (tuple(pieces), ids) == (getattr(found, side), tuple(to_json(found)[side]["ids"]))


@pytest.fixture(scope="module")
def vocabularies():
    """Of pieces, of words, and of characters."""
    pieces = translator_of(MODELS["transformer"]).tokenizers.source
    return pieces, *(Tokenizer.train(["ab b"], kind, TokenizerSettings(), 9) for kind in ("word", "char"))


@given(st.text("abMn\u200b\ufeff", min_size=1, max_size=3), st.permutations(range(3)))
def test_a_note_tells_what_tokens_a_word_has_and_on_which_side(vocabularies, word, order):
    sides = dict(zip(("source", "target"), (vocabularies[place] for place in order), strict=False))
    pieces = {name: side.pieces(side.encode([word])[0]) for name, side in sides.items()}
    texts = {name: " ".join(map(visible, each)) or "none" for name, each in pieces.items() if len(each) != 1}
    note = piece_note(Tokenizers(**sides), word)
    if not texts:
        assert note == ""
    elif not any(pieces.values()):
        assert note == f"{visible(word)} has no tokens."
    else:
        assert note.startswith(f"{visible(word)} is not a single token; its tokens are ")
        listed, _, where = note.partition("its tokens are ")[2].rstrip(".").partition(" (in the ")
        alike = len(texts) == 2 and len(set(texts.values())) == 1
        assert listed.split(" and ") == ([texts["source"]] if alike else [*texts.values()])
        assert where.rstrip(")").split(" and in the ") == ([""] if alike else [*texts])


def test_words_without_any_token_are_refused(translator):
    for word in ("\u200b", "\ufeff \u200b"):
        with pytest.raises(DragomanError, match="The vocabularies have no token of the text"):
            neighbours_picture(translator, word)
    picture = neighbours_picture(translator, "\u200b Mann")
    assert "U+200B has no tokens." in picture


def test_a_word_of_several_tokens_is_said_to_be_none(translator):
    assert piece_note(translator.tokenizers, "zz").startswith("zz is not a single token; its tokens are ")
    pieces = translator.tokenizers.source
    word = next(
        piece[1:] for piece in pieces.pieces(range(len(pieces))) if piece[0] == "▁" and len(piece) > 2
    )
    assert piece_note(translator.tokenizers, word) == ""
