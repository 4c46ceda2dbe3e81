"""Measurement of an application: the choice of sizes and caps, and one run at each.

A probe is an ordinary rigid job, alone on its node, with a fixed cap. So it competes for power and
cores like any other job, and the budget holds. Probes run one after another: together they would
disturb each other if nodes share a host.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from wattfold.contract.units import UW_PER_W
from wattfold.coordinator.cli.jobs.lists.waiting import JobWaiter, describe
from wattfold.coordinator.cli.jobs.submission.job_request import message_environment
from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.coordinator.cli.shared.texts.formatting import cpu_count
from wattfold.coordinator.cli.shared.texts.native_text import message_text
from wattfold.v1 import common_pb2 as common
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1.node_agent_pb2 import FrequencyPowerModel

if TYPE_CHECKING:
    from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient

_PACKAGE = "package-"
MAX_PROBES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A run: the cores of one node or the whole nodes to use, and the cap of each node."""

    size: int
    cap_uw: int
    unit: pb.SizeUnit = pb.SIZE_UNIT_CORES

    @property
    def unit_name(self) -> str:
        """Return the unit for people."""
        one = "node" if self.unit == pb.SIZE_UNIT_NODES else "core"
        return one if self.size == 1 else f"{one}s"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredProgram:
    """Program to measure."""

    app: str
    argv: Sequence[str]
    cwd: str
    environment: Mapping[str, str]


def default_sizes(nodes: Iterable[pb.Node]) -> tuple[int, ...]:
    """Return powers of two up to the cores of the largest usable node, and all its cores."""
    most = max((cpu_count(node.cpus) for node in _usable(nodes)), default=0)
    if not most:
        raise CliError("no node is up, so nothing can be measured; see `wattfold nodes`")
    powers = (2**exponent for exponent in range(most.bit_length()))
    return tuple(sorted({*powers, most}))


def check_sizes(sizes: Sequence[int], nodes: Iterable[pb.Node], unit: pb.SizeUnit) -> None:
    """Refuse sizes that no usable node, or not enough nodes, could hold, before any run."""
    usable = _usable(nodes)
    whole = unit == pb.SIZE_UNIT_NODES
    most = len(usable) if whole else max((cpu_count(node.cpus) for node in usable), default=0)
    above = [str(size) for size in sizes if size > most]
    if above:
        there = f"{most} nodes are up" if whole else f"the largest node that is up has {most} cores"
        raise CliError(f"size {', '.join(above)} cannot be measured: {there}")


def default_caps_uw(nodes: Iterable[pb.Node], levels: int) -> tuple[int, ...]:
    """Return evenly spaced package caps per node, in the range that every usable node accepts."""
    ranges = [_package_range_uw(node) for node in _usable(nodes)]
    capped = [(least, most) for least, most in ranges if most > 0]
    if not capped:
        raise CliError("no usable node has a package cap; give caps with --caps WATTS,WATTS")
    least = max(low for low, _ in capped)
    most = min(high for _, high in capped)
    if least > most:
        raise CliError(
            f"no cap suits all nodes: a node needs at least {least / 1e6:g} W, another node allows "
            f"at most {most / 1e6:g} W; give caps with --caps WATTS,WATTS"
        )
    if levels == 1 or least == most:
        return (most,)
    step_uw = (most - least) / (levels - 1)
    return tuple(sorted({int(least + step_uw * level) for level in range(levels)}))


def plan_probes(
    sizes: Sequence[int],
    caps_uw: Sequence[int],
    repeat: int,
    unit: pb.SizeUnit = pb.SIZE_UNIT_CORES,
) -> list[Probe]:
    """Return every size at every cap, `repeat` times over, so that a drift shows as scatter."""
    count = len(sizes) * len(caps_uw) * repeat
    if count > MAX_PROBES:
        raise CliError(f"{count} probes are above the limit of {MAX_PROBES}; request fewer points")
    return [
        Probe(size=size, cap_uw=cap_uw, unit=unit)
        for _ in range(repeat)
        for size in sizes
        for cap_uw in caps_uw
    ]


def run_probe(
    client: CoordinatorClient, program: MeasuredProgram, probe: Probe, notice: Callable[[str], None]
) -> pb.ProfilePoint:
    """Run one probe to its end. An interruption cancels its job."""
    request = pb.SubmitRequest(spec=_spec(program, probe), idempotency_key=uuid.uuid4().hex)
    job_id = client.submit(request)
    try:
        job = JobWaiter(client, job_id, notice).wait()
    except BaseException:
        cancel_probe(client, job_id)
        raise
    assert job is not None, "nothing else stops this wait"
    return _point(job, probe, program)


def cancel_probe(client: CoordinatorClient, job_id: str) -> None:
    """Cancel a probe whose wait was interrupted, or report that this failed."""
    try:
        client.cancel(job_id)
    except CliError as error:
        message = f"wattfold: the probe {job_id} may continue; cancel it later: {error}"
        click.echo(message, err=True)


def _spec(program: MeasuredProgram, probe: Probe) -> pb.JobSpec:
    return pb.JobSpec(
        name=f"probe-{program.app}"[:63],
        app=program.app,
        argv=map(message_text, program.argv),
        env=message_environment(program.environment),
        cwd=message_text(program.cwd),
        stdout_path="/dev/null",
        stderr_path=_error_path(program),
        kind=pb.JOB_KIND_RIGID,
        unit=probe.unit,
        size_min=probe.size,
        size_max=probe.size,
        priority=1.0,
        mode=common.RESIZE_MODE_FIXED,
        exclusive=True,
        cap_uw=probe.cap_uw,
    )


def _point(job: pb.Job, probe: Probe, program: MeasuredProgram) -> pb.ProfilePoint:
    seconds = job.ended_at_s - job.started_at_s
    if job.state != pb.JOB_STATE_COMPLETED or job.exit_code != 0:
        raise CliError(
            f"the probe {job.job_id} with {probe.size} {probe.unit_name} at "
            f"{probe.cap_uw / 1e6:g} W {describe(job)}; see {_error_path(program)} in its directory"
        )
    if not job.started_at_s or seconds <= 0:
        raise CliError(f"the probe {job.job_id} has no run time ({seconds:g} s); use a longer run")
    return pb.ProfilePoint(
        size=probe.size,
        cap_uw=probe.cap_uw,
        seconds=seconds,
        power_uw=round(job.energy_uj / seconds),
    )


def _error_path(program: MeasuredProgram) -> str:
    return f"wattfold-profile-{program.app}.err"


def _usable(nodes: Iterable[pb.Node]) -> list[pb.Node]:
    return [node for node in nodes if node.state == pb.NODE_STATE_UP]


def _package_range_uw(node: pb.Node) -> tuple[int, int]:
    """Return the cap range of a node, within the powers of its lowest and highest frequency.

    Below this range, a processor skips cycles, which costs far more time than it saves power. Above
    it, programs do not run faster. Without known powers, the range is the node's own.
    """
    packages = [zone for zone in node.zones if zone.name.startswith(_PACKAGE)]
    least = sum(max(zone.cap_uw_min, zone.floor_uw) for zone in packages)
    most = sum(zone.cap_uw_max for zone in packages)
    if node.HasField("model"):
        least = max(least, _power_uw(node.model, node.model.f_low_ghz))
        most = max(min(most, _power_uw(node.model, node.model.f_high_ghz)), least)
    return least, most


def _power_uw(model: FrequencyPowerModel, f_ghz: float) -> int:
    """Return the package power at a frequency (PARM, Eq. 18), rounded up."""
    return math.ceil((model.a * f_ghz**3 + model.b * f_ghz + model.c) * UW_PER_W)
