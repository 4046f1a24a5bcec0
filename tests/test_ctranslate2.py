"""What leaves for CTranslate2 predicts there what it predicts here."""

import ctranslate2
import pytest
import torch

from dragoman.decoding.translator import encoded
from dragoman.errors import DragomanError
from dragoman.interop.ctranslate2 import specification, write
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import START
from dragoman.model.transformer import Transformer
from dragoman.text.settings import TokenizerSettings
from dragoman.text.tokenizer import Tokenizer

LINES = ["ein Mann fährt Rad", "two dogs play in the snow", "der Schnee ist kalt", "a man rides a bike"]
SIZES = {"d_model": 16, "d_ff": 32, "heads": 2, "encoder_layers": 2, "decoder_layers": 1}
KINDS = {
    "the paper's": ModelSettings(**SIZES),
    "other options": ModelSettings(
        **SIZES, norm="pre", activation="swish", attention_bias=True, output_bias=True, positions="learned", tied="target"
    ),
    "unscaled": ModelSettings(**SIZES, scale_embeddings=False, activation="gelu", positions="sinusoidal-halves", tied="none"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_token_of_a_translation_is_as_likely_there_as_here(kind, tmp_path):
    torch.manual_seed(0)
    tokenizer = Tokenizer.train(LINES * 5, "bpe", TokenizerSettings(), 330)
    model = Transformer(KINDS[kind], len(tokenizer), len(tokenizer))
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.05)
    tokens = tokenizer.pieces(range(len(tokenizer)))
    write(specification(model, tokens, tokens), tmp_path / "theirs")
    sources, targets = ([tokenizer.pieces(ids) for ids in tokenizer.encode(texts)] for texts in (LINES, LINES[::-1]))
    theirs = ctranslate2.Translator(str(tmp_path / "theirs"), compute_type="float32", intra_threads=1).score_batch(sources, targets)
    for source, target, found in zip(encoded(tokenizer, LINES), encoded(tokenizer, LINES[::-1]), theirs, strict=True):
        features, _ = model.eval().decode(torch.tensor([[START, *target[:-1]]]), model.encode(torch.tensor([source])))
        log_p = model.logits(features[0]).log_softmax(-1).gather(1, torch.tensor(target)[:, None])[:, 0]
        assert log_p.tolist() == pytest.approx(found.log_probs, abs=1e-4)


def test_heads_of_another_width_are_refused():
    tokens = [str(number) for number in range(9)]
    with pytest.raises(DragomanError, match="heads of width d_model / heads = 8 alone, and this model's d_k is 4, its d_v 8"):
        specification(Transformer(ModelSettings(**SIZES, d_k=4), 9, 9), tokens, tokens)
