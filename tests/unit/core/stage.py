"""A core without agents, policy or clock: the test plays their parts.

`send` returns the actions of the core, in order, without request ids, causes and wake-ups. `asked`
is the last request id of a kind, for the answer. Every id is used once.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from unit.core.sleep_settings import SLEEP, S, W

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import Epoch, JobId, NodeId, ZoneName
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.job import Job
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.node import NodeSpec, Zone, ZoneKind
from wattfold.coordinator.core.model.plan import Plan, PlanningRound
from wattfold.coordinator.core.state.state import CoreSettings
from wattfold.coordinator.models.pass_model import SizeUnit

PACKAGE = ZoneName("package-0")
WINDOW_NS, LEASE_NS, TIMEOUT_NS = S, 9 * S, 2 * S
CHECKED = CoreSettings(check_every=1, sleep=SLEEP)
BASE_W, FLOOR_W, MAX_W = 10, 10, 50


def node_spec(
    name: str = "n0",
    cores: int = 4,
    base_w: int = BASE_W,
    zones: tuple[Zone, ...] | None = None,
    **fields: Any,
) -> NodeSpec:
    return NodeSpec(
        node_id=NodeId(name),
        cpus=CpuSet.of(range(cores)),
        zones=(package(),) if zones is None else zones,
        base_power_uw=base_w * W,
        **fields,
    )


def package(name: str = PACKAGE, floor_w: int = FLOOR_W, max_w: int = MAX_W) -> Zone:
    return Zone(
        name=ZoneName(name),
        kind=ZoneKind.PACKAGE,
        cap_uw_min=floor_w * W,
        cap_uw_max=max_w * W,
        floor_uw=floor_w * W,
        window_ns=WINDOW_NS,
    )


def job_spec(low: int = 1, high: int = 4, **fields: Any) -> JobSpec:
    chosen: dict[str, Any] = {"kind": JobKind.MALLEABLE, "argv": ("run",), **fields}
    return JobSpec(name="job", app="app", size_min=low, size_max=high, **chosen)


def counted_as(rng: random.Random, kinds: Sequence[JobKind], cores: int = 2) -> dict[str, Any]:
    """Return a random size unit and a job kind that supports it; a unit has at most ``cores``
    cores.
    """
    unit, kind = rng.choice(list(SizeUnit)), rng.choice(list(kinds))
    if unit is not SizeUnit.UNITS:
        return {"unit": unit, "kind": kind}
    kind = JobKind.MOLDABLE if kind.resized else kind
    cores, spread = rng.randint(1, cores), rng.choice(list(Spread))
    return {"unit": unit, "kind": kind, "unit_cores": cores, "spread": spread}


def on(job: str, *places: str, cap_w: float = MAX_W, total_s: float = 0.0) -> Assignment:
    """``on("a", "n0:0-1", cap_w=30)``; a place without cores means a whole node of four cores."""
    shares = []
    for place in places:
        node, _, cpus = place.partition(":")
        shares.append(Share(node_id=NodeId(node), cpus=CpuSet.parse(cpus or "0-3")))
    whole = all(":" not in place for place in places)
    return Assignment(
        job_id=JobId(job),
        size=len(shares) if whole else sum(len(s.cpus) for s in shares),
        cap_uw=round(cap_w * W),
        shares=tuple(shares),
        expected_total_s=total_s,
    )


def running(job: str, cpus: str, **fields: Any) -> reports.ProcessReading:
    return reports.ProcessReading(
        job_id=JobId(job), running=True, pid=7, cpus=CpuSet.parse(cpus), **fields
    )


def ended(job: str, exit_code: int = 0, **fields: Any) -> reports.ProcessReading:
    return reports.ProcessReading(
        job_id=JobId(job), running=False, pid=7, cpus=CpuSet(), exit_code=exit_code, **fields
    )


def reading(cap_w: float, zone: str = PACKAGE, error: str = "") -> reports.ZoneReading:
    return reports.ZoneReading(zone=ZoneName(zone), cap_uw=round(cap_w * W), error=error)


# The possible actions of the core, without ids.


def caps(node: str, cap_w: float, zone: str = PACKAGE) -> act.SetCaps:
    return act.SetCaps(
        node_id=NodeId(node), caps=((ZoneName(zone), round(cap_w * W)),), request_id="", cause=""
    )


def mask(node: str, job: str, cpus: str) -> act.SetMask:
    return act.SetMask(
        node_id=NodeId(node), job_id=JobId(job), cpus=CpuSet.parse(cpus), request_id="", cause=""
    )


def leave(node: str) -> act.Leave:
    return act.Leave(node_id=NodeId(node), request_id="", cause="")


def renew(node: str) -> act.RenewLease:
    return act.RenewLease(node_id=NodeId(node), duration_ns=LEASE_NS, request_id="", cause="")


def terminate(node: str, job: str) -> act.Terminate:
    return act.Terminate(node_id=NodeId(node), job_id=JobId(job), request_id="", cause="")


def forget(node: str, job: str, attempt: int = 1) -> act.ForgetProcess:
    return act.ForgetProcess(
        node_id=NodeId(node), job_id=JobId(job), request_id="", cause="", attempt=attempt
    )


def solve(number: int) -> act.Solve:
    return act.Solve(round=number, cause="")


class Stage:
    """A core, its time, and answers to its requests."""

    def __init__(self, budget_w: float = 1000, start: bool = True) -> None:
        self.core = CoordinatorCore(round(budget_w * W), CHECKED)
        self.now_ns = 0
        self.asked: dict[type, str] = {}
        self.wake_ns = 0
        self._ids: set[str] = set()
        self.history: list[tuple[ev.Event, int]] = []
        if start:
            self.start()

    def send(self, event: ev.Event) -> list[act.Action]:
        self.history.append((event, self.now_ns))
        out = []
        for action in self.core.handle(event, self.now_ns):
            if isinstance(action, act.WakeAt):
                self.wake_ns = action.at_ns
                continue
            if not isinstance(action, act.Solve):
                assert action.request_id not in self._ids
                self._ids.add(action.request_id)
                self.asked[type(action)] = action.request_id
                action = replace(action, request_id="")
            out.append(replace(action, cause=""))
        return out

    def start(self, epoch: int = 1, lease_ns: int = LEASE_NS) -> list[act.Action]:
        return self.send(
            ev.CoordinatorStarted(
                epoch=Epoch(epoch), lease_ns=lease_ns, command_timeout_ns=TIMEOUT_NS
            )
        )

    def after(self, seconds: float) -> list[act.Action]:
        self.now_ns += round(seconds * S)
        return self.send(ev.TimePassed())

    def register(self, *names: str) -> None:
        for name in names:
            self.send(ev.NodeRegistered(node_id=NodeId(name), address="test"))

    def connect(
        self,
        spec: NodeSpec | str,
        cap_w: float = FLOOR_W,
        processes: tuple[reports.ProcessReading, ...] = (),
        left: bool = False,
    ) -> list[act.Action]:
        known = node_spec(spec) if isinstance(spec, str) else spec
        return self.send(
            reports.NodeConnected(
                spec=known, caps=(reading(cap_w),), processes=processes, left=left
            )
        )

    def up(self, *names: str) -> None:
        """Connect these nodes, at their floors and with a lease."""
        for name in names:
            self.register(name)
            self.connect(name)
            self.leased(name)

    def leased(self, node: str, cap_w: float = FLOOR_W) -> list[act.Action]:
        request = self.core.state.nodes[NodeId(node)].lease_request
        return self.send(
            reports.LeaseRenewed(node_id=NodeId(node), request_id=request, caps=(reading(cap_w),))
        )

    def submit(self, job: str, spec: JobSpec | None = None, **fields: Any) -> list[act.Action]:
        return self.send(ev.JobSubmitted(job_id=JobId(job), spec=spec or job_spec(), **fields))

    def plan(self, *assignments: Assignment, number: int | None = None) -> list[act.Action]:
        return self.send(
            ev.PlanProposed(
                plan=Plan(assignments=assignments),
                round=planning_round(self.core.state.solving if number is None else number),
            )
        )

    def need_plan(self) -> None:
        """Start a planning round, whatever happened before."""
        if not self.core.state.solving:
            self.send(ev.BudgetChanged(budget_uw=self.core.state.ledger.budget_uw))
        assert self.core.state.solving

    def caps_are(self, node: str, cap_w: float, error: str = "") -> list[act.Action]:
        request = self.core.state.nodes[NodeId(node)].caps_request
        return self.send(
            reports.CapsAnswered(
                node_id=NodeId(node), request_id=request, caps=(reading(cap_w, error=error),)
            )
        )

    def caps_lost(self, node: str) -> list[act.Action]:
        request = self.core.state.nodes[NodeId(node)].caps_request
        return self.send(
            reports.CapsUnconfirmed(node_id=NodeId(node), request_id=request, reason="lost")
        )

    def mask_is(self, node: str, job: str, cpus: str) -> list[act.Action]:
        return self.send(
            reports.MaskConfirmed(
                node_id=NodeId(node), job_id=JobId(job), cpus=CpuSet.parse(cpus), confined=False
            )
        )

    def launched(self, node: str, job: str) -> list[act.Action]:
        launched = reports.JobLaunched(
            node_id=NodeId(node), job_id=JobId(job), pid=7, attempt=self.attempt(job)
        )
        return self.send(launched)

    def attempt(self, job: str) -> int:
        """The current attempt of a job; 0 if the job is unknown."""
        known = self.core.state.jobs.get(JobId(job))
        return known.attempt if known else 0

    def launch_failed(self, node: str, job: str, permanent: bool) -> list[act.Action]:
        return self.send(
            reports.LaunchFailed(
                node_id=NodeId(node), job_id=JobId(job), reason="no", permanent=permanent
            )
        )

    def refused_by_node(self, node: str, job: str, reason: str = "full") -> list[act.Action]:
        """Report that the agent of a node cannot start this job or any other."""
        return self.send(
            reports.LaunchFailed(
                node_id=NodeId(node),
                job_id=JobId(job),
                reason=reason,
                permanent=False,
                attempt=self.attempt(job),
                node_fault=True,
            )
        )

    def fault(self, node: str, reason: str) -> list[act.Action]:
        """Report why the agent of a node cannot start jobs; empty = it can."""
        return self.send(reports.LaunchFaultReported(node_id=NodeId(node), reason=reason))

    def suspension(self, node: str, job: str, suspended: bool | None) -> list[act.Action]:
        """Answer a command to suspend or resume a job; None = the command failed."""
        about: dict[str, Any] = {
            "node_id": NodeId(node),
            "job_id": JobId(job),
            "attempt": self.attempt(job),
        }
        if suspended is None:
            return self.send(reports.SuspensionFailed(reason="no", **about))
        return self.send(reports.SuspensionConfirmed(suspended=suspended, **about))

    def terminate_failed(self, node: str, job: str, refused: bool = False) -> list[act.Action]:
        """Report that an order to end a job got no answer, or that the agent lacks the job."""
        return self.send(
            reports.TerminateFailed(
                node_id=NodeId(node),
                job_id=JobId(job),
                reason="no",
                refused=refused,
                attempt=self.attempt(job),
            )
        )

    def process_ended(
        self, node: str, job: str, exit_code: int = 0, **fields: Any
    ) -> list[act.Action]:
        reading = ended(job, exit_code, attempt=self.attempt(job), **fields)
        return self.send(reports.ProcessEnded(node_id=NodeId(node), process=reading))

    def silent(self, node: str) -> list[act.Action]:
        return self.send(reports.NodeSilent(node_id=NodeId(node), reason="cut"))

    def cancel(self, job: str, force: bool = False) -> list[act.Action]:
        return self.send(ev.JobCancelRequested(job_id=JobId(job), force=force))

    def order(self, node: str, order: ev.NodeOrder, reason: str = "") -> list[act.Action]:
        return self.send(ev.NodeOrdered(node_id=NodeId(node), order=order, reason=reason))

    def left(self, node: str, cap_w: float = MAX_W, error: str = "") -> list[act.Action]:
        """Answer the pending command to leave."""
        request = self.core.state.nodes[NodeId(node)].caps_request
        return self.send(
            reports.LeaveAnswered(
                node_id=NodeId(node), request_id=request, caps=(reading(cap_w, error=error),)
            )
        )

    def leave_failed(self, node: str, refused: bool = False) -> list[act.Action]:
        request = self.core.state.nodes[NodeId(node)].caps_request
        return self.send(
            reports.LeaveFailed(
                node_id=NodeId(node), request_id=request, reason="no", refused=refused
            )
        )

    def budget(self, budget_w: float, deadline_s: float = 0) -> list[act.Action]:
        return self.send(
            ev.BudgetChanged(budget_uw=round(budget_w * W), deadline_ns=round(deadline_s * S))
        )

    def run_job(self, job: str, place: str, cap_w: float = MAX_W, **fields: Any) -> None:
        """Start a job on its cores and confirm its cap."""
        self.submit(job, job_spec(**fields))
        self.need_plan()
        kept = [j.target for j in self.core.state.placed() if j.target]
        self.plan(*kept, on(job, place, cap_w=cap_w))
        node = place.partition(":")[0]
        self.launched(node, job)
        self.confirm(node)

    def confirm(self, node: str) -> list[act.Action]:
        """Confirm a pending cap command as requested."""
        account = self.core.state.ledger.accounts[NodeId(node)].zones[PACKAGE]
        assert account.pending_uw is not None
        return self.caps_are(node, account.pending_uw / W)

    def job(self, job: str) -> Job:
        return self.core.state.jobs[JobId(job)]

    def charge_w(self, node: str) -> float:
        return self.core.state.ledger.accounts[NodeId(node)].charge_uw / W

    @property
    def committed_w(self) -> float:
        return self.core.state.ledger.committed_uw / W


def planning_round(number: int) -> PlanningRound:
    return PlanningRound(
        number=number, policy="test", solver="none", outcome="optimal", jobs=0, solve_ns=0
    )


def launch(
    node: str,
    job: str,
    cpus: str,
    *,
    spec: JobSpec | None = None,
    launch_cpus: int = 4,
    rank: int = 0,
    ranks: int = 1,
) -> act.Launch:
    return act.Launch(
        node_id=NodeId(node),
        job_id=JobId(job),
        spec=spec or job_spec(),
        cpus=CpuSet.parse(cpus),
        launch_cpus=launch_cpus,
        rank=rank,
        ranks=ranks,
        request_id="",
        cause="",
    )


NODES = SizeUnit.NODES
