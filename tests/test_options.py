"""Every option of a verb changes what the verb writes: none is lost on its way."""

from pathlib import Path

import pytest

from dragoman import Translator
from dragoman.cli import main as cli
from tests.conftest import call
from tests.test_contract import LINES, save_random_model

TREES = "(TOP (S (NP (NNP It)) (VP (VBZ works) (NP (DT a) (NN day))) (. .)))\n"
PAIRS = ["{run}", "-s", "{files}/source", "-t", "{files}/target"]
TOKENS = [*PAIRS[:-1], "{files}/tokens"]


def picture(view: str) -> list[str]:
    """Arguments of an inspection that is drawn."""
    return ["{run}", LINES[2], "--out", "{out}/picture.svg", "--max-extra-tokens", "2", "--show", view]


TABLE: dict[str, tuple[list[str], dict[str, list[str]]]] = {
    "evaluate": (
        [*PAIRS, "--max-extra-tokens", "4", "--no-native"],
        {
            "ensemble": ["{other}"],
            "hypotheses": ["{out}/hypotheses"],
            "tokenize": ["char"],
            "lowercase": [],
            "baseline": ["{files}/target"],
            "paper_bleu": ["de"],
            "json": [],
        },
    ),
    "score": (TOKENS, {"ensemble": ["{other}"], "precision": ["int8"], "tokens": [], "json": []}),
    "align": ([*TOKENS, "--json"], {"layer": ["1"], "head": ["2"]}),
    "aer": (["{files}/links", "{files}/gold"], {"one_indexed": []}),
    "linearise": (["{files}/trees", "-s", "{out}/words", "-t", "{out}/symbols"], {"no_tags": []}),
    "parse-f1": (
        ["{files}/symbols", "{files}/trees"],
        {"output": ["{out}/scored"], "gold_output": ["{out}/gold"]},
    ),
    "paper": (
        ["big", "--json"],
        {
            "vocabulary": ["1000"],
            "length": ["7"],
            "updates": ["10"],
            "tokens": ["100"],
            "hours": ["3"],
            "gpus": ["2"],
        },
    ),
    "shortlist": (
        [*TOKENS, "-o", "{out}/shortlist"],
        {"most": ["1"], "always": ["1"]},
    ),
    "inspect, attention": (
        [*picture("encoder"), "--layer", "2"],
        {"layer": ["1"], "head": ["2"], "lines": [], "words": [], "window": ["1", "2"], "show": ["cross"]},
    ),
    "inspect, numbers": (
        picture("numbers"),
        {"kind": ["encoder"], "query": ["2"], "layer": ["1"], "head": ["2"]},
    ),
    "inspect, neurons": ([*picture("neurons"), "--layer", "1"], {"kind": ["encoder"], "neuron": ["3"]}),
    "inspect, attribution": (
        [*picture("attribution"), "--method", "gradient-input"],
        {"method": ["occlusion"], "target_tokens": [], "contrast": [], "layer": ["1"]},
    ),
    "inspect, beam": (picture("beam"), {"what_if": ["beam_size=1"]}),
    "figure, figure-3": (
        ["figure-3", "{run}", LINES[2], "--out", "{out}/picture.svg", "--max-extra-tokens", "2"],
        {"layer": ["2"], "kind": ["cross"], "heads": ["2"], "query": ["2"]},
    ),
}
"""Of each verb, arguments, and of each of its options a value that changes the result."""
ELSEWHERE = {
    ("evaluate", "comet"): "tests/test_comet.py",
    ("parse-f1", "bracketed"): "tests/test_bracketing.py: the first file is of another kind",
    ("align", "json"): "it is in the arguments",
    ("figure", "listed"): "tests/test_figures.py",
    ("figure", "out"): "it is in the arguments",
    ("figure", "step"): "tests/test_figures.py: of another figure",
    ("inspect", "file"): "tests/test_inspect_what_if.py",
    ("inspect", "out"): "it is in the arguments",
    ("inspect", "sentence"): "it is in the arguments",
    ("paper", "json"): "it is in the arguments",
}


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> dict[str, Path]:
    """Two models with one vocabulary, and files."""
    run, other, files = (tmp_path_factory.mktemp(name) for name in ("run", "other", "files"))
    save_random_model(run, "bpe")
    save_random_model(other, "bpe", seed=1)
    translator = Translator.load(run, native=False)
    best = [found[0] for found in translator.n_best(LINES[1:4], max_extra_tokens=4)]
    texts = {
        "source": "".join(f"{line}\n" for line in LINES[1:4]),
        "target": "".join(f"{each.text[:-2].upper()} , MAN\n" for each in best),
        "tokens": "".join(f"{' '.join(each.tokens)}\n" for each in best),
        "links": "0-0 1-2\n",
        "gold": "1-1 2-3\n",
        "trees": TREES,
        "symbols": "(S (NP NNP )NP (VP VBZ (PP DT NN )PP )VP . )S\n",
    }
    for name, text in texts.items():
        (files / name).write_text(text)
    return {"run": run, "other": other, "files": files}


def written(monkeypatch, capsysbinary, places, out, verb, arguments):
    """What a command prints, and the files that it writes."""
    out.mkdir()
    filled = [each.format(out=out, **places) for each in arguments]
    status, printed, errors = call(monkeypatch, capsysbinary, verb, *filled)
    assert status == 0, errors
    return printed.replace(str(out), ""), {path.name: path.read_bytes() for path in out.iterdir()}


@pytest.mark.long
@pytest.mark.parametrize("name", TABLE)
def test_each_option_changes_what_is_written(monkeypatch, capsysbinary, tmp_path, places, name):
    verb, (arguments, options) = name.split(",")[0], TABLE[name]
    without = written(monkeypatch, capsysbinary, places, tmp_path / "without", verb, arguments)
    for option, values in options.items():
        given = [*arguments, f"--{option.replace('_', '-')}", *values]
        assert written(monkeypatch, capsysbinary, places, tmp_path / option, verb, given) != without, option


@pytest.mark.parametrize("verb", {name.split(",")[0]: None for name in TABLE})
def test_each_option_of_these_verbs_is_tried(verb):
    command = cli.commands()[verb]
    names = {name for name, option in command.options.items() if not option.group and not option.is_required}
    tables = [options for name, (_, options) in TABLE.items() if name.split(",")[0] == verb]
    tried = {name.removeprefix("no_") for options in tables for name in options}
    elsewhere = {name for one, name in ELSEWHERE if one == verb}
    assert names - set(command.positional) == (tried | elsewhere) - set(command.positional)


TRANSLATING = {
    "translate": ["{run}", "--input", "{files}/source"],
    "evaluate": [*PAIRS, "--hypotheses", "{out}/written"],
    "backtranslate": ["{run}", "{files}/source", "--out", "{out}"],
}
"""Of each verb that translates, the arguments."""
SHARED = {
    "precision": ["int8"],
    "beam_size": ["1"],
    "max_length": ["1"],
    "temperature": ["1"],
    "force_words": ["man"],
    "shortlist": ["{files}/shortlist"],
}
"""Options of the search and of the engine, each with values that change translations."""


@pytest.mark.short_form(1)
@pytest.mark.parametrize("verb", TRANSLATING)
def test_the_options_of_search_and_engine_reach_every_verb_that_translates(
    command_line, monkeypatch, capsysbinary, tmp_path, places, verb
):
    learn = [*PAIRS, "--most", "1", "--always", "1", "--out", str(places["files"] / "shortlist")]
    status, _, errors = command_line("shortlist", *(each.format(**places) for each in learn))
    assert status == 0, errors

    def translations(name, *options):
        given = [*TRANSLATING[verb], "--max-extra-tokens", "4", *options]
        printed, files = written(monkeypatch, capsysbinary, places, tmp_path / name, verb, given)
        names = {"evaluate": "written", "backtranslate": "translations"}
        return files[names[verb]] if verb in names else printed

    without = translations("without")
    for option, values in SHARED.items():
        assert translations(option, f"--{option.replace('_', '-')}", *values) != without, option
