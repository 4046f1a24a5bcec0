"""Times of the clock that a user gives: `18:30`, or `2026-12-24T18:30`. Does not import torch."""

from datetime import datetime, time, timedelta


def moment(text: str, now: datetime) -> datetime:
    """The time that a text names; one without a date is the next such time after `now`.

    Raises `ValueError` if it names none. A time without an offset from UTC is this machine's.
    """
    try:
        clock = time.fromisoformat(text)
    except ValueError:
        return datetime.fromisoformat(text).astimezone()
    today = datetime.combine(now.date(), clock).astimezone()
    return today if today > now.astimezone() else (today + timedelta(days=1))


def seconds_until(text: str) -> float:
    """The seconds until the time that a text names, negative if it has passed. Raises as `moment`."""
    now = datetime.now().astimezone()
    return (moment(text, now) - now).total_seconds()
