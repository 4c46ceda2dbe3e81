"""Sleeping nodes by name: boots, failures and lateness by class, and watts."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from pathlib import Path

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.pool.pools import S, W, table

from wattfold.coordinator.core.model.node_power import PowerState
from wattfold.coordinator.core.rules.nodes.decided_sleep import FALLING
from wattfold.coordinator.core.rules.nodes.sleep import darken
from wattfold.coordinator.policies.driver.sleep_plan import SleepRules
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.engine import PoolSimulation
from wattfold.simulator.engine.machines.class_boots import ClassBoots
from wattfold.simulator.engine.machines.machine_file import read_machine
from wattfold.simulator.engine.machines.node_machine import NodeClass, NodeMachine, OutageWindow
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.schedulers.named_nodes import node_views
from wattfold.simulator.engine.sleep.site_state import SiteState
from wattfold.simulator.runs.build import simulation_of
from wattfold.simulator.runs.case import PolicyChoice, SimulationCase, SleepCase, WorkloadSource
from wattfold.simulator.runs.sleep import at_floors

IDLE_W, BOOT_W, BOOT_S = 50, 120, 60
MACHINE = NodeMachine(
    classes=(
        NodeClass.of_watts("a", 2, 8, base_w=20, dram_w=0, cap_w_min=30, cap_w_max=60),
        NodeClass.of_watts("b", 2, 8, base_w=20, dram_w=0, cap_w_min=30, cap_w_max=60),
    )
)
RULES = SleepRules(
    idle_uw=IDLE_W * W,
    asleep_uw=5 * W,
    boot_uw=BOOT_W * W,
    boot_ns=BOOT_S * S,
    suspend_ns=10 * S,
    boots_max=4,
    awake_min_ns=0,
)


def simulation(
    jobs: JobTable,
    machine: NodeMachine = MACHINE,
    *,
    budget_w: float = 400,
    failing: float = 0.0,
    timer_s: int = 0,
) -> PoolSimulation:
    rules = replace(RULES, timer_ns=timer_s * S)
    case = SimulationCase(
        source=WorkloadSource(model="lublin"),
        machine=machine,
        budget=BudgetSchedule.constant(round(budget_w * W)),
        policy=PolicyChoice(name="easy"),
        sleep=SleepCase(rules=rules, failing=failing),
    )
    return simulation_of(case, jobs)


def starts_s(run: PoolSimulation) -> list[int]:
    run.run()
    return [round(ns / S) for ns in run.record().columns.start_ns.tolist()]


ONE_THEN_THREE = table((0, 1, 10), (1000, 3, 10))


def test_a_job_starts_when_the_slowest_class_is_up() -> None:
    assert starts_s(simulation(ONE_THEN_THREE)) == [0, 1000 + BOOT_S]
    slow = replace(MACHINE, boots=(ClassBoots(class_name="b", boot_ns=200 * S),))
    assert starts_s(simulation(ONE_THEN_THREE, slow)) == [0, 1200]


def test_late_boots_delay_a_job() -> None:
    late = ClassBoots(class_name="b", late=1.0, late_ns=30 * S)
    assert starts_s(simulation(ONE_THEN_THREE, replace(MACHINE, boots=(late,)))) == [0, 1090]


def test_a_boot_beyond_twice_its_time_has_failed_and_is_repeated() -> None:
    hopeless = ClassBoots(class_name="b", late=0.9, late_ns=1000 * S)
    run = simulation(ONE_THEN_THREE, replace(MACHINE, boots=(hopeless,)))
    assert starts_s(run)[1] > 1000 + 2 * BOOT_S
    counts = run.record().sleep
    assert counts is not None
    assert counts.failed > 0
    assert counts.boots > counts.failed


def test_boots_of_a_class_draw_its_own_power() -> None:
    energies = []
    for watts in (60, 120):
        boots = (ClassBoots(class_name="b", boot_uw=watts * W),)
        run = simulation(ONE_THEN_THREE, replace(MACHINE, boots=boots))
        run.run()
        energies.append(run.record().energy_uj)
    # One node of the class boots for the job, and one as a spare node while the job runs (10 s).
    assert (energies[1] - energies[0]) / 1e6 == pytest.approx(60 * (BOOT_S + 10))


def test_a_timer_lets_nodes_sleep_after_their_idle_time() -> None:
    jobs = table((0, 4, 10), (50, 1, 10), (1000, 4, 10))
    assert starts_s(simulation(jobs, budget_w=500, timer_s=600)) == [0, 50, 1000 + BOOT_S]
    assert starts_s(simulation(jobs, budget_w=500, timer_s=1200)) == [0, 50, 1000]


@settings(max_examples=examples(60), deadline=None)
@given(
    jobs=st.lists(
        st.tuples(st.integers(0, 900), st.integers(1, 4), st.integers(1, 400)),
        min_size=1,
        max_size=10,
    ),
    budget_w=st.integers(340, 480),
    failing=st.sampled_from([0.0, 0.5]),
    timer_s=st.sampled_from([0, 100]),
)
def test_the_budget_holds_and_all_jobs_end_with_boots_that_fail(
    jobs: list[tuple[int, int, int]], budget_w: int, failing: float, timer_s: int
) -> None:
    boots = ClassBoots(class_name="b", boot_ns=100 * S, late=0.3, late_ns=20 * S)
    machine = replace(MACHINE, boots=(boots,))
    run = simulation(
        table(*sorted(jobs)), machine, budget_w=budget_w, failing=failing, timer_s=timer_s
    )
    run.run()
    record = run.record()
    assert record.over_budget_ns == 0
    assert record.peak_committed_uw <= budget_w * W
    ran_ns = record.columns.end_ns - record.columns.start_ns
    assert (ran_ns >= record.jobs.run_ns).all()


def test_a_run_is_stopped_and_continued_with_the_same_result() -> None:
    rng = random.Random(1)
    jobs = table(*((300.0 * n, rng.randint(1, 4), rng.randint(10, 500)) for n in range(12)))
    whole, parts = (simulation(jobs, failing=0.3) for _ in range(2))
    parts.run(lambda _: False)
    parts = pickle.loads(pickle.dumps(parts))
    assert starts_s(parts) == starts_s(whole)


def test_boots_of_classes_are_read_from_the_machine_file(tmp_path: Path) -> None:
    file = tmp_path / "m.toml"
    text = '[[class]]\nname = "a"\nnodes = 2\ncores = 4\n[[boot]]\nclass = "a"\n'
    file.write_text(text + "boot_s = 90\nboot_w = 200\nfailures = 0.1\nlate = 0.2\nlate_s = 30\n")
    (found,) = read_machine(file).boots
    assert found == ClassBoots(
        class_name="a", boot_ns=90 * S, boot_uw=200 * W, failing=0.1, late=0.2, late_ns=30 * S
    )
    file.write_text(text + "late = 0.2\n")
    with pytest.raises(ValueError, match="late boots need both a share and a time"):
        read_machine(file)
    file.write_text(text.replace('class = "a"', 'class = "x"'))
    with pytest.raises(ValueError, match="boots of class 'x', which does not exist"):
        read_machine(file)


def test_windows_and_low_budgets_are_refused() -> None:
    window = OutageWindow(class_name="a", start_ns=0, end_ns=S, first=0, count=1)
    with pytest.raises(ValueError, match="nodes that sleep have no windows"):
        simulation(ONE_THEN_THREE, replace(MACHINE, windows=(window,)))
    with pytest.raises(ValueError, match="the power of 4 idle nodes and a boot"):
        simulation(ONE_THEN_THREE, budget_w=310)


STATES = [PowerState.AWAKE, *FALLING, PowerState.ASLEEP, PowerState.BOOTING]


@given(st.lists(st.sampled_from(STATES), min_size=4, max_size=4))
@settings(max_examples=examples(40), deadline=None)
def test_plans_see_the_same_nodes_and_power_while_nodes_change(states: list[PowerState]) -> None:
    """A planned start becomes neither later nor earlier because nodes boot or fall asleep now."""
    charged = at_floors(MACHINE)
    specs = [view.spec for view in node_views(charged)]
    site = SiteState(charged, specs, RULES, 800 * W, idle_uw=[IDLE_W * W] * 2)
    before = site.world(1)
    for node, power in zip(site.state.nodes.values(), states, strict=True):
        if power in FALLING:
            node.power = power
        elif power is not PowerState.AWAKE:
            booting = power is PowerState.BOOTING
            darken(site.state, node, (BOOT_W if booting else 5) * W)
            node.power = power
        site.state.index.note_power(node)
    after = site.world(1)
    assert {view.spec.node_id for view in after.nodes} == set(site.nodes)
    assert after.spendable_uw == before.spendable_uw
