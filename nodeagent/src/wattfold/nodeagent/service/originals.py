"""The limits found before the first write of a boot, kept on disk until they are put back.

Write-once: what is kept for a setting is what was there before this agent, or an earlier one of the
same boot, wrote it, so a capped zone is never taken for how it was found. An agent that stops keeps
them for the next. They are put back when the node leaves Wattfold, or when somebody on the node
asks for it. ``left`` is kept with them and outlives the boot: a node that left is nobody's to cap
until a coordinator takes it in again, and what is found then is the new original.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wattfold.contract.ids import ZoneName
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.powercap import PLAUSIBLE_UW_MAX
from wattfold.nodeagent.core.errors import Refused
from wattfold.nodeagent.service.power_ports import Records
from wattfold.nodeagent.service.zone_state import ZoneState

RECORD = "originals.json"
Settings = dict[str, int]
"""Values of one zone by folder and file."""


class Originals:
    """What was found on this node, by zone, and whether the node has left."""

    def __init__(self, store: Records, boot_id: str) -> None:
        record = store.read(RECORD) or {}
        self.left = record.get("left") is True
        self._store = store
        self._boot_id = boot_id
        same_boot = record.get("boot_id") == boot_id
        self._kept: dict[str, Settings] = record.get("zones", {}) if same_boot else {}

    def __bool__(self) -> bool:
        """Whether there is anything to put back."""
        return bool(self._kept)

    def save(self, states: Iterable[ZoneState]) -> None:
        """Keeps what is there of everything that was never written. Raises Refused.

        The node has not left from then on.
        """
        kept = dict(self._kept)
        for state in states:
            if not state.zone.cannot_cap:
                name = str(state.zone.name)
                kept[name] = state.zone.snapshot() | kept.get(name, {})
        self._write(kept, left=False)

    def of(self, state: ZoneState) -> Settings:
        """What is kept of a zone."""
        return self._kept.get(str(state.zone.name), {})

    def leave(self) -> None:
        """The node leaves. On disk before anything is put back. Raises Refused."""
        self._write(self._kept, left=True)

    def restore(self, states: dict[ZoneName, ZoneState]) -> dict[str, str]:
        """Puts everything back, each setting on its own; zones of which something failed, and why.

        Those are kept, whole: it is what the zone was before the first write. The others are not,
        so that what somebody sets from now on counts.
        """
        failed: dict[str, str] = {}
        for name, values in self._kept.items():
            state = states.get(ZoneName(name))
            whys = state.zone.restore(values) if state else {name: "the zone does not exist"}
            if whys:
                failed[name] = "; ".join(whys.values())
                logs.warning("limit_not_restored", zone=name, why=failed[name])
        logs.info("limits_restored", zones=len(self._kept) - len(failed), failed=len(failed))
        self._kept = {name: values for name, values in self._kept.items() if name in failed}
        return failed

    def forget(self) -> None:
        """Forgets on disk what was restored. Raises Refused."""
        if self._kept or self.left:
            self._write(self._kept, left=self.left)
        else:
            self._store.remove(RECORD)

    def original_uw(self, state: ZoneState) -> int:
        """The most a zone may draw once everything is put back; 0 = unknown.

        The lowest long-term limit that is on. Where there is none, or only what stands for
        "unlimited", the most that is known of the zone.
        """
        if not state.cappable:
            return state.most_uw
        limits_uw = [
            uw
            for uw in state.zone.long_limits_uw(self.of(state) or state.zone.snapshot())
            if 0 < uw <= PLAUSIBLE_UW_MAX
        ]
        return min(limits_uw, default=state.most_uw)

    def _write(self, kept: dict[str, Settings], *, left: bool) -> None:
        record: dict[str, Any] = {"boot_id": self._boot_id, "zones": kept, "left": left}
        if self._store.read(RECORD) != record:
            self._store.write(RECORD, record)
        self._kept, self.left = kept, left


def forget_quietly(originals: Originals) -> None:
    """Forgets what was restored. A disk that refuses is logged: the values in memory count."""
    try:
        originals.forget()
    except Refused as error:
        logs.warning("originals_not_forgotten", why=error)
