"""The choice over arrays of options: optimal, within limits, and never worth less with more."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from property.solvers.brute_force import best_objective
from unit.policies.parm_tables import options_of

from wattfold.coordinator.models.pass_model import APPLICATIONS, SizeUnit
from wattfold.coordinator.policies.parm.choice import (
    Ages,
    Choice,
    OptionLimits,
    OptionTable,
    Shared,
    Solving,
    assemble,
    choose,
    weights,
)
from wattfold.coordinator.policies.parm.options import Charge, JobOptions, NodeKind

W = 1_000_000
EXACT = Solving(solver="lagrangian", gap=0.0, deadline_s=10.0)


def random_options(rng: random.Random) -> JobOptions:
    profile = replace(
        rng.choice(list(APPLICATIONS.values())),
        average_parallelism=rng.uniform(1, 12),
        sigma=rng.random(),
        t1_s=rng.uniform(10, 1000),
    )
    sizes = sorted(rng.sample(range(1, 8), rng.randint(1, 3)))
    caps = sorted(rng.sample([30, 33, 44, 50, 60], rng.randint(1, 2)))
    kind = NodeKind(cores=1, floor_uw=rng.choice([-56, 25]) * W, most_uw=100 * W)
    charge = Charge(kinds=(kind,), unit=SizeUnit.NODES)
    return options_of(profile, sizes, [cap * W for cap in caps], sizes[0], charge)


Situation = tuple[list[JobOptions], "np.ndarray[tuple[int, ...], np.dtype[np.float64]]", list[bool]]


def situation(seed: int) -> Situation:
    rng = random.Random(seed)
    jobs = [random_options(rng) for _ in range(rng.randint(1, 4))]
    done = [rng.choice([0.0, 0.5]) for _ in jobs]
    weight = weights(
        Ages(
            slowest_s=np.asarray([job.slowest_s for job in jobs]),
            done=np.asarray(done),
            submitted_ns=np.asarray([-rng.randint(0, 1000) * 10**9 for _ in jobs]),
            priority=np.ones(len(jobs)),
        ),
        0,
        0.9,
    )
    return jobs, weight, [rng.random() < 0.2 for _ in jobs]


def used(jobs: list[JobOptions], choice: Choice) -> tuple[int, int]:
    taken = [
        (job, pick) for job, pick in zip(jobs, choice.picks.tolist(), strict=True) if pick >= 0
    ]
    units = sum(int(job.layout.units[pick]) for job, pick in taken)
    return units, sum(int(job.layout.power_uw[pick]) for job, pick in taken)


@settings(max_examples=examples(150))
@given(seed=st.integers(0, 10**6), units=st.integers(0, 20), power_w=st.integers(0, 900))
def test_the_choice_is_the_best_of_all(seed: int, units: int, power_w: int) -> None:
    jobs, weight, must_run = situation(seed)
    limits = OptionLimits(units=units, power_uw=power_w * W)
    if len(jobs) > 1:
        limits = replace(limits, shared=(Shared(jobs=(0, len(jobs) - 1), units_max=5),))
    best = best_objective(assemble(OptionTable.of(jobs), weight, must_run, limits))
    offered = [job.efficient for job in jobs]
    out = choose(OptionTable.of(offered), weight, must_run, limits, EXACT)
    assert out.usable == (best is not None)
    if best is None:
        return
    assert out.solution.objective == pytest.approx(best, rel=2e-7, abs=1e-12)
    took = used(offered, out)
    assert took[0] <= units
    assert took[1] <= power_w * W
    assert all(pick >= 0 for pick, must in zip(out.picks, must_run, strict=True) if must)


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 10**6), units=st.integers(5, 25), power_w=st.integers(100, 900))
def test_the_reference_solver_agrees(seed: int, units: int, power_w: int) -> None:
    jobs, weight, must_run = situation(seed)
    limits = OptionLimits(units=units, power_uw=power_w * W)
    ours = choose(OptionTable.of([job.efficient for job in jobs]), weight, must_run, limits, EXACT)
    theirs = choose(OptionTable.of(jobs), weight, must_run, limits, replace(EXACT, solver="glpk"))
    assert ours.usable == theirs.usable
    if ours.usable:
        assert ours.solution.objective == pytest.approx(theirs.solution.objective, rel=2e-6)


@settings(max_examples=examples(80))
@given(
    seed=st.integers(0, 10**6),
    power_w=st.integers(0, 900),
    more_w=st.integers(0, 300),
    more_units=st.integers(0, 5),
)
def test_more_is_never_worth_less(seed: int, power_w: int, more_w: int, more_units: int) -> None:
    jobs, weight, must_run = situation(seed)
    little = OptionLimits(units=10, power_uw=power_w * W)
    much = OptionLimits(units=10 + more_units, power_uw=(power_w + more_w) * W)
    before, after = (
        choose(OptionTable.of(jobs), weight, must_run, to, EXACT) for to in (little, much)
    )
    assert after.usable or not before.usable
    assert after.solution.objective >= before.solution.objective * (1 - 1e-6)
