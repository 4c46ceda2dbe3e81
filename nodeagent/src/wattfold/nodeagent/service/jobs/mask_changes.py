"""Moves a job from one set of cores to another, in a safe order.

First widen the kernel's mask, then notify the program and wait for its acknowledgement, then narrow
the kernel's mask. A *follower*, chosen by the job's mode, notifies the program, for example through
its shims.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.jobs.cpuset import MaskMechanism
from wattfold.nodeagent.adapters.shims.shim_server import MaskOrder, ShimServer
from wattfold.nodeagent.adapters.state_store import device_refusal
from wattfold.nodeagent.core.errors import InvalidRequest, Refused, WrongState
from wattfold.nodeagent.core.launch import ResizeMode
from wattfold.nodeagent.core.masks import StepKind, change_steps
from wattfold.nodeagent.service.jobs.followers import NOBODY, Follower, Reaction
from wattfold.nodeagent.service.jobs.launching import JobPorts
from wattfold.nodeagent.service.jobs.records import SEQ_STEP, Job
from wattfold.nodeagent.service.jobs.slurm_steps import confine_steps
from wattfold.nodeagent.service.jobs.strays import Strays
from wattfold.nodeagent.service.jobs.tasks import NodeTasks


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskChange:
    """The answer to a change of mask."""

    cpus: CpuSet
    """Cores on which the job may run: more than requested if it has not left all others."""
    attached: bool
    confined: bool
    acknowledged_in_ns: int
    processor_map: bytes = b""
    """Mode map: the map in force, and whether it is the map for the cores."""
    map_applied: bool = False
    stalled_ns: int = -1
    """Cost of a map that is new to the program, see `followers.Told`; -1 = none."""
    moved_bytes: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecords:
    """Access to the processes of jobs, and to their records on disk."""

    members: Callable[[Job], list[int]]
    save: Callable[[Job], None]
    """Saves for the next agent; raises Refused."""
    note: Callable[[Job], None]
    """Saves if possible."""


class ShimFollower:
    """Sends the mask of a job to its shims."""

    def __init__(self, shims: ShimServer, tasks: NodeTasks) -> None:
        self._shims = shims
        self._tasks = tasks

    async def tell(self, job: Job, deadline_s: float) -> Reaction:
        """Send the mask in force, and wait until all shims have acknowledged it."""
        self.publish(job)
        if not self._shims.attached(job.id):
            return NOBODY
        sent_ns = time.monotonic_ns()
        acknowledged = await self._shims.tell(
            job.id, job.seq, lambda pid: self.order(job, pid), deadline_s
        )
        took_ns = time.monotonic_ns() - sent_ns if acknowledged else 0
        return Reaction(attached=True, acknowledged=acknowledged, took_ns=took_ns)

    def publish(self, job: Job) -> None:
        """Publish the mask in force for starting programs with unknown shims."""
        # The tasks of an adopted job start with its environment, and receive their first mask.
        if job.mode is ResizeMode.TEAM and not job.owner:
            teams = [len(cpus) for cpus in (job.cpus, *job.division)]
            self._shims.publish(job.id, job.uid, teams, job.seq)

    def order(self, job: Job, pid: int) -> MaskOrder:
        """Return the mask in force for the shim of this process."""
        return mask_order(job, self._tasks.cpus_of(job, pid))


class MaskChanges:
    """Changes the masks of the jobs of a node. One change of a job at a time: hold its lock."""

    def __init__(
        self,
        jobs: Mapping[JobId, Job],
        ports: JobPorts,
        records: JobRecords,
        shims: Follower,
        maps: Follower,
        tasks: NodeTasks,
        strays: Strays,
    ) -> None:
        self._jobs = jobs
        self._ports = ports
        self._records = records
        self._shims = shims
        self._maps = maps
        self._tasks = tasks
        self._strays = strays
        self.before_change: Callable[[Job], None] = lambda _: None
        """Called before the cores of a job change."""

    async def change(
        self, job: Job, cpus: CpuSet, deadline_s: float, pe_map: bytes = b""
    ) -> MaskChange:
        """Carry out a checked change. The job holds the union of old and new cores meanwhile."""
        follower = self._maps if job.mode is ResizeMode.MAP else self._shims
        # After a failed change, the kernel may permit more than the mask.
        old, kernel = job.cpus, job.held
        self._reserve_seq(job)
        self.before_change(job)
        if job.resident:
            # On disk first, because a new agent treats the kernel's mask as held.
            job.resident, job.berth, job.cpus = False, CpuSet(), cpus
            self._records.save(job)
        job.held = kernel | cpus
        self.tell_residual(job, cpus - kernel)
        told, left = NOBODY, cpus
        division = self._tasks.divide(job, cpus)
        self._resize_firmware(job, max(len(kernel), len(cpus)))
        for step in change_steps(kernel, cpus):
            if step.kind is StepKind.CONFINE:
                self._confine(job, step.cpus)
                if step.cpus == cpus and kernel - cpus:
                    # Cores that the job never held may belong to another job, so these are only
                    # reported.
                    left = await self._strays.settled(job, cpus) & job.held
                continue
            self._allow(job, _both(job.allowed, division))
            job.cpus, job.division, job.seq = cpus, division, job.seq + 1
            job.wanted_map = pe_map
            told = await follower.tell(job, deadline_s)
            self._allow(job, division)
        self.before_change(job)
        job.held = left
        job.confined = not told.acknowledged
        self._resize_firmware(job, len(cpus))
        # After the answer, because the coordinator waits for it.
        asyncio.get_running_loop().call_soon(self._records.note, job)
        logs.info(
            "mask_set",
            job=job.id,
            old=old,
            new=cpus,
            held=left,
            seq=job.seq,
            shim_ns=told.took_ns,
            confined=job.confined,
        )
        return MaskChange(
            cpus=left,
            attached=told.attached,
            confined=job.confined,
            acknowledged_in_ns=told.took_ns,
            processor_map=job.placement.map,
            map_applied=job.placement.applied,
            stalled_ns=told.stalled_ns,
            moved_bytes=told.moved_bytes,
        )

    async def vacate(self, job: Job, berth: CpuSet) -> MaskChange:
        """Let a job hold no cores here, and confine its remaining processes to ``berth``.

        The agent of the node where its program started has already sent the map.
        """
        if not job.steps_only or job.mode is not ResizeMode.MAP:
            raise WrongState(
                f"job {job.id} must keep cores on this node: only jobs of mode map can leave a"
                " node, and never the node that started the program"
            )
        kernel = job.held
        self.before_change(job)
        self._confine(job, berth)
        left = (await self._strays.settled(job, berth) & kernel) - berth
        self.before_change(job)
        job.cpus, job.division, job.allowed = CpuSet(), (), ()
        job.held, job.berth, job.resident = left, berth, not left
        self._resize_firmware(job, len(left))
        self._records.save(job)
        logs.info("node_vacated", job=job.id, old=kernel, berth=berth, held=left)
        return MaskChange(cpus=left, attached=False, confined=False, acknowledged_in_ns=0)

    def tell_residual(self, job: Job, gained: CpuSet) -> None:
        """Report the residual work of other jobs on cores that a job gains."""
        for other in self._jobs.values():
            if other is job or not other.live:
                continue
            loads = {cpu: load for cpu, load in other.residual.loads().items() if cpu in gained}
            if loads:
                logs.warning(
                    "cores_taken_with_residual",
                    job=job.id,
                    cpus=CpuSet.of(loads),
                    residual_of=other.id,
                    load=round(sum(loads.values()), 3),
                )

    def _confine(self, job: Job, cpus: CpuSet) -> None:
        if job.owner:
            confine_steps(self._ports.slurm, job.id, job.steps.values(), cpus)
            return
        masks = self._ports.masks
        by_affinity = masks.mechanism is MaskMechanism.AFFINITY
        try:
            if not (job.division and by_affinity):
                masks.confine(job.id, self._records.members(job), job.keeper, cpus)
            if job.division:
                # Kernels before 6.2 reset the affinity of a thread when its cpuset changes.
                self._tasks.hold(job, cpus if by_affinity else None)
        except FileNotFoundError:
            raise WrongState(f"job {job.id} has ended") from None
        except OSError as error:
            raise device_refusal(error, f"job {job.id}: cannot set its mask") from None

    def _allow(self, job: Job, allowed: tuple[CpuSet, ...]) -> None:
        if not allowed:
            return
        try:
            self._tasks.allow(job, allowed)
        except OSError as error:
            raise device_refusal(error, f"job {job.id}: cannot set the cores of a task") from None

    def _resize_firmware(self, job: Job, cores: int) -> None:
        if self._ports.firmware is not None:
            self._ports.firmware.resize(job.id, cores)

    def _reserve_seq(self, job: Job) -> None:
        if job.seq + 1 < job.seq_reserved:
            return
        job.seq_reserved += SEQ_STEP
        try:
            self._records.save(job)
        except Refused:
            job.seq_reserved -= SEQ_STEP
            raise


def check_size(job: Job, cpus: CpuSet) -> None:
    """Raise Refused if the job's mode or launch size forbids this mask."""
    if job.owner and (foreign := cpus - job.allocation):
        raise InvalidRequest(
            f"job {job.id}: CPUs {foreign} are not among the CPUs {job.allocation} that"
            f" {job.owner} gave it on this node"
        )
    if job.mode is ResizeMode.FIXED and cpus != job.cpus:
        raise WrongState(f"job {job.id} has mode fixed: its mask {job.cpus} cannot change")
    if len(cpus) > job.launch_cpus:
        raise InvalidRequest(
            f"job {job.id}: mask {cpus} has {len(cpus)} CPUs, more than the"
            f" {job.launch_cpus} it was launched for"
        )


def mask_order(job: Job, cpus: CpuSet) -> MaskOrder:
    """Return the mask in force as an order for a shim."""
    team = job.mode is ResizeMode.TEAM
    return MaskOrder(seq=job.seq, cpus=cpus, team_must_follow=team)


def _both(old: tuple[CpuSet, ...], new: tuple[CpuSet, ...]) -> tuple[CpuSet, ...]:
    return tuple(a | b for a, b in zip(old, new, strict=True))
