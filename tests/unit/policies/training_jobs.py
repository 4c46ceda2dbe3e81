"""Nodes with GPUs and training jobs for policies, in watts, seconds and euros."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from unit.policies.snapshots import S, W, job, node

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId, ZoneName
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.jobs.spec import JobKind, ResizeMode
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.levels import Levels
from wattfold.coordinator.core.model.node import Zone, ZoneKind
from wattfold.coordinator.core.model.plan import JobView, NodeView
from wattfold.coordinator.core.power.charge import fixed_uw
from wattfold.coordinator.models.gpu_curve import GpuCurve
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.models.training import EpochTime, Training

V100 = GpuCurve(static_w=40, full_w=240, knee=0.84, beta=0.25)


def gpu_node(
    name: str, model: str = "V100", gpus: int = 2, *, tdp_w: int = 250, **fields: Any
) -> NodeView:
    """A node of 8 cores with GPUs of one model, each with a zone that accepts caps."""
    view = node(name, 8, gpus=gpus, **fields)
    zones = tuple(
        Zone(
            name=ZoneName(f"gpu-{number}"),
            kind=ZoneKind.GPU,
            cap_uw_min=tdp_w * W * 2 // 5,
            cap_uw_max=tdp_w * W,
            floor_uw=tdp_w * W * 2 // 5,
            window_ns=S,
        )
        for number in range(gpus)
    )
    spec = replace(view.spec, gpu_model=model, zones=(*view.spec.zones, *zones))
    return replace(view, spec=spec, fixed_uw=fixed_uw(spec, 0))


def training(
    name: str,
    seconds: dict[tuple[str, int], float],
    *,
    epochs: int = 10,
    due_s: float = -1,
    curve: GpuCurve | None = None,
    low: int = 1,
    high: int = 4,
    **fields: Any,
) -> JobView:
    """A training job. ``seconds`` is its whole run time by GPU model and number of GPUs."""
    made = job(
        name,
        low,
        high,
        kind=JobKind.MOLDABLE,
        unit=SizeUnit.UNITS,
        unit_cores=1,
        gpus=1,
        spread=Spread.TOGETHER,
        mode=ResizeMode.RESTART,
        epochs=epochs,
        due_ns=round(due_s * S) if due_s >= 0 else -1,
        **fields,
    )
    times = tuple(
        EpochTime(gpu_model=model, gpus=gpus, seconds=whole_s / epochs, curve=curve)
        for (model, gpus), whole_s in seconds.items()
    )
    return replace(made, training=Training(epochs=epochs, times=times))


def runs(
    view: JobView,
    place: str,
    gpus: tuple[str, ...],
    *,
    total_s: float,
    started_s: float = 0,
    preemptable: bool = True,
    level_w: float = 0,
) -> JobView:
    """The running job on some GPUs of a node, with as many cores as GPUs."""
    share = Share(node_id=NodeId(place), cpus=CpuSet.of([int(gpu) for gpu in gpus]), gpus=gpus)
    given = Assignment(
        job_id=JobId(view.job_id),
        size=len(gpus),
        cap_uw=45 * W,
        shares=(share,),
        expected_total_s=total_s,
        levels=Levels(gpu_uw=round(level_w * W)),
    )
    return replace(view, current=given, started_ns=round(started_s * S), preemptable=preemptable)
