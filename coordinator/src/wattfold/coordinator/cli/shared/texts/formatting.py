"""Text for numbers and states, short enough for a column of a table."""

from __future__ import annotations

from collections.abc import Iterable

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.local_time import local
from wattfold.contract.units import NS_PER_S, w_from_uw
from wattfold.coordinator.cli.shared.texts.tables import Styled
from wattfold.v1 import common_pb2 as common
from wattfold.v1 import coordinator_pb2 as pb

NONE = "-"

JOB_STYLES = {
    pb.JOB_STATE_HELD: "magenta",
    pb.JOB_STATE_PENDING: "yellow",
    pb.JOB_STATE_STARTING: "cyan",
    pb.JOB_STATE_RUNNING: "green",
    pb.JOB_STATE_SUSPENDED: "magenta",
    pb.JOB_STATE_ENDING: "cyan",
    pb.JOB_STATE_COMPLETED: "dim",
    pb.JOB_STATE_FAILED: "red",
    pb.JOB_STATE_CANCELLED: "dim",
    pb.JOB_STATE_LOST: "red",
    pb.JOB_STATE_TIMED_OUT: "red",
}
NODE_STYLES = {
    pb.NODE_STATE_CONNECTING: "yellow",
    pb.NODE_STATE_UP: "green",
    pb.NODE_STATE_SILENT: "yellow",
    pb.NODE_STATE_DOWN: "red",
    pb.NODE_STATE_REFUSED: "red",
}
ENDED_STATES = frozenset(
    {
        pb.JOB_STATE_COMPLETED,
        pb.JOB_STATE_FAILED,
        pb.JOB_STATE_CANCELLED,
        pb.JOB_STATE_LOST,
        pb.JOB_STATE_TIMED_OUT,
    }
)


def enum_word(name: str, prefix: str) -> str:
    """Return `JOB_STATE_RUNNING` as `running`; the unspecified value as `unknown`."""
    word = name.removeprefix(prefix).lower().replace("_", "-")
    return "unknown" if word == "unspecified" else word


def job_state(state: pb.JobState) -> str:
    """Return the state of a job in one word."""
    if state not in pb.JobState.values():
        return f"state-{int(state)}"
    return enum_word(pb.JobState.Name(state), "JOB_STATE_")


def styled_job_state(state: pb.JobState) -> Styled:
    """Return `job_state` in its color."""
    return Styled(job_state(state), style=JOB_STYLES.get(state, ""))


def node_state(state: pb.NodeState) -> str:
    """Return the state of a node in one word."""
    if state not in pb.NodeState.values():
        return f"state-{int(state)}"
    return enum_word(pb.NodeState.Name(state), "NODE_STATE_")


def shared(sharing: pb.CoreSharing) -> str:
    """Return the core sharing of a job, if it is set."""
    if not sharing or sharing not in pb.CoreSharing.values():
        return NONE
    return enum_word(pb.CoreSharing.Name(sharing), "CORE_SHARING_")


_FORGOTTEN = {pb.NODE_DUTY_UNPOWERED: "no power", pb.NODE_DUTY_OUTSIDE: "outside budget"}


def serves(node: pb.Node) -> bool:
    """Whether a node is in service, without an order of an operator against jobs."""
    return node.duty in (pb.NODE_DUTY_UNSPECIFIED, pb.NODE_DUTY_SERVING)


def node_duty(node: pb.Node) -> str:
    """Return the administrative state of a node, in a word or two."""
    if serves(node):
        return "in service"
    if node.duty == pb.NODE_DUTY_DRAINING and not (node.job_ids or node.resident_job_ids):
        return "drained"
    if node.duty in _FORGOTTEN:
        return f"forgotten ({_FORGOTTEN[node.duty]})"
    if node.duty not in pb.NodeDuty.values():
        return f"duty-{int(node.duty)}"
    return enum_word(pb.NodeDuty.Name(node.duty), "NODE_DUTY_")


def node_power(node: pb.Node) -> str:
    """Return the power state of a node in words; empty if it is awake."""
    if node.power_state in (pb.NODE_POWER_STATE_UNSPECIFIED, pb.NODE_POWER_STATE_AWAKE):
        return ""
    if node.power_state not in pb.NodePowerState.values():
        return f"power-{int(node.power_state)}"
    return enum_word(pb.NodePowerState.Name(node.power_state), "NODE_POWER_STATE_")


def power_notes(node: pb.Node) -> list[str]:
    """Return why a node sleeps or stays awake, what its change waits for, and when it is up."""
    notes = [text for text in (node.power_reason, node.power_waits_for) if text]
    if node.up_expected_s:
        notes.append(f"up about {clock(node.up_expected_s)}")
    return notes


def power_brief(node: pb.Node, now_s: float) -> str:
    """Return for which job a node wakes and when it is up, or why it sleeps, for a narrow column.

    Empty if the node is awake.
    """
    if not node_power(node):
        return ""
    parts = []
    if jobs := list(node.awaited_by_job_ids):
        parts.append(f"for job {jobs[0]}" + (f" and {len(jobs) - 1} more" if jobs[1:] else ""))
    if node.up_expected_s:
        left_s = node.up_expected_s - now_s
        parts.append(f"up in {duration(left_s)}" if left_s > 0 else "up soon")
    return ", ".join(parts) or node.power_reason


def node_status(node: pb.Node) -> str:
    """Return the state of a node for a column: its duty if an operator has set it."""
    if word := node_power(node):
        return word
    if serves(node):
        return "closed" if _cannot_start(node) else node_state(node.state)
    duty = "forgotten" if node.duty in _FORGOTTEN else node_duty(node)
    away = node.state in (pb.NODE_STATE_SILENT, pb.NODE_STATE_DOWN)
    return f"{duty} {node_state(node.state)}" if away and duty != "forgotten" else duty


def _cannot_start(node: pb.Node) -> bool:
    return bool(node.launch_fault) and node.state == pb.NODE_STATE_UP


def styled_node_status(node: pb.Node) -> Styled:
    """Return `node_status` in its color; orders of operators stand out."""
    served = serves(node)
    style = NODE_STYLES.get(node.state, "") if served and not _cannot_start(node) else "magenta"
    return Styled(node_status(node), style=style)


def job_kind(kind: pb.JobKind) -> str:
    """Return the kind of a job in one word."""
    if kind not in pb.JobKind.values():
        return f"kind-{int(kind)}"
    return enum_word(pb.JobKind.Name(kind), "JOB_KIND_")


def resize_way(mode: common.ResizeMode) -> str:
    """Return how jobs of a mode change their size, as the value of `--resize`."""
    if mode == common.RESIZE_MODE_MASK:
        return "cores"
    if mode not in common.ResizeMode.values():
        return "unknown"
    return enum_word(common.ResizeMode.Name(mode), "RESIZE_MODE_")


def short_time(time_ns: int) -> str:
    """Return a time that may be far below a second: `0`, `31 ms`, `4.20 s`, then as `duration`."""
    if time_ns < NS_PER_S:
        return f"{time_ns / 1e6:.3g} ms" if time_ns else "0"
    return f"{time_ns / 1e9:.2f} s" if time_ns < 60 * NS_PER_S else duration(time_ns / 1e9)


def watts(power_uw: int, places: int = 1) -> str:
    """Return watts without the unit, `-` for zero."""
    return f"{w_from_uw(power_uw):.{places}f}" if power_uw else NONE


def power(power_uw: int) -> str:
    """Return watts or kilowatts with the unit, zero included."""
    value_w = w_from_uw(power_uw)
    return f"{value_w / 1000:.2f} kW" if abs(value_w) >= 100_000 else f"{value_w:.1f} W"


def energy(energy_uj: int) -> str:
    """Return joules, kilojoules or megajoules."""
    joules = energy_uj / 1e6
    if joules >= 1e6:
        return f"{joules / 1e6:.2f} MJ"
    return f"{joules / 1e3:.2f} kJ" if joules >= 1e3 else f"{joules:.1f} J"


def memory(size_bytes: int) -> str:
    """Return memory in the most readable unit."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes / 1024:.0f} KiB" if size_bytes else NONE


def duration(seconds: float) -> str:
    """Return at most six characters up to 99 days: `0.4s`, `42s`, `3m05s`, `2h04m`, `5d07h`."""
    if seconds < 0:
        return NONE
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    minutes = whole // 60
    if minutes < 24 * 60:
        return f"{minutes // 60}h{minutes % 60:02d}m"
    return f"{minutes // 1440}d{minutes // 60 % 24:02d}h"


def clock(time_s: float) -> str:
    """Return the local time of day with its UTC offset. ``time_s``: Unix seconds, 0 = none."""
    return local(time_s).timetz().isoformat("seconds") if time_s else NONE


def percent(share: float) -> str:
    """Return a fraction in percent, without decimals and within 0..100."""
    return f"{min(max(share, 0.0), 1.0) * 100:.0f}%"


def cores(count: int) -> str:
    """Return a number of cores with its noun."""
    return f"{count} core" if count == 1 else f"{count} cores"


def cpu_count(cpus: str) -> int:
    """Return the number of CPUs in a list, or zero for an invalid list."""
    try:
        return len(CpuSet.parse(cpus))
    except ValueError:
        return 0


def counts(words: Iterable[tuple[str, int]]) -> str:
    """Return numbers of entries by state, such as `12 running, 3 held`."""
    return ", ".join(f"{count} {word}" for word, count in words)


def size_unit(unit: pb.SizeUnit) -> str:
    """Return the unit of a size in one word; empty if it is not set."""
    known = unit and unit in pb.SizeUnit.values()
    return enum_word(pb.SizeUnit.Name(unit), "SIZE_UNIT_") if known else ""


def size(job: pb.Job) -> str:
    """Return current size and range, `2/1-4`; `n` marks whole nodes, `x8` units of 8 cores."""
    spec = job.spec
    least, greatest = spec.size_min, spec.size_max or spec.size_min
    asked = f"{least}" if greatest == least else f"{least}-{greatest}"
    unit = {pb.SIZE_UNIT_NODES: "n", pb.SIZE_UNIT_UNITS: f"x{spec.unit_cores}"}.get(spec.unit, "")
    if not job.size:
        return asked + unit
    return f"{job.size}/{asked}{unit}" if asked != str(job.size) else f"{job.size}{unit}"


def levels(job: pb.Job) -> str:
    """Return the DRAM and GPU caps of a job, each after a comma; empty if it has none."""
    dram = f", DRAM {power(job.dram_cap_uw)}" if job.dram_cap_uw else ""
    return dram + (f", GPU {power(job.gpu_cap_uw)}" if job.gpu_cap_uw else "")


def where(job: pb.Job) -> str:
    """Return `node:cpus` of every share."""
    return " ".join(
        f"{share.node_id}:{'residual' if share.resident else share.cpus}" for share in job.shares
    )
