"""The description of the APIs against the real server, by schemathesis."""

import subprocess
import sys

import pytest

from tests.conftest import MAX_SECONDS
from tests.servers import serving

CONFIG = """\
[checks.positive_data_acceptance]
# 400: settings that contradict each other and languages without a model, which a schema cannot tell.
expected-statuses = [200, 201, 204, 400, 403, 404, 413, 429, 503, 504]

[checks.not_a_server_error]
# 504: a request may ask for a translation of 10,000 tokens, by 16 hypotheses.
expected-statuses = ["2xx", "3xx", "4xx", 504]

[checks.negative_data_rejection]
# 413: what is too long for its field can be too long for the server, too.
expected-statuses = [400, 403, 404, 405, 413, 415, 429]

[[operations]]
# These convert types as the servers do that they stand for: a text for a list of one, "1" for 1.
include-path = [
    "/translate", "/translate_file", "/v1/documents",
    "/v2/translate", "/v2/document", "/v2/document/{id}", "/v2/document/{id}/result",
]
checks.negative_data_rejection.enabled = false
"""


def check_description(folder, run, phases, examples):
    """Run all checks in these phases, with so many examples for each operation."""
    (folder / "schemathesis.toml").write_text(CONFIG)
    (folder / "glossaries").mkdir()
    with serving(run, "--deadline", 2, "--glossaries", folder / "glossaries") as server:
        command = [
            sys.executable, "-m", "schemathesis.cli", "--config-file", folder / "schemathesis.toml",
            "run", f"{server.address}/openapi.json", "--phases",
            phases, "--max-examples", examples, "--seed", 1,
            "--generation-database", "none", "--no-color", "--continue-on-failure",
        ]  # fmt: skip
        done = subprocess.run(
            list(map(str, command)),
            check=False,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=MAX_SECONDS,
        )
        assert server.process.poll() is None, server.log[-1]
        assert done.returncode == 0, "\n".join(line[:200] for line in done.stdout.splitlines())
        assert not any('"error"' in line for line in server.log)


@pytest.mark.long
def test_answers_are_as_described(trained, tmp_path):
    check_description(tmp_path, trained / "run", "examples", 1)


@pytest.mark.long
def test_many_answers_are_as_described(trained, tmp_path):
    check_description(tmp_path, trained / "run", "examples,coverage,fuzzing,stateful", 200)
