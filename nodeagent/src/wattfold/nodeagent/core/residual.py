"""Work of a job on cores that it does not hold: per core, in total and recently.

Residual work on vacated cores (idle processes of a runtime, threads that set their own affinity)
takes time from the next owner. It is measured and reported, but never slowed: such processes still
take part in reductions of their job, and starving them stalls the job.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.units import NS_PER_S

STEPS_MAX = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRule:
    """Alarm above ``share`` of one core (all cores of the job together), mean over the window."""

    share: float = 0.05
    window_ns: int = 5 * NS_PER_S


@dataclass(slots=True, kw_only=True)
class ResidualMeter:
    """Residual work of one job."""

    rule: AlarmRule = AlarmRule()
    total_ns: int = 0
    by_cpu: Counter[int] = field(default_factory=Counter)
    alarm: bool = False
    _steps: deque[tuple[int, dict[int, int]]] = field(default_factory=deque)
    _recent: Counter[int] = field(default_factory=Counter)

    def add(self, now_ns: int, used: Mapping[int, int], held: CpuSet) -> bool:
        """Add CPU time by core since the last call. Returns whether the alarm changed."""
        outside = {cpu: ns for cpu, ns in used.items() if ns > 0 and cpu not in held}
        if outside:
            self._steps.append((now_ns, outside))
            self.by_cpu.update(outside)
            self._recent.update(outside)
            self.total_ns += sum(outside.values())
        self._forget(now_ns - self.rule.window_ns)
        return self._judge()

    def load(self, cpu: int) -> float:
        """Return the CPU seconds per second on a core, mean over the window."""
        return self._recent[cpu] / self.rule.window_ns

    def loads(self) -> dict[int, float]:
        """Return the cores with recent residual work, and their loads."""
        return {cpu: self.load(cpu) for cpu in sorted(self._recent)}

    def _forget(self, before_ns: int) -> None:
        while self._steps and (self._steps[0][0] <= before_ns or len(self._steps) > STEPS_MAX):
            for cpu, ns in self._steps.popleft()[1].items():
                self._recent[cpu] -= ns
                if self._recent[cpu] <= 0:
                    del self._recent[cpu]

    def _judge(self) -> bool:
        before = self.alarm
        recent_ns, limit_ns = self._recent.total(), self.rule.share * self.rule.window_ns
        # The alarm ends at half the threshold, so that it does not flutter.
        self.alarm = recent_ns > (limit_ns / 2 if before else limit_ns)
        return self.alarm != before


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Interval of an operation that costs CPU time: at most a share of one core."""

    share: float
    interval_ns_min: int
    interval_ns_max: int

    def interval_ns(self, cost_ns: int) -> int:
        """Return the time until the next operation, after an operation with this cost."""
        wanted_ns = int(cost_ns / self.share)
        return max(self.interval_ns_min, min(wanted_ns, self.interval_ns_max))
