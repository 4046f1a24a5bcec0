"""What inspections cost: processor time, memory and size of the HTML file, and the time of attributions.

    python benchmarks/inspection_costs.py [--preset base] [--tokens 30 200 512] [--attributed 20 40]

Of a model with random weights, and as many target as source tokens, END included. Translation is that of
PyTorch with the same settings, a beam of 4. Each inspection has a process of its own, whose memory is its
largest resident size. Times are those of the processor on one thread, after an inspection of a short
sentence. Writes JSON to benchmarks/results, and prints the file's name.
"""

import argparse
import resource
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch
from passport import asked, keep, passport

from dragoman import SearchSettings, Translator
from dragoman.inspection.analyse.attribution import attribute
from dragoman.inspection.analyse.value_zeroing import value_zeroing
from dragoman.inspection.inspect import inspect
from dragoman.model.build import build_model
from dragoman.model.settings import PRESETS
from dragoman.text.settings import TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import Tokenizers

SEED = 1
SHORT = 6  # tokens of a sentence that is inspected before any is measured

Row = dict[str, float]


def random_translator(preset: str, vocabulary: int) -> Translator:
    """Random weights, and a vocabulary of the tokens that `text` writes, which has no others of a text."""
    symbols = tuple(token for number in range(vocabulary) for token in (f"▁w{number}", f"x{number}"))
    settings = TokenizerSettings(byte_fallback=False, symbols=symbols[: vocabulary - 7])
    tokenizer = Tokenizer.train(["wx"], "bpe", settings, vocabulary)
    torch.manual_seed(SEED)
    model = build_model(PRESETS[preset], len(tokenizer), len(tokenizer))
    return Translator.from_model(model.eval(), Tokenizers(tokenizer, tokenizer))


def text(tokens: int) -> str:
    """A text of so many tokens with END, in words of two tokens."""
    pieces = [f"x{place // 2}" if place % 2 else f" w{place // 2}" for place in range(tokens - 1)]
    return "".join(pieces).strip()


def seconds(run: Callable[[], object]) -> float:
    """Processor time."""
    started = time.process_time()
    run()
    return time.process_time() - started


def megabytes() -> float:
    """The largest resident size of this process until now."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def inspection(preset: str, vocabulary: int, tokens: int) -> Row:
    """Time, memory and size of an inspection; for a process of its own."""
    translator = random_translator(preset, vocabulary)
    exact = SearchSettings(min_length=tokens - 1, max_length=tokens - 1)
    inspect(translator, text(SHORT), max_length=SHORT).to_html()
    before, started = megabytes(), time.process_time()
    found = inspect(translator, text(tokens), exact)
    inspected = time.process_time() - started
    assert len(found.source) == len(found.target) == tokens
    html = found.to_html()
    memory = megabytes()
    return {
        "tokens": tokens,
        "translation_seconds": seconds(lambda: translator.n_best([text(tokens)], exact)),
        "inspection_seconds": inspected,
        "memory_before_mb": before,
        "memory_mb": memory,
        "html_mb": len(html.encode()) / 1e6,
    }


def attribution(translator: Translator, tokens: int) -> Row:
    """Times of integrated gradients, alone and with those of target tokens, and of value zeroing."""
    pair = text(tokens), text(tokens)
    gradients = partial(attribute, translator, *pair, methods=["integrated-gradients"])
    return {
        "tokens": tokens,
        "source_seconds": seconds(gradients),
        "both_seconds": seconds(partial(gradients, with_prefix=True)),
        "value_zeroing_seconds": seconds(lambda: value_zeroing(translator, *pair)),
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", choices=list(PRESETS), default="base")
    parser.add_argument("--vocabulary", type=int, default=37000)
    parser.add_argument("--tokens", type=int, nargs="+", default=[30, 200, 512])
    parser.add_argument("--attributed", type=int, nargs="+", default=[20, 40])
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = passport(asked("inspection_costs.py", given)) | {"seed": SEED}
    with get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        one = partial(inspection, given.preset, given.vocabulary)
        rows = pool.map(one, given.tokens, chunksize=1)
    translator = random_translator(given.preset, given.vocabulary)
    attribution(translator, SHORT)
    attributions = [attribution(translator, tokens) for tokens in given.attributed]
    print(keep(found | {"rows": rows, "attributions": attributions}, given.results, "inspection-costs"))


if __name__ == "__main__":
    main()
