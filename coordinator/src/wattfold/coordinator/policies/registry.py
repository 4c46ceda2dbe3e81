"""All policies there are, each by its own description; the one list of them.

A new policy is one line of `MODULES` (docs/adding-a-policy.md). Their order is that of lists and of
messages.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wattfold.coordinator.policies.descriptions import Description, Values, Variant

if TYPE_CHECKING:
    from wattfold.coordinator.core.plan import Policy

MODULES = (
    "described.parm",
    "described.backfilling",
    "described.conservative",
    "described.pbs",
    "described.constraint",
    "described.constraint_cp",
    "described.easy_uniform",
    "described.slowdown_driven",
    "described.equipartition",
    "described.andreas",
    "described.edf",
)
"""Modules beside this one with a ``DESCRIPTION``."""


def _description(module: str) -> Description:
    name = f"{__package__}.{module}"
    found = getattr(importlib.import_module(name), "DESCRIPTION", None)
    if not isinstance(found, Description):
        raise TypeError(f"{name} has no DESCRIPTION of its policies")
    return found


DESCRIPTIONS: tuple[Description, ...] = tuple(_description(module) for module in MODULES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One policy: the variant, and the family it is of."""

    family: Description
    variant: Variant

    def service(self, values: Values) -> Policy:
        """The service's policy; settings that are not given are at their defaults.

        Raises ValueError for a policy that is simulated on a pool only.
        """
        if self.variant.service is None:
            raise ValueError(
                f"policy {self.variant.name} runs only in simulations of a pool; the service "
                "cannot use it"
            )
        return self.variant.service({**self.family.defaults(), **values})


def entries() -> Iterator[Entry]:
    """Every policy, in order."""
    for family in DESCRIPTIONS:
        for variant in family.variants:
            yield Entry(family=family, variant=variant)


def find(name: str) -> Entry | None:
    """A policy by any of its names; None if there is none."""
    return next((entry for entry in entries() if name in entry.variant.names), None)


def service_names() -> tuple[str, ...]:
    """What the configuration takes, one name a policy."""
    return tuple(entry.variant.name for entry in entries() if entry.variant.service is not None)


def simulator_names() -> tuple[str, ...]:
    """What simulations call the policies."""
    return tuple(entry.variant.simulator_name for entry in entries())


def family(name: str) -> Description | None:
    """A family by its name, that of its table; None if there is none."""
    return next((one for one in DESCRIPTIONS if one.name == name), None)
