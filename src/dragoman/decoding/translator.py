"""Sentences in, sentences out: N of them, in order, the same whatever their neighbours."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from dragoman.config import overlay, read_toml, write_toml
from dragoman.decoding.search import Hypothesis, beam_search, greedy_search
from dragoman.decoding.settings import SearchSettings
from dragoman.errors import DragomanError
from dragoman.model.build import build_model
from dragoman.model.contract import Model
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END
from dragoman.text.batches import pad
from dragoman.text.tokenizer import Tokenizer
from dragoman.training import checkpoint


@dataclass(frozen=True)
class Translation:
    """A text, its log-probability in nats, and the score that ranks it: the log-probability over the length penalty."""

    text: str
    log_probability: float
    score: float


@dataclass(frozen=True)
class Tokenizers:
    """The vocabularies of both sides; the same object where they share one."""

    source: Tokenizer
    target: Tokenizer

    @classmethod
    def load(cls, folder: Path) -> "Tokenizers":
        """`tokenizer.model`, or `source.model` and `target.model`. Raises `DragomanError` where they are not there."""
        shared = folder / "tokenizer.model"
        if shared.exists():
            tokenizer = Tokenizer.load(shared)
            return cls(tokenizer, tokenizer)
        return cls(Tokenizer.load(folder / "source.model"), Tokenizer.load(folder / "target.model"))

    def paths(self, folder: Path) -> tuple[Path, Path]:
        """The files of the source's and the target's vocabulary: the same where they share one."""
        names = ("tokenizer", "tokenizer") if self.source is self.target else ("source", "target")
        return folder / f"{names[0]}.model", folder / f"{names[1]}.model"

    def save(self, folder: Path) -> None:
        """Write one file or two."""
        for tokenizer, path in zip((self.source, self.target), self.paths(folder), strict=True):
            tokenizer.save(path)


def save_model(folder: Path, model: Model, settings: ModelSettings, tokenizers: Tokenizers) -> None:
    """Write the folder that `Translator.load` reads, in place of what is there."""

    def write(new: Path) -> None:
        checkpoint.save_tensors(new / "model.safetensors", checkpoint.weights(model))
        write_toml(settings, new / "model.toml")
        tokenizers.save(new)

    checkpoint.write_folder(folder, write)


class Translator:
    """A trained model with its tokenizers. Made by `Translator.load`."""

    def __init__(self, model: Model, tokenizers: Tokenizers) -> None:
        self.model = model.eval()
        self.tokenizers = tokenizers
        self.device = next(model.parameters()).device

    @classmethod
    def load(cls, folder: str | Path, device: str | None = None) -> "Translator":
        """Read a run's folder, or the folder `model` in it alone; by default onto a GPU if there is one.

        Raises `DragomanError` where there is no model yet, or where a file is missing, damaged or does not fit the others.
        """
        folder = Path(folder)
        inner = folder / "model"
        if (whole := checkpoint.whole_folder(inner)).is_dir():
            folder = whole
        elif not (folder / checkpoint.MANIFEST).exists():
            raise DragomanError(f"{folder} holds no model. Train one with: dragoman train --out {folder} --source … --target …")
        checkpoint.check_folder(folder)
        tokenizers = Tokenizers.load(folder)
        settings = overlay(ModelSettings(), read_toml(folder / "model.toml"), str(folder / "model.toml"))
        model = build_model(settings, len(tokenizers.source), len(tokenizers.target))
        path = folder / "model.safetensors"
        checkpoint.load_weights(model, checkpoint.load_tensors(path), path)
        chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
        return cls(model.to(chosen), tokenizers)

    def translate(self, sentences: Sequence[str], settings: SearchSettings | None = None) -> list[str]:
        """The best translation of each sentence; "" for one that is blank."""
        return [best[0].text for best in self.n_best(sentences, settings)]

    def n_best(self, sentences: Sequence[str], settings: SearchSettings | None = None) -> list[list[Translation]]:
        """The `n_best` best translations of each sentence, best first."""
        settings = settings or SearchSettings()
        ids = self._encode(sentences)
        found: list[list[Translation]] = [[Translation("", 0.0, 0.0)] for _ in sentences]
        for batch in self._batches(ids, settings.batch_tokens // settings.beam_size, settings.extra_length):
            rows = pad([ids[number] for number in batch]).to(self.device)
            for number, hypotheses in zip(batch, beam_search(self.model, rows, settings), strict=True):
                found[number] = [self._translation(hypothesis) for hypothesis in hypotheses]
        return found

    def greedy(self, sentences: Sequence[str], batch_tokens: int = 16_000, extra_length: int = 50) -> list[str]:
        """Translations by the likeliest token at each step."""
        ids = self._encode(sentences)
        found = [""] * len(sentences)
        for batch in self._batches(ids, batch_tokens, extra_length):
            rows = pad([ids[number] for number in batch]).to(self.device)
            for number, written in zip(batch, greedy_search(self.model, rows, extra_length), strict=True):
                found[number] = self._text(written)
        return found

    def _encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Ids of each sentence with END; END alone for a blank one."""
        return [[*row, END] for row in self.tokenizers.source.encode([line if line.strip() else "" for line in sentences])]

    def _text(self, ids: list[int]) -> str:
        """One line, whatever bytes the model has spelt."""
        return " ".join(self.tokenizers.target.decode(ids).splitlines())

    def _translation(self, hypothesis: Hypothesis) -> Translation:
        return Translation(self._text(hypothesis.ids), hypothesis.log_probability, hypothesis.score)

    @staticmethod
    def _batches(ids: list[list[int]], tokens: int, extra: int) -> list[list[int]]:
        """Numbers of sentences that are not blank, longest first, in batches of at most so many tokens or of one sentence.

        A sentence counts as long as the longest of its batch, and `extra` more, which its translation may have.
        """
        order = sorted((number for number, row in enumerate(ids) if len(row) > 1), key=lambda number: -len(ids[number]))
        batches: list[list[int]] = []
        for number in order:
            if batches and (len(batches[-1]) + 1) * (len(ids[batches[-1][0]]) + extra) <= tokens:
                batches[-1].append(number)
            else:
                batches.append([number])
        return batches
