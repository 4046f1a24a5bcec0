"""The verbs that use a trained model: translate, score, align, shortlist, evaluate. torch is imported once the arguments are understood."""

import codecs
import dataclasses
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from dragoman.cli.console import flags_of, own_gpu, parse, say, warn
from dragoman.evaluation.metrics import Tokenization
from dragoman.model.settings import Precision
from dragoman.native.build import DECODER, start_compiling
from dragoman.search.settings import SearchSettings, refuse_more_than_a_beam
from dragoman.system.errors import DragomanError, check_bounds
from dragoman.system.files import atomic_write
from dragoman.translation.settings import EngineSettings

if TYPE_CHECKING:
    from dragoman.translation.analysis import Alternative
    from dragoman.translation.translator import Translation, Translator

@dataclass(frozen=True)
class Translate:
    """Translate standard input to standard output, or a file to a file: line n of one is the translation of line n of the other.

    From a pipe, 2,000 lines are read before the first is written; a terminal, and --stream, get each at once.
    """

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
    json: bool = False
    """Write one JSON object a line, with the n best translations and their scores."""
    trace: bool = False
    """Add to each object every hypothesis of the search: its token, parent, log-probability and why it ended. Needs --json."""
    alternatives: int = 0
    """Instead of translations, this many of the likeliest tokens after the prefix, and how each goes on best. Needs --json."""
    stream: bool = False
    """Write each translation piece by piece, as soon as all hypotheses of the beam begin with it; one line after the other."""


def input_line(raw: bytes, number: int) -> str:
    """A line without line feed and a carriage return before it. What is not UTF-8 is replaced, with a warning."""
    line = raw.removesuffix(b"\n").removesuffix(b"\r")
    line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        warn(f"Line {number}, byte {error.start + 1}: not UTF-8 (0x{line[error.start]:02x}); replaced by U+FFFD.")
        return line.decode(errors="replace")


def translate(arguments: Sequence[str]) -> None:
    """Translate standard input to standard output, or a file to a file."""
    asked = parse(Translate, "translate", arguments)
    asked.search.refuse_contradictions(flags_of(arguments))
    if asked.engine.native:
        start_compiling(DECODER)  # other things are read meanwhile
    from dragoman.system.machine import configure_allocator
    from dragoman.translation.files import BLOCK

    refuse_contradictions(asked)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1 and asked.input is None:
        raise DragomanError(f"{ranks} processes would each translate all of standard input; give --input and --output, which they share.")
    configure_allocator()
    engine = dataclasses.replace(asked.engine, native=False) if asked.trace else asked.engine  # PyTorch traces
    translator = loaded((asked.run, *asked.ensemble), engine)
    if asked.input is not None and asked.output is not None:
        to_file(translator, asked, asked.input, asked.output, ranks)
        return
    numbered = enumerate(sys.stdin.buffer, 1)
    if asked.stream:
        for number, raw in numbered:
            line = input_line(raw, number)
            report_long(translator, asked.search, [line], [number])
            for part in chain(translator.stream(line, asked.search), "\n"):
                sys.stdout.buffer.write(part.encode("utf-8", "replace"))
                sys.stdout.buffer.flush()
        return
    while block := list(islice(numbered, 1 if sys.stdin.isatty() else BLOCK)):
        for line in translated(translator, asked, block):
            sys.stdout.buffer.write(line.encode("utf-8", "replace") + b"\n")
        sys.stdout.buffer.flush()


def to_file(translator: "Translator", asked: Translate, source: Path, out: Path, ranks: int) -> None:
    """Translate this process's part of a file to a file, or all that is left of it."""
    from dragoman.system.files import file_hash
    from dragoman.translation.files import translate_file
    from dragoman.translation.model_folder import model_hash

    search = {name: value for name, value in dataclasses.asdict(asked.search).items() if name != "batch_tokens"}
    written = {name: getattr(asked, name) for name in ("json", "trace", "alternatives")}
    listed = None if asked.engine.shortlist is None else file_hash(asked.engine.shortlist)
    engine = {"precision": asked.engine.precision, "native": asked.engine.native, "shortlist": listed}
    about = {"models": list(map(model_hash, (asked.run, *asked.ensemble))), "search": search, **engine, **written}
    rank = int(os.environ.get("RANK", "0"))
    if not translate_file(source, out, about, lambda block: translated(translator, asked, block), rank, ranks):
        say(f"Of {out} the blocks of lines are not there that other processes write; whoever is last joins them.")


def loaded(runs: Sequence[Path], engine: EngineSettings) -> "Translator":
    """The runs' models, which translate together."""
    from dragoman.translation.translator import Translator

    return Translator.load(
        *runs,
        device=own_gpu(),
        precision=engine.precision,
        workers=engine.workers,
        native=engine.native,
        shortlist=engine.shortlist,
        cuda_graphs=engine.cuda_graphs,
    )


def refuse_contradictions(asked: Translate) -> None:
    """Raise `DragomanError` for flags that do not go together, before any work."""
    if asked.stream:
        refuse_more_than_a_beam(asked.search, "stream")
        if asked.json or asked.trace or asked.alternatives or asked.input or asked.output or asked.search.n_best > 1:
            raise DragomanError(
                "--stream writes one plain translation a line to standard output; leave --json, --trace, --alternatives, --n-best and "
                "files out."
            )
    if asked.search.n_best > 1 and not asked.json and not asked.search.mbr:
        raise DragomanError(f"--n-best {asked.search.n_best} needs --json: plain output has one line for each line of input.")
    if (asked.trace or asked.alternatives) and not asked.json:
        raise DragomanError("--trace and --alternatives need --json: plain output has one translation a line.")
    if asked.alternatives < 0:
        raise DragomanError(f"alternatives is {asked.alternatives}; it must be at least 0.")
    if asked.trace or asked.alternatives:
        refuse_more_than_a_beam(asked.search, "trace" if asked.trace else "list of alternatives")
    if asked.alternatives and (asked.trace or asked.search.n_best > 1):
        raise DragomanError("--alternatives takes the place of translations; it goes with no --trace or --n-best.")
    if asked.engine.shortlist and (asked.stream or asked.trace or asked.alternatives):
        raise DragomanError("--stream, --trace and --alternatives look at all tokens; leave --shortlist out.")
    if (asked.input is None) != (asked.output is None):
        raise DragomanError("--input and --output belong together: a file is translated to a file, and standard input to standard output.")


def translated(translator: "Translator", asked: Translate, block: list[tuple[int, bytes]]) -> list[str]:
    """A line of output for each numbered line of input."""
    lines = [input_line(raw, number) for number, raw in block]
    report_long(translator, asked.search, lines, [number for number, _ in block])
    if asked.alternatives:
        return [as_json(line, "alternatives", translator.alternatives(line, asked.alternatives, asked.search)) for line in lines]
    found = translator.n_best(lines, asked.search)
    if not asked.json:
        return [best[0].text for best in found]
    traces = [{"trace": list(map(dataclasses.asdict, translator.trace(line, asked.search)))} if asked.trace else {} for line in lines]
    return [as_json(line, "translations", best, more) for line, best, more in zip(lines, found, traces, strict=True)]


def report_long(
    translator: "Translator", settings: SearchSettings, lines: Sequence[str], numbers: Sequence[int], done: str = "translated"
) -> None:
    """Say how many lines are longer than any that the model was trained on."""
    del numbers, done
    if count := translator.count_long(lines, settings):
        warn(translator.long_message(count, settings))


def blocks_of(pairs: Iterator[tuple[str, str]], translator: "Translator", done: str) -> Iterator[list[tuple[str, str]]]:
    """Blocks of pairs, one after the other; sources that are longer than any of training are named."""
    from dragoman.translation.files import BLOCK

    before = 0
    while block := list(islice(pairs, BLOCK)):
        report_long(translator, SearchSettings(), [source for source, _ in block], range(before + 1, before + len(block) + 1), done)
        before += len(block)
        yield block


def as_json(line: str, name: str, found: "Sequence[Translation | Alternative]", more: Mapping[str, object] | None = None) -> str:
    """A line of JSON: the source, what was found for it, and more."""
    return json.dumps({"source": line, name: list(map(dataclasses.asdict, found)), **(more or {})}, ensure_ascii=False)


@dataclass(frozen=True)
class Score:
    """How likely given translations are: line by line their log-probability in nats, the end of the sentence included."""

    run: tyro.conf.Positional[Path]
    """The run's folder, or the folder `model` in it."""
    source: Path
    """Sentences."""
    target: Path
    """Their translations, line n of one belonging to line n of the other."""
    ensemble: tuple[Path, ...] = ()
    """Other runs of the same vocabulary, whose probabilities are averaged with this one's."""
    precision: Precision = "float32"
    """Of matrix products, as for `translate`."""
    tokens: bool = False
    """The translations are tokens with a space between, as `translate --json` has them: their texts may be spelt otherwise."""
    json: bool = False
    """Write one JSON object a line, with the log-probability of each token."""


def score(arguments: Sequence[str]) -> None:
    """Say how likely given translations are, by forced decoding."""
    asked = parse(Score, "score", arguments)
    from dragoman.model.loss import perplexity
    from dragoman.text.lines import read_pairs

    engine = EngineSettings(asked.precision)
    translator = loaded((asked.run, *asked.ensemble), engine)
    pairs = read_pairs(asked.source, asked.target, strip_carriage_returns=True)
    total, tokens = 0.0, 0
    for block in blocks_of(pairs, translator, "scored"):
        forced = [(source, list(filter(None, target.split(" "))) if asked.tokens else target) for source, target in block]
        for (source, target), found in zip(block, translator.score(forced), strict=True):
            total, tokens = total + found.log_probability, tokens + len(found.tokens)
            about = {"log_probability": found.log_probability, "perplexity": found.perplexity, **dataclasses.asdict(found)}
            text = json.dumps({"source": source, "target": target, **about}, ensure_ascii=False)
            sys.stdout.buffer.write((text if asked.json else f"{found.log_probability:.4f}").encode("utf-8", "replace") + b"\n")
        sys.stdout.buffer.flush()
    say(f"{tokens:,} tokens; negative log-likelihood {-total / tokens:.4f} a token, perplexity {perplexity(-total / tokens):.2f}.")


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
    json: bool = False
    """Write one JSON object a line: the pair, its words that belong together, its tokens, and the weights of each target token."""


def align(arguments: Sequence[str]) -> None:
    """Say which words of given translations belong together."""
    asked = parse(Align, "align", arguments)
    from dragoman.text.lines import read_pairs
    from dragoman.translation.translator import Translator

    translator = Translator.load(asked.run)
    pairs = read_pairs(asked.source, asked.target, strip_carriage_returns=True)
    for block in blocks_of(pairs, translator, "aligned"):
        for pair, found in zip(block, translator.align(block, asked.layer, asked.head), strict=True):
            line = attention_as_json(translator, asked, pair, found) if asked.json else " ".join(f"{one}-{other}" for one, other in found)
            sys.stdout.buffer.write(line.encode("utf-8", "replace") + b"\n")


def attention_as_json(translator: "Translator", asked: Align, pair: tuple[str, str], found: list[tuple[int, int]]) -> str:
    """A line of JSON about what the words of a translation looked at."""
    from dragoman.translation.alignment import select_head as chosen

    seen = translator.attention(*pair)
    weights = chosen(seen.cross[:, None], asked.layer, asked.head)[0].tolist()
    about = {"source": pair[0], "target": pair[1], "alignment": found, "source_tokens": seen.source, "target_tokens": seen.target}
    return json.dumps(about | {"weights": weights}, ensure_ascii=False)


@dataclass(frozen=True)
class MakeShortlist:
    """From parallel text, as the model's training data, learn which tokens may translate which: `translate --shortlist FILE` is faster."""

    run: tyro.conf.Positional[Path]
    """The run's folder, or the folder `model` in it: the file is for its vocabularies."""
    source: Path
    """Sentences."""
    target: Path
    """Their translations, line n of one belonging to line n of the other."""
    out: Path
    """The file to make."""
    most: int = 30
    """Translations of a token, the likeliest ones."""
    always: int = 200
    """Frequent tokens that every sentence may have."""

    def __post_init__(self) -> None:
        check_bounds(self, at_least={"most": 1, "always": 0}, at_most={"most": 10_000, "always": 1_000_000})


def shortlist(arguments: Sequence[str]) -> None:
    """Learn from parallel text which tokens may translate which, to translate faster."""
    asked = parse(MakeShortlist, "shortlist", arguments)
    refuse_own_input("out", asked.out, asked.source, asked.target)
    if asked.out.is_dir():
        raise DragomanError(f"--out {asked.out} is a folder; give the name of a file.")
    from dragoman.search.shortlist import Shortlist
    from dragoman.text.lines import read_pairs
    from dragoman.translation.model_folder import Tokenizers, model_folder

    tokenizers = Tokenizers.load(model_folder(asked.run))
    texts = list(zip(*read_pairs(asked.source, asked.target, strip_carriage_returns=True), strict=True)) or [(), ()]
    ids = [side.encode(list(text)) for side, text in zip((tokenizers.source, tokenizers.target), texts, strict=True)]
    sizes = len(tokenizers.source), len(tokenizers.target)
    found = Shortlist.learn(list(zip(*ids, strict=True)), sizes, asked.most, asked.always)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(asked.out) as new:
        found.save(new)
    say(f"{asked.out} has the translations of {len(ids[0]):,} pairs' tokens; use it with --shortlist {asked.out}.")


def refuse_own_input(name: str, out: Path, *inputs: Path) -> None:
    """Raise `DragomanError` where a command would replace what it reads."""
    for path in inputs:
        if out.exists() and path.exists() and out.samefile(path):
            raise DragomanError(f"--{name} {out} is what this command reads; give another file.")


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
    tokenize: Tokenization | None = None
    """sacreBLEU's tokeniser; None is 13a, or characters where the references have no spaces, as at the end of a training."""
    lowercase: bool = False
    """Score BLEU without regard to case."""
    baseline: Path | None = None
    """Another run, or a file of another system's translations: is the first one better, by paired bootstrap resampling?"""
    paper_bleu: str | None = None
    """The target's language (de, fr …): add BLEU as the paper has it, of Moses tokens with split compounds (extra: dragoman[paper])."""


def evaluate(arguments: Sequence[str]) -> None:
    """Translate a file and score the translations."""
    asked = parse(Evaluate, "evaluate", arguments)
    asked.search.refuse_contradictions(flags_of(arguments))
    if asked.hypotheses is not None:
        refuse_own_input("hypotheses", asked.hypotheses, asked.source, asked.target, *filter(None, [asked.baseline]))
        if asked.hypotheses.is_dir():
            raise DragomanError(f"--hypotheses {asked.hypotheses} is a folder; give the name of a file.")
    if asked.search.n_best > 1 and not asked.search.mbr:
        raise DragomanError(f"n_best is {asked.search.n_best}, and the best translation alone is scored; leave it out, or add mbr.")
    from dragoman.evaluation.compare import paired_bootstrap
    from dragoman.evaluation.metrics import bleu, check_lines, chrf, suitable_tokenization
    from dragoman.evaluation.paper import tokenised_bleu
    from dragoman.system.machine import configure_allocator
    from dragoman.text.lines import read_lines, read_pairs

    pairs = list(read_pairs(asked.source, asked.target, strip_carriage_returns=True))
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    tokenize = asked.tokenize or suitable_tokenization(references)
    configure_allocator()
    baseline = loaded([asked.baseline], asked.engine) if asked.baseline and asked.baseline.is_dir() else None
    theirs = list(read_lines(asked.baseline, strip_carriage_returns=True)) if asked.baseline and not baseline else []
    if theirs:
        check_lines(theirs, references)  # all that may be wrong, before any work
    if asked.paper_bleu is not None:
        tokenised_bleu(references[:1], references[:1], asked.paper_bleu)
    if asked.hypotheses is not None and not asked.hypotheses.parent.is_dir():
        raise DragomanError(f"--hypotheses {asked.hypotheses} cannot be written: there is no such folder.")
    translator = loaded((asked.run, *asked.ensemble), asked.engine)
    report_long(translator, asked.search, sources, range(1, len(sources) + 1))
    translations = translator.translate(sources, asked.search)
    if asked.hypotheses is not None:
        with atomic_write(asked.hypotheses) as new:
            new.write_text("".join(f"{line}\n" for line in translations), "utf-8", newline="\n")
    print(bleu(translations, references, tokenize, asked.lowercase))
    print(chrf(translations, references))
    if asked.paper_bleu is not None:
        print(tokenised_bleu(translations, references, asked.paper_bleu))
    if asked.baseline is not None:
        others = baseline.translate(sources, asked.search) if baseline else theirs
        for comparison in paired_bootstrap(translations, others, references, tokenize, asked.lowercase):
            print(comparison)
