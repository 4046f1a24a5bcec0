"""Mojibake: UTF-8 that was read as Windows-1252 or Latin-1, such as `fÃ¼r` for `für` and `itâ€™s` for `it’s`.

Every character beyond ASCII becomes two to four characters. The first is one of `Â` to `ô`, the others are
what the bytes 0x80 to 0xbf stand for. Some such sequences also occur in correct text, such as `ß“` at the
end of a German quotation. The pattern has only those that do not.
"""

import re


def characters(first: int, last: int) -> str:
    """What the bytes from `first` to `last` are in Windows-1252 and in Latin-1, for a set of characters."""
    decoded = {
        bytes([byte]).decode(encoding, errors="ignore")
        for byte in range(first, last + 1)
        for encoding in ("cp1252", "latin-1")
    }
    return re.escape("".join(sorted(decoded)))


NEXT = f"[{characters(0x80, 0xBF)}]"
MARK = "[" + re.escape("‚„…‹›«»‘’“”–—·²³\xa0") + "]"
"""What may stand after a letter in correct text."""
CAPITAL = "[A-ZÀ-Þ]"
PATTERN = re.compile(
    "|".join(
        [
            f"(?<!{CAPITAL})[ÂÃ]{NEXT}",  # of U+0080 to U+00FF: most of Western Europe
            f"[ÃÄÅ](?!{MARK}){NEXT}",  # also of U+0100 to U+017F: Czech, Polish, Turkish
            f"(?<=[a-zß-ÿ])[ÄÅ]{NEXT}",
            f"â[€‚„†ˆ˜™]{NEXT}",  # of punctuation and signs, U+2000 to U+2FFF
            f"(?:[Â-ß]{NEXT}|[à-ï]{NEXT}{{2}}){{2}}",  # of words in other scripts
            f"ð[Ÿ\x9f]{NEXT}{{2}}",  # of emoji
            "ï»¿|ï¿½",  # of the byte order mark and U+FFFD
        ]
    )
)


def has_mojibake(line: str) -> bool:
    """Whether a part of a line is UTF-8 that was read as another encoding."""
    return not line.isascii() and bool(PATTERN.search(line))
