"""Settings of the policies that start jobs in order."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.coordinator.core.model.jobs.promise import KEPT
from wattfold.coordinator.policies.backfill.pass_settings import PassSettings
from wattfold.coordinator.policies.description import (
    IN_SERVICE,
    PolicySettings,
    patience_setting,
    setting,
    size_setting,
)

DEPTH_MAX = 5_000
PROMISES_MAX = 5_000


@dataclass(frozen=True, kw_only=True)
class FifoSettings(PassSettings):
    """Settings of `fifo` and `fifo-easy`."""

    size: str = size_setting()


@dataclass(frozen=True, kw_only=True)
class UniformSettings(PolicySettings):
    """Settings of `easy-uniform`."""

    size: str = size_setting()


@dataclass(frozen=True, kw_only=True)
class ConservativeSettings(PolicySettings):
    """Settings of `conservative`."""

    size: str = size_setting()
    promises: int = setting(
        KEPT,
        help="number of jobs at the head of the queue with a promised start; later jobs are "
        "backfilled or wait",
        within=(1, PROMISES_MAX),
        places=IN_SERVICE,
    )


@dataclass(frozen=True, kw_only=True)
class PbsSettings(PolicySettings):
    """Settings of `pbs-fifo` and `pbs-walltime`."""

    patience: float = patience_setting("pbs-walltime: ")
    reading: str = setting(
        "reserve",
        help="reserve: blocked jobs at the head of the queue get reserved resources and other jobs "
        "start next to them; look: jobs behind them are not considered",
        choices=("reserve", "look"),
    )
    depth: int = setting(
        0,
        help="number of blocked jobs with reserved resources; 0 = 10, or 400 in order of requested"
        " time",
        within=(0, DEPTH_MAX),
    )
    size: str = size_setting()
