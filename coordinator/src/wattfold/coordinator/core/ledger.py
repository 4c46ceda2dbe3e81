"""The power ledger: what every zone of every admitted node may draw, and the limit on the sum.

A zone is charged with the highest of: the cap confirmed by read-back, a cap on its way (or lost on
its way), and caps lowered less than an averaging window ago. A node adds its base power. So the
sum is an upper bound of the power at every instant, and `room_uw` of it is what a raise may use.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wattfold.contract.ids import NodeId, ZoneName


@dataclass(slots=True, kw_only=True)
class ZoneAccount:
    """Charge of one zone, microwatts. ``settling`` holds (until, cap) of caps lowered lately."""

    confirmed_uw: int
    pending_uw: int | None = None
    uncertain_uw: int = 0
    settling: list[tuple[int, int]] = field(default_factory=list)

    @property
    def charge_uw(self) -> int:
        """The most the zone may draw now."""
        lowered = max((cap for _, cap in self.settling), default=0)
        return max(self.confirmed_uw, self.pending_uw or 0, self.uncertain_uw, lowered)


@dataclass(slots=True, kw_only=True)
class NodeAccount:
    """Charge of one node: its base power and its zones."""

    base_uw: int
    zones: dict[ZoneName, ZoneAccount]

    @property
    def charge_uw(self) -> int:
        """Committed power of the node."""
        return self.base_uw + sum(zone.charge_uw for zone in self.zones.values())


@dataclass(slots=True)
class PowerLedger:
    """Committed power of the admitted nodes against the budget; all powers in microwatts.

    ``over_deadline_ns`` is set while a lowered budget is not yet kept; it is the time by which
    it must be. ``breaches`` counts readings that were above anything granted (another writer, a
    zone that does not obey) and took the sum over the budget.
    """

    budget_uw: int
    accounts: dict[NodeId, NodeAccount] = field(default_factory=dict)
    peak_uw: int = 0
    over_deadline_ns: int = 0
    breaches: int = 0

    @property
    def committed_uw(self) -> int:
        """Sum of the committed power of all admitted nodes."""
        return sum(account.charge_uw for account in self.accounts.values())

    @property
    def room_uw(self) -> int:
        """What may still be committed; negative while a lowered budget is not yet kept."""
        return self.budget_uw - self.committed_uw

    def open(self, node_id: NodeId, base_uw: int, caps_uw: dict[ZoneName, int]) -> None:
        """Admits a node with the caps that it holds. Raises LedgerError when they do not fit."""
        account = NodeAccount(
            base_uw=base_uw,
            zones={name: ZoneAccount(confirmed_uw=cap) for name, cap in caps_uw.items()},
        )
        if account.charge_uw > self.room_uw:
            raise LedgerError(
                f"node {node_id} needs {account.charge_uw} uW but {self.room_uw} uW are free",
            )
        self.accounts[node_id] = account
        self._sample()

    def close(self, node_id: NodeId) -> None:
        """Takes a node out, together with its charge."""
        self.accounts.pop(node_id, None)

    def may_raise(self, node_id: NodeId, caps_uw: dict[ZoneName, int]) -> bool:
        """Whether these caps, once in flight, keep the sum within the budget."""
        return self._increase_uw(node_id, caps_uw) <= max(self.room_uw, 0)

    def send(self, node_id: NodeId, caps_uw: dict[ZoneName, int]) -> None:
        """Charges caps on their way. Raises LedgerError for a raise that does not fit."""
        increase = self._increase_uw(node_id, caps_uw)
        if increase > 0 and increase > self.room_uw:
            raise LedgerError(f"raise of {increase} uW on {node_id} exceeds {self.room_uw} uW free")
        for name, cap_uw in caps_uw.items():
            self.accounts[node_id].zones[name].pending_uw = cap_uw
        self._sample()

    def confirm(self, node_id: NodeId, name: ZoneName, cap_uw: int, settled_ns: int) -> None:
        """Takes a cap read back from the node; a lower one counts once its window has passed."""
        account = self.accounts.get(node_id)
        if account is None or name not in account.zones:
            return
        zone = account.zones[name]
        charged_uw = zone.charge_uw
        before_uw = max(zone.confirmed_uw, zone.pending_uw or 0, zone.uncertain_uw)
        zone.pending_uw, zone.uncertain_uw, zone.confirmed_uw = None, 0, cap_uw
        if before_uw > cap_uw:
            zone.settling.append((settled_ns, before_uw))
        if cap_uw > charged_uw and self.room_uw < 0:
            self.breaches += 1
        self.peak_uw = max(self.peak_uw, self.committed_uw)

    def lose(self, node_id: NodeId) -> None:
        """The fate of the caps in flight is unknown: either may hold until read back."""
        account = self.accounts.get(node_id)
        for zone in account.zones.values() if account else ():
            if zone.pending_uw is not None:
                zone.uncertain_uw = max(zone.uncertain_uw, zone.pending_uw)
                zone.pending_uw = None

    def fall_to_floor(self, node_id: NodeId, floors_uw: dict[ZoneName, int]) -> None:
        """The lease of a silent node has run out: its zones hold their floors."""
        account = self.accounts.get(node_id)
        if account is not None:
            for name, floor_uw in floors_uw.items():
                account.zones[name] = ZoneAccount(confirmed_uw=floor_uw)

    def settle(self, now_ns: int) -> bool:
        """Frees what was lowered a window ago. Returns whether anything changed."""
        changed = False
        for account in self.accounts.values():
            for zone in account.zones.values():
                kept = [entry for entry in zone.settling if entry[0] > now_ns]
                changed |= len(kept) != len(zone.settling)
                zone.settling = kept
        if self.over_deadline_ns and self.room_uw >= 0:
            self.over_deadline_ns = 0
        return changed

    def next_settling_ns(self) -> int | None:
        """When the next lowered cap counts, None if there is none."""
        times = [
            until
            for account in self.accounts.values()
            for zone in account.zones.values()
            for until, _ in zone.settling
        ]
        return min(times, default=None)

    def _increase_uw(self, node_id: NodeId, caps_uw: dict[ZoneName, int]) -> int:
        zones = self.accounts[node_id].zones
        return sum(max(cap - zones[name].charge_uw, 0) for name, cap in caps_uw.items())

    def _sample(self) -> None:
        committed_uw = self.committed_uw
        self.peak_uw = max(self.peak_uw, committed_uw)
        if committed_uw > self.budget_uw and not self.over_deadline_ns:
            raise LedgerError(f"{committed_uw} uW committed above the budget {self.budget_uw} uW")


class LedgerError(Exception):
    """The ledger would pass the budget: a defect of the caller, never an outcome."""
