"""Notes on a run for readers of its results: the source of profiles, the counting of nodes.

Results of drawn profiles are only as good as the draw, so all displays of results say so.
"""

from __future__ import annotations

from collections.abc import Sequence

from wattfold.coordinator.policies.description import Pool
from wattfold.simulator.engine.machines.node_machine import NodeMachine
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.runs.build import counted_case
from wattfold.simulator.runs.case import SimulationCase
from wattfold.simulator.runs.schedulers import shares_alike


def profiles_of(case: SimulationCase) -> str | None:
    """Return ``drawn`` or ``file``; None: jobs run as logged, whatever their caps."""
    if not case.source.profiles:
        return None
    return "drawn" if case.source.annotations is None else "file"


def profile_document(case: SimulationCase) -> dict[str, object]:
    """Return the same for programs, with the seed of drawn profiles."""
    kind = profiles_of(case)
    return {"profiles": kind, "profiles_seed": case.seed if kind == "drawn" else None}


def profile_notes(cases: Sequence[SimulationCase]) -> list[str]:
    """Return sentences about the profiles of all runs of a command."""
    notes = []
    for kind in ("drawn", "file", None):
        of_kind = [case for case in cases if profiles_of(case) == kind]
        if not of_kind or of_kind[0].source.training is not None:
            continue
        names = ", ".join(dict.fromkeys(case.name for case in of_kind))
        whose = "" if len(of_kind) == len(cases) else f" ({names})"
        if kind == "drawn":
            seeds = sorted({case.seed for case in of_kind})
            which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
            notes.append(
                f"Profiles{whose}: drawn from {which}, not measured. They set how sizes and caps "
                "change run times."
            )
        elif kind == "file":
            assert of_kind[0].source.annotations is not None, "it has a file"
            notes.append(f"Profiles{whose}: {of_kind[0].source.annotations.name}.")
        else:
            notes.append(f"Run times{whose}: as logged, at full power; no profiles.")
    return notes


def by_name_note(case: SimulationCase, table: JobTable) -> str:
    """Explain how a policy on named nodes differs from its version on counted nodes."""
    variant = case.policy.entry.variant
    if not isinstance(case.machine, NodeMachine) or variant.pool is None or not variant.by_name:
        return ""
    if isinstance(counted_case(case, table).machine, NodeMachine):
        shared = variant.pool is Pool.SLOWDOWN_DRIVEN and shares_alike(case, table)
        return "" if shared else f"{case.policy.name}: {variant.by_name}"
    return ""
