"""The jobs of the node: launch, masks, maps, adoption after a restart.

Launch and ForgetProcess are idempotent by job id: a job that has a record is never started again.
What a job is told is in `job_orders`, how it ends in `job_ends`.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import time
from collections.abc import Callable
from pathlib import Path

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters import procfs
from wattfold.nodeagent.adapters.accounts import account_of
from wattfold.nodeagent.adapters.epoch_file import EpochFiles
from wattfold.nodeagent.adapters.processes import Starting
from wattfold.nodeagent.adapters.shim_server import MaskOrder, ShimServer
from wattfold.nodeagent.adapters.state_store import device_refusal
from wattfold.nodeagent.core.errors import (
    InvalidRequest,
    Refused,
    UnknownJob,
    WrongState,
)
from wattfold.nodeagent.core.launch import LaunchOrder, ResizeMode, check_gpus, check_order
from wattfold.nodeagent.core.masks import check_mask
from wattfold.nodeagent.service.background import Background
from wattfold.nodeagent.service.charm_program import PATIENCE_NS, SPREAD_PATIENCE_NS, CharmProgram
from wattfold.nodeagent.service.job_ends import JobEnds
from wattfold.nodeagent.service.job_files import JobFiles
from wattfold.nodeagent.service.job_orders import JobOrders
from wattfold.nodeagent.service.job_processes import members, start_ticks
from wattfold.nodeagent.service.launching import JobPorts, keeper_order, release
from wattfold.nodeagent.service.leaving import Leaving
from wattfold.nodeagent.service.map_follow import MapFollow, checked_map
from wattfold.nodeagent.service.mask_changes import (
    JobRecords,
    MaskChange,
    MaskChanges,
    ShimFollower,
    check_size,
)
from wattfold.nodeagent.service.processor_maps import (
    MAP_DEADLINE_NS_DEFAULT,
    MapOutcome,
    check_deadline,
    outcome_of,
    set_processor_map,
)
from wattfold.nodeagent.service.records import Job, JobState
from wattfold.nodeagent.service.strays import Strays
from wattfold.nodeagent.service.tasks import NodeTasks

DEADLINE_NS_DEFAULT = NS_PER_S
DEADLINE_NS_MAX = 60 * NS_PER_S
JOBS_MAX = 4096


class NodeJobs:
    """All jobs of a node. Used from the event loop only."""

    def __init__(
        self, cpus: CpuSet, ports: JobPorts, shims_root: Path, on_change: Callable[[], None]
    ) -> None:
        self.jobs: dict[JobId, Job] = {}
        self.cpus = cpus
        self.shims = ShimServer(shims_root, self._job_of_pid, self._mask_order)
        self._ports = ports
        self._background = Background()
        self._files = JobFiles(ports.store)
        records = JobRecords(members=members, save=self._files.save, note=self._files.note)
        self._ranks = NodeTasks(ports.topology, members)
        self._follower = ShimFollower(self.shims, self._ranks)
        self.maps = MapFollow(self._program_of, lambda _: on_change(), self._follower)
        self._strays = Strays(self.jobs, ports.masks, members, on_change)
        self.masks = MaskChanges(
            self.jobs, ports, records, self._follower, self.maps, self._ranks, self._strays
        )
        self._epochs = EpochFiles()
        leaving = Leaving(ports.groups, members, self._marker, on_change)
        spawn = self._background.spawn
        self.orders = JobOrders(self.jobs, ports, self._files, leaving, spawn)
        self.ends = JobEnds(ports, self._files, self._epochs, leaving, spawn, self._over)
        self._on_change = on_change

    def start(self) -> None:
        """Adopts the jobs of an earlier agent, and opens the sockets of their shims."""
        self.shims.start()
        self._ports.store.agent_pid_path.write_text(str(os.getpid()), encoding="ascii")
        self._ports.store.agent_pid_path.chmod(0o600)
        for job_id in self._ports.store.job_ids():
            self._adopt(job_id)
        live = [job.id for job in self.jobs.values() if job.live]
        self._ports.steps.keep_only(live)
        self.shims.keep_only(live)
        self._background.spawn(self._strays.watch())
        self._background.spawn(self._epochs.watch(self.jobs))

    async def launch(self, order: LaunchOrder) -> tuple[Job, bool]:
        """Starts a job; (job, whether it was here already). Raises Refused; nothing is left."""
        known = self.jobs.get(order.job)
        if known is not None:
            async with known.lock:
                if self.jobs.get(order.job) is known and not self._makes_way(known, order):
                    return known, True
        self.orders.check_start(order.job, order.attempt)
        check_order(order)
        check_mask(order.job, order.cpus, self.cpus, {} if order.resident else self._held())
        there = [gpu.id for gpu in self._ports.gpus]
        check_gpus(order, there, {j.id: j.gpus for j in self.jobs.values() if j.live})
        if len(self.jobs) >= JOBS_MAX:
            raise WrongState(
                f"this node has records of {JOBS_MAX} jobs, the maximum; forget ended jobs first"
            )
        account = account_of(order.user, order.uid)
        held, berth = (CpuSet(), order.cpus) if order.resident else (order.cpus, CpuSet())
        job = Job(
            id=order.job,
            state=JobState.STARTING,
            cpus=held,
            held=held,
            berth=berth,
            resident=order.resident,
            mode=order.mode,
            launch_cpus=order.launch_cpus,
            pes=order.pes,
            steps_only=order.steps_only,
            attempt=order.attempt,
            boot_id=self._ports.boot_id,
            uid=os.geteuid() if account is None else account.pw_uid,
            tasks_per_node=order.tasks_per_node,
            memory_limit_bytes=order.memory_bytes,
            gpus=order.gpus,
            # A step host has none; what others of the job save after its order is seen there too.
            snapshot_path=order.snapshot_path,
            epochs=0 if order.steps_only else order.epochs,
        )
        job.wanted_map = checked_map(job, order.processor_map, len(order.cpus))
        job.division = job.allowed = self._ranks.divide(job, job.cpus)
        self.jobs[job.id] = job
        self.masks.tell_residual(job, job.cpus)
        async with job.lock:
            try:
                await self._start(job, order, account)
            except BaseException:
                del self.jobs[job.id]
                self._clear(job)
                raise
        self.maps.begin(job)
        logs.info("job_started", job=job.id, pid=job.pid, cpus=job.cpus, mode=job.mode.value)
        return job, False

    def _makes_way(self, known: Job, order: LaunchOrder) -> bool:
        """Whether what is on record is of an earlier attempt, and gone. Raises WrongState.

        Who starts a later attempt has given the earlier one up: what it left here is ended first.
        """
        if known.attempt == order.attempt:
            return False
        numbers = f"job {known.id}: this node has attempt {known.attempt}, not {order.attempt}"
        if known.attempt > order.attempt:
            raise WrongState(numbers)
        if known.live:
            self.orders.kill(known)
            raise WrongState(f"{numbers}; attempt {known.attempt} is ending")
        self.forget(known.id)
        return True

    async def set_mask(
        self,
        job_id: str,
        cpus: CpuSet,
        deadline_ns: int,
        pe_map: bytes = b"",
        *,
        resident: bool = False,
    ) -> MaskChange:
        """Moves a job to other cores; returns when it has left those it lost. Raises Refused.

        ``resident``: it is to hold none here, and what is left of it to be on these.
        """
        job = self._running(job_id)
        if deadline_ns > DEADLINE_NS_MAX:
            raise InvalidRequest(f"deadline {deadline_ns} ns is above {DEADLINE_NS_MAX} ns")
        async with job.lock:
            self._running(job_id)
            check_mask(job.id, cpus, self.cpus, {} if resident else self._held())
            if resident:
                return await self.masks.vacate(job, cpus)
            check_size(job, cpus)
            pe_map = checked_map(job, pe_map, len(cpus))
            usual_ns = MAP_DEADLINE_NS_DEFAULT if pe_map else DEADLINE_NS_DEFAULT
            return await self.masks.change(job, cpus, (deadline_ns or usual_ns) / NS_PER_S, pe_map)

    async def set_processor_map(self, job_id: str, pe_map: bytes, deadline_ns: int) -> MapOutcome:
        """Has a Charm++ job use these PEs only; answers what was verified. Raises Refused."""
        job = self._running(job_id)
        if job.mode is ResizeMode.MAP:
            return await self._set_followed_map(job, pe_map, deadline_ns)
        # Not job.lock: a mask need not wait until the program comes to its next step.
        async with job.map_lock:
            self._running(job_id)
            return await set_processor_map(job.id, lambda: members(job), pe_map, deadline_ns)

    async def _set_followed_map(self, job: Job, pe_map: bytes, deadline_ns: int) -> MapOutcome:
        """Another map for the cores that a job of mode map has; it holds until these change."""
        check_deadline(deadline_ns)
        if not pe_map:
            raise InvalidRequest(f"job {job.id}: the map is empty")
        async with job.lock:
            self._running(job.id)
            if self.maps.seen(job) is None:
                raise WrongState(
                    f"job {job.id}: {job.placement.message or 'the program was not contacted yet'}"
                )
            job.wanted_map = checked_map(job, pe_map, len(job.cpus))
            self._files.note(job)
            deadline_s = (deadline_ns or MAP_DEADLINE_NS_DEFAULT) / NS_PER_S
            told = await self.maps.tell(job, deadline_s)
            seen = self.maps.seen(job)
            if seen is None:
                raise WrongState(f"job {job.id}: {job.placement.message}")
            job.confined = not told.acknowledged
            return outcome_of(job.id, self._program_of(job), seen, pe_map, told.took_ns)

    def _program_of(self, job: Job) -> CharmProgram:
        patience_ns = SPREAD_PATIENCE_NS if job.pes else PATIENCE_NS
        return CharmProgram(lambda: members(job), patience_ns)

    def forget(self, job_id: str, attempt: int = 0) -> None:
        """Drops the record of an ended attempt (0: whichever there is); none is as good.

        Raises WrongState.
        """
        job = self.jobs.get(JobId(job_id))
        if job is None or attempt not in (0, job.attempt):
            return
        if job.live:
            raise WrongState(f"job {job_id} still runs on this node")
        self._files.remove(job.id)
        del self.jobs[job.id]

    def stop(self) -> None:
        """Leaves the jobs alone: they run on and are adopted by the next agent."""
        self._background.stop()
        self._epochs.close()
        self.maps.stop()
        for job in self.jobs.values():
            for watch in (job.watch, job.first_watch):
                if watch is not None:
                    watch.close()
            if job.live:
                self._files.note(job)
        self.shims.close()

    def _held(self) -> dict[JobId, CpuSet]:
        return {job.id: job.held for job in self.jobs.values() if job.live}

    def _running(self, job_id: str) -> Job:
        job = self.jobs.get(JobId(job_id))
        if job is None:
            raise UnknownJob(f"job {job_id} is not on this node")
        if not job.live:
            raise WrongState(f"job {job_id} has ended")
        return job

    async def _start(self, job: Job, order: LaunchOrder, account: pwd.struct_passwd | None) -> None:
        self._open_shims(job)
        starting = await Starting.prepare(
            job.id, keeper_order(self._ports, self.shims.endpoint(job.id), job, order, account)
        )
        job.starting = starting
        job.pid, job.keeper = starting.pid, starting.keeper
        job.pid_ticks, job.keeper_ticks = start_ticks(job.pid), start_ticks(job.keeper)
        job.started_ns = job.held_since_ns = time.monotonic_ns()
        job.state = JobState.RUNNING
        try:
            self._files.save(job)
        except BaseException:
            await starting.abandon()
            raise
        if self._ports.firmware is not None:
            self._ports.firmware.started(job.id, job.keeper)
        await starting.go()
        self.ends.watch(job)
        self._follow_tasks(job)

    def _open_shims(self, job: Job) -> None:
        try:
            self.shims.open(job.id, job.uid)
        except OSError as error:
            raise device_refusal(error, f"job {job.id}: cannot open its shim socket") from None
        self._follower.publish(job)

    def _follow_tasks(self, job: Job) -> None:
        if job.division:
            self._background.spawn(self._ranks.follow(job))

    def _mask_order(self, job_id: JobId, pid: int) -> MaskOrder | None:
        job = self.jobs.get(job_id)
        if job is None:
            return None
        self._ranks.arrived(job, pid)
        return self._follower.order(job, pid)

    def _job_of_pid(self, pid: int) -> JobId | None:
        """The job whose process tree a pid is in."""
        roots = {j.keeper: j.id for j in self.jobs.values() if j.live and j.keeper}
        roots.update({j.pid: j.id for j in self.jobs.values() if j.live and j.pid})
        root = procfs.ancestor(pid, roots)
        return None if root is None else roots[root]

    def _over(self, job: Job) -> None:
        self.maps.end(job)
        self._clear(job)
        job.over.set()
        self._on_change()

    def _clear(self, job: Job) -> None:
        """Removes what held a job that has no process any more."""
        release(self._ports, job.id)
        self.shims.close_job(job.id)
        if job.id not in self.jobs:
            self._files.remove(job.id)

    def _marker(self, job: Job) -> bytes:
        """What is in the environment of the processes of this job and of no other on this host."""
        return f"WATTFOLD_SHIM_ENDPOINT={self.shims.endpoint(job.id)}".encode()

    def _adopt(self, job_id: str) -> None:
        job = self._files.load(job_id)
        if job is None:
            return
        self.jobs[job.id] = job
        if not job.live:
            job.over.set()
        elif job.boot_id != self._ports.boot_id:
            self.ends.lose(job, "the node was rebooted")
        else:
            self._take_over(job)

    def _take_over(self, job: Job) -> None:
        alive = procfs.same_process(job.keeper, job.keeper_ticks)
        if alive:
            with contextlib.suppress(OSError):
                mask = self._kernel_mask(job)
                none = CpuSet()
                job.cpus = job.held = none if job.resident else mask
                job.berth = mask if job.resident else none
            job.division = job.allowed = self._ranks.divide(job, job.cpus)
            if self._ports.firmware is not None:
                self._ports.firmware.adopt(job.id, job.keeper, len(job.held), job.gpus)
            os.kill(job.keeper, signal.SIGUSR1)
            self.orders.stay_suspended(job)
        self._files.save(job)
        self.maps.begin(job)
        logs.info("job_adopted", job=job.id, pid=job.pid, cpus=job.cpus, keeper_alive=alive)
        try:
            self._open_shims(job)
        except Refused as error:
            logs.warning("job_without_shims", job=job.id, why=error)
        self.ends.watch(job)
        self._follow_tasks(job)

    def _kernel_mask(self, job: Job) -> CpuSet:
        """What the kernel holds a job to; the tasks of one have parts of it."""
        pids = members(job) if job.division else []
        masks = [self._ports.masks.read(job.id, pid) for pid in pids or [job.pid]]
        return CpuSet.of(cpu for mask in masks for cpu in mask)
