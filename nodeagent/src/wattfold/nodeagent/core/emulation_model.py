"""Physical model of an emulated node: frequency from caps, speed from frequency, power from use.

Package power follows PARM (Sarood et al., SC14, Eq. 18): p = a f^3 + b f + c with f in GHz and p in
W. Here the cores share the dynamic part, so a node of C cores, ``busy`` of them working, draws c +
busy/C (a f^3 + b f). A cap is enforced by the highest frequency at which all cores held by jobs
could work at once. Below f_low the frequency stays and the duty (share of time with a clock) drops,
as in thermal throttling. DRAM power grows with the busy cores; its cap lowers the duty as well. CPU
time beyond the operating point (a quota is kept over periods, not instants) is charged later, so
that power never exceeds the cap and no energy is lost.

Does not model: turbo, temperature, memory-bound programs (speed follows frequency fully).
"""

from __future__ import annotations

from dataclasses import dataclass

_BISECTIONS = 60
BACKLOG_S_MAX = 1.0
"""Maximum backlog, CPU seconds per core. A working quota cannot cause more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """Frequency in GHz, duty and speed (share of the speed at f_high), both 0..1."""

    f_ghz: float
    duty: float
    speed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulationModel:
    """Constants of an emulated node. Powers in W, frequencies in GHz.

    ``cpu_share``: CPU seconds per second that equal one core of this node at f_high.
    """

    a: float
    b: float
    c: float
    f_low_ghz: float
    f_high_ghz: float
    dram_idle_w: float
    dram_dynamic_w: float
    cpu_share: float
    cores: int

    def operating_point(self, package_cap_w: float, dram_cap_w: float, held: int) -> OperatingPoint:
        """Return the fastest point that keeps both caps with all ``held`` cores working."""
        if held <= 0:
            return OperatingPoint(f_ghz=self.f_high_ghz, duty=1.0, speed=1.0)
        f_ghz, duty = self._package_point((package_cap_w - self.c) * self.cores / held)
        duty = min(duty, self._dram_duty(dram_cap_w, held))
        return OperatingPoint(f_ghz=f_ghz, duty=duty, speed=f_ghz / self.f_high_ghz * duty)

    def quota(self, cores: int, point: OperatingPoint) -> float:
        """Return the CPU seconds per second that a job with these cores may use."""
        return cores * self.cpu_share * point.speed

    def package_power_w(self, busy: float, f_ghz: float) -> float:
        """Return the package power with ``busy`` of the node's cores working, W."""
        return self.c + busy / self.cores * self._dynamic_w(f_ghz)

    def dram_power_w(self, busy: float) -> float:
        """Return the DRAM power with ``busy`` of the node's cores working, W."""
        return self.dram_idle_w + self.dram_dynamic_w * busy / self.cores

    def _dynamic_w(self, f_ghz: float) -> float:
        return self.a * f_ghz**3 + self.b * f_ghz

    def _package_point(self, dynamic_w: float) -> tuple[float, float]:
        if dynamic_w >= self._dynamic_w(self.f_high_ghz):
            return self.f_high_ghz, 1.0
        low_w = self._dynamic_w(self.f_low_ghz)
        if dynamic_w < low_w:
            return self.f_low_ghz, max(0.0, dynamic_w / low_w)
        # Bisection from below: the resulting frequency never exceeds the permitted power.
        low, high = self.f_low_ghz, self.f_high_ghz
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            if self._dynamic_w(middle) <= dynamic_w:
                low = middle
            else:
                high = middle
        return low, 1.0

    def _dram_duty(self, dram_cap_w: float, held: int) -> float:
        if self.dram_dynamic_w <= 0:
            return 1.0
        share = (dram_cap_w - self.dram_idle_w) / self.dram_dynamic_w
        return min(1.0, max(0.0, share * self.cores / held))


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Power over a short time, and the CPU seconds to be charged later."""

    busy: float
    package_w: float
    dram_w: float
    backlog_s: float


def draw(
    model: EmulationModel, point: OperatingPoint, held: int, demand_s: float, elapsed_s: float
) -> Draw:
    """Return the power over ``elapsed_s``.

    ``demand_s`` is the number of CPU seconds used in this time, including the backlog.
    """
    per_core_s = elapsed_s * model.cpu_share * point.f_ghz / model.f_high_ghz
    charged_s = min(demand_s, held * point.duty * per_core_s)
    busy = charged_s / per_core_s if per_core_s > 0 else 0.0
    return Draw(
        busy=busy,
        package_w=model.package_power_w(busy, point.f_ghz),
        dram_w=model.dram_power_w(busy),
        backlog_s=min(demand_s - charged_s, BACKLOG_S_MAX * max(held, 1)),
    )
