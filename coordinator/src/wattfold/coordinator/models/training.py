"""Training jobs: a number of epochs with equal times for each GPU model and number of GPUs.

This is t_jng of ANDREAS (Filippini et al., FiCloud 2021), or t_jngp with a GPU limit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from wattfold.coordinator.models.gpu_curve import GpuCurve


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochTime:
    """Seconds per epoch on ``gpus`` GPUs of a model, in one node, at their maximum limit.

    ``curve`` is the effect of a lower limit; None = unknown.
    """

    gpu_model: str
    gpus: int
    seconds: float
    curve: GpuCurve | None = None

    def under_any(self, most_w: float) -> EpochTime:
        """Return the time with a curve; an unknown curve is replaced by the default assumption."""
        if self.curve is not None or not most_w:
            return self
        return replace(self, curve=GpuCurve.assumed(most_w))

    def under_s(self, limit_w: float) -> float:
        """Return the seconds per epoch with each GPU at a limit in W; 0 = the maximum limit.

        Raises ValueError for a limit if the effect of lower limits is unknown.
        """
        if not limit_w:
            return self.seconds
        if self.curve is None:
            raise ValueError(f"the speed of {self.gpu_model} at lower limits is unknown")
        return self.seconds * self.curve.slowdown(limit_w)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A training job: its total number of epochs, and its known epoch times.

    Its progress is stored elsewhere, as for any job.
    """

    epochs: int
    times: tuple[EpochTime, ...]

    def on(self, gpu_model: str, gpus: int) -> EpochTime | None:
        """Return the epoch time on ``gpus`` GPUs of a model; None = unknown."""
        for time in self.times:
            if (time.gpu_model, time.gpus) == (gpu_model, gpus):
                return time
        return None

    @property
    def curves(self) -> tuple[tuple[str, GpuCurve], ...]:
        """Known effect of lower limits by GPU model, as measured on the fewest GPUs."""
        found: dict[str, GpuCurve] = {}
        for time in sorted(self.times, key=lambda time: time.gpus):
            if time.curve is not None:
                found.setdefault(time.gpu_model, time.curve)
        return tuple(found.items())

    def whole_s(self, gpu_model: str, gpus: int, limit_w: float = 0.0) -> float | None:
        """Return the seconds of all epochs; None = unknown. Raises like `EpochTime.under_s`."""
        time = self.on(gpu_model, gpus)
        return None if time is None else self.epochs * time.under_s(limit_w)
