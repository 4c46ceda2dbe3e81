"""Committed power by its causes.

The causes of a node add up to its committed power. The parts are taken in the order of CAUSES, so
that a part never exceeds what the ledger charges.
"""

from __future__ import annotations

from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.v1 import coordinator_pb2 as pb

CAUSES = ("base", "idle", "jobs", "changing", "away", "outside")
"""Names of the causes.

- base: base power
- idle: floors of zones, and caps of nodes without jobs
- jobs: caps above the floors of nodes with jobs
- changing: charges above the confirmed caps, while caps change
- away: silent nodes, and nodes out of service
- outside: power outside the ledger without the acceptance of an operator
"""

Watts = dict[str, float]


def causes(view: pb.ClusterView) -> Watts:
    """Return the committed power of a snapshot by cause, in watts, and the power outside."""
    sums_uw = dict.fromkeys(CAUSES, 0)
    for node in view.nodes:
        for cause, part_uw in _parts(node):
            sums_uw[cause] += part_uw
    power = view.power
    sums_uw["outside"] = max(power.outside_uw - power.outside_accepted_uw, 0)
    return {cause: round(value_uw / 1e6, 2) for cause, value_uw in sums_uw.items()}


def _parts(node: pb.Node) -> list[tuple[str, int]]:
    charged_uw = node.committed_uw
    if node.state != pb.NODE_STATE_UP or not f.serves(node):
        return [("away", charged_uw)]
    floors_uw = sum(zone.floor_uw for zone in node.zones)
    above_uw = sum(max(zone.cap_uw - zone.floor_uw, 0) for zone in node.zones)
    busy = bool(node.job_ids or node.resident_job_ids)
    wanted = (
        ("base", node.base_power_uw),
        ("idle", floors_uw if busy else floors_uw + above_uw),
        ("jobs", above_uw if busy else 0),
    )
    parts = []
    for cause, asked_uw in wanted:
        part_uw = min(asked_uw, charged_uw)
        charged_uw -= part_uw
        parts.append((cause, part_uw))
    return [*parts, ("changing", charged_uw)]
