"""Text files to a run's `data` folder: pairs held out, tokenizers trained, corpora written; whole or not at all."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dragoman.pipeline.recipe import Recipe, choose_vocabulary
from dragoman.system.errors import DragomanError
from dragoman.system.files import MANIFEST, check_folder, sync, write_manifest
from dragoman.text.corpus import Corpus, Selection, held_out_pairs, plain_file, sample_pairs, source_hashes, survey, write_corpus
from dragoman.text.lines import read_lines, read_pairs
from dragoman.text.settings import DataSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import Tokenizers

Say = Callable[[str], None]


@dataclass(frozen=True)
class Prepared:
    """What a run reads once its text has become ids: all of it lies in the run's folder."""

    tokenizers: Tokenizers
    train: Corpus
    valid: Corpus
    valid_source: list[str]
    valid_target: list[str]

    @classmethod
    def load(cls, folder: Path) -> "Prepared":
        """Read the folder that `prepare` wrote. Raises `DragomanError` where it is not whole."""
        lines = [list(read_lines(folder / f"valid.{side}.txt")) for side in ("source", "target")]
        return cls(Tokenizers.load(folder), Corpus(folder / "train"), Corpus(folder / "valid"), *lines)


def prepare(out: Path, recipe: Recipe, say: Say) -> None:
    """Check the files, hold out pairs, train tokenizers, write corpora: `out/data` appears when all is well, or not at all."""
    data, strip = recipe.data, recipe.data.strip_carriage_returns
    assert data.source is not None
    assert data.target is not None
    others = {
        name: source_hashes(path, strip)
        for name, path in (("validation", data.valid_source), ("test", data.test_source))
        if path is not None
    }
    for source, target in ((data.valid_source, data.valid_target), (data.test_source, data.test_target)):
        if source is not None and target is not None:
            for _ in read_pairs(source, target, strip):
                pass
    found, selection = survey(data.source, data.target, data, others, hold_out=data.valid_source is None)
    new = out / "data.partial"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        files = plain_file(data.source, new / "plain" / "source"), plain_file(data.target, new / "plain" / "target")
        if data.test_source is not None and data.test_target is not None:
            write_lines(new, "test", list(read_pairs(data.test_source, data.test_target, strip)))
        if next(sample_pairs(*files, data, selection, 1, 1), None) is None:
            raise DragomanError(f"No pair of {data.source} and {data.target} is left for training: {'; '.join(found.sentences())}.")
        tokenizers = train_tokenizers(recipe, files, selection, found.pairs)
        tokenizers.save(new)
        found.held_out, found.too_long = write_valid(new, files, data, selection, tokenizers)
        models = tokenizers.paths(new)
        train = write_corpus(new / "train", files, models, data, selection, found, data.longest)
        valid_files = new / "valid.source.txt", new / "valid.target.txt"
        valid_found, _ = survey(*valid_files, DataSettings(), {}, hold_out=False)
        write_corpus(new / "valid", valid_files, models, DataSettings(), Selection(), valid_found, longest=0)
        shutil.rmtree(new / "plain", ignore_errors=True)
        write_manifest(new)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    for path in (*new.rglob("*"), new):
        sync(path)
    shutil.rmtree(out / "data", ignore_errors=True)
    new.rename(out / "data")
    say(f"Text: {'; '.join(train.found.sentences())}. {len(train):,} pairs to train on.")


def check_prepared(folder: Path) -> None:
    """Compare the folder that `prepare` wrote with its manifest, if it has one: it did not always. Raises `DragomanError`."""
    if not (folder / MANIFEST).exists():
        return
    try:
        check_folder(folder)
    except DragomanError as error:
        raise DragomanError(
            f"{error} The run might go on with another text than it began with: put a copy of {folder} back, or begin again with another "
            "--out. Its models are not affected and still translate."
        ) from error


def write_valid(
    folder: Path, files: tuple[Path, Path], data: DataSettings, selection: Selection, tokenizers: Tokenizers
) -> tuple[int, int]:
    """Write the validation pairs, given or held out; give the numbers of those held out, and of those that are too long for that.

    Raises `DragomanError` where there is none.
    """
    if data.valid_source is not None and data.valid_target is not None:
        given = read_pairs(data.valid_source, data.valid_target, data.strip_carriage_returns)
        if not (whole := [pair for pair in given if all(map(str.strip, pair))]):
            raise DragomanError(f"{data.valid_source} and {data.valid_target} have no pair without an empty side.")
        write_lines(folder, "valid", whole)
        return 0, 0
    pairs = held_out_pairs(*files, data, selection)
    source, target = (list(side) for side in zip(*pairs, strict=True))
    ids = zip(tokenizers.source.encode(source), tokenizers.target.encode(target), strict=True)
    fitting = [pair for pair, both in zip(pairs, ids, strict=True) if not data.longest or max(map(len, both)) <= data.longest]
    if not fitting:
        raise DragomanError(f"All validation pairs, held out of {data.source} and {data.target}, have more than {data.longest} tokens.")
    write_lines(folder, "valid", fitting)
    return len(fitting), len(pairs) - len(fitting)


def write_lines(folder: Path, name: str, pairs: list[tuple[str, str]]) -> None:
    """Write both sides of pairs as text files."""
    for number, side in enumerate(("source", "target")):
        text = "".join(f"{pair[number]}\n" for pair in pairs)
        (folder / f"{name}.{side}.txt").write_text(text, "utf-8", newline="\n")


def train_tokenizers(recipe: Recipe, files: tuple[Path, Path], selection: Selection, pairs: int) -> Tokenizers:
    """One vocabulary of both sides, or one of each, from the training pairs alone."""
    settings = recipe.tokenizer
    vocabulary = settings.vocabulary or choose_vocabulary(recipe, pairs)
    source_kind, target_kind = settings.source_tokens, settings.target_tokens or settings.source_tokens

    def sampled() -> Iterator[tuple[str, str]]:
        return sample_pairs(*files, recipe.data, selection, pairs, settings.tokenizer_pairs)

    if settings.share_vocabulary:
        tokenizer = Tokenizer.train((line for pair in sampled() for line in pair), source_kind, settings, vocabulary)
        return Tokenizers(tokenizer, tokenizer)
    return Tokenizers(
        Tokenizer.train((source for source, _ in sampled()), source_kind, settings, vocabulary),
        Tokenizer.train((target for _, target in sampled()), target_kind, settings, vocabulary),
    )
