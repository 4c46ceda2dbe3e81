#!/usr/bin/env python3
"""Measure the worker's CPU time for a planning round after one submission, with many jobs.

CPU time of this process is measured, so that other work on the machine counts little. All nodes are
in use, and jobs of different sizes and estimates wait. Each round follows one submission. The time
of a round includes all its calls: the calls that update the copy, piece by piece, and the planning
call with its answer. The bytes of the answer are counted, and the core accepts the plan. The first
round brings all waiting jobs to the copy and builds their options, as after a start of the worker.
It is shown separately.

    scripts/benchmarks/rounds.py [--waiting 10000] [--nodes 16 200] [--policy NAME ...] [--json]

Target: every round within 1 s, the first included, under all policies that do not search for a plan
of the whole queue (`constraint` does, within its deadline). Exits with status 1 if it is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pickle
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from nodes import S, W, coming_up

from wattfold.contract.ids import Epoch, JobId, NodeId
from wattfold.coordinator.adapters.beside import Beside
from wattfold.coordinator.adapters.copies.replica_feed import ReplicaFeed, for_planning
from wattfold.coordinator.adapters.planning import Proposal, propose
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec
from wattfold.coordinator.core.model.plan import PlanningRound
from wattfold.coordinator.core.state.changes import Changes
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies import registry
from wattfold.coordinator.solvers.worker import CallResult, Success
from wattfold.coordinator.solvers.worker_process import collect_seldom

CORES = 16
WATTS_EACH = 85
"""Budget per node: too little for all nodes, of 50 W base power and 40 to 100 W package power."""
ROUNDS = 12
ROUND_MS_MAX = 1000.0
POLICIES = (
    "parm-wse",
    "fifo-easy",
    "easy-uniform",
    "conservative",
    "pbs-walltime",
    "slowdown-driven",
    "equipartition",
    "edf",
)
"""The policies of the service, of which one stands for others that differ in settings only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Rounds on one site: CPU time in ms, bytes of an answer."""

    policy: str
    nodes: int
    sizes_in: str
    waiting: int
    running: int
    first_ms: float
    first_calls: int
    median_ms: float
    longest_ms: float
    answer_bytes: int
    at_most_ms: float

    @property
    def held(self) -> bool:
        """Whether the target was met."""
        return max(self.first_ms, self.longest_ms) <= self.at_most_ms


class Worker:
    """A worker in this process.

    It times all calls since `begin` and counts the bytes of the last answer.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Reset the counters for another round."""
        self.ms = 0.0
        self.calls = 0
        self.bytes = 0

    async def call(
        self, function: Callable[..., Any], *args: object, deadline_s: float
    ) -> CallResult:
        del deadline_s
        sent = pickle.dumps((function, args), protocol=pickle.HIGHEST_PROTOCOL)
        began_ns = time.process_time_ns()
        called, arguments = pickle.loads(sent)
        answer = pickle.dumps(called(*arguments), protocol=pickle.HIGHEST_PROTOCOL)
        self.ms += (time.process_time_ns() - began_ns) / 1e6
        self.calls += 1
        self.bytes = len(answer)
        return Success(value=pickle.loads(answer))


class Site:
    """A core with nodes and jobs, and its clock."""

    def __init__(self, nodes: int, sizes_in: SizeUnit, policy: str) -> None:
        entry = registry.find(policy)
        assert entry is not None, f"there is no policy {policy}"
        self.policy = entry.service({})
        self.core = CoordinatorCore(nodes * WATTS_EACH * W)
        self.worker = Worker()
        self.feed = ReplicaFeed(self.worker, lambda: self.core.state, for_planning)
        self.sizes_in = sizes_in
        self.now_ns = 0
        self.number = 0
        self.rng = random.Random(nodes)
        self.send(ev.CoordinatorStarted(epoch=Epoch(1), lease_ns=10 * S, command_timeout_ns=2 * S))
        self.nodes = nodes
        for index in range(nodes):
            for event in coming_up(NodeId(f"n{index}"), CORES, 35 * W):
                self.send(event)

    def send(self, event: ev.Event) -> None:
        """Handle an event and start the jobs that it launches."""
        self.now_ns += 10_000
        actions = self.core.handle(event, self.now_ns)
        changes = Changes()
        changes.add(self.core.state, event, self.core.touched, actions)
        self.feed.note(changes)
        for action in actions:
            if isinstance(action, act.Launch):
                self.send(reports.JobLaunched(node_id=action.node_id, job_id=action.job_id, pid=1))

    def submit(self) -> None:
        self.number += 1
        rng, whole = self.rng, self.sizes_in is SizeUnit.NODES
        least = rng.randint(1, 4)
        spec = JobSpec(
            name=str(self.number),
            app=f"app{rng.randrange(20)}",
            argv=("run",),
            unit=self.sizes_in,
            kind=rng.choice((JobKind.MOLDABLE, JobKind.MALLEABLE)),
            size_min=least,
            size_max=least + rng.randint(1, self.nodes // 2 if whole else CORES - 4),
            time_ns=rng.randint(600, 36_000) * S,
        )
        job_id = JobId(str(self.number))
        self.send(ev.JobSubmitted(job_id=job_id, spec=spec, key=spec.name))

    def round(self) -> float:
        """Plan a round, which the core accepts, and return its time in the worker, ms."""
        self.now_ns += S
        self.worker.begin()
        asked = self.feed.ask(propose, lambda _: (self.policy, self.now_ns, Beside(), 60.0), 60.0)
        result = asyncio.run(asked)
        assert isinstance(result, Success)
        proposal: Proposal = result.value
        assert "fallback" not in proposal.plan.outcome
        taken_ms, state = self.worker.ms, self.core.state
        if not state.solving:
            state.plan_needed = "again"
            self.send(ev.TimePassed())
        record = PlanningRound(
            number=state.solving, policy="", solver="", outcome="", jobs=0, solve_ns=0
        )
        self.send(ev.PlanProposed(plan=proposal.plan, round=record))
        return taken_ms


def main() -> int:
    arguments = _arguments()
    collect_seldom()  # As the process of the worker does.
    rows = [
        _measure(nodes, sizes_in, arguments.waiting, policy)
        for policy in arguments.policy
        for nodes in arguments.nodes
        for sizes_in in (SizeUnit.NODES, SizeUnit.CORES)
    ]
    if arguments.json:
        print(json.dumps([asdict(row) | {"held": row.held} for row in rows], indent=2))
    else:
        _print(rows)
    return 0 if all(row.held for row in rows) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, nargs="+", default=[16, 200])
    parser.add_argument("--policy", nargs="+", default=POLICIES)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


def _measure(nodes: int, sizes_in: SizeUnit, waiting: int, policy: str) -> Row:
    site = Site(nodes, sizes_in, policy)
    for _ in range(nodes * 4):
        site.submit()
    for _ in range(3):
        site.round()
    for _ in range(waiting):
        site.submit()
    first_ms = site.round()
    first_calls = site.worker.calls
    taken_ms, answers = [], []
    for _ in range(ROUNDS):
        site.submit()
        taken_ms.append(site.round())
        answers.append(site.worker.bytes)
    running = len(site.core.state.placed())
    return Row(
        policy=policy,
        nodes=nodes,
        sizes_in=sizes_in.value,
        waiting=site.core.state.open_jobs - running,
        running=running,
        first_ms=first_ms,
        first_calls=first_calls,
        median_ms=statistics.median(taken_ms),
        longest_ms=max(taken_ms),
        answer_bytes=round(statistics.median(answers)),
        at_most_ms=ROUND_MS_MAX,
    )


def _print(rows: list[Row]) -> None:
    load = f"{os.cpu_count()} cpus, load {os.getloadavg()[0]:.1f}"
    print(f"Rounds; CPU time in the worker, ms; {load}")
    print(
        f"{'policy':<16}{'nodes':>6}{'sizes in':>10}{'waiting':>9}{'running':>9}"
        f"{'first':>10}{'calls':>7}{'median':>10}{'longest':>10}{'answer kB':>11}"
    )
    for row in rows:
        print(
            f"{row.policy:<16}{row.nodes:>6}{row.sizes_in:>10}{row.waiting:>9,}{row.running:>9}"
            f"{row.first_ms:>10.0f}{row.first_calls:>7}"
            f"{row.median_ms:>10.1f}{row.longest_ms:>10.1f}"
            f"{row.answer_bytes / 1e3:>11.1f}"
            f"  at most {row.at_most_ms:g}: {'met' if row.held else 'MISSED'}"
        )


if __name__ == "__main__":
    raise SystemExit(main())
