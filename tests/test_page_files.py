"""Laws of the files on the page for translating: their order, progress, failures, sentences and downloads.

As in `test_page_laws.py`, the tests hold the network and the clock. The server that they play knows which
documents it has, so that they see what is left there.
"""

from collections.abc import Iterator
from random import Random
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests import page_server
from tests.browser import browser  # noqa: F401
from tests.held_page import HeldPage
from tests.page_server import Document, event
from tests.test_page import button, page_url  # noqa: F401
from tests.test_page_laws import SOURCE, TARGET, error, held, shared, unopened  # noqa: F401

pytestmark = pytest.mark.short_form

TEXT = "{} hello world. A man rides {} today. The old garden is {}."
FAULT = {"code": "deadline_passed", "message": "The translation took too long."}
DROP = """([kind, names]) => {
  const transfer = new DataTransfer();
  for (const name of names) transfer.items.add(new File(["Hello."], name));
  const event = new DragEvent(kind, { dataTransfer: transfer, bubbles: true, cancelable: true });
  document.querySelector(".source").dispatchEvent(event);
  return event.defaultPrevented;
}"""


class HeldServer:
    """The documents of a server. It answers the requests of a page as the test likes, by parts."""

    def __init__(self, held: HeldPage) -> None:  # noqa: F811
        self.held, self.documents = held, dict[str, Document]()
        self.contents, self.streams = dict[str, bytes](), dict[int, tuple[Document, Iterator[int]]]()
        self.sent = 0

    def add(self, *names: str, text: str = TEXT) -> None:
        """Choose files with the button; each has its own sentences."""
        self.contents |= {name: text.format(*[name.partition(".")[0]] * 3).encode() for name in names}
        files = [{"name": name, "mimeType": "", "buffer": self.contents[name]} for name in names]
        self.held.page.set_input_files("#files", files)
        self.held.run()

    def waiting(self) -> list[dict]:
        """The requests for documents that are not answered."""
        return self.held.waiting("v1/documents")

    def answer(self, request: dict) -> None:
        """Answer a request. Of events the first one comes; `go_on` brings the others."""
        number, address = request["number"], urlsplit(request["path"])
        parts, settings = address.path.split("/"), dict(parse_qsl(address.query))
        if request["method"] == "POST":
            self.take(number, settings)
        elif request["method"] == "DELETE":
            self.documents.pop(parts[2], None)
            self.held.answer(number, status=204, content=b"")
        elif (document := self.documents.get(parts[2])) is None:
            self.held.answer(number, status=404, content=error("not_found"))
        elif request["method"] == "PUT":
            self.held.answer(number, content=document.change(int(parts[4]), request["body"]["translation"]))
        elif parts[3] == "sentences":
            rows = document.rows(int(settings["start"]), int(settings["count"]))
            self.held.answer(number, content=rows)
        elif parts[3] == "result":
            self.held.answer(number, content=document.text.encode())
        else:
            self.streams[number] = document, iter(range(1, len(document.sentences)))
            self.held.answer(number, content=event("progress", document.status(0)), is_end=False)

    def take(self, number: int, settings: dict) -> None:
        """A document has been sent. Some names are refused."""
        name = settings.pop("name")
        if name.startswith("bad"):
            self.held.answer(number, status=400, content=error(f"no {name}"))
            return
        self.sent += 1
        document = Document(self.sent, name, self.contents[name], settings)
        self.documents[document.id] = document
        self.held.answer(number, content=document.status(0))

    def go_on(self, number: int) -> None:
        """Bring the next event of a stream."""
        document, counts = self.streams[number]
        if (count := next(counts, None)) is not None:
            self.held.go_on(number, event("progress", document.status(count)))
            return
        del self.streams[number]
        last = document.status(1, FAULT) if document.name.startswith("lost") else document.status()
        self.held.go_on(number, event("end", last), is_end=True)

    def step(self) -> bool:
        """Answer anything that waits; False if nothing does."""
        waiting = [*self.waiting(), *self.streams]
        if not waiting:
            return False
        one = self.held.random.choice(waiting)
        self.go_on(one) if isinstance(one, int) else self.answer(one)
        return True

    def finish(self) -> None:
        """Answer everything, in any order."""
        while self.step():
            pass

    def begin(self, name: str) -> tuple[Document, int]:
        """Take the file that the page sends, and bring its first event; returns the document and the stream."""
        (request,) = self.waiting()
        assert dict(parse_qsl(urlsplit(request["path"]).query))["name"] == name
        self.answer(request)
        (events,) = self.waiting()
        self.answer(events)
        return list(self.documents.values())[-1], events["number"]


@pytest.fixture
def server(held) -> HeldServer:  # noqa: F811
    held.page.evaluate("deaf = true")
    return HeldServer(held)


def file_of(held: HeldPage, name: str) -> dict:  # noqa: F811
    (file,) = [file for file in held.read_files()["files"] if file["name"] == name]
    return file


def can(file: dict, action: str) -> bool:
    return f"{action} {file['name']}" in file["actions"]


ACTIONS = ["add", "add", "language", "Cancel {}", "Remove {}", "Translate {} again", "Sentences of {}"]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 8))])
def test_files_are_translated_one_after_another_whatever_is_done_and_answered(held, server, seed):  # noqa: F811
    """One file runs at a time, and its request says what the menus say. In the end each file that was not
    cancelled is translated or refused, what is shown of it is its own, and the server has nothing else.
    """
    held.random = Random(seed)
    names, cancelled = [], set()
    for number in range(25):
        action = held.random.choice(ACTIONS)
        if action == "add" and len(names) < 8:
            kinds = held.random.choices(
                ["letter", "bad", "lost"], weights=[4, 1, 1], k=held.random.randint(1, 2)
            )
            added = [f"{kind}{number}{place}.md" for place, kind in enumerate(kinds)]
            server.add(*added)
            names += added
        elif action == "language":
            held.page.select_option(TARGET, held.random.choice(["de", "ar"]))
        elif names:
            name = held.random.choice(names)
            label = action.format(name)
            if label in file_of(held, name)["actions"]:
                button(held.page, label).click()
                cancelled |= {name} if action == "Cancel {}" else set()
                cancelled -= {name} if action == "Translate {} again" else set()
                names = [one for one in names if action != "Remove {}" or one != name]
        held.run()
        server.step()
        shown = held.read_files()["files"]
        assert [file["name"] for file in shown] == names
        assert sum(file["progress"] is not None for file in shown) <= 1
        check_files(shown, server)
        sent = [one for one in held.sent() if one["method"] == "POST" and "documents?" in one["path"]]
        for request in sent[-1:] if any(file["progress"] for file in shown) else []:
            target = dict(parse_qsl(urlsplit(request["path"]).query))["target"]
            assert target == held.read()["target"]["value"]
    server.finish()
    shown = held.read_files()["files"]
    for file in shown:
        failure = None if file["name"][:3] not in ("bad", "los") else "The"
        if file["name"] in cancelled:
            assert (file["failure"], can(file, "Translate")) == (None, False)
            assert file["facts"].endswith("cancelled")
        elif failure:
            assert file["failure"] in (f"The server says no {file['name']}.", FAULT["message"])
        else:
            assert any(action.startswith("Download") for action in file["actions"]), file
    check_files(shown, server)
    done = {file["name"] for file in shown if any("Download" in action for action in file["actions"])}
    assert sorted(document.name for document in server.documents.values()) == sorted(done)


def check_files(files: list[dict], server: HeldServer) -> None:
    """The rows of a file are its own, its facts tell its languages, and its progress is the server's."""
    for file in files:
        stem = file["name"].partition(".")[0]
        for source, translation in file["rows"]:
            assert stem in source
            assert not translation or stem.upper() in translation
        documents = [one for one in server.documents.values() if one.name == file["name"]]
        if file["bar"]:
            assert file["bar"] in [[document.done, 3] for document in documents]
        for action in file["actions"]:
            if action.startswith("Download"):
                (document,) = documents
                languages = page_server.LANGUAGES
                pair = " to ".join(languages[document.answer[side]] for side in ("source", "target"))
                assert file["facts"] == f"{len(server.contents[file['name']])} bytes · 3 sentences · {pair}"
                assert action == f"Download {stem}.{document.answer['target']}.md"
