"""Translation of `--dependency`, `--begin` and `--mail-type` in `#SBATCH` lines."""

from __future__ import annotations

import re

from wattfold.coordinator.cli.jobs.submission.start_options import MAIL_EVENTS

_DEPENDENCY = re.compile(r"after(ok|any):(\w+(?::\w+)*)\Z")
_FROM_NOW = re.compile(r"now\+(\d{1,8})(second|minute|hour|day|week)?s?\Z")
_TIME = re.compile(r"\d+(:\d+){1,2}\Z|\d{4}-\d\d-\d\d|now\Z")
_UNIT_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}


def dependency_words(text: str) -> list[str]:
    """Translate `afterok:1:2,afterany:3`, all of which must be met. Raises ValueError."""
    words = []
    for part in text.split(","):
        match = _DEPENDENCY.match(part)
        if match is None:
            raise ValueError(
                f"{part!r}: only afterok:ID[:ID] and afterany:ID[:ID] are supported, joined with "
                "commas"
            )
        words += ["--after", f"{match[1]}:{match[2].replace(':', ',')}"]
    return words


def begin_words(text: str) -> list[str]:
    """Translate `now+1hour` and the like; other times are as for `submit`. Raises ValueError."""
    match = _FROM_NOW.match(text)
    if match is not None:
        seconds = int(match[1]) * _UNIT_S[match[2] or "second"]
        return ["--begin", f"now+{seconds}s"] if seconds else []
    if _TIME.match(text) is None:
        raise ValueError(f"{text!r}: expected for example now+1hour, 16:00 or 2027-01-31T08:00")
    return ["--begin", text]


def mail_events(text: str) -> tuple[str, str]:
    """Return the events of `--mail` for types of Slurm, and the types without a counterpart."""
    words = [word for word in text.lower().split(",") if word not in ("", "none")]
    words = list(MAIL_EVENTS) if "all" in words else words
    known = ",".join(word for word in words if word in MAIL_EVENTS)
    return known, ",".join(word.upper() for word in words if word not in MAIL_EVENTS)
