"""The models of a server, and their adapters, from folders."""

import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from threading import Timer

from dragoman.model.settings import Precision
from dragoman.native.build import DECODER, is_compiled
from dragoman.native.settings import EngineSettings
from dragoman.serving.models import Models, ServedModel
from dragoman.system.errors import DragomanError
from dragoman.system.files import MANIFEST, array_types, beside, check_folder, file_hash
from dragoman.system.machine import trim_memory
from dragoman.text.settings import LanguagePair
from dragoman.translation.adapter import Adapter
from dragoman.translation.missing_model import is_adapter
from dragoman.translation.model_folder import (
    WEIGHTS,
    StoredModel,
    Tokenizers,
    check_weights,
    model_folder,
    model_hash,
    read_about,
    read_settings,
)
from dragoman.translation.translator import Translator

NICE = 10  # the event loop goes before the threads that search: all requests wait for it
NO_MODELS = Models(())
FLOAT32 = 4  # bytes of a weight as it is read, which stay in memory
PACKED: dict[Precision, int] = {"float32": 4, "bfloat16": 4, "int8": 1}
"""Bytes of a weight as it is searched with. In bfloat16 C++ and PyTorch have a copy each from the start."""
TRIM_SECONDS = 1.0  # after which the memory of a model that nobody uses is returned to the system


def load_models(
    folders: Sequence[Path],
    engine: EngineSettings,
    former: Models = NO_MODELS,
    *,
    allows_pivots: bool = True,
    on_demand: bool = False,
) -> Models:
    """Load runs and adapters, and those in folders. An adapter belongs to each run with its base's hash.

    `former` are the models that the server has: those whose files have not changed are not loaded again. With
    `on_demand` the files are checked only, and models are loaded when requests need them.
    Raises `DragomanError` if there is none, if one cannot be loaded, if the base of an adapter is not among
    the runs, and if two runs, or two adapters of a run, have the same name.
    """
    paths = [path for folder in folders for path in served_in(folder)]
    runs = [path for path in paths if not is_adapter(path)]
    adapters = [(path, Adapter.load(path)) for path in paths if is_adapter(path)]
    refuse_double("models", runs)
    hashes = list(map(model_hash, runs))
    for path, adapter in adapters:
        if adapter.base not in hashes:
            raise DragomanError(
                f"{path} is an adapter, and the model that it was trained on is not served. Give both: "
                f"dragoman serve RUN {path}"
            )
    known = {model.hash: model for model in former.with_adapted}
    models = []
    for run, run_hash in zip(runs, hashes, strict=True):
        run_adapters = [(path, adapter) for path, adapter in adapters if adapter.base == run_hash]
        refuse_double(f"adapters of {name_of(run)}", [path for path, _ in run_adapters])
        models += load_run(run, run_hash, run_adapters, engine, known, on_demand=on_demand)
    return Models(tuple(models), allows_pivots)


def load_run(
    run: Path,
    run_hash: str,
    adapters: Sequence[tuple[Path, Adapter]],
    engine: EngineSettings,
    known: dict[str, ServedModel],
    *,
    on_demand: bool,
) -> list[ServedModel]:
    """A run with its adapters; those whose hashes are known as they are. Others become known.

    A model of several pairs of languages is there once for each.
    Raises as `load_models`.
    """
    run_folder = run.resolve()  # a link may point to another version when the model is loaded
    read = partial(read_run, run_folder, run_hash)
    content = cache(read)  # read once for all that are loaded now
    if on_demand:
        check_run(run_folder)

    def serve(key: str, adapter: Adapter | None = None) -> ServedModel:
        if on_demand:
            load = partial(open_model, read, adapter, engine)
            known[key] = replace(describe_run(run_folder, engine), load=load, hash=key)
        elif key not in known:
            translator = open_model(content, adapter, engine)
            known[key] = replace(describe_run(run_folder, engine), loaded=translator, hash=key)
        return replace(known[key], name=name_of(run), run_name="")

    adapted = [
        replace(serve(f"{run_hash} {file_hash(path / MANIFEST)}", adapter), adapter=name_of(path))
        for path, adapter in adapters
    ]
    model = replace(serve(run_hash), folder=run, adapted=tuple(adapted))
    pairs = read_about(model_folder(run_folder)).pairs
    return [of_pair(model, pair) for pair in pairs] or [model]


def of_pair(model: ServedModel, pair: LanguagePair) -> ServedModel:
    """A model, and its adapters, for one of its pairs of languages: `en-x:en-fr` of the model `en-x`."""
    name = f"{model.name}:{pair.name}"
    served = replace(model, name=name, run_name=model.name, source=pair.source, target=pair.target)
    if model.loaded is not None:
        served = replace(served, loaded=served.of_languages(model.loaded))
    return replace(served, adapted=tuple(of_pair(adapted, pair) for adapted in model.adapted))


def read_run(run: Path, run_hash: str) -> StoredModel:
    """The content of a run. Raises `DragomanError` as `StoredModel.load`, and if the hash is another one."""
    stored = StoredModel.load(run)
    if model_hash(run) != run_hash:
        raise DragomanError(f"{run} has been changed meanwhile; let the server read its models again.")
    return stored


def check_run(run: Path) -> None:
    """Raise `DragomanError` if the files of a run are missing or damaged, or do not fit each other."""
    folder = model_folder(run)
    check_folder(folder)
    check_weights(folder, read_settings(folder), Tokenizers.load(folder))


def describe_run(run: Path, engine: EngineSettings) -> ServedModel:
    """A model, without its name and its weights, by what its files say of them."""
    folder = model_folder(run)
    parameters = sum(math.prod(shape) for _, shape in array_types(folder / WEIGHTS).values())
    languages = read_about(folder).languages
    return ServedModel(
        "",
        languages.source,
        languages.target,
        None,
        read_settings(folder).architecture,
        parameters,
        precision=engine.precision,
        size=parameters * (FLOAT32 + PACKED[engine.precision]),
    )


def served_in(folder: Path) -> list[Path]:
    """The folder itself if it holds a model or is an adapter, else the folders in it that do, by name.

    Raises `DragomanError` if there is none, and for a link to a folder that does not exist: its model would
    disappear from the server. Names that begin with a dot may be those of other programs.
    """
    if not folder.is_dir():
        raise DragomanError(f"{folder} is not a folder; give the folder of a run, or one with runs in it.")
    if (folder / "model.toml").exists() or (folder / "model").is_dir() or is_adapter(folder):
        return [folder]
    paths = sorted(folder.iterdir())
    for path in paths:
        if path.is_symlink() and not path.exists() and not path.name.startswith("."):
            raise DragomanError(
                f"{path} is a symbolic link to {path.readlink()}, which does not exist. Correct it, or "
                "remove it."
            )
    folders = [
        path
        for path in paths
        if (path / "model.toml").exists() or (path / "model" / "model.toml").exists() or is_adapter(path)
    ]
    if not folders:
        raise DragomanError(f"{folder} holds no model and no adapter, and neither do the folders in it.")
    return folders


def name_of(folder: Path) -> str:
    """The name that requests give a run or an adapter: that of its folder, or of the link to it.

    Raises `DragomanError` for a name that is not UTF-8: no request could give it.
    """
    name = beside(folder, "{}").name
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise DragomanError(f"The name of the folder {name!r} is not UTF-8; rename it.") from error
    return name


def refuse_double(what: str, folders: Sequence[Path]) -> None:
    """Raise `DragomanError` if two folders have the same name."""
    names = list(map(name_of, folders))
    if duplicate := next((name for name in names if names.count(name) > 1), None):
        raise DragomanError(f"Two {what} are named {duplicate}; rename one of their folders.")


def open_model(
    content: Callable[[], StoredModel], adapter: Adapter | None, engine: EngineSettings
) -> Translator:
    """The translator of a run, with an adapter if there is one. Raises `DragomanError` as `load_models`."""
    stored = content() if adapter is None else adapter.merge(content())
    translator = Translator.of([stored], engine)
    # In float32 PyTorch translates while the C++ is compiled; a request then opens it, with usual priority.
    opens = is_compiled(DECODER) or engine.precision != "float32" or engine.shortlist is not None
    if opens and translator.native_backend is not None:
        translator.native_backend.set_nice(NICE)
    weakref.finalize(translator, trim_soon).atexit = False
    return translator


def trim_soon() -> None:
    """Return the memory of a model to the system a moment after its last user has ended.

    By then the threads that searched with it have freed its packed weights.
    """
    timer = Timer(TRIM_SECONDS, trim_memory)
    timer.daemon = True
    timer.start()
