"""An adapter (LoRA, Hu et al. 2022): what an adaptation has changed of its base model, as narrow matrices.

For every changed weight W of the base's W₀, `adapter.safetensors` has A [r, in] and B [out, r] with
W = W₀ + B A. `adapter.json` has the hash of the base. No torch is imported.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.files import Arrays, check_folder, read_arrays, write_folder
from dragoman.system.readers import read_json
from dragoman.system.wording import shown
from dragoman.translation.missing_model import ADAPTER, is_adapter
from dragoman.translation.model_folder import StoredModel, model_hash

FACTORS = "adapter.safetensors"
EPSILON = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class Adapter:
    """The factors of the changed weights, and the model that they belong to."""

    base: str
    """Hash of the base model."""
    factors: Mapping[str, tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]
    """A and B by the weight's name."""
    longest_trained: int | None
    """As that of `StoredModel`."""
    alignment_head: int | None = None
    """That of the adapted model's settings; None is that of the base."""

    @classmethod
    def between(cls, base: Path, adapted: Path) -> "Adapter":
        """The adapter that turns one model into the other.

        Raises `DragomanError` if they are not of one shape and vocabulary, or if a change is not of low rank.
        """
        before, after = StoredModel.load(base), StoredModel.load(adapted)
        shapes = [{name: weight.shape for name, weight in model.weights.items()} for model in (before, after)]
        if shapes[0] != shapes[1] or before.tokenizers != after.tokenizers:
            raise DragomanError(f"{adapted} was not adapted from {base}: sizes or vocabularies differ.")
        changed = [
            name for name, weight in after.weights.items() if not np.array_equal(weight, before.weights[name])
        ]
        factors = {
            name: low_rank_factors(before.weights[name], after.weights[name], name) for name in changed
        }
        return cls(model_hash(base), factors, after.longest_trained, after.settings.alignment_head)

    def merged(self, base: Path) -> StoredModel:
        """The base model with the changes. Raises `DragomanError` if it is not the adapter's base."""
        if model_hash(base) != self.base:
            raise DragomanError(f"{base} is not the model that the adapter was trained on; give that one.")
        return self.merge(StoredModel.load(base))

    def merge(self, base: StoredModel) -> StoredModel:
        """As `merged`, for the adapter's base after reading. Both share the weights that do not change.

        Raises `DragomanError` if the factors do not fit, or are so large that weights overflow.
        """
        weights = dict(base.weights)
        for name, (a, b) in self.factors.items():
            shape = weights[name].shape if name in weights else ()
            if a.ndim != 2 or (b.shape, a.shape) != ((*shape[:1], len(a)), (len(a), *shape[1:])):
                raise DragomanError(f"The adapter's factors of {name} do not fit the base model.")
            with np.errstate(over="ignore"):
                weights[name] = (weights[name] + b.astype(np.float64) @ a).astype(np.float32)
            if not np.isfinite(weights[name]).all():
                raise DragomanError(
                    f"The adapter's factors of {name} are so large that the weights overflow."
                )
        head = self.alignment_head or base.settings.alignment_head
        settings = replace(base.settings, alignment_head=head)
        return replace(base, weights=weights, settings=settings, longest_trained=self.longest_trained)

    def save(self, folder: Path) -> None:
        """Write the folder atomically."""

        def write(new: Path) -> None:
            arrays = {
                f"{name}|{factor}": array
                for name, pair in self.factors.items()
                for factor, array in zip("ab", pair, strict=True)
            }
            save_file(arrays, new / FACTORS)
            metadata = {
                "base": self.base,
                "longest_source": self.longest_trained,
                "alignment_head": self.alignment_head,
            }
            (new / ADAPTER).write_text(json.dumps(metadata) + "\n")

        write_folder(folder, write)

    @classmethod
    def load(cls, folder: Path) -> "Adapter":
        """Read what `save` wrote. Raises `DragomanError` if it is missing, damaged or something else."""
        if not is_adapter(folder):
            raise DragomanError(f"{folder} is not an adapter: it has no {ADAPTER}.")
        check_folder(folder)
        metadata, arrays = read_json(folder / ADAPTER), read_arrays(folder / FACTORS)
        names = {name.rpartition("|")[0] for name in arrays}
        try:
            factors = {name: (arrays[f"{name}|a"], arrays[f"{name}|b"]) for name in names}
            for name, array in arrays.items():
                if array.dtype != np.float32 or not np.isfinite(array).all():
                    raise TypeError(f"{name} has to hold finite numbers in float32")
            if not isinstance(metadata, dict):
                raise TypeError(f"{ADAPTER} holds {shown(metadata)}, and has to hold an object")
            if unknown := metadata.keys() - {"base", "longest_source", "alignment_head"}:
                raise TypeError(f"{ADAPTER} has {shown(min(unknown))}, which this version does not know")
            if not isinstance(metadata["base"], str):
                raise TypeError(f"base is {shown(metadata['base'])}, and must be a hash")
            longest, head = metadata["longest_source"], metadata.get("alignment_head")
            for name, value in (("longest_source", longest), ("alignment_head", head)):
                if value is not None and (type(value) is not int or value < 1):
                    raise TypeError(f"{name} is {shown(value)}, and must be a number of at least 1")
            return cls(metadata["base"], factors, longest, head)
        except (KeyError, TypeError) as error:
            raise DragomanError(
                f"{folder} is not an adapter as dragoman export writes it: {error}."
            ) from error


def low_rank_factors(
    before: npt.NDArray[np.float32], after: npt.NDArray[np.float32], name: str
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """A [r, in] and B [out, r], whose product is the difference up to the rounding of float32.

    Raises `DragomanError` if it needs as many numbers as the weight.
    """
    difference = after.astype(np.float64) - before
    if difference.ndim == 2:
        left, values, right = np.linalg.svd(difference, full_matrices=False)
        noise = EPSILON * np.abs(after).max() * sum(np.sqrt(difference.shape))  # of rounding `after`
        rank = max(1, int((values > noise).sum()))
        if rank * sum(difference.shape) < difference.size:
            root = np.sqrt(values[:rank])
            a, b = root[:, None] * right[:rank], left[:, :rank] * root
            return a.astype(np.float32), np.ascontiguousarray(b.astype(np.float32))
    raise OptionError(
        f"The change of {name} is not of low rank, so an adapter would not be smaller: the model was not "
        "trained with {lora_rank}, or the rank is too high for maps of this size. Use the model itself."
    )


def largest_difference(first: Arrays, second: Arrays) -> float:
    """The largest difference between the weights of two models."""
    return max(float(np.abs(first[name] - second[name]).max()) for name in first)
