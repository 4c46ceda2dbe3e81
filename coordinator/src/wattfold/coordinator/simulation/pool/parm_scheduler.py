"""PARM on a pool of whole nodes, with the decision that the service takes (`parm_choice`).

Keeps what does not change between two events: the options of every job, laid out once when it
enters the queue. A round then gathers them, weighs the jobs and solves.

As in the paper, and other than in the service, a malleable job may change its nodes while it runs
(wSE). Its caps are free in all versions. A job that was resized less than the interval ago keeps
its size; its start is no resize. Where the jobs that run do not fit any more (a budget just
lowered), locks are lifted first; if that does not help, every running job gets its option of least
power, and the engine scales caps down to what there is.

Run times are those of the jobs' profiles: users' estimates are not looked at.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from wattfold.contract.units import NS_PER_S, w_from_uw
from wattfold.coordinator.core.job import SizeUnit
from wattfold.coordinator.models.dram_model import DramModel
from wattfold.coordinator.models.pass_model import PassProfile
from wattfold.coordinator.policies import parm_choice
from wattfold.coordinator.policies.parm import Variant
from wattfold.coordinator.policies.parm_choice import Choice, Limits, Solving
from wattfold.coordinator.policies.parm_options import (
    Charge,
    DramLevels,
    Floats,
    Options,
    options_of,
    spaced_caps,
    spaced_sizes,
)
from wattfold.coordinator.policies.parm_stall import stalled, stalls_s
from wattfold.coordinator.policies.scheduler import Decision, DramScheduler, Jobs, Site
from wattfold.coordinator.simulation.pool.jobs import JobTable
from wattfold.coordinator.simulation.pool.machine import Machine

DRAM_MODEL = DramModel()


@dataclass(slots=True, kw_only=True, eq=False)
class _Job:
    """A job in the queue or running; ``size`` 0 = it has not started."""

    job: int
    submitted_ns: int
    priority: float
    malleable: bool
    options: Options
    """All its sizes."""
    size: int = 0
    cap_uw: int = 0
    dram_cap_uw: int = 0
    resized_ns: int = -1
    here: Options | None = None
    """Its present size alone, while it runs."""
    stall_s: Floats | None = None
    """Of each option, from the present size; None until asked for."""


class ParmScheduler(DramScheduler):
    """PARM at work on a pool of like nodes. Decides once for all events of an instant."""

    each_event = False

    def __init__(
        self,
        table: JobTable,
        machine: Machine,
        *,
        variant: Variant = Variant.WSE,
        alpha: float = 0.28,
        sizes_count: int = 8,
        levels_count: int = 6,
        caps_uw: tuple[int, ...] | None = None,
        resize_interval_ns: int = 500 * NS_PER_S,
        gap: float = 1e-3,
        solver: str = "lagrangian",
        deadline_s: float = 20.0,
        nomm_size: Literal["min", "max"] = "min",
        price_resizes: bool = False,
        revisits: bool = True,
        dram_levels_uw: tuple[int, ...] = (),
        dram_model: DramModel = DRAM_MODEL,
    ) -> None:
        """Needs profiles for its jobs.

        ``caps_uw`` is P_j of all jobs; None spaces ``levels_count`` of them by each job's profile.
        ``nomm_size`` is the size that noMM starts jobs with: the paper says both.
        ``revisits``: it is asked again when the first lock ends, as the service is; the published
        evaluation decides only when a job arrives or ends. ``price_resizes`` and
        ``dram_levels_uw`` go beyond it (`parm_stall`, `dram_model`); without levels DRAM keeps its
        standing cap. The other settings are those of `Parm`; all solvers of a round together get
        `parm_choice.SOLVING_SHARE` of ``deadline_s``: 16 s. Raises ValueError for jobs without
        profiles, caps that nodes cannot hold and DRAM caps at or below what DRAM draws at rest.
        """
        if len(table) and not table.profiles:
            raise ValueError("PARM needs the profiles of its jobs: annotate the workload")
        caps = tuple(sorted(set(caps_uw))) if caps_uw is not None else None
        if caps is not None and not (
            caps and machine.cap_uw_min <= caps[0] and caps[-1] <= machine.cap_uw_max
        ):
            raise ValueError(
                f"caps must lie within {w_from_uw(machine.cap_uw_min):g}.."
                f"{w_from_uw(machine.cap_uw_max):g} W, got {_watts(caps)}"
            )
        if dram_levels_uw and not w_from_uw(min(dram_levels_uw)) > dram_model.static_w:
            raise ValueError(
                f"DRAM caps must be above {dram_model.static_w} W, got {_watts(dram_levels_uw)}"
            )
        self._table, self._machine = table, machine
        self._variant, self._alpha = variant, alpha
        self._sizes_count, self._levels_count, self._caps_uw = sizes_count, levels_count, caps
        self._interval_ns = resize_interval_ns
        self._solving = Solving(solver=solver, gap=gap, deadline_s=deadline_s)
        self._nomm_size = nomm_size
        self._price_resizes = price_resizes
        # DRAM caps chosen count as higher package caps: see `parm_options`.
        beyond_uw = max((cap - machine.dram_uw for cap in dram_levels_uw), default=0)
        kind = replace(machine.kind, most_uw=machine.cap_uw_max + max(beyond_uw, 0))
        self._charge = Charge(kinds=(kind,), unit=SizeUnit.NODES)
        self._dram: DramLevels | None = None
        self._dram_model = dram_model
        self._revisits = revisits
        if dram_levels_uw:
            self._dram = DramLevels(
                caps_uw=tuple(sorted(set(dram_levels_uw))),
                standing_uw=machine.dram_uw,
                model=dram_model,
            )
        self._nodes, self._spendable_uw = machine.nodes, 0
        self._jobs: Jobs | None = None
        self._queued: dict[int, _Job] = {}
        self._running: dict[int, _Job] = {}
        self._revisit_ns = 0
        self._solver_ns: list[int] = []

    @property
    def name(self) -> str:
        """``parm-wse``, ``parm-nose`` or ``parm-nomm``."""
        return f"parm-{self._variant.value}"

    @property
    def revisit_ns(self) -> int:
        """The first end of a lock; 0 = none."""
        return self._revisit_ns

    @property
    def solver_ns(self) -> Sequence[int]:
        """Time of each round with jobs: laying out and solving."""
        return self._solver_ns

    def attach(self, jobs: Jobs) -> None:
        """Called once before the first event."""
        self._jobs = jobs

    def site(self, site: Site) -> None:
        """Nodes and power from now on."""
        nodes, self._spendable_uw = site.count, site.spendable_uw
        if nodes == self._nodes:
            return
        self._nodes = nodes
        for one in (*self._running.values(), *self._queued.values()):
            one.options = self._options(one.job, one.size)
            one.here = one.options.of_size(one.size) if one.size else None
            one.stall_s = None

    def submit(self, job: int, now_ns: int) -> None:  # noqa: ARG002 - the table has its time
        """A job enters the queue."""
        self._queued[job] = _Job(
            job=job,
            submitted_ns=int(self._table.submit_ns[job]),
            priority=float(self._table.priority[job]),
            malleable=bool(self._table.malleable[job]),
            options=self._options(job, 0),
        )

    def end(self, job: int, now_ns: int) -> None:  # noqa: ARG002
        """A running job has ended."""
        del self._running[job]

    def decide(self, now_ns: int) -> Sequence[Decision]:
        """Starts, and running jobs whose nodes or cap change."""
        jobs = [*self._running.values(), *self._queued.values()]
        if not jobs:
            self._revisit_ns = 0
            return ()
        began_ns = time.perf_counter_ns()
        offers, choice = self._choose(jobs, now_ns)
        self._solver_ns.append(time.perf_counter_ns() - began_ns)
        if choice.usable:
            picks = zip(jobs, offers, choice.picks.tolist(), strict=True)
            decisions = list(self._taken(picks, now_ns))
        else:
            least = [(o, self._offered(o, now_ns, locks=False)) for o in self._running.values()]
            decisions = list(self._taken([(o, has, has.cheapest) for o, has in least], now_ns))
        if not self._revisits:
            return decisions
        unlocks = (self._locked_until_ns(one) for one in self._running.values())
        self._revisit_ns = min((at for at in unlocks if at > now_ns), default=0)
        return decisions

    @property
    def dram_model(self) -> DramModel:
        """What a DRAM cap does to run times."""
        return self._dram_model

    def dram_cap_uw(self, job: int) -> int:
        """DRAM cap of a node of a running job, microwatts; 0 = the machine's standing cap."""
        return self._running[job].dram_cap_uw

    def _choose(self, jobs: list[_Job], now_ns: int) -> tuple[list[Options], Choice]:
        done = self._done(jobs, now_ns)
        weight = parm_choice.weights(
            [one.options.slowest_s for one in jobs],
            done,
            [(now_ns - one.submitted_ns) / NS_PER_S for one in jobs],
            [one.priority for one in jobs],
            self._alpha,
        )
        must_run = [one.size > 0 for one in jobs]
        limits = Limits(units=self._nodes, power_uw=self._spendable_uw)
        locked = any(self._resizable(one) and self._locked(one, now_ns) for one in jobs)
        deadline = self._solving.deadline()
        for locks in (True, False):
            offers = [
                self._priced(one, self._offered(one, now_ns, locks=locks), share)
                for one, share in zip(jobs, done, strict=True)
            ]
            choice = parm_choice.choose(offers, weight, must_run, limits, self._solving, deadline)
            if choice.usable or not locked:
                break
        return offers, choice

    def _done(self, jobs: list[_Job], now_ns: int) -> list[float]:
        assert self._jobs is not None, "attach comes before the first event"
        return [self._jobs.done(one.job, now_ns) if one.size else 0.0 for one in jobs]

    def _offered(self, one: _Job, now_ns: int, *, locks: bool) -> Options:
        """The options of a job in this round: Eq. 6 where it may not change its size."""
        if one.here is None:
            return one.options.efficient
        if not self._resizable(one) or (locks and self._locked(one, now_ns)):
            return one.here.efficient
        # With a price on changes an option that others beat may be the best: it is the present one.
        return one.options if self._price_resizes else one.options.efficient

    def _priced(self, one: _Job, offered: Options, done: float) -> Options:
        if not self._price_resizes or offered is not one.options or one.size == 0:
            return offered
        if one.stall_s is None:
            # Its data is the memory of as many nodes as it asked for, at any size.
            data_mb = self._machine.data_mb(int(self._table.size_min[one.job]))
            link_mb_per_s = self._machine.link_mb_per_s
            one.stall_s = stalls_s(offered.size, one.size, data_mb, link_mb_per_s)
        return stalled(offered, one.stall_s, done)

    def _taken(self, picks: Iterable[tuple[_Job, Options, int]], now_ns: int) -> Iterable[Decision]:
        """Notes what jobs get, and tells of those that get something else than they have."""
        for one, offered, pick in picks:
            if pick < 0:
                continue
            size, cap_uw = int(offered.size[pick]), int(offered.cap_uw[pick])
            dram_uw = int(offered.dram_cap_uw[pick])
            if (size, cap_uw, dram_uw) == (one.size, one.cap_uw, one.dram_cap_uw):
                continue
            if one.size == 0:
                self._running[one.job] = self._queued.pop(one.job)
            elif size != one.size:
                one.resized_ns = now_ns
            if size != one.size:
                one.here, one.stall_s = one.options.of_size(size), None
            one.size, one.cap_uw, one.dram_cap_uw = size, cap_uw, dram_uw
            yield one.job, size, cap_uw

    def _resizable(self, one: _Job) -> bool:
        return self._variant is Variant.WSE and one.malleable and one.size > 0

    def _locked(self, one: _Job, now_ns: int) -> bool:
        return now_ns < self._locked_until_ns(one)

    def _locked_until_ns(self, one: _Job) -> int:
        return one.resized_ns + self._interval_ns if one.resized_ns >= 0 else 0

    def _options(self, job: int, size_now: int) -> Options:
        least, most = int(self._table.size_min[job]), int(self._table.size_max[job])
        profile = self._table.profiles[job]
        most = min(most, self._nodes)
        if self._variant is Variant.NOMM:
            only = least if self._nomm_size == "min" else int(self._table.size_max[job])
            sizes: tuple[int, ...] = (only,) if only <= self._nodes else ()
        else:
            sizes = spaced_sizes(least, most, self._sizes_count)
        if size_now and size_now not in sizes:
            sizes = tuple(sorted((*sizes, size_now)))
        size_least = max(min(least, self._nodes), 1)
        caps = self._caps(profile)
        return options_of(profile, sizes, caps, size_least, self._charge, self._dram)

    def _caps(self, profile: PassProfile) -> tuple[int, ...]:
        """P_j."""
        if self._caps_uw is not None:
            return self._caps_uw
        low_w, high_w = w_from_uw(self._machine.cap_uw_min), w_from_uw(self._machine.cap_uw_max)
        return spaced_caps(profile, self._levels_count, low_w, high_w)


def _watts(powers_uw: Sequence[int]) -> str:
    """Powers for people."""
    return ", ".join(f"{w_from_uw(power_uw):g} W" for power_uw in powers_uw)
