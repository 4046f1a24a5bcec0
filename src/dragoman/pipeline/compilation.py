"""Compilation of the C++ that a run uses."""

import logging

import torch

from dragoman.native import build, fused, training_kernels
from dragoman.system.device import is_cpu

logger = logging.getLogger(__name__)


def start_compiling(device: torch.device) -> None:
    """Compile the C++ that a CPU uses, and say if training has no kernels."""
    if not is_cpu(device):
        if fused.gpu_replacements(device) is None:
            logger.info(
                "PyTorch alone trains, slower: the kernels need Triton, a C compiler, Python's headers and "
                "an NVIDIA GPU of compute capability 8.0 or higher."
            )
        return
    if not training_kernels.start_compiling_kernels():
        logger.info("PyTorch alone trains, slower: the kernels need Linux and a C++ compiler.")
    build.start_compiling(build.DECODER)
