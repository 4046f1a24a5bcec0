"""A stand-in for the server of the page's tests: the /v1 API with a few words instead of a model.

python -m tests.page_server [PORT] [KEY]
"""

import json
import math
import re
import sys
import threading
import time
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

PAGE = Path(__file__).parents[1] / "src" / "dragoman" / "serving" / "page"
INSPECTION = PAGE.parents[1] / "inspection" / "page"
VENDOR = INSPECTION / "vendor"
PATHS = {"/": "index.html", "/inspect": "inspect.html"}
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
TYPES = {
    ".json": "application/json",
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
PIECE_SECONDS = 0.02

ENGLISH = (
    "the weather is lovely today and train on time a man rides bicycle along river old garden hello world"
)
GERMAN = (
    "das Wetter ist schön heute und Zug nach Plan ein Mann fährt Fahrrad entlang Fluss alte Garten hallo Welt"
)
ENGLISH_GERMAN = dict(zip(ENGLISH.split(), GERMAN.split(), strict=True))
ENGLISH_GERMAN |= {"good": "gut", "morning": "Morgen"}
EXAMPLES = {"en": "A man rides a bicycle.", "de": "Der alte Garten."}
LANGUAGES = {"en": "English", "de": "German", "ar": "Arabic"}
MODELS = [
    {
        "name": name,
        "source": source,
        "target": target,
        "source_name": LANGUAGES[source],
        "target_name": LANGUAGES[target],
        "architecture": "transformer",
        "parameters": parameters,
        "precision": "int8",
        "example": EXAMPLES[source],
        "scripts": ["Latn"],
        "reads_capitals": False,
    }
    for name, source, target, parameters in (
        ("ende", "en", "de", 7_300_000),
        ("deen", "de", "en", 7_300_000),
        ("ende-big", "en", "de", 61_000_000),
        ("enar", "en", "ar", 7_300_000),
    )
]
ARABIC = {"hello": "مرحبا", "world": "العالم", "good": "صباح", "morning": "الخير"}
GLOSSARIES: dict[str, tuple[str, dict[tuple[str, str], list[list[str]]]]] = {
    "garden": ("garden", {("en", "de"): [["garden", "Park"], ["old", "uralt"], ["river", "(Strom)"]]}),
    "both": (
        "<b onclick=alert(1)>Both</b> & “c”",
        {
            ("en", "de"): [["river", "<i>Fluß</i>"], ["world", "(Erde)"]],
            ("de", "en"): [["garten", "park"], ["alte", "ancient"]],
        },
    ),
    "arabic": ("العربية", {("en", "ar"): [["hello", "أهلا"]]}),
}
"""By ids: the name of a glossary, and its terms by languages. Those in parentheses are never used."""
SYNONYMS = ["wunderbar", "herrlich", "angenehm", "mild", "prächtig", "freundlich", "heiter"]


def described_glossaries() -> list[dict]:
    """The glossaries as /v1/glossaries lists them."""
    return [
        {
            "id": glossary_id,
            "name": name,
            "read_only": True,
            "dictionaries": [
                {"source": source, "target": target, "terms": len(terms)}
                for (source, target), terms in dictionaries.items()
            ],
        }
        for glossary_id, (name, dictionaries) in GLOSSARIES.items()
    ]


def listed_terms(path: str) -> dict:
    """The answer of /v1/glossaries/ID/terms."""
    address = urlsplit(path)
    values = dict(parse_qsl(address.query))
    terms = GLOSSARIES[address.path.split("/")[-2]][1][values["source"], values["target"]]
    start = int(values["start"])
    return {"terms_total": len(terms), "terms": terms[start : start + int(values["count"])]}


def terms_of(request: dict, model: str) -> dict[str, str]:
    """The terms of a request: its own come before those of its glossary."""
    chosen = next(one for one in MODELS if one["name"] == model)
    terms = []
    if request.get("glossary"):
        terms = GLOSSARIES[request["glossary"]][1][chosen["source"], chosen["target"]]
    return {source.lower(): target for source, target in reversed([*request.get("terms", []), *terms])}


def unused_terms(text: str, request: dict, model: str) -> list[list[str]]:
    """The terms of a text that its translation does not have, in the order of the text."""
    terms = terms_of(request, model)
    words = dict.fromkeys(word.strip(".,!?;:").lower() for word in text.split())
    return [[word, terms[word]] for word in words if terms.get(word, "").startswith("(")]


def translate_word(word: str, model: str, terms: dict[str, str]) -> str:
    """A word by the terms or the dictionary, else in capitals; capital letters and signs stay."""
    core = word.strip(".,!?;:")
    if (term := terms.get(core.lower(), "(")) and not term.startswith("("):
        return word.replace(core, term)
    known = {
        "en-de": ENGLISH_GERMAN,
        "de-en": {value: key for key, value in ENGLISH_GERMAN.items()},
        "en-ar": ARABIC,
    }
    chosen = next(one for one in MODELS if one["name"] == model)
    words = known[f"{chosen['source']}-{chosen['target']}"]
    found = words.get(core) or words.get(core.lower()) or core.upper()
    if core[:1].isupper():
        found = found[:1].upper() + found[1:]
    return word.replace(core, found) if core else word


def hypothesis(text: str, rank: int = 0) -> dict:
    """A text as a sentence of the answer, without its places."""
    tokens = [f"▁{word}" for word in text.split()]
    log_probability = -0.22 * (len(tokens) + 1) - 0.7 * rank
    penalty = ((5 + len(tokens) + 1) / 6) ** 0.6
    return {
        "text": text,
        "tokens": tokens,
        "log_probability": log_probability,
        "score": log_probability / penalty,
    }


def translate_sentence(source: str, request: dict, model: str) -> dict:
    """A translation word by word; its two first words change places, so that alignments cross."""
    terms = terms_of(request, model)
    words = [translate_word(word, model, terms) for word in source.split()]
    prefix = (request.get("prefix") or "").split()
    words[: len(prefix)] = prefix
    text = " ".join(words)
    answer = {"source": source, **hypothesis(text)}
    count = request.get("n_best", 1)
    others = [" ".join([*words[:-1], f"{other} {words[-1]}"]) for other in SYNONYMS] if words else []
    answer["n_best"] = [hypothesis(other, rank) for rank, other in enumerate([text, *others][:count])]
    if request.get("alignment"):
        answer["alignment"] = [[number, number] for number in range(len(words))]
    return answer


def translate_text(text: str, request: dict, model: str) -> dict:
    """Sentences end at a full stop or a line's end; what lies between them is kept."""
    if request.get("format") == "html":
        out = re.sub(
            r">([^<]*)<",
            lambda m: ">" + " ".join(translate_word(w, model, {}) for w in m[1].split()) + "<",
            text,
        )
        return {"text": out, "sentences": [{"source": text, **hypothesis(out), "n_best": []}]}
    pattern = r"\S[^\n.!?]*[.!?]*" if request.get("split_sentences", True) else r"(?s)\S.*\S|\S"
    out, place, sentences = "", 0, []
    for match in re.finditer(pattern, text):
        source = match[0].rstrip()
        out += text[place : match.start()]
        place = match.start() + len(source)
        sentence = translate_sentence(source, request, model)
        sentences.append(
            {
                **sentence,
                "source_start": match.start(),
                "source_end": place,
                "start": len(out),
                "end": len(out) + len(sentence["text"]),
            }
        )
        out += sentence["text"]
    unused = unused_terms(text, request, model)
    return {
        "text": out + text[place:],
        "sentences": sentences,
        **({"unused_terms": unused} if terms_of(request, model) else {}),
    }


def model_of(request: dict) -> str | None:
    """The model's name, else the first of the pair; a language is detected by its umlauts."""
    source = request.get("source")
    if source == "auto":
        german = re.search(r"[äöüß]|\b(der|das|und|ist)\b", str(request["text"]), re.IGNORECASE)
        source = "de" if german else "en"
    for model in MODELS:
        named = request.get("model") in {None, model["name"]}
        if named and source in {None, model["source"]} and request.get("target") in {None, model["target"]}:
            return model["name"]
    return None


def alternatives(request: dict, model: str) -> list[dict]:
    """The translation's next word, and others in its place."""
    prefix = request["prefix"].split()
    terms = {name: request[name] for name in ("glossary", "terms") if name in request}
    words = translate_sentence(request["text"], terms, model)["text"].split()
    rest = words[len(prefix) :]
    firsts = [*rest[:1], *SYNONYMS][: request["count"]]
    return [
        {
            "token": f"▁{first}",
            "text": " ".join([*prefix, first, *rest[1:]]),
            "log_probability": math.log(0.5) * (rank + 1),
            "score": -0.4 - 0.3 * rank,
        }
        for rank, first in enumerate(firsts)
    ]


def translation(request: dict, model: str) -> dict:
    """The answer of /v1/translate."""
    chosen = next(one for one in MODELS if one["name"] == model)
    texts = request["text"] if isinstance(request["text"], list) else [request["text"]]
    return {
        "model": model,
        "source": chosen["source"],
        "target": chosen["target"],
        "adapter": request.get("adapter", ""),
        "translations": [translate_text(text, request, model) for text in texts],
    }


def events(answer: dict) -> list[bytes]:
    """The answer of /v1/translate/stream: the pieces, then the end."""
    pieces = re.findall(r"\s*\S+\s*", answer["translations"][0]["text"])
    return [*(event("piece", {"text": piece}) for piece in pieces), event("end", answer)]


def event(name: str, data: object) -> bytes:
    """A server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


def settings_of(query: str) -> dict:
    """The parameters of a document. A term is a line with a tab."""
    settings: dict = dict(parse_qsl(query))
    if terms := [value.split("\t") for name, value in parse_qsl(query) if name == "terms"]:
        settings["terms"] = terms
    return settings


class Document:
    """A document, which is a text of any name. `settings` are what its request says beside the name."""

    def __init__(self, number: int, name: str, content: bytes, settings: dict) -> None:
        text = content.decode("utf-8", "replace")
        model = model_of(settings | {"text": text})
        if model is None:
            raise ValueError("No model translates this pair of languages.")
        self.answer = translation(settings | {"text": text}, model)
        self.id, self.name, self.done = f"id-{number}", name, 0
        (translated,) = self.answer["translations"]
        self.text, self.sentences = translated["text"], translated["sentences"]

    def status(self, done: int | None = None, error: dict | None = None) -> dict:
        """The answer of /v1/documents/ID when so many sentences are translated, all if that is None."""
        total = len(self.sentences)
        self.done = total if done is None else done
        stem, dot, ending = self.name.rpartition(".")
        state = "failed" if error else "done" if done is None else "translating"
        return {
            "id": self.id,
            "name": f"{stem}.{self.answer['target']}.{ending}"
            if dot
            else f"{ending}.{self.answer['target']}",
            **{name: self.answer[name] for name in ("source", "target", "model", "adapter")},
            "status": state,
            "sentences_done": self.done,
            "sentences_total": total,
            **({"error": error} if error else {}),
        }

    def rows(self, start: int, count: int) -> dict:
        """The answer of /v1/documents/ID/sentences. What has an address cannot be changed."""
        rows = [
            {"source": one["source"], "is_changeable": "@" not in one["source"]}
            | ({"translation": one["text"]} if number < self.done else {})
            for number, one in enumerate(self.sentences)
        ]
        return {"sentences_total": len(rows), "sentences": rows[start : start + count]}

    def change(self, number: int, text: str) -> dict:
        """The answer of PUT /v1/documents/ID/sentences/NUMBER."""
        sentence = self.sentences[number]
        shift = len(text) - len(sentence["text"])
        self.text = self.text[: sentence["start"]] + text + self.text[sentence["end"] :]
        sentence |= {"text": text, "end": sentence["end"] + shift}
        for later in self.sentences[number + 1 :]:
            later |= {"start": later["start"] + shift, "end": later["end"] + shift}
        return self.rows(number, 1)["sentences"][0]


class Handler(BaseHTTPRequestHandler):
    """The page's files and the /v1 API; `key` is the key that requests need, if any. For `max_age` seconds a
    browser does not ask for a file again.
    """

    documents: dict[str, Document]
    key: str | None = None
    max_age = 0
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, content: bytes, content_type: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{content_type}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        if self.path.startswith("/page/") and self.max_age:
            self.send_header("Cache-Control", f"max-age={self.max_age}")
        self.end_headers()
        self.wfile.write(content)

    def answer_json(self, value: object, status: int = 200) -> None:
        self.answer(json.dumps(value).encode(), "application/json", status)

    def refuse(self, status: int, code: str, message: str) -> None:
        self.answer_json({"error": {"code": code, "message": message}}, status)

    def is_allowed(self) -> bool:
        if self.key is None or self.headers.get("Authorization") == f"Bearer {self.key}":
            return True
        self.refuse(403, "key", "This server needs an API key.")
        return False

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            if self.is_allowed():
                self.answer_json({"models": MODELS})
            return
        if self.path == "/v1/glossaries":
            if self.is_allowed():
                self.answer_json({"glossaries": []})
            return
        if self.path.startswith("/v1/documents/"):
            self.answer_about_document()
            return
        name = PATHS.get(self.path, self.path.removeprefix("/page/"))
        first, _, rest = name.partition("/")
        folder = {"vendor": VENDOR, "inspection": INSPECTION}.get(first, PAGE)
        file = (folder / (name if folder == PAGE else rest)).resolve()
        if file.is_relative_to(folder) and file.is_file():
            self.answer(file.read_bytes(), TYPES.get(file.suffix, "text/plain"))
        else:
            self.refuse(404, "not_found", "There is no such file.")

    def do_PUT(self) -> None:
        change = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        _, _, _, job, _, number = self.path.split("/")
        self.answer_json(self.documents[job].change(int(number), change["translation"]))

    def do_DELETE(self) -> None:
        self.documents.pop(self.path.rpartition("/")[2], None)
        self.answer(b"", "text/plain", 204)

    def take_document(self, content: bytes) -> None:
        settings = settings_of(urlsplit(self.path).query)
        name = settings.pop("name")
        if name.endswith(".pdf"):
            self.refuse(400, "bad_request", f"{name} is not read, since it is a PDF.")
            return
        try:
            document = Document(len(self.documents), name, content, settings)
        except ValueError as error:
            self.refuse(404, "no_model", str(error))
            return
        self.documents[document.id] = document
        self.answer_json(document.status(0))

    def answer_about_document(self) -> None:
        address = urlsplit(self.path)
        _, _, _, job, what = address.path.split("/")
        document = self.documents.get(job)
        if document is None:
            self.refuse(404, "not_found", "There is no document of this id.")
        elif what == "sentences":
            settings = dict(parse_qsl(address.query))
            self.answer_json(document.rows(int(settings["start"]), int(settings["count"])))
        elif what == "result":
            self.answer(document.text.encode(), "application/octet-stream")
        else:
            counts = range(len(document.sentences))
            events = (event("progress", document.status(count)) for count in counts)
            self.stream(chain(events, (event("end", document.status()) for _ in range(1))))

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.is_allowed():
            return
        if self.path.startswith("/v1/documents?"):
            self.take_document(content)
            return
        request = json.loads(content)
        model = model_of(request)
        if model is None:
            self.refuse(404, "no_model", "No model translates this pair of languages.")
        elif self.path == "/v1/alternatives":
            self.answer_json({"alternatives": alternatives(request, model)})
        elif self.path == "/v1/translate":
            self.answer_json(translation(request, model))
        else:
            self.stream(events(translation(request, model)))

    def stream(self, events: Iterable[bytes]) -> None:
        """Events, one after another; the connection is closed after the last one."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            for each in events:
                self.wfile.write(each)
                self.wfile.flush()
                time.sleep(PIECE_SECONDS)
        except OSError:
            pass  # the request was aborted
        self.close_connection = True


def start(port: int = 0, key: str | None = None, *, max_age: int = 0) -> ThreadingHTTPServer:
    """A server in a thread; its port is server_address[1]."""
    handler = type("KeyedHandler", (Handler,), {"key": key, "max_age": max_age, "documents": {}})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


if __name__ == "__main__":
    running = start(int(sys.argv[1]) if len(sys.argv) > 1 else 8123, *sys.argv[2:3])
    print(f"http://127.0.0.1:{running.server_address[1]}/")
    threading.Event().wait()
