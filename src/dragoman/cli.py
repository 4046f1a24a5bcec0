"""The command line: a verb a function. Nothing that needs torch is imported before the arguments are understood."""

import codecs
import dataclasses
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

import tyro

from dragoman import __version__
from dragoman.config import read_toml
from dragoman.decoding.settings import EngineSettings, SearchSettings
from dragoman.errors import DragomanError
from dragoman.evaluation.metrics import Tokenization
from dragoman.recipe import Recipe, complete

T = TypeVar("T")
CONFIG = (tyro.conf.OmitArgPrefixes,)


def say(sentence: str) -> None:
    """Tell people, on standard error: standard output is for results. Of several processes only the first one speaks."""
    if os.environ.get("RANK", "0") == "0":
        print(sentence, file=sys.stderr, flush=True)


def warn(sentence: str) -> None:
    """Tell people about a line: of several processes the one that has it."""
    print(sentence, file=sys.stderr, flush=True)


def parse(settings: type[T], verb: str, arguments: Sequence[str], default: T | None = None) -> T:
    """Settings from flags. Ends the program with help or a message where they are not understood."""
    if default is None:
        return tyro.cli(settings, prog=f"dragoman {verb}", args=arguments, config=CONFIG)
    return tyro.cli(settings, prog=f"dragoman {verb}", args=arguments, default=default, config=CONFIG)


def has_gpu() -> bool:
    """Whether torch finds a GPU."""
    import torch

    return torch.cuda.is_available()


def own_gpu() -> str | None:
    """The GPU of this process among those that torchrun has started on this machine; None leaves the choice to the model."""
    return f"cuda:{os.environ['LOCAL_RANK']}" if "LOCAL_RANK" in os.environ and has_gpu() else None


def train(arguments: Sequence[str]) -> None:
    """Train a model from two text files, or from a recipe (a TOML file)."""
    table, origin, flags = {}, "the command line", list(arguments)
    if flags and not flags[0].startswith("-"):
        origin = flags.pop(0)
        table = read_toml(Path(origin))
    recipe = complete(table, origin, lambda default: parse(Recipe, "train [RECIPE.toml]", flags, default), has_gpu, say)
    from dragoman.run import run

    run(recipe, say)
    leave()


def leave() -> None:
    """End a process that torchrun has started, now that all is written: torch's threads were seen to abort Python's own way out."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


@dataclass(frozen=True)
class Resume:
    """Go on with a run that was interrupted; all it needs is in its folder."""

    run: tyro.conf.Positional[Path]
    """The run's folder."""


def resume(arguments: Sequence[str]) -> None:
    """Go on with a run that was interrupted."""
    folder = parse(Resume, "resume", arguments).run
    from dragoman.run import recorded_recipe, run

    recipe = recorded_recipe(folder)
    if recipe is None:
        raise DragomanError(f"{folder} holds no run that was begun: there is no {folder / 'recipe.toml'}.")
    run(dataclasses.replace(recipe, out=folder), say)
    leave()


@dataclass(frozen=True)
class Translate:
    """Translate standard input to standard output, or a file to a file: line n of one is the translation of line n of the other."""

    run: tyro.conf.Positional[Path]
    """The run's folder, or the folder `model` in it."""
    ensemble: tuple[Path, ...] = ()
    """Other runs of the same vocabulary, whose probabilities are averaged with this one's."""
    search: SearchSettings = dataclasses.field(default_factory=SearchSettings)
    engine: EngineSettings = dataclasses.field(default_factory=EngineSettings)
    input: Path | None = None
    """A file to translate instead of standard input. Interrupted, the same command goes on; torchrun shares it among processes."""
    output: Path | None = None
    """Where its translations go; it appears when it is complete."""
    mbr: bool = False
    """Of the n_best drawn, write the one that agrees best with all of them: minimum Bayes risk with chrF2. Needs a temperature."""
    json: bool = False
    """Write one JSON object a line, with the n best translations and their scores."""
    trace: bool = False
    """Add to each object every hypothesis of the search: its token, parent, log-probability and why it ended. Needs --json."""
    alternatives: int = 0
    """Instead of translations, this many of the likeliest tokens after the prefix, and how each goes on best. Needs --json."""


def input_line(raw: bytes, number: int) -> str:
    """A line without line feed and a carriage return before it. What is not UTF-8 is replaced, with a warning."""
    line = raw.removesuffix(b"\n").removesuffix(b"\r")
    line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        warn(f"Line {number}, byte {error.start + 1}: not UTF-8 (0x{line[error.start]:02x}); replaced by U+FFFD.")
        return line.decode(errors="replace")


def as_json(row: object) -> str:
    """A line of JSON."""
    return json.dumps(row, ensure_ascii=False)


def translate(arguments: Sequence[str]) -> None:
    """Translate standard input to standard output, or a file to a file."""
    asked = parse(Translate, "translate", arguments)
    from dragoman.decoding.files import BLOCK, translate_file
    from dragoman.decoding.folder import identity
    from dragoman.decoding.translator import Translator, refuse_more_than_a_beam
    from dragoman.evaluation.risk import minimum_bayes_risk
    from dragoman.training.memory import keep_freed_memory

    if asked.mbr and (not asked.search.temperature or asked.search.n_best == 1):
        raise DragomanError("--mbr chooses among draws: it needs a --temperature above 0 and an --n-best above 1.")
    if asked.search.n_best > 1 and not asked.json and not asked.mbr:
        raise DragomanError(f"--n-best {asked.search.n_best} needs --json: plain output has one line for each line of input.")
    if (asked.trace or asked.alternatives) and not asked.json:
        raise DragomanError("--trace and --alternatives need --json: plain output has one translation a line.")
    if asked.alternatives < 0:
        raise DragomanError(f"alternatives is {asked.alternatives}; it must be at least 0.")
    if asked.trace or asked.alternatives:
        refuse_more_than_a_beam(asked.search, "trace" if asked.trace else "list of alternatives")
    if asked.alternatives and (asked.trace or asked.mbr or asked.search.n_best > 1):
        raise DragomanError("--alternatives takes the place of translations; it goes with no --trace, --mbr or --n-best.")
    if (asked.input is None) != (asked.output is None):
        raise DragomanError("--input and --output belong together: a file is translated to a file, and standard input to standard output.")
    runs = (asked.run, *asked.ensemble)
    keep_freed_memory()
    translator = Translator.together([Translator.load(run, own_gpu(), asked.engine) for run in runs])

    def translated(block: list[tuple[int, bytes]]) -> list[str]:
        lines = [input_line(raw, number) for number, raw in block]
        whole = not (asked.search.truncate or asked.search.split)
        for place, tokens in (translator.unusually_long(lines) if whole else {}).items():
            warn(
                f"Line {block[place][0]} has {tokens} tokens; the longest text that the model was trained on has "
                f"{translator.longest_trained}. It is translated whole, perhaps badly."
            )
        if asked.alternatives:
            others = (translator.alternatives(line, asked.alternatives, asked.search) for line in lines)
            return [
                as_json({"source": line, "alternatives": list(map(dataclasses.asdict, one))})
                for line, one in zip(lines, others, strict=True)
            ]
        found = translator.n_best(lines, asked.search)
        if asked.mbr:
            found = [[best[minimum_bayes_risk([one.text for one in best])]] for best in found]
        if not asked.json:
            return [best[0].text for best in found]
        rows = [{"source": line, "translations": list(map(dataclasses.asdict, best))} for line, best in zip(lines, found, strict=True)]
        if asked.trace:
            for row, line in zip(rows, lines, strict=True):
                row["trace"] = list(map(dataclasses.asdict, translator.trace(line, asked.search)))
        return list(map(as_json, rows))

    if asked.input is not None and asked.output is not None:
        search = {name: value for name, value in dataclasses.asdict(asked.search).items() if name != "batch_tokens"}
        written = {name: getattr(asked, name) for name in ("json", "trace", "alternatives", "mbr")}
        about = {"models": list(map(identity, runs)), "search": search, "precision": asked.engine.precision, **written}
        rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        translate_file(asked.input, asked.output, about, translated, rank, ranks)
        return
    numbered = enumerate(sys.stdin.buffer, 1)
    while block := list(islice(numbered, 1 if sys.stdin.isatty() else BLOCK)):
        for line in translated(block):
            sys.stdout.buffer.write(line.encode("utf-8", "replace") + b"\n")
        sys.stdout.buffer.flush()


@dataclass(frozen=True)
class Score:
    """How likely given translations are: line by line their log-probability in nats, the end of the sentence included."""

    run: tyro.conf.Positional[Path]
    """The run's folder, or the folder `model` in it."""
    source: Path
    """Sentences."""
    target: Path
    """Their translations, line n of one belonging to line n of the other."""
    json: bool = False
    """Write one JSON object a line, with the log-probability of each token."""


def score(arguments: Sequence[str]) -> None:
    """Say how likely given translations are, by forced decoding."""
    asked = parse(Score, "score", arguments)
    from dragoman.decoding.files import BLOCK
    from dragoman.decoding.translator import Translator
    from dragoman.text.lines import read_pairs

    translator = Translator.load(asked.run)
    pairs = read_pairs(asked.source, asked.target, strip_carriage_returns=True)
    total, tokens = 0.0, 0
    while block := list(islice(pairs, BLOCK)):
        for (source, target), found in zip(block, translator.score(block), strict=True):
            total, tokens = total + found.log_probability, tokens + len(found.tokens)
            about = {"log_probability": found.log_probability, "perplexity": found.perplexity, **dataclasses.asdict(found)}
            text = json.dumps({"source": source, "target": target, **about}, ensure_ascii=False)
            sys.stdout.buffer.write((text if asked.json else f"{found.log_probability:.4f}").encode("utf-8", "replace") + b"\n")
        sys.stdout.buffer.flush()
    say(f"{tokens:,} tokens; negative log-likelihood {-total / tokens:.4f} a token, perplexity {math.exp(-total / tokens):.2f}.")


@dataclass(frozen=True)
class Align:
    """Which words of sentences and their translations belong together, a line a pair: 0-0 1-2 …, source-target, counted from 0."""

    run: tyro.conf.Positional[Path]
    """The run's folder, or the folder `model` in it."""
    source: Path
    """Sentences."""
    target: Path
    """Their translations, line n of one belonging to line n of the other."""
    layer: int | None = None
    """The decoder layer whose attention is read, counted from 1; None is the last but one."""
    head: int | None = None
    """The head that is read, counted from 1; None is the mean of all."""


def align(arguments: Sequence[str]) -> None:
    """Say which words of given translations belong together."""
    asked = parse(Align, "align", arguments)
    from dragoman.decoding.files import BLOCK
    from dragoman.decoding.translator import Translator
    from dragoman.text.lines import read_pairs

    translator = Translator.load(asked.run)
    pairs = read_pairs(asked.source, asked.target, strip_carriage_returns=True)
    while block := list(islice(pairs, BLOCK)):
        for found in translator.align(block, asked.layer, asked.head):
            print(" ".join(f"{source}-{target}" for source, target in found))


@dataclass(frozen=True)
class Evaluate:
    """Translate a file and score the translations against references, by sacreBLEU, with signatures."""

    run: tyro.conf.Positional[Path]
    """The run's folder, or the folder `model` in it."""
    source: Path
    """Sentences to translate."""
    target: Path
    """Their reference translations."""
    ensemble: tuple[Path, ...] = ()
    """Other runs of the same vocabulary, whose probabilities are averaged with this one's."""
    search: SearchSettings = dataclasses.field(default_factory=SearchSettings)
    engine: EngineSettings = dataclasses.field(default_factory=EngineSettings)
    hypotheses: Path | None = None
    """Write the translations to this file."""
    tokenize: Tokenization = "13a"
    """sacreBLEU's tokeniser."""
    lowercase: bool = False
    """Score BLEU without regard to case."""
    baseline: Path | None = None
    """Another run, or a file of another system's translations: is the first one better, by paired bootstrap resampling?"""
    paper_bleu: str | None = None
    """The target's language (de, fr …): add BLEU as the paper has it, of Moses tokens with split compounds (extra: dragoman[paper])."""


def evaluate(arguments: Sequence[str]) -> None:
    """Translate a file and score the translations."""
    asked = parse(Evaluate, "evaluate", arguments)
    from dragoman.decoding.translator import Translator
    from dragoman.evaluation.compare import paired_bootstrap
    from dragoman.evaluation.metrics import bleu, check_lines, chrf
    from dragoman.evaluation.paper import tokenised_bleu
    from dragoman.text.lines import read_lines, read_pairs
    from dragoman.training.memory import keep_freed_memory

    pairs = list(read_pairs(asked.source, asked.target, strip_carriage_returns=True))
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    theirs = list(read_lines(asked.baseline, strip_carriage_returns=True)) if asked.baseline and not asked.baseline.is_dir() else []
    if theirs:
        check_lines(theirs, references)  # before any work
    keep_freed_memory()
    translator = Translator.together([Translator.load(run, None, asked.engine) for run in (asked.run, *asked.ensemble)])
    translations = translator.translate(sources, asked.search)
    if asked.hypotheses is not None:
        asked.hypotheses.write_text("".join(f"{line}\n" for line in translations), "utf-8", newline="\n")
    print(bleu(translations, references, asked.tokenize, asked.lowercase))
    print(chrf(translations, references))
    if asked.paper_bleu is not None:
        print(tokenised_bleu(translations, references, asked.paper_bleu))
    if asked.baseline is not None:
        others = theirs or Translator.load(asked.baseline, None, asked.engine).translate(sources, asked.search)
        for comparison in paired_bootstrap(translations, others, references, asked.tokenize, asked.lowercase):
            print(comparison)


@dataclass(frozen=True)
class Quickstart:
    """Train a small model on the CMU Pronouncing Dictionary (spelling → phonemes) and score it on held-out words."""

    out: Path = Path("runs/quickstart")
    """The run's folder."""
    minutes: float = 4.2
    """About how long to train."""
    updates: int | None = None
    """Number of parameter updates; None chooses as many as fit into `minutes`."""
    recipe: Path | None = None
    """A recipe (TOML) whose keys win over the quickstart's own."""


def quickstart(arguments: Sequence[str]) -> None:
    """Train and score a small model on data that comes with the package."""
    asked = parse(Quickstart, "quickstart", arguments)
    from dragoman.quickstart import quickstart as start

    start(asked.out, asked.minutes, asked.updates, say, asked.recipe)


@dataclass(frozen=True)
class Doctor:
    """Report what may be wrong with a parallel corpus before it is trained on. Exit status 1 where something is found."""

    source: Path
    """Sentences to translate from, as for `train`."""
    target: Path
    """Their translations."""
    valid_source: Path | None = None
    """Validation sentences, to find those that are in the training data too."""
    valid_target: Path | None = None
    """Their translations."""
    test_source: Path | None = None
    """Test sentences, to find those that are in the training data too."""
    test_target: Path | None = None
    """Their translations."""


def doctor(arguments: Sequence[str]) -> None:
    """Report what may be wrong with a parallel corpus."""
    asked = parse(Doctor, "doctor", arguments)
    from dragoman.text.doctor import examine

    others = {"validation": (asked.valid_source, asked.valid_target), "test": (asked.test_source, asked.test_target)}
    for name, files in others.items():
        if files.count(None) == 1:
            raise DragomanError(f"--{name.removesuffix('ation')}-source and --{name.removesuffix('ation')}-target belong together.")
    given = {name: (source, target) for name, (source, target) in others.items() if source is not None and target is not None}
    findings = examine(asked.source, asked.target, given)
    for finding in findings:
        print(finding)
    if findings:
        sys.exit(1)
    print("Nothing was found.")


@dataclass(frozen=True)
class Runs:
    """List runs with their state and scores."""

    folder: tyro.conf.Positional[Path] = Path("runs")
    """Where to look, in the folders below it too."""
    json: bool = False
    """Write one JSON object a run."""


def runs(arguments: Sequence[str]) -> None:
    """List runs with their state and scores."""
    asked = parse(Runs, "runs", arguments)
    from rich.console import Console

    from dragoman.runs import as_json, runs_table, runs_under

    found = runs_under(asked.folder)
    if asked.json:
        print("\n".join(map(as_json, found)))
    else:
        table = runs_table(found)
        Console(width=Console(width=10_000).measure(table).maximum).print(table)  # as wide as it needs: nothing is cut


@dataclass(frozen=True)
class Plot:
    """Draw the curves of a run from its log: loss, BLEU, rate, gradient, speed."""

    run: tyro.conf.Positional[Path]
    """The run's folder."""
    out: Path
    """The picture: .png, .svg or .html."""


def plot(arguments: Sequence[str]) -> None:
    """Draw the curves of a run, as PNG, SVG or HTML."""
    asked = parse(Plot, "plot", arguments)
    from dragoman.runs import plot as draw

    draw(asked.run, asked.out)
    say(f"{asked.out} shows the curves of {asked.run}.")


VERBS: dict[str, Callable[[Sequence[str]], None]] = {
    "quickstart": quickstart,
    "train": train,
    "resume": resume,
    "translate": translate,
    "score": score,
    "align": align,
    "evaluate": evaluate,
    "doctor": doctor,
    "runs": runs,
    "plot": plot,
}


def usage() -> str:
    """What there is."""
    verbs = "\n".join(f"  {name:<12}{function.__doc__}" for name, function in VERBS.items())
    return (
        f'Dragoman {__version__}: the Transformer of "Attention Is All You Need" for your own text.\n\n'
        f"dragoman VERB …, and dragoman VERB --help for its settings:\n\n{verbs}\n"
    )


def main() -> None:
    """Run a verb. Errors that the user can put right are printed as a sentence, with exit status 2."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
    elif arguments[0] == "--version":
        print(__version__)
    else:
        try:
            verb(arguments[0])(arguments[1:])
        except DragomanError as error:
            sys.exit(complain(str(error)))
        except BrokenPipeError:  # the reader has gone: there is nobody to tell
            sys.stdout = None
            sys.exit(141)
        except OSError as error:
            sys.exit(complain(f"{error.filename or 'The disk'}: {error.strerror or error}."))
        except KeyboardInterrupt:
            sys.exit(130)


def verb(name: str) -> Callable[[Sequence[str]], None]:
    """The verb's function. Raises `DragomanError` for one that does not exist, with the nearest."""
    import difflib

    if name not in VERBS:
        near = difflib.get_close_matches(name, VERBS, n=1)
        told = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(VERBS)}."
        raise DragomanError(f"There is no verb {name!r}. {told}")
    return VERBS[name]


def complain(message: str) -> int:
    """Print what was wrong; give the exit status."""
    print(f"dragoman: {message}", file=sys.stderr)
    return 2
