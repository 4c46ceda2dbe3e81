"""The pool engine: times, nodes, watts and joules of small cases, computed by hand."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from unit.pool.pools import MACHINE, S, Script, W, table

from wattfold.coordinator.policies.backfill.easy import EasyScheduler
from wattfold.simulator.engine.budget import BudgetSchedule, BudgetStep
from wattfold.simulator.engine.engine import PoolSimulation, SimulationError, simulate
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.record import RunRecord

FULL = BudgetSchedule.constant(MACHINE.full_uw)


def seconds(values: np.ndarray) -> list[float]:
    return [value / S for value in values.tolist()]


def easy(jobs, machine=MACHINE, budget=FULL, **options) -> RunRecord:
    return simulate(jobs, machine, EasyScheduler(**options), budget)


def test_backfills_what_ends_before_the_first_can_start():
    jobs = table((0, 8, 100), (1, 10, 50), (2, 2, 90), (3, 2, 200))
    record = easy(jobs)
    assert seconds(record.columns.start_ns) == [0, 100, 2, 150]
    assert seconds(record.columns.end_ns) == [100, 150, 92, 350]


def test_without_backfilling_order_is_kept():
    jobs = table((0, 8, 100), (1, 10, 50), (2, 2, 90))
    assert seconds(easy(jobs, method="fcfs").columns.start_ns) == [0, 100, 150]


def test_a_job_that_ends_in_the_instant_of_a_start_gives_its_nodes():
    """Two jobs end together. The first end starts a job that needs the nodes of both."""
    jobs = table((0, 5, 10), (0, 5, 10), (1, 10, 5))
    assert seconds(easy(jobs).columns.start_ns) == [0, 0, 10]


def test_power_limits_the_nodes_in_use():
    # 90 W per node at full cap: 500 W feed five nodes.
    jobs = table((0, 5, 10), (0, 1, 10))
    record = easy(jobs, budget=BudgetSchedule.constant(500 * W))
    assert seconds(record.columns.start_ns) == [0, 10]
    assert record.peak_committed_uw == 450 * W
    assert record.over_budget_ns == 0


def test_energy_is_power_times_time():
    machine = Machine.of_watts(4, base_w=20, dram_w=10, cap_w_min=20, cap_w_max=60, idle_w=15)
    record = easy(table((0, 2, 10), (20, 1, 10)), machine, BudgetSchedule.constant(machine.full_uw))
    # 2 x 90 + 2 x 15 for 10 s, 4 x 15 for 10 s, 90 + 3 x 15 for 10 s
    assert record.energy_uj == (2100 + 600 + 1350) * W
    assert record.columns.energy_uj.tolist() == [1800 * W, 900 * W]
    assert record.columns.node_ns.tolist() == [20 * S, 10 * S]


def test_series_has_the_state_after_every_instant():
    record = easy(table((0, 8, 100), (1, 8, 50)))
    series = record.series
    assert seconds(series.time_ns) == [0, 1, 100, 150]
    assert series.queued.tolist() == [0, 1, 0, 0]
    assert series.running.tolist() == [1, 1, 1, 0]
    assert series.nodes_busy.tolist() == [8, 8, 8, 0]
    assert series.committed_uw.tolist() == [720 * W, 720 * W, 720 * W, 0]


def test_a_resize_changes_speed_and_costs_what_it_is_said_to():
    jobs = table((0, 4, 100), app="LeanMD")
    free = Script((0, [(0, 4, 60 * W)]), (50, [(0, 2, 60 * W)]))
    without = simulate(jobs, MACHINE, free, FULL, resize_costs=False)
    # Half of the work remains, at half the speed.
    assert seconds(without.columns.end_ns)[0] == pytest.approx(150, rel=1e-6)
    charged = Script((0, [(0, 4, 60 * W)]), (50, [(0, 2, 60 * W)]))
    record = simulate(jobs, MACHINE, charged, FULL)
    # Two of four nodes transfer half of its 2048 MB through the bisection of the two that stay.
    moved_s = 2 * (2048.0 / 2) / (2 * 425.0 * 2 ** (2 / 3))
    assert record.columns.stalled_ns[0] / S == pytest.approx(moved_s, rel=1e-6)
    assert seconds(record.columns.end_ns)[0] == pytest.approx(150 + moved_s, rel=1e-6)
    assert record.columns.resizes.tolist() == [1]
    assert record.columns.last_size.tolist() == [2]


def test_a_restart_costs_each_job_its_time_and_no_links():
    jobs = table((0, 4, 100), (0, 4, 200), app="LeanMD")
    steps = (0, [(0, 4, 60 * W), (1, 4, 60 * W)]), (50, [(0, 2, 60 * W), (1, 5, 60 * W)])
    script = Script(*steps)
    record = simulate(jobs, MACHINE, script, FULL, restart_ns=75 * S)
    assert record.columns.stalled_ns.tolist() == [75 * S, 75 * S]
    # Half the work at half the speed; three quarters at five quarters of it.
    assert seconds(record.columns.end_ns) == pytest.approx([150 + 75, 50 + 75 + 120], rel=1e-6)
    # A scheduler that asks can include this cost.
    assert script.jobs is not None
    assert script.jobs.ask(0).resize_s == 75.0
    free = simulate(jobs, MACHINE, Script(*steps), FULL, restart_ns=0)
    assert free.columns.stalled_ns.tolist() == [0, 0]
    assert free.columns.resizes.tolist() == [1, 1]


def test_by_links_no_job_is_known_to_start_again():
    script = Script((0, [(0, 4, 60 * W)]))
    simulate(table((0, 4, 100), app="LeanMD"), MACHINE, script, FULL)
    assert script.jobs is not None
    assert script.jobs.ask(0).resize_s == 0.0


def test_a_cap_change_changes_speed_and_draw():
    jobs = table((0, 4, 100), app="LeanMD")
    script = Script((0, [(0, 4, 52 * W)]), (50, [(0, 4, 30 * W)]))
    record = simulate(jobs, MACHINE, script, FULL)
    # beta = 0.4: at p_low it takes 1/(1 - 0.4) as long.
    assert seconds(record.columns.end_ns)[0] == pytest.approx(50 + 50 / 0.6, rel=1e-3)
    assert record.columns.mean_cap_uw[0] / W == pytest.approx(
        (50 * 52 + 50 / 0.6 * 30) / (50 + 50 / 0.6), rel=1e-3
    )


def test_a_job_draws_no_more_than_it_can_use():
    record = simulate(
        table((0, 4, 100), app="Jacobi2D"), MACHINE, Script((0, [(0, 4, 60 * W)])), FULL
    )
    assert record.peak_committed_uw == 4 * 90 * W
    assert record.peak_drawn_uw == 4 * (30 + 37) * W


def test_a_lower_budget_scales_the_caps_and_a_higher_one_restores_them():
    jobs = table((0, 4, 100), app="LeanMD")
    machine = Machine.of_watts(4, base_w=20, dram_w=10, cap_w_min=20, cap_w_max=60, idle_w=0)
    steps = ((0, 4 * 90), (10, 4 * 60), (20, 4 * 90))
    budget = BudgetSchedule(steps=tuple(BudgetStep(at_ns=t * S, budget_uw=w * W) for t, w in steps))
    record = simulate(jobs, machine, Script((0, [(0, 4, 60 * W)])), budget)
    assert record.series.committed_uw.tolist()[:3] == [360 * W, 240 * W, 360 * W]
    assert record.over_budget_ns == 0
    # Ten seconds at 30 W, in which it does 0.6 of the work.
    assert seconds(record.columns.end_ns)[0] == pytest.approx(104, rel=1e-3)


@pytest.mark.parametrize("method", ["easy", "fcfs", "conservative"])
def test_a_waiting_job_grows_with_the_budget_while_caps_are_still_scaled(method):
    """Its size changes, so the queue is built again next to jobs with lower caps."""
    jobs = table((0, 8, 100), (1, 10, 10), app="LeanMD")
    steps = ((0, FULL.least_uw), (50, FULL.least_uw * 6 // 10), (60, FULL.least_uw))
    budget = BudgetSchedule(steps=tuple(BudgetStep(at_ns=at * S, budget_uw=uw) for at, uw in steps))
    record = easy(jobs, budget=budget, method=method, kills_at_limit=False)
    assert (record.columns.end_ns > 0).all()
    assert (record.series.committed_uw <= record.series.budget_uw).all()


def test_budgets_that_cannot_be_kept_are_refused_before_the_run():
    jobs = table((0, 4, 100), app="LeanMD")
    steps = (BudgetStep(at_ns=0, budget_uw=900 * W), BudgetStep(at_ns=S, budget_uw=100 * W))
    with pytest.raises(ValueError, match="500 W that 10 nodes need when all of them run"):
        simulate(jobs, MACHINE, Script(), BudgetSchedule(steps=steps))
    with pytest.raises(ValueError, match="budget of 40 W is below the 50 W"):
        simulate(jobs, MACHINE, Script(), BudgetSchedule.constant(40 * W))


def test_jobs_larger_than_the_machine_are_refused_by_name():
    with pytest.raises(ValueError, match="the first is job 2 with 11"):
        easy(table((0, 10, 1), (0, 11, 1), (0, 12, 1)))


def test_a_scheduler_that_gives_nodes_away_twice_is_caught():
    jobs = table((0, 6, 10), (0, 6, 10))
    greedy = Script((0, [(0, 6, 20 * W), (1, 6, 20 * W)]))
    with pytest.raises(SimulationError, match="12 of 10 nodes"):
        simulate(jobs, MACHINE, greedy, FULL)


def test_a_scheduler_that_forgets_jobs_is_caught():
    with pytest.raises(SimulationError, match="1 jobs wait"):
        simulate(table((0, 1, 1)), MACHINE, Script(), FULL)


def test_a_scheduler_above_the_budget_has_its_caps_scaled():
    record = simulate(
        table((0, 10, 10)),
        MACHINE,
        Script((0, [(0, 10, 60 * W)])),
        BudgetSchedule.constant(800 * W),
    )
    assert record.peak_committed_uw <= 800 * W
    assert record.over_budget_ns == 0


def test_nodes_of_jobs_are_their_own():
    jobs = table(*[(k, 1 + k % 4, 5 + k % 7) for k in range(60)])
    run = PoolSimulation(jobs, MACHINE, EasyScheduler(), FULL)
    held: dict[int, set[int]] = {}
    clashes = []

    def look(simulation: PoolSimulation, job: int) -> None:
        now = {number: set(nodes) for number, nodes in simulation._holdings._nodes.items()}
        for number, nodes in now.items():
            assert len(nodes) == jobs.size_max[number]
            clashes.extend(nodes & other for n, other in now.items() if n != number)
        held.update(now)

    run.on_end = look
    assert run.run()
    assert held
    assert not any(clashes)


def test_a_run_that_was_stopped_and_resumed_is_the_same():
    jobs = table(*[(k % 977, 1 + k % 10, 5 + k % 71) for k in range(6000)])
    jobs = _sorted(jobs)
    whole = easy(jobs)
    first = PoolSimulation(jobs, MACHINE, EasyScheduler(), FULL)
    assert not first.run(lambda turn: turn.events < 3000)
    second = pickle.loads(pickle.dumps(first))
    assert second.run()
    resumed = second.record()
    for name in ("start_ns", "end_ns", "energy_uj", "node_ns"):
        assert np.array_equal(getattr(whole.columns, name), getattr(resumed.columns, name))
    for name in ("time_ns", "queued", "committed_uw"):
        assert np.array_equal(getattr(whole.series, name), getattr(resumed.series, name))
    assert whole.energy_uj == resumed.energy_uj


def _sorted(jobs):
    order = np.argsort(jobs.submit_ns, kind="stable")
    return table(
        *[
            (jobs.submit_ns[k] / S, int(jobs.size_max[k]), jobs.run_ns[k] / S)
            for k in order.tolist()
        ]
    )
