"""NVML as the agent sees it: the functions it uses, with their errors, on simulated GPUs.

Replaces the module pynvml. As in NVML, powers are in milliwatts and energies in millijoules. A GPU
draws its load, but at most the enforced limit. `advance` lets time pass.
"""

# The names are those of the library.
# ruff: noqa: N802
from __future__ import annotations

from dataclasses import dataclass, field


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(_WORDS.get(value, "Unknown Error"))
        self.value = value


NVML_ERROR_UNINITIALIZED = 1
NVML_ERROR_INVALID_ARGUMENT = 2
NVML_ERROR_NOT_SUPPORTED = 3
NVML_ERROR_NO_PERMISSION = 4
NVML_ERROR_NOT_FOUND = 6
NVML_ERROR_DRIVER_NOT_LOADED = 9
NVML_ERROR_TIMEOUT = 10
NVML_ERROR_GPU_IS_LOST = 15
NVML_ERROR_RESET_REQUIRED = 16
NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18
_WORDS = {
    1: "Uninitialized",
    2: "Invalid Argument",
    3: "Not Supported",
    4: "Insufficient Permissions",
    6: "Not Found",
    9: "Driver Not Loaded",
    10: "Timeout",
    15: "GPU is lost",
    16: "GPU requires restart",
    18: "RM has detected an NVML/RM version mismatch.",
}


@dataclass(slots=True, kw_only=True)
class Gpu:
    """A simulated GPU.

    ``outside_mw``: limit set by another program; ``ignores``: the GPU accepts limits but does not
    enforce them.
    """

    uuid: str
    min_mw: int = 200_000
    max_mw: int = 700_000
    default_mw: int = 700_000
    limit_mw: int = 700_000
    outside_mw: int | None = None
    load_mw: int = 80_000
    energy_mj: float = 1e9
    persistent: bool = True
    partitioned: bool = False
    lost: bool = False
    failing: int = 0
    """Error code of every call about this GPU; 0 = none."""
    minor: int = 0
    busy_percent: int = 40
    memory_bytes: int = 3 << 30
    ignores: bool = False
    unsupported: set[str] = field(default_factory=set)
    generation: int = 0
    """Number of resets. Handles from before a reset are invalid."""

    @property
    def enforced_mw(self) -> int:
        if self.ignores:
            return self.max_mw
        return min(self.limit_mw, self.outside_mw or self.limit_mw)

    @property
    def power_mw(self) -> int:
        return min(self.load_mw, self.enforced_mw)


@dataclass(frozen=True, slots=True)
class Utilization:
    gpu: int
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Memory:
    used: int
    free: int = 0
    total: int = 80 << 30


@dataclass(frozen=True, slots=True)
class Handle:
    uuid: str
    generation: int


class FakeNvml:
    """The library in one process. ``root``: whether the process may set limits."""

    NVMLError = NVMLError
    NVML_ERROR_UNINITIALIZED = NVML_ERROR_UNINITIALIZED
    NVML_ERROR_INVALID_ARGUMENT = NVML_ERROR_INVALID_ARGUMENT
    NVML_ERROR_NOT_SUPPORTED = NVML_ERROR_NOT_SUPPORTED
    NVML_ERROR_NO_PERMISSION = NVML_ERROR_NO_PERMISSION
    NVML_ERROR_NOT_FOUND = NVML_ERROR_NOT_FOUND
    NVML_ERROR_DRIVER_NOT_LOADED = NVML_ERROR_DRIVER_NOT_LOADED
    NVML_ERROR_TIMEOUT = NVML_ERROR_TIMEOUT
    NVML_ERROR_GPU_IS_LOST = NVML_ERROR_GPU_IS_LOST
    NVML_ERROR_RESET_REQUIRED = NVML_ERROR_RESET_REQUIRED
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = NVML_ERROR_LIB_RM_VERSION_MISMATCH

    def __init__(self, *gpus: Gpu, root: bool = True, driver: bool = True) -> None:
        self.gpus = list(gpus)
        self.root = root
        self.driver = driver
        self.opened = 0

    def advance(self, seconds: float) -> None:
        for gpu in self.gpus:
            gpu.energy_mj += gpu.power_mw * seconds

    def nvmlInit(self) -> None:
        if not self.driver:
            raise NVMLError(NVML_ERROR_DRIVER_NOT_LOADED)
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self._ready()
        self.opened -= 1
        for gpu in self.gpus:
            if not self.opened and not gpu.persistent:
                gpu.limit_mw = gpu.default_mw

    def nvmlDeviceGetCount(self) -> int:
        self._ready()
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Handle:
        self._ready()
        if not 0 <= index < len(self.gpus):
            raise NVMLError(NVML_ERROR_INVALID_ARGUMENT)
        return self._handle(self.gpus[index])

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Handle:
        self._ready()
        for gpu in self.gpus:
            if gpu.uuid == uuid:
                return self._handle(gpu)
        raise NVMLError(NVML_ERROR_NOT_FOUND)

    def nvmlDeviceGetUUID(self, handle: Handle) -> str:
        return self._of(handle).uuid

    def nvmlDeviceGetName(self, handle: Handle) -> str:
        self._of(handle)
        return "NVIDIA H100 80GB HBM3"

    def nvmlDeviceGetPowerManagementLimitConstraints(self, handle: Handle) -> list[int]:
        gpu = self._of(handle, "constraints")
        return [gpu.min_mw, gpu.max_mw]

    def nvmlDeviceGetPowerManagementDefaultLimit(self, handle: Handle) -> int:
        return self._of(handle, "default").default_mw

    def nvmlDeviceGetPowerManagementLimit(self, handle: Handle) -> int:
        return self._of(handle, "limit").limit_mw

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: Handle) -> int:
        return self._of(handle, "enforced").enforced_mw

    def nvmlDeviceSetPowerManagementLimit(self, handle: Handle, limit: int) -> None:
        gpu = self._of(handle, "limit")
        self._allowed()
        if not gpu.min_mw <= limit <= gpu.max_mw:
            raise NVMLError(NVML_ERROR_INVALID_ARGUMENT)
        gpu.limit_mw = limit

    def nvmlDeviceGetPersistenceMode(self, handle: Handle) -> int:
        return int(self._of(handle, "persistence").persistent)

    def nvmlDeviceSetPersistenceMode(self, handle: Handle, mode: int) -> None:
        gpu = self._of(handle, "persistence")
        self._allowed()
        gpu.persistent = bool(mode)

    def nvmlDeviceGetMigMode(self, handle: Handle) -> list[int]:
        gpu = self._of(handle, "mig")
        return [int(gpu.partitioned), int(gpu.partitioned)]

    def nvmlDeviceGetMinorNumber(self, handle: Handle) -> int:
        return self._of(handle, "minor").minor

    def nvmlDeviceGetUtilizationRates(self, handle: Handle) -> Utilization:
        return Utilization(self._of(handle, "utilization").busy_percent)

    def nvmlDeviceGetMemoryInfo(self, handle: Handle) -> Memory:
        return Memory(self._of(handle, "memory").memory_bytes)

    def nvmlDeviceGetPowerUsage(self, handle: Handle) -> int:
        return self._of(handle, "power").power_mw

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Handle) -> int:
        return int(self._of(handle, "energy").energy_mj)

    def _ready(self) -> None:
        if not self.opened:
            raise NVMLError(NVML_ERROR_UNINITIALIZED)

    def _allowed(self) -> None:
        if not self.root:
            raise NVMLError(NVML_ERROR_NO_PERMISSION)

    def _handle(self, gpu: Gpu) -> Handle:
        if gpu.lost:
            raise NVMLError(NVML_ERROR_GPU_IS_LOST)
        return Handle(gpu.uuid, gpu.generation)

    def _of(self, handle: Handle, what: str = "") -> Gpu:
        self._ready()
        gpu = next(gpu for gpu in self.gpus if gpu.uuid == handle.uuid)
        if gpu.lost or gpu.generation != handle.generation:
            raise NVMLError(NVML_ERROR_GPU_IS_LOST)
        if gpu.failing:
            raise NVMLError(gpu.failing)
        if what in gpu.unsupported:
            raise NVMLError(NVML_ERROR_NOT_SUPPORTED)
        return gpu
