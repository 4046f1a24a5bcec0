"""The address of a server: under a path, and with TLS."""

import re
import shutil
import signal
import socket
import ssl
import subprocess
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.native.settings import EngineSettings
from dragoman.serving.app import make_app
from dragoman.serving.loading import load_models
from dragoman.serving.metrics import Metrics
from dragoman.serving.service import Service
from dragoman.serving.settings import ServerSettings
from dragoman.serving.tls import read_certificate
from dragoman.system.errors import DragomanError, OptionError
from tests.conftest import MAX_SECONDS
from tests.servers import serving
from tests.test_served_adapters import answers
from tests.test_serving import when_loaded

DEPLOY = Path(__file__).parents[1] / "deploy"
PATHS = [
    "/",
    "/inspect",
    "/docs",
    "/openapi.json",
    "/page/page.js",
    "/page/vendor/preact.js",
    "/lab/",
    "/health",
    "/v1/models",
    "/languages",
    "/nothing",
]


@pytest.fixture(scope="module")
def models(trained):
    return load_models([trained / "run"], EngineSettings())


def app_of(models, prefix):
    return make_app(Service(models, ServerSettings(url_prefix=prefix), Metrics()), None)


# ---- under a path


@pytest.mark.long
@settings(max_examples=10)
@given(st.from_regex(r"(/[a-z~][a-z0-9.]{0,4}){1,2}", fullmatch=True))
def test_a_path_with_the_prefix_is_answered_as_without_it(models, prefix):
    plain, prefixed = app_of(models, ""), app_of(models, prefix)
    asked = [
        *((path, None) for path in PATHS),
        ("/v1/translate", {"text": "amber"}),
        ("/translate", {"q": 1}),
    ]
    expected = answers(plain, *asked)
    for found in (
        answers(prefixed, *((prefix + path, body) for path, body in asked)),  # the proxy passes the path
        answers(prefixed, *asked),  # it takes the prefix away
    ):
        for (path, _), one, other in zip(asked, found, expected, strict=True):
            assert one.status_code == other.status_code, path
            if path == "/openapi.json":
                assert one.json() == {**other.json(), "servers": [{"url": prefix}]}
            else:
                assert one.text == other.text


@pytest.mark.short_form(7)
@pytest.mark.parametrize("prefix", ["", "/mt", "/a/b"])
@pytest.mark.parametrize("path", ["/", "/inspect", "/docs", "/lab/", "/lab/softmax-axis"])
def test_what_a_page_refers_to_is_under_the_prefix(models, prefix, path):
    """The header's links begin with the root that the page names."""
    app = app_of(models, prefix)
    (page,) = answers(app, (prefix + path, None))
    addresses = re.findall(r'(?:src|href)="([^"#]*)', page.text)
    paths = {urljoin(prefix + path, address) for address in addresses if "://" not in address}
    assert len(paths) > 2
    assert all(found.startswith(f"{prefix}/") for found in paths)
    assert {answer.status_code for answer in answers(app, *((found, None) for found in paths))} == {200}
    for root in re.findall(r'data-root="([^"]*)"', page.text):
        assert urljoin(prefix + path, root) == f"{prefix}/"


def test_the_prefix_alone_leads_to_the_page(models):
    app = app_of(models, "/translate")
    (page,) = answers(app, ("/translate", None))
    assert (page.status_code, page.headers["location"]) == (307, "/translate/")
    (translated,) = answers(app, ("/translate", {"q": "amber", "source": "en", "target": "de"}))
    assert translated.status_code == 200  # a proxy has taken the prefix of /translate/translate away


@pytest.mark.parametrize("prefix", ["/v1", "/v2", "/page", "/lab", "/docs", "/frontend"])
def test_a_prefix_with_which_paths_of_the_server_begin_is_refused(models, prefix):
    with pytest.raises(OptionError, match=f"url_prefix is {prefix}, with which paths of the server itself"):
        app_of(models, prefix)


@pytest.mark.parametrize(
    "prefix", ["mt", "/", "/mt/", "//mt", "/a b", "/..", "/a/../b", "/mt?a", "https://a.b/c"]
)
def test_what_is_no_path_is_refused(prefix):
    with pytest.raises(OptionError, match="url_prefix is .*; it has to be a path that begins with /"):
        ServerSettings(url_prefix=prefix)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def wait_for(address, process):
    transport = httpx.HTTPTransport(retries=20)
    with httpx.Client(transport=transport, verify=False) as client:
        assert process.poll() is None
        return client.get(f"{address}/health", timeout=MAX_SECONDS)


def check_behind_proxy(address, server):
    """The page, a file of it, a translation, and the address of a translated file, through a proxy."""
    with httpx.Client(base_url=address, timeout=MAX_SECONDS, verify=False) as client:
        assert '"page/page.js"' in client.get("/mt/").text
        assert client.get("/mt/page/page.js").status_code == 200
        assert client.get("/mt/openapi.json").json()["servers"] == [{"url": "/mt"}]
        assert client.get("/mt").headers["location"] == "/mt/"
        body = {"text": "amber"}
        with server.client() as direct:
            expected = direct.post("/v1/translate", json=body).json()
        assert client.post("/mt/v1/translate", json=body).json() == expected
        files = {"file": ("a.txt", b"amber", "text/plain")}
        form = {"source": "en", "target": "de"}
        file = client.post("/mt/translate_file", files=files, data=form).json()["translatedFileUrl"]
        assert file.startswith(f"{address}/mt/download_file/")
        assert client.get(file).text.strip() == expected["translations"][0]["text"]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy is not installed")
def test_behind_haproxy_which_passes_the_path(trained, tmp_path):
    with serving(trained / "run", "--url-prefix", "/mt") as server:
        port = free_port()
        text = (DEPLOY / "haproxy.cfg").read_text()
        text = text.replace("127.0.0.1:8080", f"127.0.0.1:{port}").replace("option httpchk GET /ready", "")
        for replica in ("127.0.0.1:8001", "127.0.0.1:8002"):
            text = text.replace(replica, server.address.removeprefix("http://").removesuffix("/mt"))
        (tmp_path / "haproxy.cfg").write_text(text.replace("    http-check expect status 200\n", ""))
        proxy = subprocess.Popen(["haproxy", "-f", tmp_path / "haproxy.cfg"], stderr=subprocess.DEVNULL)
        try:
            wait_for(f"http://127.0.0.1:{port}", proxy)
            check_behind_proxy(f"http://127.0.0.1:{port}", server)
        finally:
            proxy.terminate()
            proxy.wait(MAX_SECONDS)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("caddy") is None, reason="caddy is not installed")
@pytest.mark.parametrize("directive", ["handle", "handle_path"])
def test_behind_caddy_which_passes_the_path_or_takes_the_prefix_away(trained, tmp_path, directive):
    with serving(trained / "run", "--url-prefix", "/mt") as server:
        port, upstream = free_port(), server.address.removeprefix("http://").removesuffix("/mt")
        (tmp_path / "Caddyfile").write_text(
            f"{{\n\tadmin off\n\tauto_https off\n}}\nhttp://127.0.0.1:{port} {{\n"
            f"\t{directive} /mt/* {{\n\t\treverse_proxy {upstream}\n\t}}\n"
            f"\thandle {{\n\t\treverse_proxy {upstream}\n\t}}\n}}\n"
        )
        command = ["caddy", "run", "--adapter", "caddyfile", "--config", tmp_path / "Caddyfile"]
        proxy = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            wait_for(f"http://127.0.0.1:{port}", proxy)
            check_behind_proxy(f"http://127.0.0.1:{port}", server)
        finally:
            proxy.terminate()
            proxy.wait(MAX_SECONDS)


# ---- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate of 127.0.0.1 that has signed itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    return make_certificate(tmp_path_factory.mktemp("tls"))


def make_certificate(folder):
    """A certificate with another key each time."""
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ),
            *("-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days", "2"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return folder / "cert.pem", folder / "key.pem"


@pytest.mark.long
@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_server_with_a_certificate_speaks_https_alone(trained, certificate, processes):
    cert, key = certificate
    options = ["--tls-cert", cert, "--tls-key", key, "--processes", processes]
    with serving(trained / "run", *options) as server:
        assert server.address.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=cert)
        with httpx.Client(base_url=server.address, timeout=MAX_SECONDS, verify=context) as client:
            assert client.get("/v1/models").status_code == 200
            ids = set()
            for _ in range(4):  # each process has to find the documents of the other one
                headers = {"Content-Type": "application/octet-stream", "Connection": "close"}
                sent = client.post("/v1/documents?name=a.txt", content=b"amber", headers=headers)
                ids.add(sent.json()["id"])
            for name in ids:
                for _ in range(4):
                    status = client.get(f"/v1/documents/{name}", headers={"Connection": "close"})
                    assert status.status_code == 200
        with pytest.raises(httpx.HTTPError):
            httpx.get(server.address.replace("https", "http") + "/health")
        assert server.stop() == 0


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_reload_gives_new_connections_the_certificate_of_the_files(
    trained, certificate, tmp_path, processes
):
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    renewed = make_certificate(tmp_path)[0].read_text(), files[1].read_text()
    first = certificate[0].read_text(), certificate[1].read_text()

    def write(*texts):
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)

    def certificates():
        return {ssl.get_server_certificate((url.host, url.port)) for _ in range(4)}

    write(*first)
    options = ["--tls-cert", files[0], "--tls-key", files[1], "--processes", processes]
    with serving(trained / "run", *options, has_terminal=False) as server, server.client() as client:
        url = httpx.URL(server.address)
        if processes > 1:
            when_loaded(server)
        assert client.get("/health").status_code == 200
        assert certificates() == {first[0]}
        for number, texts in enumerate((renewed, first), 1):
            write(*texts)
            server.process.send_signal(signal.SIGHUP)
            server.wait_for("have been read again", number)
            assert certificates() == {texts[0]}
        write(renewed[0], first[1])
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("cannot be used for TLS")
        assert certificates() == {first[0]}
        assert client.get("/health").status_code == 200  # the connection from before


def test_a_certificate_that_cannot_be_used_is_refused_at_the_start(certificate, tmp_path):
    cert, key = certificate
    (tmp_path / "text.pem").write_text("no certificate")
    for files in ((cert, tmp_path / "none"), (tmp_path / "text.pem", key), (cert, cert), (tmp_path, key)):
        settings = ServerSettings(tls_cert=files[0], tls_key=files[1])
        with pytest.raises(DragomanError, match="cannot be used for TLS: .*Give a certificate and its priv"):
            read_certificate(settings)
    locked = tmp_path / "locked.pem"
    command = ["openssl", "ec", "-in", key, "-out", locked, "-aes256", "-passout", "pass:secret"]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(DragomanError, match="The key in .* has a password; give a key without one"):
        read_certificate(ServerSettings(tls_cert=cert, tls_key=locked))
    with pytest.raises(DragomanError, match=r"cert.pem cannot be used for TLS"):
        read_certificate(ServerSettings(tls_cert=cert))
    (tmp_path / "both.pem").write_text(cert.read_text() + key.read_text())
    read_certificate(ServerSettings(tls_cert=tmp_path / "both.pem"))
