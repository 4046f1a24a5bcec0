"""Where sentences end in a text: sentencex's rules, and what is checked of them. It imports no torch."""

import re
import unicodedata

import sentencex

WINDOW = 4_000  # characters that sentencex sees at once: it is quadratic in some texts
CONTEXT = 40  # characters before an end that are checked: the last word is among them
LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,3}(?![A-Za-z])")
OTHER_SPACE = re.compile(r"[^\S ]")  # white space other than " "
BULLET = re.compile("[•⁃⁌⁍■□▪▫▶▸►◆◇○●◦★☆➢➣➤]")  # sentencex cuts no line that begins with one
ZERO_WIDTH_JOINER = "\u200d"  # joins the parts of an emoji
LINE_BREAKS = "\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
LINE_BREAK = re.compile(f"[{LINE_BREAKS}]")
CONTROL = "\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff"
"""What no sentence contains: control characters, line and paragraph separators, byte order marks and halves
of surrogate pairs."""

ORDINAL_STOP = frozenset(
    ("bs", "cs", "da", "de", "et", "fi", "fo", "hr", "hu", "is", "lb", "lv", "nb", "nn", "no",
     "sk", "sl", "sr")
)  # fmt: skip
"""Languages that write a full stop after ordinal numbers."""
ABBREVIATIONS = {
    "fr": frozenset(
        ("Dr.", "M.", "MM.", "Me.", "Mgr.", "Mlle.", "Mme.", "Mmes.", "Pr.", "St.", "Ste.", "env.")
    )
}
"""Abbreviations that sentencex does not know."""
BEFORE_NUMBERS = re.compile(
    r"(?:approx|apt|art|chap|ch|eq|fig|max|n|no|nr|num|núm|p|pag|pág|pp|rys|sec|str|tab|tel|vol|рис|стр"
    r"|табл)\.\Z",
    re.IGNORECASE,
)
"""Abbreviations before a number or a reference, in any language: sentencex does not know all of them."""


def sentence_ends(text: str, language: str) -> list[int]:
    """The places before which sentences end in a text without control characters, but for the last sentence.

    White space belongs to the sentence before it. sentencex finds the ends, and `is_end` checks them.
    sentencex has rules for about 30 languages, which it applies to about 300; an unknown language has the
    rules of English.
    """
    code = LANGUAGE_CODE.match(language)
    language = code[0].lower() if code else "en"
    spaced = OTHER_SPACE.sub(" ", text)  # sentencex 1.0.32 panics at some other white space
    spaced = BULLET.sub("→", spaced)
    ends: list[int] = []
    start = 0
    while start < len(text):
        window = spaced[start : start + WINDOW]
        lengths = [len(part) for part in sentencex.segment(language, window)]
        if start + WINDOW < len(text):  # the last sentence may go on in the next window
            lengths = lengths[:-1] or [window.rfind(" ") + 1 or end_of_letter(spaced, start + WINDOW) - start]
        for length in lengths:
            start += length
            if start < len(text) and is_end(spaced, start, language, is_tied=text[start - 1] == "\xa0"):
                ends.append(start)
    return ends


def end_of_letter(text: str, place: int) -> int:
    """The first place from `place` on that is not between a letter and its accents, nor within an emoji."""
    while place < len(text) and (
        unicodedata.combining(text[place]) or ZERO_WIDTH_JOINER in text[place - 1 : place + 1]
    ):
        place += 1
    return place


def is_end(text: str, place: int, language: str, *, is_tied: bool = False) -> bool:
    """Whether a sentence that ends before `place` according to sentencex does end there.

    `is_tied`: a space that breaks no line stands before it.
    """
    if text[place - 1] == "." and (text[place].isascii() or text[place].isupper()):
        return False  # no space follows: ASP.NET, CACHEDIR.TAG
    before = text[max(0, place - CONTEXT) : place].rstrip()
    if before.endswith((".", "…")) and text[place].islower():
        return False
    words = before.split()
    word = words[-1].lstrip("([«“\"'") if words else ""
    if (text[place].isdigit() or text[place] == "(" or is_tied) and BEFORE_NUMBERS.match(word):
        return False
    is_ordinal = language in ORDINAL_STOP and re.fullmatch(r"\d{1,2}\.", word) is not None
    return not is_ordinal and word not in ABBREVIATIONS.get(language, ())
