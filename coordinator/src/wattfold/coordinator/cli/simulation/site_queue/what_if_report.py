"""Tables and documents of `wattfold what-if`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.tables import (
    Cell,
    FieldTable,
    PlainTable,
    Styled,
    add_row,
    field_table,
    flexible,
    left,
    plain_table,
    right,
)
from wattfold.coordinator.cli.simulation.site_queue.site_reading import SiteReading
from wattfold.simulator.runs.queue_run import JobTimes, QueueRun
from wattfold.simulator.runs.site_queue import QueuedJob, SiteQueue

J_PER_KWH = 3.6e6
NEVER = "never"
EQUAL_S = 1.0
"""Starts that differ by less than this are shown as equal: messages of the service take time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Sums of one run. Times are in seconds; None = no job to measure."""

    makespan_s: float
    """Time until the last job ends."""
    mean_wait_s: float | None
    """From submission to start, over the waiting jobs that start."""
    mean_completion_s: float | None
    """From submission to end, over the jobs that end."""
    never: int
    """Waiting jobs that never start."""
    energy_kwh: float


def measures(queue: SiteQueue, run: QueueRun) -> Measures:
    """Return the sums of a run."""
    waits, completions = [], []
    never = 0
    for job in queue.jobs:
        times = run.times[job.job_id]
        if job.seat is None and times.start_ns is not None:
            waits.append((times.start_ns - job.submitted_ns) / 1e9)
        never += job.seat is None and times.start_ns is None
        if times.end_ns is not None:
            completions.append((times.end_ns - job.submitted_ns) / 1e9)
    return Measures(
        makespan_s=(run.last_end_ns - queue.now_ns) / 1e9,
        mean_wait_s=_mean(waits),
        mean_completion_s=_mean(completions),
        never=never,
        energy_kwh=run.energy_uj / 1e6 / J_PER_KWH,
    )


def run_notes(runs: tuple[QueueRun, QueueRun]) -> list[str]:
    """Return sentences about jobs that the simulation could not place as they are."""
    unseated = runs[0].unseated
    if not unseated:
        return []
    return [
        f"Running jobs that are simulated as waiting, because their current resources cannot be "
        f"simulated: {', '.join(unseated[:5])}{' and more' if len(unseated) > 5 else ''}."
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Both runs of a queue: as it is, and with a change."""

    reading: SiteReading
    changed: SiteQueue
    runs: tuple[QueueRun, QueueRun]
    price: float | None = None
    """EUR per kWh."""

    @property
    def waiting(self) -> list[QueuedJob]:
        """Waiting jobs, those with the largest difference of their starts first."""
        jobs = [job for job in self.reading.queue.jobs if job.seat is None]
        return sorted(jobs, key=lambda job: -self._weight(job))

    def summary(self) -> PlainTable:
        """Return the table of sums."""
        table = plain_table(
            left(""), right("AS IT IS"), right("WITH THE CHANGE"), right("DIFFERENCE")
        )
        one, two = self._measures()
        queues = self.reading.queue, self.changed
        open_nodes = [sum(not node.closed for node in queue.nodes) for queue in queues]
        budgets = self.reading.site_budget_uw, self._changed_budget_uw()
        add_row(table, "policy", self.runs[0].policy, self.runs[1].policy, "")
        add_row(table, "budget", f.power(budgets[0]), f.power(budgets[1]), "")
        add_row(table, "nodes that take jobs", str(open_nodes[0]), str(open_nodes[1]), "")
        _add_times(table, "until the last job ends", one.makespan_s, two.makespan_s)
        _add_times(table, "mean wait", one.mean_wait_s, two.mean_wait_s)
        _add_times(table, "mean time to the end", one.mean_completion_s, two.mean_completion_s)
        add_row(table, "jobs that never start", str(one.never), str(two.never), "")
        self._add_energy(table, one, two)
        return table

    def job_table(self, limit: int) -> PlainTable:
        """Return the table of waiting jobs."""
        table = plain_table(
            left("ID"),
            flexible("NAME"),
            left("SIZE"),
            right("STARTS IN"),
            right("WITH THE CHANGE"),
            right("DIFFERENCE"),
        )
        messages = {job.job_id: job for job in self.reading.jobs}
        for job in self.waiting[:limit]:
            message = messages[job.job_id]
            before, after = (self._start_s(job, run) for run in self.runs)
            add_row(
                table,
                job.job_id,
                message.spec.name or f.NONE,
                f.size(message),
                _starts(before),
                _starts(after),
                _difference(before, after),
            )
        return table

    def job_sheet(self, job_id: str) -> FieldTable:
        """Return the fields of one job."""
        job = next(job for job in self.reading.queue.jobs if job.job_id == job_id)
        starts = [self._start_s(job, run) for run in self.runs]
        ends = [self._end_s(job, run) for run in self.runs]
        fields: list[tuple[str, Cell]] = [("job", job_id)]
        if job.seat is None:
            fields += [
                ("starts, as it is", self._moment(starts[0])),
                ("starts, with the change", self._moment(starts[1])),
                ("difference", _difference(*starts)),
            ]
        fields += [
            ("ends, as it is", self._moment(ends[0])),
            ("ends, with the change", self._moment(ends[1])),
            ("difference", _difference(*ends)),
        ]
        return field_table(fields)

    def document(self, job_id: str | None) -> dict[str, object]:
        """Return both runs for programs; times are Unix seconds, None = never."""
        chosen = [job for job in self.reading.queue.jobs if job_id in (None, job.job_id)]
        return {
            "time_s": self.reading.queue.origin_s + self.reading.queue.now_ns / 1e9,
            "as_it_is": self._run_document(0),
            "with_the_change": self._run_document(1),
            "jobs": [self._job_document(job) for job in chosen],
            "notes": [*self.reading.notes, *run_notes(self.runs)],
        }

    def _run_document(self, which: int) -> dict[str, object]:
        found = self._measures()[which]
        queue = (self.reading.queue, self.changed)[which]
        budgets = self.reading.site_budget_uw, self._changed_budget_uw()
        return {
            "policy": self.runs[which].policy,
            "budget_w": budgets[which] / 1e6,
            "nodes": sum(not node.closed for node in queue.nodes),
            "makespan_s": found.makespan_s,
            "mean_wait_s": found.mean_wait_s,
            "mean_completion_s": found.mean_completion_s,
            "never_start": found.never,
            "energy_kwh": found.energy_kwh,
            "cost_eur": None if self.price is None else found.energy_kwh * self.price,
        }

    def _job_document(self, job: QueuedJob) -> dict[str, object]:
        one, two = (run.times[job.job_id] for run in self.runs)
        return {
            "job_id": job.job_id,
            "waits": job.seat is None,
            "as_it_is": self._times_document(one),
            "with_the_change": self._times_document(two),
        }

    def _times_document(self, times: JobTimes) -> dict[str, object]:
        return {
            "start_s": self._unix_s(times.start_ns),
            "end_s": self._unix_s(times.end_ns),
        }

    def _unix_s(self, time_ns: int | None) -> float | None:
        return None if time_ns is None else self.reading.queue.origin_s + time_ns / 1e9

    def _measures(self) -> tuple[Measures, Measures]:
        one, two = self.runs
        return measures(self.reading.queue, one), measures(self.changed, two)

    def _changed_budget_uw(self) -> int:
        reserved_uw = self.reading.site_budget_uw - self.reading.queue.budget_uw
        return self.changed.budget_uw + reserved_uw

    def _add_energy(self, table: PlainTable, one: Measures, two: Measures) -> None:
        more = two.energy_kwh - one.energy_kwh
        add_row(
            table,
            "energy of all nodes until then",
            f"{one.energy_kwh:.2f} kWh",
            f"{two.energy_kwh:.2f} kWh",
            f"{more:+.2f} kWh" if abs(more) >= 0.005 else f.NONE,
        )
        if self.price is not None:
            costs = one.energy_kwh * self.price, two.energy_kwh * self.price
            more = costs[1] - costs[0]
            shown = f"{more:+.2f} EUR" if abs(more) >= 0.005 else f.NONE
            add_row(table, "cost", f"{costs[0]:.2f} EUR", f"{costs[1]:.2f} EUR", shown)

    def _weight(self, job: QueuedJob) -> float:
        """Return the size of the difference; a job that starts only in one run comes first."""
        before, after = (self._start_s(job, run) for run in self.runs)
        if before is None or after is None:
            return 0.0 if before is after else float("inf")
        return abs(after - before)

    def _start_s(self, job: QueuedJob, run: QueueRun) -> float | None:
        """Return the time from now to the start of a job."""
        return self._from_now_s(run.times[job.job_id].start_ns)

    def _end_s(self, job: QueuedJob, run: QueueRun) -> float | None:
        return self._from_now_s(run.times[job.job_id].end_ns)

    def _from_now_s(self, time_ns: int | None) -> float | None:
        return None if time_ns is None else (time_ns - self.reading.queue.now_ns) / 1e9

    def _moment(self, seconds: float | None) -> str:
        if seconds is None:
            return NEVER
        now_s = self.reading.queue.origin_s + self.reading.queue.now_ns / 1e9
        return f"in {f.duration(max(seconds, 0.0))} ({f.clock(now_s + seconds)})"


def _add_times(table: PlainTable, title: str, before: float | None, after: float | None) -> None:
    shown = [f.NONE if value is None else f.duration(value) for value in (before, after)]
    known = before is not None and after is not None
    add_row(table, title, *shown, _difference(before, after) if known else f.NONE)


def _starts(seconds: float | None) -> str:
    if seconds is None:
        return NEVER
    return "now" if seconds < EQUAL_S else f.duration(seconds)


def _difference(before: float | None, after: float | None) -> Cell:
    """Return the change of a time; an earlier or new start is green, a later or lost start red."""
    if before is None or after is None:
        if before is after:
            return f.NONE
        return Styled("starts", "green") if before is None else Styled("never", "red")
    more = after - before
    if abs(more) < EQUAL_S:
        return f.NONE
    text = f"{'+' if more > 0 else '-'}{f.duration(abs(more))}"
    return Styled(text, "red" if more > 0 else "green")


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
