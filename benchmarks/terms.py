"""Terms in translations from English to German: are they used, and how good is the rest of the sentence?

    python benchmarks/terms.py runs/en-de --source valid.en --reference valid.de

Each sentence has one or more English nouns whose translation is exactly once in its reference. The glossary
translates them by other German nouns of the same gender, and so do the references. Four ways are compared:

- the translation without a glossary;
- search and replace in it, which knows the model's own word and is not possible for a glossary in general;
- the glossary. A model that was trained with `--terms` reads it in the source; another one is forced;
- the glossary forced, for a model that was trained with `--terms`.

"Doubled" counts terms in whose translation the model's own word stands too.
"""

import argparse
import random
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from passport import asked, keep, passport
from sacrebleu import corpus_bleu

from dragoman import Translator
from dragoman.text.settings import Languages
from dragoman.translation.glossary import Glossary, Match, Term, words_of

NOUNS = """
dog:Hund:Köter shirt:Hemd:Oberteil street:Straße:Gasse water:Wasser:Nass bike:Fahrrad:Rennrad
bicycle:Fahrrad:Rennrad beach:Strand:Uferstreifen car:Auto:Fahrzeug guitar:Gitarre:Laute horse:Pferd:Ross
hat:Hut:Filzhut table:Tisch:Schreibtisch field:Feld:Terrain man:Mann:Herr woman:Frau:Dame ball:Ball:Fußball
grass:Gras:Heu girl:Mädchen:Weibchen building:Gebäude:Bauwerk room:Zimmer:Gemach snow:Schnee:Pulverschnee
wall:Wand:Mauer sidewalk:Gehweg:Bürgersteig mountain:Berg:Hügel
"""
NOUN_OF = {
    english: (german, other) for english, german, other in (entry.split(":") for entry in NOUNS.split())
}
LANGUAGES = Languages("en", "de")
WAYS = ("without a glossary", "search and replace", "glossary", "glossary, forced")
RESULTS = Path(__file__).parent / "results"


class OneForm(Glossary):
    """A glossary whose targets are not inflected: the references have one form."""

    def forms(self, term: Term) -> list[str]:
        """The target alone."""
        return [term.target]


def with_other_nouns(
    sources: Sequence[str], references: Sequence[str], glossary: Glossary, nouns: range
) -> list[tuple[str, str, list[str]]]:
    """Sentences with so many of the nouns, their references with the other nouns, and the nouns."""
    chosen = []
    for source, reference in zip(sources, references, strict=True):
        matches: list[Match] = glossary.find(source)
        found = [match.term.source for match in matches]
        words = re.findall(r"\w+", source.lower())
        german = [NOUN_OF[noun][0] for noun in found]
        once = all(re.findall(r"\w+", reference).count(word) == 1 for word in german)
        if len(found) in nouns and len(set(german)) == len(found) and once and set(found) <= set(words):
            chosen.append((source, replaced(reference, found), found))
    return chosen


def replaced(text: str, nouns: Sequence[str]) -> str:
    """A German text with the other nouns."""
    for noun in nouns:
        german, other = NOUN_OF[noun]
        text = re.sub(rf"\b{german}\b", other, text)
    return text


def measure(
    translator: Translator, forced: Translator | None, texts: argparse.Namespace, nouns: range
) -> dict[str, Any]:
    """BLEU, terms used and doubled in percent, and speed beside translation without a glossary."""
    glossary = OneForm((Term(noun, other) for noun, (_, other) in NOUN_OF.items()), LANGUAGES)
    rows = with_other_nouns(texts.sources, texts.references, glossary, nouns)
    random.Random(1).shuffle(rows)  # noqa: S311  a sample, the same each time
    rows = rows[: texts.count]
    sources, references, found = map(list, zip(*rows, strict=True))
    plain, seconds = timed(translator, sources, None)
    ways = {
        "without a glossary": (plain, seconds),
        "search and replace": (list(map(replaced, plain, found)), seconds),
        "glossary": timed(translator, sources, glossary),
    }
    if forced is not None:
        ways["glossary, forced"] = timed(forced, sources, glossary)
    count = sum(map(len, found))
    table = {}
    for name, (translations, duration) in ways.items():
        words = [words_of(text) for text in translations]
        pairs = [
            (*NOUN_OF[noun], text) for matched, text in zip(found, words, strict=True) for noun in matched
        ]
        used = sum(other in text for _, other, text in pairs)
        doubled = sum(other in text and german in text for german, other, text in pairs)
        table[name] = {
            "bleu": round(corpus_bleu(translations, [references]).score, 2),
            "used": round(100 * used / count, 1),
            "doubled": round(100 * doubled / count, 1),
            "speed": round(seconds / duration, 2),
        }
    return {"sentences": len(rows), "terms": count} | table


def timed(
    translator: Translator, sources: Sequence[str], glossary: Glossary | None
) -> tuple[list[str], float]:
    """Translations, and the seconds of the fastest of three times."""
    durations = []
    for _ in range(3):
        start = time.perf_counter()
        translations = translator.translate(sources, None, glossary)
        durations.append(time.perf_counter() - start)
    return translations, min(durations)


def main() -> None:
    """Print a table and save it with its passport."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--count", type=int, default=400, help="Sentences of each kind, at most")
    parser.add_argument("--workers", type=int, default=1, help="Threads that translate")
    arguments = parser.parse_args()
    translator = Translator.load(arguments.run, workers=arguments.workers)
    forced = None
    if translator.knows_terms:
        forced = Translator.load(arguments.run, workers=arguments.workers)
        forced.knows_terms = False
    texts = argparse.Namespace(
        sources=arguments.source.read_text().splitlines(),
        references=arguments.reference.read_text().splitlines(),
        count=arguments.count,
    )
    results = {
        "one term": measure(translator, forced, texts, range(1, 2)),
        "two and more": measure(translator, forced, texts, range(2, 9)),
    }
    for kind, result in results.items():
        print(f"{kind}: {result['sentences']} sentences, {result['terms']} terms")
        for way in WAYS:
            if way in result:
                print(f"  {way:20}", "  ".join(f"{name} {value}" for name, value in result[way].items()))
    command = asked("terms.py", arguments, "run")
    keep(passport(command) | {"results": results}, RESULTS, "terms")


if __name__ == "__main__":
    main()
