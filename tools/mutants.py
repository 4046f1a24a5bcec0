"""Random bugs, one at a time: do the tests catch them?

    pytest --cov=src --cov-context=test --cov-report= tests     # once: which tests execute which line
    python tools/mutants.py --count 100 --seed 1 --only src/dragoman/search

A mutant changes one place of a file of `src` in a copy of the tree: a comparison, a condition, a constant, an
operator, a statement that is left out. Tests that execute its line are run, those first whose file has a like
name; a test that also fails without the mutant does not count. Prints each verdict and how many are caught.
Not part of `make test`.
"""

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[1]
SKIPPED = (".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", ".coverage", "runs")
FEW, MOST = 30, 300
"""Tests that are run at first, and if none of them fails."""
SECONDS = 600
"""Tests that take longer hang: the mutant is caught."""
COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
MESSAGES = re.compile(
    r"""(logger|console|warnings)\.|(print|say|\w*Error)\(|(import|from|raise|assert)\b|[fr]?["']"""
)
"""How statements and expressions begin that have no mutants."""


@dataclass(frozen=True)
class Mutant:
    """Bytes `start` to `end` of a file, in a line, and what takes their place."""

    line: int
    start: int
    end: int
    text: str

    def apply(self, source: bytes) -> bytes:
        """The file with the mutant."""
        return source[: self.start] + self.text.encode() + source[self.end :]


class Source:
    """A file of Python, and the mutants of its nodes."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.starts = [0]  # of the lines, in bytes
        for line in content.split(b"\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """The bytes of a node."""
        last_line, last_column = node.end_lineno or 0, node.end_col_offset or 0
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[last_line - 1] + last_column

    def text(self, node: ast.expr | ast.stmt) -> str:
        """What the file has for a node."""
        start, end = self.span(node)
        return self.content[start:end].decode()

    def replaced(self, node: ast.expr | ast.stmt, text: str) -> Mutant:
        """The mutant with another text for a node."""
        return Mutant(node.lineno, *self.span(node), text)

    def between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> Mutant:
        """The mutant with another operator between two nodes."""
        start, end = self.span(left)[1], self.span(right)[0]
        text = self.content[start:end].decode()
        return Mutant(left.end_lineno or 0, start, end, text.replace(old, new, 1))

    def mutants(self, node: ast.AST) -> Iterator[Mutant]:
        """The mutants of a node and of those in it."""
        yield from self.own_mutants(node)
        for child in children(node):
            if not (isinstance(child, ast.expr | ast.stmt) and MESSAGES.match(self.text(child))):
                yield from self.mutants(child)

    def own_mutants(self, node: ast.AST) -> Iterator[Mutant]:
        """The mutants of a node without those in it."""
        match node:
            case ast.Expr() | ast.AugAssign() | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                yield self.replaced(node, "pass")
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                yield self.replaced(test, f"not ({self.text(test)})")
            case ast.comprehension(ifs=conditions):
                yield from (self.replaced(each, f"not ({self.text(each)})") for each in conditions)
            case ast.Compare(left=left, ops=operators, comparators=sides):
                for one, operator, other in zip((left, *sides), operators, sides, strict=False):
                    yield self.between(one, other, *COMPARISONS[type(operator)])
            case ast.BoolOp(op=operator, values=[one, other, *_]):
                names = ("and", "or") if isinstance(operator, ast.And) else ("or", "and")
                yield self.between(one, other, *names)
            case ast.BinOp(left=one, op=operator, right=other) if type(operator) in OPERATORS:
                yield self.between(one, other, *OPERATORS[type(operator)])
            case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
                yield self.replaced(node, f"({self.text(operand)})")
            case ast.Call(func=ast.Name(id=name) as function) if name in FUNCTIONS:
                yield self.replaced(function, FUNCTIONS[name])
            case ast.Constant(value=bool(value)):
                yield self.replaced(node, str(not value))
            case ast.Constant(value=int(value)):
                yield self.replaced(node, str(value + 1))


def children(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes in a node that may have mutants: not imports, errors, annotations and texts."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from (*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body)
        case ast.ClassDef():
            yield from node.body
        case ast.AnnAssign():
            yield from filter(None, [node.value])
        case _:
            yield from ast.iter_child_nodes(node)


def is_program(content: bytes) -> bool:
    """Whether a file with a mutant compiles."""
    try:
        compile(content, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def draw(files: Sequence[Path], seed: int) -> Iterator[tuple[Path, Mutant]]:
    """Mutants of the files in a random order; each line of code is as likely as any other."""
    contents = {file: file.read_bytes() for file in files}
    lines: dict[tuple[Path, int], list[Mutant]] = {}
    for file, content in contents.items():
        for mutant in Source(content).mutants(ast.parse(content)):
            lines.setdefault((file, mutant.line), []).append(mutant)
    numbers = random.Random(seed)  # noqa: S311
    for file, line in numbers.sample(sorted(lines), len(lines)):
        mutants = lines[file, line]
        for mutant in numbers.sample(mutants, len(mutants)):
            if is_program(mutant.apply(contents[file])):
                yield file, mutant
                break


def tests_of(data: CoverageData, file: Path, line: int) -> list[str]:
    """The tests that execute a line: those of files of a like name, then a few of each other file."""
    contexts = data.contexts_by_lineno(str(file)).get(line, [])
    by_file: dict[str, list[str]] = {}
    for test in sorted({context.rpartition("|")[0] for context in contexts if context}):
        by_file.setdefault(test.partition("::")[0], []).append(test)
    words = set(file.stem.split("_"))
    order = sorted(by_file, key=lambda name: len(by_file[name]))
    like = [name for name in order if words & set(Path(name).stem.split("_"))]
    rounds = zip_longest(*(by_file[name] for name in order if name not in like))
    others = (test for group in rounds for test in group if test is not None)
    return [*(test for name in like for test in by_file[name]), *others]


def first_failure(tree: Path, tests: Sequence[str]) -> str | None:
    """The first test of a copy of the tree that fails, or what happened instead; None if all pass."""
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    options = ("-x", "-q", "-n", "0", "--no-cov", "-p", "no:cacheprovider", "--tb=no", "-m", "")
    command = [sys.executable, "-m", "pytest", *options, *tests]
    try:
        done = subprocess.run(  # noqa: S603
            command, cwd=tree, env=environment, capture_output=True, timeout=SECONDS, check=False, text=True
        )
    except subprocess.TimeoutExpired:
        return "no end"
    if done.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (.*)", done.stdout, re.MULTILINE)
    names = [test for test in tests if failed and failed[1].startswith(test)]  # a name may have spaces
    return max(names, key=len, default=failed[1] if failed else f"exit status {done.returncode}")


def verdict(tree: Path, path: Path, mutant: Mutant, tests: list[str]) -> str:
    """Whether the tests catch a mutant. The tree is as it was afterwards."""
    source = (tree / path).read_bytes()
    for some in (tests[:FEW], tests[FEW:MOST]):
        remaining = list(some)
        while remaining:
            try:
                (tree / path).write_bytes(mutant.apply(source))
                failed = first_failure(tree, remaining)
            finally:
                (tree / path).write_bytes(source)
            if failed is None:
                break
            is_test = failed in remaining
            if first_failure(tree, [failed] if is_test else remaining) is None:
                return f"caught by {failed}"
            if not is_test:
                return f"UNCLEAR: {failed}, also without it"
            remaining.remove(failed)
    return "SURVIVED" if tests else "NOT EXECUTED by any test"


def main() -> None:
    """Draw mutants and judge them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=60, help="number of mutants (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument("--only", type=Path, default=Path("src"), help="a file or folder (default: src)")
    arguments = parser.parse_args()
    recorded = ROOT / ".coverage"
    if not recorded.exists():
        parser.error("there is no .coverage; record it with the command above")
    data = CoverageData(str(recorded))
    data.read()
    only = (ROOT / arguments.only).resolve()
    files = [only] if only.is_file() else sorted(only.rglob("*.py"))
    verdicts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*SKIPPED))
        for file, mutant in draw(files, arguments.seed):
            if verdicts.total() == arguments.count:
                break
            path, old = file.relative_to(ROOT), file.read_bytes()[mutant.start : mutant.end].decode()
            outcome = verdict(tree, path, mutant, tests_of(data, file, mutant.line))
            verdicts[outcome.split()[0]] += 1
            print(f"{path}:{mutant.line}: {old!r} → {mutant.text!r}: {outcome}", flush=True)
    print(f"{verdicts['caught']} of {verdicts.total()} are caught.")


if __name__ == "__main__":
    main()
