"""Snapshots as inputs of policies, in watts and seconds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId, ZoneName
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.node import Curve, NodeSpec, Zone, ZoneKind
from wattfold.coordinator.core.model.plan import JobView, NodeView, Plan, Snapshot
from wattfold.coordinator.core.power.charge import assigned_uw, fixed_uw
from wattfold.coordinator.models.pass_model import PassProfile, SizeUnit

S = 1_000_000_000
W = 1_000_000
DRAM_CAP_W = 6
"""Default cap of each DRAM zone."""
CURVE = Curve(a=1.5, b=4.0, c=8.0, f_low_ghz=1.2, f_high_ghz=2.6)


def node(
    name: str,
    cores: int = 4,
    *,
    base_w: int = 10,
    floor_w: int = 16,
    max_w: int = 45,
    blocked: str = "",
    memory: int = 0,
    gpus: int = 0,
    features: tuple[str, ...] = (),
) -> NodeView:
    zone = Zone(
        name="package-0",
        kind=ZoneKind.PACKAGE,
        cap_uw_min=9 * W,
        cap_uw_max=max_w * W,
        floor_uw=floor_w * W,
        window_ns=S,
    )
    spec = NodeSpec(
        node_id=NodeId(name),
        cpus=CpuSet.of(range(cores)),
        zones=(zone,),
        base_power_uw=base_w * W,
        curve=CURVE,
        memory_bytes=memory,
        gpus=tuple(map(str, range(gpus))),
    )
    return NodeView(
        spec=spec,
        fixed_uw=fixed_uw(spec, 0),
        blocked=CpuSet.parse(blocked),
        features=features,
    )


def with_dram(view: NodeView, *ranges_w: tuple[int, int]) -> NodeView:
    """The same node with DRAM zones between these watts, set to `DRAM_CAP_W`."""
    drams = tuple(
        Zone(
            name=ZoneName(f"dram-{number}"),
            kind=ZoneKind.DRAM,
            cap_uw_min=low * W,
            cap_uw_max=high * W,
            floor_uw=low * W,
            window_ns=S,
        )
        for number, (low, high) in enumerate(ranges_w)
    )
    spec = replace(view.spec, zones=(*view.spec.zones, *drams))
    return replace(
        view, spec=spec, fixed_uw=fixed_uw(spec, DRAM_CAP_W * W), dram_cap_uw=DRAM_CAP_W * W
    )


def job(
    name: str,
    low: int = 1,
    high: int = 4,
    *,
    current: Assignment | None = None,
    submitted_s: float = 0,
    started_s: float = -1,
    resized_s: float = -1,
    done: float = 0.0,
    time_s: float = 0,
    profile: PassProfile | None = None,
    movable: bool = True,
    wanted: int = 0,
    wanted_s: float = -1,
    **fields: Any,
) -> JobView:
    chosen: dict[str, Any] = {"kind": JobKind.MALLEABLE, **fields}
    spec = JobSpec(
        name=name,
        app="app",
        argv=("run",),
        size_min=low,
        size_max=high,
        time_ns=round(time_s * S),
        **chosen,
    )
    return JobView(
        job_id=JobId(name),
        spec=spec,
        submitted_ns=round(submitted_s * S),
        current=current,
        done=done,
        started_ns=round(started_s * S) if started_s >= 0 else -1,
        resized_ns=round(resized_s * S) if resized_s >= 0 else -1,
        profile=profile,
        movable=movable,
        wanted=wanted,
        wanted_ns=round(wanted_s * S) if wanted_s >= 0 else -1,
    )


def held(name: str, *places: str, cap_w: float = 45, total_s: float = 100) -> Assignment:
    """Cores of a running job: ``held("a", "n0:0-1")``."""
    shares = []
    for place in places:
        node_id, _, cpus = place.partition(":")
        shares.append(Share(node_id=NodeId(node_id), cpus=CpuSet.parse(cpus or "0-3")))
    whole = all(":" not in place for place in places)
    size = len(shares) if whole else sum(len(share.cpus) for share in shares)
    return Assignment(
        job_id=JobId(name),
        size=size,
        cap_uw=round(cap_w * W),
        shares=tuple(shares),
        expected_total_s=total_s,
    )


def snapshot(
    nodes: list[NodeView],
    jobs: list[JobView],
    budget_w: float = 1e6,
    now_s: float = 0,
    reserved_w: float = 0,
) -> Snapshot:
    return Snapshot(
        now_ns=round(now_s * S),
        budget_uw=round(budget_w * W),
        reserved_uw=round(reserved_w * W),
        nodes=tuple(nodes),
        jobs=tuple(jobs),
    )


def sizes(plan: Plan) -> dict[str, int]:
    return {a.job_id: a.size for a in plan.assignments}


def caps_w(plan: Plan) -> dict[str, float]:
    return {a.job_id: a.cap_uw / W for a in plan.assignments}


def reasons(plan: Plan) -> dict[str, str]:
    return {w.job_id: w.reason for w in plan.waiting}


def starts_s(plan: Plan) -> dict[str, float]:
    """Expected starts of waiting jobs, for which the plan states a start."""
    return {w.job_id: w.start_ns / S for w in plan.waiting if w.start_ns}


def faults(plan: Plan, seen: Snapshot) -> list[str]:
    """Check a plan independently of the applier. Return its faults; empty = valid."""
    out: list[str] = []
    views = {view.job_id: view for view in seen.jobs}
    specs = {view.spec.node_id: view for view in seen.nodes}
    taken: dict[NodeId, list[tuple[str, CpuSet]]] = {}
    used_uw = 0
    if sorted([a.job_id for a in plan.assignments] + [w.job_id for w in plan.waiting]) != sorted(
        views
    ):
        out.append("not every job is planned exactly once")
    for assignment in plan.assignments:
        view = views[assignment.job_id]
        spec, name = view.spec, assignment.job_id
        whole = spec.unit is SizeUnit.NODES
        counted = len(assignment.shares) if whole else len(assignment.shares[0].cpus)
        if spec.unit is SizeUnit.UNITS:
            counted = unit_count(out, spec, assignment)
        elif not whole and len(assignment.shares) != 1:
            out.append(f"{name}: {len(assignment.shares)} nodes")
        had_shares = view.current.shares if view.current else ()
        if counted != assignment.size or not spec.size_min <= counted <= spec.size_max:
            out.append(f"{name}: size {assignment.size} with {counted}")
        for share in assignment.shares:
            known = specs.get(share.node_id)
            if known is None:
                if view.current is None or share not in view.current.shares:
                    out.append(f"{name}: {share.node_id} is out of reach")
                continue
            if not share.cpus or not share.cpus <= known.spec.cpus:
                out.append(f"{name}: cores {share.cpus}")
            # A core may become blocked under a job; a job that keeps its cores is not at fault.
            had_there = [s.cpus for s in had_shares if s.node_id == share.node_id]
            gained = share.cpus - had_there[0] if had_there else share.cpus
            if not gained.isdisjoint(known.blocked):
                out.append(f"{name}: blocked cores")
            alone = whole or spec.exclusive
            print_ = known.spec.cpus if alone else share.cpus
            taken.setdefault(share.node_id, []).append((name, print_))
        had = [s.node_id for s in view.current.shares] if view.current else []
        has = [s.node_id for s in assignment.shares]
        if view.nodes_may_change and len(had) != len(has):
            had, has = had[:1], has[:1]
        if had and had != has:
            out.append(f"{name}: moved")
        used_uw += assigned_uw(assignment, [v.spec for v in seen.nodes])
    for node_id, entries in taken.items():
        for index, (name, cpus) in enumerate(entries):
            for other, others in entries[:index]:
                if not cpus.isdisjoint(others):
                    out.append(f"{name} and {other} share {cpus & others} of {node_id}")
    out += amount_faults(plan, seen)
    running = [v.current for v in seen.jobs if v.current]
    before_uw = sum(assigned_uw(a, [v.spec for v in seen.nodes]) for a in running)
    if used_uw > max(seen.spendable_uw, before_uw if plan.outcome == "infeasible" else 0):
        out.append(f"{used_uw} uW planned, {seen.spendable_uw} uW are there")
    return out


def unit_count(out: list[str], spec: JobSpec, assignment: Assignment) -> int:
    """Return the number of units of an assignment, and report units in the wrong form."""
    cores = [len(share.cpus) for share in assignment.shares]
    if any(count % spec.unit_cores for count in cores):
        out.append(f"{assignment.job_id}: {cores} cores in units of {spec.unit_cores}")
    if spec.spread is Spread.TOGETHER and len(cores) != 1:
        out.append(f"{assignment.job_id}: not together")
    if spec.spread is Spread.APART and any(count != spec.unit_cores for count in cores):
        out.append(f"{assignment.job_id}: not apart")
    return sum(cores) // spec.unit_cores


def amount_faults(plan: Plan, seen: Snapshot) -> list[str]:
    """Return faults in the memory, the GPUs and the features of a plan."""
    out: list[str] = []
    views = {view.job_id: view for view in seen.jobs}
    nodes = {node.spec.node_id: node for node in seen.nodes}
    used = {name: node.blocked_bytes for name, node in nodes.items()}
    owned = {name: list(node.blocked_gpus) for name, node in nodes.items()}
    for assignment in plan.assignments:
        view = views[assignment.job_id]
        before = {s.node_id: s for s in view.current.shares} if view.current else {}
        for share in assignment.shares:
            units = 1
            if view.spec.unit is SizeUnit.UNITS:
                units = len(share.cpus) // view.spec.unit_cores
            asked = (units * view.spec.memory_bytes, units * view.spec.gpus)
            if (share.memory_bytes, len(share.gpus)) != asked:
                out.append(f"{view.job_id}: has not what it asks for on {share.node_id}")
            if share.node_id in before and share.gpus != before[share.node_id].gpus:
                out.append(f"{view.job_id}: has other GPUs than before")
            if share.node_id not in nodes:
                continue
            used[share.node_id] += share.memory_bytes
            owned[share.node_id] += share.gpus
            if not {*view.spec.features} <= {*nodes[share.node_id].features}:
                out.append(f"{view.job_id}: {share.node_id} lacks a feature")
    for name, node in nodes.items():
        if used[name] > node.spec.memory_bytes:
            out.append(f"{used[name]} bytes of {name} are given away")
        if len({*owned[name]}) < len(owned[name]) or not {*owned[name]} <= {*node.spec.gpus}:
            out.append(f"GPUs {owned[name]} of {name}")
    return out
