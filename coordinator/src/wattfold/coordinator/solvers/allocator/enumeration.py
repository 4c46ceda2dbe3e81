"""Best plan of a core by enumeration of all partial plans that can still become better.

Partial plans are columns of numpy arrays with their resource use, loss against the bound, and
value. A *stage* decides one thing for all partial plans. A single job is one stage: it takes one of
its options. The jobs of a class all start with the option of smallest loss. Each other option is a
stage that decides how many of them take it instead. The remaining budget and limits restrict this
count, so that the last stages have to try only one or two numbers.

Partial plans with equal use and equal numbers of undecided jobs differ only in value: the best is
kept. All amounts are integers; the answer is a proof.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.allocator.across import SLACK, Across
from wattfold.coordinator.solvers.allocator.classes import Tally
from wattfold.coordinator.solvers.allocator.partial_plans import States, reachable, unbeaten
from wattfold.coordinator.solvers.allocator.resources import Table
from wattfold.coordinator.solvers.allocator.stages import (
    Core,
    Family,
    Stage,
    families_of,
    stage_of,
    width_of,
)

Floats = NDArray[np.float64]
Ints64 = NDArray[np.int64]
Bools = NDArray[np.bool_]

STATES_MAX = 60_000
"""Maximum number of partial plans. Beyond it the search drops some and proves nothing."""
FEW_STATES = 4_000
"""The same for a quick first search."""
EXPANSIONS_PER_STATE = 20
MERGE_ABOVE = 256
RESOURCES_MAX = 24
PIVOTS_MAX = 2
"""Number of classes with last stages after all others: the usual number of scarce resources."""
ROUNDING = 1e-6
"""Added to counts before rounding down: far more than the error of a division."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SearchResult:
    """The best plan found within the budget, or None."""

    plan: Tally | None
    complete: bool
    """Whether nothing was cut short, so that there is no better plan within the budget."""
    states: int = 0
    """Number of examined partial plans."""


class Enumeration:
    """Enumeration of a core within a budget of loss."""

    def __init__(
        self,
        table: Table,
        core: Core,
        prices: Floats,
        budget: float,
        states_max: int = STATES_MAX,
        heeded: Bools | None = None,
    ) -> None:
        """Prepare the stages. ``heeded``: the resources whose limits count; None: all."""
        self._heeded = np.ones(table.resources, dtype=np.bool_) if heeded is None else heeded
        self._states_max, self._complete = states_max, True
        self._table, self._core = table, core
        self._limit, self._prices = table.limit, prices
        self._budget = budget * (1.0 + SLACK) if np.isfinite(budget) else budget
        self._fixed = core.fixed.copy()
        self._families: dict[int, Family] = {}
        self._lost, self._value = 0.0, 0.0
        self._across: Across | None = None
        self._stages = self._arranged()
        self._least, self._most = self._reach()

    def run(self, deadline_ns: int) -> SearchResult:
        """Run all stages."""
        states = self._begin()
        if states is None:
            return SearchResult(plan=None, complete=True)
        if self._limit.size > RESOURCES_MAX:
            return SearchResult(plan=None, complete=False)
        trail: list[tuple[Ints64, Ints64]] = []
        seen = 0
        for depth, stage in enumerate(self._stages):
            if time.perf_counter_ns() > deadline_ns:
                return SearchResult(plan=None, complete=False, states=seen)
            states, parent, pick = self._decide(states, stage, depth)
            seen += states.lost.size
            trail.append((parent, pick))
        held = np.all(states.used <= self._limit[:, None], axis=0)
        if not held.any():
            return SearchResult(plan=None, complete=self._complete, states=seen)
        best = int(np.argmax(np.where(held, states.value, -np.inf)))
        plan = self._traced(trail, best)
        return SearchResult(plan=plan, complete=self._complete, states=seen)

    def _arranged(self) -> list[Stage]:
        """Return the stages in order of decision, and set the loss and value of the bases."""
        table, core = self._table, self._core
        singles: list[Stage] = []
        classes: list[list[Stage]] = []
        together: dict[bytes, list[int]] = {}
        for at, job in enumerate(core.open_jobs.tolist()):
            choices, losses = core.choices[at], core.losses[at]
            amount = table.amounts(job, choices)
            value = np.where(choices >= 0, table.value[choices], 0.0)
            if table.count[job] == 1:
                self._fixed[job] = -1
                singles.append(stage_of(job, choices, amount, losses, value, 0, 1))
                continue
            runs = choices >= 0
            content = (amount[:, runs], losses[runs], value[runs])
            together.setdefault(b"".join(part.tobytes() for part in content), []).append(at)
        for members in together.values():
            for family, losses in families_of(table, core, members):
                self._families[family.jobs[0]] = family
                self._fixed[list(family.jobs)] = [own[family.base] for own in family.choices]
                classes.append(self._leaving(family, losses))
        # Stages with very different amounts come first: they determine the use of the others.
        scale = 1.0 / np.maximum(table.limit, 1.0)
        singles.sort(key=lambda stage: -float((np.ptp(stage.amount, axis=1) * scale).sum()))
        classes.sort(key=lambda own: width_of(own, scale))
        early, late = classes[:-PIVOTS_MAX], classes[-PIVOTS_MAX:]
        tails = [stage for own in late for stage in own[-PIVOTS_MAX:]]
        tails.sort(key=lambda stage: -float(stage.loss[0]))
        return [
            *singles,
            *(stage for own in reversed(early) for stage in own),
            *(stage for own in late for stage in own[:-PIVOTS_MAX]),
            *tails,
        ]

    def _leaving(self, family: Family, losses: Floats) -> list[Stage]:
        """Return a stage for each choice except the base, in descending order of loss."""
        choices = family.choices[-1]
        amount = self._table.amounts(family.jobs[-1], choices)
        value = np.where(choices >= 0, self._table.value[choices], 0.0)
        base, count = family.base, family.count
        self._lost += count * float(losses[base])
        stages = []
        for at in np.argsort(-losses, kind="stable").tolist():
            loss = float(losses[at] - losses[base])
            able = count
            if choices[at] < 0:
                able = sum(
                    n for n, own in zip(family.counts, family.choices, strict=True) if own[-1] < 0
                )
            stages.append(
                stage_of(
                    family.jobs[0],
                    np.full(1, at),
                    amount[:, at : at + 1] - amount[:, base : base + 1],
                    np.full(1, loss),
                    value[at : at + 1] - value[base],
                    self._at_most(loss, able),
                    count,
                )
            )
        return [stage for stage in stages if stage.choices[0] != base]

    def _at_most(self, loss: float, count: int) -> int:
        if loss * count <= self._budget:
            return count
        return int(self._budget / loss + ROUNDING)

    def _reach(self) -> tuple[Floats, Floats]:
        """Return the minimum and maximum use that the stages from each depth on can add."""
        size = (self._table.resources, len(self._stages) + 1)
        least, most = np.zeros(size), np.zeros(size)
        # For a class: its stages together, or all of its jobs at the choice that takes most.
        ends: dict[int, tuple[Floats, Floats, Floats, Floats]] = {}
        for depth in range(len(self._stages) - 1, -1, -1):
            stage = self._stages[depth]
            least[:, depth], most[:, depth] = least[:, depth + 1], most[:, depth + 1]
            if not stage.at_most:
                least[:, depth] += stage.amount.min(axis=1, initial=np.inf)
                most[:, depth] += stage.amount.max(axis=1, initial=-np.inf)
                continue
            amount = stage.amount[:, 0]
            zero = np.zeros(amount.size)
            low, high, low_sum, high_sum = ends.get(stage.job, (zero, zero, zero, zero))
            least[:, depth] -= np.maximum(low * stage.count, low_sum)
            most[:, depth] -= np.minimum(high * stage.count, high_sum)
            low, high = np.minimum(low, amount), np.maximum(high, amount)
            low_sum = low_sum + stage.at_most * np.minimum(amount, 0.0)
            high_sum = high_sum + stage.at_most * np.maximum(amount, 0.0)
            ends[stage.job] = (low, high, low_sum, high_sum)
            least[:, depth] += np.maximum(low * stage.count, low_sum)
            most[:, depth] += np.minimum(high * stage.count, high_sum)
        return least, most

    def _begin(self) -> States | None:
        """Return the plan of the bases; None if no plan of the core is within limits and budget."""
        used = self._table.used(self._fixed)
        over = self._heeded & (used + self._least[:, 0] > self._limit)
        if np.any(over) or self._lost > self._budget:
            return None
        live = np.flatnonzero(self._heeded & (used + self._most[:, 0] > self._limit))
        self._stages = [
            stage_of(
                one.job, one.choices, one.amount[live], one.loss, one.value, one.at_most, one.count
            )
            for one in self._stages
        ]
        limit, self._prices = self._limit[live], self._prices[live]
        self._least, self._most = self._least[live], self._most[live]
        # Use grows in fixed steps, so the unused remainder of the last step is certainly lost.
        self._limit = reachable(used[live], limit, [stage.amount for stage in self._stages])
        self._lost += float(self._prices @ (limit - self._limit)) * (1.0 - SLACK)
        if self._lost > self._budget:
            return None
        self._across = Across.of(self._stages, self._limit, self._prices)
        return States(
            used=used[live, None], lost=np.full(1, self._lost), value=np.full(1, self._value)
        )

    def _decide(self, states: States, stage: Stage, depth: int) -> tuple[States, Ints64, Ints64]:
        """Return the partial plans after a stage, the parent of each, and its choice or count."""
        parent, pick = self._spread(states, stage, depth)
        at, times = (pick, 1) if not stage.at_most else (np.zeros(pick.size, dtype=int), pick)
        left = {job: own[parent] for job, own in states.left.items()}
        if stage.at_most:
            left[stage.job] = left.get(stage.job, np.full(pick.size, float(stage.count))) - pick
            if all(later.job != stage.job for later in self._stages[depth + 1 :]):
                del left[stage.job]
        fresh = States(
            used=states.used[:, parent] + stage.amount[:, at] * times,
            lost=states.lost[parent] + stage.loss[at] * times,
            value=states.value[parent] + stage.value[at] * times,
            left=left,
        )
        keep = np.flatnonzero(self._promising(fresh, depth + 1))
        if not self._complete:
            # The proof is lost anyway, so comparing all of these partial plans is not worthwhile.
            keep = keep[self._thinned(fresh.lost[keep])]
        if keep.size > MERGE_ABOVE:
            keep = keep[unbeaten(fresh.picked(keep), self._prices)]
        if keep.size > self._states_max:
            self._give_up_proof()
            keep = keep[self._thinned(fresh.lost[keep])]
        return fresh.picked(keep), parent[keep], pick[keep]

    def _give_up_proof(self) -> None:
        """Abandon the proof: only a plan can result, and fewer partial plans suffice."""
        self._complete = False
        self._states_max = min(self._states_max, FEW_STATES)

    def _thinned(self, lost: Floats) -> Ints64:
        """Return the partial plans to continue with if there are too many.

        They are spread evenly over the loss, because plans of smallest loss are very similar.
        """
        if lost.size <= self._states_max:
            return np.arange(lost.size)
        order = np.argsort(lost, kind="stable")
        return np.sort(order[np.linspace(0, order.size - 1, self._states_max).astype(np.int64)])

    def _spread(self, states: States, stage: Stage, depth: int) -> tuple[Ints64, Ints64]:
        """Return pairs of partial plan and choice or count; if too many, those of small loss."""
        if stage.at_most:
            low, high = self._span(states, stage, depth)
            numbers = np.maximum(high - low + 1.0, 0.0).astype(np.int64)
            first_count = np.where(numbers > 0, low, 0.0).astype(np.int64)
        else:
            first_count = np.zeros(states.lost.size, dtype=np.int64)
            numbers = np.full(first_count.size, stage.choices.size)
        if int(numbers.sum()) > EXPANSIONS_PER_STATE * self._states_max:
            self._give_up_proof()
            order = np.argsort(states.lost, kind="stable")
            beyond = np.cumsum(numbers[order]) > EXPANSIONS_PER_STATE * self._states_max
            numbers[order[beyond]] = 0
        parent = np.repeat(np.arange(numbers.size), numbers)
        first = np.cumsum(numbers) - numbers
        return parent, np.arange(parent.size) - first[parent] + first_count[parent]

    def _span(self, states: States, stage: Stage, depth: int) -> tuple[Floats, Floats]:
        """Return the smallest and largest count per partial plan within limits and budget."""
        loss, room = float(stage.loss[0]), self._budget - states.lost
        low = np.zeros(room.size)
        high = states.left.get(stage.job, np.full(room.size, float(stage.count)))
        high = np.minimum(high, float(stage.at_most))
        bounds = [(loss, room)] if np.isfinite(self._budget) else []
        for index, amount in enumerate(stage.amount[:, 0].tolist()):
            price = float(self._prices[index]) * (1.0 - SLACK)
            unused = self._limit[index] - states.used[index]
            bounds.append((amount, unused - self._least[index, depth + 1]))
            if np.isfinite(self._budget):
                most = self._most[index, depth + 1]
                bounds.append((loss - price * amount, room - price * (unused - most)))
        if self._across is not None:
            bounds += self._across.bounds(states.used, room, stage.amount[:, 0], loss, depth + 1)
        for rate, rest in bounds:
            if rate > 0:
                high = np.minimum(high, np.floor(rest / rate + ROUNDING))
            elif rate < 0:
                low = np.maximum(low, np.ceil(rest / rate - ROUNDING))
        return low, high

    def _promising(self, states: States, depth: int) -> Bools:
        """Return which partial plans can still be completed within the limits and the budget."""
        limit = self._limit[:, None]
        least, most = self._least[:, depth, None], self._most[:, depth, None]
        keep = np.all(states.used + least <= limit, axis=0)
        unused = np.maximum(limit - states.used - most, 0.0)
        keep &= states.lost + (self._prices @ unused) * (1.0 - SLACK) <= self._budget
        return np.asarray(keep, dtype=np.bool_)

    def _traced(self, trail: list[tuple[Ints64, Ints64]], state: int) -> Tally:
        """Return the plan of a final state."""
        fixed = self._fixed.copy()
        taken = {
            job: np.bincount([own.base], weights=[own.count], minlength=own.choices[-1].size)
            for job, own in self._families.items()
        }
        for stage, (parent, pick) in zip(reversed(self._stages), reversed(trail), strict=True):
            picked = int(pick[state])
            if stage.at_most:
                taken[stage.job][stage.choices[0]] += picked
                taken[stage.job][self._families[stage.job].base] -= picked
            else:
                fixed[stage.job] = stage.choices[picked]
            state = int(parent[state])
        shared = [
            entry
            for job, family in self._families.items()
            for entry in family.shared_out(taken[job].astype(np.int64).tolist())
        ]
        others = np.setdiff1d(
            np.arange(fixed.size), [job for own in self._families.values() for job in own.jobs]
        )
        rows, options, numbers = np.asarray(shared, dtype=np.int64).reshape(-1, 3).T
        return Tally(
            row=np.append(others, rows),
            option=np.append(fixed[others], options),
            number=np.append(self._table.count[others].astype(np.int64), numbers),
        )
