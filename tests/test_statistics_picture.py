"""The picture of the statistics of heads has the numbers of `statistics`, in the order of the heads."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from dragoman.inspection.analyse.statistics import statistics
from dragoman.inspection.views.statistics_picture import COLUMNS
from dragoman.system.errors import DragomanError
from tests.test_pictures import KINDS, fake, opacity


def texts(svg):
    return [each.text for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("text")]


@pytest.mark.parametrize("kind", KINDS)
def test_each_number_is_drawn(kind):
    inspection = fake()
    tables, drawn = statistics(inspection)[kind], texts(inspection.svg("statistics", kind=kind))
    numbers = [float(text) for text in drawn if re.fullmatch(r"\d+\.\d{3}", text or "")]
    shown = np.array(numbers).reshape(len(tables), -1)
    np.testing.assert_allclose(shown, [table.ravel() for table in tables.values()], atol=5.1e-4)
    names = [COLUMNS[key] for key in tables]
    edge = "START" if kind == "decoder" else "END"
    assert [(edge if name == "END" else name) for name, _ in names] == [
        text for text in drawn if text in {name for name, _ in COLUMNS.values()} | {"START"}
    ]
    layers, heads = tables["entropy"].shape
    rows = [text for text in drawn if text and text.startswith("layer")]
    assert rows == [
        f"layer {layer}, head {head}" for layer in range(1, layers + 1) for head in range(1, heads + 1)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_shares_are_shaded_as_they_are_and_other_numbers_by_the_greatest_of_their_column(kind):
    inspection = fake()
    root = ElementTree.fromstring(inspection.svg("statistics", kind=kind))
    shapes = [each for each in root.iter() if each.tag.endswith("rect")]
    frames = [place for place, each in enumerate(shapes) if each.get("class") == "fill-zero stroke-grid"]
    found = [opacity(shapes[place + 1]) for place in frames]
    expected = [
        value / table.max() if name in ("entropy", "distance") else value
        for name, table in statistics(inspection)[kind].items()
        for value in table.flat
    ]
    np.testing.assert_allclose(found, expected, atol=0.0051)


def test_a_model_without_self_attention_has_only_encoder_decoder_attention():
    known = fake()
    empty = known.attention.encoder[:0], known.attention.decoder[:0]
    lacking = replace(known, attention=replace(known.attention, encoder=empty[0], decoder=empty[1]))
    assert "Encoder-decoder attention: statistics" in lacking.svg("statistics")
    for kind in ("encoder", "decoder"):
        with pytest.raises(
            DragomanError, match=f"This model has no {kind} self-attention; give --kind cross"
        ):
            lacking.svg("statistics", kind=kind)
