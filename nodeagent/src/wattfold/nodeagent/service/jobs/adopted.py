"""Jobs that Slurm has started: their steps are handed over by its plugin, and found by a search.

Slurm owns these jobs. The agent confines their steps, sends masks to their shims and accounts for
them, but it never signals, ends or moves one. Each job of Slurm is one job on this node, because
its steps share or divide the cores of its allocation. It begins with the first task of its first
step and ends with its last step.

A step is watched from its first message on by the end of its slurmstepd, so that a step without a
task holds nothing. It keeps its cores while a process of it is alive. Steps that started without a
message, for example while the agent hung, would use cores that their job has lost. A search for
such steps runs every second, and adopts them without a shim.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.repeats import Repeats
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.beat import next_beat
from wattfold.nodeagent.adapters.devices.emulated_zones import EmulatedFirmware
from wattfold.nodeagent.adapters.jobs.processes import Watch
from wattfold.nodeagent.adapters.jobs.step_groups import step_name, step_processes
from wattfold.nodeagent.adapters.shims.shim_server import ShimServer
from wattfold.nodeagent.adapters.state_store import device_refusal
from wattfold.nodeagent.core.adoption import (
    SLURM,
    StepMessage,
    StepOpened,
    TaskExited,
    TaskForked,
    slurm_number,
    step_variables,
)
from wattfold.nodeagent.core.errors import NotPermitted, Refused, WrongState
from wattfold.nodeagent.core.launch import ResizeMode, ShimSetting
from wattfold.nodeagent.core.masks import check_mask
from wattfold.nodeagent.service.background import Spawn
from wattfold.nodeagent.service.jobs.job_ends import JobEnds
from wattfold.nodeagent.service.jobs.job_files import JobFiles
from wattfold.nodeagent.service.jobs.job_processes import start_ticks
from wattfold.nodeagent.service.jobs.launching import JobPorts
from wattfold.nodeagent.service.jobs.records import Job, JobState
from wattfold.nodeagent.service.jobs.slurm_steps import SlurmStep, confine_steps

OPENED_MAX = 4096
_SEARCH_S = 1.0
_STRICTNESS = (ResizeMode.MASK, ResizeMode.TEAM, ResizeMode.FIXED)
"""The last mode of this list among the steps of a job is the mode of the job."""


class AdoptedJobs:
    """The jobs of Slurm among ``jobs``. Used from the event loop only."""

    def __init__(
        self,
        jobs: dict[JobId, Job],
        cpus: CpuSet,
        ports: JobPorts,
        files: JobFiles,
        ends: JobEnds,
        shims: ShimServer,
        spawn: Spawn,
        on_change: Callable[[], None],
    ) -> None:
        self._jobs = jobs
        self._cpus = cpus
        self._ports = ports
        self._files = files
        self._ends = ends
        self._shims = shims
        self._spawn = spawn
        self._on_change = on_change
        self._repeats = Repeats()
        self._opened: dict[tuple[JobId, str], tuple[StepOpened, Watch]] = {}

    @property
    def opened(self) -> set[tuple[JobId, str]]:
        """Jobs and names of the steps that have no task yet."""
        return set(self._opened)

    async def answer(self, message: StepMessage, pid: int) -> dict[str, str]:
        """Handle a message of the slurmstepd with this PID. Returns variables. Raises Refused."""
        if isinstance(message, StepOpened):
            return self._open(message, pid)
        if isinstance(message, TaskForked):
            self._add_task(message, pid)
        else:
            self._end_task(message)
        return {}

    def take_over(self, job: Job) -> None:
        """Adopt a job of an earlier agent, whose steps may have ended since."""
        job.steps = {name: step for name, step in job.steps.items() if step.living()}
        if not job.steps:
            self._ends.lose(job, "it ended while no agent ran")
            return
        if job.cpu_group:
            self._ports.clock.count_in(job.id, Path(job.cpu_group))
        elif (firmware := self._firmware()) is not None:
            keeper = next(iter(job.steps.values())).keeper
            firmware.adopt(job.id, keeper, len(job.held))
        try:
            # A change of mask may have been interrupted.
            masks = [self._ports.slurm.read(step.group) for step in job.steps.values()]
            job.cpus = job.held = job.cpus | CpuSet.of(cpu for mask in masks for cpu in mask)
            confine_steps(self._ports.slurm, job.id, job.steps.values(), job.cpus)
        except (OSError, Refused) as error:
            logs.warning("slurm_job_not_confined", job=job.id, reason=error)
        try:
            self._open_shims(job)
        except Refused as error:
            logs.warning("job_without_shims", job=job.id, reason=error)
        self._files.note(job)
        for step in job.steps.values():
            self._watch_step(job, step)
        logs.info("slurm_job_found_again", job=job.id, cpus=job.cpus, steps=",".join(job.steps))

    async def watch(self) -> None:
        """Search for steps without a message until cancelled."""
        while True:
            await next_beat(_SEARCH_S)
            for job in list(self._jobs.values()):
                if job.owner and job.live:
                    self._search(job)

    def _open(self, opened: StepOpened, pid: int) -> dict[str, str]:
        key = (opened.job, opened.step)
        if len(self._opened) >= OPENED_MAX:
            raise WrongState(f"{OPENED_MAX} steps are opened, the maximum")
        known = self._jobs.get(opened.job)
        if known is not None and not known.owner:
            raise WrongState(f"this node has another job {opened.job}")
        if known is not None and known.live and known.uid != opened.uid:
            raise NotPermitted(f"{opened.job} belongs to account {known.uid}, not {opened.uid}")
        if key in self._opened:
            self._opened.pop(key)[1].close()
        watch = Watch(pid, start_ticks(pid), lambda: self._close(key))
        self._opened[key] = (opened, watch)
        shim = ShimSetting(
            library=self._ports.shim_library, endpoint=self._shims.endpoint(opened.job)
        )
        return step_variables(opened, shim)

    def _close(self, key: tuple[JobId, str]) -> None:
        if self._opened.pop(key, None) is not None:
            logs.info("slurm_step_without_task", job=key[0], step=key[1])

    def _add_task(self, message: TaskForked, pid: int) -> None:
        """Adopt a task before its first instruction. Raises Refused."""
        job, key = self._jobs.get(message.job), (message.job, message.step)
        step = job.steps.get(message.step) if job is not None and job.live else None
        if step is None:
            if key not in self._opened:
                raise WrongState(f"step {message.step} of {message.job} was not opened")
            # If it is refused, the search may still find it.
            opened, watch = self._opened.pop(key)
            watch.close()
            group = self._ports.slurm.find(message.pid, slurm_number(message.job))
            if group is None:
                raise WrongState(
                    f"process {message.pid} is in no cpuset of {message.job}; Slurm must use"
                    " TaskPlugin=task/cgroup with ConstrainCores=yes"
                )
            step = SlurmStep(
                name=message.step,
                keeper=pid,
                keeper_ticks=start_ticks(pid),
                mode=opened.mode,
                tasks=opened.tasks,
                group=group,
                cpus=self._cores(group),
            )
            job = self._adopt(step, message.job, opened.uid, message.pid)
            job.app = opened.app or job.app
        assert job is not None
        step.pids[message.task] = message.pid
        self._count(job, [message.pid])
        self._files.save(job)

    def _end_task(self, message: TaskExited) -> None:
        job = self._jobs.get(message.job)
        if job is None or not job.live or message.step not in job.steps:
            return
        code = 128 + message.signal if message.signal else message.code
        # The batch script ends last, and its status is that of the job.
        if message.step == "batch" or code > job.exit_code:
            job.exit_code, job.signal = code, message.signal
        self._files.note(job)

    def _cores(self, group: Path) -> CpuSet:
        try:
            return self._ports.slurm.read(group)
        except OSError as error:
            raise device_refusal(error, "cannot read the cores of the step") from None

    def _adopt(self, step: SlurmStep, job_id: JobId, uid: int, pid: int) -> Job:
        """Add a step to its job, which it may begin, and confine it. Raises Refused."""
        known = self._jobs.get(job_id)
        job = known if known is not None and known.live else self._begin(step, job_id, uid, pid)
        job.steps[step.name] = step
        job.mode = max((s.mode for s in job.steps.values()), key=_STRICTNESS.index)
        try:
            confine_steps(self._ports.slurm, job.id, [step], job.cpus)
        except Refused:
            del job.steps[step.name]
            if not job.steps:
                self._abandon(job)
            raise
        self._watch_step(job, step)
        logs.info(
            "slurm_step_adopted",
            job=job.id,
            step=step.name,
            cpus=step.cpus,
            mask=job.cpus,
            mode=step.mode.value,
        )
        self._on_change()
        return job

    def _begin(self, step: SlurmStep, job_id: JobId, uid: int, pid: int) -> Job:
        """Create the job of a first step, with all cores of its allocation. Raises Refused."""
        try:
            cpus = self._ports.slurm.allocation(step.group)
        except OSError as error:
            raise device_refusal(error, f"job {job_id}: cannot read its allocation") from None
        held = {job.id: job.held for job in self._jobs.values() if job.live}
        check_mask(job_id, cpus, self._cpus, held)
        earlier = self._jobs.get(job_id)
        job = Job(
            id=job_id,
            state=JobState.RUNNING,
            cpus=cpus,
            held=cpus,
            mode=step.mode,
            launch_cpus=len(cpus),
            attempt=1 if earlier is None else earlier.attempt + 1,
            boot_id=self._ports.boot_id,
            uid=uid,
            pid=pid,
            pid_ticks=start_ticks(pid),
            owner=SLURM,
            allocation=cpus,
        )
        job.started_ns = job.held_since_ns = time.monotonic_ns()
        group = self._ports.slurm.accounting(pid, slurm_number(job_id))
        if group is not None:
            job.cpu_group = str(group)
            self._ports.clock.count_in(job_id, group)
        self._jobs[job_id] = job
        try:
            self._open_shims(job)
            if (firmware := self._firmware()) is not None and not job.cpu_group:
                firmware.prepare(job_id, len(cpus))
                firmware.started(job_id, step.keeper)
        except OSError as error:
            self._abandon(job)
            raise device_refusal(error, f"job {job_id}: cannot be adopted") from None
        except Refused:
            self._abandon(job)
            raise
        return job

    def _open_shims(self, job: Job) -> None:
        try:
            self._shims.open(job.id, job.uid)
        except OSError as error:
            raise device_refusal(error, f"job {job.id}: cannot open its shim socket") from None

    def _firmware(self) -> EmulatedFirmware | None:
        """Return the emulation, unless it would stop the processes of Slurm with signals."""
        firmware = self._ports.firmware
        return firmware if firmware is not None and firmware.slows_by_group else None

    def _abandon(self, job: Job) -> None:
        """Drop a job whose first step was not adopted."""
        job.state = JobState.LOST
        self._files.remove(job.id)
        del self._jobs[job.id]
        self._ends.over(job)

    def _count(self, job: Job, pids: list[int]) -> None:
        """Let the groups of the agent count these processes, if Slurm does not count them."""
        if job.cpu_group:
            return
        try:
            files = list(self._ports.clock.prepare(job.id))
            if (firmware := self._firmware()) is not None:
                files += firmware.files(job.id)
            for file in files:
                for pid in pids:
                    file.write_text(str(pid), encoding="ascii")
        except OSError as error:
            logs.warning("slurm_job_not_counted", job=job.id, reason=error)

    def _watch_step(self, job: Job, step: SlurmStep) -> None:
        step.watch = Watch(
            step.keeper, step.keeper_ticks, lambda: self._spawn(self._follow_end(job, step))
        )

    async def _follow_end(self, job: Job, step: SlurmStep) -> None:
        """Remove a step whose slurmstepd has ended when none of its processes is alive."""
        while step.living():
            await asyncio.sleep(_SEARCH_S)
        if not job.live or job.steps.pop(step.name, None) is None:
            return
        logs.info("slurm_step_ended", job=job.id, step=step.name)
        if job.steps:
            job.mode = max((s.mode for s in job.steps.values()), key=_STRICTNESS.index)
            self._files.note(job)
            return
        self._ends.end_adopted(job)

    def _search(self, job: Job) -> None:
        first = next(iter(job.steps.values()))
        known = {step.group for step in job.steps.values()}
        for group in self._ports.slurm.siblings(first.group):
            name, pids = step_name(group), step_processes(group)
            if group in known or (job.id, name) in self._opened or not pids:
                continue
            keeper = next(filter(_is_slurmstepd, pids), 0)
            if not keeper:
                continue
            try:
                step = SlurmStep(
                    name=name,
                    keeper=keeper,
                    keeper_ticks=start_ticks(keeper),
                    mode=ResizeMode.MASK,
                    group=group,
                    cpus=self._cores(group),
                )
                self._adopt(step, job.id, job.uid, keeper)
                self._count(job, step.members())
                self._files.save(job)
            except Refused as refusal:
                if count := self._repeats.one_more(f"{job.id} {name}", time.monotonic()):
                    told = {"job": job.id, "step": name, "reason": refusal}
                    logs.warning("step_not_adopted", **told, times=count)


def _is_slurmstepd(pid: int) -> bool:
    """Whether a process is a slurmstepd of root, and not a program of a user with its name."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            name = file.read()
        return name.startswith("slurmstepd") and os.stat(f"/proc/{pid}").st_uid == 0
    except OSError:
        return False
