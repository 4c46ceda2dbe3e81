"""Every policy on a machine whose idle nodes are charged less than their minimum caps."""

from __future__ import annotations

from pathlib import Path

import pytest
from contract.policies.test_frozen_decisions import LIGHT
from unit.workloads import swf_files as swf

from wattfold.contract.units import uw_from_w
from wattfold.coordinator.policies import registry
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.machines.node_machine import NodeClass, NodeMachine
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.runs.case import PolicyChoice, SimulationCase, WorkloadSource
from wattfold.simulator.runs.execute import execute

NODES, WIDE = 32, 23
MACHINE = Machine.of_watts(NODES, idle_w=30)
"""A node at full power is charged 116 W, and 81 W at its minimum cap."""
UNLIKE = NodeMachine(
    classes=(
        NodeClass.of_watts("a", NODES // 2, 4, idle_w=30),
        NodeClass.of_watts("b", NODES // 2, 4, idle_w=20, cap_w_min=30),
    )
)


every_entry = pytest.mark.parametrize(
    "entry", list(registry.entries()), ids=lambda entry: entry.variant.simulator_name
)


@every_entry
@pytest.mark.parametrize("spare_w", [0, 60])
def test_a_job_starts_as_soon_as_it_and_the_idle_nodes_can_be_fed(
    entry: registry.RegisteredPolicy, spare_w: int, tmp_path: Path
) -> None:
    """At 81 W a node, idle nodes would leave power for 11 nodes."""
    if entry.family.needs_profiles:
        pytest.skip("it needs profiles")
    rows = [swf.job(1, 0, f4=100, f5=WIDE, f8=WIDE, f9=100)]
    watts = WIDE * 116 + (NODES - WIDE) * 30 + spare_w
    record = simulated(entry, WorkloadSource(log=swf.log(tmp_path, *rows)), watts)
    assert record.columns.start_ns.tolist() == [0]
    assert record.over_budget_ns == 0


@every_entry
@pytest.mark.parametrize("machine", [MACHINE, UNLIKE], ids=["counted", "by-node"])
def test_no_level_is_below_the_minimum_cap(
    entry: registry.RegisteredPolicy, machine: Machine | NodeMachine
) -> None:
    """A level there would cost less than the node draws, so the plan would exceed the budget."""
    jobs = WorkloadSource(model="poisson", jobs=15, load=3, profiles=True, cut_sizes=True)
    record = simulated(entry, jobs, NODES * 30 + 10 * (116 - 30), machine)
    assert record.over_budget_ns == 0
    assert (record.columns.end_ns > 0).all()
    assert (record.columns.first_cap_uw >= MACHINE.cap_uw_min).all()


def simulated(
    entry: registry.RegisteredPolicy,
    source: WorkloadSource,
    watts: int,
    machine: Machine | NodeMachine = MACHINE,
) -> RunRecord:
    light = tuple((key, value) for key, value in LIGHT.items() if entry.family.setting(key))
    case = SimulationCase(
        source=source,
        machine=machine,
        budget=BudgetSchedule.constant(uw_from_w(watts)),
        policy=PolicyChoice(name=entry.variant.simulator_name, settings=light),
    )
    record = execute(case).record
    assert record is not None
    return record
