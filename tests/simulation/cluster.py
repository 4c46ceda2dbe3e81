"""A cluster in memory: agents with caps, leases, masks and processes, on virtual time.

It carries out the core's actions after random delays, loses messages, kills agents and jobs, and
knows the truth: what every zone really holds at every instant. The test compares that truth, not
the ledger's opinion, with the budget.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import Epoch, JobId, NodeId, ZoneName
from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core.job import JobSpec
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.node import Curve, NodeSpec, Zone, ZoneKind
from wattfold.coordinator.core.plan import PlanningRound, Policy
from wattfold.coordinator.core.state import check_invariants
from wattfold.coordinator.core.targets import CAP_STEP_UW

S = 1_000_000_000
W = 1_000_000
PACKAGE = ZoneName("package-0")
WINDOW_NS = S // 4
CURVE = Curve(a=1.5, b=4.0, c=8.0, f_low_ghz=1.2, f_high_ghz=2.6)


def node_spec(name: str, cores: int = 4, base_w: int = 10) -> NodeSpec:
    return NodeSpec(
        node_id=NodeId(name),
        cpus=CpuSet.of(range(cores)),
        zones=(
            Zone(
                name=PACKAGE,
                kind=ZoneKind.PACKAGE,
                cap_uw_min=9 * W,
                cap_uw_max=45 * W,
                floor_uw=9 * W,
                window_ns=WINDOW_NS,
            ),
        ),
        base_power_uw=base_w * W,
        curve=CURVE,
    )


@dataclass
class Faults:
    """Probabilities of what can go wrong with one message, and the longest delay.

    ``late``: a command arrives after its sender gave it up; ``double``: it arrives twice;
    ``refuse``: a zone does not take a cap.
    """

    lose: float = 0.0
    late: float = 0.0
    double: float = 0.0
    refuse: float = 0.0
    delay_ns: int = 50_000_000


@dataclass
class Process:
    job_id: JobId
    cpus: CpuSet
    ends_ns: int
    exit_code: int = 0
    running: bool = True


@dataclass
class Agent:
    """What a real agent does, in a few lines."""

    spec: NodeSpec
    cap_uw: int = 0
    lease_until_ns: int = 0
    epoch: int = 0
    alive: bool = True
    connected: bool = False
    processes: dict[JobId, Process] = field(default_factory=dict)
    settling: list[tuple[int, int]] = field(default_factory=list)
    answers: dict[str, ev.Event | None] = field(default_factory=dict)

    def power_uw(self, now_ns: int) -> int:
        """The most it may be drawing: its cap, or one lowered less than a window ago."""
        lately = [cap for until, cap in self.settling if until > now_ns]
        return self.spec.base_power_uw + max([self.cap_uw, *lately])

    def set_cap(self, cap_uw: int, now_ns: int) -> None:
        if cap_uw < self.cap_uw:
            self.settling.append((now_ns + WINDOW_NS, self.cap_uw))
        self.cap_uw = cap_uw


class Cluster:
    """Core, policy and agents on one virtual clock."""

    def __init__(
        self,
        specs: list[NodeSpec],
        policy: Policy,
        budget_uw: int,
        seed: int = 0,
        faults: Faults | None = None,
    ) -> None:
        self.random = random.Random(seed)
        self.faults = faults or Faults(delay_ns=5_000_000)
        self.policy = policy
        self.core = CoordinatorCore(budget_uw)
        self.now_ns = 0
        self.lease_ns = 6 * S
        self.agents = {s.node_id: Agent(spec=s, cap_uw=s.package_floor_uw) for s in specs}
        self.down = False
        self.peak_uw = 0
        self.budget_uw = budget_uw
        self.grace_until_ns = 0
        self.actions: list[act.Action] = []
        self.journal: list[tuple[ev.Event, int]] = []
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        for spec in specs:
            self.post(ev.NodeRegistered(node_id=spec.node_id, address="sim"))
        self.start(1)

    def start(self, epoch: int) -> None:
        self.down = False
        self.post(
            ev.CoordinatorStarted(
                epoch=Epoch(epoch),
                lease_ns=self.lease_ns,
                command_timeout_ns=S,
            ),
        )
        for agent in self.agents.values():
            agent.connected = False
            self.later(self._delay(), lambda a=agent: self._connect(a))

    def crash_coordinator(self, away_ns: int) -> None:
        """kill -9: what is under way is lost; the journal comes back after a while."""
        self.down = True
        for agent in self.agents.values():
            agent.connected = False
        self.later(away_ns, self._restart)

    def _restart(self) -> None:
        epoch = self.core.state.epoch + 1
        fresh = CoordinatorCore(0)
        fresh.state.ledger.budget_uw = self._first_budget_uw()
        for event, time_ns in self.journal:
            fresh.handle(event, time_ns)
        self.core = fresh
        self.start(epoch)

    def _first_budget_uw(self) -> int:
        return self.budget_uw if not self._budgets() else self._initial

    def _budgets(self) -> list[ev.Event]:
        return [event for event, _ in self.journal if isinstance(event, ev.BudgetChanged)]

    _initial = 0

    def set_budget(self, budget_uw: int, deadline_ns: int) -> None:
        if not self._budgets():
            self._initial = self.budget_uw
        if budget_uw < self.budget_uw:
            self.grace_until_ns = self.now_ns + deadline_ns
        self.budget_uw = budget_uw
        self.post(ev.BudgetChanged(budget_uw=budget_uw, deadline_ns=deadline_ns))

    def submit(self, job_id: str, spec: JobSpec, held: bool = False) -> None:
        self.post(ev.JobSubmitted(job_id=JobId(job_id), spec=spec, held=held))

    def later(self, delay_ns: int, what: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._queue, (self.now_ns + delay_ns, self._order, what))

    def _delay(self) -> int:
        return self.random.randint(1_000, max(self.faults.delay_ns, 1_001))

    def _lost(self) -> bool:
        return self.random.random() < self.faults.lose

    def post(self, event: ev.Event) -> None:
        if self.down:
            return
        self.journal.append((event, self.now_ns))
        for action in self.core.handle(event, self.now_ns):
            self.actions.append(action)
            self._perform(action)

    def run(self, until_ns: int, done: Callable[[], bool] | None = None) -> None:
        """Lets time pass, checking the truth at every step."""
        while self._queue and self._queue[0][0] <= until_ns and not (done and done()):
            self.now_ns, _, what = heapq.heappop(self._queue)
            self._expire_leases()
            what()
            self._check()
        if not (done and done()):
            self.now_ns = max(self.now_ns, until_ns)

    def _check(self) -> None:
        nodes = self.core.state.nodes
        power_uw = sum(
            agent.power_uw(self.now_ns)
            for agent in self.agents.values()
            if agent.spec.node_id in nodes and nodes[agent.spec.node_id].admitted
        )
        self.peak_uw = max(self.peak_uw, power_uw)
        if self.now_ns >= self.grace_until_ns:
            assert power_uw <= self.budget_uw, f"{power_uw} uW drawn, budget {self.budget_uw} uW"
        check_invariants(self.core.state)
        for agent in self.agents.values():
            seen = CpuSet()
            for process in agent.processes.values():
                if process.running:
                    assert process.cpus
                    assert seen.isdisjoint(process.cpus), (
                        f"cores held twice on {agent.spec.node_id}"
                    )
                    seen |= process.cpus

    def _expire_leases(self) -> None:
        for agent in self.agents.values():
            above = agent.cap_uw > agent.spec.package_floor_uw
            if agent.alive and above and self.now_ns >= agent.lease_until_ns:
                agent.set_cap(agent.spec.package_floor_uw, self.now_ns)

    def _connect(self, agent: Agent) -> None:
        if self.down or agent.connected:
            return
        if not agent.alive:
            self.later(S // 2, lambda: self._connect(agent))
            return
        agent.connected = True
        self.post(
            ev.NodeConnected(
                spec=agent.spec,
                caps=(self._reading(agent),),
                processes=tuple(self._process(p) for p in agent.processes.values()),
            ),
        )

    @staticmethod
    def _reading(agent: Agent) -> ev.ZoneReading:
        return ev.ZoneReading(zone=PACKAGE, cap_uw=agent.cap_uw, settles_in_ns=WINDOW_NS)

    @staticmethod
    def _process(process: Process) -> ev.ProcessReading:
        return ev.ProcessReading(
            job_id=process.job_id,
            running=process.running,
            pid=1,
            cpus=process.cpus,
            exit_code=process.exit_code,
        )

    def cut(self, node_id: str, for_ns: int) -> None:
        """The network to a node is down for a while."""
        agent = self.agents[NodeId(node_id)]
        agent.connected = False
        self.post(ev.NodeSilent(node_id=agent.spec.node_id, reason="cut"))
        self.later(for_ns, lambda: self._connect(agent))

    def _perform(self, action: act.Action) -> None:
        if isinstance(action, act.WakeAt):
            self.later(max(action.at_ns - self.now_ns, 0), lambda: self.post(ev.TimePassed()))
        elif isinstance(action, act.Solve):
            self._solve(action.round)
        else:
            self._command(action)

    def _solve(self, number: int) -> None:
        snapshot = self.core.snapshot(self.now_ns)
        plan = self.policy.propose(snapshot, self.now_ns, 5.0)
        record = PlanningRound(
            number=number,
            policy=self.policy.name,
            solver=plan.solver,
            outcome=plan.outcome,
            jobs=len(snapshot.jobs),
            solve_ns=0,
        )
        self.later(self._delay(), lambda: self.post(ev.PlanProposed(plan=plan, round=record)))

    def _command(
        self,
        action: act.SetCaps
        | act.SetMask
        | act.Launch
        | act.Terminate
        | act.ForgetProcess
        | act.RenewLease,
    ) -> None:
        agent = self.agents[action.node_id]
        epoch = self.core.state.epoch
        request_lost, answer_lost = self._lost(), self._lost()
        chance = self.random.random
        late, double = chance() < self.faults.late, chance() < self.faults.double

        def arrive() -> None:
            answer = self._arrive(agent, action, epoch)
            if answer is not None and not (answer_lost or late) and agent.connected:
                self.later(self._delay(), lambda: self._answer(epoch, answer))
            elif not late:
                self.later(S, lambda: self._unanswered(action, epoch))

        if request_lost or late:
            self.later(S, lambda: self._unanswered(action, epoch))
        if not request_lost:
            self.later(self._delay() + (S * 3 // 2 if late else 0), arrive)
        if double:
            self.later(2 * self._delay(), lambda: self._arrive(agent, action, epoch))

    def _arrive(self, agent: Agent, action: act.Action, epoch: int) -> ev.Event | None:
        """An agent refuses older epochs and answers what it has answered before."""
        assert not isinstance(action, act.Solve | act.WakeAt)
        if not agent.alive or epoch < agent.epoch:
            return None
        agent.epoch = epoch
        if action.request_id not in agent.answers:
            agent.answers[action.request_id] = self._obey(agent, action)
        return agent.answers[action.request_id]

    def _unanswered(self, action: act.Action, epoch: int) -> None:
        if epoch == self.core.state.epoch:
            self._give_up(action)

    def kill_agent(self, node_id: str, for_ns: int) -> None:
        """The agent's process dies and comes back at its floor; its jobs go on.

        While it is dead its caps hold: give it less time than a lease.
        """
        agent = self.agents[NodeId(node_id)]
        if not agent.alive:
            return
        agent.alive = agent.connected = False
        self.post(ev.NodeSilent(node_id=agent.spec.node_id, reason="killed"))
        self.later(for_ns, lambda: self._revive(agent))
        self.later(for_ns, lambda: self._connect(agent))

    def _revive(self, agent: Agent) -> None:
        agent.alive = True
        agent.lease_until_ns = 0
        agent.answers.clear()
        agent.set_cap(agent.spec.package_floor_uw, self.now_ns)

    def _answer(self, epoch: int, answer: ev.Event) -> None:
        if epoch == self.core.state.epoch:
            self.post(answer)

    def _give_up(self, action: act.Action) -> None:
        match action:
            case act.SetCaps():
                event: ev.Event = ev.CapsUnconfirmed(
                    node_id=action.node_id, request_id=action.request_id, reason="lost"
                )
            case act.RenewLease():
                event = ev.LeaseUnconfirmed(
                    node_id=action.node_id, request_id=action.request_id, reason="lost"
                )
            case act.SetMask():
                event = ev.MaskFailed(node_id=action.node_id, job_id=action.job_id, reason="lost")
            case act.Launch():
                event = ev.LaunchFailed(
                    node_id=action.node_id, job_id=action.job_id, reason="lost", permanent=False
                )
            case _:
                return
        if not self.down:
            self.post(event)

    def _obey(self, agent: Agent, action: act.Action) -> ev.Event | None:
        node_id = agent.spec.node_id
        match action:
            case act.RenewLease():
                agent.lease_until_ns = self.now_ns + action.duration_ns
                return ev.LeaseRenewed(
                    node_id=node_id, request_id=action.request_id, caps=(self._reading(agent),)
                )
            case act.SetCaps():
                wanted = dict(action.caps)[PACKAGE]
                leased = self.now_ns < agent.lease_until_ns
                if wanted > agent.spec.package_floor_uw and not leased:
                    return ev.CapsUnconfirmed(
                        node_id=node_id, request_id=action.request_id, reason="no lease"
                    )
                reading = self._reading(agent)
                if self.random.random() < self.faults.refuse:
                    reading = replace(reading, error="device error")
                else:
                    agent.set_cap(wanted // CAP_STEP_UW * CAP_STEP_UW, self.now_ns)
                    reading = self._reading(agent)
                return ev.CapsAnswered(
                    node_id=node_id, request_id=action.request_id, caps=(reading,)
                )
            case act.SetMask():
                process = agent.processes.get(action.job_id)
                if process is None or not process.running:
                    return ev.MaskFailed(node_id=node_id, job_id=action.job_id, reason="ended")
                process.cpus = action.cpus
                return ev.MaskConfirmed(
                    node_id=node_id, job_id=action.job_id, cpus=action.cpus, confined=False
                )
            case act.Launch():
                return self._launch(agent, action)
            case act.Terminate():
                process = agent.processes.get(action.job_id)
                if process is not None and process.running:
                    process.exit_code = 143
                    self._end(agent, process)
            case act.ForgetProcess():
                agent.processes.pop(action.job_id, None)
        return None

    def _launch(self, agent: Agent, action: act.Launch) -> ev.Event:
        if action.job_id not in agent.processes:
            run_ns = int(action.spec.argv[1]) * S // len(action.cpus)
            process = Process(job_id=action.job_id, cpus=action.cpus, ends_ns=self.now_ns + run_ns)
            agent.processes[action.job_id] = process
            self.later(run_ns, lambda: self._end(agent, process))
        return ev.JobLaunched(node_id=agent.spec.node_id, job_id=action.job_id, pid=1)

    def _end(self, agent: Agent, process: Process) -> None:
        if process.running:
            process.running = False
        if agent.connected and not self.down and process.job_id in agent.processes:
            self.post(
                ev.ProcessEnded(node_id=agent.spec.node_id, process=self._process(process)),
            )
