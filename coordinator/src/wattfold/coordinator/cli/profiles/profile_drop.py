"""`profile delete` and `profile reset`: delete stored data of an application."""

from __future__ import annotations

import click

from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.v1 import coordinator_pb2 as pb


@click.command()
@click.argument("app", metavar="NAME")
@click.option(
    "--certificate", is_flag=True, help="Delete the certificate of the application as well."
)
@session_command
def delete(session: Session, app: str, certificate: bool) -> None:
    """Delete the profile of an application, measured or learnt.

    Policies then plan its jobs with the estimates of users, until their progress gives better data.
    """
    _drop(session, app, learnt_only=False, certificate=certificate)


@click.command()
@click.argument("app", metavar="NAME")
@session_command
def reset(session: Session, app: str) -> None:
    """Delete what Wattfold has learnt about an application.

    The next jobs start from the assumptions for an unknown program. A measured profile is refused.
    """
    _drop(session, app, learnt_only=True, certificate=False)


def _drop(session: Session, app: str, *, learnt_only: bool, certificate: bool) -> None:
    with session.connect() as client:
        answer = client.drop_profile(app, learnt_only=learnt_only, certificate=certificate)
    if session.json:
        session.print_json(as_dict(answer))
        return
    click.echo(f"Deleted for {app!r}: {', '.join(_parts(answer))}.")


def _parts(answer: pb.DropProfileResponse) -> list[str]:
    models = [
        "the epoch times" if model == "epochs" else f"the profile in {model}"
        for model in answer.models
    ]
    costs = ["the resize costs"] if answer.resize_costs else []
    return models + costs + (["the certificate"] if answer.certificate else [])
