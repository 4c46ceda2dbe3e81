"""Tables that come with traces of unit jobs (PA-HPC-SIM): queues, predicted power, caps.

All of them are text, plain or gzip, a line per entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from wattfold.simulator.workloads.errors import LogError
from wattfold.simulator.workloads.text_files import whole_text

RESERVATION_QUEUE = "R"
"""Short name in traces of a queue that the table of queues calls by its full name."""
WHOLE_NAMES = {RESERVATION_QUEUE: "reservation"}
_MOST = 1e9


def read_waits(path: Path) -> dict[str, int]:
    """Return the maximum wait of each queue in seconds, by its name. Raises LogError.

    Each line has a name and a time, separated by a space. Short names of the traces are included.
    """
    found: dict[str, int] = {}
    for number, line in _lines(path):
        words = line.split()
        if len(words) != 2 or not words[1].isdecimal() or not 0 < int(words[1]) < _MOST:
            raise LogError(path, number, "expected a queue and its wait in seconds")
        found[words[0]] = int(words[1])
    for short, whole in WHOLE_NAMES.items():
        if whole in found:
            found.setdefault(short, found[whole])
    return found


def read_predicted_powers(path: Path) -> dict[int, float]:
    """Return the predicted power of jobs in watts, by their IDs. Raises LogError.

    Each line is ``id.host;watts``. The host is ignored, and the last line of a job counts.
    """
    found: dict[int, float] = {}
    for number, line in _lines(path):
        name, _, watts = line.partition(";")
        job = name.partition(".")[0].partition("[")[0]
        try:
            power_w = float(watts)
            if not job.isdecimal() or not 0 <= power_w < _MOST:
                raise ValueError(f"{job!r} takes {watts!r}")
            found[int(job)] = power_w
        except ValueError as error:
            raise LogError(path, number, f"expected a job and its power: {error}") from error
    return found


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield nonblank lines with their numbers."""
    for number, line in enumerate(whole_text(path).splitlines(), start=1):
        if line.strip():
            yield number, line.strip()
