"""The queue of a site as a problem for the solvers of lists (`solvers.lists.problem`).

Resources are cores, memory, GPUs and *places*. A job that does not share its node takes all places
of the node, any other job takes one place per unit. Whole nodes are modelled as jobs that take all
places. The power of a unit is rounded up, so the charge of several units on a node never exceeds
the plan. Jobs take their expected time, and longer at a lower cap according to their profile. If
all jobs take whole identical nodes, the nodes are only counted: the problem then has a single node
with that many units.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from wattfold.contract.ids import NodeId
from wattfold.contract.units import ns_from_s
from wattfold.coordinator.core.model.amounts import Amounts
from wattfold.coordinator.core.model.jobs.assignment import Share
from wattfold.coordinator.core.model.jobs.job_units import units_within
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.jobs.spread import Spread as UnitSpread
from wattfold.coordinator.core.model.node import NodeKind, NodeSpec
from wattfold.coordinator.core.model.plan import JobView, NodeView
from wattfold.coordinator.core.model.reservation import Windows
from wattfold.coordinator.core.power.charge import cores_uw, drawing_uw, held_uw
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.backfill.candidates import Candidate
from wattfold.coordinator.policies.constraint.settings import PlanSettings
from wattfold.coordinator.policies.resources.estimates import asked_ns, duration_ns, run_time_s
from wattfold.coordinator.policies.resources.room import takes_whole_nodes
from wattfold.coordinator.policies.resources.serial_part import useful_uw
from wattfold.coordinator.policies.resources.stock import suits
from wattfold.coordinator.solvers.lists.problem import (
    ENDLESS_NS,
    Closing,
    NodePart,
    NodeSpread,
    Option,
    ProblemJob,
    ProblemNode,
    Shape,
)

PLACES = 1 << 20
"""Places of a node."""
LEAST_WEIGHT = 1e-3
LEVELS = 16
"""Number of steps between floor and maximum of a node to which predicted power is rounded."""
SPREADS = {
    UnitSpread.ANY: NodeSpread.ANY,
    UnitSpread.TOGETHER: NodeSpread.TOGETHER,
    UnitSpread.APART: NodeSpread.APART,
}


class ProblemNodes:
    """The nodes of a site in the form of a problem. Rebuilt when the nodes change."""

    counted = False
    """Whether all nodes are a single node of the problem."""

    def __init__(self, nodes: Sequence[NodeView]) -> None:
        self.views = nodes
        self.names = [view.spec.node_id for view in nodes]
        self.numbers = {name: number for number, name in enumerate(self.names)}
        classes: dict[tuple[object, ...], int] = {}
        self.nodes: list[ProblemNode] = []
        self.kinds: list[NodeKind] = []
        """The different kinds, in order."""
        self.samples: list[NodeSpec] = []
        """A node of each class. The power of a job is equal on all nodes of a class."""
        for view in nodes:
            spec = view.spec
            key = id(spec.kind), spec.zones
            if key not in classes:
                classes[key] = len(classes)
                self.samples.append(spec)
                if not any(spec.kind is kind for kind in self.kinds):
                    self.kinds.append(spec.kind)
            self.nodes.append(ProblemNode(_amounts(view), classes[key]))
        self.dram_cap_uw = nodes[0].dram_cap_uw if nodes else 0
        self.most_uw = max((kind.most_uw for kind in self.kinds), default=0)
        self.full_uw = sum(
            cores_uw(spec, spec.kind.cores, spec.kind.most_uw, gpus=len(spec.gpus))
            for spec in (view.spec for view in nodes)
        )
        """Maximum power of all jobs."""
        self._suiting: dict[tuple[object, ...], tuple[int, ...]] = {}

    def suiting(self, spec: JobSpec) -> tuple[int, ...] | None:
        """Return the nodes permitted by the node list and features of a job; None = all."""
        if not any(spec.node_filters):
            return None
        if spec.node_filters not in self._suiting:
            self._suiting[spec.node_filters] = tuple(
                number for number, view in enumerate(self.views) if suits(view, spec)
            )
        return self._suiting[spec.node_filters]

    def parts(self, shares: Iterable[Share], alone: bool) -> tuple[NodePart, ...]:
        """Return the held parts of reachable nodes."""
        return tuple(
            NodePart(number, (len(s.cpus), s.memory_bytes, len(s.gpus), PLACES if alone else 1))
            for s in shares
            if (number := self.numbers.get(s.node_id)) is not None
        )


class CountedNodes(ProblemNodes):
    """Identical nodes that jobs take whole."""

    counted = True

    def __init__(self, nodes: Sequence[NodeView]) -> None:
        super().__init__(nodes)
        self.nodes = [ProblemNode((len(nodes),))]

    def parts(self, shares: Iterable[Share], alone: bool) -> tuple[NodePart, ...]:  # noqa: ARG002
        """Return the number of held nodes."""
        return (NodePart(0, (sum(1 for share in shares if share.node_id in self.numbers),)),)


def _amounts(view: NodeView) -> tuple[int, ...]:
    """Return the available resources of a node. A partly blocked node cannot be taken whole."""
    spec = view.spec
    return (
        len(spec.cpus - view.blocked),
        max(spec.memory_bytes - view.blocked_bytes, 0),
        len({*spec.gpus} - {*view.blocked_gpus}),
        PLACES if spec.cpus == spec.cpus - view.blocked else PLACES - 1,
    )


class QueuedTask(NamedTuple):
    """A job of the queue in the form of a problem."""

    job: ProblemJob
    levels: Sequence[int]
    """Level of each of its options."""
    packed: int
    """Number of units, nodes or cores in one unit of the problem."""


class Builder:
    """Converts jobs into jobs of a problem; adds shapes and closings as needed.

    It serves consecutive rounds on the same site and does not convert unchanged jobs again. Shapes
    and closings of former jobs do no harm to a problem.
    """

    def __init__(
        self, problem_nodes: ProblemNodes, windows: Windows, settings: PlanSettings, limited: bool
    ) -> None:
        self.ground, self._windows = problem_nodes, windows
        self._settings, self._limited = settings, limited
        self._wait_ns = ns_from_s(settings.wait_s)
        self._shapes: dict[Shape, int] = {}
        self._closings: dict[Closing, int] = {}
        self._rights: dict[tuple[str, str, str], tuple[int, ...]] = {}
        self._powers: dict[tuple[object, ...], tuple[int, ...]] = {}
        self._entries: dict[int, tuple[Candidate, QueuedTask]] = {}
        """Entries of the last round."""

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Shapes of all jobs so far."""
        return tuple(self._shapes)

    @property
    def closings(self) -> tuple[Closing, ...]:
        """Closings that concern any job so far."""
        return tuple(self._closings)

    def entries(self, queue: Iterable[Candidate]) -> list[QueuedTask]:
        """Return the entries of the waiting jobs, in order."""
        before, after = self._entries, dict[int, tuple[Candidate, QueuedTask]]()
        for one in queue:
            known = before.get(one.job)
            if known is None or known[0] is not one:
                known = one, self._entry(one)
            after[one.job] = known
        self._entries = after
        return [entry for _, entry in after.values()]

    def _entry(self, candidate: Candidate) -> QueuedTask:
        view, spec = candidate.view, candidate.view.spec
        units, cores, amounts, spread, packed = self._asked(candidate)
        closings = self._closings_of(spec) if candidate.takes_ns else ()
        nodes = self.ground.suiting(spec)
        shape = Shape(units, amounts, spread, nodes, closings)
        levels = self._levels(candidate)
        times = candidate.size if self.ground.counted else 1
        options = [self._option(candidate, level_uw, cores, times) for level_uw in levels]
        kept = [
            number
            for number, option in enumerate(options)
            if number == 0 or not spec.limit_ns or option.duration_ns <= spec.limit_ns
        ]
        waits = view.waits
        rank_ns = duration_ns(view, self.ground.kinds, candidate.size, candidate.cap_uw)
        job = ProblemJob(
            key=candidate.job,
            shape=self._shapes.setdefault(shape, len(self._shapes)),
            options=tuple(options[number] for number in kept),
            submit_ns=view.submitted_ns,
            ewt_ns=waits.expected_ns or self._wait_ns,
            wait_max_ns=waits.max_ns,
            weight=max(spec.priority, LEAST_WEIGHT),
            rank_ns=max(rank_ns, 1),
        )
        return QueuedTask(job, [levels[number] for number in kept], packed)

    def _asked(self, candidate: Candidate) -> tuple[int, int, tuple[int, ...], NodeSpread, int]:
        """Return units, cores per unit for its power (0 = all), amounts, spread, and ``packed``."""
        spec, size = candidate.view.spec, candidate.size
        if self.ground.counted:
            return 1, 0, (size,), NodeSpread.ANY, size
        alone = PLACES if takes_whole_nodes(spec) else 1
        beside = spec.memory_bytes, spec.gpus
        if spec.unit is SizeUnit.NODES:
            # At its start it needs unshared nodes, even if it lends cores later.
            return size, 0, (0, *beside, PLACES), NodeSpread.APART, 1
        if spec.unit is SizeUnit.CORES:
            return 1, size, (size, *beside, alone), NodeSpread.ANY, size
        if alone == 1:
            amounts = (spec.unit_cores, *beside, 1)
            return size, spec.unit_cores, amounts, SPREADS[spec.spread], 1
        # A unit of the problem is an unshared node with as many units as the largest node could
        # hold.
        holds = [_most_units(spec, view) for view in self.ground.views]
        packed = max(min(size, max(holds, default=1)), 1)
        cores = packed * spec.unit_cores
        amounts = (cores, packed * spec.memory_bytes, packed * spec.gpus, PLACES)
        return -(-size // packed), cores, amounts, NodeSpread.APART, packed

    def _levels(self, candidate: Candidate) -> list[int]:
        """Return the levels at which a job may run, the highest first."""
        count = self._settings.caps
        if candidate.view.spec.cap_uw or not self._limited or count < 2:
            return [candidate.cap_uw]
        least_uw = max(kind.lowest_uw for kind in self.ground.kinds)
        span_uw = max(candidate.cap_uw - least_uw, 0)
        return list(
            dict.fromkeys(candidate.cap_uw - span_uw * step // count for step in range(count))
        )

    def _option(self, candidate: Candidate, level_uw: int, cores: int, times: int) -> Option:
        """Return the option of a level; a unit takes ``cores`` (0 = all) of ``times`` nodes."""
        view, kinds = candidate.view, self.ground.kinds
        by_word = self._settings.ratios == "order"
        lasts_ns = (asked_ns if by_word else duration_ns)(
            view, kinds, candidate.size, candidate.cap_uw
        )
        if level_uw != candidate.cap_uw:
            slower = run_time_s(view, kinds, candidate.size, level_uw)
            lasts_ns = round(
                lasts_ns * slower / run_time_s(view, kinds, candidate.size, candidate.cap_uw)
            )
        lasts_ns = max(lasts_ns, 1)
        stays_ns = 0
        if candidate.takes_ns:
            stays_ns = view.spec.limit_ns or max(candidate.takes_ns, lasts_ns)
        power_uw = tuple(times * uw for uw in self._power(view.spec, level_uw, cores))
        return Option(lasts_ns, power_uw, stays_ns)

    def _power(self, spec: JobSpec, level_uw: int, cores: int) -> tuple[int, ...]:
        """Return the power of one unit on each class of nodes, rounded up."""
        if not self._limited:
            return ()
        ground, gpus = self.ground, spec.amounts_on(cores).gpus
        key = level_uw, cores, gpus, spec.levels
        if key not in self._powers:
            self._powers[key] = tuple(
                cores_uw(
                    node,
                    min(cores or node.kind.cores, node.kind.cores),
                    held_uw(node.kind, level_uw),
                    spec.levels,
                    ground.dram_cap_uw,
                    gpus,
                )
                + (1 if cores else 0)
                for node in ground.samples
            )
        return self._powers[key]

    def _closings_of(self, spec: JobSpec) -> tuple[int, ...]:
        right = spec.user, spec.queue, spec.reservation
        if right not in self._rights:
            spans = self._windows.spans(spec, self.ground.names)
            self._rights[right] = tuple(
                sorted({self._closing(span.nodes, span.from_ns, span.to_ns) for span in spans})
            )
        return self._rights[right]

    def _closing(self, names: Iterable[NodeId], from_ns: int, to_ns: int) -> int:
        numbers = self.ground.numbers
        nodes = tuple(numbers[name] for name in names if name in numbers)
        closing = Closing(nodes, from_ns, min(to_ns, ENDLESS_NS))
        return self._closings.setdefault(closing, len(self._closings))


def full_level_uw(view: JobView, most_uw: int, kinds: Iterable[NodeKind], margin: float) -> int:
    """Return the lowest known level at which a job loses no time.

    It covers the predicted power plus ``margin`` of it, and at most the power in the profile of the
    job. Levels are rounded up, so jobs with equal requests stay identical.
    """
    level_uw = useful_uw(view, most_uw)
    if not view.spec.predicted_uw:
        return level_uw
    predicted_uw = round(view.spec.predicted_uw * (1.0 + margin))
    needed_uw = (_stepped_uw(kind, drawing_uw(view.spec, kind, predicted_uw)) for kind in kinds)
    return min(level_uw, max(needed_uw))


def _stepped_uw(kind: NodeKind, level_uw: int) -> int:
    step_uw = max((kind.most_uw - kind.floor_uw) // LEVELS, 1)
    return kind.floor_uw - (kind.floor_uw - level_uw) // step_uw * step_uw


def _most_units(spec: JobSpec, view: NodeView) -> int:
    capacity = view.spec.capacity
    if not suits(view, spec):
        return 0
    return units_within(
        spec,
        Amounts(cores=len(view.spec.cpus), memory_bytes=capacity.memory_bytes, gpus=capacity.gpus),
    )
