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
from tests.page_server import Document, event, settings_of
from tests.test_page import button, page_url  # noqa: F401
from tests.test_page_laws import SOURCE, TARGET, error, shared, unopened  # noqa: F401
from tests.test_page_laws import held as held_page  # noqa: F401

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

    def __init__(self, held: HeldPage) -> None:
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
        parts, settings = address.path.split("/"), settings_of(address.query)
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
            total = len(document.sentences)
            self.streams[number] = document, iter(range(1, total, max(total // 8, 1)))
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
        """Take the file that the page sends, and bring its first event: the document and its stream."""
        (request,) = self.waiting()
        assert dict(parse_qsl(urlsplit(request["path"]).query))["name"] == name
        self.answer(request)
        (events,) = self.waiting()
        self.answer(events)
        return list(self.documents.values())[-1], events["number"]


@pytest.fixture
def server(held_page) -> HeldServer:  # noqa: F811
    held_page.page.evaluate("deaf = true")
    return HeldServer(held_page)


def file_of(held: HeldPage, name: str) -> dict:
    (file,) = [file for file in held.read_files()["files"] if file["name"] == name]
    return file


def can(file: dict, action: str) -> bool:
    return f"{action} {file['name']}" in file["actions"]


ACTIONS = ["add", "add", "language", "Cancel {}", "Remove {}", "Translate {} again", "Sentences of {}"]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 8))])
def test_files_are_translated_one_after_another_whatever_is_done_and_answered(server, seed):
    """One file runs at a time, and its request says what the menus say. In the end each file that was not
    cancelled is translated or refused, what is shown of it is its own, and the server has nothing else.
    """
    held = server.held
    held.random = Random(seed)
    names, cancelled = [], set()
    for number in range(14):
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


def test_files_are_dropped_or_chosen_and_their_names_are_text(server):
    held = server.held
    page = held.page
    frame = page.locator(".dropping")
    server.contents |= dict.fromkeys(("one.docx", "two.srt"), b"Hello.")
    assert page.evaluate(DROP, ["dragover", []]) is False
    for kind, count in (("dragover", 1), ("dragleave", 0), ("dragover", 1), ("drop", 0)):
        page.evaluate(DROP, [kind, ["one.docx", "two.srt"]])
        held.run()
        assert frame.count() == count
    markup = "<img src=x onerror=alert(1)> & “c”.md"
    for _ in range(2):  # the same file again
        server.add(markup, text="Hello.")
    files = held.read_files()["files"]
    assert [file["name"] for file in files] == ["one.docx", "two.srt", markup, markup]
    assert files[1]["facts"] == "6 bytes · waiting"
    assert page.locator(".documents img").count() == 0
    assert len(server.waiting()) == 1
    server.finish()
    (first, *_), sent = held.read_files()["files"], held.sent()
    assert first["actions"][0] == "Download one.de.docx"
    names = [dict(parse_qsl(urlsplit(one["path"]).query))["name"] for one in sent if one["method"] == "POST"]
    assert names == [file["name"] for file in files]
    for request in sent[2:]:
        kind = {"POST": {"Content-Type": "application/octet-stream"}}.get(request["method"], {})
        assert request["headers"] == kind
        assert request["path"].startswith("v1/documents")


def test_the_progress_is_shown_in_sentences_and_told_in_quarters(server):
    held = server.held
    server.add("a.md", text="Hello. " * 8)
    assert held.read_files()["files"][0]["progress"] == "The server reads the file."
    document, stream = server.begin("a.md")
    told = [held.read_files()["told"]]
    while stream in server.streams:
        server.go_on(stream)
        state = held.read_files()
        if state["files"][0]["bar"]:
            assert state["files"][0]["bar"] == [document.done, 8]
            assert state["files"][0]["progress"] == f"{document.done} of 8 sentences"
        told.append(state["told"])
    assert list(dict.fromkeys(told)) == [
        "a.md: 8 sentences.",
        *(f"a.md: {percent} %." for percent in (25, 50, 75)),
        "a.md is translated.",
    ]


def test_another_language_starts_the_running_file_again_and_no_other(server):
    """What the former run still brings is not shown, and its document is removed."""
    held = server.held
    server.add("done.md")
    server.finish()
    server.add("a.md", "b.md")
    document, stream = server.begin("a.md")
    button(held.page, "Sentences of a.md").click()
    held.run()
    server.answer(server.waiting()[-1])
    held.page.select_option(TARGET, "ar")
    held.run()
    assert file_of(held, "a.md")["progress"] == "The server reads the file."
    removal, request = server.waiting()
    assert (removal["method"], removal["path"]) == ("DELETE", f"v1/documents/{document.id}")
    assert dict(parse_qsl(urlsplit(request["path"]).query)) == {
        "name": "a.md",
        "source": "en",
        "target": "ar",
        "model": "enar",
    }
    for _ in range(2):
        server.go_on(stream)
        assert file_of(held, "a.md")["rows"] == []
        assert file_of(held, "a.md")["bar"] is None
    server.finish()
    shown = {file["name"]: file for file in held.read_files()["files"]}
    assert shown["done.md"]["facts"].endswith("English to German")
    assert can(shown["done.md"], "Sentences of")
    assert "Translate done.md again" in shown["done.md"]["actions"]
    for name in ("a.md", "b.md"):
        assert shown[name]["facts"].endswith("English to Arabic")
        assert "Translate a.md again" not in shown[name]["actions"]
    held.page.select_option(SOURCE, "de")
    assert len(server.waiting()) == 0
    button(held.page, "Translate b.md again").click()
    server.finish()
    assert file_of(held, "b.md")["facts"].endswith("German to English")
    assert len(server.documents) == 3


def test_a_cancelled_upload_leaves_nothing_at_the_server_and_the_next_file_begins(server):
    held = server.held
    server.add("a.md", "b.md")
    (request,) = server.waiting()
    button(held.page, "Cancel a.md").click()
    held.run()
    assert held.read_files()["focus"] == "a.md"
    assert [one["path"].partition("&")[0] for one in server.waiting()] == [
        f"v1/documents?name={name}.md" for name in "ab"
    ]
    server.answer(request)
    assert file_of(held, "a.md")["facts"].endswith("cancelled")
    server.finish()
    assert [document.name for document in server.documents.values()] == ["b.md"]
    for name, focus in (("a.md", "b.md"), ("b.md", "Translate files")):
        button(held.page, f"Remove {name}").click()
        held.run()
        assert held.read_files()["focus"] == focus
    server.finish()
    assert (server.documents, held.read_files()["files"]) == ({}, [])


def test_a_download_has_the_name_that_the_server_gives_or_says_why_there_is_none(server):
    held = server.held
    held.page.evaluate("sessionStorage.setItem('dragoman.key', 'secret')")
    held.page.reload()
    held.begin()
    assert not held.asks_before_leaving()
    server.add("report.docx")
    assert held.asks_before_leaving()
    server.finish()
    assert held.asks_before_leaving()
    with held.page.expect_download() as download:
        button(held.page, "Download report.de.docx").click()
        held.run()
        server.finish()
    assert not held.asks_before_leaving()
    (document,) = server.documents.values()
    assert download.value.suggested_filename == "report.de.docx"
    with open(download.value.path(), encoding="utf-8") as file:
        assert file.read() == document.text
    assert {request["headers"]["Authorization"] for request in held.sent()} == {"Bearer secret"}
    server.documents.clear()
    button(held.page, "Download report.de.docx").click()
    held.run()
    server.finish()
    assert file_of(held, "report.docx")["failure"] == "The server says not_found."
    button(held.page, "Translate report.docx again").click()
    held.run()
    server.finish()
    assert file_of(held, "report.docx")["failure"] is None
    assert len(server.documents) == 1


def test_an_alternative_is_in_the_file_or_the_server_says_why_not(server):
    """Words are buttons when the document is done, but not in a sentence that cannot be changed."""
    held = server.held
    server.add("a.md", text="{} hello world.\nMail me@{} {}.")
    server.begin("a.md")
    button(held.page, "Sentences of a.md").click()
    held.run()
    server.answer(server.waiting()[-1])
    assert file_of(held, "a.md")["buttons"] == 0
    server.finish()
    rows = file_of(held, "a.md")["rows"]
    assert file_of(held, "a.md")["buttons"] == len(rows[0][1].split())
    (document,) = server.documents.values()
    for is_refused in (False, True):
        held.page.locator(".sentences [data-word]").nth(1).click()
        held.run()
        request = held.answer()
        prefix = document.sentences[0]["text"].split()[0]
        assert request["body"] == {
            "text": document.sentences[0]["source"],
            "prefix": prefix,
            "count": 8,
            **{name: document.answer[name] for name in ("model", "source", "target")},
        }
        before = file_of(held, "a.md")["rows"][0][1]
        held.page.locator("[role=menuitem]").nth(2 + is_refused).click()
        held.run()
        assert held.page.evaluate("document.activeElement.dataset.start") is not None
        (change,) = server.waiting()
        shown = file_of(held, "a.md")
        assert change["body"] == {"translation": shown["rows"][0][1]}
        assert shown["rows"][0][1] != before
        assert not any("Download" in action for action in shown["actions"])
        if is_refused:
            held.answer(change["number"], status=400, content=error("no"))
        server.finish()
        shown = file_of(held, "a.md")
        assert shown["failure"] == ("The server says no." if is_refused else None)
        assert held.read_files()["told"] == (
            "a.md: The server says no." if is_refused else "The sentence is changed."
        )
        assert shown["rows"][0][1] == document.sentences[0]["text"]
        assert (shown["rows"][0][1] == before) == is_refused
        assert shown["actions"][0] == "Download a.de.md"
    held.page.locator(".sentences [data-word]").nth(0).click()
    held.run()
    held.page.keyboard.press("Escape")
    held.run()
    assert held.read_files()["menu"] == []
    held.answer()
    assert held.read_files()["menu"] == []


def test_sentences_come_in_parts_and_a_late_part_is_not_shown(server):
    held = server.held
    server.add("a.md", text=" ".join(f"{{}} number {number}." for number in range(3)) + " Hello." * 117)
    server.finish()
    button(held.page, "Sentences of a.md").click()
    held.run()
    server.finish()
    assert len(file_of(held, "a.md")["rows"]) == 50
    for name, first, count in (("Later", 50, 50), ("Later", 100, 20), ("Earlier", 50, 50)):
        button(held.page, name).click()
        held.run()
        server.finish()
        assert len(file_of(held, "a.md")["rows"]) == count
        assert held.page.get_attribute(".sentences ol", "start") == str(first + 1)
        assert button(held.page, "Later").is_disabled() == (first == 100)
    (document,) = server.documents.values()
    for sentence in (50, 99):
        held.page.locator(".sentences li").nth(sentence - 50).locator("[data-word]").first.click()
        held.run()
        held.answer()
        held.page.locator("[role=menuitem]").nth(2).click()
        held.run()
        before = [one["text"] for one in document.sentences]
        chosen = file_of(held, "a.md")["rows"][sentence - 50][1]
        server.finish()
        expected = [*before[:sentence], chosen, *before[sentence + 1 :]]
        assert [one["text"] for one in document.sentences] == expected != before
    for name in ("Later", "Earlier"):
        button(held.page, name).click()
        held.run()
    later, earlier = server.waiting()
    server.answer(later)
    assert held.page.get_attribute(".sentences ol", "start") == "51"
    server.answer(earlier)
    assert held.page.get_attribute(".sentences ol", "start") == "1"
    assert button(held.page, "Earlier").is_disabled()
    server.documents.clear()
    button(held.page, "Later").click()
    held.run()
    server.finish()
    assert file_of(held, "a.md")["failure"] == "The server says not_found."


def test_an_older_answer_with_sentences_is_not_shown_after_a_newer_one(server):
    held = server.held
    server.add("a.md")
    document, stream = server.begin("a.md")
    button(held.page, "Sentences of a.md").click()
    held.run()
    server.answer(server.waiting()[-1])
    for _ in range(2):
        server.go_on(stream)
    older, newer = server.waiting()
    held.answer(newer["number"], content=document.rows(0, 50))
    shown = file_of(held, "a.md")["rows"]
    document.done = 1
    held.answer(older["number"], content=document.rows(0, 50))
    assert file_of(held, "a.md")["rows"] == shown
    assert [bool(translation) for _, translation in shown] == [True, True, False]


def test_a_late_failure_of_a_cancelled_file_is_not_shown(server):
    held = server.held
    server.add("bad.md", "lost.md")
    button(held.page, "Cancel bad.md").click()
    held.run()
    (late, *_) = server.waiting()
    server.answer(late)
    assert file_of(held, "bad.md")["failure"] is None
    _, stream = server.begin("lost.md")
    button(held.page, "Cancel lost.md").click()
    held.run()
    while stream in server.streams:
        server.go_on(stream)
    server.finish()
    assert [file["failure"] for file in held.read_files()["files"]] == [None, None]
    assert server.documents == {}


def test_a_file_waits_for_the_models_and_for_a_busy_server(unopened, page_url):  # noqa: F811
    held, page = unopened, unopened.page
    page.goto(page_url)
    held.run(50)
    server = HeldServer(held)
    server.add("a.md")
    assert (server.waiting(), file_of(held, "a.md")["facts"][-7:]) == ([], "waiting")
    held.begin()
    for seconds in (1, 3):
        (request,) = server.waiting()
        headers = {"Retry-After": str(seconds)}
        held.answer(request["number"], status=429, content=error("queue_full"), headers=headers)
        held.run(1000 * seconds - 100)
        assert server.waiting() == []
        held.run(100)
    server.finish()
    assert file_of(held, "a.md")["actions"][0] == "Download a.de.md"


def test_a_file_that_cannot_be_read_or_sent_says_so_and_is_sent_when_the_page_is_online_again(server):
    held = server.held
    held.page.evaluate(
        "void (Blob.prototype.arrayBuffer = async () => { throw new DOMException('', 'NotFoundError'); })"
    )
    server.add("folder")
    assert file_of(held, "folder")["failure"] == "“folder” cannot be read. It may be a folder."
    assert server.waiting() == []
    held.page.evaluate("void (Blob.prototype.arrayBuffer = async () => new ArrayBuffer(1))")
    server.add("a.md")
    held.fail()
    assert file_of(held, "a.md")["failure"].startswith("The server cannot be reached.")
    held.page.evaluate("dispatchEvent(new Event('online'))")
    held.run()
    server.finish()
    assert file_of(held, "a.md")["failure"] is None
    assert file_of(held, "folder")["failure"] is not None


def test_the_menu_and_the_changes_of_a_file_are_its_own(server):
    """With the same sentences in two files. The menu closes when its words go, and what comes for a file that
    has been translated again is not shown.
    """
    held, page = server.held, server.held.page
    text = "Hello world. A man rides."
    server.add("a.md", "b.md", text=text)
    server.finish()

    def click(label: str) -> None:
        button(page, label).click()
        held.run()

    def open_menu(row: int = 0) -> None:
        page.locator("#file-2 .sentences li").nth(row).locator("[data-word]").nth(0).click()
        held.run()
        held.answer()
        assert held.read_files()["menu"]

    for name in ("a.md", "b.md"):
        click(f"Sentences of {name}")
        server.finish()
    rows = file_of(held, "b.md")["rows"]
    assert rows == file_of(held, "a.md")["rows"]
    languages = (
        page.locator("#file-2 .sentences li")
        .nth(0)
        .locator("p")
        .evaluate_all("(all) => all.map((one) => one.lang)")
    )
    assert languages == ["en", "de"]
    open_menu()
    page.keyboard.press("Escape")
    held.run()
    assert page.evaluate("document.activeElement.closest('li[id]').id") == "file-2"
    assert (
        page.locator("#file-1 [tabindex='0']").count() == page.locator("#file-2 [tabindex='0']").count() == 1
    )
    for _ in range(2):  # the second time the server refuses, and the file says so until a change is taken
        open_menu()
        click("Sentences of b.md")
        assert (held.read_files()["menu"], file_of(held, "b.md")["rows"]) == ([], [])
        click("Sentences of b.md")
        server.finish()
    for is_refused in (True, False):
        open_menu()
        page.locator("[role=menuitem]").nth(2).click()
        held.run()
        (change,) = server.waiting()
        changed = file_of(held, "b.md")["rows"]
        assert changed != rows
        click("Sentences of b.md")
        click("Sentences of b.md")
        held.answer(server.waiting()[-1]["number"], content=rows_before(server, "b.md"))
        assert file_of(held, "b.md")["rows"] == changed  # and not what the server had before
        if is_refused:
            held.answer(change["number"], status=400, content=error("no"))
        server.finish()
        assert file_of(held, "b.md")["failure"] == ("The server says no." if is_refused else None)
        assert file_of(held, "b.md")["rows"] == (rows if is_refused else changed)
        assert file_of(held, "a.md")["rows"] == rows
    click("Download b.de.md")
    (download,) = server.waiting()
    open_menu(1)
    page.locator("[role=menuitem]").nth(2).click()
    held.run()
    late = server.waiting()[-1]
    page.select_option(TARGET, "ar")
    held.run()
    open_menu()
    click("Translate b.md again")
    assert held.read_files()["menu"] == []
    held.answer(late["number"], content={"source": "", "is_changeable": True})
    with pytest.raises(Exception, match="Timeout"), page.expect_download(timeout=100):  # of the former run
        held.answer(download["number"], content=b"old")
    server.finish()
    shown = file_of(held, "b.md")
    assert (shown["failure"], shown["actions"][0]) == (None, "Download b.ar.md")
    assert len(shown["rows"]) == len(rows)
    assert shown["buttons"] == sum(len(translation.split()) for _, translation in shown["rows"])


def test_the_menu_of_a_file_closes_when_the_file_is_sent_again_by_itself(server):
    """As when a download has failed and the page is online again."""
    held, page = server.held, server.held.page
    server.add("a.md", text="Hello world.")
    server.finish()
    for name in ("Sentences of a.md", "Download a.de.md"):
        button(page, name).click()
        held.run()
        if name.startswith("Download"):
            held.fail()
        server.finish()
    page.locator(".sentences [data-word]").first.click()
    held.run()
    held.answer()
    assert held.read_files()["menu"]
    page.evaluate("dispatchEvent(new Event('online'))")
    held.run()
    assert (held.read_files()["menu"], file_of(held, "a.md")["failure"]) == ([], None)
    server.finish()
    assert "Download a.de.md" in file_of(held, "a.md")["actions"]


def rows_before(server: HeldServer, name: str) -> dict:
    """The sentences that the server has of a file."""
    (document,) = (one for one in server.documents.values() if one.name == name)
    return document.rows(0, 50)


def test_a_file_that_is_translated_again_shows_its_first_sentences(server):
    """And its words are buttons when it is done, also if all sentences had come before."""
    held = server.held
    server.add("b.md", text="Hello world.")
    document, stream = server.begin("b.md")
    document.done = 1
    button(held.page, "Sentences of b.md").click()
    held.run()
    server.answer(server.waiting()[-1])
    assert file_of(held, "b.md")["buttons"] == 0
    server.go_on(stream)
    assert file_of(held, "b.md")["buttons"] == 2
    assert "1 sentence ·" in file_of(held, "b.md")["facts"]
    server.add("a.md", text=" Hello." * 100)
    server.finish()
    for label in ("Sentences of b.md", "Sentences of a.md", "Later"):
        button(held.page, label).click()
        held.run()
        server.finish()
    assert button(held.page, "Later").is_disabled()
    held.page.locator(".sentences [data-word]").nth(0).click()
    held.run()
    held.answer()
    assert held.read_files()["menu"]
    button(held.page, "Earlier").click()
    held.run()
    assert held.read_files()["menu"] == []
    server.finish()
    button(held.page, "Later").click()
    held.run()
    held.page.select_option(TARGET, "ar")
    held.run()
    button(held.page, "Translate a.md again").click()
    held.run()
    server.finish()
    assert held.page.get_attribute(".sentences ol", "start") == "1"
    assert len(file_of(held, "a.md")["rows"]) == 50
    for label, told in (("Remove b.md", "b.md is removed."), ("Translate a.md again", None)):
        if told is None:
            held.page.select_option(TARGET, "de")
            held.run()
        button(held.page, label).click()
        held.run()
        if told:
            assert held.read_files()["told"] == told
    button(held.page, "Cancel a.md").click()
    held.run()
    assert held.read_files()["told"] == "a.md is cancelled."


def test_a_size_in_words_has_at_most_three_digits_before_its_point_and_is_near_the_size(held_page):  # noqa: F811
    sizes = [*range(1, 999, 37), *(10**power + change for power in (3, 4, 5, 6, 8) for change in (-1, 0, 1))]
    sizes += [999_499, 999_500, 999_501]
    program = """async (sizes) => {
      const { sizeInWords } = await import("/page/files.js");
      return sizes.map(sizeInWords);
    }"""
    for size, text in zip(sizes, held_page.page.evaluate(program, sizes), strict=True):
        number, unit = text.split()
        factor = {"byte": 1, "bytes": 1, "kB": 10**3, "MB": 10**6}[unit]
        assert float(number) < 1000, size
        digits = 1 if float(number) < 10 and factor > 1 else 0
        assert abs(float(number) - size / factor) <= 0.5 * 10**-digits + 1e-9, (size, text)
