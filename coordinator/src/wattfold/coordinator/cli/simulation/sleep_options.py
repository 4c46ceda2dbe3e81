"""Options of `compare` and `simulate` for nodes that sleep.

`compare` adds runs with sleep. The runs of `simulate` get their nodes that sleep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from wattfold.contract.units import uw_from_w
from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.shared.parsing import DURATION_NS, Parsed, parse_duration_ns
from wattfold.coordinator.cli.simulation.runs.simulate_options import parse_watts

if TYPE_CHECKING:
    from wattfold.simulator.runs.case import SimulationCase

F = TypeVar("F", bound=Callable[..., Any])
POLICIES_AWAKE = ["parm-wse", "easy"]
"""Default policies with --sleep."""
WITH_TIMER = "easy"
"""The policy that is also run with a plain idle timer, as in Slurm."""


class SleepText(NamedTuple):
    """The value of --sleep, in nanoseconds and watts."""

    boot_ns: int
    boot_w: float
    asleep_w: float
    suspend_ns: int


def parse_sleep(text: str) -> SleepText:
    """Parse `3m:150W`, `3m:150W:5W` or `3m:150W:5W:30s`. Raises ValueError."""
    parts = text.split(":")
    if not 2 <= len(parts) <= 4:
        raise ValueError(f"not a boot time and a power: {text!r}; expected for example 3m:150W")
    boot_ns = parse_duration_ns(parts[0])
    if not boot_ns:
        raise ValueError("a boot takes time; expected for example 3m:150W")
    return SleepText(
        boot_ns=boot_ns,
        boot_w=parse_watts(parts[1]),
        asleep_w=parse_watts(parts[2]) if len(parts) > 2 else 5.0,
        suspend_ns=parse_duration_ns(parts[3]) if len(parts) > 3 else 30_000_000_000,
    )


_SLEEP = (
    "Let nodes sleep: time and power of a boot, power asleep (default 5 W) and time to fall asleep "
    "(default 30s), such as 3m:150W. {}Implies --cut-sizes. Default of --idle: base power and "
    "DRAM cap. In a --machine file, [[boot]] tables describe the boots of classes."
)
_COMPARED = (
    "Each policy runs without and with sleep (+sleep), and easy also with a plain idle timer "
    "(+timer). Default policies: parm-wse,easy. "
)


def compared_sleep_options(command: F) -> F:
    """Add the options of `compare`."""
    timer = click.option(
        "--sleep-timer",
        type=DURATION_NS,
        default="10m",
        show_default=True,
        metavar="DURATION",
        help="Idle time after which nodes sleep in the runs with a plain idle timer.",
    )
    return _added(command, _SLEEP.format(_COMPARED), timer)


def sleep_options(command: F) -> F:
    """Add the options of `simulate`."""
    timer = click.option(
        "--sleep-timer",
        type=DURATION_NS,
        metavar="DURATION",
        help="Idle time after which nodes sleep, as with SuspendTime of Slurm. Default: plans "
        "decide which nodes sleep.",
    )
    return _added(command, _SLEEP.format(""), timer)


def _added(command: F, sleep: str, timer: Callable[[F], F]) -> F:
    for option in reversed(
        (
            click.option(
                "--sleep",
                type=Parsed("boot", parse_sleep),
                metavar="BOOT:WATTS[:ASLEEP[:SUSPEND]]",
                help=sleep,
            ),
            timer,
            click.option(
                "--boots-max",
                type=click.IntRange(1, 10_000),
                default=16,
                show_default=True,
                metavar="N",
                help="Maximum number of nodes that boot at once, with --sleep.",
            ),
            click.option(
                "--boot-failures",
                type=click.FloatRange(0, 0.9),
                default=0.0,
                show_default=True,
                metavar="SHARE",
                help="Share of boots that fail, 0 to 0.9, with --sleep. A failed boot draws the "
                "power of a boot for twice its time.",
            ),
        )
    ):
        command = option(command)
    return command


def with_defaults(context: click.Context, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with the defaults that --sleep changes. Raises BadRequestError."""
    if options["sleep"] is None:
        for name in ("sleep_timer", "boots_max", "boot_failures"):
            if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
                raise BadRequestError(f"--{name.replace('_', '-')} needs --sleep")
        return options
    if options.get("budgets"):
        raise BadRequestError("--sleep is for one budget; give --budget")
    if options["idle"] is None and options["machine_file"] is None:
        options = options | {"idle": options["base"] + options["dram"]}
    return options | {"cut_sizes": True}


def with_policies(context: click.Context, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `compare` with the default policies of --sleep."""
    chosen = context.get_parameter_source("policies") is not click.core.ParameterSource.DEFAULT
    return options if chosen or options["sleep"] is None else options | {"policies": POLICIES_AWAKE}


def asleep(case: SimulationCase, options: dict[str, Any], timer_ns: int = 0) -> SimulationCase:
    """Return a case with the sleep of the options, if they have one. Raises ValueError.

    With ``timer_ns``, nodes sleep after this idle time.
    """
    text: SleepText | None = options["sleep"]
    if text is None:
        return case
    from wattfold.coordinator.policies.driver.sleep_plan import SleepRules
    from wattfold.simulator.runs.case import SleepCase

    rules = SleepRules(
        idle_uw=case.machine.idle_total_uw // case.machine.nodes,
        asleep_uw=uw_from_w(text.asleep_w),
        boot_uw=uw_from_w(text.boot_w),
        boot_ns=text.boot_ns,
        suspend_ns=text.suspend_ns,
        boots_max=options["boots_max"],
        timer_ns=timer_ns,
    )
    return replace(case, sleep=SleepCase(rules=rules, failing=options["boot_failures"]))


def with_sleep(cases: Sequence[SimulationCase], options: dict[str, Any]) -> list[SimulationCase]:
    """Return each case of `compare` without and with sleep. Raises ValueError."""
    if options["sleep"] is None:
        return list(cases)
    found = []
    for case in cases:
        found += [case, asleep(case, options)]
        if case.policy.name == WITH_TIMER:
            found.append(asleep(case, options, options["sleep_timer"]))
    return found
