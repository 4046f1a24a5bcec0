"""Named datasets: where they come from, what they must contain, and whose they are."""

import gzip
import hashlib
import http.client
import shutil
import urllib.error
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path

from dragoman.system.errors import DragomanError
from dragoman.system.files import atomic_write, cache_folder
from dragoman.text.lines import GZIP_ERRORS, open_bytes
from dragoman.text.settings import DataSettings


@dataclass(frozen=True)
class DatasetFile:
    """A file by its name here, its address, and the SHA-256 of its unpacked text in the versions that are
    known.
    """

    name: str
    address: str
    hashes: tuple[str, ...]


@dataclass(frozen=True)
class Dataset:
    """Files in the order of `DataSettings`: training, validation and test; source and target."""

    about: str
    licence: str
    files: tuple[DatasetFile, ...]


_MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"

DATASETS = {
    "multi30k-en-de": Dataset(
        about="29,000 image descriptions in English and German (Elliott et al. 2016); test2016",
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
                    # the same without the blanks that end 20 of its lines
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
    ),
}


def resolve_dataset(settings: DataSettings) -> DataSettings:
    """The settings with the paths of their named dataset, whose files are fetched to `folder` where they are
    not there yet.

    A file there may be plain or end in .gz. Raises `DragomanError` for an unknown name, a file that cannot be
    had, or one whose text is not the dataset's.
    """
    if settings.dataset is None:
        return settings
    if settings.dataset not in DATASETS:
        raise DragomanError(f"There is no dataset {settings.dataset!r}; there are: {', '.join(DATASETS)}.")
    folder = settings.folder or cache_folder() / settings.dataset
    paths = [_local(file, folder) for file in DATASETS[settings.dataset].files]
    source, target, valid_source, valid_target, test_source, test_target = paths
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


def _local(file: DatasetFile, folder: Path) -> Path:
    """The checked file in `folder`, fetched if need be."""
    for path in (folder / file.name, folder / f"{file.name}.gz"):
        if path.exists():
            try:
                with open_bytes(path) as stream:
                    found = hashlib.sha256(stream.read()).hexdigest()
            except GZIP_ERRORS as error:
                raise DragomanError(
                    f"{path} is not a complete gzip file: {error}. Delete it to fetch it."
                ) from error
            if found not in file.hashes:
                raise DragomanError(
                    f"{path} is not the dataset's {file.name}: the SHA-256 of its text is {found}. Delete "
                    "it to fetch it."
                )
            return path
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with (
            atomic_write(folder / file.name) as new,
            urllib.request.urlopen(file.address, timeout=60) as answer,  # noqa: S310
            gzip.open(answer) as text,
            new.open("wb") as copy,
        ):
            shutil.copyfileobj(text, copy)
    except (urllib.error.URLError, http.client.HTTPException, OSError, *GZIP_ERRORS) as error:
        raise DragomanError(
            f"{file.name} is not in {folder}, and {file.address} cannot be fetched ({error}). If this "
            "machine is offline, put the "
            "file there by hand, and name the folder with --folder."
        ) from error
    return _local(file, folder)
