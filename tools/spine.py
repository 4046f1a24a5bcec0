"""How much code one has to read, counted from the code itself: `python tools/spine.py`.

Prints a line for each figure. `--list` names the files, the arrows and the definitions that were counted.
"""

import argparse
import ast
import io
import os
import re
import subprocess
import sys
import tempfile
import threading
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "dragoman"
LOOP = ("training/objective.py", "_accumulate")
"""The function with the loop over batches: its file and its name."""
KERNELS = {"scaled_dot_product_attention"}
"""Built-in functions that contain QKᵀ."""
PATHS = {"EncoderLayer.self_attention", "DecoderLayer.self_attention", "DecoderLayer.cross_attention"}
SPEED_IMPORTS = ("dragoman.native", "ctypes", "torch.ops", "torch.backends", "torch.compiler")
"""What `model/` does not import."""
SPEED_NAMES = {"native", "fused", "is_compiling", "is_cuda", "mkldnn", "cudnn"}
"""Names that `model/` does not have, as attributes, variables or arguments."""


@dataclass
class Figure:
    """One count."""

    name: str
    value: int
    details: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.name:<68} {self.value:>7,}"


def syntax_tree(path: Path) -> ast.Module:
    """A Python file, parsed."""
    return parse(path.read_text("utf-8"))


parse = cache(ast.parse)
"""Each file is asked for several times."""


def has_code(path: Path) -> bool:
    """Whether a file holds more than strings and comments."""
    body = syntax_tree(path).body
    return any(not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in body)


def code_lines(path: Path) -> int:
    """Lines of a Python file that hold code: not blank, not a comment, not a docstring."""
    source = path.read_text("utf-8")
    docstrings: set[int] = set()
    for node in ast.walk(syntax_tree(path)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    skipped = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in skipped:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


# --- 1 and 3: what runs between two text files and BLEU ---


def is_function(code: CodeType) -> bool:
    """Whether this is a named function of the package, and not a module, a class or a comprehension."""
    return (
        bool(code.co_flags & 1)
        and not code.co_name.startswith("<")
        and code.co_filename.startswith(f"{PACKAGE}{os.sep}")
    )


class Trace:
    """The functions of the package that are called, and how training gets to QKᵀ."""

    def __init__(self) -> None:
        self.functions: dict[str, set[str]] = defaultdict(set)
        self.to_kernel: dict[str, list[str]] = {}
        self._seen: set[int] = set()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            code = frame.f_code
            if id(code) not in self._seen:
                self._seen.add(id(code))
                if is_function(code):
                    self.functions[relative(code)].add(code.co_qualname)
        elif event == "c_call" and getattr(argument, "__name__", "") in KERNELS:
            self.note_path(frame)

    def note_path(self, frame: FrameType) -> None:
        """Note the definitions after the loop over batches, up to the function that calls the kernel."""
        frames = list(stack(frame))
        names = [(relative(each.f_code), each.f_code.co_name) for each in frames]
        if LOOP in names:
            between = frames[: names.index(LOOP)]
            path = attention_name(between)
            self.to_kernel[path] = [each.f_code.co_qualname for each in reversed(between)]


def relative(code: CodeType) -> str:
    """A file's name within the package."""
    return Path(code.co_filename).relative_to(PACKAGE).as_posix()


def stack(frame: FrameType | None) -> Iterator[FrameType]:
    """The package's own functions that are being called, the innermost first."""
    while frame is not None:
        if is_function(frame.f_code):
            yield frame
        frame = frame.f_back


def attention_name(frames: list[FrameType]) -> str:
    """`EncoderLayer.self_attention` and the like: which attention the innermost frames belong to."""
    attention, *callers = [each.f_locals["self"] for each in frames if "self" in each.f_locals]
    for caller in callers:
        for name, module in caller.named_children():
            if module is attention:
                return f"{type(caller).__name__}.{name}"
    return type(attention).__name__


def trace_road(folder: Path) -> Trace:
    """Prepare a tiny corpus, train for 2 updates, translate and score, all by PyTorch."""
    sys.path.insert(0, str(ROOT / "src"))
    import torch._dynamo  # noqa: F401  many functions, which are not counted: imported before they are traced

    from dragoman.evaluation.metrics import bleu
    from dragoman.pipeline import autoconfigure
    from dragoman.pipeline.complete import complete_recipe
    from dragoman.pipeline.run import run
    from dragoman.translation.translator import Translator

    words = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath"]
    lines = [" ".join(words[number * step % 8] for step in range(1, number % 5 + 3)) for number in range(100)]
    for name, part in (("train", lines), ("valid", lines[:3]), ("test", lines[20:22])):
        for side, text in (("en", part), ("de", [line.upper() for line in part])):
            (folder / f"{name}.{side}").write_text("\n".join(text) + "\n")
    files = {f"{kind}source": folder / f"{name}.en" for kind, name in (("", "train"), ("valid_", "valid"))}
    files |= {f"{kind}target": folder / f"{name}.de" for kind, name in (("", "train"), ("valid_", "valid"))}
    table = {
        "out": str(folder / "run"),
        "preset": "tiny",
        "model": {"d_model": 32, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1},
        "data": {name: str(path) for name, path in files.items()},
        "training": {"updates": 2, "validate_every": 2, "checkpoint_every": 1, "native": False},
        "tokenizer": {"vocabulary": 320},
    }
    autoconfigure.TIMED_UPDATES = 1  # two updates call the same functions as seventeen
    autoconfigure.MAX_REPEATED = 0.0
    trace = Trace()
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        recipe = complete_recipe(table, "spine", lambda recipe: recipe, lambda: False)
        run(recipe)
        translator = Translator.load(folder / "run", native=False)
        hypotheses = translator.translate((folder / "test.en").read_text().splitlines())
        bleu(hypotheses, (folder / "test.de").read_text().splitlines())
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return trace


def road() -> list[Figure]:
    """Files and code lines from text to BLEU, and definitions from the loop over batches to QKᵀ."""
    with tempfile.TemporaryDirectory() as folder:
        trace = trace_road(Path(folder))
    sizes = {
        name: code_lines(PACKAGE / name) for name in sorted(trace.functions) if not name.startswith("native/")
    }
    details = [f"{name}: {lines}" for name, lines in sizes.items()]
    if missing := PATHS - trace.to_kernel.keys():
        raise SystemExit(
            f"No call of {KERNELS} within {LOOP[1]} of {LOOP[0]} was seen for {sorted(missing)}."
        )
    paths = [
        Figure(
            f"definitions from the loop over batches to QKᵀ: {path}",
            len(names),
            details=[" → ".join(names)],
        )
        for path, names in sorted(trace.to_kernel.items())
    ]
    return [
        Figure("text → BLEU with PyTorch alone: files", len(sizes), details),
        Figure("text → BLEU with PyTorch alone: code lines", sum(sizes.values())),
        *paths,
    ]


# --- 2: rooms, floors and arrows ---


def modules() -> dict[str, Path]:
    """The package's modules by name; a package is its `__init__`."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of the package that a file imports, anywhere in it, but for the sake of types alone."""
    tree = syntax_tree(path)
    types_only = {
        node
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for node in ast.walk(branch)
    }
    found = set()
    for node in ast.walk(tree):
        if node in types_only:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                found.add(submodule if submodule in known else node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return found & known.keys()


def room(module: str) -> str:
    """The top-level module or sub-package that a module is in; `dragoman` for the package itself."""
    return ".".join(module.split(".")[1:2]) or "dragoman"


def rooms() -> list[Figure]:
    """Rooms with code, the longest chain of imports among them, and the different imports."""
    known = modules()
    houses = {room(name) for name, path in known.items() if has_code(path)}
    arrows = {(room(name), room(other)) for name, path in known.items() for other in imports(path, known)}
    arrows = {(one, other) for one, other in arrows if one != other}

    circles: set[str] = set()

    def chain(name: str, above: tuple[str, ...] = ()) -> int:
        if name in above:
            circles.add(" → ".join([*above[above.index(name) :], name]))
            return 0
        below = [other for one, other in arrows if one == name and other != "dragoman"]
        return 1 + max((chain(other, (*above, name)) for other in below), default=0)

    return [
        Figure(
            "rooms: top-level modules and sub-packages with code",
            len(houses),
            details=[", ".join(sorted(houses))],
        ),
        Figure("floors: the longest chain of imports between rooms", max(map(chain, houses))),
        Figure("circles of imports between rooms", len(circles), details=sorted(circles)),
        Figure(
            "arrows: different imports between rooms",
            len(arrows),
            details=[
                f"{one} → {', '.join(sorted(b for a, b in arrows if a == one))}"
                for one in sorted({a for a, _ in arrows})
            ],
        ),
    ]


# --- 4: the model's pages know nothing of speed ---


def dotted(node: ast.AST) -> str:
    """`a.b.c` of an attribute of a name; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def speed_branches(path: Path) -> list[str]:
    """What a file does for speed alone: imports of kernels, questions about devices and compilers."""
    found = []
    for node in ast.walk(syntax_tree(path)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [f"imports {alias.name}" for alias in node.names if is_speed(alias.name)]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [f"imports {module}" for module in modules if is_speed(module)]
        elif isinstance(node, ast.Attribute | ast.Name) and is_speed(dotted(node)):
            names = [f"asks for {dotted(node)}"]
        elif isinstance(node, ast.arg | ast.keyword) and node.arg in SPEED_NAMES:
            names = [f"has an argument {node.arg}"]
        found += [f"{path.name}:{getattr(node, 'lineno', 0)} {name}" for name in names]
    return found


def is_speed(name: str) -> bool:
    """Whether a dotted name is one that `model/` does not use."""
    return (
        name.startswith(SPEED_IMPORTS)
        or name.endswith(".device.type")
        or name.rpartition(".")[2] in SPEED_NAMES
    )


def pages() -> Figure:
    """Branches for speed in `model/`."""
    found = [branch for path in sorted((PACKAGE / "model").glob("*.py")) for branch in speed_branches(path)]
    return Figure("branches for speed in model/", len(found), details=found)


# --- 5: what a stranger reads first ---


def options_of_translate() -> list[str]:
    """The options that `dragoman translate --help` shows, but for those that show help."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "120", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "dragoman", "translate", "--help"]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout  # noqa: S603
    options = re.findall(r"^[\s│|]*(?:-\w,?\s+)?(--[a-z][\w-]*)", shown, re.MULTILINE)
    return [option for option in dict.fromkeys(options) if not option.startswith("--help")]


def front_door() -> list[Figure]:
    """Sizes of README and architecture, options of `translate --help`."""
    options = options_of_translate()
    return [
        Figure("README.md: bytes", (ROOT / "README.md").stat().st_size),
        Figure("docs/architecture.md: bytes", (ROOT / "docs" / "architecture.md").stat().st_size),
        Figure("options shown by dragoman translate --help", len(options), [", ".join(options)]),
    ]


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="name what was counted")
    asked = parser.parse_args()
    figures = [*road(), *rooms(), pages(), *front_door()]
    for figure in figures:
        print(figure)
        if asked.list:
            for detail in figure.details:
                print(f"    {detail}")


if __name__ == "__main__":
    main()
