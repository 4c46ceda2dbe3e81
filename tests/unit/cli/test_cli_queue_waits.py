"""Queue waits as options of simulations."""

from __future__ import annotations

import pytest

from wattfold.coordinator.cli.simulation.site_queue.queue_waits import parse_queue_wait
from wattfold.coordinator.core.model.queue import Waits

H = 3600 * 10**9


def test_one_wait_is_the_expected_and_the_greatest() -> None:
    assert parse_queue_wait("2=24h") == (2, Waits(24 * H, 24 * H))
    assert parse_queue_wait("0=1h,4h") == (0, Waits(H, 4 * H))


@pytest.mark.parametrize("text", ["24h", "x=1h", "1=", "1=0s", "1=4h,1h", "1=1h,2h,3h"])
def test_what_is_no_wait_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"queue|duration|number"):
        parse_queue_wait(text)
