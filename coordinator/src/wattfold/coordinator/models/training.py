"""Training jobs: so many epochs, each of about the same time on so many GPUs of a model.

That is t_jng of ANDREAS (Filippini et al., FiCloud 2021), and with a limit of the GPUs t_jngp.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from wattfold.coordinator.models.gpu_curve import GpuCurve


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochTime:
    """Seconds of one epoch on so many GPUs of a model, in one node, at their greatest limit.

    ``curve``: what a lower limit makes of it; None = it is not known.
    """

    gpu_model: str
    gpus: int
    seconds: float
    curve: GpuCurve | None = None

    def under_any(self, most_w: float) -> EpochTime:
        """The same, with what is assumed of lower limits where nothing is known of them."""
        if self.curve is not None or not most_w:
            return self
        return replace(self, curve=GpuCurve.assumed(most_w))

    def under_s(self, limit_w: float) -> float:
        """Seconds of one epoch with each GPU held to a limit in W; 0 = the greatest one.

        Raises ValueError for a limit where nothing is known of lower ones.
        """
        if not limit_w:
            return self.seconds
        if self.curve is None:
            raise ValueError(f"the speed of {self.gpu_model} at lower limits is unknown")
        return self.seconds * self.curve.slowdown(limit_w)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What is known of a training job: all its epochs, and what one takes where.

    How much of it is done is said beside it, as of any job.
    """

    epochs: int
    times: tuple[EpochTime, ...]

    def on(self, gpu_model: str, gpus: int) -> EpochTime | None:
        """Its epochs on so many GPUs of a model; None = not known."""
        for time in self.times:
            if (time.gpu_model, time.gpus) == (gpu_model, gpus):
                return time
        return None

    @property
    def curves(self) -> tuple[tuple[str, GpuCurve], ...]:
        """What lower limits make of it by model of GPU, where that is known: as on the fewest."""
        found: dict[str, GpuCurve] = {}
        for time in sorted(self.times, key=lambda time: time.gpus):
            if time.curve is not None:
                found.setdefault(time.gpu_model, time.curve)
        return tuple(found.items())

    def whole_s(self, gpu_model: str, gpus: int, limit_w: float = 0.0) -> float | None:
        """Seconds of all epochs; None = not known. Raises as `EpochTime.under_s`."""
        time = self.on(gpu_model, gpus)
        return None if time is None else self.epochs * time.under_s(limit_w)
