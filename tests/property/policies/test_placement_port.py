"""The service and the pool choose the same whole nodes through one port."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.policies.snapshots import faults, held, job, node, snapshot

from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.beside import Beside
from wattfold.coordinator.adapters.placing import PlacementSettings, Placing, placing
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.plan import Snapshot
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.placement.choice import STATELESS
from wattfold.coordinator.policies.placement.selector import Strategy, joined
from wattfold.coordinator.policies.placement.strategies import node_selector
from wattfold.coordinator.policies.resources.room import Room

SIDES = (4, 3, 2)
COUNT = math.prod(SIDES)
NAMES = [NodeId(f"n{number}") for number in range(COUNT)]
WHOLE = {"unit": SizeUnit.NODES, "kind": JobKind.RIGID}


def place_of(number: int) -> tuple[int, ...]:
    return tuple(int(at) for at in np.unravel_index(number, SIDES))


def placed(seen: Snapshot, strategy: Strategy) -> Snapshot:
    """The snapshot with the node order that the service adds for its policies."""
    chosen = PlacementSettings(strategy=strategy, torus=SIDES)
    found = placing(chosen, [(name, place_of(number)) for number, name in enumerate(NAMES)])
    return Beside(placing=found).told(seen)


def numbers(shares: tuple[Share, ...]) -> list[int]:
    return [NAMES.index(share.node_id) for share in shares]


@pytest.mark.parametrize("strategy", STATELESS)
@settings(max_examples=examples(60))
@given(seed=st.integers(0, 10**9))
def test_a_room_gives_the_nodes_that_a_pool_gives(strategy: Strategy, seed: int) -> None:
    """After any earlier allocations, and for any order of the nodes in the service."""
    rng = random.Random(seed)
    views = [node(name) for name in NAMES]
    if strategy is not Strategy.FIRST:
        rng.shuffle(views)
    room = Room(placed(snapshot(views, []), strategy).nodes, 0)
    pool = node_selector(strategy, COUNT, SIDES)
    running: list[tuple[tuple[Share, ...], object]] = []
    for _ in range(25):
        if running and rng.random() < 0.4:
            shares, nodes = running.pop(rng.randrange(len(running)))
            room.give_back(shares, 0, alone=True)
            pool.give_back(nodes)
            continue
        size = rng.randint(1, 9)
        found = room.find(job("a", size, size, **WHOLE).spec, size)
        if found is None:
            assert pool.free < size
            continue
        nodes = pool.take(size)
        assert numbers(found) == sorted(int(one) for one in joined(nodes, pool.take(0)))
        room.take(found, 0, alone=True)
        running.append((found, nodes))


def alone(number: int) -> Assignment:
    return replace(held(f"r{number}", f"n{number}:0-3"), size=1)


SERVICE = [entry for entry in registry.entries() if entry.variant.service is not None]


@pytest.mark.parametrize("entry", SERVICE, ids=lambda entry: entry.variant.name)
@pytest.mark.parametrize(
    ("strategy", "given"),
    [
        (Strategy.FIRST, [1, 3, 4, 5]),
        (Strategy.COMPACT, [3, 4, 5, 6]),
        # A square of the torus, with two nodes on each of two of its sides.
        (Strategy.CUBOID, [8, 9, 10, 11]),
    ],
)
def test_every_policy_starts_jobs_on_the_nodes_of_the_strategy(
    entry: registry.RegisteredPolicy, strategy: Strategy, given: list[int]
) -> None:
    """Nodes 0, 2 and 7 are taken: 1 is free between two, followed by 3 to 6, then 8 and up."""
    views = [node(name) for name in NAMES]
    taken = [
        job(f"r{number}", 1, 1, current=alone(number), started_s=0, **WHOLE) for number in (0, 2, 7)
    ]
    seen = placed(snapshot(views, [*taken, job("w", 4, 4, **WHOLE)], budget_w=55 * COUNT), strategy)
    plan = entry.service({}).propose(seen, seen.now_ns, 10.0)
    assert faults(plan, seen) == []
    [started] = [one for one in plan.assignments if one.job_id == "w"]
    assert numbers(started.shares) == given


def test_a_node_without_a_place_comes_last() -> None:
    views = [node("new"), *(node(name) for name in NAMES[:3])]
    spots = Placing(strategy="compact", numbers={name: n for n, name in enumerate(NAMES)})
    room = Room(Beside(placing=spots).told(snapshot(views, [])).nodes, 0)
    spec = job("a", 3, 3, **WHOLE).spec
    assert [share.node_id for share in room.find(spec, 3) or ()] == NAMES[:3]
    assert len(room.find(spec, 4) or ()) == 4


def test_without_a_strategy_nothing_is_told() -> None:
    seen = snapshot([node(name) for name in NAMES], [])
    assert placed(seen, Strategy.FIRST) is seen
