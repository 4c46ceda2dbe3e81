"""What an epoch of an application takes on so many GPUs of a model: t_jng, measured and learnt.

A table a application: measured on purpose (`wattfold profile epochs`), refreshed by every epoch
that a job tells, in the mean of about the last `WEIGHED`. Times are those at the greatest limit of
the GPUs. One that was made under a lower limit counts where it is known what that does (a curve of
the application on the model), and is then scaled; else it teaches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from wattfold.coordinator.models.gpu_curve import GpuCurve
from wattfold.coordinator.models.training import EpochTime, Training

WEIGHED = 16
"""A mean is that of about so many epochs: data, versions and machines change."""
APPS_MAX = 1000
TIMES_MAX = 256
"""Of an application: models of GPUs times numbers of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenEpochs:
    """Mean seconds of an epoch on so many GPUs of a model, of ``count`` epochs."""

    gpu_model: str
    gpus: int
    seconds: float
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCurve:
    """What lower limits of a model of GPU make of an application, and the error of the fit."""

    gpu_model: str
    curve: GpuCurve
    rms_error: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AppEpochs:
    """All that is known of the epochs of an application. ``stored_ns``: since when it is so."""

    times: tuple[SeenEpochs, ...] = ()
    curves: tuple[SeenCurve, ...] = ()
    stored_ns: int = 0

    def curve(self, gpu_model: str) -> GpuCurve | None:
        """What a lower limit of a model makes of it; None = not known."""
        return next((one.curve for one in self.curves if one.gpu_model == gpu_model), None)

    def at(self, gpu_model: str, gpus: int) -> SeenEpochs | None:
        """What is known for so many GPUs of a model."""
        for one in self.times:
            if (one.gpu_model, one.gpus) == (gpu_model, gpus):
                return one
        return None


@lru_cache(maxsize=4096)
def training(known: AppEpochs, epochs: int) -> Training:
    """As policies see a job of so many epochs; of alike jobs the same object."""
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
    """With what was measured on purpose, which takes the place of what was known there."""
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
    """With one more epoch of a job, whose GPUs had a limit in W (0 = their greatest)."""
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
