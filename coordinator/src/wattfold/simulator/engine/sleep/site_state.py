"""The state of the service for the nodes of a simulation by node, and the boots of these nodes.

The rules of the service decide on this state: which nodes plans see (`core.rules.nodes.
decided_sleep`), which nodes fall asleep and wake (`policies.driver.node_sleep`), and when a boot
begins and has failed (`core.rules.nodes.sleep`). Only what happens to a node after an order is
simulated here. As in the service, a boot has failed after twice its usual time, and the node is
then switched off. An operator orders it to boot again as soon as it is off.

The account of a node is its charge without jobs. One more account has the power of all jobs.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.applier import Accepted, accept
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.promise import Promise
from wattfold.coordinator.core.model.jobs.rank import Rank
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.node import Node, NodeSpec, NodeState
from wattfold.coordinator.core.model.node_power import PowerPlan, PowerState, SleepSettings
from wattfold.coordinator.core.model.plan import Plan, Snapshot
from wattfold.coordinator.core.power.ledger import PowerLedger
from wattfold.coordinator.core.rules.nodes import decided_sleep, sleep
from wattfold.coordinator.core.rules.snapshot import without_jobs
from wattfold.coordinator.core.state.state import CoreSettings, State
from wattfold.coordinator.policies.driver.node_sleep import with_sleep
from wattfold.coordinator.policies.driver.sleep_plan import (
    IdleNodes,
    SleepRules,
    ready_ns,
    sleepers,
)
from wattfold.simulator.engine.machines.class_boots import ClassBoots
from wattfold.simulator.engine.machines.node_machine import NodeClass, NodeMachine
from wattfold.simulator.engine.sleep.sleep_counts import SleepCounts

NEVER = 1 << 62
JOBS = NodeId("all jobs")
BOOT_LIMIT, SUSPEND_LIMIT = 2, 4
"""Limits of the service, in usual times of a boot and of a suspension."""


@dataclass(slots=True)
class SimulatedNode:
    """A node of the state, its class, and the truth about it."""

    node: Node
    of: NodeClass
    boots: ClassBoots
    spares_uw: int
    """Power of the idle node beyond its charge; at most 0."""
    idle_since_ns: int


def settings_of(rules: SleepRules, boot_ns: int, boot_uw: int) -> SleepSettings:
    """Return the settings of a service whose nodes sleep by these rules, with its longest boot."""
    return SleepSettings(
        asleep_uw=rules.asleep_uw,
        boot_uw=boot_uw,
        boot_ns=BOOT_LIMIT * boot_ns,
        suspend_ns=SUSPEND_LIMIT * max(rules.suspend_ns, 1),
        boots_max=rules.boots_max,
        decides=True,
        awake_min_ns=rules.awake_min_ns,
    )


class SiteState:
    """Nodes and jobs of a run as the service knows them. Created with all nodes awake and idle."""

    def __init__(
        self,
        machine: NodeMachine,
        specs: Sequence[NodeSpec],
        rules: SleepRules,
        budget_uw: int,
        *,
        idle_uw: Sequence[int],
        failing: float = 0.0,
        seed: int = 0,
        start_ns: int = 0,
    ) -> None:
        """``idle_uw`` is the power of an idle node of each class; its charge is in ``machine``.

        ``failing`` is the share of boots that fail, of classes without a share of their own.
        """
        own = {one.class_name: one for one in machine.boots}
        usual = ClassBoots(class_name="", failing=failing)
        each = {one.name: own.get(one.name, usual) for one in machine.classes}
        boots = [
            replace(
                one,
                boot_ns=one.boot_ns or rules.boot_ns,
                boot_uw=one.boot_uw or rules.boot_uw,
                failing=failing if one.failing < 0 else one.failing,
            )
            for one in each.values()
        ]
        self.rules, self._rng = rules, random.Random(seed)  # noqa: S311 - a simulation
        self.counts = SleepCounts()
        self.asleep_uw = rules.asleep_uw
        most_uw = max(one.idle_uw + one.gpus_uw for one in machine.classes)
        settings = settings_of(
            rules, max(one.boot_ns for one in boots), max(one.boot_uw for one in boots)
        )
        if rules.timer_ns:
            # Plans do not know of a timer: a sleeping node is charged like an idle one.
            settings = replace(settings, asleep_uw=most_uw)
        self.state = State(CoreSettings(sleep=settings), PowerLedger(budget_uw))
        self.state.ledger.open(JOBS, 0, {})
        self.nodes: dict[NodeId, SimulatedNode] = {}
        classes = zip(machine.classes, boots, idle_uw, strict=True)
        of = [one for one in classes for _ in range(one[0].count)]
        for spec, (node_class, its, its_idle_uw) in zip(specs, of, strict=True):
            self._add(spec, node_class, its, its_idle_uw - node_class.idle_uw, start_ns)
        self._events: list[tuple[int, int, NodeId]] = []
        """Heap of (time, number, node): the end of a boot or of a suspension."""
        self._number: dict[NodeId, int] = {}
        """Number of the last order for a node; earlier orders have no effect any more."""

    def _add(
        self, spec: NodeSpec, of: NodeClass, boots: ClassBoots, spares_uw: int, start_ns: int
    ) -> None:
        node = Node(
            node_id=spec.node_id,
            address="",
            state=NodeState.UP,
            spec=spec,
            admitted=True,
            reachable=True,
            awake_since_ns=start_ns,
        )
        state = self.state
        state.nodes[node.node_id] = node
        state.index.add_node(node)
        idle_uw = of.idle_uw + of.gpus_uw
        state.ledger.open(node.node_id, idle_uw, {})
        state.index.set_fixed(node.node_id, idle_uw)
        self.nodes[node.node_id] = SimulatedNode(node, of, boots, spares_uw, start_ns)

    # Jobs, as `core.machine` changes them.

    def submit(self, job_id: JobId, spec: JobSpec, submitted_ns: int) -> Job:
        """Add a job that waits."""
        job = Job(job_id=job_id, spec=spec, state=JobState.PENDING, submitted_ns=submitted_ns)
        self.state.jobs[job_id] = job
        self.state.index.add_job(job)
        return job

    def end(self, job_id: JobId, now_ns: int) -> None:
        """Remove a job that has ended or was requeued."""
        job = self.state.jobs[job_id]
        if job.target is not None:
            for share in job.target.shares:
                self.nodes[share.node_id].idle_since_ns = now_ns
        job.state, job.target = JobState.COMPLETED, None
        job.ranks.clear()
        self.state.index.end_job(job)

    def start(self, given: Assignment, now_ns: int) -> Job:
        """Give a job its nodes; `run` follows when all of them are up."""
        job = self.state.jobs[given.job_id]
        job.state, job.target = JobState.STARTING, given
        if job.promise is not None:
            nodes = tuple(share.node_id for share in given.shares)
            job.promise = Promise(min(job.promise.start_ns, now_ns), nodes)
        self.state.index.place(job)
        return job

    def run(self, job: Job, now_ns: int) -> None:
        """Let a job run on its nodes."""
        assert job.target is not None, "it has nodes"
        job.state, job.started_ns = JobState.RUNNING, now_ns
        self.move(job.job_id, job.target)

    def move(self, job_id: JobId, given: Assignment) -> None:
        """Note the nodes of a running job."""
        job = self.state.jobs[job_id]
        job.target = given
        job.ranks = {
            share.node_id: Rank(node_id=share.node_id, held=share.cpus, running=True)
            for share in given.shares
        }
        self.state.index.place(job)

    def put_back(self, job: Job) -> None:
        """Let a job wait again whose boots failed."""
        self.state.index.displace(job)
        job.state, job.target = JobState.PENDING, None

    def waiting_for_boots(self) -> list[Job]:
        """Return the jobs that have nodes and do not run."""
        return [job for job in self.state.placed() if job.state is JobState.STARTING]

    def all_up(self, job: Job) -> bool:
        """Whether all nodes of a started job take jobs."""
        shares = job.target.shares if job.target is not None else ()
        return all(self.state.nodes[share.node_id].takes_jobs for share in shares)

    def keeps(self, job: Job) -> bool:
        """Whether a started job keeps its nodes, because they are up or will be."""
        return self.all_up(job) or decided_sleep.waits_for_boot(self.state, job)

    # Plans.

    def world(self, now_ns: int) -> Snapshot:
        """Return the nodes and the power that a plan sees, without jobs."""
        return without_jobs(self.state, now_ns)

    def decided(self, plan: Plan, world: Snapshot, now_ns: int) -> Plan:
        """Return the plan with the nodes that fall asleep and wake."""
        if not self.rules.timer_ns:
            return with_sleep(plan, world, self.state, now_ns)
        power, rest_ns = self._by_timer(plan, now_ns)
        revisit_ns = min(filter(None, (plan.revisit_ns, rest_ns)), default=0)
        return replace(plan, power=power, revisit_ns=revisit_ns)

    def _by_timer(self, plan: Plan, now_ns: int) -> tuple[PowerPlan, int]:
        """Return the nodes that were idle for as long as the timer, and when the next will be."""
        used = {share.node_id for given in plan.assignments for share in given.shares}
        waiting = decided_sleep.waiting_for_boots(self.state)
        found = [
            node_id
            for node_id, one in self.nodes.items()
            if node_id not in used and decided_sleep.without_job(self.state, one.node, waiting)
        ]
        idle = [
            IdleNodes(self.nodes[node_id].idle_since_ns, self.nodes[node_id].idle_since_ns, 1)
            for node_id in found
        ]
        numbers = sleepers(self.rules, idle, 0, 0, now_ns)
        sleeps = tuple(node_id for node_id, count in zip(found, numbers, strict=True) if count)
        later = [at for one in idle if (at := ready_ns(self.rules, one)) > now_ns]
        return PowerPlan(sleeps=sleeps), min(later, default=0)

    def accepted(self, plan: Plan, now_ns: int) -> Accepted:
        """Return the parts of a plan that the service accepts."""
        return accept(plan, self.state, now_ns)

    def judged(self, plan: Plan, starts: Sequence[Assignment], now_ns: int) -> PowerPlan:
        """Return the nodes that fall asleep and wake with the accepted starts of a plan."""
        return decided_sleep.judged(self.state, plan.power, starts, now_ns)

    def carry_out(self, power: PowerPlan, starts: Sequence[Assignment]) -> None:
        """Order the nodes of a plan to sleep and to wake."""
        decided_sleep.carry_out(self.state, power, starts)

    # What happens to nodes.

    def advance(self, now_ns: int) -> None:
        """End the boots and suspensions that are due."""
        while self._events and self._events[0][0] <= now_ns:
            _, number, node_id = heappop(self._events)
            if self._number[node_id] != number:
                continue
            node = self.nodes[node_id].node
            if node.power is PowerState.BOOTING:
                self._up(self.nodes[node_id], now_ns)
            elif node.power is PowerState.FALLING:
                self._off(node, now_ns)

    def _up(self, one: SimulatedNode, now_ns: int) -> None:
        node, state = one.node, self.state
        node.dark, node.state, node.reachable = False, NodeState.UP, True
        node.boot_took_ns, node.awake_since_ns = now_ns - node.power_since_ns, now_ns
        node.power, one.idle_since_ns = PowerState.AWAKE, now_ns
        sleep.lost_orders(node)
        idle_uw = one.of.idle_uw + one.of.gpus_uw
        state.ledger.reopen(node.node_id, idle_uw, {})
        state.index.set_fixed(node.node_id, idle_uw)
        state.index.note_power(node)

    def _off(self, node: Node, now_ns: int) -> None:
        node.reachable = False
        self._answer(node, now_ns)
        if node.boot_failed:
            self.counts.failed += 1
            node.boot_failed = False

    def _answer(self, node: Node, now_ns: int) -> None:
        event = reports.PowerAnswered(node_id=node.node_id, request_id=node.power_request)
        sleep.answered(self.state, event, now_ns)

    def order(self, now_ns: int, jobs_uw: int) -> bool:
        """Begin the suspensions and boots that are due and fit beside the power of the jobs.

        Return whether a boot has begun.
        """
        state = self.state
        state.ledger.reopen(JOBS, jobs_uw, {})
        state.ledger.touched.clear()
        state.index.touched.nodes.clear()
        begun = False
        for order in sleep.steps(state, now_ns, "plan"):
            assert isinstance(order, act.SwitchPower), "other steps do not switch nodes"
            one = self.nodes[order.node_id]
            if order.on:
                begun = True
                self._boot(one, now_ns)
            else:
                self._later(one.node, now_ns + self.rules.suspend_ns)
        return begun

    def _boot(self, one: SimulatedNode, now_ns: int) -> None:
        its = one.boots
        self.counts.boots += 1
        fails = bool(its.failing) and self._rng.random() < its.failing
        late = bool(its.late) and self._rng.random() < its.late
        self._answer(one.node, now_ns)
        self._later(one.node, NEVER if fails else now_ns + its.boot_ns + late * its.late_ns)

    def _later(self, node: Node, at_ns: int) -> None:
        number = self._number[node.node_id] = self._number.get(node.node_id, 0) + 1
        heappush(self._events, (at_ns, number, node.node_id))

    def next_ns(self, now_ns: int) -> int:
        """Return the next time at which a node changes by itself, or a plan is due.

        As in the service, another plan follows each change of the power of a node.
        """
        if self.state.plan_needed:
            self.state.plan_needed = ""
            return now_ns + 1
        times = [self._events[0][0]] if self._events else []
        for node in self.state.index.switching.values():
            if node.power is PowerState.BOOTING:
                times.append(sleep.boot_ends_ns(self.state, node))
        return min((at_ns for at_ns in times if at_ns > now_ns), default=NEVER)

    # Sums.

    def _dark(self) -> Iterable[SimulatedNode]:
        return (one for one in self.nodes.values() if one.node.dark)

    def charge_uw(self) -> int:
        """Return the charge of dark nodes beyond that of idle nodes."""
        accounts = self.state.ledger.accounts
        return sum(
            accounts[one.node.node_id].charge_uw - one.of.idle_uw - one.of.gpus_uw
            for one in self._dark()
        )

    def reserve_uw(self) -> int:
        """Return `charge_uw` with the next boot."""
        return sum(
            sleep.reserve_uw(self.state, one.node) - one.of.idle_uw - one.of.gpus_uw
            for one in self._dark()
        )

    @property
    def asleep_count(self) -> int:
        """Nodes that sleep. Jobs may wait for some of them."""
        return sum(not _draws_boot(one.node) for one in self._dark())

    def drawn_uw(self) -> int:
        """Return the power of nodes beyond that of running jobs and the charge of idle nodes."""
        dark_uw = sum(
            (one.boots.boot_uw if _draws_boot(one.node) else self.asleep_uw) - one.of.unused_uw
            for one in self._dark()
        )
        awake = (one for one in self.nodes.values() if not one.node.dark)
        idle = (one for one in awake if not self.state.on_node(one.node.node_id))
        return dark_uw + sum(one.spares_uw for one in idle)

    def pass_time(self, span_ns: int) -> None:
        """Count nodes that sleep and boot."""
        boots_uw = [one.boots.boot_uw for one in self._dark() if _draws_boot(one.node)]
        asleep = self.asleep_count
        asleep_uw = asleep * self.asleep_uw
        self.counts.pass_time(span_ns, len(self.nodes), asleep, asleep_uw, sum(boots_uw))


def _draws_boot(node: Node) -> bool:
    # A dark node that falls asleep is one whose boot has failed.
    return node.power in (PowerState.BOOTING, PowerState.FALLING)
