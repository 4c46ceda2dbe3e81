"""Measurement of a case: it runs the policy and reduces the record to the paper's measures."""

from __future__ import annotations

import time

import numpy as np

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.models.training_cost import Tariff
from wattfold.coordinator.solvers.training.building import Weighing
from wattfold.coordinator.solvers.training.choice import compiled_loops
from wattfold.coordinator.solvers.training.instances import Mix, drawn
from wattfold.coordinator.solvers.training.planner import TrainingEffort, planned
from wattfold.coordinator.solvers.training.problem import TrainingProblem
from wattfold.simulator.engine.engine import PoolSimulation
from wattfold.simulator.engine.prices import Prices
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.engine.running_jobs.progress import PreemptionRule
from wattfold.simulator.engine.schedulers.named_scheduler import NamedPolicyScheduler
from wattfold.simulator.engine.trainings.training_table import training_table
from wattfold.simulator.papers.andreas.case import GapCase, TrainingCase
from wattfold.simulator.papers.andreas.choices import (
    budget_of,
    policy_of,
    price_of,
)
from wattfold.simulator.papers.andreas.jobs import (
    drawn_jobs,
    epoch_times,
    machine_of,
)
from wattfold.simulator.papers.andreas.settings import (
    GAP_JOBS,
    GAP_NODES,
    PUE,
)
from wattfold.simulator.results.metrics import metrics_of
from wattfold.simulator.runs.schedulers import ready_of
from wattfold.simulator.sweep.case import Case, Values

HOUR_S = 3600.0
PAPERS_OBJECTIVE = Weighing()
OUR_OBJECTIVE = Weighing(nodes=True, haste=0.001, worst_case=False)
"""The default of the policy."""
EXACT_S = 60.0
"""Time limit of the search for the best plan; unproven plans are not counted."""


def measure(case: Case) -> Values:
    """Run a case. Raises SimulationError."""
    if isinstance(case, GapCase):
        return measure_gap(case)
    if not isinstance(case, TrainingCase):
        raise TypeError(f"not a case of this evaluation: {case.label}")
    record = run(case)
    found = metrics_of(record)
    return {
        "total_eur": found.total_eur,
        "energy_eur": found.energy_eur,
        "tardiness_eur": found.tardiness_eur,
        "idle_eur": found.idle_eur,
        "energy_kwh": found.energy_j / HOUR_S / 1000,
        "jobs_late": float(found.jobs_overdue),
        "tardiness_h": found.tardiness_s_total / HOUR_S,
        "makespan_h": found.makespan_s / HOUR_S,
        "response_h": found.response_s_mean / HOUR_S,
        "preemptions": float(found.preemptions),
        "wasted_share": found.wasted_share,
        "call_s": found.decision_s_mean,
        "call_s_max": found.decision_s_max,
        "calls": float(record.decisions),
        "committed_w_peak": found.committed_w_peak,
        "jobs": float(found.jobs),
    }


def run(case: TrainingCase) -> RunRecord:
    """Return the run of a case, with its costs."""
    settings, scenario = case.settings, case.where
    machine = machine_of(scenario, case.nodes, settings)
    jobs = drawn_jobs(scenario, case.nodes, case.jobs, case.seed, settings)
    table = training_table(jobs, epoch_times(settings.workload), machine)
    restart_ns = round(settings.restart_s * NS_PER_S)
    policy = policy_of(case)
    ready = ready_of(policy.name)
    if ready is not None:
        ready()  # Compilation is not part of the first call.
    scheduler = NamedPolicyScheduler(
        table, machine, policy, case.policy, restart_ns=restart_ns, ready=ready
    )
    simulation = PoolSimulation(
        table,
        machine,
        scheduler,
        budget_of(case, machine),
        seed=case.seed,
        preemption=PreemptionRule(restart_ns=restart_ns),
        prices=Prices(tariff=Tariff(price=price_of(case), pue=PUE)),
    )
    simulation.run()
    return simulation.record()


def measure_gap(case: GapCase) -> Values:
    """Measure the gap of plans of a small problem to the best plan."""
    compiled_loops()
    chance = np.random.default_rng(np.random.SeedSequence(case.seed))
    nodes = int(chance.integers(*GAP_NODES, endpoint=True))
    jobs = int(chance.integers(*GAP_JOBS, endpoint=True))
    running = float(chance.choice([0.0, 0.5]))

    def posed(weighing: Weighing) -> TrainingProblem:
        mix = Mix(nodes=nodes, jobs=jobs, running=running, weighing=weighing)
        return drawn(mix, case.seed)

    began_s = time.perf_counter()
    found = {
        "gap": _gap(posed(PAPERS_OBJECTIVE), TrainingEffort()),
        "gap_greedy": _gap(
            posed(PAPERS_OBJECTIVE), TrainingEffort(passes=case.settings.iterations, attempts=0)
        ),
        "gap_own": _gap(posed(OUR_OBJECTIVE), TrainingEffort()),
    }
    proven = all(gap is not None for gap in found.values())
    return {
        **{name: gap or 0.0 for name, gap in found.items()},
        "proven": float(proven),
        "exact_s": time.perf_counter() - began_s,
        "jobs_gap": float(jobs),
        "nodes_gap": float(nodes),
    }


def _gap(problem: TrainingProblem, effort: TrainingEffort) -> float | None:
    """Return the gap of a plan to the best plan; None if the best plan is not proven."""
    # scipy loads slowly, and simulations do not need it.
    from wattfold.coordinator.solvers.training.exact import solved

    best = solved(problem, time_limit_s=EXACT_S)
    if best is None or not best.proven:
        return None
    return planned(problem, effort).objective / max(best.objective, 1e-12) - 1
