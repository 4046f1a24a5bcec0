"""Dragoman: the Transformer of "Attention Is All You Need" (Vaswani et al. 2017) as a tool for one's own
text.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.search.settings import SearchSettings
    from dragoman.translation.translator import Translation, Translator

__version__ = "0.1.0"
__all__ = ["SearchSettings", "Translation", "Translator"]


def __getattr__(name: str) -> object:
    """Import the public names when they are first used: `import dragoman` stays light."""
    if name == "SearchSettings":
        from dragoman.search.settings import SearchSettings

        return SearchSettings
    if name in {"Translation", "Translator"}:
        from dragoman.translation import translator

        return translator.Translation if name == "Translation" else translator.Translator
    raise AttributeError(f"module 'dragoman' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
