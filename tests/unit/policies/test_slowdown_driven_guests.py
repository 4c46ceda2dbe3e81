"""Several guests of one mate, in the service: their number, their share, and returned cores."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.policies.snapshots import held, job, node, reasons, snapshot
from unit.policies.test_slowdown_driven import runs as on_cores
from unit.policies.test_slowdown_driven_nodes import at, cores, planned, runs, whole

from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.core_sharing import CoreSharing
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.models.pass_model import SizeUnit

SHORT = {"resized_s": 50, "done": 0.5}


def lent() -> list[JobView]:
    """A mate that lends two of eight cores to one guest."""
    return [runs("a", "n0:0-5", **SHORT), runs("g", "n0:6-7", started_s=60, time_s=100, done=0.1)]


def test_a_second_guest_takes_what_the_factor_leaves() -> None:
    seen = at([*lent(), whole("b", 1)], 1)
    assert "b" in reasons(planned(seen))
    for factor, lends in ((0.5, 2), (0.75, 4)):
        plan = planned(seen, guests=2, sharing_factor=factor)
        sizes = {one.job_id: len(one.shares[0].cpus) for one in plan.assignments}
        assert sizes == {"a": 6 - lends, "g": 2, "b": lends}
    assert "b" in reasons(planned(seen, guests=2, sharing_factor=0.25))


def test_no_more_guests_than_were_said() -> None:
    third = runs("h", "n0:4", started_s=70, time_s=100, done=0.1)
    owner = runs("a", "n0:0-3", **SHORT)
    seen = at([owner, lent()[1], third, whole("b", 1)], 1)
    assert "b" in reasons(planned(seen, guests=2, sharing_factor=0.9))
    assert "b" in cores(planned(seen, guests=3, sharing_factor=0.9))


def test_a_guest_is_no_mate() -> None:
    """A guest with fewer cores than requested is no mate, even for jobs that came after it."""
    seen = at([*lent(), whole("b", 1)], 1)
    plan = planned(seen, guests=9, sharing_factor=0.9)
    assert cores(plan)["g"] == {"n0": "6-7"}


def test_a_job_that_is_short_for_another_reason_lends_nothing() -> None:
    blocked = replace(node("n0", 8), blocked=node("n0", 8).spec.cpus.take(1))
    alone = runs("a", "n0:1-7", **SHORT)
    seen = snapshot([blocked], [alone, whole("b", 1)], now_s=100)
    assert "b" in reasons(planned(seen, guests=4))


def test_who_has_all_that_its_kind_of_node_gives_is_not_short() -> None:
    """Mate m accepts 8 cores and n0 has them, but m already has all cores of a node of its kind."""
    nodes = [node("n0", 8), node("n1", 4)]
    first = job("a", 8, 8, current=held("a", "n0:0-7", total_s=1000), started_s=0, time_s=1000)
    mate = job("m", 1, 8, current=held("m", "n1:0-3", total_s=1000), started_s=0, time_s=1000)
    seen = snapshot(nodes, [first, mate, job("b", 1, 2, time_s=10)], now_s=100)
    plan = planned(seen)
    assert cores(plan)["m"] == {"n1": "0-1"}
    assert cores(plan)["b"] == {"n1": "2-3"}


def test_cores_come_back_one_guest_at_a_time() -> None:
    owner, guest = lent()
    later = runs("h", "n0:4-5", started_s=70)
    left = planned(at([replace(owner, current=owner_on("0-3")), later], 1), guests=2)
    assert cores(left) == {"a": {"n0": "0-3,6-7"}, "h": {"n0": "4-5"}}
    both = planned(at([replace(owner, current=owner_on("0-3"))], 1), guests=2)
    assert cores(both) == {"a": {"n0": "0-7"}}
    # The owner has ended: the first guest gets all free cores.
    assert cores(planned(at([guest, later], 1), guests=2)) == {
        "g": {"n0": "0-3,6-7"},
        "h": {"n0": "4-5"},
    }


def owner_on(cpus: str) -> Assignment:
    return replace(held("a", f"n0:{cpus}", total_s=2000), size=1)


def test_a_job_on_cores_has_several_guests_too() -> None:
    owner = on_cores("a", "n0:0-5", resized_s=50)
    owner = replace(owner, spec=replace(owner.spec, size_max=8))
    guest = on_cores("g", "n0:6-7", started_s=60)
    guest = replace(guest, spec=replace(guest.spec, size_max=8))
    seen = at([owner, guest, job("b", 1, 8, time_s=10, submitted_s=90)], 1)
    assert "b" in reasons(planned(seen))
    sizes = {a.job_id: a.size for a in planned(seen, guests=2).assignments}
    assert sizes == {"a": 4, "g": 2, "b": 2}


def crowd(seed: int) -> list[JobView]:
    """Owners of nodes with some guests each, and many waiting jobs."""
    rng = random.Random(seed)
    jobs: list[JobView] = []
    for number in range(3):
        taken = rng.randint(0, 4)
        guests = rng.randint(1, taken) if taken else 0
        least = rng.choice([1, 1, 3])
        had = {"resized_s": 50, "done": 0.5} if taken else {}
        jobs.append(runs(f"o{number}", f"n{number}:0-{7 - taken}", tasks_per_node=least, **had))
        edges = (
            [8 - taken, *sorted(rng.sample(range(9 - taken, 8), guests - 1)), 8] if guests else []
        )
        for index in range(guests):
            place = f"n{number}:{edges[index]}-{edges[index + 1] - 1}"
            jobs.append(
                runs(f"g{number}{index}", place, started_s=60 + index, time_s=100, done=0.1)
            )
    kinds = [JobKind.MALLEABLE, JobKind.MOLDABLE]
    for index in range(6):
        size = rng.randint(1, 3)
        jobs.append(
            job(
                f"w{index}",
                size,
                size,
                unit=SizeUnit.NODES,
                sharing=CoreSharing.BOTH,
                kind=rng.choice(kinds),
                time_s=rng.choice([1, 5, 20]),
                submitted_s=90,
            )
        )
    return jobs


@settings(max_examples=examples(150))
@given(
    seed=st.integers(0, 10**9),
    guests=st.integers(1, 4),
    factor=st.sampled_from([0.25, 0.5, 0.75]),
)
def test_owners_keep_what_the_factor_and_their_tasks_leave_them(
    seed: int, guests: int, factor: float
) -> None:
    jobs = crowd(seed)
    seen = at(jobs, 3)
    plan = planned(seen, guests=guests, sharing_factor=factor, max_slowdown=1e6)
    views, taken = {view.job_id: view for view in jobs}, set[tuple[str, int]]()
    there: dict[str, list[str]] = {}
    for one in plan.assignments:
        view, before = views[one.job_id], views[one.job_id].current
        for share in one.shares:
            mine = {(share.node_id, cpu) for cpu in share.cpus.cpus}
            assert taken.isdisjoint(mine)
            taken |= mine
            there.setdefault(share.node_id, []).append(one.job_id)
            assert len(share.cpus) >= view.spec.tasks_per_node
            if before and len(share.cpus) < len(before.on(share.node_id)):
                assert one.job_id.startswith("o"), "only owners lend"
                assert 8 - len(share.cpus) <= factor * 8
    for node_id, names in there.items():
        new = [name for name in names if views[name].current is None]
        assert len(new) <= 1 or not any(name.startswith("o") for name in names), node_id
        if new:
            assert len(names) - 1 <= guests


def test_these_crowds_have_second_guests() -> None:
    more = sum(
        len(planned(at(crowd(seed), 3), guests=4).assignments)
        > len(planned(at(crowd(seed), 3)).assignments)
        for seed in range(60)
    )
    assert more > 10


@pytest.mark.parametrize("seed", range(20))
def test_one_guest_is_as_before(seed: int) -> None:
    seen = at(crowd(seed), 3)
    assert planned(seen, guests=1) == planned(seen)
