"""Joins what was sampled with what was ordered: was the budget kept at every sample? Pure.

The sum is that of the limits in force and the base power of every node that counts. A node counts
from the moment its agent is ready for the first time, whether or not a coordinator has heard of it,
and whatever becomes of its agent, its guard and the coordinator. It does not count while an
operator's word says so: from the call of `forget` on until a coordinator shows it as charged, or
3 s after one shows it as returned. A raised budget is in force from the call on, a lowered one
from its deadline on, which is counted from the answer. An announced budget is in force, and kept,
from its time on. An emergency that its forecast could keep to limits the sum as well, from its
deadline until the call that ends or replaces it. Where its calendar is set, or a copy of the state
takes over, a coordinator finds budgets in force that nobody announced by then: they are as if
lowered at that moment. Nothing else is excused.

A machine that is off draws its power asleep, and one that boots the most that it can draw, until
its agent starts; limits do not count there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

NS_PER_S = 1_000_000_000
WINDOW_NS = NS_PER_S
"""Over which the mean power is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """What the hardware of a zone takes, uW."""

    uw_min: int
    uw_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A node: base power and zones, uW."""

    node_id: str
    base_uw: int
    zones: tuple[Zone, ...]

    @property
    def least_uw(self) -> int:
        """What it may draw at its floors."""
        return self.base_uw + sum(zone.uw_min for zone in self.zones)

    @property
    def most_uw(self) -> int:
        """What it may draw at most."""
        return self.base_uw + sum(zone.uw_max for zone in self.zones)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What was read at one time: limits (uW) and energy (uJ), zone by zone, node by node."""

    at_ns: int
    limits_uw: tuple[int, ...]
    energy_uj: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetOrder:
    """A budget as it was acknowledged."""

    called_ns: int
    kept_from_ns: int
    """By when it must be kept: its deadline, counted from the answer."""
    budget_uw: int
    number: int = 0
    """Of an announced budget, which is called just before its time; 0 = set at once."""
    at_s: float = 0.0
    """Its time by the calendar of the coordinator."""
    scheduled: bool = False
    """Whether it belongs to the schedule of the trial."""


@dataclass(slots=True, kw_only=True)
class EmergencyLimit:
    """The limit of an emergency, while it must be kept."""

    limit_uw: int
    kept_from_ns: int
    until_ns: int = 0
    """0 = it is in force."""

    def holds(self, at_ns: int) -> bool:
        """Whether it must be kept at a time."""
        return self.kept_from_ns <= at_ns and (not self.until_ns or at_ns < self.until_ns)


@dataclass(slots=True)
class Facts:
    """What the trial did, in the order of time."""

    budgets: list[BudgetOrder] = field(default_factory=list)
    events: list[tuple[int, str]] = field(default_factory=list)
    excused: dict[str, list[list[int]]] = field(default_factory=dict)
    """Times (from, until; 0 = open) in which a node does not count."""
    emergencies: list[EmergencyLimit] = field(default_factory=list)
    powers: dict[str, list[tuple[int, int | None]]] = field(default_factory=dict)
    """Times from which a machine draws a power (uW) whatever its limits; None = its limits hold."""

    def draws(self, node_id: str, from_ns: int, power_uw: int | None) -> None:
        """A machine was switched off or on, or its agent starts."""
        self.powers.setdefault(node_id, []).append((from_ns, power_uw))

    def drawn_uw(self, node_id: str, at_ns: int) -> int | None:
        """The power that a machine draws whatever its limits; None = its limits hold."""
        known = [uw for from_ns, uw in self.powers.get(node_id, ()) if from_ns <= at_ns]
        return known[-1] if known else None

    def note(self, at_ns: int, text: str) -> None:
        """Something was done to the site."""
        self.events.append((at_ns, text))

    def excuse(self, node_id: str, from_ns: int) -> None:
        """A word takes a node out of the sum."""
        self.excused.setdefault(node_id, []).append([from_ns, 0])

    def count_again(self, node_id: str, from_ns: int) -> None:
        """The word holds no more."""
        self.excused[node_id][-1][1] = from_ns

    def is_excused(self, node_id: str, at_ns: int) -> bool:
        """Whether a node does not count at a time."""
        times = self.excused.get(node_id, ())
        return any(begin <= at_ns and (not end or at_ns < end) for begin, end in times)

    def allowed_uw(self, at_ns: int) -> int:
        """The limit in force: the highest budget that may still be kept to, or an emergency's."""
        limits = [one.limit_uw for one in self.emergencies if one.holds(at_ns)]
        return min((self._budget_uw(at_ns), *limits))

    def _budget_uw(self, at_ns: int) -> int:
        given = [order for order in self.budgets if order.called_ns <= at_ns]
        for index in range(len(given) - 1, -1, -1):
            if given[index].kept_from_ns <= at_ns:
                return max(order.budget_uw for order in given[index:])
        return max(order.budget_uw for order in given)

    def before(self, at_ns: int, count: int = 4) -> list[str]:
        """The last events before a time, with how long before."""
        end = bisect_right(self.events, (at_ns, "\uffff"))
        return [
            f"{(at_ns - event_ns) / NS_PER_S:.2f} s before: {text}"
            for event_ns, text in self.events[max(0, end - count) : end]
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A stretch of samples above the budget."""

    from_ns: int
    until_ns: int
    samples: int
    sum_uw: int
    budget_uw: int
    limits_uw: tuple[int, ...]
    before: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Of one order of events."""

    samples: int
    ratio_max: float
    """Greatest sum / budget."""
    mean_ratio_max: float
    """Greatest mean power over a window / greatest budget in force during it."""
    told_ratio_max: float
    """The same as ratio_max with the nodes that a word has taken out of the sum."""
    violations: tuple[Violation, ...]


def judge(machines: Sequence[Machine], samples: Sequence[Sample], facts: Facts) -> Verdict:
    """Looks at every sample."""
    found: list[Violation] = []
    open_: list[tuple[Sample, int, int]] = []
    ratio = told = 0.0
    for sample in samples:
        allowed_uw = facts.allowed_uw(sample.at_ns)
        limited = zip((m.node_id for m in machines), sums_uw(machines, sample), strict=True)
        by_node = {n: _drawn_or(facts, n, sample.at_ns, uw) for n, uw in limited}
        sum_uw = sum(uw for n, uw in by_node.items() if not facts.is_excused(n, sample.at_ns))
        ratio = max(ratio, sum_uw / allowed_uw)
        told = max(told, sum(by_node.values()) / allowed_uw)
        if sum_uw > allowed_uw:
            open_.append((sample, sum_uw, allowed_uw))
        elif open_:
            found.append(_violation(open_, facts))
            open_ = []
    if open_:
        found.append(_violation(open_, facts))
    return Verdict(
        samples=len(samples),
        ratio_max=ratio,
        mean_ratio_max=max(_mean_ratios(machines, samples, facts), default=0.0),
        told_ratio_max=told,
        violations=tuple(found),
    )


def _drawn_or(facts: Facts, node_id: str, at_ns: int, limited_uw: int) -> int:
    drawn_uw = facts.drawn_uw(node_id, at_ns)
    return limited_uw if drawn_uw is None else drawn_uw


def sums_uw(machines: Sequence[Machine], sample: Sample) -> list[int]:
    """Base power and limits in force of each node. Hardware clips what is written."""
    limits = iter(sample.limits_uw)
    return [
        machine.base_uw
        + sum(min(zone.uw_max, max(zone.uw_min, next(limits))) for zone in machine.zones)
        for machine in machines
    ]


def _violation(stretch: list[tuple[Sample, int, int]], facts: Facts) -> Violation:
    worst = max(stretch, key=lambda found: found[1] - found[2])
    return Violation(
        from_ns=stretch[0][0].at_ns,
        until_ns=stretch[-1][0].at_ns,
        samples=len(stretch),
        sum_uw=worst[1],
        budget_uw=worst[2],
        limits_uw=worst[0].limits_uw,
        before=tuple(facts.before(stretch[0][0].at_ns)),
    )


def _mean_ratios(
    machines: Sequence[Machine], samples: Sequence[Sample], facts: Facts
) -> Iterator[float]:
    """Mean power over each window, from the energy counters. Without nodes that were taken out."""
    times = [sample.at_ns for sample in samples]
    for last in samples:
        begin = bisect_right(times, last.at_ns - WINDOW_NS) - 1
        if begin < 0:
            continue
        first = samples[begin]
        mean_uw = _mean_uw(machines, first, last, facts)
        yield mean_uw / max(facts.allowed_uw(first.at_ns), facts.allowed_uw(last.at_ns))


def _mean_uw(machines: Sequence[Machine], first: Sample, last: Sample, facts: Facts) -> float:
    seconds = (last.at_ns - first.at_ns) / NS_PER_S
    pairs = iter(zip(first.energy_uj, last.energy_uj, strict=True))
    total_uw = 0.0
    for machine in machines:
        used_uj = sum(
            max(after - before, 0) for before, after in (next(pairs) for _ in machine.zones)
        )
        out = any(facts.is_excused(machine.node_id, at.at_ns) for at in (first, last))
        # The counters of a machine that is off or boots go on, as if its limits held.
        known = [facts.drawn_uw(machine.node_id, at.at_ns) for at in (first, last)]
        fixed_uw = [uw for uw in known if uw is not None]
        power_uw = max(fixed_uw) if fixed_uw else machine.base_uw + used_uj / seconds
        total_uw += 0 if out else power_uw
    return total_uw
