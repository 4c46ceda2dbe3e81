"""What levels of DRAM and GPUs come to: for people, and for those who watch how fast jobs are."""

from __future__ import annotations

from wattfold.coordinator.core.charge import dram_beyond_uw, gpus_lowered_uw, gpus_uw
from wattfold.coordinator.core.job import Job
from wattfold.coordinator.core.state import State
from wattfold.v1 import coordinator_pb2 as pb


def add_levels(message: pb.Power, state: State) -> None:
    """How many jobs have levels, what these zones hold more (or less) for them, and which GPUs
    have owners."""
    dram_cap_uw = state.settings.dram_cap_uw
    message.gpus = sum(len(node.spec.gpus) for node in state.nodes.values() if node.spec)
    for job in state.placed():
        if job.target is None:
            continue
        levels = job.target.levels
        message.levelled_jobs += bool(levels)
        for share in job.target.shares:
            node = state.nodes.get(share.node_id)
            if node is None or node.spec is None:
                continue
            if levels.dram_uw:
                whole_uw = dram_beyond_uw(node.spec, levels.dram_uw, dram_cap_uw)
                message.dram_beyond_uw += len(share.cpus) * whole_uw // node.spec.kind.cores
            message.gpus_owned += len(share.gpus)
            message.gpus_uw += gpus_uw(node.spec, share.gpus, levels.gpu_uw)
            message.gpu_beyond_uw -= gpus_lowered_uw(node.spec, share.gpus, levels.gpu_uw)


def held_back(state: State, job: Job) -> bool:
    """Whether DRAM of a job has less than its standing caps, or its GPUs less than their greatest.

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
        if dram_uw < 0 or gpus_lowered_uw(node.spec, share.gpus, levels.gpu_uw) > 0:
            return True
    return False
