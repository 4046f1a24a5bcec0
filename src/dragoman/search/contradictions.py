"""What is asked of a search, and contradicts its settings. This module imports no torch."""

from collections.abc import Collection

from dragoman.search.settings import SearchSettings
from dragoman.system.errors import OptionError
from dragoman.system.options import is_in_use


def refuse_more_than_a_beam(settings: SearchSettings, feature: str) -> None:
    """Raise `OptionError` for settings that ask for more than one beam search: `feature` needs that."""
    refuse_settings(settings, f"A {feature} needs a single beam search", ("temperature", "force_words"))
    refuse_more_than_a_search(settings, f"A {feature} needs a single beam search")


def refuse_more_than_a_search(settings: SearchSettings, requirement: str) -> None:
    """Raise `OptionError` for settings that ask for more than one search, by any method."""
    refuse_settings(settings, requirement, ("split", "keep_tags", "replace_unknown", "coverage_penalty"))


def refuse_settings(settings: SearchSettings, requirement: str, names: Collection[str]) -> None:
    """Raise `OptionError` for one of these settings, which contradicts a requirement."""
    for name in names:
        if is_in_use(settings, name, ()):
            raise OptionError(f"{requirement}, which {{{name}}} excludes; leave it out.")


def refuse_n_best(settings: SearchSettings, feature: str) -> None:
    """Raise `OptionError` for settings that ask for several translations, if there is one `feature`."""
    if settings.n_best > 1:
        raise OptionError(
            f"{{n_best}} is {settings.n_best}, and there is one {feature}; leave {{n_best}} out."
        )


def refuse_truncation(tokens: int, view: str) -> None:
    """Raise `OptionError` if the search reads a part of the sentence, and the view is of the whole.

    `tokens` is the setting `truncate`.
    """
    if tokens:
        raise OptionError(
            f"{view} is of the whole sentence, and with {{truncate}} {tokens} the search reads only a part "
            "of it; leave {truncate} out, or give a shorter sentence."
        )
