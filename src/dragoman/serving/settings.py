"""Settings of the server. This module imports no web framework."""

import re
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

from dragoman.system.errors import OptionError
from dragoman.system.options import Needs, check_options, option

HOST_PATTERN = re.compile(r"\*|(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*|[0-9a-f:]+:[0-9a-f:.]*", re.IGNORECASE)
PREFIX = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*")
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

    Raises `OptionError` for values out of bounds, and for an address beyond this machine without keys.
    """

    host: str = "127.0.0.1"
    """Address to listen on. Any address other than loopback needs `--api-keys` or `--no-auth`."""
    port: int = option(8000, at_least=0, at_most=65_535)
    """Port to listen on; 0 chooses a free one."""
    url_prefix: str = ""
    """Path under which a proxy serves this server, such as /mt. Paths of requests may begin with it, or the
    proxy takes it away."""
    tls_cert: Path | None = None
    """File with the certificate, and those that lead to its authority (PEM): the server then speaks HTTPS."""
    tls_key: Path | None = option(None, Needs("tls_cert"))
    """File with the certificate's private key (PEM), without a password. None is the certificate's file."""
    processes: int = option(1, at_least=1, at_most=256)
    """Server processes. Each has its own search threads and its own copy of the models."""
    max_memory: int = option(0, at_least=0, at_most=2**50)
    """Maximum memory in bytes of the models of each process: they are loaded when requests need them, and
    those not used for longest make room (0: no limit, and all are loaded at the start)."""
    api_keys: Path | None = None
    """TOML file with the hashes of the API keys, as `dragoman serve --new-key` writes it. Requests then need
    a key."""
    no_auth: bool = False
    """Serve without keys on an address that other machines can reach."""
    requests_per_minute: int = option(0, at_least=0)
    """Maximum number of requests per minute for a key, or for a client address if there are no keys (0: no
    limit)."""
    deadline: float = option(8.0, at_least=1e-3, at_most=3_600)
    """Seconds after which a request is answered with 504 and its search is stopped."""
    attribution_deadline: float = option(60.0, at_least=1e-3, at_most=3_600)
    """Seconds after which the attribution of an inspection is stopped."""
    queue_tokens: int = option(50_000, at_least=1)
    """Maximum number of source tokens of all requests that are being translated; beyond that the answer is
    429."""
    max_body: int = option(1_000_000, at_least=1)
    """Maximum size of a request's body in bytes."""
    max_document: int = option(10_000_000, at_least=1)
    """Maximum size of a document in bytes."""
    max_document_memory: int = option(1_000_000_000, at_least=200_000_000)
    """Maximum memory in bytes that reading or writing a document may take."""
    max_unpacked: int = option(100_000_000, at_least=1)
    """Maximum size in bytes of all that an office file or a book unpacks to."""
    max_members: int = option(10_000, at_least=1)
    """Maximum number of files in an office file or a book."""
    max_ratio: int = option(200, at_least=1)
    """Maximum ratio of the size of a file in an office file or a book to its packed size, for files of more
    than a mebibyte."""
    max_documents: int = option(100, at_least=1)
    """Maximum number of documents that are being translated or wait for their download."""
    max_stored: int = option(200_000_000, at_least=1)
    """Maximum size in bytes of all these documents, and of all that are being received."""
    document_deadline: float = option(300.0, at_least=1e-3, at_most=3_600)
    """Seconds after which the translation of a document is stopped."""
    glossaries: Path | None = None
    """Folder with the glossaries of the server: NAME.tsv, .csv and .tbx by hand, and those of the APIs."""
    max_glossaries: int = option(1_000, at_least=1)
    """Maximum number of glossaries that are made through the APIs."""
    max_glossary_terms: int = option(50_000, at_least=1)
    """Maximum number of terms of a glossary."""
    max_glossary_bytes: int = option(50_000_000, at_least=1)
    """Maximum size in bytes of all glossaries that are made through the APIs, and of each other one."""
    max_texts: int = option(128, at_least=1)
    """Maximum number of texts, or of pairs to score, in a request."""
    max_tokens: int = option(20_000, at_least=1)
    """Maximum number of source tokens in a request."""
    max_beam_size: int = option(16, at_least=1, at_most=1_000)
    """Maximum beam size of a request and of the default search."""
    max_n_best: int = option(32, at_least=1)
    """Maximum number of translations of a sentence that a request may ask for."""
    allow_hosts: tuple[str, ...] = ()
    """Names of the server that requests may have as their Host, without port: those under which a proxy or
    another machine reaches it. `*.example.org` is every name below example.org, and `*` every name."""
    allow_origins: tuple[str, ...] = ()
    """Origins whose pages may call the APIs (CORS); none by default."""
    pivot: bool = True
    """Translate through a third language where no model has both languages: French to German by the models
    from French to English and from English to German."""
    docs: bool = True
    """Serve the description of the APIs at /docs and /openapi.json."""
    show_samples: bool = False
    """Show sentences of a run's validation data, with their translations, in its inspections."""
    cache_bytes: int = option(0, at_least=0, at_most=2**50)
    """Maximum memory in bytes of each process for answers that are given again to equal requests (0: none are
    kept)."""
    suggestions: Path | None = None
    """File to which translations are added that clients of LibreTranslate's API suggest; without it they are
    refused."""
    max_suggestions: int = option(10_000_000, Needs("suggestions"), at_least=1, at_most=2**50)
    """Maximum size of this file in bytes."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The log has every request (info), those that failed (warning), or those that failed by a defect of the
    server (error). debug adds requests for /health, /ready and /metrics, and what libraries do."""
    log_texts: bool = False
    """Write texts into the log. Without this option the log contains no text of a request."""

    def __post_init__(self) -> None:
        check_options(self)
        for host in self.allow_hosts:
            if not HOST_PATTERN.fullmatch(host):
                raise OptionError(
                    "{allow_hosts} has {host!r}, which is no name of a host. Give names without scheme and "
                    "port: translate.example.org, *.example.org for every name below example.org, or * for "
                    "every name.",
                    host=host,
                )
        for origin in self.allow_origins:
            if not ORIGIN.fullmatch(origin):
                raise OptionError(
                    "{allow_origins} has {origin!r}, which is no origin. Give scheme, host and, if there is "
                    "one, port, without a path: https://example.org, or * for every origin.",
                    origin=origin,
                )
        if not PREFIX.fullmatch(self.url_prefix):
            raise OptionError(
                "{url_prefix} is {prefix!r}; it has to be a path that begins with / and does not end with "
                "/, such as /mt. Letters, digits and . _ ~ - are permitted.",
                prefix=self.url_prefix,
            )
        if "*" in self.host or not HOST_PATTERN.fullmatch(self.host.partition("%")[0]):
            raise OptionError(
                "{host} is {address!r}, which is no address. Give an address without brackets and port, such "
                "as 127.0.0.1, ::1 or 0.0.0.0, or a name.",
                address=self.host,
            )
        if not self.is_local and self.api_keys is None and not self.no_auth:
            raise OptionError(
                "{address} can be reached from other machines. Give {api_keys} FILE, so that requests need a "
                "key, or {no_auth}.",
                address=self.host,
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches the address."""
        return is_loopback(self.host.lower())
