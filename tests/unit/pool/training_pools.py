"""A small machine with GPUs, and its training jobs."""

from __future__ import annotations

from collections.abc import Sequence

from wattfold.coordinator.models.gpu_curve import GpuCurve
from wattfold.coordinator.models.training import EpochTime
from wattfold.simulator.engine.machines.node_machine import GpuWatts, NodeClass, NodeMachine
from wattfold.simulator.workloads.training_files import TrainingJob

CURVE = GpuCurve(static_w=50, full_w=250, knee=0.8, beta=0.2)
TIMES = {
    "net": (
        EpochTime(gpu_model="V100", gpus=1, seconds=10, curve=CURVE),
        EpochTime(gpu_model="V100", gpus=2, seconds=6, curve=CURVE),
        EpochTime(gpu_model="T4", gpus=1, seconds=20),
    )
}
V100_W = GpuWatts(model="V100", min_w=100, max_w=250, idle_w=40)
T4_W = GpuWatts(model="T4", min_w=60, max_w=70, idle_w=10)
BESIDE = {"base_w": 8.0, "dram_w": 2.0, "cap_w_min": 20.0, "cap_w_max": 60.0}
MACHINE = NodeMachine(
    classes=(
        NodeClass.of_watts("v100", 2, 8, gpus=2, gpu=V100_W, **BESIDE),
        NodeClass.of_watts("t4", 1, 8, gpus=1, gpu=T4_W, **BESIDE),
    )
)
"""Nodes 0 and 1 have two V100 each, and node 2 has a T4; a unit has 4 cores."""


def jobs(*submits_s: float, epochs: int = 10, **more) -> Sequence[TrainingJob]:
    return [
        TrainingJob(job_id=number, submit_s=at_s, app="net", epochs=epochs, **more)
        for number, at_s in enumerate(submits_s, start=1)
    ]
