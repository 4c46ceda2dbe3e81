"""Conversion of assignments to caps: sums, rounding, floors."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
from unit.core.stage import W, node_spec, on, package

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.node import Zone, ZoneKind
from wattfold.coordinator.core.power.charge import (
    CAP_STEP_UW,
    assigned_uw,
    fixed_uw,
    standing_cap_uw,
)
from wattfold.coordinator.core.power.targets import zone_targets

DRAM = Zone(
    name="dram-0",
    kind=ZoneKind.DRAM,
    cap_uw_min=2 * W,
    cap_uw_max=20 * W,
    floor_uw=4 * W,
    window_ns=0,
)
GPU = Zone(
    name="gpu-0",
    kind=ZoneKind.GPU,
    cap_uw_min=0,
    cap_uw_max=70 * W,
    floor_uw=0,
    window_ns=0,
    can_cap=False,
)


def test_a_node_at_one_level_gets_exactly_that_level() -> None:
    assert zone_targets(node_spec(), [on("a", "n0:0-3", cap_w=33)], 0) == {"package-0": 33 * W}
    both = [on("a", "n0:0-1", cap_w=33), on("b", "n0:2-3", cap_w=33)]
    assert zone_targets(node_spec(), both, 0) == {"package-0": 33 * W}


def test_an_idle_node_keeps_its_floor() -> None:
    assert zone_targets(node_spec(), [], 0) == {"package-0": 10 * W}
    assert zone_targets(node_spec(), [on("a", "n0:0-3", cap_w=3)], 0) == {"package-0": 10 * W}


def test_packages_share_in_proportion_to_their_span() -> None:
    spec = node_spec(zones=(package(), package("package-1", floor_w=10, max_w=30)))
    targets = zone_targets(spec, [on("a", "n0:0-3", cap_w=50)], 0)
    assert targets == {"package-0": 30 * W, "package-1": 20 * W}


def test_other_zones_stand() -> None:
    spec = node_spec(zones=(package(), DRAM, GPU))
    assert zone_targets(spec, [], 0) == {"package-0": 10 * W, "dram-0": 20 * W}
    assert zone_targets(spec, [], 18 * W)["dram-0"] == 18 * W
    assert standing_cap_uw(DRAM, 1 * W) == 4 * W
    assert standing_cap_uw(DRAM, 99 * W) == 20 * W
    assert fixed_uw(spec, 18 * W) == (10 + 10 + 18 + 70) * W


@given(
    cores=st.integers(1, 128),
    split=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    levels=st.lists(st.integers(0, 300 * W), min_size=6, max_size=6),
    floors=st.lists(st.integers(1, 30 * W), min_size=1, max_size=3),
    spans=st.lists(st.integers(0, 100 * W), min_size=3, max_size=3),
)
def test_targets_are_never_above_what_is_charged(
    cores: int,
    split: list[int],
    levels: list[int],
    floors: list[int],
    spans: list[int],
) -> None:
    zones = tuple(
        Zone(
            name=f"package-{i}",
            kind=ZoneKind.PACKAGE,
            cap_uw_min=floor,
            cap_uw_max=floor + spans[i],
            floor_uw=floor,
            window_ns=0,
        )
        for i, floor in enumerate(floors)
    )
    spec = node_spec(cores=cores, zones=zones)
    assignments, first = [], 0
    for position, size in enumerate(split):
        cpus = CpuSet.of(range(first, min(first + size, cores)))
        first += size
        if cpus:
            share = Share(node_id=NodeId("n0"), cpus=cpus)
            assignments.append(
                Assignment(
                    job_id=JobId(str(position)),
                    size=len(cpus),
                    cap_uw=levels[position],
                    shares=(share,),
                )
            )
    targets = zone_targets(spec, assignments, 0)
    charged_uw = sum(assigned_uw(a, [spec]) for a in assignments)
    most_uw = spec.package_max_uw
    exact_uw = sum(
        Fraction(
            len(a.shares[0].cpus) * max(min(a.cap_uw, most_uw) - spec.package_floor_uw, 0), cores
        )
        for a in assignments
    )
    assert charged_uw <= exact_uw
    above_uw = sum(targets[zone.name] - zone.floor_uw for zone in zones)
    assert 0 <= above_uw <= charged_uw
    for zone in zones:
        cap_uw = targets[zone.name]
        assert zone.floor_uw <= cap_uw <= zone.cap_uw_max
        assert cap_uw % CAP_STEP_UW == 0 or cap_uw in (zone.floor_uw, zone.cap_uw_max)
