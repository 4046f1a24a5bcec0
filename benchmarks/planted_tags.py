"""Tags around words whose translation is known, and whether they land around that translation."""

import re
from collections.abc import Sequence
from typing import NamedTuple

ENTRIES = """
red:rot blue:blau green:grün yellow:gelb black:schwarz white:weiß pink:pink|rosa brown:braun
purple:lila|violett orange:orange two:zwei three:drei four:vier five:fünf man:mann men:männer woman:frau
women:frau child:kind children:kinder dog:hund dogs:hund horse:pferd bike:fahrrad|rad bicycle:fahrrad|rad
car:auto bus:bus train:zug street:straße water:wasser ball:ball snow:schnee grass:gras|wiese beach:strand
field:feld mountain:berg park:park hat:hut|mütze tree:baum trees:bäume house:haus building:gebäude
bench:bank table:tisch chair:stuhl window:fenster guitar:gitarre camera:kamera book:buch wall:wand|mauer
sand:sand boat:boot city:stadt kitchen:küche crowd:menge|menschenmenge people:personen|leute|menschen
helmet:helm jacket:jacke dress:kleid stage:bühne bridge:brücke ocean:meer|ozean group:gruppe old:alt
large:groß small:klein shirt:hemd|shirt|t-shirt|oberteil soccer:fußball baseball:baseball face:gesicht
hand:hand sidewalk:gehweg|bürgersteig fire:feuer flag:flagge|fahne motorcycle:motorrad truck:lastwagen|lkw
"""
LEXICON = dict(entry.split(":") for entry in ENTRIES.split())
"""English words, and the stems that translate them."""
ENDINGS = "(e|er|en|es|em|s|n|ern)?"


class Planted(NamedTuple):
    """Successive words of a sentence whose translations are known."""

    line: int
    word: int
    translations: tuple[re.Pattern[str], ...]


def bare(word: str) -> str:
    """A word in lower case, without the marks around it."""
    return word.strip(".,;:!?\"'()").lower()


def planted_words(lines: Sequence[str]) -> list[Planted]:
    """The words of the lexicon that a sentence has once."""
    return [
        Planted(number, place, (re.compile(f"({LEXICON[word]}){ENDINGS}"),))
        for number, line in enumerate(lines)
        for words in [[bare(word) for word in line.split()]]
        for place, word in enumerate(words)
        if word in LEXICON and words.count(word) == 1
    ]


def planted_phrases(lines: Sequence[str]) -> list[Planted]:
    """Two such words with a space alone between them."""
    words = {(one.line, one.word): one for one in planted_words(lines)}
    return [
        Planted(line, word, one.translations + words[line, word + 1].translations)
        for (line, word), one in words.items()
        if (line, word + 1) in words and lines[line].split()[word][-1].isalnum()
    ]


def places(planted: Planted, translation: str) -> list[int]:
    """The words of a translation that translate each planted word; empty unless each has one such word."""
    words = [bare(word) for word in translation.split()]
    found = [
        [place for place, word in enumerate(words) if each.fullmatch(word)] for each in planted.translations
    ]
    return [place for (place,) in found] if all(len(each) == 1 for each in found) else []


def with_tag(planted: Planted, line: str) -> str:
    """The sentence with <b>…</b> around the words, and not around the punctuation beside them."""
    words = line.split()
    last = planted.word + len(planted.translations) - 1
    words[planted.word] = re.sub(r"^(\W*)", r"\1<b>", words[planted.word], count=1)
    words[last] = re.sub(r"(\W*)$", r"</b>\1", words[last], count=1)
    return " ".join(words)


def lands(planted: Planted, tagged: str) -> tuple[bool, bool]:
    """Whether the tag encloses the translations alone, and whether it encloses them all."""
    inside = re.search(r"<b>(.*?)</b>", tagged)
    words = [bare(word) for word in inside[1].split()] if inside else []
    encloses = all(any(each.fullmatch(word) for word in words) for each in planted.translations)
    return encloses and len(words) == len(planted.translations), encloses
