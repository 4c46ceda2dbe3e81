"""`budget schedule`: announce all budgets of a file at once, or show what that would change."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wattfold.contract.ids import valid_name
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import BadRequestError, CliError
from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.coordinator.cli.shared.parsed import Parsed
from wattfold.coordinator.cli.shared.parsing import POWER_UW
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.site.schedules.calendar_rules import read_calendar
from wattfold.coordinator.cli.site.schedules.series import Above, parse_above, read_series
from wattfold.coordinator.cli.site.schedules.steps import Course, ScheduledStep, course

if TYPE_CHECKING:
    from wattfold.v1 import coordinator_pb2 as pb

DAYS = 7
DAYS_MAX = 3660
_REASONS = 3
"""Maximum number of different reasons that are written in full."""


@click.command("schedule")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--name",
    metavar="NAME",
    help="Name of the schedule. Its announced budgets are replaced. Default: the name of FILE "
    "without its ending.",
)
@click.option(
    "--days",
    type=click.IntRange(1, DAYS_MAX),
    metavar="N",
    help=f"Expand a calendar N days ahead. Default: {DAYS}.",
)
@click.option(
    "--above",
    multiple=True,
    type=Parsed("value=watts", parse_above),
    metavar="VALUE=WATTS",
    help="Budget for prices or carbon intensities above VALUE, such as 120=60kW. Repeat it for "
    "several steps; the highest VALUE that is exceeded counts.",
)
@click.option(
    "--otherwise",
    "otherwise_uw",
    type=POWER_UW,
    metavar="WATTS",
    help="Budget for values that are above no VALUE.",
)
@click.option("--preview", is_flag=True, help="Show what would change, and change nothing.")
@session_command
def schedule(
    session: Session,
    file: Path,
    name: str | None,
    days: int | None,
    above: tuple[Above, ...],
    otherwise_uw: int | None,
    preview: bool,
) -> None:
    """Announce the budgets of a file.

    For example: wattfold budget schedule contract.csv --preview

    FILE is one of these:

    \b
    - CSV with the columns time and budget_w or budget_kw
    - CSV with the columns time and eur_per_mwh or g_per_kwh, and --above
    - TOML with a calendar: default_budget_w or default_budget_kw, and
      [[rule]] tables with days or dates, from, to, budget_w or budget_kw

    Times are ISO 8601, local without an offset. Each budget applies until the next. Times that are
    over are left out, and equal neighbours are one budget.

    All budgets are announced, or none. Announced budgets of the same schedule are replaced, all
    others stay. --preview shows the changes, the budgets that would be refused and the minimum of
    the nodes. Its exit code is 1 if the schedule would be refused. Cancel a schedule with
    `wattfold budget cancel --schedule NAME`.
    """
    chosen = _name(name, file)
    now_s = time.time()
    seen = course(_steps(file, now_s, days, above, otherwise_uw or 0), now_s)
    if not seen.coming:
        raise CliError(
            f"{file} has no change of the budget after now, so nothing is changed; cancel a "
            f"schedule with `wattfold budget cancel --schedule {chosen}`"
        )
    with session.connect() as client:
        answer = client.schedule_budgets(_request(chosen, seen.coming, preview))
        power = client.power(all_announced=True)
    refused = preview and bool(answer.refusal or answer.refused)
    if session.json:
        session.print_json(_document(chosen, seen, answer, power, preview))
    else:
        if preview:
            _print_preview(session, chosen, answer, power, now_s)
        else:
            click.echo(_done(chosen, answer))
        _print_notes(seen, power)
    if refused:
        click.get_current_context().exit(ExitCode.REFUSED)


def _name(name: str | None, file: Path) -> str:
    found = file.stem if name is None else name
    if not valid_name(found):
        raise BadRequestError(
            f"{found!r} is no name of a schedule: give 1 to 63 of A-Z a-z 0-9 . _ - with --name"
        )
    return found


def _steps(
    file: Path, now_s: float, days: int | None, above: Sequence[Above], otherwise_uw: int
) -> list[ScheduledStep]:
    if file.suffix.lower() != ".toml":
        if days is not None:
            raise BadRequestError("--days is for calendars in TOML; omit it")
        return read_series(file, above, otherwise_uw)
    if above or otherwise_uw:
        raise BadRequestError("--above and --otherwise are for prices in CSV; omit them")
    return read_calendar(file).steps(now_s, days or DAYS)


def _request(
    name: str, coming: Sequence[ScheduledStep], dry_run: bool
) -> pb.ScheduleBudgetsRequest:
    from wattfold.v1 import coordinator_pb2 as pb

    budgets = [pb.ScheduledBudget(at_s=step.at_s, budget_uw=step.budget_uw) for step in coming]
    return pb.ScheduleBudgetsRequest(name=name, budgets=budgets, dry_run=dry_run)


def _done(name: str, answer: pb.ScheduleBudgetsResponse) -> str:
    return (
        f"Schedule {name}: announced {len(answer.announced)}, kept {len(answer.kept)}, "
        f"cancelled {len(answer.cancelled)}."
    )


def _print_preview(
    session: Session,
    name: str,
    answer: pb.ScheduleBudgetsResponse,
    power: pb.Power,
    now_s: float,
) -> None:
    from wattfold.coordinator.cli.site.schedules import preview as p

    found = p.rows(answer)
    shown = p.chosen(found)
    console = session.console()
    if console.is_terminal and found:
        levels = p.levels(power, answer, name, now_s)
        for line in p.budget_graph(levels, answer.minimum_uw, console.width):
            session.print(line)
    if shown:
        session.print(p.preview_table(shown))
    if len(found) > len(shown):
        click.echo(f"{len(found) - len(shown)} more are not shown; --json has all of them.")
    click.echo(
        f"Schedule {name}: {len(answer.announced)} to announce, {len(answer.kept)} to keep, "
        f"{len(answer.cancelled)} to cancel, {len(answer.refused)} refused. "
        f"The nodes need at least {f.power(answer.minimum_uw)}."
    )
    if answer.refusal or answer.refused:
        reason = answer.refusal or "one refused budget refuses all"
        click.echo(f"The schedule would be refused: {reason}.")
        # The table may cut them, and many budgets have the same reason.
        for obstacle in list(dict.fromkeys(one.obstacle for one in answer.refused))[:_REASONS]:
            click.echo(f"- {obstacle}")


def _print_notes(seen: Course, power: pb.Power) -> None:
    for step in seen.coming:
        if step.note:
            click.echo(f"{step.note}.")
    if seen.now_uw and seen.now_uw != power.budget_uw:
        click.echo(
            f"The schedule has {f.power(seen.now_uw)} for now, and the budget is "
            f"{f.power(power.budget_uw)}: set it with `wattfold budget set "
            f"{seen.now_uw / 1e6:.15g}W`."
        )


def _document(
    name: str, seen: Course, answer: pb.ScheduleBudgetsResponse, power: pb.Power, preview: bool
) -> dict[str, object]:
    from wattfold.coordinator.cli.shared.texts.message_json import as_dict

    return {
        "name": name,
        "preview": preview,
        **as_dict(answer),
        "passed": seen.passed,
        "scheduled_now_uw": seen.now_uw,
        "budget_uw": power.budget_uw,
        "notes": [step.note for step in seen.coming if step.note],
    }
