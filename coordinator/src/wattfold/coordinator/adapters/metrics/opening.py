"""Connects the metrics with the parts of the coordinator."""

from __future__ import annotations

import contextlib

from wattfold.coordinator.adapters.copies.picture_feed import PictureFeed
from wattfold.coordinator.adapters.door.serving import StartError
from wattfold.coordinator.adapters.journal.journal import Journal
from wattfold.coordinator.adapters.learning.observations import Observations
from wattfold.coordinator.adapters.metrics.endpoint import Endpoint
from wattfold.coordinator.adapters.metrics.meters import Meters
from wattfold.coordinator.adapters.planning import Planner


def open_metrics(
    address: str,
    journal: Journal,
    planner: Planner,
    pictures: PictureFeed,
    seen: Observations,
    stack: contextlib.AsyncExitStack,
) -> None:
    """Count and serve the metrics until the stack is closed; without an address, do nothing.

    Raises StartError.
    """
    if not address:
        return
    meters = Meters(seen)
    journal.committed, planner.planned = meters.committed, meters.planned
    try:
        endpoint = Endpoint(address, lambda: pictures.metrics(meters.figures()))
    except OSError as error:
        reason = error.strerror or error
        raise StartError(f"cannot serve metrics on {address}: {reason}") from error
    stack.push_async_callback(endpoint.close)
