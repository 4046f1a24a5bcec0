"""Named datasets: their URLs, the hashes of their files, and their licences."""

import gzip
import logging
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dragoman.system.caches import cache_folder
from dragoman.system.errors import DragomanError, OptionError, reason
from dragoman.system.files import atomic_write
from dragoman.text.compression import GZIP_ERRORS
from dragoman.text.dataset_names import check_datasets, is_opus, parse_opus
from dragoman.text.mixture import WeightedCorpus
from dragoman.text.named_datasets.archive_dataset import ArchiveDataset, located
from dragoman.text.named_datasets.archives import text_hash
from dragoman.text.named_datasets.downloads import DOWNLOAD_ERRORS, opened, raise_if_disk_full
from dragoman.text.named_datasets.iwslt14 import IWSLT14
from dragoman.text.named_datasets.wmt14 import WMT14
from dragoman.text.settings import DataSettings

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DatasetFile:
    """A file of a dataset."""

    name: str
    url: str
    hashes: tuple[str, ...]
    """The SHA-256 of its decompressed text, in each version that is accepted."""


@dataclass(frozen=True)
class Dataset:
    """A parallel corpus that can be downloaded."""

    description: str
    licence: str
    files: tuple[DatasetFile, ...]
    """In the order of `CorpusFiles`: training, validation and test, each with source and target."""
    training_bytes: int
    """Of the training text, both sides, about."""

    def find(self, folder: Path) -> list[Path]:
        """The paths of the verified files in `folder`; those that are missing are downloaded."""
        return [_find_or_download(file, folder) for file in self.files]

    def reversed(self, description: str) -> "Dataset":
        """The same files, to translate in the other direction."""
        pairs = zip(self.files[1::2], self.files[::2], strict=True)
        return replace(self, description=description, files=tuple(file for pair in pairs for file in pair))


_MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"

_MULTI30K_EN_DE = Dataset(
    training_bytes=3_900_000,
    description="29,000 image descriptions in English and German (Elliott et al. 2016); test2016",
    licence="research and education, non-commercial (Flickr30k's terms)",
    files=(
        DatasetFile(
            "train.en",
            _MULTI30K + "train.en.gz",
            ("460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",),
        ),
        DatasetFile(
            "train.de",
            _MULTI30K + "train.de.gz",
            (
                "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
                # The same, without the spaces at the end of 20 lines.
                "67aa53ff412b6af1f47c604a623e112e2c28c61519aa7cf8a5348af21722b67a",
            ),
        ),
        DatasetFile(
            "valid.en",
            _MULTI30K + "val.en.gz",
            ("1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",),
        ),
        DatasetFile(
            "valid.de",
            _MULTI30K + "val.de.gz",
            ("660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",),
        ),
        DatasetFile(
            "test2016.en",
            _MULTI30K + "test_2016_flickr.en.gz",
            ("399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",),
        ),
        DatasetFile(
            "test2016.de",
            _MULTI30K + "test_2016_flickr.de.gz",
            ("4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",),
        ),
    ),
)

DATASETS: dict[str, Dataset | ArchiveDataset] = {
    "multi30k-en-de": _MULTI30K_EN_DE,
    "multi30k-de-en": _MULTI30K_EN_DE.reversed(
        "29,000 image descriptions in German and English (Elliott et al. 2016); test2016"
    ),
    **WMT14,
    **IWSLT14,
}


def listing() -> str:
    """The names of all datasets, each with what it is."""
    lines = [f"{name:<16}{dataset.description}" for name, dataset in DATASETS.items()]
    return "\n".join(
        [*lines, "opus:en-de/NAME corpora of OPUS; dragoman data opus:en-de lists those of a pair"]
    )


def find_dataset(name: str) -> Dataset | ArchiveDataset:
    """The dataset of this name. Raises `DragomanError` if there is none."""
    if name not in DATASETS:
        raise DragomanError(f"There is no dataset {name!r}; there are: {', '.join(DATASETS)}.")
    return DATASETS[name]


def resolve_dataset(settings: DataSettings) -> DataSettings:
    """The settings with the paths of the named datasets; files that are missing are downloaded to `folder`.

    Says what a dataset is, and its licence; of OPUS, if it is downloaded. A file in `folder` may be plain or
    end in .gz. Raises `DragomanError` for an unknown dataset, a file that cannot be downloaded, or one whose
    text is not the dataset's.
    """
    names = settings.datasets
    if not names:
        return settings
    check_datasets(names, settings.source is not None)
    if is_opus(names[0]):
        return with_opus(settings)
    dataset = find_dataset(names[0])
    logger.info(f"{names[0]}: {dataset.description}. Its licence: {dataset.licence}.")
    folder = settings.folder or cache_folder() / names[0]
    source, target, valid_source, valid_target, test_source, test_target = dataset.find(folder)
    return replace(
        settings,
        folder=None,
        dataset=None,
        source=source,
        target=target,
        valid_source=valid_source,
        valid_target=valid_target,
        test_source=test_source,
        test_target=test_target,
    )


def with_opus(settings: DataSettings) -> DataSettings:
    """The settings with the texts of corpora of OPUS, after the user's own text if there is any.

    Raises `DragomanError` as `find_corpus`.
    """
    from dragoman.text.named_datasets.opus import find_corpus

    folder = settings.folder or cache_folder() / "opus"
    texts = [find_corpus(parse_opus(name), folder) for name in settings.datasets]
    languages, paths = settings.languages, dict[str, Any](settings.files)
    if settings.source is not None or len(texts) > 1:
        corpora = [WeightedCorpus(*pair) for pair in texts]
        if settings.source is not None:
            corpora.insert(0, WeightedCorpus(paths.pop("source"), paths.pop("target", None)))
        paths |= {"source": None, "target": None, "corpus": tuple(corpora)}
    else:
        paths["source"], paths["target"] = texts[0]
    return replace(
        settings,
        folder=None,
        dataset=None,
        source_language=languages.source,
        target_language=languages.target,
        **paths,
    )


def _find_or_download(file: DatasetFile, folder: Path) -> Path:
    """The path of the verified file in `folder`."""
    path = located(folder, file.name)
    if not path.exists():
        _download(file, path)
    _verify(file, path)
    return path


def _verify(file: DatasetFile, path: Path) -> None:
    """Raise `DragomanError` if the text at `path` is not the dataset's."""
    if (actual_hash := text_hash(path)) not in file.hashes:
        raise DragomanError(
            f"{path} is not the dataset's {file.name}: the SHA-256 of its text is {actual_hash}. Delete "
            "it to download it again."
        )


def _download(file: DatasetFile, path: Path) -> None:
    """Download a file, and write its decompressed text to `path`. Raises `DragomanError` if that fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with (
            atomic_write(path) as new,
            opened(file.url) as packed,
            gzip.open(packed.content) as text,
            new.open("wb") as copy,
        ):
            shutil.copyfileobj(text, copy)
    except (*DOWNLOAD_ERRORS, *GZIP_ERRORS) as error:
        raise_if_disk_full(error)
        raise OptionError(
            "{name} is not in {present}, and {url} cannot be downloaded ({reason}). If this machine is "
            "offline, put the file there by hand. In training, {folder} names another folder.",
            name=file.name,
            present=path.parent,
            url=file.url,
            reason=reason(error),
        ) from error
