"""tools/spine.py counts what it says; `model/` has no branch for speed."""

import pytest

from tools.spine import code_lines, pages, speed_branches


def test_the_model_has_no_branch_for_speed():
    assert pages().details == []


def test_blank_lines_comments_and_docstrings_are_no_code(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        '"""What\nit is."""\n\n# why\ndef f(\n    x,\n):\n    """Give x."""\n    return """a\nb"""  # so\n'
    )
    assert code_lines(path) == 5


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("import ctypes", "imports ctypes"),
        ("from dragoman.native import build", "imports dragoman.native.build"),
        ("from dragoman import native", "imports dragoman.native"),
        ("torch.ops.mkldnn._linear_pointwise(x)", "asks for torch.ops"),
        ("if x.device.type == 'cpu': pass", "asks for x.device.type"),
        ("if self.fused: pass", "asks for self.fused"),
        ("Adam(fused=True)", "has an argument fused"),
        ("if torch.compiler.is_compiling(): pass", "asks for torch.compiler"),
    ],
)
def test_branches_for_speed_are_found(tmp_path, line, what):
    path = tmp_path / "module.py"
    path.write_text(f"import torch\n{line}\n")
    assert any(what in found for found in speed_branches(path))
    path.write_text(
        "import torch\nfrom dragoman.model.cache import State\nx = torch.zeros(1, device=y.device)\n"
    )
    assert speed_branches(path) == []
