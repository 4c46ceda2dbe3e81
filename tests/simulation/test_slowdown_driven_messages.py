"""Slowdown-driven with the core and simulated agents, with lost messages."""

from __future__ import annotations

from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.runs.case import (
    MessageLevel,
    PolicyChoice,
    SimulationCase,
    WorkloadSource,
)
from wattfold.simulator.runs.execute import execute


def run(policy: str, sizes_in: str = "cores", nodes: int = 2, gamma: float = 0.05) -> RunRecord:
    machine = Machine.of_watts(nodes)
    case = SimulationCase(
        source=WorkloadSource(model="lublin", jobs=60, gamma=gamma, cut_sizes=True, profiles=True),
        machine=machine,
        budget=BudgetSchedule.constant(machine.full_uw),
        policy=PolicyChoice(name=policy),
        messages=MessageLevel(sizes_in=sizes_in, lose=0.02),
    )
    record = execute(case).record
    assert record is not None
    return record


def test_jobs_lend_cores_and_wait_less_whatever_messages_are_lost() -> None:
    """The cluster checks at every instant that no core is used twice and the budget holds."""
    easy, shared = run("easy"), run("slowdown-driven")
    assert shared.columns.resizes.sum() > 0
    assert easy.columns.resizes.sum() == 0
    assert (shared.columns.end_ns > 0).all()
    waits = [(r.columns.start_ns - r.jobs.submit_ns).mean() for r in (easy, shared)]
    assert waits[1] < waits[0]


def test_jobs_on_whole_nodes_lend_cores_of_all_of_them_whatever_messages_are_lost() -> None:
    shared = run("slowdown-driven", "nodes", 6, 0.01)
    assert shared.columns.resizes.sum() > 0
    assert (shared.columns.end_ns > 0).all()
