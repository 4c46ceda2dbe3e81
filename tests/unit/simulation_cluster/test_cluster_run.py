"""A workload through the service's own core: the record and the effects of faults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from unit.simulation_cluster.small_site import CORES, S, W, table

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.state.state import CoreSettings
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.parm.policy import Parm
from wattfold.coordinator.policies.parm.settings import ParmSettings
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.running_jobs.jobs import JobTable, job_table
from wattfold.simulator.messages.driver import ClusterOptions, SimulatedCluster
from wattfold.simulator.messages.faults import Faults, Incident, IncidentKind
from wattfold.simulator.messages.flight_recorder import BrokenInvariantError
from wattfold.simulator.messages.meter import MeteredBudget
from wattfold.simulator.messages.record import ClusterRecord
from wattfold.simulator.messages.run import SimulationInputs, run
from wattfold.simulator.messages.site import PACKAGE, node_specs
from wattfold.simulator.workloads.annotations import annotate
from wattfold.simulator.workloads.workload import Workload

MACHINE = Machine.of_watts(4)
FULL = (MeteredBudget(time_ns=0, budget_uw=MACHINE.full_uw),)
OPTIONS = ClusterOptions(lease_ns=60 * S, settings=CoreSettings(check_every=1))


def experiment(**fields: Any) -> SimulationInputs:
    chosen: dict[str, Any] = {"budget": FULL, "cores_per_node": CORES, "options": OPTIONS}
    return SimulationInputs(**{**chosen, **fields})


def annotated(seed: int = 3) -> JobTable:
    rng = np.random.default_rng(seed)
    workload = Workload.of_columns(
        submit_s=1000.0 + np.arange(12) * 20,
        run_s=rng.integers(30, 120, 12),
        procs=rng.integers(1, 5, 12),
        status=np.ones(12),
    )
    return job_table(workload, annotate(workload, seed), seed=seed)


def test_rigid_jobs_run_for_their_time_and_queue_for_nodes() -> None:
    record = run(MACHINE, table((500, 4, 100), (510, 2, 50)), FifoEasy(), experiment())
    run_s = (record.columns.end_ns - record.columns.start_ns) / S
    assert run_s.tolist() == pytest.approx([100, 50])
    assert record.columns.start_ns[0] / S == pytest.approx(500, abs=0.1)
    assert record.columns.start_ns[1] / S == pytest.approx(600, abs=0.2)
    assert record.columns.first_size.tolist() == [4, 2]
    assert (record.columns.node_ns / S).tolist() == pytest.approx([400, 100], abs=0.1)
    assert record.unfinished == ()


def test_the_energy_of_the_machine_is_that_of_its_nodes() -> None:
    record = run(MACHINE, table((0, 3, 100)), FifoEasy(), experiment())
    # The job has no profile, so it draws all that its caps allow. One node stays idle.
    busy_w, idle_w = MACHINE.busy_uw(60 * W) / W, MACHINE.idle_uw / W
    assert record.columns.energy_uj[0] / 1e6 == pytest.approx(3 * busy_w * 100, rel=1e-3)
    assert record.energy_uj / 1e6 == pytest.approx((3 * busy_w + idle_w) * 100, rel=1e-3)
    assert record.peak_drawn_uw == round((3 * busy_w + idle_w) * W)


def test_cores_of_a_node_are_a_part_of_it() -> None:
    jobs = table((0, 2, 50), (0, 2, 50))
    record = run(Machine.of_watts(1), jobs, FifoEasy(), experiment(unit=SizeUnit.CORES))
    assert (record.columns.start_ns / S).tolist() == pytest.approx([0, 0], abs=0.1)
    assert (record.columns.node_ns / S).tolist() == pytest.approx([25, 25], abs=0.1)
    assert record.columns.last_size.tolist() == [2, 2]


def _comparable(record: ClusterRecord) -> list[list[Any]]:
    columns = [getattr(record.columns, name) for name in record.columns.__slots__]
    series = [getattr(record.series, name) for name in record.series.__slots__]
    return [column.tolist() for column in (*columns, *series) if column is not None]


def test_the_same_seed_gives_the_same_run_and_another_another() -> None:
    faults = Faults(lose=0.05, late=0.02, double=0.05, delay_ns=300_000_000)
    budget = (MeteredBudget(time_ns=0, budget_uw=MACHINE.idle_total_uw + 80 * W),)
    records = [
        run(
            MACHINE,
            annotated(),
            Parm(ParmSettings(solver="greedy")),
            experiment(budget=budget, options=replace(OPTIONS, seed=seed, faults=faults)),
        )
        for seed in (1, 1, 2)
    ]
    assert _comparable(records[0]) == _comparable(records[1])
    assert _comparable(records[0]) != _comparable(records[2])
    for record in records:
        assert record.peak_bound_uw <= record.peak_committed_uw <= budget[0].budget_uw
        assert record.over_budget_ns == 0
        assert record.unfinished == ()


def test_a_lowered_budget_is_answered_within_its_deadline() -> None:
    low_uw = MACHINE.idle_total_uw + 40 * W
    budget = (*FULL, MeteredBudget(time_ns=150 * S, budget_uw=low_uw, deadline_ns=5 * S))
    record = run(MACHINE, table((100, 4, 100)), FifoEasy(), experiment(budget=budget))
    (response,) = record.responses
    assert response.bound_before_uw == MACHINE.full_uw
    assert S <= response.bound_kept_ns < 2 * S, "one averaging window and a few messages"
    assert 0 < response.drawn_kept_ns < response.bound_kept_ns
    assert record.over_budget_ns == 0
    assert record.drawn_over_budget_ns == response.drawn_kept_ns
    assert response.time_ns == 150 * S


def test_a_deadline_too_short_for_a_window_breaks_the_run() -> None:
    low_uw = MACHINE.idle_total_uw + 40 * W
    budget = (*FULL, MeteredBudget(time_ns=150 * S, budget_uw=low_uw, deadline_ns=S // 2))
    with pytest.raises(BrokenInvariantError, match="budget"):
        run(MACHINE, table((100, 4, 100)), FifoEasy(), experiment(budget=budget))


def test_killed_and_cut_off_parts_come_back_and_every_job_ends() -> None:
    record = run(
        MACHINE,
        annotated(),
        FifoEasy(),
        experiment(
            incidents=(
                Incident(
                    time_ns=1050 * S, kind=IncidentKind.CUT, node_id=NodeId("n0"), for_ns=20 * S
                ),
                Incident(
                    time_ns=1080 * S,
                    kind=IncidentKind.KILL_AGENT,
                    node_id=NodeId("n1"),
                    for_ns=3 * S,
                ),
                Incident(time_ns=1110 * S, kind=IncidentKind.KILL_COORDINATOR, for_ns=4 * S),
            )
        ),
    )
    assert record.unfinished == ()
    assert record.clashes == 0


def test_a_killed_process_ends_its_job_early() -> None:
    incident = Incident(
        time_ns=30 * S, kind=IncidentKind.KILL_JOB, node_id=NodeId("n0"), job_id=JobId("0")
    )
    record = run(MACHINE, table((0, 2, 100)), FifoEasy(), experiment(incidents=(incident,)))
    assert record.columns.end_ns[0] / S == pytest.approx(30, abs=0.1)


def test_a_job_that_never_fits_does_not_keep_a_run_going() -> None:
    record = run(MACHINE, table((0, 1, 10), (0, 5, 10)), FifoEasy(), experiment())
    assert record.unfinished == (1,)
    assert record.columns.end_ns[1] == -1


def test_a_zone_that_breaks_its_word_is_found_and_told_with_the_last_events() -> None:
    cluster = SimulatedCluster(
        node_specs(MACHINE, CORES), FifoEasy(), MACHINE.idle_total_uw, replace(OPTIONS, seed=7)
    )

    def lie() -> None:
        agent = cluster.agents[NodeId("n2")]
        agent.zones[PACKAGE].set_cap(60 * W, cluster.now_ns)
        cluster.truth.touch(agent)

    cluster.clock.at(5 * S, lie)
    with pytest.raises(BrokenInvariantError, match="seed 7") as caught:
        cluster.run(60 * S)
    (note,) = caught.value.__notes__
    assert "NodeConnected" in note
