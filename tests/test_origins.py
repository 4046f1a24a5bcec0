"""Pages of other sites get nothing from a server, and programs, proxies and its own page get all."""

import asyncio
import dataclasses
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dragoman import Translator
from dragoman.serving.app import make_app
from dragoman.serving.errors import ApiError
from dragoman.serving.keys import Keys
from dragoman.serving.metrics import Metrics
from dragoman.serving.models import Models, ServedModel
from dragoman.serving.origins import PAGES, check_request
from dragoman.serving.service import Service
from dragoman.serving.settings import ServerSettings
from dragoman.system.toml import overlay, to_table
from tests.browser import CHROMIUM
from tests.conftest import MAX_SECONDS
from tests.servers import add_key, serving

JSON = "application/json"
KEYS = Path("keys.toml")
LOCAL = ServerSettings()
OPEN = ServerSettings(host="0.0.0.0", no_auth=True)
KEYED = ServerSettings(host="192.0.2.7", api_keys=KEYS)
PROXIED = ServerSettings(allow_hosts=("translate.example.org", "*.test"))
API_PATHS = (
    "/v1/translate",
    "/v1/inspect",
    "/v1/models",
    "/v1/documents/id",
    "/translate",
    "/translate_file",
    "/v2/translate",
    "/languages",
    "/metrics",
)
PATHS = (*API_PATHS, "/openapi.json", "/page/page.js", "/health", *PAGES, "/lab/reversing", "/nothing")


FOREIGN = [
    *("evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example"),
    *("127.evil.example", "evil.example:localhost", "localhost, evil.example", "[::1].evil.example"),
    *(
        "10.0.0.1",
        "0.0.0.0:8000",
        "[::]",
        "::1",
        "[localhost]",
        "localhost:80:80",
        "dragoman",
        "a:b",
        "a@b",
        "",
    ),
]
"""Values of Host that no server on loopback has."""


def status_of(settings, method="GET", path="/v1/models", **headers):
    """The status with which a request is refused by its headers; 200 if it is not."""
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    try:
        check_request(method, path, given, settings)
    except ApiError as error:
        return error.status
    return 200


@pytest.mark.parametrize(
    ("settings", "permitted", "refused"),
    [
        (
            LOCAL,
            ["localhost", "LOCALHOST:8000", "localhost.", "127.0.0.1:1", "127.9.8.7", "[::1]", "[::1]:8000"],
            FOREIGN,
        ),
        (
            ServerSettings(host="Translate.lan", no_auth=True),
            ["translate.lan:8000", "localhost:8000", "192.168.1.5:8000"],
            ["evil.example", "www.translate.lan"],
        ),
        # A container, a pod: services and probes name it by an address or by a name without a dot.
        (OPEN, ["10.1.2.3:8000", "[2001:db8::1]:8000", "dragoman:8000", "localhost"], ["evil.example:8000"]),
        (KEYED, ["192.0.2.7", "translate.example.org", "dragoman"], ["a:b"]),
        (
            PROXIED,
            ["translate.example.org", "TRANSLATE.example.org:443", "a.test", "a.b.test:80", "127.0.0.1:8001"],
            ["example.org", "x.translate.example.org", "test", "atest", "evil.example", "192.0.2.7"],
        ),
        (
            dataclasses.replace(KEYED, allow_hosts=("translate.example.org",)),
            ["translate.example.org", "192.0.2.7:8000"],
            ["other.example.org"],
        ),
        (ServerSettings(allow_hosts=("*",)), ["evil.example", "10.0.0.1:8000"], ["a:b"]),
        (
            ServerSettings(allow_hosts=("10.0.0.1", "2001:db8::1")),
            ["10.0.0.1:8", "[2001:DB8::1]"],
            ["10.0.0.2"],
        ),
    ],
)
def test_the_hosts_of_a_server_are_its_own_and_those_of_allow_hosts(settings, permitted, refused):
    assert [host for host in permitted if status_of(settings, host=host) != 200] == []
    assert [host for host in refused if status_of(settings, host=host) != 421] == []
    assert status_of(settings) == 200  # HTTP/1.0 has no Host: HAProxy's check


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"sec_fetch_site": "none"}, 200),
        ({"sec_fetch_site": "same-origin"}, 200),
        (
            {"sec_fetch_site": "same-origin", "origin": "https://translate.example.org"},
            200,
        ),  # nginx: its Host
        ({"origin": "http://localhost:8000"}, 200),
        ({"origin": "https://LOCALHOST:8000"}, 200),  # behind TLS
        ({"origin": "http://localhost:3000"}, 403),
        ({"origin": "http://localhost"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://evil.example://localhost:8000"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": ""}, 403),
        ({"sec_fetch_site": "none", "origin": "http://evil.example"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "cross-site", "origin": "http://localhost:8000"}, 403),
        ({"sec_fetch_site": "a new word"}, 403),
    ],
)
def test_requests_of_other_origins_are_refused(headers, status):
    for method, path in (("POST", "/translate"), ("GET", "/v1/models"), ("OPTIONS", "/v1/translate")):
        assert status_of(LOCAL, method, path, host="localhost:8000", **headers) == status


def test_every_one_of_several_headers_counts():
    for name, one, other in (
        (b"host", b"localhost", b"evil.example"),
        (b"origin", b"http://localhost", b"http://evil.example"),
        (b"sec-fetch-site", b"same-origin", b"cross-site"),
        (b"content-type", b"application/json", b"text/plain"),
    ):
        for values in ((one, other), (other, one)):
            headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
            headers = [each for each in headers if each[0] != name] + [(name, value) for value in values]
            with pytest.raises(ApiError):
                check_request("POST", "/v1/translate", headers, LOCAL)


@pytest.mark.parametrize(
    "kind", ["text/plain", "multipart/form-data; boundary=a", "", "text/application/json"]
)
def test_the_own_api_takes_json_alone(kind):
    for path, status in (("/v1/translate", 415), ("/v1/x", 415), ("/translate", 200), ("/v2/translate", 200)):
        assert status_of(LOCAL, "POST", path, host="localhost", content_type=kind) == status
    assert status_of(LOCAL, "POST", "/v1/translate", host="localhost") == 415
    for good in (JSON, "Application/JSON; charset=utf-8", " application/json ;a"):
        assert status_of(LOCAL, "POST", "/v1/translate", host="localhost", content_type=good) == 200


SERVERS = st.sampled_from([LOCAL, ServerSettings(host="::1"), OPEN, KEYED, PROXIED])
NAMES = st.sampled_from(
    ["localhost", "127.0.0.1", "[::1]", "evil.example", "translate.example.org", "10.0.0.9"]
)
PORTS = st.sampled_from(["", ":80", ":3000", ":8000", ":8443"])
AUTHORITIES = st.builds(lambda name, port: name + port, NAMES, PORTS)
METHODS = st.sampled_from(["GET", "HEAD", "POST", "PUT", "OPTIONS"])
KINDS = st.sampled_from(
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a", JSON]
)
"""The types that a page may send without asking, and JSON."""
DESTINATIONS = {
    "cors": ["empty", "script", "image"],
    "no-cors": ["empty", "script", "image", "style", "track"],
    "navigate": ["document", "iframe", "frame", "embed", "object"],
}


@st.composite
def requests_of_pages(draw, has_metadata=None):
    """A page's origin, and a request that a browser sends for it.

    Browsers send Sec-Fetch-Site over TLS and to loopback. Origin is in requests other than GET and HEAD, and
    in those whose answer the page may read; it is null for a page without an origin of its own, and where the
    page has so decided.
    """
    page, target = draw(AUTHORITIES), draw(AUTHORITIES)
    mode = draw(st.sampled_from(list(DESTINATIONS)))
    method = draw(METHODS if mode == "cors" else st.sampled_from(["GET", "POST"]))
    scheme = draw(st.sampled_from(["http", "https"]))
    headers = {"host": target}
    if method == "POST":
        headers["content_type"] = draw(KINDS)
    is_opaque = draw(st.booleans())
    if mode == "cors" or method not in ("GET", "HEAD"):
        hides = mode != "cors" and draw(st.booleans())  # the page's Referrer-Policy
        headers["origin"] = "null" if is_opaque or hides else f"{scheme}://{page}"
    is_same = page == target and not is_opaque
    if draw(st.booleans()) if has_metadata is None else has_metadata:
        site = "same-origin" if is_same else draw(st.sampled_from(["same-site", "cross-site"]))
        dest = draw(st.sampled_from(DESTINATIONS[mode]))
        headers |= {"sec_fetch_site": site, "sec_fetch_mode": mode, "sec_fetch_dest": dest}
    return is_same, method, headers


@given(SERVERS, st.sampled_from(PATHS), requests_of_pages())
def test_no_request_of_a_page_of_another_origin_is_answered_but_a_visit(settings, path, sent):
    is_same, method, headers = sent
    assume(not is_same)
    assume("origin" in headers or "sec_fetch_site" in headers)  # nothing tells an image of http:// from curl
    is_visit = (
        method == "GET"
        and (path in PAGES or path.startswith("/lab/"))
        and (headers.get("sec_fetch_mode"), headers.get("sec_fetch_dest")) == ("navigate", "document")
    )
    status = status_of(settings, method, path, **headers)
    assert status in ((200, 421) if is_visit else (403, 421))


@given(st.sampled_from([LOCAL, OPEN, PROXIED]), METHODS, st.sampled_from(PATHS), requests_of_pages())
def test_a_page_whose_name_was_given_the_address_of_the_server_gets_nothing(settings, method, path, sent):
    headers = sent[2] | {"host": "evil.example:8000", "origin": "http://evil.example:8000"}
    assert status_of(settings, method, path, **headers) == 421


@given(SERVERS, METHODS, st.sampled_from(PATHS), AUTHORITIES, st.booleans())
def test_programs_and_the_pages_of_the_server_are_answered(settings, method, path, host, has_metadata):
    program = {"host": host, "content_type": JSON}
    assume(status_of(settings, host=host) == 200)
    assert status_of(settings, method, path, **program) == 200
    page = (
        program | {"origin": f"http://{host}"} | ({"sec_fetch_site": "same-origin"} if has_metadata else {})
    )
    assert status_of(settings, method, path, **page) == 200


@given(METHODS, st.sampled_from(PATHS), requests_of_pages())
def test_pages_of_allowed_origins_are_answered(method, path, sent):
    headers = sent[2] | {"host": "localhost:8000", "content_type": JSON}
    for allowed, origin in (("https://example.org", "https://example.org"), ("*", "null"), ("*", "http://a")):
        settings = ServerSettings(allow_origins=(allowed,))
        assert status_of(settings, method, path, **headers | {"origin": origin}) == 200


def test_processes_get_the_hosts():
    assert overlay(ServerSettings(), to_table(PROXIED), "") == PROXIED


@pytest.fixture(scope="module")
def translator(trained):
    return Translator.load(trained / "run")


def test_what_is_refused_is_neither_translated_nor_read(translator):
    service = Service(Models((ServedModel("ende", "en", "de", translator),)), LOCAL, Metrics())
    app = make_app(service, Keys({}))
    read = []

    async def send():
        async def body():
            read.append("a")
            yield b"{}"

        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return [
                await client.post(path, content=body(), headers=headers)
                for path in ("/v1/translate", "/translate", "/v2/translate", "/nothing")
                for headers in (
                    {"host": "evil.example"},
                    {"origin": "null"},
                    {"sec-fetch-site": "cross-site"},
                )
            ]

    found = asyncio.run(send())
    assert [each.status_code for each in found] == [421, 403, 403] * 4
    assert read == []
    assert service.metrics.refused == {"wrong_host": 4, "cross_origin": 8}
    said = [str(each.json().get("message") or each.json()["error"]) for each in found]
    assert all("--allow-hosts" in each for each in said[::3])
    assert all("--allow-origins" in each for each in said[1::3])
    assert "'evil.example'" in said[0]


@contextmanager
def site(page):
    """The port of a site of another port, with one page."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


ATTACK = """<!doctype html><a id=link href="{server}/">link</a>
<form id=form method=post target=frame action="{server}/v2/translate">
<input name=text value=amber><input name=target_lang value=DE></form><iframe name=frame></iframe>
<script>
const asked = JSON.stringify({{q: "amber", source: "en", target: "de"}});
const send = (path, options) => fetch("{server}" + path, options).then(() => "sent", () => "refused");
const image = new Promise((resolve) => {{
  const shown = new Image();
  shown.onload = shown.onerror = resolve;
  shown.src = "{server}/v2/translate?text=amber&target_lang=DE";
}});
window.attack = Promise.all([
  send("/translate", {{method: "POST", mode: "no-cors", body: asked}}),
  send("/translate", {{method: "POST", mode: "no-cors", body: new Blob([asked])}}),
  send("/v1/translate", {{method: "POST", mode: "no-cors", body: new Blob(['{{"text": "amber"}}'])}}),
  send("/translate", {{method: "POST", mode: "no-cors", body: new URLSearchParams("q=amber&target=de")}}),
  send("/v1/translate", {{method: "POST", headers: {{"Content-Type": "application/json"}}, body: asked}}),
  send("/v1/models", {{}}),
  image,
]);
document.getElementById("form").submit();
</script>"""
ATTACKS = 8


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing: apt-get install chromium")
def test_a_page_of_another_site_gets_nothing_in_a_browser(trained):
    """Also one of another port of the same host, and one whose name has been given the server's address."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is missing")
    with (
        serving(trained / "run") as server,
        playwright.sync_playwright() as engine,
        server.client() as client,
    ):
        rules = "--host-resolver-rules=MAP evil.example 127.0.0.1"
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", rules])
        page = browser.new_page()
        sites = ("127.0.0.1", "localhost", "evil.example")
        with site(ATTACK.format(server=server.address)) as port:
            for number, host in enumerate(sites, 1):
                page.goto(f"http://{host}:{port}/")
                page.evaluate("window.attack")
                page.frame("frame").wait_for_load_state()
                lines = client.get("/metrics").text.splitlines()
                assert not any(line.startswith("dragoman_sentences_total") for line in lines)
                assert f'dragoman_refused_total{{code="cross_origin"}} {ATTACKS * number}.0' in lines
            page.click("#link")
            page.wait_for_url(f"{server.address}/")
            status = page.evaluate("fetch('v1/models').then(({status}) => status)")
            assert status == 200
        rebound = page.goto(server.address.replace("127.0.0.1", "evil.example"))
        assert rebound.status == 421
        browser.close()


@pytest.mark.long
def test_several_processes_refuse_what_one_refuses(trained, tmp_path):
    key = add_key(tmp_path / "keys.toml", "one")
    options = ("--processes", 2, "--api-keys", tmp_path / "keys.toml", "--allow-hosts", "a.example")
    with serving(trained / "run", *options) as server:
        for host, status in (("a.example", 200), ("b.example", 421)):
            headers = {"Host": host, "Authorization": f"Bearer {key}"}
            answer = httpx.get(f"{server.address}/v1/models", headers=headers, timeout=MAX_SECONDS)
            assert answer.status_code == status
        assert server.stop() == 0
