"""What-ifs on the page: recorded cases from disk, and cases that a server computes."""

import re
from dataclasses import replace

import numpy as np
import pytest

from dragoman.inspection.analyse.ablation import HeadEffects
from dragoman.inspection.analyse.changes import parse_changes
from dragoman.inspection.what_if import WhatIf
from tests.browser import browser  # noqa: F401
from tests.servers import serving
from tests.test_report import assert_accessible, fake_inspection, open_report, tab  # noqa: F401

MAX_MILLISECONDS = 60_000


def recorded(*cases):
    """An inspection with these cases: changes, and the place of a target token that they change."""
    before = fake_inspection(5, 6, 2, 4, 32)
    what_ifs = []
    for texts, place in cases:
        target = (*before.target[:place], "</script><b>x", *before.target[place + 1 :])
        named = dict(zip(before.target, target, strict=True))
        nodes = tuple(replace(node, token=named.get(node.token, node.token)) for node in before.nodes)
        after = replace(before, target=target, nodes=nodes, translation="another", score=before.score - 1)
        what_ifs.append(WhatIf(tuple(parse_changes(texts)), before, after))
    return replace(before, what_ifs=tuple(what_ifs))


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 360)])
def test_a_file_shows_its_cases_beside_the_translation(open_report, theme, width):  # noqa: F811
    inspection = recorded((["cross.2.3=off", "beam_size=2"], 1), (["target.1=▁a", "target.2=▁b"], 3))
    page = open_report(inspection, theme, width)
    tab(page, "What if")
    before, after = (page.get_by_role("region", name=name, exact=True) for name in ("Before", "After"))
    assert before.locator("del").all_inner_texts() == [inspection.target[1]]
    assert after.locator("ins").all_inner_texts() == ["</script><b>x"]
    assert page.locator("code:not(.lab code)").all_inner_texts() == ["cross.2.3=off", "beam_size=2"]
    assert "(−1.000)" in page.locator("#view .facts").first.inner_text()
    page.get_by_role("combobox", name="Case").select_option(index=1)
    assert before.locator("del").all_inner_texts() == [inspection.target[3]]
    assert page.locator("code:not(.lab code)").all_inner_texts() == ["begins with ▁a ▁b"]
    alone = after.locator(".node.differs[role]")
    assert 0 < alone.count() < len(inspection.nodes)
    assert "only in this search" in alone.first.get_attribute("aria-label")
    assert page.get_by_role("button", name=re.compile("Run|Continue|Switch")).count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_file_without_cases_has_no_such_view(open_report):  # noqa: F811
    page = open_report(fake_inspection(5, 6, 2, 4, 32))
    assert page.get_by_role("tab", name="What if").count() == 0
    tab(page, "Attention")
    assert page.get_by_role("button", name="Switch this head off").count() == 0


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 360)])
def test_a_file_shows_the_effects_of_all_heads(open_report, theme, width):  # noqa: F811
    random = np.random.default_rng(0)
    effects = HeadEffects(-2.5, *(random.normal(size=(2, 4)).astype(np.float32) for _ in range(3)))
    page = open_report(replace(fake_inspection(5, 6, 2, 4, 32), head_effects=effects), theme, width)
    tab(page, "What if")
    assert numbers_of(page) == pytest.approx(
        np.stack([effects.encoder, effects.decoder, effects.cross]).ravel(), abs=6e-4
    )
    assert "With all heads it is −2.500." in page.get_by_role("region", name="All heads").inner_text()
    assert page.get_by_role("button", name="Switch each head off").count() == 0
    assert_accessible(page)


def numbers_of(page):
    return [float(text.replace("−", "-")) for text in page.locator(".effects td").all_inner_texts()]


def test_a_server_computes_cases(browser, trained):  # noqa: F811
    with serving(trained / "run") as server:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(MAX_MILLISECONDS)
        page = context.new_page()
        faults = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(f"{server.address}/inspect#text=amber+birch")
        page.wait_for_selector("[role=tablist]")
        page.evaluate("localStorage.setItem('dragoman.theme', 'dark')")  # chosen on the page for translating
        page.reload()
        page.wait_for_selector("[role=tablist]")
        assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"

        # A head is switched off from the attention view.
        page.get_by_role("tab", name="Attention").click()
        page.get_by_role("button", name="Switch this head off").press("Enter")
        page.wait_for_selector(".compare")
        with server.client() as client:
            answer = client.post("/v1/inspect", json={"text": "amber birch"}).json()
        clearest = answer["attention"]["cross"]["clearest"]  # the head that is shown first
        change = f"cross.{clearest['layer']}.{clearest['head']}=off"
        assert page.locator("code:not(.lab code)").all_inner_texts() == [change]
        assert page.get_by_role("tab", name="What if").get_attribute("aria-selected") == "true"

        # All heads are switched off in turn.
        page.get_by_role("button", name="Switch each head off in turn").click()
        page.wait_for_selector(".effects")
        with server.client() as client:
            answer = client.post("/v1/inspect", json={"text": "amber birch", "heads": True}).json()
        uses = [answer["head_effects"][use] for use in ("encoder", "decoder", "cross")]
        assert numbers_of(page) == pytest.approx(np.array(uses).ravel(), abs=6e-4)

        # The search continues from a hypothesis that was dropped.
        page.get_by_role("tab", name="Beam").click()
        dropped = page.locator(".node.ended[role]").filter(has_not_text="</s>").first
        finished = page.locator(".node[role]").filter(has_text="</s>").first
        for hypothesis, can_continue in ((finished, False), (dropped, True)):
            hypothesis.focus()
            page.get_by_role("region", name=re.compile("ypothesis")).get_by_text(
                "What became of it"
            ).wait_for()
            assert page.get_by_role("button", name="Continue from here").count() == can_continue
        shown = page.get_by_role("region", name=re.compile("ypothesis")).locator(".tokens .token")
        tokens = shown.all_inner_texts()[1:]
        page.keyboard.press("Enter")
        page.wait_for_selector(".case option:nth-child(2)", state="attached")
        after = page.get_by_role("region", name="After", exact=True)
        path = after.locator(".node.best[role]").all_inner_texts()
        assert path[1 : 1 + len(tokens)] == tokens

        # A change that is in the list is not made twice.
        page.get_by_role("combobox", name="What").select_option(label="Source token")
        page.locator(".changes input").fill(" cedar")
        page.get_by_role("button", name="Add another change").click()
        page.get_by_role("button", name="Run").click()
        page.wait_for_selector(".case option:nth-child(3)", state="attached")

        # Tokens are suggested: the likeliest at a place of the translation, and those near a source token.
        near = dict(answer["neighbours"][0]["tokens"])
        wanted = {
            "Token of the translation": [
                answer["beam"]["candidates"][str(number)] for number in answer["beam"]["best_path"][:2]
            ],
            "Source token": [near[token] for token in answer["source"]["tokens"][:2]],
        }
        for group, lists in wanted.items():
            page.get_by_role("combobox", name="What").select_option(label=group)
            for place, tokens_with_numbers in enumerate(lists):
                page.get_by_role("combobox", name="Which").select_option(index=place)
                offered = page.locator("#likely option").evaluate_all("all => all.map(({ value }) => value)")
                assert offered == [token for token, _ in tokens_with_numbers]

        # A change of another kind begins with a value of its own.
        page.locator(".changes input").fill(" cedar")
        page.get_by_role("combobox", name="What").select_option(label="Encoder-decoder attention, all heads")
        page.get_by_role("button", name="Add another change").click()
        page.get_by_role("button", name="Remove cross.1=uniform").click()

        # The form: two changes, and one that makes no sense.
        page.get_by_role("combobox", name="What").select_option(label="Source token")
        page.locator(".changes input").fill(" birch")
        page.get_by_role("button", name="Add another change").click()
        page.get_by_role("combobox", name="What").select_option(label="Search")
        page.locator(".changes input").fill("1")
        page.get_by_role("button", name="Run").click()
        page.wait_for_selector(".case option:nth-child(4)", state="attached")
        assert page.locator("code:not(.lab code)").all_inner_texts() == ["source.1=▁birch", "beam_size=1"]
        assert after.locator("ins").first.inner_text() == "▁birch"
        assert page.locator(".added").count() == 0
        page.get_by_role("button", name="Add another change").click()
        page.locator(".changes input").fill("0")
        page.get_by_role("button", name="Run").click()
        page.wait_for_selector("text=beam_size=1 and beam_size=0 change the same part")
        page.get_by_role("button", name="Remove beam_size=1").click()
        page.get_by_role("button", name="Run").click()
        page.wait_for_selector("text=beam_size is 0; it must be at least 1.")
        assert not faults
        context.close()
