"""The documentation: commands parse, Python compiles, answers are computed, every page can be reached."""

import doctest
import importlib
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from inspect import getdoc, isclass, isfunction
from pathlib import Path
from types import ModuleType

import pytest
from torch import nn

import dragoman
from dragoman.cli import main as cli
from dragoman.cli import translate
from dragoman.cli.parsing import Command, settings_from
from dragoman.cli.train import recipe_of
from dragoman.model.settings import ModelSettings
from dragoman.pipeline.adaptation.adapt import refuse_contradictions
from dragoman.pipeline.recipe import Recipe
from dragoman.pipeline.settings import AdaptationSettings
from dragoman.search.settings import SearchSettings
from dragoman.search.trace import Node
from dragoman.system.errors import DragomanError
from dragoman.system.files import MANIFEST
from dragoman.training.settings import TrainingSettings
from dragoman.translation.model_folder import ABOUT, SETTINGS, WEIGHTS
from tests.browser import browser  # noqa: F401
from tests.conftest import MAX_SECONDS
from tools.docs import command_line, experiments, http_apis, markdown, outcome, python, recipes, results
from tools.docs.number_columns import is_number

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GENERATED = ("command-line", "settings", "http", "python", "results", "experiments")  # folders


@cache
def generated() -> dict[str, dict[str, str]]:
    """The pages that are made, by folder and name. Every process of pytest imports this file, one uses it."""
    made = (
        command_line.pages(),
        recipes.pages(),
        http_apis.pages(),
        python.pages(ROOT / "src"),
        results.pages(ROOT),
        experiments.pages(ROOT),
    )
    return dict(zip(GENERATED, made, strict=True))


PAGES = sorted(
    path
    for path in DOCS.rglob("*.md")
    if path.parent.name not in GENERATED and "_build" not in path.relative_to(DOCS).parts
)
TEXTS = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
FENCE = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
PLACEHOLDERS = {"X": "0.99", "TEXT": "en"}
NUMBERS = {"train": "8"}
"""What stands for N in the options of a verb; 4 for the others."""


def blocks(path: Path, *languages: str) -> list[str]:
    """The fenced blocks of a text in these languages."""
    return [
        text for _, language, text in FENCE.findall(path.read_text(encoding="utf-8")) if language in languages
    ]


def commands(text: str) -> Iterator[list[str]]:
    """The arguments of each call of dragoman in lines of a shell."""
    lines = re.sub(r"\\\n", " ", text).splitlines()
    for line in lines:
        lexer = shlex.shlex(re.sub(r"^ *\$ ", "", line), punctuation_chars="|&;<>")  # quotes stay
        lexer.whitespace_split = True
        words = list(lexer) if "dragoman" in line else []
        for number, word in enumerate(words):
            if word.rsplit("/", 1)[-1] == "dragoman" and (
                number == 0 or words[number - 1] in ("-m", "|", "&&", ";")
            ):
                end = next((at for at in range(number, len(words)) if words[at][0] in "|&;<>"), len(words))
                yield [shlex.split(each)[0] for each in words[number + 1 : end]]


def parse(words: list[str]) -> None:
    """Parse a command line; one that asks for help ends there."""
    status = None
    try:
        cli.command(words[0]).parse(words[1:])
    except SystemExit as end:
        status = end.code
    assert not status, words


SHELL = {
    path: [words for text in blocks(path, "sh", "console", "") for words in commands(text)] for path in TEXTS
}


def test_commands_are_found_in_every_form():
    text = "dragoman runs\n$ A=1 && .venv/bin/dragoman resume runs/a  # why\n"
    text += "torchrun -m dragoman train r.toml \\\n    --shard\n"
    text += "echo one two | dragoman translate runs/a 'b c' > out\ncp -r runs/dragoman x\n"
    assert list(commands(text)) == [
        ["runs"],
        ["resume", "runs/a"],
        ["train", "r.toml", "--shard"],
        ["translate", "runs/a", "b c"],
    ]
    assert sum(map(len, SHELL.values())) > 100
    with pytest.raises(DragomanError, match="has no option --nothing"):
        parse(["runs", "--nothing"])


@pytest.mark.parametrize("path", [path for path in SHELL if SHELL[path]], ids=lambda path: path.stem)
def test_commands_of_the_documentation_parse(path):
    for words in SHELL[path]:
        parse(words)


@pytest.mark.parametrize(
    "path", [path for path in TEXTS if blocks(path, "python")], ids=lambda path: path.stem
)
def test_python_of_the_documentation_compiles(path):
    for code in blocks(path, "python"):
        compile(code, path.name, "exec")


@pytest.mark.parametrize(
    "path",
    [path for path in SHELL if path.parent.name == "tutorials" and path.stem != "index"],
    ids=lambda path: path.stem,
)
def test_a_tutorial_activates_the_environment_before_it_needs_it(path):
    text = path.read_text(encoding="utf-8")
    calls = re.finditer(r"^(?:echo .* \| )?(?:dragoman|pip) |^import dragoman", text, re.MULTILINE)
    assert ". .venv/bin/activate" in text[: min(call.start() for call in calls)]


NUMBER = re.compile(r"\d|\b(two|three|four|five|six|seven|eight|nine|ten|half)\b", re.IGNORECASE)
NO_RESULT = re.compile(
    r"`[^`]*`|(?<=\])\([^()]*\)|\[[^\[\]]*\]\([^()]*#[^()]*\)"
    r"|\b(sections?|figures?|tables?|equations?) [\d.]+|\b(rows|and) [A-E]\d|multi30k"
    r"|\b(19|20)\d\d\b",
    re.IGNORECASE,
)
"""Code, where links lead, links to questions and items, numbers of the paper's parts, a corpus, and years."""


@pytest.mark.parametrize(
    "path",
    [path for path in PAGES if "experiments/" in path.read_text("utf-8") and path.stem != "mistakes"],
    ids=lambda path: path.stem,
)
def test_what_an_experiment_found_is_from_its_result(path):
    """A sentence about an experiment has no number of its own: roles write those of the file."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for name in re.findall(r"\{(?:outcome|verdict)\}`([^`]*)`", text):
        assert outcome.outcome(name).startswith("Verdict: ")
    for sentence in re.split(r"(?<=[.:])\s+(?=[A-Z(\[{])|\n\n|^- | \| ", text, flags=re.MULTILINE):
        if re.search(r"\bexperiments/[a-z-]+\.md\)", sentence):
            assert not NUMBER.search(NO_RESULT.sub("", sentence)), " ".join(sentence.split())


@pytest.mark.parametrize(("name", "examples"), [("questions", 52), ("notes", 48)])
def test_computed_answers_are_what_is_computed(name, examples):
    text = "\n".join(blocks(DOCS / "explanation" / f"{name}.md", "pycon"))
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(doctest.DocTestParser().get_doctest(text, {}, f"{name}.md", None, None))
    assert runner.summarize() == (0, examples)


def test_the_page_of_files_names_those_of_a_model():
    text = (DOCS / "reference" / "files.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in (ABOUT, WEIGHTS, SETTINGS, MANIFEST))
    assert all(f"`{each.name}`" in text for each in fields(Node))


def test_what_a_repository_shows_beside_its_code_is_valid():
    yaml = pytest.importorskip("yaml", reason="PyYAML is missing: pip install pyyaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == dragoman.__version__
    assert {"cff-version", "message", "title", "authors"} <= {*citation}
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert path.stem == "config" or {"name", "description", "body"} <= {*form}
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"))["jobs"]
    steps = [step.get("run") for job in jobs.values() for step in job["steps"]]
    assert {".ci/run", "make docs"} <= {*steps}


# ---- moving from other toolkits


MOVES = sorted((DOCS / "how-to").glob("move-from-*.md"))


def right_hand_sides(path: Path) -> list[str]:
    """The commands in the second column of a page's table."""
    rows = re.findall(r"^\| [^|]*`[^|]* \| ([^|]*) \|$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return [code for row in rows for code in re.findall(r"`([^`]*)`", row)]


@pytest.mark.short_form(1)
@pytest.mark.parametrize("path", MOVES, ids=lambda path: path.stem)
def test_options_beside_those_of_other_toolkits_are_ours(path):
    sides = right_hand_sides(path)
    assert len(sides) > 25
    for side in sides:
        check_options(side)


@pytest.mark.parametrize(
    ("side", "message"),
    [
        ("train --freeze encoder", "needs initial_model"),
        ("train --source-tokens bpe --sampling-alpha X", "sampling_alpha is for unigram tokens"),
        ("train --architecture lstm --heads N", "has no heads"),
        ("translate --top-k N", "needs temperature above 0"),
        ("translate --n-best N", "needs json"),
        (
            "evaluate --length-penalty X --length-power X",
            "length_power and length_penalty exclude each other",
        ),
    ],
)
def test_options_that_are_refused_after_parsing_are_found(side, message):
    with pytest.raises(DragomanError, match=message):
        check_options(side)


def check_options(side: str) -> None:
    """Raise `DragomanError` for a verb and options that the program refuses before it reads a file."""
    verb, *words = side.split()
    placeholders = PLACEHOLDERS | {"N": NUMBERS.get(verb, "4")}
    command = cli.command(verb)
    given = ["x" for name in command.positional if command.options[name].is_required]
    given += [placeholders.get(word, word) for word in words]
    given += [text for flag in required_flags(command) if flag not in words for text in (flag, "x")]
    values = command.parse(given)
    if verb == "train" and values.keys() & {each.name for each in fields(AdaptationSettings)}:
        refuse_contradictions(settings_from(Recipe, values))  # there is no initial model to read
    elif verb == "train":
        needed = {"source": Path("a.en"), "target": Path("a.de"), "out": Path("a"), "preset": "base"}
        recipe_of(needed | values)
    else:
        asked = settings_from(command.settings, values)
        if verb in ("translate", "evaluate"):
            asked.search.refuse_contradictions(values)
        if verb == "translate":
            translate.refuse_contradictions(asked)


def required_flags(command: Command) -> list[str]:
    """The options that a verb needs."""
    return [
        option.flag
        for name, option in command.options.items()
        if option.is_required and name not in command.positional
    ]


def test_defaults_beside_those_of_other_toolkits_are_ours():
    from torch import nn

    from dragoman.pipeline.minutes import MAX_PASSES, PAPER_UPDATES
    from dragoman.pipeline.recipe import choose_minutes
    from dragoman.training.objective import make_optimizer

    text = (DOCS / "how-to" / "move.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", text, re.MULTILINE))
    model, training, search = ModelSettings(), TrainingSettings(), SearchSettings()
    cpu, gpu = (choose_minutes(training, has_gpu) for has_gpu in (False, True))
    shown = {
        "label smoothing": f"{training.label_smoothing:g}",
        "activation": model.activation,
        "embeddings that share one matrix": model.tied,
        "dropout on attention weights": f"{model.attention_dropout:g}",
        "layer normalisation": model.norm,
        "Adam's β₂ (here it cannot be changed)": f"{make_optimizer(nn.Linear(1, 1)).defaults['betas'][1]:g}",
        "largest gradient norm": f"{training.clip_norm or 'no limit'}",
        "training ends after": f"as many updates as fit into {cpu:g} minutes on a CPU, {gpu:g} "
        f"on a GPU; at most {PAPER_UPDATES:,}, and at most {MAX_PASSES} passes",
        "early stopping, in validations": f"{training.patience}",
        "the best checkpoint is chosen by": training.best_by.upper(),
        "seed": f"{training.seed}",
        "beam size": f"{search.beam_size}",
        "divisor of the log-probability": f"((5 + L) / 6)^{search.length_penalty:g}",
        "longest translation": f"S + {search.extra_tokens}",
    }
    assert {row: rows[row] for row in shown} == shown


# ---- pages


def targets(path: Path) -> list[Path]:
    """The pages in the toctrees of a page."""
    trees = re.findall(r"```\{toctree\}\n(?::[^\n]*\n)*(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    return [(path.parent / f"{line}.md").resolve() for tree in trees for line in tree.split()]


def test_every_page_is_in_one_toctree():
    listed = [target for path in PAGES for target in targets(path)]
    assert len(listed) == len({*listed})
    places = dict.fromkeys(GENERATED, "reference") | {"experiments": "explanation"}
    made = {DOCS / place / name / "index.md" for name, place in places.items()}
    assert {*listed} == {*PAGES, *made} - {DOCS / "index.md"}


@pytest.mark.short_form(1)
@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_links_of_pages_lead_somewhere(path):
    for link in re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8")):
        there = (path.parent / link).resolve()
        pages = generated().get(there.parent.name, {})
        assert link.startswith(("https://", "http://")) or there.exists() or there.stem in pages, link


def test_every_verb_option_and_key_has_its_place():
    for name, command in cli.commands().items():
        for option in command.options.values():
            if option.help and option.field.name not in command.positional:
                flag = f"--no-{option.flag[2:]}" if option.default is True else option.flag
                assert f"{{option}} {flag}" in generated()["command-line"][name], option
    for option in command_options(Recipe):
        page = generated()["settings"][option.group or "index"]
        assert f"{{confval}} {option.group}{'.' * bool(option.group)}{option.field.name}\n" in page


def command_options(settings: type) -> list:
    """All documented settings."""
    from dragoman.cli.parsing import options_of

    return [option for option in options_of(settings) if option.help]


def test_every_route_of_the_server_is_documented():
    description, routes = http_apis.application()
    index, *apis = generated()["http"].values()
    text = "\n".join(apis)
    for route in routes:
        if route.path not in description["paths"]:
            assert f"| `{route.path}{'/' * (not hasattr(route, 'methods'))}` |" in index
            continue
        assert re.search(rf"\| \[`[^`]* {re.escape(route.path)}`\]\(", index)
        section = text[text.index(f"({http_apis.label(route.path)})=\n") :].split("\n(http")[0]
        for method, operation in description["paths"][route.path].items():
            assert method.upper() in section.splitlines()[1]
            assert all(status in section for status in operation["responses"].keys() - {"200"})
        assert f"curl localhost:8000{route.path}" in section
    for name, schema in description["components"]["schemas"].items():
        rows = text.partition(f"### {name}\n")[2].split("\n#")[0]
        assert name.endswith("Error") or all(f"| `{each}` |" in rows for each in schema["properties"])


def test_types_of_fields_are_words():
    shown = {
        "string (at most 5 characters)": {"type": "string", "maxLength": 5},
        "list (2) of lists of strings": {
            "type": "array",
            "minItems": 2,
            "maxItems": 2,
            "items": {"type": "array", "items": {"type": "string"}},
        },
        "integer or [Score](#score)": {
            "anyOf": [{"type": "integer"}, {"$ref": "#/components/schemas/Score"}, {"type": "null"}]
        },
        '`"a"` or `1`': {"enum": ["a", 1, None]},
        "value": {},
    }
    assert {http_apis.kind(schema): schema for schema in shown.values()} == shown
    assert http_apis.prose("a_b `c_d`\n  e") == r"a\_b `c_d` e"


def test_every_module_of_python_is_documented():
    documented = "\n".join(generated()["python"].values())
    for path in (ROOT / "src").rglob("*.py"):
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        if len(parts) > 2 and parts[1] not in ("cli", "lab", "serving") and parts[-1] != "__init__":
            assert f".. automodule:: {'.'.join(parts)}\n" in documented


def test_the_names_of_the_package_are_documented_once_in_an_order():
    index = generated()["python"]["index"]
    documented = re.findall(r"\.\. auto(?:class|function):: dragoman\.(\w+)$", index, re.MULTILINE)
    assert sorted(documented) == sorted(dragoman.__all__)


def public_names(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Its functions, classes, methods and properties. The site's pages show those with a docstring."""
    own = {
        name: each
        for name, each in vars(module).items()
        if getattr(each, "__module__", "") == module.__name__
    }
    for name, each in own.items():
        if isclass(each) or (isfunction(each) and each.__name__ == name):
            yield name, each
        for inner in vars(each) if isclass(each) else ():
            if isfunction(getattr(each, inner)) or isinstance(
                vars(each)[inner], property | classmethod | staticmethod
            ):
                yield f"{name}.{inner}", getattr(each, inner)


def test_every_public_name_is_documented():
    """Methods may have the docstring of a class that they inherit from, except PyTorch's."""
    foreign = {getdoc(nn.Module.forward), getdoc(nn.Linear.forward)}
    names = re.findall(r"automodule:: (\S+)", "\n".join(generated()["python"].values()))
    for module in names:
        if not module.endswith("triton_kernels"):  # Triton is not everywhere
            for name, each in public_names(importlib.import_module(module)):
                private = any(part.startswith("_") for part in name.split("."))
                assert private or getdoc(each) not in {None, "", *foreign}, f"{module}.{name}"


def test_results_are_those_of_the_files_with_their_passports():
    page = generated()["results"]["decode"]
    assert page.index("decode-small-2026-11-23") < page.index("decode-base-2026-11-22")
    assert "commit c7f2454" in page
    assert "| dragoman | float32 | 4 | no | 206 |" in page
    passports = generated()["results"]["passports"]
    assert all(f"| `{path.stem}` | `" in passports for path in (ROOT / "benchmarks/results").glob("*.json"))


def test_text_in_pages_has_no_marks():
    assert (
        markdown.escaped("d_model [a] <b> 1 * 2 `c` $x | y") == r"d\_model \[a\] \<b\> 1 \* 2 \`c\` \$x \| y"
    )


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (
            [
                "1,024",
                "−0.5",
                "1.59×",
                "98 %",
                "1e-05",
                "27.3 ± 0.2",
                "0.31 (0.14 to 0.41)",
                "39,841 to 41,793",
            ],
            True,
        ),
        (["d_k 16", "4 heads", "2026-11-29", "O(1)", "base", "3.2.1: attention"], False),
    ],
)
def test_numbers_of_a_table_are_told_from_words(cells, wanted):
    assert {is_number(cell) for cell in cells} == {wanted}


def test_pages_that_are_gone_are_removed_and_others_keep_their_time(tmp_path):
    markdown.write(tmp_path, {"one": "1", "two": "2"})
    before = (tmp_path / "one.md").stat().st_mtime_ns
    markdown.write(tmp_path, {"one": "1", "three": "3"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.md", "three.md"]
    assert (tmp_path / "one.md").stat().st_mtime_ns == before


# ---- the site


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as `make docs` builds it."""
    pytest.importorskip("sphinx", reason="Sphinx is missing: pip install 'dragoman[docs]'")
    pytest.importorskip("furo", reason="furo is missing: pip install 'dragoman[docs]'")
    out = tmp_path_factory.mktemp("site")
    build = ["-m", "sphinx", "--quiet", "--fail-on-warning", "--nitpicky"]
    ran = subprocess.run(
        [sys.executable, *build, "-d", out / "doctrees", DOCS, out / "html"],
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return out / "html"


SHOWN = [
    "index",
    "tutorials/first-model",
    "reference/command-line/train",
    "reference/python/evaluation",
    "explanation/paper/attention",
    "explanation/experiments/index",
    "reference/results/decode",
]


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", SHOWN)
def test_pages_are_accessible_and_fit_a_narrow_window(site, browser, name, scheme):  # noqa: F811
    axe = pytest.importorskip("axe_core_python.base", reason="axe is missing: pip install axe-core-python")
    page = browser.new_page(color_scheme=scheme, viewport={"width": 360, "height": 800})
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto((site / f"{name}.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.evaluate(axe.AXE_SCRIPT)
    found = page.evaluate("axe.run()")["violations"]
    assert not found, [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in found]
    assert all(url.startswith(("file:", "data:")) for url in requests)
    page.close()


@pytest.mark.long
@pytest.mark.parametrize("query", ["√d_k", "sqrt d_k", "why scale"])
def test_short_forms_of_a_question_find_its_answer_and_its_section(site, browser, query):  # noqa: F811
    page = browser.new_page()
    page.goto((site / "index.html").as_uri())
    page.fill("input[name=q]", query)
    page.press("input[name=q]", "Enter")
    page.locator("ul.search li a").nth(1).wait_for()
    first = [page.locator("ul.search li > a").nth(number).get_attribute("href") for number in range(2)]
    found = {link.partition("#")[0].removeprefix("./") for link in first}
    assert found == {"explanation/questions.html", "explanation/paper/attention.html"}
    page.close()


@pytest.mark.long
def test_the_search_leads_from_a_question_to_the_code_and_the_experiment_in_three_clicks(site, browser):  # noqa: F811
    page = browser.new_page()
    page.goto((site / "index.html").as_uri())
    page.fill("input[name=q]", "what is √d_k for")
    page.press("input[name=q]", "Enter")
    page.locator("ul.search li a").first.click()
    assert page.url.endswith("explanation/questions.html#what-is-d-k-for")
    answer = page.locator("#what-is-d-k-for")
    experiment = answer.get_by_role("link", name="an experiment")
    assert experiment.get_attribute("href") == "experiments/dot-product-variance.html"
    answer.get_by_role("link", name="equation 1").click()
    assert "scores = query @ key.transpose" in page.locator(".paper-item pre").first.inner_text()
    page.close()


def test_the_page_about_the_installation_has_a_row_for_each_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    _, table = (DOCS / "install.md").read_text("utf-8").split("| extra |")
    names = [row.split("|")[1] for row in table.split("\n\n")[0].splitlines()[2:]]
    assert sorted(re.findall("`(.*?)`", " ".join(names))) == sorted(project["optional-dependencies"])
