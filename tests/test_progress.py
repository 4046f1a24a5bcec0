"""Progress is told at intervals, with the time that is left at the pace so far."""

import pytest

from dragoman.system import progress
from dragoman.system.messages import messages_to
from dragoman.system.progress import REPORT_EVERY, with_progress


@pytest.mark.parametrize("seconds", [7.0, 61.0, 150.0])
def test_progress_is_told_at_intervals_with_the_minutes_that_are_left(monkeypatch, seconds):
    clock, said = [0.0], []
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    count, told = 40, []
    with messages_to(lambda text: told.append((clock[0], text))):
        for item in with_progress(range(count), count, "items are done"):
            said.append(item)
            clock[0] += seconds
    assert said == list(range(count))
    gap = -(-REPORT_EVERY // seconds) * seconds  # items end between two intervals
    assert [time for time, _ in told] == [gap * number for number in range(1, len(told) + 1)]
    assert seconds * (count - 1) - told[-1][0] < gap
    for time, text in told:
        done = round(time / seconds)
        left = round(seconds * (count - done) / 60)
        assert text == f"{done} of {count} items are done; {left} more minute{'s' * (left != 1)}."
    assert REPORT_EVERY == 60, "seconds, as the documentation says"
