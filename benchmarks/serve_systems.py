"""The servers that serve.py measures: how each is made of a run, started and asked."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
START_SECONDS = 90
WHOLE_TEXTS = (
    "import argostranslate.sbd as sbd; sbd.MiniSBDSentencizer.split_sentences = lambda self, text: [text]; "
)
Row = dict[str, object]


@dataclass(frozen=True)
class System:
    """A server, and how it is asked."""

    command: list[str]
    """Without the port, which follows."""
    path: str
    body: Callable[[str | list[str]], Row]
    """The request for a text or several."""
    text: Callable[[dict], str]
    """The translation in the answer to one text."""
    ready: str = "/ready"
    length_power: float | None = None
    """The length penalty of its beam search; None for ours."""
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Peers:
    """A folder with the run in the formats of the others, and requests."""

    run: Path
    folder: Path
    libretranslate: Path | None
    sentences: list[str]

    def prepare(self, names: Sequence[str]) -> None:
        """Export the run, and install it where LibreTranslate looks."""
        if "plain" in names:
            dragoman("export", self.run, "--to", "ctranslate2", "--precision", "int8", "--out", self.export)
        if any(name.startswith("libretranslate") for name in names):
            package = self.folder / "ende.argosmodel"
            languages = ("--source-language", "en", "--target-language", "de")
            dragoman("export", self.run, "--to", "argos", *languages, "--precision", "int8", "--out", package)
            (self.folder / "index.json").write_text("[]")
            code = f"import argostranslate.package as package; package.install_from_path({str(package)!r})"
            ended([str(self.python), "-c", code], environment=self.offline)

    @property
    def export(self) -> Path:
        return self.folder / "ctranslate2"

    @property
    def python(self) -> Path:
        """The Python of LibreTranslate."""
        return self.libretranslate.absolute() / "bin" / "python"

    @property
    def offline(self) -> dict[str, str]:
        """Where Argos Translate keeps its files, and an index of packages without any."""
        places = {f"XDG_{name}_HOME": str(self.folder / name.lower()) for name in ("DATA", "CONFIG", "CACHE")}
        return places | {"ARGOS_PACKAGE_INDEX": f"file://{self.folder}/", "PYTHONPATH": ""}

    def system(self, name: str, threads: tuple[int, int]) -> System:
        """A system. `threads` are the plain server's: workers, and threads of each."""
        if name == "dragoman":
            return System(
                [*DRAGOMAN, "serve", str(self.run), "--precision", "int8", "--port"],
                "/v1/translate",
                lambda text: {"text": text},
                lambda answer: answer["translations"][0]["text"],
            )
        if name == "plain":
            inter, intra = map(str, threads)
            own = [str(HERE / "serve_peer.py"), str(self.export), "--inter-threads", inter]
            return System(
                [sys.executable, *own, "--intra-threads", intra, "--port"],
                "/translate",
                lambda text: {"text": text},
                lambda answer: answer["translation"],
                length_power=1.0,
            )
        best = name == "libretranslate"
        code = f"{WHOLE_TEXTS if best else ''}from libretranslate.main import main; main()"
        options = ["--load-only", "en,de", *(["--threads", "4"] if best else []), "--port"]
        return System(
            [str(self.python), "-c", code, *options],
            "/translate",
            lambda text: {"q": text, "source": "en", "target": "de"},
            lambda answer: answer["translatedText"],
            ready="/languages",
            length_power=0.2,
            environment=self.offline
            | ({"ARGOS_INTER_THREADS": "2", "ARGOS_INTRA_THREADS": "1"} if best else {}),
        )

    def bodies(self, system: System, texts: int = 1) -> Path:
        """A file of requests, one a line, of so many sentences each."""
        path = self.folder / "bodies.json"
        whole = range(0, len(self.sentences) - texts + 1, texts)
        asked = [
            self.sentences[first : first + texts] if texts > 1 else self.sentences[first] for first in whole
        ]
        path.write_text("".join(json.dumps(system.body(each)) + "\n" for each in asked))
        return path


# ---- programs

DRAGOMAN = [sys.executable, "-c", "from dragoman.cli.main import main; main()"]


def ended(command: Sequence[str], seconds: float = 600, environment: dict[str, str] | None = None) -> str:
    """What a program writes. Raises `RuntimeError` with its errors if it fails or takes longer."""
    try:
        done = subprocess.run(
            command,
            env=os.environ | (environment or {}),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{command[0]} took more than {seconds:g} seconds.") from error
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def dragoman(*words: object) -> None:
    ended([*DRAGOMAN, *map(str, words)])


@dataclass(frozen=True)
class Server:
    """A server that is up."""

    process: subprocess.Popen[bytes]
    url: str

    @property
    def cpu_seconds(self) -> float:
        """Time that processors have spent on it."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running(system: System, folder: Path) -> Iterator[Server]:
    """Start a server, wait until it is up, and end it. Raises `RuntimeError` if it does not come up."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "server.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*system.command, str(port)],
            cwd=folder,
            env=os.environ | system.environment,
            stdout=file,
            stderr=file,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + START_SECONDS
        while not is_up(url + system.ready):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{' '.join(system.command)}: {log.read_text()[-2000:]}")
            time.sleep(0.2)
        yield Server(process, url + system.path)
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310
            return answer.status == 200
    except OSError:
        return False
