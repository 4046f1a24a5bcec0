"""Time of integrated gradients beside inseq, and sizes of pages beside CircuitsVis.

    python -m venv peers && peers/bin/pip install torch==2.13.0 ".[huggingface]" inseq circuitsvis
    peers/bin/python benchmarks/inspection_peers.py [--preset tiny] [--tokens 10 25] [--pages base]

Models have random weights, and as many target as source tokens, END included. Both programs compute the same
integral, with the same points, of the same exported model in turn, on one thread. Times are those of the
processor, after both have computed a short sentence. Pages are of one sentence of 30 tokens: of CircuitsVis
with self-attention alone. Writes JSON to benchmarks/results, and prints the file's name.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import inseq
import numpy as np
import torch
from circuitsvis.attention import attention_heads
from inspection_costs import SEED, SHORT, random_translator, text
from passport import asked, keep, passport

from dragoman import Translator
from dragoman.inspection.analyse.attribution import attribute
from dragoman.inspection.inspect import inspect
from dragoman.interop import huggingface
from dragoman.model.settings import PRESETS
from dragoman.model.symbols import PAD, START, UNKNOWN

POINTS = 32
LENGTH = 30  # tokens of the sentence of the pages

Integrated = Callable[[int], np.ndarray]
"""The contributions of source tokens to target tokens [T S], for sentences of so many tokens."""


def ours(translator: Translator) -> Integrated:
    """Integrated gradients by Dragoman."""

    def integrated(tokens: int) -> np.ndarray:
        method = "integrated-gradients"
        return attribute(translator, text(tokens), text(tokens), POINTS, methods=[method]).of(method)

    return integrated


def theirs(translator: Translator) -> Integrated:
    """Those by inseq, made to have the same definition (tests/test_inseq.py has the reasons)."""
    model = translator.torch_backend.model
    with torch.no_grad():
        model.source_embedding.weight[UNKNOWN] = 0
    with tempfile.TemporaryDirectory() as folder:
        huggingface.write(model, translator.tokenizers, Path(folder))
        loaded = inseq.load_model(folder, "integrated_gradients")
    loaded.model.get_decoder().embed_scale = 1.0
    loaded.model.final_logits_bias[:, [PAD, START]] = -1e9
    same = {"n_steps": POINTS, "include_eos_baseline": True, "attributed_fn": "probability", "logprob": True}

    def integrated(tokens: int) -> np.ndarray:
        found = loaded.attribute(text(tokens), text(tokens), show_progress=False, **same)
        return found[0].source_attributions.sum(-1).T.numpy()

    return integrated


def timed(integrated: Integrated, tokens: int) -> tuple[float, np.ndarray]:
    """Processor time, and what was computed."""
    started = time.process_time()
    found = integrated(tokens)
    return time.process_time() - started, found


def beside_inseq(preset: str, tokens: list[int], rounds: int) -> list[dict[str, float]]:
    """A row for each number of tokens: medians of the rounds."""
    translator = random_translator(preset, 2000)
    both = ours(translator), theirs(translator)
    for each in both:
        each(SHORT)
    rows = []
    for count in tokens:
        turns = [[timed(each, count) for each in both] for _ in range(rounds)]
        (_, our_numbers), (_, their_numbers) = turns[0]
        rows.append(
            {
                "tokens": count,
                "our_seconds": statistics.median(own[0] for own, _ in turns),
                "their_seconds": statistics.median(other[0] for _, other in turns),
                "ratio": statistics.median(other[0] / own[0] for own, other in turns),
                "difference": float(abs(our_numbers - their_numbers).max()),
                "largest": float(abs(our_numbers).max()),
            }
        )
    return rows


def megabytes(page: str) -> float:
    """The size of a page."""
    return len(page.encode()) / 1e6


def beside_circuitsvis(preset: str) -> list[dict[str, object]]:
    """A row for each page: megabytes of the file that works offline, and of the one that loads a script."""
    translator = random_translator(preset, 37000)
    found = inspect(translator, text(LENGTH), min_length=LENGTH - 1, max_length=LENGTH - 1)
    sides = (found.source, found.attention.encoder), (found.target, found.attention.decoder)
    views = [
        attention_heads(attention=torch.from_numpy(np.float32(layer)), tokens=list(tokens))
        for tokens, weights in sides
        for layer in weights
    ]
    offline = [megabytes(view.local_src) for view in views]
    online = [megabytes(view.cdn_src) for view in views]
    return [
        {"page": "CircuitsVis, one layer", "offline_mb": offline[0], "online_mb": online[0]},
        {"page": f"CircuitsVis, {len(views)} layers", "offline_mb": sum(offline), "online_mb": sum(online)},
        {"page": "Dragoman, the default report", "offline_mb": megabytes(found.to_html()), "online_mb": None},
    ]


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", choices=list(PRESETS), default="tiny", help="of the integrals")
    parser.add_argument("--tokens", type=int, nargs="+", default=[10, 25])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pages", choices=list(PRESETS), default="base", help="of the pages")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    torch.set_num_threads(1)
    programs = ("inseq", "circuitsvis", "transformers", "captum")
    found = passport(asked("inspection_peers.py", given)) | {
        "seed": SEED,
        "versions": {name: version(name) for name in programs},
        "rows": beside_inseq(given.preset, given.tokens, given.rounds),
        "pages": beside_circuitsvis(given.pages),
    }
    print(keep(found, given.results, "inspection-peers"))


if __name__ == "__main__":
    main()
