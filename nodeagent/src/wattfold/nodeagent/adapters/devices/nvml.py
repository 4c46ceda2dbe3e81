"""Power limits and energy of NVIDIA GPUs, through NVML.

A GPU is shown as a zone folder, ``nvml:GPU-<uuid>``, with a long-term limit, so that it is handled
like the zone of a package. Its name is its UUID, because indices depend on the start order and on
the devices visible to a process. ``enabled`` is the persistence mode: without it the driver drops
limits as soon as no program uses the GPU. The library stays open for the same reason.

The limit read is the higher of the set limit and the enforced limit: a lower enforced limit (by
another limiter, or out of band) may be lifted at any time. Instances of a partitioned GPU (MIG)
have no separate limit and are not zones. The package nvidia-ml-py is loaded only here, and only
when it is needed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import importlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wattfold.nodeagent import logs
from wattfold.nodeagent.core.energy import PowerSum
from wattfold.nodeagent.core.gpu_findings import GpuFacts
from wattfold.nodeagent.core.gpus import DeviceNode, GpuVendor, NodeGpu, model_word
from wattfold.nodeagent.guard_writes import GPU_LIBRARY

DEVICE = Path("/dev/nvidiactl")
"""Prefix of the paths that the guard receives. There are no files below it."""
Library = Any
"""The module pynvml, which has no types, or an object with the same functions."""
_LIMIT = "constraint_0_power_limit_uw"
_MIN = "constraint_0_min_power_uw"
_MAX = "constraint_0_max_power_uw"
_UW_PER_MW = 1000
_RESET = (
    "the GPU needs a reset: stop the agent and all programs that use the GPU, then run"
    " nvidia-smi --gpu-reset"
)
_UPGRADED = (
    "the library of the driver does not match its kernel module: reload the module or reboot the"
    " node"
)
_ERRORS = {
    1: (errno.EIO, "the library is closed"),
    2: (errno.EINVAL, ""),
    3: (errno.EOPNOTSUPP, ""),
    4: (errno.EACCES, ""),
    6: (errno.ENODEV, ""),
    9: (errno.ENXIO, "load the driver: nvidia-smi must list the GPUs"),
    10: (errno.ETIMEDOUT, ""),
    13: (errno.EOPNOTSUPP, "the driver is too old for this call"),
    15: (errno.ENODEV, "look for Xid 79 in dmesg and reboot the node"),
    16: (errno.EIO, _RESET),
    18: (errno.EIO, _UPGRADED),
    19: (errno.EBUSY, ""),
    28: (errno.ENODEV, ""),
    999: (errno.EIO, "a control group may deny this process the device"),
}
"""Error numbers for the codes of the library, and remedies that its texts lack."""
_MAJOR = 195
"""Major number of /dev/nvidia0 and similar, from the kernel's list of devices."""
_OF_THE_CALL = (errno.EOPNOTSUPP, errno.EACCES)
"""Errors after which the handle is still valid."""


@dataclass(slots=True, kw_only=True)
class _NvmlGpu:
    uuid: str
    index: int
    model: str
    handle: Any
    minor: int | None = None
    """Minor number of its device node, which is not its index; None = not reported."""
    counts_energy: bool = True
    drawn: PowerSum = field(default_factory=PowerSum)

    @property
    def folder(self) -> str:
        return f"nvml:{self.uuid}"

    @property
    def name(self) -> str:
        return f"gpu-{self.uuid.removeprefix('GPU-')}"


class NvmlFiles:
    """The GPUs of a machine as zones with one limit each. ``library`` must be initialised."""

    def __init__(
        self,
        library: Library,
        *,
        now_ns: Callable[[], int] = time.monotonic_ns,
        privileged: bool | None = None,
    ) -> None:
        self._library = library
        self._now_ns = now_ns
        # NVML does not report who may set limits. Only root may.
        self._privileged = os.geteuid() == 0 if privileged is None else privileged
        self._gpus: dict[str, _NvmlGpu] = {}
        self.unopened: dict[int, str] = {}
        """GPUs that cannot be identified, by index, with the reason."""
        for index in range(self._call("nvmlDeviceGetCount")):
            self._open(index)

    def folders(self) -> list[str]:
        """Return the GPUs that could be identified, by UUID."""
        return sorted(self._gpus)

    def read(self, folder: str, file: str) -> str:
        """Return the text of a virtual file. Raises OSError."""
        gpu = self._gpu(folder)
        match file:
            case "name":
                self._ask(gpu, "nvmlDeviceGetUUID")
                return gpu.name
            case "enabled":
                return str(int(self._persistence(gpu)))
            case "constraint_0_name" if self._has_limit(gpu):
                return "long_term"
            case "constraint_0_power_limit_uw":
                return str(self._limit_mw(gpu) * _UW_PER_MW)
            case "constraint_0_min_power_uw":
                return str(self._range_mw(gpu)[0] * _UW_PER_MW)
            case "constraint_0_max_power_uw":
                return str(self._range_mw(gpu)[1] * _UW_PER_MW)
            case "energy_uj":
                return str(self._energy_uj(gpu))
            case "max_energy_range_uj":
                # 64 bits of millijoules do not wrap. A counter that falls was reset (the driver was
                # loaded again). With range 0, such a step counts as nothing.
                return "0"
            case "busy_percent":
                return str(int(self._ask(gpu, "nvmlDeviceGetUtilizationRates").gpu))
            case "memory_used_bytes":
                return str(int(self._ask(gpu, "nvmlDeviceGetMemoryInfo").used))
        raise FileNotFoundError(errno.ENOENT, "NVML does not provide this value", file)

    def read_counter(self, folder: str, file: str) -> tuple[str, int]:
        """Return the text; the counter is read now, so its age is 0. Raises OSError."""
        return self.read(folder, file), 0

    def write(self, folder: str, file: str, text: str) -> None:
        """Set the limit (uW, rounded down to mW) or the persistence mode. Raises OSError."""
        gpu = self._gpu(folder)
        if file == _LIMIT:
            self._ask(gpu, "nvmlDeviceSetPowerManagementLimit", int(text) // _UW_PER_MW)
        elif file == "enabled":
            self._ask(gpu, "nvmlDeviceSetPersistenceMode", int(int(text) != 0))
        else:
            raise PermissionError(
                errno.EACCES, "only the limit and the persistence mode can be set", file
            )

    def may(self, folder: str, file: str, mode: int) -> bool:
        """Whether this account has this access to the value, determined without a write."""
        if mode == os.W_OK and not (self._privileged and file in (_LIMIT, "enabled")):
            return False
        try:
            self.read(folder, file)
        except PermissionError:
            return False
        except OSError as error:
            return error.errno != errno.ENOENT
        return True

    def path(self, folder: str, file: str = "") -> Path:
        """Return a name below the device, which the guard understands."""
        return DEVICE / folder / file

    def close(self) -> None:
        """Close the library. Without persistence mode the driver may then drop the limits."""
        with contextlib.suppress(OSError):
            self._call("nvmlShutdown")

    def facts(self) -> tuple[GpuFacts, ...]:
        """Return names and models of the GPUs for people, ordered by index."""
        gpus = sorted(self._gpus.values(), key=lambda gpu: gpu.index)
        return tuple(
            GpuFacts(zone=g.name, index=g.index, model=g.model, partitioned=self._partitioned(g))
            for g in gpus
        )

    def gpus(self) -> tuple[NodeGpu, ...]:
        """Return the GPUs for jobs."""
        return tuple(
            NodeGpu(
                id=gpu.uuid,
                vendor=GpuVendor.NVIDIA,
                index=gpu.index,
                model=model_word(gpu.model),
                devices=() if gpu.minor is None else (_device(gpu.minor),),
            )
            for gpu in sorted(self._gpus.values(), key=lambda gpu: gpu.index)
        )

    def _open(self, index: int) -> None:
        try:
            handle = self._call("nvmlDeviceGetHandleByIndex", index)
            uuid = self._call("nvmlDeviceGetUUID", handle)
        except OSError as error:
            self.unopened[index] = str(error)
            logs.warning("gpu_not_opened", index=index, reason=error)
            return
        model = ""
        with contextlib.suppress(OSError):
            model = self._call("nvmlDeviceGetName", handle)
        gpu = _NvmlGpu(uuid=uuid, index=index, model=model, handle=handle)
        with contextlib.suppress(OSError):
            gpu.minor = int(self._call("nvmlDeviceGetMinorNumber", handle))
        self._gpus[gpu.folder] = gpu

    def _gpu(self, folder: str) -> _NvmlGpu:
        try:
            return self._gpus[folder]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such GPU", folder) from None

    def _has_limit(self, gpu: _NvmlGpu) -> bool:
        try:
            self._limit_mw(gpu)
        except OSError as error:
            # A GPU that is lost, or that denies the call, still has a limit.
            return error.errno != errno.EOPNOTSUPP
        return True

    def _limit_mw(self, gpu: _NvmlGpu) -> int:
        limit_mw = int(self._ask(gpu, "nvmlDeviceGetPowerManagementLimit"))
        try:
            return max(limit_mw, int(self._ask(gpu, "nvmlDeviceGetEnforcedPowerLimit")))
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            return limit_mw

    def _range_mw(self, gpu: _NvmlGpu) -> tuple[int, int]:
        try:
            least, most = self._ask(gpu, "nvmlDeviceGetPowerManagementLimitConstraints")
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            # Without a range, the initial limit counts as the maximum power.
            return 0, int(self._ask(gpu, "nvmlDeviceGetPowerManagementDefaultLimit"))
        return int(least), int(most)

    def _persistence(self, gpu: _NvmlGpu) -> bool:
        try:
            return bool(self._ask(gpu, "nvmlDeviceGetPersistenceMode"))
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            raise FileNotFoundError(errno.ENOENT, "the GPU has no persistence mode") from None

    def _partitioned(self, gpu: _NvmlGpu) -> bool:
        try:
            current, _pending = self._ask(gpu, "nvmlDeviceGetMigMode")
        except OSError:
            return False
        return bool(current)

    def _energy_uj(self, gpu: _NvmlGpu) -> int:
        if gpu.counts_energy:
            try:
                energy_mj = int(self._ask(gpu, "nvmlDeviceGetTotalEnergyConsumption"))
            except OSError as error:
                if error.errno != errno.EOPNOTSUPP:
                    raise
                gpu.counts_energy = False
            else:
                return energy_mj * _UW_PER_MW
        power_uw = int(self._ask(gpu, "nvmlDeviceGetPowerUsage")) * _UW_PER_MW
        return gpu.drawn.after(power_uw, self._now_ns())

    def _ask(self, gpu: _NvmlGpu, function: str, *arguments: object) -> Any:
        """Make a call about one GPU. Raises OSError."""
        try:
            if gpu.handle is None:
                gpu.handle = self._call("nvmlDeviceGetHandleByUUID", gpu.uuid)
            return self._call(function, gpu.handle, *arguments)
        except OSError as error:
            if error.errno not in _OF_THE_CALL:
                # A GPU that was reset or has reappeared on the bus has another handle.
                gpu.handle = None
            raise

    def _call(self, function: str, *arguments: object) -> Any:
        """Make a call. Raises OSError with the text of the library."""
        library = self._library
        try:
            return getattr(library, function)(*arguments)
        except library.NVMLError as error:
            raise _os_error(error) from error


def _device(minor: int) -> DeviceNode:
    return DeviceNode(major=_MAJOR, minor=minor, path=f"/dev/nvidia{minor}")


def open_nvml(library: Library | None = None, *, privileged: bool | None = None) -> NvmlFiles:
    """Load and open the library. Raises OSError or ImportError. May take long on a defective GPU.

    ``library``: default is pynvml. ``privileged``: default is whether this account is root.
    """
    opened = library or _module()
    try:
        opened.nvmlInit()
        return NvmlFiles(opened, privileged=privileged)
    except opened.NVMLError as error:
        raise _os_error(error) from error


def _module() -> Library:
    # The module takes 15 MB of memory, so it is not loaded on nodes without a driver.
    ctypes.CDLL(GPU_LIBRARY)
    return importlib.import_module("pynvml")


def _os_error(error: Any) -> OSError:
    number, words = _ERRORS.get(error.value, (errno.EIO, ""))
    return OSError(number, f"NVML: {error}" + (f" ({words})" if words else ""))
