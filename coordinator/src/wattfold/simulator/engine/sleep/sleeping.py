"""Sleeping nodes of a counted pool: which nodes are awake, boots, and their power and failures.

The engine reports starts, changes and ends of jobs. A job on nodes that sleep waits for their boots
before it makes progress, and its start is the end of its last boot. All powers are relative to the
charge ``base_uw`` that the machine states for a node without a job.

A job that waits is charged with what its nodes may draw. Before a boot begins, the larger of this
and the charge of its plan is reserved for every such job. So the power of a plan pays for the
boots, and is there when the job begins.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from wattfold.coordinator.policies.driver.sleep_plan import (
    Arrivals,
    IdleNodes,
    SleepRules,
    ready_ns,
    sleepers,
    wakes,
)
from wattfold.simulator.engine.errors import SimulationError
from wattfold.simulator.engine.running_jobs.running import RunningJobs
from wattfold.simulator.engine.sleep.sleep_counts import SleepCounts

NEVER = 1 << 62
SPARE = -1
"""Owner of a boot that no job waits for."""


@dataclass(slots=True)
class WaitingForBoots:
    """A job that waits for boots: nodes that are up, that boot, and whose boot has not begun."""

    up: int
    missing: int
    booting: int = 0
    due_ns: int = 0
    asked: bool = False
    """Whether plans were asked again, to leave power for its first boot."""


@dataclass(slots=True)
class SleepingNodes:
    """State of the nodes of a pool. Created with all nodes awake and idle."""

    rules: SleepRules
    nodes: int
    base_uw: int
    cap_uw_min: int
    rng: random.Random
    failing: float = 0.0
    """Share of boots that fail. A failed boot draws the power of a boot for twice its time."""
    start_ns: int = 0
    idle: list[IdleNodes] = field(default_factory=list)
    falling: list[tuple[int, int]] = field(default_factory=list)
    """(until, count) of nodes that fall asleep."""
    asleep: int = 0
    boots: list[tuple[int, int, int, bool]] = field(default_factory=list)
    """(until, owner, count, fails) of boots."""
    waiting: dict[int, WaitingForBoots] = field(default_factory=dict)
    size: dict[int, int] = field(default_factory=dict)
    """Nodes of every running job as last seen."""
    moved: dict[int, None] = field(default_factory=dict)
    """Jobs with a new expected start."""
    counts: SleepCounts = field(default_factory=SleepCounts)
    queued: int = 0
    again_ns: int = 0
    """Time at which plans are made again, because a boot lacks power."""
    arrivals: Arrivals = field(init=False)

    def __post_init__(self) -> None:
        self.arrivals = Arrivals(self.rules.boot_ns)
        self.idle = [IdleNodes(self.start_ns, self.start_ns, self.nodes)]

    # Sums, relative to the charge that the machine states.

    @property
    def _booting(self) -> int:
        return sum(count for _, _, count, _ in self.boots)

    @property
    def idle_count(self) -> int:
        """Nodes that are awake and have no job."""
        return sum(one.nodes for one in self.idle)

    @property
    def asleep_count(self) -> int:
        """Nodes that sleep. Jobs may wait for some of them."""
        return self.asleep + sum(waits.missing for waits in self.waiting.values())

    def _own_uw(self, waits: WaitingForBoots) -> int:
        """Return the charge of the nodes of a waiting job."""
        rules, base_uw = self.rules, self.base_uw
        return (
            waits.up * (rules.idle_uw - base_uw)
            + waits.booting * (rules.boot_uw - base_uw)
            + waits.missing * (rules.asleep_uw - base_uw)
        )

    def _excess_uw(self, running: RunningJobs) -> int:
        return sum(
            max(self._own_uw(waits) - _planned_uw(running, job), 0)
            for job, waits in self.waiting.items()
        )

    def _spare_boots(self) -> int:
        return sum(count for _, owner, count, _ in self.boots if owner == SPARE)

    def _unused_uw(self, running: RunningJobs) -> int:
        """Return the power of plans that waiting jobs do not draw yet."""
        return sum(
            max(_planned_uw(running, job) - self._own_uw(waits), 0)
            for job, waits in self.waiting.items()
        )

    def fixed_uw(self, running: RunningJobs) -> int:
        """Return the charge beside the plan that no decision can change at once."""
        idle_uw = max(self.rules.idle_uw - self.base_uw, 0)
        falling = sum(count for _, count in self.falling)
        boots_uw = self._spare_boots() * (self.rules.boot_uw - self.base_uw)
        return falling * idle_uw + boots_uw + self._excess_uw(running)

    def needed_uw(self, running: RunningJobs) -> int:
        """Return what plans must leave for the next boot of each blocked job.

        Nodes that boot or fall asleep need more for a short time only, for which caps are lowered.
        """
        rules, blocked_uw = self.rules, 0
        for job, waits in self.waiting.items():
            if waits.missing and not waits.booting:
                planned_uw, own_uw = _planned_uw(running, job), self._own_uw(waits)
                first_uw = own_uw + rules.boot_uw - rules.asleep_uw
                blocked_uw += max(first_uw - max(planned_uw, own_uw), 0)
        return blocked_uw

    def reserved_uw(self, running: RunningJobs) -> int:
        """Return the charge beside the plan, with the nodes that are awake and idle."""
        idle_uw = max(self.rules.idle_uw - self.base_uw, 0)
        return self.fixed_uw(running) + self.idle_count * idle_uw

    def charge_uw(self, running: RunningJobs) -> int:
        """Return what nodes may draw now, beside the plan. Waiting jobs do not use theirs yet."""
        return self.reserved_uw(running) - self._unused_uw(running)

    def drawn_uw(self, running: RunningJobs) -> int:
        """Return the power beside that of running jobs and nodes at ``base_uw``."""
        rules, base_uw = self.rules, self.base_uw
        awake = self.idle_count + sum(count for _, count in self.falling)
        total_uw = awake * (rules.idle_uw - base_uw) + self.asleep * (rules.asleep_uw - base_uw)
        total_uw += self._spare_boots() * (rules.boot_uw - base_uw)
        for job, waits in self.waiting.items():
            drawn_uw = running.size[job] * (running.beside_uw[job] + running.drawn_cap_uw[job])
            total_uw += self._own_uw(waits) - drawn_uw
        return total_uw

    def pass_time(self, span_ns: int) -> None:
        """Count nodes that sleep and boot."""
        asleep, rules = self.asleep_count, self.rules
        asleep_uw, boot_uw = asleep * rules.asleep_uw, self._booting * rules.boot_uw
        self.counts.pass_time(span_ns, self.nodes, asleep, asleep_uw, boot_uw)

    def next_ns(self, now_ns: int) -> int:
        """Return the next time at which a node changes by itself."""
        times = [until for until, *_ in self.boots] + [until for until, _ in self.falling]
        times += [waits.due_ns for waits in self.waiting.values() if waits.missing]
        if self.again_ns > now_ns:
            times.append(self.again_ns)
        times += [at for one in self.idle if (at := ready_ns(self.rules, one)) > now_ns]
        return min(times, default=NEVER)

    # Changes.

    def take_moved(self) -> list[int]:
        """Remove and return the jobs with a new expected start."""
        moved = list(self.moved)
        self.moved.clear()
        return moved

    def advance(self, now_ns: int, running: RunningJobs) -> bool:
        """End the boots and suspensions that are due. Return whether any was."""
        due = [one for one in self.boots if one[0] <= now_ns]
        fallen = [count for until, count in self.falling if until <= now_ns]
        if not due and not fallen:
            return False
        self.boots = [one for one in self.boots if one[0] > now_ns]
        self.falling = [one for one in self.falling if one[0] > now_ns]
        self.asleep += sum(fallen)
        for _, owner, count, fails in due:
            self._end_boot(owner, count, fails, now_ns, running)
        return True

    def _end_boot(
        self, owner: int, count: int, fails: bool, now_ns: int, running: RunningJobs
    ) -> None:
        self.counts.failed += count * fails
        waits = self.waiting.get(owner)
        if waits is None:
            if fails:
                self.asleep += count
            else:
                self._rest(count, now_ns)
            return
        waits.booting -= count
        if fails:
            waits.missing += count
        else:
            waits.up += count
        self._look(owner, waits, now_ns, running)

    def _rest(self, count: int, now_ns: int) -> None:
        if count:
            self.idle.append(IdleNodes(now_ns, now_ns, count))

    def see(self, job: int, size: int, now_ns: int, running: RunningJobs) -> None:
        """Note the number of nodes of a job; 0 = it has ended or was requeued."""
        before = self.size.pop(job, 0)
        if size:
            self.size[job] = size
        if size > before:
            up = self._take_idle(size - before)
            booting = self._take_spare_boots(job, size - before - up)
            missing = size - before - up - booting
            if booting or missing or job in self.waiting:
                waits = self.waiting.setdefault(job, WaitingForBoots(up=before, missing=0))
                waits.up += up
                waits.booting += booting
                waits.missing += missing
                self.asleep -= missing
                self._check()
                self._look(job, waits, now_ns, running)
            return
        self._give_back(job, before - size, now_ns)
        if not size:
            self._forget(job)
        elif (kept := self.waiting.get(job)) is not None:
            self._look(job, kept, now_ns, running)

    def _take_idle(self, wanted: int) -> int:
        """Take nodes that are awake, the last idle ones first."""
        taken = 0
        while self.idle and taken < wanted:
            one = self.idle.pop()
            count = min(one.nodes, wanted - taken)
            taken += count
            if one.nodes > count:
                self.idle.append(one._replace(nodes=one.nodes - count))
        return taken

    def _take_spare_boots(self, job: int, wanted: int) -> int:
        """Let boots of spare nodes continue for a job, those that end first."""
        taken = 0
        for spare in sorted(one for one in self.boots if one[1] == SPARE):
            until_ns, _, count, fails = spare
            used = min(count, wanted - taken)
            if not used:
                break
            taken += used
            self.boots.remove(spare)
            self.boots.append((until_ns, job, used, fails))
            if count > used:
                self.boots.append((until_ns, SPARE, count - used, fails))
        return taken

    def _check(self) -> None:
        # A job may be given more nodes than sleep now: those that fall asleep.
        while self.asleep < 0:
            if not self.falling:
                raise SimulationError(f"{-self.asleep} nodes are assigned that do not exist")
            until, count = self.falling.pop()
            used = min(count, -self.asleep)
            self.asleep += used
            if count > used:
                self.falling.append((until, count - used))

    def _give_back(self, job: int, count: int, now_ns: int) -> None:
        waits = self.waiting.get(job)
        if waits is None:
            self._rest(count, now_ns)
            return
        unused = min(waits.missing, count)
        waits.missing -= unused
        self.asleep += unused
        up = min(waits.up, count - unused)
        waits.up -= up
        self._rest(up, now_ns)
        self._disown(job, waits, count - unused - up)

    def _disown(self, job: int, waits: WaitingForBoots, count: int) -> None:
        """Continue boots of a job for nobody."""
        waits.booting -= count
        for place, (until, owner, booting, fails) in enumerate(self.boots):
            if not count:
                return
            if owner == job:
                given = min(booting, count)
                count -= given
                self.boots[place] = (until, SPARE, given, fails)
                if booting > given:
                    self.boots.append((until, job, booting - given, fails))

    def _forget(self, job: int) -> None:
        self.waiting.pop(job, None)

    def _look(self, job: int, waits: WaitingForBoots, now_ns: int, running: RunningJobs) -> None:
        """Set when the job can begin, or let it begin."""
        if not waits.missing and not waits.booting:
            del self.waiting[job]
            running.begin_at(job, now_ns, now_ns)
            self.moved[job] = None
            return
        booting = [until for until, owner, _, _ in self.boots if owner == job]
        due_ns = max(booting, default=now_ns)
        if waits.missing:
            waves = -(-waits.missing // self.rules.boots_max)
            due_ns = max(due_ns, now_ns) + waves * self.rules.boot_ns
        if due_ns != waits.due_ns:
            waits.due_ns = due_ns
            running.begin_at(job, due_ns, now_ns)
            self.moved[job] = None

    def decide(self, budget_uw: int, now_ns: int, running: RunningJobs) -> None:
        """Begin boots and suspensions within ``budget_uw``, which is without all ``base_uw``."""
        rules = self.rules
        free_uw = budget_uw - running.committed_uw - self.reserved_uw(running)
        spare = 0 if rules.timer_ns else self.arrivals.nodes(rules.spare_quantile)
        over_uw = -free_uw if rules.idle_uw > self.base_uw else 0
        numbers = sleepers(rules, self.idle, spare, over_uw, now_ns)
        self._suspend(numbers, now_ns)
        # Caps of running jobs are lowered for boots that jobs wait for, but not for spare nodes.
        lowered_uw = self._lowerable_uw(running)
        for job, waits in list(self.waiting.items()):
            free_uw = self._wake_for(job, waits, free_uw, lowered_uw, now_ns, running)
        lacking = spare - self.idle_count - self._spare_boots()
        if lacking > 0 and not self.queued and not self.waiting:
            wanted = min(lacking, self.asleep)
            count = wakes(rules, wanted, self._booting, free_uw, self.base_uw)
            self.asleep -= count
            self._boot(SPARE, count, now_ns)

    def _suspend(self, numbers: list[int], now_ns: int) -> None:
        if not any(numbers):
            return
        left = [
            one._replace(nodes=one.nodes - number)
            for one, number in zip(self.idle, numbers, strict=True)
        ]
        self.idle = [one for one in left if one.nodes]
        self.falling.append((now_ns + self.rules.suspend_ns, sum(numbers)))

    def _wake_for(
        self,
        job: int,
        waits: WaitingForBoots,
        free_uw: int,
        lowered_uw: int,
        now_ns: int,
        running: RunningJobs,
    ) -> int:
        """Begin boots for a job; return the power that stays free."""
        if waits.missing:
            planned_uw, own_uw = _planned_uw(running, job), self._own_uw(waits)
            # Jobs that wait for boots do not use their power yet.
            room_uw = max(free_uw + lowered_uw + self._unused_uw(running), 0)
            before_uw = max(own_uw - planned_uw, 0)
            count = wakes(self.rules, waits.missing, self._booting, room_uw, self.rules.asleep_uw)
            waits.missing -= count
            waits.booting += count
            self._boot(job, count, now_ns)
            free_uw -= max(self._own_uw(waits) - planned_uw, 0) - before_uw
        if waits.missing and not waits.booting and not waits.asked:
            waits.asked, self.again_ns = True, now_ns + 1
        if waits.missing or waits.booting:
            self._look(job, waits, now_ns, running)
        return free_uw

    def _lowerable_uw(self, running: RunningJobs) -> int:
        """Return by how much the caps of the jobs that run may be lowered in all."""
        return sum(
            running.size[job] * max(running.cap_uw[job] - self.cap_uw_min, 0)
            for job in running.jobs
            if job not in self.waiting
        )

    def _boot(self, owner: int, count: int, now_ns: int) -> None:
        self.counts.boots += count
        failed = sum(self.rng.random() < self.failing for _ in range(count)) if self.failing else 0
        for number, fails in ((count - failed, False), (failed, True)):
            if number:
                until_ns = now_ns + self.rules.boot_ns * (2 if fails else 1)
                self.boots.append((until_ns, owner, number, fails))


def _planned_uw(running: RunningJobs, job: int) -> int:
    return running.size[job] * (running.beside_uw[job] + running.cap_uw[job])
