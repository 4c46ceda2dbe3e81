"""Cluster simulation: the service's core and a policy, agents, jobs and faults on one clock.

Everything happens in events of the clock; the same seed gives the same run. At the end of every
instant, the true power, not the ledger's value, is compared with the budget, and held cores are
compared node by node. A violation is raised with the seed and the last events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from wattfold.contract.ids import Epoch, JobId, NodeId
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import configuration, reports
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.node import Duty, NodeSpec
from wattfold.coordinator.core.model.plan import PlanningRound, Policy
from wattfold.coordinator.core.state.state import CoreSettings, State
from wattfold.coordinator.policies.driver.node_sleep import with_sleep
from wattfold.coordinator.policies.driver.ordered_sizes import with_ordered_sizes
from wattfold.coordinator.policies.slowdown_driven.lent_core_recovery import with_cores_back
from wattfold.simulator.messages.agent import SIGKILL_EXIT, Agent, Process
from wattfold.simulator.messages.clock import VirtualClock
from wattfold.simulator.messages.delivery import Messages
from wattfold.simulator.messages.faults import Faults, Incident, IncidentKind
from wattfold.simulator.messages.flight_recorder import BrokenInvariantError, FlightRecorder
from wattfold.simulator.messages.holding import Holding
from wattfold.simulator.messages.meter import Meter, MeteredBudget
from wattfold.simulator.messages.restarts import RestartTimes
from wattfold.simulator.messages.truth import Truth
from wattfold.simulator.messages.work import Work

S = 1_000_000_000
DECLARED_OUTSIDE = (Duty.UNPOWERED, Duty.OUTSIDE, Duty.RETURNED)
_RECOUNT = (ev.BudgetChanged, ev.NodeOrdered, reports.NodeConnected, configuration.NodeRetired)
"""Events that may change the set of nodes in the budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """Settings of a simulated cluster."""

    seed: int = 0
    faults: Faults = Faults()  # noqa: RUF009 - immutable
    lease_ns: int = 6 * S
    """Length of leases.

    They are renewed three times in it, node by node: long runs need long leases.
    """
    idle_uw: int | None = None
    """Power of an idle node; None: its charge."""
    plan_deadline_s: float = 60.0
    """Time for planning; a solver that reaches it makes a run depend on the computer's speed."""
    restarts: RestartTimes = RestartTimes()  # noqa: RUF009 - immutable
    """Times of programs that restart at another size; the core learns the pause itself."""
    settings: CoreSettings = CoreSettings()  # noqa: RUF009 - immutable
    journal: bool = True
    """Whether events are kept, which the restart of a killed coordinator needs."""
    contact_ns: int = 0
    """After a restart, nodes are contacted within this time; their leases are held until then."""


class SimulatedCluster:
    """A running cluster. Times are nanoseconds of its clock, powers microwatts."""

    def __init__(
        self,
        specs: Sequence[NodeSpec],
        policy: Policy,
        budget_uw: int,
        options: ClusterOptions | None = None,
    ) -> None:
        options = self.options = options or ClusterOptions()
        self.policy = policy
        self.clock = VirtualClock()
        self.core = CoordinatorCore(budget_uw, self.options.settings)
        self.agents = {spec.node_id: Agent(spec, self.options.restarts) for spec in specs}
        self.truth = Truth(
            self.clock,
            list(self.agents.values()),
            self._report_ends,
            self.options.idle_uw,
            self.options.restarts.start_ns,
        )
        self.messages = Messages(
            self.clock, self, self._changed, options.faults, options.seed, options.settings.sleep
        )
        self.holding = Holding(self.clock, self.agents, self._changed, self.options.seed)
        self.meter = Meter(budget_uw=budget_uw)
        self.down = self._recount = False
        self.actions: list[act.Action] = []
        self.journal: list[tuple[ev.Event, int]] = []
        self.events = self.rounds = self.submitted = 0
        self.solver_ns: list[int] = []
        self.first_caps_uw: dict[JobId, int] = {}
        self._first_budget_uw, self._grace_until_ns = budget_uw, 0
        self._admitted: set[NodeId] = set()
        self._floors_uw = sum(agent.bound_uw for agent in self.agents.values())
        self._recorder = FlightRecorder()
        for spec in specs:
            self.post(configuration.NodeRegistered(node_id=spec.node_id, address="sim"))
        self._start(1)

    @property
    def now_ns(self) -> int:
        """Current time."""
        return self.clock.now_ns

    @property
    def budget_uw(self) -> int:
        """Current budget."""
        return self.meter.budget_uw

    @property
    def epoch(self) -> int:
        """Generation of the coordinator."""
        return self.core.state.epoch

    @property
    def clashes(self) -> int:
        """Commands that requested cores of another job."""
        return sum(agent.clashes for agent in self.agents.values())

    # Operations of a test or an experiment.

    def submit(self, job_id: str, spec: JobSpec, work: Work, held: bool = False) -> None:
        """Submit a job now; the submission is lost while the coordinator is down."""
        if self.down:
            return
        self.truth.works[JobId(job_id)] = work
        self.submitted += 1
        self.post(ev.JobSubmitted(job_id=JobId(job_id), spec=spec, held=held))

    def set_budget(self, budget_uw: int, deadline_ns: int) -> None:
        """Change the budget now."""
        if budget_uw < self.budget_uw:
            self._grace_until_ns = self.now_ns + deadline_ns
        self.meter.budget(
            MeteredBudget(time_ns=self.now_ns, budget_uw=budget_uw, deadline_ns=deadline_ns)
        )
        self.post(ev.BudgetChanged(budget_uw=budget_uw, deadline_ns=deadline_ns))

    def announce_budget(self, budget_uw: int, at_ns: int) -> None:
        """Announce a budget for a later time, without grace.

        The announcement is lost while the coordinator is down.
        """
        if self.down:
            return
        self.post(ev.BudgetAnnounced(at_ns=at_ns, budget_uw=budget_uw))
        self.clock.at(at_ns, lambda: self._budget_comes(budget_uw))

    def _budget_comes(self, budget_uw: int) -> None:
        self._grace_until_ns, self._recount = 0, True
        self.meter.budget(MeteredBudget(time_ns=self.now_ns, budget_uw=budget_uw))

    def happen(self, incident: Incident) -> None:
        """Cause a fault now."""
        self._recorder.note(self.now_ns, incident)
        match incident.kind:
            case IncidentKind.CUT:
                self.cut(incident.node_id, incident.for_ns)
            case IncidentKind.KILL_AGENT:
                self.kill_agent(incident.node_id, incident.for_ns)
            case IncidentKind.STOP_AGENT:
                self.stop_agent(incident.node_id, incident.for_ns)
            case IncidentKind.KILL_COORDINATOR:
                self.kill_coordinator(incident.for_ns)
            case IncidentKind.FULL_DISK:
                self.fill_disk(incident.node_id, incident.for_ns)
            case IncidentKind.KILL_JOB:
                self.kill_job(incident.node_id, incident.job_id)

    def cut(self, node_id: NodeId, for_ns: int) -> None:
        """Cut the network to a node for a while."""
        agent = self.agents[node_id]
        agent.connected = False
        self.post(reports.NodeSilent(node_id=node_id, reason="cut"))
        self.clock.later(for_ns, lambda: self._connect(agent))

    def kill_agent(self, node_id: NodeId, for_ns: int) -> None:
        """Kill the agent's process and restart it at its floors later; its jobs continue.

        A dead agent does not lower its caps, so it is restarted before its lease ends.
        """
        agent = self.agents[node_id]
        if not agent.alive:
            return
        for_ns = min(for_ns, max(agent.lease_until_ns - self.now_ns, 1))
        agent.alive = agent.connected = False
        self.post(reports.NodeSilent(node_id=node_id, reason="killed"))
        self.clock.later(for_ns, lambda: self.start_agent(agent))

    def fill_disk(self, node_id: NodeId, for_ns: int) -> None:
        """Prevent a node from starting jobs for a while; it reports this at the next launch."""
        agent = self.agents[node_id]
        agent.full = True
        self.clock.later(for_ns, lambda: self._empty_disk(agent))

    def _empty_disk(self, agent: Agent) -> None:
        agent.full = False
        if agent.fault:
            agent.fault = ""
            if agent.connected:
                self.post(reports.LaunchFaultReported(node_id=agent.node_id, reason=""))

    def stop_agent(self, node_id: NodeId, for_ns: int) -> None:
        """Stop the agent's process cleanly and start it again after a while."""
        agent = self.agents[node_id]
        if not agent.alive:
            return
        agent.stop(self.now_ns)
        self._changed(agent)
        self.post(reports.NodeSilent(node_id=node_id, reason="stopped"))
        self.clock.later(for_ns, lambda: self.start_agent(agent))

    def cut_power(self, node_id: NodeId, for_ns: int) -> None:
        """Switch a node off with all its processes, and on again after a while."""
        agent = self.agents[node_id]
        agent.lose_power()
        self.lost_power(agent)
        self.clock.later(for_ns, lambda: self.start_agent(agent))

    def lost_power(self, agent: Agent) -> None:
        """Note that a node was switched off."""
        self._changed(agent)
        self.post(reports.NodeSilent(node_id=agent.node_id, reason="off"))

    def start_agent(self, agent: Agent) -> None:
        """Start the agent of a node again."""
        agent.start_again(self.now_ns)
        self._changed(agent)
        self._connect(agent)

    def order(self, node_id: NodeId, order: ev.NodeOrder) -> None:
        """Send an operator's order about a node."""
        self.post(ev.NodeOrdered(node_id=node_id, order=order, reason="a test"))

    def resize(self, job_id: JobId, size: int) -> None:
        """Order a size of a job; 0 = the policy chooses."""
        self.post(ev.JobResizeRequested(job_id=job_id, size=size))

    def kill_coordinator(self, away_ns: int) -> None:
        """Kill the coordinator and lose commands in flight; it restarts from its journal later."""
        if not self.options.journal:
            raise ValueError("a coordinator without a journal cannot be killed and restarted")
        if self.down:
            return
        self.down = True
        for agent in self.agents.values():
            agent.connected = False
        self.clock.later(away_ns, self._restart)

    def kill_job(self, node_id: NodeId, job_id: JobId) -> None:
        """Kill the process of a job on a node."""
        agent = self.agents[node_id]
        process = agent.processes.get(job_id)
        if process is not None and process.running:
            agent.end(job_id, SIGKILL_EXIT)
            self._changed(agent)

    # Execution.

    def run(self, until_ns: int, done: Callable[[], bool] | None = None) -> None:
        """Run until a time, or until ``done`` returns True, which is called at every instant."""
        try:
            while not (done and done()):
                next_ns = self.clock.next_ns
                if next_ns is None or next_ns > until_ns:
                    self.clock.skip_to(until_ns)
                    self.meter.advance(self.now_ns)
                    return
                self._instant(next_ns)
        except Exception as error:
            error.add_note(
                f"seed {self.options.seed}, at {self.now_ns} ns; the last events:\n"
                f"{self._recorder.text()}"
            )
            raise

    def _instant(self, time_ns: int) -> None:
        """Run all events of one time, then check the true state."""
        self.meter.advance(time_ns)
        while self.clock.next_ns == time_ns:
            self.clock.step()
        accounts = self.core.state.ledger.accounts
        if self._recount or accounts.keys() != self._admitted:
            self._recount, self._admitted = False, set(accounts)
            self.truth.count(self._counted())
        sums = self.truth.sums
        queued = self.submitted - len(self.truth.runs)
        self.meter.note(sums, self.core.state.ledger.committed_uw, queued)
        if sums.bound_uw > self.budget_uw and time_ns >= self._grace_until_ns:
            raise BrokenInvariantError(
                f"nodes may draw {sums.bound_uw} uW, but the budget is {self.budget_uw} uW "
                f"(seed {self.options.seed}, at {time_ns} ns)"
            )

    def _counted(self) -> set[NodeId]:
        """Return the nodes in the budget: all except those that an operator has declared outside.

        A refused node also draws power, so it counts. Only if the floors of all nodes exceed the
        budget, which no action can fix, the nodes of the ledger count alone.
        """
        state = self.core.state
        if self._floors_uw > self.budget_uw:
            return set(state.ledger.accounts)
        return {n.node_id for n in state.nodes.values() if n.duty not in DECLARED_OUTSIDE}

    def _changed(self, agent: Agent) -> None:
        self.truth.touch(agent)
        self._report_ends(agent)
        wrong = agent.check_masks()
        if wrong:
            raise BrokenInvariantError(f"{wrong} (seed {self.options.seed}, at {self.now_ns} ns)")

    def post(self, event: ev.Event) -> None:
        """Give an event to the coordinator, if it is up, and execute the resulting actions."""
        if self.down:
            return
        self._recorder.note(self.now_ns, event)
        self.events += 1
        if self.options.journal:
            self.journal.append((event, self.now_ns))
        self._recount |= isinstance(event, _RECOUNT)
        for action in self.core.handle(event, self.now_ns):
            self._perform(action)

    def _perform(self, action: act.Action) -> None:
        self._recorder.note(self.now_ns, action)
        if self.options.journal:
            self.actions.append(action)
        if isinstance(action, act.WakeAt):
            self.clock.at(action.at_ns, lambda: self.post(ev.TimePassed()))
        elif isinstance(action, act.Solve):
            self._solve(action.round)
        else:
            if isinstance(action, act.Launch) and action.job_id not in self.first_caps_uw:
                target = self.core.state.jobs[action.job_id].target
                self.first_caps_uw[action.job_id] = target.cap_uw if target else 0
            self.messages.send(self.agents[action.node_id], action)

    def _solve(self, number: int) -> None:
        snapshot = self.core.snapshot(self.now_ns)
        began_ns = time.perf_counter_ns()
        plan = self.policy.propose(snapshot, self.now_ns, self.options.plan_deadline_s)
        plan = with_cores_back(plan, snapshot, snapshot.jobs, self.policy)
        plan = with_ordered_sizes(plan, snapshot, snapshot.jobs)
        plan = with_sleep(plan, snapshot, self.core.state, self.now_ns)
        self.rounds += 1
        if plan.solver != "none":
            self.solver_ns.append(time.perf_counter_ns() - began_ns)
        # The event does not contain the solve time, so that the same seed gives the same journal.
        record = PlanningRound(
            number=number,
            policy=self.policy.name,
            solver=plan.solver,
            outcome=plan.outcome,
            jobs=len(snapshot.jobs),
            solve_ns=0,
        )
        epoch = self.epoch

        def proposed() -> None:
            if epoch == self.epoch:
                self.post(ev.PlanProposed(plan=plan, round=record))

        self.clock.later(self.messages.delay_ns(), proposed)

    def _report_ends(self, agent: Agent) -> None:
        """Report each end once, or on first contact if the coordinator is down now."""
        for process in agent.processes.values():
            if not process.running and not process.reported:
                process.reported = True
                self.meter.until_last_end_uw_ns = self.meter.drawn_uw_ns
                self.clock.later(self.messages.delay_ns(), partial(self._report, agent, process))

    def _report(self, agent: Agent, process: Process) -> None:
        if agent.connected and process.job_id in agent.processes:
            self.post(reports.ProcessEnded(node_id=agent.node_id, process=process.reading()))

    def _start(self, epoch: int, held: tuple[NodeId, ...] = (), held_ns: int = 0) -> None:
        self.down = False
        started = ev.CoordinatorStarted(
            epoch=Epoch(epoch),
            lease_ns=self.options.lease_ns,
            command_timeout_ns=S,
            held=held,
            held_ns=held_ns,
        )
        self.post(started)
        for agent in self.agents.values():
            agent.connected = False
            delay_ns = self.messages.delay_ns()
            if epoch > 1 and self.options.contact_ns:
                delay_ns += self.holding.contact_ns(self.options.contact_ns)
            self.clock.later(delay_ns, partial(self._connect, agent))

    def _restart(self) -> None:
        epoch = self.core.state.epoch + 1
        fresh = CoordinatorCore(self._first_budget_uw, self.options.settings)
        for event, time_ns in self.journal:
            fresh.handle(event, time_ns)
        self.core = fresh
        self.down = False
        held = self.holding.begin(self._state_if_up) if self.options.contact_ns else ((), 0)
        self._start(epoch, *held)

    def _state_if_up(self) -> State | None:
        return None if self.down else self.core.state

    def _connect(self, agent: Agent) -> None:
        if self.down or agent.connected:
            return
        if not agent.alive:
            self.clock.later(S // 2, lambda: self._connect(agent))
            return
        agent.connected = True
        self.post(agent.hello())
