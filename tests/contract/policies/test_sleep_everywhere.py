"""With nodes that sleep, every policy starts the same jobs at the same times in all simulators.

They are the counted pool, the nodes by name, and the service with simulated agents (`live`).
Differences that remain have a reason in this file and in the guide.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from unit.pool.pools import S, W, table

from wattfold.coordinator.core.state.state import CoreSettings
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.driver.sleep_plan import SleepRules
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.machines.node_machine import NodeClass, NodeMachine
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.schedulers.named_nodes import node_views
from wattfold.simulator.engine.sleep.site_state import settings_of
from wattfold.simulator.messages.driver import ClusterOptions
from wattfold.simulator.messages.faults import DELAY_NS_MIN, Faults
from wattfold.simulator.messages.meter import MeteredBudget
from wattfold.simulator.messages.run import SimulationInputs, run
from wattfold.simulator.runs.build import simulation_of
from wattfold.simulator.runs.case import PolicyChoice, SimulationCase, SleepCase, WorkloadSource

Starts = npt.NDArray[np.float64]
NODES, CORES = 6, 16
COUNTED = Machine.of_watts(NODES, base_w=20, dram_w=0, cap_w_min=30, cap_w_max=60)
ALIKE = NodeMachine(
    classes=(
        NodeClass.of_watts("n", NODES, CORES, base_w=20, dram_w=0, cap_w_min=30, cap_w_max=60),
    )
)
UNLIKE = NodeMachine(
    classes=(
        NodeClass.of_watts("a", 3, CORES, base_w=20, dram_w=0, cap_w_min=30, cap_w_max=60),
        NodeClass.of_watts("b", 3, CORES, base_w=30, dram_w=0, cap_w_min=30, cap_w_max=70),
    )
)
RULES = SleepRules(
    idle_uw=50 * W,
    asleep_uw=5 * W,
    boot_uw=120 * W,
    boot_ns=60 * S,
    suspend_ns=10 * S,
    boots_max=4,
    # The service does not know when a node became idle, only when it was up. Without a minimum
    # time, both mean the same.
    awake_min_ns=0,
)
WITH_PROFILES = ("parm-wse", "parm-nose", "parm-nomm")
"""Policies whose jobs slow down at lower caps. Caps are lower while nodes fall asleep and begin to
boot, and the service raises them step by step, so jobs may start up to `APART_S` apart."""
APART_S = 15.0
PLANS_AGAIN = {"equipartition", "easy-uniform"}
"""They give each job a share of the power, with each plan. The service and the nodes by name plan
after each change of the power of a node, the counted pool only when a job arrives or ends."""
PROMISES = {"conservative"}
"""It plans the start of every job. The service withdraws starts whose boots would delay planned
starts, and wakes nodes early for them; the counted pool knows no such starts."""


@cache
def jobs(seed: int, profiles: bool, resized: bool = False) -> JobTable:
    """Jobs after all nodes fell asleep. The first job teaches that one spare node suffices."""
    rng, at, rows = random.Random(seed), 1000, [(0, 1, 10)]
    for _ in range(14):
        at += rng.randint(40, 400)
        rows.append((at, rng.randint(1, 4), rng.randint(100, 900)))
    found = table(*rows, app="LeanMD" if profiles else "")
    return replace(found, malleable=np.full(len(rows), resized))


@cache
def pool(
    name: str, machine: Machine | NodeMachine, seed: int, budget_w: int, resized: bool = False
) -> Starts:
    jobs_of = jobs(seed, name in WITH_PROFILES, resized)
    case = SimulationCase(
        source=WorkloadSource(model="lublin", malleable_share=0.0),
        machine=machine,
        budget=BudgetSchedule.constant(budget_w * W),
        policy=PolicyChoice(name=name),
        sleep=SleepCase(rules=RULES),
    )
    simulation = simulation_of(case, jobs_of)
    simulation.run()
    return _seconds(simulation.record().columns.start_ns)


def live(
    name: str, machine: NodeMachine, seed: int, budget_w: int, resized: bool = False
) -> Starts:
    entry = registry.find(name)
    assert entry is not None
    specs = []
    for view in node_views(machine):
        zones = tuple(replace(zone, window_ns=S // 1000) for zone in view.spec.zones)
        specs.append(replace(view.spec, zones=zones))
    sleep = settings_of(RULES, RULES.boot_ns, RULES.boot_uw)
    inputs = SimulationInputs(
        budget=(MeteredBudget(time_ns=0, budget_uw=budget_w * W),),
        cores_per_node=CORES,
        specs=tuple(specs),
        options=ClusterOptions(
            lease_ns=600 * S,
            faults=Faults(delay_ns=10 * DELAY_NS_MIN),
            settings=CoreSettings(check_every=200, sleep=sleep),
            journal=False,
        ),
    )
    policy = entry.service(entry.family.defaults())
    record = run(COUNTED, jobs(seed, name in WITH_PROFILES, resized), policy, inputs)
    assert record.over_budget_ns == 0
    return _seconds(record.columns.start_ns)


def _seconds(start_ns: npt.NDArray[np.int64]) -> Starts:
    # The service begins before the first job, so its nodes sleep when it arrives.
    return start_ns[1:] / 1e9


NAMES = list(dict.fromkeys(entry.variant.simulator_name for entry in registry.entries()))
CASES = ((1, 430), (3, 480))
"""Seed of the jobs and budget in watts: both budgets, and two sets of jobs."""
COUNTED_CASES = tuple((seed, 430 if seed % 2 else 480) for seed in range(1, 9))


@pytest.mark.parametrize("name", NAMES)
def test_named_nodes_start_jobs_when_the_service_does(name: str) -> None:
    apart_s = APART_S if name in WITH_PROFILES else 0.1
    for case in CASES:
        assert np.allclose(pool(name, ALIKE, *case), live(name, ALIKE, *case), rtol=0, atol=apart_s)
        waited_s = pool(name, ALIKE, *case) - jobs(case[0], False).submit_ns[1:] / 1e9
        assert (waited_s >= RULES.boot_ns / 1e9).any(), "a job waits for boots"


@pytest.mark.parametrize("name", NAMES)
def test_unlike_nodes_start_jobs_when_the_service_does(name: str) -> None:
    apart_s = APART_S if name in WITH_PROFILES else 0.1
    # Without ties: `conservative` may let a job wait whose planned end is the planned start of
    # another job. The messages of the service take microseconds, which decide this.
    named, service = pool(name, UNLIKE, 6, 520), live(name, UNLIKE, 6, 520)
    assert np.allclose(named, service, rtol=0, atol=apart_s)


@pytest.mark.parametrize(
    "name", [n for n in NAMES if n not in {*WITH_PROFILES, *PLANS_AGAIN, *PROMISES}]
)
def test_a_counted_pool_starts_jobs_when_named_nodes_do(name: str) -> None:
    for case in COUNTED_CASES:
        counted, named = pool(name, COUNTED, *case), pool(name, ALIKE, *case)
        assert np.allclose(counted, named, rtol=0, atol=0.1), case


@pytest.mark.parametrize("name", sorted({*WITH_PROFILES, *PLANS_AGAIN, *PROMISES}))
def test_the_other_counted_pools_differ(name: str) -> None:
    assert any(
        not np.allclose(pool(name, COUNTED, *case), pool(name, ALIKE, *case), rtol=0, atol=0.1)
        for case in COUNTED_CASES
    )


def test_jobs_that_are_resized_start_apart() -> None:
    """The service restarts a job for another number of nodes; named nodes only move its data."""
    named, service = (how("parm-wse", ALIKE, 1, 480, resized=True) for how in (pool, live))
    assert not np.allclose(named, service, rtol=0, atol=APART_S)
