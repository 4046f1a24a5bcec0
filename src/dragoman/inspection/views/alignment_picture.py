"""The word alignment as a picture: lines from words of the sentence to words of the translation."""

from dragoman.inspection.record.record import Record
from dragoman.inspection.record.words import words_of
from dragoman.inspection.views.drawing import Drawing, widest
from dragoman.inspection.views.labels import Window, in_window, tokens_in
from dragoman.inspection.views.layout import finished, sentences

LEFT, TOP, ROW, GAP = 24, 84, 24, 170


def alignment(inspection: Record, window: Window | None = None) -> str:
    """A line joins each word of the translation with the word of the sentence that it is aligned with."""
    words = [
        words_of(inspection.source, inspection.source_words)[:-1],  # without END
        words_of(inspection.target, inspection.target_words)[:-1],
    ]
    source, source_note = tokens_in(words[0], "source", window, "word")
    target, target_note = tokens_in(words[1], "target", window, "word")
    rows, columns = (in_window(len(side), window) for side in words)
    drawing = Drawing("alignment", "Word alignment", sentences(inspection))
    left = LEFT + widest(source)
    right = left + GAP
    drawing.text(left, TOP - 22, "source", css="fill-faint", anchor="end")
    drawing.text(right + 16, TOP - 22, "translation", css="fill-faint")
    for source_word, target_word in inspection.alignment:
        if rows.start <= source_word < rows.stop and columns.start <= target_word < columns.stop:
            ends = [
                (left + 8, TOP + (source_word - rows.start) * ROW),
                (right + 8, TOP + (target_word - columns.start) * ROW),
            ]
            drawing.polyline(
                ends, "stroke-self", f"{words[0][source_word]}: {words[1][target_word]}", stroke=2
            )
    for row, label in enumerate(source):
        drawing.label(left, TOP + row * ROW + 4, label, anchor="end")
    for row, label in enumerate(target):
        drawing.label(right + 16, TOP + row * ROW + 4, label)
    head = inspection.model.alignment_head
    heads = "averaged over its heads" if head is None else f"head {head}"
    weights = f"As dragoman align: from the weights of encoder-decoder attention in the last layer, {heads}."
    return finished(drawing, [weights, source_note, target_note])
