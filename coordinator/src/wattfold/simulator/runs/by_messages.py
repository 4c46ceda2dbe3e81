"""Simulation of a case with messages: the service's core and policies with simulated agents.

It includes averaging windows, leases, delays and lost messages, which the pool leaves out. It lacks
placements on a torus, DRAM caps, resizes of jobs on whole nodes, stop and resume, which the pool
has.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from wattfold.contract.units import NS_PER_S, ns_from_s, w_from_uw
from wattfold.coordinator.core.model.node_power import SleepSettings
from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.core.state.state import CoreSettings
from wattfold.coordinator.models.forecast import USER
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.sleep.site_state import settings_of
from wattfold.simulator.messages.driver import ClusterOptions
from wattfold.simulator.messages.faults import Faults
from wattfold.simulator.messages.meter import MeteredBudget
from wattfold.simulator.messages.record import ClusterRecord
from wattfold.simulator.messages.restarts import RestartTimes
from wattfold.simulator.messages.run import SimulationInputs, run
from wattfold.simulator.messages.work import SpeedModel
from wattfold.simulator.runs.case import MessageLevel, PolicyChoice, SimulationCase
from wattfold.simulator.runs.limits import job_limits

COMMAND_S = 1.0
"""Timeout of a command in the simulated cluster."""
CHECK_EVERY = 200
"""Events between two checks of the whole state; parts changed by an event are checked at once."""


def run_by_messages(case: SimulationCase, table: JobTable, level: MessageLevel) -> ClusterRecord:
    """Run a case to its end.

    Raises ValueError for settings without support here and for jobs that can never start, and the
    core's errors with the last events.
    """
    if case.source.ends_at_limit:
        raise ValueError("--end-at-limit is for the pool")
    case.policy.check_unlimited("not at the level of messages")
    _check_deadlines(case, level)
    _check_floors(case)
    job_limits(case, table)
    first_ns = int(table.submit_ns.min()) if len(table) else 0
    budget = tuple(
        MeteredBudget(
            time_ns=first_ns + step.at_ns,
            budget_uw=step.budget_uw,
            deadline_ns=step.deadline_ns,
        )
        for step in case.budget.steps
    )
    experiment = SimulationInputs(
        budget=budget,
        cores_per_node=level.cores_per_node,
        unit=SizeUnit(level.sizes_in),
        model=SpeedModel(case.model.value) if case.model else None,
        window_ns=ns_from_s(level.window_s),
        restart=level.restarts,
        limits=case.limits,
        options=ClusterOptions(
            seed=case.seed,
            faults=Faults(
                lose=level.lose,
                late=level.late,
                double=level.double,
                refuse=level.refuse,
                boot_fails=case.sleep.failing if case.sleep else 0.0,
                delay_ns=ns_from_s(level.delay_s),
            ),
            lease_ns=ns_from_s(level.lease_s),
            restarts=RestartTimes(
                save_ns=ns_from_s(level.save_s), start_ns=ns_from_s(level.start_s)
            ),
            settings=CoreSettings(
                check_every=CHECK_EVERY, predict=case.predict or USER, sleep=_sleep(case)
            ),
            journal=False,
        ),
        ramp=case.ramp,
    )
    record = run(case.counted, table, policy_of(case.policy), experiment)
    return replace(record, policy=case.name) if case.predict or case.sleep else record


def _sleep(case: SimulationCase) -> SleepSettings:
    """Return how nodes sleep. Their boots take half of the time after which they have failed."""
    if case.sleep is None:
        return SleepSettings()
    rules = case.sleep.rules
    if rules.timer_ns:
        raise ValueError("a plain idle timer is for the pool; the service decides with its plans")
    return settings_of(rules, rules.boot_ns, rules.boot_uw)


def _check_deadlines(case: SimulationCase, level: MessageLevel) -> None:
    """Check deadlines: a lower budget needs time for a command and an averaging window."""
    least_s = level.window_s + COMMAND_S
    for before, step in pairwise(case.budget.steps):
        if step.budget_uw < before.budget_uw and step.deadline_ns < ns_from_s(least_s):
            raise ValueError(
                f"the budget falls at {step.at_ns / NS_PER_S:g} s with a deadline of "
                f"{step.deadline_ns / NS_PER_S:g} s; agents need at least {least_s:g} s: a command "
                "and an averaging window"
            )


def _check_floors(case: SimulationCase) -> None:
    machine = case.counted
    floors_uw = machine.nodes * machine.busy_uw(machine.cap_uw_min)
    if case.budget.least_uw <= floors_uw:
        raise ValueError(
            f"the budget of {w_from_uw(case.budget.least_uw):g} W is not above the "
            f"{w_from_uw(floors_uw):g} W that {machine.nodes} nodes are charged at their "
            "floors"
        )


def policy_of(choice: PolicyChoice) -> Policy:
    """Return the service's policy of a choice. Raises ValueError for unsupported settings."""
    if choice.cap_uw is not None:
        raise ValueError("--cap is for the pool; with messages, jobs run at the maximum cap")
    if choice.caps_uw is not None or choice.price_resizes:
        raise ValueError(
            "--caps and --price-resizes are for the pool; the service spaces the caps itself"
        )
    return choice.entry.service(choice.values())
