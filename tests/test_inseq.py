"""inseq gives the same attributions of an exported model, where both have the same definition.

What has to be the same for it (docs/inspection-compared.md says what differs as it comes):

- inseq's integrals begin at the embedding of the unknown token, which is therefore 0 in these models, and by
  default leave END out (`include_eos_baseline`).
- transformers multiplies the embeddings that it is given for the decoder by √d_model. inseq gives it scaled
  ones, so the decoder must not scale again.
- Our log-probabilities are of the tokens that search may choose: never PAD or START.

inseq attributes to embeddings times √d_model, which changes gradients, but not gradients × inputs.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from dragoman import Translator
from dragoman.inspection.analyse.attribution import attribute
from dragoman.inspection.analyse.value_zeroing import value_zeroing
from dragoman.interop import huggingface
from dragoman.model.symbols import PAD, START, UNKNOWN
from tests.test_huggingface import OURS, SOURCE, TARGET, ours

inseq = pytest.importorskip("inseq", reason="inseq is missing: pip install inseq")
ValueZeroing = pytest.importorskip("inseq.attr.feat.ops.value_zeroing").ValueZeroing
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("default")]
MODELS = {
    "the paper's": OURS["the paper's"],
    "unscaled": replace(OURS["Marian's positions"], tied="all"),
}


@pytest.fixture(scope="module", params=MODELS)
def both(request, tmp_path_factory):
    """A translator in float64, and inseq's wrapping of the same model."""
    folder = tmp_path_factory.mktemp("there")
    model, tokenizers = ours(MODELS[request.param])
    with torch.no_grad():
        model.source_embedding.weight[UNKNOWN] = 0
    huggingface.write(model, tokenizers, folder)
    theirs = inseq.load_model(str(folder), "integrated_gradients")
    theirs.model.double()
    theirs.model.get_decoder().embed_scale = 1.0
    theirs.model.final_logits_bias[:, [PAD, START]] = -1e9
    return Translator.from_model(model.double(), tokenizers), theirs


def attributed(theirs, method, **options):
    """What inseq finds for log P of each target token: [T S D]."""
    log_prob = {"attributed_fn": "probability", "logprob": True}
    found = theirs.attribute(SOURCE[0], TARGET[0], method=method, show_progress=False, **log_prob, **options)
    return found[0].source_attributions.transpose(0, 1).numpy()


def test_gradient_times_input_is_that_of_inseq(both):
    translator, theirs = both
    found = attribute(translator, SOURCE[0], TARGET[0], steps=1)
    expected = attributed(theirs, "input_x_gradient").sum(-1)
    np.testing.assert_allclose(found.of("gradient-input"), expected, atol=1e-5)


def test_integrated_gradients_are_those_of_inseq(both):
    translator, theirs = both
    found = attribute(translator, SOURCE[0], TARGET[0], steps=8)
    expected = attributed(theirs, "integrated_gradients", n_steps=8, include_eos_baseline=True).sum(-1)
    np.testing.assert_allclose(found.of("integrated-gradients"), expected, atol=1e-5)


@pytest.mark.parametrize("method", ["sequential-integrated-gradients", "discretized-integrated-gradients"])
def test_other_integrated_gradients_are_those_of_inseq(both, method):
    translator, theirs = both
    found = attribute(translator, SOURCE[0], TARGET[0], 8, methods=[method])
    options = {"n_steps": 8, "include_eos_baseline": True}
    expected = attributed(theirs, method.replace("-", "_"), **options).sum(-1)
    np.testing.assert_allclose(found.of(method), expected, atol=1e-5)


def test_deeplift_is_that_of_inseq(both):
    """Captum has no rule for Marian's Swish: its contributions are products of gradients then."""
    translator, theirs = both
    if translator.torch_backend.model.settings.activation != "relu":
        found = attribute(translator, SOURCE[0], TARGET[0], methods=["gradient-input"])
        expected = attributed(theirs, "deeplift", include_eos_baseline=True).sum(-1)
        np.testing.assert_allclose(found.of("gradient-input"), expected, atol=1e-5)
        return
    found = attribute(translator, SOURCE[0], TARGET[0], methods=["deeplift"])
    expected = attributed(theirs, "deeplift", include_eos_baseline=True).sum(-1)
    np.testing.assert_allclose(found.of("deeplift"), expected, atol=1e-5)


def test_saliency_is_the_norm_of_the_gradient(both):
    translator, theirs = both
    found, settings = (
        attribute(translator, SOURCE[0], TARGET[0], steps=1),
        translator.torch_backend.model.settings,
    )
    scale = math.sqrt(settings.d_model) if settings.scale_embeddings else 1.0
    expected = np.linalg.norm(attributed(theirs, "saliency"), axis=-1)
    np.testing.assert_allclose(found.of("saliency") / scale, expected, atol=1e-5)


def test_occlusion_is_that_of_inseq(both):
    translator, theirs = both
    found = attribute(translator, SOURCE[0], TARGET[0], steps=1)
    expected = attributed(theirs, "occlusion", include_eos_baseline=True)
    expected = expected[..., 0] if expected.ndim == 3 else expected
    np.testing.assert_allclose(np.abs(found.of("occlusion")), expected, atol=1e-5)  # theirs have no sign


def test_contributions_of_target_tokens_are_those_of_inseq(both):
    translator, theirs = both
    found = attribute(translator, SOURCE[0], TARGET[0], steps=1, with_prefix=True)
    options = {"attributed_fn": "probability", "logprob": True, "attribute_target": True}
    (theirs_found,) = theirs.attribute(
        SOURCE[0], TARGET[0], method="input_x_gradient", show_progress=False, **options
    )
    source = theirs_found.source_attributions.transpose(0, 1).sum(-1).numpy()
    prefix = theirs_found.target_attributions.transpose(0, 1).sum(-1).numpy()
    np.testing.assert_allclose(found.of("gradient-input")[:, : len(found.source)], source, atol=1e-5)
    ours = found.of("gradient-input")[:, len(found.source) :]
    np.testing.assert_allclose(ours, np.nan_to_num(prefix)[:, : len(found.prefix)], atol=1e-5)


def test_contributions_to_a_contrast_are_those_of_inseq(both):
    """For gradient × input: inseq has no integrals of a contrast."""
    translator, theirs = both
    others = attribute(translator, SOURCE[0], TARGET[1], steps=1).target  # as many as those of TARGET[0]
    found = attribute(translator, SOURCE[0], TARGET[0], steps=1, with_prefix=True, contrast=others)
    (theirs_found,) = theirs.attribute(
        SOURCE[0],
        TARGET[0],
        method="input_x_gradient",
        attribute_target=True,
        attributed_fn="contrast_prob_diff",
        logprob=True,
        contrast_targets=TARGET[1],
        show_progress=False,
    )
    source = theirs_found.source_attributions.transpose(0, 1).sum(-1).numpy()
    prefix = theirs_found.target_attributions.transpose(0, 1).sum(-1).numpy()
    np.testing.assert_allclose(found.of("gradient-input")[:, : len(found.source)], source, atol=1e-5)
    ours = found.of("gradient-input")[:, len(found.source) :]
    np.testing.assert_allclose(ours, np.nan_to_num(prefix)[:, : len(found.prefix)], atol=1e-5)


def test_contributions_of_encoder_layers_are_those_of_inseq(both):
    translator, theirs = both
    found = attribute(translator, SOURCE[0], TARGET[0], steps=1)
    options = {"attributed_fn": "probability", "logprob": True, "show_progress": False}
    for layer, module in enumerate(theirs.model.get_encoder().layers):
        theirs.get_attribution_method(
            "layer_gradient_x_activation", override_default_attribution=True, target_layer=module
        )
        (theirs_found,) = theirs.attribute(SOURCE[0], TARGET[0], **options)
        expected = theirs_found.source_attributions.transpose(0, 1).sum(-1).numpy()
        np.testing.assert_allclose(found.layers[layer], expected, atol=1e-5)
    theirs.get_attribution_method("integrated_gradients", override_default_attribution=True)


def test_attention_is_that_of_inseq(both):
    translator, theirs = both
    ours = translator.attention(SOURCE[0], TARGET[0])
    (found,) = theirs.attribute(SOURCE[0], TARGET[0], method="attention", show_progress=False)
    for shown, expected in (  # theirs are [keys queries layers heads]
        (ours.encoder, found.sequence_scores["encoder_self_attentions"]),
        (ours.decoder, found.sequence_scores["decoder_self_attentions"]),
        (ours.cross, found.source_attributions),
    ):
        np.testing.assert_allclose(shown, expected.permute(2, 3, 1, 0), atol=1e-5)


def test_value_zeroing_is_that_of_inseq(both, monkeypatch):
    """inseq 0.7.1 expects tuples from layers, which give tensors in transformers 5; it takes distances below
    1e-5 as 0.
    """

    def keep_and_pass_on(method, block_idx, hidden_state_idx=0):
        def hook(_module, _inputs, output):
            method.corrupted_block_output_states[block_idx] = output.clone().float()
            return method.clean_block_output_states[block_idx].to(output)

        return hook

    monkeypatch.setattr(ValueZeroing, "get_states_extract_and_patch_hook", keep_and_pass_on)
    translator, theirs = both
    ours = value_zeroing(translator, SOURCE[0], TARGET[0])
    (found,) = theirs.attribute(SOURCE[0], TARGET[0], method="value_zeroing", show_progress=False)
    for shown, expected in (  # theirs are [keys queries layers]
        (ours.encoder, found.sequence_scores["encoder_self_scores"]),
        (ours.decoder, found.sequence_scores["decoder_self_scores"]),
        (ours.cross, found.source_attributions),
    ):
        np.testing.assert_allclose(shown, expected.permute(2, 1, 0).nan_to_num(), atol=1e-3)
