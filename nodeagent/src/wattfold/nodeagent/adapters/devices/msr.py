"""Minimum and maximum caps of packages and DRAM from the processor's registers.

powercap has no file for a minimum. The registers MSR_PKG_POWER_INFO and MSR_DRAM_POWER_INFO contain
it (Intel SDM, volume 3, "RAPL domains"). They are read through ``msr_safe``, which may be open to
other accounts than root, or ``msr``. Nothing is written. If there is no such device, or if the
register reads 0, the range is unknown.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from wattfold.contract.units import UW_PER_W
from wattfold.nodeagent.core.caps import ZoneKind

_POWER_UNIT = 0x606
_POWER_INFO = {ZoneKind.PACKAGE: 0x614, ZoneKind.DRAM: 0x61C}
_DEVICES = ("msr_safe", "msr")
_FIELD = 0x7FFF
_MINIMUM_SHIFT = 16
_MAXIMUM_SHIFT = 32
_ROLE = re.compile(r"(?:package|dram)-(\d+)(?:-die-(\d+))?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareRange:
    """Limits that the processor reports, in microwatts; 0 = not reported."""

    cap_uw_min: int
    cap_uw_max: int


class MsrRanges:
    """Reads ranges by the name of a zone. ``host``: the root of the file system."""

    def __init__(self, host: Path = Path("/")) -> None:
        self._host = host

    def range_of(self, name: str, kind: ZoneKind) -> HardwareRange | None:
        """Return the range of a zone; None if it cannot be read."""
        register = _POWER_INFO.get(kind)
        role = _ROLE.match(name)
        cpu = self._cpu_of(*role.groups()) if role else None
        if register is None or cpu is None:
            return None
        unit, info = self._read(cpu, _POWER_UNIT), self._read(cpu, register)
        if unit is None or info is None:
            return None
        per_w = 1 << (unit & 0xF)
        return HardwareRange(
            cap_uw_min=(info >> _MINIMUM_SHIFT & _FIELD) * UW_PER_W // per_w,
            cap_uw_max=(info >> _MAXIMUM_SHIFT & _FIELD) * UW_PER_W // per_w,
        )

    def _cpu_of(self, package: str, die: str | None) -> int | None:
        cpus = self._host / "sys/devices/system/cpu"
        for folder in sorted(cpus.glob("cpu[0-9]*"), key=lambda path: int(path.name[3:])):
            topology = folder / "topology"
            if _text(topology / "physical_package_id") != package:
                continue
            if die is None or _text(topology / "die_id") == die:
                return int(folder.name[3:])
        return None

    def _read(self, cpu: int, register: int) -> int | None:
        for device in _DEVICES:
            try:
                fd = os.open(self._host / f"dev/cpu/{cpu}/{device}", os.O_RDONLY)
            except OSError:
                continue
            try:
                # The offset is the number of the register, not of a byte.
                data = os.pread(fd, 8, register)
            except OSError:
                continue
            finally:
                os.close(fd)
            if len(data) == 8:
                return int.from_bytes(data, "little")
        return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
