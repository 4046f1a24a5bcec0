"""Documents: how fast they are translated beside plain lines, and what becomes of words in bold type.

    python benchmarks/documents.py runs/en-de --source test2016.en --reference test2016.de \
        --argos argos/bin/python

All formats have the same sentences, one a paragraph, cue or string. Measured for each of them:

- words a second of one core, beside those of the sentences as lines, which each round translates too;
- the seconds that reading and writing take without the search.

Then a word of each sentence is in bold type. BLEU is that of the texts without it; a word "lands" if what is
bold in the translation are its translations alone (planted_tags.py). `--argos` measures argos-translate-files
(argos_files.py) beside it, which is given the same model's translations.
"""

import argparse
import json
import random
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

from document_files import read_sentences, write_document
from passport import asked, keep, passport
from planted_tags import Planted, lands, planted_words, with_tag
from sacrebleu import corpus_bleu

from dragoman import Translator
from dragoman.documents.document import split_by_marks
from dragoman.documents.file import Reading
from dragoman.documents.formats import DocumentFormat
from dragoman.documents.read import READERS
from dragoman.search.settings import SearchSettings

RESULTS = Path(__file__).parent / "results"
ENDINGS: dict[DocumentFormat, str] = {
    "html": ".html",
    "docx": ".docx",
    "pptx": ".pptx",
    "odf": ".odt",
    "epub": ".epub",
    "srt": ".srt",
}
"""The formats that argos-translate-files has too."""
ROUNDS = 3
SIMPLE = re.compile("[A-Z][A-Za-z ,-]+[.]")
"""A sentence that no format has to escape, and that is one sentence everywhere."""


class Argos:
    """argos-translate-files in a process of its own."""

    def __init__(self, python: Path, translator: Translator, folder: str) -> None:
        self.translator, self.folder = translator, folder
        program = Path(__file__).with_name("argos_files.py")
        self.process = subprocess.Popen(
            [str(python), str(program), "en", "de"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def translate(self, content: bytes, ending: str) -> tuple[bytes, float]:
        """A file's translation, and the seconds of the processor that both processes took for it."""
        path = Path(self.folder, f"document{ending}")
        path.write_bytes(content)
        start = time.process_time()
        answer = self.ask(str(path))
        while isinstance(answer, str):
            answer = self.ask(self.translator.translate([answer])[0])
        return path.with_stem("document_de").read_bytes(), answer + time.process_time() - start

    def ask(self, line: str) -> str | float:
        """The next text to translate, or the seconds that the file took."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        answer: str | float = json.loads(self.process.stdout.readline())
        return answer


def translate_document(translator: Translator, content: bytes, file_format: DocumentFormat) -> bytes:
    """A file's translation, as `dragoman translate --document` makes it."""
    document = READERS[file_format](content, Reading("document", "en", "de"))
    settings = SearchSettings()
    searches = settings, replace(settings, keep_tags=True, split=None)
    translations: dict[int, str] = {}
    for numbers, search in zip(split_by_marks(document.segments), searches, strict=True):
        sentences = [document.segments[number].sentence for number in numbers]
        translations |= dict(zip(numbers, translator.translate(sentences, search), strict=True))
    return document.write([translations[number] for number in range(len(document.segments))])


def rewrite_document(content: bytes, file_format: DocumentFormat) -> bytes:
    """A file read, and written with other texts."""
    document = READERS[file_format](content, Reading("document", "en", "de"))
    return document.write([segment.sentence + "!" for segment in document.segments])


def timed(work: Callable[[], object]) -> float:
    """Seconds of the processor, which count on a busy machine too."""
    start = time.process_time()
    work()
    return time.process_time() - start


def measure_speed(translator: Translator, argos: Argos | None, lines: Sequence[str]) -> dict[str, Any]:
    """Words a second and seconds of work on the file, for each format."""
    words = sum(len(line.split()) for line in lines)
    table: dict[str, Any] = {}
    for file_format in get_args(DocumentFormat):
        content = write_document(lines, file_format)
        search = partial(translator.translate, lines)
        whole = partial(translate_document, translator, content, file_format)
        rounds = [(timed(search), timed(whole)) for _ in range(ROUNDS)]
        plain, document = (min(seconds) for seconds in zip(*rounds, strict=True))
        file_work = min(timed(partial(rewrite_document, content, file_format)) for _ in range(ROUNDS))
        table[file_format] = {
            "words a second": round(words / document),
            "beside lines": round(plain / document, 3),
            "file work": round(file_work, 4),
        }
        if argos is not None and file_format in ENDINGS:
            first, *others = (argos.translate(content, ENDINGS[file_format])[1] for _ in range(ROUNDS + 1))
            table[file_format] |= {
                "argos, words a second": round(words / first),
                "argos, file work": round(min(others), 4),
            }
        print(file_format, table[file_format])
    return {"sentences": len(lines), "words": words, "formats": table}


def measure_bold(
    translator: Translator, argos: Argos | None, rows: Sequence[tuple[Planted, str, str]]
) -> dict[str, Any]:
    """BLEU and landed words of documents with a word in bold type in each sentence."""
    planted, sources, references = map(list, zip(*rows, strict=True))
    tagged = [with_tag(word, source) for word, source in zip(planted, sources, strict=True)]
    lines = translator.translate(sources)
    table: dict[str, Any] = {"lines": {"bleu": round(corpus_bleu(lines, [references]).score, 2)}}
    for file_format, ending in ENDINGS.items():
        content = write_document(tagged, file_format)
        outputs = {"dragoman": translate_document(translator, content, file_format)}
        if argos is not None:
            outputs["argos"] = argos.translate(content, ending)[0]
        for name, output in outputs.items():
            texts = read_sentences(output, file_format)
            whole = [re.sub("</?b>", "", text) for text in texts]
            table[f"{file_format}, {name}"] = {
                "bleu": round(corpus_bleu(whole, [references]).score, 2),
                "same as lines": percent([one == other for one, other in zip(whole, lines, strict=True)]),
                "lands": percent([lands(*pair)[0] for pair in zip(planted, texts, strict=True)]),
                "bytes": round(len(output) / len(content), 2),
            }
            print(file_format, name, table[f"{file_format}, {name}"])
    return {"sentences": len(rows), "ways": table}


def percent(outcomes: Sequence[bool]) -> float:
    """How many are true."""
    return round(100 * sum(outcomes) / len(outcomes), 1)


def main() -> None:
    """Print a table and save it with its passport."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--argos", type=Path, help="The Python of argos-translate-files")
    parser.add_argument("--count", type=int, default=100, help="Sentences of the documents that are timed")
    parser.add_argument("--bold", type=int, default=150, help="Sentences with a word in bold type, at most")
    arguments = parser.parse_args()
    translator = Translator.load(arguments.run, workers=1)
    sources = arguments.source.read_text().splitlines()
    references = arguments.reference.read_text().splitlines()
    simple = [number for number, source in enumerate(sources) if SIMPLE.fullmatch(source)]
    random.Random(1).shuffle(simple)  # noqa: S311  a sample, the same each time
    words = {planted.line: planted for planted in planted_words(sources)}
    rows = [(words[number], sources[number], references[number]) for number in simple if number in words]
    translator.translate(sources[:100])  # the first search compiles
    with tempfile.TemporaryDirectory() as folder:
        argos = None if arguments.argos is None else Argos(arguments.argos, translator, folder)
        results = {
            "speed": measure_speed(
                translator, argos, [sources[number] for number in simple[: arguments.count]]
            ),
            "bold": measure_bold(translator, argos, rows[: arguments.bold]),
        }
    command = asked("documents.py", arguments, "run", "argos")
    keep(passport(command) | {"results": results}, RESULTS, "documents")


if __name__ == "__main__":
    main()
