"""The files of deploy/ for monitoring: a real Prometheus scrapes a server, and has all that they ask for."""

import json
import re
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import yaml

from tests.conftest import MAX_SECONDS
from tests.servers import add_key, serving
from tests.test_addresses import free_port
from tests.test_deploy import accepted

DEPLOY = Path(__file__).parents[1] / "deploy"
RULES = yaml.safe_load((DEPLOY / "alerts.yml").read_text("utf-8"))["groups"][0]["rules"]
DASHBOARD = json.loads((DEPLOY / "grafana.json").read_text("utf-8"))
QUERIES = {target["expr"]: panel["title"] for panel in DASHBOARD["panels"] for target in panel["targets"]}
REQUESTS = 'dragoman_requests_total{instance="a",route="/v1/translate",status="%s"}'
SECONDS = 'dragoman_request_seconds_bucket{instance="a",model="m",route="/translate",le="%s"}'
REFUSED = 'dragoman_refused_total{instance="a",code="%s"}'
CONNECTIONS = 'dragoman_refused_connections_total{instance="a",status="%s"}'
BUILD = 'dragoman_build_info{instance="a",process="%s"}'
FIRING = {
    "DragomanDown": {'up{job="dragoman",instance="a"}': "0x30"},
    "DragomanProcessMissing": {BUILD % 0: "1x30", BUILD % 1: "1x9 stale"},
    "DragomanDefect": {REQUESTS % 500: "_x19 1x10"},
    "DragomanBusy": {REQUESTS % 429: "0+6x30", REQUESTS % 200: "0+60x30", REFUSED % "queue_full": "0+6x30"},
    "DragomanLate": {REQUESTS % 200: "0+60x30", REFUSED % "deadline_passed": "0+1x30"},
    "DragomanSlow": {SECONDS % "2.0": "0+90x30", SECONDS % "4.0": "0+99x30", SECONDS % "+Inf": "0+100x30"},
    "DragomanTooManyConnections": {CONNECTIONS % 503: "0x25 3x5"},
}
"""What each alert is about, minute by minute."""
CALM = {
    'up{job="dragoman",instance="a"}': "1x30",
    BUILD % 0: "1x30",
    REQUESTS % 200: "0+60x30",
    REQUESTS % 429: "0+1x30",
    REQUESTS % 500: "7x30",
    REFUSED % "queue_full": "0+1x30",
    REFUSED % "bad_request": "0+9x30",
    CONNECTIONS % 408: "0+9x30",
    CONNECTIONS % 503: "5x30",
    SECONDS % "2.0": "0+99x30",
    SECONDS % "+Inf": "0+100x30",
}


def test_prometheus_accepts_its_files(tmp_path):
    accepted("promtool", "check", "rules", DEPLOY / "alerts.yml")
    text = (DEPLOY / "prometheus.yml").read_text("utf-8")
    (tmp_path / "key").write_text("key")
    (tmp_path / "prometheus.yml").write_text(text.replace("/etc/prometheus/dragoman.key", f"{tmp_path}/key"))
    shutil.copy(DEPLOY / "alerts.yml", tmp_path)
    accepted("promtool", "check", "config", tmp_path / "prometheus.yml")


def expected(rule, fires):
    """What promtool expects of a rule at the end."""
    labels = rule["labels"] | {"instance": "a"}
    labels |= {"DragomanDown": {"job": "dragoman"}, "DragomanSlow": {"model": "m"}}.get(rule["alert"], {})
    summary = rule["annotations"]["summary"]
    for name, value in labels.items():
        summary = summary.replace(f"{{{{ $labels.{name} }}}}", value)
    alert = {"exp_labels": labels, "exp_annotations": {"summary": summary}}
    return {"eval_time": "28m", "alertname": rule["alert"], "exp_alerts": [alert] if fires else []}


def test_each_alert_fires_when_it_should_and_none_while_all_is_well(tmp_path):
    assert FIRING.keys() == {rule["alert"] for rule in RULES}
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": each, "values": values} for each, values in series.items()],
            "alert_rule_test": [expected(rule, rule["alert"] == name) for rule in RULES],
        }
        for name, series in [*FIRING.items(), (None, CALM)]
    ]
    file = {"rule_files": [str(DEPLOY / "alerts.yml")], "tests": tests}
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(file))
    accepted("promtool", "test", "rules", tmp_path / "tests.yml")


@contextmanager
def prometheus(folder, address, key):
    """A Prometheus with the files of deploy/, which scrapes a server each second; a client of it."""
    text = (DEPLOY / "prometheus.yml").read_text("utf-8")
    for old, new in (
        ("/etc/prometheus/dragoman.key", str(folder / "key")),
        ("[127.0.0.1:8001, 127.0.0.1:8002]", f"[{address.removeprefix('http://')}]"),
        ("scrape_interval: 15s", "scrape_interval: 1s\n  evaluation_interval: 1s"),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "prometheus.yml").write_text(text)
    (folder / "key").write_text(key)
    shutil.copy(DEPLOY / "alerts.yml", folder)
    port = free_port()
    files = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    command = ["prometheus", *files, f"--web.listen-address=127.0.0.1:{port}"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}/api/v1", timeout=MAX_SECONDS) as client:
            yield client
    finally:
        process.kill()
        process.wait(MAX_SECONDS)


def until_there(read):
    """What a function gives as soon as it is something."""
    until = time.monotonic() + MAX_SECONDS
    while True:
        try:
            if found := read():
                return found
        except httpx.TransportError:
            pass
        assert time.monotonic() < until
        time.sleep(0.2)


def evaluated_rules(client):
    """The rules, once all of them have been evaluated."""
    groups = client.get("/rules").json()["data"]["groups"]
    rules = groups[0]["rules"] if groups else []
    return rules if all(rule["health"] != "unknown" for rule in rules) else []


@pytest.mark.long
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")
def test_a_prometheus_scrapes_the_server_and_the_dashboard_has_its_data(trained, tmp_path):
    key = add_key(tmp_path / "keys.toml", "prometheus")
    options = ["--api-keys", tmp_path / "keys.toml", "--processes", 2, "--cache-bytes", 10**6]
    with (
        serving(trained / "run", *options) as server,
        server.client(headers={"Authorization": f"Bearer {key}", "Connection": "close"}) as sender,
        prometheus(tmp_path, server.address, key) as client,
    ):

        def results(query):
            query = query.replace("$job", ".*").replace("$instance", ".*").replace("$__rate_interval", "1m")
            answer = client.get("/query", params={"query": query}).json()
            assert answer["status"] == "success", (query, answer)
            return answer["data"]["result"]

        def results_with_traffic(query):
            sender.post("/v1/translate", json={"text": "amber"})
            return results(query)

        assert until_there(lambda: results('up{job="dragoman"} == 1'))
        assert until_there(lambda: results("count(dragoman_build_info) == 2"))
        for query, title in QUERIES.items():
            if title == "Alerts":
                assert results(query) == []
            else:
                assert until_there(lambda: results_with_traffic(query)), title
        rules = until_there(lambda: evaluated_rules(client))
        assert [(rule["name"], rule["health"]) for rule in rules] == [(rule["alert"], "ok") for rule in RULES]
        asked = " ".join([*QUERIES, *(rule["expr"] for rule in RULES)])
        for name in set(re.findall(r"dragoman_\w+", asked)):
            assert results(f"count({name})"), name
