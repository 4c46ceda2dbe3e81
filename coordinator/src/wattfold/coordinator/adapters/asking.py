"""Context of the request in progress, from the server's interceptor to the journal.

The audit entry of a request is stored in the transaction of the first event that it causes, so that
neither exists without the other. The interceptor records requests that cause no event.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, replace

from wattfold.coordinator.adapters.door.peers import NOBODY, Peer
from wattfold.coordinator.adapters.journal.audit_trail import AuditEntry
from wattfold.coordinator.core.model.events import Event


@dataclass(slots=True)
class Asking:
    """One request: the caller, its audit entry (if any), and whether an event stored the entry."""

    peer: Peer
    entry: AuditEntry | None
    stored: bool = False


ASKING: ContextVar[Asking | None] = ContextVar("wattfold_asking", default=None)


def asker() -> Peer:
    """Return the caller of the request in progress, or `NOBODY` outside a request."""
    asking = ASKING.get()
    return asking.peer if asking else NOBODY


def entry_for(event: Event) -> AuditEntry | None:
    """Return the entry to store with an event, or None if there is none or it is already stored."""
    asking = ASKING.get()
    if asking is None or asking.entry is None or asking.stored:
        return None
    asking.stored = True
    asking.entry = replace(
        asking.entry,
        job=getattr(event, "job_id", asking.entry.job),
        node=getattr(event, "node_id", asking.entry.node),
    )
    return asking.entry


def not_stored() -> None:
    """Note that the event was withdrawn together with the entry."""
    asking = ASKING.get()
    if asking is not None:
        asking.stored = False
