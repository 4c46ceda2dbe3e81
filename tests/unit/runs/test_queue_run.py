"""The present queue of a site, run to its end: exact starts, and equal columns for no change."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulation.cluster import S, W
from unit.runs.present_queue import (
    FLOOR_W,
    FULL_W,
    NODES,
    NOW_NS,
    mixed,
    queue,
    running,
    waiting,
)

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.jobs.conditions import Dependency, StartConditions
from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.policies import registry
from wattfold.simulator.runs.queue_run import QueueRun, run_queue
from wattfold.simulator.runs.site_queue import BudgetAt, QueuedJob, with_nodes

CLOSE_S = 2.0
"""Messages between the core and the simulated agents take time, and power its averaging window."""


def policy(name: str) -> Policy:
    entry = registry.find(name)
    assert entry is not None
    return entry.service({})


def starts_s(run: QueueRun) -> dict[str, float | None]:
    """Starts from now on."""
    return {
        str(job): None if times.start_ns is None else (times.start_ns - NOW_NS) / S
        for job, times in run.times.items()
    }


def ends_s(run: QueueRun) -> dict[str, float]:
    return {
        str(job): (times.end_ns - NOW_NS) / S
        for job, times in run.times.items()
        if times.end_ns is not None
    }


def near(seconds: float) -> object:
    return pytest.approx(seconds, abs=CLOSE_S)


@pytest.mark.parametrize("name", registry.service_names())
def test_an_unchanged_budget_gives_two_equal_columns(name: str) -> None:
    before = mixed()
    after = replace(before, budget_uw=before.budget_uw)
    one, two = run_queue(before, policy(name)), run_queue(after, policy(name))
    assert one == two
    assert not one.unseated
    assert one.times.keys() == {job.job_id for job in before.jobs}
    started = [times for times in one.times.values() if times.start_ns is not None]
    assert all(times.end_ns is not None for times in started)
    assert one.energy_uj > 0


def test_running_jobs_keep_their_starts_and_end_as_expected() -> None:
    run = run_queue(queue(running("a", 0), running("b", 2, seconds=5000)), policy("fifo-easy"))
    assert starts_s(run) == {"a": -300, "b": -300}
    assert ends_s(run) == {"a": near(900), "b": near(4700)}
    assert run.last_end_ns / S == near(7200 + 4700)


def test_waiting_jobs_start_when_nodes_become_free() -> None:
    jobs = running("a", 0), running("b", 1), running("c", 2, seconds=2000)
    run = run_queue(queue(*jobs, waiting("wide", 3), waiting("short", 1, 700)), policy("fifo-easy"))
    found = starts_s(run)
    assert found["wide"] == near(1700)
    assert found["short"] == near(900), "it ends before the wide job can start"


def test_a_job_past_its_estimate_gets_another_step() -> None:
    run = run_queue(
        queue(running("late", 0, seconds=600, ran_s=630, over_s=30)), policy("fifo-easy")
    )
    assert ends_s(run)["late"] == near(30), "it may take a minute more than its estimate"


def test_a_lower_budget_delays_and_a_job_that_never_fits_never_starts() -> None:
    jobs = running("a", 0), waiting("one", 1), waiting("wide", 3)
    before = run_queue(queue(*jobs), policy("fifo-easy"))
    two_full = 2 * FULL_W + FLOOR_W
    after = run_queue(queue(*jobs, budget_w=two_full), policy("fifo-easy"))
    assert starts_s(before)["wide"] == near(900)
    assert starts_s(after)["one"] == near(0)
    assert starts_s(after)["wide"] is None
    assert after.energy_uj < before.energy_uj


def test_new_nodes_start_more_jobs_and_closed_nodes_fewer() -> None:
    base = queue(running("a", 0), waiting("wide", 3), budget_w=5 * FULL_W)
    assert starts_s(run_queue(with_nodes(base, 1), policy("fifo-easy")))["wide"] == near(0)
    closed = with_nodes(base, -1)
    assert [node.closed for node in closed.nodes] == [False, False, True]
    assert starts_s(run_queue(closed, policy("fifo-easy")))["wide"] is None


def test_nodes_with_jobs_are_closed_last() -> None:
    base = queue(running("a", 2), waiting("one"))
    assert [node.closed for node in with_nodes(base, -2).nodes] == [True, True, False]
    with pytest.raises(ValueError, match="4 nodes cannot be closed: 3 nodes take jobs"):
        with_nodes(base, -4)


def test_new_nodes_are_as_most_nodes_are() -> None:
    odd = replace(NODES[0], node_id=NodeId("new-1"), base_power_uw=1)
    base = queue()
    base = replace(base, nodes=(replace(base.nodes[0], spec=odd), *base.nodes[1:]))
    new = with_nodes(base, 2).nodes[3:]
    assert [node.spec.node_id for node in new] == ["new-2", "new-3"]
    assert {node.spec.base_power_uw for node in new} == {NODES[1].base_power_uw}


def test_a_budget_below_the_floors_is_refused() -> None:
    with pytest.raises(ValueError, match="50 W for these nodes are below 57 W"):
        run_queue(queue(waiting("one"), budget_w=50), policy("fifo-easy"))
    with pytest.raises(ValueError, match="no node is up"):
        run_queue(queue(waiting("one"), nodes=()), policy("fifo-easy"))


def _after(job: QueuedJob, other: str) -> QueuedJob:
    return replace(
        job, conditions=StartConditions(after=(Dependency(job_id=JobId(other), success=True),))
    )


def test_conditions_of_the_start_hold() -> None:
    begin = StartConditions(begin_ns=NOW_NS + 5000 * S)
    run = run_queue(
        queue(
            running("a", 0),
            _after(waiting("then"), "a"),
            waiting("later", conditions=begin),
            waiting("held", held=True),
        ),
        policy("fifo-easy"),
    )
    found = starts_s(run)
    assert found["then"] == near(900)
    assert found["later"] == near(5000)
    assert found["held"] is None


def test_an_announced_budget_takes_effect() -> None:
    jobs = waiting("one", 1, 7200), waiting("wide", 3, 600)
    plain = run_queue(queue(*jobs), policy("fifo"))
    assert starts_s(plain)["wide"] == near(7200)
    ahead = (BudgetAt(at_ns=NOW_NS + 3600 * S, budget_uw=2 * FULL_W * W),)
    assert starts_s(run_queue(queue(*jobs, announced=ahead), policy("fifo")))["wide"] is None


def test_maintenance_keeps_nodes_free() -> None:
    window = Reservation(
        name="down",
        nodes=tuple(node.node_id for node in NODES),
        start_ns=NOW_NS + 300 * S,
        end_ns=NOW_NS + 3000 * S,
        maintenance=True,
    )
    jobs = waiting("long", 1, 600), waiting("short", 1, 200)
    run = run_queue(queue(*jobs, reservations=(window,)), policy("fifo-easy"))
    assert starts_s(run) == {"long": near(3000), "short": near(0)}


def test_a_suspended_job_keeps_its_node_and_the_run_ends() -> None:
    still = running("still", 0)
    assert still.seat is not None
    still = replace(still, seat=replace(still.seat, suspended=True))
    run = run_queue(queue(still, waiting("two", 2), waiting("wide", 3)), policy("fifo-easy"))
    found = starts_s(run)
    assert "still" not in ends_s(run)
    assert run.stopped_ns < NOW_NS + 86_400 * S, "the next event may be a renewal of a lease"
    assert (found["two"], found["wide"]) == (near(0), None)


def test_a_time_limit_ends_a_running_job() -> None:
    job = running("a", 0, seconds=4000, limit_ns=1000 * S)
    assert ends_s(run_queue(queue(job), policy("fifo-easy")))["a"] == near(700)


def test_a_job_whose_place_is_impossible_is_named() -> None:
    twice = running("a", 0), running("b", 0)
    run = run_queue(queue(*twice), policy("fifo-easy"))
    assert run.unseated == ("b",)
    assert starts_s(run)["b"] == near(0)


def test_progress_is_reported() -> None:
    told: list[int] = []
    run_queue(mixed(), policy("fifo-easy"), told.append)
    assert told == [1, 2, 3, 4, 5, 6]
