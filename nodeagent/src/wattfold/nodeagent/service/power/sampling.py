"""The periodic samples of the power service."""

from __future__ import annotations

import time
from collections.abc import Callable

from wattfold.contract.repeats import Repeats
from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.beat import on_beats
from wattfold.nodeagent.core.errors import Refused
from wattfold.nodeagent.service.power.power import CHECK_BEATS, SAMPLE_NS, NodePower


async def sample_for_ever(power: NodePower, is_idle: Callable[[], bool]) -> None:
    """Sample at 10 Hz until cancelled; at the rate of the checks while the node is at rest.

    ``is_idle``: whether the node has no job. A node is at rest if it is idle and needs no attempt
    to reach its floors. No job is then charged for its energy, so fewer samples suffice.
    """
    repeats = Repeats()

    def beats() -> int:
        at_rest = is_idle() and (power.at_floor or power.remaining_ns() > 0)
        return CHECK_BEATS if at_rest else 1

    waited = beats()

    def sample() -> float:
        nonlocal waited
        try:
            power.sample(waited)
        except Refused as error:
            if count := repeats.one_more("sample", time.monotonic()):
                logs.warning("sample_failed", reason=error, times=count)
        waited = beats()
        return waited * SAMPLE_NS / NS_PER_S

    await on_beats(waited * SAMPLE_NS / NS_PER_S, sample)
