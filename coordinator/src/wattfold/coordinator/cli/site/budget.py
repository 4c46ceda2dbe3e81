"""`budget`: the current and announced power budgets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click
from click.shell_completion import CompletionItem

from wattfold.contract.local_time import moment
from wattfold.coordinator.cli.shared.connection.address import checked_address, default_address
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.coordinator.cli.shared.parsing import DURATION_NS, POWER_UW, TIME_S
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.json_documents import numbered
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.coordinator.cli.shared.texts.tables import (
    Cell,
    PlainTable,
    add_row,
    field_table,
    flexible,
    left,
    plain_table,
    right,
)
from wattfold.coordinator.cli.site.emergency import emergency, emergency_text
from wattfold.coordinator.cli.site.power import (
    announced_fields,
    announced_text,
    excess,
    is_late,
    outside,
    outside_fields,
    pending,
)
from wattfold.coordinator.cli.site.schedules.command import schedule
from wattfold.v1 import coordinator_pb2 as pb


@click.group()
def budget() -> None:
    """Show, change or announce the power budget."""


@budget.command("show")
@session_command
def budget_show(session: Session) -> None:
    """Show the budget, its minimum and its future changes."""
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
    help="Time within which committed power must be below a lower budget, such as 30s. Default: "
    "the deadline of the coordinator.",
)
@click.option(
    "--accept-outside",
    is_flag=True,
    help="Accept the power of nodes outside the ledger in addition to the budget.",
)
@click.option(
    "--at",
    "at_s",
    type=TIME_S,
    metavar="TIME|+DURATION",
    help="Time from which the budget applies, such as 2027-01-31T18:00 or +2h. Default: now.",
)
@session_command
def budget_set(
    session: Session,
    budget_uw: int,
    deadline_ns: int | None,
    accept_outside: bool,
    at_s: float | None,
) -> None:
    """Change the budget, or announce a change.

    For example: wattfold budget set 1.2kW

    A higher budget applies at once. A lower budget applies as soon as the nodes have confirmed
    lower caps. A budget without room for the nodes outside the ledger is refused unless you give
    --accept-outside.

    --at announces a budget for a future time. A lower budget is met at that time, because caps are
    lowered some seconds earlier. Announced budgets stay when you change the current budget.
    """
    if at_s is not None:
        if deadline_ns is not None or accept_outside:
            text = "--deadline and --accept-outside cannot be combined with --at; omit them"
            raise click.UsageError(text, click.get_current_context())
        _announce(session, budget_uw, at_s)
        return
    with session.connect() as client:
        answer = client.set_budget(budget_uw, deadline_ns or 0, accept_outside).power
    if session.json:
        session.print_json(_budget(answer))
        return
    if answer.pending_budget_uw:
        click.echo(f"Budget is lowered to {pending(answer)}.")
    else:
        click.echo(f"Budget {f.power(answer.budget_uw)}.")
    if answer.outside_uw:
        click.echo(f"Also {outside(answer)}.")
    if is_late(answer):
        click.echo(f"The sum is {excess(answer)}.")
    for one in answer.announced:
        click.echo(f"Still announced: {announced_text(one)}.")


def _announce(session: Session, budget_uw: int, at_s: float) -> None:
    with session.connect() as client:
        made = client.announce_budget(budget_uw, at_s)
        policy = client.power().policy
    if session.json:
        session.print_json({**as_dict(made), "planned_with": looks_ahead(policy)})
        return
    click.echo(f"Announced as {made.number}: {announced_text(made)}.")
    if not looks_ahead(policy):
        click.echo(f"{policy} does not plan for it: jobs are slowed then, or wait.")


def looks_ahead(policy: str) -> bool:
    """Whether a policy, by its name, plans with announced budgets."""
    from wattfold.coordinator.policies import registry

    entry = registry.find(policy)
    return entry is not None and entry.variant.looks_ahead


@budget.command("list")
@session_command
def budget_list(session: Session) -> None:
    """List the announced budgets in order of time."""
    with session.connect() as client:
        announced = client.power(all_announced=True).announced
    if session.json:
        session.print_json(
            numbered("budget-list", {"announced": [as_dict(one) for one in announced]})
        )
    elif announced:
        session.print(_table(announced))
    else:
        click.echo("No budget is announced.")


def _announced_now(context: click.Context) -> Sequence[pb.AnnouncedBudget]:
    """Return the announced budgets for a completion; none if no coordinator answers."""
    # No command runs while a line is completed, so there is no session yet.
    given = context.find_root().params
    address = given.get("address") or checked_address(default_address())
    try:
        session = Session(
            address=address, token_file=given.get("token_file"), json=False, color=False
        )
        with session.connect() as client:
            return client.power(all_announced=True).announced
    except CliError:
        return ()


def complete_announced(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return numbers of announced budgets; empty if no coordinator answers."""
    del parameter
    known = {str(one.number): announced_text(one).plain for one in _announced_now(context)}
    return [CompletionItem(n, help=text) for n, text in known.items() if n.startswith(incomplete)]


def complete_schedules(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return names of schedules with announced budgets; empty if no coordinator answers."""
    del parameter
    names = sorted({one.schedule for one in _announced_now(context)} - {""})
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@budget.command("cancel")
@click.argument(
    "numbers",
    metavar="[NUMBER]...",
    nargs=-1,
    type=click.IntRange(1, 2**32 - 1),
    shell_complete=complete_announced,
)
@click.option(
    "--schedule",
    "schedules",
    metavar="NAME",
    multiple=True,
    shell_complete=complete_schedules,
    help="Cancel all announced budgets of a schedule.",
)
@session_command
def budget_cancel(session: Session, numbers: Sequence[int], schedules: Sequence[str]) -> None:
    """Cancel announced budgets.

    NUMBER is the number that `wattfold budget list` shows. An announced budget that is already in
    force cannot be cancelled; change it with `wattfold budget set`.
    """
    if not (numbers or schedules):
        text = "give numbers of announced budgets, or --schedule NAME"
        raise click.UsageError(text, click.get_current_context())
    done: list[pb.AnnouncedBudget] = []
    with session.connect() as client:
        for number in dict.fromkeys(numbers):
            done.append(client.cancel_budget(number))
            if not session.json:
                click.echo(f"Cancelled {number}: {announced_text(done[-1])}.")
        for name in dict.fromkeys(schedules):
            gone = client.schedule_budgets(pb.ScheduleBudgetsRequest(name=name)).cancelled
            done += gone
            if not session.json:
                click.echo(f"Cancelled {len(gone)} announced budgets of schedule {name}.")
    if session.json:
        session.print_json({"cancelled": [as_dict(one) for one in done]})


budget.add_command(schedule)
budget.add_command(emergency)


def _table(announced: Iterable[pb.AnnouncedBudget]) -> PlainTable:
    table = plain_table(
        right("NUMBER"),
        left("FROM"),
        right("BUDGET"),
        left("CAPS FALL"),
        left("SCHEDULE"),
        flexible("OBSTACLE"),
    )
    for one in announced:
        down = f.clock(one.from_s) if one.from_s < one.at_s else f.NONE
        add_row(
            table,
            str(one.number),
            moment(one.at_s),
            f.power(one.budget_uw),
            down,
            one.schedule or f.NONE,
            one.obstacle or f.NONE,
        )
    return table


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
        "announced",
        "emergency",
    )
    whole = as_dict(answer)
    return {name: whole[name] for name in names if name in whole}


def _budget_fields(answer: pb.Power) -> list[tuple[str, Cell]]:
    fields: list[tuple[str, Cell]] = [
        ("budget", f.power(answer.budget_uw)),
        ("minimum", f"{f.power(answer.floor_uw)} (base power and floors of all nodes)"),
    ]
    if answer.pending_budget_uw:
        fields.append(("pending", pending(answer)))
    if answer.HasField("emergency"):
        fields.append(("emergency", emergency_text(answer.emergency)))
    return fields + announced_fields(answer) + outside_fields(answer)
