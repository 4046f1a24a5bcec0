"""`dragoman evaluate`: translate test sets and score the translations."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman import __version__
from dragoman.cli.console import say
from dragoman.cli.languages import TargetLanguage, warn_of_files, warn_of_language
from dragoman.cli.parsing import Arguments, Command, refuse_missing_folder, refuse_replacing, settings_from
from dragoman.cli.translate import load
from dragoman.evaluation.metrics import Tokenization
from dragoman.native.settings import EngineSettings
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.system.files import write_lines
from dragoman.system.wording import counted
from dragoman.text.mixture import refuse_both_sides

if TYPE_CHECKING:
    from dragoman.evaluation.comet import Comet
    from dragoman.evaluation.compare import Comparison
    from dragoman.evaluation.metrics import Score
    from dragoman.translation.translator import Translator


@dataclass(frozen=True)
class Evaluate:
    """Translate test sets and score the translations by BLEU, chrF2, chrF2++ and TER, with signatures."""

    run: Path
    """The run's folder, or the folder `model` in it."""
    source: tuple[Path, ...]
    """Sentences to translate. Several files are several test sets, scored in one table."""
    target: tuple[Path, ...]
    """Their reference translations: one file for each test set."""
    ensemble: tuple[Path, ...] = ()
    """Other runs with the same vocabulary, whose probabilities are averaged with this one's."""
    search: SearchSettings = field(default_factory=SearchSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    into: TargetLanguage = field(default_factory=TargetLanguage)
    hypotheses: tuple[Path, ...] = ()
    """Write the translations to this file; with several test sets, to one file for each."""
    tokenize: Tokenization | None = None
    """sacreBLEU's tokenizer: 13a, intl, char, zh or none. None is 13a, or char if a set's references have no
    spaces."""
    lowercase: bool = False
    """Compute BLEU without regard to case."""
    baseline: tuple[Path, ...] = ()
    """Compare with another run, or with a file of translations for each test set, by paired bootstrap
    resampling."""
    paper_bleu: str | None = None
    """Add BLEU as in the paper, on Moses tokens with split compounds, for this target language (extra:
    dragoman[paper])."""
    comet: Path | None = None
    """Add COMET, computed with this checkpoint, a file model.ckpt on this machine (extra:
    dragoman[comet])."""
    json: bool = False
    """Print JSON: scores, signatures, settings, versions and hashes of files."""


@dataclass(frozen=True)
class TestSet:
    """Sentences and their reference translations, with those of a baseline if a file has them."""

    name: str
    sources: list[str]
    references: list[str]
    baseline: list[str]


def evaluate(arguments: Arguments) -> None:
    """Translate test sets and score the translations."""
    settings = settings_from(Evaluate, arguments)
    settings.search.refuse_contradictions(arguments)
    refuse_bad_files(settings)
    from dragoman.evaluation.comet import Comet
    from dragoman.evaluation.compare import seed_of_environment
    from dragoman.evaluation.score_table import SetScores, score_table
    from dragoman.system.machine import configure_allocator
    from dragoman.translation.segmentation import long_translation_message

    if settings.baseline:
        seed_of_environment()  # before the work that a seed which is no number would waste
    tests = list(read_test_sets(settings))
    inputs = (
        recorded_inputs(settings) if settings.json else {}
    )  # now: files and runs can change during the work
    configure_allocator()
    comet = Comet(settings.comet) if settings.comet else None
    names_baseline = names_run(settings.baseline)
    baseline = load(settings.baseline, settings.engine, settings.into.code) if names_baseline else None
    translator = load((settings.run, *settings.ensemble), settings.engine, settings.into.code)
    say_training(settings.run)
    warn_of_files(settings.run, translator.languages, settings.source, settings.target)
    if (language := settings.paper_bleu) is not None:
        languages = translator.languages
        warn_of_language(settings.run, languages, f"--paper-bleu is {language}", language, languages.target)
    if count := sum(translator.count_long_sentences(test.sources, settings.search) for test in tests):
        say(COMMAND.told(long_translation_message(count, translator, settings.search)))
    results: list[SetScores] = []
    try:
        for number, test in enumerate(tests):
            translations = translator.translate(test.sources, settings.search)
            results.append(SetScores(test.name, len(translations), []))
            try:
                for score in scores(settings, test, translations, baseline, comet):
                    results[-1].scores.append(score)
                    if len(tests) == 1 and not settings.json:
                        print(score, flush=True)
            finally:  # after the scores: a full disk must not lose them
                if settings.hypotheses:
                    write_lines(settings.hypotheses[number], translations)
    finally:
        if results and settings.json:
            record = {"settings": asdict(settings), "test_sets": [result.values for result in results]}
            print(json.dumps(inputs | record, indent=2, ensure_ascii=False, default=str), flush=True)
        elif len(tests) > 1 and results:
            print(score_table(results), flush=True)


def say_training(run: Path) -> None:
    """Say with what, when and where a run was trained, if the run says it."""
    from dragoman.pipeline.passport import describe, read_passports

    if passports := read_passports(run):
        say(f"{run} was trained with {describe(passports[-1])}: {passports[-1].get('command', '')}")


def recorded_inputs(settings: Evaluate) -> dict[str, Any]:
    """What the scores depend on, for JSON: the passport with the hashes of texts, and of each model its hash
    and the passports of its training.
    """
    from dragoman.pipeline.passport import command, passport, read_passports, text_hashes
    from dragoman.translation.model_folder import model_hash

    runs = (settings.run, *settings.ensemble, *(settings.baseline if names_run(settings.baseline) else ()))
    baseline = () if names_run(settings.baseline) else settings.baseline
    files = {str(path): path for path in (*settings.source, *settings.target, *baseline)}
    return {
        "passport": passport(command(), __version__, text_hashes(files)),
        "models": {str(run): model_hash(run) for run in runs},
        "training": {str(run): read_passports(run) for run in runs},
    }


def scores(
    settings: Evaluate,
    test: TestSet,
    translations: Sequence[str],
    baseline: "Translator | None",
    comet: "Comet | None",
) -> Iterator["Score | Comparison"]:
    """The scores of a test set, then those beside the baseline's, each as soon as it is known."""
    from dragoman.evaluation.compare import paired_bootstrap
    from dragoman.evaluation.measures import reported_metrics, reported_scores
    from dragoman.evaluation.metrics import suitable_tokenization
    from dragoman.evaluation.paper import tokenised_bleu

    yield from reported_scores(translations, test.references, settings.tokenize, settings.lowercase)
    if settings.paper_bleu is not None:
        yield tokenised_bleu(translations, test.references, settings.paper_bleu)
    if comet:
        lines = comet.line_scores(test.sources, translations, test.references)
        yield comet.score(lines)
    if settings.baseline:
        others = baseline.translate(test.sources, settings.search) if baseline else test.baseline
        tokenize = settings.tokenize or suitable_tokenization(test.references)
        metrics = reported_metrics(tokenize, settings.lowercase)
        yield from paired_bootstrap(translations, others, test.references, metrics)
        if comet:
            yield comet.compare(lines, comet.line_scores(test.sources, others, test.references))


def names_run(baseline: Sequence[Path]) -> bool:
    """Whether the baseline is a run, not files of translations."""
    return len(baseline) == 1 and baseline[0].is_dir()


def read_test_sets(settings: Evaluate) -> Iterator[TestSet]:
    """The test sets. Raises `DragomanError` for files that do not belong together, before any work."""
    from dragoman.evaluation.paper import tokenised_bleu
    from dragoman.text.lines import read_pairs

    names = [path.name for path in settings.target]
    if len(set(names)) < len(names):
        names = list(map(str, settings.target))
    for number, (source, target) in enumerate(zip(settings.source, settings.target, strict=True)):
        pairs = list(read_pairs(source, target))
        references = [reference for _, reference in pairs]
        check_blank(target, references)
        baseline = []
        if settings.baseline and not names_run(settings.baseline):
            baseline = [line for line, _ in read_pairs(settings.baseline[number], target)]
        if settings.paper_bleu is not None:
            tokenised_bleu(references[:1], references[:1], settings.paper_bleu)
        yield TestSet(names[number], [sentence for sentence, _ in pairs], references, baseline)


def check_blank(path: Path, references: Sequence[str]) -> None:
    """Warn of blank references. Raises `DragomanError` if all are blank: some scores would be perfect."""
    blank = sum(not reference.strip() for reference in references)
    if blank == len(references):
        raise DragomanError(f"All lines of {path} are blank; give a file with translations to compare with.")
    if blank:
        say(f"{path} has {counted(blank, 'blank line')}; a translation of one counts as an error.")


def refuse_bad_files(settings: Evaluate) -> None:
    """Raise `DragomanError` if the files do not fit together, or translations cannot be written or scored."""
    for path in (*settings.source, *settings.target):
        refuse_both_sides(path)
        if settings.json and path.exists() and not path.is_file():
            raise DragomanError(
                f"{path} cannot be read twice, and --json records the hash of the text; copy it to a file."
            )
    sets, outputs = len(settings.source), len({path.resolve() for path in settings.hypotheses})
    if len(settings.target) != sets:
        raise DragomanError(
            f"--source and --target name {sets} and {len(settings.target)} files; a test set has one of each."
        )
    if settings.hypotheses and not outputs == len(settings.hypotheses) == sets:
        raise DragomanError(
            f"--hypotheses names {outputs} different files for {counted(sets, 'test set')}; give one for "
            "each."
        )
    if settings.baseline and len(settings.baseline) != sets and not names_run(settings.baseline):
        raise DragomanError(
            f"--baseline names {len(settings.baseline)} files for {counted(sets, 'test set')}; give a run, "
            "or a file for each."
        )
    for path in settings.hypotheses:
        refuse_replacing("--hypotheses", path, *settings.source, *settings.target, *settings.baseline)
        refuse_missing_folder("--hypotheses", path)
    if settings.search.n_best > 1 and not settings.search.mbr:
        raise DragomanError(
            f"--n-best {settings.search.n_best}: only one translation is scored; leave it out, or add --mbr."
        )


COMMAND = Command(
    "evaluate",
    "Translate test sets and score the translations.",
    evaluate,
    Evaluate,
    example="dragoman evaluate runs/ende -s test.en -t test.de",
    arguments="RUN -s FILE … -t FILE …",
    groups={
        "text": ("run", "target_language", "source", "target", "hypotheses"),
        "scores": ("baseline", "tokenize", "paper_bleu", "comet", "json"),
        "search": ("beam_size", "length_penalty", "max_length"),
        "speed": ("precision", "workers"),
        "model": ("ensemble",),
    },
    metavars={
        "run": "RUN",
        "target_language": "CODE",
        "ensemble": "RUN",
        "tokenize": "NAME",
        "paper_bleu": "LANGUAGE",
        "baseline": "RUN|FILE",
        "comet": "CHECKPOINT",
    },
)
