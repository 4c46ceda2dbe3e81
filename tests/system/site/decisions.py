"""Decisions of a journal, and decisions of the simulator's pool for the same jobs and ends.

The journal contains the events and the decisions. A core that replays it gives the event at which
each planning round was requested. All earlier events form one instant of the pool.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.adapters.journal.journal import Journal
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.models.pass_model import PassProfile
from wattfold.coordinator.policies.backfill.easy import EasyScheduler
from wattfold.coordinator.policies.parm.scheduler import ParmScheduler
from wattfold.coordinator.policies.parm.settings import ParmRules
from wattfold.coordinator.policies.port import NOTHING, Change, Decision
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.engine import PoolSimulation
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.running_jobs.run_times import RunTimeModel

EARLY_NS = 1000


class Start(NamedTuple):
    """The start of a job; its level in microwatts, its nodes by number."""

    job_id: str
    size: int
    cap_uw: int
    nodes: tuple[int, ...]


@dataclass(slots=True)
class Past:
    """The history of one job.

    Times are those of the first rounds that knew of its events, nanoseconds.
    """

    job_id: JobId
    spec: JobSpec
    seen_ns: int = 0
    started_ns: int = 0
    ended_ns: int = 0


@dataclass(slots=True)
class History:
    """A finished run: its jobs in order of submission, its starts in order of decision."""

    budget_uw: int = 0
    jobs: dict[JobId, Past] = field(default_factory=dict)
    starts: list[Start] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    """Times of the rounds, nanoseconds."""


def history_of(path: Path) -> History:
    """Read the history of a journal, from its first event on."""
    journal, core, found = Journal(path), CoordinatorCore(budget_uw=0), History()
    solved_ns: dict[int, int] = {}
    fresh: list[Past] = []
    over: list[Past] = []
    try:
        for entry in journal.events(after=0):
            event = entry.event
            if isinstance(event, ev.PlanAccepted):
                _take_starts(found, event, solved_ns.get(event.round.number, 0))
            actions = core.handle(event, entry.time_ns)
            if isinstance(event, ev.JobSubmitted):
                past = found.jobs[event.job_id] = Past(event.job_id, event.spec)
                fresh.append(past)
            over += [
                found.jobs[job_id]
                for job_id in core.state.index.news
                if core.state.jobs[job_id].final
            ]
            for action in actions:
                if isinstance(action, act.Solve):
                    solved_ns[action.round] = entry.time_ns
                    found.rounds.append(entry.time_ns)
                    _note(fresh, over, entry.time_ns)
    finally:
        journal.close()
    # After the last end no job waits, and no round is requested.
    _note(fresh, over, entry.time_ns)
    found.budget_uw = core.state.ledger.budget_uw
    return found


def settled(path: Path) -> bool:
    """Whether, by the journal of a running site, nothing is being planned, started or ended now."""
    core = CoordinatorCore(budget_uw=0)
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as journal:
        rows = journal.execute("SELECT time_ns, kind, body FROM events ORDER BY id").fetchall()
    for time_ns, kind, body in rows:
        core.handle(codec.load_event(kind, body), time_ns)
    under_way = (JobState.STARTING, JobState.ENDING)
    return not (
        core.state.solving
        or core.state.plan_needed
        or any(job.state in under_way for job in core.state.jobs.values())
    )


def _note(fresh: list[Past], over: list[Past], now_ns: int) -> None:
    for past in fresh:
        past.seen_ns = now_ns
    for past in over:
        past.ended_ns = now_ns
    fresh.clear()
    over.clear()


def _take_starts(found: History, event: ev.PlanAccepted, now_ns: int) -> None:
    for one in event.starts:
        past = found.jobs[one.job_id]
        # An accepted job without a process is in the next plan as well.
        if not past.started_ns:
            past.started_ns = now_ns
            nodes = tuple(int(share.node_id.removeprefix("n")) for share in one.shares)
            found.starts.append(Start(one.job_id, one.size, one.cap_uw, nodes))


class InRounds(ParmScheduler):
    """PARM that decides only in the rounds of a history.

    Caps change while jobs run, and each change rounds their progress. An end therefore comes
    slightly before the round that knew of it, and counts from that round on.
    """

    def __init__(self, rules: ParmRules, profile: PassProfile) -> None:
        super().__init__(replace(rules, revisits=False))
        self._profile = profile
        self._rounds: list[int] = []

    def follow(self, history: History, table: JobTable) -> JobTable:
        """Set the rounds to decide in, and return the jobs with their profile and slightly earlier
        ends.
        """
        self._rounds = history.rounds
        profiles = (self._profile,) * len(table)
        return replace(table, profiles=profiles, run_ns=table.run_ns - EARLY_NS)

    def decide(self, now_ns: int) -> Decision:
        self.revisit_ns = next((at_ns for at_ns in self._rounds if at_ns > now_ns), 0)
        return super().decide(now_ns) if now_ns in self._rounds else NOTHING


def pool_starts(
    history: History, machine: Machine, scheduler: EasyScheduler | InRounds, strategy: str
) -> list[Start]:
    """Starts in the pool if the same jobs come and end the same time after their starts."""
    jobs = list(history.jobs.values())
    table = _table(jobs)
    if isinstance(scheduler, InRounds):
        table = scheduler.follow(history, table)
    else:
        # As in the service: one decision for all events of a round.
        scheduler.each_event = False
    budget, ideal = BudgetSchedule.constant(history.budget_uw), RunTimeModel.IDEAL
    simulation = _Noting(table, machine, scheduler, budget, placement=strategy, model=ideal)
    simulation.run()
    return [
        Start(jobs[job].job_id, size, cap_uw, simulation.places[job])
        for job, size, cap_uw, *_ in simulation.decided
    ]


class _Noting(PoolSimulation):
    """Records decisions and the resulting nodes."""

    def __init__(self, *parts: Any, **settings: Any) -> None:
        super().__init__(*parts, **settings)
        self.decided: list[Change] = []
        self.places: dict[int, tuple[int, ...]] = {}

    def _apply(self, decision: Decision, now_ns: int) -> bool:
        # A repeated decision on a job only changes its cap.
        changes = cast("Sequence[Change]", decision.changes)
        self.decided += [one for one in changes if one.job not in self._running.jobs]
        return super()._apply(decision, now_ns)

    def _instant(self, now_ns: int, *, revisits: bool) -> None:
        super()._instant(now_ns, revisits=revisits)
        for job, *_ in self.decided:
            if job not in self.places:
                self.places[job] = tuple(sorted(map(int, self.nodes_of(job))))


def _table(jobs: Sequence[Past]) -> JobTable:
    def column(values: list[int]) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    sizes = column([past.spec.size_max for past in jobs])
    return JobTable(
        job_ids=column(list(range(len(jobs)))),
        submit_ns=column([past.seen_ns for past in jobs]),
        size_min=sizes,
        size_max=sizes,
        run_ns=column([past.ended_ns - past.started_ns for past in jobs]),
        estimate_ns=column([past.spec.time_ns for past in jobs]),
        priority=np.array([past.spec.priority for past in jobs]),
        users=np.zeros(len(jobs), dtype=np.int64),
        malleable=np.zeros(len(jobs), dtype=np.bool_),
    )
