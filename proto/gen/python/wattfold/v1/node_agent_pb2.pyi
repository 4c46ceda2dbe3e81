from wattfold.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ZoneKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ZONE_KIND_UNSPECIFIED: _ClassVar[ZoneKind]
    ZONE_KIND_PACKAGE: _ClassVar[ZoneKind]
    ZONE_KIND_DRAM: _ClassVar[ZoneKind]
    ZONE_KIND_PSYS: _ClassVar[ZoneKind]
    ZONE_KIND_GPU: _ClassVar[ZoneKind]

class MaskMechanism(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MASK_MECHANISM_UNSPECIFIED: _ClassVar[MaskMechanism]
    MASK_MECHANISM_CPUSET_V1: _ClassVar[MaskMechanism]
    MASK_MECHANISM_CPUSET_V2: _ClassVar[MaskMechanism]
    MASK_MECHANISM_AFFINITY: _ClassVar[MaskMechanism]

class ThrottleMechanism(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    THROTTLE_MECHANISM_UNSPECIFIED: _ClassVar[ThrottleMechanism]
    THROTTLE_MECHANISM_HARDWARE: _ClassVar[ThrottleMechanism]
    THROTTLE_MECHANISM_CPU_BANDWIDTH: _ClassVar[ThrottleMechanism]
    THROTTLE_MECHANISM_SIGNALS: _ClassVar[ThrottleMechanism]

class MemoryMechanism(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MEMORY_MECHANISM_UNSPECIFIED: _ClassVar[MemoryMechanism]
    MEMORY_MECHANISM_CGROUP_V1: _ClassVar[MemoryMechanism]
    MEMORY_MECHANISM_CGROUP_V2: _ClassVar[MemoryMechanism]
    MEMORY_MECHANISM_WATCHED: _ClassVar[MemoryMechanism]

class GpuAccess(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GPU_ACCESS_UNSPECIFIED: _ClassVar[GpuAccess]
    GPU_ACCESS_CGROUP_V1: _ClassVar[GpuAccess]
    GPU_ACCESS_CGROUP_V2: _ClassVar[GpuAccess]
    GPU_ACCESS_TOLD: _ClassVar[GpuAccess]

class ShimState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SHIM_STATE_UNSPECIFIED: _ClassVar[ShimState]
    SHIM_STATE_ABSENT: _ClassVar[ShimState]
    SHIM_STATE_ATTACHED: _ClassVar[ShimState]
    SHIM_STATE_CONFINED: _ClassVar[ShimState]

class CapStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CAP_STATUS_UNSPECIFIED: _ClassVar[CapStatus]
    CAP_STATUS_OK: _ClassVar[CapStatus]
    CAP_STATUS_BELOW_MINIMUM: _ClassVar[CapStatus]
    CAP_STATUS_ABOVE_MAXIMUM: _ClassVar[CapStatus]
    CAP_STATUS_DEVICE_ERROR: _ClassVar[CapStatus]
    CAP_STATUS_UNKNOWN_ZONE: _ClassVar[CapStatus]
    CAP_STATUS_NO_LEASE: _ClassVar[CapStatus]

class ProcessState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROCESS_STATE_UNSPECIFIED: _ClassVar[ProcessState]
    PROCESS_STATE_RUNNING: _ClassVar[ProcessState]
    PROCESS_STATE_ENDED: _ClassVar[ProcessState]
    PROCESS_STATE_LOST: _ClassVar[ProcessState]

class Saving(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SAVING_UNSPECIFIED: _ClassVar[Saving]
    SAVING_UNASKED: _ClassVar[Saving]
    SAVING_SAVED: _ClassVar[Saving]
    SAVING_UNSAVED: _ClassVar[Saving]
    SAVING_KILLED: _ClassVar[Saving]
ZONE_KIND_UNSPECIFIED: ZoneKind
ZONE_KIND_PACKAGE: ZoneKind
ZONE_KIND_DRAM: ZoneKind
ZONE_KIND_PSYS: ZoneKind
ZONE_KIND_GPU: ZoneKind
MASK_MECHANISM_UNSPECIFIED: MaskMechanism
MASK_MECHANISM_CPUSET_V1: MaskMechanism
MASK_MECHANISM_CPUSET_V2: MaskMechanism
MASK_MECHANISM_AFFINITY: MaskMechanism
THROTTLE_MECHANISM_UNSPECIFIED: ThrottleMechanism
THROTTLE_MECHANISM_HARDWARE: ThrottleMechanism
THROTTLE_MECHANISM_CPU_BANDWIDTH: ThrottleMechanism
THROTTLE_MECHANISM_SIGNALS: ThrottleMechanism
MEMORY_MECHANISM_UNSPECIFIED: MemoryMechanism
MEMORY_MECHANISM_CGROUP_V1: MemoryMechanism
MEMORY_MECHANISM_CGROUP_V2: MemoryMechanism
MEMORY_MECHANISM_WATCHED: MemoryMechanism
GPU_ACCESS_UNSPECIFIED: GpuAccess
GPU_ACCESS_CGROUP_V1: GpuAccess
GPU_ACCESS_CGROUP_V2: GpuAccess
GPU_ACCESS_TOLD: GpuAccess
SHIM_STATE_UNSPECIFIED: ShimState
SHIM_STATE_ABSENT: ShimState
SHIM_STATE_ATTACHED: ShimState
SHIM_STATE_CONFINED: ShimState
CAP_STATUS_UNSPECIFIED: CapStatus
CAP_STATUS_OK: CapStatus
CAP_STATUS_BELOW_MINIMUM: CapStatus
CAP_STATUS_ABOVE_MAXIMUM: CapStatus
CAP_STATUS_DEVICE_ERROR: CapStatus
CAP_STATUS_UNKNOWN_ZONE: CapStatus
CAP_STATUS_NO_LEASE: CapStatus
PROCESS_STATE_UNSPECIFIED: ProcessState
PROCESS_STATE_RUNNING: ProcessState
PROCESS_STATE_ENDED: ProcessState
PROCESS_STATE_LOST: ProcessState
SAVING_UNSPECIFIED: Saving
SAVING_UNASKED: Saving
SAVING_SAVED: Saving
SAVING_UNSAVED: Saving
SAVING_KILLED: Saving

class GetInventoryRequest(_message.Message):
    __slots__ = ("header",)
    HEADER_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.CommandHeader
    def __init__(self, header: _Optional[_Union[_common_pb2.CommandHeader, _Mapping]] = ...) -> None: ...

class PowerZone(_message.Message):
    __slots__ = ("name", "kind", "cap_uw_min", "cap_uw_max", "floor_uw", "cap_uw", "window_ns", "can_cap", "can_measure", "reason", "not_held_uw", "original_uw")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CAP_UW_MIN_FIELD_NUMBER: _ClassVar[int]
    CAP_UW_MAX_FIELD_NUMBER: _ClassVar[int]
    FLOOR_UW_FIELD_NUMBER: _ClassVar[int]
    CAP_UW_FIELD_NUMBER: _ClassVar[int]
    WINDOW_NS_FIELD_NUMBER: _ClassVar[int]
    CAN_CAP_FIELD_NUMBER: _ClassVar[int]
    CAN_MEASURE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    NOT_HELD_UW_FIELD_NUMBER: _ClassVar[int]
    ORIGINAL_UW_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: ZoneKind
    cap_uw_min: int
    cap_uw_max: int
    floor_uw: int
    cap_uw: int
    window_ns: int
    can_cap: bool
    can_measure: bool
    reason: str
    not_held_uw: int
    original_uw: int
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[ZoneKind, str]] = ..., cap_uw_min: _Optional[int] = ..., cap_uw_max: _Optional[int] = ..., floor_uw: _Optional[int] = ..., cap_uw: _Optional[int] = ..., window_ns: _Optional[int] = ..., can_cap: bool = ..., can_measure: bool = ..., reason: _Optional[str] = ..., not_held_uw: _Optional[int] = ..., original_uw: _Optional[int] = ...) -> None: ...

class FrequencyPowerModel(_message.Message):
    __slots__ = ("a", "b", "c", "f_low_ghz", "f_high_ghz")
    A_FIELD_NUMBER: _ClassVar[int]
    B_FIELD_NUMBER: _ClassVar[int]
    C_FIELD_NUMBER: _ClassVar[int]
    F_LOW_GHZ_FIELD_NUMBER: _ClassVar[int]
    F_HIGH_GHZ_FIELD_NUMBER: _ClassVar[int]
    a: float
    b: float
    c: float
    f_low_ghz: float
    f_high_ghz: float
    def __init__(self, a: _Optional[float] = ..., b: _Optional[float] = ..., c: _Optional[float] = ..., f_low_ghz: _Optional[float] = ..., f_high_ghz: _Optional[float] = ...) -> None: ...

class Cpu(_message.Message):
    __slots__ = ("cpu", "core", "package", "numa_node", "siblings")
    CPU_FIELD_NUMBER: _ClassVar[int]
    CORE_FIELD_NUMBER: _ClassVar[int]
    PACKAGE_FIELD_NUMBER: _ClassVar[int]
    NUMA_NODE_FIELD_NUMBER: _ClassVar[int]
    SIBLINGS_FIELD_NUMBER: _ClassVar[int]
    cpu: int
    core: int
    package: int
    numa_node: int
    siblings: str
    def __init__(self, cpu: _Optional[int] = ..., core: _Optional[int] = ..., package: _Optional[int] = ..., numa_node: _Optional[int] = ..., siblings: _Optional[str] = ...) -> None: ...

class Inventory(_message.Message):
    __slots__ = ("node_id", "hostname", "boot_id", "agent_version", "agent_instance", "cpus", "topology", "memory_bytes", "zones", "base_power_uw", "emulated", "model", "mask_mechanism", "throttle_mechanism", "epoch", "coordinator_id", "journal_number", "lease_remaining_ns", "isolated_cpus", "offline_cpus", "steps_address", "left", "gpus", "features", "memory_mechanism", "gpu_model", "gpu_access", "launch_fault", "adopts_slurm")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    AGENT_INSTANCE_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    ZONES_FIELD_NUMBER: _ClassVar[int]
    BASE_POWER_UW_FIELD_NUMBER: _ClassVar[int]
    EMULATED_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MASK_MECHANISM_FIELD_NUMBER: _ClassVar[int]
    THROTTLE_MECHANISM_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_ID_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_NUMBER_FIELD_NUMBER: _ClassVar[int]
    LEASE_REMAINING_NS_FIELD_NUMBER: _ClassVar[int]
    ISOLATED_CPUS_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_CPUS_FIELD_NUMBER: _ClassVar[int]
    STEPS_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MECHANISM_FIELD_NUMBER: _ClassVar[int]
    GPU_MODEL_FIELD_NUMBER: _ClassVar[int]
    GPU_ACCESS_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_FAULT_FIELD_NUMBER: _ClassVar[int]
    ADOPTS_SLURM_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    hostname: str
    boot_id: str
    agent_version: str
    agent_instance: str
    cpus: str
    topology: _containers.RepeatedCompositeFieldContainer[Cpu]
    memory_bytes: int
    zones: _containers.RepeatedCompositeFieldContainer[PowerZone]
    base_power_uw: int
    emulated: bool
    model: FrequencyPowerModel
    mask_mechanism: MaskMechanism
    throttle_mechanism: ThrottleMechanism
    epoch: int
    coordinator_id: str
    journal_number: int
    lease_remaining_ns: int
    isolated_cpus: str
    offline_cpus: str
    steps_address: str
    left: bool
    gpus: _containers.RepeatedScalarFieldContainer[str]
    features: _containers.RepeatedScalarFieldContainer[str]
    memory_mechanism: MemoryMechanism
    gpu_model: str
    gpu_access: GpuAccess
    launch_fault: str
    adopts_slurm: bool
    def __init__(self, node_id: _Optional[str] = ..., hostname: _Optional[str] = ..., boot_id: _Optional[str] = ..., agent_version: _Optional[str] = ..., agent_instance: _Optional[str] = ..., cpus: _Optional[str] = ..., topology: _Optional[_Iterable[_Union[Cpu, _Mapping]]] = ..., memory_bytes: _Optional[int] = ..., zones: _Optional[_Iterable[_Union[PowerZone, _Mapping]]] = ..., base_power_uw: _Optional[int] = ..., emulated: bool = ..., model: _Optional[_Union[FrequencyPowerModel, _Mapping]] = ..., mask_mechanism: _Optional[_Union[MaskMechanism, str]] = ..., throttle_mechanism: _Optional[_Union[ThrottleMechanism, str]] = ..., epoch: _Optional[int] = ..., coordinator_id: _Optional[str] = ..., journal_number: _Optional[int] = ..., lease_remaining_ns: _Optional[int] = ..., isolated_cpus: _Optional[str] = ..., offline_cpus: _Optional[str] = ..., steps_address: _Optional[str] = ..., left: bool = ..., gpus: _Optional[_Iterable[str]] = ..., features: _Optional[_Iterable[str]] = ..., memory_mechanism: _Optional[_Union[MemoryMechanism, str]] = ..., gpu_model: _Optional[str] = ..., gpu_access: _Optional[_Union[GpuAccess, str]] = ..., launch_fault: _Optional[str] = ..., adopts_slurm: bool = ...) -> None: ...

class StreamTelemetryRequest(_message.Message):
    __slots__ = ("interval_ns",)
    INTERVAL_NS_FIELD_NUMBER: _ClassVar[int]
    interval_ns: int
    def __init__(self, interval_ns: _Optional[int] = ...) -> None: ...

class ZonePower(_message.Message):
    __slots__ = ("name", "power_uw", "energy_uj", "cap_uw", "valid", "energy_age_ns", "not_held_uw")
    NAME_FIELD_NUMBER: _ClassVar[int]
    POWER_UW_FIELD_NUMBER: _ClassVar[int]
    ENERGY_UJ_FIELD_NUMBER: _ClassVar[int]
    CAP_UW_FIELD_NUMBER: _ClassVar[int]
    VALID_FIELD_NUMBER: _ClassVar[int]
    ENERGY_AGE_NS_FIELD_NUMBER: _ClassVar[int]
    NOT_HELD_UW_FIELD_NUMBER: _ClassVar[int]
    name: str
    power_uw: int
    energy_uj: int
    cap_uw: int
    valid: bool
    energy_age_ns: int
    not_held_uw: int
    def __init__(self, name: _Optional[str] = ..., power_uw: _Optional[int] = ..., energy_uj: _Optional[int] = ..., cap_uw: _Optional[int] = ..., valid: bool = ..., energy_age_ns: _Optional[int] = ..., not_held_uw: _Optional[int] = ...) -> None: ...

class CoreResidual(_message.Message):
    __slots__ = ("cpu", "cpu_ns", "load")
    CPU_FIELD_NUMBER: _ClassVar[int]
    CPU_NS_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    cpu: int
    cpu_ns: int
    load: float
    def __init__(self, cpu: _Optional[int] = ..., cpu_ns: _Optional[int] = ..., load: _Optional[float] = ...) -> None: ...

class GpuUse(_message.Message):
    __slots__ = ("gpu", "energy_uj", "power_uw", "busy_percent", "memory_bytes", "age_ns")
    GPU_FIELD_NUMBER: _ClassVar[int]
    ENERGY_UJ_FIELD_NUMBER: _ClassVar[int]
    POWER_UW_FIELD_NUMBER: _ClassVar[int]
    BUSY_PERCENT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    AGE_NS_FIELD_NUMBER: _ClassVar[int]
    gpu: str
    energy_uj: int
    power_uw: int
    busy_percent: int
    memory_bytes: int
    age_ns: int
    def __init__(self, gpu: _Optional[str] = ..., energy_uj: _Optional[int] = ..., power_uw: _Optional[int] = ..., busy_percent: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., age_ns: _Optional[int] = ...) -> None: ...

class Adoption(_message.Message):
    __slots__ = ("owner", "allocated_cpus", "steps", "mode", "uid", "app")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ALLOCATED_CPUS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    APP_FIELD_NUMBER: _ClassVar[int]
    owner: str
    allocated_cpus: str
    steps: _containers.RepeatedScalarFieldContainer[str]
    mode: _common_pb2.ResizeMode
    uid: int
    app: str
    def __init__(self, owner: _Optional[str] = ..., allocated_cpus: _Optional[str] = ..., steps: _Optional[_Iterable[str]] = ..., mode: _Optional[_Union[_common_pb2.ResizeMode, str]] = ..., uid: _Optional[int] = ..., app: _Optional[str] = ...) -> None: ...

class JobUsage(_message.Message):
    __slots__ = ("job_id", "cpus", "cpu_ns", "energy_uj", "threads", "residual_cpu_ns", "shim", "progress", "team_size", "memory_bytes", "residual_cores", "residual_alarm", "runnable_threads", "excess_runnable_ns", "voluntary_switches", "involuntary_switches", "memory_bytes_max", "core_ns", "idle_energy_uj", "phase", "cores_wanted", "processor_map", "map_applied", "tasks", "shim_message", "processes_left", "stray_cpus", "stray_repairs", "map_message", "processors", "surplus_processes", "resident", "epochs_saved", "epoch_ns", "gpu_uses", "gpu_energy_uj", "adoption")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    CPU_NS_FIELD_NUMBER: _ClassVar[int]
    ENERGY_UJ_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    RESIDUAL_CPU_NS_FIELD_NUMBER: _ClassVar[int]
    SHIM_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    TEAM_SIZE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    RESIDUAL_CORES_FIELD_NUMBER: _ClassVar[int]
    RESIDUAL_ALARM_FIELD_NUMBER: _ClassVar[int]
    RUNNABLE_THREADS_FIELD_NUMBER: _ClassVar[int]
    EXCESS_RUNNABLE_NS_FIELD_NUMBER: _ClassVar[int]
    VOLUNTARY_SWITCHES_FIELD_NUMBER: _ClassVar[int]
    INVOLUNTARY_SWITCHES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    CORE_NS_FIELD_NUMBER: _ClassVar[int]
    IDLE_ENERGY_UJ_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    CORES_WANTED_FIELD_NUMBER: _ClassVar[int]
    PROCESSOR_MAP_FIELD_NUMBER: _ClassVar[int]
    MAP_APPLIED_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    SHIM_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_LEFT_FIELD_NUMBER: _ClassVar[int]
    STRAY_CPUS_FIELD_NUMBER: _ClassVar[int]
    STRAY_REPAIRS_FIELD_NUMBER: _ClassVar[int]
    MAP_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PROCESSORS_FIELD_NUMBER: _ClassVar[int]
    SURPLUS_PROCESSES_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_SAVED_FIELD_NUMBER: _ClassVar[int]
    EPOCH_NS_FIELD_NUMBER: _ClassVar[int]
    GPU_USES_FIELD_NUMBER: _ClassVar[int]
    GPU_ENERGY_UJ_FIELD_NUMBER: _ClassVar[int]
    ADOPTION_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    cpus: str
    cpu_ns: int
    energy_uj: int
    threads: int
    residual_cpu_ns: int
    shim: ShimState
    progress: _common_pb2.Progress
    team_size: int
    memory_bytes: int
    residual_cores: _containers.RepeatedCompositeFieldContainer[CoreResidual]
    residual_alarm: bool
    runnable_threads: int
    excess_runnable_ns: int
    voluntary_switches: int
    involuntary_switches: int
    memory_bytes_max: int
    core_ns: int
    idle_energy_uj: int
    phase: str
    cores_wanted: int
    processor_map: bytes
    map_applied: bool
    tasks: int
    shim_message: str
    processes_left: int
    stray_cpus: str
    stray_repairs: int
    map_message: str
    processors: _containers.RepeatedCompositeFieldContainer[ProcessorElement]
    surplus_processes: int
    resident: bool
    epochs_saved: int
    epoch_ns: int
    gpu_uses: _containers.RepeatedCompositeFieldContainer[GpuUse]
    gpu_energy_uj: int
    adoption: Adoption
    def __init__(self, job_id: _Optional[str] = ..., cpus: _Optional[str] = ..., cpu_ns: _Optional[int] = ..., energy_uj: _Optional[int] = ..., threads: _Optional[int] = ..., residual_cpu_ns: _Optional[int] = ..., shim: _Optional[_Union[ShimState, str]] = ..., progress: _Optional[_Union[_common_pb2.Progress, _Mapping]] = ..., team_size: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., residual_cores: _Optional[_Iterable[_Union[CoreResidual, _Mapping]]] = ..., residual_alarm: bool = ..., runnable_threads: _Optional[int] = ..., excess_runnable_ns: _Optional[int] = ..., voluntary_switches: _Optional[int] = ..., involuntary_switches: _Optional[int] = ..., memory_bytes_max: _Optional[int] = ..., core_ns: _Optional[int] = ..., idle_energy_uj: _Optional[int] = ..., phase: _Optional[str] = ..., cores_wanted: _Optional[int] = ..., processor_map: _Optional[bytes] = ..., map_applied: bool = ..., tasks: _Optional[int] = ..., shim_message: _Optional[str] = ..., processes_left: _Optional[int] = ..., stray_cpus: _Optional[str] = ..., stray_repairs: _Optional[int] = ..., map_message: _Optional[str] = ..., processors: _Optional[_Iterable[_Union[ProcessorElement, _Mapping]]] = ..., surplus_processes: _Optional[int] = ..., resident: bool = ..., epochs_saved: _Optional[int] = ..., epoch_ns: _Optional[int] = ..., gpu_uses: _Optional[_Iterable[_Union[GpuUse, _Mapping]]] = ..., gpu_energy_uj: _Optional[int] = ..., adoption: _Optional[_Union[Adoption, _Mapping]] = ...) -> None: ...

class NodePower(_message.Message):
    __slots__ = ("source", "power_uw", "energy_uj")
    class Source(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SOURCE_UNSPECIFIED: _ClassVar[NodePower.Source]
        SOURCE_PSYS: _ClassVar[NodePower.Source]
        SOURCE_ZONES: _ClassVar[NodePower.Source]
    SOURCE_UNSPECIFIED: NodePower.Source
    SOURCE_PSYS: NodePower.Source
    SOURCE_ZONES: NodePower.Source
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    POWER_UW_FIELD_NUMBER: _ClassVar[int]
    ENERGY_UJ_FIELD_NUMBER: _ClassVar[int]
    source: NodePower.Source
    power_uw: int
    energy_uj: int
    def __init__(self, source: _Optional[_Union[NodePower.Source, str]] = ..., power_uw: _Optional[int] = ..., energy_uj: _Optional[int] = ...) -> None: ...

class Telemetry(_message.Message):
    __slots__ = ("node_id", "uptime_ns", "interval_ns", "zones", "jobs", "ended", "lease_remaining_ns", "at_floor", "drift_count", "node_power", "not_held_count", "launch_fault")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    UPTIME_NS_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_NS_FIELD_NUMBER: _ClassVar[int]
    ZONES_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    LEASE_REMAINING_NS_FIELD_NUMBER: _ClassVar[int]
    AT_FLOOR_FIELD_NUMBER: _ClassVar[int]
    DRIFT_COUNT_FIELD_NUMBER: _ClassVar[int]
    NODE_POWER_FIELD_NUMBER: _ClassVar[int]
    NOT_HELD_COUNT_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_FAULT_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    uptime_ns: int
    interval_ns: int
    zones: _containers.RepeatedCompositeFieldContainer[ZonePower]
    jobs: _containers.RepeatedCompositeFieldContainer[JobUsage]
    ended: _containers.RepeatedCompositeFieldContainer[ProcessInfo]
    lease_remaining_ns: int
    at_floor: bool
    drift_count: int
    node_power: NodePower
    not_held_count: int
    launch_fault: str
    def __init__(self, node_id: _Optional[str] = ..., uptime_ns: _Optional[int] = ..., interval_ns: _Optional[int] = ..., zones: _Optional[_Iterable[_Union[ZonePower, _Mapping]]] = ..., jobs: _Optional[_Iterable[_Union[JobUsage, _Mapping]]] = ..., ended: _Optional[_Iterable[_Union[ProcessInfo, _Mapping]]] = ..., lease_remaining_ns: _Optional[int] = ..., at_floor: bool = ..., drift_count: _Optional[int] = ..., node_power: _Optional[_Union[NodePower, _Mapping]] = ..., not_held_count: _Optional[int] = ..., launch_fault: _Optional[str] = ...) -> None: ...

class ZoneCap(_message.Message):
    __slots__ = ("name", "cap_uw")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CAP_UW_FIELD_NUMBER: _ClassVar[int]
    name: str
    cap_uw: int
    def __init__(self, name: _Optional[str] = ..., cap_uw: _Optional[int] = ...) -> None: ...

class SetCapsRequest(_message.Message):
    __slots__ = ("header", "caps")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CAPS_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.CommandHeader
    caps: _containers.RepeatedCompositeFieldContainer[ZoneCap]
    def __init__(self, header: _Optional[_Union[_common_pb2.CommandHeader, _Mapping]] = ..., caps: _Optional[_Iterable[_Union[ZoneCap, _Mapping]]] = ...) -> None: ...

class CapResult(_message.Message):
    __slots__ = ("name", "requested_uw", "enforced_uw", "status", "message", "settles_in_ns", "not_held_uw")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_UW_FIELD_NUMBER: _ClassVar[int]
    ENFORCED_UW_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SETTLES_IN_NS_FIELD_NUMBER: _ClassVar[int]
    NOT_HELD_UW_FIELD_NUMBER: _ClassVar[int]
    name: str
    requested_uw: int
    enforced_uw: int
    status: CapStatus
    message: str
    settles_in_ns: int
    not_held_uw: int
    def __init__(self, name: _Optional[str] = ..., requested_uw: _Optional[int] = ..., enforced_uw: _Optional[int] = ..., status: _Optional[_Union[CapStatus, str]] = ..., message: _Optional[str] = ..., settles_in_ns: _Optional[int] = ..., not_held_uw: _Optional[int] = ...) -> None: ...

class SetCapsResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[CapResult]
    def __init__(self, results: _Optional[_Iterable[_Union[CapResult, _Mapping]]] = ...) -> None: ...

class SetMaskRequest(_message.Message):
    __slots__ = ("header", "job_id", "cpus", "deadline_ns", "processor_map", "resident")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_NS_FIELD_NUMBER: _ClassVar[int]
    PROCESSOR_MAP_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.CommandHeader
    job_id: str
    cpus: str
    deadline_ns: int
    processor_map: bytes
    resident: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.CommandHeader, _Mapping]] = ..., job_id: _Optional[str] = ..., cpus: _Optional[str] = ..., deadline_ns: _Optional[int] = ..., processor_map: _Optional[bytes] = ..., resident: bool = ...) -> None: ...

class SetMaskResponse(_message.Message):
    __slots__ = ("cpus", "shim", "acknowledged_in_ns", "processor_map", "map_applied", "stalled_ns", "moved_bytes")
    CPUS_FIELD_NUMBER: _ClassVar[int]
    SHIM_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_IN_NS_FIELD_NUMBER: _ClassVar[int]
    PROCESSOR_MAP_FIELD_NUMBER: _ClassVar[int]
    MAP_APPLIED_FIELD_NUMBER: _ClassVar[int]
    STALLED_NS_FIELD_NUMBER: _ClassVar[int]
    MOVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    cpus: str
    shim: ShimState
    acknowledged_in_ns: int
    processor_map: bytes
    map_applied: bool
    stalled_ns: int
    moved_bytes: int
    def __init__(self, cpus: _Optional[str] = ..., shim: _Optional[_Union[ShimState, str]] = ..., acknowledged_in_ns: _Optional[int] = ..., processor_map: _Optional[bytes] = ..., map_applied: bool = ..., stalled_ns: _Optional[int] = ..., moved_bytes: _Optional[int] = ...) -> None: ...

class SetProcessorMapRequest(_message.Message):
    __slots__ = ("header", "job_id", "map", "deadline_ns")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    MAP_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_NS_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.CommandHeader
    job_id: str
    map: bytes
    deadline_ns: int
    def __init__(self, header: _Optional[_Union[_common_pb2.CommandHeader, _Mapping]] = ..., job_id: _Optional[str] = ..., map: _Optional[bytes] = ..., deadline_ns: _Optional[int] = ...) -> None: ...

class ProcessorElement(_message.Message):
    __slots__ = ("pe", "enabled", "objects", "pid", "cpu_ns", "memory_bytes")
    PE_FIELD_NUMBER: _ClassVar[int]
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    CPU_NS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    pe: int
    enabled: bool
    objects: int
    pid: int
    cpu_ns: int
    memory_bytes: int
    def __init__(self, pe: _Optional[int] = ..., enabled: bool = ..., objects: _Optional[int] = ..., pid: _Optional[int] = ..., cpu_ns: _Optional[int] = ..., memory_bytes: _Optional[int] = ...) -> None: ...

class SetProcessorMapResponse(_message.Message):
    __slots__ = ("map", "applied", "applied_in_ns", "elements", "surplus_processes")
    MAP_FIELD_NUMBER: _ClassVar[int]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    APPLIED_IN_NS_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    SURPLUS_PROCESSES_FIELD_NUMBER: _ClassVar[int]
    map: bytes
    applied: bool
    applied_in_ns: int
    elements: _containers.RepeatedCompositeFieldContainer[ProcessorElement]
    surplus_processes: int
    def __init__(self, map: _Optional[bytes] = ..., applied: bool = ..., applied_in_ns: _Optional[int] = ..., elements: _Optional[_Iterable[_Union[ProcessorElement, _Mapping]]] = ..., surplus_processes: _Optional[int] = ...) -> None: ...

class LaunchRequest(_message.Message):
    __slots__ = ("header", "job_id", "argv", "env", "cwd", "stdout_path", "stderr_path", "cpus", "mode", "launch_cpus", "rank", "ranks", "user", "steps_only", "step_nodes", "step_key", "tasks_per_node", "processor_map", "memory_bytes", "gpus", "uid", "umask", "resource_limits", "attempt", "snapshot_dir", "resident", "pes", "epochs")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    STDOUT_PATH_FIELD_NUMBER: _ClassVar[int]
    STDERR_PATH_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_CPUS_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    STEPS_ONLY_FIELD_NUMBER: _ClassVar[int]
    STEP_NODES_FIELD_NUMBER: _ClassVar[int]
    STEP_KEY_FIELD_NUMBER: _ClassVar[int]
    TASKS_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    PROCESSOR_MAP_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    UMASK_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_LIMITS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_DIR_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_FIELD_NUMBER: _ClassVar[int]
    PES_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.CommandHeader
    job_id: str
    argv: _containers.RepeatedScalarFieldContainer[str]
    env: _containers.ScalarMap[str, str]
    cwd: str
    stdout_path: str
    stderr_path: str
    cpus: str
    mode: _common_pb2.ResizeMode
    launch_cpus: int
    rank: int
    ranks: int
    user: str
    steps_only: bool
    step_nodes: _containers.RepeatedCompositeFieldContainer[StepNode]
    step_key: bytes
    tasks_per_node: int
    processor_map: bytes
    memory_bytes: int
    gpus: _containers.RepeatedScalarFieldContainer[str]
    uid: int
    umask: int
    resource_limits: _containers.RepeatedCompositeFieldContainer[_common_pb2.ResourceLimit]
    attempt: int
    snapshot_dir: str
    resident: bool
    pes: int
    epochs: int
    def __init__(self, header: _Optional[_Union[_common_pb2.CommandHeader, _Mapping]] = ..., job_id: _Optional[str] = ..., argv: _Optional[_Iterable[str]] = ..., env: _Optional[_Mapping[str, str]] = ..., cwd: _Optional[str] = ..., stdout_path: _Optional[str] = ..., stderr_path: _Optional[str] = ..., cpus: _Optional[str] = ..., mode: _Optional[_Union[_common_pb2.ResizeMode, str]] = ..., launch_cpus: _Optional[int] = ..., rank: _Optional[int] = ..., ranks: _Optional[int] = ..., user: _Optional[str] = ..., steps_only: bool = ..., step_nodes: _Optional[_Iterable[_Union[StepNode, _Mapping]]] = ..., step_key: _Optional[bytes] = ..., tasks_per_node: _Optional[int] = ..., processor_map: _Optional[bytes] = ..., memory_bytes: _Optional[int] = ..., gpus: _Optional[_Iterable[str]] = ..., uid: _Optional[int] = ..., umask: _Optional[int] = ..., resource_limits: _Optional[_Iterable[_Union[_common_pb2.ResourceLimit, _Mapping]]] = ..., attempt: _Optional[int] = ..., snapshot_dir: _Optional[str] = ..., resident: bool = ..., pes: _Optional[int] = ..., epochs: _Optional[int] = ...) -> None: ...

class StepNode(_message.Message):
    __slots__ = ("node_id", "address", "cpus", "tasks")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    address: str
    cpus: int
    tasks: int
    def __init__(self, node_id: _Optional[str] = ..., address: _Optional[str] = ..., cpus: _Optional[int] = ..., tasks: _Optional[int] = ...) -> None: ...

class LaunchResponse(_message.Message):
    __slots__ = ("pid", "already_running")
    PID_FIELD_NUMBER: _ClassVar[int]
    ALREADY_RUNNING_FIELD_NUMBER: _ClassVar[int]
    pid: int
    already_running: bool
    def __init__(self, pid: _Optional[int] = ..., already_running: bool = ...) -> None: ...

class SignalRequest(_message.Message):
    __slots__ = ("header", "job_id", "signal", "grace_ns", "attempt", "deliver_only")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    GRACE_NS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    DELIVER_ONLY_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.CommandHeader
    job_id: str
    signal: int
    grace_ns: int
    attempt: int
    deliver_only: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.CommandHeader, _Mapping]] = ..., job_id: _Optional[str] = ..., signal: _Optional[int] = ..., grace_ns: _Optional[int] = ..., attempt: _Optional[int] = ..., deliver_only: bool = ...) -> None: ...

class SignalResponse(_message.Message):
    __slots__ = ("found",)
    FOUND_FIELD_NUMBER: _ClassVar[int]
    found: bool
    def __init__(self, found: bool = ...) -> None: ...

class EndAttemptRequest(_message.Message):
    __slots__ = ("header", "job_id", "attempt", "signal", "grace_ns", "saves")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    GRACE_NS_FIELD_NUMBER: _ClassVar[int]
    SAVES_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.CommandHeader
    job_id: str
    attempt: int
    signal: int
    grace_ns: int
    saves: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.CommandHeader, _Mapping]] = ..., job_id: _Optional[str] = ..., attempt: _Optional[int] = ..., signal: _Optional[int] = ..., grace_ns: _Optional[int] = ..., saves: bool = ...) -> None: ...

class EndAttemptResponse(_message.Message):
    __slots__ = ("found",)
    FOUND_FIELD_NUMBER: _ClassVar[int]
    found: bool
    def __init__(self, found: bool = ...) -> None: ...

class SuspendRequest(_message.Message):
    __slots__ = ("header", "job_id", "attempt", "suspended")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.CommandHeader
    job_id: str
    attempt: int
    suspended: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.CommandHeader, _Mapping]] = ..., job_id: _Optional[str] = ..., attempt: _Optional[int] = ..., suspended: bool = ...) -> None: ...

class SuspendResponse(_message.Message):
    __slots__ = ("found",)
    FOUND_FIELD_NUMBER: _ClassVar[int]
    found: bool
    def __init__(self, found: bool = ...) -> None: ...

class ProcessInfo(_message.Message):
    __slots__ = ("job_id", "pid", "state", "exit_code", "signal", "cpus", "elapsed_ns", "cpu_ns", "energy_uj", "message", "mode", "residual_cpu_ns", "core_ns", "idle_energy_uj", "processes_left", "attempt", "suspended", "saving", "resident", "epochs_saved", "epochs_timed", "epoch_mean_ns", "snapshot_bytes", "gpu_energy_uj", "command_digest", "adoption")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_NS_FIELD_NUMBER: _ClassVar[int]
    CPU_NS_FIELD_NUMBER: _ClassVar[int]
    ENERGY_UJ_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    RESIDUAL_CPU_NS_FIELD_NUMBER: _ClassVar[int]
    CORE_NS_FIELD_NUMBER: _ClassVar[int]
    IDLE_ENERGY_UJ_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_LEFT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    SAVING_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_SAVED_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_TIMED_FIELD_NUMBER: _ClassVar[int]
    EPOCH_MEAN_NS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPU_ENERGY_UJ_FIELD_NUMBER: _ClassVar[int]
    COMMAND_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ADOPTION_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    pid: int
    state: ProcessState
    exit_code: int
    signal: int
    cpus: str
    elapsed_ns: int
    cpu_ns: int
    energy_uj: int
    message: str
    mode: _common_pb2.ResizeMode
    residual_cpu_ns: int
    core_ns: int
    idle_energy_uj: int
    processes_left: int
    attempt: int
    suspended: bool
    saving: Saving
    resident: bool
    epochs_saved: int
    epochs_timed: int
    epoch_mean_ns: int
    snapshot_bytes: int
    gpu_energy_uj: int
    command_digest: str
    adoption: Adoption
    def __init__(self, job_id: _Optional[str] = ..., pid: _Optional[int] = ..., state: _Optional[_Union[ProcessState, str]] = ..., exit_code: _Optional[int] = ..., signal: _Optional[int] = ..., cpus: _Optional[str] = ..., elapsed_ns: _Optional[int] = ..., cpu_ns: _Optional[int] = ..., energy_uj: _Optional[int] = ..., message: _Optional[str] = ..., mode: _Optional[_Union[_common_pb2.ResizeMode, str]] = ..., residual_cpu_ns: _Optional[int] = ..., core_ns: _Optional[int] = ..., idle_energy_uj: _Optional[int] = ..., processes_left: _Optional[int] = ..., attempt: _Optional[int] = ..., suspended: bool = ..., saving: _Optional[_Union[Saving, str]] = ..., resident: bool = ..., epochs_saved: _Optional[int] = ..., epochs_timed: _Optional[int] = ..., epoch_mean_ns: _Optional[int] = ..., snapshot_bytes: _Optional[int] = ..., gpu_energy_uj: _Optional[int] = ..., command_digest: _Optional[str] = ..., adoption: _Optional[_Union[Adoption, _Mapping]] = ...) -> None: ...

class ListProcessesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListProcessesResponse(_message.Message):
    __slots__ = ("processes",)
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    processes: _containers.RepeatedCompositeFieldContainer[ProcessInfo]
    def __init__(self, processes: _Optional[_Iterable[_Union[ProcessInfo, _Mapping]]] = ...) -> None: ...

class ForgetProcessRequest(_message.Message):
    __slots__ = ("header", "job_id", "attempt")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.CommandHeader
    job_id: str
    attempt: int
    def __init__(self, header: _Optional[_Union[_common_pb2.CommandHeader, _Mapping]] = ..., job_id: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class ForgetProcessResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class OpenShellRequest(_message.Message):
    __slots__ = ("header", "job_id", "attempt", "step_key")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STEP_KEY_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.CommandHeader
    job_id: str
    attempt: int
    step_key: bytes
    def __init__(self, header: _Optional[_Union[_common_pb2.CommandHeader, _Mapping]] = ..., job_id: _Optional[str] = ..., attempt: _Optional[int] = ..., step_key: _Optional[bytes] = ...) -> None: ...

class OpenShellResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RenewLeaseRequest(_message.Message):
    __slots__ = ("header", "duration_ns")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DURATION_NS_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.CommandHeader
    duration_ns: int
    def __init__(self, header: _Optional[_Union[_common_pb2.CommandHeader, _Mapping]] = ..., duration_ns: _Optional[int] = ...) -> None: ...

class RenewLeaseResponse(_message.Message):
    __slots__ = ("remaining_ns", "caps")
    REMAINING_NS_FIELD_NUMBER: _ClassVar[int]
    CAPS_FIELD_NUMBER: _ClassVar[int]
    remaining_ns: int
    caps: _containers.RepeatedCompositeFieldContainer[ZoneCap]
    def __init__(self, remaining_ns: _Optional[int] = ..., caps: _Optional[_Iterable[_Union[ZoneCap, _Mapping]]] = ...) -> None: ...

class LeaveRequest(_message.Message):
    __slots__ = ("header",)
    HEADER_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.CommandHeader
    def __init__(self, header: _Optional[_Union[_common_pb2.CommandHeader, _Mapping]] = ...) -> None: ...

class LeaveResponse(_message.Message):
    __slots__ = ("caps", "failures")
    CAPS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    caps: _containers.RepeatedCompositeFieldContainer[ZoneCap]
    failures: _containers.RepeatedCompositeFieldContainer[ZoneFailure]
    def __init__(self, caps: _Optional[_Iterable[_Union[ZoneCap, _Mapping]]] = ..., failures: _Optional[_Iterable[_Union[ZoneFailure, _Mapping]]] = ...) -> None: ...

class ZoneFailure(_message.Message):
    __slots__ = ("name", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...
