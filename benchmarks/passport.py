"""Where a measurement comes from."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import torch


def passport(command: str) -> dict[str, object]:
    """What was run, of which commit, when, and on what."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return {
        "command": command,
        "commit": commit.stdout.strip(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "machine": f"{os.cpu_count()} cores, {processor()}",
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU",
    }


def processor() -> str:
    """The processor's name, with its family, which tells generations apart that share a name."""
    path = Path("/proc/cpuinfo")
    lines = [line.split(":") for line in path.read_text().splitlines() if ":" in line] if path.exists() else []
    known = {name.strip(): value.strip() for name, value in lines}
    return f"{known.get('model name', platform.processor())}, family {known.get('cpu family', 'unknown')}"
