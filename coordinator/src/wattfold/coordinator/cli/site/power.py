"""`power` and `budget`: the budget, and what of it is promised and drawn."""

from __future__ import annotations

import click
from rich.table import Table
from rich.text import Text

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.cli.shared import formatting as f
from wattfold.coordinator.cli.shared.message_json import as_dict
from wattfold.coordinator.cli.shared.parsing import DURATION_NS, POWER_UW
from wattfold.coordinator.cli.shared.power_bar import power_bar
from wattfold.coordinator.cli.shared.session import Session, session_command
from wattfold.coordinator.cli.shared.tables import field_table
from wattfold.v1 import coordinator_pb2 as pb

_BAR_CELLS = 28


@click.command()
@session_command
def power(session: Session) -> None:
    """Show committed and measured power against the budget."""
    with session.connect() as client:
        answer = client.power()
    if session.json:
        session.print_json(as_dict(answer))
    else:
        session.print(_power_sheet(answer))


@click.group()
def budget() -> None:
    """Show or change the power budget."""


@budget.command("show")
@session_command
def budget_show(session: Session) -> None:
    """Show the budget, a change on its way, and the least it can be."""
    with session.connect() as client:
        answer = client.power()
    if session.json:
        session.print_json(_budget(answer))
    else:
        session.print(field_table(_budget_fields(answer)))


@budget.command("set")
@click.argument("budget_uw", metavar="WATTS", type=POWER_UW)
@click.option(
    "--deadline",
    "deadline_ns",
    type=DURATION_NS,
    metavar="DURATION",
    help="By when a lower budget must be kept, from now. Default: the coordinator's.",
)
@click.option(
    "--accept-outside",
    is_flag=True,
    help="Accept what nodes in no sum may draw now beside the budget.",
)
@session_command
def budget_set(
    session: Session, budget_uw: int, deadline_ns: int | None, accept_outside: bool
) -> None:
    """Change the budget, for example `wattfold budget set 1.2kW`.

    A higher budget holds at once; a lower one as soon as the nodes have confirmed lower caps. One
    that does not hold the nodes outside the sum as well is refused without --accept-outside.
    """
    with session.connect() as client:
        answer = client.set_budget(budget_uw, deadline_ns or 0, accept_outside).power
    if session.json:
        session.print_json(_budget(answer))
        return
    if answer.pending_budget_uw:
        click.echo(f"Budget goes down to {_pending(answer)}.")
    else:
        click.echo(f"Budget {f.power(answer.budget_uw)}.")
    if answer.outside_uw:
        click.echo(f"Beside it: {outside(answer)}.")


def outside(answer: pb.Power) -> str:
    """What is drawn in no sum, by which nodes, and what that means."""
    nodes = list(answer.outside_node_ids)
    more = f" and {len(nodes) - 5} more" if len(nodes) > 5 else ""
    text = f"outside the sum {f.power(answer.outside_uw)} ({', '.join(nodes[:5])}{more})"
    if answer.outside_accepted_uw:
        text += f", {f.power(answer.outside_accepted_uw)} of it accepted"
    if answer.over_uw:
        text += f", OVER THE BUDGET BY {f.power(answer.over_uw)}"
    return text


def _outside_fields(answer: pb.Power) -> list[tuple[str, str | Text]]:
    fields: list[tuple[str, str | Text]] = []
    if answer.outside_uw:
        style = "bold red" if answer.over_uw else "yellow"
        fields.append(("outside", Text(outside(answer).removeprefix("outside the sum "), style)))
    if answer.unheard_node_ids:
        names = ", ".join(answer.unheard_node_ids[:5])
        fields.append(("never heard of", f"{names}: what they draw is not known"))
    return fields


def _budget(answer: pb.Power) -> dict[str, object]:
    names = (
        "budget_uw",
        "pending_budget_uw",
        "pending_deadline_s",
        "floor_uw",
        "committed_uw",
        "outside_uw",
        "outside_accepted_uw",
        "over_uw",
    )
    whole = as_dict(answer)
    return {name: whole[name] for name in names}


def _budget_fields(answer: pb.Power) -> list[tuple[str, str | Text]]:
    fields: list[tuple[str, str | Text]] = [
        ("budget", f.power(answer.budget_uw)),
        ("least possible", f"{f.power(answer.floor_uw)} (base power and floors of all nodes)"),
    ]
    if answer.pending_budget_uw:
        fields.append(("on its way", _pending(answer)))
    return fields + _outside_fields(answer)


def _pending(answer: pb.Power) -> str:
    """The lower budget on its way, by when it is kept, and what is committed until then."""
    by = f.clock(answer.pending_deadline_s)
    return (
        f"{f.power(answer.pending_budget_uw)}, kept by {by}; "
        f"{f.power(answer.committed_uw)} is committed now"
    )


def _power_sheet(answer: pb.Power) -> Table:
    bars = {
        name: Text.assemble(
            f"{f.power(value_uw):>10}  ",
            power_bar(value_uw, answer.budget_uw, _BAR_CELLS, style),
            f" {share(value_uw, answer.budget_uw)}",
        )
        for name, value_uw, style in (
            ("committed", answer.committed_uw, "cyan"),
            ("measured", answer.measured_uw, "green"),
        )
    }
    fields: list[tuple[str, str | Text]] = [
        ("budget", f"{f.power(answer.budget_uw):>10}"),
        *bars.items(),
        ("highest committed", f"{f.power(answer.committed_uw_peak):>10}"),
        ("highest measured", f"{f.power(answer.measured_uw_peak):>10}"),
        ("floor", f"{f.power(answer.floor_uw):>10}"),
        ("energy", f"{f.energy(answer.energy_uj):>10}"),
        ("policy", f"{answer.policy or f.NONE:>10}"),
    ]
    if answer.emulated_nodes:
        emulated = (
            f"{answer.emulated_nodes} of {answer.known_nodes} nodes: no power of theirs is real"
        )
        fields.append(("emulated", emulated))
    if answer.pending_budget_uw:
        fields.insert(1, ("going down to", _pending(answer)))
    if answer.levelled_jobs:
        fields.append(("by levels", _levels(answer)))
    return field_table(fields + _outside_fields(answer))


def _levels(answer: pb.Power) -> str:
    """What DRAM and GPUs hold beyond their standing caps for jobs that have levels of them."""
    parts = [
        f"{name} {w_from_uw(beyond_uw):+.1f} W"
        for name, beyond_uw in (("DRAM", answer.dram_beyond_uw), ("GPUs", answer.gpu_beyond_uw))
        if beyond_uw
    ]
    jobs = f"{answer.levelled_jobs} job{'s' if answer.levelled_jobs > 1 else ''}"
    return f"{', '.join(parts) or 'as they stand'} ({jobs})"


def share(value_uw: int, budget_uw: int) -> str:
    """A power in percent of the budget."""
    return f"{value_uw / budget_uw * 100:3.0f}%" if budget_uw else f.NONE
