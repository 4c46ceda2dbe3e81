"""`profiles`: the stored models of applications."""

from __future__ import annotations

from datetime import datetime

import click

from wattfold.coordinator.cli.profiles.profile_tables import (
    cost_table,
    epoch_tables,
    misfit,
    parameter_sheet,
    point_table,
)
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import NotFoundError
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.coordinator.cli.shared.texts.tables import (
    PlainTable,
    add_row,
    flexible,
    left,
    plain_table,
    right,
)
from wattfold.v1 import coordinator_pb2 as pb


@click.command()
@click.argument("app", metavar="[NAME]", required=False, default="")
@session_command
def profiles(session: Session, app: str) -> None:
    """List the stored profiles, or show one profile."""
    with session.connect() as client:
        answer = client.list_profiles(app)
    if app and not answer.profiles:
        raise NotFoundError(
            f"no profile of {app!r}; create it with `wattfold profile --app {app} -- COMMAND`"
        )
    if session.json:
        session.print_json(as_dict(answer.profiles[0] if app else answer))
    elif app:
        _show(session, answer.profiles[0])
    elif answer.profiles:
        session.print(_list(list(answer.profiles)))
    else:
        click.echo("No profiles; `wattfold profile -- COMMAND` creates one.")


def _show(session: Session, profile: pb.Profile) -> None:
    from wattfold.coordinator.cli.shared.connection import certificates

    certified = certificates.of_profile(profile)
    if has_model(profile):
        session.print(parameter_sheet(profile))
        session.print(point_table(profile))
        warning = misfit(profile)
        if warning:
            click.echo(f"warning: {warning}", err=True)
    for table in epoch_tables(profile):
        session.print(table)
    told = has_model(profile) or bool(profile.epoch_times)
    if profile.resize_costs:
        if told:
            click.echo()
        session.print(cost_table(profile))
    if certified is not None:
        if told or profile.resize_costs:
            click.echo()
        session.print(certificates.evidence_sheet(certified))


def has_model(profile: pb.Profile) -> bool:
    """Whether its run times are known; a profile may lack them."""
    return profile.t1_s > 0


def _list(stored: list[pb.Profile]) -> PlainTable:
    from wattfold.coordinator.cli.shared.connection import certificates

    resized = any(profile.resize_costs for profile in stored)
    costs = (flexible("RESIZES"),) if resized else ()
    table = plain_table(
        flexible("APP"),
        left("UNIT"),
        right("T1"),
        right("A"),
        right("SIGMA"),
        right("BETA"),
        right("P W"),
        right("ERROR"),
        right("POINTS"),
        *costs,
        left("CERTIFIED"),
        left("SOURCE"),
        left("UPDATED"),
    )
    for profile in stored:
        certified = certificates.of_profile(profile)
        mode = certified.mode if certified else f.NONE
        updated = f.NONE
        if profile.updated_at_s:
            updated = datetime.fromtimestamp(profile.updated_at_s).astimezone().strftime("%Y-%m-%d")
        source = profile.source or f.NONE
        more = (_resizes(profile),) if resized else ()
        add_row(table, profile.app, *_model_cells(profile), *more, mode, source, updated)
    return table


def _resizes(profile: pb.Profile) -> str:
    """Return the pause of each used mode."""
    costs = {f.resize_way(cost.mode): cost for cost in profile.resize_costs}
    stalls = [f"{way} {f.short_time(cost.stalled_ns)}" for way, cost in costs.items()]
    return ", ".join(stalls) or f.NONE


def _model_cells(profile: pb.Profile) -> list[str]:
    if not has_model(profile):
        return [f.NONE] * 8
    return [
        "nodes" if profile.unit == pb.SIZE_UNIT_NODES else "cores",
        f.duration(profile.t1_s),
        f"{profile.average_parallelism:.1f}",
        f"{profile.sigma:.2f}",
        f"{profile.beta:.2f}",
        f"{profile.p_low_w:.0f}-{profile.p_high_w:.0f}",
        f"{profile.rms_error * 100:.1f}%",
        str(len(profile.points)),
    ]
