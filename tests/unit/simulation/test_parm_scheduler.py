"""PARM on a pool, decision by decision."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.simulation.parm_pools import JACOBI, Request, S, Shares, W, job_table, parm_on, pool

from wattfold.coordinator.policies.parm.policy import ParmVersion
from wattfold.coordinator.policies.port import Change
from wattfold.simulator.engine.machines.machine import Machine

CAPS = tuple(watts * W for watts in (30, 33, 36, 44, 50, 60))


def test_names() -> None:
    names = [pool([Request()], version=v).scheduler.name for v in ParmVersion]
    assert names == ["parm-wse", "parm-nose", "parm-nomm"]


def test_nothing_to_do() -> None:
    idle = pool([Request()])
    assert idle.decide() == []
    assert list(idle.scheduler.solver_ns) == []
    assert idle.scheduler.revisit_ns == 0


def test_a_lone_job_gets_everything_that_helps() -> None:
    one = pool([Request()], caps_uw=CAPS)
    one.submit(0)
    # LeanMD gets no faster above 52 W: 60 W is enough and 50 W is 2 W short.
    assert one.decide() == [(0, 8, 60 * W)]
    assert one.decide() == []
    assert len(one.scheduler.solver_ns) == 2


def test_of_caps_above_the_greatest_useful_one_the_least_is_taken() -> None:
    one = pool([Request()], caps_uw=(30 * W, 55 * W, 60 * W))
    one.submit(0)
    assert one.decide() == [(0, 8, 55 * W)]


def test_caps_follow_the_profile_unless_given() -> None:
    one = pool([Request()])
    one.submit(0)
    one.decide()
    assert 51.5 < one.caps_w[0] < 52.5


def test_power_above_idle_is_what_jobs_are_charged_with() -> None:
    one = pool([Request(low=4, high=4)], power_w=4 * (36 - 25), caps_uw=CAPS)
    one.submit(0)
    assert one.decide() == [(0, 4, 36 * W)]
    # An idle node without a charge leaves base and DRAM power to the job.
    machine = Machine.of_watts(8, idle_w=0)
    table = job_table([Request(low=4, high=4)])
    scheduler = parm_on(table, machine, caps_uw=CAPS)
    scheduler.attach(Shares(table))
    scheduler.site(machine.site(4 * (36 + 56) * W))
    scheduler.submit(0, 0)
    assert scheduler.decide(0).changes == [Change(0, 4, 36 * W)]


@pytest.mark.parametrize(
    ("variant", "first", "later"),
    [(ParmVersion.WSE, 8, 4), (ParmVersion.NOSE, 8, 8), (ParmVersion.NOMM, 2, 2)],
)
def test_who_may_change_its_size_and_when(variant: ParmVersion, first: int, later: int) -> None:
    two = pool([Request(low=2), Request(low=2, submit_s=1)], version=variant, alpha=0.0)
    two.submit(0)
    two.decide()
    assert two.sizes == {0: first}
    two.submit(1, now_s=1)
    two.decide(1)
    assert two.sizes[0] == later


def test_nomm_may_be_read_as_the_greatest_size() -> None:
    one = pool([Request(low=2)], version=ParmVersion.NOMM, nomm_size="max")
    one.submit(0)
    one.decide()
    assert one.sizes == {0: 8}


@pytest.mark.parametrize("variant", list(ParmVersion))
def test_caps_are_free_while_a_job_runs(variant: ParmVersion) -> None:
    one = pool([Request(low=4, high=4, malleable=False)], version=variant, caps_uw=CAPS)
    one.submit(0)
    one.decide()
    one.give(8, 4 * 11 * W)
    assert one.decide(1) == [(0, 4, 36 * W)]
    one.give(8, 1000 * W)
    assert one.decide(2) == [(0, 4, 60 * W)]


def test_a_job_that_is_not_malleable_keeps_its_size() -> None:
    two = pool([Request(low=2, malleable=False), Request(low=2, submit_s=1)])
    two.submit(0)
    two.decide()
    two.submit(1, now_s=1)
    two.decide(1)
    assert two.sizes == {0: 8}


def test_a_start_is_no_resize_and_a_resize_locks() -> None:
    three = pool([Request(low=2), Request(low=2, submit_s=1), Request(low=2)], alpha=0.0)
    three.submit(0)
    three.decide(0)
    assert three.scheduler.revisit_ns == 0
    three.submit(1, now_s=1)
    three.decide(1)
    assert three.sizes == {0: 4, 1: 4}
    assert three.scheduler.revisit_ns == 501 * S
    three.end(1, now_s=100)
    assert three.decide(100) == []
    assert three.scheduler.revisit_ns == 501 * S
    three.decide(501)
    assert three.sizes == {0: 8}
    assert three.scheduler.revisit_ns == 1001 * S


def test_progress_takes_weight_away() -> None:
    requests = [Request(low=4, malleable=False), Request(low=4, malleable=False)]
    two = pool(requests, alpha=1.0, power_w=4 * (11 + 19), caps_uw=CAPS)
    two.submit(0, 1)
    two.decide()
    for now_s, ahead in ((1, 1), (2, 0)):
        two.shares.of = {ahead: 0.9}
        two.decide(now_s)
        assert two.caps_w == {ahead: 30, 1 - ahead: 50}


def test_priority_adds_weight() -> None:
    two = pool([Request(low=8), Request(low=8, priority=3.0)])
    two.submit(0, 1)
    two.decide()
    assert two.sizes == {1: 8}


def test_a_job_larger_than_the_pool_waits_for_it_to_grow() -> None:
    one = pool([Request(low=6)])
    one.give(4, 1000 * W)
    one.submit(0)
    assert one.decide() == []
    one.give(8, 1000 * W)
    one.decide(1)
    assert one.sizes == {0: 8}


def test_sizes_follow_the_pool() -> None:
    one = pool([Request(low=2)])
    one.submit(0)
    one.decide()
    one.give(5, 1000 * W)
    one.decide(1)
    assert one.sizes == {0: 5}


def test_a_budget_that_no_longer_holds_all_lifts_locks() -> None:
    two = pool([Request(low=2), Request(low=2, submit_s=1)], alpha=0.0, caps_uw=CAPS)
    two.submit(0)
    two.decide()
    two.submit(1, now_s=1)
    two.decide(1)
    assert two.sizes == {0: 4, 1: 4}
    # Job 0 was resized a second ago. At 4 and 2 nodes of 30 W they need 30 W, at 2 and 2 nodes 20
    # W.
    two.give(8, 24 * W)
    two.decide(2)
    assert two.sizes == {0: 2, 1: 2}
    assert two.taken[1] <= 24 * W


def test_jobs_that_cannot_fit_get_their_least_power() -> None:
    three = pool(
        [Request(low=2), Request(low=2, malleable=False), Request(low=2)], caps_uw=CAPS, alpha=0.0
    )
    three.submit(0, 1)
    three.decide()
    before = three.sizes
    three.submit(2)
    three.give(8, 1 * W)
    three.decide(1)
    assert three.runs == {0: (2, 30 * W), 1: (before[1], 30 * W)}
    assert three.decide(2) == []
    three.give(8, 1000 * W)
    three.decide(3)
    assert three.sizes[2] >= 2


def test_a_resize_that_costs_more_than_it_gains_is_left() -> None:
    requests = [Request(low=4, high=5), Request(low=4, high=4, submit_s=1)]
    free, priced = (pool(requests, price_resizes=price) for price in (False, True))
    for one in (free, priced):
        one.submit(0, 1)
        one.decide(1)
        assert one.sizes == {0: 4, 1: 4}
        one.end(1, now_s=600)
        one.shares.of = {0: 0.99}
        one.decide(600)
    assert free.sizes == {0: 5}
    assert priced.sizes == {0: 4}


def test_a_resize_that_gains_more_than_it_costs_is_made() -> None:
    one = pool([Request(low=4, high=8), Request(low=4, high=4)], price_resizes=True)
    one.submit(0, 1)
    one.decide()
    one.end(1, now_s=600)
    one.decide(600)
    assert one.sizes == {0: 8}


@pytest.mark.parametrize("solver", ["lagrangian", "greedy"])
def test_of_equal_jobs_the_one_submitted_first_starts_whenever_it_came_back(solver: str) -> None:
    # Waiting time has no weight, so only the order of the queue counts.
    requests = [Request(high=1), Request(high=1, submit_s=10), Request(high=1, submit_s=20)]
    one = pool(requests, nodes=1, solver=solver, alpha=0.0)
    one.submit(0, now_s=30)
    one.decide(30)
    assert one.sizes == {0: 1}
    one.submit(1, 2, now_s=40)
    one.decide(40)
    # Job 0 has lost its node and is submitted again, behind the others.
    one.end(0, now_s=50)
    one.submit(0, now_s=50)
    one.decide(50)
    assert one.sizes == {0: 1}


DRAMS = tuple(watts * W for watts in (10, 12, 14, 18))


def test_without_levels_dram_keeps_its_standing_cap() -> None:
    one = pool([Request()])
    one.submit(0)
    one.decide()
    assert one.scheduler.dram_model is None
    assert one.dram_cap_uw(0) == 0


def test_dram_power_goes_to_those_whom_it_helps() -> None:
    requests = [Request(low=4, high=4), Request(low=4, high=4, profile=JACOBI)]
    two = pool(requests, dram_levels_uw=DRAMS, caps_uw=CAPS, power_w=4 * (5 - 6 + 19), alpha=0.0)
    two.submit(0, 1)
    two.decide()
    lean, memory_bound = (two.dram_cap_uw(job) for job in (0, 1))
    assert lean < memory_bound
    beyond = [two.runs[job][1] - 25 * W + at - 18 * W for job, at in ((0, lean), (1, memory_bound))]
    assert sum(4 * max(watts, 0) for watts in beyond) <= two.spendable_uw


def test_dram_that_helps_nobody_is_not_given() -> None:
    one = pool([Request(low=4, high=4)], dram_levels_uw=DRAMS, caps_uw=CAPS)
    one.submit(0)
    assert one.decide() == [(0, 4, 60 * W)]
    assert one.dram_cap_uw(0) == 12 * W


def test_a_change_of_dram_alone_is_told() -> None:
    request = Request(low=4, high=4, profile=JACOBI)
    one = pool([request], dram_levels_uw=DRAMS, caps_uw=(37 * W,))
    scheduler = one.scheduler
    scheduler.site(one.machine.site(4 * (37 - 25 + 12 - 18) * W))
    scheduler.submit(0, 0)
    assert scheduler.decide(0).changes == [Change(0, 4, 37 * W, dram_uw=12 * W)]
    scheduler.site(one.machine.site(4 * (37 - 25) * W))
    assert scheduler.decide(1).changes == [Change(0, 4, 37 * W, dram_uw=18 * W)]
    assert not scheduler.decide(2).changes


def test_dram_caps_are_above_what_dram_draws_at_rest() -> None:
    with pytest.raises(ValueError, match="DRAM caps"):
        pool([Request()], dram_levels_uw=(8 * W, 18 * W))


def test_jobs_need_profiles() -> None:
    bare = replace(job_table([Request()]), profiles=())
    with pytest.raises(ValueError, match="profiles"):
        parm_on(bare, Machine.of_watts(4))


@pytest.mark.parametrize("caps", [(), (10 * W, 30 * W), (30 * W, 70 * W)])
def test_caps_are_ones_that_nodes_can_hold(caps: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="caps must lie"):
        parm_on(job_table([Request()]), Machine.of_watts(4), caps_uw=caps)
