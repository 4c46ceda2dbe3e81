"""Findings about what a node can cap and measure, from values read from it; no I/O.

A finding states the fact and, if something is missing, the remedy. It never promises more than
reading can show: only the first cap shows whether the firmware accepts a limit.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from wattfold.contract.units import w_from_uw
from wattfold.nodeagent.core.caps import CapRange, ZoneKind

UNLIMITED_UW_MIN = 2_000_000_000
"""No package draws 2 kW, so a limit from here on means "no limit"."""

GIVE_WRITE = "run the agent as root, or with the capability CAP_DAC_OVERRIDE"
GIVE_GPU = "run the agent as root; in a container, with the capability CAP_SYS_ADMIN"
GIVE_READ = "run the agent as root, or with the capability CAP_DAC_READ_SEARCH"


class Status(enum.Enum):
    """How well a function works, best first."""

    OK = "ok"
    LIMITED = "limited"
    NO = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding. ``remedy`` is empty if nothing needs to be done."""

    subject: str
    status: Status
    finding: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitFacts:
    """One limit of a zone as read; ``error`` is the name of the error, such as ENODATA."""

    limit_uw: int | None
    writable: bool
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinFacts:
    """The limit of the same package through another interface."""

    path: str
    limit_uw: int | None
    settable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneFacts:
    """One zone as read. ``cannot_cap`` and ``cannot_measure`` are the reasons of the agent."""

    name: str
    kind: ZoneKind
    path: str
    cannot_cap: str
    cannot_measure: str
    energy_denied: bool
    energy_range_uj: int
    limits: CapRange | None
    enabled: bool | None
    enabled_writable: bool
    long_term: LimitFacts | None
    short_term: LimitFacts | None
    twins: tuple[TwinFacts, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """Facts that explain a missing tree, or zones without limits."""

    root: str
    root_exists: bool
    vendor: str
    virtual: bool
    container: str
    rapl_driver: bool


def worst(statuses: Iterable[Status]) -> Status:
    """Return the worst status; OK if there is none."""
    order = list(Status)
    return order[max((order.index(s) for s in statuses), default=0)]


def capping(zone: ZoneFacts, machine: MachineFacts) -> list[Finding]:
    """Return whether limits of a package or of DRAM can be set; never empty."""
    refused = _cannot_cap(zone, machine)
    if refused is not None:
        return [refused]
    doubts = [*_enabled(zone), *_present_limit(zone), *_short_term(zone), *_others(zone)]
    if zone.limits is None or worst(d.status for d in doubts) is not Status.OK:
        return doubts
    low_w, high_w = w_from_uw(zone.limits.cap_uw_min), w_from_uw(zone.limits.cap_uw_max)
    floor_w = w_from_uw(zone.limits.floor_uw)
    good = f"can be capped from {low_w:g} to {high_w:g} W, floor {floor_w:g} W ({zone.path})"
    return [_found(zone, Status.OK, good), *doubts]


def measuring(zone: ZoneFacts) -> Finding:
    """Return whether the energy of a zone can be read."""
    if not zone.cannot_measure:
        return _found(zone, Status.OK, "energy can be measured")
    if zone.energy_denied:
        why = "this account cannot read the energy (the kernel allows only root)"
        return _found(zone, Status.NO, why, GIVE_READ)
    return _found(zone, Status.NO, zone.cannot_measure, _look(zone))


def _look(zone: ZoneFacts) -> str:
    if zone.kind is ZoneKind.GPU:
        return "look for Xid errors of NVRM in dmesg; nvidia-smi must show the GPU"
    return "look for errors of intel_rapl in dmesg"


def no_packages(machine: MachineFacts) -> Finding:
    """Return why there is no package zone."""
    status, emulate = Status.NO, "; or use --emulate, which needs no real zones"
    what = "has no package zone" if machine.root_exists else "does not exist"
    finding, remedy = f"{machine.root} {what}", ""
    if machine.container:
        inside = " in a virtual machine" if machine.virtual else ""
        finding += f"; this is a container ({machine.container}){inside}, which hides the zones"
        remedy = "run the agent on the physical host, or mount its tree into the container"
    elif machine.virtual:
        finding += "; this is a virtual machine, which has no power zones of its own"
        remedy = "run the agent on the physical machine"
    elif not machine.rapl_driver:
        finding += "; the driver intel_rapl_msr is not loaded"
        remedy = "modprobe intel_rapl_msr, and add it to /etc/modules-load.d"
    else:
        finding += "; the driver is loaded but found no zone on this processor"
        remedy = "look for errors of intel_rapl in dmesg"
    if "AMD" in machine.vendor or "Hygon" in machine.vendor:
        remedy += "; these zones only measure AMD processors, capping needs HSMP (amd_hsmp)"
    return Finding(subject="packages", status=status, finding=finding, remedy=remedy + emulate)


def psys(zone: ZoneFacts) -> Finding:
    """Describe a zone that contains the packages."""
    return _found(
        zone,
        Status.OK,
        f"is not capped, because it contains the packages ({zone.path})",
    )


def _cannot_cap(zone: ZoneFacts, machine: MachineFacts) -> Finding | None:
    limit = zone.long_term
    if limit is None:
        remedy = "none: the zone can only be measured"
        if zone.kind is ZoneKind.GPU:
            remedy += "; set gpu_max_w to its maximum power, which is charged to the budget"
        elif "AMD" in machine.vendor or "Hygon" in machine.vendor:
            remedy = "capping AMD processors needs HSMP: load the driver amd_hsmp"
        return _found(
            zone,
            Status.NO,
            f"cannot be capped: {zone.path} has an energy counter but no limit",
            remedy,
        )
    if limit.error == "ENODATA":
        why = "limits cannot be read (ENODATA): the driver or the firmware has locked them"
        return _found(zone, Status.NO, why, "unlock power limits in the firmware setup and reboot")
    if limit.error in ("EACCES", "EPERM"):
        return _found(zone, Status.NO, "this account cannot read the limits", GIVE_READ)
    if not limit.writable and zone.kind is ZoneKind.GPU:
        why = "this account cannot set the limit; the budget is charged for the maximum limit"
        return _found(zone, Status.NO, why, GIVE_GPU)
    if not limit.writable:
        why = "this account cannot write the limit: no permission, or a read-only mount"
        return _found(
            zone, Status.NO, why, f"{GIVE_WRITE}; in a container, mount the tree writable"
        )
    if zone.enabled is False and not zone.enabled_writable:
        why = "limits are disabled (enabled is 0) and this account cannot enable them"
        return _found(zone, Status.NO, why, GIVE_WRITE)
    if zone.cannot_cap:
        return _found(zone, Status.NO, zone.cannot_cap, _range_remedy(zone))
    return None


def _range_remedy(zone: ZoneFacts) -> str:
    kind = zone.kind.value
    floor = "floor_w" if zone.kind is ZoneKind.PACKAGE else f"{kind}_floor_w"
    if zone.kind is ZoneKind.GPU and zone.limits is None:
        return f"check gpu_max_w and gpu_floor_w; else {_look(zone)}"
    if zone.limits is None and zone.long_term is not None and not zone.long_term.error:
        return f"check {kind}_min_w, {kind}_max_w and {floor} in the configuration of the agent"
    return _look(zone)


def _enabled(zone: ZoneFacts) -> list[Finding]:
    if zone.enabled is not False:
        return []
    if zone.kind is ZoneKind.GPU:
        why = "persistence mode is off: the driver drops limits when no program uses the GPU"
        return [_found(zone, Status.OK, f"{why}; the agent enables it while it runs")]
    if zone.kind is ZoneKind.DRAM:
        why = "limits are disabled (enabled is 0); many processors cannot cap DRAM"
        remedy = (
            "start the agent, which tries to enable them; if it cannot, add the power of the DRAM"
            " to base_power_w"
        )
    else:
        why = "limits are disabled (enabled is 0); the firmware may have locked them"
        remedy = (
            "start the agent; if it logs cap_not_set, unlock power limits in the firmware setup"
        )
    return [_found(zone, Status.LIMITED, why, remedy)]


def _present_limit(zone: ZoneFacts) -> list[Finding]:
    limit_uw = zone.long_term.limit_uw if zone.long_term else None
    # A disabled zone usually shows 0, and its state has already been reported.
    if limit_uw == 0 and zone.enabled is not False:
        why = "the current limit is 0 W: it was never set, or exceeds the range of the hardware"
        remedy = "reboot the node; if the limit stays 0 W, compare caps with the measured power"
        return [_found(zone, Status.LIMITED, why, remedy)]
    if limit_uw is not None and limit_uw >= UNLIMITED_UW_MIN:
        why = f"the current limit is {w_from_uw(limit_uw):g} W: unlimited until the first cap"
        return [_found(zone, Status.OK, why)]
    return []


def _short_term(zone: ZoneFacts) -> list[Finding]:
    short, limit = zone.short_term, zone.long_term
    if short is None or limit is None:
        return []
    if short.error:
        why = f"the short-term limit cannot be read ({short.error}): bursts may exceed a cap"
        return [_found(zone, Status.LIMITED, why, "unlock power limits in the firmware setup")]
    if not short.writable:
        why = "the short-term limit cannot be written: bursts may exceed a cap"
        return [_found(zone, Status.LIMITED, why, GIVE_WRITE)]
    if short.limit_uw and limit.limit_uw and short.limit_uw < limit.limit_uw:
        why = (
            f"the short-term limit, {w_from_uw(short.limit_uw):g} W, is below the long-term limit,"
            f" {w_from_uw(limit.limit_uw):g} W, and takes effect instead"
        )
        remedy = "find the program that set it; the agent sets both to the cap and restores both"
        return [_found(zone, Status.LIMITED, why, remedy)]
    return []


def _others(zone: ZoneFacts) -> list[Finding]:
    return [_twin(zone, twin) for twin in zone.twins]


def _twin(zone: ZoneFacts, twin: TwinFacts) -> Finding:
    highest_uw = zone.limits.cap_uw_max if zone.limits else 0
    why = f"{twin.path} limits this zone too"
    if twin.limit_uw is not None:
        why += f", to {w_from_uw(twin.limit_uw):g} W"
    if twin.settable:
        return _found(zone, Status.OK, f"{why}; the agent sets both")
    if twin.limit_uw is not None and 0 < twin.limit_uw < highest_uw:
        remedy = "higher caps have no effect: unlock this limit, or set package_max_w to it"
        return _found(
            zone, Status.LIMITED, f"{why}, and cannot be set; the lower limit takes effect", remedy
        )
    return _found(zone, Status.OK, f"{why}; it cannot be set, and the lower limit takes effect")


def _found(zone: ZoneFacts, status: Status, finding: str, remedy: str = "") -> Finding:
    return Finding(subject=zone.name, status=status, finding=finding, remedy=remedy)
