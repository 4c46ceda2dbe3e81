"""Cores of running jobs that change their sizes on their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.jobs.assignment import Share
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.placement.core_choice import Want, distribute
from wattfold.coordinator.policies.resources.room import Room, takes_whole_nodes


def resize_in_place(
    running: Sequence[tuple[JobView, int]],
    room: Room,
) -> dict[str, tuple[Share, ...]]:
    """Return the cores of the running jobs at their new sizes; jobs that shrink go first.

    ``room`` holds the resources without these jobs, and afterwards the remaining free resources. A
    job whose growth is limited by blocked cores gets the available cores.
    """
    shares: dict[str, tuple[Share, ...]] = {}
    wants: dict[NodeId, list[Want]] = {}
    held: dict[JobId, Share] = {}
    for view, size in running:
        assert view.current is not None
        room.take(view.current.shares, 0, takes_whole_nodes(view.spec))
        if view.spec.unit is not SizeUnit.CORES or size == view.current.size:
            shares[view.job_id] = view.current.shares
        elif view.spec.exclusive:
            shares[view.job_id] = (_alone(view.current.shares[0], size, room),)
        else:
            share = view.current.shares[0]
            want = Want(job=view.job_id, size=size, held=share.cpus)
            wants.setdefault(share.node_id, []).append(want)
            held[view.job_id] = share
    for node_id, listed in wants.items():
        for job, cpus in _distributed(node_id, listed, room).items():
            shares[job] = (replace(held[job], cpus=cpus),)
    return shares


def _distributed(node_id: NodeId, wants: list[Want], room: Room) -> dict[JobId, CpuSet]:
    usable = room.free[node_id]
    for want in wants:
        usable = usable | want.held
    given = distribute(wants, usable, room.cores_of(node_id))
    for cpus in given.values():
        usable = usable - cpus
    room.free[node_id] = usable
    return given


def _alone(share: Share, size: int, room: Room) -> Share:
    want = Want(job=JobId(""), size=size, held=share.cpus)
    usable = room.whole[share.node_id] | share.cpus
    cores = distribute([want], usable, room.cores_of(share.node_id))
    return replace(share, cpus=cores[want.job])
