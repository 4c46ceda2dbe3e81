"""The tables that come with traces of jobs of units (PA-HPC-SIM): queues, predicted power, caps.

All of them are text, plain or gzip, a line an entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from wattfold.contract.units import ns_from_s, uw_from_w
from wattfold.coordinator.simulation.pool.budget import Budget, BudgetStep
from wattfold.coordinator.simulation.workloads.errors import LogError
from wattfold.coordinator.simulation.workloads.text_files import whole_text

RESERVATION_QUEUE = "R"
"""How traces call the queue that the table of queues calls by its whole name."""
WHOLE_NAMES = {RESERVATION_QUEUE: "reservation"}
_MOST = 1e9


def read_waits(path: Path) -> dict[str, int]:
    """How long jobs of a queue are to wait at most, seconds, by its name. Raises LogError.

    Lines of a name and a time, parted by spaces. Names that traces shorten are there as well.
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
    """The predicted power of jobs, watts, by their ids. Raises LogError.

    Lines ``id.host;watts``; the name of the host is not looked at, and the last line of a job goes.
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


def read_power_caps(path: Path) -> Budget:
    """A cap over time, from the first submission on. Raises LogError.

    Lines ``seconds;watts``. Before the first of them the first holds.
    """
    steps: list[BudgetStep] = []
    for number, line in _lines(path):
        seconds, _, watts = line.partition(";")
        try:
            at_ns = ns_from_s(float(seconds)) if steps else 0
            steps.append(BudgetStep(at_ns=at_ns, budget_uw=uw_from_w(float(watts))))
        except ValueError as error:
            raise LogError(path, number, f"expected a time and a power: {error}") from error
    try:
        return Budget(steps=tuple(steps))
    except ValueError as error:
        raise LogError(path, 0, str(error)) from error


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers."""
    for number, line in enumerate(whole_text(path).splitlines(), start=1):
        if line.strip():
            yield number, line.strip()
