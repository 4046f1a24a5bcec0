"""A step of the build: manual pages and completions, made from the parsers, become data of the wheel."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class FromParsers(BuildHookInterface):
    """Adds the files of `share/man` and the completions of bash, zsh and fish."""

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

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the files, which the wheel has."""
        if version != "editable":
            self.folder.cleanup()
