"""What levels of DRAM and GPUs come to: for people, and for those who watch how fast jobs are."""

from __future__ import annotations

from wattfold.coordinator.core.charge import dram_beyond_uw, gpus_beyond_uw
from wattfold.coordinator.core.job import Job
from wattfold.coordinator.core.state import State
from wattfold.v1 import coordinator_pb2 as pb


def add_levels(message: pb.Power, state: State) -> None:
    """How many jobs have levels, and what these zones hold more (or less) for them."""
    dram_cap_uw = state.settings.dram_cap_uw
    for job in state.placed():
        if job.target is None or not job.target.levels:
            continue
        message.levelled_jobs += 1
        levels = job.target.levels
        for share in job.target.shares:
            node = state.nodes.get(share.node_id)
            if node is None or node.spec is None:
                continue
            whole_uw = dram_beyond_uw(node.spec, levels.dram_uw, dram_cap_uw)
            message.dram_beyond_uw += len(share.cpus) * whole_uw // node.spec.kind.cores
            message.gpu_beyond_uw += gpus_beyond_uw(
                node.spec, share.gpus, levels.gpu_uw, dram_cap_uw
            )


def held_back(state: State, job: Job) -> bool:
    """Whether DRAM or GPUs of a job have less than their standing caps.

    A profile knows package caps only: what is done so would teach it wrongly.
    """
    target = job.target
    if target is None or not target.levels:
        return False
    dram_cap_uw, levels = state.settings.dram_cap_uw, target.levels
    for share in target.shares:
        node = state.nodes.get(share.node_id)
        if node is None or node.spec is None:
            continue
        dram_uw = dram_beyond_uw(node.spec, levels.dram_uw, dram_cap_uw)
        if min(dram_uw, gpus_beyond_uw(node.spec, share.gpus, levels.gpu_uw, dram_cap_uw)) < 0:
            return True
    return False
