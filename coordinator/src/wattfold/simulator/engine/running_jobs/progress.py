"""Running jobs: their progress and their ends, independent of their resources.

Amounts are integers: nanoseconds, microwatts, and microwatts times nanoseconds (1e-15 J) for
energies. So sums stay exact however often a job changes. Subclasses book resources and power:
`RunningJobs` counts identical nodes, `PartRunning` counts parts of nodes of several classes.
"""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from array import array
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

import numpy as np

from wattfold.simulator.engine.errors import SimulationError
from wattfold.simulator.engine.record import JobColumns
from wattfold.simulator.workloads.workload import Ints

NOT_YET = -1
FJ_PER_UJ = 1_000_000_000


class JobFacts(TypedDict):
    """Results of a job: one entry of each of the columns of `JobColumns`."""

    start_ns: int
    end_ns: int
    first_size: int
    last_size: int
    resizes: int
    stalled_ns: int
    node_ns: int
    energy_uj: int
    first_cap_uw: int
    mean_cap_uw: float
    first_cores: NotRequired[int]
    last_cores: NotRequired[int]
    core_ns: NotRequired[int]
    places: NotRequired[str]
    gpu_ns: NotRequired[int]
    attempts: int
    wasted_ns: int
    timed_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionRule:
    """Rule for the work that a requeued job keeps.

    ``snapshot_ns`` is the interval of its snapshots; work since the last snapshot is lost. 0: the
    job writes a snapshot when it is ended; -1: it writes none. A restart takes ``restart_ns``
    without progress.
    """

    snapshot_ns: int = 0
    restart_ns: int = 0


class Progress(ABC):
    """State of every job by its position in the table; sums over the running jobs.

    ``committed_uw`` and ``drawn_uw`` are above the charge of idle nodes. ``nodes`` counts the nodes
    with a job.
    """

    def __init__(
        self, count: int, limits_ns: Ints | None = None, preemption: PreemptionRule | None = None
    ) -> None:
        self._limits_ns: list[int] | None = None if limits_ns is None else limits_ns.tolist()
        self._preemption = preemption
        self.counts_attempts = limits_ns is not None or preemption is not None
        """Whether jobs may end before they are done, so that the record has their attempts."""
        self._cut: set[int] = set()
        """Jobs that will reach their limit at their current speed."""
        self._earlier_ns: dict[int, int] = {}
        """Run time of the earlier attempts of preempted jobs."""
        self._kept: dict[int, float] = {}
        """Fraction done at the start of the attempt."""
        self.timed_out = bytearray(count)
        self.attempts = array("q", [1]) * count
        self.wasted_ns = array("q", [0]) * count
        self.jobs: dict[int, None] = {}
        self.size = [0] * count
        self.cap_uw = [0] * count
        self.total_ns = [0] * count
        self.done = [0.0] * count
        self.since_ns = [0] * count
        self.held_since_ns = [0] * count
        self.stalled_until_ns: dict[int, int] = {}
        self.committed_uw = 0
        self.drawn_uw = 0
        self.nodes = 0
        self.ends: list[tuple[int, int, int, int]] = []
        """Heap of (end, order of start, ticket, job); an entry with an old ticket is void."""
        self._ticket = [0] * count
        self._order = [0] * count
        self._orders = 0
        self._tickets = 0
        empty = array("q", [NOT_YET]) * count
        zeros = array("q", [0]) * count
        self.start_ns, self.end_ns = empty[:], empty[:]
        self.first_size, self.last_size, self.first_cap_uw = zeros[:], zeros[:], zeros[:]
        self.resizes, self.stalled_ns = zeros[:], zeros[:]
        self.node_ns = [0] * count
        self.energy = [0] * count
        self.cap_ns = [0] * count

    def _begin(self, job: int, total_ns: int, now_ns: int) -> None:
        """Start a job that takes ``total_ns`` if nothing changes."""
        self.jobs[job] = None
        self.total_ns[job] = total_ns
        self.since_ns[job] = self.held_since_ns[job] = self.start_ns[job] = now_ns
        self._orders += 1
        self._tickets += 1
        self._order[job], self._ticket[job] = self._orders, self._tickets
        if self._limits_ns is not None or self._kept:
            self._begin_again(job, total_ns, now_ns)
            return
        heapq.heappush(self.ends, (now_ns + total_ns, self._orders, self._tickets, job))

    def _begin_again(self, job: int, total_ns: int, now_ns: int) -> None:
        """Start a job that has a limit, or saved work of an earlier attempt."""
        if job in self._kept and self._preemption is not None:
            if self._preemption.restart_ns:
                self.stalled_until_ns[job] = now_ns + self._preemption.restart_ns
                self.stalled_ns[job] += self._preemption.restart_ns
            self._renew_end(job, now_ns)
        else:
            end_ns = self._limited_ns(job, now_ns + total_ns)
            heapq.heappush(self.ends, (end_ns, self._order[job], self._ticket[job], job))

    def _limited_ns(self, job: int, end_ns: int) -> int:
        """Return the end of a running job by its progress, or by its limit if that is earlier."""
        limit_ns = self._limits_ns[job] if self._limits_ns is not None else 0
        if not limit_ns or end_ns <= self.start_ns[job] + limit_ns:
            self._cut.discard(job)
            return end_ns
        self._cut.add(job)
        return self.start_ns[job] + limit_ns

    def pop_ended(self, now_ns: int) -> int | None:
        """Return a job that ends by this time, in the order of their starts; None if none does."""
        ends, tickets = self.ends, self._ticket
        while ends and ends[0][0] <= now_ns:
            _, _, ticket, job = heapq.heappop(ends)
            if tickets[job] == ticket:
                break
        else:
            return None
        self._book(job, now_ns)
        self._release(job)
        self._ticket[job] = 0
        if self._cut and job in self._cut:
            self._cut.remove(job)
            self.timed_out[job] = 1
        self.end_ns[job], self.last_size[job] = now_ns, self.size[job]
        del self.jobs[job]
        if self.stalled_until_ns:
            self.stalled_until_ns.pop(job, None)
        return job

    def preempt(self, job: int, now_ns: int) -> None:
        """Stop a running job and requeue it."""
        self._advance(job, now_ns)
        self._book(job, now_ns)
        self._release(job)
        self._put_back(job, now_ns)

    @abstractmethod
    def _book(self, job: int, now_ns: int) -> None:
        """Book the resources and energy of a job since its last booking."""

    @abstractmethod
    def _release(self, job: int) -> None:
        """Subtract the resources of a job from the sums."""

    def _put_back(self, job: int, now_ns: int) -> None:
        """Requeue a job with the work that it keeps."""
        if self._preemption is None:
            raise SimulationError("a job is preempted in a run without a rule for it")
        began_ns = self.start_ns[job]
        ran_ns = now_ns - began_ns
        kept, lost_ns = self._kept_of(job, ran_ns, self._preemption.snapshot_ns)
        self.wasted_ns[job] += lost_ns
        self.attempts[job] += 1
        self._earlier_ns[job] = self._earlier_ns.get(job, 0) + ran_ns
        self.done[job] = self._kept[job] = kept
        self._ticket[job] = 0
        self._cut.discard(job)
        self.stalled_until_ns.pop(job, None)
        self.start_ns[job] = NOT_YET
        del self.jobs[job]

    def _kept_of(self, job: int, ran_ns: int, every_ns: int) -> tuple[float, int]:
        """Return the fraction done that a job keeps if it ends now, and the lost time."""
        saved = self._saved(job)
        if saved is not None:
            return saved, round((self.done[job] - saved) * self.total_ns[job])
        lost_ns = ran_ns if every_ns < 0 else ran_ns % every_ns if every_ns else 0
        if every_ns < 0:
            return 0.0, lost_ns
        least = self._kept.get(job, 0.0)
        return max(least, self.done[job] - lost_ns / max(self.total_ns[job], 1)), lost_ns

    def _saved(self, job: int) -> float | None:  # noqa: ARG002 - for those that know more
        """Return the fraction done in the job's own snapshots; None = as in `PreemptionRule`."""
        return None

    def _begin_elsewhere(self, job: int, now_ns: int) -> None:
        """End a running job and restart it at once from its snapshot in another place."""
        if self._preemption is None:
            raise SimulationError("a job is moved in a run without a rule for it")
        ran_ns = now_ns - self.start_ns[job]
        self.done[job], lost_ns = self._kept_of(job, ran_ns, self._preemption.snapshot_ns)
        self._kept[job] = self.done[job]
        self.wasted_ns[job] += lost_ns
        self.attempts[job] += 1
        spared_ns = max(self.stalled_until_ns.get(job, 0) - now_ns, 0)
        self.stalled_until_ns[job] = now_ns + self._preemption.restart_ns
        self.stalled_ns[job] += self._preemption.restart_ns - spared_ns

    def end_as_it_is_ns(self, job: int) -> int:
        """Return the end of a running job if nothing changes."""
        begin_ns = max(self.stalled_until_ns.get(job, 0), self.since_ns[job])
        left_ns = math.ceil((1.0 - self.done[job]) * self.total_ns[job])
        limit_ns = self._limits_ns[job] if self._limits_ns is not None else 0
        end_ns = begin_ns + left_ns
        return min(end_ns, self.start_ns[job] + limit_ns) if limit_ns else end_ns

    def next_end_ns(self) -> int | None:
        """Return the next end of a job at current speeds, None without a running job."""
        ends = self.ends
        while ends:
            entry = ends[0]
            if self._ticket[entry[3]] == entry[2]:
                return entry[0]
            heapq.heappop(ends)
        return None

    def stall(self, job: int, charge_ns: int, now_ns: int) -> None:
        """Delay the progress of a running job by a further time."""
        self._advance(job, now_ns)
        begins_ns = max(self.stalled_until_ns.get(job, 0), now_ns)
        self.stalled_until_ns[job] = begins_ns + charge_ns
        self.stalled_ns[job] += charge_ns
        self._renew_end(job, now_ns)

    def begin_at(self, job: int, at_ns: int, now_ns: int) -> None:
        """Let a job that holds its nodes make progress from this time on, and not before.

        A job that has made no progress yet starts then. Another job is stalled until then.
        """
        self._advance(job, now_ns)
        before_ns = max(self.stalled_until_ns.get(job, 0), now_ns)
        self.stalled_until_ns[job] = at_ns
        if self.done[job] <= self._kept.get(job, 0.0):
            self.start_ns[job] = at_ns
        else:
            self.stalled_ns[job] += at_ns - before_ns
        self._renew_end(job, now_ns)

    def done_by(self, job: int, now_ns: int) -> float:
        """Return the fraction of a job's work that is done."""
        begin_ns = self.since_ns[job]
        if self.stalled_until_ns:
            begin_ns = max(begin_ns, self.stalled_until_ns.get(job, 0))
        if now_ns <= begin_ns:
            return self.done[job]
        return min(self.done[job] + (now_ns - begin_ns) / max(self.total_ns[job], 1), 1.0)

    def facts_of(self, job: int) -> JobFacts:
        """Return the results of a job so far."""
        start_ns, end_ns = self.start_ns[job], self.end_ns[job]
        ran_ns = end_ns - start_ns + self._earlier_ns.get(job, 0)
        mean_cap_uw = self.cap_ns[job] / ran_ns if ran_ns > 0 else float(self.first_cap_uw[job])
        return JobFacts(
            start_ns=start_ns,
            end_ns=end_ns,
            first_size=self.first_size[job],
            last_size=self.last_size[job],
            resizes=self.resizes[job],
            stalled_ns=self.stalled_ns[job],
            node_ns=self.node_ns[job],
            energy_uj=self.energy[job] // FJ_PER_UJ,
            first_cap_uw=self.first_cap_uw[job],
            mean_cap_uw=mean_cap_uw,
            attempts=self.attempts[job],
            wasted_ns=self.wasted_ns[job],
            timed_out=self.timed_out[job],
        )

    def columns(self) -> JobColumns:
        """Return `facts_of` all jobs."""
        end_ns, start_ns = whole_numbers(self.end_ns), whole_numbers(self.start_ns)
        first_cap_uw = whole_numbers(self.first_cap_uw)
        ran_ns = end_ns - start_ns
        for job, earlier_ns in self._earlier_ns.items():
            ran_ns[job] += earlier_ns
        mean_cap_uw = np.asarray(self.cap_ns, dtype=np.float64) / np.maximum(ran_ns, 1)
        return JobColumns(
            start_ns=start_ns,
            end_ns=end_ns,
            first_size=whole_numbers(self.first_size),
            last_size=whole_numbers(self.last_size),
            resizes=whole_numbers(self.resizes),
            stalled_ns=whole_numbers(self.stalled_ns),
            node_ns=np.asarray(self.node_ns, dtype=np.int64),
            energy_uj=np.asarray([e // FJ_PER_UJ for e in self.energy], dtype=np.int64),
            first_cap_uw=first_cap_uw,
            mean_cap_uw=np.where(ran_ns > 0, mean_cap_uw, first_cap_uw),
            **self._attempt_columns(),
        )

    def _attempt_columns(self) -> dict[str, Any]:
        if not self.counts_attempts:
            return {}
        return {
            "attempts": whole_numbers(self.attempts),
            "wasted_ns": whole_numbers(self.wasted_ns),
            "timed_out": np.frombuffer(self.timed_out, dtype=np.uint8).astype(np.int64),
        }

    def _advance(self, job: int, now_ns: int) -> None:
        self.done[job] = self.done_by(job, now_ns)
        self.since_ns[job] = now_ns

    def _renew_end(self, job: int, now_ns: int) -> None:
        begin_ns = max(self.stalled_until_ns.get(job, 0), now_ns)
        left_ns = math.ceil((1.0 - self.done[job]) * self.total_ns[job])
        self._tickets += 1
        self._ticket[job] = self._tickets
        end_ns = begin_ns + left_ns
        if self._limits_ns is not None:
            end_ns = self._limited_ns(job, end_ns)
        entry = (end_ns, self._order[job], self._tickets, job)
        heapq.heappush(self.ends, entry)


def whole_numbers(values: array[int]) -> Ints:
    """Return an array that owns its numbers."""
    return np.frombuffer(values, dtype=np.int64).copy() if len(values) else np.empty(0, np.int64)
