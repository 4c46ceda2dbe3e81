"""Nodes, queues and submissions as values of the core, from the messages of a coordinator."""

from __future__ import annotations

from collections.abc import Iterable

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId, ZoneName
from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.adapters.requests.wire_enums import KINDS, MODES, SHARINGS, SPREADS, UNITS
from wattfold.coordinator.cli.shared.texts.formatting import serves
from wattfold.coordinator.core.model.account import Account, UsageLimits, UserLimits
from wattfold.coordinator.core.model.configuration import AccountsConfigured
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.levels import Levels
from wattfold.coordinator.core.model.node import Curve, NodeSpec, Zone, ZoneKind
from wattfold.coordinator.core.model.queue import Queue
from wattfold.v1 import coordinator_pb2 as pb

WINDOW_NS = NS_PER_S
"""Averaging window of all zones. No message states it; RAPL uses about a second."""
_ZONES = {"package": ZoneKind.PACKAGE, "dram": ZoneKind.DRAM, "gpu": ZoneKind.GPU}


def job_spec_of(message: pb.Job, due_ns: int) -> JobSpec:
    """Return the submission of a job, without its command. ``due_ns`` -1: no due date."""
    spec, job_id = message.spec, message.job_id
    unit = UNITS[spec.unit]
    return JobSpec(
        name=spec.name or job_id,
        # The programs of other accounts are hidden. No two jobs may then share a profile.
        app=spec.app or f"job-{job_id}",
        argv=("job",),
        kind=KINDS[spec.kind],
        unit=unit,
        size_min=spec.size_min or 1,
        size_max=spec.size_max or spec.size_min or 1,
        time_ns=spec.time_ns,
        priority=spec.priority or 1.0,
        mode=MODES[spec.mode],
        exclusive=spec.exclusive,
        cap_uw=spec.cap_uw,
        user=message.user,
        account=spec.account,
        tasks_per_node=spec.tasks_per_node or 1,
        limit_ns=spec.limit_ns,
        requeue_max=spec.requeue_max,
        requeue_on_failure=spec.requeue_on_failure,
        restartable=spec.restartable,
        snapshot_grace_ns=spec.snapshot_grace_ns,
        memory_bytes=spec.memory_bytes,
        gpus=spec.gpus,
        features=tuple(spec.features),
        queue=spec.queue,
        due_ns=due_ns,
        weight=spec.weight or 1.0,
        reservation=spec.reservation,
        preemptable=spec.preemptable,
        levels=Levels(dram_uw=spec.dram_cap_uw, gpu_uw=spec.gpu_cap_uw),
        sharing=SHARINGS[spec.sharing],
        unit_cores=spec.unit_cores,
        spread=SPREADS[spec.spread],
        among=tuple(map(NodeId, spec.among)),
        predicted_uw=spec.predicted_uw,
        epochs=spec.epochs,
    )


def limits_of(messages: Iterable[pb.Account]) -> AccountsConfigured:
    """Return the accounts and the limits of users."""
    accounts, users = [], []
    for message in messages:
        limits = UsageLimits(
            jobs_max=message.jobs_max,
            cores_max=message.cores_max,
            power_uw_max=message.power_uw_max,
        )
        if message.kind == "user":
            users.append(UserLimits(name=message.name, limits=limits))
        else:
            members = tuple(message.members)
            accounts.append(Account(name=message.name, members=members, limits=limits))
    return AccountsConfigured(accounts=tuple(accounts), users=tuple(users))


def has_left(node: pb.Node) -> bool:
    """Whether a node is not in service, so that no job runs there."""
    in_service = (pb.NODE_DUTY_DRAINING, pb.NODE_DUTY_LEAVING)
    return not serves(node) and node.duty not in in_service


def is_closed(node: pb.Node) -> bool:
    """Whether a node takes no new jobs."""
    return not serves(node) or bool(node.launch_fault)


def spec_of(node: pb.Node) -> NodeSpec:
    """Return the facts about a node. Its topology is unknown."""
    model = node.model
    return NodeSpec(
        node_id=NodeId(node.node_id),
        cpus=CpuSet.parse(node.cpus),
        zones=tuple(map(_zone_of, node.zones)),
        base_power_uw=node.base_power_uw,
        curve=Curve(
            a=model.a,
            b=model.b,
            c=model.c,
            f_low_ghz=model.f_low_ghz,
            f_high_ghz=model.f_high_ghz,
        )
        if node.HasField("model")
        else None,
        memory_bytes=node.memory_bytes,
        gpus=tuple(node.gpus),
        features=tuple(node.features),
        gpu_model=node.gpu_model,
    )


def _zone_of(message: pb.NodeZone) -> Zone:
    low_uw, high_uw, floor_uw = message.cap_uw_min, message.cap_uw_max, message.floor_uw
    kind = next((one for start, one in _ZONES.items() if message.name.startswith(start)), None)
    return Zone(
        name=ZoneName(message.name),
        kind=kind or ZoneKind.DRAM,
        cap_uw_min=low_uw,
        cap_uw_max=high_uw,
        floor_uw=floor_uw,
        window_ns=WINDOW_NS,
        # Zones that cannot be capped have no floor.
        can_cap=0 < low_uw <= floor_uw <= high_uw,
    )


def queue_of(message: pb.Queue) -> Queue:
    """Return a queue. Its rules of core sharing are unknown."""
    return Queue(
        name=message.name,
        priority=message.priority,
        weight=message.weight,
        time_limit_ns=message.time_limit_ns,
        time_limit_max_ns=message.time_limit_ns_max,
        cores_max=message.cores_max,
        nodes_max=message.nodes_max,
        wait_expected_ns=message.wait_ns_expected,
        wait_max_ns=message.wait_ns_max,
        preempts=tuple(message.preempts),
        sharing=SHARINGS[message.sharing],
    )
