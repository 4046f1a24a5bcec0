"""The two ONNX graphs in onnxruntime compute the same as the model."""

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
pytestmark = pytest.mark.long  # tests/test_readme.py exports the paper's, which is verified


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


def test_the_graphs_give_the_models_log_probabilities_and_translations(exported):
    from dragoman.interop.onnx import engine

    model, tokenizers, folder = exported
    assert (
        verify(engine(folder), model, tokenizers, [*SOURCE, *samples(tokenizers, about_longest(folder))])
        < 1e-5
    )


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


def test_a_sample_longer_than_the_table_of_positions_is_refused(exported):
    from dragoman.interop.onnx import engine

    model, tokenizers, folder = exported
    with pytest.raises(
        DragomanError, match="and onnxruntime with this model reads and writes at most 60; give shorter ones"
    ):
        verify(engine(folder), model, tokenizers, ["Mann " * 60])
