"""The site: Sphinx with MyST and furo, built by `make docs`, read without a network."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from dragoman import __version__  # noqa: E402

project = "Dragoman"
author = "the authors of Dragoman"
copyright = f"{author}. Licence: Apache-2.0"  # noqa: A001
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "tools.docs.extension",
    "tools.docs.speed",
]
exclude_patterns = ["_build"]
linkcheck_ignore = [r"http://(localhost|127\.0\.0\.1|HOST)[:/]"]
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(?!dragoman\.).*"),  # types of other packages, whose pages are not here
    ("py:.*", r"dragoman\..*\.([TUMR]|Item|Number|Result|SomeState|Value|Weight)"),  # type variables
]
suppress_warnings = ["ref.python"]  # a name of two modules in an annotation of a third
default_role = "literal"
smartquotes = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_mock_imports = [
    "altair",
    "ctranslate2",
    "onnx",
    "onnxruntime",
    "onnxscript",
    "transformers",
    "triton",
    "yaml",
    "subword_nmt",
]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_use_type_comments = False  # the code has none, and the search for them parses every function
python_maximum_signature_line_length = 90
add_module_names = False
toc_object_entries = False
viewcode_follow_imported_members = False

html_theme = "furo"
html_title = f"Dragoman {__version__}"
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#1c5fa8",
        "color-brand-content": "#1c5fa8",
        "color-foreground-muted": "#5f636a",
    },
    "dark_css_variables": {
        "color-brand-primary": "#8ab8f0",
        "color-brand-content": "#8ab8f0",
        "color-foreground-muted": "#9ca0a5",
    },
}
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_search_scorer = str(ROOT / "docs" / "search_scorer.js")
html_copy_source = False
html_show_sphinx = False
html_math_renderer = "mathml"
