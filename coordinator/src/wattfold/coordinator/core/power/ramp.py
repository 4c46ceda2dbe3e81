"""Ramp limits: how fast committed power may rise and fall.

A `Pace` limits the rise of an amount: between any two times it may rise by ``step_uw`` plus the
rate times the time between them. For this it keeps ``low_uw``, the minimum of all earlier amounts,
each plus the rate times its age. The fall of an amount is the rise of its negative, so one rule
serves both.

A rise without an order of Wattfold, such as a node that appears with its caps up, is counted and
cannot be limited. The next rises wait until the limit holds again over every pair of times.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.core.model.ramp_limits import RampLimits


@dataclass(slots=True, kw_only=True)
class Pace:
    """Limit of the rise of an amount, in microwatts; a rate of 0 limits nothing.

    ``last_uw`` is the amount after the last change. ``low_uw`` is computed up to ``at_ns``.
    """

    rate_uw_per_s: int = 0
    step_uw: int = 0
    low_uw: int = 0
    last_uw: int = 0
    at_ns: int = 0

    def pass_time(self, now_ns: int) -> None:
        """Let the time pass since the last change. Called before the amount changes."""
        if not self.rate_uw_per_s:
            return
        gained_uw = (now_ns - self.at_ns) * self.rate_uw_per_s // NS_PER_S
        if self.low_uw + gained_uw >= self.last_uw:
            self.low_uw, self.at_ns = self.last_uw, now_ns
        else:
            # The time that gained no whole microwatt counts later.
            self.low_uw += gained_uw
            self.at_ns += -(-gained_uw * NS_PER_S // self.rate_uw_per_s)

    def note(self, amount_uw: int) -> None:
        """Record the amount after the changes of this time."""
        self.last_uw, self.low_uw = amount_uw, min(self.low_uw, amount_uw)

    def room_uw(self, amount_uw: int) -> int:
        """Return by how much the amount may rise now; negative after a rise without an order."""
        return self.low_uw + self.step_uw - amount_uw

    def reached_ns(self, amount_uw: int) -> int:
        """Return when the amount is permitted if it does not fall before."""
        short_uw = max(amount_uw - self.step_uw - self.low_uw, 0)
        return self.at_ns + -(-short_uw * NS_PER_S // max(self.rate_uw_per_s, 1))

    def part_uw(self, amount_uw: int, needed_uw: int) -> int:
        """Return how much of a needed rise is permitted now, in microwatts.

        It is all of it, or at least a step, or nothing: many small rises would cost many commands.
        """
        if not self.rate_uw_per_s:
            return needed_uw
        room_uw = self.room_uw(amount_uw)
        return min(room_uw, needed_uw) if room_uw >= min(self.step_uw, needed_uw) else 0

    def next_ns(self, amount_uw: int, needed_uw: int) -> int:
        """Return when `part_uw` is above zero for this rise."""
        return self.reached_ns(amount_uw + min(self.step_uw, needed_uw))


@dataclass(slots=True, kw_only=True)
class Ramp:
    """The limits of committed power, and what they have counted. The ledger drives it."""

    limits: RampLimits = RampLimits()  # noqa: RUF009 - immutable
    rise: Pace = field(default_factory=Pace)
    fall: Pace = field(default_factory=Pace)
    """Pace of the negative of committed power."""

    def limit(self, limits: RampLimits, power_uw: int, now_ns: int) -> None:
        """Keep these limits from now on. A limit that was kept before keeps what it counted."""
        self.limits = limits
        for pace, rate, amount_uw in (
            (self.rise, limits.rise_uw_per_s, power_uw),
            (self.fall, limits.fall_uw_per_s, -power_uw),
        ):
            if not pace.rate_uw_per_s:
                pace.low_uw, pace.last_uw, pace.at_ns = amount_uw, amount_uw, now_ns
            pace.rate_uw_per_s, pace.step_uw = rate, limits.step_of(rate) if rate else 0

    @property
    def active(self) -> bool:
        """Whether there is a limit."""
        return bool(self.rise.rate_uw_per_s or self.fall.rate_uw_per_s)

    def pass_time(self, now_ns: int) -> None:
        """Let the time pass since the last change."""
        if self.active:
            self.rise.pass_time(now_ns)
            self.fall.pass_time(now_ns)

    def note(self, power_uw: int) -> None:
        """Record the power after the changes of this time."""
        self.rise.note(power_uw)
        self.fall.note(-power_uw)


@dataclass(slots=True, kw_only=True)
class Division:
    """Division of a permitted change among needs in equal proportion, in microwatts.

    So the nodes of a job rise together. What one need does not take goes to the next needs.
    """

    needed_uw: int
    granted_uw: int

    def share_uw(self, need_uw: int) -> int:
        """Return the share of the next need, rounded down."""
        return min(need_uw * self.granted_uw // max(self.needed_uw, 1), need_uw)

    def take(self, need_uw: int, taken_uw: int) -> None:
        """Record what the next need took of its share."""
        self.needed_uw -= need_uw
        self.granted_uw -= taken_uw
