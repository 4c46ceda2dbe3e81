"""The specification of a job from the options of `submit`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wattfold.coordinator.cli.jobs.submission import job_request as request
from wattfold.coordinator.cli.shared.texts.native_text import message_text
from wattfold.v1 import coordinator_pb2 as pb

REQUEUED = 3
"""Number of further attempts if the user gives none."""


def spec_of(
    caller: Mapping[str, str],
    *,
    argv: tuple[str, ...],
    name: str,
    app: str,
    cwd: Path | None,
    output: str,
    error: str,
    time_ns: int | None,
    limit_ns: int | None,
    cap_uw: int | None,
    **options: Any,
) -> pb.JobSpec:
    """Return the specification of a job. ``caller`` is the environment of the shell."""
    again = bool(options["gpus"] and (options["mode"] == "restart" or options["epochs"]))
    units = request.gpu_units(options["cores"], options["nodes"], options["units"], again)
    unit, size = request.size_of(options["cores"], options["nodes"], units)
    spreads = options["spreads"]
    if unit == pb.SIZE_UNIT_UNITS and again and not spreads:
        spreads = ("together",)
    unit_cores, spread = request.unit_fields(unit, options["unit_cores"], spreads)
    share = options["share"]
    on_failure = options["requeue_on"] == "failure"
    kind = request.kind_of(options["kind"], size, share, unit)
    export_all = options["export"] == "all" and not options["no_env"]
    request.check_job_name(name)
    request.check_name("--app", app)
    return pb.JobSpec(
        name=name or request.default_job_name(argv[0]),
        app=app,
        argv=map(message_text, argv),
        env=request.message_environment(
            request.environment_of(caller, export_all, options["settings"])
        ),
        cwd=message_text(request.directory(cwd)),
        stdout_path=message_text(output),
        stderr_path=message_text(error),
        kind=kind,
        unit=unit,
        size_min=size.least,
        size_max=size.greatest,
        unit_cores=unit_cores,
        spread=spread,
        time_ns=time_ns or 0,
        limit_ns=limit_ns or 0,
        priority=options["priority"],
        exclusive=options["exclusive"],
        tasks_per_node=options["tasks_per_node"],
        own_launcher=options["own_launcher"],
        cap_uw=cap_uw or 0,
        predicted_uw=options["predicted_uw"] or 0,
        dram_cap_uw=options["dram_cap_uw"] or 0,
        gpu_cap_uw=options["gpu_cap_uw"] or 0,
        memory_bytes=options["memory_bytes"] or 0,
        gpus=options["gpus"] or 0,
        features=options["features"] or (),
        among=options["among"] or (),
        due_at_s=options["due_at_s"] or 0.0,
        weight=options["weight"],
        queue=options["queue"],
        account=options["account"],
        reservation=options["reservation"],
        umask=request.umask(),
        resource_limits=request.soft_limits(),
        requeue_max=options["requeue_max"] or (REQUEUED if on_failure else 0),
        requeue_on_failure=on_failure,
        restartable=options["restartable"],
        preemptable=options["preemptable"],
        sharing=request.SHARES[share] if share else pb.CORE_SHARING_UNSPECIFIED,
        snapshot_dir=message_text(options["snapshot_dir"]),
        snapshot_signal=options["snapshot_signal"] or 0,
        snapshot_grace_ns=options["snapshot_grace_ns"] or 0,
        epochs=options["epochs"] or 0,
        mail=options["mail"] or (),
        mail_to=options["mail_to"],
    )
