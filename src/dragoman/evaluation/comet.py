"""COMET (Rei et al. 2020) by its own library, from a checkpoint on this machine. Strings in, scores out."""

import hashlib
import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from pickle import UnpicklingError  # which PyTorch raises; nothing here unpickles
from statistics import fmean
from typing import TYPE_CHECKING

from dragoman.evaluation.compare import Comparison, paired_bootstrap_of_means
from dragoman.evaluation.metrics import Score, check_lines
from dragoman.system.device import has_gpu
from dragoman.system.errors import DragomanError
from dragoman.system.readers import read_yaml

if TYPE_CHECKING:
    from comet.models import CometModel

SAFETY = {"TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1", "HF_HUB_OFFLINE": "1"}
"""Checkpoints are pickles: PyTorch takes tensors and plain values and refuses the rest. Hugging Face's
libraries, which COMET's encoders come from, download nothing."""


class Comet:
    """A COMET model, whose scores are multiplied by 100 here."""

    def __init__(self, checkpoint: Path) -> None:
        self._model = load_checkpoint(checkpoint)
        with checkpoint.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:12]
        kind = self._model.hparams.class_identifier
        self._signature = f"model:{kind}|sha256:{digest}|scale:100|comet:{version('unbabel-comet')}"

    def line_scores(
        self, sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]
    ) -> list[float]:
        """The score of each line. Raises `DragomanError` for different numbers of lines, or none."""
        check_lines(hypotheses, references)
        samples = [
            {"src": source, "mt": hypothesis, "ref": reference}
            for source, hypothesis, reference in zip(sources, hypotheses, references, strict=True)
        ]
        with warnings.catch_warnings(action="ignore"):
            prediction = self._model.predict(samples, gpus=int(has_gpu()), num_workers=0, progress_bar=False)
        return [100 * float(score) for score in prediction.scores]

    def score(self, lines: Sequence[float]) -> Score:
        """The score of a test set: the mean of its lines'."""
        return Score("COMET", fmean(lines), self._signature)

    def compare(self, lines: Sequence[float], baseline: Sequence[float]) -> Comparison:
        """Two systems' scores of the same lines."""
        return paired_bootstrap_of_means("COMET", self._signature, lines, baseline)


def load_checkpoint(checkpoint: Path) -> "CometModel":
    """Load a checkpoint, as CHECKPOINT/checkpoints/model.ckpt beside CHECKPOINT/hparams.yaml, by COMET.

    Raises `DragomanError` if a file or the library is missing, if the checkpoint holds other things than
    tensors and plain values, or if the configuration and tokenizer of its encoder are not on this machine.
    """
    checkpoint = checkpoint.absolute()  # and not what a link points to: COMET looks beside the link
    settings = checkpoint.parent.parent / "hparams.yaml"
    for path in (checkpoint, settings):
        if not path.is_file():
            raise DragomanError(
                f"{path} is not a file. COMET is read from a folder on this machine that holds "
                "checkpoints/model.ckpt and hparams.yaml, and nothing is downloaded."
            )
    read_yaml(settings)  # COMET's loader takes more
    with environment(SAFETY), warnings.catch_warnings(action="ignore"):
        try:
            from comet import load_from_checkpoint
        except ImportError as error:
            raise DragomanError("COMET needs unbabel-comet: pip install 'dragoman[comet]'") from error
        for name in ("comet", "pytorch_lightning", "sacrebleu"):
            logging.getLogger(name).setLevel(logging.ERROR)
        try:
            return load_from_checkpoint(str(checkpoint), local_files_only=True)
        except UnpicklingError as error:
            raise DragomanError(
                f"{checkpoint} is damaged, or holds more than tensors and plain values. No code was run."
            ) from error
        except Exception as error:  # a damaged file makes torch and COMET raise nearly anything
            reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            raise DragomanError(
                f"{checkpoint} cannot be loaded by COMET ({reason}). It may be damaged; or the settings and "
                f"the tokenizer of its encoder, pretrained_model in {settings}, are not on this machine."
            ) from error


@contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    """Set variables of the environment for a while."""
    former = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in former.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
