"""The description of the APIs against the real server, by schemathesis."""

import subprocess
import sys

import pytest

from tests.conftest import MOST_SECONDS
from tests.servers import serving

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

CONFIG = """\
[checks.positive_data_acceptance]
# 400: settings that contradict each other and languages without a model, which a schema cannot tell.
expected-statuses = [200, 400, 403, 404, 413, 429, 503, 504]
"""


def check_description(folder, run, examples):
    """Run all checks, stateful ones included, with so many examples for each operation."""
    (folder / "schemathesis.toml").write_text(CONFIG)
    with serving(run, "--deadline", 2) as server:
        command = [
            sys.executable, "-m", "schemathesis.cli", "--config-file", folder / "schemathesis.toml",
            "run", f"{server.address}/openapi.json", "--checks", "all", "--phases",
            "examples,coverage,fuzzing,stateful", "--max-examples", examples, "--seed", 1,
            "--generation-database", "none", "--no-color", "--continue-on-failure",
        ]  # fmt: skip
        done = subprocess.run(
            list(map(str, command)), cwd=folder, capture_output=True, text=True, timeout=MOST_SECONDS
        )
        assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
        assert not any('"error"' in line for line in server.log)


def test_answers_are_as_described(trained, tmp_path):
    check_description(tmp_path, trained / "run", 3)


@pytest.mark.long
def test_many_answers_are_as_described(trained, tmp_path):
    check_description(tmp_path, trained / "run", 200)
