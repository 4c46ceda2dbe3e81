"""Nodes and submissions of the service for a machine and jobs of the pool simulation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId, ZoneName
from wattfold.coordinator.core.model.account import Account, first_account
from wattfold.coordinator.core.model.events import ProfileStored
from wattfold.coordinator.core.model.jobs.core_sharing import CoreSharing
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec, ResizeMode
from wattfold.coordinator.core.model.node import Curve, NodeSpec, Zone, ZoneKind
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.messages.restarts import GRACE_NS, RestartTimes
from wattfold.simulator.messages.work import SpeedModel, Work

PACKAGE, DRAM = ZoneName("package-0"), ZoneName("dram")


def node_specs(
    machine: Machine,
    cores_per_node: int,
    *,
    window_ns: int = 1_000_000_000,
    curve: Curve | None = None,
) -> list[NodeSpec]:
    """Return the nodes: one package zone for all sockets, DRAM at its default cap."""
    package = Zone(
        name=PACKAGE,
        kind=ZoneKind.PACKAGE,
        cap_uw_min=machine.cap_uw_min,
        cap_uw_max=machine.cap_uw_max,
        floor_uw=machine.cap_uw_min,
        window_ns=window_ns,
    )
    dram = Zone(
        name=DRAM,
        kind=ZoneKind.DRAM,
        cap_uw_min=machine.dram_uw,
        cap_uw_max=machine.dram_uw,
        floor_uw=machine.dram_uw,
        window_ns=window_ns,
    )
    cpus = CpuSet.of(range(cores_per_node))
    digits = len(str(machine.nodes - 1))
    return [
        NodeSpec(
            node_id=NodeId(f"n{index:0{digits}}"),
            cpus=cpus,
            zones=(package, dram) if machine.dram_uw else (package,),
            base_power_uw=machine.base_uw,
            curve=curve,
        )
        for index in range(machine.nodes)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job to submit: its request, its profile, and its true work."""

    job_id: JobId
    submit_ns: int
    spec: JobSpec
    work: Work
    profile: ProfileStored | None


def submissions(
    jobs: JobTable,
    cores_per_node: int,
    *,
    unit: SizeUnit,
    model: SpeedModel,
    estimates: bool,
    restarts: RestartTimes | None = None,
    accounts: Sequence[Account] = (),
) -> Iterator[Submission]:
    """Yield the jobs of a table in its order; the ID of a job is its position.

    ``unit`` NODES: sizes are whole nodes. CORES: sizes are cores of one node. ``estimates``: users
    state their times; otherwise a policy knows only the profile of a job. ``restarts``: malleable
    jobs are resized by restarts. ``accounts``: of these, jobs count for the first of their users.
    Raises ValueError for a job larger than a node.
    """
    largest = int(jobs.size_max.max()) if len(jobs) else 0
    if unit is SizeUnit.CORES and largest > cores_per_node:
        raise ValueError(f"a job requests {largest} cores, but a node has {cores_per_node}")
    for index in range(len(jobs)):
        one = _submission(jobs, index, cores_per_node, unit, model, estimates)
        if accounts:
            account = first_account(accounts, one.spec.user)
            one = replace(one, spec=replace(one.spec, account=account))
        if restarts is not None and one.spec.kind is JobKind.MALLEABLE:
            grace_ns = max(2 * restarts.save_ns, GRACE_NS)
            one = replace(
                one,
                spec=replace(one.spec, mode=ResizeMode.RESTART, snapshot_grace_ns=grace_ns),
            )
        yield one


def _submission(
    jobs: JobTable, index: int, cores_per_node: int, unit: SizeUnit, model: SpeedModel, stated: bool
) -> Submission:
    low, high = int(jobs.size_min[index]), int(jobs.size_max[index])
    profile = jobs.profiles[index] if jobs.profiles else None
    # Every job scales differently, so each has its own application.
    app = f"{profile.app}-{index}" if profile else ""
    kind = JobKind.MOLDABLE if low < high else JobKind.RIGID
    if jobs.malleable[index]:
        kind = JobKind.MALLEABLE
    if profile is not None:
        profile = replace(profile, app=app, unit=unit)
    return Submission(
        job_id=JobId(str(index)),
        submit_ns=int(jobs.submit_ns[index]),
        spec=JobSpec(
            name=str(jobs.job_ids[index]),
            app=app,
            argv=("job",),
            kind=kind,
            unit=unit,
            size_min=low,
            size_max=high,
            time_ns=int(jobs.estimate_ns[index]) if stated or profile is None else 0,
            priority=float(jobs.priority[index]),
            user=str(jobs.users[index]),
            # As in pools, where malleable jobs share whole nodes under policies that support it.
            sharing=CoreSharing.BOTH if kind is JobKind.MALLEABLE else CoreSharing.AS_KIND,
        ),
        work=Work(
            run_ns=max(int(jobs.run_ns[index]), 1),
            asked_cores=high * (cores_per_node if unit is SizeUnit.NODES else 1),
            model=model,
            profile=profile,
        ),
        profile=ProfileStored(profile=profile, source="known") if profile else None,
    )
