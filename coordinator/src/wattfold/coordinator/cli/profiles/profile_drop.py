"""`profile delete`, `profile reset`: what is known of an application is forgotten."""

from __future__ import annotations

import click

from wattfold.coordinator.cli.shared.message_json import as_dict
from wattfold.coordinator.cli.shared.session import Session, session_command
from wattfold.v1 import coordinator_pb2 as pb


@click.command()
@click.argument("app", metavar="NAME")
@click.option("--certificate", is_flag=True, help="Its certificate as well.")
@session_command
def delete(session: Session, app: str, certificate: bool) -> None:
    """Forget the profile of an application, measured or learnt.

    Jobs of it are planned with the estimate of their user again, until their progress says more.
    """
    _drop(session, app, learnt_only=False, certificate=certificate)


@click.command()
@click.argument("app", metavar="NAME")
@session_command
def reset(session: Session, app: str) -> None:
    """Forget what was learnt of an application from its jobs; a measured profile is refused.

    The next jobs start from what is assumed of an unknown program.
    """
    _drop(session, app, learnt_only=True, certificate=False)


def _drop(session: Session, app: str, *, learnt_only: bool, certificate: bool) -> None:
    with session.connect() as client:
        answer = client.drop_profile(app, learnt_only=learnt_only, certificate=certificate)
    if session.json:
        session.print_json(as_dict(answer))
        return
    click.echo(f"Forgotten of {app!r}: {', '.join(_parts(answer))}.")


def _parts(answer: pb.DropProfileResponse) -> list[str]:
    models = [
        "the times of its epochs" if model == "epochs" else f"the profile in {model}"
        for model in answer.models
    ]
    costs = ["what changes of its size cost"] if answer.resize_costs else []
    return models + costs + (["its certificate"] if answer.certificate else [])
