"""`wattfold reproduce`: reruns of published evaluations, compared claim by claim.

These commands need no coordinator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import click

from wattfold.coordinator.cli.shared.lazy_group import LazyGroup


class _ReproduceGroup(LazyGroup):
    COMMANDS: ClassVar[Mapping[str, str]] = {
        "parm": "simulation.reproduction.reproduce_parm:parm",
        "slowdown-driven": "simulation.reproduction.reproduce_slowdown:slowdown_driven",
        "equipartition": "simulation.reproduction.reproduce_equipartition:equipartition",
        "andreas": "simulation.reproduction.reproduce_andreas:andreas",
        "constraint": "simulation.reproduction.reproduce_constraint:constraint",
    }


@click.group(cls=_ReproduceGroup)
def reproduce() -> None:
    """Rerun a published evaluation and check its claims."""
