"""Dragoman: the Transformer of "Attention Is All You Need" (Vaswani et al. 2017) as a tool for one's own text."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.search.settings import SearchSettings
    from dragoman.translation.sentences import Translation
    from dragoman.translation.translator import Translator

__version__ = "0.1.0"
__all__ = ["SearchSettings", "Translation", "Translator"]


def __getattr__(name: str) -> object:
    """Import what needs torch when it is first asked for: `import dragoman` stays light."""
    if name == "SearchSettings":
        from dragoman.search.settings import SearchSettings

        return SearchSettings
    if name == "Translation":
        from dragoman.translation.sentences import Translation

        return Translation
    if name == "Translator":
        from dragoman.translation.translator import Translator

        return Translator
    raise AttributeError(f"module 'dragoman' has no attribute {name!r}")
