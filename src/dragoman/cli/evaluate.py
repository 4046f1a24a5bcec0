"""`dragoman evaluate`: translate a file and score the translations."""

from dataclasses import dataclass, field
from pathlib import Path

from dragoman.cli.console import say
from dragoman.cli.parsing import Command, Given, refuse_replacing, settings_from
from dragoman.cli.translate import load
from dragoman.evaluation.metrics import Tokenization
from dragoman.native.settings import EngineSettings
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.system.files import atomic_write


@dataclass(frozen=True)
class Evaluate:
    """Translate a file and score the translations against references, by sacreBLEU, with signatures."""

    run: Path
    """The run's folder, or the folder `model` in it."""
    source: Path
    """Sentences to translate."""
    target: Path
    """Their reference translations."""
    ensemble: tuple[Path, ...] = ()
    """Other runs with the same vocabulary, whose probabilities are averaged with this one's."""
    search: SearchSettings = field(default_factory=SearchSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    hypotheses: Path | None = None
    """Write the translations to this file."""
    tokenize: Tokenization | None = None
    """sacreBLEU's tokenizer. None is 13a, or characters if the references have no spaces."""
    lowercase: bool = False
    """Compute BLEU without regard to case."""
    baseline: Path | None = None
    """Compare with another run, or with a file of translations, by paired bootstrap resampling."""
    paper_bleu: str | None = None
    """The target's language (de, fr …): add BLEU as in the paper, of Moses tokens with split compounds
    (extra: dragoman[paper])."""


def evaluate(given: Given) -> None:
    """Translate a file and score the translations."""
    asked = settings_from(Evaluate, given)
    asked.search.refuse_contradictions(given)
    refuse_bad_outputs(asked)
    from dragoman.evaluation.compare import paired_bootstrap
    from dragoman.evaluation.metrics import bleu, check_lines, chrf, suitable_tokenization
    from dragoman.evaluation.paper import tokenised_bleu
    from dragoman.system.machine import configure_allocator
    from dragoman.text.lines import read_lines, read_pairs

    pairs = list(read_pairs(asked.source, asked.target))
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    tokenize = asked.tokenize or suitable_tokenization(references)
    configure_allocator()
    baseline = load([asked.baseline], asked.engine) if asked.baseline and asked.baseline.is_dir() else None
    others = list(read_lines(asked.baseline)) if asked.baseline and not baseline else []
    if others:
        check_lines(others, references)  # before any work
    if asked.paper_bleu is not None:
        tokenised_bleu(references[:1], references[:1], asked.paper_bleu)
    translator = load((asked.run, *asked.ensemble), asked.engine)
    if count := translator.count_long_sentences(sources, asked.search):
        say(translator.long_message(count, asked.search))
    translations = translator.translate(sources, asked.search)
    try:
        print(bleu(translations, references, tokenize, asked.lowercase))
        print(chrf(translations, references), flush=True)
        if asked.paper_bleu is not None:
            print(tokenised_bleu(translations, references, asked.paper_bleu), flush=True)
        if asked.baseline is not None:
            others = baseline.translate(sources, asked.search) if baseline else others
            for comparison in paired_bootstrap(translations, others, references, tokenize, asked.lowercase):
                print(comparison, flush=True)
    finally:  # after the scores: a full disk must not lose them
        if asked.hypotheses is not None:
            with atomic_write(asked.hypotheses) as new:
                new.write_text("".join(f"{line}\n" for line in translations), "utf-8", newline="\n")


def refuse_bad_outputs(asked: Evaluate) -> None:
    """Raise `DragomanError` if the translations cannot be written or scored."""
    if asked.hypotheses is not None:
        inputs = (asked.source, asked.target, *filter(None, [asked.baseline]))
        refuse_replacing("--hypotheses", asked.hypotheses, *inputs)
        if not asked.hypotheses.parent.is_dir():
            raise DragomanError(
                f"--hypotheses {asked.hypotheses} cannot be written: there is no such folder."
            )
    if asked.search.n_best > 1 and not asked.search.mbr:
        raise DragomanError(
            f"n_best is {asked.search.n_best}, and only the best translation is scored; leave it out, or add "
            "mbr."
        )


COMMAND = Command(
    "evaluate",
    "Translate a file and score the translations.",
    evaluate,
    Evaluate,
    example="dragoman evaluate runs/ende -s test.en -t test.de",
    arguments="RUN -s FILE -t FILE",
    groups={
        "text": ("run", "source", "target", "hypotheses"),
        "scores": ("baseline", "tokenize", "lowercase", "paper_bleu"),
        "search": ("beam_size", "length_penalty", "max_length"),
        "speed": ("precision", "workers"),
        "model": ("ensemble",),
    },
    metavars={
        "run": "RUN",
        "ensemble": "RUN",
        "tokenize": "NAME",
        "paper_bleu": "LANGUAGE",
        "baseline": "RUN|FILE",
    },
)
