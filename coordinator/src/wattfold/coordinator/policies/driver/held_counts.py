"""Nodes held for a job that has waited too long, if identical nodes are only counted.

The rules are those of `held_nodes`, for schedulers of simulated pools.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wattfold.coordinator.core.power.charge import held_uw, node_uw
from wattfold.coordinator.policies.driver.impatience import Impatient
from wattfold.coordinator.policies.port import Change, JobInformation, Site


def is_counted(site: Site) -> bool:
    """Return whether nodes have no names."""
    return site.kind is not None and not site.nodes


def earliest_ns(one_ns: int, other_ns: int) -> int:
    """Return the earlier of two times; 0 = none."""
    return min(one_ns, other_ns) if one_ns and other_ns else one_ns or other_ns


class _Hold(NamedTuple):
    nodes: int
    power_uw: int


@dataclass(slots=True)
class HeldCounts:
    """Waiting jobs of one scheduler, and the holds for them."""

    patience: float
    begun: list[int] = field(default_factory=list)
    """Jobs that started without a decision of the scheduler, which it must be notified of."""
    _waiting: set[int] = field(default_factory=set)
    _impatient: Impatient = field(init=False)

    def __post_init__(self) -> None:
        self._impatient = Impatient(self.patience)

    def waits(self, job: int, jobs: JobInformation, site: Site) -> None:
        """Add a waiting job."""
        ask = jobs.ask(job)
        self._waiting.add(job)
        assert site.kind is not None, "counted nodes are identical"
        estimate_ns = jobs.estimate_ns(job, ask.greatest, ask.cap_uw or site.kind.most_uw)
        self._impatient.add(job, (ask.submitted_ns, f"{job:012}"), estimate_ns)

    def waits_no_more(self, job: int) -> None:
        """Forget a job that has started or ended."""
        self._waiting.discard(job)
        if job in self.begun:
            self.begun.remove(job)

    def taken(self) -> list[int]:
        """Return the jobs that started without a decision of the scheduler since the last call."""
        begun, self.begun = self.begun, []
        return begun

    def next_ns(self, now_ns: int) -> int:
        """Return when the next job will have waited too long; 0 = never."""
        return self._impatient.next_ns(now_ns)

    def decided(
        self,
        changes: Sequence[Change],
        running: Sequence[int],
        jobs: JobInformation,
        site: Site,
        now_ns: int,
    ) -> tuple[list[Change], list[int]]:
        """Return the remaining changes, and the jobs whose start or growth was withdrawn.

        ``running`` are the jobs that run before the changes.
        """
        self._waiting.difference_update(running)
        impatient = self._impatient.first(self._waiting.__contains__, now_ns)
        starts = {change.job for change in changes}
        head = next(iter(impatient), None)
        if head is None or head in starts or site.kind is None:
            return list(changes), []
        place = _FreeResourcesOverTime(jobs, site, now_ns, running)
        ask = jobs.ask(head)
        cap_uw = ask.cap_uw or site.kind.lowest_uw
        wanted = _Hold(ask.least, place.uw(ask.least, cap_uw))
        if wanted.nodes > site.count or wanted.power_uw > site.most_uw:
            return list(changes), []
        free, shadow_ns = place.free(), now_ns
        begins = _fits(wanted, free)
        if not begins:
            free, shadow_ns = place.shadow(wanted)
        if not _fits(wanted, free):
            return list(changes), []
        free = _less(free, wanted)
        kept: list[Change] = []
        withdrawn: list[int] = []
        if begins:
            kept.append(Change(head, ask.least, cap_uw))
            self.begun.append(head)
        for change in sorted(changes, key=place.turn):
            job, size, cap = change[:3]
            more = place.more(job, size, cap)
            if not begins and place.ends_ns(job, size, cap) <= shadow_ns:
                kept.append(change)
            elif _fits(more, _Hold(max(free.nodes, 0), max(free.power_uw, 0))):
                kept.append(change)
                free = _less(free, more)
            else:
                withdrawn.append(job)
        return kept, withdrawn


class _FreeResourcesOverTime:
    """Free nodes and watts, now and after the ends of running jobs."""

    def __init__(
        self, jobs: JobInformation, site: Site, now_ns: int, running: Sequence[int]
    ) -> None:
        self._jobs, self._site, self._now_ns = jobs, site, now_ns
        self._has = {job: held for job in running if (held := jobs.held(job)) is not None}

    def uw(self, nodes: int, cap_uw: int) -> int:
        kind = self._site.kind
        assert kind is not None, "counted nodes are identical"
        return nodes * node_uw(kind, held_uw(kind, cap_uw))

    def free(self) -> _Hold:
        """Return the resources without a running job."""
        holds = [_Hold(one.size, self.uw(one.size, one.cap_uw)) for one in self._has.values()]
        return _Hold(
            self._site.count - sum(one.nodes for one in holds),
            self._site.spendable_uw - sum(one.power_uw for one in holds),
        )

    def shadow(self, wanted: _Hold) -> tuple[_Hold, int]:
        """Return the free resources when ``wanted`` first fits, and that time."""
        free, shadow_ns, has = self.free(), self._now_ns, self._has
        ends = sorted((self.ends_ns(job, h.size, h.cap_uw), job) for job, h in has.items())
        for ends_ns, job in ends:
            if _fits(wanted, free) and ends_ns > shadow_ns:
                break
            one, shadow_ns = has[job], ends_ns
            power_uw = self.uw(one.size, one.cap_uw)
            free = _Hold(free.nodes + one.size, free.power_uw + power_uw)
        return free, shadow_ns

    def ends_ns(self, job: int, size: int, cap_uw: int) -> int:
        """Return the expected end of a job with this size and cap."""
        left = 1.0 - self._jobs.done(job, self._now_ns)
        return self._now_ns + max(round(left * self._jobs.estimate_ns(job, size, cap_uw)), 1)

    def more(self, job: int, size: int, cap_uw: int) -> _Hold:
        """Return the additional resources of a change of a job."""
        had = self._has.get(job)
        before = _Hold(had.size, self.uw(had.size, had.cap_uw)) if had else _Hold(0, 0)
        return _less(_Hold(size, self.uw(size, cap_uw)), before)

    def turn(self, change: Change) -> tuple[bool, bool]:
        """Sort key: running jobs first, and among them shrinking before growing jobs."""
        had = self._has.get(change.job)
        return had is None, had is not None and change.size > had.size


def _fits(wanted: _Hold, free: _Hold) -> bool:
    return wanted.nodes <= free.nodes and wanted.power_uw <= free.power_uw


def _less(free: _Hold, taken: _Hold) -> _Hold:
    return _Hold(free.nodes - taken.nodes, free.power_uw - taken.power_uw)
