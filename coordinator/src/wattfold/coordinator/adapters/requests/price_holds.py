"""Jobs of some queues are held back until their energy is cheapest, if the site has prices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from wattfold.contract.units import s_from_ns
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.core.model.jobs.conditions import StartConditions
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.queue import Queue

if TYPE_CHECKING:
    from wattfold.coordinator.models.energy_price import EnergyPrice


def held_back(
    conditions: StartConditions,
    spec: JobSpec,
    queue: Queue | None,
    price: EnergyPrice | None,
    clock: Clock,
) -> StartConditions:
    """Return the conditions of a new job, with the begin of its cheapest run as begin time.

    The run is as long as its estimate or, without one, as its time limit. A job without both, with
    a begin time of its own or in a reservation is not held back. A due date stays reachable.
    """
    run_ns = spec.time_ns or spec.limit_ns
    if price is None or queue is None or not queue.price_hold_ns or not run_ns:
        return conditions
    if conditions.begin_ns >= 0 or spec.reservation:
        return conditions
    now_ns = clock.now_ns()
    latest_ns = now_ns + queue.price_hold_ns
    if spec.due_ns >= 0:
        latest_ns = min(latest_ns, spec.due_ns - run_ns)
    now_s, latest_s = clock.wall_s(now_ns), clock.wall_s(latest_ns)
    begin_s = price.cheapest_begin_s(now_s, latest_s, s_from_ns(run_ns))
    if begin_s <= now_s:
        return conditions
    return replace(conditions, begin_ns=clock.time_ns(begin_s), cheaper=True)
