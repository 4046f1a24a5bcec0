"""The Python of the pages and of CONTRIBUTING runs on a small model.

tests/test_readme.py runs the README's, tests/test_docs_run.py the commands of all pages.
"""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient
from torch.nn import functional

from dragoman.inspection.record.masks import PADDING
from dragoman.inspection.schema import to_json
from dragoman.inspection.views import described
from dragoman.model.attention import KeysValues
from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.model.transformer import Transformer, make_attention
from dragoman.model.variants import SCORES
from dragoman.serving.errors import ApiError
from dragoman.serving.openapi import describe
from dragoman.text.settings import LanguagePair, TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import Tokenizers, save_model
from tests.test_described_views import numbers_of
from tests.test_docs import DOCS, PAGES, ROOT, blocks
from tests.test_report import fake_inspection

WITH_TRANSFORMERS = DOCS / "interop.md"  # its import takes seconds
LONG = ("python", "terms")  # pages
PATHS = [
    pytest.param(path, marks=pytest.mark.long) if path.stem in LONG else path
    for path in PAGES
    if blocks(path, "python") and path != WITH_TRANSFORMERS
]
PAIRS = LanguagePair("en", "de", "<2de>"), LanguagePair("en", "fr", "<2fr>")
TEXT = ["A man rides a bike.", "Ein Mann fährt Rad.", "amber"]


@pytest.fixture(scope="module")
def model():
    """A random model and its tokenizers."""
    tokenizer = Tokenizer.train(TEXT * 5, "bpe", TokenizerSettings(), 320, [pair.symbol for pair in PAIRS])
    torch.manual_seed(0)
    settings = ModelSettings(d_model=16, d_ff=24, heads=2, encoder_layers=1, decoder_layers=1)
    return Transformer(settings, len(tokenizer), len(tokenizer)).eval(), Tokenizers(tokenizer, tokenizer)


@pytest.fixture
def folder(model, tmp_path, monkeypatch):
    """A folder with the model that the pages name, as the current one; what they train has its size."""
    network, tokenizers = model
    monkeypatch.setitem(PRESETS, "tiny", network.settings)
    for name, pairs in (("ende", ()), ("en-x", PAIRS)):
        about = {"longest_trained": 40, "pairs": pairs}
        save_model(tmp_path / "runs" / name, network, network.settings, tokenizers, **about)
    (tmp_path / "test.en").write_text(f"{TEXT[0]}\n{TEXT[2]}\n")
    for language, text in zip(("en", "de"), TEXT[:2], strict=True):
        (tmp_path / f"train.{language}").write_text(f"{text}\n{text} {text}\n" * 50)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(path):
    """Run the blocks of a page one after the other, with the same names, in short form."""
    names = {}
    for code in blocks(path, "python"):
        exec(compile(re.sub(r"minutes=1\b", "minutes=0.01", code), path.name, "exec"), names)
    return names


@pytest.mark.short_form(4)
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_python_of_a_page_runs(path, folder):
    assert run(path)


def test_the_score_that_contributing_adds_is_the_papers_of_unit_vectors(monkeypatch):
    monkeypatch.setitem(SCORES, "cosine", run(ROOT / "CONTRIBUTING.md")["CosineAttention"])
    cosine, paper = (
        make_attention(ModelSettings(d_model=6, heads=2), SCORES[score]).double()
        for score in ("cosine", None)
    )
    cosine.load_state_dict(paper.state_dict())
    query, key, value = torch.randn(3, 1, 2, 5, 3, dtype=torch.float64)
    units = functional.normalize(query, dim=-1), functional.normalize(key, dim=-1)
    expected = paper.attend(3 * units[0], KeysValues(units[1], value), causal=True)
    torch.testing.assert_close(cosine.attend(query, KeysValues(key, value), causal=True), expected)


def test_the_bound_that_contributing_adds_keeps_the_tokens_that_are_nearly_as_likely():
    likely_tokens = run(ROOT / "CONTRIBUTING.md")["likely_tokens"]
    logits = torch.randn(4, 3, 50, dtype=torch.float64)
    p = logits.softmax(-1)
    for min_p in (0.01, 0.3, 0.9):
        kept = likely_tokens(logits, min_p)
        assert ((kept == logits) == (p >= min_p * p.amax(-1, keepdim=True))).all()
        assert ((kept == logits) | (kept == -torch.inf)).all()


def test_the_view_that_contributing_adds_names_its_numbers(monkeypatch):
    causal_view = run(ROOT / "CONTRIBUTING.md")["causal_view"]
    monkeypatch.setattr(described, "VIEWS", (causal_view,))
    inspection = fake_inspection(5, 4, 2, 2, 8)
    table = json.loads(json.dumps(to_json(inspection)))
    (heat_map,) = table["views"]["causal"]["maps"]
    numbers = numbers_of(table, heat_map)
    assert numbers.shape == (4 + PADDING, 4 + PADDING)
    np.testing.assert_array_equal(numbers[:4, :4], np.tri(4))
    assert causal_view(replace(inspection, masks=None)) is None


def test_the_route_that_contributing_adds_answers_and_is_described():
    (route,) = run(ROOT / "CONTRIBUTING.md")["api"].routes
    client = TestClient(Starlette(routes=[Route(route.path, route, methods=route.methods)]))
    assert client.post("/v1/count", json={"text": "A man rides."}).json() == {"words": 3}
    with pytest.raises(ApiError, match="text: Field required"):
        client.post("/v1/count", json={})
    schemas = describe([route], [], [])["components"]["schemas"]
    assert schemas["CountResponse"]["properties"]["words"]["type"] == "integer"


@pytest.mark.long
def test_python_of_an_exported_model_runs(model, tmp_path, monkeypatch):
    pytest.importorskip("transformers", reason="transformers is missing: pip install 'dragoman[huggingface]'")
    from dragoman.interop import huggingface

    (tmp_path / "ende-huggingface").mkdir()
    huggingface.write(*model, tmp_path / "ende-huggingface")
    monkeypatch.chdir(tmp_path)
    assert run(WITH_TRANSFORMERS)["ids"].numel() > 0
