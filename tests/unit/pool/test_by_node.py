"""Jobs on parts of numbered nodes: speeds, watts and joules of small cases, computed by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from unit.pool.pools import S, Step, W, decision_of, table

from wattfold.coordinator.policies.backfill.easy import EasyScheduler
from wattfold.coordinator.policies.backfill.node_parts import NodeJobInformation
from wattfold.coordinator.policies.port import Decision, Parts, Scheduler, Site
from wattfold.simulator.engine.budget import BudgetSchedule, BudgetStep
from wattfold.simulator.engine.engine import PoolSimulation, SimulationError, simulate
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.machines.node_machine import NodeClass, NodeMachine
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.engine.running_jobs.jobs import JobTable, UnitColumns
from wattfold.simulator.engine.running_jobs.run_times import RunTimeModel

FULL_W = 60 * W


def nodes(count: int, cores: int, **more) -> NodeClass:
    """Nodes with 10 W base power and packages of 20..60 W; an idle node is charged 30 W."""
    name = more.pop("name", f"c{cores}")
    return NodeClass.of_watts(
        name, count, cores, base_w=8, dram_w=2, cap_w_min=20, cap_w_max=60, **more
    )


def machine(*classes: NodeClass) -> NodeMachine:
    return NodeMachine(classes=classes or (nodes(4, 8),))


class Told(Scheduler):
    """Scheduler that makes given decisions at given times and records the nodes each time."""

    name = "told"
    each_event = False
    solver_ns: Sequence[int] = ()

    def __init__(
        self, *steps: Step, look: Callable[[NodeJobInformation], None] | None = None
    ) -> None:
        self._steps = [(round(at * S), list(decisions)) for at, decisions in steps]
        self._look = look

    @property
    def revisit_ns(self) -> int:
        return self._steps[0][0] if self._steps else 0

    def attach(self, jobs: NodeJobInformation) -> None:
        self.jobs = jobs

    def site(self, site: Site) -> None: ...

    def submit(self, job: int, now_ns: int) -> None: ...

    def end(self, job: int, now_ns: int) -> None: ...

    def decide(self, now_ns: int) -> Decision:
        if self._look is not None:
            self._look(self.jobs)
        out: list[tuple[int, int, int] | Parts] = []
        while self._steps and self._steps[0][0] <= now_ns:
            out += self._steps.pop(0)[1]
        return decision_of(out)


def run(jobs: JobTable, *steps: Step, on: NodeMachine | None = None, **options) -> RunRecord:
    on = on or machine()
    budget = options.pop("budget", BudgetSchedule.constant(on.full_uw))
    return simulate(jobs, on, Told(*steps), budget, **options)


def ends(record: RunRecord) -> list[float]:
    return [value / S for value in record.columns.end_ns.tolist()]


def test_two_jobs_share_a_node_and_the_one_that_stays_gets_its_cores_back():
    jobs = table((0, 2, 100), (0, 2, 100))
    record = run(
        jobs,
        (0, [Parts(0, [0, 1], 8, FULL_W)]),
        (20, [Parts(0, [0, 1], 4, FULL_W), Parts(1, [0, 1], 4, FULL_W)]),
        (80, [Parts(1, [0, 1], 2, FULL_W), Parts(0, [0, 1], 6, FULL_W)]),
    )
    # The first: 20 s on all cores, 60 s on half, and the remaining 50 s on three quarters.
    assert ends(record)[0] == pytest.approx(80 + 50 / 0.75)
    # The other: 60 s on half, then a quarter, as the script adds no cores: 70 s of work remain.
    assert ends(record)[1] == pytest.approx(80 + 70 / 0.25)
    assert record.columns.resizes.tolist() == [2, 1]
    assert record.series.nodes_busy.max() == 2


@pytest.mark.parametrize(
    ("model", "wanted_s"),
    [(RunTimeModel.IDEAL, 100 * 16 / 12), (RunTimeModel.WORST_CASE, 100 * 16 / 8)],
)
def test_the_worst_case_follows_the_node_with_least(model: RunTimeModel, wanted_s: float):
    """Eq. 5: 12 of 16 cores. Eq. 6: the minimum of 4 on each of 2 nodes, of 16."""
    record = run(table((0, 2, 100)), (0, [Parts(0, [0, 1], [8, 4], FULL_W)]), model=model)
    assert ends(record) == [pytest.approx(wanted_s)]


def test_half_of_a_small_node_is_worth_half_of_a_large_one():
    on = machine(nodes(1, 16, name="large"), nodes(1, 4, name="small"))
    for model in (RunTimeModel.IDEAL, RunTimeModel.WORST_CASE):
        record = run(
            table((0, 2, 100)), (0, [Parts(0, [0, 1], [8, 2], FULL_W)]), on=on, model=model
        )
        assert ends(record) == [pytest.approx(200)]


def test_power_goes_by_share_and_class():
    on = machine(nodes(2, 8), nodes(2, 4, idle_w=0, name="dark"))
    record = run(
        table((0, 2, 100), (0, 1, 50)),
        (0, [Parts(0, [0, 2], [2, 1], FULL_W), Parts(1, [0], 4, 40 * W)]),
        on=on,
    )
    # 2/8 of 60 - 20 on a node whose idle power of 30 W is charged separately, 1/4 of 70 where idle
    # nodes cost nothing, and 4/8 of 40 - 20; the four idle nodes are charged 2 x 30.
    shares = [10 * W + 17_500_000, 10 * W]
    assert record.series.committed_uw[0] == 60 * W + sum(shares)
    # The job also pays its part of the idle charge: 2/8 of 30 W.
    assert record.columns.energy_uj[0] == (shares[0] + 7_500_000) * 400
    assert record.columns.energy_uj[1] == (shares[1] + 15 * W) * 100
    # 1/4 of each of two nodes for 400 s, and half of a node for 100 s.
    assert record.columns.node_ns.tolist() == [200 * S, 50 * S]


def test_nodes_can_be_given_up_and_gained_while_a_job_runs():
    record = run(
        table((0, 2, 100)),
        (0, [Parts(0, [0, 1], 8, FULL_W)]),
        (50, [Parts(0, [1, 2, 3], [0, 4, 4], FULL_W)]),
        resize_costs=False,
    )
    assert ends(record) == [100]
    assert record.columns.first_size.tolist() == [2]
    assert record.columns.last_size.tolist() == [3]


def test_a_lower_budget_scales_the_caps_of_shared_nodes():
    jobs = table((0, 1, 100), (0, 1, 100))
    on = machine(nodes(2, 8))
    budget = BudgetSchedule(
        steps=(BudgetStep(at_ns=0, budget_uw=140 * W), BudgetStep(at_ns=10 * S, budget_uw=80 * W))
    )
    record = run(
        jobs, (0, [Parts(0, [0], 4, FULL_W), Parts(1, [0], 4, FULL_W)]), on=on, budget=budget
    )
    # 60 W idle leave 20 W for the planned 40 W, so power above the floor is halved.
    assert record.series.committed_uw[:2].tolist() == [100 * W, 80 * W]


def test_unlike_floors_scale_to_what_fits():
    """If power is not linear in caps, the largest feasible fraction is searched for."""
    on = machine(nodes(1, 8), nodes(1, 8, name="other", idle_w=0))
    other = replace(on.classes[1], cap_uw_min=50 * W, idle_uw=0)
    on = NodeMachine(classes=(on.classes[0], other))
    budget = BudgetSchedule(
        steps=(BudgetStep(at_ns=0, budget_uw=140 * W), BudgetStep(at_ns=10 * S, budget_uw=110 * W))
    )
    record = run(table((0, 2, 100)), (0, [Parts(0, [0, 1], 8, FULL_W)]), on=on, budget=budget)
    assert record.series.committed_uw[0] == 140 * W
    assert 109 * W < record.series.committed_uw[1] <= 110 * W


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([Parts(0, [0], 5, FULL_W), Parts(1, [0], 4, FULL_W)], "has 8 cores, of which 9 are held"),
        ([Parts(0, [0, 0], 4, FULL_W)], "listed twice"),
        ([Parts(0, [-1], 4, FULL_W)], "do not exist"),
        ([Parts(0, [4], 4, FULL_W)], "do not exist"),
        ([Parts(0, [0], 0, FULL_W)], "without a core"),
        ([Parts(0, [0], 4, FULL_W), Parts(0, [0], 0, FULL_W)], "without a core"),
    ],
)
def test_what_cannot_be_is_no_decision(parts: list[Parts], said: str):
    with pytest.raises(SimulationError, match=said):
        run(table((0, 1, 10), (0, 1, 10)), (0, parts))


def test_numbers_of_nodes_are_refused_where_they_say_too_little():
    on = machine(nodes(2, 8), nodes(2, 4))
    with pytest.raises(SimulationError, match="although nodes differ"):
        run(table((0, 1, 10)), (0, [(0, 1, FULL_W)]), on=on)


def test_cores_of_a_job_that_ends_in_the_same_instant_may_be_counted_on():
    record = run(
        table((0, 1, 10), (0, 1, 10)),
        (0, [Parts(0, [0], 8, FULL_W)]),
        (10, [Parts(1, [0], 8, FULL_W)]),
    )
    assert ends(record) == [10, 20]


def units(count: int, cores: int, *, memory: int = 0, gpus: int = 0, features=()) -> UnitColumns:
    ones = np.ones(count, dtype=np.int64)
    return UnitColumns(
        cores=ones * cores,
        memory_bytes=ones * memory,
        gpus=ones * gpus,
        features=(tuple(features),) * count,
    )


def test_units_take_memory_and_gpus_of_the_nodes_they_are_on():
    on = machine(nodes(1, 8, memory_bytes=100, gpus=2), nodes(1, 4, name="bare"))
    jobs = replace(table((0, 2, 10), (0, 1, 10)), units=units(2, 2, memory=30, gpus=1))
    seen: list[tuple[bool, ...]] = []

    def look(known: NodeJobInformation) -> None:
        seen.append((known.has_room(1, 0, 2), known.has_room(1, 1, 2), known.suits(1, 1)))

    steps = ((0, [Parts(0, [0], 4, FULL_W)]), (10, [Parts(1, [0], 2, FULL_W)]))
    told = Told(*steps, look=look)
    record = simulate(jobs, on, told, BudgetSchedule.constant(on.full_uw))
    assert record.columns.first_size.tolist() == [2, 1]
    assert seen[0] == (True, False, False)
    with pytest.raises(SimulationError, match="1 GPUs more"):
        run(jobs, (0, [Parts(0, [0], 4, FULL_W), Parts(1, [0], 2, FULL_W)]), on=on)
    with pytest.raises(SimulationError, match="do not suit"):
        run(jobs, (0, [Parts(0, [1], 2, FULL_W)]), on=on)


def test_a_job_that_no_empty_machine_holds_is_refused_before_the_run():
    on = machine(nodes(2, 8, features=("fast",)), nodes(2, 4))
    fits = replace(table((0, 2, 10)), units=units(1, 8, features=("fast",)))
    PoolSimulation(fits, on, Told(), BudgetSchedule.constant(on.full_uw))
    large = replace(table((0, 3, 10)), units=units(1, 8, features=("fast",)))
    with pytest.raises(ValueError, match="holds 2"):
        PoolSimulation(large, on, Told(), BudgetSchedule.constant(on.full_uw))


def test_counting_gives_the_same_by_node_as_on_a_counted_pool():
    jobs = table(*[(k % 977, 1 + k % 10, 5 + k % 71) for k in range(600)])
    counted = Machine.of_watts(10, base_w=8, dram_w=2, cap_w_min=20, cap_w_max=60)
    records = [
        simulate(jobs, on, EasyScheduler(), BudgetSchedule.constant(700 * W))
        for on in (counted, machine(nodes(10, 6)))
    ]
    same_record(*records)


def same_record(one: RunRecord, other: RunRecord) -> None:
    """Compare all fields that both records have.

    Counted nodes have no cores, and attempts only on request.
    """
    compared = 0
    for part in ("columns", "series"):
        values, others = getattr(one, part), getattr(other, part)
        for name in type(values).__slots__:
            mine, theirs = getattr(values, name), getattr(others, name)
            if mine is not None and theirs is not None:
                assert np.array_equal(mine, theirs), name
                compared += 1
    assert compared >= 17
    assert one.energy_uj == other.energy_uj
    assert one.events == other.events


def test_a_level_that_packages_cannot_be_held_at_is_charged_as_their_least():
    on = machine(nodes(1, 8, idle_w=0))
    record = run(table((0, 1, 10)), (0, [Parts(0, [0], 8, 5 * W)]), on=on)
    assert record.series.committed_uw[0] == 30 * W


def test_nodes_with_names_are_charged_no_restarts() -> None:
    said = "only for counted whole nodes, not under"
    with pytest.raises(ValueError, match=said):
        simulate(
            table((0, 1, 10)),
            machine(),
            Told(),
            BudgetSchedule.constant(machine().full_uw),
            restart_ns=S,
        )
