"""Who asks: the request under way, from the server's interceptor to the journal.

The audit entry of a request is stored in the transaction of the first event it leads to, so neither
is there without the other. One that leads to none is noted by the interceptor.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, replace

from wattfold.coordinator.adapters.audit_trail import AuditEntry
from wattfold.coordinator.adapters.peers import NOBODY, Peer
from wattfold.coordinator.core.events import Event


@dataclass(slots=True)
class Asking:
    """One request: who, the entry of one that is audited, and whether that went with an event."""

    peer: Peer
    entry: AuditEntry | None
    stored: bool = False


ASKING: ContextVar[Asking | None] = ContextVar("wattfold_asking", default=None)


def asker() -> Peer:
    """Who asks, nobody where no request is under way."""
    asking = ASKING.get()
    return asking.peer if asking else NOBODY


def entry_for(event: Event) -> AuditEntry | None:
    """The entry to store with an event, None where nobody asked or it is stored already."""
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
    """The event was withdrawn, and the entry with it."""
    asking = ASKING.get()
    if asking is not None:
        asking.stored = False
