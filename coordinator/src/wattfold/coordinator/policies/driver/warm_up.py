"""First plan of a policy, made before the coordinator reports that it is ready.

Loading a solver and solving for the first time takes seconds on a busy machine. Therefore the
planning worker plans a small invented site when it starts. It uses the policy and each of its
fallbacks, which must be fast when they are needed.
"""

from __future__ import annotations

from collections.abc import Iterator

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId, ZoneName
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec, ResizeMode
from wattfold.coordinator.core.model.node import NodeSpec, Zone, ZoneKind
from wattfold.coordinator.core.model.plan import JobView, NodeView, Policy, Snapshot
from wattfold.coordinator.core.power.charge import fixed_uw
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.models.training import EpochTime, Training

_S, _W = 1_000_000_000, 1_000_000
_GPU = "example"


def warm_up(policy: Policy) -> None:
    """Plan the example under a policy and all its fallbacks, and load what they need."""
    for one in chain(policy):
        try:
            load = getattr(one, "warm_up", None)
            if load is not None:
                load()
            one.propose(example(), _S, 1.0)
        except Exception:  # noqa: BLE001, S112 - its first round reports it, and falls back
            continue


def chain(policy: Policy) -> Iterator[Policy]:
    """Yield a policy, its fallback, the fallback of the fallback, and so on."""
    one: Policy | None = policy
    while one is not None:
        yield one
        one = one.fallback()


def example() -> Snapshot:
    """Return a site with two nodes with GPUs and too little power for all jobs.

    It has a running job, and starting and waiting jobs of each type that policies treat
    differently.
    """
    nodes = tuple(_node(name) for name in ("a", "b"))
    current = Assignment(
        job_id=JobId("0"),
        size=1,
        cap_uw=45 * _W,
        shares=(Share(node_id=NodeId("a"), cpus=CpuSet.of([0])),),
        expected_total_s=100.0,
    )
    jobs = [_job("0", 1, 4, SizeUnit.CORES, current=current)]
    for number in range(1, 4):
        jobs += [
            _job(f"{number}", 1, 2, SizeUnit.NODES),
            _job(f"{number}c", 2, 4, SizeUnit.CORES),
            _job(f"{number}t", 1, 2, SizeUnit.UNITS),
        ]
    return Snapshot(now_ns=_S, budget_uw=100 * _W, reserved_uw=0, nodes=nodes, jobs=tuple(jobs))


def _node(name: str) -> NodeView:
    zone = Zone(
        name=ZoneName("package-0"),
        kind=ZoneKind.PACKAGE,
        cap_uw_min=9 * _W,
        cap_uw_max=45 * _W,
        floor_uw=16 * _W,
        window_ns=_S,
    )
    spec = NodeSpec(
        node_id=NodeId(name),
        cpus=CpuSet.of(range(4)),
        zones=(zone,),
        base_power_uw=10 * _W,
        gpus=("0", "1"),
        gpu_model=_GPU,
    )
    return NodeView(spec=spec, fixed_uw=fixed_uw(spec, 0))


def _job(
    name: str, low: int, high: int, unit: SizeUnit, current: Assignment | None = None
) -> JobView:
    trains = unit is SizeUnit.UNITS
    epochs = 10 if trains else 0
    spec = JobSpec(
        name=name,
        app="",
        argv=("example",),
        kind=JobKind.MOLDABLE if trains else JobKind.MALLEABLE,
        mode=ResizeMode.RESTART if trains else ResizeMode.MASK,
        unit=unit,
        size_min=low,
        size_max=high,
        unit_cores=1 if trains else 0,
        gpus=1 if trains else 0,
        time_ns=100 * _S,
        epochs=epochs,
        due_ns=300 * _S if trains else -1,
    )
    times = tuple(EpochTime(gpu_model=_GPU, gpus=gpus, seconds=30.0 / gpus) for gpus in (1, 2))
    return JobView(
        job_id=JobId(name),
        spec=spec,
        submitted_ns=0,
        current=current,
        done=0.1 if current else 0.0,
        started_ns=0 if current else -1,
        resized_ns=-1,
        profile=None,
        training=Training(epochs=epochs, times=times) if trains else None,
    )
