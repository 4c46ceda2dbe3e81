"""Limits of users and accounts in simulations, under every policy, as in the service."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from contract.policies.test_frozen_decisions import COUNTED
from contract.policies.test_held_jobs import case_of

from wattfold.coordinator.core.model.account import Account, UsageLimits, UserLimits
from wattfold.coordinator.core.model.configuration import AccountsConfigured
from wattfold.coordinator.core.model.ramp_limits import RampLimits
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.driver.sleep_plan import SleepRules
from wattfold.simulator.engine.machines.node_machine import NodeMachine
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.runs.build import jobs_of, simulation_of
from wattfold.simulator.runs.by_messages import run_by_messages
from wattfold.simulator.runs.case import MessageLevel, SimulationCase, SleepCase

USERS = 3
FEW = AccountsConfigured(
    accounts=(
        Account(name="lab", members=("0", "1"), limits=UsageLimits(jobs_max=3)),
        Account(name="rest", members=("*",)),
    ),
    users=(UserLimits(name="*", limits=UsageLimits(jobs_max=2)),),
)
MANY = AccountsConfigured(
    accounts=(), users=(UserLimits(name="*", limits=UsageLimits(jobs_max=1000)),)
)
ENTRIES = list(registry.entries())
every_entry = pytest.mark.parametrize(
    "entry", ENTRIES, ids=[entry.variant.simulator_name for entry in ENTRIES]
)


def table_of(case: SimulationCase) -> JobTable:
    table = jobs_of(case)[0]
    return replace(table, users=np.arange(len(table), dtype=np.int64) % USERS)


def run_of(case: SimulationCase, table: JobTable) -> RunRecord:
    simulation = simulation_of(case, table)
    simulation.run()
    return simulation.record()


def most_at_once(starts: np.ndarray, ends: np.ndarray) -> int:
    """Return the maximum number of jobs that run at the same time; an end precedes a start."""
    changes = sorted([(int(at), 1) for at in starts] + [(int(at), -1) for at in ends])
    return int(max(np.cumsum([step for _, step in changes]), default=0))


def check_limits(starts: np.ndarray, ends: np.ndarray, users: np.ndarray) -> None:
    assert (ends > 0).all(), "every job has ended"
    for user in range(USERS):
        assert most_at_once(starts[users == user], ends[users == user]) <= 2
    lab = users < 2
    assert most_at_once(starts[lab], ends[lab]) <= 3


@every_entry
def test_limits_hold_on_counted_nodes_and_by_node(entry: registry.RegisteredPolicy) -> None:
    case = replace(case_of(entry), limits=FEW)
    table = table_of(case)
    free = run_of(replace(case, limits=None), table)
    with pytest.raises(AssertionError):
        check_limits(free.columns.start_ns, free.columns.end_ns, table.users)
    counted = run_of(case, table).columns
    check_limits(counted.start_ns, counted.end_ns, table.users)
    named = replace(case, machine=NodeMachine.of_counted(COUNTED, 4))
    if entry.variant.service is not None:
        columns = run_of(named, table).columns
        check_limits(columns.start_ns, columns.end_ns, table.users)
    wide = run_of(replace(case, limits=MANY), table).columns
    assert np.array_equal(wide.start_ns, free.columns.start_ns)
    assert np.array_equal(wide.end_ns, free.columns.end_ns)


@pytest.mark.parametrize(
    "entry",
    [entry for entry in ENTRIES if entry.variant.service is not None],
    ids=lambda entry: entry.variant.simulator_name,
)
def test_the_service_starts_the_same_jobs_at_the_same_times(
    entry: registry.RegisteredPolicy,
) -> None:
    case = replace(case_of(entry), limits=FEW)
    if not entry.family.needs_profiles:
        case = replace(case, source=replace(case.source, profiles=False))
    table = table_of(case)
    level = MessageLevel(cores_per_node=4, lease_s=40_000)
    record = run_by_messages(replace(case, messages=level), table, level)
    check_limits(record.columns.start_ns, record.columns.end_ns, table.users)
    pool = run_of(case, table).columns
    late_s = np.abs(record.columns.start_ns - pool.start_ns) / 1e9
    assert late_s.max() < 1


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (UsageLimits(cores_max=2), "user 1 may use at most 2 cores at the same time"),
        (UsageLimits(power_uw_max=10**6), "user 1 may use at most 1 W above idle"),
    ],
)
def test_a_job_above_a_limit_by_itself_is_refused(limits: UsageLimits, text: str) -> None:
    case = replace(
        case_of(ENTRIES[0]), limits=replace(FEW, users=(UserLimits(name="1", limits=limits),))
    )
    table = table_of(case)
    with pytest.raises(ValueError, match=text) as refused:
        simulation_of(replace(case, source=replace(case.source, procs_per_node=4)), table)
    assert "the service would refuse it" in str(refused.value)


def test_a_stopped_run_resumes_with_its_limits() -> None:
    entry = next(one for one in ENTRIES if one.variant.name == "equipartition")
    case = replace(case_of(entry), limits=FEW)
    table = table_of(case)
    whole = run_of(case, table)
    simulation = simulation_of(case, table)
    turns = iter([True, False])
    assert not simulation.run(lambda _: next(turns))
    again = pickle.loads(pickle.dumps(simulation))
    again.run()
    assert np.array_equal(again.record().columns.end_ns, whole.columns.end_ns)


def test_pools_refuse_fair_share() -> None:
    case = replace(case_of(ENTRIES[0]), limits=replace(MANY, half_life_ns=10**12))
    with pytest.raises(ValueError, match="fair share is simulated with --level messages only"):
        simulation_of(case, table_of(case))


def test_limits_hold_with_nodes_that_sleep_and_under_a_ramp_limit() -> None:
    """Counted and named nodes that sleep, and a limit on the rise of power."""
    entry = next(one for one in ENTRIES if one.variant.name == "fifo-easy")
    case = replace(case_of(entry), limits=FEW)
    table = table_of(case)
    case = replace(case, source=replace(case.source, profiles=False))
    rules = SleepRules(
        idle_uw=COUNTED.idle_uw,
        asleep_uw=10**6,
        boot_uw=COUNTED.idle_uw,
        boot_ns=180 * 10**9,
        suspend_ns=30 * 10**9,
    )
    asleep = replace(case, sleep=SleepCase(rules=rules))
    named = replace(asleep, machine=NodeMachine.of_counted(COUNTED, 4))
    ramped = replace(case, ramp=RampLimits(rise_uw_per_s=10**6))
    for one in (asleep, named, ramped):
        columns = run_of(one, table).columns
        check_limits(columns.start_ns, columns.end_ns, table.users)
