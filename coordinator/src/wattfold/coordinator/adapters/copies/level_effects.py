"""Effects of DRAM and GPU power levels, for people and for the measurement of job speed."""

from __future__ import annotations

from wattfold.coordinator.core.model.job import Job
from wattfold.coordinator.core.power.charge import dram_beyond_uw, gpus_lowered_uw, gpus_uw
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import coordinator_pb2 as pb


def add_levels(message: pb.Power, state: State) -> None:
    """Add the number of jobs with levels, their extra (or saved) power, and the GPUs in use."""
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
    """Whether a job has DRAM below its default caps or GPUs below their maximum.

    A profile knows only package caps, so runs at such levels would distort it.
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
