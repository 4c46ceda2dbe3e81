"""Simulated agent with its node: zones with caps, a lease, and processes with masks.

It handles commands as a real agent does. It knows facts that the coordinator can only bound: the
cap of every zone, and how long a previous higher cap still counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId, ZoneName
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.jobs.attempt import Saving
from wattfold.coordinator.core.model.jobs.spec import MAPPED, ResizeMode
from wattfold.coordinator.core.model.node import NodeSpec, Zone, ZoneKind
from wattfold.coordinator.core.power.charge import CAP_STEP_UW
from wattfold.simulator.messages.restarts import GRACE_NS, RestartTimes

Command = (
    act.SetCaps
    | act.Leave
    | act.SetMask
    | act.Launch
    | act.Terminate
    | act.Suspend
    | act.ForgetProcess
    | act.RenewLease
)
KEPT_ANSWERS = 512
SIGTERM_EXIT, SIGKILL_EXIT = 143, 137


@dataclass(slots=True, kw_only=True)
class ZoneTruth:
    """Current cap of a zone, and higher caps that still count, as (until, cap)."""

    zone: Zone
    cap_uw: int
    settling: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def at_floor(cls, zone: Zone) -> ZoneTruth:
        """Return a zone at its floor; a zone that cannot be capped may draw its maximum power."""
        return cls(zone=zone, cap_uw=zone.floor_uw if zone.can_cap else zone.cap_uw_max)

    @property
    def is_package(self) -> bool:
        """Whether policies choose its cap."""
        return self.zone.can_cap and self.zone.kind is ZoneKind.PACKAGE

    def set_cap(self, cap_uw: int, now_ns: int) -> None:
        """Set the cap; a lower cap holds on average only after its window."""
        if cap_uw < self.cap_uw:
            self.settling.append((now_ns + self.zone.window_ns, self.cap_uw))
        self.cap_uw = cap_uw

    @property
    def bound_uw(self) -> int:
        """Maximum mean power over a window that ends now."""
        if not self.settling:
            return self.cap_uw
        return max(self.cap_uw, max(cap for _, cap in self.settling))


@dataclass(slots=True, kw_only=True)
class Process:
    """Process of a job on the node: running on cores, or ended and not yet forgotten."""

    job_id: JobId
    cpus: CpuSet
    ranks: int
    """Total number of processes of the job."""
    attempt: int = 1
    suspended: bool = False
    steps_only: bool = False
    """It takes steps of a launcher elsewhere: it runs until it is ended."""
    running: bool = True
    exit_code: int = 0
    reported: bool = False
    """Whether the report of its end was sent to the coordinator."""
    restarts: bool = False
    """On a signal it saves a snapshot, from which its next attempt resumes."""
    ends_ns: int = 0
    """Time at which it will have saved and end, or be killed; 0 = it has no such order."""
    saving: Saving = Saving.UNASKED
    pes: int = 0
    """PEs at its start; 0 = not mode map."""
    processor_map: bytes = b""
    resident: bool = False
    """It holds no core here; its job holds cores elsewhere."""
    spans: bool = False
    """It belongs to a job whose map spans nodes."""

    @property
    def map_fits(self) -> bool:
        """Whether its map has one enabled PE per core, if the map covers only this node."""
        if self.spans:
            return self.steps_only or len(self.processor_map) == self.pes
        return not self.pes or (
            len(self.processor_map) == self.pes and sum(self.processor_map) == len(self.cpus)
        )

    def reading(self) -> reports.ProcessReading:
        """Return the agent's report of the process."""
        return reports.ProcessReading(
            job_id=self.job_id,
            running=self.running,
            pid=1,
            cpus=self.cpus,
            exit_code=self.exit_code,
            attempt=self.attempt,
            suspended=self.running and self.suspended,
            saving=self.saving,
            resident=self.running and self.resident,
        )


class Agent:
    """A node and its agent. Zones start at their floors; their original caps are the maxima."""

    def __init__(self, spec: NodeSpec, restarts: RestartTimes = RestartTimes()) -> None:  # noqa: B008 - immutable
        self.spec = spec
        self._restarts = restarts
        self.zones = {
            zone.name: ZoneTruth(
                zone=zone, cap_uw=zone.floor_uw if zone.can_cap else zone.cap_uw_max
            )
            for zone in spec.zones
        }
        self.lease_until_ns = self.epoch = 0
        self.alive = self.powered = True
        self.connected = self.booting = False
        self.dark_uw = 0
        """Power while it is off or boots."""
        self.full = False
        """Its disk has no room for the records of another job."""
        self.fault = ""
        """Why it cannot start jobs, as reported to its coordinator."""
        self.left = False
        """Nothing is enforced: the zones have the caps from before the agent's start."""
        self.processes: dict[JobId, Process] = {}
        self.clashes = 0
        """Commands that requested cores of another job."""
        self._answers: dict[str, ev.Event | None] = {}
        self._called_off: dict[JobId, int] = {}
        """Newest attempt of jobs with an early order to end; these attempts no longer start."""

    @property
    def node_id(self) -> NodeId:
        """ID of its node."""
        return self.spec.node_id

    @property
    def bound_uw(self) -> int:
        """Maximum power of the node: base power, and its caps or those of a window ago."""
        if not self.powered:
            return self.dark_uw
        return self.spec.base_power_uw + sum(zone.bound_uw for zone in self.zones.values())

    @property
    def package_cap_uw(self) -> int:
        """Sum of the caps of its packages."""
        return sum(
            z.cap_uw
            for z in self.zones.values()
            if z.zone.kind is ZoneKind.PACKAGE and z.zone.can_cap
        )

    @property
    def running(self) -> list[Process]:
        """Running processes."""
        return [process for process in self.processes.values() if process.running]

    def due_ns(self) -> int | None:
        """Return the next time of a change without a command: a window, save or lease ends."""
        times = [until for zone in self.zones.values() for until, _ in zone.settling]
        if self.alive and not self.left and self._above_floor():
            times.append(self.lease_until_ns)
        times += [process.ends_ns for process in self.running if process.ends_ns]
        return min(times, default=None)

    def pass_time(self, now_ns: int) -> None:
        """Let windows pass, programs save and the lease end.

        The guard of a dead agent is not simulated.
        """
        for process in self.running:
            if 0 < process.ends_ns <= now_ns:
                killed = process.saving is Saving.KILLED
                self.end(process.job_id, SIGKILL_EXIT if killed else 0)
        for zone in self.zones.values():
            if zone.settling:
                zone.settling = [entry for entry in zone.settling if entry[0] > now_ns]
        leased = self.left or now_ns < self.lease_until_ns
        if self.alive and not leased and self._above_floor():
            self.fall_to_floor(now_ns)

    def _above_floor(self) -> bool:
        return any(z.zone.can_cap and z.cap_uw > z.zone.floor_uw for z in self.zones.values())

    def fall_to_floor(self, now_ns: int) -> None:
        """Lower all caps above their floor to it."""
        for zone in self.zones.values():
            if zone.zone.can_cap and zone.cap_uw > zone.zone.floor_uw:
                zone.set_cap(zone.zone.floor_uw, now_ns)

    def start_again(self, now_ns: int) -> None:
        """Start the agent's process again: without a lease, with zones at their floors."""
        self.alive = self.powered = True
        self.lease_until_ns, self.booting = 0, False
        self._answers.clear()
        self._called_off.clear()
        if not self.left:
            self.fall_to_floor(now_ns)

    def stop(self, now_ns: int) -> None:
        """Stop the agent's process cleanly: the zones go to their floors, the jobs continue."""
        if not self.left:
            self.fall_to_floor(now_ns)
        self.alive = self.connected = False
        self.lease_until_ns = 0

    def lose_power(self) -> None:
        """Switch the node off with all its processes."""
        self.alive = self.connected = self.powered = self.left = self.booting = False
        self.lease_until_ns = self.dark_uw = 0
        self.processes.clear()
        for zone in self.zones.values():
            zone.settling.clear()
            zone.cap_uw = ZoneTruth.at_floor(zone.zone).cap_uw

    def hello(self) -> reports.NodeConnected:
        """Return the agent's first report to a coordinator."""
        return reports.NodeConnected(
            spec=self.spec,
            caps=self._readings(),
            processes=tuple(process.reading() for process in self.processes.values()),
            left=self.left,
            fault=self.fault,
        )

    def take(self, command: Command, epoch: int, now_ns: int, refuse: bool) -> ev.Event | None:
        """Execute a command and return the answer; a repeated command gets its first answer.

        Returns None if there is no answer: the agent is dead, the epoch is older, or the command
        has no answer. ``refuse``: its zones refuse caps this time.
        """
        if not self.alive or epoch < self.epoch:
            return None
        self.epoch = epoch
        if command.request_id not in self._answers:
            self._answers[command.request_id] = self._obey(command, now_ns, refuse)
            if len(self._answers) > KEPT_ANSWERS:
                del self._answers[next(iter(self._answers))]
        return self._answers[command.request_id]

    def _obey(self, command: Command, now_ns: int, refuse: bool) -> ev.Event | None:
        match command:
            case act.RenewLease():
                self._enter(now_ns)
                self.lease_until_ns = now_ns + command.duration_ns
                return reports.LeaseRenewed(
                    node_id=self.node_id, request_id=command.request_id, caps=self._readings()
                )
            case act.SetCaps():
                return self._set_caps(command, now_ns, refuse)
            case act.Leave():
                return self._leave(command, now_ns)
            case act.SetMask():
                return self._set_mask(command)
            case act.Launch():
                return self._launch(command)
            case act.Terminate():
                if not self._is_there(command.job_id, command.attempt):
                    newest = self._called_off.get(command.job_id, 0)
                    self._called_off[command.job_id] = max(command.attempt, newest)
                    return reports.TerminateFailed(
                        node_id=self.node_id,
                        job_id=command.job_id,
                        reason="the process does not exist",
                        refused=True,
                        attempt=command.attempt,
                    )
                self._terminate(command, now_ns)
            case act.Suspend():
                return self._suspend(command)
            case act.ForgetProcess():
                self._forget(command)
        return None

    def _readings(
        self, names: tuple[ZoneName, ...] = (), error: str = ""
    ) -> tuple[reports.ZoneReading, ...]:
        zones = [self.zones[name] for name in names] or list(self.zones.values())
        return tuple(
            reports.ZoneReading(
                zone=zone.zone.name,
                cap_uw=zone.cap_uw,
                settles_in_ns=zone.zone.window_ns,
                error=error,
                original_uw=zone.zone.cap_uw_max,
            )
            for zone in zones
            if zone.zone.can_cap
        )

    def _enter(self, now_ns: int) -> None:
        """Readmit a node that has left: at its floors, before anything else."""
        if self.left:
            self.left = False
            self.fall_to_floor(now_ns)

    def _leave(self, command: act.Leave, now_ns: int) -> ev.Event:
        if self.running:
            return reports.LeaveFailed(
                node_id=self.node_id,
                request_id=command.request_id,
                reason="jobs are alive",
                refused=True,
            )
        self.left, self.lease_until_ns = True, 0
        for zone in self.zones.values():
            zone.set_cap(zone.zone.cap_uw_max, now_ns)
        return reports.LeaveAnswered(
            node_id=self.node_id, request_id=command.request_id, caps=self._readings()
        )

    def _set_caps(self, command: act.SetCaps, now_ns: int, refuse: bool) -> ev.Event:
        self._enter(now_ns)
        leased = now_ns < self.lease_until_ns
        names = tuple(name for name, _ in command.caps)
        if not leased and any(cap > self.zones[n].zone.floor_uw for n, cap in command.caps):
            return reports.CapsUnconfirmed(
                node_id=self.node_id, request_id=command.request_id, reason="no lease"
            )
        if not refuse:
            for name, cap_uw in command.caps:
                # As in RAPL, limits are multiples of a step, rounded down.
                self.zones[name].set_cap(cap_uw // CAP_STEP_UW * CAP_STEP_UW, now_ns)
        caps = self._readings(names, "device error" if refuse else "")
        return reports.CapsAnswered(node_id=self.node_id, request_id=command.request_id, caps=caps)

    def _set_mask(self, command: act.SetMask) -> ev.Event:
        process = self.processes.get(command.job_id)
        ended = process is None or not process.running
        cpus = CpuSet() if command.resident else command.cpus
        if process is None or ended or self._clash(command.job_id, cpus):
            reason = "ended" if ended else "held"
            return reports.MaskFailed(
                node_id=self.node_id,
                job_id=command.job_id,
                reason=reason,
                attempt=command.attempt,
            )
        # The objects move at once: the core does not model how a program uses its map.
        process.cpus, process.processor_map = cpus, command.processor_map
        process.resident = command.resident
        return reports.MaskConfirmed(
            node_id=self.node_id,
            job_id=command.job_id,
            cpus=cpus,
            confined=False,
            attempt=command.attempt,
            resident=command.resident,
            processor_map=command.processor_map,
            map_applied=bool(command.processor_map),
        )

    def _forget(self, command: act.ForgetProcess) -> None:
        process = self.processes.get(command.job_id)
        if process is not None and command.attempt in (0, process.attempt):
            del self.processes[command.job_id]

    def _is_there(self, job_id: JobId, attempt: int) -> bool:
        process = self.processes.get(job_id)
        return process is not None and process.running and attempt in (0, process.attempt)

    def _terminate(self, command: act.Terminate, now_ns: int) -> None:
        process = self.processes[command.job_id]
        process.suspended = False
        if not (process.restarts and command.saves):
            self.end(command.job_id, SIGTERM_EXIT)
        elif not process.ends_ns:
            grace_ns, save_ns = command.grace_ns or GRACE_NS, self._restarts.save_ns
            process.saving = Saving.SAVED if save_ns <= grace_ns else Saving.KILLED
            process.ends_ns = now_ns + max(min(save_ns, grace_ns), 1)

    def _suspend(self, command: act.Suspend) -> ev.Event:
        node_id, job_id = self.node_id, command.job_id
        if not self._is_there(job_id, command.attempt):
            return reports.SuspensionFailed(
                node_id=node_id, job_id=job_id, reason="ended", attempt=command.attempt
            )
        self.processes[job_id].suspended = command.suspended
        return reports.SuspensionConfirmed(
            node_id=node_id,
            job_id=job_id,
            suspended=command.suspended,
            attempt=command.attempt,
        )

    def _clash(self, job_id: JobId, cpus: CpuSet) -> bool:
        """Whether another job is on these cores, which the coordinator core must prevent."""
        clash = any(p.job_id != job_id and not p.cpus.isdisjoint(cpus) for p in self.running)
        self.clashes += clash
        return clash

    def _launch(self, command: act.Launch) -> ev.Event:
        known = self.processes.get(command.job_id)
        if known is not None and known.attempt != command.attempt and known.running:
            # As a real agent does: an earlier attempt was given up, and is ended first.
            if known.attempt < command.attempt:
                self.end(command.job_id, SIGKILL_EXIT)
            return self._refused(command, f"attempt {known.attempt} still runs")
        if known is None or known.attempt < command.attempt:
            if command.attempt <= self._called_off.get(command.job_id, 0):
                return self._refused(command, "the order to end it arrived first")
            cpus = CpuSet() if command.resident else command.cpus
            if self._clash(command.job_id, cpus):
                return self._refused(command, "held")
            if self.full:
                self.fault = "No space left on device"
                return replace(self._refused(command, self.fault), node_fault=True)
            mapped = command.spec.mode in MAPPED
            self.processes[command.job_id] = Process(
                job_id=command.job_id,
                cpus=cpus,
                ranks=command.ranks,
                resident=command.resident,
                spans=bool(command.pes),
                pes=command.pes or (command.launch_cpus if mapped else 0),
                processor_map=command.processor_map,
                steps_only=command.steps_only,
                restarts=command.spec.mode is ResizeMode.RESTART,
                attempt=command.attempt,
            )
        return reports.JobLaunched(
            node_id=self.node_id, job_id=command.job_id, pid=1, attempt=command.attempt
        )

    def _refused(self, command: act.Launch, reason: str) -> reports.LaunchFailed:
        return reports.LaunchFailed(
            node_id=self.node_id,
            job_id=command.job_id,
            reason=reason,
            permanent=False,
            attempt=command.attempt,
        )

    def end(self, job_id: JobId, exit_code: int) -> None:
        """End the process of a job, if it runs."""
        process = self.processes.get(job_id)
        if process is not None and process.running:
            process.running, process.exit_code, process.ends_ns = False, exit_code, 0

    def complete(self, job_id: JobId) -> None:
        """End the process of a finished job; a process for steps waits until it is ended."""
        process = self.processes.get(job_id)
        if process is not None and not process.steps_only:
            self.end(job_id, 0)

    def check_masks(self) -> str:
        """Return the error in the cores of the running processes, empty if there is none."""
        seen = CpuSet()
        for process in self.running:
            if not (process.cpus or process.resident) or not process.cpus <= self.spec.cpus:
                return (
                    f"job {process.job_id} is on cores {process.cpus}, which are not all part of "
                    f"{self.node_id}"
                )
            if not seen.isdisjoint(process.cpus):
                return f"cores {seen & process.cpus} of {self.node_id} have two owners"
            if not process.map_fits:
                return f"job {process.job_id} has map {process.processor_map!r} on {process.cpus}"
            seen |= process.cpus
        return ""
