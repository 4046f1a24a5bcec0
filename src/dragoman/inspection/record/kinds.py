"""The uses of attention by name. This module imports no torch."""

from typing import Literal, get_args

Kind = Literal["encoder", "decoder", "cross"]
"""The three uses of attention (section 3.2.3)."""
KINDS: tuple[Kind, ...] = get_args(Kind)
