"""The benchmarks run, at toy size."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def test_the_benchmark_for_a_gpu_runs_anywhere(tmp_path):
    command = [sys.executable, str(BENCHMARKS / "gpu_train.py"), "--toy", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = json.loads(done.stdout)
    assert found["target_tokens_per_second"] > 0
    assert found["date"]
    assert len(list(tmp_path.glob("gpu-train-base-random-*.json"))) == 1
