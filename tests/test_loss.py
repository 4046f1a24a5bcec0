"""Label smoothing (section 5.4) against PyTorch's and against the definition."""

import pytest
import torch
from torch.nn import functional as F

from dragoman.model.loss import CPU_ROWS, cross_entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", [5, CPU_ROWS + 3])
@pytest.mark.parametrize("padding", [0, 2])
def test_loss_and_gradient_equal_pytorchs(smoothing, rows, padding):
    torch.manual_seed(0)
    gold = torch.randint(0, 9, (rows - padding,))
    ours = torch.randn(rows, 9, dtype=torch.float64, requires_grad=True)
    theirs = ours.detach().clone().requires_grad_()
    loss, nll = cross_entropy(ours * 1, gold, smoothing)
    tokens = theirs[: rows - padding]
    expected = F.cross_entropy(tokens, gold, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, F.cross_entropy(tokens, gold, reduction="sum").detach())
    (loss / 7).backward()
    (expected / 7).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_the_target_distribution_is_the_papers():
    logits, epsilon = torch.randn(1, 4, dtype=torch.float64), 0.1
    q = torch.full((4,), epsilon / 4, dtype=torch.float64)
    q[2] += 1 - epsilon
    loss, _ = cross_entropy(logits.clone(), torch.tensor([2]), epsilon)
    torch.testing.assert_close(loss, -(q * logits.log_softmax(-1)[0]).sum())


def test_bfloat16_logits_are_summed_in_higher_precision():
    torch.manual_seed(0)
    logits, gold = torch.randn(600, 50, dtype=torch.bfloat16), torch.randint(0, 50, (600,))
    exact, _ = cross_entropy(logits.double(), gold, 0.1)
    rounded, _ = cross_entropy(logits.clone(), gold, 0.1)
    torch.testing.assert_close(rounded, exact, rtol=1e-5, atol=0)
