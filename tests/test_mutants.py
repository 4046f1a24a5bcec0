"""The random bugs of tools/mutants.py are bugs."""

import ast
import random
from itertools import islice
from pathlib import Path

import pytest

from tools.mutants import ROOT, draw, first_failure, verdict

FILES = sorted((ROOT / "src").rglob("*.py"))


@pytest.mark.parametrize("file", random.Random(1).sample(FILES, 3), ids=lambda file: file.stem)
def test_each_mutant_is_another_program(file):
    source = file.read_bytes()
    program = ast.dump(ast.parse(source))
    for _, mutant in islice(draw([file], 1), 50):
        assert ast.dump(ast.parse(mutant.apply(source))) != program


def test_all_lines_are_drawn_once(tmp_path):
    file = tmp_path / "a.py"
    file.write_text(
        "def f(a, b):\n    a += 1\n    if a < b and not b:\n        return a - 1\n    return min(a, 2)\n"
    )
    for seed in range(9):
        assert sorted(mutant.line for _, mutant in draw([file], seed)) == [2, 3, 4, 5]


@pytest.mark.long
def test_a_mutant_is_caught_by_a_test_that_fails_with_it_alone(tmp_path):
    (tmp_path / "src").mkdir()
    path, tests = Path("src/half.py"), ["test_a.py::test_flaky", "test_a.py::test_half"]
    source = b"def half(n):\n    return n // 2\n"
    (tmp_path / path).write_bytes(source)
    lines = [
        "from half import half",
        "def test_flaky():",
        "    assert False",
        "def test_half():",
        "    assert half(4) == 2",
    ]
    (tmp_path / "test_a.py").write_text("\n".join(lines))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    half_mutants = [next(draw([tmp_path / path], seed)) for seed in range(4)]
    outcomes = {mutant.text: verdict(tmp_path, path, mutant, tests) for _, mutant in half_mutants}
    assert outcomes.keys() <= {" * ", "3"}
    assert set(outcomes.values()) == {"caught by test_a.py::test_half"}
    assert (tmp_path / path).read_bytes() == source
    assert first_failure(tmp_path, tests[1:]) is None
