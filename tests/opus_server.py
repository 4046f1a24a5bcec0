"""A server on this machine that answers as OPUS does: its API, and files of which it sends parts."""

import io
import json
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

README = """Corpus Name: {corpus}
Package: {corpus}.de-en in Moses format
Website: http://opus.nlpl.eu/{corpus}-{release}.php
Release: {release}
License: <a href="https://creativecommons.org/licenses/by/2.0/fr/">CC-BY 2.0 FR</a>

This package is part of OPUS - the open collection of parallel corpora

Please cite the following article if you use the OPUS packages and downloads in your own work:
J. Tiedemann, 2012, <i>Parallel Data, Tools and Interfaces in OPUS.</i>
"""


def moses(corpus="Tatoeba", release="v2", lines=3, members=None):
    """A corpus in German and English as a zip file in Moses format."""
    texts = {
        "README": README.format(corpus=corpus, release=release),
        "LICENSE": "CC-BY",
        **{f"{corpus}.de-en.{code}": "".join(f"{code} {n}\n" for n in range(lines)) for code in ("de", "en")},
        f"{corpus}.de-en.xml": "<cesAlign/>",
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in (texts if members is None else members).items():
            archive.writestr(name, text)
    return packed.getvalue()


@dataclass
class Opus:
    """What the server has, and what it was asked for."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    """By their paths."""
    entries: list[dict[str, object]] = field(default_factory=list)
    sends_parts: bool = True
    cut_off_after: int | None = None
    """The bytes of a file after which the connection ends."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Paths, and the parts that were asked for."""

    def add(self, corpus, content, release="v2", ending=".txt.zip", form="moses", latest="True"):
        """Offer a package of a corpus in German and English."""
        path = f"/OPUS-{corpus}/{release}/{form}/de-en{ending}"
        self.files[path] = content
        self.entries.append(
            {
                "alignment_pairs": 3,
                "corpus": corpus,
                "documents": "",
                "id": len(self.entries),
                "latest": latest,
                "preprocessing": form,
                "size": 1 + len(content) // 1024,
                "source": "de",
                "source_tokens": 6,
                "target": "en",
                "target_tokens": 6,
                "url": f"{self.address}{path}",
                "version": release,
            }
        )
        return path

    def answer(self, query):
        """What the API answers to a query."""
        if "languages" in query:
            return {"languages": ["en", "fr"] if query["source"] == "de" else []}
        if query.get("version") == "latest":
            query = {key: value for key, value in query.items() if key != "version"} | {"latest": "True"}
        asked = {"de": "de", "en": "en"}  # the real one puts the languages in the order of their codes
        query["source"], query["target"] = sorted([query["source"], query["target"]])
        known = [entry for entry in self.entries if query["source"] in asked and query["target"] in asked]
        return {"corpora": [entry for entry in known if all(entry.get(k) == v for k, v in query.items())]}


@contextmanager
def opus_server() -> Iterator[Opus]:
    """Serve an `Opus`."""
    opus = Opus()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            url = urlsplit(self.path)
            opus.requests.append((url.path, self.headers.get("Range", "")))
            if url.path == "/opusapi/":
                query = {key: values[0] for key, values in parse_qs(url.query).items()}
                content = json.dumps(opus.answer(query)).encode()
            elif (content := opus.files.get(url.path)) is None:
                self.send_error(404)
                return
            tag, (start, end) = f'"{hash(content):x}"', (0, len(content))
            wanted = self.headers.get("Range") if opus.sends_parts else None
            if wanted and self.headers.get("If-Range", tag) == tag:
                first, last = wanted.removeprefix("bytes=").split("-")
                start, end = int(first), min(int(last or len(content)) + 1, len(content))
                if start >= len(content):
                    self.send_error(416)
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(end - start))
            if opus.sends_parts:
                self.send_header("ETag", tag)
                self.send_header("Last-Modified", formatdate(0, usegmt=True))
            self.end_headers()
            if url.path in opus.files and opus.cut_off_after is not None and end - start > opus.cut_off_after:
                end = start + opus.cut_off_after
            self.wfile.write(content[start:end])

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        opus.address = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield opus
        server.shutdown()
