"""Programs that the tests of pages put in the place of those that pages name.

`dragoman` is the program itself with short trainings; its servers run in the background on free ports, and
`curl` asks the last one. `torchrun` starts two processes without a GPU. The others install nothing, and only
check their arguments.

    python tests/page_programs.py SOCKET

runs them for the scripts that `write_scripts` makes, each in a process forked from this one, which has
imported PyTorch: that takes longer than most commands.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
import traceback
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

from dragoman.cli import main as cli

ROOT = Path(__file__).parents[1]
SERVER = Path("server.json")  # the process and the address of the current server
STEPS = ["--updates", "3"]
SIZES = ["--d-model", "16", "--encoder-layers", "2", "--decoder-layers", "2", "--vocabulary", "400"]
TRANSFORMER_SIZES = ["--d-ff", "40", "--heads", "4"]
QUICKSTART = """\
[model]
d_model = 16
d_ff = 16
heads = 2
encoder_layers = 1
decoder_layers = 1
"""
MAX_SECONDS = 600
SCRIPT = f"""#!{sys.executable} -IS
import json, os, socket, sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as runner:
    runner.connect(SOCKET)
    call = json.dumps([sys.argv, os.getcwd(), dict(os.environ)])
    socket.send_fds(runner, [call.encode()], [0, 1, 2])
    sys.exit(int(runner.recv(8) or 1))
"""
PROGRAMS = ("argos-translate", "curl", "dragoman", "make", "pip", "scontrol", "srun", "systemctl", "torchrun")
TORCHRUN = {
    "--nproc-per-node": "2",
    "--nnodes": "1",
    "--max-restarts": "0",
    "--rdzv-endpoint": "127.0.0.1:0",  # a free port
}
REFUSED = ("/translate_file", "/suggest")  # LibreTranslate's paths that answer with an explanation


def shortened(words: list[str]) -> list[str]:
    """A command with options that make its training short. The last value of an option counts."""
    verb = words[0]
    if verb in ("train", "start"):
        if "--initial-model" in words or "adaptation" in recipe(words):
            rank = ["--lora-rank", "2"] if "--lora-rank" in words else []  # below the toy's width
            return words + STEPS + rank
        recurrent = {"rnn", "conv"} & {*words}  # these have no heads
        return words + STEPS + SIZES + ([] if recurrent else TRANSFORMER_SIZES)
    if verb == "distil":
        return [*words, *STEPS, "--temperature", "1"]  # the toy's likeliest translations are empty
    if verb == "backtranslate":
        return [*words, "--temperature", "1"]
    if verb == "quickstart":
        shutil.rmtree("runs/quickstart", ignore_errors=True)  # the tests' own, for other pages
        Path("quickstart.toml").write_text(QUICKSTART)
        return [*words, *STEPS, "--recipe", "quickstart.toml"]
    if verb == "inspect":
        return [*words, "--max-length", "5"]  # the toy writes one token again and again
    if verb == "figure" and "--query" in words:
        return [*words, "--query", "A"]  # most tokens of the toy are letters
    if verb == "reproduce" and "--seeds" in words:
        return [*words, "--seeds", "1"]
    if verb == "lab" and "--list" not in words:
        return [*words, "--quick"]
    return words


def recipe(words: list[str]) -> dict:
    """The recipe that a command names."""
    found = [word for word in words if word.endswith(".toml") and Path(word).exists()]
    return tomllib.loads(Path(found[0]).read_text()) if words[0] == "train" and found else {}


def forget_run(words: list[str]) -> None:
    """Delete the run that a training would write: several trainings of a page may have one name."""
    if words[0] != "train" or any(Path(word).name == "recipe.toml" and "/" in word for word in words):
        return  # a recipe in a run's folder continues that run
    out = words[words.index("--out") + 1] if "--out" in words else recipe(words).get("out")
    if out is not None:
        shutil.rmtree(out, ignore_errors=True)


def make_toys(words: list[str]) -> None:
    """Toy sizes for the tables of the paper, and two rows and trials of those that a command wants whole."""
    from dragoman.model.settings import ModelSettings
    from dragoman_paper.tables import baselines, table1, table2
    from dragoman_paper.tables.tables import TABLES

    table1.POSITIONS = table1.QUICK_POSITIONS = table1.WIDTHS = table1.QUICK_WIDTHS = (16, 32)
    table1.DISTANCES = table1.QUICK_DISTANCES = (8, 16)
    tiny = ModelSettings(d_model=16, d_ff=32, heads=2, encoder_layers=1, decoder_layers=1)
    table2.SCALES["paper"] = tuple(
        replace(row, model=tiny, vocabulary=320, updates=4, checkpoint_every=2, average=2, tokens=200)
        for row in table2.PAPER
    )
    baselines.TRIALS = baselines.TRIALS[:2]
    for name, table in TABLES.items():
        scales = [replace(scale, vocabulary=320, tokens=200, updates=12) for scale in table.scales]
        if name == "table3":
            scales = [replace(scale, width=16) for scale in scales]
        rows = table.rows if "--rows" in words else table.rows[:2]
        TABLES[name] = replace(table, scales=tuple(scales), rows=rows)


def dragoman(words: list[str]) -> int:
    """The exit status of a command. A doctor's findings are no failure."""
    if words[0] in ("serve", "start") and "--new-key" not in words:
        return serve(words)
    if "RANK" not in os.environ:
        forget_run(words)
    if words[0] == "reproduce":
        make_toys(words)
    sys.argv = ["dragoman", *shortened(words)]
    try:
        cli.main()
    except SystemExit as end:
        return 0 if words[0] == "doctor" and end.code == 1 else int(end.code or 0)
    return 0


def serve(words: list[str]) -> int:
    """Start a server in the background, in the place of the one before; say its address.

    One that wants keys only starts and ends: the requests of pages have none.
    """
    keyed = "--api-keys" in words
    if not keyed:
        stop()
    log = Path("keyed.log" if keyed else "server.log")
    options = ["--host", "127.0.0.1", "--port", "0", "--deadline", str(MAX_SECONDS)]
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "dragoman", *shortened(words), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=file,
            start_new_session=True,
        )
    while not (found := re.search(r"^Serving .* at (http://\S+)$", log.read_text(), re.MULTILINE)):
        if process.poll() is not None:
            print(log.read_text(), file=sys.stderr)
            return 1
        time.sleep(0.05)
    with urlopen(f"{found[1]}/ready", timeout=MAX_SECONDS):  # signals end it as they should from here on
        print(found[0].replace(found[1], "http://127.0.0.1:8000"))
    if keyed:
        process.terminate()
        return process.wait()
    SERVER.write_text(json.dumps([process.pid, found[1]]))
    return 0


def stop() -> None:
    """End the current server."""
    if SERVER.exists():
        with suppress(ProcessLookupError):
            os.kill(json.loads(SERVER.read_text())[0], signal.SIGTERM)
        SERVER.unlink()


def curl(words: list[str]) -> int:
    """Ask the current server with curl itself."""
    address = json.loads(SERVER.read_text())[1].removeprefix("http://")
    refused = any(path in word for word in words for path in REFUSED)
    fail = [] if refused or "-fs" in words else ["--fail-with-body"]
    words = [re.sub(r"\blocalhost:80\d\d\b", address, word) for word in words]
    path = os.environ["PATH"].partition(":")[2]  # without this folder
    program = shutil.which("curl", path=path)
    return subprocess.run([program, "--silent", "--show-error", *fail, *words], check=False).returncode


def torchrun(words: list[str]) -> int:
    """Start torchrun itself, with two processes on this machine."""
    at = words.index("-m")
    options = [
        TORCHRUN.get(before, word) for before, word in zip(["", *words[:at]], words[:at], strict=False)
    ]
    forget_run(words[at + 2 :])
    from torch.distributed import run

    run.main([*options, shutil.which("dragoman"), *words[at + 2 :]])
    return 0


def pip(words: list[str]) -> int:
    """Whether the package has the extras that are to be installed."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = {extra for word in words if "[" in word for extra in re.findall(r"\[(.*)\]", word)[0].split(",")}
    return len(asked - known.keys())


def make(words: list[str]) -> int:
    """Whether the Makefile has the target."""
    command = ["/usr/bin/env", "make", "--dry-run", "--always-make", "--directory", ROOT, *words]
    path = os.environ["PATH"].partition(":")[2]
    ran = subprocess.run(command, env={**os.environ, "PATH": path}, stdout=subprocess.DEVNULL, check=False)
    return ran.returncode


def call(name: str, words: list[str]) -> int:
    """Run a program; its exit status."""
    if name == "dragoman":
        return dragoman(words)
    if name == "curl":
        return curl(words)
    if name == "torchrun":
        return torchrun(words)
    if name == "pip":
        return pip(words)
    if name == "make":
        return make(words)
    if name == "srun":  # of one machine
        options = 2 if words[0] == "--cpus-per-task" else 0
        return subprocess.run(words[options:], check=False).returncode
    if name == "scontrol":
        print("127.0.0.1")
    return 0  # systemctl, argos-translate


# ---- processes


def write_scripts(folder: Path, runner: Path) -> None:
    """A script for each program, which has the runner at a socket call it."""
    folder.mkdir()
    for name in PROGRAMS:
        (folder / name).write_text(SCRIPT.replace("SOCKET", repr(str(runner))))
        (folder / name).chmod(0o755)


def answer(connection: socket.socket) -> None:
    """In a process of its own: run a program in another one, and send its exit status."""
    message, files, *_ = socket.recv_fds(connection, 1 << 20, 3)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    worker = os.fork()
    if worker == 0:
        run(message, files)
    for file in files:
        os.close(file)
    status = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    connection.send(b"%d" % abs(status))
    os._exit(0)


def run(message: bytes, files: list[int]) -> None:
    """Call a program with a script's folder, environment and files, and end this process."""
    (script, *words), folder, environment = json.loads(message)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, closefd=False)
    signal.alarm(MAX_SECONDS)
    status = 1
    try:
        status = call(Path(script).name, words)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def main(path: str) -> None:
    """Answer scripts until a signal comes."""
    import torch
    import torch._dynamo  # noqa: F401  PyTorch's optimizers want it

    import dragoman.pipeline.run  # noqa: F401
    import dragoman.translation.translator  # noqa: F401

    torch.set_num_threads(1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system forgets processes that have ended
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        while True:
            with listener.accept()[0] as connection:
                if os.fork() == 0:
                    listener.close()
                    answer(connection)


if __name__ == "__main__":
    main(sys.argv[1])
