"""Where a result comes from: command, code, text, machine. Does not import torch at the top.

A run has the passports of the processes that trained it in `passport.json`, the first one first.
"""

import hashlib
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dragoman.system.device import device_name
from dragoman.system.errors import DragomanError
from dragoman.system.files import MANIFEST, file_hash, write_lines
from dragoman.system.readers import MAX_LIST, read_json
from dragoman.text.lines import raw_lines

HERE = Path(__file__).parent
PASSPORT = "passport.json"
# What runs, from the top of the checkout. Results are written in there, and run nothing.
CODE = (":(top)src", ":(top)benchmarks", ":(top,exclude)benchmarks/results")


def passport(command: str, version: str, hashes: Mapping[str, str]) -> dict[str, Any]:
    """The passport of what a command of this version computes here from texts of these hashes."""
    import torch

    return {
        "command": command,
        "version": version,
        **commit(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "machine": f"{os.cpu_count()} cores, {processor()}",
        "device": device_name(),
        "data": dict(hashes),
    }


def command() -> str:
    """The command of this process as it was typed; of a script in Python, its name and arguments."""
    name = Path(sys.argv[0]).name
    return shlex.join(["dragoman" if name == "__main__.py" else name, *sys.argv[1:]])


def add_passport(run: Path, version: str) -> None:
    """Add the passport of this process to a run that it trains or continues."""
    manifest = run / "data" / MANIFEST  # which runs of earlier versions do not have
    hashes = {f"data/{MANIFEST}": file_hash(manifest)} if manifest.exists() else {}
    passports = [*read_passports(run), passport(command(), version, hashes)]
    write_lines(run / PASSPORT, [json.dumps(passports, indent=2)])


def read_passports(run: Path) -> list[dict[str, Any]]:
    """The passports of a run; none if it is of an earlier version.

    Raises `DragomanError` if the file cannot be read or holds something else.
    """
    path = run / PASSPORT
    passports = read_json(path, MAX_LIST) if path.exists() else []
    if not isinstance(passports, list) or not all(isinstance(entry, dict) for entry in passports):
        raise DragomanError(f"{path} has to hold a list of objects, one for each start of the training.")
    return passports


def describe(passport: Mapping[str, Any]) -> str:
    """Version, commit, date and machine in words."""
    version, date, machine = (passport.get(name, "unknown") for name in ("version", "date", "machine"))
    return f"Dragoman {version}{describe_commit(passport)}, {date}, {machine}"


def describe_commit(passport: Mapping[str, Any]) -> str:
    """The commit in parentheses; nothing for a package that is in no repository of its own."""
    changed = " with changes" if passport.get("dirty") else ""
    return f" ({passport['commit']}{changed})" if passport.get("commit") else ""


def origin(passports: Sequence[Mapping[str, Any]]) -> str:
    """What a page says of where its results come from: each different commit, date, machine and torch."""
    origins = {
        name: ", ".join(sorted({str(passport.get(name)) for passport in passports}))
        for name in ("commit", "date", "machine", "device", "torch")
    }
    changed = " with changes" if any(passport.get("dirty") for passport in passports) else ""
    return (
        f"Commit {origins['commit']}{changed}; {origins['date']}; {origins['machine']}; "
        f"{origins['device']};\n  torch {origins['torch']}"
    )


def commit() -> dict[str, Any]:
    """The commit of the package's own repository, and whether its code was changed since; None without one.

    A new file that is not committed is a change, unless git ignores it. A package that is installed in
    another repository is not tracked there.
    """
    if not git("ls-files", Path(__file__).name):
        return {"commit": None}
    return {
        "commit": git("rev-parse", "--short", "HEAD"),
        "dirty": bool(git("status", "--porcelain", "--untracked-files=all", "--", *CODE)),
    }


def git(*words: str) -> str:
    """What git says in the folder of this file; nothing without git or a repository."""
    try:
        process = subprocess.run(  # noqa: S603
            # Without locks: if this process is killed, none stays and keeps the user from committing.
            ["git", "--no-optional-locks", *words],  # noqa: S607
            cwd=HERE,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return process.stdout.strip()


def processor() -> str:
    """The processor's name, with its family, which tells generations apart that share a name."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    known = {
        name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines) if value
    }
    return f"{known.get('model name', platform.processor())}, family {known.get('cpu family', 'unknown')}"


def text_hashes(files: Mapping[str, Path]) -> dict[str, str]:
    """SHA-256 of each file's text, decompressed."""
    hashes = {}
    for name, path in files.items():
        sha = hashlib.sha256()
        for line in raw_lines(path):
            sha.update(line)
        hashes[name] = sha.hexdigest()
    return hashes
