"""`profile epochs`: epoch times of a training job, by number and limit of GPUs of a node."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

import click

from wattfold.coordinator.cli.jobs.lists.waiting import JobWaiter, describe
from wattfold.coordinator.cli.jobs.submission.job_request import message_environment
from wattfold.coordinator.cli.profiles.probing import MAX_PROBES, MeasuredProgram, cancel_probe
from wattfold.coordinator.cli.profiles.profile import program_of
from wattfold.coordinator.cli.profiles.profile_tables import epoch_tables
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import BadRequestError, CliError
from wattfold.coordinator.cli.shared.packages import require
from wattfold.coordinator.cli.shared.parsing import NAMES, POWERS_UW, SIZES
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.coordinator.cli.shared.texts.native_text import message_text
from wattfold.v1 import common_pb2 as common
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient

LIMITS_MIN = 3
"""Minimum number of limits for a curve."""
ERROR_MAX = 0.1
"""Maximum relative error of the times.

A worse curve shows noise more than limits; policies ignore it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochProbe:
    """A run on a node: the number of GPUs and the limit of each; 0 = the maximum."""

    node: pb.Node
    gpus: int
    unit_cores: int
    epochs: int
    limit_uw: int = 0
    reservation: str = ""

    @property
    def text(self) -> str:
        """Return a description for people."""
        at = f" at {self.limit_uw / 1e6:g} W each" if self.limit_uw else ""
        what = self.node.gpu_model or "GPU"
        return f"{self.gpus} x {what} on {self.node.node_id}{at}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """Mean seconds of an epoch in a probe, of ``count`` epochs."""

    probe: EpochProbe
    seconds: float
    count: int


@click.command(
    context_settings={"allow_interspersed_args": False}, options_metavar="[OPTIONS] [--]"
)
@click.option(
    "--node",
    "names",
    type=NAMES,
    metavar="NODE[,NODE]...",
    help="Nodes to measure on. Default: one node of each GPU model.",
)
@click.option(
    "--gpus",
    "counts",
    type=SIZES,
    metavar="N,N,...",
    help="Numbers of GPUs to measure. Default: from one to all GPUs of the node.",
)
@click.option(
    "--gpu-caps",
    "limits_uw",
    type=POWERS_UW,
    metavar="W,W,...",
    help="GPU limits to measure in addition to the maximum, in watts, with the smallest number "
    "of GPUs. Two limits fit a curve with two parameters, four limits a curve with all four. "
    "Default: none.",
)
@click.option(
    "--epochs",
    type=click.IntRange(2, 1000),
    default=4,
    show_default=True,
    metavar="N",
    help="Number of epochs of each run. The first epoch does not count.",
)
@click.option(
    "--unit-cores",
    type=click.IntRange(1, 65_536),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of cores for each GPU.",
)
@click.option(
    "--reservation",
    default="",
    metavar="NAME",
    help="Reservation to run in (see `wattfold reservations`).",
)
@click.option(
    "--app",
    default="",
    metavar="NAME",
    help="Name of the profile. Default: the name of the program.",
)
@click.option("--no-store", is_flag=True, help="Show the result without storing it.")
@click.option(
    "--no-check", is_flag=True, help="Skip the check that the command exists on this machine."
)
@click.argument("argv", metavar="COMMAND [ARGS]...", nargs=-1, required=True)
@session_command
def epochs(
    session: Session,
    /,
    *,
    names: Sequence[str] | None,
    counts: Sequence[int] | None,
    limits_uw: Sequence[int] | None,
    epochs: int,
    unit_cores: int,
    reservation: str,
    app: str,
    no_store: bool,
    no_check: bool,
    argv: Sequence[str],
) -> None:
    """Measure the epoch times of a training job on a node.

    Runs the command for a few epochs (WATTFOLD_EPOCHS) with every number of GPUs and every limit,
    alone on the node, as jobs of the cluster. The program must report its epochs, as with
    wattfold.training. Ctrl-C cancels the current run; nothing is stored then.
    """
    if limits_uw and len(limits_uw) < LIMITS_MIN - 1:
        raise BadRequestError(
            f"--gpu-caps: {len(limits_uw)} limit and the maximum are too few for a curve; give "
            f"{LIMITS_MIN - 1} or more limits below the maximum"
        )
    require("numpy", "scipy")
    program = program_of(app, argv, no_check)
    with session.connect() as client:
        nodes = _nodes(client.list_nodes().nodes, names)
        plain = [
            EpochProbe(
                node=node, gpus=gpus, unit_cores=unit_cores, epochs=epochs, reservation=reservation
            )
            for node in nodes
            for gpus in counts or range(1, len(node.gpus) + 1)
        ]
        _check(plain)
        probes = [*plain, *_limited(plain, limits_uw or ())]
        timed = [_run(client, program, probe, probes) for probe in probes]
        profile = _profile(program.app, timed)
        if not no_store:
            client.put_profile(profile)
    if session.json:
        session.print_json({"profile": as_dict(profile), "stored": not no_store})
        return
    for table in epoch_tables(profile):
        session.print(table)
    if not no_store:
        click.echo(f"Stored as {program.app!r}.")


def _nodes(nodes: Sequence[pb.Node], names: Sequence[str] | None) -> list[pb.Node]:
    """Return the nodes for the measurement. Raises CliError if there are none."""
    up = [node for node in nodes if node.state == pb.NODE_STATE_UP and node.gpus]
    if names is not None:
        strange = [name for name in names if name not in {node.node_id for node in up}]
        if strange:
            raise CliError(f"node {strange[0]!r} is not up or has no GPU; see `wattfold nodes`")
        return [node for node in up if node.node_id in names]
    first = {node.gpu_model: node for node in reversed(up)}
    if not first:
        raise CliError("no node with GPUs is up, so nothing can be measured; see `wattfold nodes`")
    return [first[model] for model in sorted(first)]


def _check(probes: Sequence[EpochProbe]) -> None:
    for probe in probes:
        if probe.gpus > len(probe.node.gpus):
            raise CliError(
                f"{probe.gpus} GPUs cannot be measured: {probe.node.node_id} has "
                f"{len(probe.node.gpus)}"
            )
    if len(probes) > MAX_PROBES:
        raise CliError(f"{len(probes)} probes are above the limit of {MAX_PROBES}")


def _limited(plain: Sequence[EpochProbe], limits_uw: Sequence[int]) -> list[EpochProbe]:
    """Return probes with the fewest GPUs of each node at each limit below the maximum."""
    return [
        replace(probe, limit_uw=limit_uw)
        for probe in plain
        if probe.gpus == min(other.gpus for other in plain if other.node is probe.node)
        for limit_uw in reversed(limits_uw)
        if limit_uw < greatest_uw(probe.node)
    ]


def greatest_uw(node: pb.Node) -> int:
    """Return the maximum limit of the GPUs of a node, or 0 if it is unknown."""
    return max((zone.cap_uw_max for zone in node.zones if zone.name.startswith("gpu-")), default=0)


def _run(
    client: CoordinatorClient,
    program: MeasuredProgram,
    probe: EpochProbe,
    probes: Sequence[EpochProbe],
) -> Timed:
    number = f"{probes.index(probe) + 1}/{len(probes)} {probe.text}"

    def notice(line: str) -> None:
        click.echo(f"{number}: {line}", err=True)

    request = pb.SubmitRequest(spec=_spec(program, probe), idempotency_key=uuid.uuid4().hex)
    job_id = client.submit(request)
    try:
        job = JobWaiter(client, job_id, notice).wait()
    except BaseException:
        cancel_probe(client, job_id)
        raise
    assert job is not None, "nothing else stops this wait"
    if job.state != pb.JOB_STATE_COMPLETED:
        raise CliError(f"the probe {job_id}, {probe.text}, {describe(job)}")
    if not job.epochs_timed or not job.epoch_s:
        raise CliError(
            f"the probe {job_id}, {probe.text}, reported {job.epochs_saved} epochs and no epoch "
            "times; the program must report its epochs, as with wattfold.training"
        )
    click.echo(f"{number}: {job.epoch_s:.3f} s per epoch", err=True)
    return Timed(probe=probe, seconds=job.epoch_s, count=job.epochs_timed)


def _spec(program: MeasuredProgram, probe: EpochProbe) -> pb.JobSpec:
    return pb.JobSpec(
        name=f"probe-{program.app}"[:63],
        app=program.app,
        argv=map(message_text, program.argv),
        env=message_environment(program.environment),
        cwd=message_text(program.cwd),
        kind=pb.JOB_KIND_RIGID,
        unit=pb.SIZE_UNIT_UNITS,
        size_min=probe.gpus,
        size_max=probe.gpus,
        unit_cores=probe.unit_cores,
        gpus=1,
        spread=pb.UNIT_SPREAD_TOGETHER,
        among=[probe.node.node_id],
        priority=1.0,
        mode=common.RESIZE_MODE_FIXED,
        exclusive=True,
        gpu_cap_uw=probe.limit_uw,
        reservation=probe.reservation,
        epochs=probe.epochs,
    )


def _profile(app: str, timed: Sequence[Timed]) -> pb.Profile:
    """Return the profile of the measured times."""
    profile = pb.Profile(app=app, source="measured")
    by_model: dict[str, list[Timed]] = {}
    for one in timed:
        by_model.setdefault(one.probe.node.gpu_model, []).append(one)
    for model, runs in by_model.items():
        plain = [one for one in runs if not one.probe.limit_uw]
        for gpus in sorted({one.probe.gpus for one in plain}):
            alike = [one for one in plain if one.probe.gpus == gpus]
            count = sum(one.count for one in alike)
            mean_s = sum(one.seconds * one.count for one in alike) / count
            profile.epoch_times.add(gpu_model=model, gpus=gpus, seconds=mean_s, count=count)
        limits = _by_limit(runs)
        if len(limits) >= LIMITS_MIN:
            curve = _curve(model, limits)
            if curve.rms_error <= ERROR_MAX:
                profile.gpu_curves.append(curve)
            else:
                click.echo(
                    f"warning: no curve of limits for {model or 'these GPUs'}: the best fit has an "
                    f"error of {curve.rms_error * 100:.0f} %; measure more epochs or longer epochs",
                    err=True,
                )
    return profile


def _by_limit(runs: Sequence[Timed]) -> dict[float, float]:
    """Return mean seconds by limit in W, of the runs on as many GPUs as those with limits had."""
    gpus = {one.probe.gpus for one in runs if one.probe.limit_uw}
    seen: dict[float, list[float]] = {}
    for one in runs:
        if one.probe.gpus in gpus:
            limit_uw = one.probe.limit_uw or greatest_uw(one.probe.node)
            seen.setdefault(limit_uw / 1e6, []).append(one.seconds)
    return {limit_w: fmean(seconds) for limit_w, seconds in seen.items()}


def _curve(model: str, limits: Mapping[float, float]) -> pb.GpuCurve:
    from wattfold.coordinator.models.gpu_fitting import fit_gpu_curve

    found = fit_gpu_curve(limits)
    return pb.GpuCurve(
        gpu_model=model,
        static_w=found.curve.static_w,
        full_w=found.curve.full_w,
        knee=found.curve.knee,
        beta=found.curve.beta,
        rms_error=found.rms_error,
    )
