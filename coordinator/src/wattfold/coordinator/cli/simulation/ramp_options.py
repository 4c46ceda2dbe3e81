"""Options of `simulate` and `compare` for ramp limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from wattfold.coordinator.cli.shared.parsing import Parsed, parse_power_uw

if TYPE_CHECKING:
    from wattfold.simulator.runs.case import SimulationCase

F = TypeVar("F", bound=Callable[..., Any])
_A_MINUTE = "%/min"


class Rate(NamedTuple):
    """A rate in microwatts per second, or a share of the budget in a minute, in percent."""

    uw_per_s: int = 0
    percent_per_min: float = 0.0

    def of(self, budget_uw: int) -> int:
        """Return the rate under a budget, in microwatts per second."""
        return self.uw_per_s or round(budget_uw * self.percent_per_min / 100 / 60)


def parse_rate(text: str) -> Rate:
    """Parse `250W` (each second) or `5%/min` (of the budget). Raises ValueError."""
    if not text.endswith(_A_MINUTE):
        return Rate(uw_per_s=parse_power_uw(text))
    percent = float(text.removesuffix(_A_MINUTE))
    if not 0 < percent <= 6000:
        raise ValueError(f"not a share of the budget above 0: {text!r}; expected 5%/min")
    return Rate(percent_per_min=percent)


_RATE = Parsed("rate", parse_rate)


def ramp_options(command: F) -> F:
    """Add the options."""
    for option in reversed(
        (
            click.option(
                "--rise-limit",
                type=_RATE,
                metavar="W_PER_S",
                help="Maximum rise of committed power in a second, such as 250W, or as a share of "
                "the budget: 5%/min. Jobs start at once, and their caps rise step by step.",
            ),
            click.option(
                "--fall-limit",
                type=_RATE,
                metavar="W_PER_S",
                help="Maximum fall of committed power where jobs permit it, as --rise-limit. "
                "Only with simulate --level messages.",
            ),
        )
    ):
        command = option(command)
    return command


def with_ramp(cases: Sequence[SimulationCase], options: dict[str, Any]) -> list[SimulationCase]:
    """Return the cases under the ramp limits of the options."""
    rise, fall = options["rise_limit"] or Rate(), options["fall_limit"] or Rate()
    if not any((*rise, *fall)):
        return list(cases)
    from wattfold.coordinator.core.model.ramp_limits import RampLimits

    return [
        replace(
            case,
            ramp=RampLimits(
                rise_uw_per_s=rise.of(case.budget.least_uw),
                fall_uw_per_s=fall.of(case.budget.least_uw),
            ),
        )
        for case in cases
    ]
