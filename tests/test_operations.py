"""Operating the server: storms of requests, slow clients, long texts, and replicas behind a balancer."""

import asyncio
import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from dragoman.documents.plain import plain_text
from dragoman.native.build import DECODER, load_library
from dragoman.native.settings import EngineSettings
from dragoman.search.settings import SearchSettings
from dragoman.serving import connections, loading
from dragoman.serving.admission import MAX_CHARACTERS, Preparation
from dragoman.serving.apis.v1_analysis import inspection_events
from dragoman.serving.app import make_app
from dragoman.serving.errors import ApiError
from dragoman.serving.loading import load_models
from dragoman.serving.metrics import BOUNDS, Metrics
from dragoman.serving.middleware import BODY_SECONDS
from dragoman.serving.server import listening
from dragoman.serving.service import Service, keeping_marks, normalized_length, prepare_each
from dragoman.serving.settings import ServerSettings
from dragoman.system.errors import DragomanError
from dragoman.system.futures import interruption
from dragoman.translation.glossary import Glossary
from tests.conftest import MAX_SECONDS
from tests.servers import add_key, serving
from tests.test_served_adapters import answers

pytestmark = [
    pytest.mark.filterwarnings("ignore::dragoman.system.errors.LongInput"),
]

V1 = "/v1/translate"
DEPLOY = Path(__file__).parent.parent / "deploy"
MAX_STORMS = 6
ENDLESS = {"text": "amber", "min_length": 10_000, "max_length": 10_000, "beam_size": 16}


@pytest.fixture(scope="module")
def run(trained):
    return trained / "run"


@pytest.fixture(scope="module")
def server(run):
    with serving(run) as running:
        yield running


def resources(server):
    """The threads, open files and kilobytes of memory of a server."""
    process = Path(f"/proc/{server.process.pid}")
    lines = (line.split(":") for line in (process / "status").read_text().splitlines())
    status = {name: value.split()[0] for name, value in lines if value.strip()}
    return int(status["Threads"]), len(os.listdir(process / "fd")), int(status["VmRSS"])


def wait_until_idle(client):
    until = time.monotonic() + MAX_SECONDS
    while True:
        lines = client.get("/metrics").text.splitlines()
        if {"dragoman_queue_tokens 0.0", "dragoman_running_requests 0.0"} <= set(lines):
            return
        assert time.monotonic() < until
        time.sleep(0.02)


def cancel_requests(server, count, clients=32):
    """Send requests that take long, and close each connection after a moment."""

    async def one(number):
        host, port = server.address.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        body = json.dumps(ENDLESS).encode()
        writer.write(f"POST {V1} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode())
        writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        await asyncio.sleep(0.001 * (number % 20))
        writer.transport.abort()

    async def all_of_them():
        waiting = asyncio.Semaphore(clients)

        async def bounded(number):
            async with waiting:
                await one(number)

        await asyncio.gather(*map(bounded, range(count)))

    asyncio.run(all_of_them())


def check_cancelled_requests(run, count, *, native):
    """Storms of cancelled requests: no thread or file stays, and memory soon stops growing.

    The allocator needs some storms until it has all the memory that it will use again. What each request
    leaks grows with every storm.
    """
    if native:
        load_library(DECODER)  # PyTorch searches until it is compiled
    with serving(run, *[] if native else ["--no-native"]) as server, server.client() as client:
        found = []
        for _ in range(MAX_STORMS):
            cancel_requests(server, count)
            wait_until_idle(client)
            assert client.post(V1, json={"text": "amber"}).status_code == 200
            found.append(resources(server))
            threads, files, memory = found[-1]
            assert threads <= found[0][0]
            assert files <= found[0][1] + 1
            if len(found) > 1 and memory <= 1.01 * found[-2][2]:
                return
        raise AssertionError(
            f"Memory grows with every storm: {[memory for _, _, memory in found]} kilobytes."
        )


@pytest.mark.long
@pytest.mark.parametrize("native", [True, False], ids=["C++", "PyTorch"])
def test_cancelled_requests_leave_nothing(run, native):
    check_cancelled_requests(run, 50, native=native)


@pytest.mark.long
@pytest.mark.parametrize("native", [True, False], ids=["C++", "PyTorch"])
def test_many_cancelled_requests_leave_nothing(run, native):
    check_cancelled_requests(run, 10_000, native=native)


def test_an_analysis_that_is_too_late_is_interrupted():
    service = Service(None, ServerSettings(deadline=0.05), Metrics())
    interrupted = Future()

    def analyse():
        interrupted.set_result(interruption.get().wait(MAX_SECONDS))

    with pytest.raises(ApiError, match="was stopped"):
        asyncio.run(service.analyse(analyse, 1, {}))
    assert interrupted.result(MAX_SECONDS)


def moved_deadlines(service, work):
    """Seconds by which the deadlines of two requests that do the same at once move, and of one after them."""

    async def moved():
        scopes = [{}, {}]
        until = [service.deadline_of(scope) for scope in scopes]
        await asyncio.gather(*map(work, scopes))
        later = {"dragoman.deadline": 10**9}
        await work(later)
        ends = [*map(service.deadline_of, scopes), service.deadline_of(later)]
        return [end - start for end, start in zip(ends, [*until, 10**9], strict=True)]

    return asyncio.run(moved())


def test_the_deadline_does_not_count_the_import_of_pytorch(monkeypatch, tmp_path):
    (tmp_path / "slowly_imported.py").write_text("import time\ntime.sleep(0.1)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("dragoman.serving.service.TORCH", "slowly_imported")
    service = Service(None, ServerSettings(), Metrics())
    first, second, later = moved_deadlines(service, lambda scope: service.analyse(lambda: None, 1, scope))
    assert min(first, second) >= 0.05  # one of them may begin to wait later
    assert later == 0


def test_the_deadline_does_not_count_the_reading_of_dictionaries(monkeypatch):
    monkeypatch.setattr(Glossary, "load_dictionaries", lambda _: time.sleep(0.1))
    service = Service(None, ServerSettings(), Metrics())
    model = SimpleNamespace(source="en", target="de", steps=())
    first, second, later = moved_deadlines(
        service, lambda scope: service.glossary_for([("one", "eins")], (), model, scope)
    )
    assert min(first, second) >= 0.05  # one of them may begin to wait later
    assert later == 0


def test_an_attribution_has_a_deadline_of_its_own():
    service = Service(None, ServerSettings(deadline=0.05, attribution_deadline=MAX_SECONDS), Metrics())
    scope = {"dragoman.deadline": 0.0}  # that of the request has passed

    def attribute():
        return interruption.get().wait(0.2), service.metrics.gauges()

    assert asyncio.run(service.attribute(attribute, 3, scope)) == (False, (3, 1))
    short = Service(None, ServerSettings(attribution_deadline=0.05), Metrics())
    with pytest.raises(ApiError, match="took more than 0.05 seconds and was stopped"):
        asyncio.run(short.attribute(lambda: interruption.get().wait(MAX_SECONDS), 1, {}))


def test_an_attribution_is_interrupted_when_its_stream_is_left():
    service, interrupted = Service(None, ServerSettings(), Metrics()), Future()

    def add_attribution(_, progress):
        progress(1, 2)
        interrupted.set_result(interruption.get().wait(MAX_SECONDS))
        raise CancelledError

    requested = SimpleNamespace(
        request=SimpleNamespace(attribution=True), size=1, add_attribution=add_attribution
    )

    async def leave():
        events = inspection_events(service, requested, None, {})
        first = await anext(events)
        await events.aclose()
        return first

    assert asyncio.run(leave()) == 'event: progress\ndata: {"done": 1, "total": 2}\n\n'
    assert interrupted.result(MAX_SECONDS)


def test_other_analyses_do_not_wait_for_an_attribution():
    service, release = Service(None, ServerSettings(), Metrics()), Event()

    async def both():
        attribution = asyncio.ensure_future(service.attribute(lambda: release.wait(MAX_SECONDS), 1, {}))
        await asyncio.sleep(0)
        await service.analyse(release.set, 1, {})
        return await attribution

    assert asyncio.run(both())


def test_an_analysis_does_not_count_for_the_speed_of_translations():
    service = Service(None, ServerSettings(), Metrics())

    def analyse():
        return service.admission.tokens, service.metrics.gauges()

    assert asyncio.run(service.analyse(analyse, 3, {})) == (0, (3, 1))
    assert (service.admission._done, service.analyses._done) == (0, 3)


def test_a_name_that_no_request_can_give_is_refused(trained, tmp_path):
    folder = tmp_path / "caf\udce9"  # in Latin-1
    shutil.copytree(trained / "run" / "model", folder)
    with pytest.raises(DragomanError, match=r"The name of the folder 'caf\\udce9' is not UTF-8; rename it"):
        load_models([folder], EngineSettings())


def test_texts_to_score_count_by_their_characters_if_they_have_no_spaces(trained):
    models = load_models([trained / "run"], EngineSettings())
    app = make_app(Service(models, ServerSettings(max_tokens=100), Metrics()), None)
    (answer,) = answers(app, ("/v1/score", {"pairs": [["a" * 800, "A" * 800]]}))
    assert answer.status_code == 413
    assert "The request has 102 tokens, and 100 are allowed" in answer.json()["error"]["message"]


def test_changes_are_checked_as_strictly_as_the_rest_of_a_request(trained):
    models = load_models([trained / "run"], EngineSettings())
    app = make_app(Service(models, ServerSettings(max_beam_size=8), Metrics()), None)

    def ask(**body):
        (answer,) = answers(app, ("/v1/inspect", {"text": "amber birch"} | body))
        found = answer.json()
        found.get("origin", {}).pop("date", None)
        return answer.status_code, found

    plain = ask()
    assert plain[0] == 200
    assert ask(changes=[]) == plain
    status, changed = ask(changes=["beam_size=1", "source.1=▁cedar"])
    assert (status, changed["source"]["tokens"][0]) == (200, "▁cedar")
    assert {node["parent"] for node in changed["beam"]["nodes"]} != {None}
    for changes, message in (
        (["cross.9.1=off"], "cross.9.1=off: there is no layer 9; this model has 1 decoder layers."),
        (["cross=off"], "'cross=off' is not a change. Write"),
        (["beam_size=9"], "beam_size is 9; this server allows 8 at most."),
        (["encoder.1=off", "encoder.1.1=off"], "change the same part; leave one of them out."),
    ):
        status, body = ask(changes=changes)
        assert status == 400
        assert message in body["error"]["message"]
    _, body = ask(changes=["beam_size=1"], heads=True)
    assert "leave changes out, or leave heads out" in body["error"]["message"]
    status, body = ask(text="amber " * 70, heads=True)
    assert status == 413
    assert "too long for the effects of all heads" in body["error"]["message"]
    for changes in ("cross.1.1=off", [1], ["x" * 501], ["beam_size=1"] * 1_001):
        status, body = ask(changes=changes)
        assert status in (400, 422)
        assert body["error"]["message"]


def test_the_greatest_beam_holds_for_the_search_before_the_changes_of_an_inspection(trained):
    models = load_models([trained / "run"], EngineSettings())
    app = make_app(Service(models, ServerSettings(max_beam_size=4), Metrics()), None)
    asked = {"text": "amber", "changes": ["target.2=AMBER", "beam_size=1"]}
    wide, changed = (
        answers(app, ("/v1/inspect", {**asked, **other}))[0]
        for other in ({"beam_size": 5}, {"changes": ["beam_size=5"]})
    )
    for answer in (wide, changed):
        assert answer.status_code == 400
        assert "beam_size is 5; this server allows 4 at most." in answer.json()["error"]["message"]


def storm(server, seconds, clients):
    """The statuses of requests by so many clients at once, which wait as Retry-After says."""
    statuses = []

    async def client(connected, until):
        while time.monotonic() < until:
            answer = await connected.post(V1, json={"text": ["amber birch cedar delta"] * 8})
            statuses.append(answer.status_code)
            if answer.status_code == 429:
                assert int(answer.headers["retry-after"]) >= 1
                await asyncio.sleep(min(int(answer.headers["retry-after"]), until - time.monotonic(), 1))

    async def all_of_them():
        limits = httpx.Limits(max_connections=clients)
        until = time.monotonic() + seconds
        async with httpx.AsyncClient(
            base_url=server.address, timeout=MAX_SECONDS, limits=limits
        ) as connected:
            await asyncio.gather(*(client(connected, until) for _ in range(clients)))

    asyncio.run(all_of_them())
    return statuses


def check_storm(run, seconds, tolerance):
    # A queue of 200 tokens holds five of these requests.
    with serving(run, "--queue-tokens", 200) as server, server.client() as client:
        statuses = storm(server, seconds / 5, 40)
        memory = resources(server)[2]
        statuses += storm(server, seconds, 40)
        assert set(statuses) == {200, 429}
        wait_until_idle(client)
        assert resources(server)[2] <= tolerance * memory
        assert client.post(V1, json={"text": "amber"}).status_code == 200


@pytest.mark.long
def test_more_than_the_server_can_do_gets_429(run):
    check_storm(run, 1.5, 1.1)


@pytest.mark.long
def test_five_minutes_of_more_than_the_server_can_do(run):
    check_storm(run, 300, 1.05)


@pytest.mark.long
def test_health_answers_while_a_long_text_is_prepared(run):
    html = "<p>" + "<b>a</b>. B. c! D? " * 8_000
    with (
        serving(run) as server,
        server.client() as client,
        server.client() as other,
        ThreadPoolExecutor(1) as thread,
    ):
        long = thread.submit(other.post, V1, json={"text": html, "format": "html"})
        answered = 0
        while not long.done():
            assert client.get("/health").status_code == 200
            answered += 1
        assert answered > 10
        assert long.result().status_code == 413
        assert "tokens, and 20,000 are allowed" in long.result().json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (V1, {"text": "a. " * 200_000}, "error"),
        ("/translate", {"q": "a. " * 200_000, "source": "en", "target": "de"}, "error"),
        ("/v2/translate", {"text": ["a. " * 200_000], "target_lang": "und"}, "message"),
    ],
)
def test_a_text_that_cannot_fit_is_refused_before_it_is_cut(server, path, body, field):
    with server.client() as client:
        answer = client.post(path, json=body)
        assert answer.status_code == 413
        assert "600,000 characters, and 320,000 are allowed" in str(answer.json()[field])


@contextmanager
def connection(server):
    host, port = server.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=MAX_SECONDS) as connected:
        yield connected


def read_all(connected):
    parts = []
    with suppress(ConnectionResetError):
        while part := connected.recv(65_536):
            parts.append(part)
    return b"".join(parts)


HEAD = f"POST {V1} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()


SMALL_BUFFERS = """
import socket
from contextlib import contextmanager

from dragoman.cli.main import main
from dragoman.serving import server

listening = server.listening


@contextmanager
def with_small_buffers(settings):
    with listening(settings) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # its connections inherit it
        yield listener


server.listening = with_small_buffers
main()
"""
IMPATIENT = SMALL_BUFFERS.replace(
    "main()",
    """
from dragoman.serving import connections, middleware

connections.HEAD_SECONDS /= 5
connections.MESSAGE_SECONDS /= 5
middleware.BODY_SECONDS /= 5
middleware.SEND_SECONDS /= 30
main()
""",
)
BUNDLE = "/docs/static/swagger-ui-bundle.js"


@pytest.mark.long
def test_slow_heads_slow_bodies_and_clients_that_do_not_read_end(run):
    with (
        serving(run, program=("-c", IMPATIENT)) as server,
        connection(server) as silent,
        connection(server) as head,
        connection(server) as body,
        connection(server) as deaf,
        connection(server) as idle,
        server.client() as client,
    ):
        idle.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert idle.recv(65_536).startswith(b"HTTP/1.1 200")
        idle.sendall(b"\r\n")  # the beginning of no request
        deaf.sendall(f"GET {BUNDLE} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head.sendall(b"GET /health HTTP/1.1\r\nHost:")
        body.sendall(HEAD + b'Content-Length: 20\r\n\r\n{"te')
        assert client.post(V1, json={"text": "amber"}).status_code == 200
        for slow in (silent, head, idle):
            answer = read_all(slow)
            assert answer.startswith(b"HTTP/1.1 408 Request Timeout")
            assert b"x-content-type-options: nosniff" in answer
            assert b"The request did not arrive in time." in answer
        answer = read_all(body)
        assert answer.startswith(b"HTTP/1.1 408")
        assert answer.count(b"HTTP/1.1 ") == 1
        assert f"The body did not arrive within {BODY_SECONDS / 5:g} seconds.".encode() in answer
        assert client.post(V1, json={"text": "amber"}).status_code == 200
        assert len(read_all(deaf)) < len(client.get(BUNDLE).content)
        server.stop()
    assert any('"code":"client_gone"' in line for line in server.log)
    assert not any('"level":"error"' in line for line in server.log)


def test_a_head_without_an_end_is_refused(server):
    with connection(server) as connected:
        connected.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nA: ")
        with suppress(OSError):  # the server has closed the connection
            while not select.select([connected], [], [], 0)[0]:
                connected.sendall(b"a" * 1_000)
        assert read_all(connected).startswith(b"HTTP/1.1 431 Request Header Fields Too Large")


@pytest.mark.long
def test_a_stream_that_nobody_reads_ends_at_the_deadline(run):
    body = json.dumps({"text": "amber.\n" * 1_500, "prefix": "AMBER " * 60, "beam_size": 1}).encode()
    head = HEAD.replace(V1.encode(), f"{V1}/stream".encode())
    program = ("-c", SMALL_BUFFERS)
    with serving(run, "--deadline", 5, program=program) as server, server.client() as client:
        with connection(server) as connected:
            connected.sendall(head + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            while "dragoman_running_requests 1.0" not in client.get("/metrics").text:
                time.sleep(0.01)
            wait_until_idle(client)
            answer = read_all(connected)
        server.stop()
    assert b"event: piece" in answer
    assert b"event: e" not in answer
    assert any('"code":"deadline_passed"' in line for line in server.log)
    assert not any('"level":"error"' in line for line in server.log)


def test_pipelined_requests_are_answered_in_order(server):
    bodies = [b'{"text":"%s"}' % word for word in (b"amber", b"birch", b"cedar")]
    with connection(server) as connected:
        connected.sendall(
            b"".join(HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(each), each) for each in bodies)
        )
        connected.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answers = read_all(connected)
    places = [answers.index(b'"source":"%s"' % word) for word in (b"amber", b"birch", b"cedar")]
    assert places == sorted(places)
    assert answers.count(b"HTTP/1.1 200 OK") == 4


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
        b"Content-Length: +4\r\n\r\nabcd",
        b"Content-Length: 4, 4\r\n\r\nabcd",
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n0x4\r\nabcd\r\n0\r\n\r\n",
        b"A: b\n\n\r\nX: y\r\n\r\n",
        b"Content-Length: 2\r\n X: folded\r\n\r\n{}",
    ],
)
def test_what_two_servers_could_read_differently_is_refused(server, fields):
    with connection(server) as connected:
        connected.sendall(HEAD + fields + b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connected.shutdown(socket.SHUT_WR)
        answer = read_all(connected)
    assert answer.count(b"HTTP/1.1 ") <= 1
    assert b"/smuggled" not in answer
    assert b"HTTP/1.1 2" not in answer
    if answer:
        assert b"content-security-policy" in answer
    with server.client() as client:
        assert client.post(V1, json={"text": "amber"}).status_code == 200


def test_the_length_of_a_body_may_have_zeros_before_it(server):
    with connection(server) as connected:
        length = b"0" * 5_000 + b"16"
        connected.sendall(
            HEAD + b"Connection: close\r\nContent-Length: %s\r\n\r\n" % length + b'{"text":"amber"}'
        )
        assert read_all(connected).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    "body",
    [
        b'Content-Length: 16\r\nUPGRADE: h2c\r\n\r\n{"text":"amber"}',
        b'Upgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{"text":"amber"}\r\n0\r\n\r\n',
    ],
)
def test_a_request_to_change_the_protocol_is_served_without(server, body):
    head = HEAD + b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n"
    with connection(server) as connected:
        for _ in range(2):
            connected.sendall(head + body)
            answer = b""
            while not answer.endswith(b"}"):
                answer += connected.recv(10_000)
            assert answer.startswith(b"HTTP/1.1 200 OK")
    cut = body.upper().index(b"UPGRADE") + 2
    with connection(server) as connected:  # the header arrives in two: a body must not become a request
        connected.sendall(head + body[:cut])
        time.sleep(0.1)
        connected.sendall(body[cut:] + b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = read_all(connected)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"/smuggled" not in answer


def test_fields_after_a_body_in_chunks_are_not_read(server):
    body = b'10\r\n{"text":"amber"}\r\n0\r\nX-Request-Id: trailer\r\n\r\n'
    with connection(server) as connected:
        connected.sendall(HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
        answer = read_all(connected)
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b"x-request-id: " in answer
    assert b"trailer" not in answer


def test_an_answer_whose_end_is_not_read_is_cut_off(monkeypatch):
    monkeypatch.setattr(connections, "FLUSH_SECONDS", 0.1)

    async def answer_nobody():
        ended = asyncio.get_running_loop().create_future()

        class Answer(asyncio.Protocol):
            def connection_made(self, transport):
                joined = connections.JoinedWrites(transport, asyncio.get_running_loop())
                joined.write(bytes(2**25))
                joined.close()

            def connection_lost(self, exc):
                ended.set_result(exc)

        listener = await asyncio.get_running_loop().create_server(Answer, "127.0.0.1", 0)
        with socket.create_connection(listener.sockets[0].getsockname()):
            async with asyncio.timeout(MAX_SECONDS):
                await ended
        listener.close()

    asyncio.run(answer_nobody())


def test_too_many_connections_are_refused(run):
    with ExitStack() as stack:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))  # as on macOS; the server has it, too
        try:
            server = stack.enter_context(serving(run))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        client = stack.enter_context(server.client())
        assert client.get("/health").status_code == 200  # keeps its connection
        opened = []
        try:
            number = connections.MAX_CONNECTIONS - 1
            opened += [socket.create_connection(address_of(server)) for _ in range(number)]
            with connection(server) as one_more:
                answer = read_all(one_more)
            assert answer.startswith(b"HTTP/1.1 503 Service Unavailable")
            assert b"too many connections; try again later" in answer
            assert b"\r\nretry-after: 1\r\n" in answer
            metrics = client.get("/metrics").text
            assert 'dragoman_refused_connections_total{status="503"} 1.0' in metrics
            assert f"dragoman_connections {connections.MAX_CONNECTIONS}.0" in metrics
        finally:
            for each in opened:
                each.close()


def address_of(server):
    host, port = server.address.removeprefix("http://").split(":")
    return host, int(port)


@pytest.mark.long
def test_texts_are_in_the_log_only_if_asked_for(run):
    with serving(run, "--log-texts") as server, server.client() as client:
        client.post(V1, json={"text": "amber heath"}, headers={"x-request-id": "mine-7"})
        client.post("/v1/score", json={"pairs": [["amber", "AMBER"]]})
        wait_until_idle(client)
        assert server.stop() == 0
        records = [json.loads(line) for line in server.log if line.startswith("{")]
        assert [each["texts"] for each in records if each["id"] == "mine-7"] == [["amber heath"]]
        assert ["amber", "AMBER"] in [each.get("texts") for each in records]


@pytest.mark.parametrize(
    ("path", "name"), [("/v1/models", "error"), ("/languages", "error"), ("/v2/languages", "message")]
)
def test_a_defect_is_explained_in_the_log_only(path, name, capsys):
    app = make_app(Service(None, ServerSettings(), Metrics()), None)  # without models every route fails

    async def get():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get(path, headers={"x-request-id": "mine-8"})

    answer = asyncio.run(get())
    assert answer.status_code == 500
    assert "The server failed. Its log has the reason under the request ID mine-8." in str(
        answer.json()[name]
    )
    (record,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert record["id"] == "mine-8"
    assert record["status"] == 500
    assert "Traceback" in record["error"]
    assert "Traceback" not in answer.text


def test_refusals_count_for_their_route(server):
    with server.client() as client:
        assert client.post(V1, json={"text": "a", "model": "none"}).status_code == 404
        assert client.post(V1, json={"text": 1}).status_code == 400
        lines = client.get("/metrics").text.splitlines()
    for status in (400, 404):
        assert any(f'route="{V1}",status="{status}"' in line for line in lines)


def test_a_request_that_the_framework_refuses_has_a_code_and_its_route(run):
    with serving(run, "--max-body", 200) as server:
        with server.client() as client:
            sent = [
                client.post(V1, json={"text": "a", "unknown": 1}),
                client.post(V1, content="{", headers={"Content-Type": "application/json"}),
                client.post(V1, content="a", headers={"Content-Type": "text/plain"}),
                client.put(V1, json={}),
                client.get("/nothing"),
                client.post(V1, json={"text": "a" * 300}),
            ]
            metrics = client.get("/metrics").text
        server.stop()
    assert [answer.status_code for answer in sent] == [400, 400, 415, 405, 404, 413]
    records = [json.loads(line) for line in server.log if line.startswith("{")]
    codes = ["bad_request"] * 2 + ["unsupported_media_type", "method_not_allowed", "not_found", "too_large"]
    assert [record["code"] for record in records] == codes
    assert [record["route"] for record in records] == [V1] * 4 + ["other", V1]
    for code in {*codes}:
        assert f'dragoman_refused_total{{code="{code}"}} {codes.count(code)}.0' in metrics


def test_every_operation_is_described_with_its_errors(server):
    with server.client() as client:
        description = client.get("/openapi.json").json()
    readiness = description["paths"]["/ready"]["get"]["responses"]
    for status, word in (("200", "ready"), ("503", "stopping")):
        schema = readiness[status]["content"]["application/json"]["schema"]
        assert schema["properties"]["status"]["const"] == word
    assert "security" not in description
    for methods in description["paths"].values():
        assert "requestBody" not in methods.get("get", {})
    names = {each["name"] for each in description["paths"]["/v2/translate"]["get"]["parameters"]}
    assert {"text", "source_lang", "target_lang"} <= names
    operations = [each for methods in description["paths"].values() for each in methods.values()]
    assert len({each["operationId"] for each in operations}) == len(operations)
    for path in (V1, "/v1/translate/stream", "/v1/score", "/translate", "/v2/translate"):
        responses = description["paths"][path]["post"]["responses"]
        statuses = {"200", "400", "403", "404", "408", "413", "415", "421", "429", "500", "503", "504"}
        assert responses.keys() == statuses
        assert "Retry-After" in responses["429"]["headers"]
        assert "application/json" in responses["504"]["content"]


@pytest.mark.long
def test_a_text_that_is_too_long_for_pytorch_is_refused(server):
    long = "amber " * 1_500
    with server.client() as client:
        for path, body in (
            ("/v1/score", {"pairs": [["amber", long]]}),
            ("/v1/alternatives", {"text": long}),
            (V1, {"text": long, "alignment": True, "split_sentences": False, "max_length": 3}),
        ):
            answer = client.post(path, json=body)
            assert answer.status_code == 413
            assert "has more than 1,000 tokens" in answer.json()["error"]["message"]
        answer = client.post(V1, json={"text": "amber " * 300, "attention": True, "max_length": 3})
        assert answer.status_code == 413
        assert "attention weights per head, and 10,000 are allowed" in answer.json()["error"]["message"]


def test_too_much_preparation_is_refused():
    preparation, release = Preparation(), Event()
    first = preparation.submit(release.wait, MAX_CHARACTERS, "one")
    for client, characters in (("one", 1), ("two", MAX_CHARACTERS // 2 + 1)):
        with pytest.raises(ApiError, match="The server is busy"):
            preparation.submit(release.wait, characters, client)
    second = preparation.submit(lambda: 2, MAX_CHARACTERS // 2, "two")
    release.set()
    assert first.result()
    assert second.result() == 2
    assert preparation.submit(lambda: 3, MAX_CHARACTERS, "one").result() == 3


def test_long_constraints_are_tokenized_in_the_thread_of_long_texts(trained):
    service = Service(load_models([trained / "run"], EngineSettings()), ServerSettings(), Metrics())
    app, release = make_app(service, None), Event()
    occupied = service._preparation.submit(release.wait, MAX_CHARACTERS, "127.0.0.1")
    short, long = ({"text": "amber", "prefix": "AMBER " * count} for count in (1, 500))
    found = answers(app, (V1, short), (V1, long), (f"{V1}/stream", long))
    release.set()
    assert occupied.result()
    assert [each.status_code for each in found] == [200, 429, 429]


def test_the_sentences_of_a_stream_share_the_constraints_of_their_request(trained):
    (model,) = load_models([trained / "run"], EngineSettings()).models
    document = plain_text("amber.\nsee https://example.org/a amber\nbirch cedar.\n", "en")
    search = SearchSettings(ban_words=("CEDAR",))
    prepared = prepare_each(model.translator, document.segments, search, 50_000)
    assert [len(each.without_tags) for each in prepared] == [1] * len(document.segments) == [1, 1, 1]
    for each, segment in zip(prepared, document.segments, strict=True):
        assert each == model.translator.prepare([segment.sentence], keeping_marks(search, segment))
    assert prepared[0].constraints is prepared[2].constraints


@pytest.mark.long
def test_sentences_with_addresses_keep_them_and_others_are_split(server):
    text = "see https://example.org/a?b=1 amber birch.\n" + "amber birch cedar " * 20
    with server.client() as client:
        answer = client.post(V1, json={"text": text}).json()["translations"][0]
        assert "https://example.org/a?b=1" in answer["text"]
        alone = client.post(V1, json={"text": text.split("\n")[1]}).json()["translations"][0]
        assert answer["sentences"][1]["tokens"] == alone["sentences"][0]["tokens"]
        assert answer["sentences"][1]["text"] == alone["sentences"][0]["text"]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy is not installed")
def test_no_request_is_lost_with_a_replica_behind_a_balancer(run, tmp_path):
    with serving(run) as one, serving(run) as two:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        settings = (DEPLOY / "haproxy.cfg").read_text()
        for old, new in (
            ("127.0.0.1:8080", f"127.0.0.1:{port}"),
            ("127.0.0.1:8001", one.address.removeprefix("http://")),
            ("127.0.0.1:8002", two.address.removeprefix("http://")),
        ):
            assert old in settings
            settings = settings.replace(old, new)
        (tmp_path / "haproxy.cfg").write_text(settings)
        balancer = subprocess.Popen(["haproxy", "-f", tmp_path / "haproxy.cfg"], stderr=subprocess.DEVNULL)
        try:
            statuses = send_while_one_dies(f"http://127.0.0.1:{port}", one)
        finally:
            balancer.terminate()
            balancer.wait(MAX_SECONDS)
        assert set(statuses) == {200}


def send_while_one_dies(address, victim, requests=160):
    """The statuses of so many requests of eight clients, in the midst of which a server is killed."""
    statuses, numbers = [], iter(range(requests))

    async def client(connected):
        for number in numbers:  # of all clients together
            request = {"text": "amber birch cedar delta", "min_length": 50, "max_length": 50}
            if number == requests // 2:
                victim.process.send_signal(signal.SIGKILL)
            statuses.append((await connected.post(V1, json=request)).status_code)

    async def all_of_them():
        async with httpx.AsyncClient(base_url=address, timeout=MAX_SECONDS) as connected:
            while True:
                with suppress(httpx.ConnectError):
                    if (await connected.get("/ready")).status_code == 200:
                        break
                await asyncio.sleep(0.05)
            await asyncio.gather(*(client(connected) for _ in range(8)))

    asyncio.run(all_of_them())
    return statuses


@settings(max_examples=20)
@given(st.lists(st.floats(0, 20) | st.sampled_from(BOUNDS), max_size=20))
def test_metrics_are_those_of_prometheus_own_counters(seconds):
    registry, ours = CollectorRegistry(), Metrics()
    requests = Counter("dragoman_requests", "", ["route", "status", "model"], registry=registry)
    histogram = Histogram(
        "dragoman_request_seconds", "", ["route", "model"], buckets=BOUNDS, registry=registry
    )
    for number, each in enumerate(seconds):
        route, status, model = f"/{number % 2}", 200 + number % 3, "ab"[number % 4 : number % 4 + 1]
        ours.finished(route, status, each, model)
        requests.labels(route, str(status), model).inc()
        histogram.labels(route, model).observe(each)
    theirs = set(generate_latest(registry).decode().splitlines())
    samples = {line for line in theirs if not line.startswith("#") and "_created" not in line}
    lines = ours.text().decode().splitlines()
    assert samples == {line for line in lines if line.startswith("dragoman_request")}


LIGATURE = "\ufdfa"  # NFKC makes 18 characters of it


def test_texts_that_normalisation_makes_long_are_refused(trained):
    service = Service(
        load_models([trained / "run"], EngineSettings()), ServerSettings(max_tokens=500), Metrics()
    )
    asked = [
        (V1, {"text": LIGATURE * 500}),  # 9,000 characters
        (V1, {"text": "a b " * 900}),  # more tokens than are allowed
        (V1, {"text": "amber", "prefix": LIGATURE * 1_000}),
        (V1, {"text": "amber", "prefix": "A B " * 4_000}),
        (f"{V1}/stream", {"text": "amber", "prefix": "A B " * 4_000}),
    ]
    for found in answers(make_app(service, None), *asked):
        assert found.status_code == 413, found.text
        assert "are allowed" in found.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/translate", "/v1/translate/stream", "/v1/alternatives", "/v1/inspect"])
def test_half_a_character_in_any_text_is_refused(server, path):
    body = b'{"text": "amber", "prefix": "A\\ud800"}'
    with server.client() as client:
        found = client.post(path, content=body, headers={"content-type": "application/json"})
    assert found.status_code == 400, found.text


def test_a_path_with_a_slash_at_its_end_is_not_redirected(server):
    with server.client() as client:
        found = client.get("/v1/models/", follow_redirects=False)
        lab = client.get("/lab", follow_redirects=False)
    assert (found.status_code, lab.headers["location"]) == (404, "lab/")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")
def test_requests_go_before_the_threads_of_a_search(trained, monkeypatch):
    lower = os.getpriority(os.PRIO_PROCESS, 0) + 7
    monkeypatch.setattr(loading, "NICE", lower)
    load_library(DECODER)
    (model,) = load_models([trained / "run"], EngineSettings(workers=1)).models
    model.translator.translate(["amber birch"], SearchSettings())
    threads = map(int, os.listdir("/proc/self/task"))
    assert min(lower, 19) in [os.getpriority(os.PRIO_PROCESS, thread) for thread in threads]


def test_a_server_starts_anew_at_the_address_that_another_one_has_just_left():
    with listening(ServerSettings(port=0)) as listener:
        address = listener.getsockname()
        with socket.create_connection(address) as connected:
            listener.accept()[0].close()  # before the client: the system keeps the address for a minute
            assert connected.recv(1) == b""
    again = ServerSettings(host=address[0], port=address[1])
    refused = pytest.raises(DragomanError, match=f"port {address[1]} cannot be used: .*Give another --port")
    with listening(again), socket.create_connection(address), refused, listening(again):
        pass


def test_a_request_that_is_cut_off_at_the_end_of_a_server_gets_503(trained):
    service = Service(load_models([trained / "run"], EngineSettings()), ServerSettings(), Metrics())
    gateway = make_app(service, None)

    async def cut_off(*_):
        service.is_stopping = True
        raise asyncio.CancelledError

    gateway.app, gateway.direct = cut_off, {}
    (found,) = answers(gateway, ("/v1/alternatives", {"text": "amber"}))
    assert (found.status_code, found.json()["error"]["code"]) == (503, "shutting_down")


@pytest.mark.long
def test_a_wrong_key_is_refused_before_the_body_is_read(trained, tmp_path):
    add_key(tmp_path / "keys.toml", "reader")
    with (
        serving(trained / "run", "--api-keys", tmp_path / "keys.toml") as server,
        socket.create_connection(
            ("127.0.0.1", int(server.address.rpartition(":")[2])), MAX_SECONDS
        ) as open_socket,
    ):
        lines = (
            "POST /v1/translate HTTP/1.1",
            "Host: localhost",
            "Content-Type: application/json",
            "Authorization: Bearer x",
            "Content-Length: 900000",
        )
        open_socket.sendall("\r\n".join([*lines, "", ""]).encode())
        assert open_socket.recv(100).startswith(b"HTTP/1.1 403")


def test_a_long_row_of_accents_takes_linear_time():
    text = "a" + "\u0315" * 150_000 + "\u0300" * 150_000
    assert normalized_length(text) == len(text)
    assert normalized_length(LIGATURE * 10) == 180


def test_tags_are_no_tokens_of_a_request(trained):
    service = Service(
        load_models([trained / "run"], EngineSettings()), ServerSettings(max_tokens=4_000), Metrics()
    )
    page = "<p>amber <b>birch</b> and <i>cedar</i>.</p>" * 300
    (found,) = answers(make_app(service, None), (V1, {"text": page, "format": "html", "beam_size": 1}))
    assert found.status_code == 200, found.text
