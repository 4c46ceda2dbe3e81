"""The queue of a site as a problem for the solvers of lists (`solvers.lists.problem`).

Resources are cores, memory, GPUs and *places*: somebody who has a node alone takes all places of
it, anybody else one for each unit. Whole nodes are jobs that take all places. Power of a unit is
rounded up, so that several on one node are never charged with more than was planned. Jobs run for
as long as is expected of them; at a lower cap for longer, as their profile says. Where all jobs
take whole nodes, which are alike, these are only counted: as one node that has so many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.amounts import Amounts
from wattfold.coordinator.core.charge import cores_uw, drawing_uw, held_uw
from wattfold.coordinator.core.job import JobSpec, Share, SizeUnit
from wattfold.coordinator.core.job_units import units_within
from wattfold.coordinator.core.node import NodeKind, NodeSpec
from wattfold.coordinator.core.plan import JobView, NodeView
from wattfold.coordinator.core.reservation import Windows
from wattfold.coordinator.core.spread import Spread as UnitSpread
from wattfold.coordinator.policies.easy_search import Candidate
from wattfold.coordinator.policies.estimates import asked_ns, duration_ns, run_time_s
from wattfold.coordinator.policies.placement import takes_whole_nodes
from wattfold.coordinator.policies.slowdown_driven_speed import useful_uw
from wattfold.coordinator.policies.stock import suits
from wattfold.coordinator.solvers.lists.problem import (
    ENDLESS_NS,
    Closing,
    Job,
    Node,
    Option,
    Part,
    Shape,
    Spread,
)

PLACES = 1 << 20
"""Places of a node."""
LEAST_WEIGHT = 1e-3
LEVELS = 16
"""Of the power above the floor of a node as many are told apart, where power is predicted."""
SPREADS = {
    UnitSpread.ANY: Spread.ANY,
    UnitSpread.TOGETHER: Spread.TOGETHER,
    UnitSpread.APART: Spread.APART,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Settings of the policy, as its description tells them."""

    caps: int = 3
    wait_ns: int = 86_400_000_000_000
    """The wait that jobs expect whose queue does not say."""
    ratios: str = "plan"
    power_margin: float = 0.1
    """So much more than is predicted of a job its cap leaves it, as a share."""


class Ground:
    """The nodes of a site as a problem has them. Made anew when they change."""

    counted = False
    """Whether they are one node of the problem."""

    def __init__(self, nodes: Sequence[NodeView]) -> None:
        self.views = nodes
        self.names = [view.spec.node_id for view in nodes]
        self.numbers = {name: number for number, name in enumerate(self.names)}
        classes: dict[tuple[object, ...], int] = {}
        self.nodes: list[Node] = []
        self.kinds: list[NodeKind] = []
        """Those that differ, in order."""
        self.samples: list[NodeSpec] = []
        """A node of each class: what jobs draw on one does not depend on which it is."""
        for view in nodes:
            spec = view.spec
            key = id(spec.kind), spec.zones
            if key not in classes:
                classes[key] = len(classes)
                self.samples.append(spec)
                if not any(spec.kind is kind for kind in self.kinds):
                    self.kinds.append(spec.kind)
            self.nodes.append(Node(_amounts(view), classes[key]))
        self.dram_cap_uw = nodes[0].dram_cap_uw if nodes else 0
        self.most_uw = max((kind.most_uw for kind in self.kinds), default=0)
        self.full_uw = sum(
            cores_uw(spec, spec.kind.cores, spec.kind.most_uw, gpus=len(spec.gpus))
            for spec in (view.spec for view in nodes)
        )
        """What jobs draw at most."""
        self._suiting: dict[tuple[object, ...], tuple[int, ...]] = {}

    def suiting(self, spec: JobSpec) -> tuple[int, ...] | None:
        """The nodes that a job names, with the features it asks for; None = all."""
        if not any(spec.node_filters):
            return None
        if spec.node_filters not in self._suiting:
            self._suiting[spec.node_filters] = tuple(
                number for number, view in enumerate(self.views) if suits(view, spec)
            )
        return self._suiting[spec.node_filters]

    def parts(self, shares: Iterable[Share], alone: bool) -> tuple[Part, ...]:
        """What somebody has; of nodes out of reach nothing."""
        return tuple(
            Part(number, (len(s.cpus), s.memory_bytes, len(s.gpus), PLACES if alone else 1))
            for s in shares
            if (number := self.numbers.get(s.node_id)) is not None
        )


class CountedGround(Ground):
    """Like nodes of which jobs take whole ones."""

    counted = True

    def __init__(self, nodes: Sequence[NodeView]) -> None:
        super().__init__(nodes)
        self.nodes = [Node((len(nodes),))]

    def parts(self, shares: Iterable[Share], alone: bool) -> tuple[Part, ...]:  # noqa: ARG002
        """How many of the nodes."""
        return (Part(0, (sum(1 for share in shares if share.node_id in self.numbers),)),)


def _amounts(view: NodeView) -> tuple[int, ...]:
    """What jobs can have of a node. One of which anything is blocked is nobody's alone."""
    spec = view.spec
    return (
        len(spec.cpus - view.blocked),
        max(spec.memory_bytes - view.blocked_bytes, 0),
        len({*spec.gpus} - {*view.blocked_gpus}),
        PLACES if spec.cpus == spec.cpus - view.blocked else PLACES - 1,
    )


class Entry(NamedTuple):
    """A job of the queue as a problem has it."""

    job: Job
    levels: Sequence[int]
    """That of each of its options."""
    packed: int
    """How many units, or nodes, or cores, one unit of the problem is."""


class Builder:
    """Turns jobs into those of a problem, with shapes and closings as they come.

    Serves one round after the other on the same site: jobs that are as they were are not turned
    again. Shapes and closings of jobs that are gone do no harm to a problem.
    """

    def __init__(self, ground: Ground, windows: Windows, rules: Rules, limited: bool) -> None:
        self.ground, self._windows = ground, windows
        self._rules, self._limited = rules, limited
        self._shapes: dict[Shape, int] = {}
        self._closings: dict[Closing, int] = {}
        self._rights: dict[tuple[str, str, str], tuple[int, ...]] = {}
        self._powers: dict[tuple[object, ...], tuple[int, ...]] = {}
        self._entries: dict[int, tuple[Candidate, Entry]] = {}
        """Those of the last round."""

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Those of the jobs so far."""
        return tuple(self._shapes)

    @property
    def closings(self) -> tuple[Closing, ...]:
        """Those that concern any of the jobs so far."""
        return tuple(self._closings)

    def entries(self, queue: Iterable[Candidate]) -> list[Entry]:
        """The jobs that wait, in their order."""
        before, after = self._entries, dict[int, tuple[Candidate, Entry]]()
        for one in queue:
            known = before.get(one.job)
            if known is None or known[0] is not one:
                known = one, self._entry(one)
            after[one.job] = known
        self._entries = after
        return [entry for _, entry in after.values()]

    def _entry(self, one: Candidate) -> Entry:
        view, spec = one.view, one.view.spec
        units, cores, amounts, spread, packed = self._asked(one)
        closings = self._closings_of(spec) if one.takes_ns else ()
        nodes = self.ground.suiting(spec)
        shape = Shape(units, amounts, spread, nodes, closings)
        levels = self._levels(one)
        times = one.size if self.ground.counted else 1
        options = [self._option(one, level_uw, cores, times) for level_uw in levels]
        kept = [
            number
            for number, option in enumerate(options)
            if number == 0 or not spec.limit_ns or option.duration_ns <= spec.limit_ns
        ]
        waits = view.waits
        rank_ns = duration_ns(view, self.ground.kinds, one.size, one.cap_uw)
        job = Job(
            key=one.job,
            shape=self._shapes.setdefault(shape, len(self._shapes)),
            options=tuple(options[number] for number in kept),
            submit_ns=view.submitted_ns,
            ewt_ns=waits.expected_ns or self._rules.wait_ns,
            wait_max_ns=waits.max_ns,
            weight=max(spec.priority, LEAST_WEIGHT),
            rank_ns=max(rank_ns, 1),
        )
        return Entry(job, [levels[number] for number in kept], packed)

    def _asked(self, one: Candidate) -> tuple[int, int, tuple[int, ...], Spread, int]:
        """Units, cores of one for its power (0 = all), amounts, spread, and what one stands for."""
        spec, size = one.view.spec, one.size
        if self.ground.counted:
            return 1, 0, (size,), Spread.ANY, size
        alone = PLACES if takes_whole_nodes(spec) else 1
        beside = spec.memory_bytes, spec.gpus
        if spec.unit is SizeUnit.NODES:
            # Nobody else is there when it starts, even if it lends cores later.
            return size, 0, (0, *beside, PLACES), Spread.APART, 1
        if spec.unit is SizeUnit.CORES:
            return 1, size, (size, *beside, alone), Spread.ANY, size
        if alone == 1:
            amounts = (spec.unit_cores, *beside, 1)
            return size, spec.unit_cores, amounts, SPREADS[spec.spread], 1
        # Its units have nodes to themselves, each node as many as the roomiest could hold.
        holds = [_most_units(spec, view) for view in self.ground.views]
        packed = max(min(size, max(holds, default=1)), 1)
        cores = packed * spec.unit_cores
        amounts = (cores, packed * spec.memory_bytes, packed * spec.gpus, PLACES)
        return -(-size // packed), cores, amounts, Spread.APART, packed

    def _levels(self, one: Candidate) -> list[int]:
        """The levels it may run at, the greatest first."""
        count = self._rules.caps
        if one.view.spec.cap_uw or not self._limited or count < 2:
            return [one.cap_uw]
        least_uw = max(max(kind.least_uw, kind.floor_uw) for kind in self.ground.kinds)
        span_uw = max(one.cap_uw - least_uw, 0)
        return list(dict.fromkeys(one.cap_uw - span_uw * step // count for step in range(count)))

    def _option(self, one: Candidate, level_uw: int, cores: int, times: int) -> Option:
        """One level. A unit has so many cores (0 = all) of a node, of so many nodes."""
        view, kinds = one.view, self.ground.kinds
        by_word = self._rules.ratios == "order"
        lasts_ns = (asked_ns if by_word else duration_ns)(view, kinds, one.size, one.cap_uw)
        if level_uw != one.cap_uw:
            slower = run_time_s(view, kinds, one.size, level_uw)
            lasts_ns = round(lasts_ns * slower / run_time_s(view, kinds, one.size, one.cap_uw))
        lasts_ns = max(lasts_ns, 1)
        stays_ns = 0
        if one.takes_ns:
            stays_ns = view.spec.limit_ns or max(one.takes_ns, lasts_ns)
        power_uw = tuple(times * uw for uw in self._power(view.spec, level_uw, cores))
        return Option(lasts_ns, power_uw, stays_ns)

    def _power(self, spec: JobSpec, level_uw: int, cores: int) -> tuple[int, ...]:
        """Of one unit on each class of nodes, rounded up."""
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
    """The level at which a job loses no time, as far as is known.

    It has room for what is predicted of it and ``margin`` of that more, and no more than its
    profile says it draws. Levels are rounded up, so that jobs that ask for the same stay alike.
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
