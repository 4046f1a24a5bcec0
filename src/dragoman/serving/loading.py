"""The models of a server, and their adapters, from folders."""

import weakref
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import Timer

from dragoman.native.build import DECODER, is_compiled
from dragoman.native.settings import EngineSettings
from dragoman.serving.models import Models, ServedModel
from dragoman.system.errors import DragomanError
from dragoman.system.files import MANIFEST, beside, file_hash
from dragoman.system.machine import trim_memory
from dragoman.translation.adapter import Adapter
from dragoman.translation.missing_model import is_adapter
from dragoman.translation.model_folder import StoredModel, model_hash
from dragoman.translation.translator import Translator

NICE = 10  # the event loop goes before the threads that search: all requests wait for it
NO_MODELS = Models(())
TRIM_SECONDS = 1.0  # after which the memory of a model that nobody uses is returned to the system


def load_models(folders: Sequence[Path], engine: EngineSettings, former: Models = NO_MODELS) -> Models:
    """Load runs and adapters, and those in folders. An adapter belongs to each run with its base's hash.

    `former` are the models that the server has: those whose files have not changed are not loaded again, and
    pivots are allowed as they are there.
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
        models.append(load_run(run, run_hash, run_adapters, engine, known))
    return Models(tuple(models), former.allows_pivots)


def load_run(
    run: Path,
    run_hash: str,
    adapters: Sequence[tuple[Path, Adapter]],
    engine: EngineSettings,
    known: dict[str, ServedModel],
) -> ServedModel:
    """A run with its adapters; those whose hashes are known as they are. Others become known.

    Raises as `load_models`.
    """

    @cache  # the run is read once, and only if something is to be loaded
    def content() -> StoredModel:
        stored = StoredModel.load(run)
        if model_hash(run) != run_hash:
            raise DragomanError(f"{run} was changed while it was read; try again.")
        return stored

    if run_hash not in known:
        known[run_hash] = serve_model(content(), engine, run_hash)
    adapted = []
    for path, adapter in adapters:
        adapted_hash = f"{run_hash} {file_hash(path / MANIFEST)}"
        if adapted_hash not in known:
            known[adapted_hash] = serve_model(adapter.merge(content()), engine, adapted_hash)
        adapted.append(replace(known[adapted_hash], name=name_of(run), adapter=name_of(path)))
    return replace(known[run_hash], name=name_of(run), folder=run, adapted=tuple(adapted))


def served_in(folder: Path) -> list[Path]:
    """The folder itself if it holds a model or is an adapter, else the folders in it that do, by name.

    Raises `DragomanError` if there is none.
    """
    if not folder.is_dir():
        raise DragomanError(f"{folder} is not a folder; give the folder of a run, or one with runs in it.")
    if (folder / "model.toml").exists() or (folder / "model").is_dir() or is_adapter(folder):
        return [folder]
    folders = [
        path
        for path in sorted(folder.iterdir())
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


def serve_model(stored: StoredModel, engine: EngineSettings, stored_hash: str) -> ServedModel:
    """A model, without the name that requests give it."""
    translator = Translator.of([stored], engine)
    # In float32 PyTorch translates while the C++ is compiled; a request then opens it, with usual priority.
    opens = is_compiled(DECODER) or engine.precision != "float32" or engine.shortlist is not None
    if opens and translator.native_backend is not None:
        translator.native_backend.set_nice(NICE)
    weakref.finalize(translator, trim_soon).atexit = False
    return ServedModel(
        "",
        stored.languages.source,
        stored.languages.target,
        translator,
        stored.settings.architecture,
        sum(weight.size for weight in stored.weights.values()),
        hash=stored_hash,
    )


def trim_soon() -> None:
    """Return the memory of a model to the system a moment after its last user has ended.

    By then the threads that searched with it have freed its packed weights.
    """
    timer = Timer(TRIM_SECONDS, trim_memory)
    timer.daemon = True
    timer.start()
