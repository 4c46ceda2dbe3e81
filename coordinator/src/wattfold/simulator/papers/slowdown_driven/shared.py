"""Results shared between equal simulations, under limits that excluded no mate.

A mate has a penalty below MAX_SLOWDOWN. If no mate of a run reached a lower limit, each of its
choices is also allowed under the lower limit, and is the minimum there too. So the run under the
lower limit is the same.
"""

from __future__ import annotations

from typing import cast

from wattfold.simulator.papers.samples import MissingError, Samples
from wattfold.simulator.papers.slowdown_driven.case import SlowdownCase
from wattfold.simulator.sweep.case import Case, Values


class SharedSamples(Samples):
    """Values of cases, also of cases that equal the simulation under a higher limit."""

    def values(self, case: Case) -> Values:
        """Return all values of a case. Raises MissingError."""
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
