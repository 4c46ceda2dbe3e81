"""Details of one job as a table of fields."""

from __future__ import annotations

import shlex

from wattfold.contract.local_time import moment
from wattfold.contract.os_text import shown_text
from wattfold.contract.units import eur_text, ns_from_s, s_from_ns
from wattfold.coordinator.cli.jobs.lists.job_tables import (
    done,
    elapsed_s,
    ending,
    hidden,
    left_s,
    note,
    owner,
    start,
)
from wattfold.coordinator.cli.jobs.submission.map_fields import sheet_fields
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.tables import Cell, FieldTable, Styled, field_table
from wattfold.v1 import common_pb2 as common
from wattfold.v1 import coordinator_pb2 as pb

RESIDUAL_ROWS_MAX = 16

Fields = list[tuple[str, Cell]]


def job_sheet(job: pb.Job, now_s: float) -> FieldTable:
    """Return all visible fields of a job."""
    fields = _public_fields(job, now_s) if hidden(job) else _all_fields(job, now_s)
    fields += [_share(share) for share in job.shares]
    if job.state in f.ENDED_STATES:
        fields.append(("outcome", ending(job) or f.NONE))
    elif job.reason:
        fields.append(("reason", job.reason))
    if job.expected_start_at_s:
        told = "promised start" if job.start_promised else "expected start"
        fields.append((told, start(job, now_s)))
    if note(job):
        fields.append(("note", note(job)))
    return field_table(fields)


def _public_fields(job: pb.Job, now_s: float) -> Fields:
    spec = job.spec
    return [
        ("job", job.job_id),
        ("user", _user(job)),
        ("hidden", f"only {owner(job)} and operators see its command, name, files and usage"),
        ("state", f.styled_job_state(job.state)),
        ("kind", _kind(spec)),
        ("size", f"{f.size(job)} {_unit(spec)}{', exclusive' if spec.exclusive else ''}"),
        ("cap", _cap(job)),
        *_levels(job),
        *_times(job, now_s),
        ("priority", f"{spec.priority:g}"),
        ("done", done(job)),
        ("remaining", left_s(job)),
        ("resizes", str(job.resizes)),
    ]


def _command(job: pb.Job) -> list[tuple[str, Cell]]:
    """Return the command and its files. Only the coordinator's own jobs have them here."""
    spec = job.spec
    return [
        ("command", shlex.join(map(shown_text, spec.argv))),
        ("directory", shown_text(spec.cwd)),
        *_array_fields(job),
        ("output", shown_text(spec.stdout_path) or f"wattfold-{_output_id(job)}.out"),
        ("errors", shown_text(spec.stderr_path) or f"wattfold-{_output_id(job)}.err"),
    ]


def _array_fields(job: pb.Job) -> Fields:
    if not job.HasField("array"):
        return []
    array = job.array
    limit = f", at most {array.limit} at the same time" if array.limit else ""
    rows: Fields = [("array", f"{array.tasks} tasks{limit}: {array.indices}")]
    return rows + ([("not started", array.waiting)] if array.waiting else [])


def _output_id(job: pb.Job) -> str:
    return f"{job.job_id}_INDEX" if job.HasField("array") else job.job_id


def _mail(spec: pb.JobSpec) -> str:
    events = ", ".join(f.enum_word(pb.MailEvent.Name(event), "MAIL_EVENT_") for event in spec.mail)
    return f"{events}, to {spec.mail_to or 'the account of the job'}"


def _all_fields(job: pb.Job, now_s: float) -> Fields:
    spec = job.spec
    return [
        ("job", job.job_id),
        *([(f"job in {job.manager}", job.manager_job_id)] if job.manager else []),
        ("user", _user(job)),
        ("name", spec.name or f.NONE),
        ("application", spec.app or f.NONE),
        ("state", f.styled_job_state(job.state)),
        *([] if job.manager else _command(job)),
        ("kind", _kind(spec)),
        *([("shares cores", f.shared(spec.sharing))] if spec.sharing else []),
        ("mode source", spec.mode_source or f.NONE),
        (
            "size",
            f"{f.size(job)} {_unit(spec)}{', exclusive' if spec.exclusive else ''}"
            f"{', own launcher' if spec.own_launcher else ''}",
        ),
        ("cap", _cap(job)),
        *_levels(job),
        *([("predicted", f.power(spec.predicted_uw))] if spec.predicted_uw else []),
        *_attempt_fields(job),
        *_times(job, now_s),
        *_condition_fields(job),
        *([("queue", spec.queue)] if spec.queue else []),
        *([("account", spec.account)] if spec.account else []),
        *([("reservation", spec.reservation)] if spec.reservation else []),
        *([("mail", _mail(spec))] if spec.mail else []),
        *_requests(spec),
        *_due_fields(job),
        ("priority", f"{spec.priority:g}"),
        ("done", done(job)),
        *_epochs(job),
        ("phase", job.phase or f.NONE),
        ("requested cores", f"{job.cores_wanted}" if job.cores_wanted else f.NONE),
        ("remaining", left_s(job)),
        ("energy", _energy(job)),
        ("CPU time", f.duration(s_from_ns(job.cpu_ns))),
        ("core time", f.duration(s_from_ns(job.core_ns)) if job.core_ns else f.NONE),
        ("residual CPU time", _residual(job)),
        ("resizes", f"{job.resizes}{' (confined by its mask)' if job.confined else ''}"),
        *_lending_fields(job),
        *_speed_fields(job),
        ("threads", str(job.team_size or f.NONE)),
        *([("shims", f"some may be rejected: {job.shim_message}")] if job.shim_message else []),
        *_process_fields(job),
        *(_gpu(gpu) for gpu in job.gpus),
        *sheet_fields(job),
    ]


def _epochs(job: pb.Job) -> Fields:
    """Return the saved epochs of a training job."""
    if not job.spec.epochs:
        return []
    each = f", last epoch {job.epoch_s:.3g} s" if job.epoch_s else ""
    return [("epochs saved", f"{job.epochs_saved} of {job.spec.epochs}{each}")]


def _due_fields(job: pb.Job) -> Fields:
    """Return the expected end of an open job with a due date, and its costs."""
    if not job.HasField("due"):
        return []
    due = job.due
    late = f"{f.duration(due.late_s)} late" if due.late_s else "in time"
    earliest = "at the earliest, " if due.at_the_earliest else ""
    fields: Fields = [("expected end", f"{_when(due.expected_end_at_s)}, {earliest}{late}")]
    if due.has_costs:
        costs = f"{eur_text(due.so_far_eur)} so far, {eur_text(due.to_come_eur)} more expected"
        fields.append(("energy and tardiness", costs))
    return fields


def _lending_fields(job: pb.Job) -> Fields:
    """Return the cores that the job lends and borrows, with the slowdown of each lender."""
    found: Fields = []
    for one in job.lendings:
        lends = one.lender_job_id == job.job_id
        whom = f"to job {one.guest_job_id}" if lends else f"from job {one.lender_job_id}"
        cores = f"{one.cores} core{'s' * (one.cores != 1)} of {one.node_id}"
        lender = "slowdown" if lends else "its slowdown"
        speed = f"{lender} {one.slowdown:.2f}, limit {one.slowdown_limit:.2f}"
        until = f.clock(one.until_s)
        found.append(("lends" if lends else "borrows", f"{cores} {whom} until {until}, {speed}"))
    return found


def _speed_fields(job: pb.Job) -> Fields:
    """Return the measured speeds of a job at its sizes, and its loss on fewer cores."""
    if not job.half_speed:
        return []
    sizes = sorted({speed.cores for speed in job.speeds})
    return [
        (
            "speed on half its cores",
            f"{job.half_speed:.0%} of full speed, measured on {sizes[0]} and {sizes[-1]} cores",
        )
    ]


def _attempt_fields(job: pb.Job) -> Fields:
    """Return the attempts of a restartable job."""
    found: Fields = []
    if job.spec.restartable:
        after = "lost nodes and failures" if job.spec.requeue_on_failure else "lost nodes"
        more = (
            f", at most {job.spec.requeue_max} more after {after}" if job.spec.requeue_max else ""
        )
        may = ", preemptable" if job.spec.preemptable else ""
        found.append(("attempt", f"{job.attempt}{more}{may}"))
    for before in job.attempts:
        where = ", ".join(before.node_ids)
        used = f"{_when(before.started_at_s)} to {_when(before.ended_at_s)} on {where}"
        found.append((f"attempt {before.number}", f"{used}: {before.why}"))
    if job.size_ordered:
        found.append(("ordered size", f"{job.size_ordered} {_unit(job.spec)}"))
    if job.next_size:
        found.append(("next size", f"{job.next_size} {_unit(job.spec)}"))
    if job.restart_s:
        found.append(("restart time", f"about {f.duration(job.restart_s)}"))
    elif job.resize_s:
        stalled = f.short_time(ns_from_s(job.resize_s))
        found.append(("resize cost", f"stalls the job for about {stalled}"))
    if job.suspended_s:
        found.append(("suspended", f.duration(job.suspended_s)))
    return found


_DEPENDENCIES = {
    pb.DEPENDENCY_STATE_MET: "met",
    pb.DEPENDENCY_STATE_NEVER: "ended without success",
}


def _condition_fields(job: pb.Job) -> Fields:
    """Return the jobs that the start waits for, and the begin time."""
    fields: Fields = [("begin", _when(job.begin_at_s))] if job.begin_at_s else []
    for one in job.after:
        needs = "success" if one.success else "any end"
        fields.append((f"after {one.job_id}", f"{needs}: {_DEPENDENCIES.get(one.state, 'open')}"))
    return fields


def _requests(spec: pb.JobSpec) -> Fields:
    """Return the requests beyond cores and nodes, if there are any."""
    asked = [f"{f.memory(spec.memory_bytes)} of memory"] if spec.memory_bytes else []
    asked += [f"{spec.gpus} GPU{'s' if spec.gpus > 1 else ''}"] if spec.gpus else []
    asked += [f"features {', '.join(spec.features)}"] if spec.features else []
    asked += [f"only nodes {', '.join(spec.among)}"] if spec.among else []
    each = "per unit" if spec.unit == pb.SIZE_UNIT_UNITS else "per node"
    fields: Fields = [(each, "; ".join(asked))] if asked else []
    fields += [("due", _when(spec.due_at_s))] if spec.due_at_s else []
    return [*fields, ("weight", f"{spec.weight:g}")] if spec.weight not in (0, 1) else fields


def _share(share: pb.NodeShare) -> tuple[str, Cell]:
    if share.resident:
        return "residual on", f"{share.node_id}, without own cores"
    return "on", f"{share.node_id} CPUs {share.cpus}{_beside(share)}"


def _beside(share: pb.NodeShare) -> str:
    memory = f", {f.memory(share.memory_bytes)} of memory" if share.memory_bytes else ""
    return memory + (f", GPUs {','.join(share.gpus)}" if share.gpus else "")


def _user(job: pb.Job) -> str:
    return f"{owner(job)} ({job.uid})" if job.user and job.HasField("uid") else owner(job)


def _times(job: pb.Job, now_s: float) -> Fields:
    spec = job.spec
    return [
        ("submitted", _when(job.submitted_at_s)),
        ("started", _when(job.started_at_s)),
        ("ended", _when(job.ended_at_s)),
        ("run time", f.duration(elapsed_s(job, now_s)) if job.started_at_s else f.NONE),
        ("time estimate", f.duration(s_from_ns(spec.time_ns)) if spec.time_ns else f.NONE),
        ("time limit", f.duration(s_from_ns(spec.limit_ns)) if spec.limit_ns else f.NONE),
    ]


def _energy(job: pb.Job) -> str:
    idle = f", idle share {f.energy(job.idle_energy_uj)}" if job.idle_energy_uj else ""
    gpus = f", GPUs {f.energy(job.gpu_energy_uj)}" if job.gpu_energy_uj else ""
    return f.energy(job.energy_uj) + idle + gpus


def _gpu(gpu: pb.JobGpu) -> tuple[str, Cell]:
    """Return the last reading of a GPU of the job."""
    told = [f.power(gpu.power_uw)]
    if gpu.HasField("busy_percent"):
        told.append(f"{gpu.busy_percent} % busy")
    if gpu.HasField("memory_bytes"):
        told.append(f"{f.memory(gpu.memory_bytes)} in use")
    return "GPU", f"{gpu.gpu} on {gpu.node_id}: {', '.join(told)}"


def _residual(job: pb.Job) -> Cell:
    text = f.duration(s_from_ns(job.residual_cpu_ns))
    load = sum(core.load for core in job.residual)
    if load:
        text += f", recently {load:.2f} cores"
    return Styled(f"{text} (above the threshold)", style="red") if job.residual_alarm else text


def _process_fields(job: pb.Job) -> list[tuple[str, Cell]]:
    """Return the measurements of the processes of a running job."""
    if not job.threads:
        return []
    found: list[tuple[str, Cell]] = [
        (
            "OS threads",
            f"{job.threads}, {job.runnable_threads} runnable;"
            f" {f.duration(s_from_ns(job.excess_runnable_ns))} of waiting for cores",
        ),
        ("memory", f"{f.memory(job.memory_bytes)}, peak {f.memory(job.memory_bytes_max)}"),
        (
            "context switches",
            f"{job.voluntary_switches} voluntary, {job.involuntary_switches} involuntary",
        ),
    ]
    for core in job.residual[:RESIDUAL_ROWS_MAX]:
        spent = f.duration(s_from_ns(core.cpu_ns))
        load = f", recently {core.load:.2f} cores" if core.load else ""
        found.append(("residual work", f"{core.node_id} CPU {core.cpu}: {spent}{load}"))
    more = len(job.residual) - RESIDUAL_ROWS_MAX
    return [*found, ("residual work", f"{more} more CPUs")] if more > 0 else found


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
    if spec.unit == pb.SIZE_UNIT_UNITS:
        return f"unit{'' if one else 's'} of {spec.unit_cores} core{'s' * (spec.unit_cores != 1)}"
    word = "node" if spec.unit == pb.SIZE_UNIT_NODES else "core"
    return word if one else f"{word}s"


def _cap(job: pb.Job) -> str:
    if job.spec.cap_uw:
        return f"{f.power(job.spec.cap_uw)} per node, fixed"
    return f"{f.power(job.cap_uw)} per node" if job.cap_uw else f.NONE


def _levels(job: pb.Job) -> Fields:
    """Return caps of other zones, if the job has or requests any."""
    fields: Fields = []
    for name, asked_uw, has_uw, each in (
        ("DRAM cap", job.spec.dram_cap_uw, job.dram_cap_uw, "per node"),
        ("GPU cap", job.spec.gpu_cap_uw, job.gpu_cap_uw, "per GPU"),
    ):
        if asked_uw or has_uw:
            fixed = ", fixed" if asked_uw else ""
            fields.append((name, f"{f.power(asked_uw or has_uw)} {each}{fixed}"))
    return fields


def _when(time_s: float) -> str:
    if not time_s:
        return f.NONE
    return moment(time_s)
