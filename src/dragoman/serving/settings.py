"""Settings of the server. This module imports no web framework."""

import re
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from dragoman.system.errors import DragomanError
from dragoman.system.toml import check_bounds

HOST_PATTERN = re.compile(r"\*|(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*|[0-9a-f:]+:[0-9a-f:.]*", re.IGNORECASE)
ORIGIN = re.compile(r"\*|[a-z][a-z0-9+.-]*://[^/?#\s]+", re.IGNORECASE)


def is_loopback(host: str) -> bool:
    """Whether a name or an address always means the machine that uses it: localhost, 127.0.0.1, ::1."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class ServerSettings:
    """Address, access and limits of a server.

    Raises `DragomanError` for values out of bounds, and for an address beyond this machine without keys.
    """

    host: str = "127.0.0.1"
    """Address to listen on. Any address other than loopback needs `--api-keys` or `--no-auth`."""
    port: int = 8000
    """Port to listen on; 0 chooses a free one."""
    processes: int = 1
    """Server processes. Each has its own search threads and its own copy of the models."""
    api_keys: Path | None = None
    """TOML file with the hashes of the API keys, as `--new-key` writes it. Requests then need a key."""
    new_key: str = ""
    """Add a key with this name to the file of `--api-keys`, print the key once, and exit."""
    no_auth: bool = False
    """Serve without keys on an address that other machines can reach."""
    requests_per_minute: int = 0
    """Maximum number of requests per minute for a key, or for a client address if there are no keys (0: no
    limit)."""
    deadline: float = 8.0
    """Seconds after which a request is answered with 504 and its search is stopped."""
    queue_tokens: int = 50_000
    """Maximum number of source tokens of all requests that are being translated; beyond that the answer is
    429."""
    max_body: int = 1_000_000
    """Maximum size of a request's body in bytes."""
    max_texts: int = 128
    """Maximum number of texts, or of pairs to score, in a request."""
    max_tokens: int = 20_000
    """Maximum number of source tokens in a request."""
    max_beam_size: int = 16
    """Maximum beam size of a request and of the default search."""
    max_n_best: int = 32
    """Maximum number of translations of a sentence that a request may ask for."""
    allow_hosts: tuple[str, ...] = ()
    """Names of the server that requests may have as their Host, without port: those under which a proxy or
    another machine reaches it. `*.example.org` is every name below example.org, and `*` every name."""
    allow_origins: tuple[str, ...] = ()
    """Origins whose pages may call the APIs (CORS); none by default."""
    docs: bool = True
    """Serve the description of the APIs at /docs and /openapi.json."""
    show_samples: bool = False
    """Show sentences of a run's validation data, with their translations, in its inspections."""
    log_texts: bool = False
    """Write texts into the log. Without this option the log contains no text of a request."""

    def __post_init__(self) -> None:
        positive = ("processes", "queue_tokens", "max_body", "max_texts", "max_tokens")
        check_bounds(
            self,
            at_least=dict.fromkeys(("port", "requests_per_minute"), 0)
            | dict.fromkeys((*positive, "max_beam_size", "max_n_best"), 1)
            | {"deadline": 1e-3},
            at_most={"port": 65_535, "processes": 256, "deadline": 3_600, "max_beam_size": 1_000},
        )
        for host in self.allow_hosts:
            if not HOST_PATTERN.fullmatch(host):
                raise DragomanError(
                    f"--allow-hosts has {host!r}, which is no name of a host. Give names without scheme and "
                    "port: translate.example.org, *.example.org for every name below example.org, or * for "
                    "every name."
                )
        for origin in self.allow_origins:
            if not ORIGIN.fullmatch(origin):
                raise DragomanError(
                    f"--allow-origins has {origin!r}, which is no origin. Give scheme, host and, if there is "
                    "one, port, without a path: https://example.org, or * for every origin."
                )
        if self.new_key and self.api_keys is None:
            raise DragomanError("--new-key needs --api-keys FILE, to which the key's hash is added.")
        if not self.is_local and self.api_keys is None and not self.no_auth:
            raise DragomanError(
                f"{self.host} can be reached from other machines. Give --api-keys FILE, so that requests "
                "need a key, or --no-auth."
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches the address."""
        return is_loopback(self.host.lower())
