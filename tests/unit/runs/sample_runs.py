"""Small cases of runs, and what their folders hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from wattfold.coordinator.policies import registry
from wattfold.coordinator.simulation.pool.budget import Budget, BudgetStep
from wattfold.coordinator.simulation.pool.machine import Machine
from wattfold.coordinator.simulation.runs.case import PolicyChoice, SimulationCase, WorkloadSource

S = 1_000_000_000
MACHINE = Machine.of_watts(32, idle_w=20)
FULL = Budget.constant(MACHINE.full_uw)
HALF = Budget.constant(MACHINE.full_uw * 2 // 3)


def constant(policy: str) -> Budget:
    """Two thirds of the power; all where idle nodes are charged at their floors, above that."""
    entry = registry.find(policy)
    return HALF if entry is not None and entry.variant.pool is not None else FULL


# Down by a third for two hours, an hour after the first submission, and again.
FALLS = Budget(
    steps=(
        BudgetStep(at_ns=0, budget_uw=MACHINE.full_uw),
        BudgetStep(at_ns=3600 * S, budget_uw=MACHINE.full_uw * 3 // 4, deadline_ns=30 * S),
        BudgetStep(at_ns=3 * 3600 * S, budget_uw=MACHINE.full_uw),
        BudgetStep(at_ns=4 * 3600 * S, budget_uw=MACHINE.full_uw * 3 // 4),
    )
)


def case(
    policy: str, folder: Path | None = None, *, seed: int = 1, jobs: int = 40, **changed: object
):
    """A case on jobs drawn from the Poisson model; ``changed`` are attributes of the case."""
    profiles = policy.startswith("parm")
    source = WorkloadSource(model="poisson", jobs=jobs, load=1.2, profiles=profiles, cut_sizes=True)
    made = SimulationCase(
        source=source,
        machine=MACHINE,
        budget=FULL,
        policy=PolicyChoice(name=policy),
        seed=seed,
        folder=folder,
    )
    return replace(made, **changed)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder by its path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
