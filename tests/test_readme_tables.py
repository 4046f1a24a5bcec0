"""Tables of measurements in README files and pages are those that are made from the files of results."""

import re

import pytest

from tools.docs.readme_tables import PAGES, READMES, TYPED, with_tables

EACH = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.parent.name)
EACH_README = pytest.mark.parametrize("path", READMES, ids=lambda path: path.parent.name)


@EACH
def test_the_tables_are_those_that_are_made(path):
    text = path.read_text(encoding="utf-8")
    assert with_tables(text, path.parent) == text, "python -m tools.docs.readme_tables"


@EACH
def test_a_typed_number_is_replaced(path):
    text = path.read_text(encoding="utf-8")
    typed = re.sub(r"(?<=-->\n)(\|.*\n)+", lambda table: re.sub(r"\d", "7", table[0]), text)
    typed, own = (re.sub(rf"{re.escape(TYPED)}\n(\|.*\n)+", "", each) for each in (typed, text))
    assert typed != own
    assert with_tables(typed, path.parent) == own


@EACH_README
def test_each_table_is_made_or_says_that_it_is_typed(path):
    text = path.read_text(encoding="utf-8")
    left = re.sub(rf"(<!-- table: [^>]*-->|{re.escape(TYPED)})\n(\|.*\n)+", "", text)
    assert "\n| ---" not in left


@pytest.mark.parametrize(
    ("comment", "words"),
    [
        ("sizes results/none.json", "made of results/none.json, which is not"),
        ("none", "There is no table 'none'"),
    ],
)
def test_a_comment_of_nothing_is_refused(tmp_path, comment, words):
    with pytest.raises(ValueError, match=words):
        with_tables(f"<!-- table: {comment} -->\n", tmp_path)
