"""Tests of the kernels and the decoder with libraries of another processor, which an emulator runs.

`EMULATED="COMPILER -march=…" EMULATOR=qemu-… pytest tests/test_kernels.py` compiles the C++ with the flags of
native/build.py, except those for this processor, and replaces `load_library`. Arrays are copied to the
emulator before each call, and back after it.
"""

import ctypes
import os
import shlex
import struct
import subprocess
from collections.abc import Callable
from concurrent.futures import Future
from ctypes import Structure, sizeof
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from dragoman.native import build
from dragoman.native.build import FLAGS, HERE, TRAINING_KERNELS, Program
from dragoman.native.engine import Search, check_status

LANES = 16  # to which training_kernels.py pads rows of attention weights


class Emulator:
    """A process that has loaded a library, and its memory."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._lock = Lock()

    def _request(
        self, kind: bytes, *numbers: int, function: str = "", data: bytes = b"", size: int = 8
    ) -> bytes:
        numbers = tuple(number % 2**64 for number in numbers)
        request = struct.pack("c63s8Q", kind, function.encode(), *numbers, *[0] * (8 - len(numbers)))
        with self._lock:
            self._process.stdin.write(request + data)
            self._process.stdin.flush()
            answer = self._process.stdout.read(size) if size else b""
        assert len(answer) == size, f"the emulated process has ended in {function}"
        return answer

    def call(self, function: str, *numbers: int) -> int:
        """A function of integers and addresses."""
        return int.from_bytes(self._request(b"c", *numbers, function=function), "little")

    def copy(self, data: bytes) -> int:
        """The address of a copy."""
        address = int.from_bytes(self._request(b"a", 0, max(1, len(data))), "little")
        self._request(b"w", address, len(data), data=data, size=0)
        return address

    def read(self, address: int, size: int) -> bytes:
        return self._request(b"r", address, size, size=size)

    def free(self, address: int) -> None:
        self._request(b"f", address, size=0)

    def call_with(
        self, structure: Structure, sizes: dict[str, int], call: Callable[[int], int], result: bool = True
    ) -> int:
        """Call with the address of a copy of a structure, whose pointers lead to copies of so many bytes.

        What the call has changed is copied back.
        """
        fields, own = type(structure), bytearray(bytes(structure))
        pointers = {name: pointer for name in sizes if (pointer := getattr(structure, name))}
        copies = {name: self.copy(ctypes.string_at(pointers[name], sizes[name])) for name in pointers}
        for name, address in copies.items():
            struct.pack_into("<Q", own, getattr(fields, name).offset, address)
        address = self.copy(bytes(own))
        answer = call(address)
        for name, copied in copies.items():
            ctypes.memmove(pointers[name], self.read(copied, sizes[name]), sizes[name])
            self.free(copied)
        changed = self.read(address, len(own))
        for name, kind in fields._fields_:
            if kind is ctypes.c_int32:
                offset = getattr(fields, name).offset
                setattr(structure, name, int.from_bytes(changed[offset : offset + 4], "little", signed=True))
        self.free(address)
        return answer


class EmulatedFunction:
    """A function of an emulated library, with the attributes of ctypes' functions."""

    def __init__(self, emulator: Emulator, name: str) -> None:
        self.emulator, self.name = emulator, name
        self.restype: Any = None
        self.argtypes: Any = None

    def __call__(self, *numbers: int) -> int:
        return self.emulator.call(self.name, *numbers)


def array_sizes(a: Any, element: int) -> dict[str, int]:
    """The bytes of each array of the arguments of a training kernel."""
    kind = type(a).__name__
    if kind == "AttentionArguments":
        return attention_sizes(a, element)
    if kind == "CrossEntropyArguments":
        each = dict.fromkeys(("gold", "log_sums", "loss", "nll"), 8 * a.rows)
        return each | {"logits": a.rows * a.vocabulary * element}
    if kind == "TransposeArguments":
        return {"x": 2 * a.rows * a.columns, "out": 2 * (a.columns * a.stride - a.stride + a.rows)}
    rows = dict.fromkeys(("x", "y", "out", "normal", "hidden", "gradient"), a.rows * a.width * element)
    shares = dict.fromkeys(("gain_gradient", "bias_gradient"), 4 * a.threads * a.width)
    sizes = rows | shares | {"scales": 4 * a.rows, "gain": 4 * a.width, "bias": 4 * a.width}
    return {name: size for name, size in sizes.items() if name in dict(type(a)._fields_)}


def attention_sizes(a: Any, element: int) -> dict[str, int]:
    """As `array_sizes`."""

    def rows(strides: Any, count: int, width: int) -> int:
        counts = (a.sentences, a.heads, count)
        return element * (sum((n - 1) * stride for n, stride in zip(counts, strides, strict=True)) + width)

    heads, padded = a.sentences * a.heads, -(-a.keys // LANES) * LANES
    return {
        "query": rows(a.query_strides, a.queries, a.key_width),
        "key": rows(a.key_strides, a.keys, a.key_width),
        "value": rows(a.value_strides, a.keys, a.value_width),
        "mask": (a.sentences - 1) * a.mask_sentence_stride + (a.queries - 1) * a.mask_query_stride + a.keys,
        "weights": 4 * heads * a.queries * padded,
        "out": element * heads * a.queries * a.value_width,
        "query_gradient": element * heads * a.queries * a.key_width,
        "key_gradient": element * heads * a.keys * a.key_width,
        "value_gradient": element * heads * a.keys * a.value_width,
    }


class EmulatedKernel(EmulatedFunction):
    """A function of training_kernels.cpp."""

    def __call__(self, arguments: Structure, size: int, bfloat16: bool = True) -> int:
        sizes = array_sizes(arguments, 2 if bfloat16 else 4)
        call = lambda address: self.emulator.call(self.name, address, size, bfloat16)  # noqa: E731
        return self.emulator.call_with(arguments, sizes, call) % 2**32


class LoadModel(EmulatedFunction):
    """dragoman_load_model of beam_search.cpp."""

    def __call__(
        self, settings: Any, settings_size: int, parameters: Any, size: int, count: int, error: Any, most: int
    ) -> int:
        copy, rows = self.emulator.copy, []
        for one in parameters:
            values = copy(ctypes.string_at(one.values, 4 * one.rows * one.columns))
            rows.append(struct.pack("<QQii", copy(one.name + b"\0"), values, one.rows, one.columns))
        said = copy(bytes(most))
        model = self.emulator.call(
            self.name, copy(bytes(settings)), settings_size, copy(b"".join(rows)), size, count, said, most
        )
        error.value = self.emulator.read(said, most).split(b"\0")[0]
        return model


class EmulatedEngine:
    """`SearchEngine`, one search at a time."""

    def __init__(self, lib: "EmulatedLibrary", model: int, workers: int, max_rows: int) -> None:
        self._emulator = lib.emulator
        self._engine = self._emulator.call("dragoman_new_engine", model, workers, max_rows)

    def submit(self, search: Search, read: Callable[[], Any]) -> Future[Any]:
        sizes = {name: memoryview(numbers).nbytes for name, numbers in search.owners[1].items()}
        finished = self._emulator.copy(bytes(8))

        def run(address: int) -> int:
            status = self._emulator.call("dragoman_submit", self._engine, address, sizeof(search)) % 2**32
            return status or self._emulator.call("dragoman_wait_finished", self._engine, finished, 1) - 1

        future: Future[Any] = Future()
        check_status(self._emulator.call_with(search, sizes, run))
        try:
            future.set_result(read())
        except Exception as error:
            future.set_exception(error)
        return future


class EmulatedLibrary:
    """`ctypes.CDLL` for a library of another processor."""

    def __init__(self, folder: TemporaryDirectory[str], name: str, emulator: Emulator) -> None:
        self._folder, self._name, self.emulator = folder, name, emulator  # the folder lives as long

    def __getattr__(self, name: str) -> EmulatedFunction:
        kind = EmulatedFunction
        if name == "dragoman_load_model":
            kind = LoadModel
        elif self._name == TRAINING_KERNELS.name and not name.startswith("dragoman_sizeof"):
            kind = EmulatedKernel
        function = kind(self.emulator, name)
        setattr(self, name, function)
        return function


@cache
def load_emulated(program: Program) -> EmulatedLibrary:
    """`load_library` for another processor."""
    from dragoman.native import decoder

    decoder.SearchEngine = EmulatedEngine
    folder, compiler = TemporaryDirectory(), shlex.split(os.environ["EMULATED"])
    caller, library = Path(folder.name) / "emulated", Path(folder.name) / "library.so"
    source = Path(__file__).with_suffix(".cpp")
    subprocess.run([*compiler, "-O2", *FLAGS, f"-I{HERE}", program.source, "-o", library], check=True)
    subprocess.run([*compiler, source, "-o", caller, "-Wl,--no-as-needed", "-lgomp", "-ldl"], check=True)
    emulator = Emulator([*shlex.split(os.environ["EMULATOR"]), str(caller), str(library)])
    return EmulatedLibrary(folder, program.name, emulator)


build.load_library = load_emulated
