"""The power ledger: what every zone of every admitted node may draw, and the limit on the sum.

A zone is charged with the highest of: the cap confirmed by read-back, a cap on its way (or lost on
its way), and caps lowered less than an averaging window ago. One that was measured above its cap is
charged with the most it can draw. A node adds its base power. So the sum is an upper bound of the
power at every instant, and `room_uw` of it is what a raise may use.

A cap lost on its way may still arrive: it stays charged until a read-back that is late enough to
have seen it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wattfold.contract.ids import NodeId, ZoneName


@dataclass(slots=True, kw_only=True)
class ZoneAccount:
    """Charge of one zone, microwatts. ``settling`` holds (until, cap) of caps lowered lately.

    ``uncertain_uw`` was lost on its way and may still take effect before ``uncertain_until_ns``.
    ``asked_uw`` is what was asked for last and answered (0 = nothing): a zone that rounds it down
    need not be asked again. ``overdraw_uw`` is charged, whatever its caps, to a zone that does not
    hold them (0 = it does).
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
        """The most the zone may draw now."""
        lowered = max((cap for _, cap in self.settling), default=0)
        caps_uw = max(self.confirmed_uw, self.pending_uw or 0, self.uncertain_uw, lowered)
        return max(caps_uw, self.overdraw_uw)

    def lost_until(self, now_ns: int) -> bool:
        """Whether a cap was lost on its way and can be read back by now."""
        return bool(self.uncertain_uw) and now_ns >= self.uncertain_until_ns

    def too_high(self, cap_uw: int, now_ns: int) -> bool:
        """Whether a command is needed to bring it down to a cap, or to learn that it is there."""
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


@dataclass(slots=True)
class PowerLedger:
    """Committed power of the admitted nodes against the budget; all powers in microwatts.

    ``over_deadline_ns`` is set while a lowered budget is not yet kept; it is the time by which
    it must be. ``coming_uw`` is the least of the budgets that are announced and being prepared,
    0 = none is: no more is committed to. ``breaches`` counts readings that were above anything
    granted (another writer, a zone that does not obey, a node that came back as another one) and
    took the sum over the budget; ``in_breach`` lasts until the others have made up for it.
    """

    budget_uw: int
    coming_uw: int = 0
    accounts: dict[NodeId, NodeAccount] = field(default_factory=dict)
    peak_uw: int = 0
    over_deadline_ns: int = 0
    breaches: int = 0
    in_breach: bool = False
    outside_uw: int = field(init=False, compare=False, repr=False, default=0)
    """What nodes without an account may draw beside the budget; derived, see `cap_targets`. Raises
    leave room for it, as far as there is any."""
    touched: set[NodeId] = field(init=False, compare=False, repr=False, default_factory=set)
    """Nodes whose accounts have changed, or may be judged anew; derived, for `reconcile`."""
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
        """`committed_uw` added up anew: the two must agree."""
        return sum(account.charge_uw for account in self.accounts.values())

    def _charge_uw(self, node_id: NodeId) -> int:
        account = self.accounts.get(node_id)
        return account.charge_uw if account else 0

    def _changed(self, node_id: NodeId, before_uw: int) -> None:
        """Takes a change of an account into the sum. ``before_uw`` was its charge."""
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
        """What may be committed to: the budget, or less where less is about to come."""
        return min(self.budget_uw, self.coming_uw or self.budget_uw)

    @property
    def room_uw(self) -> int:
        """What may still be committed; negative while a lower limit is not yet kept."""
        return self.limit_uw - self.committed_uw

    @property
    def free_uw(self) -> int:
        """What a raise may use: the room, less what nodes outside the ledger may draw."""
        return max(self.room_uw - self.outside_uw, 0)

    def open(self, node_id: NodeId, base_uw: int, caps_uw: dict[ZoneName, int]) -> None:
        """Admits a node with the caps that it holds. Raises LedgerError when they do not fit."""
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
        """The node is another one than when it was admitted: other zones or base power.

        Zones that stay keep their charge. The sum may pass the budget: a breach.
        """
        before_uw = self._charge_uw(node_id)
        old = self.accounts[node_id].zones
        zones = {n: old.get(n) or ZoneAccount(confirmed_uw=cap) for n, cap in caps_uw.items()}
        self.accounts[node_id] = NodeAccount(base_uw=base_uw, zones=zones)
        self._changed(node_id, before_uw)
        self._note_breach(self._charge_uw(node_id) > before_uw)

    def close(self, node_id: NodeId) -> None:
        """Takes a node out, together with its charge."""
        before_uw = self._charge_uw(node_id)
        self.accounts.pop(node_id, None)
        self._changed(node_id, before_uw)

    def may_raise(self, node_id: NodeId, caps_uw: dict[ZoneName, int]) -> bool:
        """Whether these caps, once in flight, keep the sum within the budget."""
        return self.increase_uw(node_id, caps_uw) <= self.free_uw

    def send(self, node_id: NodeId, caps_uw: dict[ZoneName, int]) -> None:
        """Charges caps on their way. Raises LedgerError for a raise that does not fit."""
        increase = self.increase_uw(node_id, caps_uw)
        if increase > 0 and increase > self.room_uw:
            raise LedgerError(
                f"raising {node_id} by {increase} uW exceeds the free {self.room_uw} uW"
            )
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
        """Takes a cap read back from the node; a lower one counts once its window has passed."""
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
        """The fate of the caps in flight is unknown: they may take effect until then.

        ``until_ns`` is late enough that a read-back which arrives after it has seen them.
        """
        account, before_uw = self.accounts.get(node_id), self._charge_uw(node_id)
        for zone in account.zones.values() if account else ():
            if zone.pending_uw is not None:
                zone.uncertain_uw = max(zone.uncertain_uw, zone.pending_uw)
                zone.uncertain_until_ns = until_ns
                zone.pending_uw, zone.asked_uw = None, 0
        self._changed(node_id, before_uw)

    def fall_to_floor(
        self,
        node_id: NodeId,
        floors_uw: dict[ZoneName, int],
        settled_ns: dict[ZoneName, int],
    ) -> None:
        """The lease of a silent node has run out: its zones hold their floors.

        As with any lowered cap, that counts once an averaging window has passed.
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
        """Charges zones that do not hold their caps with these powers, and no others any more.

        What a zone was charged with that holds its cap again counts until ``settled_ns``. The sum
        may pass the budget: a breach.
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
        """Frees what was lowered a window ago. Returns whether anything changed."""
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
        """When the next lowered or lost cap is settled, None if there is none."""
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
        """How much these caps, once in flight, add to the charge of a node."""
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
    """The ledger would pass the budget: a defect of the caller, never an outcome."""
