"""What levels of DRAM and GPUs come to, as people are shown it beside the power of all nodes."""

from __future__ import annotations

from wattfold.coordinator.core.charge import dram_beyond_uw, gpus_beyond_uw
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
