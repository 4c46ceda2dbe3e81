"""Rules on the meaning of the numbers of a log, with record and repair of violations.

All rules on size and time examine the same rows, so their counts are facts of the file: a row
without a size and with a run time of zero counts under both. The rule on order examines the rows
that all other rules leave.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from wattfold.simulator.workloads.errors import LogError
from wattfold.simulator.workloads.odd_rows import (
    FaultKind,
    OddRowPolicy,
    OddRowReport,
    RowOutcome,
    Treatment,
)
from wattfold.simulator.workloads.swf_lines import RawRows
from wattfold.simulator.workloads.workload import (
    COLUMNS,
    INT_COLUMNS,
    MISSING,
    Floats,
    Ints,
    Mask,
)

_ID, _SUBMIT, _WAIT, _RUN, _PROCS = range(5)
_REQUESTED_PROCS, _REQUESTED, _STATUS = 7, 8, 10
_PARTS = (2, 3, 4)
_INTEGER_FIELDS = [index for index, name in enumerate(COLUMNS) if name in INT_COLUMNS]
_RUN_OF_ZERO_S = 1.0


class RowRules:
    """Row rules for one file, applied in the order of `FaultKind`."""

    def __init__(
        self, path: Path, rows: RawRows, policy: OddRowPolicy, report: OddRowReport
    ) -> None:
        self.values = rows.values
        self.lines = rows.lines
        self.array_ids = rows.array_ids
        self._path = path
        self._policy = policy
        self._report = report
        self._gone = np.zeros(len(rows.lines), dtype=np.bool_)

    def apply(self) -> None:
        """Leave the rows of valid jobs in `values`, `lines` and `array_ids`. Raises LogError."""
        self._fractions()
        self._negative_values()
        self._negative_submits()
        self._parts()
        self._drop_gone()
        self._array_elements()
        self._repeated_ids()
        self._sizes()
        self._runs()
        self._overruns()
        self._drop_gone()
        self._order()
        self._drop_gone()
        if self._policy.treatment(FaultKind.OUT_OF_ORDER) is Treatment.REPAIR:
            submits = self._column(_SUBMIT)
            if np.any(submits[1:] < submits[:-1]):
                self._keep(np.argsort(submits, kind="stable"))

    def _treat(
        self,
        rule: FaultKind,
        odd: Mask,
        field: int,
        new: float | Floats | None,
        lost: Mask | None = None,
    ) -> None:
        """Record the rows of a mask and repair a field, or drop the rows.

        ``new`` is the new value of the field, for all rows or a single value; None leaves it
        unchanged. ``lost`` marks rows that cannot be repaired.
        """
        if not odd.any():
            return
        treatment = self._policy.treatment(rule)
        found = np.flatnonzero(odd)
        if treatment is Treatment.FAIL:
            line, value = int(self.lines[found[0]]), self.values[found[0], field]
            raise LogError(self._path, line, f"{rule.value}: field {field + 1} is {_text(value)}")
        dropped = np.zeros_like(odd)
        if treatment is Treatment.SKIP:
            dropped = odd
        elif treatment is Treatment.REPAIR and lost is not None:
            dropped = odd & lost
        mended = RowOutcome.REPAIRED if treatment is Treatment.REPAIR else RowOutcome.KEPT
        for index in found:
            outcome = RowOutcome.DROPPED if dropped[index] else mended
            value = _text(self.values[index, field])
            self._report.add(rule, outcome, int(self.lines[index]), field + 1, value)
        if treatment is Treatment.REPAIR and new is not None:
            mend = odd & ~dropped
            self.values[mend, field] = new[mend] if isinstance(new, np.ndarray) else new
        self._gone |= dropped

    def _drop_gone(self) -> None:
        if self._gone.any():
            self._keep(~self._gone)

    def _keep(self, which: Mask | Ints) -> None:
        self.values = self.values[which]
        self.lines = self.lines[which]
        self.array_ids = self.array_ids[which]
        self._gone = np.zeros(len(self.lines), dtype=np.bool_)

    def _column(self, field: int) -> Floats:
        column: Floats = self.values[:, field]
        return column

    def _fractions(self) -> None:
        for field in _INTEGER_FIELDS:
            up = np.ceil(self._column(field))
            self._treat(FaultKind.NOT_WHOLE, self._column(field) != up, field, up)

    def _negative_values(self) -> None:
        for field in range(len(COLUMNS)):
            # Negative run times and submit times have their own rules.
            if field in (_SUBMIT, _RUN):
                continue
            column = self._column(field)
            odd = (column < 0) & (column != MISSING)
            if field == _ID:
                odd = column < 0
                self._treat(FaultKind.NEGATIVE_VALUE, odd, field, None, lost=odd)
            else:
                self._treat(FaultKind.NEGATIVE_VALUE, odd, field, float(MISSING))

    def _negative_submits(self) -> None:
        self._treat(FaultKind.NEGATIVE_SUBMIT, self._column(_SUBMIT) < 0, _SUBMIT, 0.0)

    def _parts(self) -> None:
        part = np.isin(self._column(_STATUS), _PARTS)
        if part.any():
            wholes = self._column(_ID)[~part]
            odd = part & np.isin(self._column(_ID), wholes)
            self._treat(FaultKind.PARTIAL_LINE, odd, _STATUS, None, lost=odd)

    def _array_elements(self) -> None:
        elements = self.array_ids != MISSING
        self._renumber(elements)

    def _repeated_ids(self) -> None:
        ids = self._column(_ID)
        _, firsts = np.unique(ids, return_index=True)
        odd = np.ones(len(ids), dtype=np.bool_)
        odd[firsts] = False
        if odd.any():
            self._treat(FaultKind.REPEATED_ID, odd, _ID, self._fresh_ids(odd))

    def _renumber(self, which: Mask) -> None:
        if which.any():
            self.values[which, _ID] = self._fresh_ids(which)[which]

    def _fresh_ids(self, which: Mask) -> Floats:
        """Return IDs above all in the file for the rows of a mask, in their order."""
        top = max(self._column(_ID).max(), self.array_ids.max())
        return np.asarray(top + np.cumsum(which), dtype=np.float64)

    def _sizes(self) -> None:
        requested = self._column(_REQUESTED_PROCS)
        self._treat(
            FaultKind.NO_SIZE, self._column(_PROCS) <= 0, _PROCS, requested, lost=requested <= 0
        )

    def _runs(self) -> None:
        never = self._column(_RUN) < 0
        self._treat(FaultKind.NO_RUN, never, _RUN, None, lost=never)
        self._treat(FaultKind.ZERO_RUN, self._column(_RUN) == 0, _RUN, _RUN_OF_ZERO_S)

    def _overruns(self) -> None:
        requested = self._column(_REQUESTED)
        odd = (requested > 0) & (self._column(_RUN) > requested)
        self._treat(FaultKind.RUN_OVER_REQUESTED, odd, _RUN, requested)

    def _order(self) -> None:
        submits = self._column(_SUBMIT)
        odd = submits < np.maximum.accumulate(submits)
        self._treat(FaultKind.OUT_OF_ORDER, odd, _SUBMIT, None)


def _text(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
