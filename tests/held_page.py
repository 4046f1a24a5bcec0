"""The page for translating with a network that a test holds and a clock that only the test moves.

Every request waits until the test answers it, in the order that the test likes; so no test of this file waits
for anything.
"""

import json
from itertools import pairwise
from random import Random

from tests import page_server

MODELS = [
    {**model, "adapters": ["medical", "legal"]} if model["name"] == "ende" else model
    for model in page_server.MODELS
]
MAX_N_BEST = 3
REFUSAL = {"error": {"code": "no_model", "message": "No model translates this pair of languages."}}

# `sent` are the requests. With `deaf`, a request that was aborted can still be answered. `run` lets time
# pass.
NETWORK_AND_CLOCK = """
window.sent = []; window.deaf = false;
window.fetch = (path, { method, headers = {}, body, signal } = {}) => new Promise((resolve, reject) => {
  const isFile = body instanceof Blob;
  const content = isFile ? { name: body.name, size: body.size } : body ? JSON.parse(body) : null;
  const request = { path, method, headers, body: content, aborted: false };
  signal?.addEventListener("abort", () => {
    request.aborted = true;
    if (!window.deaf) reject(new DOMException("Aborted.", "AbortError"));
  });
  sent.push(Object.assign(request, { resolve, reject, isAnswered: false }));
});
const bytes = (text) => Uint8Array.from(text, (one) => one.charCodeAt(0));
window.continueAnswer = (number, chunks, isEnd) => {
  for (const chunk of chunks) sent[number].stream.enqueue(bytes(chunk));
  if (isEnd) sent[number].stream.close();
};
window.answer = (number, status, headers, chunks, isEnd) => {
  const body = new ReadableStream({ start: (stream) => (sent[number].stream = stream) });
  const json = async () => JSON.parse(new TextDecoder().decode(bytes(chunks.join(""))));
  const blob = async () => new Blob(chunks.map(bytes));
  continueAnswer(number, chunks, isEnd);
  sent[number].isAnswered = true;
  sent[number].resolve({ ok: status < 400, status, headers: new Headers(headers), json, blob, body });
};
window.shownRequest = ({ resolve, reject, stream, ...request }) => {
  const number = sent.findIndex((one) => one.resolve === resolve);
  return { number, ...request };
};
window.fail = () => {
  sent.at(-1).isAnswered = true;
  sent.at(-1).reject(new TypeError("Failed to fetch"));
};

Blob.prototype.arrayBuffer = async function () { return new ArrayBuffer(this.size); }; // at once

const frame = window.requestAnimationFrame;
window.drawn = () => new Promise((resolve) => frame(() => frame(resolve))); // the browser has drawn the page

let now = 0, latestTimer = 0;
const timers = new Map();
const add = (action, delay, period) => {
  timers.set(++latestTimer, { action, time: now + delay, period });
  return latestTimer;
};
window.setTimeout = (action, delay = 0) => add(action, delay, null);
window.setInterval = (action, period) => add(action, period, period);
window.requestAnimationFrame = (action) => add(action, 16, null);
window.clearTimeout = window.clearInterval = window.cancelAnimationFrame = (number) => timers.delete(number);
const turns = async (count) => { // of the event loop
  for (let turn = 0; turn < count; turn++) {
    await new Promise((resolve) => {
      const channel = new MessageChannel();
      channel.port1.onmessage = resolve;
      channel.port2.postMessage(null);
    });
  }
};
window.run = async (milliseconds) => {
  await turns(3);
  for (const end = now + milliseconds; ;) {
    const [first] = [...timers].sort(([, one], [, other]) => one.time - other.time);
    if (!first || first[1].time > end) {
      now = end;
      return;
    }
    const [number, timer] = first;
    now = timer.time;
    if (timer.period === null) timers.delete(number);
    else timer.time += timer.period;
    timer.action();
    await turns(3);
  }
};
"""

# What the page shows.
READ = """() => {
  const one = (selector) => document.querySelector(selector);
  const text = (selector) => one(selector)?.textContent.replace(/\\s+/g, " ").trim() ?? null;
  const all = (selector) => [...document.querySelectorAll(selector)];
  const choice = (label) => {
    const select = one(`select[aria-label="${label}"]`);
    return select && { value: select.value, options: [...select.options].map(({ value }) => value) };
  };
  const named = (name) => all("button").find((one) => one.textContent.trim() === name);
  const focused = document.activeElement;
  return {
    text: one("textarea").value,
    source: choice("Language of the text"), target: choice("Language of the translation"),
    model: choice("Model"), glossary: choice("Glossary"), terms: text("#terms"),
    unused: all(".unused li").map((one) => one.textContent.replace(/\\s+/g, " ").trim()),
    line: text(".model"), inside: one(".model a")?.getAttribute("href") ?? null,
    detected: one("select").selectedOptions[0]?.textContent ?? null,
    words: one(".target .words")?.textContent ?? one("#translation").value,
    pale: one(".words .pale")?.textContent ?? "",
    busy: one(".target").ariaBusy, isComplete: !all(".target .words > span:not([data-word])").length,
    failure: text(".target .failure"), again: Boolean(named("Try again")), key: Boolean(one("#key")),
    menu: one(".menu") && all(".menu button").map((one) => one.title),
    shares: all(".menu .share").map((one) => one.textContent),
    differing: all(".menu b").map((one) => one.textContent),
    note: text(".menu .note"), others: one("#others").ariaExpanded, panel: text(".panel h2"),
    pressed: all(".others [aria-pressed=true]").map((one) => one.textContent),
    sure: text(".sure button"), level: one(".dial")?.dataset.level ?? null,
    count: text(".count"), example: one(".example button")?.textContent ?? null,
    told: one("[aria-live]").textContent.trim(),
    languages: ["textarea", ".target .words", "[aria-live]"].map((selector) => one(selector)?.lang ?? null),
    enabled: [one(".swap"), named("Copy") ?? named("Copied"), named("Clear"), one("#others")]
      .map((button) => !button.disabled),
    marked: all(".marked").map(({ dataset }) => [dataset.side, +dataset.sentence, +dataset.word]),
    aligned: all(".aligned").map(({ dataset }) => [dataset.side, +dataset.sentence, +dataset.word]),
    focus: focused.ariaLabel ?? focused.textContent.trim(),
    stops: all('.target .words [tabindex="0"]').map((one) => one.textContent),
    local: { ...localStorage }, session: { ...sessionStorage }, address: location.href,
  };
}"""


# What the page shows of files.
READ_FILES = """() => {
  const words = (element) => element?.textContent.replace(/\\s+/g, " ").trim() ?? null;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  return {
    told: words(all("[aria-live]")[1]),
    focus: document.activeElement.ariaLabel,
    menu: all(".menu button").map(words),
    files: all(".documents ul > li").map((item) => ({
      name: words(item.querySelector(".name")), facts: words(item.querySelector(".facts")),
      failure: words(item.querySelector(".failure")), progress: words(item.querySelector(".progress span")),
      bar: all("progress", item).map(({ position, value, max }) => position < 0 ? null : [value, max])[0],
      actions: all(".actions button", item).filter((one) => !one.disabled).map(({ ariaLabel }) => ariaLabel),
      rows: all("ol > li", item).map(({ children }) => [...children].map(words)),
      buttons: all("[data-word]", item).length,
    })),
  };
}"""


class HeldPage:
    """A page whose requests wait in `sent` and whose clock stands still."""

    def __init__(self, page) -> None:
        self.page = page
        page.add_init_script(NETWORK_AND_CLOCK)

    def reset(self) -> None:
        """Forget what an earlier test did to the page; it is opened anew by `open`."""
        self.random = Random(0)
        self.page.context.set_offline(False)
        self.page.emulate_media(color_scheme="light")
        self.page.mouse.move(0, 0)
        if self.page.url != "about:blank":
            self.page.evaluate("localStorage.clear(); sessionStorage.clear();")

    def open(self, url: str, *, models: list | None = None, pivots: list | None = None) -> None:
        """Open the page, and answer its requests for the models and the glossaries."""
        self.page.goto(url)
        self.begin(models, pivots)

    def begin(self, models: list | None = None, pivots: list | None = None) -> None:
        """Answer the requests for the models and the glossaries that a new page sends."""
        self.run(50)
        self.load(models, pivots)

    def load(self, models: list | None = None, pivots: list | None = None) -> None:
        """Answer the last requests for the models and the glossaries."""
        known = {"models": MODELS if models is None else models, "pivots": pivots or []}
        for path, content in (("v1/glossaries", None), ("v1/models", known | {"max_n_best": MAX_N_BEST})):
            self.answer(self.waiting(path)[-1]["number"], content=content)

    def run(self, milliseconds: int = 40) -> None:
        """Let time pass; 40 ms are enough to draw."""
        self.page.evaluate("(milliseconds) => run(milliseconds)", milliseconds)

    def read(self) -> dict:
        return self.page.evaluate(READ)

    def read_files(self) -> dict:
        return self.page.evaluate(READ_FILES)

    def asks_before_leaving(self) -> bool:
        """Whether the browser would ask the reader if the page may go."""
        leave = 'dispatchEvent(new Event("beforeunload", { cancelable: true }))'
        return not self.page.evaluate(leave)

    def sent(self) -> list[dict]:
        """All requests since the page was opened."""
        return self.page.evaluate("sent.map(shownRequest)")

    def waiting(self, path: str = "") -> list[dict]:
        """The requests that nobody has answered, also those that were aborted if the network is deaf."""
        waiting = "sent.filter((one) => !one.isAnswered && (deaf || !one.aborted)).map(shownRequest)"
        return [request for request in self.page.evaluate(waiting) if path in request["path"]]

    def answer(
        self,
        number: int = -1,
        *,
        status: int = 200,
        content: object = None,
        headers: dict | None = None,
        draw: bool = True,
        is_end: bool = True,
    ) -> dict:
        """Answer a request as the server would, or by this content: bytes, or a value for JSON. Without the
        end, `go_on` brings more of it.
        """
        request = self.page.evaluate("(number) => shownRequest(sent.at(number))", number)
        if content is None:
            content = answer_to(request)
            status = 404 if content == REFUSAL else 200
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        arguments = [request["number"], status, headers or {}, self.cut(body), is_end]
        self.page.evaluate("(all) => answer(...all)", arguments)
        if draw:
            self.run()
        return request

    def go_on(self, number: int, body: bytes, *, is_end: bool = False) -> None:
        """Bring more of an answer."""
        self.page.evaluate("(all) => continueAnswer(...all)", [number, self.cut(body), is_end])
        self.run()

    def fail(self) -> None:
        """The last request meets no server."""
        self.page.evaluate("fail()")
        self.run()

    def cut(self, body: bytes) -> list[str]:
        """The bytes in pieces of any length, as a network brings them."""
        places = sorted(self.random.randrange(len(body) + 1) for _ in range(4))
        borders = pairwise([0, *places, len(body)])
        return [body[start:end].decode("latin-1") for start, end in borders if end > start]

    def answer_all(self, path: str = "") -> None:
        """Answer all that waits, in any order."""
        waiting = self.waiting(path)
        self.random.shuffle(waiting)
        for request in waiting:
            self.answer(request["number"], draw=False)
        self.run()

    def translate(self, text: str) -> dict:
        """Type a text, and answer what the page then asks for."""
        self.page.fill("textarea", text)
        self.run(250)
        self.answer()
        return self.read()


def answer_to(request: dict) -> object:
    """What the server answers to a request."""
    body = request["body"]
    if request["path"] == "v1/glossaries":
        return {"glossaries": page_server.described_glossaries()}
    if request["path"].startswith("v1/glossaries/"):
        return page_server.listed_terms(request["path"])
    if body is None:
        return {"models": MODELS, "max_n_best": MAX_N_BEST}
    model = page_server.model_of(body)
    if model is None:
        return REFUSAL
    if request["path"] == "v1/alternatives":
        return {"alternatives": page_server.alternatives(body, model)}
    answer = page_server.translation(body, model)
    if request["path"] == "v1/translate/stream":
        ends = page_server.events(answer)
        return b": the connection is open\n\n" + b"".join(ends).replace(b"\n", b"\r\n")
    return answer
