"""The nearest tokens of words in the embeddings of a model, as bars (section 3.4)."""

from collections.abc import Sequence

from dragoman.inspection.record.inspected import one_model
from dragoman.inspection.record.neighbours import Near, Neighbours, neighbours
from dragoman.inspection.views.drawing import Drawing, decimal, visible
from dragoman.inspection.views.layout import finished
from dragoman.system.errors import DragomanError
from dragoman.translation.model_folder import Tokenizers
from dragoman.translation.translator import Translator

ACROSS, WIDTH, ROW, BAR = 3, 270.0, 20.0, 90.0
MAX_WORDS = 24


def neighbours_picture(translator: Translator, text: str) -> str:
    """A table for each word's tokens in each matrix.

    Raises `DragomanError` if the text has no word, no token or more than 24 words, and for an ensemble.
    """
    model, words = one_model(translator), text.split()
    if not words:
        raise DragomanError('The text has no word; give words: "dog cat".')
    if len(words) > MAX_WORDS:
        raise DragomanError(f"The text has {len(words)} words; give at most {MAX_WORDS}.")
    sides = translator.tokenizers.source, translator.tokenizers.target
    source, target = ([ids for row in side.encode(words) for ids in row] for side in sides)
    if not source and not target:
        raise DragomanError("The vocabularies have no token of the text; give other words.")
    matrices = neighbours(model, translator.tokenizers, source, target)
    drawing = Drawing(
        "neighbours",
        f"Nearest tokens of: {' '.join(visible(word) for word in words)}",
        "For each token the tokens whose rows of the matrix have the greatest cosine with its row.",
    )
    for matrix in matrices:
        draw_matrix(drawing, matrix)
    notes = [
        "Bars: cosine, from 0 to 1; 1 is the same direction. The token itself is left out.",
        *(piece_note(translator.tokenizers, word) for word in words),
    ]
    return finished(drawing, notes)


def piece_note(tokenizers: Tokenizers, word: str) -> str:
    """A sentence for a word that is not one token of the vocabularies; empty for others."""
    sides = {"source": tokenizers.source, "target": tokenizers.target}
    pieces_by_side = {name: side.pieces(side.encode([word])[0]) for name, side in sides.items()}
    split = {name: pieces for name, pieces in pieces_by_side.items() if len(pieces) != 1}
    if not split:
        return ""
    if not any(split.values()) and len(split) == len(sides):
        return f"{visible(word)} has no tokens."
    texts = [" ".join(map(visible, pieces)) or "none" for pieces in split.values()]
    if len(texts) == len(sides) and len(set(texts)) == 1:
        return f"{visible(word)} is not a single token; its tokens are {texts[0]}."
    where = " and in the ".join(split)
    return f"{visible(word)} is not a single token; its tokens are {' and '.join(texts)} (in the {where})."


def draw_matrix(drawing: Drawing, matrix: Neighbours) -> None:
    """The tokens of a matrix below what is drawn."""
    tied = " (one tied matrix)" if len(matrix.parts) > 1 else ""
    drawing.text(16, drawing.height + 34, f"{', '.join(matrix.parts).capitalize()}{tied}", 13, bold=True)
    top = drawing.height + 12
    for place, (token, nearest) in enumerate(matrix.tokens):
        column = place % ACROSS
        if place and column == 0:
            top = drawing.height + 12
        draw_token(drawing, token, nearest, 16 + WIDTH * column, top)


def draw_token(drawing: Drawing, token: str, nearest: Sequence[Near], x: float, top: float) -> None:
    """A token and its nearest ones."""
    drawing.label(x, top + 14, visible(token), 12, bold=True)
    for row, (other, cosine) in enumerate(nearest):
        y = top + 22 + ROW * row
        width = BAR * min(max(cosine, 0.0), 1.0)
        drawing.rectangle(x, y, width, ROW - 6, "fill-self", f"{visible(other)}: {cosine:.4f}")
        drawing.text(x + BAR + 6, y + 11, decimal(cosine), 11, "fill-faint")
        drawing.label(x + BAR + 40, y + 11, visible(other), 12)
