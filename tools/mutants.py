"""Deliberate bugs, one at a time: do the tests catch them? `python tools/mutants.py [--only N …]`, or `--list`.

Each mutant replaces a text that occurs once in a file, in a copy of the tree, and runs the tests that should fail. Prints
caught or survived for each, and a total. Exits with 1 if a mutant survived, or is stale: its text is not there exactly
once, or its tests fail without it. Not part of `make test`: a run takes some 20 minutes.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SKIPPED = (".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "runs")
SECONDS = 900
"""A test that takes longer hangs: the mutant is caught."""


@dataclass(frozen=True)
class Mutant:
    """A bug: a text of a file of src/dragoman, what takes its place, and the names of the tests that should fail."""

    bug: str
    file: str
    text: str
    replacement: str
    tests: str

    @property
    def test_files(self) -> list[str]:
        """Paths from the root of the tree."""
        return [f"tests/test_{name}.py" for name in self.tests.split()]


MUTANTS = [
    # --- model ---
    Mutant(
        "scores divided by d_k",
        "model/attention.py",
        "/ math.sqrt(query.size(-1))",
        "/ query.size(-1)",
        "attention",
    ),
    Mutant(
        "the mask inverted",
        "model/attention.py",
        "scores.masked_fill(~mask, -torch.inf)",
        "scores.masked_fill(mask, -torch.inf)",
        "attention",
    ),
    Mutant(
        "a query without keys gets NaN",
        "model/attention.py",
        "weights.masked_fill(~mask, 0.0)",
        "weights",
        "attention",
    ),
    Mutant(
        "causality off by one",
        "model/attention.py",
        ".tril(keys - queries)",
        ".tril(keys - queries + 1)",
        "attention",
    ),
    Mutant(
        "PyTorch's attention without mask",
        "model/attention.py",
        "attn_mask=mask",
        "attn_mask=None",
        "attention",
    ),
    Mutant(
        "PyTorch's attention without causality",
        "model/attention.py",
        "is_causal=causal",
        "is_causal=False",
        "attention",
    ),
    Mutant(
        "attention dropout in evaluation",
        "model/attention.py",
        "self.dropout if self.training else 0.0",
        "self.dropout",
        "attention",
    ),
    Mutant(
        "keys and values of the wrong rows",
        "model/attention.py",
        "self.query_key_value.rows(memory, self.widths[0], None)",
        "self.query_key_value.rows(memory, 0, self.widths[1] + self.widths[2])",
        "attention",
    ),
    Mutant("Xavier's gain of 1", "model/attention.py", "gain=2**-0.5", "gain=1.0", "attention"),
    Mutant(
        "recorded weights without the causal mask",
        "model/attention.py",
        "query.device) if causal else mask",
        "query.device) if False else mask",
        "attention",
    ),
    Mutant(
        "pre-norm and post-norm exchanged",
        "model/transformer.py",
        "return total if self.pre else self.norm(total)",
        "return self.norm(total) if self.pre else total",
        "transformer",
    ),
    Mutant(
        "the residual dropped, too",
        "model/transformer.py",
        "x + self.dropout(y)",
        "self.dropout(x + y)",
        "transformer",
    ),
    Mutant("no dropout on sub-layers", "model/transformer.py", "x + self.dropout(y)", "x + y", "transformer"),
    Mutant(
        "no dropout on embeddings",
        "model/transformer.py",
        "self.dropout(embedding(ids) * scale + positions)",
        "embedding(ids) * scale + positions",
        "transformer",
    ),
    Mutant(
        "positions not dropped",
        "model/transformer.py",
        "self.dropout(embedding(ids) * scale + positions)",
        "self.dropout(embedding(ids) * scale) + positions",
        "transformer",
    ),
    Mutant(
        "embeddings times d_model",
        "model/transformer.py",
        "math.sqrt(self.settings.d_model) if",
        "self.settings.d_model if",
        "transformer",
    ),
    Mutant(
        "embeddings always scaled",
        "model/transformer.py",
        "if self.settings.scale_embeddings else 1.0",
        "if True else 1.0",
        "transformer",
    ),
    Mutant(
        "target and output not tied",
        "model/transformer.py",
        'tied = settings.tied != "none"',
        'tied = settings.tied == "all"',
        "transformer",
    ),
    Mutant(
        "embeddings start with 1",
        "model/transformer.py",
        "std=self.settings.d_model**-0.5",
        "std=1.0",
        "transformer",
    ),
    Mutant(
        "biases start with 1",
        "model/transformer.py",
        "nn.init.zeros_(linear.bias)",
        "nn.init.ones_(linear.bias)",
        "transformer",
    ),
    Mutant("END always attended to", "model/transformer.py", "mask & (source != END)", "mask", "transformer"),
    Mutant(
        "padding attended to by the decoder",
        "model/transformer.py",
        "state.memory[layer], state.mask)",
        "state.memory[layer], None)",
        "laws",
    ),
    Mutant(
        "the sub-layers' norm has another ε",
        "model/transformer.py",
        "self.norm = nn.LayerNorm(settings.d_model, settings.norm_epsilon)",
        "self.norm = nn.LayerNorm(settings.d_model)",
        "transformer",
    ),
    Mutant(
        "pre-norm without the encoder's last norm",
        "model/transformer.py",
        "x = self.encoder_norm(x)",
        "pass",
        "transformer",
    ),
    Mutant(
        "sine and cosine exchanged",
        "model/sinusoids.py",
        "np.stack([sine, cosine], -1)",
        "np.stack([cosine, sine], -1)",
        "positions",
    ),
    Mutant(
        "wavelengths squared",
        "model/sinusoids.py",
        "-math.log(10000) * 2 / d_model",
        "-math.log(10000) / d_model",
        "positions",
    ),
    Mutant(
        "positions counted from 0 whatever is set",
        "model/positions.py",
        "start += self.first",
        "start += 0",
        "positions",
    ),
    Mutant(
        "every step of decoding at position 0",
        "model/cache.py",
        "table(self.length, tokens)",
        "table(0, tokens)",
        "laws",
    ),
    Mutant(
        "hypotheses keep their place when reordered",
        "model/cache.py",
        ".index_select(0, rows).view_as(self.ancestry)",
        ".view_as(self.ancestry)",
        "laws",
    ),
    Mutant(
        "a cache forgets when it grows",
        "model/cache.py",
        "new[:, :, :positions] = cache",
        "new[:, :, :positions] = 0",
        "laws",
    ),
    Mutant(
        "hypotheses attend to each other",
        "model/cache.py",
        "mask = after.ancestry[:, None] &",
        "mask = torch.ones_like(after.ancestry[:, None]) &",
        "laws",
    ),
    Mutant(
        "smoothing shared out among V - 1",
        "model/loss.py",
        "/ logits.size(1)",
        "/ (logits.size(1) - 1)",
        "loss",
    ),
    Mutant(
        "the gold token in full and smoothed", "model/loss.py", "(1 - self.smoothing) * nll", "nll", "loss"
    ),
    Mutant(
        "an average of n weights divided by n + 1",
        "model/weights.py",
        "tensor / len(paths)",
        "tensor / (len(paths) + 1)",
        "checkpoint train",
    ),
    # --- text ---
    Mutant(
        "no cap on target tokens",
        "text/batches.py",
        "rows * target[here] <= self.caps[1]",
        "rows > 0",
        "batches",
    ),
    Mutant("batches in the order of length", "text/batches.py", "random.shuffle(batches)", "pass", "batches"),
    Mutant(
        "the same order in every epoch",
        "text/batches.py",
        "np.random.default_rng([self.seed, epoch])",
        "np.random.default_rng([self.seed, 0])",
        "batches",
    ),
    Mutant(
        "the decoder begins with END",
        "text/batches.py",
        "before[:, 0] = START",
        "before[:, 0] = END",
        "batches",
    ),
    Mutant(
        "rows padded with END", "text/batches.py", "len(end)), PAD, dtype", "len(end)), END, dtype", "batches"
    ),
    Mutant(
        "a batch's halves overlap",
        "text/batches.py",
        "self.pairs[first::2]) for first in (0, 1)",
        "self.pairs[first::2]) for first in (0, 0)",
        "batches train",
    ),
    Mutant(
        "held-out sentences are trained on",
        "text/corpus.py",
        "hashed not in self.held_out and hashed not in self.drop",
        "hashed not in self.drop",
        "corpus",
    ),
    Mutant(
        "sentences of other data are trained on",
        "text/corpus.py",
        "hashed not in self.held_out and hashed not in self.drop",
        "hashed not in self.held_out",
        "corpus",
    ),
    Mutant(
        "copies are never dropped",
        "text/corpus.py",
        "(self.drop_copies and source == target)",
        "False",
        "corpus",
    ),
    Mutant("text not normalised by default", "text/settings.py", '= "nmt_nfkc"', '= "identity"', "tokenizer"),
    Mutant(
        "normalisation ignored",
        "text/tokenizer.py",
        "normalization_rule_name=settings.normalization",
        'normalization_rule_name="nmt_nfkc"',
        "tokenizer",
    ),
    Mutant(
        "decoding goes on after END",
        "text/tokenizer.py",
        "ids[: ids.index(END)] if END in ids else ids",
        "ids",
        "tokenizer",
    ),
    Mutant("doctor sees the other language late", "text/doctor.py", "CLEAR = 0.5", "CLEAR = 1.5", "doctor"),
    Mutant("doctor sees the other language early", "text/doctor.py", "CLEAR = 0.5", "CLEAR = 0.1", "doctor"),
    # --- search ---
    Mutant(
        "the length penalty's 5 is a 6",
        "search/hypothesis.py",
        "((5 + length) / 6)",
        "((6 + length) / 6)",
        "search",
    ),
    Mutant(
        "greedy search ranks without END",
        "search/hypothesis.py",
        "normalizer(len(ids) + 1.0, settings)",
        "normalizer(len(ids) + 0.0, settings)",
        "search",
    ),
    Mutant(
        "one more token than allowed",
        "search/hypothesis.py",
        "source_tokens - 1 + settings.max_extra_tokens",
        "source_tokens + settings.max_extra_tokens",
        "search",
    ),
    Mutant(
        "a beam ranks without END",
        "search/beam.py",
        "ending / normalizer(length, settings)",
        "ending / normalizer(length - 1, settings)",
        "search",
    ),
    Mutant("ties to the larger token", "search/top_k.py", "<< 32) - place", "<< 32) + place", "likeliest"),
    Mutant(
        "a beam goes on when W have ended",
        "search/beam.py",
        "(beam.finished_score[:, -1] > -torch.inf) |",
        "",
        "search",
    ),
    Mutant(
        "a beam stops when the first is certain",
        "search/beam.py",
        "beam.finished_score[:, settings.n_best - 1]",
        "beam.finished_score[:, 0]",
        "search",
    ),
    Mutant(
        "a beam stops one length early",
        "search/beam.py",
        "normalizer(longest + 1, settings)",
        "normalizer(longest, settings)",
        "search",
    ),
    Mutant(
        "groups are drawn to each other",
        "search/beam.py",
        "own - settings.diversity * used",
        "own + settings.diversity * used",
        "search",
    ),
    Mutant(
        "a hypothesis of two groups counts twice",
        "search/beam.py",
        "ends = ends & ~again",
        "ends = ends",
        "search trace",
    ),
    Mutant("coverage above 1 is rewarded", "search/beam.py", ".clamp(1e-9, 1)", ".clamp(1e-9, 2)", "search"),
    Mutant(
        "coverage of the first layer alone",
        "search/beam.py",
        ".mean(1) for (weights,) in looks]).mean(0)",
        ".mean(1) for (weights,) in looks])[0]",
        "search",
    ),
    Mutant(
        "padding may be written",
        "search/beam.py",
        "logits[:, PAD] = logits[:, START] = -torch.inf",
        "logits[:, START] = -torch.inf",
        "search",
    ),
    Mutant(
        "top-k lets one more in",
        "search/sampling.py",
        "left[..., settings.top_k :] = False",
        "left[..., settings.top_k + 1 :] = False",
        "sampling",
    ),
    Mutant(
        "top-p leaves out the one that reaches it",
        "search/sampling.py",
        "likeliest.cumsum(-1) - likeliest < settings.top_p",
        "likeliest.cumsum(-1) < settings.top_p",
        "sampling",
    ),
    Mutant(
        "temperature inverted",
        "search/sampling.py",
        "log_p / settings.temperature",
        "log_p * settings.temperature",
        "sampling",
    ),
    Mutant(
        "the seed of draws ignored",
        "search/sampling.py",
        "{seed} {number} {ids}",
        "{number} {ids}",
        "sampling",
    ),
    Mutant(
        "min_length off by one",
        "search/constraints.py",
        "written < rules.min_length",
        "written < rules.min_length - 1",
        "constraints",
    ),
    Mutant(
        "a banned phrase ends where it begins",
        "search/constraints.py",
        "allowed[..., sequence[-1]] &= ~begun.all(-1)",
        "allowed[..., sequence[-1]] &= ~begun.any(-1)",
        "constraints",
    ),
    Mutant(
        "n-grams may repeat side by side",
        "search/constraints.py",
        "0 < rules.no_repeat_ngram <= written",
        "0 < rules.no_repeat_ngram < written",
        "constraints",
    ),
    Mutant(
        "END before all forced words",
        "search/grid_beam.py",
        "(token != END or met == wanted)",
        "True",
        "constraints",
    ),
    Mutant(
        "an ensemble's mean of logarithms",
        "search/ensemble.py",
        "torch.stack(log_p).logsumexp(0) - math.log(len(log_p))",
        "torch.stack(log_p).mean(0)",
        "ensemble",
    ),
    Mutant(
        "forced decoding counts padding",
        "search/scoring.py",
        ".masked_fill(target == PAD, 0.0)",
        "",
        "scoring translator",
    ),
    # --- training ---
    Mutant(
        "the warm-up never ends",
        "training/schedule.py",
        "step * warmup_steps**-1.5",
        "step * warmup_steps**-0.5",
        "schedule",
    ),
    Mutant(
        "no warm-up",
        "training/schedule.py",
        "min(step**-0.5, step * warmup_steps**-1.5)",
        "step**-0.5",
        "schedule",
    ),
    Mutant("Adam's usual β", "training/loop.py", "betas=(0.9, 0.98)", "betas=(0.9, 0.999)", "train"),
    Mutant("Adam's usual ε", "training/loop.py", "eps=1e-9", "eps=1e-8", "train"),
    Mutant("no gradient clipping", "training/loop.py", "if clip_norm:", "if False:", "train"),
    Mutant(
        "every update draws the same masks",
        "training/objective.py",
        "SeedSequence([seed, step, rank])",
        "SeedSequence([seed, 0, rank])",
        "train",
    ),
    Mutant(
        "every process draws the same masks",
        "training/objective.py",
        "SeedSequence([seed, step, rank])",
        "SeedSequence([seed, step, 0])",
        "train",
    ),
    Mutant(
        "the loss is a sum",
        "training/objective.py",
        "(loss * (world.size / tokens)).backward()",
        "(loss * world.size).backward()",
        "train",
    ),
    Mutant(
        "validation without its last batch",
        "training/objective.py",
        "for batch in batches:\n",
        "for batch in list(batches)[:-1]:\n",
        "train",
    ),
    Mutant("validation with dropout", "training/objective.py", "    objective.eval()\n", "", "train"),
    Mutant(
        "gradients add up from update to update", "training/loop.py", "optimizer.zero_grad()", "pass", "train"
    ),
    Mutant(
        "patience of one more",
        "training/loop.py",
        "0 < settings.patience <= validations",
        "0 < settings.patience < validations",
        "train",
    ),
    Mutant(
        "the worst BLEU is the best",
        "training/loop.py",
        'return scores["bleu"] > best["bleu"]',
        'return scores["bleu"] < best["bleu"]',
        "train",
    ),
    Mutant(
        "a resumed run begins with a new optimizer",
        "model/weights.py",
        "optimizer.state[weight][key] = ",
        "_ = ",
        "train",
    ),
    Mutant(
        "a resumed run begins its epoch again",
        "training/loop.py",
        "job.batches.after(place.epoch, place.batches_done)",
        "job.batches.after(place.epoch, 0)",
        "train",
    ),
    Mutant(
        "irregular checkpoints are averaged",
        "training/checkpoint.py",
        "if step_of(path) % every == 0",
        "if True",
        "train checkpoint",
    ),
    # --- native ---
    Mutant(
        "few passes: masked keys are attended to",
        "native/short_attention.py",
        "torch.where(mask, 0.0, -1e30)",
        "torch.where(mask, 0.0, 0.0)",
        "attention",
    ),
    Mutant(
        "few passes: a query without keys gets a mean",
        "native/short_attention.py",
        "heads = heads.masked_fill(~allowed, 0.0)",
        "pass",
        "attention",
    ),
    Mutant(
        "few passes: not scaled",
        "native/short_attention.py",
        "query / math.sqrt(query.size(-1))",
        "query",
        "attention",
    ),
    Mutant(
        "few passes: not causal",
        "native/short_attention.py",
        "if causal and query.size(2) > 1:",
        "if False:",
        "attention",
    ),
    Mutant(
        "survivors of dropout are not scaled",
        "native/dropout.py",
        "2**16 / (2**16 - dropped)",
        "1.0",
        "dropout",
    ),
    Mutant("int8 by 128 steps", "native/packed_linear.py", ".div_(127)", ".div_(128)", "linear"),
    Mutant(
        "int8 without the rows' own scales",
        "native/packed_linear.py",
        ".float().mul_(own)",
        ".float()",
        "linear",
    ),
    Mutant(
        "fused loss: gradient without smoothing",
        "native/chunked_cross_entropy.py",
        "p.sub_(spread)",
        "p",
        "loss",
    ),
    Mutant(
        "C++ search: ε of 1e-5 whatever is set",
        "native/transformer.h",
        "std::sqrt(squares / width + epsilon)",
        "std::sqrt(squares / width + 1e-5f)",
        "native",
    ),
    Mutant(
        "C++ search: one more token than allowed",
        "native/beam_search.cpp",
        "sentence.step >= job.longest[sentence.number]",
        "sentence.step > job.longest[sentence.number]",
        "native",
    ),
    Mutant(
        "C++ search: ranks without END",
        "native/beam_search.cpp",
        "one.total / job.normalizer[length]",
        "one.total / job.normalizer[length - 1]",
        "native",
    ),
    Mutant(
        "C++ search: bans only single tokens",
        "native/beam_search.cpp",
        "logits.forbid(*last)",
        "if (first == last) logits.forbid(*last)",
        "native",
    ),
    Mutant(
        "C++ search: source END attended to",
        "native/transformer.h",
        "end - first - !sizes.source_end, 0",
        "end - first, 0",
        "native",
    ),
    # --- translation ---
    Mutant(
        "a batch's translations in reverse",
        "translation/torch_backend.py",
        "zip(batch, best, strict=True)",
        "zip(batch[::-1], best, strict=True)",
        "contract",
    ),
    # --- evaluation ---
    Mutant("half the p-value", "evaluation/compare.py", "ours.p_value if", "ours.p_value / 2 if", "metrics"),
    Mutant(
        "the baseline's score is the system's",
        "evaluation/compare.py",
        "for result in (ours, theirs)",
        "for result in (theirs, ours)",
        "metrics",
    ),
    Mutant(
        "BLEU with references and hypotheses exchanged",
        "evaluation/metrics.py",
        "metric.corpus_score(list(hypotheses), [list(references)])\n    precisions",
        "metric.corpus_score(list(references), [list(hypotheses)])\n    precisions",
        "metrics",
    ),
    # --- interop ---
    Mutant(
        "queries, keys and values in another order",
        "interop/weights.py",
        "for their in theirs])",
        "for their in theirs[::-1]])",
        "huggingface",
    ),
    Mutant(
        "Marian's features in our order",
        "interop/huggingface.py",
        'model = with_features(model, torch.argsort(halves_order(settings.d_model)), "sinusoidal")',
        "pass",
        "huggingface",
    ),
    Mutant(
        "fairseq counts positions from 0",
        "interop/fairseq.py",
        "FIRST = PADDING + 1",
        "FIRST = PADDING - 1",
        "fairseq",
    ),
    # --- system ---
    Mutant(
        "a changed file is accepted",
        "system/files.py",
        "if file_hash(path) != expected:",
        "if False:",
        "files",
    ),
    Mutant(
        "a file is written in place",
        "system/files.py",
        'new = path.with_name(f".{secrets.token_hex(8)}-{path.name}")',
        "new = path",
        "files",
    ),
    Mutant(
        "an unknown key is accepted",
        "system/toml.py",
        "        if key not in hints:\n            names",
        "        if key not in hints:\n            continue\n            names",
        "config recipe",
    ),
]


def copy_tree(folder: Path) -> Path:
    """A copy of the tree, for one run."""
    tree = folder / "tree"
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*SKIPPED))
    return tree


def tests_pass(tree: Path, files: list[str]) -> bool:
    """Run tests of the copy in a process of their own, up to the first failure."""
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "XDG_CACHE_HOME": str(tree.parent / "cache")}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *files]
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def verdict(mutant: Mutant, tree: Path, pass_without: "dict[str, bool]") -> str:
    """Whether the tests catch a mutant. The tree is as it was afterwards."""
    path = tree / "src" / "dragoman" / mutant.file
    before = path.read_text("utf-8") if path.exists() else ""
    if (count := before.count(mutant.text)) != 1:
        return f"STALE: its text occurs {count} times"
    for file in mutant.test_files:
        if file not in pass_without:
            pass_without[file] = (tree / file).exists() and tests_pass(tree, [file])
        if not pass_without[file]:
            return f"STALE: {file} fails without it"
    path.write_text(before.replace(mutant.text, mutant.replacement), "utf-8")
    try:
        return "SURVIVED" if tests_pass(tree, mutant.test_files) else "caught"
    finally:
        path.write_text(before, "utf-8")


def main() -> int:
    """Try all mutants, or those that are asked for; 1 if one is not caught."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--list", action="store_true", help="print the mutants, and check that their texts are there"
    )
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="the numbers of the mutants to try")
    asked = parser.parse_args()
    chosen = {
        number: mutant for number, mutant in enumerate(MUTANTS, 1) if not asked.only or number in asked.only
    }
    if asked.list:
        stale = 0
        for number, mutant in chosen.items():
            path = ROOT / "src" / "dragoman" / mutant.file
            found = path.exists() and path.read_text("utf-8").count(mutant.text) == 1
            stale += not found
            print(f"{number:>3} {mutant.file}: {mutant.bug} ({mutant.tests}){'' if found else '   STALE'}")
        return int(stale > 0)
    verdicts: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        tree, pass_without = copy_tree(Path(folder)), dict[str, bool]()
        for number, mutant in chosen.items():
            started = time.monotonic()
            verdicts.append(verdict(mutant, tree, pass_without))
            seconds = time.monotonic() - started
            print(f"{number:>3} {mutant.file}: {mutant.bug}: {verdicts[-1]} ({seconds:.0f} s)", flush=True)
    caught = verdicts.count("caught")
    print(f"{caught} of {len(verdicts)} caught ({100 * caught / max(1, len(verdicts)):.0f} %)")
    return int(caught < len(verdicts))


if __name__ == "__main__":
    sys.exit(main())
