"""`dragoman translate`: standard input to standard output, or a file to a file."""

import dataclasses
import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.cli.console import say, warn
from dragoman.cli.languages import TargetLanguage, warn_of_document, warn_of_files, warn_of_language
from dragoman.cli.parsing import Arguments, Command, refuse_missing_folder, refuse_replacing, settings_from
from dragoman.documents.formats import DocumentFormat
from dragoman.native.build import DECODER, WITHOUT_COMPILER, start_compiling
from dragoman.native.settings import SHORTLIST_NEEDS_NATIVE, EngineSettings
from dragoman.search.contradictions import refuse_more_than_a_beam, refuse_n_best
from dragoman.search.settings import SearchSettings
from dragoman.system.device import has_gpu
from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.machine import configure_allocator
from dragoman.system.options import Excludes, Needs, check_options, option
from dragoman.system.torchrun import process_count, process_rank
from dragoman.system.wording import counted, shown
from dragoman.text.lines import STANDARD_INPUT, decode_line, raw_lines, standard_input_lines
from dragoman.text.settings import UNKNOWN_LANGUAGE, Languages
from dragoman.translation.glossary import Glossary, Term
from dragoman.translation.tags import remove_tags

if TYPE_CHECKING:
    from dragoman.documents.document import Segment
    from dragoman.documents.file import DocumentFile
    from dragoman.translation.analysis import Alternative
    from dragoman.translation.translation import Translation
    from dragoman.translation.translator import Translator

MANY_SENTENCES = 100  # from which on it matters how fast they are translated
MAX_ALTERNATIVES = 100  # at each position; each takes a beam search
BEYOND_A_LINE = Needs("json", "does not fit into a line of plain text")


@dataclass(frozen=True)
class Translate:
    """Translate standard input to standard output, or a file to a file, line by line."""

    run: Path
    """The run's folder, or the folder `model` in it."""
    ensemble: tuple[Path, ...] = ()
    """Other runs with the same vocabulary, whose probabilities are averaged with this one's."""
    search: SearchSettings = field(default_factory=SearchSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    into: TargetLanguage = field(default_factory=TargetLanguage)
    input: Path | None = None
    """Translate this file instead of standard input. With `--output`, the same command resumes after an
    interruption, and torchrun shares the work among processes."""
    output: Path | None = None
    """Write to this file, which appears when it is complete. FILE.json beside it lists the models and
    settings that made it, unless it is a document."""
    document: Path | None = option(
        None, Excludes(("input", "json", "stream"), "a document has one translation as a whole")
    )
    """Translate a document instead: an office file (.docx, .odt, .pptx, …), a book (.epub), subtitles (.srt,
    .vtt), texts of programs (.po, .xliff, .json, …), Markdown, HTML, XML or plain text. All that is no text
    stays as it is. The translation of an office file or book is written beside it (report.de.docx), unless
    `--output` names a file."""
    format: DocumentFormat | None = option(None, Needs("document"))
    """The document's format. None is what the end of its name says."""
    encoding: str | None = option(None, Needs("document"))
    """The document's encoding, such as cp1252; its translation has the same. None is UTF-8, or what a byte
    order mark says."""
    translate_all: bool = option(False, Needs("document"))
    """Also translate what the document has a translation of: those in a .po file, for example."""
    glossary: tuple[Path, ...] = option(
        (), Excludes(("stream", "trace", "alternatives"), "these show a search without terms")
    )
    """Files of terms that translations use: tables of two columns (.tsv, .csv), or .tbx. Inflected words are
    found, and the model inflects the translations, in languages that simplemma knows (pip install
    'dragoman[terms]'). The first file decides where several have a term."""
    json: bool = False
    """Write one JSON object per line, with the n best translations and their scores."""
    trace: bool = option(False, BEYOND_A_LINE)
    """Add every hypothesis of the search to each object: its token, parent, log-probability and why it
    ended. Needs `--json`."""
    alternatives: int = option(
        0,
        BEYOND_A_LINE,
        Excludes(("trace",), "alternatives replace the translations"),
        at_least=0,
        at_most=MAX_ALTERNATIVES,
    )
    """Write this many of the likeliest tokens after the prefix instead of translations, each with its best
    continuation. Needs `--json`."""
    stream: bool = option(
        False,
        Excludes(
            ("json", "trace", "alternatives", "output"),
            "a stream is one plain translation for each line, on standard output",
        ),
    )
    """Write each translation piece by piece, as soon as all hypotheses of the beam begin with it."""

    def __post_init__(self) -> None:
        check_options(self)


def translate(arguments: Arguments) -> None:
    """Translate standard input to standard output, or a file to a file."""
    settings = settings_from(Translate, arguments)
    settings.search.refuse_contradictions(arguments)
    if settings.engine.native:
        start_compiling(DECODER)  # in the background, while other things are read
    refuse_contradictions(settings)
    processes = process_count()
    if processes > 1 and settings.output is None:
        raise DragomanError(
            f"{processes} processes would each translate the same text; give --input and --output, which "
            "they share."
        )
    configure_allocator()
    # PyTorch traces.
    engine = dataclasses.replace(settings.engine, native=False) if settings.trace else settings.engine
    translator = load((settings.run, *settings.ensemble), engine, settings.into.code)
    job = TranslationJob(translator, settings)
    if settings.input is not None:
        warn_of_files(settings.run, job.translator.languages, [settings.input])
    try:
        if settings.document is not None:
            document_to_output(job, settings.document, settings.output)
        elif settings.input is not None and settings.output is not None:
            to_file(job, settings.input, settings.output, processes)
        else:
            lines = standard_input_lines() if settings.input is None else raw_lines(settings.input)
            to_standard_output(job, lines)
    finally:
        job.say_unusual()


def read_glossary(paths: Sequence[Path], languages: Languages) -> Glossary | None:
    """The terms of files; None without files. Raises `DragomanError` as `read_terms`."""
    if not paths:
        return None
    from dragoman.documents.terms import read_terms

    terms = [term for path in paths for term in read_terms(path, languages)]
    if not terms:
        raise DragomanError(
            f"{' and '.join(map(str, paths))} has no terms from {languages.source} to {languages.target}; "
            "give another glossary."
        )
    glossary = Glossary(terms, languages)
    first_terms = set(map(id, glossary.terms))
    if repeated := [term for term in terms if id(term) not in first_terms]:
        warn(
            f"The glossary has {counted(len(repeated), 'term')} again, and the first translation counts. The "
            f"first of these is {repeated[0].source!r} with {repeated[0].target!r}."
        )
    return glossary


def load(runs: Sequence[Path], engine: EngineSettings, target_language: str = "") -> "Translator":
    """The translator of the runs into a language, "" for the only one.

    It is on the GPU of this process if torchrun has started several. Raises `DragomanError` as
    `Translator.load` and `Translator.into`.
    """
    from dragoman.translation.translator import Translator

    rank = None if engine.needs_cpu or engine.device else os.environ.get("LOCAL_RANK")
    device = engine.device if rank is None or not has_gpu() else f"cuda:{rank}"
    translator = Translator.load(
        *runs,
        device=device,
        precision=engine.precision,
        workers=engine.workers,
        native=engine.native,
        shortlist=engine.shortlist,
        cuda_graphs=engine.cuda_graphs,
    )
    return translator.into(target_language)


def refuse_contradictions(settings: Translate) -> None:
    """Raise `DragomanError` for options of the search and of files that contradict the others."""
    from dragoman.documents.file import codec_name

    search, out = settings.search, settings.output
    features = {
        "stream": settings.stream,
        "trace": settings.trace,
        "list of alternatives": settings.alternatives,
    }
    for feature in (name for name, is_asked in features.items() if is_asked):
        refuse_more_than_a_beam(search, feature)
        if settings.engine.shortlist is not None:
            raise OptionError(f"A {feature} needs all tokens; leave {{shortlist}} out.")
    if settings.engine.shortlist is not None and not search.is_standard_beam_search:
        raise OptionError(SHORTLIST_NEEDS_NATIVE)
    if search.n_best > 1 and not search.mbr:
        if settings.stream or settings.alternatives or settings.document is not None:
            refuse_n_best(search, "output for each text")
        if not settings.json:
            raise OptionError(
                f"{{n_best}} {search.n_best} needs {{json}}: plain output has a line for each line of input."
            )
    if settings.encoding is not None:
        codec_name(settings.encoding)
    if out is not None and settings.input is None and settings.document is None:
        raise OptionError(
            "{output} needs {input}: only a file can be resumed. Without {input} redirect the output: > FILE."
        )
    if out is not None:
        refuse_output(out, settings.input, settings.document)
        if settings.document is not None:
            refuse_missing_folder("--output", out)


def refuse_output(out: Path, text: Path | None, document: Path | None) -> None:
    """Raise `DragomanError` for an output that is the input, or that the translation of a text cannot be."""
    refuse_replacing("--output", out, *filter(None, (text, document)))
    if document is not None and out.is_file() and not is_complete_document(out):
        raise DragomanError(f"--output {out} exists; delete it, or choose another name.")
    if text is not None and out.exists() and not out.is_file():
        raise DragomanError(
            f"--output {out} is not a regular file, and the translation of a file is written to one, to be "
            "resumed. Leave --output out, and redirect the output: > FILE."
        )


# ---- output


class TranslationJob:
    """Translates numbered lines as the options ask, and counts those that the model may not know.

    They are longer than any of training, or have several sentences.
    """

    def __init__(self, translator: "Translator", settings: Translate) -> None:
        self.translator, self.settings = translator, settings
        self.place = settings.input or STANDARD_INPUT
        """Where the lines come from, for errors."""
        self.long: Counter[SearchSettings] = Counter()
        self.sentences = 0
        self.lines = self.whole_texts = 0
        """Lines that were translated, and those of them that are translated whole with several sentences."""
        self.glossary = read_glossary(settings.glossary, translator.languages)
        self.terms = 0
        """The glossary's terms in sentences that were translated."""
        self.unused: list[tuple[Term, str]] = []
        """Those of them that are not in the translations, with their sentences."""

    def translate_sentences(self, sentences: Sequence[str], search: SearchSettings) -> list[str]:
        """The translations of sentences, whose terms are counted."""
        translations = self.translator.translate(sentences, search, self.glossary)
        self.count_terms(sentences, translations)
        return translations

    def count_terms(self, sentences: Sequence[str], translations: Sequence[str]) -> None:
        """Count the glossary's terms, and those that the translations do not use."""
        if self.glossary is not None:
            for sentence, translation in zip(sentences, translations, strict=True):
                text = remove_tags(sentence)[0]
                self.terms += len({match.term for match in self.glossary.find(text)})
                unused = self.glossary.unused(text, remove_tags(translation)[0])
                self.unused += [(term, text) for term in unused]

    def count_long(self, sentences: Sequence[str], settings: SearchSettings) -> None:
        """Count those sentences that are translated with these settings and longer than any of training."""
        self.sentences += len(sentences)
        if self.sentences >= MANY_SENTENCES > self.sentences - len(sentences) and self.lacks_compiler:
            say(WITHOUT_COMPILER)
        self.long[settings] += self.translator.count_long_sentences(sentences, settings)

    @property
    def lacks_compiler(self) -> bool:
        """Whether C++ would search, if there were a compiler."""
        from dragoman.translation.model_folder import model_folder, read_settings

        (folder, *others), engine = self.translator.folders, self.translator.engine_settings
        model = read_settings(model_folder(folder))
        is_supported = model.architecture == "transformer" and not model.variants and not others
        is_native = engine.native and engine.chosen_device == "cpu" and is_supported
        return is_native and self.settings.search.is_standard_beam_search and start_compiling(DECODER) is None

    def decode(self, block: list[tuple[int, bytes]]) -> list[str]:
        """The texts of numbered lines, which are counted. Raises `DragomanError` as `decode_line`."""
        lines = [decode_line(raw, self.place, number) for number, raw in block]
        self.count_long(lines, self.settings.search)
        self.lines += len(lines)
        is_uncut = bool(self.settings.alternatives or self.settings.trace)
        self.whole_texts += self.translator.count_whole_texts(lines, self.settings.search, is_uncut)
        return lines

    def translate(self, block: list[tuple[int, bytes]]) -> list[str]:
        """A line of output for each numbered line of input. Raises `DragomanError` as `decode`."""
        settings, translator = self.settings, self.translator
        lines = self.decode(block)
        if settings.alternatives:
            alternatives = [
                translator.alternatives(line, settings.alternatives, settings.search) for line in lines
            ]
            return [
                as_json(line, "alternatives", candidates)
                for line, candidates in zip(lines, alternatives, strict=True)
            ]
        search = dataclasses.replace(settings.search, split=0)  # the search whose hypotheses the trace has
        n_best = translator.n_best(lines, search if settings.trace else settings.search, self.glossary)
        self.count_terms(lines, [best[0].text for best in n_best])
        if not settings.json:
            return [best[0].text for best in n_best]
        traces = [self.trace(line) if settings.trace else {} for line in lines]
        records = zip(lines, n_best, traces, strict=True)
        return [as_json(line, "translations", best, about) for line, best, about in records]

    def trace(self, line: str) -> dict[str, object]:
        """Every hypothesis of the search."""
        return {"trace": list(map(dataclasses.asdict, self.translator.trace(line, self.settings.search)))}

    def stream(self, number: int, raw: bytes) -> Iterator[str]:
        """The translation of a line, piece by piece. Raises `DragomanError` as `decode`."""
        (line,) = self.decode([(number, raw)])
        return self.translator.stream(line, self.settings.search)

    def say_unusual(self) -> None:
        """Say how many lines were longer than any of training, and how many had several sentences."""
        from dragoman.translation.cut_text import whole_texts_message
        from dragoman.translation.segmentation import long_translation_message

        is_one_by_one = self.settings.stream or self.settings.alternatives or self.settings.trace
        for settings, count in self.long.items():
            search = dataclasses.replace(settings, split=0) if is_one_by_one else settings
            if count:
                warn(COMMAND.told(long_translation_message(count, self.translator, search)))
        if self.whole_texts:
            warn(whole_texts_message(self.whole_texts, self.lines))
        if self.unused:
            (term, sentence), *_ = self.unused
            warn(
                f"{len(self.unused):,} of {counted(self.terms, 'term')} of the glossary are not used. The "
                f"first is {term.source!r}, which should be {term.target!r}, in {shown(sentence)}."
            )


def as_json(
    line: str,
    name: str,
    outputs: "Sequence[Translation | Alternative]",
    more: Mapping[str, object] | None = None,
) -> str:
    """A line of JSON: the source, what was found for it, and more."""
    record = {"source": line, name: list(map(dataclasses.asdict, outputs)), **(more or {})}
    return json.dumps(record, ensure_ascii=False)


def to_standard_output(job: TranslationJob, lines: Iterator[bytes]) -> None:
    """Translate lines in blocks; from a terminal, and as a stream, one by one."""
    from dragoman.translation.files import BLOCK

    numbered = enumerate(lines, 1)
    if job.settings.stream:
        for number, raw in numbered:
            for part in chain(job.stream(number, raw), "\n"):
                sys.stdout.buffer.write(part.encode("utf-8", "replace"))
                sys.stdout.buffer.flush()
        return
    at_terminal = job.settings.input is None and sys.stdin.isatty()
    if at_terminal:
        say("Type a sentence and press Enter; Ctrl-D ends.")
    size = 1 if at_terminal else BLOCK
    while block := list(islice(numbered, size)):
        for line in job.translate(block):
            sys.stdout.buffer.write(line.encode("utf-8", "replace") + b"\n")
        sys.stdout.buffer.flush()


def document_to_output(job: TranslationJob, path: Path, out: Path | None) -> None:
    """Translate a document to a file, which appears when it is complete, or to standard output.

    An office file or a book gets a file in any case: report.docx becomes report.de.docx. Raises
    `DragomanError` as `format_of_name` and `read_file`, and if that file exists.
    """
    from dragoman.documents.formats import ARCHIVES, format_of_name
    from dragoman.system.files import atomic_write
    from dragoman.translation.document_blocks import kept_blocks, parts_of, remove
    from dragoman.translation.files import RECORD, read_record

    languages = job.translator.languages
    file_format = job.settings.format or format_of_name(path, languages)
    if out is None and file_format in ARCHIVES:
        code = languages.target if languages.target != UNKNOWN_LANGUAGE else "translated"
        out = path.with_name(f"{path.stem}.{code}{path.suffix}")
        if out.exists() and not is_complete_document(out):
            raise DragomanError(f"{out} exists; delete it, or name another file with --output.")
    document = read_document(job, path, file_format)
    if out is None:
        sys.stdout.buffer.write(translate_document(job, document))
        return
    sentences = [segment.sentence for segment in document.segments]
    digest = hashlib.sha256(json.dumps(sentences).encode()).hexdigest()
    about = about_translations(job) | {"sentences": digest}
    if out.is_file():  # a process was killed behind the last block
        if read_record(parts_of(out) / RECORD) != json.loads(json.dumps(about)):
            raise DragomanError(
                f"{out} exists and was made with something else; delete it, or choose another name."
            )
        remove(parts_of(out))
        say(f"{out} is complete already; nothing was translated.")
        return
    with kept_blocks(out, about) as parts:
        translated = translate_document(job, document, parts)
        with atomic_write(out) as new:
            new.write_bytes(translated)
    if job.settings.output is None:
        say(f"The translation is {out}.")


def read_document(job: TranslationJob, path: Path, file_format: DocumentFormat) -> "DocumentFile":
    """A document in a format, with warnings of other languages and of tags. Raises as `read_file`."""
    from dragoman.documents.file import EncodedFile, EncodingError, Reading
    from dragoman.documents.formats import ENDINGS
    from dragoman.documents.read import read_file
    from dragoman.documents.strings import DeclaringFile

    settings, languages = job.settings, job.translator.languages
    reading = Reading(
        str(path),
        languages.source,
        languages.target,
        everything=settings.translate_all,
        encoding=settings.encoding,
    )
    try:
        document = read_file(path, file_format, reading)
    except EncodingError as error:
        if settings.encoding is not None:
            raise
        raise DragomanError(f"{error} Or name its encoding with --encoding, such as cp1252.") from error
    warn_of_document(settings.run, languages, path, document.language, ENDINGS)
    decoded = document.document if isinstance(document, EncodedFile) else document
    if isinstance(decoded, DeclaringFile) and decoded.translated_into:
        into = decoded.translated_into
        statement = f"{path} is for translations into {into} by its own declaration"
        warn_of_language(settings.run, languages, statement, into, languages.target)
    if file_format == "text" and not settings.search.keep_tags:
        warn_of_tags(path, document.segments)
    return document


def translate_document(job: TranslationJob, document: "DocumentFile", parts: Path | None = None) -> bytes:
    """The translation of a document. Blocks of sentences in a folder `parts` are not translated again."""
    from dragoman.documents.document import split_by_marks
    from dragoman.translation.document_blocks import BLOCK, translate_blocks

    segments = document.segments
    marked = dataclasses.replace(job.settings.search, keep_tags=True, split=None)  # tags need whole sentences

    def translate(block: Sequence[int]) -> list[str]:
        search = marked if segments[block[0]].marks else job.settings.search
        sentences = [segments[number].sentence for number in block]
        job.count_long(sentences, search)
        return job.translate_sentences(sentences, search)

    groups = split_by_marks(segments)
    blocks = [group[start : start + BLOCK] for group in groups for start in range(0, len(group), BLOCK)]
    translations = translate_blocks(blocks, translate, parts)
    if empty := sum(segments[number].is_empty(text) for number, text in translations.items()):
        say(f"The translation of {counted(empty, 'sentence')} is empty; the source is written instead.")
    return document.write([translations[number] for number in range(len(segments))])


def warn_of_tags(path: Path, segments: "Sequence[Segment]") -> None:
    """Warn of tags in plain text, which are not kept."""
    from dragoman.translation.tags import TAG

    for segment in segments:
        if not segment.marks and (tag := TAG.search(segment.sentence)):
            warn(f"{path} is read as plain text; tags such as {tag[0]} may be lost. --keep-tags keeps them.")
            return


def is_complete_document(out: Path) -> bool:
    """Whether the translation of a document is complete, and the folder of its blocks was not removed."""
    from dragoman.translation.document_blocks import is_of_document, parts_of

    return out.is_file() and is_of_document(parts_of(out))


def to_file(job: TranslationJob, source: Path, out: Path, processes: int) -> bool:
    """Translate this process's part of a file, or the rest of it. Returns whether all parts are complete."""
    from dragoman.translation.files import translate_file

    rank = process_rank()
    return translate_file(source, out, about_translations(job), job.translate, rank, processes)


def about_translations(job: TranslationJob) -> dict[str, object]:
    """What translations depend on besides the text."""
    from dragoman.system.files import file_hash
    from dragoman.translation.model_folder import model_hash

    settings, engine = job.settings, job.settings.engine
    search = job.translator.prepare([], settings.search).settings  # raises for words that cannot be written
    search_values = dataclasses.asdict(search) | {"max_extra_tokens": search.extra_tokens}
    del search_values["batch_tokens"]
    into = {"target_language": job.translator.languages.target} if job.translator.symbol else {}
    return {
        **into,
        "models": list(map(model_hash, (settings.run, *settings.ensemble))),
        "search": search_values,
        "precision": engine.precision,
        "native": engine.native,
        "shortlist": None if engine.shortlist is None else file_hash(engine.shortlist),
        "glossary": list(map(file_hash, settings.glossary)),
        "json": settings.json,
        "trace": settings.trace,
        "alternatives": settings.alternatives,
    }


COMMAND = Command(
    "translate",
    "Translate standard input to standard output, or a file to a file.",
    translate,
    Translate,
    example="dragoman translate runs/ende < test.en > test.de",
    groups={
        "text": (
            "run",
            "target_language",
            "input",
            "output",
            "document",
            "format",
            "encoding",
            "translate_all",
            "glossary",
            "json",
        ),
        "search": (
            "beam_size",
            "n_best",
            "length_penalty",
            "max_length",
            "prefix",
            "ban_words",
            "force_words",
            "temperature",
        ),
        "speed": ("precision", "workers", "device"),
    },
    metavars={
        "run": "RUN",
        "target_language": "CODE",
        "ensemble": "RUN",
        "glossary": "FILE",
        "encoding": "NAME",
    },
    notes="A pipe is read in blocks of 2,000 lines, a terminal line by line. Input may be gzip.",
)
