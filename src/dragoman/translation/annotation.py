"""Sentences with a glossary's terms, for models that were trained with `terms`. Imports no torch."""

import re
from collections.abc import Sequence
from dataclasses import replace

from dragoman.text.annotated_terms import BEGIN, END, IS, Annotation, annotate
from dragoman.translation.glossary import Glossary, Match, Term
from dragoman.translation.tags import Tag

TARGET = re.compile(f"{IS}(.*?){END}")


def annotate_sentence(text: str, tags: Sequence[Tag], glossary: Glossary) -> tuple[str, list[Tag]]:
    """A sentence without its tags, with the targets of terms in their place; and the tags, at the same words.

    A tag before a term stands before its target, and a tag behind it stands behind it. The terms themselves
    are left out: a model of little text would translate them beside the targets. The search forces each
    target once. Where its term stands again it stays as it is, as it could be lost.
    """
    first = {match.term: match for match in reversed(glossary.find(text))}
    annotations = [
        Annotation(match.start, match.end, match.term.target, is_masked=True) for match in first.values()
    ]
    words = [match.span() for match in re.finditer(r"\S+", text)]

    def moved(tag: Tag) -> Tag:
        if not 0 <= tag.word < len(words):
            return tag if tag.word < 0 else replace(tag, word=len(annotate(text, annotations).split()))
        start, end = words[tag.word]
        inside = [one for one in annotations if one.start < end and one.end > start]
        if tag.follows_word:
            end = max([end, *(one.end for one in inside)])
            return replace(tag, word=count_words(text, end, annotations) - 1)
        first = min((one.start for one in inside), default=start)
        # The symbols end the word before the term, and are a word at the beginning of the sentence.
        return replace(tag, word=count_words(text, first, annotations, BEGIN + IS if inside else ""))

    return annotate(text, annotations), [moved(tag) for tag in tags]


def count_words(text: str, end: int, annotations: Sequence[Annotation], symbols: str = "") -> int:
    """The words of the first `end` characters of a text when it is annotated, and of symbols behind them."""
    beginning = annotate(text[:end], [one for one in annotations if one.end <= end])
    return len((beginning.rstrip() + symbols if symbols else beginning).split())


def annotated_terms(text: str) -> list[Match]:
    """The terms that a source says, at the places of their targets."""
    return [
        Match(Term("", match[1].strip()), match.start(1), match.end(1)) for match in TARGET.finditer(text)
    ]
