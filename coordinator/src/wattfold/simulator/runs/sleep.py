"""Builder of the sleeping nodes of a case, which refuses cases whose nodes cannot sleep."""

from __future__ import annotations

import random
from dataclasses import replace

from wattfold.simulator.engine.machines.node_machine import NodeMachine
from wattfold.simulator.engine.schedulers.named_nodes import node_views
from wattfold.simulator.engine.sleep.site_state import SiteState
from wattfold.simulator.engine.sleep.sleeping import SleepingNodes
from wattfold.simulator.runs.case import SimulationCase


def at_rest(case: SimulationCase) -> SimulationCase:
    """Return the case with the charge that plans assume for a node without a job.

    It is that of a sleeping node, unless nodes sleep by a timer that no plan knows.
    """
    sleep = case.sleep
    if sleep is None or sleep.rules.timer_ns:
        return case
    return replace(case, machine=replace(case.counted, idle_uw=sleep.rules.asleep_uw))


def at_floors(machine: NodeMachine) -> NodeMachine:
    """Return a machine whose idle nodes are charged with their floors, as in the service."""
    classes = (
        replace(one, idle_uw=max(one.idle_uw, one.busy_uw(one.cap_uw_min)))
        for one in machine.classes
    )
    return replace(machine, classes=tuple(classes))


def site_of(case: SimulationCase, machine: NodeMachine, start_ns: int) -> SiteState:
    """Return the named nodes of a case, all awake.

    Raises ValueError for nodes in windows, or a budget that feeds no boot.
    """
    assert case.sleep is not None, "the nodes of the case sleep"
    if machine.windows:
        raise ValueError("nodes that sleep have no windows; omit [[window]] or --sleep")
    charged, rules = at_floors(machine), case.sleep.rules
    boot_uw = max((one.boot_uw for one in machine.boots), default=0) or rules.boot_uw
    _check_budget(case, charged.idle_total_uw, max(boot_uw, rules.boot_uw))
    return SiteState(
        charged,
        [view.spec for view in node_views(charged)],
        rules,
        case.budget.least_uw,
        idle_uw=[one.idle_uw for one in machine.classes],
        failing=case.sleep.failing,
        seed=case.seed,
        start_ns=start_ns,
    )


def _check_budget(case: SimulationCase, idle_uw: int, boot_uw: int) -> None:
    if not case.budget.is_constant:
        raise ValueError("sleeping nodes need a constant budget; give --budget with one value")
    least_uw = idle_uw + boot_uw
    if case.budget.least_uw < least_uw:
        raise ValueError(
            f"the budget of {case.budget.least_uw / 1e6:g} W is below {least_uw / 1e6:g} W, the "
            f"power of {case.machine.nodes} idle nodes and a boot, with which the simulation begins"
        )


def sleeping_nodes(case: SimulationCase, start_ns: int) -> SleepingNodes:
    """Return the counted nodes of a case, all awake. Raises ValueError for a low budget."""
    assert case.sleep is not None, "the nodes of the case sleep"
    machine, rules = case.counted, case.sleep.rules
    _check_budget(case, machine.nodes * rules.idle_uw, rules.boot_uw)
    return SleepingNodes(
        rules=rules,
        nodes=machine.nodes,
        base_uw=machine.idle_uw,
        cap_uw_min=machine.cap_uw_min,
        rng=random.Random(case.seed),  # noqa: S311 - a simulation, not a secret
        failing=case.sleep.failing,
        start_ns=start_ns,
    )
