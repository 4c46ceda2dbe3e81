"""Jobs and machine of a scenario, drawn from a seed.

The draw follows the generator published with the successors of the paper. Jobs are drawn from the
profiles with equal probability. They come in clusters of ten. A cluster has a rate: the mean of its
jobs' rates times 1.3/3 or 1.3/12, in turn. The rate of a job is the GPUs of the machine, if each
node had the maximum number, over the time of the job on the fastest single GPU. Times between jobs
of a cluster are exponential. The first job comes at time 0. Due dates are U(1, 3) times the fastest
time of a job after its submission, weights 2 U(0.0015, 0.0075) EUR per second.

Measured jobs (`measured`) follow the generator published with them. The rates use the two GPUs that
a job can use at most, whatever the nodes have, times 1/2.5 or 1/10. Due dates are U(fastest,
slowest time). Its weights are 0.025 to 0.044 EUR per second; the lower weights above are used here
instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wattfold.coordinator.models.training import EpochTime
from wattfold.simulator.engine.machines.node_machine import GpuWatts, NodeClass, NodeMachine
from wattfold.simulator.engine.prices import LATE_EUR_H
from wattfold.simulator.papers.andreas import measured
from wattfold.simulator.papers.andreas.profiles import EPOCHS, PROFILES, T4, V100
from wattfold.simulator.papers.andreas.settings import (
    CLUSTER_JOBS,
    COMPOSED,
    DUE,
    HIGH,
    LOW,
    MEASURED,
    MEASURED_HIGH,
    MEASURED_LOW,
    MOST_S,
    WEIGHT_EUR,
    AndreasAssumptions,
    Scenario,
)
from wattfold.simulator.workloads.training_files import EpochTimes, TrainingJob

YEAR = 2021
"""Year of the paper, part of all seeds."""
CORES = 32
V100_W = GpuWatts(model=V100, min_w=100, max_w=250, idle_w=36)
T4_W = GpuWatts(model=T4, min_w=60, max_w=70, idle_w=10)
"""PCIe boards: ranges of limits, and observed idle power."""


def machine_of(scenario: Scenario, nodes: int, settings: AndreasAssumptions) -> NodeMachine:
    """Return a machine with half V100 and half T4 nodes; an odd number has one more V100 node."""
    counts = ((V100_W, scenario.v100, nodes - nodes // 2), (T4_W, scenario.t4, nodes // 2))
    made = measured_class if settings.workload == MEASURED else node_class
    return NodeMachine(
        classes=tuple(made(gpu, gpus, count, settings) for gpu, gpus, count in counts if count)
    )


def node_class(gpu: GpuWatts, gpus: int, count: int, settings: AndreasAssumptions) -> NodeClass:
    """Return a class of ``count`` nodes with ``gpus`` GPUs each."""
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


def measured_class(gpu: GpuWatts, gpus: int, count: int, settings: AndreasAssumptions) -> NodeClass:
    """Return a class of nodes with the measured power, to which cores add nothing."""
    del settings
    packages_w = measured.HOST_W[gpu.model] / 4
    return NodeClass.of_watts(
        f"{gpu.model.lower()}-x{gpus}",
        count,
        CORES,
        gpus=gpus,
        gpu=measured.GPUS[gpu.model],
        base_w=measured.HOST_W[gpu.model] - packages_w,
        dram_w=0.0,
        cap_w_min=packages_w,
        cap_w_max=packages_w,
    )


def epoch_times(workload: str = COMPOSED) -> EpochTimes:
    """Return the epoch times by application."""
    if workload == MEASURED:
        return {one.app: one.times for one in measured.APPLICATIONS}
    return {one.app: one.times for one in PROFILES}


class _Drawing(NamedTuple):
    """Parameters of a draw of jobs. ``gpus``: GPUs per node for the rates."""

    kinds: Sequence[tuple[str, int]]
    """Applications and epochs, all with equal probability."""
    gpus: int
    rates: tuple[float, float]
    due_slowest: bool
    """Due dates up to the slowest time, instead of multiples of the fastest."""


def _drawing(workload: str, scenario: Scenario, times: EpochTimes) -> _Drawing:
    if workload == MEASURED:
        kinds = [(one.app, epochs) for one, epochs in measured.JOBS]
        rates = MEASURED_HIGH, MEASURED_LOW
        return _Drawing(kinds, measured.MOST_GPUS, rates, due_slowest=True)
    all_kinds = [(one.app, epochs) for one in PROFILES for epochs in EPOCHS]
    kinds = [
        (app, epochs)
        for app, epochs in all_kinds
        if epochs * max(_epochs_s(times[app], scenario)) < MOST_S
    ]
    return _Drawing(kinds, max(scenario.v100, scenario.t4), (HIGH, LOW), due_slowest=False)


def drawn_jobs(
    scenario: Scenario, nodes: int, count: int, seed: int, settings: AndreasAssumptions
) -> tuple[TrainingJob, ...]:
    """Draw ``count`` jobs for the machine of a scenario."""
    times = epoch_times(settings.workload)
    draws = _drawing(settings.workload, scenario, times)
    chance = np.random.default_rng(np.random.SeedSequence([YEAR, scenario.number, nodes, seed]))
    kinds = [draws.kinds[int(chance.integers(len(draws.kinds)))] for _ in range(count)]
    gpus = nodes * draws.gpus
    jobs: list[TrainingJob] = []
    now_s = 0.0
    for first in range(0, count, CLUSTER_JOBS):
        cluster = kinds[first : first + CLUSTER_JOBS]
        factor = draws.rates[first // CLUSTER_JOBS % 2]
        each = [gpus / (epochs * _single_s(times[app])) for app, epochs in cluster]
        rate = factor * float(np.mean(each))
        for app, epochs in cluster:
            now_s += float(chance.exponential(1 / rate)) if jobs else 0.0
            takes = [epochs * seconds for seconds in _epochs_s(times[app], scenario)]
            low, high = min(takes), max(takes)
            within = (low, high) if draws.due_slowest else (DUE[0] * low, DUE[1] * low)
            due_s = now_s + float(chance.uniform(*within))
            jobs.append(
                TrainingJob(
                    job_id=len(jobs) + 1,
                    submit_s=round(now_s, 3),
                    app=app,
                    epochs=epochs,
                    due_s=round(due_s, 3),
                    weight=float(chance.uniform(*WEIGHT_EUR)) * 3600 / LATE_EUR_H,
                    snapshot_epochs=settings.snapshot_epochs,
                )
            )
    return tuple(jobs)


def _epochs_s(times: Sequence[EpochTime], scenario: Scenario) -> list[float]:
    """Return the epoch times in all configurations of the scenario."""
    most = {V100: scenario.v100, T4: scenario.t4}
    return [one.seconds for one in times if one.gpus <= most[one.gpu_model]]


def _single_s(times: Sequence[EpochTime]) -> float:
    return min(one.seconds for one in times if one.gpus == 1)
