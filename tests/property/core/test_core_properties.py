"""Any events in any order: the state stays consistent, and the journal reproduces it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from property.core.any_budgets import AnyBudgets
from property.core.any_power import NODES, AnyPower, check_power
from unit.core.stage import CHECKED, PACKAGE, Stage, job_spec, running
from unit.core.stage import node_spec as plain_node

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import Epoch, JobId, NodeId, ZoneName
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.announced import coming_uw
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.jobs.attempt import Saving
from wattfold.coordinator.core.model.jobs.spec import JobKind, ResizeMode
from wattfold.coordinator.core.model.node import GIVEN_BACK, Duty, NodeSpec
from wattfold.coordinator.core.rules.nodes import node_orders, reach
from wattfold.coordinator.core.rules.power import budget_events
from wattfold.coordinator.models.gpu_curve import GpuCurve
from wattfold.coordinator.models.pass_model import APPLICATIONS, PassProfile, SizeUnit

S, W = 1_000_000_000, 1_000_000
JOBS = [JobId(name) for name in "abcd"]
REQUESTS: dict[str, Callable[..., ev.Event]] = {
    "cancel": ev.JobCancelRequested,
    "force": partial(ev.JobCancelRequested, force=True),
    "hold": ev.JobHeld,
    "release": ev.JobReleased,
    "requeue": ev.JobRequeueRequested,
    "requeue held": partial(ev.JobRequeueRequested, hold=True),
    "suspend": ev.JobSuspendRequested,
    "resume": ev.JobResumeRequested,
    "resize 1": partial(ev.JobResizeRequested, size=1),
    "resize 2": partial(ev.JobResizeRequested, size=2),
    "resize auto": partial(ev.JobResizeRequested, size=0),
    "modify size": partial(ev.JobModified, size_min=1, size_max=2, priority=0.5),
    "modify limit": partial(ev.JobModified, limit_ns=20 * S, name="other", due_ns=-1),
}
GHOST_PID = 99
CAPS_W = st.integers(5, 60)
cpu_sets = st.sets(st.integers(0, 3), min_size=1).map(CpuSet.of)
GPUS = ("0", "1")


def rich(name: str, memory: int = 8) -> NodeSpec:
    """A node with enough resources for two jobs with requests, or not enough."""
    return plain_node(name, memory_bytes=memory, gpus=GPUS, steps_address="unix:s")


class AnyEvents(AnyBudgets, AnyPower, RuleBasedStateMachine):
    """Three nodes, four jobs, and answers that need not match any command.

    Only the guarantee of agents holds: processes on a node hold different cores of it.
    """

    @initialize(budget_w=st.integers(70, 250))
    def begin(self, budget_w: int) -> None:
        self._first_budget = budget_w * W
        self.stage = Stage(budget_w)
        for name in NODES:
            self.stage.register(name)
            self.stage.connect(rich(name))
            self.stage.leased(name)
        self.submitted: set[str] = set()

    @property
    def state(self) -> Any:
        return self.stage.core.state

    @rule(
        job=st.sampled_from(JOBS),
        held=st.booleans(),
        kind=st.sampled_from(JobKind),
        mode=st.sampled_from(ResizeMode),
        memory=st.sampled_from([0, 0, 3, 5]),
        gpus=st.integers(0, 2),
        again=st.sampled_from([0, 0, 1, 3]),
        limit_s=st.sampled_from([0, 5]),
    )
    def submit(
        self,
        job: JobId,
        held: bool,
        kind: JobKind,
        mode: ResizeMode,
        memory: int,
        gpus: int,
        again: int,
        limit_s: int,
    ) -> None:
        if job not in self.submitted:
            self.submitted.add(job)
            asked = {"memory_bytes": memory, "gpus": gpus if memory else 0}
            asked |= {"requeue_max": again, "limit_ns": limit_s * S}
            self.stage.submit(job, job_spec(kind=kind, mode=mode, **asked), held=held)

    @rule(job=st.sampled_from(JOBS), again=st.sampled_from([0, 1]), limit_s=st.sampled_from([0, 5]))
    def submit_whole(self, job: JobId, again: int, limit_s: int) -> None:
        """Submit a job that restarts on a different number of nodes."""
        if job not in self.submitted:
            self.submitted.add(job)
            spec = job_spec(1, 3, unit=SizeUnit.NODES, mode=ResizeMode.RESTART, requeue_max=again)
            self.stage.submit(job, replace(spec, limit_ns=limit_s * S))

    @rule(job=st.sampled_from(JOBS), again=st.sampled_from([0, 1]))
    def submit_spanning(self, job: JobId, again: int) -> None:
        """Submit a job that changes its number of nodes by its processor map."""
        if job not in self.submitted:
            self.submitted.add(job)
            asked = {"requeue_max": again, "own_launcher": True}
            self.stage.submit(
                job, job_spec(1, 3, unit=SizeUnit.NODES, mode=ResizeMode.MAP, **asked)
            )

    @precondition(lambda self: any(self.restarted()))
    @rule(data=st.data(), nodes=st.sets(st.sampled_from(NODES), min_size=1), cap_w=CAPS_W)
    def plan_whole(self, data: st.DataObject, nodes: set[NodeId], cap_w: int) -> None:
        """Plan such a job on these nodes; the other jobs keep their resources."""
        self.plan_of(data.draw(st.sampled_from(self.restarted())), sorted(nodes), cap_w)

    def plan_of(self, job: JobId, nodes: list[NodeId], cap_w: int) -> None:
        if not self.state.solving:
            self.stage.send(ev.BudgetChanged(budget_uw=self.state.ledger.budget_uw, deadline_ns=S))
        cpus = CpuSet.of(range(4))
        shares = tuple(Share(node_id=node, cpus=cpus) for node in nodes)
        wanted = Assignment(job_id=job, size=len(shares), cap_uw=cap_w * W, shares=shares)
        others = [j.target for j in self.state.placed() if j.target and j.job_id != job]
        self.stage.plan(*others, wanted)

    def restarted(self) -> list[JobId]:
        """Whole-node jobs that have not ended."""
        jobs = self.state.jobs.values() if hasattr(self, "stage") else ()
        return [j.job_id for j in jobs if j.spec.unit is SizeUnit.NODES and not j.final]

    @rule(job=st.sampled_from(JOBS), what=st.sampled_from(sorted(REQUESTS)))
    def ask(self, job: JobId, what: str) -> None:
        self.stage.send(REQUESTS[what](job_id=job))

    @rule(node=st.sampled_from(NODES), job=st.sampled_from(JOBS), done=st.booleans())
    def answer_suspend(self, node: NodeId, job: JobId, done: bool) -> None:
        known = self.state.jobs.get(job)
        rank = known.ranks.get(node) if known else None
        if known is None or rank is None or not rank.stopping:
            return
        self.stage.suspension(node, job, not rank.stopped if done else None)

    @rule(
        parts=st.lists(
            st.tuples(
                st.sampled_from(JOBS),
                st.sampled_from(NODES),
                cpu_sets,
                st.integers(5, 60),
            ),
            max_size=4,
            unique_by=lambda part: part[0],
        ),
        first=st.integers(0, 1),
    )
    def plan(self, parts: list[tuple[JobId, NodeId, CpuSet, int]], first: int) -> None:
        def share(job: JobId, node: NodeId, cpus: CpuSet) -> Share:
            spec = known.spec if (known := self.state.jobs.get(job)) else job_spec()
            if known and known.ranks and known.target:
                return replace(known.target.shares[0], node_id=node, cpus=cpus)
            gpus = GPUS[first:][: spec.gpus]
            return Share(node_id=node, cpus=cpus, memory_bytes=spec.memory_bytes, gpus=gpus)

        assignments = [
            Assignment(
                job_id=job,
                size=len(cpus),
                cap_uw=cap_w * W,
                shares=(share(job, node, cpus),),
            )
            for job, node, cpus, cap_w in parts
        ]
        self.stage.plan(*assignments)

    @precondition(lambda self: any(n.caps_request for n in self.state.nodes.values()))
    @rule(
        data=st.data(), cap_w=st.integers(10, 50), fate=st.sampled_from(["done", "lost", "other"])
    )
    def answer_caps(self, data: st.DataObject, cap_w: int, fate: str) -> None:
        waiting = [n.node_id for n in self.state.nodes.values() if n.caps_request]
        node = data.draw(st.sampled_from(waiting))
        if self.state.nodes[node].duty is Duty.RESTORING:
            self.stage.left(node, 50) if fate == "done" else self.stage.leave_failed(
                node, refused=fate == "other"
            )
        elif fate == "lost":
            self.stage.caps_lost(node)
        elif fate == "done" and node in self.state.ledger.accounts:
            self.stage.confirm(node)
        else:
            self.stage.caps_are(node, cap_w, error="" if cap_w % 2 else "refused")

    @rule(node=st.sampled_from(NODES), cap_w=st.integers(10, 50))
    def answer_lease(self, node: NodeId, cap_w: int) -> None:
        zones = self.state.ledger.accounts
        held_w = zones[node].zones["package-0"].confirmed_uw // W if node in zones else cap_w
        self.stage.leased(node, held_w if cap_w % 3 else 10)

    @rule(node=st.sampled_from(NODES), power_w=st.sampled_from([0, 0, 20, 55, 90]))
    def measure(self, node: NodeId, power_w: int) -> None:
        powers = ((PACKAGE, power_w * W),) if power_w else ()
        self.stage.send(reports.CapsNotHeld(node_id=node, powers_uw=powers))
        account = self.state.ledger.accounts.get(node)
        assert account is None or not power_w or account.zones[PACKAGE].charge_uw >= power_w * W

    @rule(node=st.sampled_from(NODES), job=st.sampled_from(JOBS), fate=st.integers(0, 4))
    def answer_launch(self, node: NodeId, job: JobId, fate: int) -> None:
        known = self.state.jobs.get(job)
        rank = known.ranks.get(node) if known else None
        if rank is None or not rank.launching:
            return
        if fate == 0:
            self.stage.launch_failed(node, job, permanent=False)
        elif fate == 1:
            self.stage.launch_failed(node, job, permanent=True)
        elif fate == 4:
            self.stage.refused_by_node(node, job)
            assert self.state.nodes[node].fault
            assert self.state.jobs[job].state is not JobState.STARTING
        else:
            self.stage.launched(node, job)

    @rule(node=st.sampled_from(NODES), reason=st.sampled_from(["", "", "full"]))
    def tell_fault(self, node: NodeId, reason: str) -> None:
        self.stage.fault(node, reason)
        known = self.state.nodes.get(node)
        assert known is None or known.fault == reason

    @rule(
        node=st.sampled_from(NODES),
        job=st.sampled_from(JOBS),
        done=st.booleans(),
        applied=st.booleans(),
    )
    def answer_mask(self, node: NodeId, job: JobId, done: bool, applied: bool) -> None:
        known = self.state.jobs.get(job)
        rank = known.ranks.get(node) if known else None
        if rank is None or rank.moving_to is None:
            return
        vacated = bool(known and known.reach) and not rank.moving_to
        if done and known and known.reach:
            self.stage.send(
                reports.MaskConfirmed(
                    node_id=node,
                    job_id=job,
                    cpus=rank.moving_to,
                    confined=False,
                    resident=vacated,
                    processor_map=reach.map_of_all(known),
                    map_applied=applied,
                )
            )
        elif done:
            self.stage.mask_is(node, job, str(rank.moving_to))
        else:
            self.stage.send(reports.MaskFailed(node_id=node, job_id=job, reason="x"))

    @rule(job=st.sampled_from(JOBS), size=st.integers(0, 9))
    def wish(self, job: JobId, size: int) -> None:
        self.stage.send(ev.SizeWanted(job_id=job, size=size))

    @rule(
        node=st.sampled_from(NODES),
        job=st.sampled_from(JOBS),
        code=st.sampled_from([0, 1]),
        saving=st.sampled_from(Saving),
    )
    def end(self, node: NodeId, job: JobId, code: int, saving: Saving) -> None:
        known = self.state.jobs.get(job)
        ranks = known.ranks.values() if known else ()
        # For the last process: the planned next size of the job, if it has one.
        last = sum(rank.end is None for rank in ranks) == 1 and known.ranks.get(node)
        wanted = known.following if known and last and last.end is None else None
        self.stage.process_ended(node, job, code, saving=saving)
        if wanted is not None:
            assert known is not None
            done = code == 0 and saving in (Saving.UNASKED, Saving.UNSAVED)
            if known.final:
                assert done or known.spec.own_launcher or known.state is not JobState.COMPLETED
            else:
                assert known.attempts[-1].resized
                assert known.target in (None, wanted), "what it was to have, or nothing"

    @rule(job=st.sampled_from(JOBS), data=st.data(), saving=st.sampled_from(Saving))
    def all_end(self, job: JobId, data: st.DataObject, saving: Saving) -> None:
        """End all processes of a job that is saving a snapshot."""
        known = self.state.jobs.get(job)
        if known is not None and known.state is JobState.ENDING:
            ranks = [rank.node_id for rank in known.ranks.values() if rank.end is None]
            for node in data.draw(st.permutations(ranks)):
                self.end(node, job, 0, saving)

    @rule(node=st.sampled_from(NODES))
    def fall_silent(self, node: NodeId) -> None:
        self.stage.silent(node)

    @rule(node=st.sampled_from(NODES), order=st.sampled_from(ev.NodeOrder))
    def order(self, node: NodeId, order: ev.NodeOrder) -> None:
        known = self.state.nodes[node]
        refused = node_orders.refusal(known, order)
        before = known.duty
        self.stage.order(node, order)
        assert known.duty is before or not refused
        if not refused and order in (
            ev.NodeOrder.FORGET_UNPOWERED,
            ev.NodeOrder.FORGET_OUTSIDE,
        ):
            assert node not in self.state.ledger.accounts
            assert not any(
                rank.running
                for job in self.state.jobs.values()
                for rank in job.ranks.values()
                if rank.node_id == node
            )

    @rule(
        node=st.sampled_from(NODES),
        drop=st.sets(st.sampled_from(JOBS)),
        floor=st.booleans(),
        left=st.booleans(),
        memory=st.sampled_from([8, 8, 4]),
        ghosts=st.booleans(),
    )
    def come_back(
        self, node: NodeId, drop: set[JobId], floor: bool, left: bool, memory: int, ghosts: bool
    ) -> None:
        there = []
        for job in self.state.jobs.values():
            rank = job.ranks.get(node)
            if rank is None or rank.end or job.job_id in drop:
                continue
            if rank.running or rank.launching:
                there.append(
                    running(
                        job.job_id,
                        str(rank.held),
                        attempt=job.attempt,
                        suspended=rank.stopped is not rank.stopping,
                        resident=rank.resident,
                    )
                )
        there += self.ghosts(node, there) if ghosts else []
        zones = self.state.ledger.accounts
        dark = node not in zones or self.state.nodes[node].dark
        cap_w = 10 if floor or dark else zones[node].zones["package-0"].confirmed_uw / W
        gone = left and not there and self.state.nodes[node].duty in GIVEN_BACK
        self.stage.connect(rich(node, memory), cap_w, tuple(there), left=gone)
        for job in self.state.jobs.values():
            rank = job.ranks.get(node)
            assert rank is None or rank.pid != GHOST_PID, "taken for the present attempt"

    def ghosts(
        self, node: NodeId, there: list[reports.ProcessReading]
    ) -> list[reports.ProcessReading]:
        """Processes of abandoned attempts, on cores without an owner."""
        free = set(range(4)).difference(*(set(reading.cpus) for reading in there))
        found = []
        for job in self.state.jobs.values():
            if any(reading.job_id == job.job_id for reading in there) or not free:
                continue
            if old := next((a for a in reversed(job.attempts) if node in a.nodes), None):
                ghost = running(job.job_id, str(free.pop()), attempt=old.number)
                found.append(replace(ghost, pid=GHOST_PID))
        return found

    @rule(seconds=st.sampled_from([0.1, 1, 2.5, 7, 20]))
    def wait(self, seconds: float) -> None:
        self.stage.after(seconds)

    @rule()
    def restart(self) -> None:
        self.stage.start(self.state.epoch + 1)

    @rule(cut=st.floats(0, 1))
    def replay(self, cut: float) -> None:
        """Replay from the start, or from a checkpoint at any event, and compare the states."""
        history = self.stage.history
        core = CoordinatorCore(self._first_budget, CHECKED)
        at = round(cut * len(history))
        for event, now_ns in history[:at]:
            core.handle(event, now_ns)
        core.state = codec.load_state(codec.dump_state(core.state))
        for event, now_ns in history[at:]:
            kind, body = codec.dump_event(event)
            core.handle(codec.load_event(kind, body), now_ns)
        assert core.state == self.state

    @rule()
    def look_at_everything(self) -> None:
        """Compare with a core that examines its whole state on every event."""
        part = CoordinatorCore(self._first_budget, CHECKED)
        whole = CoordinatorCore(self._first_budget, CHECKED)
        for event, now_ns in self.stage.history:
            whole.look_at_everything()
            assert part.handle(event, now_ns) == whole.handle(event, now_ns)
        assert part.state == whole.state

    @invariant()
    def what_is_planned_is_within_the_budget(self) -> None:
        if not hasattr(self, "stage"):
            return
        ledger = self.state.ledger
        excused = ledger.over_deadline_ns or ledger.in_breach
        assert ledger.committed_uw <= ledger.budget_uw or excused
        now_ns, announced = self.stage.now_ns, self.state.announced
        assert all(one.at_ns > now_ns for one in announced), "whose time has come is in force"
        lead_ns = budget_events.lead_ns(self.state)
        assert ledger.coming_uw == coming_uw(announced, now_ns, lead_ns)
        for node in self.state.nodes.values():
            account = ledger.accounts.get(node.node_id)
            if node.duty is Duty.LEFT:
                assert account is not None
                assert account.charge_uw >= 60 * W
            if node.duty in (Duty.UNPOWERED, Duty.OUTSIDE, Duty.RETURNED):
                assert account is None
        check_power(self.stage)
        for job in self.state.jobs.values():
            # An ending job has at least one process to wait for.
            if job.state is JobState.ENDING:
                assert any(r.running or r.launching for r in job.ranks.values() if not r.end)
            if job.state in (JobState.RUNNING, JobState.SUSPENDED):
                assert any(r.running for r in job.ranks.values())
            assert sum(a.lost for a in job.attempts) <= job.spec.requeue_max
            self.what_follows_is_its_own(job)
            if job.state is JobState.LOST:
                assert sum(a.lost for a in job.attempts) == job.spec.requeue_max

    def what_follows_is_its_own(self, job: Job) -> None:
        """Check that no other job has the cores reserved for the next size of a job."""
        for share in job.following.shares if job.following else ():
            for other in self.state.on_node(share.node_id):
                targets = [other.target, other.following] if other is not job else []
                assert all(share.cpus.isdisjoint(one.on(share.node_id)) for one in targets if one)


AnyEvents.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=40)
TestAnyEvents = AnyEvents.TestCase


class Restarts(RuleBasedStateMachine):
    """Two jobs on whole nodes that change size and place by restarts, with interfering events.

    This machine uses only the rules above that affect restarts; with all rules few restarts would
    happen.
    """

    state, restarted, plan_of = AnyEvents.state, AnyEvents.restarted, AnyEvents.plan_of
    what_follows_is_its_own = AnyEvents.what_follows_is_its_own
    plan_whole, plan_again = AnyEvents.plan_whole, AnyEvents.plan_whole
    end, all_end, end_again = AnyEvents.end, AnyEvents.all_end, AnyEvents.all_end
    answer_launch, answer_again = AnyEvents.answer_launch, AnyEvents.answer_launch
    ask, order, wait = AnyEvents.ask, AnyEvents.order, AnyEvents.wait
    fall_silent = AnyEvents.fall_silent
    come_back, ghosts, restart = AnyEvents.come_back, AnyEvents.ghosts, AnyEvents.restart
    answer_caps, replay = AnyEvents.answer_caps, AnyEvents.replay
    look_at_everything = AnyEvents.look_at_everything
    what_is_planned_is_within_the_budget = AnyEvents.what_is_planned_is_within_the_budget

    @initialize(budget_w=st.integers(110, 250))
    def begin(self, budget_w: int) -> None:
        AnyEvents.begin(self, budget_w)  # type: ignore[arg-type]
        for job, node in zip(JOBS[:2], NODES, strict=False):
            AnyEvents.submit_whole(self, job, 1, 0)  # type: ignore[arg-type]
            self.plan_of(job, [node], 10)
            self.stage.launched(node, job)


Restarts.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=30)
TestRestarts = Restarts.TestCase

names = st.sampled_from(["n0", "a", 'é"\\'])


def events() -> st.SearchStrategy[ev.Event]:
    st.register_type_strategy(CpuSet, st.sets(st.integers(0, 300)).map(CpuSet.of))
    st.register_type_strategy(float, st.floats(allow_nan=False))
    profiles = st.sampled_from(sorted(APPLICATIONS.values(), key=lambda p: p.app))
    st.register_type_strategy(PassProfile, profiles)
    share, low, high = st.floats(0, 1), st.floats(0, 99), st.floats(100, 999)
    curves = st.builds(GpuCurve, static_w=low, full_w=high, knee=share, beta=share)
    st.register_type_strategy(GpuCurve, curves)
    for kind in (JobId, NodeId, ZoneName):
        st.register_type_strategy(kind, names)
    st.register_type_strategy(Epoch, st.integers(0, 9))
    return st.one_of([st.from_type(kind) for kind in codec.EVENT_TYPES.values()])


@settings(max_examples=examples(300))
@given(event=events())
def test_every_event_comes_back_from_its_text(event: ev.Event) -> None:
    kind, body = codec.dump_event(event)
    assert codec.load_event(kind, body) == event
