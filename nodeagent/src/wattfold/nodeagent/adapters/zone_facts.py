"""Reads a powercap tree, and what explains a missing one, without changing anything.

Whether a file can be written is told from its permission bits and the account: a trial write, even
of the value that is there, may switch a limit on or move its time window.
"""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

from wattfold.nodeagent.adapters.powercap import (
    PowercapZone,
    RangeSetting,
    zone_at,
    zone_folders,
)
from wattfold.nodeagent.core.findings import LimitFacts, MachineFacts, TwinFacts, ZoneFacts

_CONSTRAINTS_MAX = 8
_CONTAINER_MARKS = {"/.dockerenv": "docker", "/run/.containerenv": "podman"}


def may(path: Path, mode: int) -> bool:
    """Whether this account may use a file so (os.R_OK, os.W_OK).

    sysfs holds also root to the permission bits, which access(2) does not tell.
    """
    try:
        bits = path.stat().st_mode
    except OSError:
        return False
    anyone = 0o222 if mode == os.W_OK else 0o444
    return bool(bits & anyone) and os.access(path, mode, effective_ids=True)


def read_zones(root: Path, setting: RangeSetting) -> list[ZoneFacts]:
    """The zones the agent would use, by name, with their twins."""
    twins = read_twins(root)
    found: dict[str, ZoneFacts] = {}
    for folder in zone_folders(root):
        zone = zone_at(folder)
        if zone is None:
            continue
        known = found.get(zone.name)
        if known is not None:
            found[zone.name] = replace(known, doubled_at=(*known.doubled_at, folder.name))
            continue
        found[zone.name] = _facts(zone, setting, tuple(twins.get(zone.name, [])))
    return [found[name] for name in sorted(found)]


def read_twins(root: Path) -> dict[str, list[TwinFacts]]:
    """Packages of the interface by memory-mapped registers, which keeps limits of its own."""
    twins: dict[str, list[TwinFacts]] = {}
    for folder in sorted(root.glob("intel-rapl-mmio:*")):
        name = _text(folder / "name")
        if name.startswith("package-"):
            limit = _limit(folder, "long_term")
            limit_uw = limit.limit_uw if limit and _enabled(folder) is not False else None
            twins.setdefault(name, []).append(TwinFacts(path=folder.name, limit_uw=limit_uw))
    return twins


def read_machine(root: Path, host: Path = Path("/")) -> MachineFacts:
    """Processor, virtual machine or container, driver. ``host``: the root of the file system."""
    cpuinfo = _text(host / "proc/cpuinfo").partition("\n\n")[0]
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
        container=_text(host / "run/systemd/container") or (marks[0] if marks else ""),
        rapl_driver=any(
            (host / "sys/module" / name).exists() for name in ("intel_rapl_msr", "intel_rapl_tpmi")
        ),
    )


def _facts(zone: PowercapZone, setting: RangeSetting, twins: tuple[TwinFacts, ...]) -> ZoneFacts:
    folder = zone.path
    try:
        zone.describe(setting)
    except ValueError as error:
        zone.cannot_cap = f"{folder.name}: {error}"
    return ZoneFacts(
        name=zone.name,
        kind=zone.kind,
        path=folder.name,
        cannot_cap=zone.cannot_cap,
        cannot_measure=zone.cannot_measure,
        energy_denied=(folder / "energy_uj").exists() and not may(folder / "energy_uj", os.R_OK),
        energy_range_uj=zone.range_uj,
        limits=zone.limits,
        enabled=_enabled(folder),
        enabled_writable=may(folder / "enabled", os.W_OK),
        long_term=_limit(folder, "long_term"),
        short_term=_limit(folder, "short_term"),
        twins=twins,
    )


def _limit(folder: Path, name: str) -> LimitFacts | None:
    for index in range(_CONSTRAINTS_MAX):
        if _text(folder / f"constraint_{index}_name") == name:
            return _read_limit(folder / f"constraint_{index}_power_limit_uw")
    return None


def _read_limit(path: Path) -> LimitFacts:
    writable = may(path, os.W_OK)
    try:
        value = int(path.read_text(encoding="ascii"))
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, str(error))
        return LimitFacts(limit_uw=None, writable=writable, error=name)
    except ValueError as error:
        return LimitFacts(limit_uw=None, writable=writable, error=str(error))
    return LimitFacts(limit_uw=value, writable=writable)


def _enabled(folder: Path) -> bool | None:
    text = _text(folder / "enabled")
    return None if text == "" else text != "0"


def _text(path: Path) -> str:
    # What is not there, or not for this account, is a fact like others here, not an error.
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
