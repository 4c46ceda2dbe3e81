"""Physical model of emulated GPUs: speed and power under a limit, by the curve of a model.

The processes of a job do its GPU work on CPUs instead, held to the speed that the limit of its
slowest GPU allows. A GPU counts as working while the processes use this speed. It then draws the
power of the curve, and otherwise its idle power. Not modelled: memory of GPUs, temperature, and the
power below which some parts exceed their limits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wattfold.contract.gpu_curve import GpuCurve


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuModel:
    """A GPU model: range of its limits, idle power, and the curve of its work. Powers in W."""

    name: str
    least_w: float
    most_w: float
    idle_w: float
    curve: GpuCurve

    def power_w(self, limit_w: float, busy: float) -> float:
        """Return the mean power for a ``busy`` share of the time, never above the limit."""
        # The last digit of a float may exceed the limit.
        at_work_w = min(limit_w, self.curve.draw_w(limit_w))
        return min(limit_w, self.idle_w + busy * (at_work_w - self.idle_w))

    def speed(self, limits_w: Iterable[float]) -> float:
        """Return the relative speed of a job with these GPU limits; 1 = full clock or no GPUs."""
        return min((1 / self.curve.slowdown(limit_w) for limit_w in limits_w), default=1.0)

    @property
    def holds(self) -> bool:
        """Whether every limit in the range is at least the power at the minimum clock."""
        return self.idle_w <= self.curve.draw_w(self.least_w) <= self.least_w


def _traced(
    name: str, range_w: tuple[float, float], idle_w: float, fit: tuple[float, float, float, float]
) -> GpuModel:
    static_w, full_w, knee, beta = fit
    curve = GpuCurve(static_w=static_w, full_w=full_w, knee=knee, beta=beta)
    return GpuModel(name=name, least_w=range_w[0], most_w=range_w[1], idle_w=idle_w, curve=curve)


def _assumed(name: str, range_w: tuple[float, float], idle_w: float) -> GpuModel:
    """Return a model without a trace, from shares of its maximum limit that fit other models."""
    least_w, most_w = range_w
    curve = GpuCurve.assumed(most_w)
    return GpuModel(name=name, least_w=least_w, most_w=most_w, idle_w=idle_w, curve=curve)


# Ranges as reported by drivers. Curves of ResNet-50, fitted to the public power traces of Zeus (You
# et al., NSDI 2023), or else assumed.
MODELS = {
    model.name: model
    for model in (
        _traced("V100", (100, 250), 36, (39, 237, 0.84, 0.26)),
        _traced("RTX6000", (100, 260), 55, (73, 241, 0.72, 0.33)),
        _traced("A40", (100, 300), 30, (63, 242, 0.89, 0.11)),
        _assumed("T4", (60, 70), 10),
        _assumed("A100", (100, 400), 52),
        _assumed("H100", (200, 700), 70),
    )
}
MODEL_DEFAULT = "V100"
