"""Parser for the waits of queues in a simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wattfold.coordinator.cli.shared.parsing import parse_duration_ns

if TYPE_CHECKING:
    from wattfold.coordinator.core.model.queue import Waits

EXAMPLE = "expected for example 2=24h, or 2=6h,24h"


def parse_queue_wait(text: str) -> tuple[int, Waits]:
    """Parse `2=24h` or `2=6h,24h`: a queue, its expected and maximum wait. Raises ValueError."""
    from wattfold.coordinator.core.model.queue import Waits

    number, _, said = text.partition("=")
    if not number.strip().isdecimal():
        raise ValueError(f"not the number of a queue and its waits: {text!r}; {EXAMPLE}")
    expected_ns, *more = (parse_duration_ns(part) for part in said.split(","))
    max_ns = more[0] if more else expected_ns
    if len(more) > 1 or not 0 < expected_ns <= max_ns:
        raise ValueError(
            f"waits of queue {number} must be above zero and in order: {text!r}; {EXAMPLE}"
        )
    return int(number), Waits(expected_ns, max_ns)
