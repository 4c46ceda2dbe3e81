"""The timeline against a search over all times, and windows as spans."""

from __future__ import annotations

import random

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.policies.snapshots import job, node

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.reservation import Reservation, Windows
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.backfill import timeline as module
from wattfold.coordinator.policies.backfill.promises import TimedRequest
from wattfold.coordinator.policies.backfill.timeline import Need, Timeline

NODES = [node(f"n{i}", cores, gpus=2) for i, cores in enumerate((4, 4, 6, 3))]


def need(rng: random.Random) -> Need:
    whole = rng.random() < 0.4
    drawn = np.array([rng.choice([5, 5, 9]) for _ in NODES])
    count = rng.randint(1, 3) if whole else 1
    return Need(
        count=count,
        cores=0 if whole else rng.randint(1, 5),
        alone=whole or rng.random() < 0.2,
        power_uw=drawn,
        least_uw=int(drawn.min()) * count,
        able=np.array([rng.random() < 0.8 for _ in NODES]) if rng.random() < 0.3 else None,
        gpus=rng.choice([0, 0, 0, 1, 2]),
        until_ns=rng.choice([2**63 - 1, 2**63 - 1, 60]),
    )


@pytest.mark.parametrize("tries", [0, 6])
@settings(max_examples=examples(150))
@given(seed=st.integers(0, 10**9))
def test_the_earliest_place_is_the_first_of_all_times(tries: int, seed: int) -> None:
    rng = random.Random(seed)
    table = Timeline(NODES, 25, 10, [rng.randint(0, 90) for _ in range(4)], amounts=True)
    kept = []
    for number in range(rng.randint(3, 25)):
        asked = TimedRequest(number, need(rng), rng.randint(1, 40), None)
        from_ns, before_ns = rng.randint(10, 50), rng.choice([None, None, 70])
        module.TRIES, before = tries, module.TRIES
        try:
            found = table.earliest(asked, asked.takes_ns, from_ns, before_ns)
        finally:
            module.TRIES = before
        times = [from_ns, *table.moments(from_ns, 10_000)]
        places = (
            table.at(asked, time, time + asked.takes_ns)
            for time in times
            if before_ns is None or time < before_ns
        )
        first = next((place for place in places if place is not None), None)
        assert (found and found.start_ns) == (first and first.start_ns)
        if found is not None:
            table.take(found)
            kept.append((asked, found))
        if kept and rng.random() < 0.2:
            table.give_back(kept.pop(rng.randrange(len(kept)))[1])
    check(kept)


def check(kept: list[tuple[TimedRequest[Need], module.NodesHold]]) -> None:
    """Check that reservations never exceed a node or the power."""
    for time in {hold.start_ns for _, hold in kept}:
        cores, gpus, owners, power = [0] * 4, [0] * 4, [0] * 4, 0
        alone = set()
        for asked, hold in kept:
            if not hold.start_ns <= time < hold.end_ns:
                continue
            power += hold.power_uw
            for column in hold.columns:
                cores[column] += asked.need.cores or len(NODES[column].spec.cpus)
                gpus[column] += asked.need.gpus
                owners[column] += 1
                alone |= {column} if asked.need.alone else set()
        assert power <= 25
        assert max(gpus) <= 2
        assert all(used <= len(n.spec.cpus) for used, n in zip(cores, NODES, strict=True))
        assert all(owners[column] == 1 for column in alone)


@given(seed=st.integers(0, 10**9))
def test_spans_say_what_windows_say(seed: int) -> None:
    rng = random.Random(seed)
    names = [view.spec.node_id for view in NODES]
    windows = Windows(
        Reservation(
            name=f"r{number}",
            nodes=tuple(rng.sample(names, rng.randint(1, 3))),
            start_ns=(start := rng.randint(0, 60)),
            end_ns=start + rng.randint(1, 60),
            queue=rng.choice(["", "blue"]),
            maintenance=rng.random() < 0.3,
        )
        for number in range(rng.randint(0, 3))
    )
    fields = {"queue": rng.choice(["", "blue"]), "reservation": rng.choice(["", "", "r0", "gone"])}
    spec, takes = job("a", 1, 1, unit=SizeUnit.NODES, **fields).spec, rng.randint(1, 50)
    spans = windows.closed(spec, takes, names)
    for time in range(130):
        shut = {n for span in spans if span.from_ns <= time < span.to_ns for n in span.nodes}
        for name in names:
            assert (NodeId(name) not in shut) == windows.open(spec, name, time, time + takes)
