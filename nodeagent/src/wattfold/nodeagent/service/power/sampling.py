"""The periodic samples of the power service."""

from __future__ import annotations

import time

from wattfold.contract.repeats import Repeats
from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.beat import on_beats
from wattfold.nodeagent.core.errors import Refused
from wattfold.nodeagent.service.power.power import SAMPLE_NS, NodePower


async def sample_for_ever(power: NodePower) -> None:
    """Sample at 10 Hz until cancelled."""
    repeats = Repeats()

    def sample() -> None:
        try:
            power.sample()
        except Refused as error:
            if count := repeats.one_more("sample", time.monotonic()):
                logs.warning("sample_failed", reason=error, times=count)

    await on_beats(SAMPLE_NS / NS_PER_S, sample)
