"""Levels per kind of zone: caps never exceed the charge, and the budget holds."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulation.cluster import Cluster, Faults
from unit.core.stage import counted_as, node_spec

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId, ZoneName
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec
from wattfold.coordinator.core.model.levels import PLAIN, Levels
from wattfold.coordinator.core.model.node import Curve, NodeSpec, Zone, ZoneKind
from wattfold.coordinator.core.model.plan import Plan, Policy, Snapshot
from wattfold.coordinator.core.power.charge import (
    assigned_uw,
    cores_uw,
    dram_range_uw,
    fixed_uw,
    gpu_zone,
    share_uw,
    standing_cap_uw,
)
from wattfold.coordinator.core.power.targets import zone_targets
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.parm.policy import Parm
from wattfold.coordinator.policies.parm.settings import ParmSettings

S, W = 1_000_000_000, 1_000_000
GPUS = ("GPU-a", "GPU-b")


def zone(name: str, kind: ZoneKind, floor_uw: int, span_uw: int, can_cap: bool = True) -> Zone:
    return Zone(
        name=ZoneName(name),
        kind=kind,
        cap_uw_min=floor_uw,
        cap_uw_max=floor_uw + span_uw,
        floor_uw=floor_uw,
        window_ns=S // 4,
        can_cap=can_cap,
    )


floors = st.integers(1, 30 * W)
spans = st.integers(0, 100 * W)
ranges = st.tuples(floors, spans)
levels = st.builds(
    Levels,
    dram_uw=st.one_of(st.just(0), st.integers(1, 200 * W)),
    gpu_uw=st.one_of(st.just(0), st.integers(1, 200 * W)),
)


@given(
    cores=st.integers(1, 128),
    split=st.lists(st.integers(1, 40), min_size=1, max_size=5),
    caps=st.lists(st.integers(0, 300 * W), min_size=5, max_size=5),
    asked=st.lists(levels, min_size=5, max_size=5),
    packages=st.lists(ranges, min_size=1, max_size=2),
    drams=st.lists(ranges, max_size=3),
    gpus=st.lists(ranges, min_size=2, max_size=2),
    dram_cap_uw=st.one_of(st.just(0), st.integers(1, 150 * W)),
)
def test_caps_are_never_above_what_is_charged(
    cores: int,
    split: list[int],
    caps: list[int],
    asked: list[Levels],
    packages: list[tuple[int, int]],
    drams: list[tuple[int, int]],
    gpus: list[tuple[int, int]],
    dram_cap_uw: int,
) -> None:
    zones = (
        *(zone(f"package-{i}", ZoneKind.PACKAGE, *one) for i, one in enumerate(packages)),
        *(zone(f"dram-{i}", ZoneKind.DRAM, *one) for i, one in enumerate(drams)),
        *(zone(f"gpu-{i}", ZoneKind.GPU, *one) for i, one in zip("ab", gpus, strict=True)),
        zone("dram-x", ZoneKind.DRAM, 3 * W, 4 * W, can_cap=False),
    )
    spec = node_spec(cores=cores, zones=zones, gpus=GPUS)
    owners, given_out, first = list(GPUS), [], 0
    for number, size in enumerate(split):
        cpus = CpuSet.of(range(first, min(first + size, cores)))
        first += size
        if not cpus:
            break
        own = tuple(owners[: asked[number].dram_uw % 3])
        owners = owners[len(own) :]
        share = Share(node_id=NodeId("n0"), cpus=cpus, gpus=own)
        given_out.append(
            Assignment(
                job_id=JobId(str(number)),
                size=len(cpus),
                cap_uw=caps[number],
                shares=(share,),
                levels=asked[number],
            )
        )
    targets = zone_targets(spec, given_out, dram_cap_uw)
    held_uw = sum(targets[z.name] if z.can_cap else z.cap_uw_max for z in zones)
    charged_uw = sum(assigned_uw(one, [spec], dram_cap_uw) for one in given_out)
    assert spec.base_power_uw + held_uw <= fixed_uw(spec, dram_cap_uw) + charged_uw
    assert all(assigned_uw(one, [spec], dram_cap_uw) >= 0 for one in given_out)
    for z in zones:
        if z.can_cap:
            assert z.floor_uw <= targets[z.name] <= z.cap_uw_max
    plain = [replace(one, levels=PLAIN) for one in given_out]
    owned = {gpu_zone(gpu) for one in plain for gpu in one.shares[0].gpus}
    stands = zone_targets(spec, plain, dram_cap_uw)
    for z in zones:
        if z.can_cap and z.kind is not ZoneKind.PACKAGE:
            greatest = z.name in owned
            wanted_uw = z.cap_uw_max if greatest else standing_cap_uw(z, dram_cap_uw)
            assert stands[z.name] == wanted_uw


@given(
    cores=st.integers(1, 64),
    own=st.integers(1, 64),
    cap_uw=st.integers(0, 300 * W),
    dram_uw=st.integers(0, 100 * W),
    packages=ranges,
    dram=ranges,
)
def test_no_level_is_worth_more_than_the_node_can_take(
    cores: int,
    own: int,
    cap_uw: int,
    dram_uw: int,
    packages: tuple[int, int],
    dram: tuple[int, int],
) -> None:
    zones = zone("package-0", ZoneKind.PACKAGE, *packages), zone("dram-0", ZoneKind.DRAM, *dram)
    spec = node_spec(cores=cores, zones=zones)
    own = min(own, cores)
    least_uw, most_uw = dram_range_uw(spec)
    wanted = cores_uw(spec, own, cap_uw, Levels(dram_uw=dram_uw), least_uw)
    assert wanted <= share_uw(spec.kind, own, cap_uw) + own * (most_uw - least_uw) // cores + 2
    if dram_uw >= most_uw:
        again = cores_uw(spec, own, cap_uw, Levels(dram_uw=dram_uw + W), least_uw)
        assert again == wanted


CURVE = Curve(a=1.5, b=4.0, c=8.0, f_low_ghz=1.2, f_high_ghz=2.6)


def full_node(name: str, cores: int = 4) -> NodeSpec:
    """A node with a package, two DRAM zones and two GPUs, all with caps."""
    return NodeSpec(
        node_id=NodeId(name),
        cpus=CpuSet.of(range(cores)),
        zones=(
            zone("package-0", ZoneKind.PACKAGE, 9 * W, 36 * W),
            zone("dram-0", ZoneKind.DRAM, 2 * W, 8 * W),
            zone("dram-1", ZoneKind.DRAM, 2 * W, 8 * W),
            zone("gpu-a", ZoneKind.GPU, 4 * W, 8 * W),
            zone("gpu-b", ZoneKind.GPU, 4 * W, 8 * W),
        ),
        base_power_uw=10 * W,
        curve=CURVE,
        gpus=GPUS,
    )


@dataclass(frozen=True)
class AnyLevels(Policy):
    """Any plans of a policy, with DRAM and GPU levels that change all the time."""

    policy: Policy
    name: str = "any-levels"

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        rng = random.Random(now_ns)
        plan = self.policy.propose(snapshot, now_ns, deadline_s)
        return replace(
            plan,
            assignments=tuple(
                replace(
                    one,
                    levels=Levels(
                        dram_uw=rng.choice([0, rng.randint(1, 25) * W]),
                        gpu_uw=rng.choice([0, rng.randint(1, 15) * W]),
                    ),
                )
                for one in plan.assignments
            ),
        )

    def fallback(self) -> None:
        return None


def policy_of(seed: int) -> Policy:
    choice: dict[str, Any] = {"dram_levels": 3, "dram_rest_w": 3.0, "dram_work_w": 15.0}
    dram = Parm(ParmSettings(solver="greedy", resize_interval_s=1, **choice, gpu_levels=3))
    return [FifoEasy(), dram, AnyLevels(FifoEasy()), AnyLevels(dram)][seed % 4]


@pytest.mark.parametrize("seed", range(12))
def test_the_budget_holds_with_any_levels_and_faults(seed: int) -> None:
    """The cluster compares the real maximum power of nodes with the budget at every instant."""
    rng = random.Random(seed)
    faults = Faults(lose=0.05, late=0.05, double=0.05, refuse=0.03, delay_ns=200_000_000)
    nodes = [full_node(f"n{i}", cores=rng.choice([2, 4, 8])) for i in range(4)]
    floor_w = 4 * (10 + 9 + 20 + 8)
    cluster = Cluster(nodes, policy_of(seed), (floor_w + 60) * W, seed, faults)
    for index in range(10):
        gpus = rng.choice([0, 0, 1, 2]) if index % 3 else 1
        asked = Levels(
            dram_uw=rng.choice([0, rng.randint(4, 20) * W]),
            gpu_uw=rng.choice([0, rng.randint(4, 12) * W]) if gpus else 0,
        )
        spec = JobSpec(
            name="s",
            app="s",
            argv=("run", str(rng.randint(2, 30))),
            **counted_as(rng, list(JobKind)),
            size_max=2,
            time_ns=20 * S,
            gpus=gpus,
            levels=asked,
        )
        cluster.clock.later(rng.randint(0, 9) * S, partial(cluster.go, str(index), spec))

    def change(budget_uw: int) -> None:
        cluster.set_budget(max(budget_uw, cluster.core.state.floor_uw()), 10 * S)

    for at_s in (8, 15):
        cluster.clock.later(at_s * S, partial(change, (floor_w + rng.randint(0, 90)) * W))
    cluster.clock.later(6 * S, partial(cluster.cut, NodeId("n0"), 9 * S))
    cluster.clock.later(12 * S, partial(cluster.kill_coordinator, 2 * S))
    dead = NodeId(f"n{rng.randint(1, 3)}")
    cluster.clock.later(rng.randint(4, 18) * S, partial(cluster.kill_agent, dead, 3 * S))
    cluster.run(25 * S)
    sent = [a for a in cluster.actions if isinstance(a, act.SetCaps)]
    asked_for = {name.partition("-")[0] for a in sent for name, _ in a.caps}
    assert asked_for == {"package", "dram", "gpu"}, "levels were sent to all kinds of zones"
