"""Builder of the sleeping nodes of a case, which refuses cases whose nodes cannot sleep."""

from __future__ import annotations

import random
from dataclasses import replace

from wattfold.simulator.engine.sleep.sleeping import SleepingNodes
from wattfold.simulator.runs.case import SimulationCase
from wattfold.simulator.runs.schedulers import counts


def at_rest(case: SimulationCase) -> SimulationCase:
    """Return the case with the charge that plans assume for a node without a job.

    It is that of a sleeping node, unless nodes sleep by a timer that no plan knows.
    """
    sleep = case.sleep
    if sleep is None or sleep.rules.timer_ns:
        return case
    return replace(case, machine=replace(case.counted, idle_uw=sleep.rules.asleep_uw))


def sleeping_nodes(case: SimulationCase, start_ns: int) -> SleepingNodes:
    """Return the nodes of a case, all awake.

    Raises ValueError for a case whose nodes are not counted, or a budget that feeds no boot.
    """
    assert case.sleep is not None, "the nodes of the case sleep"
    machine, rules = case.counted, case.sleep.rules
    least_uw = machine.nodes * rules.idle_uw + rules.boot_uw
    if not counts(case):
        raise ValueError(
            f"{case.policy.name} decides by named nodes; sleeping nodes are simulated in counted "
            "pools only. Use another policy"
        )
    if not case.budget.is_constant:
        raise ValueError("sleeping nodes need a constant budget; give --budget with one value")
    if case.budget.least_uw < least_uw:
        raise ValueError(
            f"the budget of {case.budget.least_uw / 1e6:g} W is below {least_uw / 1e6:g} W, the "
            f"power of {machine.nodes} idle nodes and a boot, with which the simulation begins"
        )
    return SleepingNodes(
        rules=rules,
        nodes=machine.nodes,
        base_uw=machine.idle_uw,
        rng=random.Random(case.seed),  # noqa: S311 - a simulation, not a secret
        failing=case.sleep.failing,
        start_ns=start_ns,
    )
