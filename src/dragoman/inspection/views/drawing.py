"""SVG as text: shapes, labels, colour scales, legends and axes, in light and dark. Lengths are pixels."""

import html
import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

Anchor = Literal["start", "middle", "end"]

COLOURS = {
    "paper": ("#ffffff", "#0d1117"),
    "ink": ("#1f2328", "#e6edf3"),
    "faint": ("#59636e", "#9aa4af"),
    "line": ("#7d8590", "#7d8590"),
    "grid": ("#d8dee4", "#2b323b"),
    "box": ("#f6f8fa", "#161b22"),
    "best": ("#b35900", "#f0a35c"),
    "zero": ("#ffffff", "#0d1117"),
    "positive": ("#001d4f", "#98bff0"),
    "negative": ("#6b2a00", "#f0b27a"),
    "on-low": ("#000000", "#ffffff"),
    "on-middle": ("#000000", "#000000"),
    "on-high": ("#ffffff", "#000000"),
    "stream": ("#c9d1d9", "#3d444d"),
    "self": ("#0b4f9e", "#a5c8f5"),
    "cross": ("#e08a2e", "#c46a14"),
    "feed": ("#3f9c82", "#5fb79f"),
    "head-1": ("#1f5099", "#8fbaf5"),
    "head-2": ("#b35900", "#e69f00"),
    "head-3": ("#00785a", "#2fc79b"),
    "head-4": ("#a8447f", "#e58bc0"),
    "head-5": ("#7a6a00", "#f0e442"),
    "head-6": ("#1b2733", "#e2e8ea"),
    "head-7": ("#6f42c1", "#9d7bf0"),
    "head-8": ("#c2312a", "#f4705f"),
}
"""Colours by name, in light and in dark. A page may set them again: `.picture { --paper: … }`."""

LABEL_TURNS = 0.595  # the opacity above which a label on a shade has the colour `on-high`
MAX_COLUMNS = 24  # characters of a label, an em of two columns counting twice

INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)  # characters without a glyph that Unicode counts as letters or marks
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


# ---- text


def escape(text: str) -> str:
    """Text for XML. Characters that XML cannot contain become U+FFFD."""
    return html.escape(NOT_XML.sub("\ufffd", text))


def visible(token: str) -> str:
    """A token with a name such as U+200B in place of each control character and each one without a glyph.

    SentencePiece's sign for a space stays as it is. Spaces have a name where nothing else is in the token.
    """
    if not token:
        return "(empty)"
    blank = not token.strip(" ")
    return "".join(code(character) if blank or has_no_glyph(character) else character for character in token)


def has_no_glyph(character: str) -> bool:
    """Whether nothing, or only a space of another width, is drawn for a character."""
    category = unicodedata.category(character)
    space = category == "Zs" and character != " "
    return space or category in ("Zl", "Zp") or category[0] == "C" or bool(INVISIBLE.match(character))


def code(character: str) -> str:
    """The code point's usual name: U+200B."""
    return f"U+{ord(character):04X}"


def columns_of(text: str) -> int:
    """The width of a text in columns of a terminal: 2 for wide characters, 0 for combining ones."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def shortened(label: str) -> str:
    """A label with at most `MAX_COLUMNS` columns."""
    if columns_of(label) <= MAX_COLUMNS:
        return label
    widths = accumulate(map(columns_of, label))
    return label[: sum(width < MAX_COLUMNS for width in widths)] + "…"


def text_width(text: str, size: float = 12) -> float:
    """About the width of a text, in pixels. The font is the reader's, so it is not known."""
    return 0.62 * size * columns_of(text)


def widest(labels: Sequence[str], size: float = 12) -> float:
    """The width of the longest label as it is drawn, in pixels."""
    return max((text_width(shortened(label), size) for label in labels), default=0.0)


def number(value: float) -> str:
    """A coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def decimal(value: float, digits: int = 2, sign: Literal["", "+"] = "") -> str:
    """A number with so many decimals and a minus sign; `sign` is that of other numbers. −0.001 is 0.00."""
    return f"{round(value, digits) + 0.0:{sign}.{digits}f}".replace("-", "−")


# ---- colours


@dataclass(frozen=True)
class Shade:
    """A colour of a scale: a named colour with this opacity, over the colour `zero`."""

    colour: str
    opacity: float

    @property
    def css(self) -> str:
        """The class of an area with this shade."""
        return f"fill-{self.colour}"

    @property
    def label(self) -> str:
        """The class of a text on this shade."""
        return "fill-on-high" if self.opacity > LABEL_TURNS else "fill-on-low"

    def rgb(self, dark: bool = False) -> tuple[float, float, float]:
        """The colour that is seen: red, green and blue from 0 to 1."""
        low, high = (channels(COLOURS[name][dark]) for name in ("zero", self.colour))
        red, green, blue = (a + self.opacity * (b - a) for a, b in zip(low, high, strict=True))
        return red, green, blue


def sequential(share: float) -> Shade:
    """A shade for a share from 0 to 1, or the nearest of these: one hue, whose luminance changes."""
    return Shade("positive", clamped(share))


def diverging(share: float) -> Shade:
    """A shade for a number from −1 (orange) over 0 to 1 (blue), or the nearest of these."""
    return Shade("negative" if share < 0 else "positive", clamped(abs(share)))


def clamped(share: float) -> float:
    """The nearest number from 0 to 1; 0 for NaN."""
    return 0.0 if math.isnan(share) else min(max(share, 0.0), 1.0)


def channels(colour: str) -> tuple[float, ...]:
    """Red, green and blue of `#rrggbb`, from 0 to 1."""
    return tuple(int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))


def style() -> str:
    """The style sheet, the same of every picture. `in_light_colours` is for renderers without variables."""

    def variables(theme: int) -> str:
        return ".picture{" + ";".join(f"--{name}:{pair[theme]}" for name, pair in COLOURS.items()) + "}"

    rules = [
        f".picture .{kind}-{name}{{{kind}:{pair[0]};{kind}:var(--{name})}}"
        for name, pair in COLOURS.items()
        for kind in ("fill", "stroke")
    ]
    return "".join(
        [
            variables(0),
            f"@media (prefers-color-scheme:dark){{{variables(1)}}}",
            ".picture text{font-family:system-ui,sans-serif;white-space:pre}",
            ".picture .cells{shape-rendering:crispEdges}",
            ".picture .curve{fill:none}",
            *rules,
        ]
    )


def in_light_colours(picture: str) -> str:
    """A picture without the variables of its style sheet, for renderers that draw them black."""
    return re.sub(r";(?:fill|stroke):var\(--[\w-]+\)", "", picture)


# ---- shapes


class Drawing:
    """A picture that grows with every shape. It is as large as they need, and 16 px more.

    `name` begins the ids in the picture; no two pictures of a page have the same.
    """

    def __init__(self, name: str, title: str, description: str) -> None:
        self.name, self.title, self.description = name, title, description
        self.parts: list[str] = []
        self.width = self.height = 0.0
        self.text(16, 26, title, size=15, bold=True)

    def rectangle(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        css: str,
        title: str = "",
        opacity: float = 1.0,
        radius: float = 0.0,
        stroke: float = 1.0,
        dashed: bool = False,
    ) -> None:
        """A rectangle; its stroke, if `css` gives it a colour, is as wide as `stroke`."""
        self.reach(x + width, y + height)
        shape = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
        shape += f' rx="{number(radius)}"' if radius else ""
        self.element("rect", shape, css, title, opacity, stroke, dashed)

    def cell(self, x: float, y: float, width: float, height: float, shade: Shade) -> None:
        """A cell of a table, with this shade and a frame."""
        self.rectangle(x, y, width, height, "fill-zero stroke-grid")
        self.rectangle(x, y, width, height, shade.css, opacity=shade.opacity)

    def path(
        self,
        data: str,
        css: str,
        title: str = "",
        opacity: float = 1.0,
        stroke: float = 1.0,
        dashed: bool = False,
    ) -> None:
        """A path inside the area that other shapes need."""
        self.element("path", f'd="{data}"', css, title, opacity, stroke, dashed)

    def polyline(
        self,
        points: Sequence[tuple[float, float]],
        css: str,
        title: str = "",
        opacity: float = 1.0,
        stroke: float = 1.0,
        dashed: bool = False,
    ) -> None:
        """A line through points."""
        self.reach(max(x for x, _ in points), max(y for _, y in points))
        data = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
        self.path(data, f"curve {css}", title, opacity, stroke, dashed)

    def element(
        self, tag: str, shape: str, css: str, title: str, opacity: float, stroke: float, dashed: bool
    ) -> None:
        """A shape with its look and its title."""
        # That of a fill or a stroke alone needs no layer of its own when the picture is rendered.
        kinds = [kind for kind in ("fill", "stroke") if f"{kind}-" in css]
        name = f"{kinds[0]}-opacity" if len(kinds) == 1 else "opacity"
        look = f' {name}="{number(opacity)}"' if opacity < 1 else ""
        if "stroke-" in css:
            look += f' stroke-width="{number(stroke)}"' + (' stroke-dasharray="4 3"' if dashed else "")
        body = f"><title>{escape(title)}</title></{tag}>" if title else "/>"
        self.parts.append(f'<{tag} class="{css}" {shape}{look}{body}')

    def text(
        self,
        x: float,
        y: float,
        words: str,
        size: float = 12,
        css: str = "fill-ink",
        anchor: Anchor = "start",
        title: str = "",
        turn: float = 0.0,
        bold: bool = False,
    ) -> None:
        """A line of text whose baseline is at y, turned about its anchor by so many degrees."""
        width = text_width(words, size) * {"start": 1.0, "middle": 0.5, "end": 0.0}[anchor]
        self.reach(x + width * math.cos(math.radians(turn)), y + size / 3)
        look = f' text-anchor="{anchor}"' if anchor != "start" else ""
        look += ' font-weight="600"' if bold else ""
        look += f' transform="rotate({number(turn)} {number(x)} {number(y)})"' if turn else ""
        place = f'x="{number(x)}" y="{number(y)}" font-size="{number(size)}"{look}'
        content = (f"<title>{escape(title)}</title>" if title else "") + escape(words)
        self.parts.append(f'<text class="{css}" {place}>{content}</text>')

    def label(
        self,
        x: float,
        y: float,
        label: str,
        size: float = 12,
        css: str = "fill-ink",
        anchor: Anchor = "start",
        turn: float = 0.0,
        bold: bool = False,
    ) -> None:
        """A token or another label of any length: shortened, with all of it as its title."""
        short = shortened(label)
        self.text(x, y, short, size, css, anchor, label if short != label else "", turn, bold)

    def paragraph(self, x: float, y: float, words: str, columns: int = 72) -> float:
        """Small text in lines of at most so many columns. Returns the y below it."""
        line = ""
        for word in words.split():
            if line and columns_of(f"{line} {word}") > columns:
                self.text(x, y, line, 12, "fill-faint")
                line, y = "", y + 17
            line = f"{line} {word}".strip()
        if line:
            self.text(x, y, line, 12, "fill-faint")
            y += 17
        return y

    @contextmanager
    def group(self, css: str = "", title: str = "") -> Iterator[None]:
        """Shapes that belong together and share a title."""
        self.parts.append(f'<g class="{css}">' + (f"<title>{escape(title)}</title>" if title else ""))
        yield
        self.parts.append("</g>")

    def legend(
        self,
        x: float,
        y: float,
        title: str,
        scale: Callable[[float], Shade],
        ticks: Sequence[tuple[float, str]],
        steps: int = 40,
    ) -> None:
        """The colours of a scale from the first to the last of the ticks, which are (share, label).

        `title` names the quantity and its unit. The legend is 52 px high.
        """
        low, high, width = ticks[0][0], ticks[-1][0], 200.0
        self.text(x, y + 11, title, css="fill-faint")
        self.rectangle(x, y + 18, width, 12, "fill-zero stroke-line")
        with self.group("cells"):
            for step in range(steps):
                shade = scale(low + (high - low) * (step + 0.5) / steps)
                self.rectangle(
                    x + width * step / steps, y + 18, width / steps, 12, shade.css, opacity=shade.opacity
                )
        for share, label in ticks:
            anchor: Anchor = "start" if share == low else "end" if share == high else "middle"
            self.text(x + width * (share - low) / (high - low), y + 44, label, 11, "fill-faint", anchor)

    def reach(self, x: float, y: float) -> None:
        """Make the picture large enough for a point."""
        self.width, self.height = max(self.width, x), max(self.height, y)

    def svg(self) -> str:
        """The picture as a document, which can also stand in an HTML page."""
        width, height = math.ceil(self.width) + 16, math.ceil(self.height) + 16
        title, description = f"{self.name}-title", f"{self.name}-description"
        return "".join(
            [
                '<svg xmlns="http://www.w3.org/2000/svg" class="picture" role="img" ',
                f'aria-labelledby="{title}" aria-describedby="{description}" ',
                f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
                f'<title id="{title}">{escape(self.title)}</title>',
                f'<desc id="{description}">{escape(self.description)}</desc>',
                f"<style>{style()}</style>",
                f'<rect class="fill-paper" width="{width}" height="{height}"/>',
                *self.parts,
                "</svg>\n",
            ]
        )


def cell_paths(
    levels: Sequence[Sequence[float]], x: float, y: float, width: float, height: float
) -> dict[float, str]:
    """Rows of cells as one path for each level. Neighbours of a level in a row are one rectangle.

    A level is a number with two decimals. Level 0 has no path.
    """
    paths: dict[float, list[str]] = {}
    for row, numbers in enumerate(levels):
        start = 0
        for column in range(1, len(numbers) + 1):
            if column == len(numbers) or numbers[column] != numbers[start]:
                if numbers[start]:
                    corner = f"M{number(x + start * width)} {number(y + row * height)}"
                    wide = number((column - start) * width)
                    run = f"{corner}h{wide}v{number(height)}h-{wide}z"
                    paths.setdefault(numbers[start], []).append(run)
                start = column
    return {level: "".join(parts) for level, parts in paths.items()}


# ---- axes of a chart


@dataclass(frozen=True)
class Axes:
    """The area of a chart, and the numbers at its edges."""

    drawing: Drawing
    left: float
    top: float
    width: float
    height: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def place(self, x: float, y: float) -> tuple[float, float]:
        """The pixels of a point."""
        (x_low, x_high), (y_low, y_high) = self.x_range, self.y_range
        return (
            self.left + self.width * (x - x_low) / (x_high - x_low or 1),
            self.top + self.height * (1 - (y - y_low) / (y_high - y_low or 1)),
        )

    def draw(
        self,
        x_title: str,
        y_title: str,
        x_ticks: Sequence[tuple[float, str]] | None = None,
        y_ticks: Sequence[tuple[float, str]] | None = None,
    ) -> None:
        """Lines, ticks and titles with units. Ticks are round numbers unless they are given."""
        drawing, bottom = self.drawing, self.top + self.height
        drawing.text(self.left - 8, self.top - 14, y_title, css="fill-faint")
        if y_ticks is None:
            y_ticks = [(value, f"{value:g}") for value in ticks(*self.y_range)]
        for value, label in y_ticks:
            y = self.place(0, value)[1]
            drawing.polyline([(self.left, y), (self.left + self.width, y)], "stroke-grid")
            drawing.text(self.left - 8, y + 4, label, 11, "fill-faint", "end")
        if x_ticks is None:
            x_ticks = [(value, f"{value:g}") for value in ticks(*self.x_range, integers=True)]
        for value, label in x_ticks:
            drawing.text(self.place(value, 0)[0], bottom + 17, label, 11, "fill-faint", "middle")
        drawing.polyline([(self.left, bottom), (self.left + self.width, bottom)], "stroke-line")
        drawing.text(self.left + self.width / 2, bottom + 36, x_title, css="fill-faint", anchor="middle")


def ticks(low: float, high: float, integers: bool = False) -> list[float]:
    """About five round numbers from `low` to `high`."""
    span = high - low
    if not math.isfinite(span) or span <= 0:
        return [low] if math.isfinite(low) else []
    power = 10 ** math.floor(math.log10(span / 5))
    step = next(step for step in (power, 2 * power, 5 * power, 10 * power) if span / step <= 6)
    step = max(round(step), 1) if integers else step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(place * step, 10) for place in range(first, last + 1)]
