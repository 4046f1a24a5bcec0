"""The map of the paper: every name, constant and test that it mentions exists, and every page shows it."""

import re

import pytest

from dragoman_paper.lab.frame.catalogue import names as experiment_names
from tools.docs import experiments
from tools.docs.paper_map import MAP, ROOT, Item, lines_of_code, lines_of_test, read_map, value_of

ITEMS = read_map()
PAGES = {path: path.read_text(encoding="utf-8") for path in MAP.parent.glob("*.md")}


@pytest.mark.parametrize("item", ITEMS.values(), ids=ITEMS)
def test_what_the_map_names_is_there(item):
    code = "\n".join(lines_of_code(name).text for name in item.code)
    assert all(part in code for part in item.contains), item.contains
    assert item.value is None or value_of(item.code[0]) == item.value
    assert item.tests
    assert all("def test_" in lines_of_test(name).text for name in item.tests)
    lab = ROOT / "src" / "dragoman_paper" / "lab"
    assert all((lab / f"{name.replace('-', '_')}.py").is_file() for name in item.lab)


def test_every_item_is_on_one_page_and_pages_have_no_others():
    shown = [
        name for text in PAGES.values() for name in re.findall(r"^```\{paper\} (\S+)$", text, re.MULTILINE)
    ]
    assert sorted(shown) == sorted(ITEMS)


def test_every_experiment_is_named_beside_what_it_is_about():
    listed = {name for item in ITEMS.values() for name in item.lab}
    linked = re.findall(r"\.\./experiments/([a-z0-9-]+)\.md", "".join(PAGES.values()))
    assert listed | {*linked} >= {*experiment_names()}


def test_an_experiment_links_to_the_code_that_it_is_about():
    pages = experiments.pages(ROOT)
    for name, item in ITEMS.items():
        assert all(f"(#paper-{name})" in pages[each] for each in item.lab)


@pytest.mark.parametrize("kind", ["equation", "table", "figure"])
def test_every_equation_table_and_figure_of_the_paper_is_in_the_map(kind):
    last = {"equation": 3, "table": 4, "figure": 5}[kind]
    assert {f"{kind}-{number}" for number in range(1, last + 1)} <= {*ITEMS}


def test_every_constant_of_the_paper_is_in_the_map():
    """N, d_model, d_ff, h, d_k, d_v, ε and so on, in the paper's order."""
    model = {"encoder-layers", "decoder-layers", "d-model", "d-ff", "heads", "head-width", "big"}
    text = {"wavelengths", "training-text", "vocabulary", "batch-tokens", "test-sets"}
    training = {"schedule-of-training", "adam", "warmup", "dropout", "big-french-dropout", "smoothing-value"}
    results = {"averaging", "checkpoint-interval", "beam-size", "alpha", "max-length", "training-cost"}
    parsing = {"table-4", "table-4-semi-supervised"}
    assert model | text | training | results | parsing <= {*ITEMS}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dragoman.model.attention.nothing", "src/dragoman/model/attention.py does not define nothing."),
        (
            "dragoman.model.attention.MultiHeadAttention.nothing",
            "does not define MultiHeadAttention.nothing.",
        ),
        ("nothing.at.all", "There is no module for nothing.at.all."),
        ("experiments/nothing.toml", "There is no file experiments/nothing.toml."),
    ],
)
def test_a_name_that_disappears_is_reported(name, message):
    with pytest.raises(LookupError, match=re.escape(message)):
        lines_of_code(name)


def test_a_test_that_disappears_is_reported():
    with pytest.raises(LookupError, match=r"tests/test_laws.py does not define test_nothing\."):
        lines_of_test("test_laws.py::test_nothing")
    with pytest.raises(LookupError, match=r"There is no tests/test_nothing.py\."):
        lines_of_test("test_nothing.py::test_nothing")


def test_only_a_plain_value_is_compared():
    assert value_of("dragoman.model.settings.ModelSettings.heads") == 8
    with pytest.raises(ValueError, match=r"dragoman.model.attention.attention has no plain value\."):
        value_of("dragoman.model.attention.attention")


def test_lines_have_decorators_and_the_docstring_of_a_field():
    assert lines_of_code("dragoman.model.settings.ModelSettings.key_width").text.startswith("    @property\n")
    assert '"""Number of attention heads' in lines_of_code("dragoman.model.settings.ModelSettings.heads").text
    assert Item("1", "what", ("dragoman",), ()).contains == ()
