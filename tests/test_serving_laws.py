"""Laws of the parts of the server: bodies, keys, rates, queues, alternatives, metrics."""

import asyncio
import base64
import json
import logging
import math
import os
import re
import shutil
import signal
import socket
import stat
import time
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, permutations
from pathlib import Path
from threading import Event, current_thread
from types import SimpleNamespace

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from py3langid.langid import LanguageIdentifier
from pydantic import BaseModel
from starlette.requests import Request

from dragoman import SearchSettings, Translation, Translator
from dragoman.cli import serve as serve_command
from dragoman.documents.formats import ENDINGS
from dragoman.documents.plain import plain_text
from dragoman.documents.terms import MAX_TERM
from dragoman.native.settings import EngineSettings
from dragoman.search.hypothesis import Constraints, Phrase
from dragoman.serving import connections, docs, signals
from dragoman.serving.admission import MAX_CHARACTERS, MIN_QUEUE, Admission, Preparation, excess
from dragoman.serving.apis import deepl, libretranslate
from dragoman.serving.apis.analysis import MAX_ANALYSED, MAX_WEIGHTS, refuse_long, refuse_long_translation
from dragoman.serving.apis.inspections import MAX_INSPECTED, OPTIONAL_VIEWS, refuse_long_search
from dragoman.serving.apis.parameters import MAX_FIELDS, parameters
from dragoman.serving.apis.uploads import BINARY
from dragoman.serving.apis.v1 import refuse_many
from dragoman.serving.app import api_routes, make_app
from dragoman.serving.errors import ApiError
from dragoman.serving.glossaries import MAX_BUILT, MAX_VARIANTS, MAX_WORDS
from dragoman.serving.keys import BLANK_KEYS, MAX_FILE, Keys, RateLimit, add_key, hash_of
from dragoman.serving.lab import style_hashes
from dragoman.serving.languages import detected, listed_pairs, two_letter_codes
from dragoman.serving.loading import load_models, served_in
from dragoman.serving.log import configure_logging, request_id
from dragoman.serving.metrics import Metrics
from dragoman.serving.middleware import (
    SEND_SECONDS,
    WITH_BODY,
    Exchange,
    all_headers,
    client_of,
    key_of,
    key_of_form,
    read_body,
)
from dragoman.serving.models import Models, ServedModel
from dragoman.serving.origins import DOCUMENTS
from dragoman.serving.server import listening, serve
from dragoman.serving.service import (
    CHARACTERS_PER_TOKEN,
    MAX_FORCED,
    MAX_OUTPUT_TOKENS,
    MAX_PREFIX,
    MAX_TAGS,
    MAX_TERM_CHARACTERS,
    MAX_TERMS,
    PREFIX_CHARACTERS,
    Service,
    refuse_long_constraints,
    refuse_many_tags,
    refuse_many_tokens,
)
from dragoman.serving.settings import ServerSettings
from dragoman.system.errors import DragomanError
from dragoman.system.messages import messages_to, silent
from dragoman.text.quality import identification
from dragoman.training.curves import training_of
from tests.conftest import MAX_SECONDS
from tests.test_served_adapters import answers

V1 = "/v1/translate"


# ---- bodies


@given(st.lists(st.binary(max_size=40), max_size=12), st.integers(0, 200), st.booleans())
def test_a_body_is_what_arrived_or_is_refused_before_its_end(chunks, most, is_endless):
    """Whatever the sizes of its chunks, no more of a body is taken than the first chunk beyond the limit."""
    taken = []

    async def receive():
        if len(taken) < len(chunks):
            taken.append(chunks[len(taken)])
            return {"type": "http.request", "body": taken[-1], "more_body": is_endless or taken != chunks}
        if not is_endless:
            taken.append(b"")
            return {"type": "http.request"}
        taken.append(b"more")
        assert len(taken) < 300, "The body is read without end."
        return {"type": "http.request", "body": b"more", "more_body": True}

    sizes = list(accumulate(map(len, chunks)))
    if is_endless or (sizes and sizes[-1] > most):
        with pytest.raises(ApiError) as refused:
            asyncio.run(read_body({}, {}, receive, most))
        assert (refused.value.status, refused.value.code) == (413, "too_large")
        assert sum(map(len, taken[:-1])) <= most < sum(map(len, taken))
    else:
        assert asyncio.run(read_body({}, {}, receive, most)) == b"".join(chunks)


async def gone():
    """A client that has closed its connection."""
    return {"type": "http.disconnect"}


def test_a_client_that_goes_away_before_the_end_of_its_body_is_told_from_a_wrong_request():
    with pytest.raises(ApiError) as error:
        asyncio.run(read_body({}, {}, gone, 100))
    assert (error.value.status, error.value.code) == (499, "client_gone")


@pytest.mark.parametrize("digits", [18, 19, 5_000])
def test_a_length_of_any_number_of_digits_is_refused(digits):
    with pytest.raises(ApiError) as error:
        asyncio.run(read_body({}, {b"content-length": b"9" * digits}, gone, 100))
    assert error.value.status == 413


@pytest.mark.parametrize("others", [0, MAX_FIELDS - 1, MAX_FIELDS])
def test_a_key_is_looked_for_in_no_more_fields_than_a_form_may_have(others):
    form = "&".join([*["a=b"] * others, "api_key=x"])
    assert key_of_form(form) == ("x" if others < MAX_FIELDS else "")


@given(st.integers(0, 10**20), st.integers(0, 10_000), st.integers(0, 3))
def test_a_body_is_refused_by_the_length_that_it_declares(length, most, zeros):
    async def receive():
        return {"type": "http.request", "body": b"a", "more_body": False}

    declared = {b"content-length": b"0" * zeros + str(length).encode()}
    if length <= most and most > 0:
        assert asyncio.run(read_body({}, declared, receive, most)) == b"a"
    elif length > most:
        with pytest.raises(ApiError) as refused:
            asyncio.run(read_body({}, declared, None, most))  # it is not read
        assert refused.value.status == 413


class Parts(BaseModel):
    """Two parameters, each a text or several."""

    one: str | list[str] | None = None
    two: str | list[str] | None = None


TEXTS = st.text(st.sampled_from("a&=+ %é,\u2028"), max_size=3)
PARTS = st.fixed_dictionaries({}, optional=dict.fromkeys(("one", "two"), TEXTS | st.lists(TEXTS, min_size=2)))


def read_parameters(request):
    """What is read of a request of httpx."""
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": request.url.query}
    scope["headers"] = [(name.lower(), value) for name, value in request.headers.raw]

    async def receive():
        return {"type": "http.request", "body": request.read()}

    return asyncio.run(parameters(Request(scope, receive), Parts)).model_dump(exclude_none=True)


@given(PARTS, PARTS)
def test_parameters_are_alike_in_every_form_and_those_of_the_body_go_before_those_of_the_query(body, query):
    """A parameter may be blank, also among several of its name."""
    multipart = [
        (name, (None, text))
        for name, value in body.items()
        for text in ([value] if isinstance(value, str) else value)
    ]
    for form in ({"json": body}, {"data": body}, {"files": multipart}):
        sent = httpx.Request("POST", "http://localhost/", params=query, **form)
        assert read_parameters(sent) == query | body
    assert read_parameters(httpx.Request("POST", "http://localhost/", params=query)) == query


# ---- keys


JSON_VALUES = st.one_of(
    st.text(max_size=3),
    st.sampled_from([None, True, False, 0, 7, 0.5, [], ["a"], {}, {"a": "b"}]),
)


@given(JSON_VALUES, JSON_VALUES)
def test_of_the_values_that_json_may_have_for_a_key_the_first_text_is_taken(one, other):
    body = json.dumps({"api_key": one, "auth_key": other}).encode()
    scope = {"headers": [(b"content-type", b"application/json")], "query_string": b""}
    texts = [value for value in (one, other) if isinstance(value, str)]
    assert key_of(scope, body) == next(iter(texts), "")


@given(st.sampled_from(["Basic YTpi", "Basic", "Digest a=b", "", "Token key", "key"]))
def test_a_header_of_another_scheme_has_no_key_and_hides_none(header):
    scope = {"headers": [(b"authorization", header.encode())], "query_string": b"api_key=mine"}
    assert key_of(scope, b"") == "mine"
    assert key_of(scope | {"query_string": b""}, b"") == ""


def test_the_names_of_adapters_are_not_in_a_description_that_needs_no_key(served):
    (model, *_) = served.models.models
    named = replace(model, adapted=(replace(model, adapter="confidential"),))
    service = Service(Models((named,)), ServerSettings(), Metrics())
    for keys in (None, Keys({"one": hash_of("a-key")})):
        (answer,) = answers(make_app(service, keys), ("/openapi.json", None))
        assert answer.status_code == 200
        assert ("confidential" in answer.text) == (keys is None)


@given(st.text(st.sampled_from(" \t\r\n\v\f\u2003"), max_size=3))
def test_no_blank_key_is_a_key_whatever_the_file_holds(blank):
    assert Keys({"a": hash_of(blank)}).owner(blank) is None


@given(st.dictionaries(st.text(max_size=4), st.text(min_size=1, max_size=4), max_size=4), st.text(max_size=4))
def test_a_key_has_the_owner_that_it_was_made_for(keys, other):
    known = Keys({name: hash_of(key) for name, key in keys.items()})
    for key in (*keys.values(), other):
        owners = {name for name, value in keys.items() if value == key and key.strip()}
        assert known.owner(key) in (owners or {None})


@pytest.mark.parametrize("blank", BLANK_KEYS)
def test_a_file_with_the_hash_of_nothing_is_refused(tmp_path, blank):
    path = tmp_path / "keys.toml"
    add_key(path, "one")
    path.write_text(f'{path.read_text()}"two" = "{hash_of(blank)}"\n')
    with pytest.raises(DragomanError, match=r"keys.toml has the hash of an empty key for 'two', with which"):
        Keys.load(path)


def test_a_request_without_a_key_or_with_a_blank_one_has_no_key():
    app = make_app(Service(None, ServerSettings(), Metrics()), Keys({"a": hash_of(""), "b": hash_of(" ")}))
    bodies = [{"text": "amber", name: key} for name in ("api_key", "auth_key") for key in ("", " ")]
    paths = ["/v1/models", "/v1/models?api_key=", "/v2/usage?auth_key=%20", "/metrics"]
    found = answers(app, *((path, None) for path in paths), *(("/v2/translate", body) for body in bodies))
    assert [each.status_code for each in found] == [403] * len(found)


def test_a_file_of_keys_is_a_regular_file_or_a_link_to_one(tmp_path):
    (tmp_path / "2026").mkdir()
    key = add_key(tmp_path / "2026" / "keys.toml", "one")
    (tmp_path / "..data").symlink_to("2026")  # as Kubernetes mounts secrets
    (tmp_path / "keys.toml").symlink_to("..data/keys.toml")
    assert Keys.load(tmp_path / "keys.toml").owner(key) == "one"
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link", "2026"):
        with pytest.raises(DragomanError, match=f"{name} is not a regular file; give a file for --api-keys"):
            Keys.load(tmp_path / name)
        with pytest.raises(DragomanError, match=f"{name} is not a regular file"):
            add_key(tmp_path / name, "two")
    (tmp_path / "nothing").symlink_to("nowhere")
    with pytest.raises(DragomanError, match="nothing does not exist; dragoman serve RUN --api-keys"):
        Keys.load(tmp_path / "nothing")
    full = (tmp_path / "keys.toml").read_bytes()
    (tmp_path / "large").write_bytes(full + b"#" * (MAX_FILE - len(full)))
    assert Keys.load(tmp_path / "large").owner(key) == "one"
    (tmp_path / "large").write_bytes(b"#" * (MAX_FILE + 1))
    with pytest.raises(
        DragomanError, match=r"large has 1,000,001 bytes, and a file of keys may have 1,000,000"
    ):
        Keys.load(tmp_path / "large")


def test_a_key_has_256_bits_and_files_that_are_made_after_it_have_their_usual_mode(tmp_path):
    before = os.umask(0o022)
    try:
        keys = [add_key(tmp_path / "keys.toml", name) for name in ("one", "two")]
        with pytest.raises(DragomanError, match="keys.toml has a key of 'one' already"):
            add_key(tmp_path / "keys.toml", "one")
        (tmp_path / "other").touch()
        assert stat.S_IMODE((tmp_path / "other").stat().st_mode) == 0o644
    finally:
        os.umask(before)
    assert [len(base64.urlsafe_b64decode(f"{key}=")) for key in keys] == [256 // 8] * 2


def test_the_keys_are_read_before_the_address_is_used(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = ServerSettings(port=taken.getsockname()[1], api_keys=tmp_path / "pipe")
        with pytest.raises(DragomanError, match="pipe is not a regular file"):
            serve([], EngineSettings(), settings)


# ---- headers


@given(st.binary(max_size=70) | st.text("aZ09._-", max_size=70).map(str.encode))
@example(b"a" * 64)
@example(b"a" * 65)
def test_a_request_keeps_its_id_if_that_is_short_and_harmless_in_a_log(value):
    one, other = (Exchange({"headers": [(b"x-request-id", value)], "method": "GET"}, None) for _ in range(2))
    if 1 <= len(value) <= 64 and set(value) <= set(
        b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
    ):
        assert one.id.encode() == other.id.encode() == value
    else:
        assert re.fullmatch("[0-9a-f]{16}", one.id)
        assert one.id != other.id


def test_no_answer_can_be_framed_or_run_what_is_not_the_servers():
    """All sources of the policy are the server itself, but the pictures' styles and images within a page."""
    headers = dict(all_headers())
    policy = {
        name: {*sources} for name, *sources in map(str.split, headers["content-security-policy"].split(";"))
    }
    for name in ("default-src", "base-uri", "form-action", "frame-ancestors"):
        assert policy.pop(name) == {"'none'"}
    for name, others in (("img-src", {"data:"}), ("style-src", {f"'{each}'" for each in style_hashes()})):
        assert policy.pop(name) == {"'self'"} | others
    assert policy
    assert all(sources == {"'self'"} for sources in policy.values())
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"


# ---- settings


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("requests_per_minute", 0, math.inf),
        *(
            (name, 1, math.inf)
            for name in (
                *("queue_tokens", "max_body", "max_texts", "max_tokens", "max_n_best", "max_document"),
                *("max_unpacked", "max_members", "max_ratio", "max_documents", "max_stored"),
            )
        ),
        *((name, 1, 10_000) for name in ("processes", "max_beam_size")),
        ("port", 0, 65_536),
        ("deadline", 0.001, 100_000),
        ("document_deadline", 0.001, 100_000),
    ],
)
def test_no_limit_of_a_server_is_below_its_least_and_none_that_costs_memory_or_time_is_unbounded(
    name, least, most
):
    assert getattr(ServerSettings(**{name: least}), name) == least
    for value in {least - 1, most} - {math.inf}:
        with pytest.raises(DragomanError, match=f"{name} is "):
            ServerSettings(**{name: value})


@given(
    st.sampled_from(["localhost", "LocalHost", "localhost.example.org", "example.org"])
    | st.sampled_from(["0.0.0.0", "::", "::1", "::2", "127.0.0.1", "126.255.255.255", "128.0.0.0"])
    | st.ip_addresses(network="127.0.0.0/8").map(str)
    | st.ip_addresses(v=4).map(str)
)
def test_keys_or_the_word_that_there_are_none_are_needed_where_other_machines_reach_the_server(host):
    is_own = host.lower() == "localhost" or host == "::1" or re.fullmatch(r"127(\.\d+){3}", host) is not None
    for options in ({}, {"no_auth": True}, {"api_keys": Path("keys.toml")}):
        if is_own or options:
            assert ServerSettings(host=host, **options).is_local == is_own
        else:
            with pytest.raises(DragomanError, match="can be reached from other machines"):
                ServerSettings(host=host)


# ---- addresses and signals


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_a_server_listens_at_an_address_of_either_kind(host):
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, 0), family=kind).close()
    except OSError:
        pytest.skip("this machine has no such address")
    with listening(ServerSettings(host=host, port=0)) as listener:
        connected = socket.create_connection((host, listener.getsockname()[1]))
        connected.close()


@pytest.mark.parametrize("has_terminal", [True, False])
@pytest.mark.parametrize("ignored", [True, False])
def test_a_hangup_ends_a_server_with_a_terminal_and_reloads_another_unless_it_is_ignored(
    monkeypatch, ignored, has_terminal
):
    monkeypatch.setattr(signals, "has_terminal", lambda: has_terminal)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        assert (signal.SIGHUP in signals.stop_signals()) == (has_terminal and not ignored)
        assert (signal.SIGHUP in signals.reload_signals()) == (not has_terminal and not ignored)
        assert {signal.SIGTERM, signal.SIGINT} <= {*signals.stop_signals()}
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_hangup_while_the_server_is_still_imported_does_not_end_it(monkeypatch, command_line, tmp_path):
    monkeypatch.setattr(signals, "has_terminal", lambda: False)
    monkeypatch.setattr(serve_command, "check_installed", lambda: signal.raise_signal(signal.SIGHUP))
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        status, _, error = command_line("serve", tmp_path)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert status == 2
    assert "holds no model" in error


# ---- rates


STEPS = st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 12)), max_size=8)
"""Pauses in units of 1/64 second, which floats have exactly, and how many requests are tried after each."""


@given(STEPS, st.integers(1, 8))
def test_in_any_time_a_client_has_the_requests_of_a_minute_and_those_of_that_time(steps, per_minute):
    with pytest.MonkeyPatch.context() as patched:
        now = 0.0
        patched.setattr(time, "monotonic", lambda: now)
        limit, alone, allowed = RateLimit(per_minute), RateLimit(per_minute), []
        for pause, tries in steps:
            now += pause / 64
            for _ in range(tries):
                wait = limit.seconds_until_allowed("a")
                assert wait == alone.seconds_until_allowed("a")
                limit.seconds_until_allowed("another")
                if not wait:
                    allowed.append(now)
                else:
                    assert 0 < wait <= 60 / per_minute
                    now += wait + 1e-6
                    assert limit.seconds_until_allowed("a") == 0  # as it was told
                    assert alone.seconds_until_allowed("a") == 0
                    allowed.append(now)
        for number, first in enumerate(allowed):
            for count, last in enumerate(allowed[number:], 1):
                assert count <= per_minute + (last - first) * per_minute / 60 + 1e-6


@given(STEPS, st.integers(1, 8))
def test_after_any_pause_a_rested_client_has_the_requests_of_a_minute_at_once(steps, per_minute):
    with pytest.MonkeyPatch.context() as patched:
        now = 0.0
        patched.setattr(time, "monotonic", lambda: now)
        limit = RateLimit(per_minute)
        for pause, tries in steps:
            now += 61 + pause / 64
            allowed = [limit.seconds_until_allowed("a") == 0 for _ in range(per_minute + tries)]
            assert allowed == [True] * per_minute + [False] * tries


def test_clients_without_requests_are_forgotten_and_others_are_not(monkeypatch):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    limit = RateLimit(1)
    for number in range(10_000):
        limit.seconds_until_allowed(str(number))
    now = 119.0
    assert limit.seconds_until_allowed("busy") == 0
    assert limit.seconds_until_allowed("busy") > 0
    now = 121.0
    limit.seconds_until_allowed("one more")
    assert limit.buckets.keys() == {"busy", "one more"}
    assert limit.seconds_until_allowed("busy") > 0
    assert RateLimit(0).seconds_until_allowed("any") == 0


@settings(max_examples=10)
@given(st.integers(0, 12_800), st.integers(1, 4))
@example(30 * 64, 1)
def test_that_many_others_come_gives_a_client_no_more_requests(pause, per_minute):
    """The pause is in units of 1/64 second; after it the others are forgotten, and perhaps the client too."""
    with pytest.MonkeyPatch.context() as patched:
        now = 0.0
        patched.setattr(time, "monotonic", lambda: now)
        crowded, alone = RateLimit(per_minute), RateLimit(per_minute)
        for _ in range(per_minute):
            assert crowded.seconds_until_allowed("a") == alone.seconds_until_allowed("a") == 0
        for number in range(10_000):
            crowded.seconds_until_allowed(str(number))
        now = pause / 64
        crowded.seconds_until_allowed("one more")
        assert crowded.seconds_until_allowed("a") == alone.seconds_until_allowed("a")


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),  # a network of 2^64 addresses is one client's
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
    ],
)
def test_a_client_is_an_address_or_a_network(one, other, is_same):
    assert (client_of({"client": (one, 1)}) == client_of({"client": (other, 2)})) == is_same
    assert client_of({"client": None}) == client_of({})


# ---- queues


CLIENTS = st.sampled_from("abcde")
HELD = st.dictionaries(CLIENTS, st.integers(0, 300), max_size=5)
AMOUNTS = st.integers(0, 300)


@given(HELD, CLIENTS, AMOUNTS, st.integers(1, 300) | st.floats(1, 300))
def test_each_of_n_clients_may_always_have_its_share_of_a_queue(held, client, amount, limit):
    count = len({*held, client})
    if held.get(client, 0) + amount <= limit // count:
        assert excess(held, client, amount, limit) <= 0


@given(HELD, CLIENTS, AMOUNTS, st.integers(1, 300))
def test_a_client_may_have_all_that_the_others_leave_and_no_more_than_the_queue(held, client, amount, limit):
    found = excess(held, client, amount, limit)
    total = sum(held.values()) + amount
    if total <= limit or not held.keys() - {client}:
        assert found == pytest.approx(total - limit) or found <= 0
    if not held.keys() - {client}:
        assert found == total - limit
    if total <= limit:
        assert found <= 0
    if held.get(client, 0) + amount > limit:
        assert found > 0


@given(st.lists(st.tuples(CLIENTS, st.integers(1, 120)), max_size=60), st.integers(10, 200))
def test_a_queue_is_bounded_however_many_clients_fill_it(requests, limit):
    """At most the sum of the shares 1/1, 1/2, … 1/n, and what the first request has beyond the queue."""
    queue = Admission(limit, deadline=8.0)
    with ExitStack() as running:
        for client, tokens in requests:
            before, refused = queue.tokens, None
            try:
                running.enter_context(queue.admit(tokens, client))
            except ApiError as error:
                refused = error
            if refused:
                assert (refused.status, refused.code) == (429, "queue_full")
                assert refused.retry_after >= 1
            assert queue.tokens == before + (0 if refused else tokens)
            assert before or not refused
        most = sum(Fraction(limit, count) for count in range(1, len(queue.held) + 1))
        assert queue.tokens <= max(most, 120 + most - limit)
        assert queue.tokens == sum(queue.held.values())
        assert queue.requests >= len(queue.held)
    assert (queue.tokens, queue.requests) == (0, 0)
    assert not queue.held.keys(), "a client that has gone has no share"


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.integers(10, 200), st.integers(1, 60))
def test_a_client_alone_has_the_whole_queue_and_keeps_no_other_out(sizes, limit, tokens):
    queue, total = Admission(limit, deadline=8.0), 0
    with ExitStack() as running:
        for size in sizes:
            is_admitted = not total or total + size <= limit
            try:
                running.enter_context(queue.admit(size, "greedy"))
                total += size
                assert is_admitted
            except ApiError:
                assert not is_admitted
        if tokens <= limit // 2:
            running.enter_context(queue.admit(tokens, "other"))


@given(st.integers(0, 5_000), st.integers(50, 5_000))
def test_the_speed_of_a_queue_is_that_of_the_last_seconds(before, tokens_per_second):
    """What can be done in half of the deadline is admitted at this speed, but never less than MIN_QUEUE."""
    with pytest.MonkeyPatch.context() as patched:
        now = 0.0
        patched.setattr(time, "monotonic", lambda: now)
        queue = Admission(10**9, deadline=8.0)
        for speed in [before] * 100 + [tokens_per_second] * 120:
            with queue.admit(speed, "a"):
                now += 1.0
            now += 3.0  # without work
        most = max(tokens_per_second * 4, MIN_QUEUE)
        with queue.admit(1, "a"):
            assert queue.seconds_too_many(int(0.98 * most), "a") == 0
            assert 0 < queue.seconds_too_many(int(1.02 * most) + 1, "a") <= 8
            with pytest.raises(ApiError) as refused:
                queue.admit(int(1.02 * most) + 1, "a").__enter__()
            assert refused.value.retry_after >= 1  # no answer says 0 seconds


def test_a_text_that_is_prepared_alone_may_have_any_length():
    preparation = Preparation()
    assert preparation.submit(lambda: 1, 2 * MAX_CHARACTERS, "one").result() == 1


@given(AMOUNTS, AMOUNTS)
def test_metrics_have_what_both_queues_hold(translated, analysed):
    service = Service(None, ServerSettings(), Metrics())

    def shown():
        lines = service.metrics.text().decode().splitlines()
        return [
            float(next(line for line in lines if line.startswith(f"dragoman_{name} ")).split()[1])
            for name in ("queue_tokens", "running_requests")
        ]

    with service.admission.admit(translated, "one"):
        with service.analyses.admit(analysed, "one"):
            assert shown() == [translated + analysed, 2]
        assert shown() == [translated, 1]
    assert shown() == [0, 0]


def test_clients_whose_texts_are_prepared_have_no_share():
    preparation, end = Preparation(), Event()
    for number in range(50):
        preparation.submit(lambda: 1, 10, f"client {number}").result()
    running = preparation.submit(end.wait, MAX_CHARACTERS, "one")
    try:
        with pytest.raises(ApiError):
            preparation.submit(lambda: 1, MAX_CHARACTERS // 2 + 1, "two")
        half = preparation.submit(lambda: 1, MAX_CHARACTERS // 2, "two")
    finally:
        end.set()
    assert (running.result(), half.result()) == (True, 1)


def send(app, *requests, **headers):
    """The statuses of posted requests with these headers, each a path with a body."""

    async def post():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return [
                (await client.post(path, json=body, headers=headers)).status_code for path, body in requests
            ]

    return asyncio.run(post())


def test_a_request_has_the_place_of_its_key_or_address_in_a_queue(trained):
    service = Service(
        load_models([trained / "run"], EngineSettings()), ServerSettings(queue_tokens=20), Metrics()
    )
    keyed = make_app(service, Keys({name: hash_of(name) for name in ("one", "two")}))
    requests = [
        (V1, {"text": "amber"}),
        (f"{V1}/stream", {"text": "amber"}),
        ("/translate", {"q": "amber", "source": "en", "target": "de"}),
        ("/v2/translate", {"text": ["amber"], "target_lang": "de"}),
        ("/v1/score", {"pairs": [["amber", "AMBER"]]}),
    ]
    for app, client, other, headers in (
        (keyed, "one", "two", {"Authorization": "Bearer one"}),
        (make_app(service, None), "127.0.0.1", "192.0.2.1", {}),
    ):
        for holder, status in ((client, 429), (other, 200)):
            with service.admission.admit(20, holder), service.analyses.admit(20, holder):
                assert send(app, *requests, **headers) == [status] * len(requests)


# ---- alternatives of LibreTranslate


def translations(texts):
    return [Translation(text, -1.0, -1.0, []) for text in texts]


@given(
    st.lists(
        st.lists(st.sampled_from(["A.", "B.", "C.", ""]), min_size=1, max_size=5), min_size=1, max_size=3
    ),
    st.integers(1, 6),
)
def test_no_alternative_is_given_twice_or_is_the_translation(texts, count):
    document = plain_text(" ".join(f"X{number}." for number in range(len(texts))), "en", True)
    n_best = [translations(each) for each in texts]
    assert len(document.segments) == len(n_best)
    best = libretranslate.joined(document, n_best, 0)
    found = libretranslate.alternatives(document, n_best, count)
    assert len(found) == len({*found}) <= count
    assert best not in found
    ranks = {libretranslate.joined(document, n_best, rank) for rank in range(count + 1)}
    assert {best, *found} == ranks  # and none is left out


@given(st.integers(0, 20), st.integers(1, 20))
def test_a_search_for_alternatives_has_a_beam_that_is_wide_enough(count, beam_size):
    search = libretranslate.with_alternatives(SearchSettings(beam_size=beam_size), count)
    assert search.n_best == count + 1 <= search.beam_size
    assert search.beam_size in (beam_size, count + 1)
    assert search.beam_size >= beam_size


@pytest.mark.parametrize("given_count", [None, 0, "0", "", -3, "-3", 1, "1", "15", 15, "x", "1.5", 16, "99"])
def test_the_number_of_alternatives_is_one_that_the_server_allows(given_count):
    asked = libretranslate.LibreTranslateRequest(alternatives=given_count)
    settings = ServerSettings(max_beam_size=16, max_n_best=16)
    if given_count in ("x", "1.5", 16, "99"):
        message = (
            "is not a number" if isinstance(given_count, str) and given_count != "99" else "must be <= 15"
        )
        with pytest.raises(ApiError, match=f"Invalid request: alternatives parameter {message}"):
            libretranslate.alternatives_of(asked, settings)
    else:
        assert libretranslate.alternatives_of(asked, settings) == max(0, int(given_count or 0))


# ---- inspections and the description


@pytest.mark.parametrize("show_samples", [False, True])
def test_the_samples_of_a_training_are_shown_only_if_the_server_may(trained, show_samples):
    run = trained / "run"
    settings = ServerSettings(show_samples=show_samples)
    app = make_app(Service(load_models([run], EngineSettings()), settings, Metrics()), None)
    (answer,) = answers(app, ("/v1/inspect", {"text": "amber"}))
    expected = training_of(run)
    assert expected.samples
    found = answer.json()["training"]
    assert found["schedule"] == expected.schedule
    assert len(found["curves"]) == len(expected.curves)
    if show_samples:
        assert [each["source"] for each in found["samples"]] == [each.source for each in expected.samples]
    else:
        assert found["samples"] is None
        assert not any(each.reference in answer.text for each in expected.samples if len(each.reference) > 9)


@pytest.mark.long
def test_the_description_is_made_once_and_not_by_the_thread_of_the_event_loop(monkeypatch):
    service = Service(Models(()), ServerSettings(), Metrics())
    made, make = [], docs.describe
    watched = lambda *given, **named: made.append(current_thread()) or make(*given, **named)  # noqa: E731
    monkeypatch.setattr(docs, "describe", watched)
    one, other = answers(make_app(service, None), ("/openapi.json", None), ("/openapi.json", None))
    assert one.content == other.content
    assert one.headers["content-type"] == "application/json"
    assert one.json() == json.loads(json.dumps(make(api_routes(service), service.models, needs_key=False)))
    assert len(made) == 1
    assert made[0] is not current_thread()


# ---- the three APIs


@pytest.fixture(scope="module")
def served(trained):
    """A service of a model from English to German, and of one from German to English."""
    translator = Translator.load(trained / "run")
    models = Models(
        tuple(ServedModel("".join(pair), *pair, translator) for pair in (("en", "de"), ("de", "en")))
    )
    return Service(models, ServerSettings(max_tokens=60), Metrics())


LINES = [
    "Host: a",
    "Upgrade: h2c",
    "UPGRADE:",
    " upgrade: x",
    "\tb",
    "X-Upgrade: y",
    "Upgrades: z",
    "upgrade: é",
]


@given(st.lists(st.sampled_from(LINES), max_size=6), st.sampled_from(["", "a", "\r\nUpgrade: x\r\n\r\n"]))
def test_of_a_complete_head_the_header_upgrade_is_left_out_and_nothing_else(lines, body):
    """One that goes on in a folded line stays: the rest of it would belong to the header before."""
    lines = ["GET / HTTP/1.1", *lines]
    folded = [following.startswith((" ", "\t")) for following in [*lines[1:], ""]]
    kept = [
        line
        for line, is_folded in zip(lines, folded, strict=True)
        if is_folded or not line.lower().startswith("upgrade:")
    ]
    head, expected = ("\r\n".join(each).encode() for each in (lines, kept))
    end = f"\r\n\r\n{body}".encode()
    assert connections.without_upgrade(head + end) == expected + end
    assert connections.without_upgrade(head) == head


@given(st.integers(0, 3), st.integers(0, 20), st.booleans())
def test_headers_announce_a_body_by_a_length_above_zero_or_by_chunks(zeros, length, is_chunked):
    headers = [(b"content-length", b"0" * zeros + str(length).encode())]
    headers += [(b"transfer-encoding", b"chunked")] * is_chunked
    assert connections.Connection.has_body(SimpleNamespace(headers=headers)) == (length > 0 or is_chunked)
    assert not connections.Connection.has_body(SimpleNamespace(headers=[(b"host", b"a")]))


def test_the_limits_of_the_server_are_those_of_its_documentation():
    page = (Path(__file__).parents[1] / "docs" / "serving.md").read_text("utf-8")
    table = page.partition("limits are fixed:")[2].split("\n\n")[1]
    rows = [row.strip("| ").split(" | ") for row in table.splitlines()[2:]]
    documented = {
        what: [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", limit)]
        for what, limit in rows
    }
    views = [most for most, _ in OPTIONAL_VIEWS.values()]
    assert documented == {
        "connections of a process": [connections.MAX_CONNECTIONS, 503],
        "the head of a request": [connections.MAX_HEAD // 1024, connections.HEAD_SECONDS],
        "a client that does not read an answer": [SEND_SECONDS],
        "texts, translations and prefixes for alignment, attention, alternatives and scores": [MAX_ANALYSED],
        "sentences, translations and prefixes of an inspection": [MAX_INSPECTED, *sorted(set(views))],
        "attention in an answer": [MAX_WEIGHTS],
        "tags and placeholders of a sentence": [MAX_TAGS],
        "forced words": [MAX_FORCED, MAX_FORCED],
        "terms of a request": [MAX_TERMS, MAX_TERM_CHARACTERS],
        "a term of a client": [MAX_TERM, MAX_WORDS, MAX_VARIANTS],
        "glossaries in memory": [MAX_BUILT],
        "a prefix": [PREFIX_CHARACTERS, MAX_PREFIX],
        "request bodies that are being received": [],
        "the translations of a request": [MAX_OUTPUT_TOKENS],
    }
    assert connections.FLUSH_SECONDS == SEND_SECONDS


def described_operations(service):
    """The operations of the description, each with its path and method, and the application."""
    app = make_app(service, None)
    (answer,) = answers(app, ("/openapi.json", None))
    paths = answer.json()["paths"]
    return app, [
        (path, method, operation) for path, methods in paths.items() for method, operation in methods.items()
    ]


def statuses(app, requests):
    """The statuses of the application's answers to requests of httpx."""

    async def send():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return [(await client.request(method, path, **options)) for method, path, options in requests]

    return [answer.status_code for answer in asyncio.run(send())]


FAULTS = {
    "no body": {},
    "no JSON": {"content": b"{", "headers": {"Content-Type": "application/json"}},
    "a text": {"content": b"{}", "headers": {"Content-Type": "text/plain"}},
    "no language": {"params": {"text": "a", "target_lang": "xx"}},
    "another site": {"headers": {"Origin": "https://example.org"}},
    "another host": {"headers": {"Host": "example.org"}},
    "a long body": {"content": b"a" * 2_000_000},
    "the end": {},
}


@pytest.mark.short_form(1)
@pytest.mark.parametrize("fault", FAULTS)
def test_an_operation_is_described_with_every_status_that_it_answers(served, fault):
    """Retry-After is described where an answer has it."""
    service = Service(served.models, served.settings, Metrics())
    app, operations = described_operations(service)
    service.is_stopping = fault == "the end"
    sent = [(method.upper(), path, FAULTS[fault]) for path, method, _ in operations]
    for (path, method, operation), status in zip(operations, statuses(app, sent), strict=True):
        assert str(status) in operation["responses"], (method, path, status)
    for path, _, operation in operations:
        assert {parameter["in"] for parameter in operation.get("parameters", ())} <= {"query", "path"}
        for status in {"429", "503"} & operation["responses"].keys():
            assert "Retry-After" in operation["responses"][status].get("headers", {}) or path == "/ready"


def test_a_description_refers_to_schemas_that_it_has_and_has_no_others(served):
    (answer,) = answers(make_app(served, None), ("/openapi.json", None))
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(answer.json())))
    assert names == answer.json()["components"]["schemas"].keys()
    assert '"422"' not in json.dumps(answer.json())


def body_for(path):
    """A body of the type that a path takes."""
    return {"content": b"", "headers": {"Content-Type": BINARY}} if path == DOCUMENTS else {"json": {}}


@pytest.mark.parametrize("has_keys", [False, True])
def test_operations_need_a_key_in_the_description_where_they_do(served, has_keys):
    service = Service(served.models, served.settings, Metrics())
    app = make_app(service, Keys({"one": hash_of("a-key")}) if has_keys else None)
    (answer,) = answers(app, ("/openapi.json", None))
    described = answer.json()
    assert ("security" in described) == has_keys
    operations = [(path, method) for path, methods in described["paths"].items() for method in methods]
    found = statuses(app, [(method.upper(), path, body_for(path)) for path, method in operations])
    for (path, method), status in zip(operations, found, strict=True):
        needs_key = described["paths"][path][method].get("security", described.get("security")) not in (
            [],
            None,
        )
        if path not in ("/suggest", "/v1/admin/reload"):  # they are always refused
            assert needs_key == (status == 403), (method, path, status)


PLACES = {
    "header": ("/v2/usage", {"headers": {"Authorization": "Bearer {}"}}),
    "header in capitals": ("/v2/usage", {"headers": {"Authorization": "BEARER  {} "}}),
    "header of DeepL": ("/v2/usage", {"headers": {"Authorization": "deepl-auth-key {}"}}),
    "query": ("/v2/usage?auth_key={}", {}),
    "query of LibreTranslate": ("/v2/usage?a=b&api_key={}", {}),
    "form": ("/v2/usage", {"data": {"a": "b", "auth_key": "{}"}}),
    "multipart": ("/v2/usage", {"files": {"a": (None, "b"), "api_key": (None, "{}")}}),
    "JSON": ("/v2/usage", {"json": {"a": "b", "api_key": "{}"}}),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_key_is_read_wherever_a_client_may_put_it(served, place):
    app = make_app(served, Keys({"one": hash_of("a-key")}))

    def fill(value, key):
        if isinstance(value, str):
            return value.format(key)
        if isinstance(value, dict):
            return {name: fill(each, key) for name, each in value.items()}
        return tuple(fill(each, key) for each in value) if isinstance(value, tuple) else value

    async def ask(key):
        path, options = PLACES[place]
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return (await client.post(fill(path, key), **fill(options, key))).status_code

    assert [asyncio.run(ask(key)) for key in ("a-key", "a-ke", "a-key2", "")] == [200, 403, 403, 403]


def test_metrics_and_open_paths_are_not_counted_by_the_rate_and_all_else_is(served):
    service = Service(served.models, ServerSettings(requests_per_minute=2), Metrics())
    app = make_app(service, None)
    paths = ["/metrics", "/languages", "/health", "/openapi.json"] * 3
    assert [each.status_code for each in answers(app, *((path, None) for path in paths))] == [200] * len(
        paths
    )
    found = answers(
        app, *((path, None) for path in ("/v1/models", "/v2/usage", "/v2/languages", "/v1/models"))
    )
    assert [each.status_code for each in found] == [200, 200, 429, 429]
    assert all(1 <= int(each.headers["retry-after"]) <= 30 for each in found[2:])


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_what_is_translated_is_counted_under_its_name(sentences, source, target):
    metrics = Metrics()
    metrics.count_translated("a", "b", sentences, source, target)
    metrics.count_translated("a", "b", 1, 1, 1)
    metrics.count_translated("a", "", 7, 7, 7)
    lines = metrics.text().decode().splitlines()
    for adapter, counts in (("b", (sentences + 1, source + 1, target + 1)), ("", (7, 7, 7))):
        labels = f'adapter="{adapter}",model="a"'
        assert f"dragoman_sentences_total{{{labels}}} {counts[0]}.0" in lines
        assert f'dragoman_tokens_total{{{labels},side="source"}} {counts[1]}.0' in lines
        assert f'dragoman_tokens_total{{{labels},side="target"}} {counts[2]}.0' in lines


@pytest.mark.parametrize("path", [V1, f"{V1}/stream", "/translate", "/v2/translate"])
def test_every_api_counts_its_sentences_and_tokens(served, path):
    text = "amber birch. Cedar https://example.org/a delta. Ember"
    body = {
        "/translate": {"q": text, "source": "en", "target": "de"},
        "/v2/translate": {"text": [text], "target_lang": "de"},
    }.get(path, {"text": text, "model": "ende"})
    service = Service(served.models, ServerSettings(), Metrics())
    app = make_app(service, None)
    (found,) = answers(app, (path, body))
    assert found.status_code == 200
    counts = service.metrics.translated["ende", ""]
    reference = Service(served.models, ServerSettings(), Metrics())
    (alone,) = answers(make_app(reference, None), (V1, {"text": text, "model": "ende"}))
    best = [each["n_best"][0] for each in alone.json()["translations"][0]["sentences"]]
    assert counts.sentences == len(best) == 3
    assert counts.target_tokens == sum(len(each["tokens"]) for each in best)
    assert counts.source_tokens == reference.metrics.translated["ende", ""].source_tokens > 0
    assert list(service.metrics.seconds) == [(path, "ende")]


DEFAULT = ServerSettings()
LIMITS = {
    "tokens": (
        lambda service, number: refuse_many_tokens(number, service.settings.max_tokens),
        DEFAULT.max_tokens,
        413,
    ),
    "tokens of a prefix": (
        lambda _, number: refuse_long_constraints(Constraints(prefix=[5] * number)),
        MAX_PREFIX,
        413,
    ),
    "tokens that are forced": (
        lambda _, number: refuse_long_constraints(
            Constraints(forced=[Phrase([[5]]), Phrase([[6] * (number - 1)])])
        ),
        MAX_FORCED,
        413,
    ),
    "tags": (lambda _, number: refuse_many_tags(["a", "<b>" * number]), MAX_TAGS, 413),
    "characters that are forced": (
        lambda service, number: service.refuse_too_much(
            SearchSettings(force_words=("a", "b" * (number - 1)))
        ),
        MAX_FORCED,
        413,
    ),
    "characters of a prefix": (
        lambda service, number: service.refuse_too_much(SearchSettings(prefix="a" * number)),
        PREFIX_CHARACTERS,
        413,
    ),
    "characters that are banned, one more for each text": (
        lambda service, number: service.refuse_too_much(SearchSettings(ban_words=("a", "b" * (number - 3)))),
        CHARACTERS_PER_TOKEN * DEFAULT.max_tokens,
        413,
    ),
    "beam size": (
        lambda service, number: service.refuse_too_much(SearchSettings(beam_size=number)),
        DEFAULT.max_beam_size,
        400,
    ),
    "samples": (
        lambda service, number: service.refuse_too_much(SearchSettings(temperature=1.0, n_best=number)),
        DEFAULT.max_n_best,
        400,
    ),
    "texts": (lambda service, number: refuse_many(service, number, "texts"), DEFAULT.max_texts, 400),
    "texts of DeepL": (
        lambda _, number: deepl.refuse_unsupported(deepl.DeepLRequest(text=["a"] * number), deepl.MAX_TEXTS),
        deepl.MAX_TEXTS,
        400,
    ),
    "tokens for PyTorch": (
        lambda service, number: refuse_long(
            service.models.models[0].translator.tokenizers.source, ["amber", "amber " * number]
        ),
        MAX_ANALYSED,
        413,
    ),
    "tokens of an inspected translation": (
        lambda _, number: refuse_long_translation(["a"] * number, 40, "a view", "ask for less"),
        40,
        413,
    ),
    "least length of an inspected translation": (
        lambda _, number: refuse_long_search(SearchSettings(min_length=number)),
        MAX_INSPECTED,
        413,
    ),
    "tokens that an inspected translation may have more": (
        lambda _, number: refuse_long_search(SearchSettings(max_extra_tokens=number)),
        MAX_INSPECTED,
        413,
    ),
}
"""What refuses a number of something by the defaults of a server, the most that it allows, and the status."""


@pytest.mark.parametrize("name", LIMITS)
def test_a_request_may_have_as_much_as_is_allowed_and_no_more(served, name):
    service = Service(served.models, ServerSettings(), Metrics())
    refuse, most, status = LIMITS[name]
    refuse(service, most)
    with pytest.raises(ApiError) as error:
        refuse(service, most + 1)
    assert error.value.status == status


def test_characters_of_deepl_are_those_of_the_texts(served):
    texts = ["amber", "bïrch \u4e09 \U0001f600 a\u0301", ""]  # characters of one to four bytes
    app = make_app(served, None)
    before, found, after = answers(
        app, ("/v2/usage", None), ("/v2/translate", {"text": texts, "target_lang": "de"}), ("/v2/usage", None)
    )
    billed = [each["billed_characters"] for each in found.json()["translations"]]
    assert billed == list(map(len, texts))
    assert after.json()["character_count"] - before.json()["character_count"] == sum(billed)


@pytest.mark.parametrize("off", ["0", 0, False])
def test_sentences_of_deepl_are_split_unless_it_is_switched_off(off):
    text = "amber birch. Cedar delta."
    for kind in (None, "html", "xml"):
        for given_split, count in ((off, 1), ("1", 2), (None, 2)):
            asked = deepl.DeepLRequest(text=text, tag_handling=kind, split_sentences=given_split)
            assert len(deepl.document_of(asked, text, "en").segments) == count


NAMES = st.lists(st.sampled_from(["p", "x", "xs:a", "é"]), max_size=4)


@given(NAMES, st.data())
def test_names_of_tags_are_alike_as_a_list_and_with_commas(names, data):
    spaced = "".join(
        data.draw(st.sampled_from([" ", ""])) + name + data.draw(st.sampled_from([",", " , "]))
        for name in names
    )
    for given_names in (names, spaced, [spaced], [",".join(names), ""]):
        asked = deepl.DeepLRequest(ignore_tags=given_names)
        assert asked.ignore_tags == names


def test_tags_of_deepl_split_and_do_not_split_as_it_is_asked():
    text = "<d>amber <x>birch</x> cedar</d>"

    def sentences(**options):
        asked = deepl.DeepLRequest(text=text, tag_handling="xml", **options)
        return len(deepl.document_of(asked, text, "en").segments)

    assert sentences(non_splitting_tags="d") == 1
    assert sentences(splitting_tags="x") > sentences(non_splitting_tags="d")
    text = "<d>amber</d><d>birch</d>"
    assert (sentences(), sentences(non_splitting_tags="d")) == (2, 1)


@pytest.mark.parametrize("off", ["0", 0])
def test_what_deepl_has_and_this_server_has_not_is_refused(off):
    for refused in (
        {"outline_detection": off},
        {"formality": "more"},
        *({name: "a"} for name in deepl.UNSUPPORTED),
    ):
        with pytest.raises(ApiError) as error:
            deepl.refuse_unsupported(deepl.DeepLRequest(text="a", **refused), 50)
        assert error.value.status == 400
        assert next(iter(refused)) in error.value.message
    for accepted in ({"formality": "prefer_less"}, {"formality": "default"}, {"outline_detection": "1"}):
        deepl.refuse_unsupported(deepl.DeepLRequest(text="a", **accepted), 50)


def test_languages_that_libretranslate_detects_are_the_likeliest_first(served):
    text = "The weather was lovely, and so we went for a long walk."
    (found,) = answers(make_app(served, None), ("/detect", {"q": text}))
    languages = found.json()
    assert [each["language"] for each in languages] == ["en", "de"][: len(languages)]
    shares = [each["confidence"] for each in languages]
    assert shares == sorted(shares, reverse=True)
    assert 50 < shares[0] <= sum(shares) < 101  # percent
    for auto in ("auto", "AUTO"):
        (answer,) = answers(
            make_app(served, None), ("/translate", {"q": text, "source": auto, "target": "de"})
        )
        assert answer.json()["detectedLanguage"]["language"] == "en"


def test_alternatives_count_for_the_queue_by_their_number(served):
    body = {"text": "amber birch", "model": "ende"}
    few, many = answers(
        make_app(served, None), *(("/v1/alternatives", body | {"count": count}) for count in (2, 30))
    )
    assert (few.status_code, many.status_code) == (200, 413)


def test_html_is_split_into_sentences_only_if_it_may_be(served):
    body = {"text": "<p>amber birch. Cedar delta.</p>", "format": "html", "model": "ende"}
    split, whole = answers(make_app(served, None), (V1, body), (V1, body | {"split_sentences": False}))
    counts = [len(each.json()["translations"][0]["sentences"]) for each in (split, whole)]
    assert counts == [2, 1]


def test_at_most_three_languages_are_detected_of_many(served):
    models = Models((ServedModel("any", "und", "und", served.models.models[0].translator),))
    app = make_app(Service(models, ServerSettings(), Metrics()), None)
    (found,) = answers(app, ("/detect", {"q": "amber de la"}))
    assert len({each["language"] for each in found.json()}) == 3


@pytest.mark.parametrize("log_texts", [True, False])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        (V1, {"text": ["amber", "birch"], "model": "ende"}),
        (f"{V1}/stream", {"text": "amber", "model": "ende"}),
        ("/v1/alternatives", {"text": "amber", "model": "ende"}),
        ("/v1/inspect", {"text": "amber", "model": "ende"}),
        ("/v1/score", {"pairs": [["amber", "birch"]], "model": "ende"}),
        ("/translate", {"q": ["amber", "birch"], "source": "en", "target": "de"}),
        ("/v2/translate", {"text": ["amber", "birch"], "target_lang": "DE"}),
    ],
)
def test_the_log_has_the_texts_of_a_request_if_it_may_and_none_otherwise(
    served, capsys, path, body, log_texts
):
    service = Service(served.models, ServerSettings(log_texts=log_texts), Metrics())
    (answer,) = answers(make_app(service, None), (path, body))
    assert answer.status_code == 200
    (line,) = capsys.readouterr().err.splitlines()
    texts = [text for text in ("amber", "birch") if text in json.dumps(body)]
    assert json.loads(line).get("texts") == (texts if log_texts else None)
    assert log_texts or not any(text in line for text in texts)


@pytest.mark.parametrize("path", [V1, f"{V1}/stream", "/v1/alternatives", "/v1/inspect"])
@pytest.mark.parametrize(
    "contradictory",
    [
        {"temperature": 1.0, "beam_size": SearchSettings().beam_size},
        {"temperature": 1.0, "length_penalty": SearchSettings().length_penalty},
        {"length_power": 1.0, "length_penalty": SearchSettings().length_penalty},
        {"sampling_seed": SearchSettings().sampling_seed},
        {"diversity": SearchSettings().diversity},
    ],
)
def test_settings_that_contradict_others_are_refused_also_if_they_are_the_defaults(
    served, path, contradictory
):
    (answer,) = answers(make_app(served, None), (path, {"text": "amber", "model": "ende"} | contradictory))
    assert answer.status_code == 400
    assert any(name in answer.json()["error"]["message"] for name in contradictory)


@pytest.mark.parametrize("path", [V1, f"{V1}/stream", "/v1/alternatives", "/v1/inspect"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("beam_size", "4"),
        ("beam_size", 4.5),
        ("n_best", True),
        ("length_penalty", "0.6"),
        ("keep_tags", 1),
        ("keep_tags", "yes"),
        ("prefix", 1),
        ("prefix", None),
        ("ban_words", "AMBER"),
        ("force_words", [1]),
    ],
)
def test_a_value_of_another_type_is_refused_by_its_name(served, path, name, value):
    (answer,) = answers(make_app(served, None), (path, {"text": "amber", "model": "ende", name: value}))
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(f"{name}")


@pytest.mark.parametrize(("beam_size", "n_best"), [(3, 7), (7, 3), (1, 1)])
def test_the_most_translations_that_a_server_names_are_the_most_that_it_gives(served, beam_size, n_best):
    settings = ServerSettings(max_beam_size=beam_size, max_n_best=n_best)
    app = make_app(Service(served.models, settings, Metrics()), None)
    (models,) = answers(app, ("/v1/models", None))
    most = models.json()["max_n_best"]
    asked = (
        (V1, {"text": "amber", "model": "ende", "n_best": count, "beam_size": count})
        for count in (most, most + 1)
    )
    assert [each.status_code for each in answers(app, *asked)] == [200, 400]


def test_a_request_has_one_deadline_however_often_it_is_looked_at():
    short, long = (Service(None, ServerSettings(deadline=each), Metrics()) for each in (0.001, 3_600))

    async def look():
        scopes = [(service, {}) for service in (short, long)]
        deadlines = [service.deadline_of(scope) for service, scope in scopes]
        await asyncio.sleep(0.01)
        assert [service.deadline_of(scope) for service, scope in scopes] == deadlines
        assert long.deadline_of({}) > deadlines[1]
        long.refuse_late(scopes[1][1])
        with pytest.raises(ApiError, match=r"took more than 0\.001 seconds"):
            short.refuse_late(scopes[0][1])

    asyncio.run(look())


def test_every_list_of_languages_has_their_english_names(served):
    models = Models((*served.models.models, replace(served.models.models[0], target="pt-BR")))
    app = make_app(Service(models, ServerSettings(), Metrics()), None)
    ours, libretranslate, sources, targets = answers(
        app,
        *(
            (path, None)
            for path in ("/v1/models", "/languages", "/v2/languages", "/v2/languages?type=target")
        ),
    )
    names = {"en": "English", "de": "German", "pt-br": "Portuguese (Brazil)"}
    for model in ours.json()["models"]:
        for side in ("source", "target"):
            assert model[f"{side}_name"] == names[model[side].lower()]
    assert {each["code"].lower(): each["name"] for each in libretranslate.json()} == names
    assert {each["language"]: each["name"] for each in sources.json()} == {"EN": "English", "DE": "German"}
    for listed in (sources.json(), targets.json()):
        assert listed == sorted(listed, key=lambda each: each["language"])
    assert {each["language"]: each["name"] for each in targets.json()} == {
        "DE": "German",
        "EN-GB": "English (United Kingdom)",
        "EN-US": "English (United States)",
        "PT-BR": "Portuguese (Brazil)",
    }


@pytest.mark.parametrize("names", list(permutations("abc")))
def test_the_models_of_a_folder_are_served_in_the_order_of_their_names(tmp_path, names):
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.toml").touch()
    (tmp_path / "0").mkdir()  # no model
    (tmp_path / ".#a").symlink_to("user@machine.17")  # as Emacs locks a file
    assert [path.name for path in served_in(tmp_path)] == ["a", "b", "c"]
    shutil.rmtree(tmp_path / names[0])
    (tmp_path / names[0]).symlink_to("../versions/none")
    with pytest.raises(DragomanError, match=f"{names[0]} is a symbolic link to ../versions/none, which does"):
        served_in(tmp_path)


@pytest.mark.parametrize("pair", [("fr", "es"), ("en", "de"), ("de", "en"), ("und", "und")])
def test_a_text_without_letters_is_detected_to_be_in_a_language_that_is_listed(served, pair):
    models = Models((replace(served.models.models[0], source=pair[0], target=pair[1]),))
    app = make_app(Service(models, ServerSettings(), Metrics()), None)
    listed, *detected = answers(app, ("/languages", None), *(("/detect", {"q": text}) for text in ("1", " ")))
    for found in detected:
        ((language, confidence),) = (each.values() for each in found.json())
        assert language in {each["code"] for each in listed.json()}
        assert confidence == 0
    if pair == ("und", "und"):
        (translated,) = answers(app, ("/translate", {"q": "1", "source": "auto", "target": "de"}))
        assert translated.json()["detectedLanguage"] == {"language": "en", "confidence": 0}


@pytest.mark.parametrize("code", ["de", "de-AT", "DE-ch"])
def test_a_text_is_in_the_language_of_its_model_as_surely_as_in_the_language_without_region(code):
    language, confidence = detected(SENTENCES["de"], code, [code, "en", "fr"])
    assert (language, confidence) == (code, detected(SENTENCES["de"], "de", ["de", "en", "fr"])[1])
    assert 50 < confidence <= 100
    assert detected(SENTENCES["fr"], code, [code, "en", "fr"])[1] < 50


@pytest.mark.parametrize("keys", [None, Keys({})])
def test_what_a_frontend_needs_to_know_is_what_the_server_has(served, keys, tmp_path):
    models = Models((replace(served.models.models[0], source="fr", target="es"), *served.models.models))
    settings = ServerSettings(api_keys=None if keys is None else tmp_path / "keys.toml")
    found, listed = answers(
        make_app(Service(models, settings, Metrics()), keys),
        ("/frontend/settings", None),
        ("/languages", None),
    )
    assert found.json()["keyRequired"] == found.json()["apiKeys"] == (keys is not None)
    assert found.json()["language"]["target"]["code"] == "es"
    file = {"data": {"source": "en", "target": "de"}, "files": {"file": ("a.md", b"amber")}}
    (files,) = statuses(make_app(served, None), [("POST", "/translate_file", file)])
    (suggestions,) = answers(make_app(served, None), ("/suggest", {"q": "amber", "s": "AMBER"}))
    assert found.json()["filesTranslation"] == (files == 200)
    assert found.json()["suggestions"] == (suggestions.status_code == 200)
    assert set(found.json()["supportedFilesFormat"]) == ENDINGS.keys() - {""}
    assert "es" in {each["code"] for each in listed.json()}


def test_the_log_leaves_out_checks_that_succeed_and_nothing_else(served, capsys):
    paths = ["/health", "/ready", "/metrics", "/v1/models", "/nothing"]
    for keys, logged in ((None, paths[3:]), (Keys({}), paths[2:])):
        answers(make_app(served, keys), *((path, None) for path in paths))
        records = map(json.loads, capsys.readouterr().err.splitlines())
        routes = [each["route"] for each in records]
        assert routes == [path if path != "/nothing" else "other" for path in logged]


def test_the_log_names_the_key_of_a_request_and_never_has_it(served, capsys):
    keys = {"anna": "one secret", 'b"é': "two secrets"}
    app = make_app(served, Keys({name: hash_of(key) for name, key in keys.items()}))
    for name, key in [*keys.items(), (None, "another")]:
        send(app, ("/v1/translate", {"text": "amber"}), Authorization=f"Bearer {key}")
        (line,) = capsys.readouterr().err.splitlines()
        assert json.loads(line).get("key") == name
        assert key not in line


def test_a_line_of_the_log_has_its_time_in_seconds_and_the_milliseconds_that_metrics_have(served, capsys):
    service = Service(served.models, ServerSettings(), Metrics())
    app, began, started = make_app(service, None), time.time(), time.monotonic()
    answers(app, ("/v1/models", None))
    passed, ended = time.monotonic() - started, time.time()
    (line,) = capsys.readouterr().err.splitlines()
    record, counted = json.loads(line), service.metrics.seconds["/v1/models", ""]
    assert began - 0.001 <= record["time"] <= ended + 0.001
    assert record["ms"] == round(1000 * counted.total, 1)
    assert 0 < counted.total <= passed
    assert sum(counted.counts) == 1


@pytest.fixture(params=["a.library", "dragoman.inspection"])
def library_log(request):
    """The logger of a library, or of ours, as a server has it."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    root.handlers = []
    configure_logging()
    with messages_to(silent):
        yield logging.getLogger(request.param)
    root.handlers = handlers
    root.setLevel(level)


@given(st.sampled_from(["debug", "info", "warning", "error", "critical"]), st.text(max_size=9), st.booleans())
def test_what_a_library_warns_of_is_a_line_with_its_request_and_its_error(
    library_log, capsys, level, text, has_error
):
    token = request_id.set("a-request")
    try:
        raise KeyError("the cause")
    except KeyError:
        getattr(library_log, level)("told: %s", text, exc_info=has_error)
    finally:
        request_id.reset(token)
    lines = capsys.readouterr().err.split("\n")
    assert len(lines) == 1 + (level not in ("debug", "info"))
    for record in map(json.loads, lines[:-1]):
        said = record["id"], record["level"], record["message"]
        assert said == ("a-request", level, f"told: {text}")
        assert ("KeyError: 'the cause'" in record.get("error", "")) == has_error


@pytest.mark.parametrize("value", ["abc", "A" * 64, "g" * 64, "0" * 63, "0" * 65, 7])
def test_a_file_of_keys_holds_hashes_alone(tmp_path, value):
    (tmp_path / "keys.toml").write_text(f"[keys]\none = {json.dumps(value)}\n")
    with pytest.raises(
        DragomanError, match=r"has to hold a table \[keys\] with a SHA-256 hash for each name"
    ):
        Keys.load(tmp_path / "keys.toml")


def test_languages_that_no_model_has_are_told_from_other_faults_whether_a_model_is_named_or_not(served):
    bodies = (
        {"source": "fr", "target": "es"},
        {"model": "ende", "target": "fr"},
        {"model": "ende", "source": "fr"},
    )
    *pairs, other = answers(
        make_app(served, None), *((V1, {"text": "amber"} | body) for body in bodies), (V1, {"text": 1})
    )
    assert {each.status_code for each in (*pairs, other)} == {400}
    (code,) = {each.json()["error"]["code"] for each in pairs}
    assert code != other.json()["error"]["code"]


@given(st.sampled_from(["gzip", "br", "X-GZIP", "deflate, gzip", "identity", " Identity "]))
def test_a_compressed_body_is_refused_by_every_route_that_reads_one(served, coding):
    app, is_plain = make_app(served, None), coding.strip().lower() == "identity"

    async def statuses(headers):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return [
                (await client.request(method, route.path, content=b"x", headers=headers)).status_code
                for route in api_routes(served)
                for method in route.methods
                if method in WITH_BODY
            ]

    found = asyncio.run(statuses({"Content-Encoding": coding}))
    assert found == (asyncio.run(statuses({})) if is_plain else [415] * len(found))


# ---- languages


AUTO = {"text": "Ein Mann.", "source": "auto", "target": "pt-BR"}
IDENTIFYING = {
    "/v1/translate": {"json": AUTO},
    "/v1/translate/stream": {"json": AUTO},
    "/v1/alternatives": {"json": AUTO},
    "/v1/inspect": {"json": AUTO},
    "/v1/score": {"json": {"pairs": [["Ein Mann.", "A man."]], "source": "auto", "target": "pt-BR"}},
    "/v1/documents?name=a.txt&source=auto&target=pt-BR": {
        "content": b"Ein Mann.",
        "headers": {"Content-Type": BINARY},
    },
    "/translate": {"json": {"q": "Ein Mann.", "source": "auto", "target": "pb"}},
    "/detect": {"json": {"q": "Ein Mann."}},
    "/suggest": {"json": {"q": "Ein Mann.", "s": "A man.", "source": "auto", "target": "pt-BR"}},
    "/translate_file": {
        "data": {"source": "auto", "target": "pt-BR"},
        "files": {"file": ("a.txt", b"Ein Mann.")},
    },
    "/v2/translate": {"json": {"text": ["Ein Mann."], "target_lang": "PT-BR"}},
    "/v2/document": {"data": {"target_lang": "PT-BR"}, "files": {"file": ("a.txt", b"Ein Mann.")}},
}


@pytest.mark.short_form(4)
@pytest.mark.parametrize("path", IDENTIFYING)
def test_other_requests_are_answered_while_the_identifier_of_languages_is_read(
    served, path, monkeypatch, tmp_path
):
    read, threads = identification.identifier_of(None), []

    def from_model_file(*_, **__):
        threads.append(current_thread())
        return read

    monkeypatch.setattr(LanguageIdentifier, "from_model_file", from_model_file)
    identification.identifier_of.cache_clear()
    settings = ServerSettings(suggestions=tmp_path / "suggestions.jsonl", deadline=MAX_SECONDS)
    translator = served.models.models[0].translator
    models = Models(tuple(ServedModel(code, code, "pt-BR", translator) for code in ("de", "en")))
    app = make_app(Service(models, settings, Metrics()), None)

    async def ask():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answers = await asyncio.gather(*(client.post(path, **IDENTIFYING[path]) for _ in range(2)))
        await asyncio.gather(*(job.task for job in app.service.documents._jobs.values() if job.task))
        return {answer.status_code for answer in answers}

    assert asyncio.run(ask()) == {200}
    app.service.documents.close()
    assert len(threads) == 1
    assert current_thread() not in threads


@pytest.mark.parametrize(
    ("alias", "code"), [("pb", "pt-BR"), ("PB", "pt-BR"), ("zt", "zh-Hant"), ("Zt", "zh-Hant")]
)
def test_the_codes_of_libretranslate_stand_for_a_language_with_its_region_or_script(alias, code):
    codes = ("pt", "pt-PT", "pt-BR", "zh", "zh-Hans", "zh-Hant")
    models = Models(
        tuple(ServedModel("", *pair, None) for each in codes for pair in ((each, "en"), ("en", each)))
    )
    assert libretranslate.choose_model(models, "en", alias, "").target == code
    assert libretranslate.choose_model(models, alias, "en", "").source == code


CODES = st.sampled_from(["en", "de", "fr", "pt-BR", "und"])


@given(st.dictionaries(CODES, st.lists(CODES, min_size=1, unique=True), min_size=1))
def test_a_listed_language_has_the_targets_of_its_models(pairs):
    """Each code stands for an unknown language, but no language is translated into itself by chance."""
    found, every = listed_pairs(pairs), two_letter_codes()
    for source in ("en", "de", "fr", "ja", "pt-BR"):
        targets = {*pairs.get(source, ()), *(pairs.get("und", ()) if source in every else ())}
        others = {*every} - {source} if "und" in targets else set()
        assert {*found.get(source, ())} == targets - {"und"} | others
    codes = {*pairs, *(target for targets in pairs.values() for target in targets)}
    assert found.keys() == {code for each in codes for code in (every if each == "und" else [each])}


def test_the_list_of_languages_is_made_once_for_the_models_of_a_server():
    service = Service(Models((ServedModel("a", "und", "und", None),)), ServerSettings(), Metrics())
    (route,) = (route for route in libretranslate.routes(service) if route.path == "/languages")
    first, second = (asyncio.run(route.handler({})) for _ in range(2))
    assert second is first
    service.models = Models((ServedModel("b", "en", "de", None),))
    assert {each.code: each.targets for each in asyncio.run(route.handler({}))} == {"en": ["de"], "de": []}


SENTENCES = {
    "en": "The weather was lovely, and so we went for a long walk through the woods.",
    "de": "Das Wetter war schön, und deshalb gingen wir lange im Wald spazieren.",
    "fr": "Il faisait beau, et nous avons donc fait une longue promenade dans la forêt.",
}
LANGUAGES = st.sampled_from([*SENTENCES])


@given(
    st.lists(st.tuples(LANGUAGES, LANGUAGES), min_size=1, unique=True).map(
        lambda pairs: Models(tuple(ServedModel("-".join(pair), *pair, None) for pair in pairs))
    ),
    LANGUAGES,
    st.data(),
)
def test_a_text_whose_language_is_asked_for_is_translated_from_one_that_can_be(models, language, data):
    """Into each language that is served, whatever the text; if its own is among the sources, from that."""
    target = data.draw(st.sampled_from([model.target for model in models.models]))
    sources = {model.source for model in models.models if model.target == target}
    found = models.between("auto", target, SENTENCES[language])
    assert found.target == target
    assert found.source == language or language not in sources


@pytest.mark.parametrize("language", SENTENCES)
def test_the_language_of_several_texts_is_that_of_all_of_them(served, language):
    """The other models fail if they are asked."""
    translators = {language: served.models.models[0].translator}
    models = Models(
        tuple(ServedModel(f"from-{code}", code, "es", translators.get(code)) for code in SENTENCES)
    )
    texts = ["", "1", SENTENCES[language]]
    ours, scored, libretranslate, detected, deepl = answers(
        make_app(Service(models, ServerSettings(), Metrics()), None),
        (V1, {"text": texts, "source": "auto", "target": "es"}),
        ("/v1/score", {"pairs": [[text, "AMBER"] for text in texts], "source": "auto"}),
        ("/translate", {"q": texts, "source": "auto", "target": "es"}),
        ("/detect", {"q": texts}),
        ("/v2/translate", {"text": texts, "target_lang": "ES"}),
    )
    assert ours.json()["model"] == f"from-{language}"
    assert scored.status_code == 200
    assert {each["language"] for each in libretranslate.json()["detectedLanguage"]} == {language}
    assert detected.json()[0]["language"] == language
    found = {each["detected_source_language"] for each in deepl.json()["translations"]}
    assert found == {language.upper()}
