"""Decoding speed on a CPU: ours beside CTranslate2 and Hugging Face, the same weights, beams and sentences,
in turn, in one run.

    pip install ctranslate2 transformers
    python benchmarks/decode.py RUN --source test.en [--rounds 3]          # a trained model
    python benchmarks/decode.py RUN --preset base --source test.en   # random weights, 16 tokens out for 16 in

Each measurement is a process of its own: sentences a second in batches with all processor threads, and
milliseconds a sentence one by one with a single thread, once they have been translated before. Each system
runs as it is fastest here: ours with the program's own batches and a worker a thread, CTranslate2 with a
worker a thread and batches of 32, Hugging Face with all threads. Prints medians, ratios, and the share of
translations that are ours in float32; writes benchmarks/results/decode-NAME-DATE.json.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from passport import asked, keep, passport
from peers import marian_config
from rich.console import Console
from rich.table import Table

from dragoman.interop.huggingface import HALVES, embedding_tensors, halves_order, name_map, permute_features
from dragoman.interop.weights import export_layers
from dragoman.model.build import build_model
from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.model.symbols import END, PAD
from dragoman.model.transformer import Transformer
from dragoman.search.hypothesis import Hypothesis
from dragoman.search.settings import SearchSettings
from dragoman.system.machine import configure_allocator
from dragoman.text.batches import pad
from dragoman.text.lines import read_lines
from dragoman.translation.model_folder import Tokenizers, model_folder, save_model
from dragoman.translation.token_ids import constraint_ids, encode_sentences
from dragoman.translation.translator import Translator

SYSTEMS = {
    "dragoman": ("float32", "bfloat16", "int8"),
    "ctranslate2": ("float32", "int8"),
    "transformers": ("float32", "bfloat16", "int8"),
}
PEERS = ("ctranslate2", "transformers")
LENGTH = 16  # tokens of a sentence and its translation, where weights are random
Ids = list[list[int]]
Engine = Callable[[Ids], Ids]


def dragoman_engine(
    run: Path, precision: str, beam: int, length: int | None, threads: int, shortlist: Path | None = None
) -> Engine:
    """Ours: token ids to token ids, by the program's own search and batches."""
    configure_allocator()
    translator = Translator.load(run, device="cpu", precision=precision, workers=threads, shortlist=shortlist)
    search = SearchSettings(beam_size=beam, length_power=1.0)
    if length is not None:
        search = replace(search, min_length=length, max_extra_tokens=0)
    return lambda sources: [found[0].ids for found in search_ids(translator, sources, search)]


def search_ids(translator: Translator, sources: Ids, search: SearchSettings) -> list[list[Hypothesis]]:
    """The hypotheses of sources that are ids already, by the program's own search."""
    constraints = constraint_ids(search, translator.tokenizers.target)
    return translator.backend(search, len(sources)).search(sources, search, constraints)


def ctranslate2_engine(run: Path, precision: str, beam: int, length: int | None, threads: int) -> Engine:
    """CTranslate2, with the weights of the run."""
    import ctranslate2

    tokens = Tokenizers.load(model_folder(run))
    pieces = tokens.source.pieces(range(len(tokens.source)))
    number = {piece: place for place, piece in enumerate(tokens.target.pieces(range(len(tokens.target))))}
    engine = ctranslate2.Translator(
        str(run / f"ctranslate2-{precision}"), compute_type=precision, inter_threads=threads, intra_threads=1
    )
    exact = {} if length is None else {"min_decoding_length": length, "max_decoding_length": length}

    def translate(sources: Ids) -> Ids:
        rows = [[pieces[token] for token in ids[:-1]] for ids in sources]
        found = engine.translate_batch(rows, beam_size=beam, length_penalty=1, max_batch_size=32, **exact)
        return [[number[piece] for piece in one.hypotheses[0]] for one in found]

    return translate


def transformers_engine(run: Path, precision: str, beam: int, length: int | None, threads: int) -> Engine:  # noqa: ARG001
    """Hugging Face's Marian, with the weights of the run; in int8 PyTorch quantizes its linear layers
    dynamically.
    """
    model = marian(run)
    if precision == "int8":
        model = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    else:
        model = model.to(getattr(torch, precision))
    exact = {"max_new_tokens": 80}
    if length is not None:
        exact = {"min_new_tokens": length, "max_new_tokens": length + 1, "forced_eos_token_id": END}

    def translate(sources: Ids) -> Ids:
        found: dict[int, list[int]] = {}
        order = sorted(range(len(sources)), key=lambda number: -len(sources[number]))
        for first in range(0, len(order), 32):
            batch = order[first : first + 32]
            rows = pad([sources[number] for number in batch])
            with torch.no_grad():
                written = model.generate(
                    rows, attention_mask=(rows != PAD).long(), num_beams=beam, do_sample=False, **exact
                )
            for number, ids in zip(batch, written[:, 1:].tolist(), strict=True):
                found[number] = ids[: ids.index(END)] if END in ids else ids
        return [found[number] for number in range(len(sources))]

    return translate


ENGINES = {
    "dragoman": dragoman_engine,
    "ctranslate2": ctranslate2_engine,
    "transformers": transformers_engine,
}


def marian(run: Path) -> torch.nn.Module:
    """Hugging Face's Marian with a run's weights, whose features are permuted as Marian's sinusoids are."""
    from transformers import MarianMTModel

    ours = plain(run)
    ours = permute_features(ours, halves_order(ours.settings.d_model), HALVES)
    theirs = MarianMTModel(marian_config(ours.settings, ours.output.num_embeddings, dropout=0.0)).eval()
    tensors = export_layers(ours, name_map(ours.settings)) | embedding_tensors(ours)
    missing, unexpected = theirs.load_state_dict(tensors, strict=False)
    assert not unexpected, unexpected
    tied_or_sinusoids = ("embed_tokens.weight", "embed_positions.weight", "lm_head.weight")
    assert all(name.endswith(tied_or_sinusoids) for name in missing), missing
    return theirs


def plain(run: Path) -> Transformer:
    """A run's model. Raises `ValueError` if it differs from the paper's in more than its sizes."""
    model = Translator.load(run, device="cpu").torch_backend.model
    sizes = ("d_model", "d_ff", "heads", "encoder_layers", "decoder_layers", "dropout", "attention_dropout")
    if replace(model.settings, **{name: getattr(ModelSettings(), name) for name in sizes}) != ModelSettings():
        raise ValueError(
            "--systems transformers is for models that differ from the paper's in their sizes alone."
        )
    return model


def prepare_peers(run: Path, peers: Path) -> None:
    """Write the weights in CTranslate2's format into a folder, beside the model."""
    from dragoman.interop.ctranslate2 import write

    if run != peers:
        shutil.copytree(model_folder(run), peers / "model")
    translator = Translator.load(run, device="cpu")
    for precision in SYSTEMS["ctranslate2"]:
        folder = peers / f"ctranslate2-{precision}"
        folder.mkdir()
        write(translator.torch_backend.model, translator.tokenizers, folder, precision)


def random_run(preset: str, tokenizer_of: Path, out: Path) -> None:
    """A model of random weights in its folder, with the vocabulary of another."""
    torch.manual_seed(1)
    tokenizers = Tokenizers.load(model_folder(tokenizer_of))
    settings = PRESETS[preset]
    save_model(
        out / "model",
        build_model(settings, len(tokenizers.source), len(tokenizers.target)),
        settings,
        tokenizers,
    )


# ---- measuring


def measure(arguments: argparse.Namespace, sources: Ids) -> dict[str, object]:
    """Sentences a second in batches, or the times of sentences one by one; and what was written."""
    threads = 1 if arguments.one_by_one else torch.get_num_threads()
    torch.set_num_threads(threads if arguments.measure == "transformers" else 1)
    run = arguments.peers if arguments.measure == "ctranslate2" else arguments.run
    make = ENGINES[arguments.measure]
    if make is dragoman_engine:
        make = partial(dragoman_engine, shortlist=arguments.shortlist)
    engine = make(run, arguments.precision, arguments.beam, arguments.length, threads)
    # Kernels are made for each new shape.
    engine(sources) if not arguments.one_by_one else [engine([ids]) for ids in sources[:20]]
    if arguments.one_by_one:
        times, written = [], []
        for ids in sources:
            started = time.perf_counter()
            written += engine([ids])
            times.append(1000 * (time.perf_counter() - started))
        return {
            "milliseconds": statistics.median(times),
            "milliseconds_p95": sorted(times)[int(0.95 * len(times))],
            "written": written,
        }
    started = time.perf_counter()
    written = engine(sources)
    seconds = time.perf_counter() - started
    tokens = sum(len(ids) + 1 for ids in written)
    return {
        "sentences_per_second": len(sources) / seconds,
        "tokens_per_second": tokens / seconds,
        "written": written,
    }


def measured_apart(kind: tuple[str, str, int, bool], arguments: argparse.Namespace) -> dict[str, object]:
    """`measure` in a process of its own."""
    system, precision, beam, one_by_one = kind
    command = [
        sys.executable,
        __file__,
        str(arguments.run),
        "--source",
        str(arguments.source),
        "--sentences",
        str(arguments.sentences),
    ]
    command += ["--measure", system, "--precision", precision, "--beam", str(beam)]
    command += ["--peers", str(arguments.peers)] + ["--one-by-one"] * one_by_one
    command += ["--length", str(arguments.length)] if arguments.length else []
    command += ["--shortlist", str(arguments.shortlist)] if arguments.shortlist else []
    return json.loads(
        subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1]
    )


def compare(arguments: argparse.Namespace) -> None:
    """All systems in turn, `rounds` times; a table and a file."""
    if "ctranslate2" in arguments.systems:
        prepare_peers(arguments.run, arguments.peers)
    kinds = [
        (system, precision, beam, one_by_one)
        for one_by_one in (False, True)
        for beam in arguments.beams
        for system in arguments.systems
        for precision in SYSTEMS[system]
        if precision in arguments.precisions
    ]
    found: dict[tuple[str, str, int, bool], list[dict[str, object]]] = {kind: [] for kind in kinds}
    for _ in range(arguments.rounds):
        for kind in kinds:
            found[kind].append(measured_apart(kind, arguments))
            print(
                *kind,
                {name: value for name, value in found[kind][-1].items() if name != "written"},
                file=sys.stderr,
                flush=True,
            )
    report(arguments, found)


def report(
    arguments: argparse.Namespace, found: dict[tuple[str, str, int, bool], list[dict[str, object]]]
) -> None:
    """Print medians, and times those of each peer in the same precision, or in float32; write all of it with
    its passport.
    """
    name = arguments.preset or arguments.run.name
    columns = (
        "how",
        "beam",
        "system",
        "precision",
        "sentences/s",
        "ms",
        "ms, 95 %",
        "× CTranslate2",
        "× transformers",
        "as ours in float32",
        "as in batches",
    )
    table, rows = Table(*columns, title=f"Decoding, {name}, medians of {arguments.rounds}"), []
    speed = {kind: statistics.median(rate(one) for one in measured) for kind, measured in found.items()}
    for (system, precision, beam, one_by_one), measured in found.items():
        here = speed[system, precision, beam, one_by_one]
        peers = [
            (peer, precision if precision in SYSTEMS[peer] else "float32", beam, one_by_one) for peer in PEERS
        ]
        ratios = {f"times_{peer[0]}": here / speed[peer] if peer in speed else None for peer in peers}
        ours = found.get(("dragoman", "float32", beam, one_by_one), measured)
        medians = {
            key: statistics.median(one[key] for one in measured)
            for key, value in measured[0].items()
            if isinstance(value, float)
        }
        same = share_alike(measured[0]["written"], ours[0]["written"])
        alone = share_alike(measured[0]["written"], found[system, precision, beam, False][0]["written"])
        row = {"system": system, "precision": precision, "beam": beam, "one_by_one": one_by_one, **medians}
        rows.append(row | ratios | {"same_as_ours_in_float32": same, "same_as_in_batches": alone})
        table.add_row(
            "one by one" if one_by_one else "batches",
            str(beam),
            system,
            precision,
            f"{here:,.0f}",
            f"{medians['milliseconds']:.1f}" if one_by_one else "",
            f"{medians['milliseconds_p95']:.1f}" if one_by_one else "",
            *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios.values()),
            f"{same:.1%}",
            f"{alone:.1%}" if one_by_one else "",
        )
    Console(width=140).print(table)
    out = keep(passport(arguments.command) | {"rows": rows}, arguments.results, f"decode-{name}")
    print(f"{out} has every measurement.")


def share_alike(some: Ids, others: Ids) -> float:
    """How many of the first ones' translations are the others' too."""
    return sum(one == other for one, other in zip(some, others, strict=False)) / len(some)


def rate(measured: dict[str, object]) -> float:
    """Sentences a second, in batches or one by one."""
    return (
        measured["sentences_per_second"]
        if "sentences_per_second" in measured
        else 1000 / measured["milliseconds"]
    )


def sentences(arguments: argparse.Namespace) -> Ids:
    """The ids of the source's first lines, or of as many stretches of it of exactly `length` tokens."""
    tokens = Tokenizers.load(model_folder(arguments.run)).source
    ids = [row for row in encode_sentences(tokens, list(read_lines(arguments.source))) if len(row) > 1]
    if arguments.length:
        text = [token for row in ids for token in row[:-1]]
        ids = [
            [*text[first : first + arguments.length], END]
            for first in range(0, len(text) - arguments.length, arguments.length)
        ]
    return ids[: arguments.sentences // 5 if arguments.one_by_one else arguments.sentences]


def main(argv: Sequence[str] | None = None) -> None:
    """Compare all, or measure one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "run", type=Path, help="a trained run: its model, or with --preset its vocabulary alone"
    )
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument(
        "--preset", choices=list(PRESETS), help="random weights of this size, exactly 16 tokens out for 16 in"
    )
    parser.add_argument("--sentences", type=int, default=1000, help="in batches; a fifth of them one by one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beams", type=int, nargs="+", default=(4, 1))
    parser.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--precisions", nargs="+", choices=SYSTEMS["dragoman"], default=SYSTEMS["dragoman"])
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    for flag, kind in (
        ("--measure", str),
        ("--precision", str),
        ("--beam", int),
        ("--length", int),
        ("--peers", Path),
        ("--shortlist", Path),
    ):
        parser.add_argument(flag, type=kind, help=argparse.SUPPRESS)
    parser.add_argument("--one-by-one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.measure is not None:
        print(json.dumps(measure(arguments, sentences(arguments))))
        return
    arguments.command = asked("decode.py", arguments, "run")
    with tempfile.TemporaryDirectory() as folder:
        arguments.peers = Path(folder)
        if arguments.preset:
            random_run(arguments.preset, arguments.run, Path(folder))
            arguments.run, arguments.length = Path(folder), LENGTH
        compare(arguments)


if __name__ == "__main__":
    main()
