"""The power ledger: the possible power of every zone of admitted nodes, and the limit on the sum.

A zone is charged with the maximum of the cap confirmed by read-back, a pending or lost cap, and
caps lowered less than an averaging window ago. A zone that was measured above its cap is charged
with its maximum power. A node adds its base power. So the sum is an upper bound of the power at
every instant. Caps may be raised only within the remaining room.

A lost cap may still arrive. It stays charged until a read-back that is late enough to include it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wattfold.contract.ids import NodeId, ZoneName
from wattfold.coordinator.core.power.ramp import Ramp


@dataclass(slots=True, kw_only=True)
class ZoneAccount:
    """Charge of one zone, in microwatts. ``settling`` holds (until, cap) of recently lowered caps.

    ``uncertain_uw`` was lost and may still take effect before ``uncertain_until_ns``. ``asked_uw``
    is the last cap that was requested and answered (0 = none). If a zone rounds it down, the
    request is not repeated. ``overdraw_uw`` is charged to a zone that exceeds its caps (0 = it
    holds them).
    """

    confirmed_uw: int
    pending_uw: int | None = None
    uncertain_uw: int = 0
    uncertain_until_ns: int = 0
    asked_uw: int = 0
    overdraw_uw: int = 0
    settling: list[tuple[int, int]] = field(default_factory=list)

    @property
    def charge_uw(self) -> int:
        """Maximum power of the zone now."""
        return max(self.settled_uw, max((cap for _, cap in self.settling), default=0))

    @property
    def settled_uw(self) -> int:
        """Maximum power of the zone once its lowered caps no longer count."""
        caps_uw = max(self.confirmed_uw, self.pending_uw or 0, self.uncertain_uw)
        return max(caps_uw, self.overdraw_uw)

    def lost_until(self, now_ns: int) -> bool:
        """Whether a cap was lost and can be read back by now."""
        return bool(self.uncertain_uw) and now_ns >= self.uncertain_until_ns

    def too_high(self, cap_uw: int, now_ns: int) -> bool:
        """Whether a command is needed to lower the zone to a cap, or to confirm the cap."""
        settled = now_ns >= self.uncertain_until_ns
        return cap_uw < self.confirmed_uw or (settled and cap_uw < self.uncertain_uw)


@dataclass(slots=True, kw_only=True)
class NodeAccount:
    """Charge of one node: its base power and its zones."""

    base_uw: int
    zones: dict[ZoneName, ZoneAccount]

    @property
    def charge_uw(self) -> int:
        """Committed power of the node."""
        return self.base_uw + sum(zone.charge_uw for zone in self.zones.values())

    @property
    def settled_uw(self) -> int:
        """Committed power of the node once its lowered caps no longer count."""
        return self.base_uw + sum(zone.settled_uw for zone in self.zones.values())


@dataclass(slots=True)
class PowerLedger:
    """Committed power of the admitted nodes against the budget; all powers in microwatts.

    While committed power exceeds a lowered budget, ``over_deadline_ns`` is the deadline for meeting
    it. ``coming_uw`` is the smallest announced budget that is being prepared, ``emergency_uw`` the
    limit of an emergency, 0 = none. Both limit committed power as well. ``breaches`` counts
    readings that exceeded all granted power and raised the sum above the budget. Causes are another
    writer, a zone that does not obey, or a node with changed zones. ``in_breach`` lasts until the
    other nodes have compensated the excess.
    """

    budget_uw: int
    coming_uw: int = 0
    emergency_uw: int = 0
    accounts: dict[NodeId, NodeAccount] = field(default_factory=dict)
    peak_uw: int = 0
    over_deadline_ns: int = 0
    breaches: int = 0
    in_breach: bool = False
    ramp: Ramp = field(default_factory=Ramp)
    """Limits on how fast `possible_uw` may change."""
    outside_uw: int = field(init=False, compare=False, repr=False, default=0)
    """Possible power of nodes without an account; derived, see `cap_targets`.

    Raised caps leave room for it as far as possible.
    """
    touched: set[NodeId] = field(init=False, compare=False, repr=False, default_factory=set)
    """Nodes whose accounts have changed or need another check; derived, for `reconcile`."""
    _sum_uw: int = field(init=False, compare=False, repr=False, default=0)
    _timed: set[NodeId] = field(init=False, compare=False, repr=False, default_factory=set)
    """Nodes with lowered or lost caps."""

    def __post_init__(self) -> None:
        self._sum_uw = self.recounted_uw()
        self._timed = set(self.accounts)

    @property
    def committed_uw(self) -> int:
        """Sum of the committed power of all admitted nodes."""
        return self._sum_uw

    def recounted_uw(self) -> int:
        """Return `committed_uw`, recomputed from all accounts. Both values must agree."""
        return sum(account.charge_uw for account in self.accounts.values())

    def _charge_uw(self, node_id: NodeId) -> int:
        account = self.accounts.get(node_id)
        return account.charge_uw if account else 0

    def _changed(self, node_id: NodeId, before_uw: int) -> None:
        """Add the change of an account to the sum. ``before_uw`` was its charge."""
        self._sum_uw += self._charge_uw(node_id) - before_uw
        self.touched.add(node_id)
        account = self.accounts.get(node_id)
        zones = account.zones.values() if account else ()
        if any(zone.settling or zone.uncertain_uw for zone in zones):
            self._timed.add(node_id)
        else:
            self._timed.discard(node_id)

    @property
    def limit_uw(self) -> int:
        """Limit on committed power: the budget, a lower one in preparation, or an emergency."""
        lower_uw = min(self.coming_uw or self.budget_uw, self.emergency_uw or self.budget_uw)
        return min(self.budget_uw, lower_uw)

    @property
    def room_uw(self) -> int:
        """Limit minus committed power; negative while a lower limit is not yet met."""
        return self.limit_uw - self.committed_uw

    @property
    def possible_uw(self) -> int:
        """Committed power, and the power of nodes outside the ledger."""
        return self.committed_uw + self.outside_uw

    @property
    def ordered_uw(self) -> int:
        """`possible_uw` once all ordered caps hold and lowered caps no longer count."""
        zones = (zone for one in self.accounts.values() for zone in one.zones.values())
        ordered_uw = sum(z.confirmed_uw if z.pending_uw is None else z.pending_uw for z in zones)
        return ordered_uw + sum(one.base_uw for one in self.accounts.values()) + self.outside_uw

    @property
    def budget_free_uw(self) -> int:
        """Power that the limit leaves: the room less the power of nodes outside the ledger."""
        return max(self.room_uw - self.outside_uw, 0)

    @property
    def free_uw(self) -> int:
        """Power available for raised caps now: what the limit and the ramp limit leave."""
        rise = self.ramp.rise
        if not rise.rate_uw_per_s:
            return self.budget_free_uw
        return min(self.budget_free_uw, max(rise.room_uw(self.possible_uw), 0))

    def shortage(self, need_uw: int) -> str:
        """Return what is too little for a rise that does not fit, as a text."""
        rise = self.ramp.rise
        if need_uw > self.budget_free_uw or not rise.rate_uw_per_s:
            return f"{self.budget_free_uw / 1e6:.1f} W of the budget are free"
        if need_uw > rise.step_uw:
            return f"the ramp limit permits {rise.step_uw / 1e6:.1f} W at once (budget.step_w)"
        return f"the ramp limit permits {self.free_uw / 1e6:.1f} W now"

    def open(self, node_id: NodeId, base_uw: int, caps_uw: dict[ZoneName, int]) -> None:
        """Admit a node with its current caps. Raises LedgerError if they do not fit."""
        account = NodeAccount(
            base_uw=base_uw,
            zones={name: ZoneAccount(confirmed_uw=cap) for name, cap in caps_uw.items()},
        )
        if account.charge_uw > self.room_uw:
            raise LedgerError(
                f"node {node_id} needs {account.charge_uw} uW, but {self.room_uw} uW are free",
            )
        before_uw = self._charge_uw(node_id)
        self.accounts[node_id] = account
        self._changed(node_id, before_uw)
        self._sample()

    def reopen(self, node_id: NodeId, base_uw: int, caps_uw: dict[ZoneName, int]) -> None:
        """Replace the account of a node that has other zones or another base power than before.

        Remaining zones keep their charge. The sum may exceed the budget, which is a breach.
        """
        before_uw = self._charge_uw(node_id)
        old = self.accounts[node_id].zones
        zones = {n: old.get(n) or ZoneAccount(confirmed_uw=cap) for n, cap in caps_uw.items()}
        self.accounts[node_id] = NodeAccount(base_uw=base_uw, zones=zones)
        self._changed(node_id, before_uw)
        self._note_breach(self._charge_uw(node_id) > before_uw)

    def close(self, node_id: NodeId) -> None:
        """Remove a node and its charge."""
        before_uw = self._charge_uw(node_id)
        self.accounts.pop(node_id, None)
        self._changed(node_id, before_uw)

    def may_raise(self, node_id: NodeId, caps_uw: dict[ZoneName, int]) -> bool:
        """Whether these caps, once pending, keep the sum within the budget."""
        return self.fits(self.increase_uw(node_id, caps_uw))

    def fits(self, need_uw: int) -> bool:
        """Whether a node may get this power above its charge, also if that is zero.

        While the sum exceeds the limit, nothing fits: a node may be charged with a power that it
        only may have, and would have it then.
        """
        return self.room_uw >= 0 and need_uw <= self.free_uw

    def send(self, node_id: NodeId, caps_uw: dict[ZoneName, int]) -> None:
        """Charge pending caps. Raises LedgerError for a raise that does not fit."""
        increase = self.increase_uw(node_id, caps_uw)
        room_uw = self.room_uw
        if self.ramp.rise.rate_uw_per_s:
            room_uw = min(room_uw, self.ramp.rise.room_uw(self.possible_uw))
        if increase > 0 and increase > room_uw:
            raise LedgerError(f"raising {node_id} by {increase} uW exceeds the free {room_uw} uW")
        before_uw = self._charge_uw(node_id)
        for name, cap_uw in caps_uw.items():
            zone = self.accounts[node_id].zones[name]
            zone.pending_uw = zone.asked_uw = cap_uw
        self._changed(node_id, before_uw)
        self._sample()

    def confirm(
        self,
        node_id: NodeId,
        name: ZoneName,
        cap_uw: int,
        settled_ns: int,
        now_ns: int,
    ) -> None:
        """Record a cap read back from the node; a lower cap counts once its window has passed."""
        account = self.accounts.get(node_id)
        if account is None or name not in account.zones:
            return
        zone, node_uw = account.zones[name], account.charge_uw
        charged_uw = zone.charge_uw
        before_uw = max(zone.confirmed_uw, zone.pending_uw or 0)
        if zone.pending_uw is None:
            zone.asked_uw = 0
        if now_ns >= zone.uncertain_until_ns:
            before_uw, zone.uncertain_uw = max(before_uw, zone.uncertain_uw), 0
        zone.pending_uw, zone.confirmed_uw = None, cap_uw
        if before_uw > cap_uw:
            zone.settling.append((settled_ns, before_uw))
        self._changed(node_id, node_uw)
        self._note_breach(cap_uw > charged_uw)

    def lose(self, node_id: NodeId, until_ns: int) -> None:
        """Mark the pending caps as lost: they may still take effect until then.

        A read-back that arrives after ``until_ns`` includes their effect.
        """
        account, before_uw = self.accounts.get(node_id), self._charge_uw(node_id)
        for zone in account.zones.values() if account else ():
            if zone.pending_uw is not None:
                zone.uncertain_uw = max(zone.uncertain_uw, zone.pending_uw)
                zone.uncertain_until_ns = until_ns
                zone.pending_uw, zone.asked_uw = None, 0
        self._changed(node_id, before_uw)

    def doubt(self, node_id: NodeId, caps_uw: dict[ZoneName, int], now_ns: int) -> None:
        """Charge caps that zones may hold without a request of this coordinator, until a read-back.

        The sum may exceed the budget. As nothing was measured, this sets ``in_breach`` but counts
        no breach.
        """
        account, before_uw = self.accounts.get(node_id), self._charge_uw(node_id)
        for name in account.zones.keys() & caps_uw.keys() if account else ():
            assert account is not None
            zone = account.zones[name]
            zone.uncertain_uw = max(zone.uncertain_uw, caps_uw[name])
            zone.uncertain_until_ns = max(zone.uncertain_until_ns, now_ns)
        self._changed(node_id, before_uw)
        self.in_breach |= self.committed_uw > self.budget_uw
        self._sample()

    def fall_to_floor(
        self,
        node_id: NodeId,
        floors_uw: dict[ZoneName, int],
        settled_ns: dict[ZoneName, int],
    ) -> None:
        """Lower the zones of a silent node to their floors after the end of its lease.

        As for any lowered cap, this counts once an averaging window has passed.
        """
        account, before_uw = self.accounts.get(node_id), self._charge_uw(node_id)
        for name in account.zones.keys() & floors_uw.keys() if account else ():
            assert account is not None
            charged_uw, overdraw_uw = account.zones[name].charge_uw, account.zones[name].overdraw_uw
            account.zones[name] = ZoneAccount(confirmed_uw=floors_uw[name], overdraw_uw=overdraw_uw)
            if charged_uw > floors_uw[name]:
                account.zones[name].settling.append((settled_ns[name], charged_uw))
        self._changed(node_id, before_uw)

    def overdraw(self, node_id: NodeId, powers_uw: dict[ZoneName, int], settled_ns: int) -> None:
        """Charge these powers to zones that exceed their caps; other zones obey again.

        The charge of a zone that holds its cap again counts until ``settled_ns``. The sum may
        exceed the budget, which is a breach.
        """
        account = self.accounts.get(node_id)
        if account is None:
            return
        before_uw = account.charge_uw
        for name, zone in account.zones.items():
            power_uw = powers_uw.get(name, 0)
            if zone.overdraw_uw > power_uw:
                zone.settling.append((settled_ns, zone.overdraw_uw))
            zone.overdraw_uw = power_uw
        self._changed(node_id, before_uw)
        self._note_breach(account.charge_uw > before_uw)

    def settle(self, now_ns: int) -> bool:
        """End the charge of caps lowered a window ago. Return whether anything changed.

        It is called before anything else changes at this time.
        """
        self.ramp.pass_time(now_ns)
        changed = False
        for node_id in list(self._timed):
            before_uw, zones = self._charge_uw(node_id), self.accounts[node_id].zones.values()
            due = any(until <= now_ns for zone in zones for until, _ in zone.settling)
            for zone in zones if due else ():
                zone.settling = [entry for entry in zone.settling if entry[0] > now_ns]
            changed |= due
            if due or any(zone.lost_until(now_ns) for zone in zones):
                self._changed(node_id, before_uw)
        if (self.over_deadline_ns or self.in_breach) and self.committed_uw <= self.budget_uw:
            self.over_deadline_ns, self.in_breach = 0, False
        return changed

    def next_settling_ns(self, now_ns: int) -> int | None:
        """Return the time at which the next lowered or lost cap settles, if any."""
        if not self._timed:
            return None
        times: list[int] = []
        for node_id in self._timed:
            for zone in self.accounts[node_id].zones.values():
                times += [until for until, _ in zone.settling]
                if zone.uncertain_uw:
                    times.append(zone.uncertain_until_ns)
        return min((time for time in times if time > now_ns), default=None)

    def increase_uw(self, node_id: NodeId, caps_uw: dict[ZoneName, int]) -> int:
        """Return by how much these caps, once pending, increase the charge of a node."""
        zones = self.accounts[node_id].zones
        return sum(max(cap - zones[name].charge_uw, 0) for name, cap in caps_uw.items())

    def _sample(self) -> None:
        self.peak_uw = max(self.peak_uw, self.committed_uw)

    def _note_breach(self, grew: bool) -> None:
        if grew and self.committed_uw > self.budget_uw:
            self.breaches += 1
            self.in_breach = True
        self._sample()


class LedgerError(Exception):
    """The ledger would exceed the budget: a defect of the caller, never a normal outcome."""
