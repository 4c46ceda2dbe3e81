"""PARM's ILP (SC14, Eq. 1-6) as a Pyomo model, and its compilation to arrays.

Readers can compare the model with the paper. Its expressions are coefficient lists instead of sums
of products: Pyomo then builds and compiles 9,600 binaries in a few hundredths of a second instead
of seconds. Pyomo keeps global state and is not thread-safe: use it in one thread of one process.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo
from numpy.typing import NDArray
from pyomo.core.expr import LinearExpression
from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler
from scipy.sparse import csc_array

from wattfold.coordinator.solvers.allocator.linear_arrays import LinearArrays
from wattfold.coordinator.solvers.allocator.problem import AllocationProblem

_AT_LEAST, _EQUAL = -1, 0
"""Bound types of Pyomo's mixed standard form; 1 is at most."""


def build_model(problem: AllocationProblem) -> pyo.ConcreteModel:
    """Return the readable model of a problem. Options are numbered as in the problem."""
    model = pyo.ConcreteModel()
    model.x = pyo.Var(range(problem.option_count), domain=pyo.Binary)
    x = list(model.x.values())
    starts = problem.starts().tolist()

    # (1) the sum of weighted power-aware speedups
    model.speedup = pyo.Objective(expr=_dot(problem.value, x), sense=pyo.maximize)

    # (2) at most one option for a pending job, (3) exactly one for a running job.
    # (6) a job that keeps its size has no option of another size.
    def one_option(_model: pyo.ConcreteModel, job: int) -> Any:
        options = x[starts[job] : starts[job + 1]]
        if not options and not problem.must_run[job]:
            return pyo.Constraint.Skip
        chosen = _dot(np.ones(len(options)), options)
        return chosen == 1 if problem.must_run[job] else chosen <= 1

    model.one_option = pyo.Constraint(range(problem.job_count), rule=one_option)

    # (4) units, (5) power
    model.units = pyo.Constraint(expr=_dot(problem.units, x) <= problem.units_max)
    model.power = pyo.Constraint(expr=_dot(problem.power_uw, x) <= problem.power_uw_max)

    # Further capacities, such as the cores of one node.
    def capacity(_model: pyo.ConcreteModel, index: int) -> Any:
        row = problem.rows[index]
        options = [x[option] for option in row.option_indices.tolist()]
        return _dot(row.coefficients, options) <= row.limit if options else pyo.Constraint.Skip

    model.capacity = pyo.Constraint(range(len(problem.rows)), rule=capacity)
    return model


def _dot(coefficients: NDArray[Any], variables: list[Any]) -> LinearExpression:
    return LinearExpression(
        constant=0,
        linear_coefs=coefficients.astype(np.float64).tolist(),
        linear_vars=variables,
    )


def compile_model(model: pyo.ConcreteModel) -> LinearArrays:
    """Return the model as sparse arrays. Options in no row are kept, with an empty column."""
    form = LinearStandardFormCompiler().write(model, mixed_form=True)
    count = len(model.x)
    position = {id(variable): index for index, variable in enumerate(model.x.values())}
    columns = np.asarray([position[id(v)] for v in form.columns], dtype=np.int64)
    entries = form.A.tocoo()
    kinds = np.asarray([row.bound_type for row in form.rows])
    rhs = np.asarray(form.rhs, dtype=np.float64)
    gain = np.zeros(count)
    # The compiler minimises; the model maximises.
    gain[columns] = -form.c.toarray()[0]
    return LinearArrays(
        gain=gain,
        matrix=csc_array(
            (entries.data, (entries.row, columns[entries.col])), shape=(len(form.rows), count)
        ),
        row_lower=np.where(np.isin(kinds, (_EQUAL, _AT_LEAST)), rhs, -np.inf),
        row_upper=np.where(kinds == _AT_LEAST, np.inf, rhs),
    )
