"""The report's modules as one classic script: a page that is opened from disk cannot import modules."""

import re
from pathlib import Path

PAGE = Path(__file__).parent / "page"
VENDOR = PAGE / "vendor"
"""Preact and htm with their licences. The page of `dragoman serve` uses them, too."""

IMPORT = re.compile(r'import \{ ([\w, ]+) \} from "\./([\w/]+\.js)";')
EXPORT = re.compile(r"export (?:function|const|class) (\w+)")
LEFT_OUT = re.compile(r"^ *(?://[^\n]*|/\*\*.*?\*/)?\n|^ +", re.MULTILINE | re.DOTALL)
EXPORT_LIST = re.compile(r"export\{([\w, ]+)\};?\s*\Z")  # the end of a minified module


def bundle(entry: Path) -> str:
    """One script that does what the module `entry` does. Each module becomes a function that is called once.

    It knows the imports and exports that the page's modules have: `import { a, b } from "./file.js";` on a
    line of its own, `export` before a function, const or class, and a list of exports at the end of a module.
    Comments, empty lines and spaces at the beginning of a line are left out, except in `vendor/`. Raises
    `ValueError` for other imports and exports, for modules that import each other, and for text that would
    end the script.
    """
    functions: dict[str, str] = {}
    add_module(entry.parent, entry.name, functions, ())
    script = "".join(['"use strict";\n(() => {\nconst modules = {};\n', *functions.values(), "})();\n"])
    if re.search(r"</script|<!--", script, re.IGNORECASE):
        raise ValueError("A module contains </script or <!--, which HTML reads as markup.")
    return script


def add_module(folder: Path, name: str, functions: dict[str, str], importers: tuple[str, ...]) -> None:
    """Add a module as a function, after those that it imports. Names of modules are paths in the folder.

    Raises `ValueError` if modules import each other.
    """
    if name in importers:
        raise ValueError(f"{name} and {importers[-1]} import each other.")
    if name in functions:
        return
    text = (folder / name).read_text("utf-8")
    if not name.startswith("vendor/"):  # whose licences are comments
        text = LEFT_OUT.sub("", text)
    for _, imported in IMPORT.findall(text):
        add_module(folder, imported, functions, (*importers, name))
    functions[name] = module_function(name, text)


def module_function(name: str, text: str) -> str:
    """A module as a function whose result, an object of its exports, is kept under the module's name."""
    exports: list[str] = []

    def listed(match: re.Match[str]) -> str:
        for entry in match[1].split(","):
            local, _, exported = entry.strip().partition(" as ")
            exports.append(f"{exported or local}: {local}")
        return ""

    lines = [converted(name, line, exports) for line in EXPORT_LIST.sub(listed, text).splitlines()]
    body = "\n".join([*lines, f"return {{ {', '.join(exports)} }};"])
    return f'modules["{name}"] = (() => {{\n{body}\n}})();\n'


def converted(name: str, line: str, exports: list[str]) -> str:
    """A line of a module as a line of a function. What it exports is appended to `exports`.

    Raises `ValueError` for an import or export of another form.
    """
    if match := IMPORT.fullmatch(line):
        return f'const {{ {match[1].replace(" as ", ": ")} }} = modules["{match[2]}"];'
    if match := EXPORT.match(line):
        exports.append(match[1])
        return line.removeprefix("export ")
    if re.search(r"^\s*(import|export)\b|\bimport\s*[(.]", line):
        raise ValueError(f"{name} has an import or export that is not known: {line.strip()[:80]}")
    return line
