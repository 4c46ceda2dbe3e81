"""Search for the power zones of a powercap tree, by their names."""

from __future__ import annotations

from pathlib import Path

from wattfold.contract.ids import ZoneName
from wattfold.contract.units import w_from_uw
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.devices.msr import MsrRanges
from wattfold.nodeagent.adapters.devices.powercap import PowercapZone
from wattfold.nodeagent.adapters.devices.powercap_files import RealFiles, ZoneFiles
from wattfold.nodeagent.adapters.devices.powercap_interface import identity
from wattfold.nodeagent.adapters.devices.zone_ranges import RangeSetting
from wattfold.nodeagent.core.caps import ZoneKind


def discover(
    root: Path | ZoneFiles,
    setting: RangeSetting,
    *,
    stamped: bool = False,
    ranges: MsrRanges | None = None,
) -> list[PowercapZone]:
    """Return packages, DRAM and psys of a powercap tree, ordered by name; empty without a tree.

    ``stamped``: the files carry the time of their values (an emulated tree). ``ranges``: source of
    values that powercap lacks; None if the tree is not of this machine.
    """
    files = RealFiles(root, stamped=stamped) if isinstance(root, Path) else root
    zones = []
    for zone in zones_of(files):
        try:
            zone.describe(setting, ranges.range_of(zone.name, zone.kind) if ranges else None)
        except ValueError as error:
            zone.cannot_cap = f"{zone.path.name}: {error}"
        zones.append(zone)
        logs.info(
            "zone_found",
            zone=zone.name,
            path=zone.path,
            twins=",".join(zone.twins) or "none",
            range=_range_text(zone),
        )
    return zones


def zones_of(files: ZoneFiles) -> list[PowercapZone]:
    """Return the zones that the agent can use, not yet described, ordered by name."""
    folders: dict[tuple[ZoneName, ZoneKind], list[str]] = {}
    for folder in files.folders():
        role = _role(files, folder)
        if role is not None:
            folders.setdefault(role, []).append(folder)
    return [
        PowercapZone(files, found, name, kind)
        for (name, kind), found in sorted(folders.items(), key=lambda item: item[0][0])
    ]


def _role(files: ZoneFiles, folder: str) -> tuple[ZoneName, ZoneKind] | None:
    name = _zone_label(files, folder)
    if name.startswith("package-"):
        return ZoneName(name), ZoneKind.PACKAGE
    if name.startswith("gpu-"):
        return ZoneName(name), ZoneKind.GPU
    if name == "dram":
        parent = _zone_label(files, folder.rpartition(":")[0])
        suffix = parent.removeprefix("package-")
        return (ZoneName(f"dram-{suffix}"), ZoneKind.DRAM) if parent else None
    if name.startswith("psys"):
        return ZoneName(name), ZoneKind.PSYS
    return None


def _zone_label(files: ZoneFiles, folder: str) -> str:
    try:
        return identity(files, folder, "name")
    except FileNotFoundError:
        return ""
    except OSError as error:
        logs.warning("zone_name_unreadable", folder=folder, reason=str(error))
        return ""


def _range_text(zone: PowercapZone) -> str:
    if zone.limits is None:
        return zone.cannot_cap
    limits = zone.limits
    return f"{w_from_uw(limits.cap_uw_min)}..{w_from_uw(limits.cap_uw_max)}W"
