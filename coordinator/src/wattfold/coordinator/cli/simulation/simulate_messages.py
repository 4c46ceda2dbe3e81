"""`wattfold simulate --level messages`: its options, and how lowered budgets were answered.

`--restarts` is of both levels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wattfold.contract.units import NS_PER_S, w_from_uw
from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.shared.parsing import DURATION_NS
from wattfold.coordinator.cli.shared.tables import PlainTable, add_row, plain_table, right

if TYPE_CHECKING:
    from wattfold.coordinator.simulation.cluster.restarts import RestartTimes
    from wattfold.coordinator.simulation.pool.record import RunRecord
    from wattfold.coordinator.simulation.runs.case import MessageLevel

F = TypeVar("F", bound=Callable[..., Any])

_SHARE = click.FloatRange(0, 1)
_OF_MESSAGES = ("lose", "late", "double", "refuse")


class RestartSpan(click.ParamType[tuple[int, int]]):
    """Two durations, nanoseconds."""

    name = "durations"

    def convert(
        self,
        value: str | tuple[int, int],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[int, int]:
        """Both of them."""
        if isinstance(value, tuple):
            return value
        save, comma, start = value.partition(",")
        if not comma:
            self.fail(
                f"{value!r} is not two durations: give SAVE,START such as 30s,45s", param, ctx
            )
        return DURATION_NS.convert(save, param, ctx), DURATION_NS.convert(start, param, ctx)


def message_options(command: F) -> F:
    """`--level` and what belongs to it."""
    for option in (
        click.option(
            "--restarts",
            type=RestartSpan(),
            metavar="SAVE,START",
            help="Malleable jobs, also on whole nodes, change size by being started again: so long "
            "to save, so long to go on, such as 30s,45s. In a pool of --nodes: what a change of "
            "size costs, in place of links, and PARM sees it.",
        ),
        click.option("--refuse", type=_SHARE, help="Share of cap commands a zone refuses."),
        click.option("--double", type=_SHARE, help="Share of commands that arrive twice."),
        click.option("--late", type=_SHARE, help="Share of commands that arrive too late."),
        click.option("--lose", type=_SHARE, help="Share of commands, and of answers, lost."),
        click.option("--delay", type=DURATION_NS, help="Longest delay of a message. [5ms]"),
        click.option("--window", type=DURATION_NS, help="Averaging window of a cap. [1s]"),
        click.option("--lease", type=DURATION_NS, help="Lease of caps above the floor. [10m]"),
        click.option(
            "--sizes-in",
            type=click.Choice(["nodes", "cores"]),
            help="What sizes of jobs count: whole nodes, or cores of one node. [nodes]",
        ),
        click.option(
            "--cores-per-node", type=click.IntRange(1, 4096), help="Cores of a node. [16]"
        ),
        click.option(
            "--level",
            type=click.Choice(["pool", "messages"]),
            default="pool",
            show_default=True,
            help="pool: decisions at once, for large logs. messages: the service's core with "
            "simulated agents, averaging windows, leases and lost messages.",
        ),
    ):
        command = option(command)
    return command


def message_level(options: dict[str, Any]) -> MessageLevel | None:
    """What the options say; None for a pool. Raises BadRequestError."""
    from wattfold.coordinator.simulation.runs.case import MessageLevel

    names = ("cores_per_node", "sizes_in", "lease", "window", "delay", *_OF_MESSAGES)
    given = {name: options[name] for name in names if options[name] is not None}
    if options["level"] == "pool":
        if given:
            name = next(iter(given)).replace("_", "-")
            raise BadRequestError(f"--{name} needs --level messages")
        return None
    if options["resume"]:
        raise BadRequestError("a run by messages cannot be resumed; it can be run again")
    if options["placement"] != "any" or options["torus"]:
        raise BadRequestError("--placement and --torus are for --level pool")
    for name in ("lease", "window", "delay"):
        if name in given:
            given[f"{name}_s"] = given.pop(name) / NS_PER_S
    if options["restarts"] is not None:
        save_ns, start_ns = options["restarts"]
        given |= {"restarts": True, "save_s": save_ns / NS_PER_S, "start_s": start_ns / NS_PER_S}
    return MessageLevel(**given)


def restarts_of(options: dict[str, Any]) -> RestartTimes | None:
    """What a change of size costs in a pool; None where it is by links, and for messages."""
    from wattfold.coordinator.simulation.cluster.restarts import RestartTimes

    if options["level"] != "pool" or options["restarts"] is None:
        return None
    save_ns, start_ns = options["restarts"]
    return RestartTimes(save_ns=save_ns, start_ns=start_ns)


def responses_of(record: RunRecord) -> list[dict[str, float | None]]:
    """How each lowered budget of a run was answered; empty for a pool, where it is at once."""
    from wattfold.coordinator.simulation.pool.record import RunRecord

    if type(record) is RunRecord:
        return []  # Of a pool: all that messages need takes its time to load.
    from wattfold.coordinator.simulation.cluster.record import ClusterRecord

    if not isinstance(record, ClusterRecord):
        return []
    first_ns = int(record.jobs.submit_ns.min())
    return [
        {
            "time_s": (response.time_ns - first_ns) / NS_PER_S,
            "before_w": w_from_uw(response.before_uw),
            "budget_w": w_from_uw(response.budget_uw),
            "deadline_s": response.deadline_ns / NS_PER_S,
            "drawn_kept_s": _seconds(response.drawn_kept_ns),
            "bound_kept_s": _seconds(response.bound_kept_ns),
        }
        for response in record.responses
    ]


def _seconds(duration_ns: int) -> float | None:
    return duration_ns / NS_PER_S if duration_ns >= 0 else None


def response_table(answers: Sequence[dict[str, float | None]]) -> PlainTable:
    """A line for every lowered budget."""
    table = plain_table(
        right("BUDGET FALLS AT S"),
        right("FROM W"),
        right("TO W"),
        right("DEADLINE S"),
        right("DRAWN BELOW AFTER S"),
        right("SURE AFTER S"),
    )
    for answer in answers:
        add_row(table, *(_text(value) for value in answer.values()))
    return table


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
