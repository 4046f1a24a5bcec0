"""Methods of attribution by name. This module imports no torch."""

from typing import Literal, get_args

Method = Literal[
    "integrated-gradients",
    "gradient-input",
    "saliency",
    "occlusion",
    "sequential-integrated-gradients",
    "discretized-integrated-gradients",
    "gradient-shap",
    "deeplift",
    "lime",
    "reagent",
]
"""Ways to attribute a target token's log-probability to tokens (attribution.py)."""
METHODS: tuple[Method, ...] = get_args(Method)
DEFAULT_METHODS = METHODS[:4]
OF_TOKENS = frozenset[Method](("discretized-integrated-gradients", "gradient-shap", "reagent"))
"""Methods that put other tokens in the place of those of a sentence."""
UNSIGNED = frozenset[Method](("saliency", "reagent"))
"""Methods whose numbers are never negative."""
