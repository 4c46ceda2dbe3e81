"""Calendar times for people: local times, printed with their UTC offset, and parsed."""

from __future__ import annotations

from datetime import datetime


def local(time_s: float) -> datetime:
    """Return the local calendar time of Unix seconds, with its UTC offset."""
    return datetime.fromtimestamp(time_s).astimezone()


def moment(time_s: float, timespec: str = "seconds") -> str:
    """Return a time as `2027-01-31 18:00:00+01:00`; ``timespec`` "minutes" omits the seconds."""
    return local(time_s).isoformat(" ", timespec)


def parse_local_s(text: str) -> float:
    """Parse an ISO 8601 time, local if it has no offset, and return Unix seconds.

    Raises LocalTimeError for a local time that the clocks skip or repeat and that has no offset.
    Raises ValueError for any other invalid text.
    """
    found = datetime.fromisoformat(text)
    if found.tzinfo is not None:
        return found.timestamp()
    first, second = (found.replace(fold=fold).astimezone() for fold in (0, 1))
    if first.utcoffset() == second.utcoffset():
        return first.timestamp()
    offsets = sorted((f"{first:%z}", f"{second:%z}"))
    if first.replace(tzinfo=None) != found:
        raise LocalTimeError(
            f"{text} does not exist here: the clocks are set forward then, between UTC offsets "
            f"{offsets[0]} and {offsets[1]}; give another time, or add an offset"
        )
    raise LocalTimeError(
        f"{text} exists twice here, because the clocks are set back: give "
        f"{first.isoformat()} or {second.isoformat()}"
    )


class LocalTimeError(ValueError):
    """A local time does not exist, or exists twice."""
