"""`budget emergency`: limit the power at once, or show what that would do."""

from __future__ import annotations

from collections.abc import Sequence

import click

from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.parsed import Parsed
from wattfold.coordinator.cli.shared.parsing import parse_power_uw
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.coordinator.cli.shared.texts.tables import (
    PlainTable,
    Styled,
    add_row,
    flexible,
    left,
    plain_table,
    right,
)
from wattfold.v1 import coordinator_pb2 as pb

_SHOWN = 12
_DEEDS = {
    "caps": "caps are lowered",
    "suspend": "jobs are suspended",
    "end": "jobs are ended with their snapshots",
    "sleep": "nodes without jobs sleep",
}


def parse_emergency_limit(text: str) -> int | float:
    """Parse 40kW in microwatts (int), or 60% as a share (float). Raises ValueError."""
    if not text.strip().endswith("%"):
        return parse_power_uw(text)
    try:
        share = float(text.strip()[:-1]) / 100
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ValueError(f"not a share of the budget: {text!r}; expected for example 60%")
    return share


LIMIT = Parsed("limit", parse_emergency_limit)


@click.command("emergency")
@click.argument("limit", metavar="[WATTS|PERCENT]", required=False, type=LIMIT)
@click.option("--dry-run", is_flag=True, help="Show what would happen, and change nothing.")
@click.option("--end", "ends", is_flag=True, help="End the emergency.")
@session_command
def emergency(session: Session, limit: int | float | None, dry_run: bool, ends: bool) -> None:
    """Limit the power at once, also below the minimum.

    The limit may be below the minimum power of the nodes. It is in watts, or a percentage of the
    budget in force: 40% leaves 40 % of it. It is never refused. All caps are lowered as far as
    necessary, those of nodes with protected jobs last. If the minimum power of the nodes exceeds
    the limit, unprotected jobs are suspended, and no job starts. The table [emergency] of the
    coordinator's configuration protects jobs by queue, account or priority.

    The emergency lasts until `wattfold budget emergency --end`. Suspended jobs then run again. A
    second emergency replaces the limit of the first.

    \b
    wattfold budget emergency 40% --dry-run
    wattfold budget emergency 12kW
    """
    context = click.get_current_context()
    if ends == (limit is not None) or (ends and dry_run):
        raise click.UsageError("give a limit, such as 12kW or 40%, or only --end", context)
    with session.connect() as client:
        if ends:
            power = client.end_emergency().power
        else:
            assert limit is not None
            request = pb.BeginEmergencyRequest(dry_run=dry_run)
            if isinstance(limit, float):
                request.limit_share = limit
            else:
                request.limit_uw = limit
            answer = client.begin_emergency(request)
    if session.json:
        session.print_json(as_dict(power if ends else answer))
    elif ends:
        click.echo(f"The emergency is over. Budget {f.power(power.budget_uw)}.")
    else:
        _show(session, answer, dry_run)


def _show(session: Session, answer: pb.BeginEmergencyResponse, dry_run: bool) -> None:
    now = f"{f.power(answer.committed_uw)} is committed now"
    begins = "An emergency would limit" if dry_run else "An emergency limits"
    click.echo(f"{begins} the power to {f.power(answer.limit_uw)}; {now}.\n")
    session.print(_table(answer.steps))
    if answer.protected_job_ids:
        click.echo(f"\nProtected: {_named(answer.protected_job_ids)}.")
    if answer.silent_ns:
        within = f.duration(answer.silent_ns / 1e9)
        click.echo(f"\nSilent nodes keep their caps until their leases end, up to {within}.")
    if answer.short_uw:
        click.echo(
            f"\n{f.power(answer.short_uw)} above the limit stay committed: the minimum power of "
            "the nodes. Stopped jobs draw less than that.\nSwitch nodes off and remove them with "
            "`wattfold node forget --no-power` to free their power."
        )
    if answer.not_stored:
        click.echo(
            "wattfold: the emergency is in force, but it could not be stored: it does not survive "
            "a restart of the coordinator",
            err=True,
        )


def _table(steps: Sequence[pb.EmergencyStep]) -> PlainTable:
    table = plain_table(left("STEP"), right("WITHIN"), right("COMMITTED"), flexible("JOBS, NODES"))
    for step in steps:
        add_row(
            table,
            _DEEDS.get(step.name, step.name),
            f"{step.within_ns / 1e9:.1f} s",
            f.power(step.committed_uw),
            _named([*step.job_ids, *step.node_ids]) or f.NONE,
        )
    return table


def _named(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    rest = f" and {more} more" if more > 0 else ""
    return f"{', '.join(names[:_SHOWN])}{rest}"


def emergency_text(found: pb.Emergency) -> Styled:
    """Describe the emergency in force."""
    text = f"limit {f.power(found.limit_uw)} since {f.clock(found.since_s)}"
    if found.over_uw:
        text += f"; {f.power(found.over_uw)} above it are committed"
    if found.short_uw:
        text += f", {f.power(found.short_uw)} as the minimum of the nodes; no job starts"
    if found.suspended_jobs:
        jobs = "1 job" if found.suspended_jobs == 1 else f"{found.suspended_jobs} jobs"
        text += f"; {jobs} suspended"
    return Styled(text, "bold red")
