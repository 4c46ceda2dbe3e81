"""The sizes that nodes of several kinds have for a job."""

from __future__ import annotations

import pytest
from unit.policies.snapshots import node

from wattfold.coordinator.core.job import SizeUnit
from wattfold.coordinator.core.spread import Spread
from wattfold.coordinator.policies.parm_menu import Nodes
from wattfold.coordinator.policies.scheduler import Ask, Site


def sizes(*cores: int, unit_cores: int, spread: Spread) -> int:
    """The most units a job may have on nodes of so many cores."""
    nodes = tuple(node(f"n{at}", count) for at, count in enumerate(cores))
    kinds = {view.spec.kind for view in nodes}
    site = Site(
        count=len(nodes),
        kind=kinds.pop() if len(kinds) == 1 else None,
        nodes=nodes,
        spendable_uw=0,
        most_uw=0,
    )
    ask = Ask(
        least=1,
        greatest=99,
        priority=1.0,
        submitted_ns=0,
        unit=SizeUnit.UNITS,
        unit_cores=unit_cores,
        spread=spread,
    )
    return Nodes(site).largest_size(ask)


@pytest.mark.parametrize(
    ("spread", "alike", "unlike"),
    [(Spread.ANY, 6, 5), (Spread.APART, 3, 3), (Spread.TOGETHER, 2, 3)],
)
def test_units_go_as_often_into_a_node_as_they_may(spread: Spread, alike: int, unlike: int) -> None:
    assert sizes(4, 4, 4, unit_cores=2, spread=spread) == alike
    assert sizes(2, 2, 6, unit_cores=2, spread=spread) == unlike


def test_a_node_smaller_than_a_unit_holds_none() -> None:
    assert sizes(2, 4, unit_cores=4, spread=Spread.APART) == 1
