"""Jobs that are held back for cheaper hours, under every policy that simulations can run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from contract.policies.test_frozen_decisions import COUNTED, LIGHT
from unit.workloads.swf_files import job, log

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.models.energy_price import EnergyPrice
from wattfold.coordinator.models.training_cost import Tariff
from wattfold.coordinator.policies import registry
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.engine import simulate
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.machines.node_machine import NodeMachine
from wattfold.simulator.engine.price_holds import held_until_ns
from wattfold.simulator.engine.prices import Prices
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.runs.build import jobs_of, simulation_of
from wattfold.simulator.runs.case import PolicyChoice, SimulationCase, WorkloadSource
from wattfold.simulator.runs.schedulers import machine_of, scheduler_of

JOBS = WorkloadSource(model="lublin", jobs=24, gamma=0.4, profiles=True, cut_sizes=True)
HOLD_NS = 4 * 3600 * NS_PER_S
DAY = EnergyPrice((0.0, 3 * 3600.0, 18 * 3600.0), (0.3, 0.1, 0.3), daily=True)
"""Expensive when the first jobs are submitted, in the first hours of 1970."""


def case_of(entry: registry.RegisteredPolicy) -> SimulationCase:
    light = tuple((key, value) for key, value in LIGHT.items() if entry.family.setting(key))
    return SimulationCase(
        source=JOBS,
        machine=COUNTED,
        budget=BudgetSchedule.constant((2 * COUNTED.full_uw + COUNTED.idle_total_uw) // 3),
        policy=PolicyChoice(name=entry.variant.simulator_name, settings=light),
        seed=2,
    )


def ran(case: SimulationCase) -> RunRecord:
    simulation = simulation_of(case, jobs_of(case)[0])
    simulation.run()
    return simulation.record()


@pytest.mark.parametrize(
    "entry", list(registry.entries()), ids=lambda entry: entry.variant.simulator_name
)
def test_jobs_are_held_by_prices_that_change_and_by_no_others(
    entry: registry.RegisteredPolicy,
) -> None:
    case = case_of(entry)
    held = replace(case, prices=Prices(tariff=Tariff(price=DAY)), price_hold_ns=HOLD_NS)
    found, table = ran(held), jobs_of(held)[0]
    until_ns = held_until_ns(table, DAY, HOLD_NS)
    assert (until_ns > table.submit_ns).any()
    assert (until_ns <= table.submit_ns + HOLD_NS).all()
    assert (found.columns.start_ns >= until_ns).all()
    assert (found.columns.end_ns > 0).all()
    flat = replace(held, prices=Prices(tariff=Tariff(price=EnergyPrice.constant(0.2))))
    free = ran(case)
    for name in ("start_ns", "end_ns", "energy_uj"):
        assert np.array_equal(getattr(ran(flat).columns, name), getattr(free.columns, name)), name


@pytest.mark.parametrize("by_node", [False, True])
def test_a_held_job_waits_behind_the_jobs_of_its_time(tmp_path: Path, by_node: bool) -> None:
    """As in the service, the wait of a job counts from the time at which it may start."""
    swf = log(tmp_path, *(job(number, number, f5=1, f8=1) for number in range(3)))
    machine = Machine(nodes=1)
    case = SimulationCase(
        source=WorkloadSource(log=swf),
        machine=NodeMachine.of_counted(machine) if by_node else machine,
        budget=BudgetSchedule.constant(machine.full_uw),
        policy=PolicyChoice(name="pbs-fifo" if by_node else "fcfs"),
    )
    table = jobs_of(case)[0]
    begin_ns = table.submit_ns + np.array([0, 50, 0]) * NS_PER_S
    found = simulate(
        table, machine_of(case), scheduler_of(case, table), case.budget, begin_ns=begin_ns
    )
    assert (found.columns.start_ns // NS_PER_S).tolist() == [0, 200, 100]
