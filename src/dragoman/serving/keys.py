"""API keys, of which the disk holds hashes alone, and the rate of each client's requests."""

import hashlib
import hmac
import os
import secrets
import stat
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import tomli_w
from filelock import FileLock

from dragoman.system.errors import DragomanError, reason
from dragoman.system.files import atomic_write, beside
from dragoman.system.options import check_options, option
from dragoman.system.toml import from_table, read_toml

MAX_FILE = 1_000_000  # bytes: thousands of keys
BLANK_KEYS = ("", " ", "\t", "\n", "\r\n")  # what is hashed by mistake, as by `echo | sha256sum`: "\n"
ROUNDING = 1e-7  # of a request; a client that waits as long as it is told is then admitted
MAX_BUCKETS = 10_000  # clients, before idle ones are forgotten
IDLE_SECONDS = 120.0  # a client without requests for so long may make all requests of a minute again


@dataclass(frozen=True)
class KeyLimits:
    """What a key may do. Raises `DragomanError` for values out of bounds."""

    requests_per_minute: int | None = option(None, at_least=0)
    """None is what the server allows everyone, and 0 no limit."""
    characters_per_minute: int = option(0, at_least=0)
    """Of the texts to translate; 0 is no limit."""
    models: tuple[str, ...] = ()
    """Names of the models that it may use; empty for all."""
    languages: tuple[str, ...] = ()
    """Codes of languages: it may use the models between two of them; empty for all."""

    admin: bool = False
    """Whether it may also change the server: `POST /v1/admin/reload`."""

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class Keys:
    """SHA-256 hashes of API keys, by the names of their owners.

    A key has 256 random bits, so that a fast hash suffices: nobody can try all keys.
    """

    hashes: dict[str, str]
    limits: dict[str, KeyLimits] = field(default_factory=dict)
    """Of those that have some."""

    @classmethod
    def load(cls, path: Path) -> "Keys":
        """Read a file of `add_key`, or a link to one.

        Raises `DragomanError` if it is missing or not such a file, or has the hash of an empty key.
        """
        if not key_file_exists(path):
            raise DragomanError(
                f"{path} does not exist; dragoman serve RUN --api-keys {path} --new-key NAME makes it."
            )
        table = read_toml(path).get("keys")
        entries = dict(map(entry, table.items())) if isinstance(table, dict) else {"": (None, {})}
        hashes = {name: value for name, (value, _) in entries.items() if isinstance(value, str)}
        if len(hashes) < len(entries) or not all(map(is_hash, hashes.values())):
            raise DragomanError(
                f'{path} has to hold a table [keys] with a SHA-256 hash for each name: NAME = "HASH", or '
                'NAME = {hash = "HASH", admin = true}. Correct it, or give another file: --new-key makes one.'
            )
        blank_hashes = set(map(hash_of, BLANK_KEYS))
        if names := [name for name, value in hashes.items() if value in blank_hashes]:
            raise DragomanError(
                f"{path} has the hash of an empty key for {names[0]!r}, with which everybody would have a "
                "key. Remove the line, and make a key with --new-key."
            )
        limits = {
            name: from_table(KeyLimits, values, f"{path}: {name}") for name, (_, values) in entries.items()
        }
        return cls(hashes, {name: one for name, one in limits.items() if one != KeyLimits()})

    @property
    def admins(self) -> frozenset[str]:
        """The owners whose keys may also change the server."""
        return frozenset(name for name, limits in self.limits.items() if limits.admin)

    def owner(self, key: str) -> str | None:
        """The name of a key's owner; None for an unknown key and for a blank one, which is no key.

        It takes the same time for every other key, so that the time tells nothing about the keys.
        """
        if not key.strip():
            return None
        digest, owner = hash_of(key), None
        for name, value in self.hashes.items():
            if hmac.compare_digest(digest, value):
                owner = name
        return owner


def key_file_exists(path: Path) -> bool:
    """Whether a file of keys exists. It may be a symbolic link, as a secret of Kubernetes is.

    Raises `DragomanError` for a pipe, a folder or a device, which could be waited for without end, and for a
    file that is too long.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:
        raise DragomanError(f"{path} cannot be read: {reason(error)}.") from error
    if not stat.S_ISREG(status.st_mode):
        raise DragomanError(f"{path} is not a regular file; give a file for --api-keys, or a link to one.")
    if status.st_size > MAX_FILE:
        raise DragomanError(
            f"{path} has {status.st_size:,} bytes, and a file of keys may have {MAX_FILE:,}; remove unused "
            "keys, or give another file for --api-keys."
        )
    return True


def entry(item: tuple[str, object]) -> tuple[str, tuple[object, dict[str, object]]]:
    """A line of the table of keys: its name, its hash, and its limits, which are none in NAME = HASH."""
    name, value = item
    if not isinstance(value, dict):
        return name, (value, {})
    return name, (value.get("hash"), {key: limit for key, limit in value.items() if key != "hash"})


def is_hash(value: object) -> bool:
    """Whether this is a SHA-256 hash in hexadecimal digits."""
    return isinstance(value, str) and len(value) == 64 and not set(value) - set("0123456789abcdef")


def hash_of(key: str) -> str:
    """The SHA-256 hash of a key."""
    return hashlib.sha256(key.encode()).hexdigest()


def add_key(path: Path, name: str, *, is_admin: bool = False) -> str:
    """Make a random key, add a line with its hash at the end of the file, and return the key.

    Raises `DragomanError` if the name is taken, and if the file is not one of keys.
    """
    key = secrets.token_urlsafe(32)
    with FileLock(beside(path, ".{}.lock")):
        text = text_with_key(path, name, hash_of(key), is_admin=is_admin)
        umask = os.umask(0o077)  # atomic_write gives the mode of the umask
        try:
            with atomic_write(path) as new:
                new.write_text(text, "utf-8")
        finally:
            os.umask(umask)
    return key


def text_with_key(path: Path, name: str, digest: str, *, is_admin: bool = False) -> str:
    """The text of the file with one more key, whose hash is given. Raises `DragomanError` as `add_key`."""
    line = tomli_w.dumps({name: digest})
    if is_admin:
        line = tomli_w.dumps({name: ""}).removesuffix('""\n') + f'{{hash = "{digest}", admin = true}}\n'
    if not key_file_exists(path) or not path.read_bytes().strip():
        return f"[keys]\n{line}"
    if name in Keys.load(path).hashes:
        raise DragomanError(f"{path} has a key of {name!r} already; choose another name, or remove its line.")
    former = read_toml(path)["keys"]
    text = path.read_text("utf-8-sig").rstrip() + "\n" + line
    if tomllib.loads(text).get("keys") != {**former, **tomllib.loads(line)}:  # the line is in the last table
        raise DragomanError(f"{path} has another table after [keys]; move [keys] to the end of the file.")
    return text


@dataclass
class RateLimit:
    """A token bucket for each client: `per_minute` requests at once, refilled evenly. 0 is no limit."""

    per_minute: int
    buckets: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The number of requests that each client has left, and the time at which it was computed."""

    def seconds_until_allowed(self, client: str, amount: int = 1, per_minute: int | None = None) -> float:
        """Count a request and return 0 if the client may make it now; else return the seconds until then.

        A client that has a limit of its own may have another `per_minute`.
        """
        limit = self.per_minute if per_minute is None else per_minute
        if not limit:
            return 0.0
        now, rate = time.monotonic(), limit / 60
        left, since = self.buckets.get(client, (float(limit), now))
        left = min(float(limit), left + (now - since) * rate)
        enough = amount - ROUNDING
        if left < enough:
            return (enough - left) / rate
        self.buckets[client] = left - amount, now
        if len(self.buckets) > MAX_BUCKETS:
            self.buckets = {
                name: bucket for name, bucket in self.buckets.items() if now - bucket[1] < IDLE_SECONDS
            }
        return 0.0
