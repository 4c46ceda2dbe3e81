"""Checks of submissions on arrival. Every refusal gives value, limit and unit."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

from wattfold.contract.cpuset import MAX_CPU
from wattfold.contract.ids import JOB_NAME_MAX, JobId, valid_job_name, valid_name
from wattfold.contract.os_text import is_os_text, shown_text
from wattfold.contract.soft_limits import UMASK_DEFAULT, SoftLimit, refusal
from wattfold.coordinator.adapters.journal.launch_data import LaunchData
from wattfold.coordinator.adapters.requests import field_checks
from wattfold.coordinator.adapters.requests.field_checks import MODE_SOURCE_MAX, InvalidRequestError
from wattfold.coordinator.adapters.requests.output_patterns import PATTERNS, unknown_pattern
from wattfold.coordinator.adapters.requests.wire_enums import KINDS, MODES, SHARINGS, SPREADS, UNITS
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.jobs.core_sharing import CoreSharing
from wattfold.coordinator.core.model.jobs.spec import MAPPED, JobKind, JobSpec, ResizeMode
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.levels import PLAIN, Levels
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.v1 import coordinator_pb2 as pb

ARGV_MAX = 4096
ENV_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """Time limits of a site: the default for jobs without a limit, and the maximum; 0 = none."""

    default_ns: int = 0
    max_ns: int = 0


NO_LIMITS = TimeLimits()


def launch_data(message: pb.JobSpec) -> LaunchData:
    """Return the part of a submission that only its start needs. Raises InvalidRequestError."""
    if not all(is_os_text(text) for text in (*message.env.keys(), *message.env.values())):
        raise InvalidRequestError("a variable of the environment contains a NUL byte")
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
    """Return the submission as a JobSpec without its owner. Raises InvalidRequestError."""
    argv = tuple(message.argv)
    if not argv or not argv[0]:
        raise InvalidRequestError("no command given")
    if len(argv) > ARGV_MAX:
        raise InvalidRequestError(f"{len(argv)} arguments exceed the limit of {ARGV_MAX}")
    paths = message.cwd, message.stdout_path, message.stderr_path, message.snapshot_dir
    for text in (*argv, *paths):
        if not is_os_text(text):
            raise InvalidRequestError(f"the argument or path {text[:40]!r} contains a NUL byte")
    _check_outputs(message)
    base = shown_text(os.path.basename(argv[0]))
    name = message.name or base[:JOB_NAME_MAX]
    app = message.app or base
    if not valid_name(app):
        raise InvalidRequestError(
            f"application name {app[:JOB_NAME_MAX]!r}: use 1-63 of A-Z a-z 0-9 . _ -; give another "
            "name with --app"
        )
    if not valid_job_name(name):
        raise InvalidRequestError(
            f"job name {name[:40]!r} must have 1 to {JOB_NAME_MAX} printable characters"
        )
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
        cwd=field_checks.working_dir(message.cwd),
        stdout_path=message.stdout_path,
        stderr_path=message.stderr_path,
        kind=kind,
        unit=unit,
        size_min=low,
        size_max=high,
        time_ns=message.time_ns,
        priority=field_checks.positive("priority", message.priority),
        mode=mode,
        exclusive=message.exclusive,
        cap_uw=message.cap_uw,
        predicted_uw=message.predicted_uw,
        tasks_per_node=tasks,
        # charmrun starts the processes on the other nodes.
        own_launcher=message.own_launcher or (mode is ResizeMode.MAP and unit is SizeUnit.NODES),
        mode_source=field_checks.mode_source(message.mode_source),
        limit_ns=_limit_ns(message, limits),
        memory_bytes=message.memory_bytes,
        gpus=message.gpus,
        features=field_checks.features(message),
        among=field_checks.among(message),
        weight=field_checks.positive("weight", message.weight),
        requeue_max=field_checks.requeue_max(message),
        requeue_on_failure=message.requeue_on_failure,
        restartable=_restartable(message),
        snapshot_dir=field_checks.snapshot_dir(message.snapshot_dir),
        snapshot_signal=field_checks.end_signal(message.snapshot_signal),
        snapshot_grace_ns=field_checks.end_grace_ns(message.snapshot_grace_ns),
        reservation=message.reservation,
        # Units stay where they start, so other sizes and places need a requeue.
        preemptable=message.preemptable or (mode is ResizeMode.RESTART and unit is SizeUnit.UNITS),
        levels=_levels(message),
        sharing=sharing,
        unit_cores=message.unit_cores,
        spread=spread,
        epochs=field_checks.epochs(message),
        mail=field_checks.mail(message),
    )


def _check_outputs(message: pb.JobSpec) -> None:
    for path in (message.stdout_path, message.stderr_path):
        unknown = unknown_pattern(path)
        if unknown:
            known = ", ".join(f"%{letter}" for letter in PATTERNS)
            raise InvalidRequestError(
                f"output {shown_text(path)[:80]!r} has the unknown pattern {unknown}; use {known}"
            )


def _check_map(
    message: pb.JobSpec, mode: ResizeMode, kind: JobKind, unit: SizeUnit, tasks: int
) -> None:
    """Raise InvalidRequestError for options that a job with a processor map cannot have."""
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
    """Return the core sharing of a job. Raises InvalidRequestError if the job cannot share so."""
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
    """Return the spread of the units. Raises InvalidRequestError if it does not fit the job."""
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
    """Return the job's time limit, or else the site's. A longer estimate is refused."""
    limit_ns = message.limit_ns or limits.default_ns or limits.max_ns
    whose = "its time limit" if message.limit_ns else "the default time limit of this queue or site"
    if limits.max_ns and limit_ns > limits.max_ns:
        raise InvalidRequestError(
            f"time limit of {limit_ns / 1e9:g} s is above {limits.max_ns / 1e9:g} s, the "
            "maximum of this site"
        )
    if limit_ns and message.time_ns > limit_ns:
        raise InvalidRequestError(
            f"estimated run time of {message.time_ns / 1e9:g} s is above {whose} of "
            f"{limit_ns / 1e9:g} s, at which it would be ended; give a longer time limit (--time)"
        )
    return limit_ns


def _restartable(message: pb.JobSpec) -> bool:
    asked = (message.snapshot_dir, message.snapshot_signal, message.snapshot_grace_ns)
    able = message.restartable or message.preemptable or message.requeue_max > 0
    able = able or message.epochs > 0
    return able or any(asked)


def requeue_event(request: pb.RequeueRequest) -> ev.JobRequeueRequested:
    """Return the event of a requeue request. Raises InvalidRequestError."""
    if len(request.reason) > MODE_SOURCE_MAX or not request.reason.isprintable():
        raise InvalidRequestError(
            f"reason {request.reason[:40]!r}: at most {MODE_SOURCE_MAX} printable characters"
        )
    return ev.JobRequeueRequested(
        job_id=JobId(request.job_id),
        signal=field_checks.end_signal(request.signal),
        grace_ns=field_checks.end_grace_ns(request.grace_ns),
        hold=request.hold,
        reason=request.reason,
    )


def fingerprint(request: pb.SubmitRequest) -> str:
    """Return a digest of a submission, so that a key cannot be reused for another command.

    It omits fields that differ between shells and fields for people only. The environment must not
    be part of any digest.
    """
    stated = pb.JobSpec()
    stated.CopyFrom(request.spec)
    for name in ("env", "umask", "resource_limits", "mode_source"):
        stated.ClearField(name)
    # Digests of submissions without conditions are those of earlier versions.
    rest = pb.SubmitRequest(after=request.after, begin_at_s=request.begin_at_s, array=request.array)
    text = stated.SerializeToString(deterministic=True) + rest.SerializeToString(deterministic=True)
    return hashlib.sha256(text).hexdigest()[:32]
