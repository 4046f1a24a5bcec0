"""A picture as PNG. This module imports no torch."""

import html
import logging
import re
import shutil
import subprocess
import unicodedata

from dragoman.inspection.views.drawing import in_light_colours
from dragoman.system.errors import DragomanError

logger = logging.getLogger(__name__)

TEXT = re.compile(r"(<text[^>]*>(?:<title>[^<]*</title>)?)([^<]*)")
LOWERED = {chr(ord("₀") + digit): str(digit) for digit in range(10)}
RAISED = {"ᵀ": "T"}
"""Characters that few fonts have, and the letters that are drawn smaller in their place."""


def to_png(svg: str) -> bytes:
    """The picture in light colours, two pixels a unit. Raises `DragomanError` without vl-convert.

    Logs a warning for letters that no font of this machine has.
    """
    try:
        import vl_convert
    except ImportError as error:
        raise DragomanError("PNG needs vl-convert: pip install 'dragoman[plot]', or write .svg.") from error
    for letter in letters_without_font(svg):
        logger.warning(
            f"No font of this machine has {letter} ({script(letter)}): the PNG shows boxes. Install a font "
            "that has it, such as Noto (fonts-noto-cjk for Chinese, Japanese and Korean), or write .svg."
        )
    return vl_convert.svg_to_png(with_common_characters(in_light_colours(svg)), scale=2)


def with_common_characters(svg: str) -> str:
    """The texts of a picture without characters that few fonts have.

    resvg draws a whole text in the first font that has all its characters.
    """
    return TEXT.sub(lambda text: text[1] + with_tspans(text[2]), svg.replace("▁", "_"))


def with_tspans(text: str) -> str:
    """A text with smaller letters in place of subscripts and superscripts."""
    for shift, letters in (("sub", LOWERED), ("super", RAISED)):
        for character, letter in letters.items():
            span = f'<tspan baseline-shift="{shift}" font-size="0.7em">{letter}</tspan>'
            text = text.replace(character, span)
    return text


def letters_without_font(svg: str) -> list[str]:
    """A letter of each script in the texts of a picture that no font of this machine has.

    Fonts are those that fontconfig knows; without its program `fc-list` the result is empty.
    """
    program = shutil.which("fc-list")
    if program is None:
        return []
    texts = html.unescape("".join(words for _, words in TEXT.findall(svg)))
    by_script = {script(letter): letter for letter in texts if is_rare(letter)}
    return [letter for letter in by_script.values() if not has_font(program, letter)]


def script(letter: str) -> str:
    """The script of a letter: the first word of its name, such as CJK, CYRILLIC or ARABIC."""
    return re.split("[ -]", unicodedata.name(letter, "unknown"))[0]


def is_rare(letter: str) -> bool:
    """Whether a character is a letter that not every font has."""
    return letter.isalpha() and letter > "\u024f" and letter not in RAISED


def has_font(program: str, letter: str) -> bool:
    """Whether a font of this machine has a letter."""
    listed = subprocess.run(  # noqa: S603 (the program of fontconfig)
        [program, f":charset={ord(letter):x}", "family"], capture_output=True, check=False, timeout=30
    )
    return listed.returncode != 0 or bool(listed.stdout.strip())
