"""Epoch times of applications by GPU model and number of GPUs (t_jng), measured and learnt.

There is one table per application. `wattfold profile epochs` measures it. Every epoch that a job
reports refreshes it, in a mean over about the last `WEIGHED` epochs. Times are those at the maximum
limit of the GPUs. A time under a lower limit is scaled with the application's curve on the GPU
model. Without a curve it is ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from wattfold.coordinator.models.gpu_curve import GpuCurve
from wattfold.coordinator.models.training import EpochTime, Training

WEIGHED = 16
"""Number of epochs in a mean, about: data, versions and machines change."""
APPS_MAX = 1000
TIMES_MAX = 256
"""Maximum number of table entries of an application: GPU models times GPU counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenEpochs:
    """Mean seconds per epoch on ``gpus`` GPUs of a model, over ``count`` epochs."""

    gpu_model: str
    gpus: int
    seconds: float
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCurve:
    """Effect of lower limits of a GPU model on an application, and the relative fit error."""

    gpu_model: str
    curve: GpuCurve
    rms_error: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AppEpochs:
    """Known epoch times and curves of an application; ``stored_ns`` is the last change."""

    times: tuple[SeenEpochs, ...] = ()
    curves: tuple[SeenCurve, ...] = ()
    stored_ns: int = 0

    def curve(self, gpu_model: str) -> GpuCurve | None:
        """Return the effect of lower limits of a GPU model; None = unknown."""
        return next((one.curve for one in self.curves if one.gpu_model == gpu_model), None)

    def at(self, gpu_model: str, gpus: int) -> SeenEpochs | None:
        """Return the known epoch time on ``gpus`` GPUs of a model, if any."""
        for one in self.times:
            if (one.gpu_model, one.gpus) == (gpu_model, gpus):
                return one
        return None


@lru_cache(maxsize=4096)
def training(known: AppEpochs, epochs: int) -> Training:
    """Return the policies' view of a training job. Equal arguments give the same object."""
    return Training(
        epochs=epochs,
        times=tuple(
            EpochTime(
                gpu_model=one.gpu_model,
                gpus=one.gpus,
                seconds=one.seconds,
                curve=known.curve(one.gpu_model),
            )
            for one in known.times
        ),
    )


NOTHING_SEEN = AppEpochs()


def stored(before: AppEpochs, measured: AppEpochs) -> AppEpochs:
    """Merge measured times and curves into the table; they replace the previous entries."""
    there = {(one.gpu_model, one.gpus): one for one in before.times}
    there |= {(one.gpu_model, one.gpus): one for one in measured.times}
    curves = {one.gpu_model: one for one in (*before.curves, *measured.curves)}
    return replace(
        measured,
        times=_ordered(there)[:TIMES_MAX],
        curves=tuple(curves[model] for model in sorted(curves)),
    )


def with_epoch(
    before: AppEpochs, *, gpu_model: str, gpus: int, seconds: float, limit_w: float, now_ns: int
) -> AppEpochs:
    """Add an epoch of a job whose GPUs had this limit in W (0 = their maximum)."""
    if limit_w:
        curve = before.curve(gpu_model)
        if curve is None:
            return before
        seconds /= curve.slowdown(limit_w)
    known = before.at(gpu_model, gpus)
    if known is None:
        if len(before.times) >= TIMES_MAX:
            return before
        known = SeenEpochs(gpu_model=gpu_model, gpus=gpus, seconds=seconds, count=0)
    count = known.count + 1
    mean_s = known.seconds + (seconds - known.seconds) / min(count, WEIGHED)
    there = {(one.gpu_model, one.gpus): one for one in before.times}
    there[gpu_model, gpus] = replace(known, seconds=mean_s, count=count)
    return replace(before, times=_ordered(there), stored_ns=now_ns)


def _ordered(there: dict[tuple[str, int], SeenEpochs]) -> tuple[SeenEpochs, ...]:
    return tuple(there[key] for key in sorted(there))
