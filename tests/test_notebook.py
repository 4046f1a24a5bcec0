"""Jupyter notebooks come back with the Markdown of their cells translated, and everything else as it was."""

import json
import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.documents import markdown
from dragoman.documents.file import Reading
from dragoman.documents.notebook import read
from dragoman.system.errors import DragomanError
from tests.document_laws import in_capitals, upper

READING = Reading("a.ipynb", "en", "de")
LINE = st.sampled_from(
    ["# One\n", "Two *three*\n", "four.\n", "\n", "é 😀 `a\\b`\n", '"Five"', "- x\n", "\t[a](b)"]
)
SOURCE = st.one_of(st.lists(LINE, max_size=5), st.lists(LINE, max_size=5).map("".join), st.text())
CELL = st.builds(
    lambda kind, source: (
        {"cell_type": kind, "metadata": {"source": "no", "cells": []}, "source": source}
        | ({"outputs": [{"text": ["No\n"]}], "execution_count": None} if kind == "code" else {})
    ),
    st.sampled_from(["markdown", "code", "raw"]),
    SOURCE,
)
NOTEBOOK = st.builds(
    lambda cells, indent, is_ascii: json.dumps(
        {"cells": cells, "metadata": {"cell_type": "markdown"}, "nbformat": 4, "nbformat_minor": 4},
        indent=indent, ensure_ascii=is_ascii,
    ),
    st.lists(CELL, max_size=4),
    st.sampled_from([None, 1, "\t"]),
    st.booleans(),
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(NOTEBOOK.filter(lambda text: "\\ud8" not in text), st.text())
def test_only_the_markdown_changes(text, new):
    content = text.encode("utf-8", "surrogatepass")
    with suppress(DragomanError):
        document = read(content, READING)
        assert document.write([segment.sentence for segment in document.segments]) == content
        written = document.write([new] * len(document.segments))
        before, after = json.loads(text), json.loads(written.decode("utf-8", "surrogateescape"))
        for one, other in zip(before["cells"], after["cells"], strict=True):
            if one["cell_type"] == "markdown":
                assert isinstance(other["source"], type(one["source"]))
                one["source"] = other["source"] = ""
        assert before == after


def test_sentences_over_several_strings_are_translated():
    lines = ["# One\n", "Two *three*\n", 'four. Five \\* "six"\n', "\n", "- a"]
    code = {"cell_type": "code", "source": ["print('No')"]}
    text = json.dumps({"cells": [{"cell_type": "markdown", "source": lines}, code]}, indent=1)
    document = read(text.encode(), READING)
    assert [segment.sentence for segment in document.segments] == [
        "One", "Two <g1>three</g1> four.", 'Five * "six"', "a",
    ]  # fmt: skip
    written = document.write(["Eins", '<g1>Zwei</g1> "drei".', "\\ é", "# b"]).decode()
    markdown, unchanged = json.loads(written)["cells"]
    assert markdown["source"] == ["# Eins\n", '*Zwei* "drei". \\\\ é\n', "\n", "- \\# b"]
    assert unchanged == code


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b"<p>", b"[" * 100_000, b'{"cells": [', b'{"cells": \xff}']
)
def test_what_is_no_notebook_is_refused(content):
    with pytest.raises(DragomanError, match="a.ipynb"):
        read(content, READING)


@given(
    st.recursive(
        st.sampled_from(["markdown", "source", 1, None]),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.sampled_from(["cells", "source", "cell_type"]), inner),
        ),
    )
)
def test_any_json_is_read(value):
    content = json.dumps({"cells": value}).encode()
    document = read(content, READING)
    assert document.write([segment.sentence for segment in document.segments]) == content


PIECES = ("one", "é", "😀", '"', "\\\\", "\\*", "\n", "*two*", "`no`", "\t", "\x01", "\u2028")


@given(
    st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join),
    st.sampled_from(["markdown", "heading", "code", "raw"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["", "\ufeff"]),
)
def test_only_the_source_of_a_cell_of_text_is_in_capitals(text, kind, is_list, is_ascii, is_old, mark):
    """The source is one string or several; a cell may say its type behind it."""
    source = f"one {text} two"
    cell = {
        "attachments": {"source": ["no"], "a.png": {"cells": [{"cell_type": "markdown", "x": "no"}]}},
        "outputs": ["no"], "source": source.splitlines(keepends=True) if is_list else source,
        "metadata": {"cell_type": "no", "source": "no"},
    }  # fmt: skip
    cell = {"cell_type": kind, **cell} if is_ascii else {**cell, "cell_type": kind}
    notebook = (
        {"worksheets": [{"cells": [cell]}]}
        if is_old
        else {
            "metadata": {"cells": {"x": {"cell_type": "markdown", "source": "no"}}},
            "cells": [cell],
            "x": [{"cell_type": "markdown", "source": "no"}],
        }
    )
    content = json.dumps(notebook, ensure_ascii=is_ascii)
    content = (
        mark + (re.sub(r"\\u(\w{4})", lambda match: "\\u" + match[1].upper(), content) if is_old else content)
    ).encode()
    written = json.loads(in_capitals(lambda raw: read(raw, READING), content).decode("utf-8-sig"))
    expected = markdown.read(source.encode(), Reading("a.md", "en", "de"))
    expected = expected.write([upper(segment.sentence) for segment in expected.segments]).decode()
    cells = written["worksheets"][0]["cells"] if is_old else written["cells"]
    new = cells[0].pop("source")
    former = cell.pop("source")
    assert written == notebook
    assert "".join(new) == ("".join(former) if kind in {"code", "raw"} else expected)
    assert isinstance(new, list) == is_list


@pytest.mark.parametrize("content", ['{"worksheets": []}', '{"cells": []}'])
def test_an_empty_notebook_is_read(content):
    assert not read(content.encode(), READING).segments
