"""Builder of the limits of users and accounts for a case."""

from __future__ import annotations

from wattfold.coordinator.core.model.account import Demand, first_account
from wattfold.coordinator.core.power.charge import kind_gpus_uw, share_uw
from wattfold.coordinator.core.state.admissions import limits_for, refusal
from wattfold.simulator.engine.job_limits import JobLimits
from wattfold.simulator.engine.machines.node_machine import NodeClass, NodeMachine
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.runs.case import SimulationCase


def job_limits(case: SimulationCase, table: JobTable) -> JobLimits | None:
    """Return the limits of the jobs of a case; None = none.

    A job counts as in the service (`core/rules/accounts/demands.py`): with its maximum size, at the
    cap of the case or else at the maximum of the nodes. Raises ValueError for a job that exceeds a
    limit by itself, because the service refuses it.
    """
    limits = case.limits
    if limits is None:
        return None
    if limits.half_life_ns and case.messages is None:
        raise ValueError("fair share is simulated with --level messages only; remove [fair_share]")
    users = {one.name: one for one in limits.users}
    accounts = {one.name: one for one in limits.accounts}
    known = {
        user: limits_for(str(user), first_account(limits.accounts, str(user)), users, accounts)
        for user in sorted(set(table.users.tolist()))
    }
    classes = _classes(case)
    demands = [_demand(case, table, job, classes) for job in range(len(table))]
    found = [known[user] for user in table.users.tolist()]
    for job, (demand, its) in enumerate(zip(demands, found, strict=True)):
        refused = refusal(demand, its)
        if refused:
            raise ValueError(
                f"job {table.job_ids[job]} exceeds --limits by itself, so the service would refuse "
                f"it: {refused}; raise this limit, or cut the sizes of jobs (--cut-sizes)"
            )
    return JobLimits(submit_ns=table.submit_ns.tolist(), limits=found, demands=demands)


def _classes(case: SimulationCase) -> tuple[NodeClass, ...]:
    machine, level = case.machine, case.messages
    if isinstance(machine, NodeMachine):
        return machine.classes
    cores = level.cores_per_node if level is not None else case.source.procs_per_node
    return NodeMachine.of_counted(machine, cores).classes


def _demand(
    case: SimulationCase, table: JobTable, job: int, classes: tuple[NodeClass, ...]
) -> Demand:
    size, units, level_uw = int(table.size_max[job]), table.units, case.policy.cap_uw
    features = set(units.features[job]) if units is not None else set()
    gpus = int(units.gpus[job]) if units is not None else 0
    in_cores = case.messages is not None and case.messages.sizes_in == "cores"
    cores = power_uw = 0
    for one in classes:
        if not features <= {*one.features}:
            continue
        each = (int(units.cores[job]) if units is not None else 0) or one.cores
        count, each = (1, size) if in_cores else (size, each)
        level = one.cap_uw_max if level_uw is None else level_uw
        each_uw = share_uw(one.kind, min(each, one.cores), level)
        each_uw += kind_gpus_uw(one.kind, gpus, 0) if gpus else 0
        cores, power_uw = max(cores, count * each), max(power_uw, count * each_uw)
    return Demand(1, cores, power_uw)
