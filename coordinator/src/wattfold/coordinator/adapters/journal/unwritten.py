"""Actions whose causes could not be written to the journal."""

from __future__ import annotations

from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.state.state import State

HARMLESS = (act.RenewLease, act.Solve, act.WakeAt)
"""Actions that need no journal entry before they start, because a restart allows for them."""


def harmless(state: State, action: act.Action) -> bool:
    """Whether a restarted coordinator need not know of this action, even without its cause."""
    if isinstance(action, act.SetCaps):
        zones = state.ledger.accounts[action.node_id].zones
        return all(cap_uw <= zones[name].confirmed_uw for name, cap_uw in action.caps)
    return not isinstance(action, act.Launch | act.ForgetProcess | act.Leave | act.SwitchPower)


def put_off(action: act.Launch | act.SetCaps | act.Leave | act.SwitchPower) -> ev.Event:
    """Return the report that lets the core try this action again."""
    reason = "the journal cannot be written"
    if isinstance(action, act.SwitchPower):
        return reports.PowerAnswered(
            node_id=action.node_id, request_id=action.request_id, error=reason
        )
    if isinstance(action, act.Leave):
        return reports.LeaveFailed(
            node_id=action.node_id, request_id=action.request_id, reason=reason, refused=True
        )
    if isinstance(action, act.SetCaps):
        return reports.CapsUnconfirmed(
            node_id=action.node_id,
            request_id=action.request_id,
            reason=reason,
        )
    return reports.LaunchFailed(
        node_id=action.node_id,
        job_id=action.job_id,
        reason=reason,
        permanent=False,
        attempt=action.attempt,
    )
