"""`dragoman backtranslate`: pairs for training from text in the target language alone."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from dragoman.cli.console import say
from dragoman.cli.languages import TargetLanguage
from dragoman.cli.parsing import Arguments, Command, refuse_model_folder, settings_from
from dragoman.cli.translate import Translate, TranslationJob, load, to_file
from dragoman.native.build import DECODER, start_compiling
from dragoman.native.settings import EngineSettings
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.system.torchrun import process_count
from dragoman.system.wording import counted
from dragoman.text.mixture import check_tag
from dragoman.text.settings import UNKNOWN_LANGUAGE, language_of_name
from dragoman.translation.backtranslation import REPORT

TRANSLATIONS = "translations"  # line n is the translation of line n of the text


@dataclass(frozen=True)
class Backtranslate:
    """Make pairs for training from text in the target language, with a run for the opposite direction."""

    run: Path
    """The folder of a run that translates from the language of the text, or the folder `model` in it."""
    text: Path
    """Text in the target language: UTF-8, one sentence per line, plain or compressed (.gz, .zst)."""
    out: Path
    """The folder for the pairs. The same command resumes after an interruption."""
    tag: str = ""
    """First word of every source, such as <bt>. A model can then tell translated sources from others (Caswell
    et al. 2019)."""
    search: SearchSettings = field(default_factory=SearchSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    into: TargetLanguage = field(default_factory=TargetLanguage)


def backtranslate(arguments: Arguments) -> None:
    """Translate a text, and write the pairs of translations and text."""
    settings = settings_from(Backtranslate, arguments)
    settings.search.refuse_contradictions(arguments)
    refuse(settings)
    from dragoman.translation.backtranslation import check_text, pair_names, write_pairs

    if settings.engine.native:
        start_compiling(DECODER)  # in the background, while other things are read
    translator = load((settings.run,), settings.engine, settings.into.code)
    language = language_of_name(settings.text.name)
    if translator.pairs and language != UNKNOWN_LANGUAGE:
        translator = translator.into(settings.into.code, language)
    check_text(settings.text, translator.languages)
    names = pair_names(settings.text, translator.languages)
    if any(
        (settings.out / name).exists() and (settings.out / name).samefile(settings.text) for name in names
    ):
        raise DragomanError(
            f"{settings.text} is in --out {settings.out} and would be replaced; give another folder."
        )
    refuse_other_files(settings.out, names)
    settings.out.mkdir(parents=True, exist_ok=True)
    translations = settings.out / TRANSLATIONS
    job = TranslationJob(
        translator,
        Translate(settings.run, search=settings.search, engine=settings.engine, input=settings.text),
    )
    try:
        is_complete = to_file(job, settings.text, translations, process_count())
    finally:
        job.say_unusual()
    if not is_complete:
        return
    report = write_pairs(settings.text, translations, settings.out, names, settings.tag)
    if report.empty:
        say(f"Empty lines left out: {report.empty:,}.")
    if report.untranslated:
        say(f"Lines left out because their translation is empty or has a NUL: {report.untranslated:,}.")
    source, target = (settings.out / name for name in names)
    symbols = f" --symbols '{settings.tag}'" if settings.tag else ""  # else the tag is several tokens
    say(f"{counted(report.pairs, 'pair')} of {counted(report.lines, 'line')}.")
    say("To train on these pairs and on parallel text, list both as [[data.corpus]] in a recipe.")
    say(f"Train with: dragoman train {quote(str(source))} {quote(str(target))}{symbols} --out runs/NAME")


def refuse_other_files(out: Path, names: Sequence[str]) -> None:
    """Raise `DragomanError` for a model's folder, and for one with files of these names of something else."""
    refuse_model_folder(out)
    if (out / "recipe.toml").exists():
        raise DragomanError(f"--out {out} is the folder of a run; give another one.")
    translations = out / TRANSLATIONS
    if any(translations.with_name(translations.name + ending).exists() for ending in (".json", ".parts")):
        return
    if other := next((name for name in (*names, REPORT, TRANSLATIONS) if (out / name).exists()), None):
        raise DragomanError(
            f"{out / other} exists, and {TRANSLATIONS}.json, which a back-translation writes, does not; give "
            "another folder as --out."
        )


def refuse(settings: Backtranslate) -> None:
    """Raise `DragomanError` where `check_tag` does, and for several translations of a line."""
    if settings.tag:
        check_tag(settings.tag, "--tag")
    if settings.search.n_best > 1 and not settings.search.mbr:
        raise DragomanError(
            f"--n-best {settings.search.n_best} would make several sources per line; leave it out, or add "
            "--mbr."
        )


COMMAND = Command(
    "backtranslate",
    "Make pairs for training from text in the target language.",
    backtranslate,
    Backtranslate,
    example="dragoman backtranslate runs/de-en mono.de --out data/bt --temperature 1 --tag '<bt>'",
    arguments="RUN TEXT -o DIR",
    positional=("run", "text"),
    groups={
        "text": ("run", "target_language", "text", "tag"),
        "search": ("beam_size", "temperature", "top_k", "top_p", "sampling_seed", "max_extra_tokens"),
        "speed": ("precision", "workers"),
        "output": ("out",),
    },
    metavars={"run": "RUN", "target_language": "CODE", "text": "TEXT", "out": "DIR"},
)
