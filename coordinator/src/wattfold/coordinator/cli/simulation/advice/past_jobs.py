"""Ended jobs and nodes of a site as values of the simulator, from the messages of its coordinator.

The history states neither requested times nor power profiles. `PastReading.notes` names each
assumption that matters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from wattfold.coordinator.cli.simulation.site_queue.site_reading import SiteReading
from wattfold.coordinator.core.model.events import ProfileStored
from wattfold.coordinator.core.model.node import NodeSpec, ZoneKind
from wattfold.coordinator.core.power.charge import fixed_uw
from wattfold.coordinator.models.pass_model import PassProfile, SizeUnit
from wattfold.simulator.engine.machines.machine import NodePowers
from wattfold.simulator.engine.machines.node_machine import NodeClass
from wattfold.simulator.runs.past import PastJob
from wattfold.v1 import coordinator_pb2 as pb

RUN_S_MIN = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class PastReading:
    """Jobs, nodes and profiles that a simulation of the past needs."""

    jobs: tuple[PastJob, ...]
    classes: tuple[NodeClass, ...]
    procs_per_node: int
    """Cores of most nodes."""
    profiles: dict[str, PassProfile]
    """Stored profiles of jobs on whole nodes, by application."""
    notes: tuple[str, ...]


def read_past(reading: SiteReading, messages: Sequence[pb.HistoryJob]) -> PastReading:
    """Return the jobs that ran and fit on the nodes of the site.

    Raises ValueError without a node.
    """
    specs = [node.spec for node in reading.queue.nodes]
    if not specs:
        raise ValueError("no node answers, so there is no machine to simulate")
    classes = node_classes(specs, reading.queue.dram_cap_uw)
    each = max(classes, key=lambda one: one.count).cores
    ran = [message for message in messages if message.started_at_s]
    found = [past_job(message, each) for message in ran]
    fitting = tuple(job for job in found if job.nodes_min <= len(specs))
    profiles = {
        entry.profile.app: entry.profile
        for entry in reading.queue.profiles
        if isinstance(entry, ProfileStored) and entry.profile.unit is SizeUnit.NODES
    }
    left = len(found) - len(fitting)
    return PastReading(
        jobs=fitting,
        classes=classes,
        procs_per_node=each,
        profiles=profiles,
        notes=tuple(_notes(ran, fitting, profiles, left, gpus=any(spec.gpus for spec in specs))),
    )


def past_job(message: pb.HistoryJob, each: int) -> PastJob:
    """Return the last attempt of a job that ran, on nodes with ``each`` cores."""
    run_s = max(message.ended_at_s - message.started_at_s, RUN_S_MIN)
    core_s = message.core_s - sum(attempt.core_s for attempt in message.earlier)
    if message.unit == pb.SIZE_UNIT_NODES:
        least, most = max(message.size_min, 1), max(message.size_max, message.size_min, 1)
        held = min(max(round(core_s / run_s / each), least), most)
        return _job(message, run_s, held, least, most, 0)
    cores = max(round(core_s / run_s), 1)
    if cores < each and message.nodes <= 1:
        return _job(message, run_s, 1, 1, 1, cores)
    nodes = max(-(-cores // each), 1)
    return _job(message, run_s, nodes, nodes, nodes, 0)


def _job(
    message: pb.HistoryJob, run_s: float, nodes: int, least: int, most: int, cores: int
) -> PastJob:
    return PastJob(
        submitted_s=message.submitted_at_s,
        run_s=run_s,
        app=message.app,
        cores=cores,
        nodes=nodes,
        nodes_min=least,
        nodes_max=most,
    )


def node_classes(specs: Sequence[NodeSpec], dram_cap_uw: int) -> tuple[NodeClass, ...]:
    """Return nodes with equal cores and powers as classes, the largest class first."""
    counts = Counter((len(spec.cpus), _powers(spec, dram_cap_uw)) for spec in specs)
    return tuple(
        NodeClass(
            name=f"class{number}",
            count=count,
            cores=cores,
            base_uw=powers.base_uw,
            dram_uw=powers.dram_uw,
            cap_uw_min=powers.cap_uw_min,
            cap_uw_max=powers.cap_uw_max,
            idle_uw=powers.idle_uw,
        )
        for number, ((cores, powers), count) in enumerate(counts.most_common(), start=1)
    )


def _powers(spec: NodeSpec, dram_cap_uw: int) -> NodePowers:
    """Return the powers of a node. DRAM, GPUs and other zones are constant parts of its base."""
    packages = [z for z in spec.zones if z.kind is ZoneKind.PACKAGE and z.can_cap]
    least_uw = sum(zone.floor_uw for zone in packages)
    idle_uw = fixed_uw(spec, dram_cap_uw)
    return NodePowers(
        base_uw=idle_uw - least_uw,
        dram_uw=0,
        cap_uw_min=least_uw,
        cap_uw_max=sum(zone.cap_uw_max for zone in packages),
        idle_uw=idle_uw,
    )


def _notes(
    ran: Sequence[pb.HistoryJob],
    jobs: Sequence[PastJob],
    profiles: dict[str, PassProfile],
    left: int,
    *,
    gpus: bool,
) -> list[str]:
    drawn = sum(job.app not in profiles for job in jobs)
    hidden = sum(message.access == pb.JOB_ACCESS_OTHER for message in ran)
    ranges = sum(job.nodes_min < job.nodes_max for job in jobs)
    notes = [
        f"Profiles: drawn for {drawn} jobs; measured on this site for {len(jobs) - drawn}, with "
        "the power curve of the most similar published application.",
        "Run times: as in the history, at full power. The history has no requested times, so "
        "plans know run times exactly. This favours policies that backfill.",
        "Each segment starts with an empty machine, on the nodes that answer now.",
        "Dependencies, begin times, queues, reservations and memory are not simulated.",
    ]
    if ranges:
        notes.append(f"{ranges} jobs requested a range of sizes and count as malleable.")
    if hidden:
        notes.append(
            f"{hidden} jobs belong to other accounts, with unknown programs and cores; operators "
            "get a better answer."
        )
    if left:
        notes.append(f"{left} jobs need more nodes than answer now and are left out.")
    if gpus:
        notes.append("GPUs stay at their floors.")
    return notes
