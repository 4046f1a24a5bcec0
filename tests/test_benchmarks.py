"""The benchmarks run, at toy size."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import write_copies

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def test_the_benchmark_for_a_gpu_runs_anywhere(tmp_path):
    command = [sys.executable, str(BENCHMARKS / "gpu_train.py"), "--toy", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = json.loads(done.stdout)
    assert found["target_tokens_per_second"] > 0
    assert found["date"]
    assert len(list(tmp_path.glob("gpu-train-base-random-*.json"))) == 1


def test_the_benchmark_for_a_cpu_measures_and_writes_its_passport(tmp_path):
    source, target = write_copies(tmp_path, "train", 2000)
    command = [sys.executable, str(BENCHMARKS / "train.py"), "--source", str(source), "--target", str(target), "--preset", "tiny"]
    more = [
        "--rounds",
        "1",
        "--updates",
        "2",
        "--warm-up",
        "1",
        "--precisions",
        "float32",
        "--systems",
        "dragoman",
        "torch.nn.Transformer",
        "--results",
        str(tmp_path),
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, *more], env=environment, capture_output=True, text=True, timeout=200, check=True)
    assert "ours is" in done.stdout
    (path,) = tmp_path.glob("train-tiny-*.json")
    found = json.loads(path.read_text())
    assert {row["system"] for row in found["rows"]} == {"dragoman", "torch.nn.Transformer"}
    assert all(row["tokens_per_second"] > 0 for row in found["rows"])
    assert found["floor_tokens_per_second"]["float32"] > 0


def test_the_benchmark_of_preparation_measures_every_size(tmp_path):
    source, target = write_copies(tmp_path, "train", 3000)
    command = [sys.executable, str(BENCHMARKS / "prepare.py"), "--source", str(source), "--target", str(target), "--times", "1", "2"]
    subprocess.run([*command, "--results", str(tmp_path)], capture_output=True, timeout=120, check=True)
    (path,) = tmp_path.glob("prepare-*.json")
    found = json.loads(path.read_text())
    assert [row["pairs"] for row in found["rows"]] == [3000, 6000]
    assert all(row["gib"] > 0 for row in found["rows"])
    assert all(row["copies"] == 0 for row in found["rows"])  # the sides are two texts
