"""A step of the build: manual pages and completions, made from the parsers, and compiled libraries.

$DRAGOMAN_WHEEL names a machine, x86_64 or aarch64: the wheel then has the C++ compiled for each of its levels
(native/levels.py) and, if em++ is there, for browsers, and is for Linux on this machine. Otherwise it is for
all, and compiles where it runs.
"""

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class FromSources(BuildHookInterface):
    """Adds the files of `share/man`, the completions of bash, zsh and fish, and compiled libraries."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the files. An editable installation has none."""
        if version == "editable":
            return
        sys.path[:0] = [self.root, str(Path(self.root) / "src")]
        from dragoman.cli.completion import completion_script
        from dragoman.cli.verbs import commands
        from tools.docs import manual

        files = {f"man/man1/{name}": text for name, text in manual.pages().items()}
        for shell, place in {
            "bash": "bash-completion/completions/dragoman",
            "zsh": "zsh/site-functions/_dragoman",
            "fish": "fish/vendor_completions.d/dragoman.fish",
        }.items():
            files[place] = completion_script(shell, commands().values()) + "\n"
        self.folder = TemporaryDirectory()
        for place, text in files.items():
            path = Path(self.folder.name) / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            build_data["shared_data"][str(path)] = f"share/{place}"
        if machine := os.environ.get("DRAGOMAN_WHEEL"):
            build_data["force_include"] |= compile_levels(machine, Path(self.folder.name))
            build_data |= {"pure_python": False, "tag": f"py3-none-linux_{machine}"}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the files, which the wheel has."""
        if version != "editable":
            self.folder.cleanup()


def compile_levels(machine: str, folder: Path) -> dict[str, str]:
    """Compile the C++ for each level of a machine. Returns the libraries, and their places in the wheel."""
    from dragoman.native.build import DECODER, TRAINING_KERNELS
    from dragoman.native.levels import LEVELS
    from dragoman.native.web import COMPILER, PACKAGED, compile_web

    compiler = "g++" if machine == platform.machine() else f"{machine}-linux-gnu-g++"
    places = {}
    for program in (DECODER, TRAINING_KERNELS):
        for level in LEVELS:
            if level.machine == machine:
                place = program.packaged(level)
                own = replace(program, flags=level.flags.split())
                command = [*own.command([compiler]), "-s", program.source, "-o", folder / place.name]
                subprocess.run(command, check=True)  # noqa: S603
                places[str(folder / place.name)] = str(place.relative_to(program.source.parents[2]))
    if shutil.which(COMPILER):
        compile_web(folder / PACKAGED.name)
        places[str(folder / PACKAGED.name)] = str(PACKAGED.relative_to(PACKAGED.parents[3]))
    return places
