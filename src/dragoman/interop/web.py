"""To a folder of static files, a page that translates in the browser.

    index.html             the page
    page/                  its scripts, styles and languages
    dragoman.js            the module, for pages of one's own; tokenizer.js and dragoman.wasm belong to it
    model/about.json       languages and settings of the search
    model/weights.bin      settings and parameters, as native/web.cpp reads them
    model/source.model     SentencePiece models; one, if both sides share it
    model/target.model

Matrices are rounded to int8 as the C++ decoder does it. Embeddings have 24 bits, of which the upper 8 are
those with which the output layer multiplies: with fewer, some translations differ.
"""

import json
import shutil
import struct
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.native.decoder import Array, Positions, padded_parameters, transformer_settings
from dragoman.native.settings import EngineSettings
from dragoman.native.web import web_decoder
from dragoman.system.errors import NonFiniteError, OptionError
from dragoman.translation.model_folder import StoredModel
from dragoman.translation.segmentation import split_length
from dragoman.translation.translator import Translator

FLOATS, BYTES, BYTES_AND_RESTS = range(3)  # kinds of parameters, as in native/web.cpp
PAGE = Path(__file__).parent / "page"
PACKAGE = Path(__file__).parents[1]
SHARED = {
    "serving/page": (
        *("files.js", "header.js", "i18n.js", "icons.js", "menu.js", "storage.js", "theme.js"),
        *("style.css", "icon.svg"),
    ),
    "inspection/page": ("theme.css",),
}
"""Files of the server's page, by folders of the package."""


def write(stored: StoredModel, folder: Path) -> None:
    """Write the site to a folder that exists.

    Raises `DragomanError` for a model that the page cannot read, and as `web_decoder`.
    """
    refuse_unsupported(stored)
    copy_page(folder)
    (folder / "dragoman.wasm").write_bytes(web_decoder())
    model = folder / "model"
    model.mkdir()
    about = description(stored)
    (model / "about.json").write_text(json.dumps(about, indent=1) + "\n", "utf-8")
    write_weights(stored, about["longestTarget"], model / "weights.bin")
    (model / "source.model").write_bytes(stored.tokenizers.source.model)
    if not about["sharesVocabulary"]:
        (model / "target.model").write_bytes(stored.tokenizers.target.model)


def refuse_unsupported(stored: StoredModel) -> None:
    """Raise `DragomanError` for a vocabulary that tokenizer.js does not read."""
    if any(side.codes is not None for side in (stored.tokenizers.source, stored.tokenizers.target)):
        raise OptionError(
            "The model splits words by codes of subword-nmt, which the page does not have; train a model "
            "with bpe or unigram as {source_tokens} and {target_tokens}."
        )


def copy_page(folder: Path) -> None:
    """Copy the page's files, those that it shares with the server's page too."""
    shutil.copytree(PAGE, folder, dirs_exist_ok=True)
    for place, names in SHARED.items():
        for name in names:
            shutil.copy(PACKAGE / place / name, folder / "page")
    for name in ("serving/page/languages", "inspection/page/vendor"):
        shutil.copytree(PACKAGE / name, folder / "page" / Path(name).name)


def description(stored: StoredModel) -> dict[str, Any]:
    """What dragoman.js has to know of the model: the settings of `dragoman translate`, and its limits."""
    translator = Translator.of([stored], EngineSettings())
    settings = translator.search_settings(None, {})
    longest_part = split_length(settings, translator.longest_trained, translator.longest_source)
    longest_target = longest_part + settings.extra_tokens + 1
    return {
        "format": 1,
        "languages": asdict(translator.languages),
        "sharesVocabulary": stored.tokenizers.source is stored.tokenizers.target,
        "hasLetters": stored.tokenizers.source.has_letters,
        "cutsSentences": translator.cuts_sentences,
        "longestPart": longest_part,
        "longestTarget": min(longest_target, stored.settings.longest or longest_target),
        "beamSize": settings.beam_size,
        "lengthPenalty": settings.length_penalty,
        "minLength": settings.least_tokens,
        "maxExtraTokens": settings.extra_tokens,
    }


def write_weights(stored: StoredModel, positions: int, path: Path) -> None:
    """Write settings and parameters, with so many positions of each side, or as many as were learnt."""
    with path.open("wb") as file:
        file.write(bytes(transformer_settings(stored.settings, "int8")))
        for name, array in parameters(stored, positions):
            matrix = np.atleast_2d(array)
            is_exact = array.ndim == 1 or "_positions." in name
            kind = FLOATS if is_exact else BYTES_AND_RESTS if "_embedding." in name else BYTES
            parts = [matrix] if kind == FLOATS else rounded(matrix, kind)
            file.write(struct.pack("<4i", *matrix.shape, kind, len(name)))
            for part in (name.encode(), *(part.tobytes() for part in parts)):
                file.write(part + bytes(-len(part) % 4))


def parameters(stored: StoredModel, positions: int) -> Iterator[tuple[str, Array]]:
    """The parameters as C++ takes them, and the positions of each side; of both, if they are the same."""
    width, settings = stored.settings.d_model, stored.settings
    for side in ("source", "target"):
        table = stored.weights.get(f"{side}_positions.table")
        if side == "target" or table is not None:
            count = min(positions, len(table)) if table is not None else positions
            rows = np.array(Positions(settings, table).first(count), np.float32)
            yield f"{side}_positions.table", rows.reshape(-1, width)[:count]
    yield from padded_parameters(settings, stored.weights).items()


def rounded(matrix: Array, kind: int) -> list[Array]:
    """The scales [R 1] of a matrix [R C], its integers [R C], and, if the kind has them, their rests [R C].

    Rests are in units of 2⁻¹⁶. Oracle: Int8::pack_row of native/gemm.h. Raises `DragomanError` for numbers
    that are not finite.
    """
    if not np.isfinite(matrix).all():
        raise NonFiniteError
    scales = np.maximum(np.abs(matrix).max(1, keepdims=True), np.float32(127e-30)) / np.float32(127)
    integers = np.rint(matrix / scales)
    if kind == BYTES:
        return [scales, integers.astype(np.int8)]
    rests = np.rint((matrix.astype(np.float64) / scales - integers) * 65536).clip(-32767, 32767)
    return [scales, integers.astype(np.int8), rests.astype(np.int16)]
