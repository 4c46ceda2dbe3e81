"""Simulations of every policy can be stored and resumed: counted, by node and with sleep."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from contract.policies.test_frozen_decisions import LIGHT

from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.driver.sleep_plan import SleepRules
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.machines.node_machine import NodeClass, NodeMachine
from wattfold.simulator.runs.build import jobs_of, simulation_of
from wattfold.simulator.runs.case import PolicyChoice, SimulationCase, SleepCase, WorkloadSource

COUNTED = Machine.of_watts(8)
UNLIKE = NodeMachine(
    classes=(NodeClass.of_watts("a", 4, 1), NodeClass.of_watts("b", 4, 1, cap_w_max=70))
)
SLEEP = SleepCase(
    rules=SleepRules(
        idle_uw=81_000_000,
        asleep_uw=5_000_000,
        boot_uw=116_000_000,
        boot_ns=60_000_000_000,
        suspend_ns=10_000_000_000,
        boots_max=4,
        awake_min_ns=0,
    )
)


@pytest.mark.parametrize(
    ("machine", "sleep"),
    [(COUNTED, None), (UNLIKE, None), (UNLIKE, SLEEP)],
    ids=["counted", "by-node", "asleep"],
)
@pytest.mark.parametrize(
    "entry", list(registry.entries()), ids=lambda entry: entry.variant.simulator_name
)
def test_a_stopped_run_resumes_as_if_it_had_not_been_stopped(
    entry: registry.RegisteredPolicy, machine: Machine | NodeMachine, sleep: SleepCase | None
) -> None:
    light = tuple((key, value) for key, value in LIGHT.items() if entry.family.setting(key))
    case = SimulationCase(
        source=WorkloadSource(
            model="poisson",
            jobs=8,
            load=3.0,
            profiles=entry.family.needs_profiles,
            cut_sizes=True,
        ),
        machine=machine,
        budget=BudgetSchedule.constant((machine.full_uw + machine.idle_total_uw) // 2),
        policy=PolicyChoice(name=entry.variant.simulator_name, settings=light),
        sleep=sleep,
        seed=3,
    )
    table, _ = jobs_of(case)
    if simulation_of(case, table).scheduler.each_event:
        pytest.skip("its runs stop after thousands of events only: unit/pool/test_engine does it")
    whole, stopped = simulation_of(case, table), simulation_of(case, table)
    assert whole.run()
    turns = iter([True, False])
    assert not stopped.run(lambda _: next(turns))
    again = pickle.loads(pickle.dumps(stopped))
    assert again.run()
    for name in ("start_ns", "end_ns", "energy_uj"):
        assert np.array_equal(
            getattr(whole.record().columns, name), getattr(again.record().columns, name)
        )
