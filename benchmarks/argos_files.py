"""argos-translate-files, with which LibreTranslate translates documents, in an environment of its own.

    python -m venv argos
    argos/bin/pip install --no-deps argos-translate-files argos-translate-lt beautifulsoup4==4.9.3 \
        soupsieve lxml pysrt chardet pymupdf packaging
    argos/bin/python benchmarks/argos_files.py en de

benchmarks/documents.py starts it. It needs neither Dragoman nor a model: each line of its input names a
file, each line of its output is a text of that file, and the next line of its input is the translation. Where
a file has been written, a line says how many seconds of the processor that took here. All lines are JSON. If
the same file follows again, its texts are known, so that the time is that of the work on the file alone.
"""

import json
import sys
import time
from types import ModuleType

ENGINES = {
    "ctranslate2": ("Translator",),
    "sentencepiece": ("SentencePieceProcessor",),
    "minisbd": ("SBDetect", "models"),
}
"""What Argos Translate imports for engines that are not used here."""

for name, attributes in ENGINES.items():
    sys.modules[name] = ModuleType(name)
    for attribute in attributes:
        setattr(sys.modules[name], attribute, type(attribute, (), {}))

from argostranslate.translate import Hypothesis, ITranslation, Language  # noqa: E402
from argostranslatefiles import argostranslatefiles  # noqa: E402


class RemoteTranslation(ITranslation):
    """A translation by the process that reads this one's output."""

    def __init__(self, source: str, target: str) -> None:
        self.from_lang, self.to_lang = Language(source, source), Language(target, target)
        self.translations: dict[str, str] = {}

    def hypotheses(self, input_text: str, num_hypotheses: int = 4) -> list[Hypothesis]:
        """The translation line by line, as Argos Translate's engine makes it; blank lines stay out of it."""
        lines = [self.line(line) if line.strip() else "" for line in self.split_into_paragraphs(input_text)]
        return [Hypothesis(self.combine_paragraphs(lines).lstrip("\n"), 0.0)] * num_hypotheses

    def line(self, text: str) -> str:
        """The translation of a line."""
        if text not in self.translations:
            write_line(text)
            self.translations[text] = json.loads(sys.stdin.readline())
        return self.translations[text]


def write_line(value: str | float) -> None:
    """Write a line of JSON."""
    print(json.dumps(value), flush=True)


def main() -> None:
    """Translate files until the input ends."""
    translation = RemoteTranslation(*sys.argv[1:3])
    path = ""
    while line := sys.stdin.readline():
        if line != path:
            translation.translations.clear()
        path = line
        start = time.process_time()
        argostranslatefiles.translate_file(translation, json.loads(path))
        write_line(time.process_time() - start)


if __name__ == "__main__":
    main()
