"""An integer program as sparse arrays, the input of GLPK.

The arrays are compiled from the Pyomo model (`pyomo_model`), the reference, or built here directly
from a problem, with the same rows and without loading Pyomo.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, vstack

from wattfold.coordinator.solvers.allocator.problem import AllocationProblem

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearArrays:
    """Maximise ``gain x`` subject to ``row_lower <= matrix x <= row_upper``, x binary."""

    gain: Floats
    matrix: csc_array
    """Matrix of rows by options, in the order of the problem's options."""
    row_lower: Floats
    row_upper: Floats

    def with_row(self, columns: NDArray[np.int64], at_most: float) -> LinearArrays:
        """Return the arrays with another row: the sum of these columns is at most ``at_most``."""
        row = np.zeros((1, self.gain.size))
        row[0, columns] = 1.0
        return LinearArrays(
            gain=self.gain,
            matrix=csc_array(vstack([self.matrix, csc_array(row)], format="csc")),
            row_lower=np.append(self.row_lower, -np.inf),
            row_upper=np.append(self.row_upper, at_most),
        )


def arrays_of(problem: AllocationProblem) -> LinearArrays:
    """Return Eq. 1-5 and the extra rows of a problem: per job with options, units, power, rows."""
    count = problem.option_count
    jobs, row_of = np.unique(problem.job_of, return_inverse=True)
    entries = [(row_of, np.arange(count), np.ones(count))]
    lower = np.where(problem.must_run[jobs], 1.0, -np.inf).tolist()
    upper = [1.0] * jobs.size
    for coefficients, limit in problem.limits():
        taken = np.flatnonzero(coefficients)
        row = np.full(taken.size, len(upper))
        entries.append((row, taken, coefficients[taken].astype(np.float64)))
        lower.append(-np.inf)
        upper.append(float(limit))
    rows, columns, data = (np.concatenate(part) for part in zip(*entries, strict=True))
    return LinearArrays(
        gain=problem.value.astype(np.float64),
        matrix=csc_array((data, (rows, columns)), shape=(len(upper), count)),
        row_lower=np.asarray(lower),
        row_upper=np.asarray(upper),
    )
