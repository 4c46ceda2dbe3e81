"""Random machines, jobs and decisions: nothing held twice, all released, repeatable."""

from __future__ import annotations

import pickle
import random

from effort import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from property.pool.shared_nodes import AtWill, random_budget, random_jobs, random_machine
from unit.pool.pools import S, table
from unit.pool.test_by_node import same_record

from wattfold.coordinator.policies.backfill.easy import EasyScheduler
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.engine import PoolSimulation, simulate
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.machines.node_cores import NOBODY
from wattfold.simulator.engine.machines.node_machine import NodeClass, NodeMachine
from wattfold.simulator.engine.running_jobs.progress import PreemptionRule
from wattfold.simulator.engine.running_jobs.run_times import RunTimeModel

SEEDS = st.integers(0, 10**9)


def made(seed: int, *, each_event: bool = True) -> PoolSimulation:
    rng = random.Random(seed)
    machine = random_machine(rng)
    model = rng.choice([RunTimeModel.IDEAL, RunTimeModel.WORST_CASE])
    jobs, budget = random_jobs(rng, machine), random_budget(rng, machine)
    rule = PreemptionRule(snapshot_ns=rng.choice([-1, 0, 3 * S]), restart_ns=rng.choice([0, 2 * S]))
    scheduler = AtWill(seed, machine, each_event=each_event)
    return PoolSimulation(jobs, machine, scheduler, budget, model=model, preemption=rule)


@settings(max_examples=examples(150))
@given(seed=SEEDS)
@example(seed=674862)  # Caps of identical nodes scaled to a microwatt above the budget.
@example(seed=5662098)  # A window that begins on nodes of another window.
def test_nothing_is_held_twice_and_all_comes_back(seed: int) -> None:
    simulation = made(seed)
    machine = simulation.machine
    assert isinstance(machine, NodeMachine)
    holdings = simulation._holdings

    def look(run: PoolSimulation, _job: int) -> None:
        """Sum the cores and memory of all jobs per node and compare them with the node's view."""
        node_cores, jobs = holdings._node_cores, holdings.jobs
        held = [0] * len(node_cores)
        memory = [0] * len(node_cores)
        for job in run._running.jobs:
            request = jobs.request(job)
            for node, cores in jobs.parts(job).items():
                assert node_cores.on[node][job] == cores
                held[node] += cores
                memory[node] += request.memory_bytes
        for node, cores in enumerate(held):
            kind = machine.classes[node_cores.kind_of[node]]
            if node in node_cores.out:
                assert node_cores.on[node][NOBODY] == kind.cores
                continue
            assert node_cores.free[node] == kind.cores - cores >= 0
            assert memory[node] <= kind.memory_bytes
        assert sum(held) == sum(run._running.held_cores)
        assert node_cores.busy == sum(
            bool(h) and n not in node_cores.out for n, h in enumerate(held)
        )

    simulation.on_end = look
    assert simulation.run()
    record = simulation.record()
    node_cores = holdings._node_cores
    assert not any(set(on) - {NOBODY} for on in node_cores.on)
    assert node_cores.empty(len(node_cores)) == sorted(set(range(len(node_cores))) - node_cores.out)
    assert simulation._running.committed_uw == simulation._running.drawn_uw == 0
    assert (record.series.committed_uw <= record.series.budget_uw).all()
    assert record.over_budget_ns == 0
    columns = record.columns
    assert columns.attempts is not None
    assert columns.timed_out is not None
    # No job has more cores than requested here, so none is faster than in its log.
    whole = (columns.timed_out == 0) & (columns.attempts == 1)
    ran_ns = columns.end_ns - columns.start_ns
    assert (ran_ns >= record.jobs.run_ns)[whole].all()
    if record.jobs.limit_ns is not None:
        assert (ran_ns <= record.jobs.limit_ns).all()
        assert (ran_ns == record.jobs.limit_ns)[columns.timed_out == 1].all()
    else:
        assert not columns.timed_out.any()


@settings(max_examples=examples(40))
@given(seed=SEEDS)
def test_the_same_seed_gives_the_same_record_also_when_it_was_stopped(seed: int) -> None:
    first, second = made(seed, each_event=False), made(seed, each_event=False)
    assert first.run()
    stops = 0
    while not second.run(lambda _turn: False):
        second = pickle.loads(pickle.dumps(second))
        stops += 1
    assert stops > 1
    same_record(first.record(), second.record())


@settings(max_examples=examples(60))
@given(seed=SEEDS)
def test_like_whole_nodes_give_the_record_of_a_counted_pool(seed: int) -> None:
    rng = random.Random(seed)
    nodes, idle_w = rng.randint(1, 12), rng.choice([None, 0, 40])
    watts = {"base_w": 20, "dram_w": 10, "cap_w_min": 20, "cap_w_max": 60, "idle_w": idle_w}
    rows = [(rng.randint(0, 300), rng.randint(1, nodes), rng.randint(0, 50)) for _ in range(60)]
    jobs = table(*sorted(rows), estimates=[rng.randint(50, 90) for _ in rows])
    counted = Machine.of_watts(nodes, **watts)
    cores = rng.choice([1, 3, 16])
    by_node = NodeMachine(classes=(NodeClass.of_watts("only", nodes, cores, **watts),))
    budget = BudgetSchedule.constant(counted.full_uw)
    same_record(*(simulate(jobs, on, EasyScheduler(), budget) for on in (counted, by_node)))
