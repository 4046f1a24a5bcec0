"""Numbers and values in sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.system.wording import counted, shown


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0 pairs"), (1, "1 pair"), (2, "2 pairs"), (1000, "1,000 pairs"), (-1, "-1 pairs")],
)
def test_one_thing_alone_is_in_the_singular(count, expected):
    assert counted(count, "pair") == expected


@given(st.text(alphabet="ab", max_size=300))
def test_a_value_is_written_as_python_does_up_to_200_characters(text):
    written = repr(text)
    assert shown(text) == (written if len(written) <= 200 else written[:200] + "…")
