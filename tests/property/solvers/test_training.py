"""Plans of training jobs: valid, equal with and without compilation, and near the optimum."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from wattfold.coordinator.solvers.training import exact, greedy_loops, recreate_loops
from wattfold.coordinator.solvers.training.building import Weighing
from wattfold.coordinator.solvers.training.choice import Loops, compiled_loops
from wattfold.coordinator.solvers.training.instances import Mix, drawn
from wattfold.coordinator.solvers.training.planner import TrainingEffort, by_pressure, planned
from wattfold.coordinator.solvers.training.problem import (
    ANY,
    POSTPONED,
    TrainingOptions,
    TrainingPlan,
    TrainingProblem,
    faults,
    objective,
)

FULL = Loops(
    greedy_loops.constructed, recreate_loops.improved, lambda array: array.tolist(), fast=True
)
"""The Python loops at full effort."""
BY_NODE = Weighing(nodes=True, haste=0.001, worst_case=False)
"""Energy as it is paid, which is the default of the policy."""
SMALL = (
    Mix(nodes=4, jobs=8),
    Mix(nodes=4, jobs=8, gpus=(4, 2), running=0.5, weighing=BY_NODE),
    Mix(nodes=3, jobs=6, gpus=(4, 2)),
    Mix(nodes=4, jobs=6, gpus=(4, 2), waited_s=0, running=0.5),
)


def with_power(problem: TrainingProblem, share: float) -> TrainingProblem:
    """Set equal power for all GPUs and a budget for a share of them."""
    amounts = problem.options.amounts[:, 0] * 1_000_000
    options = replace(problem.options, power_uw=amounts)
    power_uw = int(problem.nodes.free[:, 0].sum() * share) * 1_000_000
    return replace(problem, options=options, power_uw=power_uw)


def with_musts(problem: TrainingProblem) -> TrainingProblem:
    """Fix running jobs to their place."""
    options, keep, must = problem.options, [], []
    firsts = [0]
    for job in range(len(problem)):
        own = list(problem.options_of(job))
        here = [one for one in own if options.node[one] != ANY]
        must.append(bool(here))
        keep += here or own
        firsts.append(len(keep))
    kept = np.array(keep)
    parts = {name: getattr(options, name)[kept] for name in _OF_OPTIONS}
    cut = TrainingOptions(
        **parts,
        first=np.array(firsts),
        meets=np.minimum(options.meets, np.diff(firsts)),
    )
    return replace(problem, options=cut, jobs=replace(problem.jobs, must=np.array(must)))


_OF_OPTIONS = ("kind", "node", "amounts", "power_uw", "time_s", "turn_s", "cost_eur", "own_eur")


@settings(max_examples=examples(30))
@given(
    seed=st.integers(0, 10**6),
    nodes=st.integers(1, 5),
    jobs=st.integers(0, 12),
    gpus=st.sampled_from([(1, 1), (2, 1), (4, 2)]),
    share=st.sampled_from([0.3, 0.7, 2.0]),
    musts=st.booleans(),
    weighing=st.sampled_from([Weighing(), BY_NODE]),
)
def test_plans_are_valid_and_say_their_objective(
    seed: int,
    nodes: int,
    jobs: int,
    gpus: tuple[int, int],
    share: float,
    musts: bool,
    weighing: Weighing,
) -> None:
    mix = Mix(nodes=nodes, jobs=max(jobs, 1), gpus=gpus, running=0.4, weighing=weighing)
    problem = with_power(drawn(mix, seed), share)
    problem = with_musts(problem) if musts else problem
    plan = planned(problem, TrainingEffort(passes=5, attempts=30), lambda: FULL)
    assert faults(problem, plan) == []
    assert plan.objective == pytest.approx(objective(problem, plan.option, plan.node))
    again = planned(problem, TrainingEffort(passes=5, attempts=30), lambda: FULL)
    assert again == plan


def test_compiled_loops_make_the_same_plans() -> None:
    loops = compiled_loops()
    if loops is None:
        pytest.skip("numba is not installed")
    for seed in range(6):
        problem = drawn(Mix(nodes=6, jobs=20, gpus=(4, 2), running=0.3), seed)
        effort = TrainingEffort(passes=10, attempts=100, seed=seed)
        assert planned(problem, effort, lambda: loops) == planned(problem, effort, lambda: FULL)


def test_energy_by_node_is_that_of_each_node_until_its_last_job_ends() -> None:
    weighing = Weighing(nodes=True, worst_case=False)
    for seed in range(10):
        problem = drawn(Mix(nodes=3, jobs=8, gpus=(4, 2), weighing=weighing), seed)
        plan = planned(problem, TrainingEffort(passes=5, attempts=100), lambda: FULL)
        options, runs = problem.options, [j for j, o in enumerate(plan.option) if o != POSTPONED]
        by_hand = sum(problem.jobs.postponed_eur[j] for j in range(8) if j not in runs)
        by_hand += sum(options.own_eur[plan.option[j]] for j in runs)
        for node in {plan.node[j] for j in runs}:
            there = [plan.option[j] for j in runs if plan.node[j] == node]
            last = max(there, key=lambda one: options.time_s[one])
            by_hand += options.cost_eur[last]
            assert options.cost_eur[last] == max(options.cost_eur[one] for one in there)
        assert plan.objective == pytest.approx(by_hand)


def brute(problem: TrainingProblem) -> float:
    """Minimum objective of all valid plans."""
    nodes = range(len(problem.nodes.kind))
    choices = [
        [(POSTPONED, POSTPONED)] + [(o, n) for o in problem.options_of(j) for n in nodes]
        for j in range(len(problem))
    ]
    best = float("inf")
    for chosen in product(*choices):
        option, node = tuple(o for o, _ in chosen), tuple(n for _, n in chosen)
        value = objective(problem, option, node)
        plan = TrainingPlan(option=option, node=node, objective=value, maker="brute")
        if value < best and not faults(problem, plan):
            best = value
    return best


def test_the_program_is_exact_on_the_smallest_problems() -> None:
    for seed in range(3):
        weighing = BY_NODE if seed % 2 else Weighing()
        problem = drawn(Mix(nodes=2, jobs=3, running=0.3, weighing=weighing), seed)
        for one in (problem, with_power(problem, 0.7)):
            plan = exact.solved(one)
            assert plan is not None
            assert plan.proven
            assert faults(one, plan) == []
            assert plan.objective == pytest.approx(brute(one), rel=1e-6)


@pytest.mark.parametrize("mix", SMALL)
def test_the_heuristic_is_within_three_per_cent_of_the_exact_plans_in_the_mean(mix: Mix) -> None:
    gaps, papers = [], []
    for seed in range(4):
        problem = drawn(mix, seed)
        best = exact.solved(problem, time_limit_s=20)
        assert best is not None
        assert best.proven
        found = planned(problem, TrainingEffort(), compiled_or_plain)
        paper = planned(problem, TrainingEffort(passes=1000, attempts=0), compiled_or_plain)
        assert found.objective >= best.bound - 1e-6 * float(problem.jobs.postponed_eur.sum())
        gaps.append(found.objective / best.objective - 1)
        papers.append(paper.objective / best.objective - 1)
    assert np.mean(gaps) <= 0.03
    assert np.mean(gaps) <= np.mean(papers)


def compiled_or_plain() -> Loops:
    return compiled_loops() or FULL


def test_options_come_cheapest_first_while_in_time_and_fastest_first_else() -> None:
    problem = drawn(Mix(nodes=4, jobs=10, gpus=(4, 2)), 3)
    options = problem.options
    for job in range(len(problem)):
        own = np.array(problem.options_of(job))
        timely, late = own[: options.meets[job]], own[options.meets[job] :]
        assert (np.diff(options.cost_eur[timely]) >= 0).all()
        assert (np.diff(options.time_s[late]) >= 0).all()
        assert (options.own_eur[timely] == 0).all()
        assert (options.own_eur[late] >= 0).all()
    order = by_pressure(problem)
    assert (np.diff(problem.jobs.pressure_s[order]) <= 0).all()


def test_what_is_postponed_is_weighed_as_in_the_paper_or_by_what_it_loses_next() -> None:
    paper, following = (
        drawn(Mix(jobs=6, weighing=Weighing(worst_case=worst)), 1) for worst in (True, False)
    )
    for job in range(6):
        times = paper.options.time_s[list(paper.options_of(job))]
        due_s = times.min() - paper.jobs.pressure_s[job]
        worst = 100 * paper.jobs.weight[job] * max(300 + times.max() - due_s, 0)
        assert paper.jobs.postponed_eur[job] == pytest.approx(worst)
        loses = paper.jobs.weight[job] * max(300 + times.min() - due_s, 0)
        assert following.jobs.postponed_eur[job] == pytest.approx(loses)
