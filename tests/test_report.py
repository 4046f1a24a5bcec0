"""The report: one file that holds everything, loads nothing, and runs no text of the data.

With Chromium: every view, by pointer and by keyboard, in both themes and at a phone's width.
"""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from dragoman import SearchSettings
from dragoman.inspection.bundle import PAGE, VENDOR, bundle
from dragoman.inspection.inspection import Inspection
from dragoman.inspection.record.record import (
    AttentionWeights,
    ModuleSummary,
    ResidualStream,
    TokenProbability,
)
from dragoman.inspection.report import json_for_html, source_hash, to_html
from dragoman.inspection.schema import finite
from dragoman.model.settings import ModelSettings
from dragoman.search.trace import Node
from tests.browser import browser  # noqa: F401
from tests.projections import fake_masks, fake_neurons, fake_projections

MAX_BYTES = 1_500_000
MAX_MILLISECONDS = 20_000
HOSTILE = [
    "</script><script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    "${alert(1)}",
    "<!--",
    "\u200b",
    "\u202e",
    "مرحبا",
    "\ud800",
    "",
    "a b",
]
SOLID = ".lines line:not(.dashed)"  # of the word alignment; dashed ones are where a head differs
VIEWS = ["Beam", "Attention", "Positions", "Residual stream", "Neurons", "Masks", "Model"]


# A made-up inspection


def fake_inspection(
    source: int = 30, target: int = 30, layers: int = 6, heads: int = 8, d_model: int = 512
) -> Inspection:
    """An inspection with random numbers of the right shapes, whose tokens are numbered words."""
    random = np.random.default_rng(0)
    tokens = {side: word_tokens(side, size) for side, size in (("s", source), ("t", target))}
    nodes, path = fake_nodes(tokens["t"], random)
    causal = np.tril(np.ones((target, target), np.float32))
    lens = [[likeliest(token, random) for token in tokens["t"]] for _ in range(layers)]
    sizes = {"encoder": (source, 2), "decoder": (target, 3)}
    stream = {
        side: random.uniform(5, 30, (layers + 1, size)).astype(np.float32)
        for side, (size, _) in sizes.items()
    }
    stream |= {
        f"{side}_sublayers": random.uniform(1, 20, (layers, parts, size)).astype(np.float32)
        for side, (size, parts) in sizes.items()
    }
    return Inspection(
        sentence=" ".join(tokens["s"][:-1]),
        translation=" ".join(tokens["t"][:-1]),
        log_probability=nodes[path[-1]].log_probability,
        score=nodes[path[-1]].score,
        search=SearchSettings(),
        model=ModelSettings(d_model=d_model, heads=heads, encoder_layers=layers, decoder_layers=layers),
        source=tokens["s"],
        target=tokens["t"],
        source_words=tuple(range(source)),
        target_words=tuple(range(target)),
        nodes=nodes,
        best_path=path,
        candidates={
            number: likeliest(nodes[number].token, random)
            for number in range(len(nodes))
            if nodes[number].end is None
        },
        attention=AttentionWeights(
            encoder=softmax(random, (layers, heads, source, source)),
            decoder=softmax(random, (layers, heads, target, target), causal),
            cross=softmax(random, (layers, heads, target, source)),
        ),
        alignment=tuple((place, place) for place in range(min(source, target) - 1)),
        stream=ResidualStream(**stream),
        lens=tuple(map(tuple, lens)),
        positions=sinusoids(max(source, target), d_model),
        modules=tuple(fake_modules(layers, source, d_model)),
        projections=fake_projections(source, target, (layers, layers), heads, d_model // heads),
        masks=fake_masks(source, target, source),
        source_ids=tuple(range(4, 4 + source)),
        target_ids=tuple(range(4, 4 + target)),
        neurons=fake_neurons(source, target, (layers, layers), 4 * d_model),
    )


def word_tokens(letter: str, size: int) -> tuple[str, ...]:
    return (*(f"▁{letter}{'o' * (place % 4)}{place}" for place in range(size - 1)), "</s>")


def fake_nodes(tokens: tuple[str, ...], random) -> tuple[tuple[Node, ...], tuple[int, ...]]:
    """A beam of 4 with 8 candidates a step; the best candidate of each step is the translation's."""
    nodes, live, path = [Node(None, "<s>", 0.0, 0.0)], [0], [0]
    for step, token in enumerate(tokens, 1):
        numbers = []
        for rank in range(8):
            parent = live[0] if rank == 0 else live[int(random.integers(len(live)))]
            log_prob = -0.3 * step - 0.4 * rank - float(random.uniform(0, 0.1))
            last = step == len(tokens)
            text = token if rank == 0 else f"▁other{rank}"
            end = None if rank < 4 else "below the beam"
            if last:
                end = "finished" if rank == 0 else "the search was over"
            numbers.append(len(nodes))
            nodes.append(Node(parent, text, log_prob, log_prob / ((5 + step) / 6) ** 0.6, end))
        live = numbers[:4]
        path.append(numbers[0])
    return tuple(nodes), tuple(path)


def likeliest(token: str, random) -> tuple[TokenProbability, ...]:
    logs = np.sort(np.log(random.dirichlet(np.ones(10))))[::-1]
    names = [token, *(f"▁word{rank}" for rank in range(9))]
    return tuple(TokenProbability(name, float(log)) for name, log in zip(names, logs, strict=True))


def softmax(random, shape: tuple[int, ...], allowed=None) -> np.ndarray:
    powers = np.exp(random.normal(0, 2, shape))
    powers = powers if allowed is None else powers * allowed
    return (powers / powers.sum(-1, keepdims=True)).astype(np.float32)


def sinusoids(rows: int, d_model: int) -> np.ndarray:
    angles = np.arange(rows)[:, None] / 10_000 ** (np.arange(0, d_model, 2) / d_model)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(rows, d_model).astype(np.float32)


def fake_modules(layers: int, source: int, d_model: int) -> list[ModuleSummary]:
    parts = {"encoder": ("self_attention", "feed_forward")}
    parts["decoder"] = ("self_attention", "cross_attention", "feed_forward")
    return [
        ModuleSummary(
            f"{side}.{layer}.{part}",
            1_050_624,
            (1, source if side == "encoder" else 4, d_model),
            f"dragoman.{side}.{part}",
            f"What {part} is (section 3).",
        )
        for side, names in parts.items()
        for layer in range(layers)
        for part in names
    ]


def hostile_inspection() -> Inspection:
    """Texts that would end an element, run as a script, cannot be seen, or are no valid Unicode."""
    known = fake_inspection(len(HOSTILE) + 1, len(HOSTILE) + 1, 2, 2, 16)
    tokens = (*HOSTILE, "</s>")
    named = dict(zip(known.target, tokens, strict=True))
    nodes = tuple(replace(node, token=named.get(node.token, node.token)) for node in known.nodes)
    unlikely = {0: (TokenProbability(HOSTILE[0], -0.1), TokenProbability(HOSTILE[1], -float("inf")))}
    return replace(
        known,
        sentence=" ".join(HOSTILE),
        translation=" ".join(reversed(HOSTILE)),
        source=tokens,
        target=tokens,
        nodes=nodes,
        candidates=known.candidates | unlikely,
    )


@pytest.fixture(scope="module")
def report() -> str:
    return to_html(fake_inspection())


# Without a browser


class Elements(HTMLParser):
    """The elements of a document with their attributes, and the texts of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.kind = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.kind = str(dict(attrs).get("type") or tag) if tag in {"script", "style"} else ""

    def handle_endtag(self, tag: str) -> None:
        self.kind = ""

    def handle_data(self, data: str) -> None:
        if self.kind:
            self.texts[self.kind] = self.texts.get(self.kind, "") + data


def test_the_report_is_small_and_has_no_address(report):
    assert len(report.encode()) < MAX_BYTES
    without_licenses = re.sub(r'<script type="text/plain".*?</script>', "", report, flags=re.DOTALL)
    addresses = set(re.findall(r"\bhttps?://[\w./-]+", without_licenses))
    assert addresses <= {"http://www.w3.org/2000/svg"}


def test_the_report_has_the_licences_of_what_it_contains(report):
    for name in ("LICENSE-preact", "LICENSE-htm"):
        assert (VENDOR / name).read_text("utf-8") in report


def test_the_policy_allows_the_script_and_the_style_by_their_hashes_alone(report):
    elements = Elements(report)
    (policy,) = (tag["content"] for _, tag in elements.tags if "http-equiv" in tag)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules == {
        "default-src": "'none'",
        "script-src": f"'{source_hash(elements.texts['script'])}'",
        "style-src": f"'{source_hash(elements.texts['style'])}'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_the_report_has_the_same_elements_whatever_the_tokens_are(report):
    hostile = Elements(to_html(hostile_inspection()))
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in Elements(report).tags]
    data = json.loads(hostile.texts["application/json"])
    assert data["source"]["tokens"] == [*HOSTILE, "</s>"]
    assert data["beam"]["candidates"]["0"][1] == [HOSTILE[1], None]


def test_embedded_json_has_no_markup_and_only_numbers_that_json_has():
    table = {"text": "</script><!--", "numbers": (1.5, float("inf"), float("nan"))}
    text = json_for_html(finite(table))
    assert "<" not in text
    assert json.loads(text) == {"text": "</script><!--", "numbers": [1.5, None, None]}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_does_not_have_is_refused(number):
    with pytest.raises(ValueError, match="JSON"):
        json_for_html({"numbers": [number]})


def test_modules_use_no_evaluation_and_no_markup_from_text():
    for file in PAGE.glob("*.js"):
        text = file.read_text("utf-8")
        assert not re.search(r"\beval\(|new Function|innerHTML|dangerously|insertAdjacent|fetch\(", text), (
            file
        )
        assert all(len(line) <= 110 for line in text.splitlines()), file


def write_modules(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name}.js").write_text(text, "utf-8")
    return folder / "main.js"


def test_comments_are_left_out_of_the_script_except_those_of_vendors(tmp_path):
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor" / "lib.js").write_text("// Its licence\nexport const a = 1;\n", "utf-8")
    imports = '// About it\nimport { a } from "./vendor/lib.js";\n'
    main = write_modules(tmp_path, main=f'{imports}\n/** What it\n * does. */\n  // why\nf(a, "//");\n')
    script = bundle(main)
    assert [word in script for word in ("Its licence", "About it", "does", "why")] == [True, *[False] * 3]
    assert 'f(a, "//");' in script


def test_lines_of_the_script_are_those_of_the_modules_without_indentation(tmp_path):
    lines = ["f(", "  1,", "", "    2,", "   ", "  );", "const text = `a", "  b`;"]
    script = bundle(write_modules(tmp_path, main="\n".join(lines)))
    body = script.partition('modules["main.js"] = (() => {\n')[2].partition("\nreturn {")[0]
    assert body.splitlines() == [line.strip() for line in lines if line.strip()]


def test_modules_become_one_script_in_the_order_of_their_imports(tmp_path):
    main = write_modules(
        tmp_path,
        main='import { two } from "./middle.js";\nimport { one as it } from "./leaf.js";\nsay(two, it);',
        middle='import { one } from "./leaf.js";\nexport const two = one + one;\n',
        leaf="const own=1;export{own as one};",
    )
    script = bundle(main)
    places = [script.index(f'modules["{name}.js"] = ') for name in ("leaf", "middle", "main")]
    assert places == sorted(places)
    assert script.count('modules["leaf.js"] = ') == 1
    assert "return { one: own };" in script
    assert 'const { one: it } = modules["leaf.js"];' in script
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)


@pytest.mark.parametrize(
    "text",
    [
        'import all from "./leaf.js";',
        'import * as all from "./leaf.js";',
        'import "./leaf.js";',
        "export default 1;",
        "export let changing = 1;",
        'export { one } from "./leaf.js";',
        'const later = import("./leaf.js");',
        "const address = import.meta.url;",
    ],
)
def test_a_module_with_another_import_or_export_is_refused(tmp_path, text):
    main = write_modules(tmp_path, main=text, leaf="export const one = 1;")
    with pytest.raises(ValueError, match=r"main\.js has an import or export that is not known"):
        bundle(main)


def test_modules_that_import_each_other_are_refused(tmp_path):
    main = write_modules(
        tmp_path, main='import { one } from "./leaf.js";', leaf='import { two } from "./main.js";'
    )
    with pytest.raises(ValueError, match="import each other"):
        bundle(main)


@pytest.mark.parametrize("text", ["</script>", "</SCRIPT ", "<!--"])
def test_a_module_that_would_end_its_element_is_refused(tmp_path, text):
    with pytest.raises(ValueError, match="HTML reads as markup"):
        bundle(write_modules(tmp_path, main=f'const text = "{text}";'))


# In Chromium


@pytest.fixture
def open_report(browser, tmp_path):  # noqa: F811
    """Opens a report from disk without a network. Afterwards: nothing was written to the console, no script
    has failed, no dialog was opened, and only the file was asked for.
    """
    contexts, faults = [], []

    def open_in(inspection: Inspection, theme: str = "light", width: int = 1280):
        file = tmp_path / "report.html"
        file.write_text(to_html(inspection), "utf-8")
        context = browser.new_context(
            color_scheme=theme,
            viewport={"width": width, "height": 740},
            offline=True,
            reduced_motion="reduce",
        )
        contexts.append(context)
        context.set_default_timeout(MAX_MILLISECONDS)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda line: faults.append(line.text))
        page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda sent: sent.url != file.as_uri() and faults.append(sent.url))
        page.goto(file.as_uri())
        page.wait_for_selector("[role=tablist]")
        return page

    yield open_in
    for context in contexts:
        context.close()
    assert faults == []


def tab(page, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()


def open_tables(place) -> None:
    """Opens the tables of numbers, and waits for them: they are made when they are opened."""
    for numbers in place.locator(".numbers").all():
        numbers.locator("summary").click()
        numbers.locator("table").wait_for()


def assert_accessible(page) -> None:
    """axe-core finds nothing, and nothing is wider than the window."""
    axe = pytest.importorskip("axe_core_python.base", reason="axe is missing: pip install axe-core-python")
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe.AXE_SCRIPT)
    found = page.evaluate("axe.run({resultTypes: ['violations']}).then((found) => found.violations)")
    assert [(rule["id"], [node["html"] for node in rule["nodes"]][:3]) for rule in found] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


THEMES = [pytest.param("light", 1280, marks=pytest.mark.long), ("dark", 360)]


@pytest.mark.parametrize(("theme", "width"), THEMES, ids=["light 1280", "dark 360"])
def test_every_view_is_accessible_and_fits_the_window(open_report, theme, width):
    page = open_report(fake_inspection(4, 4, 2, 2, 16), theme, width)
    for name in VIEWS:
        tab(page, name)
        page.wait_for_selector(f"[role=tab][aria-selected=true]:text-is('{name}')")
        assert page.locator(".numbers").count() > 0
        open_tables(page)
        assert_accessible(page)


def test_hostile_tokens_are_shown_and_run_nowhere(open_report):
    page = open_report(hostile_inspection())
    for name in VIEWS:
        tab(page, name)
        open_tables(page)
        assert page.locator("#page img, #page script").count() == 0
    tab(page, "Beam")
    shown = page.locator("[role=treeitem]").all_inner_texts()
    hostile = [text.replace(" ", "␣") for text in HOSTILE[:4]]
    for text in (*hostile, "U+200B", "U+202E", "U+D800", "(empty)", "a␣b"):
        assert text in shown


def test_the_slider_shows_the_search_up_to_a_step(open_report):
    inspection = fake_inspection(8, 8, 2, 4, 32)
    page = open_report(inspection)
    assert page.locator("[role=treeitem]").count() == len(inspection.nodes)
    page.locator("[data-number]").last.click()
    page.get_by_role("slider").fill("2")
    assert page.locator("[role=treeitem]").count() == 1 + 2 * 8
    selected = page.locator("[role=treeitem][aria-selected=true]")
    assert selected.get_attribute("aria-level") == "3"


def test_a_hypothesis_shows_its_tokens_and_the_likeliest_next_ones(open_report):
    inspection = fake_inspection(8, 8, 2, 4, 32)
    page = open_report(inspection)
    number = inspection.best_path[3]
    page.locator(f"[data-number='{number}']").click()
    panel = page.locator(".hypothesis")
    assert panel.locator(".tokens .token").all_inner_texts() == ["<s>", *inspection.target[:3]]
    likeliest_token = inspection.candidates[number][0]
    first = panel.locator(".bars tr").first
    assert first.locator("th").inner_text() == likeliest_token.token
    share = float(first.locator("td").last.inner_text().removesuffix(" %"))
    assert share == pytest.approx(100 * np.exp(likeliest_token.log_probability), abs=0.51)
    page.hover("[data-number='8']")
    assert panel.locator("h3").inner_text() == "Hypothesis 8, step 1"
    assert "did not extend it" in panel.inner_text()


def test_the_tree_is_one_stop_and_arrow_keys_follow_its_branches(open_report):
    inspection = fake_inspection(8, 8, 2, 4, 32)
    page = open_report(inspection)
    assert page.locator("[role=treeitem][tabindex='0']").count() == 1
    page.locator("[role=treeitem][tabindex='0']").focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("Number(document.activeElement.dataset.number)") == inspection.best_path[-2]
    page.keyboard.press("Home")
    assert page.evaluate("Number(document.activeElement.dataset.number)") == 0
    page.keyboard.press("ArrowRight")
    assert page.evaluate("Number(document.activeElement.dataset.number)") == inspection.best_path[1]
    page.keyboard.press("ArrowDown")
    assert page.evaluate("Number(document.activeElement.dataset.number)") == 2
    page.keyboard.press("End")
    page.keyboard.press("Shift+Tab")  # out of the tree, which does not take the focus back
    for _ in range(3):
        assert page.evaluate("document.activeElement.type") == "range"
        page.keyboard.press("ArrowLeft")


def test_arrow_keys_move_in_the_grid_and_enter_opens_a_head(open_report):
    page = open_report(fake_inspection(8, 8, 2, 4, 32))
    tab(page, "Attention")
    grid = page.get_by_role("grid")
    assert grid.locator("[tabindex='0']").count() == 1
    grid.locator("[tabindex='0']").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    head = page.get_by_role("region", name="The head")
    assert head.locator("h3").inner_text() == "Layer 2, head 3"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('[role=grid]')") is None


def test_a_head_is_shown_as_it_is_in_the_data(open_report):
    """Weights in the table, statistics, and lines."""
    inspection = fake_inspection(6, 7, 2, 4, 32)
    page = open_report(inspection)
    tab(page, "Attention")
    page.get_by_role("gridcell").nth(5).click()  # layer 2, head 2
    head = page.get_by_role("region", name="The head")
    weights = inspection.attention.cross[1, 1]
    open_tables(head)
    cells = [float(text) for text in head.locator(".numbers td").all_inner_texts()]
    assert np.allclose(np.reshape(cells, weights.shape), weights, atol=2e-3)
    facts = dict(zip(head.locator("dt").all_inner_texts(), head.locator("dd").all_inner_texts(), strict=True))
    queries, keys = np.indices(weights.shape)
    expected = {
        "Entropy": -(weights * np.log(weights)).sum(1).mean(),
        "Mean distance": (weights * abs(queries - keys)).sum(1).mean(),
        "Share on the previous position": np.trace(weights, -1) / len(weights),
        "Share on the same position": np.trace(weights) / len(weights),
        "Share on the next position": np.trace(weights, 1) / len(weights),
        "Share on END": weights[:, -1].mean(),
    }
    for name, value in expected.items():
        assert float(facts[name].split()[0]) == pytest.approx(value, abs=0.011), name
    head.get_by_role("button", name="Lines", exact=True).click()
    assert head.locator(".lines line").count() == (weights.astype(np.float16) >= 0.02).sum()


def test_heads_are_sorted_by_a_statistic_and_each_is_shown_below(open_report):
    page = open_report(fake_inspection(8, 8, 2, 4, 32))
    tab(page, "Attention")
    for kind in ("Encoder self-attention", "Decoder self-attention", "Encoder-decoder attention"):
        page.get_by_role("button", name=kind, exact=True).click()
        page.get_by_label("Order").select_option("entropy")
        values = [float(text) for text in page.locator(".caption b").all_inner_texts()]
        assert len(values) == 8
        assert values == sorted(values, reverse=True)
        heads = [text.split()[0] for text in page.locator(".caption").all_inner_texts()]
        assert sorted(heads) == [f"{layer}.{head}" for layer in (1, 2) for head in (1, 2, 3, 4)]
        for order, numbers in (("entropy", heads), ("layer", sorted(heads))):
            page.get_by_label("Order").select_option(order)
            for place in (1, 6):
                page.get_by_role("gridcell").nth(place).click()
                layer, head = numbers[place].split(".")
                title = page.get_by_role("region", name="The head").locator("h3").inner_text()
                assert title == f"Layer {layer}, head {head}"


def test_masks_show_the_padding_that_is_asked_for(open_report):
    page = open_report(fake_inspection(5, 6, 2, 4, 32))
    tab(page, "Masks")
    page.get_by_role("slider").fill("2")
    causal = page.get_by_role("region", name="Causal: decoder self-attention")
    open_tables(causal)
    cells = np.reshape([int(text) for text in causal.locator(".numbers td").all_inner_texts()], (8, 8))
    assert (cells == np.tril(np.ones((8, 8)))).all()


def test_a_box_of_the_architecture_shows_its_code(open_report):
    page = open_report(fake_inspection(8, 8, 2, 4, 32))
    tab(page, "Model")
    box = page.locator("details.box", has_text="Masked multi-head self-attention")
    assert page.locator(".arrow", has_text="[1, 4, 32]").count() == 4  # embedding and three sub-layers
    assert "1,050,624 parameters" in box.inner_text()
    assert not box.locator(".definition").is_visible()
    box.locator("summary").press("Enter")
    assert box.locator(".definition").inner_text() == (
        "dragoman.decoder.self_attention\nWhat self_attention is (section 3)."
    )


def test_a_cell_of_the_logit_lens_shows_the_likeliest_tokens(open_report):
    inspection = fake_inspection(5, 6, 2, 4, 32)
    page = open_report(inspection)
    tab(page, "Residual stream")
    page.get_by_role("grid").get_by_role("gridcell").nth(7).click()  # layer 2, second token
    lens = page.get_by_role("region", name="Logit lens")
    shown = lens.locator(".bars th").all_inner_texts()
    assert shown == [each.token for each in inspection.lens[1][1]]


def test_the_number_under_the_pointer_is_written_below_a_heat_map(open_report):
    inspection = fake_inspection(5, 6, 2, 4, 32)
    page = open_report(inspection)
    tab(page, "Attention")
    head = page.get_by_role("region", name="The head")
    box = head.locator("canvas").bounding_box()
    place = {"x": box["width"] * 2.5 / 5, "y": box["height"] * 1.5 / 6}  # the third column, the second row
    head.locator("canvas").hover(position=place)
    layer, number = map(int, re.findall(r"\d+", head.locator("h3").first.inner_text()))
    weight = inspection.attention.cross[layer - 1, number - 1, 1, 2]
    shown = head.locator(".readout").inner_text()
    assert shown.startswith(f"{inspection.target[1]} → {inspection.source[2]}")
    assert float(shown.split(":")[1]) == pytest.approx(weight, abs=1e-3)


def test_a_token_leaves_its_lines_alone(open_report):
    inspection = fake_inspection(5, 6, 2, 4, 32)
    page = open_report(inspection)
    tab(page, "Attention")
    alignment = page.get_by_role("region", name="Word alignment")
    assert alignment.locator(SOLID).count() == len(inspection.alignment)
    alignment.get_by_role("button").nth(1).focus()
    assert alignment.locator(SOLID).count() == 1
