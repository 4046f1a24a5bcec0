"""A Marian model shows the same attention here and in transformers, which is what BertViz draws.

BertViz's encoder-decoder views take `encoder_attentions`, `decoder_attentions` and `cross_attentions` of a
model with `output_attentions`, a tensor [1 H Q K] a layer. They are compared for the inspected translation.
"""

import numpy as np
import pytest
import torch

from dragoman import SearchSettings, Translator
from dragoman.inspection.inspect import inspect
from dragoman.interop import huggingface
from dragoman.model.symbols import START
from tests.test_huggingface import SOURCE, THEIRS, marian

SEARCHES = [SearchSettings(max_extra_tokens=4), SearchSettings(max_extra_tokens=4, temperature=1.0, n_best=2)]


@pytest.mark.long
@pytest.mark.parametrize("kind", THEIRS)
def test_attention_is_that_of_transformers(kind, tmp_path):
    from transformers import AutoModelForSeq2SeqLM

    folder = marian(tmp_path / "theirs", **THEIRS[kind])
    imported = huggingface.read(folder)
    translator = Translator.from_model(imported.model.double().eval(), imported.tokenizers)
    theirs = AutoModelForSeq2SeqLM.from_pretrained(folder, attn_implementation="eager").double().eval()
    for line, settings in zip(SOURCE[:2], SEARCHES, strict=True):
        found = inspect(translator, line, settings)
        sides = imported.tokenizers.source, imported.tokenizers.target
        texts = found.source, found.target
        source, target = (side.ids(tokens) for side, tokens in zip(sides, texts, strict=True))
        rows = [
            torch.tensor([[vocabulary.rows[token] for token in ids]])
            for vocabulary, ids in zip(imported.vocabularies, (source, [START, *target[:-1]]), strict=True)
        ]
        with torch.no_grad():
            output = theirs(input_ids=rows[0], decoder_input_ids=rows[1], output_attentions=True)
        for shown, layers in (
            (found.attention.encoder, output.encoder_attentions),
            (found.attention.decoder, output.decoder_attentions),
            (found.attention.cross, output.cross_attentions),
        ):
            expected = torch.stack(layers)[:, 0].numpy()
            assert shown.shape == expected.shape
            np.testing.assert_allclose(shown, expected, atol=1e-5, rtol=0)
