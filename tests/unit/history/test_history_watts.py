"""Watts that jobs gave up and gained, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.core.stage import Stage, job_spec

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.history.watts import EvenShare, Traded, traded
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.attempt import Attempt
from wattfold.coordinator.core.model.jobs.rank import Rank, RankEnd
from wattfold.coordinator.core.state.state import State

S, W = 1_000_000_000, 1_000_000


@pytest.fixture
def site() -> Stage:
    """Two nodes of four cores, with packages from 10 W to 50 W.

    An idle node is charged 20 W, so 100 W leave 60 W for two ranges of 40 W: the even share is
    three quarters of the range, a cap of 40 W.
    """
    stage = Stage(budget_w=100)
    stage.up("n0", "n1")
    return stage


def state(site: Stage) -> State:
    return site.core.state


def ended(node: str, cores: int, cap_w: float, seconds: int = 100, **spec: object) -> Job:
    end = RankEnd(exit_code=0, cpu_ns=0, energy_uj=0, core_ns=cores * seconds * S)
    return Job(
        job_id=JobId("1"),
        spec=job_spec(**spec),  # type: ignore[arg-type]
        state=JobState.COMPLETED,
        submitted_ns=0,
        ranks={NodeId(node): Rank(node_id=NodeId(node), held=CpuSet(), end=end)},
        capped_ns=seconds * S,
        cap_uw_ns=round(cap_w * W) * seconds * S,
    )


def test_two_jobs_by_hand(site: Stage) -> None:
    # 45 W on a whole node: 35 W above its floor, of 40 W at most, and 30 W at its even share.
    whole = traded(ended("n0", 4, 45), state(site), EvenShare())
    assert whole == Traded(given_up_mj=500_000, gained_mj=500_000, capped_ms=100_000)
    # 20 W on half a node: 5 W above its floor, of 20 W at most, and 15 W at its even share.
    half = traded(ended("n1", 2, 20), state(site), EvenShare())
    assert half == Traded(given_up_mj=1_500_000, gained_mj=0, capped_ms=100_000)


def test_a_requested_cap_is_what_the_job_asked_for(site: Stage) -> None:
    asked = traded(ended("n0", 4, 25, cap_uw=30 * W), state(site), EvenShare())
    assert (asked.given_up_mj, asked.gained_mj) == (500_000, 0)
    beyond = traded(ended("n0", 4, 50, cap_uw=90 * W), state(site), EvenShare())
    assert beyond.given_up_mj == 0, "no node draws more than its maximum"


def test_a_job_without_a_cap_trades_nothing(site: Stage) -> None:
    job = replace(ended("n0", 4, 45), capped_ns=0, cap_uw_ns=0)
    assert traded(job, state(site), EvenShare()) == Traded()


def test_all_attempts_count_on_their_nodes(site: Stage) -> None:
    nodes = (NodeId("n0"), NodeId("n1"), NodeId("gone"))
    before = Attempt(number=1, started_ns=0, ended_ns=0, nodes=nodes, why="", core_ns=1200 * S)
    job = replace(ended("n0", 4, 45), attempts=(before,))
    # 400 core seconds on each known node, as in the last attempt.
    assert traded(job, state(site), EvenShare()).given_up_mj == 3 * 500_000


@pytest.mark.parametrize(("budget_w", "gained_mj"), [(40, 3_500_000), (70, 2_000_000), (500, 0)])
def test_the_even_share_follows_the_budget(site: Stage, budget_w: int, gained_mj: int) -> None:
    even, job = EvenShare(), ended("n0", 4, 45)
    assert traded(job, state(site), even).gained_mj == 500_000
    state(site).ledger.budget_uw = budget_w * W
    assert traded(job, state(site), even).gained_mj == gained_mj
