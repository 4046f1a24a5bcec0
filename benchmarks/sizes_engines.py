"""The systems that sizes.py compares, each in a process and a Python of its own.

    python benchmarks/sizes_engines.py convert marian FOLDER      # writes Marian's int8 file
    python benchmarks/sizes_engines.py convert openvino FOLDER    # writes OpenVINO's files
    python benchmarks/sizes_engines.py serve SYSTEM               # requests and answers, a line of JSON each
    python benchmarks/sizes_engines.py versions SYSTEM            # of its packages

Marian: `pip install pymarian` (1.12.42, Linux on x86, Python 3.8 to 3.12). OpenVINO: `pip install torch`,
then `pip install "optimum-intel[openvino]" "transformers==4.57.6"`, since optimum-intel 2.2.0 exports no
Marian of newer transformers, and `pip uninstall torchvision` if that is built for another torch. This file
needs nothing of Dragoman to serve the two, so each may have its own virtual environment.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

Ids = list[list[int]]
Engine = Callable[[Ids], Ids]
PAD, END = 0, 3
BATCH = 32
PACKAGES = {
    "dragoman": [],
    "marian": ["pymarian"],
    "openvino": ["openvino", "optimum-intel", "nncf", "transformers"],
}
MARIAN_FILES = {"float32": "model.npz", "int8": "model.int8.bin"}
MARIAN_INT8 = "packed8avx512"  # a tenth to a quarter faster than "intgemm8", which needs no AVX-512


def dragoman_engine(folder: Path, precision: str, beam: int, length: int | None, threads: int) -> Engine:
    """Ours."""
    import decode

    return decode.dragoman_engine(folder, precision, beam, length, threads)


def marian_engine(folder: Path, precision: str, beam: int, length: int | None, threads: int) -> Engine:
    """pymarian, with a folder of marian_model.py: batches of 32, sorted by length."""
    from pymarian import Translator

    numbers = json.loads((folder / "vocab.yml").read_text("utf-8"))
    pieces = sorted(numbers, key=numbers.get)
    options = [
        f"--models {folder / MARIAN_FILES[precision]} --vocabs {folder / 'vocab.yml'} {folder / 'vocab.yml'}"
    ]
    options += [f"--cpu-threads {threads} --data-threads 1 --workspace 128 --quiet --quiet-translation"]
    options += [f"--beam-size {beam} --normalize 1 --allow-unk"]
    options += [f"--mini-batch {BATCH} --maxi-batch 1000 --maxi-batch-sort src"]
    options += ["--skip-cost"] * (beam == 1)  # a greedy search needs no probabilities
    options += ["--max-length-factor 1"] * (length is not None)
    engine = Translator(" ".join(options))

    def translate(sources: Ids) -> Ids:
        lines = engine.translate([" ".join(pieces[token] for token in ids[:-1]) for ids in sources])
        return [[numbers[piece] for piece in line.split()] for line in lines]

    return translate


def openvino_engine(folder: Path, precision: str, beam: int, length: int | None, threads: int) -> Engine:
    """optimum-intel's `generate` over OpenVINO: batches of 32, sorted by length.

    `early_stopping` ends a sentence when W translations have ended in a beam of W, about where ours does. In
    int8 the weights are. OpenVINO chooses the precision of the rest: bfloat16 where the processor has it.
    """
    import torch
    from optimum.intel import OVModelForSeq2SeqLM

    torch.set_num_threads(threads)
    config = {"INFERENCE_NUM_THREADS": str(threads), "PERFORMANCE_HINT": "LATENCY"}
    if precision == "float32":
        config["INFERENCE_PRECISION_HINT"] = "f32"
    model = OVModelForSeq2SeqLM.from_pretrained(folder / f"openvino-{precision}", ov_config=config)
    exact = {"max_new_tokens": 80, "early_stopping": beam > 1}
    if length is not None:
        exact |= {"min_new_tokens": length, "max_new_tokens": length + 1, "forced_eos_token_id": END}

    def translate(sources: Ids) -> Ids:
        found: dict[int, list[int]] = {}
        order = sorted(range(len(sources)), key=lambda number: -len(sources[number]))
        for first in range(0, len(order), BATCH):
            batch = order[first : first + BATCH]
            longest = len(sources[batch[0]])
            rows = torch.tensor([sources[n] + [PAD] * (longest - len(sources[n])) for n in batch])
            written = model.generate(
                rows, attention_mask=(rows != PAD).long(), num_beams=beam, do_sample=False, **exact
            )
            for number, ids in zip(batch, written[:, 1:].tolist(), strict=True):
                found[number] = ids[: ids.index(END)] if END in ids else ids
        return [found[number] for number in range(len(sources))]

    return translate


ENGINES = {"dragoman": dragoman_engine, "marian": marian_engine, "openvino": openvino_engine}


def convert_marian(folder: Path) -> None:
    """Write Marian's int8 file beside its model."""
    import _pymarian

    paths = [str(folder / MARIAN_FILES[precision]) for precision in ("float32", "int8")]
    _pymarian.main(["convert", "--from", paths[0], "--to", paths[1], "--gemm-type", MARIAN_INT8])


def convert_openvino(folder: Path) -> None:
    """Write OpenVINO's files of the Hugging Face folder: in float32, and with weights in int8."""
    from optimum.intel import OVModelForSeq2SeqLM, OVWeightQuantizationConfig

    more = {
        "float32": {"load_in_8bit": False},
        "int8": {"quantization_config": OVWeightQuantizationConfig(bits=8)},
    }
    for precision, options in more.items():
        model = OVModelForSeq2SeqLM.from_pretrained(
            folder / "huggingface", export=True, compile=False, **options
        )
        model.save_pretrained(folder / f"openvino-{precision}")


def answer(engine: Engine, sources: Ids, one_by_one: bool) -> dict[str, object]:
    """What is written, with the seconds that it took, or the milliseconds of each sentence."""
    if not one_by_one:
        started = time.perf_counter()
        written = engine(sources)
        return {"seconds": time.perf_counter() - started, "written": written}
    times, found = [], []
    for ids in sources:
        started = time.perf_counter()
        found += engine([ids])
        times.append(1000 * (time.perf_counter() - started))
    return {"milliseconds": times, "written": found}


def serve(system: str) -> None:
    """Answer requests until the input ends. Engines are kept while the folder stays the same."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # engines print there
    engines: dict[str, Engine] = {}
    folder = None
    for line in sys.stdin:
        request = json.loads(line)
        if request["folder"] != folder:
            folder = request["folder"]
            engines.clear()
        chosen = {name: request[name] for name in ("precision", "beam", "length", "threads")}
        key = json.dumps(chosen)
        if key not in engines:
            engines[key] = ENGINES[system](Path(folder), **chosen)
            engines[key](request["sources"][:BATCH])  # kernels are made for new shapes
        found = answer(engines[key], request["sources"], request["one_by_one"])
        answers.write(f"{json.dumps(found)}\n")


def main(action: str, system: str, *folder: str) -> None:
    """Convert, serve, or print versions."""
    if action == "serve":
        serve(system)
    elif action == "versions":
        print(json.dumps({package: version(package) for package in PACKAGES[system]}))
    else:
        {"marian": convert_marian, "openvino": convert_openvino}[system](Path(*folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
