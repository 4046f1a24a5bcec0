"""Which requests are answered, by the headers in which a browser says what page has sent them.

A page of any site can make a browser send requests to a server on the user's machine, or in the user's
network. The browser adds headers that no page can choose: the host that the page named (Host), and whose page
it is (Origin, Sec-Fetch-Site). Programs that are no browsers send no Origin and no Sec-Fetch-Site.
"""

import re
from collections.abc import Sequence
from ipaddress import ip_address

from dragoman.serving.errors import ApiError
from dragoman.serving.settings import ServerSettings, is_loopback

Headers = Sequence[tuple[bytes, bytes]]
"""Names, in lower case, and values, as ASGI has them."""
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]*)(?::\d*)?", re.IGNORECASE)
JSON = re.compile(r"application/json\s*(;|$)", re.IGNORECASE)
BINARY = re.compile(r"application/octet-stream\s*(;|$)", re.IGNORECASE)
DOCUMENTS = "/v1/documents"
PAGES = ("/", "/inspect", "/docs", "/lab", "/lab/")
"""Pages to which other sites may link."""


def check_request(method: str, path: str, headers: Headers, settings: ServerSettings) -> None:
    """Raise `ApiError` for a request that a page of another site may have sent.

    421 for a Host that is not the server's: the page may have given its own name the server's address (DNS
    rebinding). 403 for a page of another origin. 415 for a body of /v1 with another type than JSON, or
    than that of documents: a page may send some types (a form, a text) to any server without asking it
    before.
    """
    for host in values_of(headers, b"host"):
        if not is_permitted_host(host, settings):
            raise ApiError(
                421,
                f"The request is for the host {host[:100]!r}, which is not one of this server's names. If it "
                "is, start the server with --allow-hosts and the name; otherwise use the server's address.",
            )
    if not (is_permitted_site(headers, settings) or is_visit(method, path, headers)):
        raise ApiError(
            403,
            "The request is from a page of another site. If that page may use this server, start the server "
            "with --allow-origins and the page's origin, such as https://example.org.",
            "cross_origin",
        )
    if method == "POST" and path == DOCUMENTS and not is_alone(headers, BINARY):
        raise ApiError(
            415,
            "The body has to be a document, sent with Content-Type: application/octet-stream; its name and "
            "the other parameters are in the query string.",
        )
    if method == "POST" and path.startswith("/v1/") and path != DOCUMENTS and not is_alone(headers, JSON):
        raise ApiError(415, "The body has to be a JSON object, sent with Content-Type: application/json.")


def values_of(headers: Headers, name: bytes) -> list[str]:
    """The values of all headers of a name."""
    return [value.decode("latin-1").strip() for header, value in headers if header == name]


def is_permitted_host(host: str, settings: ServerSettings) -> bool:
    """Whether a value of Host, with or without a port, is a name or an address of this server.

    Beyond loopback the server cannot know all its names. DNS gives no site an IP address as its name, or a
    name without a dot; so these are permitted there. With keys every name is, because a page has no key.
    """
    parsed = HOST.fullmatch(host)
    if parsed is None:
        return False
    name = parsed[1].strip("[]").removesuffix(".").lower()
    if is_loopback(name) or name == settings.host.lower():
        return True
    if any(matches_pattern(name, pattern.lower()) for pattern in settings.allow_hosts):
        return True
    if settings.is_local:
        return False
    needs_key = settings.api_keys is not None
    return is_address(name) or "." not in name or (needs_key and not settings.allow_hosts)


def matches_pattern(name: str, pattern: str) -> bool:
    """Whether a name is that of a pattern: a name, `*.` and a name for all names below it, or `*` for all."""
    return pattern in ("*", name) or (pattern.startswith("*.") and name.endswith(pattern[1:]))


def is_address(name: str) -> bool:
    """Whether a host is an IP address."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def is_permitted_site(headers: Headers, settings: ServerSettings) -> bool:
    """Whether a request is from a page of this server, from one that `--allow-origins` names, or from none.

    Behind a proxy that changes Host, only Sec-Fetch-Site tells that a page is the server's. Browsers send it
    over TLS and to loopback. Elsewhere Origin decides, which they send with every POST request.
    """
    origins, sites = values_of(headers, b"origin"), values_of(headers, b"sec-fetch-site")
    if origins and all(is_allowed_origin(origin, settings) for origin in origins):
        return True
    if sites and all(site == "same-origin" for site in sites):
        return True
    hosts = {host.lower() for host in values_of(headers, b"host")}
    return all(site == "none" for site in sites) and all(is_same_host(origin, hosts) for origin in origins)


def is_allowed_origin(origin: str, settings: ServerSettings) -> bool:
    """Whether `--allow-origins` names this origin."""
    return "*" in settings.allow_origins or origin in settings.allow_origins


def is_same_host(origin: str, hosts: set[str]) -> bool:
    """Whether an origin has one of these hosts, each with its port. A proxy may have added TLS."""
    return origin.partition("://")[2].lower() in hosts


def is_visit(method: str, path: str, headers: Headers) -> bool:
    """Whether a browser opens a page of this server in a window, as for a link on another site."""
    return (
        method == "GET"
        and (path in PAGES or path.startswith("/lab/"))
        and values_of(headers, b"sec-fetch-mode") == ["navigate"]
        and values_of(headers, b"sec-fetch-dest") == ["document"]
    )


def is_alone(headers: Headers, kind: re.Pattern[str]) -> bool:
    """Whether a request has one media type, which is this one."""
    kinds = values_of(headers, b"content-type")
    return len(kinds) == 1 and kind.match(kinds[0]) is not None
