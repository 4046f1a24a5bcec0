"""Sentences with a glossary's terms, for models that were trained with `terms`. Imports no torch."""

from collections.abc import Sequence
from dataclasses import replace

from dragoman.text.annotated_terms import Annotation, annotate
from dragoman.translation.glossary import Glossary, Match
from dragoman.translation.tags import Tag


def annotate_sentence(text: str, tags: Sequence[Tag], glossary: Glossary) -> tuple[str, list[Tag]]:
    """A sentence without its tags, with the targets of the terms in it; and the tags, at the words they had.

    A term's target stands behind it. A tag that follows the term's last word follows its target.
    """
    matches = glossary.find(text)
    annotations = [Annotation(match.start, match.end, match.term.target) for match in matches]
    added = [(last_word(text, match), len(match.term.target.split())) for match in matches]

    def moved(tag: Tag) -> Tag:
        before = sum(
            words for last, words in added if last < tag.word or (tag.follows_word and last == tag.word)
        )
        return replace(tag, word=tag.word + before) if tag.word >= 0 else tag

    return annotate(text, annotations), [moved(tag) for tag in tags]


def last_word(text: str, match: Match) -> int:
    """The number of the word, between spaces, in which a term ends."""
    return len(text[: match.end].split()) - 1
