"""The devices that a model can run on: cpu, cuda (a GPU of NVIDIA or AMD) and mps (a GPU of Apple).

Other files ask here what a device is. torch is imported where a function needs it.
"""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.system.errors import DragomanError
from dragoman.system.wording import counted

if TYPE_CHECKING:
    import torch


def has_gpu(root: Path = Path("/")) -> bool:
    """Whether PyTorch finds a GPU of NVIDIA or AMD. Imports torch only if the system may have one."""
    devices = ("nvidia0", "nvidiactl", "dxg", "kfd")  # NVIDIA's, that of Windows's Linux (WSL), AMD's
    if sys.platform != "win32" and not any((root / "dev" / name).exists() for name in devices):
        return False
    import torch

    return torch.cuda.is_available()


def default_device() -> str:
    """A GPU of NVIDIA or AMD if there is one, or else the processor. mps has to be asked for by its name."""
    return "cuda" if has_gpu() else "cpu"


def check_device(name: str) -> None:
    """Raise `DragomanError` for a name that no device has."""
    if not re.fullmatch(r"cpu|mps|cuda(:\d{1,4})?", name):
        raise DragomanError(f"The device is {name!r}; it has to be cpu, cuda, cuda:N or mps.")


def open_device(name: str) -> "torch.device":
    """The device of a name that `check_device` admits. Raises `DragomanError` if there is none here."""
    import torch

    device = torch.device(name)
    if is_cuda(device) and (device.index or 0) >= (count := torch.cuda.device_count()):
        raise DragomanError(
            f"{device} was asked for, and PyTorch can use {counted(count, 'GPU')}; give another "
            "device, or cpu."
        )
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise DragomanError("mps was asked for, and PyTorch finds no GPU of Apple here; give cpu.")
    return device


def is_cpu(device: "torch.device") -> bool:
    """Whether a device is the processor."""
    return device.type == "cpu"


def is_cuda(device: "torch.device") -> bool:
    """Whether a device is a GPU of NVIDIA or AMD."""
    return device.type == "cuda"


def device_name() -> str:
    """The name of the GPU of NVIDIA or AMD, or "no GPU"."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"


def has_bfloat16(on_gpu: bool) -> bool:
    """Whether the GPU, or the processor, multiplies bfloat16 matrices faster than float32 matrices."""
    import torch

    if on_gpu:
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def seed_generators(seed: int) -> None:
    """Seed PyTorch's random numbers of the processor and of every GPU that is in use."""
    import torch

    # torch.manual_seed is slow: it records a traceback for unused GPUs.
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
