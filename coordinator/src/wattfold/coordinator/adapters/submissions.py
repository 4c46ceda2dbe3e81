"""Checks submissions and budgets where they come in: every refusal says value, limit and unit."""

from __future__ import annotations

import hashlib
import math
import os
import signal
from dataclasses import dataclass

from wattfold.contract.cpuset import MAX_CPU
from wattfold.contract.ids import JobId, NodeId, valid_name
from wattfold.contract.soft_limits import UMASK_DEFAULT, SoftLimit, refusal
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.launch_data import LaunchData
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core.attempt import ATTEMPTS_MAX
from wattfold.coordinator.core.job import (
    MAPPED,
    CoreSharing,
    JobKind,
    JobSpec,
    ResizeMode,
    SizeUnit,
)
from wattfold.coordinator.core.levels import PLAIN, Levels
from wattfold.coordinator.core.spread import Spread
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

ARGV_MAX = 4096
ENV_BYTES_MAX = 1 << 20
PRIORITY_MAX = 1000.0
MODE_SOURCE_MAX = 400
FEATURES_MAX = 32
PATH_MAX = 4096
EPOCHS_MAX = 10_000_000
GRACE_NS_MAX = 3_600_000_000_000
"""Agents take no longer one."""

KINDS = {
    pb.JOB_KIND_UNSPECIFIED: JobKind.RIGID,
    pb.JOB_KIND_RIGID: JobKind.RIGID,
    pb.JOB_KIND_MOLDABLE: JobKind.MOLDABLE,
    pb.JOB_KIND_MALLEABLE: JobKind.MALLEABLE,
    pb.JOB_KIND_EVOLVING: JobKind.EVOLVING,
}
UNITS = {
    pb.SIZE_UNIT_UNSPECIFIED: SizeUnit.CORES,
    pb.SIZE_UNIT_CORES: SizeUnit.CORES,
    pb.SIZE_UNIT_NODES: SizeUnit.NODES,
    pb.SIZE_UNIT_UNITS: SizeUnit.UNITS,
}
SPREADS = {
    pb.UNIT_SPREAD_UNSPECIFIED: Spread.ANY,
    pb.UNIT_SPREAD_ANY: Spread.ANY,
    pb.UNIT_SPREAD_TOGETHER: Spread.TOGETHER,
    pb.UNIT_SPREAD_APART: Spread.APART,
}
MODES = {
    common_pb2.RESIZE_MODE_UNSPECIFIED: ResizeMode.MASK,
    common_pb2.RESIZE_MODE_FIXED: ResizeMode.FIXED,
    common_pb2.RESIZE_MODE_MASK: ResizeMode.MASK,
    common_pb2.RESIZE_MODE_TEAM: ResizeMode.TEAM,
    common_pb2.RESIZE_MODE_MAP: ResizeMode.MAP,
    common_pb2.RESIZE_MODE_RESTART: ResizeMode.RESTART,
    common_pb2.RESIZE_MODE_REBUILD: ResizeMode.REBUILD,
}
SHARINGS = {
    pb.CORE_SHARING_UNSPECIFIED: CoreSharing.AS_KIND,
    pb.CORE_SHARING_NO: CoreSharing.NO,
    pb.CORE_SHARING_LEND: CoreSharing.LEND,
    pb.CORE_SHARING_BORROW: CoreSharing.BORROW,
    pb.CORE_SHARING_BOTH: CoreSharing.BOTH,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """What a site says of time limits: of a job without its own, and the greatest; 0 = none."""

    default_ns: int = 0
    max_ns: int = 0


NO_LIMITS = TimeLimits()


class InvalidRequestError(Exception):
    """A request that can never be met as it is; the message says which value and which limit."""


def launch_data(message: pb.JobSpec) -> LaunchData:
    """The part of a submission that only its start needs. Raises InvalidRequestError."""
    env_bytes = sum(len(key) + len(value) for key, value in message.env.items())
    if env_bytes > ENV_BYTES_MAX:
        raise InvalidRequestError(
            f"environment of {env_bytes} bytes exceeds the limit of {ENV_BYTES_MAX} bytes"
        )
    umask = message.umask if message.HasField("umask") else UMASK_DEFAULT
    limits = tuple(
        SoftLimit(name=limit.name, soft=limit.soft if limit.HasField("soft") else None)
        for limit in message.resource_limits
    )
    wrong = refusal(umask, limits)
    if wrong:
        raise InvalidRequestError(wrong)
    return LaunchData(env=tuple(sorted(message.env.items())), umask=umask, limits=limits)


def job_spec(message: pb.JobSpec, limits: TimeLimits = NO_LIMITS) -> JobSpec:
    """The submission as the core's JobSpec, without its owner. Raises InvalidRequestError."""
    argv = tuple(message.argv)
    if not argv or not argv[0]:
        raise InvalidRequestError("no command given")
    if len(argv) > ARGV_MAX:
        raise InvalidRequestError(f"{len(argv)} arguments exceed the limit of {ARGV_MAX}")
    base = os.path.basename(argv[0])
    name = message.name or base
    app = message.app or base
    if not valid_name(app):
        raise InvalidRequestError(f"application name {app!r}: use 1-63 of A-Z a-z 0-9 . _ -")
    if len(name) > 100 or not name.isprintable():
        raise InvalidRequestError(f"job name {name[:40]!r}: at most 100 printable characters")
    low, high = message.size_min or 1, message.size_max or message.size_min or 1
    if high < low:
        raise InvalidRequestError(f"size {low}-{high}: the minimum is above the maximum")
    kind = KINDS.get(message.kind)
    if kind is None or message.unit not in UNITS or message.mode not in MODES:
        raise InvalidRequestError("this version does not know the kind, size unit or resize mode")
    if kind is JobKind.RIGID and low != high:
        raise InvalidRequestError(f"a rigid job has one size, not {low}-{high}")
    unit = UNITS[message.unit]
    tasks = message.tasks_per_node or 1
    if unit is SizeUnit.CORES and low < tasks:
        raise InvalidRequestError(
            f"{tasks} tasks on a node need a core each, but the minimum size is {low}"
        )
    mode = MODES[message.mode]
    if mode in MAPPED:
        _check_map(message, mode, kind, unit, tasks)
    unmoved = unit is not SizeUnit.UNITS and not kind.resized
    if mode is ResizeMode.RESTART and unmoved:
        raise InvalidRequestError(
            f"a {kind.value} job keeps its size; mode restart is for malleable jobs: give a "
            "range of sizes such as --nodes 1-4"
        )
    sharing = _sharing(message, kind, mode)
    spread = _spread(message, unit, kind)
    return JobSpec(
        name=name,
        app=app,
        argv=argv,
        cwd=_cwd(message.cwd),
        stdout_path=message.stdout_path,
        stderr_path=message.stderr_path,
        kind=kind,
        unit=unit,
        size_min=low,
        size_max=high,
        time_ns=message.time_ns,
        priority=_positive("priority", message.priority),
        mode=mode,
        exclusive=message.exclusive,
        cap_uw=message.cap_uw,
        predicted_uw=message.predicted_uw,
        tasks_per_node=tasks,
        # charmrun starts the others of its nodes.
        own_launcher=message.own_launcher or (mode is ResizeMode.MAP and unit is SizeUnit.NODES),
        mode_source=_mode_source(message.mode_source),
        limit_ns=_limit_ns(message, limits),
        memory_bytes=message.memory_bytes,
        gpus=message.gpus,
        features=_features(message),
        among=_among(message),
        weight=_positive("weight", message.weight),
        requeue_max=_requeue_max(message),
        restartable=_restartable(message),
        snapshot_dir=_snapshot_dir(message.snapshot_dir),
        snapshot_signal=_end_signal(message.snapshot_signal),
        snapshot_grace_ns=_end_grace_ns(message.snapshot_grace_ns),
        reservation=message.reservation,
        # Its units stay where they start: at another size, or elsewhere, it is put back for others.
        preemptable=message.preemptable or (mode is ResizeMode.RESTART and unit is SizeUnit.UNITS),
        levels=_levels(message),
        sharing=sharing,
        unit_cores=message.unit_cores,
        spread=spread,
        epochs=_epochs(message),
    )


def _epochs(message: pb.JobSpec) -> int:
    if message.epochs > EPOCHS_MAX:
        raise InvalidRequestError(f"{message.epochs} epochs exceed the limit of {EPOCHS_MAX}")
    return message.epochs


def _check_map(
    message: pb.JobSpec, mode: ResizeMode, kind: JobKind, unit: SizeUnit, tasks: int
) -> None:
    """Raises InvalidRequestError for what a Charm++ job with a processor map cannot have."""
    if tasks > 1:
        raise InvalidRequestError(
            f"a job of mode {mode.value} has a PE for each of its cores; omit --tasks-per-node"
        )
    if unit is SizeUnit.CORES:
        return
    if mode is ResizeMode.REBUILD:
        raise InvalidRequestError(
            "mode rebuild is for jobs on --cores: a restarted Charm++ program renumbers its "
            "PEs, so residual processes on released nodes could not be identified. Over "
            "nodes use --resize map or restart"
        )
    if unit is not SizeUnit.NODES:
        raise InvalidRequestError(
            "mode map is for jobs on cores of one node or on whole nodes; give --cores or --nodes"
        )
    if not kind.resized:
        raise InvalidRequestError(
            f"a {kind.value} job keeps its nodes; mode map over nodes is for malleable jobs: "
            "give a range of sizes such as --nodes 1-4"
        )
    if message.exclusive or message.sharing not in (
        pb.CORE_SHARING_UNSPECIFIED,
        pb.CORE_SHARING_NO,
    ):
        raise InvalidRequestError(
            "a job of mode map over nodes uses whole nodes and leaves processes on released "
            "nodes, so it can neither share cores nor be exclusive"
        )
    if message.memory_bytes or message.gpus:
        raise InvalidRequestError(
            "a job of mode map over nodes releases nodes without ending its processes "
            "there, so memory and GPUs cannot stay reserved for it; omit --memory and --gpus"
        )


def _levels(message: pb.JobSpec) -> Levels:
    if message.gpu_cap_uw and not message.gpus:
        raise InvalidRequestError(
            f"a GPU cap of {message.gpu_cap_uw / 1e6:.3f} W is for jobs with their own GPUs; "
            "request them with --gpus"
        )
    if not (message.dram_cap_uw or message.gpu_cap_uw):
        return PLAIN
    return Levels(dram_uw=message.dram_cap_uw, gpu_uw=message.gpu_cap_uw)


def _sharing(message: pb.JobSpec, kind: JobKind, mode: ResizeMode) -> CoreSharing:
    """What it says of sharing. Raises InvalidRequestError where it cannot do what it says."""
    found = SHARINGS.get(message.sharing)
    if found is None:
        raise InvalidRequestError("this version does not know the core sharing of the job")
    if message.exclusive and (found.lends or found.borrows):
        raise InvalidRequestError("an exclusive job does not share its nodes")
    if found.borrows and UNITS[message.unit] is SizeUnit.UNITS:
        raise InvalidRequestError(
            "a job of units has all cores of its units, so it cannot borrow cores"
        )
    if found.borrows and kind is JobKind.RIGID:
        raise InvalidRequestError(
            "a rigid job has all its requested cores; only moldable and malleable jobs can "
            "borrow cores"
        )
    if found.lends and not kind.resized:
        raise InvalidRequestError(
            f"a {kind.value} job keeps its cores while it runs; only malleable jobs can lend cores"
        )
    if found.lends and mode in (ResizeMode.FIXED, ResizeMode.RESTART):
        raise InvalidRequestError(
            f"a job in mode {mode.value} keeps its cores while it runs; use mode mask or "
            "team to lend cores"
        )
    return found


def _spread(message: pb.JobSpec, unit: SizeUnit, kind: JobKind) -> Spread:
    """Where its units may be. Raises InvalidRequestError where it says of units what it cannot."""
    spread = SPREADS.get(message.spread)
    if spread is None:
        raise InvalidRequestError("this version does not know the spread of the units")
    if unit is not SizeUnit.UNITS:
        if message.unit_cores or message.spread:
            raise InvalidRequestError("--unit-cores and --spread are only for jobs of --units")
        return spread
    if not 1 <= message.unit_cores <= MAX_CPU + 1:
        raise InvalidRequestError(
            f"units of {message.unit_cores} cores are not possible; give --unit-cores from 1 "
            f"to {MAX_CPU + 1}"
        )
    if kind.resized:
        raise InvalidRequestError(
            "units stay where they start, so a job of units must be rigid or moldable; a "
            f"{kind.value} job must request cores or nodes"
        )
    if message.tasks_per_node > 1:
        raise InvalidRequestError(
            f"{message.tasks_per_node} tasks on a node: each unit is one task with its own "
            "cores; request more units instead"
        )
    return spread


def _limit_ns(message: pb.JobSpec, limits: TimeLimits) -> int:
    """Its own time limit, else the site's. An estimate beyond it would end the job half done."""
    limit_ns = message.limit_ns or limits.default_ns or limits.max_ns
    whose = "its time limit" if message.limit_ns else "the default time limit of this site"
    if limits.max_ns and limit_ns > limits.max_ns:
        raise InvalidRequestError(
            f"time limit of {limit_ns / 1e9:g} s is above {limits.max_ns / 1e9:g} s, the "
            "maximum of this site"
        )
    if limit_ns and message.time_ns > limit_ns:
        raise InvalidRequestError(
            f"estimated run time of {message.time_ns / 1e9:g} s is above {whose} of "
            f"{limit_ns / 1e9:g} s; give a longer --limit"
        )
    return limit_ns


def _restartable(message: pb.JobSpec) -> bool:
    asked = (message.snapshot_dir, message.snapshot_signal, message.snapshot_grace_ns)
    able = message.restartable or message.preemptable or message.requeue_max > 0
    able = able or message.epochs > 0
    return able or any(asked)


def _requeue_max(message: pb.JobSpec) -> int:
    if message.requeue_max >= ATTEMPTS_MAX:
        raise InvalidRequestError(
            f"{message.requeue_max} further attempts exceed the limit of {ATTEMPTS_MAX - 1}"
        )
    return message.requeue_max


def _snapshot_dir(text: str) -> str:
    if len(text) > PATH_MAX or "\0" in text:
        raise InvalidRequestError(
            f"snapshot folder {text[:40]!r} must have at most {PATH_MAX} characters and no NUL"
        )
    return text


def _end_signal(number: int) -> int:
    """The signal a job gets before it is ended; 0 = SIGTERM. Raises InvalidRequestError."""
    if number in (signal.SIGKILL, signal.SIGSTOP) or not 0 <= number < signal.NSIG:
        raise InvalidRequestError(
            f"signal {number} cannot request a snapshot; use 1..{signal.NSIG - 1} except "
            "SIGKILL and SIGSTOP"
        )
    return number


def _end_grace_ns(grace_ns: int) -> int:
    """How long a job gets before it is ended; 0 = the usual. Raises InvalidRequestError."""
    if grace_ns > GRACE_NS_MAX:
        raise InvalidRequestError(
            f"grace time of {grace_ns / 1e9:g} s is above the limit of {GRACE_NS_MAX / 1e9:g} s"
        )
    return grace_ns


def requeue_event(request: pb.RequeueRequest) -> ev.JobRequeueRequested:
    """What the core is told. Raises InvalidRequestError."""
    if len(request.reason) > MODE_SOURCE_MAX or not request.reason.isprintable():
        raise InvalidRequestError(
            f"reason {request.reason[:40]!r}: at most {MODE_SOURCE_MAX} printable characters"
        )
    return ev.JobRequeueRequested(
        job_id=JobId(request.job_id),
        signal=_end_signal(request.signal),
        grace_ns=_end_grace_ns(request.grace_ns),
        hold=request.hold,
        reason=request.reason,
    )


def fingerprint(request: pb.SubmitRequest) -> str:
    """Of what a submission asks for, so that a key is not taken for another command.

    Without what differs from one shell to the next, of which the environment belongs in no digest,
    and without what is there for people only.
    """
    stated = pb.JobSpec()
    stated.CopyFrom(request.spec)
    for name in ("env", "umask", "resource_limits", "mode_source"):
        stated.ClearField(name)
    return hashlib.sha256(stated.SerializeToString(deterministic=True)).hexdigest()[:32]


def _mode_source(text: str) -> str:
    if len(text) > MODE_SOURCE_MAX or not text.isprintable():
        raise InvalidRequestError(
            f"origin of the mode {text[:40]!r}: at most {MODE_SOURCE_MAX} printable characters"
        )
    return text


def _cwd(text: str) -> str:
    if text and not text.startswith("/"):
        raise InvalidRequestError(f"working directory {text!r} is not absolute")
    return text or "/"


def _positive(what: str, value: float) -> float:
    if value == 0:
        return 1.0
    if not (math.isfinite(value) and 0 < value <= PRIORITY_MAX):
        raise InvalidRequestError(f"{what} {value} is outside 0..{PRIORITY_MAX:g}")
    return value


def _features(message: pb.JobSpec) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(message.features))
    if len(names) > FEATURES_MAX:
        raise InvalidRequestError(f"{len(names)} features exceed the limit of {FEATURES_MAX}")
    for name in names:
        if not valid_name(name):
            raise InvalidRequestError(f"feature {name!r}: use 1-63 of A-Z a-z 0-9 . _ -")
    return names


def _among(message: pb.JobSpec) -> tuple[NodeId, ...]:
    for name in message.among:
        if not valid_name(name):
            raise InvalidRequestError(f"node {name!r}: use 1-63 of A-Z a-z 0-9 . _ -")
    return tuple(dict.fromkeys(map(NodeId, message.among)))


def due_ns(message: pb.JobSpec, clock: Clock) -> int:
    """When it is to be done, in coordinator time; -1 = no matter. Raises InvalidRequestError."""
    if not message.due_at_s:
        return -1
    late_s = clock.wall_s(clock.now_ns()) - message.due_at_s
    if not math.isfinite(late_s) or late_s >= 0:
        raise InvalidRequestError(f"the due date is {late_s:.0f} s ago; give a future time")
    return clock.time_ns(message.due_at_s)
