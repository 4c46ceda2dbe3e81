"""Slowdown-driven malleable backfill in the service: jobs on cores lend some to who would wait.

M. D'Amico, A. Jokanovic, J. Corbalan, ICPP 2019. A round, over nodes and cores with names:

1. Free cores go to running jobs that have fewer than they asked for, on their own node, those that
   started first first: so a mate has its cores back when its guest ends, and a guest those of an
   owner that ends before it.
2. The jobs that wait, in order of priority and submission: each is first tried as EASY does (where
   it fits in full without delaying the first that waits), then, before the next one, beside mates.
   It starts there with fewer cores if it is predicted to end earlier than if it waited, if it ends
   inside its mates' own runs, and if no mate's predicted slowdown reaches ``max_slowdown``.

Mates are malleable jobs on cores that have all they asked for; `slowdown_driven_choice` tells
which, `core_choice` which cores: jobs keep to different sockets. The coordinator shrinks first and
starts the new job when its cores are confirmed to be free. A job on whole nodes, an exclusive or a
rigid one neither lends nor borrows; a moldable one borrows and keeps what it got.

Predictions are users' words, stretched in proportion to the cores. When a job would start if it
waited is told by what runs alone, as if no other waited: the real start is later, so some jobs wait
that could gain. Nothing is kept between two rounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.charge import share_uw
from wattfold.coordinator.core.job import Assignment, JobKind, ResizeMode, Share, SizeUnit
from wattfold.coordinator.core.plan import JobView, NodeView, Plan, Policy, Snapshot, Waiting
from wattfold.coordinator.policies.core_choice import Want, distribute
from wattfold.coordinator.policies.easy_search import BEHIND, BLOCKED, FIRST, never, size_of
from wattfold.coordinator.policies.estimates import duration_ns
from wattfold.coordinator.policies.placement import Room, nothing_in_reach, takes_whole_nodes
from wattfold.coordinator.policies.requests import with_missing, yielding
from wattfold.coordinator.policies.rounds import site_of
from wattfold.coordinator.policies.slowdown_driven_choice import (
    INFINITE,
    Guest,
    Limits,
    NodeLender,
    NodePick,
    select_on_node,
    takes_on,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowdownDriven(Policy):
    """Settings as `described.slowdown_driven` tells them; infinite ``max_slowdown``: no cut-off.

    ``dynamic``: the cut-off is the mean predicted slowdown of the running jobs.
    """

    max_slowdown: float = 10.0
    dynamic: bool = False
    mates: int = 2
    looked_at: int = 0
    sharing_factor: float = 0.5
    benefit: bool = True
    protects: bool = True

    @property
    def name(self) -> str:
        """``slowdown-driven``."""
        return "slowdown-driven"

    def fallback(self) -> Policy | None:
        """None: it has no solver that could fail."""
        return None

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Keeps what runs, gives cores back, starts what fits or gains beside mates."""
        del deadline_s
        if not snapshot.nodes:
            return nothing_in_reach(snapshot)
        turn = _Round(self, snapshot, now_ns)
        turn.give_back()
        turn.look_at_queue()
        plan = Plan(
            assignments=tuple(turn.assignments()),
            waiting=tuple(turn.waiting),
            solver="none",
            outcome="optimal",
        )
        return with_missing(plan, snapshot)


@dataclass(slots=True, kw_only=True)
class _Run:
    """A job that runs or starts in this round."""

    view: JobView
    given: Assignment
    full: int
    """The size it asked for."""
    asked_ns: int
    """Its time at that size."""
    ends_ns: int

    @property
    def alone(self) -> bool:
        return takes_whole_nodes(self.view.spec)

    @property
    def resizable(self) -> bool:
        spec = self.view.spec
        resized = spec.kind.resized and spec.mode not in (ResizeMode.FIXED, ResizeMode.RESTART)
        on_cores = spec.unit is SizeUnit.CORES and not spec.exclusive
        return resized and on_cores and self.view.current is not None and self.view.movable

    @property
    def waited_ns(self) -> int:
        """How long it waited, and how much longer than asked for it is predicted to run."""
        return max(self.ends_ns - self.view.submitted_ns - self.asked_ns, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """The first job that waits, and when it is to start."""

    view: JobView
    size: int
    cap_uw: int
    shadow_ns: int


class _Round:
    """One round: the room left and the jobs that have something."""

    def __init__(self, policy: SlowdownDriven, snapshot: Snapshot, now_ns: int) -> None:
        self.waiting: list[Waiting] = []
        self._policy, self._now_ns = policy, now_ns
        self._site = site_of(snapshot)
        self._nodes: dict[NodeId, NodeView] = {n.spec.node_id: n for n in snapshot.nodes}
        self._kinds = [node.spec.kind for node in snapshot.nodes]
        self._most_uw = max(kind.most_uw for kind in self._kinds)
        self._room = Room.of(snapshot, now_ns)
        # What nodes out of reach hold, cores that are blocked and nodes that are reserved will be
        # there again: "never" does not count them as gone.
        self._empty = Room(snapshot.nodes, self._site.most_uw)
        unblocked = [replace(node, blocked=CpuSet()) for node in snapshot.nodes]
        self._later = Room(unblocked, self._site.most_uw)
        self._runs: dict[int, _Run] = {}
        self._queue: list[tuple[int, JobView]] = []
        for number, view in enumerate(snapshot.jobs):
            if view.current is None:
                self._queue.append((number, view))
            else:
                self._adopt(number, view, view.current)
        self._queue.sort(key=lambda e: (-e[1].spec.priority, e[1].submitted_ns, e[0]))

    def assignments(self) -> Iterable[Assignment]:
        """Of all jobs that run or start."""
        return (run.given for run in self._runs.values())

    def give_back(self) -> None:
        """Free cores go to running jobs on their node that have fewer than they asked for."""
        short = [run for run in self._runs.values() if self._is_short(run)]
        short.sort(key=lambda run: (run.view.started_ns, run.view.job_id))
        for run in short:
            share = run.given.shares[0]
            free = self._room.free[share.node_id]
            size = min(run.full, run.given.size + len(free))
            kind = self._nodes[share.node_id].spec.kind
            before_uw = share_uw(kind, run.given.size, run.given.cap_uw)
            while size > run.given.size and (
                share_uw(kind, size, run.given.cap_uw) - before_uw > self._room.power_uw
            ):
                size -= 1
            if size > run.given.size:
                want = Want(job=run.view.job_id, size=size, held=share.cpus)
                cores = self._room.cores_of(share.node_id)
                given = distribute([want], free | share.cpus, cores)
                self._resize(run, given[run.view.job_id])

    def look_at_queue(self) -> None:
        """Every job that waits: by its turn, else beside mates, else it waits on."""
        # Jobs that name a reservation are a queue of their own, with a first one of its own.
        heads: dict[str, _Head] = {}
        waits = {view.job_id for _, view in self._queue}
        # Those of a reservation first: its nodes are there for them.
        queue = sorted(self._queue, key=lambda entry: entry[1].spec.reservation, reverse=True)
        for number, view in queue:
            head = heads.get(view.spec.reservation)
            cap_uw = view.spec.cap_uw or self._most_uw
            size = size_of(view, self._site, "max", cap_uw)
            if view.yields_to in waits:
                self._wait(view, yielding(view))
                continue
            if not size or not _fits(self._later, view, size, cap_uw):
                self._wait(
                    view, never(f"{view.spec.least_size} {view.spec.unit.value}"), never=True
                )
                continue
            if view.job_id not in self._site.clearing and not _fits(
                self._empty, view, size, cap_uw
            ):
                self._wait(view, BLOCKED)
                continue
            if self._start(number, view, size, cap_uw, head):
                continue
            if self._start_beside(number, view, size, cap_uw, head):
                continue
            kept = self._room.kept(view.spec, size, cap_uw, self._takes_ns(view, size, cap_uw))
            if kept:
                # It stands in nobody's way while it waits for a reservation.
                self._wait(view, kept)
            elif head is None:
                shadow_ns = self._start_by_turn(view, size, cap_uw)
                heads[view.spec.reservation] = _Head(
                    view=view, size=size, cap_uw=cap_uw, shadow_ns=shadow_ns
                )
                self._wait(view, FIRST, start_ns=shadow_ns)
            else:
                self._wait(view, BEHIND)

    # What runs.

    def _adopt(self, number: int, view: JobView, current: Assignment) -> None:
        kinds = self._room.kinds_under(current.shares) or tuple(self._kinds[:1])
        full = current.size
        if view.spec.unit is SizeUnit.CORES:
            most = max((kind.cores for kind in kinds), default=full)
            full = max(min(view.greatest_size, most), current.size)
        asked_ns = duration_ns(view, kinds, full, current.cap_uw)
        takes_ns = takes_on(asked_ns, full, current.size)
        if view.resized_ns < 0 <= view.started_ns:
            ends_ns = max(view.started_ns + takes_ns, self._now_ns)
        else:
            ends_ns = self._now_ns + round((1 - view.done) * takes_ns)
        self._room.take(
            current.shares,
            self._room.given_uw(current),
            takes_whole_nodes(view.spec),
        )
        self._runs[number] = _Run(
            view=view,
            given=current,
            full=full,
            asked_ns=asked_ns,
            ends_ns=ends_ns,
        )

    def _is_short(self, run: _Run) -> bool:
        known = run.given.shares[0].node_id in self._room.free
        return run.resizable and known and run.given.size < run.full

    def _resize(self, run: _Run, cpus: CpuSet) -> None:
        """A running job goes on with these cores of its node."""
        before, share = run.given, run.given.shares[0]
        self._room.give_back((share,), self._room.given_uw(before))
        share = replace(share, cpus=cpus)
        self._room.take((share,), self._room.given_uw(replace(before, shares=(share,))))
        takes_ns = takes_on(run.asked_ns, run.full, len(cpus))
        run.given = replace(
            before, size=len(cpus), shares=(share,), expected_total_s=takes_ns / 1e9
        )
        run.ends_ns = self._now_ns + (run.ends_ns - self._now_ns) * before.size // len(cpus)

    # What waits.

    def _wait(self, view: JobView, reason: str, *, never: bool = False, start_ns: int = 0) -> None:
        self.waiting.append(
            Waiting(job_id=view.job_id, reason=reason, never=never, start_ns=start_ns)
        )

    def _takes_ns(self, view: JobView, size: int, cap_uw: int) -> int:
        """What reservations go by."""
        return self._room.takes_ns(view, size, cap_uw)

    def _start(
        self, number: int, view: JobView, size: int, cap_uw: int, head: _Head | None
    ) -> bool:
        """Starts a job in full where it fits, if the first that waits is not delayed."""
        limit_ns = self._takes_ns(view, size, cap_uw)
        shares = self._room.find_fed(view.spec, size, cap_uw, limit_ns)
        if shares is None:
            return False
        takes_ns = duration_ns(view, self._room.kinds_under(shares), size, cap_uw)
        self._book(number, view, shares, size, cap_uw, takes_ns, takes_ns)
        if head is None or self._keeps(head):
            return True
        self._unbook(number)
        return False

    def _book(
        self,
        number: int,
        view: JobView,
        shares: tuple[Share, ...],
        full: int,
        cap_uw: int,
        asked_ns: int,
        takes_ns: int,
    ) -> None:
        cores = sum(len(share.cpus) for share in shares)
        size = len(shares) if view.spec.unit is SizeUnit.NODES else cores
        cap_uw = self._room.held_uw(shares, cap_uw)
        alone = takes_whole_nodes(view.spec)
        given = Assignment(
            job_id=view.job_id,
            size=size,
            cap_uw=cap_uw,
            shares=shares,
            expected_total_s=takes_ns / 1e9,
            levels=view.spec.levels,
        )
        self._room.take(shares, self._room.given_uw(given), alone)
        self._runs[number] = _Run(
            view=view,
            given=given,
            full=full,
            asked_ns=asked_ns,
            ends_ns=self._now_ns + takes_ns,
        )

    def _unbook(self, number: int) -> None:
        run = self._runs.pop(number)
        power_uw = self._room.given_uw(run.given)
        self._room.give_back(run.given.shares, power_uw, run.alone)

    def _keeps(self, head: _Head) -> bool:
        """Whether the first that waits still starts when it was to."""
        return self._start_by_turn(head.view, head.size, head.cap_uw) <= head.shadow_ns

    def _start_by_turn(self, view: JobView, size: int, cap_uw: int) -> int:
        """When a job will fit by what runs, or its place is not known: when all has ended."""
        future, last_ns = self._room.copy(), self._now_ns
        limit_ns = self._takes_ns(view, size, cap_uw)
        for run in sorted(self._runs.values(), key=lambda run: run.ends_ns):
            if run.ends_ns > last_ns:
                if future.find_fed(view.spec, size, cap_uw, limit_ns) is not None:
                    return last_ns
                last_ns = future.at_ns = run.ends_ns
            power_uw = future.given_uw(run.given)
            future.give_back(run.given.shares, power_uw, run.alone)
        return last_ns

    # Mates.

    def _start_beside(
        self, number: int, view: JobView, size: int, cap_uw: int, head: _Head | None
    ) -> bool:
        """Starts a job on cores that running jobs lend, if it gains by it."""
        spec = view.spec
        if spec.unit is SizeUnit.NODES or spec.exclusive or spec.kind is JobKind.RIGID:
            return False
        asked_ns = duration_ns(view, self._kinds[:1], size, cap_uw)
        guest = Guest(nodes=1, asked=asked_ns, cores=size, least=spec.least_size)
        latest_ns = None
        if self._policy.benefit:
            latest_ns = self._start_by_turn(view, size, cap_uw) + asked_ns
        picks = self._picks(view, guest, latest_ns)
        for _, _, node_id, pick in sorted(picks, key=lambda one: one[:2]):
            if self._try(number, view, node_id, pick, (size, cap_uw, asked_ns), head):
                return True
        return False

    def _picks(
        self, view: JobView, guest: Guest, latest_ns: int | None
    ) -> list[tuple[tuple[float, int], int, NodeId, NodePick]]:
        """The best mates of every node, with their impact and the position of the node."""
        limits = Limits(
            most_slowdown=self._max_slowdown(),
            mates=self._policy.mates,
            looked_at=self._policy.looked_at,
        )
        lenders = self._lenders()
        found: list[tuple[tuple[float, int], int, NodeId, NodePick]] = []
        for position, node_id in enumerate(self._nodes):
            if view.spec.requests and not self._room.stock.holds(node_id, view.spec):
                continue
            pick = select_on_node(
                guest,
                lenders.get(node_id, ()),
                len(self._room.free[node_id]),
                self._now_ns,
                limits,
                latest=latest_ns,
            )
            if pick is not None and self._may_stay(view, node_id, pick.takes):
                found.append(((pick.impact, -pick.cores), position, node_id, pick))
        return found

    def _may_stay(self, view: JobView, node_id: NodeId, takes_ns: int) -> bool:
        """Whether no reservation keeps a job from a node for so long from now on."""
        windows, now_ns = self._room.windows, self._now_ns
        if not windows.concern(view.spec):
            return True
        return windows.open(view.spec, node_id, now_ns, now_ns + (view.spec.limit_ns or takes_ns))

    def _max_slowdown(self) -> float:
        if not self._policy.dynamic:
            return self._policy.max_slowdown
        runs = [run for run in self._runs.values() if run.view.current is not None]
        if not runs:
            return INFINITE
        return sum((run.waited_ns / max(run.asked_ns, 1)) + 1 for run in runs) / len(runs)

    def _lenders(self) -> dict[NodeId, list[NodeLender]]:
        """Running jobs with all they asked for, by their node."""
        found: dict[NodeId, list[NodeLender]] = {}
        for number, run in self._runs.items():
            if not run.resizable or run.given.size < run.full:
                continue
            least = run.view.spec.least_size
            lender = NodeLender(
                job=number,
                cores=run.given.size,
                waited=run.waited_ns,
                asked=run.asked_ns,
                ends=run.ends_ns,
                lends=min(int(self._policy.sharing_factor * run.full), run.given.size - least),
            )
            found.setdefault(run.given.shares[0].node_id, []).append(lender)
        return found

    def _try(
        self,
        number: int,
        view: JobView,
        node_id: NodeId,
        pick: NodePick,
        asked: tuple[int, int, int],
        head: _Head | None,
    ) -> bool:
        """Shrinks the mates and starts the guest; undone where power or the first forbid it."""
        if node_id not in self._room.free:
            return False
        size, cap_uw, asked_ns = asked
        mates = [self._runs[job] for job, _ in pick.gives]
        given = [(run.given, run.ends_ns) for run in mates]
        cpus = self._give(node_id, view, pick)
        share = self._share(node_id, cpus, view)
        if self._room.power_of((share,), cap_uw, view.spec.levels) <= self._room.power_uw:
            self._book(number, view, (share,), size, cap_uw, asked_ns, pick.takes)
            for run, (before, ends_ns) in zip(mates, given, strict=True):
                gave = before.size - run.given.size
                run.ends_ns = ends_ns - (-pick.takes * gave // before.size)
            stay = all(
                self._may_stay(run.view, node_id, run.ends_ns - self._now_ns) for run in mates
            )
            if stay and (head is None or not self._policy.protects or self._keeps(head)):
                return True
            self._unbook(number)
        for run, (before, ends_ns) in zip(mates, given, strict=True):
            self._resize(run, before.shares[0].cpus)
            run.given, run.ends_ns = before, ends_ns
        return False

    def _give(self, node_id: NodeId, view: JobView, pick: NodePick) -> CpuSet:
        """Shrinks the mates; the cores of the guest, which nobody has then."""
        wants = [
            Want(
                job=(run := self._runs[job]).view.job_id,
                size=run.given.size - given,
                held=run.given.shares[0].cpus,
                tasks=run.view.spec.tasks_per_node,
            )
            for job, given in pick.gives
        ]
        wants.append(Want(job=view.job_id, size=pick.cores, tasks=view.spec.tasks_per_node))
        usable = self._room.free[node_id]
        for want in wants:
            usable = usable | want.held
        given = distribute(wants, usable, self._room.cores_of(node_id))
        for job, _ in pick.gives:
            run = self._runs[job]
            self._resize(run, given[run.view.job_id])
        return given[view.job_id]

    def _share(self, node_id: NodeId, cpus: CpuSet, view: JobView) -> Share:
        spec = view.spec
        gpus = self._room.stock.free_gpus(node_id)[: spec.gpus] if spec.gpus else ()
        return Share(node_id=node_id, cpus=cpus, memory_bytes=spec.memory_bytes, gpus=gpus)


def _fits(room: Room, view: JobView, size: int, cap_uw: int) -> bool:
    """Whether a job has a place there, whatever is reserved."""
    spec = replace(view.spec, reservation="")
    return room.find_fed(spec, size, cap_uw) is not None
