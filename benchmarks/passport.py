"""Where a measurement comes from, and where it is kept."""

import json
import os
import shlex
import subprocess
from argparse import Namespace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import torch

from dragoman.pipeline.passport import CODE, processor


def passport(command: str) -> dict[str, object]:
    """What was run, of which commit (`dirty`: with changes to what runs that are not in it, new files
    too), when, and on what.
    """
    return {
        "command": command,
        "commit": git("rev-parse", "--short", "HEAD"),
        "dirty": bool(git("status", "--porcelain", "--untracked-files=all", "--", *CODE)),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "machine": f"{os.cpu_count()} cores, {processor()}",
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU",
    }


def git(*words: str) -> str:
    """What git says about this checkout; nothing where there is none."""
    return subprocess.run(
        ["git", "--no-optional-locks", *words],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()


def asked(program: str, arguments: Namespace, *places: str) -> str:
    """The command that asks for these arguments, each named with its value, files by their own names;
    `places` stand for themselves.
    """
    words = ["python", f"benchmarks/{program}", *(place.upper() for place in places)]
    for name, value in vars(arguments).items():
        if name not in (*places, "results") and value is not None and value is not False:
            given = [] if value is True else value if isinstance(value, list | tuple) else [value]
            words += [
                f"--{name.replace('_', '-')}",
                *(one.name if isinstance(one, Path) else str(one) for one in given),
            ]
    return shlex.join(words)


def keep(found: dict[str, object], folder: Path, name: str) -> Path:
    """Write a measurement with its passport to NAME-DATE.json, or, where that is another one, to
    NAME-DATE-2.json and so on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        path = folder / f"{name}-{found['date']}{'' if number == 1 else f'-{number}'}.json"
        if not path.exists():
            break
    path.write_text(json.dumps(found, indent=1) + "\n")
    return path
