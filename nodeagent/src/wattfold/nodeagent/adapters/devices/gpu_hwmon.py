"""Power limits and energy of AMD and Intel GPUs, through the hwmon files of their drivers.

A GPU is a zone folder named by its PCI address, ``drm:0000:03:00.0``, with a long-term limit, so
that it is handled like the zone of a package. No library is needed.

amdgpu (the kernel's documentation of the driver): ``power1_cap`` in microwatts, rounded to whole
watts, with ``_min`` and ``_max``; it has power, but no energy. Implausible ranges are not reported.

xe and i915 (their hwmon ABI): ``power1_max`` of the card, or else ``power2_max`` of the package. 0
means that no limit is active, which is shown as ``enabled``. They have ``_rated_max`` and an energy
counter. Their ``power1_cap`` is another limit, which is left alone. Graphics without a limit are
not zones.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from wattfold.contract.units import UW_PER_W
from wattfold.nodeagent.adapters.devices.powercap_files import may
from wattfold.nodeagent.core.energy import PowerSum
from wattfold.nodeagent.core.gpu_findings import GpuFacts
from wattfold.nodeagent.core.gpus import UNNAMED, DeviceNode, GpuVendor, NodeGpu, model_word

_VENDORS = {"amdgpu": GpuVendor.AMD, "xe": GpuVendor.INTEL, "i915": GpuVendor.INTEL}
_LIMIT = "constraint_0_power_limit_uw"
_PLAUSIBLE_UW_MAX = 5_000 * UW_PER_W


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """File names of one driver; empty = no such file. ``step_uw``: limits are multiples of it."""

    limit: str
    least: str
    most: str
    energy: str = ""
    power: tuple[str, ...] = ()
    can_be_off: bool = False
    step_uw: int = 1


_AMD = _Files(
    limit="power1_cap",
    least="power1_cap_min",
    most="power1_cap_max",
    power=("power1_average", "power1_input"),
    step_uw=UW_PER_W,
)


def _intel(number: int) -> _Files:
    return _Files(
        limit=f"power{number}_max",
        least="",
        most=f"power{number}_rated_max",
        energy=f"energy{number}_input",
        can_be_off=True,
    )


@dataclass(slots=True, kw_only=True)
class _Gpu:
    vendor: GpuVendor
    index: int
    address: str
    device: Path
    hwmon: Path
    files: _Files
    id: str
    model: str
    nodes: tuple[DeviceNode, ...]
    drawn: PowerSum = field(default_factory=PowerSum)

    @property
    def folder(self) -> str:
        return f"drm:{self.address}"


class HwmonGpus:
    """The GPUs of these vendors as zones. ``system``: root of sysfs."""

    def __init__(
        self, system: Path = Path("/sys"), now_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._now_ns = now_ns
        self._gpus: dict[str, _Gpu] = {}
        cards = (system / "class/drm").glob("card[0-9]*")
        devices = sorted({(card / "device").resolve() for card in cards if "-" not in card.name})
        for device in devices:
            self._open(device)

    def __bool__(self) -> bool:
        return bool(self._gpus)

    def folders(self) -> list[str]:
        """Return the zone folders, sorted by PCI address."""
        return sorted(self._gpus)

    def read(self, folder: str, file: str) -> str:
        """Return the text of a virtual file. Raises OSError."""
        gpu = self._gpu(folder)
        match file:
            case "name":
                self._number(gpu, gpu.files.limit)
                return _node_gpu(gpu).zone
            case "enabled" if gpu.files.can_be_off:
                return str(int(self._number(gpu, gpu.files.limit) != 0))
            case "constraint_0_name":
                return "long_term"
            case "constraint_0_power_limit_uw":
                # A disabled limit is shown as the maximum.
                return str(self._number(gpu, gpu.files.limit) or self._most_uw(gpu))
            case "constraint_0_min_power_uw" if gpu.files.least:
                return str(_plausible(self._number(gpu, gpu.files.least)))
            case "constraint_0_max_power_uw":
                return str(self._most_uw(gpu))
            case "energy_uj":
                return str(self._energy_uj(gpu))
            case "max_energy_range_uj":
                return "0"
            case "busy_percent" if gpu.vendor is GpuVendor.AMD:
                return _text(gpu.device / "gpu_busy_percent")
            case "memory_used_bytes" if gpu.vendor is GpuVendor.AMD:
                return _text(gpu.device / "mem_info_vram_used")
        raise FileNotFoundError(errno.ENOENT, "the driver does not provide this value", file)

    def read_counter(self, folder: str, file: str) -> tuple[str, int]:
        """Return the text; the counter is read now, so its age is 0. Raises OSError."""
        return self.read(folder, file), 0

    def write(self, folder: str, file: str, text: str) -> None:
        """Set the limit in microwatts, rounded down to the step of the driver. Raises OSError."""
        gpu = self._gpu(folder)
        if file == _LIMIT:
            self._set(gpu, int(text) // gpu.files.step_uw * gpu.files.step_uw)
        elif file == "enabled" and gpu.files.can_be_off:
            if int(text) == 0:
                self._set(gpu, 0)
            elif self._number(gpu, gpu.files.limit) == 0:
                self._set(gpu, self._most_uw(gpu))
        else:
            raise PermissionError(errno.EACCES, "only the limit can be set", file)

    def may(self, folder: str, file: str, mode: int) -> bool:
        """Whether this account has this access to the value, determined without a write."""
        gpu = self._gpu(folder)
        if mode == os.W_OK:
            settable = file == _LIMIT or (file == "enabled" and gpu.files.can_be_off)
            return settable and may(gpu.hwmon / gpu.files.limit, mode)
        try:
            self.read(folder, file)
        except PermissionError:
            return False
        except OSError as error:
            return error.errno != errno.ENOENT
        return True

    def path(self, folder: str, file: str = "") -> Path:
        """Return the path of a value. A limit above 0 also enables the limit."""
        gpu = self._gpu(folder)
        if file in (_LIMIT, "enabled"):
            return gpu.hwmon / gpu.files.limit
        return gpu.hwmon / file

    def gpus(self) -> tuple[NodeGpu, ...]:
        """Return the GPUs for jobs."""
        return tuple(_node_gpu(self._gpus[folder]) for folder in self.folders())

    def facts(self) -> tuple[GpuFacts, ...]:
        """Return names and models of the GPUs, for people."""
        return tuple(
            GpuFacts(zone=gpu.zone, index=gpu.index, model=gpu.model, partitioned=False)
            for gpu in self.gpus()
        )

    def close(self) -> None:
        """Do nothing, because no device is held open."""

    def _open(self, device: Path) -> None:
        for hwmon in sorted((device / "hwmon").glob("hwmon*")):
            vendor = _VENDORS.get(_maybe(hwmon / "name"))
            if vendor is None:
                continue
            files = _AMD if vendor is GpuVendor.AMD else _intel(_intel_number(hwmon))
            if not (hwmon / files.limit).is_file():
                # The GPU is part of a processor, whose package has the limit, or belongs to a
                # guest.
                continue
            unique = _maybe(device / "unique_id")
            named = device.name.replace(":", ".")
            gpu = _Gpu(
                vendor=vendor,
                index=sum(other.vendor is vendor for other in self._gpus.values()),
                address=device.name,
                device=device,
                hwmon=hwmon,
                files=files,
                id=f"GPU-{unique}" if unique else f"{UNNAMED}{named}",
                model=model_word(_maybe(device / "product_name")),
                nodes=_nodes(device),
            )
            self._gpus[gpu.folder] = gpu
            return

    def _gpu(self, folder: str) -> _Gpu:
        try:
            return self._gpus[folder]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such GPU", folder) from None

    def _number(self, gpu: _Gpu, name: str) -> int:
        text = _text(gpu.hwmon / name)
        try:
            return int(text)
        except ValueError:
            raise OSError(
                errno.EIO, f"contains {text!r} instead of a number", str(gpu.hwmon / name)
            ) from None

    def _most_uw(self, gpu: _Gpu) -> int:
        return _plausible(self._number(gpu, gpu.files.most))

    def _set(self, gpu: _Gpu, value: int) -> None:
        # Not created: a device that has disappeared has nothing to limit.
        fd = os.open(gpu.hwmon / gpu.files.limit, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(fd, str(value).encode("ascii"))
        finally:
            os.close(fd)

    def _energy_uj(self, gpu: _Gpu) -> int:
        if gpu.files.energy:
            return self._number(gpu, gpu.files.energy)
        for name in gpu.files.power:
            if (gpu.hwmon / name).exists():
                return gpu.drawn.after(self._number(gpu, name), self._now_ns())
        raise FileNotFoundError(
            errno.ENOENT, "the driver reports neither energy nor power", str(gpu.hwmon)
        )


def _node_gpu(gpu: _Gpu) -> NodeGpu:
    return NodeGpu(
        id=gpu.id, vendor=gpu.vendor, index=gpu.index, model=gpu.model, devices=gpu.nodes
    )


def _intel_number(hwmon: Path) -> int:
    return 1 if (hwmon / "power1_max").exists() else 2


def _plausible(uw: int) -> int:
    """Return a plausible power; 0 = unknown, as some drivers report 2^64-1."""
    return uw if 0 <= uw <= _PLAUSIBLE_UW_MAX else 0


def _nodes(device: Path) -> tuple[DeviceNode, ...]:
    """Return the device nodes of the card and for rendering. /dev/kfd belongs to all AMD GPUs."""
    found = []
    for folder in sorted((device / "drm").glob("*")):
        if not folder.name.startswith(("card", "renderD")) or "-" in folder.name:
            continue
        major, _, minor = _maybe(folder / "dev").partition(":")
        if major.isdigit() and minor.isdigit():
            path = f"/dev/dri/{folder.name}"
            found.append(DeviceNode(major=int(major), minor=int(minor), path=path))
    return tuple(found)


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii", errors="replace").strip()


def _maybe(path: Path) -> str:
    try:
        return _text(path)
    except OSError:
        return ""
