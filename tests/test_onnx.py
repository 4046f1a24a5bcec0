"""The two ONNX graphs in onnxruntime compute the same as the model.

What is exported, before it is traced, is tested in the short form.
"""

import json
import logging

import numpy
import onnxruntime
import pytest
import torch

from dragoman.interop.verify import samples, verify
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END, PAD, START, UNKNOWN
from dragoman.system.errors import DragomanError
from dragoman.text.batches import pad
from dragoman.translation.model_folder import Tokenizers
from tests.test_huggingface import SIZES, SOURCE, ours

SETTINGS = ModelSettings(
    **SIZES,
    d_k=5,
    d_v=7,
    norm="pre",
    activation="swish",
    attention_bias=True,
    output_bias=True,
    positions="learned",
    max_positions=60,
    tied="none",
    source_end=False,
)
KINDS = {
    "learned positions, other widths, no END": SETTINGS,
    "as in the paper": ModelSettings(**SIZES),
    "fairseq's": ModelSettings(
        **SIZES, positions="sinusoidal-tensor2tensor", first_position=2, tied="target"
    ),
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model, its tokenizers and the folder of its graphs."""
    from dragoman.interop.onnx import write  # its import takes a second

    model, tokenizers = ours(SETTINGS)
    folder = tmp_path_factory.mktemp("onnx")
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        write(model, tokenizers, folder)
        assert logging.root.manager.disable == logging.INFO
    finally:
        logging.disable(before)
    return model, tokenizers, folder


@pytest.mark.long
def test_the_description_has_the_special_ids_and_the_sizes_of_the_cache(exported):
    _, _, folder = exported
    about = json.loads((folder / "dragoman.json").read_text())
    special = [about[name] for name in ("pad", "unknown", "start", "end")]
    assert special == [PAD, UNKNOWN, START, END]
    assert about["never_written"] == [PAD, START]
    decoder = onnxruntime.InferenceSession(str(folder / "decoder.onnx"))
    shapes = {each.name: each.shape for each in decoder.get_inputs()}
    sizes = about["cache"]
    for name, width in (("keys", "d_k"), ("values", "d_v")):
        shape = shapes[name]
        assert (shape[0], shape[2], shape[4]) == (sizes["layers"], sizes["heads"], sizes[width])


def about_longest(folder):
    """Tokens of the longest text that the graphs can read."""
    return json.loads((folder / "dragoman.json").read_text())["longest"]


@pytest.mark.long
def test_the_graphs_give_the_models_log_probabilities_and_translations(exported):
    from dragoman.interop.onnx import engine

    model, tokenizers, folder = exported
    assert (
        verify(engine(folder), model, tokenizers, [*SOURCE, *samples(tokenizers, about_longest(folder))])
        < 1e-5
    )


@pytest.mark.long
def test_padding_does_not_change_the_logits(exported):
    model, tokenizers, folder = exported
    ids = [[*row, END] for row in tokenizers.source.encode(SOURCE)]
    encoder, decoder = (
        onnxruntime.InferenceSession(str(folder / f"{half}.onnx")) for half in ("encoder", "decoder")
    )

    def logits(rows):
        source = pad(rows).numpy()
        names = ("memory_keys", "memory_values")
        memory = dict(zip(names, encoder.run(None, {"source": source}), strict=True))
        cache = {
            name: memory[whole][:, :, :, :0] for name, whole in zip(("keys", "values"), names, strict=True)
        }
        return decoder.run(
            None, {"token": numpy.full((len(rows), 1), START), "source": source, **memory, **cache}
        )[0]

    together = logits(ids)
    assert PAD in pad(ids)
    numpy.testing.assert_allclose(together, numpy.concatenate([logits([row]) for row in ids]), atol=1e-5)
    features, _ = model.decode(torch.full((len(ids), 1), START), model.encode(pad(ids)))
    numpy.testing.assert_allclose(together, model.logits(features[:, 0]).detach(), atol=1e-5)


@pytest.mark.long
def test_a_sample_longer_than_the_table_of_positions_is_refused(exported):
    from dragoman.interop.onnx import engine

    model, tokenizers, folder = exported
    with pytest.raises(
        DragomanError, match="and onnxruntime with this model reads and writes at most 60; give shorter ones"
    ):
        verify(engine(folder), model, tokenizers, ["Mann " * 60])


# ---- without a trace


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_token_at_a_time_gives_the_logits_of_all_tokens_at_once(kind):
    """Of sources of different lengths in one batch, whose padding changes nothing."""
    from dragoman.interop.onnx import DecoderStep, Encoder, exportable

    model, tokenizers = ours(KINDS[kind])
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    exported = exportable(model)
    encoder, decoder = Encoder(exported), DecoderStep(exported)
    source = pad([[*row, END] for row in tokenizers.source.encode(SOURCE)])
    assert PAD in source
    target = torch.randint(END + 1, len(tokenizers.target), (len(source), 5))
    target[:, 0] = START
    memory = encoder(source)
    keys, values = (part[:, :, :, :0] for part in memory)
    features, _ = model.decode(target, model.encode(source))
    for number, token in enumerate(target.unbind(1)):
        logits, keys, values = decoder(token[:, None], source, *memory, keys, values)
        torch.testing.assert_close(logits, model.logits(features[:, number]), atol=1e-5, rtol=0)
        assert keys.size(3) == values.size(3) == number + 1
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


@pytest.mark.parametrize("kind", KINDS)
def test_the_description_and_the_tokenizers_are_those_of_the_model(kind, tmp_path):
    from dragoman.interop.onnx import POSITIONS, Encoder, exportable, write_description

    model, tokenizers = ours(KINDS[kind])
    write_description(model, tokenizers, tmp_path)
    assert Tokenizers.load(tmp_path) == tokenizers
    about = json.loads((tmp_path / "dragoman.json").read_text())
    special = [about[name] for name in ("pad", "unknown", "start", "end", "never_written")]
    assert special == [PAD, UNKNOWN, START, END, [PAD, START]]
    assert about["longest"] == (60 if kind.startswith("learned") else POSITIONS)
    keys, values = Encoder(exportable(model))(torch.full((3, 4), END))
    sizes = about["cache"]
    assert keys.shape == (sizes["layers"], 3, sizes["heads"], 4, sizes["d_k"])
    assert values.shape == (*keys.shape[:4], sizes["d_v"])
