"""Options of `wattfold simulate --level messages`, and the responses to lower budgets.

`--restarts` applies to both levels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wattfold.contract.units import NS_PER_S, w_from_uw
from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.shared.parsing import DURATION_NS
from wattfold.coordinator.cli.shared.texts.tables import PlainTable, add_row, plain_table, right

if TYPE_CHECKING:
    from wattfold.simulator.engine.record import RunRecord
    from wattfold.simulator.messages.restarts import RestartTimes
    from wattfold.simulator.runs.case import MessageLevel

F = TypeVar("F", bound=Callable[..., Any])

_SHARE = click.FloatRange(0, 1)
_OF_MESSAGES = ("lose", "late", "double", "refuse")


class RestartSpan(click.ParamType[tuple[int, int]]):
    """Two durations in nanoseconds."""

    name = "durations"

    def convert(
        self,
        value: str | tuple[int, int],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[int, int]:
        """Return both durations."""
        if isinstance(value, tuple):
            return value
        save, comma, start = value.partition(",")
        if not comma:
            self.fail(
                f"{value!r} is not a pair of durations; give SAVE,START such as 30s,45s", param, ctx
            )
        return DURATION_NS.convert(save, param, ctx), DURATION_NS.convert(start, param, ctx)


def message_options(command: F) -> F:
    """Add `--level` and its options to a command."""
    for option in (
        click.option(
            "--restarts",
            type=RestartSpan(),
            metavar="SAVE,START",
            help="Times to save and to resume, such as 30s,45s. Malleable jobs then change size "
            "by a restart, also on whole nodes. In a pool of --nodes, they are the cost of a "
            "resize instead of the network links, and PARM considers them.",
        ),
        click.option(
            "--refuse",
            type=_SHARE,
            help="Fraction of cap commands that a zone refuses. Default: 0.",
        ),
        click.option(
            "--double", type=_SHARE, help="Fraction of commands that arrive twice. Default: 0."
        ),
        click.option(
            "--late", type=_SHARE, help="Fraction of commands that arrive too late. Default: 0."
        ),
        click.option(
            "--lose",
            type=_SHARE,
            help="Fraction of commands and of answers that are lost. Default: 0.",
        ),
        click.option("--delay", type=DURATION_NS, help="Maximum delay of a message. Default: 5ms."),
        click.option("--window", type=DURATION_NS, help="Averaging window of a cap. Default: 1s."),
        click.option(
            "--lease", type=DURATION_NS, help="Lease of caps above the floor. Default: 10m."
        ),
        click.option(
            "--sizes-in",
            type=click.Choice(["nodes", "cores"]),
            help="Unit of job sizes: whole nodes, or cores of one node. Default: nodes.",
        ),
        click.option(
            "--cores-per-node",
            type=click.IntRange(1, 4096),
            help="Number of cores per node. Default: 16.",
        ),
        click.option(
            "--level",
            type=click.Choice(["pool", "messages"]),
            default="pool",
            show_default=True,
            help="Level of detail. pool: immediate decisions, for large logs. messages: the core "
            "of the service with simulated agents, averaging windows, leases and lost messages.",
        ),
    ):
        command = option(command)
    return command


def message_level(options: dict[str, Any]) -> MessageLevel | None:
    """Return the settings of the options; None for a pool. Raises BadRequestError."""
    from wattfold.simulator.runs.case import MessageLevel

    names = ("cores_per_node", "sizes_in", "lease", "window", "delay", *_OF_MESSAGES)
    given = {name: options[name] for name in names if options[name] is not None}
    if options["level"] == "pool":
        if given:
            name = next(iter(given)).replace("_", "-")
            raise BadRequestError(f"--{name} needs --level messages")
        return None
    if options["resume"]:
        raise BadRequestError(
            "a run with --level messages cannot be resumed; omit --resume to run it again"
        )
    if options["placement"] != "any" or options["torus"]:
        raise BadRequestError("--placement and --torus need --level pool")
    for name in ("lease", "window", "delay"):
        if name in given:
            given[f"{name}_s"] = given.pop(name) / NS_PER_S
    if options["restarts"] is not None:
        save_ns, start_ns = options["restarts"]
        given |= {"restarts": True, "save_s": save_ns / NS_PER_S, "start_s": start_ns / NS_PER_S}
    return MessageLevel(**given)


def restarts_of(options: dict[str, Any]) -> RestartTimes | None:
    """Return the cost of changes of size in a pool; None if links set it, and for messages."""
    from wattfold.simulator.messages.restarts import RestartTimes

    if options["level"] != "pool" or options["restarts"] is None:
        return None
    save_ns, start_ns = options["restarts"]
    return RestartTimes(save_ns=save_ns, start_ns=start_ns)


def responses_of(record: RunRecord) -> list[dict[str, float | None]]:
    """Return the responses to lower budgets; empty for a pool, which responds at once."""
    from wattfold.simulator.engine.record import RunRecord

    if type(record) is RunRecord:
        return []  # A run in a pool: the modules for messages load slowly.
    from wattfold.simulator.messages.record import ClusterRecord

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
    """Return a line for every lower budget."""
    table = plain_table(
        right("BUDGET FALLS AT S"),
        right("FROM W"),
        right("TO W"),
        right("DEADLINE S"),
        right("DRAW BELOW AFTER S"),
        right("BOUND BELOW AFTER S"),
    )
    for answer in answers:
        add_row(table, *(_text(value) for value in answer.values()))
    return table


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
