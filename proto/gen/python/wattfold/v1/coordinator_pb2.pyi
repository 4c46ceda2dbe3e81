from wattfold.v1 import common_pb2 as _common_pb2
from wattfold.v1 import node_agent_pb2 as _node_agent_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_KIND_UNSPECIFIED: _ClassVar[JobKind]
    JOB_KIND_RIGID: _ClassVar[JobKind]
    JOB_KIND_MOLDABLE: _ClassVar[JobKind]
    JOB_KIND_MALLEABLE: _ClassVar[JobKind]
    JOB_KIND_EVOLVING: _ClassVar[JobKind]

class SizeUnit(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SIZE_UNIT_UNSPECIFIED: _ClassVar[SizeUnit]
    SIZE_UNIT_CORES: _ClassVar[SizeUnit]
    SIZE_UNIT_NODES: _ClassVar[SizeUnit]
    SIZE_UNIT_UNITS: _ClassVar[SizeUnit]

class UnitSpread(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNIT_SPREAD_UNSPECIFIED: _ClassVar[UnitSpread]
    UNIT_SPREAD_ANY: _ClassVar[UnitSpread]
    UNIT_SPREAD_TOGETHER: _ClassVar[UnitSpread]
    UNIT_SPREAD_APART: _ClassVar[UnitSpread]

class CoreSharing(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CORE_SHARING_UNSPECIFIED: _ClassVar[CoreSharing]
    CORE_SHARING_NO: _ClassVar[CoreSharing]
    CORE_SHARING_LEND: _ClassVar[CoreSharing]
    CORE_SHARING_BORROW: _ClassVar[CoreSharing]
    CORE_SHARING_BOTH: _ClassVar[CoreSharing]

class MailEvent(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MAIL_EVENT_UNSPECIFIED: _ClassVar[MailEvent]
    MAIL_EVENT_BEGIN: _ClassVar[MailEvent]
    MAIL_EVENT_END: _ClassVar[MailEvent]
    MAIL_EVENT_FAIL: _ClassVar[MailEvent]
    MAIL_EVENT_REQUEUE: _ClassVar[MailEvent]

class DependencyState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEPENDENCY_STATE_UNSPECIFIED: _ClassVar[DependencyState]
    DEPENDENCY_STATE_OPEN: _ClassVar[DependencyState]
    DEPENDENCY_STATE_MET: _ClassVar[DependencyState]
    DEPENDENCY_STATE_NEVER: _ClassVar[DependencyState]

class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_STATE_UNSPECIFIED: _ClassVar[JobState]
    JOB_STATE_HELD: _ClassVar[JobState]
    JOB_STATE_PENDING: _ClassVar[JobState]
    JOB_STATE_STARTING: _ClassVar[JobState]
    JOB_STATE_RUNNING: _ClassVar[JobState]
    JOB_STATE_ENDING: _ClassVar[JobState]
    JOB_STATE_COMPLETED: _ClassVar[JobState]
    JOB_STATE_FAILED: _ClassVar[JobState]
    JOB_STATE_CANCELLED: _ClassVar[JobState]
    JOB_STATE_LOST: _ClassVar[JobState]
    JOB_STATE_TIMED_OUT: _ClassVar[JobState]
    JOB_STATE_SUSPENDED: _ClassVar[JobState]

class JobAccess(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_ACCESS_UNSPECIFIED: _ClassVar[JobAccess]
    JOB_ACCESS_OWN: _ClassVar[JobAccess]
    JOB_ACCESS_OPERATOR: _ClassVar[JobAccess]
    JOB_ACCESS_OTHER: _ClassVar[JobAccess]

class NodeState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_STATE_UNSPECIFIED: _ClassVar[NodeState]
    NODE_STATE_CONNECTING: _ClassVar[NodeState]
    NODE_STATE_UP: _ClassVar[NodeState]
    NODE_STATE_SILENT: _ClassVar[NodeState]
    NODE_STATE_DOWN: _ClassVar[NodeState]
    NODE_STATE_REFUSED: _ClassVar[NodeState]

class NodeDuty(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_DUTY_UNSPECIFIED: _ClassVar[NodeDuty]
    NODE_DUTY_SERVING: _ClassVar[NodeDuty]
    NODE_DUTY_DRAINING: _ClassVar[NodeDuty]
    NODE_DUTY_LEAVING: _ClassVar[NodeDuty]
    NODE_DUTY_RESTORING: _ClassVar[NodeDuty]
    NODE_DUTY_LEFT: _ClassVar[NodeDuty]
    NODE_DUTY_UNPOWERED: _ClassVar[NodeDuty]
    NODE_DUTY_OUTSIDE: _ClassVar[NodeDuty]
    NODE_DUTY_RETURNED: _ClassVar[NodeDuty]

class NodePowerState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_POWER_STATE_UNSPECIFIED: _ClassVar[NodePowerState]
    NODE_POWER_STATE_AWAKE: _ClassVar[NodePowerState]
    NODE_POWER_STATE_TO_SLEEP: _ClassVar[NodePowerState]
    NODE_POWER_STATE_FALLING_ASLEEP: _ClassVar[NodePowerState]
    NODE_POWER_STATE_ASLEEP: _ClassVar[NodePowerState]
    NODE_POWER_STATE_TO_WAKE: _ClassVar[NodePowerState]
    NODE_POWER_STATE_BOOTING: _ClassVar[NodePowerState]

class ForgetWord(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FORGET_WORD_UNSPECIFIED: _ClassVar[ForgetWord]
    FORGET_WORD_NO_POWER: _ClassVar[ForgetWord]
    FORGET_WORD_OUTSIDE_BUDGET: _ClassVar[ForgetWord]
JOB_KIND_UNSPECIFIED: JobKind
JOB_KIND_RIGID: JobKind
JOB_KIND_MOLDABLE: JobKind
JOB_KIND_MALLEABLE: JobKind
JOB_KIND_EVOLVING: JobKind
SIZE_UNIT_UNSPECIFIED: SizeUnit
SIZE_UNIT_CORES: SizeUnit
SIZE_UNIT_NODES: SizeUnit
SIZE_UNIT_UNITS: SizeUnit
UNIT_SPREAD_UNSPECIFIED: UnitSpread
UNIT_SPREAD_ANY: UnitSpread
UNIT_SPREAD_TOGETHER: UnitSpread
UNIT_SPREAD_APART: UnitSpread
CORE_SHARING_UNSPECIFIED: CoreSharing
CORE_SHARING_NO: CoreSharing
CORE_SHARING_LEND: CoreSharing
CORE_SHARING_BORROW: CoreSharing
CORE_SHARING_BOTH: CoreSharing
MAIL_EVENT_UNSPECIFIED: MailEvent
MAIL_EVENT_BEGIN: MailEvent
MAIL_EVENT_END: MailEvent
MAIL_EVENT_FAIL: MailEvent
MAIL_EVENT_REQUEUE: MailEvent
DEPENDENCY_STATE_UNSPECIFIED: DependencyState
DEPENDENCY_STATE_OPEN: DependencyState
DEPENDENCY_STATE_MET: DependencyState
DEPENDENCY_STATE_NEVER: DependencyState
JOB_STATE_UNSPECIFIED: JobState
JOB_STATE_HELD: JobState
JOB_STATE_PENDING: JobState
JOB_STATE_STARTING: JobState
JOB_STATE_RUNNING: JobState
JOB_STATE_ENDING: JobState
JOB_STATE_COMPLETED: JobState
JOB_STATE_FAILED: JobState
JOB_STATE_CANCELLED: JobState
JOB_STATE_LOST: JobState
JOB_STATE_TIMED_OUT: JobState
JOB_STATE_SUSPENDED: JobState
JOB_ACCESS_UNSPECIFIED: JobAccess
JOB_ACCESS_OWN: JobAccess
JOB_ACCESS_OPERATOR: JobAccess
JOB_ACCESS_OTHER: JobAccess
NODE_STATE_UNSPECIFIED: NodeState
NODE_STATE_CONNECTING: NodeState
NODE_STATE_UP: NodeState
NODE_STATE_SILENT: NodeState
NODE_STATE_DOWN: NodeState
NODE_STATE_REFUSED: NodeState
NODE_DUTY_UNSPECIFIED: NodeDuty
NODE_DUTY_SERVING: NodeDuty
NODE_DUTY_DRAINING: NodeDuty
NODE_DUTY_LEAVING: NodeDuty
NODE_DUTY_RESTORING: NodeDuty
NODE_DUTY_LEFT: NodeDuty
NODE_DUTY_UNPOWERED: NodeDuty
NODE_DUTY_OUTSIDE: NodeDuty
NODE_DUTY_RETURNED: NodeDuty
NODE_POWER_STATE_UNSPECIFIED: NodePowerState
NODE_POWER_STATE_AWAKE: NodePowerState
NODE_POWER_STATE_TO_SLEEP: NodePowerState
NODE_POWER_STATE_FALLING_ASLEEP: NodePowerState
NODE_POWER_STATE_ASLEEP: NodePowerState
NODE_POWER_STATE_TO_WAKE: NodePowerState
NODE_POWER_STATE_BOOTING: NodePowerState
FORGET_WORD_UNSPECIFIED: ForgetWord
FORGET_WORD_NO_POWER: ForgetWord
FORGET_WORD_OUTSIDE_BUDGET: ForgetWord

class JobSpec(_message.Message):
    __slots__ = ("name", "app", "argv", "env", "cwd", "stdout_path", "stderr_path", "kind", "unit", "size_min", "size_max", "time_ns", "priority", "mode", "exclusive", "cap_uw", "tasks_per_node", "own_launcher", "mode_source", "limit_ns", "memory_bytes", "gpus", "features", "among", "queue", "account", "due_at_s", "weight", "umask", "resource_limits", "requeue_max", "requeue_on_failure", "restartable", "snapshot_dir", "snapshot_signal", "snapshot_grace_ns", "dram_cap_uw", "gpu_cap_uw", "reservation", "preemptable", "sharing", "unit_cores", "spread", "predicted_uw", "mail", "mail_to", "epochs")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    APP_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    STDOUT_PATH_FIELD_NUMBER: _ClassVar[int]
    STDERR_PATH_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    SIZE_MIN_FIELD_NUMBER: _ClassVar[int]
    SIZE_MAX_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    CAP_UW_FIELD_NUMBER: _ClassVar[int]
    TASKS_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    OWN_LAUNCHER_FIELD_NUMBER: _ClassVar[int]
    MODE_SOURCE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_NS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    AMONG_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    DUE_AT_S_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    UMASK_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_LIMITS_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_MAX_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_ON_FAILURE_FIELD_NUMBER: _ClassVar[int]
    RESTARTABLE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_DIR_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_GRACE_NS_FIELD_NUMBER: _ClassVar[int]
    DRAM_CAP_UW_FIELD_NUMBER: _ClassVar[int]
    GPU_CAP_UW_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    PREEMPTABLE_FIELD_NUMBER: _ClassVar[int]
    SHARING_FIELD_NUMBER: _ClassVar[int]
    UNIT_CORES_FIELD_NUMBER: _ClassVar[int]
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_UW_FIELD_NUMBER: _ClassVar[int]
    MAIL_FIELD_NUMBER: _ClassVar[int]
    MAIL_TO_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    name: str
    app: str
    argv: _containers.RepeatedScalarFieldContainer[str]
    env: _containers.ScalarMap[str, str]
    cwd: str
    stdout_path: str
    stderr_path: str
    kind: JobKind
    unit: SizeUnit
    size_min: int
    size_max: int
    time_ns: int
    priority: float
    mode: _common_pb2.ResizeMode
    exclusive: bool
    cap_uw: int
    tasks_per_node: int
    own_launcher: bool
    mode_source: str
    limit_ns: int
    memory_bytes: int
    gpus: int
    features: _containers.RepeatedScalarFieldContainer[str]
    among: _containers.RepeatedScalarFieldContainer[str]
    queue: str
    account: str
    due_at_s: float
    weight: float
    umask: int
    resource_limits: _containers.RepeatedCompositeFieldContainer[_common_pb2.ResourceLimit]
    requeue_max: int
    requeue_on_failure: bool
    restartable: bool
    snapshot_dir: str
    snapshot_signal: int
    snapshot_grace_ns: int
    dram_cap_uw: int
    gpu_cap_uw: int
    reservation: str
    preemptable: bool
    sharing: CoreSharing
    unit_cores: int
    spread: UnitSpread
    predicted_uw: int
    mail: _containers.RepeatedScalarFieldContainer[MailEvent]
    mail_to: str
    epochs: int
    def __init__(self, name: _Optional[str] = ..., app: _Optional[str] = ..., argv: _Optional[_Iterable[str]] = ..., env: _Optional[_Mapping[str, str]] = ..., cwd: _Optional[str] = ..., stdout_path: _Optional[str] = ..., stderr_path: _Optional[str] = ..., kind: _Optional[_Union[JobKind, str]] = ..., unit: _Optional[_Union[SizeUnit, str]] = ..., size_min: _Optional[int] = ..., size_max: _Optional[int] = ..., time_ns: _Optional[int] = ..., priority: _Optional[float] = ..., mode: _Optional[_Union[_common_pb2.ResizeMode, str]] = ..., exclusive: bool = ..., cap_uw: _Optional[int] = ..., tasks_per_node: _Optional[int] = ..., own_launcher: bool = ..., mode_source: _Optional[str] = ..., limit_ns: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., gpus: _Optional[int] = ..., features: _Optional[_Iterable[str]] = ..., among: _Optional[_Iterable[str]] = ..., queue: _Optional[str] = ..., account: _Optional[str] = ..., due_at_s: _Optional[float] = ..., weight: _Optional[float] = ..., umask: _Optional[int] = ..., resource_limits: _Optional[_Iterable[_Union[_common_pb2.ResourceLimit, _Mapping]]] = ..., requeue_max: _Optional[int] = ..., requeue_on_failure: bool = ..., restartable: bool = ..., snapshot_dir: _Optional[str] = ..., snapshot_signal: _Optional[int] = ..., snapshot_grace_ns: _Optional[int] = ..., dram_cap_uw: _Optional[int] = ..., gpu_cap_uw: _Optional[int] = ..., reservation: _Optional[str] = ..., preemptable: bool = ..., sharing: _Optional[_Union[CoreSharing, str]] = ..., unit_cores: _Optional[int] = ..., spread: _Optional[_Union[UnitSpread, str]] = ..., predicted_uw: _Optional[int] = ..., mail: _Optional[_Iterable[_Union[MailEvent, str]]] = ..., mail_to: _Optional[str] = ..., epochs: _Optional[int] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("spec", "idempotency_key", "held", "after", "begin_at_s", "array")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    BEGIN_AT_S_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    spec: JobSpec
    idempotency_key: str
    held: bool
    after: _containers.RepeatedCompositeFieldContainer[JobDependency]
    begin_at_s: float
    array: str
    def __init__(self, spec: _Optional[_Union[JobSpec, _Mapping]] = ..., idempotency_key: _Optional[str] = ..., held: bool = ..., after: _Optional[_Iterable[_Union[JobDependency, _Mapping]]] = ..., begin_at_s: _Optional[float] = ..., array: _Optional[str] = ...) -> None: ...

class JobDependency(_message.Message):
    __slots__ = ("job_id", "success", "state")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    success: bool
    state: DependencyState
    def __init__(self, job_id: _Optional[str] = ..., success: bool = ..., state: _Optional[_Union[DependencyState, str]] = ...) -> None: ...

class SubmitResponse(_message.Message):
    __slots__ = ("job_id", "warning")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    warning: str
    def __init__(self, job_id: _Optional[str] = ..., warning: _Optional[str] = ...) -> None: ...

class SubmitManyRequest(_message.Message):
    __slots__ = ("jobs", "env")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    JOBS_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[SubmitRequest]
    env: _containers.ScalarMap[str, str]
    def __init__(self, jobs: _Optional[_Iterable[_Union[SubmitRequest, _Mapping]]] = ..., env: _Optional[_Mapping[str, str]] = ...) -> None: ...

class SubmitResult(_message.Message):
    __slots__ = ("job_id", "error", "warning")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    error: str
    warning: str
    def __init__(self, job_id: _Optional[str] = ..., error: _Optional[str] = ..., warning: _Optional[str] = ...) -> None: ...

class SubmitManyResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SubmitResult]
    def __init__(self, results: _Optional[_Iterable[_Union[SubmitResult, _Mapping]]] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("job_id", "force")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    force: bool
    def __init__(self, job_id: _Optional[str] = ..., force: bool = ...) -> None: ...

class CancelResponse(_message.Message):
    __slots__ = ("state", "message")
    STATE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    state: JobState
    message: str
    def __init__(self, state: _Optional[_Union[JobState, str]] = ..., message: _Optional[str] = ...) -> None: ...

class HoldRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class HoldResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RequeueRequest(_message.Message):
    __slots__ = ("job_id", "signal", "grace_ns", "hold", "reason")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    GRACE_NS_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    signal: int
    grace_ns: int
    hold: bool
    reason: str
    def __init__(self, job_id: _Optional[str] = ..., signal: _Optional[int] = ..., grace_ns: _Optional[int] = ..., hold: bool = ..., reason: _Optional[str] = ...) -> None: ...

class RequeueResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: JobState
    def __init__(self, state: _Optional[_Union[JobState, str]] = ...) -> None: ...

class SuspendJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class SuspendJobResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResumeJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class ResumeJobResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResizeJobRequest(_message.Message):
    __slots__ = ("job_id", "size")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    size: int
    def __init__(self, job_id: _Optional[str] = ..., size: _Optional[int] = ...) -> None: ...

class ResizeJobResponse(_message.Message):
    __slots__ = ("state", "size")
    STATE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    state: JobState
    size: int
    def __init__(self, state: _Optional[_Union[JobState, str]] = ..., size: _Optional[int] = ...) -> None: ...

class SignalJobRequest(_message.Message):
    __slots__ = ("job_id", "signal", "attempt")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    signal: int
    attempt: int
    def __init__(self, job_id: _Optional[str] = ..., signal: _Optional[int] = ..., attempt: _Optional[int] = ...) -> None: ...

class SignalJobResponse(_message.Message):
    __slots__ = ("node_ids",)
    NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    node_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class OpenJobShellRequest(_message.Message):
    __slots__ = ("job_id", "node_id")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    node_id: str
    def __init__(self, job_id: _Optional[str] = ..., node_id: _Optional[str] = ...) -> None: ...

class OpenJobShellResponse(_message.Message):
    __slots__ = ("node_id", "attempt", "steps_address", "step_key")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STEPS_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STEP_KEY_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    attempt: int
    steps_address: str
    step_key: bytes
    def __init__(self, node_id: _Optional[str] = ..., attempt: _Optional[int] = ..., steps_address: _Optional[str] = ..., step_key: _Optional[bytes] = ...) -> None: ...

class ModifyJobRequest(_message.Message):
    __slots__ = ("job_id", "limit_ns", "priority", "due_at_s", "name", "size_min", "size_max")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_NS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DUE_AT_S_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_MIN_FIELD_NUMBER: _ClassVar[int]
    SIZE_MAX_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    limit_ns: int
    priority: float
    due_at_s: float
    name: str
    size_min: int
    size_max: int
    def __init__(self, job_id: _Optional[str] = ..., limit_ns: _Optional[int] = ..., priority: _Optional[float] = ..., due_at_s: _Optional[float] = ..., name: _Optional[str] = ..., size_min: _Optional[int] = ..., size_max: _Optional[int] = ...) -> None: ...

class JobChange(_message.Message):
    __slots__ = ("field", "before", "after")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    field: str
    before: str
    after: str
    def __init__(self, field: _Optional[str] = ..., before: _Optional[str] = ..., after: _Optional[str] = ...) -> None: ...

class ModifyJobResponse(_message.Message):
    __slots__ = ("changes",)
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[JobChange]
    def __init__(self, changes: _Optional[_Iterable[_Union[JobChange, _Mapping]]] = ...) -> None: ...

class JobOutput(_message.Message):
    __slots__ = ("node_id", "rank", "stdout_path", "stderr_path")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    STDOUT_PATH_FIELD_NUMBER: _ClassVar[int]
    STDERR_PATH_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    rank: int
    stdout_path: str
    stderr_path: str
    def __init__(self, node_id: _Optional[str] = ..., rank: _Optional[int] = ..., stdout_path: _Optional[str] = ..., stderr_path: _Optional[str] = ...) -> None: ...

class JobAttempt(_message.Message):
    __slots__ = ("number", "node_ids", "started_at_s", "ended_at_s", "why", "cpu_ns", "core_ns", "energy_uj", "idle_energy_uj", "residual_cpu_ns", "gpu_energy_uj")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_S_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_S_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    CPU_NS_FIELD_NUMBER: _ClassVar[int]
    CORE_NS_FIELD_NUMBER: _ClassVar[int]
    ENERGY_UJ_FIELD_NUMBER: _ClassVar[int]
    IDLE_ENERGY_UJ_FIELD_NUMBER: _ClassVar[int]
    RESIDUAL_CPU_NS_FIELD_NUMBER: _ClassVar[int]
    GPU_ENERGY_UJ_FIELD_NUMBER: _ClassVar[int]
    number: int
    node_ids: _containers.RepeatedScalarFieldContainer[str]
    started_at_s: float
    ended_at_s: float
    why: str
    cpu_ns: int
    core_ns: int
    energy_uj: int
    idle_energy_uj: int
    residual_cpu_ns: int
    gpu_energy_uj: int
    def __init__(self, number: _Optional[int] = ..., node_ids: _Optional[_Iterable[str]] = ..., started_at_s: _Optional[float] = ..., ended_at_s: _Optional[float] = ..., why: _Optional[str] = ..., cpu_ns: _Optional[int] = ..., core_ns: _Optional[int] = ..., energy_uj: _Optional[int] = ..., idle_energy_uj: _Optional[int] = ..., residual_cpu_ns: _Optional[int] = ..., gpu_energy_uj: _Optional[int] = ...) -> None: ...

class NodeShare(_message.Message):
    __slots__ = ("node_id", "cpus", "memory_bytes", "gpus", "resident")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    cpus: str
    memory_bytes: int
    gpus: _containers.RepeatedScalarFieldContainer[str]
    resident: bool
    def __init__(self, node_id: _Optional[str] = ..., cpus: _Optional[str] = ..., memory_bytes: _Optional[int] = ..., gpus: _Optional[_Iterable[str]] = ..., resident: bool = ...) -> None: ...

class SeenSpeed(_message.Message):
    __slots__ = ("cores", "cap_uw", "rate_per_s", "seen_s")
    CORES_FIELD_NUMBER: _ClassVar[int]
    CAP_UW_FIELD_NUMBER: _ClassVar[int]
    RATE_PER_S_FIELD_NUMBER: _ClassVar[int]
    SEEN_S_FIELD_NUMBER: _ClassVar[int]
    cores: int
    cap_uw: int
    rate_per_s: float
    seen_s: float
    def __init__(self, cores: _Optional[int] = ..., cap_uw: _Optional[int] = ..., rate_per_s: _Optional[float] = ..., seen_s: _Optional[float] = ...) -> None: ...

class JobGpu(_message.Message):
    __slots__ = ("node_id", "gpu", "energy_uj", "power_uw", "busy_percent", "memory_bytes")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    GPU_FIELD_NUMBER: _ClassVar[int]
    ENERGY_UJ_FIELD_NUMBER: _ClassVar[int]
    POWER_UW_FIELD_NUMBER: _ClassVar[int]
    BUSY_PERCENT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    gpu: str
    energy_uj: int
    power_uw: int
    busy_percent: int
    memory_bytes: int
    def __init__(self, node_id: _Optional[str] = ..., gpu: _Optional[str] = ..., energy_uj: _Optional[int] = ..., power_uw: _Optional[int] = ..., busy_percent: _Optional[int] = ..., memory_bytes: _Optional[int] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("job_id", "manager", "manager_job_id", "spec", "state", "submitted_at_s", "started_at_s", "ended_at_s", "size", "cap_uw", "shares", "exit_code", "message", "resizes", "energy_uj", "progress", "done", "remaining_s", "reason", "team_size", "confined", "cpu_ns", "residual_cpu_ns", "idle_energy_uj", "core_ns", "residual", "residual_alarm", "threads", "runnable_threads", "excess_runnable_ns", "voluntary_switches", "involuntary_switches", "memory_bytes", "memory_bytes_max", "phase", "cores_wanted", "shim_message", "processor_map", "map_applied", "map_message", "processors", "surplus_processes", "over_s", "dram_cap_uw", "gpu_cap_uw", "user", "uid", "access", "attempt", "attempts", "suspended_s", "expected_start_at_s", "start_promised", "size_ordered", "next_size", "restart_s", "speeds", "half_speed", "epochs_saved", "epoch_s", "epochs_timed", "resize_s", "gpu_energy_uj", "gpus", "due", "lendings", "after", "begin_at_s", "outputs", "array")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    MANAGER_FIELD_NUMBER: _ClassVar[int]
    MANAGER_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_S_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_S_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_S_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    CAP_UW_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RESIZES_FIELD_NUMBER: _ClassVar[int]
    ENERGY_UJ_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    REMAINING_S_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TEAM_SIZE_FIELD_NUMBER: _ClassVar[int]
    CONFINED_FIELD_NUMBER: _ClassVar[int]
    CPU_NS_FIELD_NUMBER: _ClassVar[int]
    RESIDUAL_CPU_NS_FIELD_NUMBER: _ClassVar[int]
    IDLE_ENERGY_UJ_FIELD_NUMBER: _ClassVar[int]
    CORE_NS_FIELD_NUMBER: _ClassVar[int]
    RESIDUAL_FIELD_NUMBER: _ClassVar[int]
    RESIDUAL_ALARM_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    RUNNABLE_THREADS_FIELD_NUMBER: _ClassVar[int]
    EXCESS_RUNNABLE_NS_FIELD_NUMBER: _ClassVar[int]
    VOLUNTARY_SWITCHES_FIELD_NUMBER: _ClassVar[int]
    INVOLUNTARY_SWITCHES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    CORES_WANTED_FIELD_NUMBER: _ClassVar[int]
    SHIM_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PROCESSOR_MAP_FIELD_NUMBER: _ClassVar[int]
    MAP_APPLIED_FIELD_NUMBER: _ClassVar[int]
    MAP_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PROCESSORS_FIELD_NUMBER: _ClassVar[int]
    SURPLUS_PROCESSES_FIELD_NUMBER: _ClassVar[int]
    OVER_S_FIELD_NUMBER: _ClassVar[int]
    DRAM_CAP_UW_FIELD_NUMBER: _ClassVar[int]
    GPU_CAP_UW_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_S_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_START_AT_S_FIELD_NUMBER: _ClassVar[int]
    START_PROMISED_FIELD_NUMBER: _ClassVar[int]
    SIZE_ORDERED_FIELD_NUMBER: _ClassVar[int]
    NEXT_SIZE_FIELD_NUMBER: _ClassVar[int]
    RESTART_S_FIELD_NUMBER: _ClassVar[int]
    SPEEDS_FIELD_NUMBER: _ClassVar[int]
    HALF_SPEED_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_SAVED_FIELD_NUMBER: _ClassVar[int]
    EPOCH_S_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_TIMED_FIELD_NUMBER: _ClassVar[int]
    RESIZE_S_FIELD_NUMBER: _ClassVar[int]
    GPU_ENERGY_UJ_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    DUE_FIELD_NUMBER: _ClassVar[int]
    LENDINGS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    BEGIN_AT_S_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    manager: str
    manager_job_id: str
    spec: JobSpec
    state: JobState
    submitted_at_s: float
    started_at_s: float
    ended_at_s: float
    size: int
    cap_uw: int
    shares: _containers.RepeatedCompositeFieldContainer[NodeShare]
    exit_code: int
    message: str
    resizes: int
    energy_uj: int
    progress: _common_pb2.Progress
    done: float
    remaining_s: float
    reason: str
    team_size: int
    confined: bool
    cpu_ns: int
    residual_cpu_ns: int
    idle_energy_uj: int
    core_ns: int
    residual: _containers.RepeatedCompositeFieldContainer[Residual]
    residual_alarm: bool
    threads: int
    runnable_threads: int
    excess_runnable_ns: int
    voluntary_switches: int
    involuntary_switches: int
    memory_bytes: int
    memory_bytes_max: int
    phase: str
    cores_wanted: int
    shim_message: str
    processor_map: str
    map_applied: bool
    map_message: str
    processors: _containers.RepeatedCompositeFieldContainer[_node_agent_pb2.ProcessorElement]
    surplus_processes: int
    over_s: float
    dram_cap_uw: int
    gpu_cap_uw: int
    user: str
    uid: int
    access: JobAccess
    attempt: int
    attempts: _containers.RepeatedCompositeFieldContainer[JobAttempt]
    suspended_s: float
    expected_start_at_s: float
    start_promised: bool
    size_ordered: int
    next_size: int
    restart_s: float
    speeds: _containers.RepeatedCompositeFieldContainer[SeenSpeed]
    half_speed: float
    epochs_saved: int
    epoch_s: float
    epochs_timed: int
    resize_s: float
    gpu_energy_uj: int
    gpus: _containers.RepeatedCompositeFieldContainer[JobGpu]
    due: DueOutlook
    lendings: _containers.RepeatedCompositeFieldContainer[Lending]
    after: _containers.RepeatedCompositeFieldContainer[JobDependency]
    begin_at_s: float
    outputs: _containers.RepeatedCompositeFieldContainer[JobOutput]
    array: JobArray
    def __init__(self, job_id: _Optional[str] = ..., manager: _Optional[str] = ..., manager_job_id: _Optional[str] = ..., spec: _Optional[_Union[JobSpec, _Mapping]] = ..., state: _Optional[_Union[JobState, str]] = ..., submitted_at_s: _Optional[float] = ..., started_at_s: _Optional[float] = ..., ended_at_s: _Optional[float] = ..., size: _Optional[int] = ..., cap_uw: _Optional[int] = ..., shares: _Optional[_Iterable[_Union[NodeShare, _Mapping]]] = ..., exit_code: _Optional[int] = ..., message: _Optional[str] = ..., resizes: _Optional[int] = ..., energy_uj: _Optional[int] = ..., progress: _Optional[_Union[_common_pb2.Progress, _Mapping]] = ..., done: _Optional[float] = ..., remaining_s: _Optional[float] = ..., reason: _Optional[str] = ..., team_size: _Optional[int] = ..., confined: bool = ..., cpu_ns: _Optional[int] = ..., residual_cpu_ns: _Optional[int] = ..., idle_energy_uj: _Optional[int] = ..., core_ns: _Optional[int] = ..., residual: _Optional[_Iterable[_Union[Residual, _Mapping]]] = ..., residual_alarm: bool = ..., threads: _Optional[int] = ..., runnable_threads: _Optional[int] = ..., excess_runnable_ns: _Optional[int] = ..., voluntary_switches: _Optional[int] = ..., involuntary_switches: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., memory_bytes_max: _Optional[int] = ..., phase: _Optional[str] = ..., cores_wanted: _Optional[int] = ..., shim_message: _Optional[str] = ..., processor_map: _Optional[str] = ..., map_applied: bool = ..., map_message: _Optional[str] = ..., processors: _Optional[_Iterable[_Union[_node_agent_pb2.ProcessorElement, _Mapping]]] = ..., surplus_processes: _Optional[int] = ..., over_s: _Optional[float] = ..., dram_cap_uw: _Optional[int] = ..., gpu_cap_uw: _Optional[int] = ..., user: _Optional[str] = ..., uid: _Optional[int] = ..., access: _Optional[_Union[JobAccess, str]] = ..., attempt: _Optional[int] = ..., attempts: _Optional[_Iterable[_Union[JobAttempt, _Mapping]]] = ..., suspended_s: _Optional[float] = ..., expected_start_at_s: _Optional[float] = ..., start_promised: bool = ..., size_ordered: _Optional[int] = ..., next_size: _Optional[int] = ..., restart_s: _Optional[float] = ..., speeds: _Optional[_Iterable[_Union[SeenSpeed, _Mapping]]] = ..., half_speed: _Optional[float] = ..., epochs_saved: _Optional[int] = ..., epoch_s: _Optional[float] = ..., epochs_timed: _Optional[int] = ..., resize_s: _Optional[float] = ..., gpu_energy_uj: _Optional[int] = ..., gpus: _Optional[_Iterable[_Union[JobGpu, _Mapping]]] = ..., due: _Optional[_Union[DueOutlook, _Mapping]] = ..., lendings: _Optional[_Iterable[_Union[Lending, _Mapping]]] = ..., after: _Optional[_Iterable[_Union[JobDependency, _Mapping]]] = ..., begin_at_s: _Optional[float] = ..., outputs: _Optional[_Iterable[_Union[JobOutput, _Mapping]]] = ..., array: _Optional[_Union[JobArray, _Mapping]] = ...) -> None: ...

class JobArray(_message.Message):
    __slots__ = ("indices", "limit", "waiting", "tasks", "counts", "left")
    INDICES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    indices: str
    limit: int
    waiting: str
    tasks: int
    counts: _containers.RepeatedCompositeFieldContainer[JobCount]
    left: int
    def __init__(self, indices: _Optional[str] = ..., limit: _Optional[int] = ..., waiting: _Optional[str] = ..., tasks: _Optional[int] = ..., counts: _Optional[_Iterable[_Union[JobCount, _Mapping]]] = ..., left: _Optional[int] = ...) -> None: ...

class Residual(_message.Message):
    __slots__ = ("node_id", "job_id", "cpu", "cpu_ns", "load", "alarm")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    CPU_NS_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    ALARM_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    job_id: str
    cpu: int
    cpu_ns: int
    load: float
    alarm: bool
    def __init__(self, node_id: _Optional[str] = ..., job_id: _Optional[str] = ..., cpu: _Optional[int] = ..., cpu_ns: _Optional[int] = ..., load: _Optional[float] = ..., alarm: bool = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("job_ids", "include_ended", "limit", "details", "states", "user", "mine", "app", "queue", "node_ids", "since_s", "tasks", "account")
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_ENDED_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    MINE_FIELD_NUMBER: _ClassVar[int]
    APP_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    SINCE_S_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    job_ids: _containers.RepeatedScalarFieldContainer[str]
    include_ended: bool
    limit: int
    details: bool
    states: _containers.RepeatedScalarFieldContainer[JobState]
    user: str
    mine: bool
    app: str
    queue: str
    node_ids: _containers.RepeatedScalarFieldContainer[str]
    since_s: float
    tasks: bool
    account: str
    def __init__(self, job_ids: _Optional[_Iterable[str]] = ..., include_ended: bool = ..., limit: _Optional[int] = ..., details: bool = ..., states: _Optional[_Iterable[_Union[JobState, str]]] = ..., user: _Optional[str] = ..., mine: bool = ..., app: _Optional[str] = ..., queue: _Optional[str] = ..., node_ids: _Optional[_Iterable[str]] = ..., since_s: _Optional[float] = ..., tasks: bool = ..., account: _Optional[str] = ...) -> None: ...

class JobCount(_message.Message):
    __slots__ = ("state", "jobs")
    STATE_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    state: JobState
    jobs: int
    def __init__(self, state: _Optional[_Union[JobState, str]] = ..., jobs: _Optional[int] = ...) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ("jobs", "planner", "total", "counts")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    PLANNER_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    planner: str
    total: int
    counts: _containers.RepeatedCompositeFieldContainer[JobCount]
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., planner: _Optional[str] = ..., total: _Optional[int] = ..., counts: _Optional[_Iterable[_Union[JobCount, _Mapping]]] = ...) -> None: ...

class ListNodesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class NodeZone(_message.Message):
    __slots__ = ("name", "cap_uw", "cap_uw_min", "cap_uw_max", "floor_uw", "power_uw", "energy_uj")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CAP_UW_FIELD_NUMBER: _ClassVar[int]
    CAP_UW_MIN_FIELD_NUMBER: _ClassVar[int]
    CAP_UW_MAX_FIELD_NUMBER: _ClassVar[int]
    FLOOR_UW_FIELD_NUMBER: _ClassVar[int]
    POWER_UW_FIELD_NUMBER: _ClassVar[int]
    ENERGY_UJ_FIELD_NUMBER: _ClassVar[int]
    name: str
    cap_uw: int
    cap_uw_min: int
    cap_uw_max: int
    floor_uw: int
    power_uw: int
    energy_uj: int
    def __init__(self, name: _Optional[str] = ..., cap_uw: _Optional[int] = ..., cap_uw_min: _Optional[int] = ..., cap_uw_max: _Optional[int] = ..., floor_uw: _Optional[int] = ..., power_uw: _Optional[int] = ..., energy_uj: _Optional[int] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("node_id", "address", "state", "message", "cpus", "free_cpus", "zones", "base_power_uw", "committed_uw", "measured_uw", "emulated", "job_ids", "mask_mechanism", "throttle_mechanism", "drift_count", "model", "residual", "sockets", "numa_nodes", "smt", "isolated_cpus", "offline_cpus", "power_source", "duty", "duty_reason", "waits_for", "outside_uw", "memory_bytes", "free_memory_bytes", "gpus", "free_gpus", "features", "memory_mechanism", "reservations", "overstaying_job_ids", "resident_job_ids", "gpu_model", "gpu_access", "launch_fault", "power_state", "power_waits_for", "boot_due_s", "boots", "failed_boots", "boot_took_ns", "lease_ends_at_s", "power_reason", "up_expected_s", "awaited_by_job_ids", "manager_state")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    FREE_CPUS_FIELD_NUMBER: _ClassVar[int]
    ZONES_FIELD_NUMBER: _ClassVar[int]
    BASE_POWER_UW_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_UW_FIELD_NUMBER: _ClassVar[int]
    MEASURED_UW_FIELD_NUMBER: _ClassVar[int]
    EMULATED_FIELD_NUMBER: _ClassVar[int]
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    MASK_MECHANISM_FIELD_NUMBER: _ClassVar[int]
    THROTTLE_MECHANISM_FIELD_NUMBER: _ClassVar[int]
    DRIFT_COUNT_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    RESIDUAL_FIELD_NUMBER: _ClassVar[int]
    SOCKETS_FIELD_NUMBER: _ClassVar[int]
    NUMA_NODES_FIELD_NUMBER: _ClassVar[int]
    SMT_FIELD_NUMBER: _ClassVar[int]
    ISOLATED_CPUS_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_CPUS_FIELD_NUMBER: _ClassVar[int]
    POWER_SOURCE_FIELD_NUMBER: _ClassVar[int]
    DUTY_FIELD_NUMBER: _ClassVar[int]
    DUTY_REASON_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    OUTSIDE_UW_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    FREE_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    FREE_GPUS_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MECHANISM_FIELD_NUMBER: _ClassVar[int]
    RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    OVERSTAYING_JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    GPU_MODEL_FIELD_NUMBER: _ClassVar[int]
    GPU_ACCESS_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_FAULT_FIELD_NUMBER: _ClassVar[int]
    POWER_STATE_FIELD_NUMBER: _ClassVar[int]
    POWER_WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    BOOT_DUE_S_FIELD_NUMBER: _ClassVar[int]
    BOOTS_FIELD_NUMBER: _ClassVar[int]
    FAILED_BOOTS_FIELD_NUMBER: _ClassVar[int]
    BOOT_TOOK_NS_FIELD_NUMBER: _ClassVar[int]
    LEASE_ENDS_AT_S_FIELD_NUMBER: _ClassVar[int]
    POWER_REASON_FIELD_NUMBER: _ClassVar[int]
    UP_EXPECTED_S_FIELD_NUMBER: _ClassVar[int]
    AWAITED_BY_JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    MANAGER_STATE_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    address: str
    state: NodeState
    message: str
    cpus: str
    free_cpus: str
    zones: _containers.RepeatedCompositeFieldContainer[NodeZone]
    base_power_uw: int
    committed_uw: int
    measured_uw: int
    emulated: bool
    job_ids: _containers.RepeatedScalarFieldContainer[str]
    mask_mechanism: str
    throttle_mechanism: str
    drift_count: int
    model: _node_agent_pb2.FrequencyPowerModel
    residual: _containers.RepeatedCompositeFieldContainer[Residual]
    sockets: int
    numa_nodes: int
    smt: int
    isolated_cpus: str
    offline_cpus: str
    power_source: str
    duty: NodeDuty
    duty_reason: str
    waits_for: str
    outside_uw: int
    memory_bytes: int
    free_memory_bytes: int
    gpus: _containers.RepeatedScalarFieldContainer[str]
    free_gpus: _containers.RepeatedScalarFieldContainer[str]
    features: _containers.RepeatedScalarFieldContainer[str]
    memory_mechanism: str
    reservations: _containers.RepeatedScalarFieldContainer[str]
    overstaying_job_ids: _containers.RepeatedScalarFieldContainer[str]
    resident_job_ids: _containers.RepeatedScalarFieldContainer[str]
    gpu_model: str
    gpu_access: str
    launch_fault: str
    power_state: NodePowerState
    power_waits_for: str
    boot_due_s: float
    boots: int
    failed_boots: int
    boot_took_ns: int
    lease_ends_at_s: float
    power_reason: str
    up_expected_s: float
    awaited_by_job_ids: _containers.RepeatedScalarFieldContainer[str]
    manager_state: str
    def __init__(self, node_id: _Optional[str] = ..., address: _Optional[str] = ..., state: _Optional[_Union[NodeState, str]] = ..., message: _Optional[str] = ..., cpus: _Optional[str] = ..., free_cpus: _Optional[str] = ..., zones: _Optional[_Iterable[_Union[NodeZone, _Mapping]]] = ..., base_power_uw: _Optional[int] = ..., committed_uw: _Optional[int] = ..., measured_uw: _Optional[int] = ..., emulated: bool = ..., job_ids: _Optional[_Iterable[str]] = ..., mask_mechanism: _Optional[str] = ..., throttle_mechanism: _Optional[str] = ..., drift_count: _Optional[int] = ..., model: _Optional[_Union[_node_agent_pb2.FrequencyPowerModel, _Mapping]] = ..., residual: _Optional[_Iterable[_Union[Residual, _Mapping]]] = ..., sockets: _Optional[int] = ..., numa_nodes: _Optional[int] = ..., smt: _Optional[int] = ..., isolated_cpus: _Optional[str] = ..., offline_cpus: _Optional[str] = ..., power_source: _Optional[str] = ..., duty: _Optional[_Union[NodeDuty, str]] = ..., duty_reason: _Optional[str] = ..., waits_for: _Optional[str] = ..., outside_uw: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., free_memory_bytes: _Optional[int] = ..., gpus: _Optional[_Iterable[str]] = ..., free_gpus: _Optional[_Iterable[str]] = ..., features: _Optional[_Iterable[str]] = ..., memory_mechanism: _Optional[str] = ..., reservations: _Optional[_Iterable[str]] = ..., overstaying_job_ids: _Optional[_Iterable[str]] = ..., resident_job_ids: _Optional[_Iterable[str]] = ..., gpu_model: _Optional[str] = ..., gpu_access: _Optional[str] = ..., launch_fault: _Optional[str] = ..., power_state: _Optional[_Union[NodePowerState, str]] = ..., power_waits_for: _Optional[str] = ..., boot_due_s: _Optional[float] = ..., boots: _Optional[int] = ..., failed_boots: _Optional[int] = ..., boot_took_ns: _Optional[int] = ..., lease_ends_at_s: _Optional[float] = ..., power_reason: _Optional[str] = ..., up_expected_s: _Optional[float] = ..., awaited_by_job_ids: _Optional[_Iterable[str]] = ..., manager_state: _Optional[str] = ...) -> None: ...

class ListNodesResponse(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ...) -> None: ...

class GetPowerRequest(_message.Message):
    __slots__ = ("all_announced",)
    ALL_ANNOUNCED_FIELD_NUMBER: _ClassVar[int]
    all_announced: bool
    def __init__(self, all_announced: bool = ...) -> None: ...

class Power(_message.Message):
    __slots__ = ("budget_uw", "committed_uw", "measured_uw", "committed_uw_peak", "measured_uw_peak", "floor_uw", "pending_budget_uw", "pending_deadline_s", "energy_uj", "policy", "outside_uw", "outside_accepted_uw", "over_uw", "over_reason", "outside_node_ids", "unheard_node_ids", "levelled_jobs", "dram_beyond_uw", "gpu_beyond_uw", "gpus", "gpus_owned", "gpus_uw", "emulated_nodes", "known_nodes", "announced", "announced_later", "configured_budget_uw", "planner", "due_jobs", "late_jobs", "due_so_far_eur", "due_to_come_eur", "planning_settings", "emergency", "asleep_nodes", "booting_nodes", "kept_awake_nodes", "decides_sleep", "ramp", "manager")
    class PlanningSettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    BUDGET_UW_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_UW_FIELD_NUMBER: _ClassVar[int]
    MEASURED_UW_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_UW_PEAK_FIELD_NUMBER: _ClassVar[int]
    MEASURED_UW_PEAK_FIELD_NUMBER: _ClassVar[int]
    FLOOR_UW_FIELD_NUMBER: _ClassVar[int]
    PENDING_BUDGET_UW_FIELD_NUMBER: _ClassVar[int]
    PENDING_DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    ENERGY_UJ_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    OUTSIDE_UW_FIELD_NUMBER: _ClassVar[int]
    OUTSIDE_ACCEPTED_UW_FIELD_NUMBER: _ClassVar[int]
    OVER_UW_FIELD_NUMBER: _ClassVar[int]
    OVER_REASON_FIELD_NUMBER: _ClassVar[int]
    OUTSIDE_NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    UNHEARD_NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    LEVELLED_JOBS_FIELD_NUMBER: _ClassVar[int]
    DRAM_BEYOND_UW_FIELD_NUMBER: _ClassVar[int]
    GPU_BEYOND_UW_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPUS_OWNED_FIELD_NUMBER: _ClassVar[int]
    GPUS_UW_FIELD_NUMBER: _ClassVar[int]
    EMULATED_NODES_FIELD_NUMBER: _ClassVar[int]
    KNOWN_NODES_FIELD_NUMBER: _ClassVar[int]
    ANNOUNCED_FIELD_NUMBER: _ClassVar[int]
    ANNOUNCED_LATER_FIELD_NUMBER: _ClassVar[int]
    CONFIGURED_BUDGET_UW_FIELD_NUMBER: _ClassVar[int]
    PLANNER_FIELD_NUMBER: _ClassVar[int]
    DUE_JOBS_FIELD_NUMBER: _ClassVar[int]
    LATE_JOBS_FIELD_NUMBER: _ClassVar[int]
    DUE_SO_FAR_EUR_FIELD_NUMBER: _ClassVar[int]
    DUE_TO_COME_EUR_FIELD_NUMBER: _ClassVar[int]
    PLANNING_SETTINGS_FIELD_NUMBER: _ClassVar[int]
    EMERGENCY_FIELD_NUMBER: _ClassVar[int]
    ASLEEP_NODES_FIELD_NUMBER: _ClassVar[int]
    BOOTING_NODES_FIELD_NUMBER: _ClassVar[int]
    KEPT_AWAKE_NODES_FIELD_NUMBER: _ClassVar[int]
    DECIDES_SLEEP_FIELD_NUMBER: _ClassVar[int]
    RAMP_FIELD_NUMBER: _ClassVar[int]
    MANAGER_FIELD_NUMBER: _ClassVar[int]
    budget_uw: int
    committed_uw: int
    measured_uw: int
    committed_uw_peak: int
    measured_uw_peak: int
    floor_uw: int
    pending_budget_uw: int
    pending_deadline_s: float
    energy_uj: int
    policy: str
    outside_uw: int
    outside_accepted_uw: int
    over_uw: int
    over_reason: str
    outside_node_ids: _containers.RepeatedScalarFieldContainer[str]
    unheard_node_ids: _containers.RepeatedScalarFieldContainer[str]
    levelled_jobs: int
    dram_beyond_uw: int
    gpu_beyond_uw: int
    gpus: int
    gpus_owned: int
    gpus_uw: int
    emulated_nodes: int
    known_nodes: int
    announced: _containers.RepeatedCompositeFieldContainer[AnnouncedBudget]
    announced_later: int
    configured_budget_uw: int
    planner: str
    due_jobs: int
    late_jobs: int
    due_so_far_eur: float
    due_to_come_eur: float
    planning_settings: _containers.ScalarMap[str, str]
    emergency: Emergency
    asleep_nodes: int
    booting_nodes: int
    kept_awake_nodes: int
    decides_sleep: bool
    ramp: Ramp
    manager: ResourceManager
    def __init__(self, budget_uw: _Optional[int] = ..., committed_uw: _Optional[int] = ..., measured_uw: _Optional[int] = ..., committed_uw_peak: _Optional[int] = ..., measured_uw_peak: _Optional[int] = ..., floor_uw: _Optional[int] = ..., pending_budget_uw: _Optional[int] = ..., pending_deadline_s: _Optional[float] = ..., energy_uj: _Optional[int] = ..., policy: _Optional[str] = ..., outside_uw: _Optional[int] = ..., outside_accepted_uw: _Optional[int] = ..., over_uw: _Optional[int] = ..., over_reason: _Optional[str] = ..., outside_node_ids: _Optional[_Iterable[str]] = ..., unheard_node_ids: _Optional[_Iterable[str]] = ..., levelled_jobs: _Optional[int] = ..., dram_beyond_uw: _Optional[int] = ..., gpu_beyond_uw: _Optional[int] = ..., gpus: _Optional[int] = ..., gpus_owned: _Optional[int] = ..., gpus_uw: _Optional[int] = ..., emulated_nodes: _Optional[int] = ..., known_nodes: _Optional[int] = ..., announced: _Optional[_Iterable[_Union[AnnouncedBudget, _Mapping]]] = ..., announced_later: _Optional[int] = ..., configured_budget_uw: _Optional[int] = ..., planner: _Optional[str] = ..., due_jobs: _Optional[int] = ..., late_jobs: _Optional[int] = ..., due_so_far_eur: _Optional[float] = ..., due_to_come_eur: _Optional[float] = ..., planning_settings: _Optional[_Mapping[str, str]] = ..., emergency: _Optional[_Union[Emergency, _Mapping]] = ..., asleep_nodes: _Optional[int] = ..., booting_nodes: _Optional[int] = ..., kept_awake_nodes: _Optional[int] = ..., decides_sleep: bool = ..., ramp: _Optional[_Union[Ramp, _Mapping]] = ..., manager: _Optional[_Union[ResourceManager, _Mapping]] = ...) -> None: ...

class ResourceManager(_message.Message):
    __slots__ = ("name", "reachable", "reason", "since_s", "running_jobs", "waiting_jobs", "adopted_jobs")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REACHABLE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SINCE_S_FIELD_NUMBER: _ClassVar[int]
    RUNNING_JOBS_FIELD_NUMBER: _ClassVar[int]
    WAITING_JOBS_FIELD_NUMBER: _ClassVar[int]
    ADOPTED_JOBS_FIELD_NUMBER: _ClassVar[int]
    name: str
    reachable: bool
    reason: str
    since_s: float
    running_jobs: int
    waiting_jobs: int
    adopted_jobs: int
    def __init__(self, name: _Optional[str] = ..., reachable: bool = ..., reason: _Optional[str] = ..., since_s: _Optional[float] = ..., running_jobs: _Optional[int] = ..., waiting_jobs: _Optional[int] = ..., adopted_jobs: _Optional[int] = ...) -> None: ...

class Ramp(_message.Message):
    __slots__ = ("rise_uw_per_s", "fall_uw_per_s", "step_uw", "free_uw", "waiting_uw", "until_s")
    RISE_UW_PER_S_FIELD_NUMBER: _ClassVar[int]
    FALL_UW_PER_S_FIELD_NUMBER: _ClassVar[int]
    STEP_UW_FIELD_NUMBER: _ClassVar[int]
    FREE_UW_FIELD_NUMBER: _ClassVar[int]
    WAITING_UW_FIELD_NUMBER: _ClassVar[int]
    UNTIL_S_FIELD_NUMBER: _ClassVar[int]
    rise_uw_per_s: int
    fall_uw_per_s: int
    step_uw: int
    free_uw: int
    waiting_uw: int
    until_s: float
    def __init__(self, rise_uw_per_s: _Optional[int] = ..., fall_uw_per_s: _Optional[int] = ..., step_uw: _Optional[int] = ..., free_uw: _Optional[int] = ..., waiting_uw: _Optional[int] = ..., until_s: _Optional[float] = ...) -> None: ...

class Emergency(_message.Message):
    __slots__ = ("limit_uw", "since_s", "short_uw", "suspended_jobs", "over_uw")
    LIMIT_UW_FIELD_NUMBER: _ClassVar[int]
    SINCE_S_FIELD_NUMBER: _ClassVar[int]
    SHORT_UW_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_JOBS_FIELD_NUMBER: _ClassVar[int]
    OVER_UW_FIELD_NUMBER: _ClassVar[int]
    limit_uw: int
    since_s: float
    short_uw: int
    suspended_jobs: int
    over_uw: int
    def __init__(self, limit_uw: _Optional[int] = ..., since_s: _Optional[float] = ..., short_uw: _Optional[int] = ..., suspended_jobs: _Optional[int] = ..., over_uw: _Optional[int] = ...) -> None: ...

class DueOutlook(_message.Message):
    __slots__ = ("expected_end_at_s", "at_the_earliest", "late_s", "has_costs", "so_far_eur", "to_come_eur")
    EXPECTED_END_AT_S_FIELD_NUMBER: _ClassVar[int]
    AT_THE_EARLIEST_FIELD_NUMBER: _ClassVar[int]
    LATE_S_FIELD_NUMBER: _ClassVar[int]
    HAS_COSTS_FIELD_NUMBER: _ClassVar[int]
    SO_FAR_EUR_FIELD_NUMBER: _ClassVar[int]
    TO_COME_EUR_FIELD_NUMBER: _ClassVar[int]
    expected_end_at_s: float
    at_the_earliest: bool
    late_s: float
    has_costs: bool
    so_far_eur: float
    to_come_eur: float
    def __init__(self, expected_end_at_s: _Optional[float] = ..., at_the_earliest: bool = ..., late_s: _Optional[float] = ..., has_costs: bool = ..., so_far_eur: _Optional[float] = ..., to_come_eur: _Optional[float] = ...) -> None: ...

class Lending(_message.Message):
    __slots__ = ("lender_job_id", "guest_job_id", "node_id", "cores", "until_s", "slowdown", "slowdown_limit")
    LENDER_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    GUEST_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    CORES_FIELD_NUMBER: _ClassVar[int]
    UNTIL_S_FIELD_NUMBER: _ClassVar[int]
    SLOWDOWN_FIELD_NUMBER: _ClassVar[int]
    SLOWDOWN_LIMIT_FIELD_NUMBER: _ClassVar[int]
    lender_job_id: str
    guest_job_id: str
    node_id: str
    cores: int
    until_s: float
    slowdown: float
    slowdown_limit: float
    def __init__(self, lender_job_id: _Optional[str] = ..., guest_job_id: _Optional[str] = ..., node_id: _Optional[str] = ..., cores: _Optional[int] = ..., until_s: _Optional[float] = ..., slowdown: _Optional[float] = ..., slowdown_limit: _Optional[float] = ...) -> None: ...

class AnnouncedBudget(_message.Message):
    __slots__ = ("number", "at_s", "budget_uw", "from_s", "obstacle", "schedule")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AT_S_FIELD_NUMBER: _ClassVar[int]
    BUDGET_UW_FIELD_NUMBER: _ClassVar[int]
    FROM_S_FIELD_NUMBER: _ClassVar[int]
    OBSTACLE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    number: int
    at_s: float
    budget_uw: int
    from_s: float
    obstacle: str
    schedule: str
    def __init__(self, number: _Optional[int] = ..., at_s: _Optional[float] = ..., budget_uw: _Optional[int] = ..., from_s: _Optional[float] = ..., obstacle: _Optional[str] = ..., schedule: _Optional[str] = ...) -> None: ...

class DrainNodeRequest(_message.Message):
    __slots__ = ("node_id", "reason", "cancel_jobs")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CANCEL_JOBS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    reason: str
    cancel_jobs: bool
    def __init__(self, node_id: _Optional[str] = ..., reason: _Optional[str] = ..., cancel_jobs: bool = ...) -> None: ...

class DrainNodeResponse(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: Node
    def __init__(self, node: _Optional[_Union[Node, _Mapping]] = ...) -> None: ...

class ResumeNodeRequest(_message.Message):
    __slots__ = ("node_id", "reason")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    reason: str
    def __init__(self, node_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ResumeNodeResponse(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: Node
    def __init__(self, node: _Optional[_Union[Node, _Mapping]] = ...) -> None: ...

class LeaveNodeRequest(_message.Message):
    __slots__ = ("node_id", "reason", "at_once")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    AT_ONCE_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    reason: str
    at_once: bool
    def __init__(self, node_id: _Optional[str] = ..., reason: _Optional[str] = ..., at_once: bool = ...) -> None: ...

class LeaveNodeResponse(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: Node
    def __init__(self, node: _Optional[_Union[Node, _Mapping]] = ...) -> None: ...

class SleepNodeRequest(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    def __init__(self, node_id: _Optional[str] = ...) -> None: ...

class SleepNodeResponse(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: Node
    def __init__(self, node: _Optional[_Union[Node, _Mapping]] = ...) -> None: ...

class WakeNodeRequest(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    def __init__(self, node_id: _Optional[str] = ...) -> None: ...

class WakeNodeResponse(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: Node
    def __init__(self, node: _Optional[_Union[Node, _Mapping]] = ...) -> None: ...

class DecideNodeSleepRequest(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    def __init__(self, node_id: _Optional[str] = ...) -> None: ...

class DecideNodeSleepResponse(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: Node
    def __init__(self, node: _Optional[_Union[Node, _Mapping]] = ...) -> None: ...

class KeepNodesAwakeRequest(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: int
    def __init__(self, nodes: _Optional[int] = ...) -> None: ...

class KeepNodesAwakeResponse(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: int
    def __init__(self, nodes: _Optional[int] = ...) -> None: ...

class ForgetNodeRequest(_message.Message):
    __slots__ = ("node_id", "reason", "word")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WORD_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    reason: str
    word: ForgetWord
    def __init__(self, node_id: _Optional[str] = ..., reason: _Optional[str] = ..., word: _Optional[_Union[ForgetWord, str]] = ...) -> None: ...

class ForgetNodeResponse(_message.Message):
    __slots__ = ("node", "last_power_uw", "last_heard_s")
    NODE_FIELD_NUMBER: _ClassVar[int]
    LAST_POWER_UW_FIELD_NUMBER: _ClassVar[int]
    LAST_HEARD_S_FIELD_NUMBER: _ClassVar[int]
    node: Node
    last_power_uw: int
    last_heard_s: float
    def __init__(self, node: _Optional[_Union[Node, _Mapping]] = ..., last_power_uw: _Optional[int] = ..., last_heard_s: _Optional[float] = ...) -> None: ...

class SetBudgetRequest(_message.Message):
    __slots__ = ("budget_uw", "deadline_ns", "accept_outside")
    BUDGET_UW_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_NS_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_OUTSIDE_FIELD_NUMBER: _ClassVar[int]
    budget_uw: int
    deadline_ns: int
    accept_outside: bool
    def __init__(self, budget_uw: _Optional[int] = ..., deadline_ns: _Optional[int] = ..., accept_outside: bool = ...) -> None: ...

class SetBudgetResponse(_message.Message):
    __slots__ = ("power",)
    POWER_FIELD_NUMBER: _ClassVar[int]
    power: Power
    def __init__(self, power: _Optional[_Union[Power, _Mapping]] = ...) -> None: ...

class AnnounceBudgetRequest(_message.Message):
    __slots__ = ("budget_uw", "at_s")
    BUDGET_UW_FIELD_NUMBER: _ClassVar[int]
    AT_S_FIELD_NUMBER: _ClassVar[int]
    budget_uw: int
    at_s: float
    def __init__(self, budget_uw: _Optional[int] = ..., at_s: _Optional[float] = ...) -> None: ...

class AnnounceBudgetResponse(_message.Message):
    __slots__ = ("announced", "planned_with")
    ANNOUNCED_FIELD_NUMBER: _ClassVar[int]
    PLANNED_WITH_FIELD_NUMBER: _ClassVar[int]
    announced: AnnouncedBudget
    planned_with: bool
    def __init__(self, announced: _Optional[_Union[AnnouncedBudget, _Mapping]] = ..., planned_with: bool = ...) -> None: ...

class CancelBudgetRequest(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...

class CancelBudgetResponse(_message.Message):
    __slots__ = ("cancelled",)
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    cancelled: AnnouncedBudget
    def __init__(self, cancelled: _Optional[_Union[AnnouncedBudget, _Mapping]] = ...) -> None: ...

class BeginEmergencyRequest(_message.Message):
    __slots__ = ("limit_uw", "limit_share", "dry_run")
    LIMIT_UW_FIELD_NUMBER: _ClassVar[int]
    LIMIT_SHARE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    limit_uw: int
    limit_share: float
    dry_run: bool
    def __init__(self, limit_uw: _Optional[int] = ..., limit_share: _Optional[float] = ..., dry_run: bool = ...) -> None: ...

class EmergencyStep(_message.Message):
    __slots__ = ("name", "within_ns", "committed_uw", "job_ids", "node_ids")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WITHIN_NS_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_UW_FIELD_NUMBER: _ClassVar[int]
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    within_ns: int
    committed_uw: int
    job_ids: _containers.RepeatedScalarFieldContainer[str]
    node_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., within_ns: _Optional[int] = ..., committed_uw: _Optional[int] = ..., job_ids: _Optional[_Iterable[str]] = ..., node_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class BeginEmergencyResponse(_message.Message):
    __slots__ = ("limit_uw", "committed_uw", "steps", "short_uw", "protected_job_ids", "silent_ns", "not_stored")
    LIMIT_UW_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_UW_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    SHORT_UW_FIELD_NUMBER: _ClassVar[int]
    PROTECTED_JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    SILENT_NS_FIELD_NUMBER: _ClassVar[int]
    NOT_STORED_FIELD_NUMBER: _ClassVar[int]
    limit_uw: int
    committed_uw: int
    steps: _containers.RepeatedCompositeFieldContainer[EmergencyStep]
    short_uw: int
    protected_job_ids: _containers.RepeatedScalarFieldContainer[str]
    silent_ns: int
    not_stored: bool
    def __init__(self, limit_uw: _Optional[int] = ..., committed_uw: _Optional[int] = ..., steps: _Optional[_Iterable[_Union[EmergencyStep, _Mapping]]] = ..., short_uw: _Optional[int] = ..., protected_job_ids: _Optional[_Iterable[str]] = ..., silent_ns: _Optional[int] = ..., not_stored: bool = ...) -> None: ...

class EndEmergencyRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EndEmergencyResponse(_message.Message):
    __slots__ = ("power",)
    POWER_FIELD_NUMBER: _ClassVar[int]
    power: Power
    def __init__(self, power: _Optional[_Union[Power, _Mapping]] = ...) -> None: ...

class ScheduledBudget(_message.Message):
    __slots__ = ("at_s", "budget_uw")
    AT_S_FIELD_NUMBER: _ClassVar[int]
    BUDGET_UW_FIELD_NUMBER: _ClassVar[int]
    at_s: float
    budget_uw: int
    def __init__(self, at_s: _Optional[float] = ..., budget_uw: _Optional[int] = ...) -> None: ...

class ScheduleBudgetsRequest(_message.Message):
    __slots__ = ("name", "budgets", "dry_run")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BUDGETS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    name: str
    budgets: _containers.RepeatedCompositeFieldContainer[ScheduledBudget]
    dry_run: bool
    def __init__(self, name: _Optional[str] = ..., budgets: _Optional[_Iterable[_Union[ScheduledBudget, _Mapping]]] = ..., dry_run: bool = ...) -> None: ...

class ScheduleBudgetsResponse(_message.Message):
    __slots__ = ("announced", "kept", "cancelled", "refused", "minimum_uw", "refusal")
    ANNOUNCED_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_UW_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    announced: _containers.RepeatedCompositeFieldContainer[AnnouncedBudget]
    kept: _containers.RepeatedCompositeFieldContainer[AnnouncedBudget]
    cancelled: _containers.RepeatedCompositeFieldContainer[AnnouncedBudget]
    refused: _containers.RepeatedCompositeFieldContainer[AnnouncedBudget]
    minimum_uw: int
    refusal: str
    def __init__(self, announced: _Optional[_Iterable[_Union[AnnouncedBudget, _Mapping]]] = ..., kept: _Optional[_Iterable[_Union[AnnouncedBudget, _Mapping]]] = ..., cancelled: _Optional[_Iterable[_Union[AnnouncedBudget, _Mapping]]] = ..., refused: _Optional[_Iterable[_Union[AnnouncedBudget, _Mapping]]] = ..., minimum_uw: _Optional[int] = ..., refusal: _Optional[str] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("interval_ns",)
    INTERVAL_NS_FIELD_NUMBER: _ClassVar[int]
    interval_ns: int
    def __init__(self, interval_ns: _Optional[int] = ...) -> None: ...

class PlanningRound(_message.Message):
    __slots__ = ("policy", "solver", "outcome", "solve_ns", "objective", "bound", "jobs", "rounds")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    SOLVER_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    SOLVE_NS_FIELD_NUMBER: _ClassVar[int]
    OBJECTIVE_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    policy: str
    solver: str
    outcome: str
    solve_ns: int
    objective: float
    bound: float
    jobs: int
    rounds: int
    def __init__(self, policy: _Optional[str] = ..., solver: _Optional[str] = ..., outcome: _Optional[str] = ..., solve_ns: _Optional[int] = ..., objective: _Optional[float] = ..., bound: _Optional[float] = ..., jobs: _Optional[int] = ..., rounds: _Optional[int] = ...) -> None: ...

class ClusterView(_message.Message):
    __slots__ = ("time_s", "power", "nodes", "jobs", "last_round")
    TIME_S_FIELD_NUMBER: _ClassVar[int]
    POWER_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    LAST_ROUND_FIELD_NUMBER: _ClassVar[int]
    time_s: float
    power: Power
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    last_round: PlanningRound
    def __init__(self, time_s: _Optional[float] = ..., power: _Optional[_Union[Power, _Mapping]] = ..., nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., last_round: _Optional[_Union[PlanningRound, _Mapping]] = ...) -> None: ...

class ReloadRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReloadResponse(_message.Message):
    __slots__ = ("changed", "needs_restart", "nodes", "queues", "policy")
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    NEEDS_RESTART_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    changed: _containers.RepeatedScalarFieldContainer[str]
    needs_restart: _containers.RepeatedScalarFieldContainer[str]
    nodes: int
    queues: int
    policy: str
    def __init__(self, changed: _Optional[_Iterable[str]] = ..., needs_restart: _Optional[_Iterable[str]] = ..., nodes: _Optional[int] = ..., queues: _Optional[int] = ..., policy: _Optional[str] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ("summary", "lines", "job")
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    summary: str
    lines: _containers.RepeatedScalarFieldContainer[str]
    job: Job
    def __init__(self, summary: _Optional[str] = ..., lines: _Optional[_Iterable[str]] = ..., job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class ProfilePoint(_message.Message):
    __slots__ = ("size", "cap_uw", "seconds", "power_uw", "fitted_seconds", "observed_s", "rate")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    CAP_UW_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    POWER_UW_FIELD_NUMBER: _ClassVar[int]
    FITTED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_S_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    size: int
    cap_uw: int
    seconds: float
    power_uw: int
    fitted_seconds: float
    observed_s: float
    rate: float
    def __init__(self, size: _Optional[int] = ..., cap_uw: _Optional[int] = ..., seconds: _Optional[float] = ..., power_uw: _Optional[int] = ..., fitted_seconds: _Optional[float] = ..., observed_s: _Optional[float] = ..., rate: _Optional[float] = ...) -> None: ...

class Profile(_message.Message):
    __slots__ = ("app", "unit", "average_parallelism", "sigma", "t1_s", "a", "b", "c", "beta", "f_low_ghz", "f_high_ghz", "p_low_w", "p_high_w", "rms_error", "points", "source", "updated_at_s", "mode", "certificate", "epoch_times", "gpu_curves", "resize_costs")
    APP_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    AVERAGE_PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    SIGMA_FIELD_NUMBER: _ClassVar[int]
    T1_S_FIELD_NUMBER: _ClassVar[int]
    A_FIELD_NUMBER: _ClassVar[int]
    B_FIELD_NUMBER: _ClassVar[int]
    C_FIELD_NUMBER: _ClassVar[int]
    BETA_FIELD_NUMBER: _ClassVar[int]
    F_LOW_GHZ_FIELD_NUMBER: _ClassVar[int]
    F_HIGH_GHZ_FIELD_NUMBER: _ClassVar[int]
    P_LOW_W_FIELD_NUMBER: _ClassVar[int]
    P_HIGH_W_FIELD_NUMBER: _ClassVar[int]
    RMS_ERROR_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_S_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_TIMES_FIELD_NUMBER: _ClassVar[int]
    GPU_CURVES_FIELD_NUMBER: _ClassVar[int]
    RESIZE_COSTS_FIELD_NUMBER: _ClassVar[int]
    app: str
    unit: SizeUnit
    average_parallelism: float
    sigma: float
    t1_s: float
    a: float
    b: float
    c: float
    beta: float
    f_low_ghz: float
    f_high_ghz: float
    p_low_w: float
    p_high_w: float
    rms_error: float
    points: _containers.RepeatedCompositeFieldContainer[ProfilePoint]
    source: str
    updated_at_s: float
    mode: _common_pb2.ResizeMode
    certificate: str
    epoch_times: _containers.RepeatedCompositeFieldContainer[EpochTime]
    gpu_curves: _containers.RepeatedCompositeFieldContainer[GpuCurve]
    resize_costs: _containers.RepeatedCompositeFieldContainer[ResizeCost]
    def __init__(self, app: _Optional[str] = ..., unit: _Optional[_Union[SizeUnit, str]] = ..., average_parallelism: _Optional[float] = ..., sigma: _Optional[float] = ..., t1_s: _Optional[float] = ..., a: _Optional[float] = ..., b: _Optional[float] = ..., c: _Optional[float] = ..., beta: _Optional[float] = ..., f_low_ghz: _Optional[float] = ..., f_high_ghz: _Optional[float] = ..., p_low_w: _Optional[float] = ..., p_high_w: _Optional[float] = ..., rms_error: _Optional[float] = ..., points: _Optional[_Iterable[_Union[ProfilePoint, _Mapping]]] = ..., source: _Optional[str] = ..., updated_at_s: _Optional[float] = ..., mode: _Optional[_Union[_common_pb2.ResizeMode, str]] = ..., certificate: _Optional[str] = ..., epoch_times: _Optional[_Iterable[_Union[EpochTime, _Mapping]]] = ..., gpu_curves: _Optional[_Iterable[_Union[GpuCurve, _Mapping]]] = ..., resize_costs: _Optional[_Iterable[_Union[ResizeCost, _Mapping]]] = ...) -> None: ...

class EpochTime(_message.Message):
    __slots__ = ("gpu_model", "gpus", "seconds", "count")
    GPU_MODEL_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    gpu_model: str
    gpus: int
    seconds: float
    count: int
    def __init__(self, gpu_model: _Optional[str] = ..., gpus: _Optional[int] = ..., seconds: _Optional[float] = ..., count: _Optional[int] = ...) -> None: ...

class GpuCurve(_message.Message):
    __slots__ = ("gpu_model", "static_w", "full_w", "knee", "beta", "rms_error")
    GPU_MODEL_FIELD_NUMBER: _ClassVar[int]
    STATIC_W_FIELD_NUMBER: _ClassVar[int]
    FULL_W_FIELD_NUMBER: _ClassVar[int]
    KNEE_FIELD_NUMBER: _ClassVar[int]
    BETA_FIELD_NUMBER: _ClassVar[int]
    RMS_ERROR_FIELD_NUMBER: _ClassVar[int]
    gpu_model: str
    static_w: float
    full_w: float
    knee: float
    beta: float
    rms_error: float
    def __init__(self, gpu_model: _Optional[str] = ..., static_w: _Optional[float] = ..., full_w: _Optional[float] = ..., knee: _Optional[float] = ..., beta: _Optional[float] = ..., rms_error: _Optional[float] = ...) -> None: ...

class ResizeCost(_message.Message):
    __slots__ = ("mode", "unit", "changes", "stalled_ns", "again_ns", "moved_bytes", "took_ns")
    MODE_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    STALLED_NS_FIELD_NUMBER: _ClassVar[int]
    AGAIN_NS_FIELD_NUMBER: _ClassVar[int]
    MOVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOOK_NS_FIELD_NUMBER: _ClassVar[int]
    mode: _common_pb2.ResizeMode
    unit: SizeUnit
    changes: int
    stalled_ns: int
    again_ns: int
    moved_bytes: int
    took_ns: int
    def __init__(self, mode: _Optional[_Union[_common_pb2.ResizeMode, str]] = ..., unit: _Optional[_Union[SizeUnit, str]] = ..., changes: _Optional[int] = ..., stalled_ns: _Optional[int] = ..., again_ns: _Optional[int] = ..., moved_bytes: _Optional[int] = ..., took_ns: _Optional[int] = ...) -> None: ...

class ListProfilesRequest(_message.Message):
    __slots__ = ("app",)
    APP_FIELD_NUMBER: _ClassVar[int]
    app: str
    def __init__(self, app: _Optional[str] = ...) -> None: ...

class ListProfilesResponse(_message.Message):
    __slots__ = ("profiles",)
    PROFILES_FIELD_NUMBER: _ClassVar[int]
    profiles: _containers.RepeatedCompositeFieldContainer[Profile]
    def __init__(self, profiles: _Optional[_Iterable[_Union[Profile, _Mapping]]] = ...) -> None: ...

class PutProfileRequest(_message.Message):
    __slots__ = ("profile",)
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    profile: Profile
    def __init__(self, profile: _Optional[_Union[Profile, _Mapping]] = ...) -> None: ...

class PutProfileResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DropProfileRequest(_message.Message):
    __slots__ = ("app", "learnt_only", "certificate")
    APP_FIELD_NUMBER: _ClassVar[int]
    LEARNT_ONLY_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    app: str
    learnt_only: bool
    certificate: bool
    def __init__(self, app: _Optional[str] = ..., learnt_only: bool = ..., certificate: bool = ...) -> None: ...

class DropProfileResponse(_message.Message):
    __slots__ = ("models", "certificate", "resize_costs")
    MODELS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    RESIZE_COSTS_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedScalarFieldContainer[str]
    certificate: bool
    resize_costs: bool
    def __init__(self, models: _Optional[_Iterable[str]] = ..., certificate: bool = ..., resize_costs: bool = ...) -> None: ...

class GetEnvironmentRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class GetEnvironmentResponse(_message.Message):
    __slots__ = ("env",)
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ENV_FIELD_NUMBER: _ClassVar[int]
    env: _containers.ScalarMap[str, str]
    def __init__(self, env: _Optional[_Mapping[str, str]] = ...) -> None: ...

class AuditEntry(_message.Message):
    __slots__ = ("time_s", "account", "uid", "peer", "action", "job_id", "node_id", "detail", "outcome", "message")
    TIME_S_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    time_s: float
    account: str
    uid: int
    peer: str
    action: str
    job_id: str
    node_id: str
    detail: str
    outcome: str
    message: str
    def __init__(self, time_s: _Optional[float] = ..., account: _Optional[str] = ..., uid: _Optional[int] = ..., peer: _Optional[str] = ..., action: _Optional[str] = ..., job_id: _Optional[str] = ..., node_id: _Optional[str] = ..., detail: _Optional[str] = ..., outcome: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class ListAuditRequest(_message.Message):
    __slots__ = ("since_s", "until_s", "account", "job_id", "node_id", "action", "limit")
    SINCE_S_FIELD_NUMBER: _ClassVar[int]
    UNTIL_S_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    since_s: float
    until_s: float
    account: str
    job_id: str
    node_id: str
    action: str
    limit: int
    def __init__(self, since_s: _Optional[float] = ..., until_s: _Optional[float] = ..., account: _Optional[str] = ..., job_id: _Optional[str] = ..., node_id: _Optional[str] = ..., action: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListAuditResponse(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[AuditEntry]
    def __init__(self, entries: _Optional[_Iterable[_Union[AuditEntry, _Mapping]]] = ...) -> None: ...

class Queue(_message.Message):
    __slots__ = ("name", "priority", "weight", "time_limit_ns", "time_limit_ns_max", "cores_max", "nodes_max", "wait_ns_expected", "wait_ns_max", "jobs_waiting", "jobs_running", "preempts", "sharing", "price_hold_ns_max", "node_ids")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_NS_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_NS_MAX_FIELD_NUMBER: _ClassVar[int]
    CORES_MAX_FIELD_NUMBER: _ClassVar[int]
    NODES_MAX_FIELD_NUMBER: _ClassVar[int]
    WAIT_NS_EXPECTED_FIELD_NUMBER: _ClassVar[int]
    WAIT_NS_MAX_FIELD_NUMBER: _ClassVar[int]
    JOBS_WAITING_FIELD_NUMBER: _ClassVar[int]
    JOBS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    PREEMPTS_FIELD_NUMBER: _ClassVar[int]
    SHARING_FIELD_NUMBER: _ClassVar[int]
    PRICE_HOLD_NS_MAX_FIELD_NUMBER: _ClassVar[int]
    NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    priority: float
    weight: float
    time_limit_ns: int
    time_limit_ns_max: int
    cores_max: int
    nodes_max: int
    wait_ns_expected: int
    wait_ns_max: int
    jobs_waiting: int
    jobs_running: int
    preempts: _containers.RepeatedScalarFieldContainer[str]
    sharing: CoreSharing
    price_hold_ns_max: int
    node_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., priority: _Optional[float] = ..., weight: _Optional[float] = ..., time_limit_ns: _Optional[int] = ..., time_limit_ns_max: _Optional[int] = ..., cores_max: _Optional[int] = ..., nodes_max: _Optional[int] = ..., wait_ns_expected: _Optional[int] = ..., wait_ns_max: _Optional[int] = ..., jobs_waiting: _Optional[int] = ..., jobs_running: _Optional[int] = ..., preempts: _Optional[_Iterable[str]] = ..., sharing: _Optional[_Union[CoreSharing, str]] = ..., price_hold_ns_max: _Optional[int] = ..., node_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class Account(_message.Message):
    __slots__ = ("kind", "name", "members", "jobs_max", "cores_max", "power_uw_max", "submissions_per_s_max", "jobs", "cores", "power_uw", "jobs_waiting", "share", "recent_use", "priority_factor")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    JOBS_MAX_FIELD_NUMBER: _ClassVar[int]
    CORES_MAX_FIELD_NUMBER: _ClassVar[int]
    POWER_UW_MAX_FIELD_NUMBER: _ClassVar[int]
    SUBMISSIONS_PER_S_MAX_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    CORES_FIELD_NUMBER: _ClassVar[int]
    POWER_UW_FIELD_NUMBER: _ClassVar[int]
    JOBS_WAITING_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    RECENT_USE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FACTOR_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    members: _containers.RepeatedScalarFieldContainer[str]
    jobs_max: int
    cores_max: int
    power_uw_max: int
    submissions_per_s_max: float
    jobs: int
    cores: int
    power_uw: int
    jobs_waiting: int
    share: float
    recent_use: float
    priority_factor: float
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., members: _Optional[_Iterable[str]] = ..., jobs_max: _Optional[int] = ..., cores_max: _Optional[int] = ..., power_uw_max: _Optional[int] = ..., submissions_per_s_max: _Optional[float] = ..., jobs: _Optional[int] = ..., cores: _Optional[int] = ..., power_uw: _Optional[int] = ..., jobs_waiting: _Optional[int] = ..., share: _Optional[float] = ..., recent_use: _Optional[float] = ..., priority_factor: _Optional[float] = ...) -> None: ...

class ListAccountsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListAccountsResponse(_message.Message):
    __slots__ = ("accounts",)
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    accounts: _containers.RepeatedCompositeFieldContainer[Account]
    def __init__(self, accounts: _Optional[_Iterable[_Union[Account, _Mapping]]] = ...) -> None: ...

class ListQueuesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListQueuesResponse(_message.Message):
    __slots__ = ("queues",)
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    def __init__(self, queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ...) -> None: ...

class Reservation(_message.Message):
    __slots__ = ("name", "node_ids", "start_at_s", "end_at_s", "users", "queue", "maintenance", "end_jobs", "reason", "begun", "job_ids", "other_job_ids")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    START_AT_S_FIELD_NUMBER: _ClassVar[int]
    END_AT_S_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    MAINTENANCE_FIELD_NUMBER: _ClassVar[int]
    END_JOBS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    OTHER_JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    node_ids: _containers.RepeatedScalarFieldContainer[str]
    start_at_s: float
    end_at_s: float
    users: _containers.RepeatedScalarFieldContainer[str]
    queue: str
    maintenance: bool
    end_jobs: bool
    reason: str
    begun: bool
    job_ids: _containers.RepeatedScalarFieldContainer[str]
    other_job_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., node_ids: _Optional[_Iterable[str]] = ..., start_at_s: _Optional[float] = ..., end_at_s: _Optional[float] = ..., users: _Optional[_Iterable[str]] = ..., queue: _Optional[str] = ..., maintenance: bool = ..., end_jobs: bool = ..., reason: _Optional[str] = ..., begun: bool = ..., job_ids: _Optional[_Iterable[str]] = ..., other_job_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ReserveRequest(_message.Message):
    __slots__ = ("name", "node_ids", "count", "features", "start_at_s", "end_at_s", "users", "queue", "maintenance", "end_jobs", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    START_AT_S_FIELD_NUMBER: _ClassVar[int]
    END_AT_S_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    MAINTENANCE_FIELD_NUMBER: _ClassVar[int]
    END_JOBS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    node_ids: _containers.RepeatedScalarFieldContainer[str]
    count: int
    features: _containers.RepeatedScalarFieldContainer[str]
    start_at_s: float
    end_at_s: float
    users: _containers.RepeatedScalarFieldContainer[str]
    queue: str
    maintenance: bool
    end_jobs: bool
    reason: str
    def __init__(self, name: _Optional[str] = ..., node_ids: _Optional[_Iterable[str]] = ..., count: _Optional[int] = ..., features: _Optional[_Iterable[str]] = ..., start_at_s: _Optional[float] = ..., end_at_s: _Optional[float] = ..., users: _Optional[_Iterable[str]] = ..., queue: _Optional[str] = ..., maintenance: bool = ..., end_jobs: bool = ..., reason: _Optional[str] = ...) -> None: ...

class ReserveResponse(_message.Message):
    __slots__ = ("reservation",)
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    reservation: Reservation
    def __init__(self, reservation: _Optional[_Union[Reservation, _Mapping]] = ...) -> None: ...

class CancelReservationRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class CancelReservationResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListReservationsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListReservationsResponse(_message.Message):
    __slots__ = ("reservations",)
    RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    reservations: _containers.RepeatedCompositeFieldContainer[Reservation]
    def __init__(self, reservations: _Optional[_Iterable[_Union[Reservation, _Mapping]]] = ...) -> None: ...

class ListHistoryRequest(_message.Message):
    __slots__ = ("since_s", "until_s", "user", "app", "states", "mine", "limit", "sort", "ascending", "job_ids", "queue", "node", "account")
    SINCE_S_FIELD_NUMBER: _ClassVar[int]
    UNTIL_S_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    APP_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    MINE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    SORT_FIELD_NUMBER: _ClassVar[int]
    ASCENDING_FIELD_NUMBER: _ClassVar[int]
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    since_s: float
    until_s: float
    user: str
    app: str
    states: _containers.RepeatedScalarFieldContainer[JobState]
    mine: bool
    limit: int
    sort: str
    ascending: bool
    job_ids: _containers.RepeatedScalarFieldContainer[str]
    queue: str
    node: str
    account: str
    def __init__(self, since_s: _Optional[float] = ..., until_s: _Optional[float] = ..., user: _Optional[str] = ..., app: _Optional[str] = ..., states: _Optional[_Iterable[_Union[JobState, str]]] = ..., mine: bool = ..., limit: _Optional[int] = ..., sort: _Optional[str] = ..., ascending: bool = ..., job_ids: _Optional[_Iterable[str]] = ..., queue: _Optional[str] = ..., node: _Optional[str] = ..., account: _Optional[str] = ...) -> None: ...

class HistoryAttempt(_message.Message):
    __slots__ = ("number", "started_at_s", "ended_at_s", "nodes", "core_s", "energy_j", "why")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_S_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_S_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    CORE_S_FIELD_NUMBER: _ClassVar[int]
    ENERGY_J_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    number: int
    started_at_s: float
    ended_at_s: float
    nodes: int
    core_s: float
    energy_j: float
    why: str
    def __init__(self, number: _Optional[int] = ..., started_at_s: _Optional[float] = ..., ended_at_s: _Optional[float] = ..., nodes: _Optional[int] = ..., core_s: _Optional[float] = ..., energy_j: _Optional[float] = ..., why: _Optional[str] = ...) -> None: ...

class HistoryJob(_message.Message):
    __slots__ = ("job_id", "access", "user", "uid", "name", "app", "queue", "state", "exit_code", "submitted_at_s", "started_at_s", "ended_at_s", "nodes", "node_list", "core_s", "energy_j", "idle_energy_j", "gpu_energy_j", "mean_cap_w", "residual_s", "attempts", "earlier", "size_min", "size_max", "unit", "policy", "account", "given_up_w", "gained_w", "given_up_j", "gained_j")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    APP_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_S_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_S_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_S_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    NODE_LIST_FIELD_NUMBER: _ClassVar[int]
    CORE_S_FIELD_NUMBER: _ClassVar[int]
    ENERGY_J_FIELD_NUMBER: _ClassVar[int]
    IDLE_ENERGY_J_FIELD_NUMBER: _ClassVar[int]
    GPU_ENERGY_J_FIELD_NUMBER: _ClassVar[int]
    MEAN_CAP_W_FIELD_NUMBER: _ClassVar[int]
    RESIDUAL_S_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    EARLIER_FIELD_NUMBER: _ClassVar[int]
    SIZE_MIN_FIELD_NUMBER: _ClassVar[int]
    SIZE_MAX_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    GIVEN_UP_W_FIELD_NUMBER: _ClassVar[int]
    GAINED_W_FIELD_NUMBER: _ClassVar[int]
    GIVEN_UP_J_FIELD_NUMBER: _ClassVar[int]
    GAINED_J_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    access: JobAccess
    user: str
    uid: int
    name: str
    app: str
    queue: str
    state: JobState
    exit_code: int
    submitted_at_s: float
    started_at_s: float
    ended_at_s: float
    nodes: int
    node_list: str
    core_s: float
    energy_j: float
    idle_energy_j: float
    gpu_energy_j: float
    mean_cap_w: float
    residual_s: float
    attempts: int
    earlier: _containers.RepeatedCompositeFieldContainer[HistoryAttempt]
    size_min: int
    size_max: int
    unit: SizeUnit
    policy: str
    account: str
    given_up_w: float
    gained_w: float
    given_up_j: float
    gained_j: float
    def __init__(self, job_id: _Optional[str] = ..., access: _Optional[_Union[JobAccess, str]] = ..., user: _Optional[str] = ..., uid: _Optional[int] = ..., name: _Optional[str] = ..., app: _Optional[str] = ..., queue: _Optional[str] = ..., state: _Optional[_Union[JobState, str]] = ..., exit_code: _Optional[int] = ..., submitted_at_s: _Optional[float] = ..., started_at_s: _Optional[float] = ..., ended_at_s: _Optional[float] = ..., nodes: _Optional[int] = ..., node_list: _Optional[str] = ..., core_s: _Optional[float] = ..., energy_j: _Optional[float] = ..., idle_energy_j: _Optional[float] = ..., gpu_energy_j: _Optional[float] = ..., mean_cap_w: _Optional[float] = ..., residual_s: _Optional[float] = ..., attempts: _Optional[int] = ..., earlier: _Optional[_Iterable[_Union[HistoryAttempt, _Mapping]]] = ..., size_min: _Optional[int] = ..., size_max: _Optional[int] = ..., unit: _Optional[_Union[SizeUnit, str]] = ..., policy: _Optional[str] = ..., account: _Optional[str] = ..., given_up_w: _Optional[float] = ..., gained_w: _Optional[float] = ..., given_up_j: _Optional[float] = ..., gained_j: _Optional[float] = ...) -> None: ...

class ListHistoryResponse(_message.Message):
    __slots__ = ("jobs", "more")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[HistoryJob]
    more: bool
    def __init__(self, jobs: _Optional[_Iterable[_Union[HistoryJob, _Mapping]]] = ..., more: bool = ...) -> None: ...

class GetReportRequest(_message.Message):
    __slots__ = ("by", "first_day", "last_day", "user")
    BY_FIELD_NUMBER: _ClassVar[int]
    FIRST_DAY_FIELD_NUMBER: _ClassVar[int]
    LAST_DAY_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    by: str
    first_day: int
    last_day: int
    user: str
    def __init__(self, by: _Optional[str] = ..., first_day: _Optional[int] = ..., last_day: _Optional[int] = ..., user: _Optional[str] = ...) -> None: ...

class ReportRow(_message.Message):
    __slots__ = ("key", "jobs", "failures", "core_h", "energy_kwh", "mean_cap_w", "residual_h", "given_up_kwh", "gained_kwh")
    KEY_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    CORE_H_FIELD_NUMBER: _ClassVar[int]
    ENERGY_KWH_FIELD_NUMBER: _ClassVar[int]
    MEAN_CAP_W_FIELD_NUMBER: _ClassVar[int]
    RESIDUAL_H_FIELD_NUMBER: _ClassVar[int]
    GIVEN_UP_KWH_FIELD_NUMBER: _ClassVar[int]
    GAINED_KWH_FIELD_NUMBER: _ClassVar[int]
    key: str
    jobs: int
    failures: int
    core_h: float
    energy_kwh: float
    mean_cap_w: float
    residual_h: float
    given_up_kwh: float
    gained_kwh: float
    def __init__(self, key: _Optional[str] = ..., jobs: _Optional[int] = ..., failures: _Optional[int] = ..., core_h: _Optional[float] = ..., energy_kwh: _Optional[float] = ..., mean_cap_w: _Optional[float] = ..., residual_h: _Optional[float] = ..., given_up_kwh: _Optional[float] = ..., gained_kwh: _Optional[float] = ...) -> None: ...

class GetReportResponse(_message.Message):
    __slots__ = ("rows", "total", "own_only")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    OWN_ONLY_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[ReportRow]
    total: ReportRow
    own_only: bool
    def __init__(self, rows: _Optional[_Iterable[_Union[ReportRow, _Mapping]]] = ..., total: _Optional[_Union[ReportRow, _Mapping]] = ..., own_only: bool = ...) -> None: ...
