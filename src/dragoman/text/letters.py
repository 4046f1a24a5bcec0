"""Whether a text has anything to translate."""


def has_letter(text: str) -> bool:
    """Whether a text has a letter: a character of Unicode's category L, which numbers and emojis are not."""
    return any(map(str.isalpha, text))
