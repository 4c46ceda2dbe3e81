"""True state of the cluster: maximum and drawn power of every node, progress of every job.

The coordinator knows none of this. The driver reports every node that it has changed (`touch`).
Sums over the cluster are updated incrementally and never computed over all nodes.

`core.charge.reached_uw` derives the speed of jobs from the cap of their node. Jobs on k of its C
cores share the cap above the floor, so they run as on a whole node capped at that level. Their
packages draw ``k/C`` of the job's power at that level. The other cores draw their share of an idle
node. The sum never exceeds the cap. Idle nodes draw the power that the machine states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.jobs.attempt import Saving
from wattfold.coordinator.core.power.charge import reached_uw
from wattfold.simulator.messages.agent import Agent, Process
from wattfold.simulator.messages.clock import ScheduledEvent, VirtualClock
from wattfold.simulator.messages.job_run import JobRun
from wattfold.simulator.messages.work import CoresAtCap, Work


@dataclass(slots=True, kw_only=True)
class NodeTruth:
    """Maximum and drawn power of a node, in microwatts, and the jobs with processes there."""

    agent: Agent
    idle_uw: int
    bound_uw: int = 0
    drawn_uw: int = 0
    asleep: bool = False
    boots: bool = False
    runs: dict[JobId, JobRun] = field(default_factory=dict)
    counted: bool = False
    """Whether it is in the budget: nodes that an operator declared outside are not."""
    timer: ScheduledEvent | None = None


@dataclass(slots=True, kw_only=True)
class Sums:
    """Sums over the nodes in the budget."""

    bound_uw: int = 0
    drawn_uw: int = 0
    nodes_busy: int = 0
    running: int = 0
    """Jobs whose processes all run."""
    nodes: int = 0
    asleep: int = 0
    """Nodes that sleep, and below the power of these and of booting nodes."""
    asleep_uw: int = 0
    boot_uw: int = 0


Ended = Callable[[Agent], None]


class Truth:
    """Nodes, jobs and sums.

    ``on_end`` is called with every node on which a process may have ended.
    """

    def __init__(
        self,
        clock: VirtualClock,
        agents: list[Agent],
        on_end: Ended,
        idle_uw: int | None = None,
        start_ns: int = 0,
    ) -> None:
        self._clock = clock
        self._start_ns = start_ns
        self._on_end = on_end
        self.nodes: dict[NodeId, NodeTruth] = {}
        self.works: dict[JobId, Work] = {}
        self.runs: dict[JobId, JobRun] = {}
        self.sums = Sums()
        self._strays: dict[tuple[NodeId, JobId], JobRun] = {}
        for agent in agents:
            idle = agent.bound_uw if idle_uw is None else min(idle_uw, agent.bound_uw)
            self.nodes[agent.node_id] = NodeTruth(agent=agent, idle_uw=idle)
            self.touch(agent)

    def count(self, counted: set[NodeId]) -> None:
        """Set the nodes that are in the budget from now on."""
        for node_id, node in self.nodes.items():
            if node.counted != (node_id in counted):
                self._add(node, -1)
                node.counted = not node.counted
                self._add(node, 1)

    def resume(self, job_id: JobId, work: Work, done: float) -> bool:
        """Let a running job continue with this work, of which a share is done.

        Return False if the job does not run.
        """
        self.works[job_id] = work
        run = self.runs.get(job_id)
        if run is None or run.ended or not run.complete:
            return False
        run.advance(self._clock.now_ns)
        run.work, run.done = work, done
        for node_id in [*run.places]:
            self.touch(self.nodes[node_id].agent)
        return True

    def _add(self, node: NodeTruth, sign: int) -> None:
        if node.counted:
            self.sums.bound_uw += sign * node.bound_uw
            self.sums.drawn_uw += sign * node.drawn_uw
            self.sums.nodes_busy += sign * bool(node.runs)
            self.sums.nodes += sign
            self.sums.asleep += sign * node.asleep
            self.sums.asleep_uw += sign * node.asleep * node.drawn_uw
            self.sums.boot_uw += sign * node.boots * node.drawn_uw

    def touch(self, agent: Agent) -> None:
        """Apply all changes of a node: caps, lease, processes, masks."""
        now_ns = self._clock.now_ns
        node = self.nodes[agent.node_id]
        agent.pass_time(now_ns)
        self._add(node, -1)
        before = node.runs
        node.runs = {p.job_id: self._run_of(p, agent.node_id) for p in agent.running}
        for process in agent.running:
            run = node.runs[process.job_id]
            saves = process.ends_ns > 0
            if saves and run.stalled_since_ns < 0:
                run.stalled_since_ns = now_ns
            stands = process.suspended or saves
            (run.stopped.add if stands else run.stopped.discard)(agent.node_id)
        self._note_saved(agent)
        concerned = {id(run): run for run in (*before.values(), *node.runs.values())}
        complete = 0
        for run in concerned.values():
            run.advance(now_ns)
            complete -= run.complete and not run.ended
        for job_id, run in before.items():
            if node.runs.get(job_id) is not run:
                self._leave(run, agent.node_id)
        self._share(node)
        for run in concerned.values():
            run.reprice(now_ns)
            complete += run.complete and not run.ended
            self._set_end(run)
        self.sums.running += complete
        self._add(node, 1)
        self._wake(node)

    def _note_saved(self, agent: Agent) -> None:
        for process in agent.processes.values():
            run = self.runs.get(process.job_id)
            own = run is not None and run.attempt == process.attempt
            if run is not None and own and not process.running:
                run.saved |= process.saving is Saving.SAVED

    def _run_of(self, process: Process, node_id: NodeId) -> JobRun:
        """Return the run of a process.

        A launch command that arrives after the end of its job starts the program again, alone.
        """
        run = self.runs.get(process.job_id)
        if run is None or run.attempt < process.attempt:
            # Every attempt starts from scratch, except for a program that restarts from its
            # snapshot.
            fresh = self._new_run(process, process.ranks)
            if run is not None and process.restarts:
                self._go_on(run, fresh)
            run = self.runs[process.job_id] = fresh
        if run.attempt == process.attempt and (not run.ended or process.steps_only):
            return run
        key = (node_id, process.job_id)
        if key not in self._strays:
            self._strays[key] = self._new_run(process, 1)
        return self._strays[key]

    def _go_on(self, before: JobRun, run: JobRun) -> None:
        run.totals = before.totals
        run.done = run.kept = before.done if before.saved else before.kept
        run.stalled_since_ns, run.start_ns = before.stalled_since_ns, self._start_ns

    def _new_run(self, process: Process, ranks: int) -> JobRun:
        return JobRun(
            job_id=process.job_id,
            work=self.works[process.job_id],
            ranks=ranks,
            attempt=process.attempt,
            since_ns=self._clock.now_ns,
        )

    def _share(self, node: NodeTruth) -> None:
        """Divide the node's power among its jobs."""
        agent = node.agent
        spec, cap_uw = agent.spec, agent.package_cap_uw
        all_cores = spec.kind.cores
        node.bound_uw = agent.bound_uw
        node.boots = agent.booting
        node.asleep = not (agent.powered or agent.booting)
        if not node.runs:
            powered = agent.powered
            node.drawn_uw = min(node.idle_uw, node.bound_uw) if powered else node.bound_uw
            return
        cores = {p.job_id: len(p.cpus) for p in agent.running}
        held = sum(cores.values())
        # Sleeping residual processes hold no cores and draw nothing.
        level_uw = reached_uw(spec.kind, max(held, 1), cap_uw)
        packages_uw = sum(zone.bound_uw for zone in agent.zones.values() if zone.is_package)
        others_uw = node.bound_uw - packages_uw
        idle_packages_uw = max(min(node.idle_uw - others_uw, cap_uw), 0)
        fixed_uw = others_uw + idle_packages_uw * (all_cores - held) // all_cores
        left_uw = cap_uw - (fixed_uw - others_uw)
        node.drawn_uw = fixed_uw
        for job_id, run in node.runs.items():
            own = cores[job_id]
            packages_uw = run.work.package_uw(level_uw) * own // all_cores
            packages_uw = min(packages_uw, left_uw * own // max(held, 1))
            run.places[agent.node_id] = CoresAtCap(cores=own, level_uw=level_uw)
            run.drawn_uw[agent.node_id] = packages_uw + fixed_uw * own // max(held, 1)
            node.drawn_uw += packages_uw

    def _leave(self, run: JobRun, node_id: NodeId) -> None:
        run.places.pop(node_id, None)
        run.drawn_uw.pop(node_id, None)
        run.stopped.discard(node_id)
        self._strays.pop((node_id, run.job_id), None)
        if not run.places and not run.ended:
            run.ended, run.totals.end_ns = True, self._clock.now_ns

    def _set_end(self, run: JobRun) -> None:
        if run.timer is not None:
            run.timer.cancel()
            run.timer = None
        left_ns = run.left_ns
        if run.complete and not run.ended and run.goes_on_ns > self._clock.now_ns:
            run.timer = self._clock.at(run.goes_on_ns, lambda: self._loaded(run))
        elif left_ns is not None and not run.ended:
            run.timer = self._clock.later(left_ns, lambda: self._end(run))

    def _loaded(self, run: JobRun) -> None:
        """Continue a job that has read its snapshot."""
        run.timer = None
        run.advance(self._clock.now_ns)
        run.reprice(self._clock.now_ns)
        self._set_end(run)

    def _end(self, run: JobRun) -> None:
        """End every process of a job whose work is done."""
        run.advance(self._clock.now_ns)
        run.timer = None
        if run.complete and not run.ended:
            self.sums.running -= 1
        run.ended, run.totals.end_ns = True, self._clock.now_ns
        agents = [self.nodes[node_id].agent for node_id in run.places]
        for agent in agents:
            agent.complete(run.job_id)
        for agent in agents:
            self.touch(agent)
            self._on_end(agent)

    def _wake(self, node: NodeTruth) -> None:
        """Check a node again when a window passes or its lease ends."""
        due_ns = node.agent.due_ns()
        if due_ns is None or (node.timer is not None and node.timer.time_ns <= due_ns):
            return  # A timer that fires too early is set again.
        if node.timer is not None:
            node.timer.cancel()

        def look() -> None:
            node.timer = None
            before = len(node.agent.running)
            self.touch(node.agent)
            if len(node.agent.running) < before:
                self._on_end(node.agent)

        node.timer = self._clock.at(due_ns, look)
