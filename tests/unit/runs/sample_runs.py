"""Small simulation cases, and the contents of their folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from wattfold.coordinator.policies import registry
from wattfold.simulator.engine.budget import BudgetSchedule, BudgetStep
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.runs.case import PolicyChoice, SimulationCase, WorkloadSource

S = 1_000_000_000
MACHINE = Machine.of_watts(32, idle_w=20)
FULL = BudgetSchedule.constant(MACHINE.full_uw)
HALF = BudgetSchedule.constant(MACHINE.full_uw * 2 // 3)


def constant(policy: str) -> BudgetSchedule:
    """Two thirds of the full power, or all of it if the policy has no pool version.

    Idle nodes are then charged at their floors.
    """
    entry = registry.find(policy)
    return HALF if entry is not None and entry.variant.pool is not None else FULL


# Down by a quarter for two hours, starting an hour after the first submission, and again later.
FALLS = BudgetSchedule(
    steps=(
        BudgetStep(at_ns=0, budget_uw=MACHINE.full_uw),
        BudgetStep(at_ns=3600 * S, budget_uw=MACHINE.full_uw * 3 // 4, deadline_ns=30 * S),
        BudgetStep(at_ns=3 * 3600 * S, budget_uw=MACHINE.full_uw),
        BudgetStep(at_ns=4 * 3600 * S, budget_uw=MACHINE.full_uw * 3 // 4),
    )
)


def case(
    policy: str, folder: Path | None = None, *, seed: int = 1, jobs: int = 20, **changed: object
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
    """Contents of every file below a folder, by path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
