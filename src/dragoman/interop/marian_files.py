"""Files of Marian's tensors: `model.npz` and its binary form, read without unpickling, within their sizes."""

import io
import math
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dragoman.interop.pickles import refuse_compressed, refuse_pipe
from dragoman.system.errors import DragomanError, reason
from dragoman.system.readers import MAX_TENSORS

Array = npt.NDArray[np.generic]
OPTIONS = "special:model.yml"
"""The name under which the options of a model are bytes in its own file."""
TYPES = ("<f2", "<f4", "<f8", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8")
BINARY_TYPES = {0x402: "<f2", 0x404: "<f4", 0x408: "<f8", 0x101: "|i1", 0x104: "<i4", 0x204: "<u4"}
"""Marian's numbers of types, whose last two digits are the size of an element."""
QUANTIZED_TYPES = {0x10001: "|i1", 0x10002: "<i2", 0x4101: "|i1", 0x4102: "<i2"}
"""Those of matrices rounded to integers, in Marian and, the last two, in the fork for browsers."""
ACTIVATION_MULTIPLIER = "_QuantMultA"
"""Ends the names of the numbers by which such a model multiplies activations, before it rounds them, too."""
BINARY_VERSION = 1


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays of a model by their names. Raises `DragomanError` for a damaged file."""
    refuse_pipe(path)
    try:
        arrays = read_npz(path) if path.suffix == ".npz" else read_binary(path.read_bytes(), path)
    except DragomanError:
        raise
    except (OSError, zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, struct.error) as error:
        raise DragomanError(f"{path} cannot be read: {reason(error)}.") from error
    if len(arrays) > MAX_TENSORS:
        raise DragomanError(f"{path} has more than {MAX_TENSORS:,} tensors, the most that are read.")
    return arrays


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays of a zip archive of numpy's. Raises `DragomanError` for what Marian does not write."""
    refuse_compressed(path)
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        if sum(part.file_size for part in parts) > path.stat().st_size:
            raise DragomanError(f"{path} says that its parts are larger than the file.")
        return {
            part.filename.removesuffix(".npy"): read_npy(archive.read(part), f"{path}: {part.filename}")
            for part in parts
        }


def read_npy(content: bytes, place: str) -> Array:
    """An array of numbers in numpy's own format. Raises `DragomanError` for anything else."""
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise DragomanError(f"{place} is not an array of version 1.0 of numpy's format.")
    shape, is_column_major, kind = np.lib.format.read_array_header_1_0(file)
    numbers = content[file.tell() :]
    if is_column_major or kind.str not in TYPES or math.prod(shape) * kind.itemsize != len(numbers):
        raise DragomanError(f"{place} is not an array of numbers, row by row, of the size that it says.")
    return np.frombuffer(numbers, kind).reshape(shape)


def read_binary(content: bytes, path: Path) -> dict[str, Array]:
    """The arrays of Marian's binary format. Raises `DragomanError`, and `struct.error` if it is too short."""
    version, count = struct.unpack_from("<QQ", content)
    if version != BINARY_VERSION:
        raise DragomanError(f"{path} is no binary model of Marian: it has the version {version}, not 1.")
    if count > MAX_TENSORS:
        raise DragomanError(f"{path} has more than {MAX_TENSORS:,} tensors, the most that are read.")
    headers = list(struct.iter_unpack("<QQQQ", content[16 : 16 + 32 * count]))
    position = 16 + 32 * count
    names, shapes = [], []
    for length, *_ in headers:
        names.append(content[position : position + length].rstrip(b"\0").decode())
        position += length
    for _, _, dimensions, _ in headers:
        if dimensions > 4:
            raise DragomanError(f"{path} has a tensor of {dimensions} dimensions; Marian has at most 4.")
        shapes.append(struct.unpack_from(f"<{dimensions}i", content, position))
        position += 4 * dimensions
    (offset,) = struct.unpack_from("<Q", content, position)
    position += 8 + offset
    arrays = {}
    for name, shape, (_, code, _, size) in zip(names, shapes, headers, strict=True):
        is_quantized = code in QUANTIZED_TYPES
        if not is_quantized and code not in BINARY_TYPES:
            raise DragomanError(
                f"{path}: {name} has numbers of Marian's type {code:#x}, which are for one kind of "
                "processor; import the model as it was before (model.npz, or in the type intgemm8)."
            )
        kind = np.dtype((BINARY_TYPES | QUANTIZED_TYPES)[code])
        length = math.prod(shape) * kind.itemsize
        if min(shape, default=1) < 0 or length + 4 * is_quantized > min(size, len(content) - position):
            raise DragomanError(f"{path}: {name} says that it is larger than its data.")
        values = np.frombuffer(content, kind, math.prod(shape), position)
        if is_quantized:
            (multiplier,) = struct.unpack_from("<f", content, position + length)
            arrays[name] = dequantized(values, multiplier, shape, f"{path}: {name}")
        else:
            arrays[name] = values.reshape(shape)
        position += size
    return {name: array for name, array in arrays.items() if not name.endswith(ACTIVATION_MULTIPLIER)}


def dequantized(values: Array, multiplier: float, shape: tuple[int, ...], place: str) -> Array:
    """The matrix of rounded values; all but embeddings are stored transposed.

    Raises `DragomanError` for a multiplier that none can be divided by.
    """
    if not (math.isfinite(multiplier) and multiplier > 0):
        raise DragomanError(f"{place} is multiplied by {multiplier}; a positive number was expected.")
    numbers = values.astype(np.float32) / np.float32(multiplier)
    return numbers.reshape(shape) if "Wemb" in place else numbers.reshape(shape[::-1]).T


def write_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays as Marian does; the same bytes for the same arrays."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            file = io.BytesIO()
            np.lib.format.write_array(file, np.ascontiguousarray(array), (1, 0), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), file.getvalue())
