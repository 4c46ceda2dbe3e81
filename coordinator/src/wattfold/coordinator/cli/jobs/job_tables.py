"""Jobs as rows and as a sheet of fields."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from datetime import datetime

from rich.table import Table
from rich.text import Text

from wattfold.contract.units import s_from_ns
from wattfold.coordinator.cli.jobs.map_fields import brief, sheet_fields
from wattfold.coordinator.cli.shared import formatting as f
from wattfold.coordinator.cli.shared.tables import (
    add_row,
    field_table,
    flexible,
    left,
    plain_table,
    right,
)
from wattfold.v1 import common_pb2 as common
from wattfold.v1 import coordinator_pb2 as pb

RESIDUAL_ROWS_MAX = 16


def queue_table(
    jobs: Iterable[pb.Job],
    now_s: float,
    marks: Mapping[str, Text] | None = None,
    narrow: bool = False,
) -> Table:
    """One row a job: what it holds, how far it is, why it waits.

    Marks lead the rows by job id. A narrow table has neither the cap nor what is left.
    """
    table = plain_table(
        *([left("")] if marks is not None else []),
        left("ID"),
        flexible("NAME"),
        left("STATE"),
        right("SIZE"),
        *([] if narrow else [right("CAP W")]),
        right("TIME"),
        right("DONE"),
        *([] if narrow else [right("LEFT")]),
        flexible("WHERE (REASON)"),
    )
    for job in jobs:
        add_row(
            table,
            *([marks.get(job.job_id, Text())] if marks is not None else []),
            numbered(job),
            job.spec.name or job.spec.app or f.NONE,
            f.styled_job_state(job.state),
            f.size(job),
            *([] if narrow else [f.watts(job.cap_uw)]),
            f.duration(elapsed_s(job, now_s)),
            done(job),
            *([] if narrow else [left_s(job)]),
            where_or_reason(job),
        )
    return table


def numbered(job: pb.Job) -> str:
    """Its number, and from its second attempt on the number of that."""
    return f"{job.job_id}#{job.attempt}" if job.attempt > 1 else job.job_id


def elapsed_s(job: pb.Job, now_s: float) -> float:
    """How long it has run or ran; how long it has waited while it has not started."""
    start = job.started_at_s or job.submitted_at_s
    return max(0.0, (job.ended_at_s or now_s) - start)


def done(job: pb.Job) -> str:
    """The share done, from the job's own report if it makes one, else from the model."""
    if not job.started_at_s:
        return f.NONE
    if job.progress.total > 0:
        return f.percent(job.progress.done / job.progress.total)
    return f.percent(job.done) if job.done > 0 else f.NONE


def left_s(job: pb.Job) -> str:
    """The estimate of what remains, or by how much that was too short."""
    if job.over_s > 0:
        return f"over {f.duration(job.over_s)}"
    running = job.state in (pb.JOB_STATE_STARTING, pb.JOB_STATE_RUNNING)
    return f.duration(job.remaining_s) if running and job.remaining_s > 0 else f.NONE


def where_or_reason(job: pb.Job) -> str:
    """Nodes and CPUs of a job that holds some, in brackets what its program says of itself.

    Of another one, in brackets, why it holds none.
    """
    if job.shares and not (job.state in f.ENDED_STATES and ending(job)):
        wish = f"asks for {job.cores_wanted}" if job.cores_wanted else ""
        said = ", ".join(filter(None, [job.phase, wish]))
        where = f"{f.where(job)} ({said})" if said else f.where(job)
        return ", ".join(filter(None, [where, brief(job), note(job)]))
    text = ending(job) if job.state in f.ENDED_STATES else job.reason
    return f"({text})" if text else ""


def note(job: pb.Job) -> str:
    """What its nodes tell of a job that has not ended."""
    return "" if job.state in f.ENDED_STATES else job.message


def ending(job: pb.Job) -> str:
    """How it ended, in a few words."""
    if job.message:
        return job.message
    if job.state in (pb.JOB_STATE_COMPLETED, pb.JOB_STATE_FAILED):
        return f"exit code {job.exit_code}"
    return ""


def job_sheet(job: pb.Job, now_s: float) -> Table:
    """Everything worth knowing about one job."""
    spec = job.spec
    fields: list[tuple[str, str | Text]] = [
        ("job", job.job_id),
        ("name", spec.name or f.NONE),
        ("application", spec.app or f.NONE),
        ("state", f.styled_job_state(job.state)),
        ("command", shlex.join(spec.argv)),
        ("directory", spec.cwd),
        ("output", spec.stdout_path or f"wattfold-{job.job_id}.out"),
        ("errors", spec.stderr_path or f"wattfold-{job.job_id}.err"),
        ("kind", _kind(spec)),
        ("mode from", spec.mode_source or f.NONE),
        (
            "size",
            f"{f.size(job)} {_unit(spec)}{', exclusive' if spec.exclusive else ''}"
            f"{', own launcher' if spec.own_launcher else ''}",
        ),
        ("cap", _cap(job)),
        *_attempt_fields(job),
        ("submitted", _when(job.submitted_at_s)),
        ("started", _when(job.started_at_s)),
        ("ended", _when(job.ended_at_s)),
        ("run time", f.duration(elapsed_s(job, now_s)) if job.started_at_s else f.NONE),
        ("time asked", f.duration(s_from_ns(spec.time_ns)) if spec.time_ns else f.NONE),
        ("time limit", f.duration(s_from_ns(spec.limit_ns)) if spec.limit_ns else f.NONE),
        ("priority", f"{spec.priority:g}"),
        ("done", done(job)),
        ("phase", job.phase or f.NONE),
        ("cores asked", f"{job.cores_wanted}" if job.cores_wanted else f.NONE),
        ("remaining", left_s(job)),
        ("energy", _energy(job)),
        ("CPU time", f.duration(s_from_ns(job.cpu_ns))),
        ("cores x time", f.duration(s_from_ns(job.core_ns)) if job.core_ns else f.NONE),
        ("off its cores", _residual(job)),
        ("resizes", f"{job.resizes}{' (confined by its mask)' if job.confined else ''}"),
        ("threads", str(job.team_size or f.NONE)),
        *([("shims", f"some may be kept out: {job.shim_message}")] if job.shim_message else []),
        *_process_fields(job),
        *sheet_fields(job),
    ]
    fields += [("on", f"{share.node_id} CPUs {share.cpus}") for share in job.shares]
    if job.state in f.ENDED_STATES:
        fields.append(("ending", ending(job) or f.NONE))
    elif job.reason:
        fields.append(("waits for", job.reason))
    if note(job):
        fields.append(("note", note(job)))
    return field_table(fields)


def _attempt_fields(job: pb.Job) -> list[tuple[str, str | Text]]:
    """Of a job that was started more than once, or that may be."""
    found: list[tuple[str, str | Text]] = []
    if job.spec.restartable:
        more = f", {job.spec.requeue_max} more after lost nodes" if job.spec.requeue_max else ""
        found.append(("attempt", f"{job.attempt}{more}"))
    for before in job.attempts:
        where = ", ".join(before.node_ids)
        used = f"{_when(before.started_at_s)} to {_when(before.ended_at_s)} on {where}"
        found.append((f"attempt {before.number}", f"{used}: {before.why}"))
    if job.suspended_s:
        found.append(("suspended", f.duration(job.suspended_s)))
    return found


def _energy(job: pb.Job) -> str:
    idle = f" and {f.energy(job.idle_energy_uj)} idle share" if job.idle_energy_uj else ""
    return f.energy(job.energy_uj) + idle


def _residual(job: pb.Job) -> str | Text:
    text = f.duration(s_from_ns(job.residual_cpu_ns))
    load = sum(core.load for core in job.residual)
    if load:
        text += f", {load:.2f} cores of late"
    return Text(f"{text} (above the threshold)", style="red") if job.residual_alarm else text


def _process_fields(job: pb.Job) -> list[tuple[str, str | Text]]:
    """What is measured of the processes of a running job."""
    if not job.threads:
        return []
    found: list[tuple[str, str | Text]] = [
        (
            "OS threads",
            f"{job.threads}, {job.runnable_threads} runnable;"
            f" {f.duration(s_from_ns(job.excess_runnable_ns))} waited for cores",
        ),
        ("memory", f"{f.memory(job.memory_bytes)}, at most {f.memory(job.memory_bytes_max)}"),
        (
            "switches",
            f"{job.voluntary_switches} voluntary, {job.involuntary_switches} involuntary",
        ),
    ]
    for core in job.residual[:RESIDUAL_ROWS_MAX]:
        spent = f.duration(s_from_ns(core.cpu_ns))
        load = f", {core.load:.2f} cores of late" if core.load else ""
        found.append(("left on", f"{core.node_id} CPU {core.cpu}: {spent}{load}"))
    more = len(job.residual) - RESIDUAL_ROWS_MAX
    return [*found, ("left on", f"{more} more CPUs")] if more > 0 else found


def _kind(spec: pb.JobSpec) -> str:
    if spec.mode not in common.ResizeMode.values():
        return f.job_kind(spec.kind)
    mode = f.enum_word(common.ResizeMode.Name(spec.mode), "RESIZE_MODE_")
    return (
        f"{f.job_kind(spec.kind)}, resized by {mode}"
        if mode != "fixed"
        else (f"{f.job_kind(spec.kind)}, never resized")
    )


def _unit(spec: pb.JobSpec) -> str:
    one = max(spec.size_min, spec.size_max) == 1
    word = "node" if spec.unit == pb.SIZE_UNIT_NODES else "core"
    return word if one else f"{word}s"


def _cap(job: pb.Job) -> str:
    if job.spec.cap_uw:
        return f"{f.power(job.spec.cap_uw)} a node, fixed"
    return f"{f.power(job.cap_uw)} a node" if job.cap_uw else f.NONE


def _when(time_s: float) -> str:
    if not time_s:
        return f.NONE
    return datetime.fromtimestamp(time_s).astimezone().strftime("%Y-%m-%d %H:%M:%S")
