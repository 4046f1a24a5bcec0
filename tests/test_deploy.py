"""The files of deploy/: each program accepts its own, and commands in them have options that exist."""

import json
import re
import shlex
import shutil
import subprocess
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest

from dragoman.serving.settings import ServerSettings
from tests.conftest import MAX_SECONDS
from tests.test_addresses import free_port, wait_for
from tests.test_docs import parse

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"


def accepted(program, *arguments):
    """What a program prints that accepts its arguments."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    command = [program, *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=MAX_SECONDS)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_haproxy_accepts_its_file_also_with_the_limit_of_the_rate(tmp_path):
    accepted("haproxy", "-c", "-q", "-f", DEPLOY / "haproxy.cfg")
    text = (DEPLOY / "haproxy.cfg").read_text("utf-8")
    limited, lines = re.subn(r"^    # (stick-table|http-request)", r"    \1", text, flags=re.MULTILINE)
    assert lines == 3
    (tmp_path / "haproxy.cfg").write_text(limited)
    accepted("haproxy", "-c", "-q", "-f", tmp_path / "haproxy.cfg")


class Slow(BaseHTTPRequestHandler):
    """A replica that takes longer than the balancer waits."""

    def do_POST(self):
        time.sleep(0.6)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        """It says nothing."""


def status_of(url):
    """The status of a POST request."""
    return httpx.post(url, content=b"a", timeout=MAX_SECONDS).status_code


@pytest.mark.long
@pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy is not installed")
def test_haproxy_waits_as_long_as_the_server_may_take_for_a_document_or_an_attribution(tmp_path):
    settings, text = ServerSettings(), (DEPLOY / "haproxy.cfg").read_text("utf-8")
    (usual,), (long,) = (re.findall(rf" {name} server +(\d+)s", text) for name in ("timeout", "set-timeout"))
    assert int(usual) > settings.deadline
    assert int(long) > max(settings.document_deadline, settings.deadline + settings.attribution_deadline)
    port = free_port()
    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as replica:
        Thread(target=replica.serve_forever, daemon=True).start()
        for old, new in (
            ("127.0.0.1:8080", f"127.0.0.1:{port}"),
            *((f"127.0.0.1:800{number}", f"127.0.0.1:{replica.server_port}") for number in (1, 2)),
            ("    default-server check", "    # "),
            *((f"timeout {side} 30s", f"timeout {side} 200ms") for side in ("client", "server")),
        ):
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "haproxy.cfg").write_text(text)
        balancer = subprocess.Popen(["haproxy", "-f", tmp_path / "haproxy.cfg"], stderr=subprocess.DEVNULL)
        try:
            wait_for(f"http://127.0.0.1:{port}", balancer)
            paths = [
                "/translate",
                "/translate_file",
                "/v1/inspect",
                "/v1/inspect/stream",
                "/mt/translate_file",
            ]
            with ThreadPoolExecutor(len(paths)) as clients:
                found = clients.map(lambda path: status_of(f"http://127.0.0.1:{port}{path}"), paths)
            assert dict(zip(paths, found, strict=True)) == dict.fromkeys(paths, 200) | {"/translate": 504}
        finally:
            balancer.terminate()
            balancer.wait(MAX_SECONDS)
            replica.shutdown()


def test_caddy_accepts_its_file_and_keeps_the_metrics_to_itself():
    accepted("caddy", "validate", "--adapter", "caddyfile", "--config", DEPLOY / "Caddyfile")
    assert accepted("caddy", "fmt", DEPLOY / "Caddyfile") == (DEPLOY / "Caddyfile").read_text("utf-8")
    adapted = json.loads(accepted("caddy", "adapt", "--config", DEPLOY / "Caddyfile"))
    (site,) = adapted["apps"]["http"]["servers"]["srv0"]["routes"]
    routes = site["handle"][0]["routes"]
    paths = [each["path"] for route in routes for each in route.get("match", [])]
    handlers = [each for route in routes for each in route["handle"]]
    assert paths == [["/metrics"]]
    names = [each["handler"] for each in handlers]
    assert names.index("static_response") < names.index("reverse_proxy")
    (proxy,) = (each for each in handlers if each["handler"] == "reverse_proxy")
    # With passive checks Caddy 2.6 marks the healthy replica down: it gets a POST whose body is closed.
    assert proxy["health_checks"].keys() == {"active"}


def test_the_unit_of_systemd_starts_a_server_with_keys():
    text = (DEPLOY / "dragoman@.service").read_text("utf-8").replace("\\\n", "")
    (command,) = re.findall(r"^ExecStart=(.*)", text, re.MULTILINE)
    words = shlex.split(command.replace("%i", "8001"))
    (loaded,) = re.findall(r"^LoadCredential=(.*):/", text, re.MULTILINE)
    assert words[words.index("--api-keys") + 1] == f"${{CREDENTIALS_DIRECTORY}}/{loaded}"
    parse(words[1:])
    units = re.findall(r"dragoman (serve --api-keys .* --new-key NAME)", text)
    assert units
    for words in map(shlex.split, units):
        parse(words)


def test_the_container_starts_a_server_with_a_python_that_was_tested():
    text = (DEPLOY / "Containerfile").read_text("utf-8")
    words = [json.loads(each) for each in re.findall(r"^(?:ENTRYPOINT|CMD) (.*)", text, re.MULTILINE)]
    parse([*words[0][1:], *words[1]])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    images = set(re.findall(r"^FROM python:([\d.]+)-slim", text, re.MULTILINE))
    assert {f"Programming Language :: Python :: {each}" for each in images} <= {*project["classifiers"]}
    assert len(images) == 1


def test_the_container_gets_no_environment_run_or_site():  # podman reads this name, too
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    assert {".venv", ".git", "runs", "results", "dist", "docs/_build", "**/__pycache__"} <= {*ignored}
