"""The commands and recipes of every page run in order, in a folder of the page's own, in short form.

`tests/page_programs.py` has the programs that shorten them. tests/test_docs_snippets.py runs the Python of
pages, tests/test_docs.py the doctests.
"""

import gzip
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from tests import page_programs
from tests.conftest import MAX_SECONDS, write_copies
from tests.office_files import word_file
from tests.page_programs import SERVER, write_scripts
from tests.test_docs import DOCS, FENCE, GENERATED, ROOT, TEXTS, blocks, commands, generated, parse

SHELLS = ("sh", "console", "toml")
"""Run here."""
ELSEWHERE = {
    "python": "tests/test_docs_snippets.py, tests/test_readme.py",
    "pycon": "tests/test_docs.py",
    "yaml": "Kubernetes manifests: there is no cluster. Their commands are parsed below.",
    "text": "pictures of characters",
    "js": "a module for browsers; tests/test_web.py calls its functions",
}
"""What runs the blocks of other languages, or why nothing does."""
NOT_RUN = {
    "dragoman train --dataset multi30k-en-de --preset base --out runs/ende": "it downloads Multi30k",
    "dragoman data opus:en-de": "it asks OPUS; tests/test_opus.py asks a server that answers as OPUS does",
    "dragoman data opus:en-de/Tatoeba opus:en-de/TED2020": "the same",
    "dragoman data opus:en-de/Tatoeba opus:en-de/TED2020 --out corpora": "the same",
    "dragoman train --dataset opus:en-de/Tatoeba opus:en-de/TED2020 --folder corpora --out runs/ende-opus": (
        "the same"
    ),
    "dragoman lab --out results/lab          # all that have no result in this folder yet, in full": (
        "it takes an hour; tests/test_lab.py runs each experiment"
    ),
    "dragoman lab                                      # all experiments that have no result yet": (
        "the same"
    ),
    "$ python3 -m venv /opt/dragoman && /opt/dragoman/bin/pip install -c constraints.txt '.[serve,train]'": (
        "it installs for the whole machine"
    ),
    "dragoman export runs/ende --to web --out site": "it needs Emscripten; tests/test_web.py runs it",
    "python3 -m http.server --directory site": "it serves until it is stopped",
    "python3 -m venv .venv": "the page's folder has an environment, whose programs install nothing",
    "dragoman train suggestions.jsonl --initial-model runs/ende --replay train.en train.de --out runs/new": (
        "one suggestion is too little text; tests/test_suggestions.py trains with more"
    ),
    "git clone ADDRESS dragoman && cd dragoman": "the repository has no public address yet",
    ".venv/bin/pytest -k attention         # while you work": "a test would run the tests",
    "$ mkdir -p /etc/dragoman /srv/dragoman/versions /srv/dragoman/models": "the same",
    "$ /opt/dragoman/bin/dragoman serve --api-keys /etc/dragoman/keys.toml --new-key weblate": "the same",
    "$ cp deploy/dragoman@.service /etc/systemd/system/ && systemctl daemon-reload": "the same",
    "$ systemctl restart dragoman@8001 && until curl -fs localhost:8001/ready; do sleep 1; done": (
        "there is no server; tests/test_operations.py restarts replicas"
    ),
    "$ curl localhost:8000/v1/admin/reload --json '{}' -H \"Authorization: Bearer KEY\"": (
        "the key is another one; tests/test_reload.py reloads servers"
    ),
    "python -c \"import argostranslate.package as package; package.install_from_path('ende.argosmodel')\"": (
        "the program needs an environment of its own; tests/test_argos.py runs it there"
    ),
}
"""Lines of pages that are parsed only, each with the reason. A stand-in of `tests/page_programs.py` takes the
place of pip, make, systemctl, srun, scontrol and argos-translate.
"""
PAGES_NOT_RUN = {
    "results": "commands in passports of measurements, with the peers and the commit of each",
    "experiments": "`dragoman lab NAME`; tests/test_lab.py runs each experiment",
}
"""Folders of pages that are made."""
LAB = ROOT / "src" / "dragoman_paper" / "lab" / "README.md"
PAGES = [path for path in [*TEXTS, LAB] if blocks(path, *SHELLS)]
SLURM = {"SLURM_NNODES": "1", "SLURM_CPUS_PER_TASK": "1", "SLURM_JOB_NODELIST": "one", "SLURM_JOB_ID": "1"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").as_posix().removeprefix("docs/")


# ---- what is run


def test_every_block_is_run_or_listed_as_not_run():
    lines = set()
    for path in [*TEXTS, LAB]:
        for _, language, text in FENCE.findall(path.read_text("utf-8")):
            assert language.startswith("{") or language in {*SHELLS, *ELSEWHERE}, (
                f"{name_of(path)}: name the language of the block, and what runs it:\n{text}"
            )
            lines |= {line.strip() for line in text.splitlines()}
    assert lines >= {*NOT_RUN}
    assert {*PAGES_NOT_RUN} < {*GENERATED}
    doctests = [path for path in TEXTS if blocks(path, "pycon")]
    assert doctests == [DOCS / "explanation" / f"{name}.md" for name in ("notes", "questions")]


def torchrun_commands() -> list[list[str]]:
    """The arguments of torchrun in shells and manifests, each up to `-m`, and those of dragoman after it."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is missing: pip install pyyaml")
    found = []
    for path in PAGES:
        for text in blocks(path, "sh"):
            joined = text.replace("\\\n", " ")
            found += [
                line.split("#")[0].split() for line in re.findall(r"\btorchrun (.*-m dragoman.*)", joined)
            ]
        for text in blocks(path, "yaml"):
            for container in containers(*yaml.safe_load_all(text)):
                found += [container["command"][1:]] if "command" in container else []
    return found


def containers(*manifests: dict) -> list[dict]:
    """The containers of Kubernetes manifests."""
    return [
        each
        for manifest in manifests
        for each in manifest["spec"].get("template", {"spec": {"containers": []}})["spec"]["containers"]
    ]


def test_torchrun_has_the_options_of_the_pages():
    from torch.distributed.run import get_args_parser

    found = torchrun_commands()
    assert len(found) > 6
    for words in found:
        asked = get_args_parser().parse_args(words)
        assert asked.training_script == "dragoman"
        assert asked.training_script_args[0] in ("train", "reproduce")


def test_kubernetes_starts_the_server_with_its_options():
    yaml = pytest.importorskip("yaml", reason="PyYAML is missing: pip install pyyaml")
    served = [
        each for text in blocks(DOCS / "deploying.md", "yaml") for each in containers(yaml.safe_load(text))
    ]
    for container in served:
        parse(["serve", "/models", *container["args"]])
    assert served


# ---- running


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A folder with the scripts of `tests/page_programs.py`, and the process that runs them."""
    folder = tmp_path_factory.mktemp("programs")
    runner = folder / "socket"
    write_scripts(folder / "bin", runner)
    process = subprocess.Popen(
        [sys.executable, page_programs.__file__, runner], env=environment(folder / "bin")
    )
    while not runner.exists():
        assert process.poll() is None
        time.sleep(0.05)
    yield folder / "bin"
    process.kill()
    process.wait()


def environment(programs: Path) -> dict[str, str]:
    """The environment of a page's commands."""
    paths = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    return {**os.environ, **SLURM, **paths, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def prepared(programs, tmp_path_factory):
    """A folder with all that pages take for given: texts, a run, and models of other toolkits."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "bin").symlink_to(programs)
    write_texts(folder)
    write_trees(folder)
    for path in ("srv/models", "srv/versions", "results", "data", ".venv/bin"):
        (folder / path).mkdir(parents=True)
    (folder / ".venv/bin/activate").touch()
    for name in ("dragoman", "pip"):
        (folder / ".venv/bin" / name).symlink_to(folder / "bin" / name)
    (folder / "experiments").symlink_to(ROOT / "experiments")
    shell(
        "dragoman train train.en train.de --valid-source valid.en --valid-target valid.de --out runs/ende",
        folder,
    )
    shell(
        "dragoman train train.de train.en --valid-source valid.de --valid-target valid.en --out runs/de-en",
        folder,
    )
    for name in ("old", "new", "little", "quickstart"):
        shutil.copytree(folder / "runs" / "ende", folder / "runs" / name)
    write_adapters(folder / "runs" / "ende", folder / "adapters")
    write_models(folder)
    return folder


def write_texts(folder: Path) -> None:
    """Parallel text under the names and in the formats of the pages."""
    datasets = folder / "FOLDER", folder / "FOLDER" / "wmt14-en-de"
    for path in (*datasets, folder / "bt"):
        path.mkdir()
    sizes = {
        "all": 300,
        "train": 300,
        "valid": 20,
        "test": 5,
        "other": 5,
        "new": 60,
        "old": 60,
        "test2016": 5,
    }
    names = {name: (folder / name, lines) for name, lines in (sizes | {"test2017": 5, "bt/mono": 60}).items()}
    names |= {f"FOLDER/{name}": (datasets[0] / name, sizes[name]) for name in ("train", "valid", "test2016")}
    wmt = {"train": 300, "newstest2013": 20, "newstest2014": 5}
    names |= {f"wmt/{name}": (datasets[1] / name, lines) for name, lines in wmt.items()}
    for seed, (stem, lines) in enumerate(names.values()):
        for path, language in zip(
            write_copies(stem.parent, stem.name, lines, seed), ("en", "de"), strict=True
        ):
            path.rename(stem.with_name(f"{stem.name}.{language}"))
    for name, lines in (("ted", 100), ("ted-valid", 20)):
        for path, language in zip(write_copies(folder, name, lines, 9), ("en", "fr"), strict=True):
            path.rename(folder / f"{name}.{language}")
    (folder / "multi30k").symlink_to(datasets[0])
    shutil.copy(folder / "new.de", folder / "mono.de")
    (folder / "more.de").write_text("AMBER BIRCH\nCEDAR\n")
    (folder / "page.html").write_text("<p>amber birch</p>")
    (folder / "report.docx").write_bytes(word_file("<w:p><w:r><w:t>amber birch</w:t></w:r></w:p>"))
    (folder / "messages.po").write_text('msgid ""\nmsgstr ""\n\nmsgid "amber birch"\nmsgstr ""\n')
    (folder / "film.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\namber birch\n")
    train, valid, test = (pairs_of(folder / name) for name in ("train", "valid", "test"))
    spelt = (f"{one}\t{' '.join(one.upper())}\n" for one in map("word{}".format, range(100)))
    (folder / "words.tsv").write_text("".join(spelt))
    (folder / "valid.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in valid))
    lines = "".join(json.dumps({"en": one, "de": other}) + "\n" for one, other in test)
    (folder / "test.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{one}</seg></tuv><tuv xml:lang="de"><seg>{other}</seg></tuv></tu>\n'
        for one, other in train
    )
    (folder / "corpus.tmx").write_text(f'<tmx version="1.4"><header srclang="en"/><body>{units}</body></tmx>')
    for name, pairs in (("train.align", train), ("gold.align", test)):
        links = (" ".join(f"{at}-{at}" for at in range(len(one.split()))) for one, _ in pairs)
        (folder / name).write_text("".join(f"{line}\n" for line in links))
    (folder / "recipe.toml").write_text(
        'out = "runs/recipe"\npreset = "tiny"\n[data]\nsource = "train.en"\ntarget = "train.de"\n'
    )


def pairs_of(stem: Path) -> list[tuple[str, str]]:
    one, other = (Path(f"{stem}.{language}").read_text().splitlines() for language in ("en", "de"))
    return list(zip(one, other, strict=True))


def write_trees(folder: Path) -> None:
    """Trees as docs/parsing.md takes them, and symbols of the test's."""
    from tests.test_table4 import toy_tree

    chance = random.Random(1)
    for part, count in (("train", 200), ("valid", 20), ("test", 5)):
        (folder / f"{part}.ptb").write_text("".join(f"{toy_tree(chance)}\n" for _ in range(count)))
    for part in ("valid", "test"):
        shell(f"dragoman linearise {part}.ptb -s {part}.words -t {part}.brackets", folder)
    shutil.copy(folder / "test.brackets", folder / "test.symbols")
    trees = (folder / "train.ptb").read_bytes()
    (folder / "train.ptb.gz").write_bytes(gzip.compress(trees))
    for section in ("02", "10", "20"):
        (folder / "wsj" / section).mkdir(parents=True)
        (folder / "wsj" / section / f"wsj_{section}01.mrg").write_bytes(trees.replace(b" (VP", b"\n    (VP"))


def write_adapters(base: Path, folder: Path) -> None:
    """Two adapters of a run."""
    from dragoman.translation.adapter import Adapter
    from dragoman.translation.model_folder import StoredModel, model_hash

    for seed, name in enumerate(("legal", "medical")):
        draw = np.random.default_rng(seed)
        factors = {
            weight: tuple(draw.normal(0, 0.1, shape).astype(np.float32) for shape in ((2, 16), (16, 2)))
            for weight, values in StoredModel.load(base).weights.items()
            if values.shape == (16, 16)
        }
        Adapter(model_hash(base), factors, 9).save(folder / name)


def write_models(folder: Path) -> None:
    """Models as other toolkits write them, from the tests of their imports."""
    from tests import test_fairseq, test_joeynmt, test_marian, test_opennmt_py

    test_fairseq.folder_of(folder)
    for name, pattern in (("data-bin", "dict.*.txt"), ("checkpoints", "checkpoint_best.pt")):
        (folder / name).mkdir()
        for path in folder.glob(pattern):
            shutil.copy(path, folder / name)
    path, *_ = test_opennmt_py.checkpoint(folder)
    path.rename(folder / "model_step_100000.pt")
    test_marian.random_model(folder / "en-de", **test_marian.KINDS["all tied"])
    (folder / "models").mkdir()
    test_joeynmt.Folder(folder / "models" / "wmt_ende")
    shutil.copytree(folder / "models" / "wmt_ende", folder / "FOLDER", dirs_exist_ok=True)


@pytest.fixture
def folder(prepared, tmp_path):
    """A copy for a page. Its server ends with the test."""
    path = tmp_path / "page"
    shutil.copytree(prepared, path, symlinks=True)
    yield path
    if (path / SERVER).exists():
        with suppress(ProcessLookupError):
            os.kill(json.loads((path / SERVER).read_text())[0], signal.SIGKILL)


def shell(block: str, folder: Path) -> str:
    """Standard output of lines of a shell, none of which may fail."""
    ran = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", block],
        cwd=folder,
        env=environment(folder / "bin"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, f"{block}\n{ran.stdout}\n{ran.stderr}"
    assert "Traceback" not in ran.stderr, f"{block}\n{ran.stderr}"
    return ran.stdout


def run(language: str, text: str, folder: Path) -> None:
    """Run a block. Lines of a console that are not typed are what is printed."""
    if language == "toml":
        (folder / "recipe.toml").write_text(text)
        shell("dragoman train recipe.toml", folder)
        return
    lines = [line.strip() for line in text.splitlines()]
    printed = [line for line in lines if language == "console" and not line.startswith("$ ")]
    typed = [line.removeprefix("$ ") for line in lines if line not in {*NOT_RUN, *printed}]
    block = "\n".join(typed).replace("/srv/dragoman", "srv")
    block = block.replace("-n 1000 ", "-n 20 ").replace("-n +1001 ", "-n +21 ")  # own-corpus.md's test data
    out = shell(block, folder)
    assert all(line in out.splitlines() for line in printed), out


def run_page(text: str, folder: Path) -> None:
    if "opus-mt-en-de" in text:  # a folder of transformers, whose import takes seconds
        shell("dragoman export runs/ende --to huggingface --out opus-mt-en-de", folder)
    for _, language, block in FENCE.findall(text):
        if language in SHELLS:
            run(language, block, folder)


@pytest.mark.long
@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_a_page_runs(path, folder):
    text = path.read_text("utf-8")
    if re.search(
        "^ *dragoman backtranslate", text, re.MULTILINE
    ):  # which makes these pairs, and replaces no others
        shutil.rmtree(folder / "bt")
    run_page(text, folder)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted({*GENERATED} - {*PAGES_NOT_RUN}))
def test_pages_that_are_made_run(name, folder):
    run("sh", "dragoman serve runs/ende" if name == "http" else "", folder)
    for text in generated()[name].values():
        run_page(text, folder)
        for _, language, block in FENCE.findall(text):
            assert language.startswith("{") or language in {*SHELLS, "python", "text"}
            if language == "python":
                exec(compile(block, name, "exec"), {})


@pytest.mark.long
def test_pages_of_experiments_name_theirs():
    from dragoman_paper.lab.frame.catalogue import names

    for name, text in generated()["experiments"].items():
        found = [
            words
            for _, language, block in FENCE.findall(text)
            if language == "sh"
            for words in commands(block)
        ]
        assert all(words == ["lab", name] and name in names() for words in found)
