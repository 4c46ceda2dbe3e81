"""Times of a run at which its budget or its nodes change."""

from __future__ import annotations

from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.machines.node_machine import NodeMachine


def steps_of(
    budget: BudgetSchedule, machine: Machine | NodeMachine, start_ns: int
) -> list[tuple[int, int]]:
    """Return the times of the log at which budget or nodes change, each with its budget."""
    steps = [(start_ns + s.at_ns, s.budget_uw) for s in budget.steps]
    windows = machine.windows if isinstance(machine, NodeMachine) else ()
    known = {at_ns for at_ns, _ in steps}
    edges = {start_ns + edge for w in windows for edge in (w.start_ns, w.end_ns)} - known
    for at_ns in sorted(edges):
        in_force = max((step for step in steps if step[0] <= at_ns), key=lambda step: step[0])
        steps.append((at_ns, in_force[1]))
    return sorted(steps)
