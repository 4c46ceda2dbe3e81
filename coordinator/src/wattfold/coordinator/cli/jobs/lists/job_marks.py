"""A letter and a color for every job, constant while the screen is shown."""

from __future__ import annotations

import string

from rich.text import Text

from wattfold.contract.cpuset import CpuSet
from wattfold.v1 import coordinator_pb2 as pb

_LETTERS = string.ascii_uppercase + string.ascii_lowercase
# Distinguishable on a dark and on a light background, and by the letter without color.
_COLORS = ("cyan", "yellow", "magenta", "green", "blue", "red", "bright_cyan", "bright_magenta")
_FREE = "·"
_UNKNOWN = "?"


class JobMarks:
    """Marks of jobs, assigned cyclically in the order in which jobs are first seen."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, job_id: str) -> Text:
        """Return the letter of a job in its color."""
        number = self._numbers.setdefault(job_id, len(self._numbers))
        letter = _LETTERS[number % len(_LETTERS)]
        return Text(letter, style=f"bold {_COLORS[number % len(_COLORS)]}")

    def core_map(self, node: pb.Node, jobs: list[pb.Job], cells: int) -> Text:
        """Return the cores of a node, one letter each, or runs such as `A×12` if too long."""
        owners = _owners(node.node_id, jobs)
        free = _cpus(node.free_cpus)
        marks = [self._cpu_mark(cpu, owners, free) for cpu in _cpus(node.cpus)]
        if len(marks) <= cells:
            return Text().join(marks)
        return Text(" ").join(_runs(marks))

    def _cpu_mark(self, cpu: int, owners: dict[int, str], free: CpuSet) -> Text:
        if cpu in owners:
            return self.mark(owners[cpu])
        # Neither free nor held: the core is being handed over, and its last owner has not
        # acknowledged.
        return Text(_FREE if cpu in free else _UNKNOWN, style="dim")


def _owners(node_id: str, jobs: list[pb.Job]) -> dict[int, str]:
    return {
        cpu: job.job_id
        for job in jobs
        for share in job.shares
        if share.node_id == node_id
        for cpu in _cpus(share.cpus)
    }


def _cpus(text: str) -> CpuSet:
    try:
        return CpuSet.parse(text)
    except ValueError:
        return CpuSet()


def _runs(marks: list[Text]) -> list[Text]:
    counts: list[tuple[Text, int]] = []
    for mark in marks:
        if counts and counts[-1][0] == mark:
            counts[-1] = (mark, counts[-1][1] + 1)
        else:
            counts.append((mark, 1))
    return [Text.assemble(mark, (f"×{count}", "dim")) for mark, count in counts]
