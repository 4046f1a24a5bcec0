"""Tensors on disk, and their mean over several checkpoints (section 6.1). Nothing here unpickles."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from dragoman.system.errors import DragomanError, reason
from dragoman.system.readers import MAX_TENSORS, check_tensors_header


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors as safetensors. Raises `DragomanError` for more than `load_tensors` reads."""
    if len(tensors) > MAX_TENSORS:
        raise DragomanError(
            f"{path} would have {len(tensors):,} tensors, and at most {MAX_TENSORS:,} are read again; use "
            "fewer layers."
        )
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read named tensors. Raises `DragomanError` with the file's name where it is damaged."""
    check_tensors_header(path)
    try:
        return load_file(path)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise DragomanError(f"{path} cannot be read: {reason(error)}.") from error


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Each weight once, by the first of its names: tied weights are one tensor."""
    return {name: weight.detach() for name, weight in model.named_parameters()}


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], origin: Path) -> None:
    """Copy tensors into the model.

    Raises `DragomanError` for a missing, unknown or misshapen one, naming it and `origin`.
    """
    parameters = weights(model)
    if missing := sorted(parameters.keys() - tensors.keys()):
        raise DragomanError(f"{origin} lacks {', '.join(missing)}, which the model's settings ask for.")
    if unknown := sorted(tensors.keys() - parameters.keys()):
        raise DragomanError(f"{origin} has {', '.join(unknown)}, which a model of these settings does not.")
    for name, weight in parameters.items():
        if weight.shape != tensors[name].shape:
            raise DragomanError(
                f"{origin}: {name} has the shape {tuple(tensors[name].shape)}; the settings give "
                f"{tuple(weight.shape)}."
            )
        weight.copy_(tensors[name])


def average(paths: Iterable[Path]) -> dict[str, Tensor]:
    """The mean of the weights in several files, summed in float64 (section 6.1)."""
    total: dict[str, Tensor] = {}
    paths = list(paths)
    for path in paths:
        for name, tensor in load_tensors(path).items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}
