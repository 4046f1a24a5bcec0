"""COMET (Rei et al. 2020), computed by its own library, unbabel-comet, from a checkpoint on this machine."""

import hashlib
import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from pickle import UnpicklingError  # PyTorch raises it; nothing here unpickles
from statistics import fmean
from typing import TYPE_CHECKING

from dragoman.evaluation.compare import Comparison, paired_bootstrap_of_means
from dragoman.evaluation.metrics import Score, check_lines
from dragoman.system.device import has_gpu
from dragoman.system.errors import DragomanError
from dragoman.system.readers import read_yaml

if TYPE_CHECKING:
    from comet.models import CometModel

SAFE_LOADING = {"TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1", "HF_HUB_OFFLINE": "1"}
"""Environment variables while a checkpoint is loaded. Checkpoints are pickles: by the first variable PyTorch
takes tensors and plain values and refuses the rest. By the second one Hugging Face's libraries, which load
the settings and the tokenizer of COMET's encoder, download nothing."""


class Comet:
    """A COMET model. The scores here are 100 times those of the library."""

    def __init__(self, checkpoint: Path) -> None:
        self._model = load_checkpoint(checkpoint)
        with checkpoint.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:12]
        kind = self._model.hparams.class_identifier
        self._signature = f"model:{kind}|sha256:{digest}|scale:100|comet:{version('unbabel-comet')}"

    def line_scores(
        self, sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]
    ) -> list[float]:
        """The score of each line. There has to be a source for each hypothesis.

        Raises `DragomanError` for different numbers of hypotheses and references, or none.
        """
        check_lines(hypotheses, references)
        samples = [
            {"src": source, "mt": hypothesis, "ref": reference}
            for source, hypothesis, reference in zip(sources, hypotheses, references, strict=True)
        ]
        with warnings.catch_warnings(action="ignore"):  # as PyTorch Lightning's about `num_workers=0`
            prediction = self._model.predict(samples, gpus=int(has_gpu()), num_workers=0, progress_bar=False)
        return [100 * float(score) for score in prediction.scores]

    def score(self, line_scores: Sequence[float]) -> Score:
        """The score of a test set: the mean of its lines' scores."""
        return Score("COMET", fmean(line_scores), self._signature)

    def compare(self, line_scores: Sequence[float], baseline: Sequence[float]) -> Comparison:
        """Compare a system with a baseline, given both systems' scores of the same lines."""
        return paired_bootstrap_of_means("COMET", self._signature, line_scores, baseline)


def load_checkpoint(checkpoint: Path) -> "CometModel":
    """Load the checkpoint FOLDER/checkpoints/model.ckpt by COMET, which also reads FOLDER/hparams.yaml.

    Raises `DragomanError` if a file or the library is missing, if the checkpoint holds other things than
    tensors and plain values, or if the configuration and tokenizer of its encoder are not on this machine.
    """
    # `resolve` would follow a link, but COMET looks for hparams.yaml near the link, not near its target.
    checkpoint = checkpoint.absolute()
    settings = checkpoint.parent.parent / "hparams.yaml"
    for path in (checkpoint, settings):
        if not path.is_file():
            raise DragomanError(
                f"{path} is not a file. COMET is read from a folder on this machine that holds "
                "checkpoints/model.ckpt and hparams.yaml, and nothing is downloaded."
            )
    read_yaml(settings)  # refuses YAML that makes other objects than plain values; COMET's loader does not
    with environment(SAFE_LOADING), warnings.catch_warnings(action="ignore"):
        try:
            from comet import load_from_checkpoint
        except ImportError as error:
            raise DragomanError("COMET needs unbabel-comet: pip install 'dragoman[comet]'") from error
        for name in ("comet", "pytorch_lightning", "sacrebleu"):  # errors alone are for the user
            logging.getLogger(name).setLevel(logging.ERROR)
        try:
            return load_from_checkpoint(str(checkpoint), local_files_only=True)
        except UnpicklingError as error:
            raise DragomanError(
                f"{checkpoint} is damaged, or holds more than tensors and plain values. No code was run. "
                "Copy it again, or give another checkpoint."
            ) from error
        except Exception as error:  # a damaged file makes torch and COMET raise nearly anything
            reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            raise DragomanError(
                f"{checkpoint} cannot be loaded by COMET ({reason}). It may be damaged; or the settings and "
                f"the tokenizer of its encoder, pretrained_model in {settings}, are not on this machine."
            ) from error


@contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    """Set environment variables, and restore the previous ones when the context is closed."""
    previous = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
