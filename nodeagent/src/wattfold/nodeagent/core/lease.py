"""Lease and epoch: for how long caps above the floor hold, and whose commands count.

A lease is renewed by the coordinator and ends by itself, so that a silent coordinator is safe. The
epoch is the coordinator's generation: a command of a smaller one than ever seen is refused. All
times are monotonic nanoseconds given by the caller; after a restart there is no lease.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from wattfold.contract.ids import EPOCH_MAX, Epoch
from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent.core.errors import Fenced, InvalidRequest

NO_EPOCH = Epoch(0)
LEASE_NS_MAX = 3600 * NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """State of the lease and of the coordinator that the agent obeys."""

    epoch: Epoch = NO_EPOCH
    coordinator_id: str = ""
    journal_number: int = 0
    """The highest event number that this coordinator had on disk, according to its commands."""
    expires_ns: int | None = None

    def admit(self, epoch: int, coordinator_id: str = "", journal_number: int = 0) -> Lease:
        """The state after a command of this epoch. Raises Fenced for an older one.

        Within an epoch the first coordinator that named itself is obeyed and no other.
        """
        if not 0 < epoch <= EPOCH_MAX:
            raise InvalidRequest(f"epoch {epoch} is outside 1..{EPOCH_MAX}")
        if epoch < self.epoch:
            raise Fenced(
                f"epoch {epoch} is older than epoch {self.epoch}, the highest this node has seen:"
                " another coordinator has taken over"
            )
        if epoch > self.epoch:
            return replace(
                self,
                epoch=Epoch(epoch),
                coordinator_id=coordinator_id,
                journal_number=journal_number,
            )
        if self.coordinator_id not in ("", coordinator_id):
            raise Fenced(
                f"epoch {epoch} belongs to another coordinator, {self.coordinator_id}, on this node"
            )
        number = max(self.journal_number, journal_number)
        if (self.coordinator_id, self.journal_number) == (coordinator_id, number):
            return self
        return replace(self, coordinator_id=coordinator_id, journal_number=number)

    @property
    def obeyed(self) -> tuple[Epoch, str]:
        """The epoch and the coordinator whose commands count."""
        return self.epoch, self.coordinator_id

    def renewed(self, duration_ns: int, now_ns: int) -> Lease:
        """Return the state with a lease of ``duration_ns`` from now. Raises InvalidRequest."""
        if not 0 < duration_ns <= LEASE_NS_MAX:
            raise InvalidRequest(
                f"lease duration {duration_ns} ns is outside 1..{LEASE_NS_MAX} ns (one hour)"
            )
        return replace(self, expires_ns=now_ns + duration_ns)

    def ended(self) -> Lease:
        """Return the state without a lease."""
        return replace(self, expires_ns=None)

    def live(self, now_ns: int) -> bool:
        """Whether caps above the floor may be in force now."""
        return self.expires_ns is not None and now_ns < self.expires_ns

    def remaining_ns(self, now_ns: int) -> int:
        """Return the remaining time; 0 without a lease."""
        return 0 if self.expires_ns is None else max(0, self.expires_ns - now_ns)
