"""How a model is loaded for translation. This module imports no torch."""

from dataclasses import dataclass
from pathlib import Path

from dragoman.model.settings import Precision
from dragoman.system.device import check_device, default_device
from dragoman.system.errors import DragomanError
from dragoman.system.options import check_options, option

SHORTLIST_NEEDS_NATIVE = (
    "A shortlist is for greedy and beam search in C++, without {temperature}, {force_words}, {groups} and "
    "{coverage_penalty}. This needs a compiler and a Transformer on a CPU. Leave the shortlist out."
)


@dataclass(frozen=True)
class EngineSettings:
    """How fast and how exactly a model computes. Raises `DragomanError` if the values make no sense."""

    precision: Precision = "float32"
    """Number type of a Transformer's matrix products. bfloat16 and, on a CPU, int8 are faster and nearly as
    good."""
    workers: int | None = option(None, at_least=1, at_most=10_000)
    """Threads, each of which translates batches of its own; None is OMP_NUM_THREADS, or one per core. Their
    number affects only memory and speed."""
    native: bool = True
    """Use C++, compiled at the first use, for greedy and beam search on a CPU. Other searches always run in
    PyTorch."""
    shortlist: Path | None = None
    """A file made by `dragoman shortlist`: search in C++ then considers only the tokens that it lists for a
    sentence."""
    cuda_graphs: bool = True
    """Use CUDA graphs for greedy and beam search of the paper's Transformer on a GPU. Sampling, groups, a
    coverage penalty and constraints other than a minimum length always run without graphs."""

    device: str | None = None
    """Where to compute: cpu, cuda or cuda:N (a GPU of NVIDIA or AMD), or mps (a GPU of Apple). None is cuda
    if there is one, but for int8 and a shortlist, which need a CPU."""

    @property
    def needs_cpu(self) -> bool:
        """Whether no GPU can translate so: int8 and shortlists are for CPUs."""
        return self.precision == "int8" or self.shortlist is not None

    @property
    def chosen_device(self) -> str:
        """The device that is set, or the default."""
        return self.device or ("cpu" if self.needs_cpu else default_device())

    def __post_init__(self) -> None:
        check_options(self)
        if self.device is not None:
            check_device(self.device)
        if self.shortlist is not None and not self.native:
            raise DragomanError(
                "A shortlist is for search in C++, which native = false turns off; leave one out."
            )
