"""Sequence-level distillation (Kim and Rush 2016): a teacher translates a text, and a student learns from it.

Does not import torch at its top.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import chain, dropwhile, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dragoman.model.settings import PRESETS, ModelSettings, Precision
from dragoman.pipeline.adaptation.adapt import kept_settings
from dragoman.pipeline.adaptation.fewer_layers import can_leave_out_layers, with_guided_head
from dragoman.pipeline.recipe import Recipe, check_recipe, resolve_paths
from dragoman.pipeline.result import read_run_result
from dragoman.pipeline.settings import AdaptationSettings
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.files import file_hash
from dragoman.system.options import check_options, option
from dragoman.system.toml import overlay
from dragoman.system.wording import counted
from dragoman.text.language_codes import could_be_same
from dragoman.text.language_pairs import choose_pair
from dragoman.text.lines import decode_line, read_lines
from dragoman.text.mixture import refuse_both_sides
from dragoman.text.quality.checks import check_readable
from dragoman.text.settings import UNKNOWN_LANGUAGE, LanguagePair, Languages, language_of_name
from dragoman.translation.files import Block, different_names, read_record, translate_file
from dragoman.translation.model_folder import Tokenizers, model_folder, model_hash, read_about

if TYPE_CHECKING:
    from dragoman.translation.translator import Translator

logger = logging.getLogger(__name__)
DISTILLED = "distilled.txt"
"""The teacher's translations, in the student's folder; distilled.txt.json lists what they depend on."""
SOURCES = "sources.txt"
"""The text and new sentences, in the student's folder, if there are any."""
StudentPreset = Literal["student", "student-tiny", "shallow", "tiny", "small", "base"]
SCALED = ("student", "student-tiny")
"""Presets whose widths depend on those of the teacher."""


@dataclass(frozen=True)
class Distillation:
    """A teacher, and the text that it translates."""

    teachers: tuple[Path, ...]
    """Runs or model folders; several are an ensemble, of one vocabulary."""
    text: Path
    references: Path | None = None
    """Translations of the text's lines by people."""
    search: SearchSettings = field(default_factory=SearchSettings)
    """The teacher's search."""
    precision: Precision = "float32"
    """Of the teacher's matrix products."""
    target_language: str = ""
    """The language that the teacher translates into, if it has several."""
    new_sentences: int = option(0, at_least=0, at_most=10**8)
    """Sentences made of the text's words (`sample_sentences`), which the teacher translates, too."""

    def __post_init__(self) -> None:
        check_options(self)
        if self.references is not None and self.search.n_best == 1:
            raise OptionError(
                "With references, the student learns the candidate that is nearest to each of them; ask for "
                "several candidates, {n_best} 4 {beam_size} 4 for example."
            )
        if self.references is not None and self.search.mbr:
            raise OptionError(
                "With references, the student learns the candidate that is nearest to each of them, and with "
                "{mbr} another one; leave one of the two out."
            )
        if self.references is None and self.search.n_best > 1 and not self.search.mbr:
            raise OptionError(
                f"{{n_best}} is {self.search.n_best}, and the student learns one translation of each line; "
                "give {references} to choose by, or leave {n_best} out."
            )


def distil(distillation: Distillation, recipe: Recipe) -> Path:
    """Translate the text, then train the student of `recipe`, or resume either. Returns the student's folder.

    Raises `DragomanError` for a folder that holds another run, for files that cannot be read, and where
    `Translator.load`, `translate_file` and `run` do.
    """
    out = recipe.out
    assert out is not None
    refuse_another_run(out)
    for path in filter(None, (distillation.text, distillation.references)):
        refuse_both_sides(path)
    check_recipe(recipe)
    if distillation.new_sentences and recipe.data.valid_source is None:
        raise OptionError(
            "The teacher has no validation text, and new sentences cannot serve as it; give {valid_source} "
            "and {valid_target}."
        )
    data = resolve_paths(replace(recipe.data, target=distillation.references))
    assert data.source is not None
    check_readable(data.valid_source, data.valid_target)
    check_readable(data.test_source, data.test_target)
    resolved = replace(distillation, text=data.source, references=data.target)
    from dragoman.pipeline.advice import run_with_advice
    from dragoman.pipeline.run import lock

    with lock(out):  # raises before hours of translation for a folder that a run would damage
        pass
    sources = write_distilled(resolved, out)
    if distillation.new_sentences:  # their file has no language in its name
        language = recipe.data.languages.source
        known = None if language == UNKNOWN_LANGUAGE else language
        recipe = replace(recipe, data=replace(recipe.data, source=sources, source_language=known))
    run_with_advice(recipe)
    report_teacher_scores(distillation.teachers[0], recipe)
    return out


def refuse_another_run(out: Path) -> None:
    """Raise `DragomanError` for a file, and for a run on other text than a teacher's translations."""
    if out.exists() and not out.is_dir():
        raise OptionError("{path} is a file, and the student needs a folder; choose another {out}.", path=out)
    if (out / "recipe.toml").exists() and not (out / DISTILLED).exists():
        raise OptionError(
            f"{{folder}} holds a run without {DISTILLED}; choose another {{out}} for the student.", folder=out
        )


# ---- the teacher's translations


def write_distilled(distillation: Distillation, out: Path) -> Path:
    """Write the teacher's translation of each line, or resume. Returns the file of the lines.

    Raises `DragomanError` for text or references that training refuses, and as `write_with_new_sentences` and
    `translate_file`.
    """
    check_readable(distillation.text, distillation.references)  # before hours of translation
    path, search, references = out / DISTILLED, distillation.search, distillation.references
    new = distillation.new_sentences
    about: dict[str, object] = {
        "models": list(map(model_hash, distillation.teachers)),
        "search": {name: value for name, value in asdict(search).items() if name != "batch_tokens"},
        "precision": distillation.precision,
        "references": None if references is None else file_hash(references),
        "new_sentences": new or None,
    }
    if into := distillation.target_language:
        about["target_language"] = into

    @cache
    def teacher() -> "Translator":
        from dragoman.translation.translator import Translator

        return Translator.load(*distillation.teachers, precision=distillation.precision).into(into)

    refuse_other_translations(out, about)
    if not path.exists():
        teacher()  # raises before anything is written
        extra = f" and {counted(new, 'new sentence')}" if new else ""
        logger.info(f"The teacher translates {distillation.text}{extra}.")
    if new:
        from dragoman.text.sampled_sentences import write_with_new_sentences

        write_with_new_sentences(distillation.text, new, out / SOURCES)
    source = out / SOURCES if new else distillation.text
    choose = None if references is None else nearest_candidates(references, new)

    def translate(block: Block) -> list[str]:
        lines = [decode_line(raw, source, number) for number, raw in block]
        translations = teacher().n_best(lines, search)
        # Training refuses a NUL, which bytes of a vocabulary can make.
        n_best = [
            [candidate.text.replace("\0", "") for candidate in candidates] for candidates in translations
        ]
        first_line = block[0][0]
        return [best for best, *_ in n_best] if choose is None else choose(first_line, n_best)

    translate_file(source, path, about, translate)
    return source


def refuse_other_translations(out: Path, about: dict[str, object]) -> None:
    """Raise `DragomanError` if a student is trained on other translations than those of `about`."""
    record = out / f"{DISTILLED}.json"
    if not (out / "recipe.toml").exists() or not record.exists():
        return
    if names := different_names(read_record(record), json.loads(json.dumps(about))):
        changed = ", ".join(f"{{{name}}}" for name in names)
        raise OptionError(
            f"The student in {{folder}} is trained on other translations (changed: {changed}); give another "
            f"{{out}}, or the options of before.",
            folder=out,
        )


def nearest_candidates(references: Path, new: int) -> Callable[[int, list[list[str]]], list[str]]:
    """A function that takes of each line the candidate nearest to its reference (section 3.3).

    Of the last `new` lines, which have no reference, it takes the best candidate. It is called for blocks of
    lines in the order of the file, with the number of their first line.
    """
    from dragoman.evaluation.nearest import nearest

    numbered = enumerate(chain(read_lines(references), repeat(None, new)), 1)

    def choose(first_line: int, n_best: list[list[str]]) -> list[str]:
        block_references = islice(dropwhile(lambda pair: pair[0] < first_line, numbered), len(n_best))
        return [
            candidates[0 if reference is None else nearest(candidates, reference)]
            for candidates, (_, reference) in zip(n_best, block_references, strict=True)
        ]

    return choose


# ---- the student


def student_recipe(
    teacher: Path, text: Path, out: Path, preset: StudentPreset, target_language: str = ""
) -> Recipe:
    """The recipe of a student with its teacher's tokenizers and languages, one pair of them.

    If the teacher is a run, the student has its validation and test pairs, too; these are left out of
    training. A `shallow` student is an adaptation of its teacher with one decoder layer. Raises
    `DragomanError` if the teacher has no model, or reads another language than the text's, and as
    `choose_pair`.
    """
    folder = model_folder(teacher)
    about, recipe = read_about(folder), kept_settings(teacher)
    language = language_of_name(text.name)
    source = language if about.pairs and language != UNKNOWN_LANGUAGE else ""
    pair = choose_pair(about.pairs, about.languages, target_language, source)
    refuse_language(text, pair or about.languages)
    data = replace(recipe.data, source=text, target=out / DISTILLED, drop_overlap=True)
    if pair is not None:
        data = replace(data, source_language=pair.source, target_language=pair.target)
    held_out = held_out_files(teacher, pair)
    recipe = replace(recipe, out=out, data=overlay(data, held_out, "the teacher"))
    if preset == "shallow":
        if pair is not None:
            raise OptionError(
                "A shallow student has its teacher's pairs of languages, and is trained on one of them; "
                "choose {preset} student."  # noqa: RUF027  a setting
            )
        model = shallow_settings(recipe.model)
        return replace(recipe, model=model, adaptation=AdaptationSettings(initial_model=teacher))
    tokenizers = Tokenizers.load(folder)
    shared = tokenizers.source is tokenizers.target
    model = student_settings(PRESETS[preset], recipe.model) if preset in SCALED else PRESETS[preset]
    tokenizer = replace(
        recipe.tokenizer,
        vocabulary=max(len(tokenizers.source), len(tokenizers.target)),
        share_vocabulary=shared,
        of_model=teacher,
    )
    model = model if shared else replace(model, tied="target")
    return replace(recipe, preset=preset, tokenizer=tokenizer, model=model)


def refuse_language(text: Path, teacher: Languages) -> None:
    """Raise `DragomanError` if the ending of a text's name says another language than a teacher reads."""
    language = language_of_name(text.name)
    if UNKNOWN_LANGUAGE not in (language, teacher.source) and not could_be_same(language, teacher.source):
        raise DragomanError(
            f"{text} is in {language}, and the teacher translates from {teacher.source}. Give a text in "
            f"{teacher.source}, or a teacher that translates from {language}."
        )


def held_out_files(teacher: Path, pair: LanguagePair | None = None) -> dict[str, Path]:
    """The validation and test files in the folder of a run, by the names of their settings.

    Those of one pair of languages, if the run has several.
    """
    paths = {
        f"{name}_{side}": teacher / "data" / (pair.name if pair else "") / f"{name}.{side}.txt"
        for name in ("valid", "test")
        for side in ("source", "target")
    }
    return {name: path for name, path in paths.items() if path.exists()}


def student_settings(preset: ModelSettings, teacher: ModelSettings) -> ModelSettings:
    """A preset with the teacher's number of heads, and with widths in proportion to those of the teacher.

    The preset's own are those beside a teacher of the size of `base`. d_model is a multiple of the heads.
    """
    scale, heads = teacher.d_model / ModelSettings.d_model, teacher.heads

    def scaled(width: int, multiple: int = 1) -> int:
        return multiple * max(1, round(width * scale / multiple))

    return replace(
        preset,
        heads=heads,
        d_model=scaled(preset.d_model, heads),
        d_ff=scaled(preset.d_ff),
        decoder_d_ff=preset.decoder_d_ff and scaled(preset.decoder_d_ff),
    )


def shallow_settings(teacher: ModelSettings) -> ModelSettings:
    """The teacher's settings with one decoder layer.

    Raises `DragomanError` for a teacher whose decoder layers cannot be left out.
    """
    if teacher.decoder_layers == 1 or not can_leave_out_layers(teacher):
        raise OptionError(
            f"A shallow student leaves out decoder layers, and this teacher ({teacher.architecture}, "
            f"{counted(teacher.decoder_layers, 'decoder layer')}) has none that can be left out; choose "
            "{preset} student."
        )
    return with_guided_head(replace(teacher, decoder_layers=1), teacher)


def report_teacher_scores(teacher: Path, recipe: Recipe) -> None:
    """Report the teacher's scores on the test pairs, if these are the student's too."""
    result = teacher / "result.json"
    if recipe.data.test_source == teacher / "data" / "test.source.txt" and result.exists():
        for score in read_run_result(teacher).test:
            logger.info(f"The teacher's test: {score.name} = {score.value:.2f}")
