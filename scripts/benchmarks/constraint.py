#!/usr/bin/env python3
"""Measure plans for 10,000 waiting jobs against the plan in order of walltime.

Jobs of units wait for 64 heterogeneous nodes of 16 cores: half of them have two GPUs, and half have
twice the memory. Queues promise three waiting times. There are three kinds of queues: all jobs
different, arrays of a hundred equal jobs, and few wide jobs among many small jobs. A measurement is
a whole call of `constraint` in the service, with all views, once its lists are compiled. Targets: 5
s of CPU time, and at most 0.85 of the objective of the list by walltime (published: a loss on 700
jobs, 2441 against 854).

    scripts/benchmarks/constraint.py [--waiting 10000] [--seeds 2]
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from unittest import mock

from wattfold.contract.ids import JobId
from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.plan import JobView, Plan, Snapshot
from wattfold.coordinator.core.model.queue import Waits
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.constraint import search as constraint_search
from wattfold.coordinator.solvers.lists import planner
from wattfold.coordinator.solvers.lists.arrays import arrays_of
from wattfold.coordinator.solvers.lists.choice import lister
from wattfold.coordinator.solvers.lists.problem import QueuePlan, QueueProblem
from wattfold.simulator.engine.machines.node_machine import NodeClass
from wattfold.simulator.engine.schedulers.named_nodes import node_view
from wattfold.simulator.runs.schedulers import ready_of

CPU_S, SHARE = 5.0, 0.85
GIB = 1 << 30
HOUR_S = 3600
WAITS_S = (1800, 6 * HOUR_S, 24 * HOUR_S)
KINDS = ("different", "arrays", "wide among small")
ARRAY = 100
NODES = 16
"""Number of nodes in each of the four classes."""


def asked(kind: str, chance: random.Random) -> dict[str, int]:
    """Resources of a job, its run time and its promised wait."""
    wide = kind == "wide among small" and chance.random() < 0.05
    gpus = int(chance.random() < 0.2)
    return {
        "units": chance.randint(8, 32) if wide else chance.randint(1, 4),
        "cores": 16 if wide else chance.choice([1, 1, 2, 4, 8]),
        "gpus": 0 if wide else gpus,
        "memory": chance.choice([1, 2, 8]) * GIB,
        "takes_s": chance.choice([300, 900, HOUR_S, 4 * HOUR_S, 12 * HOUR_S]),
        "wait_s": chance.choice(WAITS_S),
    }


def waiting(kind: str, count: int, seed: int) -> Snapshot:
    """All jobs wait, submitted over a day; no job runs."""
    chance = random.Random(seed)
    classes = [
        NodeClass.of_watts(
            f"c{number}",
            NODES,
            16,
            memory_bytes=memory * GIB,
            gpus=gpus,
            base_w=60.0,
            cap_w_min=50.0,
            cap_w_max=190.0,
        )
        for number, (memory, gpus) in enumerate([(16, 0), (32, 0), (16, 2), (32, 2)])
    ]
    views, one = list[JobView](), dict[str, int]()
    for number in range(count):
        if kind != "arrays" or number % ARRAY == 0:
            one = asked(kind, chance)
        spec = JobSpec(
            name=f"j{number}",
            app="app",
            argv=("run",),
            kind=JobKind.RIGID,
            unit=SizeUnit.UNITS,
            size_min=one["units"],
            size_max=one["units"],
            unit_cores=one["cores"],
            gpus=one["gpus"],
            memory_bytes=one["memory"],
            spread=Spread.ANY,
            time_ns=one["takes_s"] * NS_PER_S,
        )
        wait_ns = one["wait_s"] * NS_PER_S
        view = JobView(
            job_id=JobId(str(number)),
            spec=spec,
            submitted_ns=number * 24 * HOUR_S * NS_PER_S // count,
            current=None,
            done=0.0,
            started_ns=-1,
            resized_ns=-1,
            profile=None,
            waits=Waits(wait_ns, wait_ns),
        )
        views.append(view)
    return Snapshot(
        now_ns=24 * HOUR_S * NS_PER_S,
        budget_uw=10**12,
        reserved_uw=0,
        nodes=tuple(
            node_view(f"{one.name}-{at}", one, one) for one in classes for at in range(one.count)
        ),
        jobs=tuple(views),
    )


def called(seen: Snapshot) -> tuple[Plan, QueueProblem, float, float]:
    """A whole call: its plan, its problem, CPU and wall seconds."""
    entry = registry.find("constraint")
    assert entry is not None
    posed: list[QueueProblem] = []

    def noted(problem: QueueProblem, *more: object) -> QueuePlan:
        posed.append(problem)
        return planner.planned(problem, *more)  # type: ignore[arg-type]

    policy = entry.service({})
    with mock.patch.object(constraint_search, "planned", noted):
        began_s, began_cpu_s = time.perf_counter(), time.thread_time()
        plan = policy.propose(seen, seen.now_ns, 10.0)
        cpu_s, wall_s = time.thread_time() - began_cpu_s, time.perf_counter() - began_s
    return plan, posed[0], cpu_s, wall_s


def by_walltime(problem: QueueProblem) -> float:
    """The objective of the list in order of walltime."""
    arrays = arrays_of(problem)
    found = planner.baselines(lister(arrays), arrays)
    return next(one.objective for one in found if one.maker == planner.PBS_WALLTIME)


def main(arguments: Sequence[str]) -> int:
    """Print a table. Return 1 if a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args(arguments)
    ready = ready_of("constraint")
    assert ready is not None
    ready()
    met = True
    print("10,000 waiting" if given.waiting == 10_000 else f"{given.waiting} waiting")
    print(f"{'jobs':18} seed     CPU    wall  starts  objective  of walltime order's")
    for kind in KINDS:
        for seed in range(given.seeds):
            plan, problem, cpu_s, wall_s = called(waiting(kind, given.waiting, seed))
            share = plan.objective / by_walltime(problem)
            held = cpu_s <= CPU_S and share <= SHARE
            met = met and held
            print(
                f"{kind:18} {seed:4} {cpu_s:6.2f}s {wall_s:6.2f}s {len(plan.assignments):7} "
                f"{plan.objective:10.4g}  {share:.2f} by {plan.solver}{'' if held else '  MISSED'}"
            )
    print(f"target: {CPU_S:g} s of CPU, at most {SHARE} of walltime order's objective")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
