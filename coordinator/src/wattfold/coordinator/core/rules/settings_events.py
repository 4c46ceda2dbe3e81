"""New settings of the site from a reload of the configuration, as changes of the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model.configuration import (
    AccountsConfigured,
    PolicyChanged,
    QueuesConfigured,
    RampConfigured,
)
from wattfold.coordinator.core.model.resource_manager import ManagerConfigured
from wattfold.coordinator.core.rules.accounts import limits
from wattfold.coordinator.core.rules.jobs import managed_jobs
from wattfold.coordinator.core.state.state import State


def queues_configured(state: State, event: QueuesConfigured, now_ns: int) -> list[act.Action]:
    """Replace the queues. Existing jobs stay in the queues that accepted them."""
    del now_ns
    state.queues = {queue.name: queue for queue in event.queues}
    for job in state.index.open.values():
        # Policies see the wait limits of a job's queue.
        state.index.touch_job(job)
    return []


def policy_changed(state: State, event: PolicyChanged, now_ns: int) -> list[act.Action]:
    """Plan again. Running jobs keep their resources until the new policy decides."""
    del event, now_ns
    state.plan_needed = "policy changed"
    return []


def ramp_configured(state: State, event: RampConfigured, now_ns: int) -> list[act.Action]:
    """Limit the changes of committed power from now on."""
    state.ledger.ramp.limit(event.limits, state.ledger.possible_uw, now_ns)
    state.index.touch_everything()
    return []


HANDLERS: dict[type, Callable[[State, Any, int], list[act.Action]]] = {
    QueuesConfigured: queues_configured,
    AccountsConfigured: limits.configured,
    PolicyChanged: policy_changed,
    RampConfigured: ramp_configured,
    ManagerConfigured: managed_jobs.configured,
}
