"""Possible sizes of a job on nodes of several kinds."""

from __future__ import annotations

import pytest
from unit.policies.snapshots import node

from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.parm.menu import NodeSummary
from wattfold.coordinator.policies.port import Site, SizeRequest


def sizes(*cores: int, unit_cores: int, spread: Spread) -> int:
    """Return the maximum number of units of a job on nodes with these core counts."""
    nodes = tuple(node(f"n{at}", count) for at, count in enumerate(cores))
    kinds = {view.spec.kind for view in nodes}
    site = Site(
        count=len(nodes),
        kind=kinds.pop() if len(kinds) == 1 else None,
        nodes=nodes,
        spendable_uw=0,
        most_uw=0,
    )
    ask = SizeRequest(
        least=1,
        greatest=99,
        priority=1.0,
        submitted_ns=0,
        unit=SizeUnit.UNITS,
        unit_cores=unit_cores,
        spread=spread,
    )
    return NodeSummary(site).largest_size(ask)


@pytest.mark.parametrize(
    ("spread", "alike", "unlike"),
    [(Spread.ANY, 6, 5), (Spread.APART, 3, 3), (Spread.TOGETHER, 2, 3)],
)
def test_units_go_as_often_into_a_node_as_they_may(spread: Spread, alike: int, unlike: int) -> None:
    assert sizes(4, 4, 4, unit_cores=2, spread=spread) == alike
    assert sizes(2, 2, 6, unit_cores=2, spread=spread) == unlike


def test_a_node_smaller_than_a_unit_holds_none() -> None:
    assert sizes(2, 4, unit_cores=4, spread=Spread.APART) == 1
