"""Read-only description of a powercap tree, and of the reasons for a missing tree.

Whether a file is writable is derived from its permission bits and the account. A trial write, even
of the same value, may enable a limit or change its time window.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from wattfold.nodeagent.adapters.devices.msr import MsrRanges
from wattfold.nodeagent.adapters.devices.powercap import PowercapZone
from wattfold.nodeagent.adapters.devices.powercap_files import ZoneFiles
from wattfold.nodeagent.adapters.devices.zone_ranges import RangeSetting
from wattfold.nodeagent.adapters.devices.zone_search import zones_of
from wattfold.nodeagent.core.findings import LimitFacts, MachineFacts, TwinFacts, ZoneFacts

_CONSTRAINTS_MAX = 8
_CONTAINER_MARKS = {"/.dockerenv": "docker", "/run/.containerenv": "podman"}


def read_zones(
    files: ZoneFiles, setting: RangeSetting, ranges: MsrRanges | None = None
) -> list[ZoneFacts]:
    """Return the zones that the agent would use, by name, with their twins."""
    return [_facts(files, zone, setting, ranges) for zone in zones_of(files)]


def read_machine(root: Path, host: Path = Path("/")) -> MachineFacts:
    """Return processor, virtualization and driver. ``host``: the root of the file system."""
    cpuinfo = _host_text(host / "proc/cpuinfo").partition("\n\n")[0]
    fields = {
        key.strip(): value.strip()
        for key, _, value in (line.partition(":") for line in cpuinfo.splitlines())
    }
    marks = [kind for mark, kind in _CONTAINER_MARKS.items() if (host / mark[1:]).exists()]
    return MachineFacts(
        root=str(root),
        root_exists=root.is_dir(),
        vendor=fields.get("vendor_id", ""),
        virtual="hypervisor" in fields.get("flags", "").split(),
        container=_host_text(host / "run/systemd/container") or (marks[0] if marks else ""),
        rapl_driver=any(
            (host / "sys/module" / name).exists() for name in ("intel_rapl_msr", "intel_rapl_tpmi")
        ),
    )


def _facts(
    files: ZoneFiles, zone: PowercapZone, setting: RangeSetting, ranges: MsrRanges | None
) -> ZoneFacts:
    folder, limits = zone.folder, zone.limit_folder
    others = [f for f in (folder, *zone.twins) if f != limits]
    try:
        zone.describe(setting, ranges.range_of(zone.name, zone.kind) if ranges else None)
    except ValueError as error:
        zone.cannot_cap = f"{folder}: {error}"
    return ZoneFacts(
        name=zone.name,
        kind=zone.kind,
        path=folder,
        cannot_cap=zone.cannot_cap,
        cannot_measure=zone.cannot_measure,
        energy_denied=_denied(files, folder),
        energy_range_uj=zone.range_uj,
        limits=zone.limits,
        enabled=_enabled(files, limits),
        enabled_writable=files.may(limits, "enabled", os.W_OK),
        long_term=_limit(files, limits, "long_term"),
        short_term=_limit(files, limits, "short_term"),
        twins=tuple(_twin(files, f) for f in others if _limit(files, f, "long_term")),
    )


def _denied(files: ZoneFiles, folder: str) -> bool:
    try:
        files.read(folder, "energy_uj")
    except OSError as error:
        return error.errno in (errno.EACCES, errno.EPERM)
    # Root can read this file here, but may be denied it in sysfs.
    return not files.may(folder, "energy_uj", os.R_OK)


def _twin(files: ZoneFiles, folder: str) -> TwinFacts:
    limit = _limit(files, folder, "long_term")
    enabled = _enabled(files, folder) is not False
    return TwinFacts(
        path=folder,
        limit_uw=limit.limit_uw if limit and enabled else None,
        settable=limit is not None and limit.writable and not limit.error,
    )


def _limit(files: ZoneFiles, folder: str, name: str) -> LimitFacts | None:
    for index in range(_CONSTRAINTS_MAX):
        if _text(files, folder, f"constraint_{index}_name") == name:
            return _read_limit(files, folder, f"constraint_{index}_power_limit_uw")
    return None


def _read_limit(files: ZoneFiles, folder: str, file: str) -> LimitFacts:
    writable = files.may(folder, file, os.W_OK)
    try:
        value = int(files.read(folder, file))
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, str(error))
        return LimitFacts(limit_uw=None, writable=writable, error=name)
    except ValueError as error:
        return LimitFacts(limit_uw=None, writable=writable, error=str(error))
    return LimitFacts(limit_uw=value, writable=writable)


def _enabled(files: ZoneFiles, folder: str) -> bool | None:
    text = _text(files, folder, "enabled")
    return None if text == "" else text != "0"


def _text(files: ZoneFiles, folder: str, file: str) -> str:
    # A file that is missing or denied to this account is a fact here, not an error.
    try:
        return files.read(folder, file)
    except OSError:
        return ""


def _host_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
