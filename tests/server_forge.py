"""A process that forks the servers of the tests. It has imported what they need, which takes a second."""

import json
import os
import signal
import socket
import sys
from importlib import import_module

MODULES = (
    "dragoman.cli.serve",
    "dragoman.serving.app",
    "dragoman.serving.server",
    "uvicorn.lifespan.on",
    "uvicorn.loops.uvloop",
    "uvicorn.protocols.http.httptools_impl",
)


def main() -> None:
    """Fork a server for each request on the socket with the number `sys.argv[1]`, until it is closed.

    A request is JSON, with two files: the server's standard error, and a socket for its process number and
    then its exit status.
    """
    for name in MODULES:
        import_module(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest, which closes the socket
    requests = socket.socket(fileno=int(sys.argv[1]))
    while True:
        request, files, _, _ = socket.recv_fds(requests, 2**20, 2)
        if not request:
            return
        guard = os.fork()
        if not guard:
            requests.close()
            serve(json.loads(request), *files)
            return
        for file in files:
            os.close(file)
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def serve(request: dict[str, object], errors: int, control: int) -> None:
    """Be a server, and in another process wait for its end."""
    server = os.fork()
    if server:
        os.close(errors)
        os.write(control, str(server).encode())
        status = os.waitstatus_to_exitcode(os.waitpid(server, 0)[1])
        os.write(control, str(status).encode())
        os._exit(0)
    os.close(control)
    if request["new_session"]:
        os.setsid()
    os.dup2(errors, 2)
    os.close(errors)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
    import dragoman.__main__

    sys.argv = ["dragoman", "serve", *request["arguments"]]
    sys.modules["__main__"] = dragoman.__main__  # what its own processes import
    dragoman.__main__.main()


if __name__ == "__main__":
    main()
