"""Speed of the HTTP server: ours beside LibreTranslate and a plain server of FastAPI and CTranslate2, with
the same weights in int8, sentences and beam of 4, in turn, in one run.

    apt-get install wrk; pip install 'dragoman[serve,ctranslate2]'
    python -m venv lt && lt/bin/pip install libretranslate==1.9.6
    python benchmarks/serve.py RUN --source test2016.en --libretranslate lt --out serve.json

A request has one sentence. Every server is started for its turn and ended after it, and the load comes from a
process apart, on the same machine. Measured are

- saturation: sentences a second that wrk gets with 8 and 32 connections, each of which sends its next request
  when it has the answer; of ours also with 32 sentences a request;
- open loop: milliseconds to the answer where requests come at constant intervals (`serve_load.py`), at half
  of the system's own saturation and at half of the slowest one's (LibreTranslate as it comes left out);
- offline: `Translator.translate` of all sentences in a process of its own, without a server;
- CPU ms a sentence: processor time of the server, or of the offline translator, which other programs on the
  machine change less than speeds;
- beside: of ours, milliseconds of short sentences, 50 a second, alone and beside a connection that sends one
  sentence of 500 tokens after the other, translated whole or in parts;
- overhead: one short sentence over one connection, and by `Translator.translate`, in turn;
- answers: of 50 sentences, how many have the translation that `Translator.translate` writes, with our length
  penalty and with the system's.

LibreTranslate runs as it comes, and at its best settings: two workers of one thread for CTranslate2, and no
splitting of texts into sentences (as it comes it splits them by the rules in our package). The plain server
runs with those numbers of threads that were best of a few. The file of --out has each piece when it is
measured; the same command again measures what it lacks. Prints medians of all rounds.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from passport import asked, passport
from serve_load import DRAIN_SECONDS, Connection
from serve_report import report
from serve_systems import HERE, Peers, Row, Server, System, ended, running

from dragoman.system.files import atomic_write
from dragoman.system.machine import configure_allocator
from dragoman.text.lines import read_lines
from dragoman.translation.translator import Translator

SYSTEMS = ("dragoman", "plain", "libretranslate", "libretranslate-default")
MANY = 32  # connections
TEXTS = 32  # of a request with several
ANSWERS = 50  # sentences whose translations are compared
SHORT = "A man rides a bike."
PAIRS = 400  # times that it is translated each way
SHORT_RATE, SHORT_WORDS, LONG_TOKENS = 50, 10, 500
SPARE_SECONDS = 60  # that a program has beyond what it measures
PACKAGES = ("ctranslate2", "fastapi", "httptools", "sentencepiece", "uvicorn", "uvloop")
LIBRETRANSLATE = ("libretranslate", "argos-translate-lt", "ctranslate2", "waitress")
Step = Callable[[System, Server], Row]

# ---- measuring


def saturation(
    peers: Peers, system: System, server: Server, connections: int, seconds: float, texts: int = 1
) -> Row:
    """Sentences a second where each connection sends its next request when it has the answer."""
    bodies = peers.bodies(system, texts)
    options = ["-t1", f"-c{connections}", f"-d{seconds:g}s", "--timeout", "10s", "--latency"]
    before = server.cpu_seconds
    wrote = ended(
        ["wrk", *options, "-s", str(HERE / "serve_load.lua"), server.url, "--", str(bodies)],
        seconds + SPARE_SECONDS,
    )
    found = json.loads(next(line for line in wrote.splitlines() if line.startswith("{")))
    sentences = found["requests"] * texts
    return {
        "connections": connections,
        "texts": texts,
        "sentences_per_second": sentences / found["seconds"],
        "p50_ms": found["p50_ms"],
        "p95_ms": found["p95_ms"],
        "errors": found["errors"],
        "cpu_ms": 1000 * (server.cpu_seconds - before) / max(1, sentences),
    }


def open_loop(peers: Peers, system: System, server: Server, rate: float, seconds: float) -> Row:
    """Milliseconds where so many requests a second come at constant intervals."""
    words = [server.url, str(peers.bodies(system)), "--rate", f"{rate:.3f}", "--seconds", f"{seconds:g}"]
    program = [sys.executable, str(HERE / "serve_load.py")]
    return json.loads(ended([*program, *words], seconds + DRAIN_SECONDS + SPARE_SECONDS))


def beside(peers: Peers, server: Server, seconds: float) -> Row:
    """Milliseconds of short sentences alone, and beside a long one that is translated again and again."""
    path = peers.folder / "short.json"
    short = [each for each in peers.sentences if len(each.split()) <= SHORT_WORDS]
    path.write_text("".join(json.dumps({"text": each}) + "\n" for each in short))
    tokens = Translator.load(peers.run, device="cpu").tokenizers.source.encode(peers.sentences)
    count = next(n for n in range(len(tokens)) if sum(map(len, tokens[:n])) >= LONG_TOKENS)
    words = [server.url, str(path), "--rate", str(SHORT_RATE), "--seconds", f"{seconds:g}"]
    program = [sys.executable, str(HERE / "serve_load.py"), *words]
    found: Row = {}
    for name, settings in (("alone", None), ("whole", {"split": 0}), ("parts", {})):
        long_path = peers.folder / "long.json"
        body = {"text": " ".join(peers.sentences[:count]), "split_sentences": False} | (settings or {})
        long_path.write_text(json.dumps(body) + "\n")
        load = ["wrk", "-t1", "-c1", f"-d{seconds + 2:g}s", "-s", str(HERE / "serve_load.lua"), server.url]
        process = (
            subprocess.Popen([*load, "--", str(long_path)], stdout=subprocess.DEVNULL)
            if name != "alone"
            else None
        )
        time.sleep(1)
        row = json.loads(ended(program, seconds + DRAIN_SECONDS + SPARE_SECONDS))
        if process:
            process.wait(SPARE_SECONDS)
        found |= {f"{name}_{which}": row[which] for which in ("p50_ms", "p95_ms")}
    return found | {
        f"{name}_ratio": found[f"{name}_p95_ms"] / found["alone_p95_ms"] for name in ("whole", "parts")
    }


def answers(peers: Peers, system: System, server: Server, seconds: float) -> Row:
    """How many of the first translations are those that `Translator.translate` writes."""
    connection = Connection(server.url)
    sentences = peers.sentences[:ANSWERS]
    given = [
        system.text(json.loads(connection.post(json.dumps(system.body(each)).encode()))) for each in sentences
    ]
    connection.close()
    ours = apart("translations", peers, seconds)
    same_penalty = ours if system.length_power is None else apart("translations", peers, seconds, system)
    return {
        "sentences": len(sentences),
        "same_as_ours": sum(map(str.__eq__, given, ours)),
        "same_as_ours_with_its_length_penalty": sum(map(str.__eq__, given, same_penalty)),
    }


def apart(
    what: str, peers: Peers, seconds: float, system: System | None = None, server: Server | None = None
) -> object:
    """What `measure` finds in a process of its own."""
    texts = peers.folder / "sentences.txt"
    texts.write_text("".join(each + "\n" for each in peers.sentences))
    command = [sys.executable, __file__, str(peers.run), "--source", str(texts), "--measure", what]
    command += ["--seconds", f"{seconds:g}"] + (["--url", server.url] if server else [])
    command += ["--length-power", str(system.length_power)] if system else []
    return json.loads(ended(command, seconds + SPARE_SECONDS).splitlines()[-1])


def measure(arguments: argparse.Namespace) -> object:
    """In this process: the speed offline, what HTTP adds, or translations."""
    configure_allocator()
    translator = Translator.load(arguments.run, device="cpu", precision="int8")
    sentences = list(read_lines(arguments.source))
    if arguments.measure == "overhead":
        return overhead(translator, arguments.url)
    if arguments.measure == "translations":
        return translator.translate(sentences[:ANSWERS], length_power=arguments.length_power)
    translator.translate(sentences)
    count, cpu, started = 0, time.process_time(), time.perf_counter()
    while (seconds := time.perf_counter() - started) < arguments.seconds:
        translator.translate(sentences)
        count += len(sentences)
    return {
        "sentences_per_second": count / seconds,
        "cpu_ms": 1000 * (time.process_time() - cpu) / count,
    }


def overhead(translator: Translator, url: str) -> Row:
    """Median milliseconds of a short sentence by HTTP and here, ten of each in turn."""
    connection, body = Connection(url), json.dumps({"text": SHORT}).encode()
    ways = {"http_ms": lambda: connection.post(body), "direct_ms": lambda: translator.translate([SHORT])}
    times = {name: [] for name in ways}
    for turn in range(PAIRS // 10 + 1):
        for name, way in ways.items():
            for _ in range(10):
                started = time.perf_counter()
                way()
                if turn:  # the first turn warms up
                    times[name].append(1000 * (time.perf_counter() - started))
    connection.close()
    found = {name: statistics.median(each) for name, each in times.items()}
    return found | {"overhead_ms": found["http_ms"] - found["direct_ms"]}


# ---- all of it


@dataclass
class Pieces:
    """The measurements of a file, each kept with where it comes from as soon as it is made."""

    path: Path
    command: str
    stamp: Row
    rows: list[Row]

    def find(self, **key: object) -> Row | None:
        """The measurement that has been made before."""
        return next((row for row in self.rows if key.items() <= row.items()), None)

    def once(self, make: Callable[[], Row], **key: object) -> Row:
        """Make a measurement, unless it has been made before."""
        if (row := self.find(**key)) is None:
            row = key | make() | self.stamp
            self.rows.append(row)
            found = {name: value for name, value in row.items() if name not in key | self.stamp}
            print(*key.values(), found, file=sys.stderr, flush=True)
            with atomic_write(self.path) as path:
                path.write_text(json.dumps({"command": self.command, "rows": self.rows}, indent=1) + "\n")
        return row


@dataclass(frozen=True)
class Benchmark:
    """The steps, in the order in which they are made."""

    peers: Peers
    pieces: Pieces
    systems: list[str]
    seconds: float

    def turn(self, name: str, *steps: tuple[Row, Step], threads: tuple[int, int] | None = None) -> None:
        """Start a server, warm it up, and make the measurements that are missing, if any."""
        missing = [(key, make) for key, make in steps if self.pieces.find(system=name, **key) is None]
        if not missing:
            return
        system = self.peers.system(name, threads or self.threads)
        with running(system, self.peers.folder) as server:
            saturation(self.peers, system, server, MANY, min(3, self.seconds))
            for key, make in missing:
                time.sleep(0.5)
                self.pieces.once(lambda make=make: make(system, server), system=name, **key)

    @property
    def threads(self) -> tuple[int, int]:
        """The plain server's best numbers of workers and of threads of each, of those that were tried."""
        found: dict[tuple[int, int], float] = defaultdict(float)
        for row in self.pieces.rows:
            if row["measured"] == "threads":
                found[row["workers"], row["threads"]] += row["sentences_per_second"]
        return max(found, key=found.get, default=(1, 1))

    def try_threads(self) -> None:
        """Measure the plain server with a few numbers of threads, twice each, in turn."""
        cores = os.cpu_count() or 1
        for turn in (1, 2):
            for workers, threads in sorted({(cores, 1), (1, cores), (max(1, cores - 1), 1)}):
                key = {"measured": "threads", "turn": turn, "workers": workers, "threads": threads}
                self.turn("plain", (key, self.saturation(MANY)), threads=(workers, threads))

    def saturation(self, connections: int, texts: int = 1) -> Step:
        return lambda system, server: saturation(self.peers, system, server, connections, self.seconds, texts)

    def compare_answers(self) -> None:
        for name in self.systems:
            self.turn(name, ({"measured": "answers"}, lambda *on: answers(self.peers, *on, self.seconds)))

    def saturate(self, number: int) -> None:
        """Saturation of each system in turn, ours between two measurements of the offline translator."""
        for name in self.systems:
            steps = [
                (
                    {"measured": "saturation", "round": number, "connections": connections, "texts": texts},
                    self.saturation(connections, texts),
                )
                for connections, texts in ((8, 1), (MANY, 1), (8, TEXTS))
                if texts == 1 or name == "dragoman"
            ]
            if name == "dragoman":
                self.offline(number, "before")
            self.turn(name, *steps)
            if name == "dragoman":
                self.offline(number, "after")

    def offline(self, number: int, when: str) -> None:
        self.pieces.once(
            lambda: apart("offline", self.peers, self.seconds),
            system="dragoman",
            measured="offline",
            round=number,
            when=when,
        )

    def saturated(self, number: int, name: str) -> float:
        """The most sentences a second, one a request, of a system in a round."""
        return max(
            row["sentences_per_second"]
            for row in self.pieces.rows
            if row["measured"] == "saturation"
            and (row["round"], row["system"], row["texts"]) == (number, name, 1)
        )

    def open_loops(self, number: int) -> None:
        """Times of each system in turn, at its own rate and at the one of all."""
        fast = [name for name in self.systems if name != "libretranslate-default"] or self.systems
        common = min(self.saturated(number, name) for name in fast) / 2
        for name in self.systems:
            self.turn(
                name,
                *(
                    (
                        {"measured": "open loop", "round": number, "rate": kind},
                        lambda system, server, rate=rate: open_loop(
                            self.peers, system, server, max(1, rate), self.seconds
                        ),
                    )
                    for kind, rate in (("own", self.saturated(number, name) / 2), ("common", common))
                ),
            )

    def round(self, number: int) -> None:
        """One round of everything."""
        self.saturate(number)
        self.open_loops(number)
        if "dragoman" in self.systems:
            self.turn(
                "dragoman",
                (
                    {"measured": "overhead", "round": number},
                    lambda _, server: apart("overhead", self.peers, self.seconds, server=server),
                ),
                (
                    {"measured": "beside", "round": number},
                    lambda _, server: beside(self.peers, server, self.seconds),
                ),
            )


def stamp(command: str, seconds: float, libretranslate: Path | None) -> Row:
    """Where a measurement comes from: machine, versions, commit; and how long it takes."""
    found = passport(command)
    del found["command"], found["threads"]
    versions = {"python": sys.version.split()[0]}
    versions |= {name: version(name) for name in ("dragoman", *PACKAGES)}
    told = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False)
    versions["wrk"] = told.stdout.split()[1]
    if libretranslate is not None:
        code = f"from importlib.metadata import version; print(*map(version, {LIBRETRANSLATE!r}))"
        wrote = ended([str(libretranslate.absolute() / "bin" / "python"), "-c", code])
        versions |= {
            f"LibreTranslate's {name}": one for name, one in zip(LIBRETRANSLATE, wrote.split(), strict=True)
        }
    return found | {"versions": versions, "seconds": seconds}


def distinct(path: Path) -> list[str]:
    """The sentences of a file, each once: LibreTranslate keeps its last translation."""
    return list(dict.fromkeys(line for line in read_lines(path) if line.strip()))


def main(argv: Sequence[str] | None = None) -> None:
    """Compare all, or measure one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="a trained run, of English and German")
    parser.add_argument("--source", type=Path, required=True, help="sentences, one a line")
    parser.add_argument("--libretranslate", type=Path, help="a virtual environment with LibreTranslate")
    parser.add_argument("--seconds", type=float, default=20, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS)
    parser.add_argument("--out", type=Path, default=Path("serve.json"))
    for flag, kind in (("--measure", str), ("--url", str), ("--length-power", float)):
        parser.add_argument(flag, type=kind, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.measure is not None:
        print(json.dumps(measure(arguments)))
        return
    names = arguments.systems or [name for name in SYSTEMS if name[0] != "l" or arguments.libretranslate]
    if arguments.libretranslate is None and any(name.startswith("libretranslate") for name in names):
        parser.error("--systems libretranslate needs --libretranslate FOLDER, its virtual environment.")
    if shutil.which("wrk") is None:
        parser.error("wrk is missing: apt-get install wrk.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # a server that runs is ended
    command = asked("serve.py", arguments, "run")
    rows = json.loads(arguments.out.read_text())["rows"] if arguments.out.exists() else []
    here = stamp(command, arguments.seconds, arguments.libretranslate)
    if any(row[name] != value for row in rows for name, value in here.items() if name != "date"):
        parser.error(
            f"{arguments.out} is of another commit, machine, version or --seconds; give another --out."
        )
    pieces = Pieces(arguments.out, command, here, rows)
    with tempfile.TemporaryDirectory() as folder:
        run = arguments.run.absolute()
        peers = Peers(run, Path(folder), arguments.libretranslate, distinct(arguments.source))
        peers.prepare(names)
        benchmark = Benchmark(peers, pieces, names, arguments.seconds)
        if "plain" in names:
            benchmark.try_threads()
        benchmark.compare_answers()
        for number in range(1, arguments.rounds + 1):
            benchmark.round(number)
    report(rows, here)


if __name__ == "__main__":
    main()
