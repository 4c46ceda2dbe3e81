"""The jobs of the node: launch, masks, signals, ends, adoption after a restart.

Launch and ForgetProcess are idempotent by job id: a job that has a record is never started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import signal
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters import procfs, snapshot_folder
from wattfold.nodeagent.adapters.accounts import account_of
from wattfold.nodeagent.adapters.epoch_file import EpochFiles
from wattfold.nodeagent.adapters.processes import Starting, Watch
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
from wattfold.nodeagent.core.memory import over_memory_text
from wattfold.nodeagent.service.charm_program import PATIENCE_NS, SPREAD_PATIENCE_NS, CharmProgram
from wattfold.nodeagent.service.launching import JobPorts, keeper_order
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
from wattfold.nodeagent.service.records import Job, JobState, Saving, from_record, to_record
from wattfold.nodeagent.service.strays import Strays
from wattfold.nodeagent.service.suspending import Suspending
from wattfold.nodeagent.service.tasks import NodeTasks
from wattfold.nodeagent.service.telling import Telling

DEADLINE_NS_DEFAULT = NS_PER_S
DEADLINE_NS_MAX = 60 * NS_PER_S
GRACE_NS_MAX = 3600 * NS_PER_S
JOBS_MAX = 4096
_KEEPER_LOST = "its keeper was killed"


class NodeJobs:
    """All jobs of a node. Used from the event loop only."""

    def __init__(
        self, cpus: CpuSet, ports: JobPorts, shims_root: Path, on_change: Callable[[], None]
    ) -> None:
        self.jobs: dict[JobId, Job] = {}
        self.cpus = cpus
        self.shims = ShimServer(shims_root, self._job_of_pid, self._mask_order)
        self._ports = ports
        self._on_change = on_change
        self._tasks: set[asyncio.Task[None]] = set()
        records = JobRecords(members=self.members, save=self._save_durably, note=self._note)
        self._ranks = NodeTasks(ports.topology, self.members)
        self._follower = ShimFollower(self.shims, self._ranks)
        self.maps = MapFollow(self._program_of, lambda _: on_change(), self._follower)
        self._strays = Strays(self.jobs, ports.masks, self.members, on_change)
        self.masks = MaskChanges(
            self.jobs, ports, records, self._follower, self.maps, self._ranks, self._strays
        )
        self._suspending = Suspending(ports.groups, ports.firmware, self.members)
        self._epochs = EpochFiles()
        self._leaving = Leaving(ports.groups, self.members, self._marker, on_change)
        self.before_end: Callable[[], None] = lambda: None
        """Called when a job has ended and before its figures are written down."""

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
        self._spawn(self._strays.watch())
        self._spawn(self._epochs.watch(self.jobs))

    async def launch(self, order: LaunchOrder) -> tuple[Job, bool]:
        """Starts a job; (job, whether it was here already). Raises Refused; nothing is left."""
        known = self.jobs.get(order.job)
        if known is not None:
            async with known.lock:
                if self.jobs.get(order.job) is known and not self._makes_way(known, order):
                    return known, True
        check_order(order)
        check_mask(order.job, order.cpus, self.cpus, {} if order.resident else self._held())
        there = [gpu.id for gpu in self._ports.gpus]
        check_gpus(order, there, {j.id: j.gpus for j in self.jobs.values() if j.live})
        if len(self.jobs) >= JOBS_MAX:
            raise WrongState(f"{JOBS_MAX} jobs are on record here: forget ended ones first")
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
            snapshot_path="" if order.steps_only else order.snapshot_path,
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
        numbers = f"job {known.id}: attempt {known.attempt} is here, not {order.attempt}"
        if known.attempt > order.attempt:
            raise WrongState(numbers)
        if known.live:
            self._spawn(self._leaving.kill(known))
            raise WrongState(f"{numbers}; it is being ended")
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
            return await set_processor_map(job.id, lambda: self.members(job), pe_map, deadline_ns)

    async def _set_followed_map(self, job: Job, pe_map: bytes, deadline_ns: int) -> MapOutcome:
        """Another map for the cores that a job of mode map has; it holds until these change."""
        check_deadline(deadline_ns)
        if not pe_map:
            raise InvalidRequest(f"job {job.id}: an empty map")
        async with job.lock:
            self._running(job.id)
            if self.maps.seen(job) is None:
                raise WrongState(f"job {job.id}: {job.placement.message or 'not reached yet'}")
            job.wanted_map = checked_map(job, pe_map, len(job.cpus))
            self._note(job)
            deadline_s = (deadline_ns or MAP_DEADLINE_NS_DEFAULT) / NS_PER_S
            told = await self.maps.tell(job, deadline_s)
            seen = self.maps.seen(job)
            if seen is None:
                raise WrongState(f"job {job.id}: {job.placement.message}")
            job.confined = not told.acknowledged
            return outcome_of(job.id, self._program_of(job), seen, pe_map, told.took_ns)

    def _program_of(self, job: Job) -> CharmProgram:
        patience_ns = SPREAD_PATIENCE_NS if job.pes else PATIENCE_NS
        return CharmProgram(lambda: self.members(job), patience_ns)

    def signal(self, job_id: str, number: int, grace_ns: int) -> bool:
        """Signals the process group of a job; False if it does not run here. Raises Refused."""
        if not 1 <= number < signal.NSIG:
            raise InvalidRequest(f"signal {number} is outside 1..{signal.NSIG - 1}")
        if grace_ns > GRACE_NS_MAX:
            raise InvalidRequest(f"grace {grace_ns} ns is above {GRACE_NS_MAX} ns")
        job = self.jobs.get(JobId(job_id))
        if job is None or job.state is not JobState.RUNNING:
            return False
        if number in (signal.SIGTERM, signal.SIGKILL):
            self._go_on(job)
        _kill_group(job, number)
        self._steer_throttle(job, number)
        if number == signal.SIGTERM:
            # A stopped job takes SIGTERM only after it is continued.
            _kill_group(job, signal.SIGCONT)
            self._spawn(self._kill_later(job, grace_ns / NS_PER_S))
        return True

    def check_memory(self, job: Job) -> None:
        """Ends a job that has used more memory than it may. Called when that was looked at."""
        if not job.memory_limit_bytes or job.over_memory or not job.live:
            return
        seen = job.memory_bytes if self._ports.memory.watched else 0
        if seen <= job.memory_limit_bytes and not self._ports.memory.hit(job.id):
            return
        job.over_memory = True
        self._note(job)
        logs.warning(
            "job_over_memory",
            job=job.id,
            limit_bytes=job.memory_limit_bytes,
            seen_bytes=job.memory_bytes,
        )
        if self._ports.firmware is not None:
            self._ports.firmware.release(job.id)
        self._spawn(self._leaving.kill(job))

    async def end_attempt(
        self, job_id: str, attempt: int, number: int, grace_ns: int, *, saves: bool = False
    ) -> bool:
        """Ends one attempt of a job (0: whichever there is), after a signal and time to obey it.

        A signal other than SIGTERM goes to the processes that take it, and to those alone: see
        `Telling`. ``saves``: it is to go on later, so its snapshot folder is looked at. False if
        that attempt does not run here. Raises Refused.
        """
        job = self._attempt(job_id, attempt)
        if job is not None and saves and not job.asked:
            before = await snapshot_folder.look(job.snapshot_path)
            job.asked, job.snapshot_before = True, before
            self._note(job)
            job = self._attempt(job_id, attempt)
        if job is None:
            return False
        if number == signal.SIGTERM:
            return self.signal(job_id, number, grace_ns)
        if not 1 <= number < signal.NSIG or grace_ns > GRACE_NS_MAX:
            raise InvalidRequest(f"signal {number} and grace {grace_ns} ns are no way to end a job")
        self._go_on(job)
        telling = Telling(job, number, lambda: self.members(job))
        logs.info("job_to_end", job=job.id, signal=number, told=telling.look(), grace_ns=grace_ns)
        self._spawn(telling.follow())
        self._spawn(self._kill_later(job, grace_ns / NS_PER_S))
        return True

    def _attempt(self, job_id: str, attempt: int) -> Job | None:
        """An attempt of a job (0: whichever there is), if it runs here."""
        job = self.jobs.get(JobId(job_id))
        runs = job is not None and job.state is JobState.RUNNING
        return job if runs and job is not None and attempt in (0, job.attempt) else None

    async def suspend(self, job_id: str, attempt: int, *, suspended: bool) -> bool:
        """Has a job stand still, or go on; False if that attempt does not run here.

        One that was told to end does not stand still any more: an order to stop it that comes late
        would cost it its snapshot. Raises Refused.
        """
        job = self._attempt(job_id, attempt)
        if job is None:
            return False
        async with job.lock:
            # Looked at here, as it may have waited for a change of its cores.
            if self._attempt(job_id, attempt) is not job or (suspended and job.ending):
                return False
            # On disk first: what an agent that is killed here leaves stopped, the next one knows.
            before, job.suspended = job.suspended, suspended
            try:
                self._save(job, durable=True)
                (self._suspending.stop if suspended else self._suspending.go_on)(job)
            except Refused:
                job.suspended = before
                raise
        logs.info("job_suspended" if suspended else "job_resumed", job=job.id)
        return True

    def _go_on(self, job: Job) -> None:
        """A job that is to end is not suspended any more, and will not be."""
        job.ending = True
        if job.suspended:
            job.suspended = False
            self._suspending.go_on(job)
        self._note(job)

    def forget(self, job_id: str, attempt: int = 0) -> None:
        """Drops the record of an ended attempt (0: whichever there is); none is as good.

        Raises WrongState.
        """
        job = self.jobs.get(JobId(job_id))
        if job is None or attempt not in (0, job.attempt):
            return
        if job.live:
            raise WrongState(f"job {job_id} is still running here")
        self._ports.store.remove(f"jobs/{job.id}.json")
        self._ports.store.remove(f"jobs/{job.id}.exit")
        del self.jobs[job.id]

    async def end_all(self, grace_s: float) -> None:
        """Ends all jobs and waits for it."""
        running = [job for job in self.jobs.values() if job.live]
        for job in running:
            self.signal(job.id, signal.SIGTERM, int(grace_s * NS_PER_S))
        for job in running:
            await job.over.wait()

    def stop(self) -> None:
        """Leaves the jobs alone: they run on and are adopted by the next agent."""
        for task in self._tasks:
            task.cancel()
        self._epochs.close()
        self.maps.stop()
        for job in self.jobs.values():
            for watch in (job.watch, job.first_watch):
                if watch is not None:
                    watch.close()
            if job.live:
                self._note(job)
        self.shims.close()

    def members(self, job: Job) -> list[int]:
        """All processes of a job."""
        found = procfs.descendants(job.keeper)
        # A job whose keeper was killed is what is below its first process.
        first = procfs.same_process(job.pid, job.pid_ticks)
        return found or ([job.pid, *procfs.descendants(job.pid)] if first else [])

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
        job.pid_ticks, job.keeper_ticks = _ticks(job.pid), _ticks(job.keeper)
        job.started_ns = job.held_since_ns = time.monotonic_ns()
        job.state = JobState.RUNNING
        try:
            self._save(job, durable=True)
        except BaseException:
            await starting.abandon()
            raise
        if self._ports.firmware is not None:
            self._ports.firmware.started(job.id, job.keeper)
        await starting.go()
        self._watch_keeper(job)
        self._follow_tasks(job)

    def _open_shims(self, job: Job) -> None:
        try:
            self.shims.open(job.id, job.uid)
        except OSError as error:
            raise device_refusal(error, f"job {job.id}: cannot open its shim socket") from None
        self._follower.publish(job)

    def _follow_tasks(self, job: Job) -> None:
        if job.division:
            self._spawn(self._ranks.follow(job))

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

    def _steer_throttle(self, job: Job, number: int) -> None:
        firmware = self._ports.firmware
        if firmware is None:
            return
        if number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP):
            firmware.release(job.id)
        elif number in (signal.SIGSTOP, signal.SIGTSTP, signal.SIGCONT):
            firmware.suspend(job.id, suspended=number != signal.SIGCONT)

    async def _kill_later(self, job: Job, grace_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await job.over.wait()
        if job.live:
            logs.warning("job_killed_after_grace", job=job.id, grace_s=grace_s)
            if job.asked:
                job.saving = Saving.KILLED
                self._note(job)
            await self._leaving.kill(job)

    def _watch_keeper(self, job: Job) -> None:
        job.watch = Watch(job.keeper, job.keeper_ticks, lambda: self._keeper_ended(job))
        job.first_watch = Watch(job.pid, job.pid_ticks, lambda: self._first_ended(job))

    def _first_ended(self, job: Job) -> None:
        if job.live:
            if self._ports.firmware is not None:
                # Its throttle would continue what is stopped to be killed.
                self._ports.firmware.release(job.id)
            self._spawn(self._leaving.count(job))

    def _marker(self, job: Job) -> bytes:
        """What is in the environment of the processes of this job and of no other on this host."""
        return f"WATTFOLD_SHIM_ENDPOINT={self.shims.endpoint(job.id)}".encode()

    async def _end_strays(self, job: Job) -> None:
        await self._leaving.kill_without_keeper(job)
        if job.live:
            self._lose(job, _KEEPER_LOST)

    def _keeper_ended(self, job: Job) -> None:
        if job.starting is not None:
            job.starting.reap()
        record = self._ports.store.read(f"jobs/{job.id}.exit")
        if record is not None and (job.asked or job.epochs):
            self._spawn(self._end_looked_at(job, record))
            return
        if record is not None:
            self._end(job, record)
            return
        logs.warning("keeper_lost", job=job.id, keeper=job.keeper, pid=job.pid)
        # The number may be another process soon.
        job.keeper = 0
        job.watch = Watch(job.pid, job.pid_ticks, lambda: self._spawn(self._end_strays(job)))

    async def _end_looked_at(self, job: Job, record: dict[str, object]) -> None:
        """The end of a job that was to save: whether it has, in doubt it has; of a training, what
        its snapshot holds."""
        if job.epochs:
            await self._epochs.last(job)
        if job.asked:
            after = await snapshot_folder.look(job.snapshot_path)
            if job.saving is not Saving.KILLED:
                same = after == job.snapshot_before != snapshot_folder.UNKNOWN
                job.saving = Saving.UNSAVED if same else Saving.SAVED
            if job.saving is Saving.SAVED and job.snapshot_path:
                job.snapshot_bytes = await snapshot_folder.size_bytes(job.snapshot_path)
        self._end(job, record)

    def _end(self, job: Job, record: dict[str, object]) -> None:
        try:
            job.exit_code = int(str(record["exit_code"]))
            job.signal = int(str(record["signal"]))
            job.ended_ns = int(str(record["ended_ns"]))
            job.cpu_ns = max(job.cpu_ns, int(str(record["cpu_ns"])))
            left = int(str(record.get("left", 0)))
        except (KeyError, ValueError) as error:
            self._lose(job, f"the record of its end is damaged: {error!r}")
            return
        job.message = f"{left} processes would not die" if left else ""
        if (job.exit_code or job.signal) and (job.over_memory or self._ports.memory.hit(job.id)):
            job.message = over_memory_text(job.memory_limit_bytes)
        job.state = JobState.ENDED
        self.before_end()
        self._finish(job)

    def _lose(self, job: Job, why: str) -> None:
        job.state = JobState.LOST
        job.message = f"how it ended is not known: {why}"
        job.ended_ns = time.monotonic_ns() if job.boot_id == self._ports.boot_id else job.started_ns
        self._finish(job)

    def _finish(self, job: Job) -> None:
        logs.info(
            "job_ended",
            job=job.id,
            state=job.state.value,
            exit_code=job.exit_code,
            signal=job.signal,
            cpu_ns=job.cpu_ns,
            note=job.message,
        )
        try:
            self._save(job, durable=True)
        except Refused as error:
            # The exit file of the keeper still tells it to the next agent.
            logs.warning("job_end_not_saved", job=job.id, why=error)
        self.maps.end(job)
        self._clear(job)
        job.over.set()
        self._on_change()

    def _clear(self, job: Job) -> None:
        """Removes what held a job that has no process any more."""
        ports = self._ports
        # The firmware's thread first: without its accounting a job seems to give CPU time back,
        # and the energy counters fall by it, which reads as a wrap.
        if ports.firmware is not None:
            ports.firmware.remove(job.id)
        self.shims.close_job(job.id)
        ports.masks.remove(job.id)
        ports.clock.remove(job.id)
        ports.groups.remove(job.id)
        ports.memory.remove(job.id)
        ports.gpu_access.remove(job.id)
        try:
            ports.steps.remove(job.id)
        except OSError as error:
            logs.warning("step_folder_not_removed", job=job.id, why=error)
        if job.id not in self.jobs:
            ports.store.remove(f"jobs/{job.id}.json")
            ports.store.remove(f"jobs/{job.id}.exit")

    def _adopt(self, job_id: str) -> None:
        store = self._ports.store
        record = store.read(f"jobs/{job_id}.json")
        if record is None:
            return
        try:
            job = from_record(job_id, record)
        except ValueError as error:
            store.set_aside(f"jobs/{job_id}.json", str(error))
            return
        self.jobs[job.id] = job
        if not job.live:
            job.over.set()
        elif job.boot_id != self._ports.boot_id:
            self._lose(job, "the node was rebooted")
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
            self._stay_suspended(job)
        self._save(job, durable=True)
        self.maps.begin(job)
        logs.info("job_adopted", job=job.id, pid=job.pid, cpus=job.cpus, keeper_alive=alive)
        try:
            self._open_shims(job)
        except Refused as error:
            logs.warning("job_without_shims", job=job.id, why=error)
        self._watch_keeper(job)
        self._follow_tasks(job)

    def _stay_suspended(self, job: Job) -> None:
        if not job.suspended:
            return
        try:
            self._suspending.stop(job)
        except Refused as error:
            logs.warning("job_not_suspended", job=job.id, why=error)

    def _kernel_mask(self, job: Job) -> CpuSet:
        """What the kernel holds a job to; the tasks of one have parts of it."""
        pids = self.members(job) if job.division else []
        masks = [self._ports.masks.read(job.id, pid) for pid in pids or [job.pid]]
        return CpuSet.of(cpu for mask in masks for cpu in mask)

    def _note(self, job: Job) -> None:
        """Saves what may be lost: the next agent reads masks from the kernel."""
        if not job.live:
            return
        try:
            self._save(job, durable=False)
        except Refused as error:
            logs.warning("job_not_saved", job=job.id, why=error)

    def _save_durably(self, job: Job) -> None:
        self._save(job, durable=True)

    def _save(self, job: Job, *, durable: bool) -> None:
        self._ports.store.write(f"jobs/{job.id}.json", to_record(job), durable=durable)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _kill_group(job: Job, number: int) -> None:
    # After its end the number may be another process soon.
    if procfs.same_process(job.pid, job.pid_ticks):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, number)


def _ticks(pid: int) -> int:
    stat = procfs.read_stat(pid)
    return stat.start_ticks if stat else 0
