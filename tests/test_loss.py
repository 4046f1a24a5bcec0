"""Label smoothing (section 5.4) against PyTorch's and against the definition."""

import pytest
import torch
from torch.nn import functional as F

from dragoman.model.loss import LabelSmoothedCrossEntropy
from dragoman.native.chunked_cross_entropy import CPU_ROWS, ChunkedCrossEntropy

pytestmark = pytest.mark.parametrize("kind", [LabelSmoothedCrossEntropy, ChunkedCrossEntropy])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", [5, CPU_ROWS + 3])
@pytest.mark.parametrize("padding", [0, 2])
def test_loss_and_gradient_equal_pytorchs(kind, smoothing, rows, padding):
    torch.manual_seed(0)
    gold = torch.randint(0, 9, (rows - padding,))
    ours = torch.randn(rows, 9, dtype=torch.float64, requires_grad=True)
    theirs = ours.detach().clone().requires_grad_()
    loss, nll = kind(smoothing)(ours * 1, gold)
    tokens = theirs[: rows - padding]
    expected = F.cross_entropy(tokens, gold, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, F.cross_entropy(tokens, gold, reduction="sum").detach())
    (loss / 7).backward()
    (expected / 7).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_the_target_distribution_is_the_papers(kind):
    logits, epsilon = torch.randn(1, 4, dtype=torch.float64), 0.1
    q = torch.full((4,), epsilon / 4, dtype=torch.float64)
    q[2] += 1 - epsilon
    loss, _ = kind(epsilon)(logits.clone(), torch.tensor([2]))
    torch.testing.assert_close(loss, -(q * logits.log_softmax(-1)[0]).sum())


def test_bfloat16_logits_are_summed_in_higher_precision(kind):
    torch.manual_seed(0)
    logits, gold = torch.randn(600, 50, dtype=torch.bfloat16), torch.randint(0, 50, (600,))
    exact, _ = kind(0.1)(logits.double(), gold)
    rounded, _ = kind(0.1)(logits.clone(), gold)
    torch.testing.assert_close(rounded, exact, rtol=1e-5, atol=0)
