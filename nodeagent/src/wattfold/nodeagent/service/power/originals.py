"""Original limits from before the first write of a boot, on disk until they are restored.

They are write-once: the value of a setting is from before this agent, or an earlier agent of the
same boot, wrote it. So a cap is never mistaken for an original limit. A stopping agent keeps them
for the next agent. They are restored when the node leaves Wattfold, or on request of a person on
the node. ``left`` is stored with them and outlives the boot: no agent may cap a node that has left,
until a coordinator readmits it. The limits found then are the new original limits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wattfold.contract.ids import ZoneName
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.devices.zone_ranges import PLAUSIBLE_UW_MAX
from wattfold.nodeagent.core.errors import Refused, WrongState
from wattfold.nodeagent.service.power.power_ports import Records
from wattfold.nodeagent.service.power.zone_state import ZoneState

RECORD = "originals.json"
Settings = dict[str, int]
"""Values of one zone by folder and file."""


class Originals:
    """The original limits of this node by zone, and whether the node has left."""

    def __init__(self, store: Records, boot_id: str) -> None:
        record = store.read(RECORD) or {}
        self.left = record.get("left") is True
        self._store = store
        self._boot_id = boot_id
        same_boot = record.get("boot_id") == boot_id
        self._kept = _settings(record.get("zones", {})) if same_boot else {}

    def __bool__(self) -> bool:
        """Whether there is anything to put back."""
        return bool(self._kept)

    def save(self, states: Iterable[ZoneState]) -> None:
        """Store the current value of every setting that was never written. Raises Refused.

        The node counts as not left from then on. A node that has left is refused while one of its
        zones is unreadable: the zone would stay uncapped, and the coordinator would charge its
        floor.
        """
        kept = dict(self._kept)
        for state in states:
            if not state.zone.cannot_cap:
                name = str(state.zone.name)
                kept[name] = state.zone.snapshot() | kept.get(name, {})
                if self.left and not state.zone.can_restore(kept[name]):
                    raise WrongState(
                        f"the limits of {name} ({state.zone.folder}) cannot be read, so the node "
                        "cannot return to service; restart the agent if the zone is gone for good"
                    )
        self._write(kept, left=False)

    def of(self, state: ZoneState) -> Settings:
        """Return the original settings of a zone."""
        return self._kept.get(str(state.zone.name), {})

    def leave(self) -> None:
        """Record that the node leaves, on disk before any limit is restored. Raises Refused."""
        self._write(self._kept, left=True)

    def restore(self, states: dict[ZoneName, ZoneState]) -> dict[str, str]:
        """Restore all settings separately. Returns the zones with failures, and the reasons.

        The originals of these zones are kept completely, as they were before the first write. Those
        of other zones are deleted, so that later changes by others count as original.
        """
        failed: dict[str, str] = {}
        for name, values in self._kept.items():
            state = states.get(ZoneName(name))
            whys = state.zone.restore(values) if state else {name: "the zone does not exist"}
            if whys:
                failed[name] = "; ".join(whys.values())
                logs.warning("limit_not_restored", zone=name, reason=failed[name])
        logs.info("limits_restored", zones=len(self._kept) - len(failed), failed=len(failed))
        self._kept = {name: values for name, values in self._kept.items() if name in failed}
        return failed

    def forget(self) -> None:
        """Delete restored limits on disk. Raises Refused."""
        if self._kept or self.left:
            self._write(self._kept, left=self.left)
        else:
            self._store.remove(RECORD)

    def original_uw(self, state: ZoneState) -> int:
        """Return the maximum power of a zone after restoration; 0 = unknown.

        It is the lowest enabled long-term limit, or the lowest short-term limit if that is higher,
        since it permits more power for up to a long-term window. Without a long-term limit, or with
        only "unlimited", it is the highest known power of the zone.
        """
        if not state.cappable:
            return state.most_uw
        long_uw, short_uw = state.zone.limits_uw(self.of(state) or state.zone.snapshot())
        lowest_uw = min(filter(_plausible, long_uw), default=state.most_uw)
        if not short_uw:
            return lowest_uw
        return max(lowest_uw, min(filter(_plausible, short_uw), default=state.most_uw))

    def _write(self, kept: dict[str, Settings], *, left: bool) -> None:
        record: dict[str, Any] = {"boot_id": self._boot_id, "zones": kept, "left": left}
        if self._store.read(RECORD) != record:
            self._store.write(RECORD, record)
        self._kept, self.left = kept, left


def _settings(zones: object) -> dict[str, Settings]:
    """The settings of a record; those that nobody can have set are left out."""
    if not isinstance(zones, dict):
        logs.warning("originals_unreadable", found=type(zones).__name__)
        return {}
    kept: dict[str, Settings] = {}
    for name, values in zones.items():
        known = values if isinstance(values, dict) else {}
        kept[name] = {key: value for key, value in known.items() if _is_setting(key, value)}
        if kept[name] != values:
            logs.warning("originals_unreadable", zone=name, found=values)
    return kept


def _is_setting(key: str, value: object) -> bool:
    # Keys of earlier versions have no folder.
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return whole and key.count("/") <= 1


def _plausible(limit_uw: int) -> bool:
    """Whether a limit is a power, not what stands for "unlimited" or for none."""
    return 0 < limit_uw <= PLAUSIBLE_UW_MAX


def forget_quietly(originals: Originals) -> None:
    """Delete restored limits. A failure on disk is logged, because the values in memory count."""
    try:
        originals.forget()
    except Refused as error:
        logs.warning("originals_not_forgotten", reason=error)
