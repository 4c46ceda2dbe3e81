"""Simulations that are the same: limits that kept nobody from lending.

A mate has a penalty below MAX_SLOWDOWN. Where no mate of a run came up to a lower limit, each of
its choices is among those that the lower one allows, and the least of them: that run is the same.
"""

from __future__ import annotations

from typing import cast

from wattfold.coordinator.simulation.experiments.samples import MissingError, Samples
from wattfold.coordinator.simulation.experiments.slowdown_driven.case import SlowdownCase
from wattfold.coordinator.simulation.sweep.case import Case, Values


class SharedSamples(Samples):
    """The values of cases, also of those that are the same simulation as a greater limit's."""

    def values(self, case: Case) -> Values:
        """Everything a case gave. Raises MissingError."""
        try:
            return super().values(case)
        except MissingError:
            shared = self._under_greater(cast("SlowdownCase", case))
            if shared is None:
                raise
            return shared

    def known(self, case: SlowdownCase) -> bool:
        """Whether there are values of a case."""
        try:
            self.values(case)
        except MissingError:
            return False
        return True

    def _under_greater(self, case: SlowdownCase) -> Values | None:
        for greater in case.greater():
            try:
                values = super().values(greater)
            except MissingError:
                continue
            if values["penalty"] < (case.limit or 0.0):
                return values
        return None
