"""The manual pages: they have every verb and option, and roff finds no fault in them."""

import re
import shutil
import signal
import subprocess

import pytest

from dragoman.cli.verbs import commands
from tests.conftest import MAX_SECONDS
from tools.docs import manual

PAGES = manual.pages()


def test_every_verb_and_option_has_its_place():
    assert PAGES.keys() == {"dragoman.1", *(f"dragoman-{name}.1" for name in commands())}
    for name, command in commands().items():
        assert manual.bold(name) in PAGES["dragoman.1"]
        page = PAGES[f"dragoman-{name}.1"]
        for option in command.options.values():
            if option.help:
                assert manual.bold(manual.forms(command, option)) in page
        assert command.example.splitlines()[0].replace("-", r"\-") in page


def test_a_text_is_not_read_as_requests_or_escapes():
    assert manual.roff(".TH 'a' \\fB -x") == r"\&.TH 'a' \efB \-x"
    assert manual.literal("'one\n.two") == [".nf", r"\&'one", r"\&.two", ".fi"]
    assert manual.roff("α → …") == r"\[u03B1] \[u2192] \[u2026]"
    assert manual.plain("`a` and\n  b") == "a and b"


def test_a_page_has_a_date_the_statuses_of_all_signals_and_no_empty_paragraph(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    page = manual.pages()["dragoman-serve.1"]
    assert page.startswith('.TH "DRAGOMAN\\-SERVE" 1 "1970-01-02" "dragoman ')
    assert not re.search(r"^\.S[HS] .*\n\.PP", "".join(PAGES.values()), re.MULTILINE)
    for status in (0, 2, 128 + signal.SIGHUP, 128 + signal.SIGINT, 128 + signal.SIGTERM):
        assert re.search(rf"\b{status} (on|for|after)", manual.STATUS)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is missing: apt-get install groff")
def test_roff_finds_no_fault():
    assert all(text.isascii() for text in PAGES.values())
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", "-P-c"],
        input="".join(PAGES.values()),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=MAX_SECONDS,
        check=True,
    )
    assert not done.stderr
    for name in commands():
        assert f"DRAGOMAN-{name.upper()}(1)" in done.stdout
    assert "|Y|^p" in done.stdout
    assert r"\[u" not in done.stdout
