"""Training jobs on a pool: times, watts, joules and euros of small cases, computed by hand."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from unit.pool.pools import S, Step, W
from unit.pool.test_by_node import Told, ends
from unit.pool.training_pools import CURVE, MACHINE, TIMES, jobs

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.jobs.spec import JobKind, ResizeMode
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.levels import Levels
from wattfold.coordinator.core.model.plan import Plan, Policy, Preemption, Snapshot, Waiting
from wattfold.coordinator.models.energy_price import EnergyPrice
from wattfold.coordinator.models.gpu_curve import GpuCurve
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.models.training_cost import Tariff
from wattfold.coordinator.policies.parm.policy import Parm
from wattfold.coordinator.policies.parm.settings import ParmSettings
from wattfold.coordinator.policies.port import Parts
from wattfold.simulator.engine.budget import BudgetSchedule, BudgetStep
from wattfold.simulator.engine.engine import PoolSimulation, SimulationError
from wattfold.simulator.engine.prices import Prices
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.engine.running_jobs import progress
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.schedulers.named_scheduler import NamedPolicyScheduler
from wattfold.simulator.engine.trainings.training_table import training_table
from wattfold.simulator.results.metrics import metrics_of

CAP = 60 * W
UNIT = 4
FULL = BudgetSchedule.constant(MACHINE.full_uw)
PRICES = Prices(tariff=Tariff(price=EnergyPrice.constant(3.6)), late_eur_h=3600.0)
"""Price: a kilojoule costs 0.001 EUR."""
RESTART = progress.PreemptionRule(restart_ns=5 * S)


def made(
    table: JobTable, *steps: Step, prices: Prices = PRICES, budget: BudgetSchedule = FULL
) -> PoolSimulation:
    return PoolSimulation(table, MACHINE, Told(*steps), budget, preemption=RESTART, prices=prices)


def run(table: JobTable, *steps: Step, prices: Prices = PRICES) -> RunRecord:
    simulation = made(table, *steps, prices=prices)
    simulation.run()
    return simulation.record()


def one(**more) -> JobTable:
    return training_table(jobs(0, **more), TIMES, MACHINE)


@pytest.mark.parametrize(
    ("node", "units", "wanted_s"), [(0, 1, 100), (0, 2, 60), (2, 1, 200)], ids=str
)
def test_a_job_takes_its_epochs_where_it_is(node: int, units: int, wanted_s: float) -> None:
    record = run(one(), (0, [Parts(0, [node], units * UNIT, CAP)]))
    assert ends(record) == [wanted_s]


def test_energy_is_of_host_gpus_at_work_and_idle_ones_and_idle_nodes_are_told_apart() -> None:
    record = run(one(), (0, [Parts(0, [0], UNIT, CAP)]))
    costs = metrics_of(record)
    # Half of the packages' 40 W above 30 W, one V100 at 250 W and one idle V100, for 100 s.
    assert costs.energy_eur == pytest.approx((30 + 20 + 250 + 40) * 100 / 1e6)
    assert costs.idle_eur == pytest.approx((30 + 2 * 40 + 30 + 10) * 100 / 1e6)
    assert record.energy_uj == pytest.approx((340 + 150) * 100 * W)
    # The idle machine is charged the minimum limits of its GPUs; a job adds the rest up to the
    # maximum.
    idle_uw = (3 * 30 + 4 * 100 + 60) * W
    assert record.series.committed_uw.tolist() == [idle_uw + (20 + 150) * W, idle_uw]


def test_energy_costs_what_it_costs_when_it_is_drawn_and_pue_comes_on_top() -> None:
    price = EnergyPrice((0.0, 40.0, 90.0), (3.6, -3.6, 7.2))
    prices = Prices(tariff=Tariff(price=price, pue=1.5))
    record = run(one(), (0, [Parts(0, [0], UNIT, CAP)]), prices=prices)
    assert metrics_of(record).energy_eur == pytest.approx(1.5 * 340 * (40 - 50 + 20) / 1e6)


def test_tardiness_costs_its_weight_an_hour() -> None:
    table = training_table(jobs(0, 0, due_s=80, weight=2.5), TIMES, MACHINE)
    both = [Parts(0, [0], UNIT, CAP), Parts(1, [1], 2 * UNIT, CAP)]
    costs = metrics_of(run(table, (0, both)))
    assert costs.jobs_overdue == 1
    assert costs.tardiness_s_total == 20
    assert costs.tardiness_eur == pytest.approx(2.5 * 20)
    assert costs.total_eur == costs.energy_eur + costs.tardiness_eur


def test_jobs_without_a_due_date_are_never_late() -> None:
    assert metrics_of(run(one(), (0, [Parts(0, [2], UNIT, CAP)]))).tardiness_eur == 0


@pytest.mark.parametrize(("every", "kept"), [(1, 2), (2, 2), (3, 0)])
def test_another_place_starts_a_job_again_from_its_last_whole_snapshot(
    every: int, kept: int
) -> None:
    table = one(snapshot_epochs=every)
    moves = [Parts(0, [0, 1], [0, 2 * UNIT], CAP)]
    record = run(table, (0, [Parts(0, [0], UNIT, CAP)]), (25, moves))
    columns = record.columns
    assert ends(record) == [pytest.approx(25 + 5 + (10 - kept) * 6)]
    assert columns.attempts is not None
    assert columns.wasted_ns is not None
    assert columns.attempts.tolist() == [2]
    assert columns.wasted_ns.tolist() == [pytest.approx((2.5 - kept) * 10 * S)]
    assert columns.stalled_ns.tolist() == [5 * S]


def test_so_does_a_pre_emption_and_the_wait_costs_nothing() -> None:
    stop, again = [(0, 0, 0)], [Parts(0, [2], UNIT, CAP)]
    record = run(one(), (0, [Parts(0, [0], UNIT, CAP)]), (25, stop), (40, again))
    assert ends(record) == [pytest.approx(40 + 5 + 8 * 20)]
    used_w = (30 + 20 + 250 + 40) * 25 + (30 + 20 + 70) * 165
    assert metrics_of(record).energy_eur == pytest.approx(used_w / 1e6)


def test_a_lower_limit_is_slower_and_draws_less_and_needs_no_restart() -> None:
    start, lower = [Parts(0, [0], UNIT, CAP)], [Parts(0, [], [], CAP, 125 * W)]
    record = run(one(), (0, start), (20, lower))
    assert ends(record) == [pytest.approx(20 + 80 * CURVE.slowdown(125))]
    used_j = (30 + 20 + 250 + 40) * 20
    used_j += (30 + 20 + CURVE.draw_w(125) + 40) * 80 * CURVE.slowdown(125)
    assert metrics_of(record).energy_eur == pytest.approx(used_j / 1e6)
    # The power released by the lower limit is available to other jobs.
    idle_w = 3 * 30 + 4 * 100 + 60
    committed_w = [idle_w + 20 + 150, idle_w + 20 + 25, idle_w]
    assert [one / W for one in record.series.committed_uw.tolist()] == committed_w
    assert record.columns.attempts is not None
    assert record.columns.attempts.tolist() == [1]


IDLE_W = 3 * 30 + 4 * 100 + 60


def test_a_lower_budget_takes_gpus_down_with_the_packages_and_up_again() -> None:
    steps = [
        BudgetStep(at_ns=at_s * S, budget_uw=(IDLE_W + above_w) * W)
        for at_s, above_w in ((0, 170), (20, 85), (40, 170))
    ]
    simulation = made(
        one(), (0, [Parts(0, [0], UNIT, CAP)]), budget=BudgetSchedule(steps=tuple(steps))
    )
    simulation.run()
    record = simulation.record()
    half_done = 20 + 20 / CURVE.slowdown(175)
    assert ends(record) == [pytest.approx(40 + 100 - half_done)]
    told_w = [IDLE_W + above_w for above_w in (170, 85, 170, 0)]
    assert [one / W for one in record.series.committed_uw.tolist()] == told_w


@pytest.mark.parametrize("curve", [CURVE, None], ids=["known", "assumed"])
def test_parm_gives_watts_of_lower_levels_to_others(curve: GpuCurve | None) -> None:
    times = {"net": tuple(replace(time, curve=curve) for time in TIMES["net"])}
    table = training_table(jobs(0, 0, 0, 0, epochs=40, gpus_max=1), times, MACHINE)
    budget = BudgetSchedule.constant((IDLE_W + 300) * W)
    mean_s = {}
    for levels in (1, 4):
        policy = Parm(ParmSettings(gpu_levels=levels, solver="greedy"))
        scheduler = NamedPolicyScheduler(table, MACHINE, policy, "parm-wse")
        simulation = PoolSimulation(table, MACHINE, scheduler, budget, preemption=RESTART)
        simulation.run()
        record = simulation.record()
        assert record.series.committed_uw.max() <= (IDLE_W + 300) * W
        mean_s[levels] = sum(ends(record)) / 4
    assert mean_s[4] < mean_s[1]


def test_where_no_epoch_time_is_known_nobody_runs() -> None:
    table = training_table(jobs(0), {"net": TIMES["net"][:1]}, MACHINE)
    with pytest.raises(SimulationError, match="job 1 is placed on 1 GPUs of T4"):
        run(table, (0, [Parts(0, [2], UNIT, CAP)]))


def test_a_run_that_was_stopped_goes_on_as_one_that_was_not() -> None:
    steps: list[Step] = [
        (0, [Parts(0, [0], UNIT, CAP)]),
        (25, [Parts(0, [0, 1], [0, 2 * UNIT], CAP)]),
        (30, [Parts(0, [], [], CAP, 125 * W)]),
    ]
    whole, stopped = run(one(), *steps), made(one(), *steps)
    stopped._turn()
    again = pickle.loads(pickle.dumps(stopped))
    again.run()
    assert ends(again.record()) == ends(whole)
    assert again.record().energy_uj == whole.energy_uj


# ---- snapshots for policies of the service
# --------------------------------------------------------


class Moves(Policy):
    """Runs one job at a time: the second job preempts the first, which then resumes on another
    node.
    """

    name = "moves"

    def __init__(self) -> None:
        self.seen: list[Snapshot] = []

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        self.seen.append(snapshot)
        views = {view.job_id: view for view in snapshot.jobs}
        if len(views) == 1:
            alone = snapshot.jobs[0]
            return Plan(assignments=(alone.current or self._on(alone.job_id, "v100-0", 1),))
        first, other = views[JobId("0")], views[JobId("1")]
        running = [view for view in snapshot.jobs if view.current is not None]
        if running and first.current is not None:
            gone = Preemption(job_id=first.job_id, for_job=other.job_id, reason="due")
            waits = Waiting(job_id=other.job_id, reason="due")
            kept = tuple(view.current for view in running if view.current is not None)
            return Plan(assignments=kept, waiting=(waits,), preemptions=(gone,))
        second = other.current or self._on(other.job_id, "v100-1", 2, 125 * W)
        return Plan(assignments=(second,))

    def _on(self, job_id: JobId, node: str, units: int, gpu_uw: int = 0) -> Assignment:
        share = Share(
            node_id=NodeId(node),
            cpus=CpuSet.of(range(units * UNIT)),
            gpus=tuple(f"gpu{number}" for number in range(units)),
        )
        levels = Levels(gpu_uw=gpu_uw)
        return Assignment(job_id=job_id, size=units, cap_uw=CAP, shares=(share,), levels=levels)

    def fallback(self) -> Policy | None:
        return None


def test_policies_see_what_jobs_need_and_what_they_have_kept() -> None:
    table = training_table(jobs(0, 25, due_s=90, weight=2), TIMES, MACHINE)
    policy = Moves()
    scheduler = NamedPolicyScheduler(table, MACHINE, policy, "moves", restart_ns=RESTART.restart_ns)
    simulation = PoolSimulation(table, MACHINE, scheduler, FULL, preemption=RESTART)
    simulation.run()
    record = simulation.record()
    begun, decided, postponed = policy.seen[0], policy.seen[1], policy.seen[2]
    spec = begun.jobs[0].spec
    assert (spec.unit, spec.unit_cores, spec.gpus) == (SizeUnit.UNITS, UNIT, 1)
    assert (spec.size_min, spec.size_max, spec.spread) == (1, 2, Spread.TOGETHER)
    assert (spec.kind, spec.mode) == (JobKind.MOLDABLE, ResizeMode.RESTART)
    assert (spec.epochs, spec.due_ns, spec.weight) == (10, 90 * S, 2)
    assert begun.jobs[0].training == table.training.trainings[0]  # type: ignore[union-attr]
    models = [view.spec.gpu_model for view in begun.nodes]
    assert models == ["V100", "V100", "T4"]
    limits = [zone.cap_uw_max for zone in begun.nodes[0].spec.zones]
    assert limits == [60 * W, 250 * W, 250 * W]
    assert begun.nodes[0].fixed_uw == (30 + 2 * 100) * W
    running = decided.jobs[0]
    assert running.preemptable
    assert running.nodes_may_change
    # A restart, and half of the epoch of 10 s since the last snapshot.
    assert running.restart_ns == (5 + 5) * S
    assert running.done == pytest.approx(0.25)
    waiting = next(view for view in postponed.jobs if view.job_id == running.job_id)
    assert waiting.current is None
    assert waiting.done == pytest.approx(0.2)
    # The second job on two GPUs at half of their limit, then the first with its remaining 8 epochs.
    second_s = 25 + 60 * CURVE.slowdown(125)
    assert ends(record) == [pytest.approx(second_s + 5 + 80), pytest.approx(second_s)]


# ---- tables --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"app": "other"}, "job 1: no epoch time of 'other' is known"),
        ({"gpu_model": "A100"}, "GPUs of model 'A100', which no node has; nodes have V100, T4"),
        (
            {"gpus_min": 3},
            "'net' has epoch times on 1 x V100, 2 x V100, 1 x T4; nodes have at most",
        ),
    ],
)
def test_a_job_that_no_node_can_run_is_refused(changed: dict, message: str) -> None:
    asked: Sequence = [replace(job, **changed) for job in jobs(0)]
    with pytest.raises(ValueError, match=message):
        training_table(asked, TIMES, MACHINE)


def test_run_times_are_the_fastest_and_estimates_the_slowest() -> None:
    table = training_table(jobs(3, 1), TIMES, MACHINE)
    assert table.job_ids.tolist() == [2, 1]
    assert table.run_ns.tolist() == [60 * S] * 2
    assert table.estimate_ns.tolist() == [200 * S] * 2
    only = training_table(jobs(0, gpu_model="T4"), TIMES, MACHINE)
    assert (only.size_max.tolist(), only.run_ns.tolist()) == ([1], [200 * S])
    assert np.array_equal(table.training.due_ns, [-1, -1])  # type: ignore[union-attr]
