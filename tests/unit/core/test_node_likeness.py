"""Nodes that are equivalent for jobs that request only cores."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.core.stage import node_spec

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.node import Curve, NodeSpec, like

ONE = node_spec("n0")


def test_other_names_cores_of_other_numbers_and_memory_are_no_matter() -> None:
    numbers = CpuSet.of(cpu + 100 for cpu in ONE.cpus)
    other = replace(ONE, node_id=NodeId("n1"), cpus=numbers, memory_bytes=1 << 30, gpus=("0",))
    assert like(ONE, ONE)
    assert like(ONE, other)
    assert like(other, ONE)


@pytest.mark.parametrize(
    "other",
    [
        replace(ONE, cpus=CpuSet.of(range(len(ONE.cpus) + 1))),
        replace(ONE, zones=()),
        replace(ONE, base_power_uw=ONE.base_power_uw + 1),
        replace(ONE, curve=Curve(a=1.5, b=4.0, c=8.0, f_low_ghz=1.2, f_high_ghz=2.6)),
    ],
    ids=["cores", "zones", "base power", "curve"],
)
def test_what_changes_power_or_speed_makes_them_unlike(other: NodeSpec) -> None:
    assert not like(ONE, other)
    assert not like(other, ONE)
