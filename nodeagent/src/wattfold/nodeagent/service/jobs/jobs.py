"""The jobs of the node: launch, masks, maps, adoption after a restart.

Launch and ForgetProcess are idempotent by job ID: a job with a record is never started again.
`job_orders` contains the orders to jobs, `job_ends` their ends.
"""

from __future__ import annotations

import os
import pwd
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.jobs import procfs
from wattfold.nodeagent.adapters.jobs.accounts import account_of
from wattfold.nodeagent.adapters.jobs.epoch_file import EpochFiles
from wattfold.nodeagent.adapters.jobs.keeper_source import KeeperSource
from wattfold.nodeagent.adapters.jobs.launch_probe import probe
from wattfold.nodeagent.adapters.jobs.processes import Starting
from wattfold.nodeagent.adapters.shims.shim_server import MaskOrder, ShimServer
from wattfold.nodeagent.adapters.state_store import device_refusal
from wattfold.nodeagent.core.errors import InvalidRequest, Refused, UnknownJob, WrongState
from wattfold.nodeagent.core.launch import LaunchOrder, ResizeMode, check_gpus, check_order
from wattfold.nodeagent.core.masks import check_mask
from wattfold.nodeagent.service.background import Background
from wattfold.nodeagent.service.jobs.adopted import AdoptedJobs
from wattfold.nodeagent.service.jobs.charm_program import (
    PATIENCE_NS,
    SPREAD_PATIENCE_NS,
    CharmProgram,
)
from wattfold.nodeagent.service.jobs.found_masks import found_masks
from wattfold.nodeagent.service.jobs.job_ends import JobEnds
from wattfold.nodeagent.service.jobs.job_files import JobFiles
from wattfold.nodeagent.service.jobs.job_maps import checked_map
from wattfold.nodeagent.service.jobs.job_orders import JobOrders
from wattfold.nodeagent.service.jobs.job_processes import members, roots, start_ticks
from wattfold.nodeagent.service.jobs.launching import JobPorts, keeper_order, release
from wattfold.nodeagent.service.jobs.leaving import Leaving
from wattfold.nodeagent.service.jobs.map_follow import MapFollow
from wattfold.nodeagent.service.jobs.mask_changes import (
    JobRecords,
    MaskChange,
    MaskChanges,
    ShimFollower,
    check_size,
)
from wattfold.nodeagent.service.jobs.processor_maps import (
    MAP_DEADLINE_NS_DEFAULT,
    MapOutcome,
    check_deadline,
    outcome_of,
    set_processor_map,
)
from wattfold.nodeagent.service.jobs.records import Job, JobState, owned
from wattfold.nodeagent.service.jobs.shells import Shells, adopt_shells
from wattfold.nodeagent.service.jobs.starts import Starts
from wattfold.nodeagent.service.jobs.strays import Strays
from wattfold.nodeagent.service.jobs.tasks import NodeTasks

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
        keepers = self._keepers = KeeperSource()
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
        self.adopted = AdoptedJobs(
            self.jobs, cpus, ports, self._files, self.ends, self.shims, spawn, on_change
        )
        self.shells = Shells(self.jobs, self._keepers, ports, self._files)
        self.starts = Starts(lambda: probe(ports.store, shims_root, keepers), spawn, on_change)
        self._on_change = on_change

    def start(self) -> None:
        """Adopt the jobs of an earlier agent, and open the sockets of their shims."""
        self.shims.start()
        self._ports.store.agent_pid_path.write_text(str(os.getpid()), encoding="ascii")
        self._ports.store.agent_pid_path.chmod(0o600)
        for job_id in self._ports.store.job_ids():
            if job := self._files.load(job_id):
                self.jobs[job.id] = job
        masks = found_masks(self.jobs, self._ports.masks, self._ports.boot_id, self.cpus)
        for job in list(self.jobs.values()):
            self._adopt(job, masks)
        live = [job.id for job in self.jobs.values() if job.live]
        self._ports.steps.keep_only(live)
        self.shims.keep_only(live)
        if why := self._keepers.fault():
            self.starts.refused(why)
        self._background.spawn(self._strays.watch())
        self._background.spawn(self.adopted.watch())
        self._background.spawn(self._epochs.watch(self.jobs))

    async def launch(self, order: LaunchOrder) -> tuple[Job, bool]:
        """Start a job. Returns the job, and whether it was already here.

        Raises Refused, and leaves nothing behind then.
        """
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
            command_digest=order.command_digest,
            uid=os.geteuid() if account is None else account.pw_uid,
            tasks_per_node=order.tasks_per_node,
            memory_limit_bytes=order.memory_bytes,
            gpus=order.gpus,
            # A step host has no snapshot. Files that other ranks save after its order are visible
            # there too.
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
        self.starts.succeeded()
        self.maps.begin(job)
        logs.info("job_started", job=job.id, pid=job.pid, cpus=job.cpus, mode=job.mode.value)
        return job, False

    def _makes_way(self, known: Job, order: LaunchOrder) -> bool:
        """Whether the recorded attempt is earlier and has ended. Raises WrongState.

        A coordinator that starts a later attempt has given the earlier attempt up, so its remaining
        processes are ended first. Another job with the same number is not an earlier attempt, and
        it has not been given up.
        """
        if known.owner:
            raise WrongState(owned(known))
        another = known.command_digest not in ("", order.command_digest)
        if another and (known.live or known.attempt == order.attempt):
            state = "which runs" if known.live else "which has ended"
            raise WrongState(
                f"job {known.id}: this node has another job {known.id} with another command, "
                f"{state}; another coordinator has given it the same number"
            )
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
        """Move a job to other cores, and return when it has left the lost cores. Raises Refused.

        ``resident``: it must hold no core here, and its remaining processes must use these cores.
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
        """Restrict a Charm++ job to these PEs. Returns the verified map. Raises Refused."""
        job = self._running(job_id)
        if job.mode is ResizeMode.MAP:
            return await self._set_followed_map(job, pe_map, deadline_ns)
        # Not job.lock, because a mask need not wait for the next step of the program.
        async with job.map_lock:
            self._running(job_id)
            return await set_processor_map(job.id, lambda: members(job), pe_map, deadline_ns)

    async def _set_followed_map(self, job: Job, pe_map: bytes, deadline_ns: int) -> MapOutcome:
        """Set another map for the cores of a job of mode map, until these cores change."""
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
        """Delete the record of an ended attempt (0: the current attempt), if there is one.

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
        self._keepers.close()
        self.maps.stop()
        for job in self.jobs.values():
            job.close_watches()
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
        words = keeper_order(self._ports, self.shims.endpoint(job.id), job, order, account)
        starting = await Starting.prepare(self._keepers, job.id, words)
        job.pid, job.keeper = starting.pid, starting.keeper
        job.pid_ticks, job.keeper_ticks = start_ticks(job.pid), start_ticks(job.keeper)
        job.started_ns = job.held_since_ns = time.monotonic_ns()
        job.state = JobState.RUNNING
        try:
            self._files.save_durably(job)
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
        """Return the job whose process tree contains a PID."""
        known = roots(self.jobs.values())
        root = procfs.ancestor(pid, known)
        return None if root is None else known[root]

    def _over(self, job: Job) -> None:
        self.maps.end(job)
        self._clear(job)
        job.over.set()
        self._on_change()

    def _clear(self, job: Job) -> None:
        """Remove the confinement of a job without processes."""
        release(self._ports, job.id)
        self.shims.close_job(job.id)
        if job.id not in self.jobs:
            self._files.remove(job.id)

    def _marker(self, job: Job) -> bytes:
        """Return an environment entry that only the processes of this job have on this host."""
        return f"WATTFOLD_SHIM_ENDPOINT={self.shims.endpoint(job.id)}".encode()

    def _adopt(self, job: Job, masks: Mapping[JobId, CpuSet]) -> None:
        if not job.live:
            job.over.set()
        elif job.boot_id != self._ports.boot_id:
            self.ends.lose(job, "the node was rebooted")
        elif job.owner:
            self.adopted.take_over(job)
        else:
            self._take_over(job, masks)

    def _take_over(self, job: Job, masks: Mapping[JobId, CpuSet]) -> None:
        alive = procfs.same_process(job.keeper, job.keeper_ticks)
        if alive:
            if (mask := masks.get(job.id)) is not None:
                none = CpuSet()
                job.cpus = job.held = none if job.resident else mask
                job.berth = mask if job.resident else none
            job.division = job.allowed = self._ranks.divide(job, job.cpus)
            if self._ports.firmware is not None:
                self._ports.firmware.adopt(job.id, job.keeper, len(job.held), job.gpus)
            os.kill(job.keeper, signal.SIGUSR1)
            adopt_shells(job)
            self.orders.stay_suspended(job)
        self._files.save(job)
        self.maps.begin(job)
        logs.info("job_adopted", job=job.id, pid=job.pid, cpus=job.cpus, keeper_alive=alive)
        try:
            self._open_shims(job)
        except Refused as error:
            logs.warning("job_without_shims", job=job.id, reason=error)
        self.ends.watch(job)
        self._follow_tasks(job)
