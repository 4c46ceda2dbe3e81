"""Checks submissions and budgets where they come in: every refusal says value, limit and unit."""

from __future__ import annotations

import hashlib
import math
import os
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wattfold.contract.ids import JobId, NodeId, valid_name
from wattfold.contract.soft_limits import UMASK_DEFAULT, SoftLimit, refusal
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.launch_data import LaunchData
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core.amounts import gpus_text, memory_text
from wattfold.coordinator.core.attempt import ATTEMPTS_MAX
from wattfold.coordinator.core.charge import cores_uw, dram_range_uw, dram_zones, gpu_zones
from wattfold.coordinator.core.job import CoreSharing, JobKind, JobSpec, ResizeMode, SizeUnit
from wattfold.coordinator.core.levels import PLAIN, Levels
from wattfold.coordinator.core.node import NodeSpec
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

ARGV_MAX = 4096
ENV_BYTES_MAX = 1 << 20
PRIORITY_MAX = 1000.0
MODE_SOURCE_MAX = 400
FEATURES_MAX = 32
PATH_MAX = 4096
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
}
MODES = {
    common_pb2.RESIZE_MODE_UNSPECIFIED: ResizeMode.MASK,
    common_pb2.RESIZE_MODE_FIXED: ResizeMode.FIXED,
    common_pb2.RESIZE_MODE_MASK: ResizeMode.MASK,
    common_pb2.RESIZE_MODE_TEAM: ResizeMode.TEAM,
    common_pb2.RESIZE_MODE_MAP: ResizeMode.MAP,
    common_pb2.RESIZE_MODE_RESTART: ResizeMode.RESTART,
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
        raise InvalidRequestError(f"environment of {env_bytes} bytes, limit {ENV_BYTES_MAX} bytes")
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
        raise InvalidRequestError(f"{len(argv)} arguments, at most {ARGV_MAX} are taken")
    base = os.path.basename(argv[0])
    name = message.name or base
    app = message.app or base
    if not valid_name(app):
        raise InvalidRequestError(f"application name {app!r}: use 1-63 of A-Z a-z 0-9 . _ -")
    if len(name) > 100 or not name.isprintable():
        raise InvalidRequestError(f"job name {name[:40]!r}: at most 100 printable characters")
    low, high = message.size_min or 1, message.size_max or message.size_min or 1
    if high < low:
        raise InvalidRequestError(f"size {low}-{high}: the least size is above the greatest")
    kind = KINDS.get(message.kind)
    if kind is None or message.unit not in UNITS or message.mode not in MODES:
        raise InvalidRequestError("kind, size unit or resize mode is of a newer version")
    if kind is JobKind.RIGID and low != high:
        raise InvalidRequestError(f"a rigid job has one size, not {low}-{high}")
    unit = UNITS[message.unit]
    tasks = message.tasks_per_node or 1
    if unit is SizeUnit.CORES and low < tasks:
        raise InvalidRequestError(
            f"{tasks} tasks on a node need a core each; the least size is {low}"
        )
    mode = MODES[message.mode]
    if mode is ResizeMode.MAP and (unit is not SizeUnit.CORES or tasks > 1):
        raise InvalidRequestError("mode map is for jobs on cores of one node, without tasks")
    if mode is ResizeMode.RESTART and not kind.resized:
        raise InvalidRequestError(
            f"a {kind.value} job keeps its size: mode restart is for malleable jobs, give a range "
            "of sizes such as --nodes 1-4"
        )
    sharing = _sharing(message, kind, mode)
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
        tasks_per_node=tasks,
        own_launcher=message.own_launcher,
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
        preemptable=message.preemptable,
        levels=_levels(message),
        sharing=sharing,
    )


def _levels(message: pb.JobSpec) -> Levels:
    if message.gpu_cap_uw and not message.gpus:
        raise InvalidRequestError(
            f"a GPU cap of {message.gpu_cap_uw / 1e6:.3f} W is for jobs with GPUs of their own: "
            "ask for --gpus"
        )
    if not (message.dram_cap_uw or message.gpu_cap_uw):
        return PLAIN
    return Levels(dram_uw=message.dram_cap_uw, gpu_uw=message.gpu_cap_uw)


def _sharing(message: pb.JobSpec, kind: JobKind, mode: ResizeMode) -> CoreSharing:
    """What it says of sharing. Raises InvalidRequestError where it cannot do what it says."""
    found = SHARINGS.get(message.sharing)
    if found is None:
        raise InvalidRequestError("what it says of sharing cores is of a newer version")
    if message.exclusive and (found.lends or found.borrows):
        raise InvalidRequestError("an exclusive job shares its nodes with nobody")
    if found.borrows and kind is JobKind.RIGID:
        raise InvalidRequestError(
            "a rigid job has all cores it asks for: to borrow it must be moldable or malleable"
        )
    if found.lends and not kind.resized:
        raise InvalidRequestError(
            f"a {kind.value} job keeps its cores while it runs: to lend it must be malleable"
        )
    if found.lends and mode in (ResizeMode.FIXED, ResizeMode.RESTART):
        raise InvalidRequestError(
            f"in mode {mode.value} a job keeps its cores while it runs: to lend it needs mode "
            "mask or team"
        )
    return found


def _limit_ns(message: pb.JobSpec, limits: TimeLimits) -> int:
    """Its own time limit, else the site's. An estimate beyond it would end the job half done."""
    limit_ns = message.limit_ns or limits.default_ns or limits.max_ns
    whose = "its time limit" if message.limit_ns else "the default time limit of this site"
    if limits.max_ns and limit_ns > limits.max_ns:
        raise InvalidRequestError(
            f"time limit of {limit_ns / 1e9:g} s is above {limits.max_ns / 1e9:g} s, the greatest "
            "of this site"
        )
    if limit_ns and message.time_ns > limit_ns:
        raise InvalidRequestError(
            f"estimated to run {message.time_ns / 1e9:g} s, which is above {whose} of "
            f"{limit_ns / 1e9:g} s: give a greater --limit"
        )
    return limit_ns


def _restartable(message: pb.JobSpec) -> bool:
    asked = (message.snapshot_dir, message.snapshot_signal, message.snapshot_grace_ns)
    able = message.restartable or message.preemptable or message.requeue_max > 0
    return able or any(asked)


def _requeue_max(message: pb.JobSpec) -> int:
    if message.requeue_max >= ATTEMPTS_MAX:
        raise InvalidRequestError(
            f"{message.requeue_max} further attempts; at most {ATTEMPTS_MAX - 1} are made"
        )
    return message.requeue_max


def _snapshot_dir(text: str) -> str:
    if len(text) > PATH_MAX or "\0" in text:
        raise InvalidRequestError(
            f"snapshot folder {text[:40]!r}: at most {PATH_MAX} characters, none of them NUL"
        )
    return text


def _end_signal(number: int) -> int:
    """The signal a job gets before it is ended; 0 = SIGTERM. Raises InvalidRequestError."""
    if number in (signal.SIGKILL, signal.SIGSTOP) or not 0 <= number < signal.NSIG:
        raise InvalidRequestError(
            f"signal {number} cannot tell a job to write a snapshot: use 1..{signal.NSIG - 1}, "
            "but for SIGKILL and SIGSTOP"
        )
    return number


def _end_grace_ns(grace_ns: int) -> int:
    """How long a job gets before it is ended; 0 = the usual. Raises InvalidRequestError."""
    if grace_ns > GRACE_NS_MAX:
        raise InvalidRequestError(
            f"grace time of {grace_ns / 1e9:g} s is above {GRACE_NS_MAX / 1e9:g} s"
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
        raise InvalidRequestError(f"{len(names)} features, at most {FEATURES_MAX} are taken")
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
        raise InvalidRequestError(f"it was due {late_s:.0f} s ago: give a time to come")
    return clock.time_ns(message.due_at_s)


def check_possible(
    spec: JobSpec,
    nodes: Iterable[NodeSpec],
    spendable_uw: int,
    features: Mapping[NodeId, tuple[str, ...]] | None = None,
    dram_cap_uw: int = 0,
) -> None:
    """Refuses what no node heard of could ever hold. Without nodes, everything may become true.

    ``features`` are all of each node; left out, those that its agent tells.
    ``spendable_uw`` is the power above the floors that the budget leaves to all jobs together.
    ``dram_cap_uw`` is the standing cap of DRAM zones, as in `CoreSettings`.
    """
    known = list(nodes)
    if not known:
        return
    if spec.unit is SizeUnit.NODES:
        if spec.size_min > len(known):
            raise InvalidRequestError(f"asks for {spec.size_min} nodes, there are {len(known)}")
    else:
        best = max(known, key=lambda node: len(node.cpus))
        if spec.size_min > len(best.cpus):
            raise InvalidRequestError(
                f"asks for {spec.size_min} cores of one node; the largest node, {best.node_id}, "
                f"has {len(best.cpus)}",
            )
    if spec.requests:
        known = _with_requests(spec, known, features)
    if spec.levels:
        _check_levels(spec.levels, known)
    if spec.cap_uw:
        _check_cap(spec.cap_uw, known)
    if spec.cap_uw or spec.levels:
        _check_power(spec, known, spendable_uw, dram_cap_uw)


def _with_requests(
    spec: JobSpec, nodes: list[NodeSpec], features: Mapping[NodeId, tuple[str, ...]] | None
) -> list[NodeSpec]:
    """The nodes that have what a job asks for beside cores. Refuses where there are too few."""
    strange = [name for name in spec.among if name not in (features or {n.node_id for n in nodes})]
    if strange:
        raise InvalidRequestError(f"there is no node {strange[0]!r}")
    able = [node for node in nodes if not spec.among or node.node_id in spec.among]
    if not able:
        return nodes  # Of those that it names nothing is known yet.
    for name in spec.features:
        able = [
            n for n in able if name in (n.features if features is None else features[n.node_id])
        ]
        if not able:
            raise InvalidRequestError(f"no node has the feature {name!r}{_beside(spec, name)}")
    wanted = spec.node_amounts
    most_bytes = max(node.memory_bytes for node in able)
    if wanted.memory_bytes > most_bytes:
        raise InvalidRequestError(
            f"asks for {memory_text(wanted.memory_bytes)} of memory on a node; the most that one "
            f"has is {memory_text(most_bytes)}"
        )
    most = max(len(node.gpus) for node in able)
    if wanted.gpus > most:
        raise InvalidRequestError(
            f"asks for {gpus_text(wanted.gpus)} on a node; the most that one has is {most}"
        )
    able = [node for node in able if wanted <= node.capacity]
    needed = spec.size_min if spec.unit is SizeUnit.NODES else 1
    if len(able) < needed:
        named = " among those it names" if spec.among else ""
        raise InvalidRequestError(
            f"asks for {needed} {'nodes' if needed > 1 else 'node'}{named} with "
            f"{memory_text(wanted.memory_bytes)} of memory and {gpus_text(wanted.gpus)} each; "
            f"there are {len(able)}"
        )
    if spec.unit is SizeUnit.CORES and spec.size_min > max(len(node.cpus) for node in able):
        raise InvalidRequestError(
            f"asks for {spec.size_min} cores of one node; of those with what else it asks for the "
            f"largest has {max(len(node.cpus) for node in able)}"
        )
    return able


def _beside(spec: JobSpec, name: str) -> str:
    others = [other for other in spec.features if other != name]
    return f" beside {', '.join(others)}" if others else ""


def _check_cap(cap_uw: int, nodes: list[NodeSpec]) -> None:
    low = min(node.package_floor_uw for node in nodes)
    high = max(node.package_max_uw for node in nodes)
    if not low <= cap_uw <= high:
        raise InvalidRequestError(
            f"cap of {cap_uw / 1e6:.3f} W per node is outside the range of the nodes, "
            f"{low / 1e6:.3f}..{high / 1e6:.3f} W",
        )


def _check_levels(levels: Levels, nodes: list[NodeSpec]) -> None:
    """Levels of other zones must be within what one of the nodes, or of their GPUs, can hold."""
    if levels.dram_uw:
        ranges = [dram_range_uw(node) for node in nodes if dram_zones(node)]
        if not ranges:
            raise InvalidRequestError(
                f"a DRAM cap of {levels.dram_uw / 1e6:.3f} W: no node has DRAM that can be capped"
            )
        _check_range("DRAM cap", "per node", levels.dram_uw, ranges)
    if levels.gpu_uw:
        ranges = [
            (zone.floor_uw, zone.cap_uw_max)
            for node in nodes
            for zone in gpu_zones(node, node.gpus)
        ]
        if not ranges:
            raise InvalidRequestError(
                f"a GPU cap of {levels.gpu_uw / 1e6:.3f} W: no node has GPUs that can be capped"
            )
        _check_range("GPU cap", "per GPU", levels.gpu_uw, ranges)


def _check_range(what: str, each: str, asked_uw: int, ranges: list[tuple[int, int]]) -> None:
    low_uw, high_uw = min(low for low, _ in ranges), max(high for _, high in ranges)
    if not low_uw <= asked_uw <= high_uw:
        raise InvalidRequestError(
            f"{what} of {asked_uw / 1e6:.3f} W {each} is outside what there is, "
            f"{low_uw / 1e6:.3f}..{high_uw / 1e6:.3f} W"
        )


def _check_power(spec: JobSpec, nodes: list[NodeSpec], spendable_uw: int, dram_cap_uw: int) -> None:
    """A job with caps of its own must fit the budget when it is alone; packages without one count
    at their floors."""

    def takes_uw(node: NodeSpec, cores: int) -> int:
        return cores_uw(node, cores, spec.cap_uw, spec.levels, dram_cap_uw)

    if spec.unit is SizeUnit.NODES:
        each = sorted(takes_uw(node, len(node.cpus)) for node in nodes)
        needed_uw = sum(each[: spec.size_min])
    else:
        large = [node for node in nodes if len(node.cpus) >= spec.size_min]
        needed_uw = min(takes_uw(node, spec.size_min) for node in large)
    if needed_uw > spendable_uw:
        asked = [f"{spec.cap_uw / 1e6:.3f} W per node"] if spec.cap_uw else []
        asked += [f"{spec.levels.dram_uw / 1e6:.3f} W of DRAM"] if spec.levels.dram_uw else []
        raise InvalidRequestError(
            f"{spec.size_min} {spec.unit.value} at {' and '.join(asked)} need "
            f"{needed_uw / 1e6:.3f} W above idle; the budget leaves {spendable_uw / 1e6:.3f} W for "
            "jobs: ask for a lower cap or fewer",
        )
