"""Running jobs under slowdown-driven on named nodes: their resources and predicted ends.

The node with the smallest fraction of the requested cores determines the speed of a job (the
worst-case model, or its known speed: `models.amdahl`). Loans are not stored: of two jobs on a node,
the later started job is the guest. A job with fewer cores than requested is predicted to get them
all back when its last guest ends. A guest is predicted to continue with its cores.

Free cores of a node go to jobs there that have fewer cores than requested, the earliest started job
first. So a mate gets its cores back when its guest ends, and a guest gets the cores of an owner
that ends first. Reduced caps are raised in the same order. Times are whole nanoseconds.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.jobs.spec import ResizeMode
from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.core.model.reservation import Windows
from wattfold.coordinator.models.amdahl import WHOLE_PPM, takes, work
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.placement.core_choice import Want, distribute
from wattfold.coordinator.policies.port import Site
from wattfold.coordinator.policies.resources.estimates import duration_ns
from wattfold.coordinator.policies.resources.room import Room
from wattfold.coordinator.policies.resources.serial_part import serial_of_ppm
from wattfold.coordinator.policies.slowdown_driven.levels import pace_ppm, raised_uw

NOT_YET = float("inf")


@dataclass(slots=True, kw_only=True)
class Run:
    """A job that runs or starts in this round."""

    job: int
    view: JobView
    given: Assignment
    fulls: dict[NodeId, int]
    """Requested cores on each of its nodes."""
    asked_ns: int
    """Its run time on all of them."""
    left_ns: int
    """Its remaining work, as time on all of them."""
    ends_ns: int = 0
    power_uw: int = 0
    """Power above the floors."""
    serial_ppm: int | None = None
    """Share of its time that fewer cores do not stretch; None = unknown."""
    pace_ppm: int = WHOLE_PPM
    """Its run time at its cap relative to its highest possible cap, in ppm."""
    starts: bool = False
    """Whether it starts in this round."""

    @property
    def slowest(self) -> tuple[int, int]:
        """Requested and current cores on the node with the smallest fraction."""
        pairs = [(self.fulls[share.node_id], len(share.cpus)) for share in self.given.shares]
        return max(pairs, key=lambda pair: pair[0] / pair[1])

    def takes_ns(self, all_ns: int) -> int:
        """Return its time with its current cores for work that takes ``all_ns`` on all cores."""
        full, had = self.slowest
        return takes(all_ns, full, had, self.serial_ppm or 0) * self.pace_ppm // WHOLE_PPM

    def does_ns(self, time_ns: int) -> int:
        """Return its progress in a time with its current cores, as time on all cores."""
        full, had = self.slowest
        return work(time_ns * WHOLE_PPM // self.pace_ppm, full, had, self.serial_ppm or 0)

    @property
    def short(self) -> bool:
        """Whether it has fewer cores than requested on any node."""
        return any(len(share.cpus) < self.fulls[share.node_id] for share in self.given.shares)

    @property
    def grows(self) -> bool:
        """Whether its cores may change while it runs."""
        spec = self.view.spec
        in_place = spec.mode not in (ResizeMode.FIXED, ResizeMode.RESTART)
        return spec.kind.resized and in_place and not spec.exclusive

    @property
    def resizable(self) -> bool:
        """Whether its cores may change now; they may not while it starts."""
        return self.grows and not self.starts and self.view.movable

    @property
    def waited_ns(self) -> int:
        """Its wait, plus the predicted excess over its requested time."""
        return max(self.ends_ns - self.view.submitted_ns - self.asked_ns, 0)

    @property
    def slowdown(self) -> float:
        """Predicted slowdown, by the user's estimate."""
        return self.waited_ns / max(self.asked_ns, 1) + 1

    @property
    def since(self) -> tuple[float, int]:
        """Sort key of jobs on a node: the first is the owner."""
        began_ns = self.view.started_ns
        return (began_ns if began_ns >= 0 and not self.starts else NOT_YET), self.job


@dataclass(slots=True)
class FreeResources:
    """Free cores, power above the floors, and the jobs that hold the rest."""

    site: Site
    now_ns: int
    guests: int = 1
    """Maximum number of jobs that a running job lends to at a time."""
    room: Room = field(init=False)
    runs: dict[int, Run] = field(default_factory=dict)
    _on: dict[NodeId, dict[int, Run]] = field(default_factory=dict)
    _kinds: tuple[NodeKind, ...] = ()
    _most_uw: int = 0

    def __post_init__(self) -> None:
        site, windows = self.site, Windows(self.site.reservations)
        self.room = Room(site.nodes, site.spendable_uw, windows, self.now_ns)
        self._kinds = tuple(node.spec.kind for node in site.nodes[:1])
        self._most_uw = max(node.spec.kind.most_uw for node in site.nodes)

    # Running jobs.

    def adopt(
        self, views: Sequence[tuple[int, JobView]], among: Container[JobId] | None = None
    ) -> None:
        """Take the resources of running jobs, return free cores to them and predict their ends.

        ``among``: only these jobs get cores, and no cap is raised.
        """
        for job, view in views:
            self._adopt(job, view)
        self._give_back(among)
        if among is None:
            self._raise_caps()
        for run in sorted(self.runs.values(), key=lambda run: run.since, reverse=True):
            run.ends_ns = self.predicted_ns(run)

    def on(self, node_id: NodeId) -> Iterable[Run]:
        """Return the running or starting jobs on a node."""
        return self._on.get(node_id, {}).values()

    def predicted_ns(self, run: Run) -> int:
        """Return the end of a job; it gets all its cores, if ever, when its guests have ended."""
        full, had = run.slowest
        if full > had and run.grows:
            until_ns = max((one.ends_ns for one in self._lent_to(run)), default=0)
            does_ns = run.does_ns(until_ns - self.now_ns)
            if until_ns > self.now_ns and run.left_ns > does_ns:
                return until_ns + (run.left_ns - does_ns) * run.pace_ppm // WHOLE_PPM
        return self.now_ns + run.takes_ns(run.left_ns)

    def guests_of(self, run: Run) -> set[int]:
        """Return the jobs that started later on its nodes."""
        return {one.job for one in self._guests(run)}

    def owns(self, run: Run) -> bool:
        """Return whether it started on all its nodes before all other jobs there."""
        there = (one for share in run.given.shares for one in self.on(share.node_id))
        return all(one is run or one.since > run.since for one in there)

    def _lent_to(self, run: Run) -> Iterable[Run]:
        """Return the guests whose ends give it all requested cores back.

        If a mate may have several guests, this holds only for an owner: a guest does not get all
        its cores back when a later guest ends.
        """
        return self._guests(run) if self.guests == 1 or self.owns(run) else ()

    def _guests(self, run: Run) -> Iterator[Run]:
        for share in run.given.shares:
            yield from (one for one in self.on(share.node_id) if one.since > run.since)

    def _adopt(self, job: int, view: JobView) -> None:
        current = view.current
        assert current is not None
        kinds = self.room.kinds_under(current.shares) or self._kinds
        fulls = self._fulls(view, current, kinds)
        size = current.size
        if view.spec.unit is SizeUnit.CORES:
            size = fulls[current.shares[0].node_id]
        wanted_uw = self.wanted_uw(view, current)
        asked_ns = duration_ns(view, kinds, size, wanted_uw)
        run = Run(
            job=job,
            view=view,
            given=current,
            fulls=fulls,
            asked_ns=asked_ns,
            left_ns=asked_ns,
            serial_ppm=serial_of_ppm(view, size),
            pace_ppm=pace_ppm(view, kinds, size, (current.cap_uw, wanted_uw)),
        )
        takes_ns = run.takes_ns(asked_ns)
        if view.resized_ns < 0 <= view.started_ns and current.cap_uw == wanted_uw:
            left_ns = max(view.started_ns + takes_ns - self.now_ns, 0)
        else:
            left_ns = round((1 - view.done) * takes_ns)
        run.left_ns = run.does_ns(left_ns)
        self._put(run)

    def wanted_uw(self, view: JobView, given: Assignment) -> int:
        """Return the level of a job with enough power: the user's, or else the maximum there."""
        asked_uw = self.room.held_uw(given.shares, view.spec.cap_uw or self._most_uw)
        return max(asked_uw, given.cap_uw)

    def _fulls(
        self, view: JobView, current: Assignment, kinds: Iterable[NodeKind]
    ) -> dict[NodeId, int]:
        """Return its requested cores on each node; its current cores if they are unknown.

        They are unknown for jobs of units and on unreachable nodes.
        """
        if view.spec.unit is SizeUnit.CORES:
            most = max((kind.cores for kind in kinds), default=current.size)
            full = max(min(view.max_size, most), current.size)
            return {current.shares[0].node_id: full}
        specs = self.room.specs if view.spec.unit is SizeUnit.NODES else {}
        return {
            share.node_id: specs[share.node_id].kind.cores
            if share.node_id in specs
            else len(share.cpus)
            for share in current.shares
        }

    def _put(self, run: Run) -> None:
        given = run.given
        run.power_uw = self.room.given_uw(given)
        self.room.take(given.shares, run.power_uw, run.view.spec.alone)
        self.runs[run.job] = run
        for share in given.shares:
            self._on.setdefault(share.node_id, {})[run.job] = run

    # Changes.

    def start(self, run: Run) -> None:
        """Start a job with its assignment."""
        self._put(run)

    def undo_start(self, run: Run) -> None:
        """Undo `start`."""
        given = run.given
        self.room.give_back(given.shares, run.power_uw, run.view.spec.alone)
        del self.runs[run.job]
        for share in given.shares:
            del self._on[share.node_id][run.job]

    def resize(self, run: Run, cpus: dict[NodeId, CpuSet]) -> None:
        """Continue a running job with these cores of some of its nodes."""
        before = run.given
        shares = tuple(
            replace(share, cpus=cpus[share.node_id]) if share.node_id in cpus else share
            for share in before.shares
        )
        whole = run.view.spec.unit is SizeUnit.NODES
        size = before.size if whole else sum(len(share.cpus) for share in shares)
        self._give(run, replace(before, size=size, shares=shares))
        run.given = replace(run.given, expected_total_s=run.takes_ns(run.asked_ns) / 1e9)

    def set_cap(self, run: Run, cap_uw: int) -> None:
        """Continue a running job at this level."""
        self._give(run, replace(run.given, cap_uw=cap_uw))
        run.given = replace(run.given, expected_total_s=run.takes_ns(run.asked_ns) / 1e9)

    def restore(self, run: Run, before: Assignment, ends_ns: int) -> None:
        """Undo `resize` and `set_cap` of a job, given its previous assignment and end."""
        self._give(run, before)
        run.ends_ns = ends_ns

    def _give(self, run: Run, given: Assignment) -> None:
        alone, caps_uw = run.view.spec.alone, (given.cap_uw, self.wanted_uw(run.view, given))
        self.room.give_back(run.given.shares, run.power_uw, alone)
        run.given, run.power_uw = given, self.room.given_uw(given)
        self.room.take(given.shares, run.power_uw, alone)
        if run.pace_ppm != WHOLE_PPM or caps_uw[0] != caps_uw[1]:
            kinds = self.room.kinds_under(given.shares)
            run.pace_ppm = pace_ppm(run.view, kinds, run.view.max_size, caps_uw)

    def _give_back(self, among: Container[JobId] | None) -> None:
        short = [run for run in self.runs.values() if run.resizable and run.short]
        if among is not None:
            short = [run for run in short if run.view.job_id in among]
        for run in sorted(short, key=lambda run: run.since):
            for share in run.given.shares:
                cpus = self._grown(run, share)
                if cpus is not None:
                    self.resize(run, {share.node_id: cpus})

    def _raise_caps(self) -> None:
        for run in sorted(self.runs.values(), key=lambda run: run.since):
            wanted_uw, given = self.wanted_uw(run.view, run.given), run.given
            known = all(share.node_id in self.room.specs for share in given.shares)
            if given.cap_uw < wanted_uw and run.view.movable and known and not given.levels:
                cap_uw = raised_uw(self.room, given, wanted_uw, self.room.power_uw)
                if cap_uw > given.cap_uw:
                    self.set_cap(run, cap_uw)

    def _grown(self, run: Run, share: Share) -> CpuSet | None:
        """Return more cores of a node for a job, as far as there is power; None: no more."""
        node_id, had = share.node_id, len(share.cpus)
        free = self.room.free.get(node_id)
        if not free:
            return None
        size = min(run.fulls[node_id], had + len(free))
        while size > had and self._more_uw(run, node_id, had, size) > self.room.power_uw:
            size -= 1
        if size <= had:
            return None
        want = Want(
            job=run.view.job_id, size=size, held=share.cpus, tasks=run.view.spec.tasks_per_node
        )
        given = distribute([want], free | share.cpus, self.room.cores_of(node_id))
        return given[run.view.job_id]

    def _more_uw(self, run: Run, node_id: NodeId, had: int, size: int) -> int:
        """Return the additional power of a job that grows on a node."""
        cap_uw, levels = run.given.cap_uw, run.given.levels
        at_uw, before_uw = (
            self.room.cores_uw(node_id, cores, cap_uw, levels) for cores in (size, had)
        )
        return at_uw - before_uw
