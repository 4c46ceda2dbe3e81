"""Registry of all policies, each with its own description.

A new policy is one line in `MODULES` (docs/adding-a-policy.md). Lists and messages follow the order
of `MODULES`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wattfold.coordinator.policies.description import Description, PolicyVariant, Values

if TYPE_CHECKING:
    from wattfold.coordinator.core.model.plan import Policy

MODULES = (
    "parm.description",
    "fifo.description",
    "fifo.conservative_description",
    "fifo.pbs_description",
    "constraint.description",
    "constraint.cp_description",
    "fifo.easy_uniform_description",
    "slowdown_driven.description",
    "equipartition.description",
    "training.description",
    "training.edf_description",
)
"""Modules of this package with a ``DESCRIPTION``."""


def _description(module: str) -> Description[Any]:
    name = f"{__package__}.{module}"
    found = getattr(importlib.import_module(name), "DESCRIPTION", None)
    if not isinstance(found, Description):
        raise TypeError(f"{name} has no DESCRIPTION of its policies")
    return found


DESCRIPTIONS: tuple[Description[Any], ...] = tuple(_description(module) for module in MODULES)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredPolicy:
    """A policy: the variant and its family."""

    family: Description[Any]
    variant: PolicyVariant[Any]

    def service(self, values: Values) -> Policy:
        """Construct the policy for the service. Missing settings are at their defaults.

        Raises ValueError for a policy that is simulated on a pool only.
        """
        if self.variant.service is None:
            raise ValueError(
                f"policy {self.variant.name} runs only in simulations of a pool; the service "
                "cannot use it"
            )
        return self.variant.service(self.family.chosen(values))


def entries() -> Iterator[RegisteredPolicy]:
    """Yield all policies, in order."""
    for family in DESCRIPTIONS:
        for variant in family.variants:
            yield RegisteredPolicy(family=family, variant=variant)


def find(name: str) -> RegisteredPolicy | None:
    """Return the policy with this name (any of its names), or None."""
    return next((entry for entry in entries() if name in entry.variant.names), None)


def service_names() -> tuple[str, ...]:
    """Return the policy names that the configuration accepts, one name per policy."""
    return tuple(entry.variant.name for entry in entries() if entry.variant.service is not None)


def simulator_names() -> tuple[str, ...]:
    """Return the names of the policies in simulations."""
    return tuple(entry.variant.simulator_name for entry in entries())


def family(name: str) -> Description[Any] | None:
    """Return the family with this name, which is also the name of its table, or None."""
    return next((one for one in DESCRIPTIONS if one.name == name), None)
