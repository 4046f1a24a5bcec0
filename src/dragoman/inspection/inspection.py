"""An inspection: what was recorded of a translation, with its pictures and its page."""

import html
from dataclasses import dataclass

from dragoman.inspection.record.kinds import Kind
from dragoman.inspection.record.record import Record
from dragoman.inspection.report import to_html
from dragoman.inspection.views.draw import draw
from dragoman.inspection.views.pictures import Picture


@dataclass(frozen=True)
class Inspection(Record):
    """What a model computed while it translated a sentence: as data, as pictures, and as one HTML file."""

    def to_html(self, layer: int | None = None, head: int | None = None) -> str:
        """All views as one HTML file, which needs no network.

        The file of a long sentence has no room for all layers and heads (`contents.py`); `layer` and `head`
        choose whose numbers it holds, by default the last layer's. Raises `DragomanError` if the model has no
        such layer or head.
        """
        return to_html(self, layer, head)

    def svg(
        self,
        view: Picture,
        layer: int | None = None,
        head: int | None = None,
        lines: bool = False,
        words: bool = False,
        window: tuple[int, int] | None = None,
        kind: Kind | None = None,
        query: int = 1,
        neuron: int | None = None,
    ) -> str:
        """A picture as SVG.

        - `layer` and `head`, of attention, are counted from 1: without a layer all heads are drawn, without a
          head their mean.
        - `lines` draws attention as lines between tokens, `words` words in place of tokens.
        - `window` is the first and last token of a long sentence that are drawn, counted from 1, in all
          pictures but `model` and `statistics`.
        - `kind`, of `numbers` and `statistics`, is the attention, by default `cross`; of `neurons` the side,
          `encoder` or `decoder`, by default both.
        - `query` is of `numbers`, which has one head: head 1 of the last layer by default.
        - `layer` and `neuron`, of `neurons`: without a layer the most active neuron of each token in all
          layers is drawn, without a neuron the most active neurons of the layer.

        Raises `DragomanError` if there is no such view, if the model has no such layer, head, query, neuron
        or view, and if the window begins after the sentence.
        """
        return draw(self, view, layer, head, lines, words, window, kind, query, neuron)

    def _repr_html_(self) -> str:
        """The report in a frame, for notebooks."""
        page = html.escape(self.to_html())
        return f'<iframe srcdoc="{page}" sandbox="allow-scripts" width="100%" height="900"></iframe>'
