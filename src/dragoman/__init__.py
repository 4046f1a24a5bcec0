"""Dragoman: the Transformer of "Attention Is All You Need" (Vaswani et al. 2017) as a tool for one's own text."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.decoding.settings import SearchSettings
    from dragoman.decoding.translator import Translation, Translator

__version__ = "0.1.0"
__all__ = ["SearchSettings", "Translation", "Translator"]


def __getattr__(name: str) -> object:
    """Import what needs torch when it is first asked for: `import dragoman` stays light."""
    if name == "SearchSettings":
        from dragoman.decoding.settings import SearchSettings

        return SearchSettings
    if name in ("Translator", "Translation"):
        from dragoman.decoding import translator

        return {"Translator": translator.Translator, "Translation": translator.Translation}[name]
    raise AttributeError(f"module 'dragoman' has no attribute {name!r}")
