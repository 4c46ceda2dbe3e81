"""Epoch times on V100 and T4, and power of the GPUs, composed from published figures.

The profiles of the paper are not public. Sources of the numbers:

* Samples per second on one GPU: EfficientNet-B0 and B4 on a V100, mixed and single precision, from
  NVIDIA DeepLearningExamples. ConvNet (ResNet-18 on CIFAR-10) on a V100 from the throughputs of
  Gavel (Narayanan et al., OSDI 2020), on a T4 from those of Sia (Jayaram Subramanya et al., SOSP
  2023). LSTM as DeepSpeech2 on a T4, from Sia.
* Epochs have 50,000 samples (CIFAR), for EfficientNet-B4 12,500, and for LSTM 5,000 or 1,250
  utterances, so that they take 15 to 100 s on a V100. The paper's jobs, with 60 to 160 epochs and
  due dates of half an hour to five hours, must have had such epochs.
* T4 relative to V100, if one of them was not measured: 1.7 to 2 times the time for single precision
  and recurrent nets, 2.4 to 5.5 times for mixed precision. This ratio differs by job, so that no
  type of GPU is always cheaper.
* Speedup on g GPUs of a node: g^0.95 for compute-bound nets, g^0.85 for EfficientNet in mixed
  precision, g^0.70 for LSTM on a V100. These are exponents through the speedups measured by Lambda
  Labs and Sia. On a T4 they are 0.95 for compute-bound nets and 0.93 for LSTM, as in Sia.
* Power: `models.gpu_curve` fitted to the traces of Zeus (You et al., NSDI 2023) on a V100. No trace
  of a T4 exists: its static power is 0.18 and its power at full clock 0.97 of the maximum limit.
* A smaller batch is slower: 0.8 of the samples per second. That is a guess.
"""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.coordinator.models.gpu_curve import GpuCurve
from wattfold.coordinator.models.training import EpochTime

V100, T4 = "V100", "T4"
COUNTS = (1, 2, 4)
SMALL_BATCH = 0.8
SAMPLES, FEW_SAMPLES, UTTERANCES, FEW_UTTERANCES = 50_000, 12_500, 5_000, 1_250

_T4_TDP_W = 70.0


def _t4(beta: float) -> GpuCurve:
    return GpuCurve(static_w=0.18 * _T4_TDP_W, full_w=0.97 * _T4_TDP_W, knee=0.85, beta=beta)


COMPUTE = {V100: GpuCurve(static_w=39, full_w=237, knee=0.84, beta=0.26), T4: _t4(0.2)}
"""ResNet-50 on the V100."""
MIXED = {V100: GpuCurve(static_w=43, full_w=250, knee=0.77, beta=0.55), T4: _t4(0.5)}
"""ShuffleNet."""
RECURRENT = {V100: GpuCurve(static_w=65, full_w=221, knee=0.63, beta=0.50), T4: _t4(0.5)}
"""DeepSpeech2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingProfile:
    """A kind of job. Rates are samples per second on one GPU at its maximum limit."""

    app: str
    samples: int
    v100_rate: float
    t4_ratio: float
    """Time on a T4 relative to a V100."""
    v100_exponent: float
    t4_exponent: float
    curves: dict[str, GpuCurve]

    @property
    def times(self) -> tuple[EpochTime, ...]:
        """Epoch times on 1, 2 and 4 GPUs of each model."""
        one_s = self.samples / self.v100_rate
        on = ((V100, one_s, self.v100_exponent), (T4, one_s * self.t4_ratio, self.t4_exponent))
        return tuple(
            EpochTime(
                gpu_model=model,
                gpus=gpus,
                seconds=seconds / gpus**exponent,
                curve=self.curves[model],
            )
            for model, seconds, exponent in on
            for gpus in COUNTS
        )


def _two_batches(profile: TrainingProfile) -> tuple[TrainingProfile, TrainingProfile]:
    small = TrainingProfile(
        app=f"{profile.app}-small-batch",
        samples=profile.samples,
        v100_rate=profile.v100_rate * SMALL_BATCH,
        t4_ratio=profile.t4_ratio,
        v100_exponent=profile.v100_exponent,
        t4_exponent=profile.t4_exponent,
        curves=profile.curves,
    )
    return profile, small


_BASES = (
    TrainingProfile(
        app="EfficientNet-B0-AMP",
        samples=SAMPLES,
        v100_rate=1301,
        t4_ratio=3.8,
        v100_exponent=0.85,
        t4_exponent=0.95,
        curves=COMPUTE,
    ),
    TrainingProfile(
        app="EfficientNet-B0",
        samples=SAMPLES,
        v100_rate=655,
        t4_ratio=1.9,
        v100_exponent=0.95,
        t4_exponent=0.95,
        curves=COMPUTE,
    ),
    TrainingProfile(
        app="EfficientNet-B4-AMP",
        samples=FEW_SAMPLES,
        v100_rate=204,
        t4_ratio=5.0,
        v100_exponent=0.85,
        t4_exponent=0.95,
        curves=COMPUTE,
    ),
    TrainingProfile(
        app="ConvNet",
        samples=SAMPLES,
        v100_rate=2640,
        # 1,459 images per second on a T4.
        t4_ratio=2640 / 1459,
        v100_exponent=0.95,
        t4_exponent=0.90,
        curves=MIXED,
    ),
    TrainingProfile(
        app="LSTM-big",
        samples=UTTERANCES,
        # Twice the 31.5 utterances per second of a T4.
        v100_rate=63,
        t4_ratio=2.0,
        v100_exponent=0.70,
        t4_exponent=0.93,
        curves=RECURRENT,
    ),
    TrainingProfile(
        app="LSTM-small",
        samples=FEW_UTTERANCES,
        v100_rate=63,
        t4_ratio=1.7,
        v100_exponent=0.70,
        t4_exponent=0.93,
        curves=RECURRENT,
    ),
)
PROFILES: tuple[TrainingProfile, ...] = tuple(one for base in _BASES for one in _two_batches(base))
EPOCHS = (60, 80, 160)
"""As in the paper's Table V."""
