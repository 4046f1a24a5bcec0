"""Descriptions of views name the arrays that their pictures draw."""

import json
from dataclasses import replace

import numpy as np

from dragoman.inspection.analyse.attribution import Attribution
from dragoman.inspection.analyse.methods import METHODS
from dragoman.inspection.analyse.value_zeroing import ValueZeroing
from dragoman.inspection.record.masks import PADDING
from dragoman.inspection.schema import array_from_json, to_json
from dragoman.inspection.views.described import VIEWS
from tests.test_inspection import array_from_bits
from tests.test_report import fake_inspection


def complete(inspection):
    """The inspection with all that described views show."""
    random = np.random.default_rng(3)
    sources, targets = len(inspection.source), len(inspection.target)
    shapes = (2, sources, sources), (2, targets, targets), (2, targets, sources)
    zeroing = ValueZeroing(*(random.uniform(size=shape).astype(np.float32) for shape in shapes))
    prefix = inspection.decoder_inputs
    contributions = {
        method: random.normal(size=(targets, sources + targets)).astype(np.float32) for method in METHODS
    }
    layers, totals = random.normal(size=(2, targets, sources)), random.normal(size=(2, targets))
    attribution = Attribution(inspection.source, inspection.target, prefix, contributions, layers, *totals)
    return replace(inspection, value_zeroing=zeroing, attribution=attribution)


def numbers_of(table, heat_map):
    """The numbers that the page draws for a map of a description."""
    name, key, *places = heat_map["data"]
    array = table[name][key]
    numbers = array_from_bits(array) if "bits" in array else array_from_json(array)
    return numbers[tuple(places)][:, heat_map["first_column"] :]


def test_maps_have_their_numbers_in_the_data():
    inspection = complete(fake_inspection(5, 4, 2, 2, 8))
    table = json.loads(json.dumps(to_json(inspection)))
    views = [make(inspection) for make in VIEWS]
    assert list(table["views"]) == [view.name for view in views]
    for view in views:
        described = table["views"][view.name]
        assert len(described["maps"]) == len(view.maps)
        for in_page, heat_map in zip(described["maps"], view.maps, strict=True):
            axes = in_page["rows"]["names"], in_page["columns"]["names"]
            shape = heat_map.values.shape
            assert shape == tuple(len(described["names"][axis]) + view.padding for axis in axes)
            np.testing.assert_allclose(numbers_of(table, in_page)[:, : shape[1]], heat_map.values, rtol=1e-3)


def test_a_view_of_what_an_inspection_does_not_have_is_not_described():
    inspection = fake_inspection(5, 4, 2, 2, 8)
    assert list(to_json(inspection)["views"]) == ["masks"]
    assert to_json(inspection)["views"]["masks"]["padding"] == PADDING
    assert to_json(replace(inspection, masks=None))["views"] == {}
