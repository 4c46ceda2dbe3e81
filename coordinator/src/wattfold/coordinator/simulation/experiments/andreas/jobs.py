"""The jobs and the machine of a scenario, drawn from a seed.

As the generator does it that is published with the successors of the paper: jobs are drawn from the
profiles, all alike likely. They come in clusters of ten; a cluster has a rate, the mean of its
jobs' rates (GPUs of the machine, were each node one with most, over the time of the job on the
fastest single GPU) times 1.3/3 or 1.3/12, in turn, and times between its jobs are exponential. The
first job comes at time 0. Due dates are U(1, 3) times the time of a job where it is fastest after
its submission, weights 2 U(0.0015, 0.0075) EUR a second.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wattfold.coordinator.simulation.experiments.andreas.profiles import (
    EPOCHS,
    PROFILES,
    T4,
    V100,
    Profile,
)
from wattfold.coordinator.simulation.experiments.andreas.settings import (
    CLUSTER_JOBS,
    DUE,
    HIGH,
    LOW,
    MOST_S,
    WEIGHT_EUR,
    Scenario,
    Settings,
)
from wattfold.coordinator.simulation.pool.node_machine import GpuWatts, NodeClass, NodeMachine
from wattfold.coordinator.simulation.pool.prices import LATE_EUR_H
from wattfold.coordinator.simulation.workloads.training_files import EpochTimes, TrainingJob

YEAR = 2021
"""Of the paper; part of all seeds."""
CORES = 32
V100_W = GpuWatts(model=V100, min_w=100, max_w=250, idle_w=36)
T4_W = GpuWatts(model=T4, min_w=60, max_w=70, idle_w=10)
"""PCIe boards: ranges of limits, and what is seen of idle ones."""


def machine_of(scenario: Scenario, nodes: int, settings: Settings) -> NodeMachine:
    """Half V100, half T4; of an odd number one more V100."""
    counts = ((V100_W, scenario.v100, nodes - nodes // 2), (T4_W, scenario.t4, nodes // 2))
    return NodeMachine(
        classes=tuple(
            node_class(gpu, gpus, count, settings) for gpu, gpus, count in counts if count
        )
    )


def node_class(gpu: GpuWatts, gpus: int, count: int, settings: Settings) -> NodeClass:
    """So many nodes of so many GPUs each."""
    packages_w = settings.host_idle_w / 4
    return NodeClass.of_watts(
        f"{gpu.model.lower()}-x{gpus}",
        count,
        CORES,
        gpus=gpus,
        gpu=gpu,
        base_w=settings.host_idle_w - packages_w,
        dram_w=0.0,
        cap_w_min=packages_w,
        cap_w_max=packages_w + settings.host_work_w,
    )


def epoch_times(profiles: Sequence[Profile] = PROFILES) -> EpochTimes:
    """What an epoch takes, by application."""
    return {one.app: one.times for one in profiles}


def drawn_jobs(
    scenario: Scenario, nodes: int, count: int, seed: int, settings: Settings
) -> tuple[TrainingJob, ...]:
    """So many jobs for the machine of a scenario."""
    chance = np.random.default_rng(np.random.SeedSequence([YEAR, scenario.number, nodes, seed]))
    kinds = [_kind(chance, scenario) for _ in range(count)]
    gpus = nodes * max(scenario.v100, scenario.t4)
    jobs: list[TrainingJob] = []
    now_s = 0.0
    for first in range(0, count, CLUSTER_JOBS):
        cluster = kinds[first : first + CLUSTER_JOBS]
        factor = HIGH if first // CLUSTER_JOBS % 2 == 0 else LOW
        rate = factor * float(np.mean([gpus / _single_s(*kind) for kind in cluster]))
        for profile, epochs in cluster:
            now_s += float(chance.exponential(1 / rate)) if jobs else 0.0
            fastest_s = epochs * min(_epochs_s(profile, scenario))
            due_s = now_s + float(chance.uniform(*DUE)) * fastest_s
            jobs.append(
                TrainingJob(
                    job_id=len(jobs) + 1,
                    submit_s=round(now_s, 3),
                    app=profile.app,
                    epochs=epochs,
                    due_s=round(due_s, 3),
                    weight=float(chance.uniform(*WEIGHT_EUR)) * 3600 / LATE_EUR_H,
                    snapshot_epochs=settings.snapshot_epochs,
                )
            )
    return tuple(jobs)


def _kind(chance: np.random.Generator, scenario: Scenario) -> tuple[Profile, int]:
    while True:
        profile = PROFILES[int(chance.integers(len(PROFILES)))]
        epochs = EPOCHS[int(chance.integers(len(EPOCHS)))]
        if epochs * max(_epochs_s(profile, scenario)) < MOST_S:
            return profile, epochs


def _epochs_s(profile: Profile, scenario: Scenario) -> list[float]:
    """An epoch in all configurations that there are."""
    most = {V100: scenario.v100, T4: scenario.t4}
    return [one.seconds for one in profile.times if one.gpus <= most[one.gpu_model]]


def _single_s(profile: Profile, epochs: int) -> float:
    return epochs * min(one.seconds for one in profile.times if one.gpus == 1)
