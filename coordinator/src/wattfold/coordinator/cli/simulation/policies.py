"""`wattfold policies`: the list of policies, and the description of one policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.shared.texts.tables import (
    add_row,
    field_table,
    left,
    plain_table,
    wrapped,
)
from wattfold.coordinator.cli.simulation.policy_settings import parse_policy

if TYPE_CHECKING:
    from wattfold.coordinator.policies import registry
    from wattfold.coordinator.policies.description import Description, PolicySetting

DEFAULT = "parm-wse"


@click.command()
@click.argument("name", required=False)
@session_command
def policies(session: Session, name: str | None) -> None:
    """List the policies, or show one policy with its settings.

    \b
    wattfold policies
    wattfold policies parm-wse
    """
    from wattfold.coordinator.policies import registry

    if name is None:
        _list(session)
        return
    family = registry.family(name)
    if family is None:
        try:
            entry = registry.find(parse_policy(name))
        except ValueError as error:
            raise BadRequestError(str(error)) from None
        assert entry is not None, "it was found by this name"
        family = entry.family
    _show(session, family)


def _list(session: Session) -> None:
    from wattfold.coordinator.policies import registry

    if session.json:
        session.print_json({"policies": [_entry_document(entry) for entry in registry.entries()]})
        return
    table = plain_table(left("NAME"), left("ALIAS"), left("RUNS IN"), wrapped("DESCRIPTION"))
    for entry in registry.entries():
        variant = entry.variant
        add_row(
            table, variant.name, ", ".join(variant.names[1:]) or "-", _where(entry), variant.title
        )
    session.print(table)


def _show(session: Session, family: Description[Any]) -> None:
    from wattfold.coordinator.policies import registry

    own = [entry for entry in registry.entries() if entry.family is family]
    if session.json:
        session.print_json(
            {
                "family": family.name,
                "title": family.title,
                "audience": family.audience,
                "fallback": family.fallback,
                "citation": family.citation,
                "policies": [_entry_document(entry) for entry in own],
                "settings": [_setting_document(one) for one in family.settings],
            }
        )
        return
    notes = dict.fromkeys(entry.variant.by_name for entry in own if entry.variant.by_name)
    session.print(
        field_table(
            [
                (family.name, family.title),
                ("for", family.audience),
                ("source", family.citation),
                ("fallback", f"{family.fallback} (if a round fails or is late)"),
                *(("simulations", note) for note in notes),
            ]
        )
    )
    click.echo()
    table = plain_table(left("POLICY"), left("ALIAS"), left("RUNS IN"), wrapped("DESCRIPTION"))
    for entry in own:
        names = entry.variant.names
        add_row(table, names[0], ", ".join(names[1:]) or "-", _where(entry), entry.variant.title)
    session.print(table)
    if not family.settings:
        return
    click.echo()
    session.print(
        field_table([(f"{family.name}.{one.key}", _setting_text(one)) for one in family.settings])
    )


def _setting_text(one: PolicySetting) -> str:
    from wattfold.coordinator.policies.description import SettingScope

    default = one.default if isinstance(one.default, str) else f"{one.default:g}"
    unit = f" {one.unit}" if one.unit else ""
    values = f" ({one.range_text})" if one.range_text else ""
    place = (
        "" if len(one.places) == len(SettingScope) else f" Used in the {one.places[0].value} only."
    )
    return f"{one.help.rstrip('.')}. Default: {default}{unit}{values}.{place}"


def _where(entry: registry.RegisteredPolicy) -> str:
    return "simulator" if entry.variant.service is None else "service, simulator"


def _entry_document(entry: registry.RegisteredPolicy) -> dict[str, Any]:
    variant = entry.variant
    return {
        "name": variant.name,
        "aliases": list(variant.names[1:]),
        "family": entry.family.name,
        "title": variant.title,
        "service": variant.service is not None,
        "simulator": True,
        "by_name": variant.by_name or None,
        "default": variant.name == DEFAULT,
    }


def _setting_document(one: PolicySetting) -> dict[str, Any]:
    number = one.kind is not str
    return {
        "key": one.key,
        "type": {float: "number", int: "whole number", str: "text"}[one.kind],
        "default": one.default,
        "low": one.low if number else None,
        "high": one.high if number else None,
        "unit": one.unit or None,
        "choices": list(one.choices) or None,
        "places": [place.value for place in one.places],
        "help": one.help,
    }
