"""Waiting jobs in order, and their columns, for all arrivals, departures and changes."""

from __future__ import annotations

import random

import numpy as np
from unit.policies.parm_tables import options_of

from wattfold.coordinator.models.pass_model import APPLICATIONS, SizeUnit
from wattfold.coordinator.policies.parm.choice import Ages, OptionTable
from wattfold.coordinator.policies.parm.entry import ParmJob
from wattfold.coordinator.policies.parm.options import Charge, NodeKind
from wattfold.coordinator.policies.parm.queue import RUN_MAX, ParmQueue, ages_of
from wattfold.coordinator.policies.port import SizeRequest

W = 1_000_000
NODES = Charge(kinds=(NodeKind(cores=1, floor_uw=25 * W, most_uw=100 * W),), unit=SizeUnit.NODES)
TABLES = [
    options_of(APPLICATIONS["LeanMD"], sizes, (30 * W, 44 * W), 1, NODES)
    for sizes in ((1,), (1, 2), (2, 4, 8))
]


def entry(job: int, rng: random.Random) -> ParmJob:
    ask = SizeRequest(1, 8, rng.choice([1.0, 2.0]), rng.randint(0, 5))
    return ParmJob(job=job, ask=ask, done=rng.random(), profiles=(), options=rng.choice(TABLES))


def test_the_columns_are_those_of_the_jobs_in_order_of_submission() -> None:
    rng = random.Random(3)
    queue = ParmQueue()
    there: dict[int, ParmJob] = {}
    for job in range(3 * RUN_MAX):
        there[job] = entry(job, rng)
        queue.add(there[job])
    check(queue, there)
    for job in range(3 * RUN_MAX, 3 * RUN_MAX + 12):
        gone, changed = rng.sample(list(there), 2)
        del there[gone]
        queue.pop(gone)
        queue.pop(gone)
        check(queue, there)
        there[changed].done = rng.random()
        there[changed].options = rng.choice(TABLES)
        queue.touch(changed)
        queue.touch(gone)
        check(queue, there)
        there[job] = entry(job, rng)
        queue.add(there[job])
        check(queue, there)
    for job in list(there):
        queue.pop(job)
        del there[job]
    assert list(queue) == []
    assert len(queue) == 0
    assert queue.columns() == ([], [])


def check(queue: ParmQueue, there: dict[int, ParmJob]) -> None:
    order = sorted(there.values(), key=lambda one: (one.ask.submitted_ns, one.job))
    assert [one.job for one in queue] == [one.job for one in order]
    assert len(queue) == len(order)
    assert all(one.job in queue for one in order)
    offers, ages = queue.columns()
    assert max(part.counts.size for part in offers) <= RUN_MAX
    same(OptionTable.joined(offers), OptionTable.of([one.table.efficient for one in order]))
    same(Ages.joined(ages), ages_of(order, [one.done for one in order]))


def same(left: object, right: object) -> None:
    for name, column in vars(left).items():
        other = getattr(right, name)
        assert (column is None and other is None) or np.array_equal(column, other), name


def test_some_jobs_of_the_columns() -> None:
    every = OptionTable.of([*TABLES, TABLES[1]])
    same(every.only(np.asarray([False, True, False, True])), OptionTable.of([TABLES[1]] * 2))
    same(every.only(np.zeros(4, dtype=np.bool_)), OptionTable.of([]))
