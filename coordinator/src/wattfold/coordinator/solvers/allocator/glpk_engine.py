"""GLPK in this process, through swiglpk: a linear relaxation and an integer search.

This module knows nothing about PARM.

GLPK works in floating point with a feasibility tolerance of about 1e-7 of a row's limit. An answer
may exceed a limit by that much, so the caller checks it in integers. Rows are scaled by powers of
two, which changes no digit. GLPK calls abort() on a failed assertion and holds the interpreter lock
during a search; run it in a worker process.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np
import swiglpk as glpk
from numpy.typing import NDArray

from wattfold.coordinator.solvers.allocator.linear_arrays import LinearArrays

Floats = NDArray[np.float64]
Ints64 = NDArray[np.int64]


INTEGER_TOLERANCE = 1e-7
"""Replaces GLPK's 1e-5, which would make the optimum uncertain by as much."""


class Ending(Enum):
    """How GLPK ended."""

    OPTIMAL = auto()
    STOPPED = auto()
    """Stopped at its time limit; there may be an answer."""
    INFEASIBLE = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Relaxation:
    """The problem with 0 <= x <= 1. Arrays follow the given columns; empty unless OPTIMAL."""

    ending: Ending
    objective: float
    primal: Floats
    loss: Floats
    """Negated reduced cost: the minimum loss of forcing the column to one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IntegerAnswer:
    """The best integer point found. ``chosen`` are indices of the arrays' columns, ascending."""

    ending: Ending
    found: bool
    objective: float
    chosen: Ints64
    detail: str


def relax(arrays: LinearArrays, columns: Ints64, time_limit_s: float) -> Relaxation:
    """Solve the linear relaxation over some columns, the others fixed at zero."""
    with _loaded(arrays, columns) as (lp, unit):
        ending = _simplex(lp, time_limit_s)
        if ending is not Ending.OPTIMAL:
            nothing = np.zeros(0)
            return Relaxation(ending=ending, objective=0.0, primal=nothing, loss=nothing)
        primal = np.asarray(glpk.get_col_primals(lp), dtype=np.float64)
        duals = np.asarray(glpk.get_col_duals(lp), dtype=np.float64) * unit
        return Relaxation(
            ending=ending,
            objective=glpk.glp_get_obj_val(lp) * unit,
            primal=primal,
            loss=np.maximum(-duals, 0.0),
        )


def search(arrays: LinearArrays, columns: Ints64, gap: float, time_limit_s: float) -> IntegerAnswer:
    """Run branch and bound over some columns, the others fixed at zero, until gap or time limit."""
    with _loaded(arrays, columns) as (lp, unit):
        ending = _simplex(lp, time_limit_s)
        if ending is not Ending.OPTIMAL:
            return _nothing(ending, "relaxation")
        for index in range(1, columns.size + 1):
            glpk.glp_set_col_kind(lp, index, glpk.GLP_BV)
        options = glpk.glp_iocp()
        glpk.glp_init_iocp(options)
        options.msg_lev = glpk.GLP_MSG_OFF
        options.mip_gap = gap
        options.tol_int = INTEGER_TOLERANCE
        options.tm_lim = _milliseconds(time_limit_s)
        code = glpk.glp_intopt(lp, options)
        status = glpk.glp_mip_status(lp)
        if code in (0, glpk.GLP_EMIPGAP) and status == glpk.GLP_NOFEAS:
            return _nothing(Ending.INFEASIBLE, "")
        if code not in (0, glpk.GLP_EMIPGAP, glpk.GLP_ETMLIM):
            return _nothing(Ending.FAILED, f"glp_intopt returned {code}")
        found = status in (glpk.GLP_OPT, glpk.GLP_FEAS)
        if not found:
            return _nothing(Ending.STOPPED, "")
        values = np.asarray([glpk.glp_mip_col_val(lp, i + 1) for i in range(columns.size)])
        return IntegerAnswer(
            ending=Ending.STOPPED if code == glpk.GLP_ETMLIM else Ending.OPTIMAL,
            found=True,
            objective=glpk.glp_mip_obj_val(lp) * unit,
            chosen=columns[values > 0.5],
            detail="",
        )


def version() -> str:
    """Return the version of the GLPK library."""
    return str(glpk.glp_version())


def _nothing(ending: Ending, detail: str) -> IntegerAnswer:
    return IntegerAnswer(
        ending=ending, found=False, objective=0.0, chosen=np.zeros(0, dtype=np.int64), detail=detail
    )


def _simplex(lp: Any, time_limit_s: float) -> Ending:
    options = glpk.glp_smcp()
    glpk.glp_init_smcp(options)
    options.msg_lev = glpk.GLP_MSG_OFF
    options.tm_lim = _milliseconds(time_limit_s)
    code = glpk.glp_simplex(lp, options)
    if code == glpk.GLP_ETMLIM:
        return Ending.STOPPED
    if code != 0:
        return Ending.FAILED
    status = glpk.glp_get_status(lp)
    if status == glpk.GLP_OPT:
        return Ending.OPTIMAL
    return Ending.INFEASIBLE if status == glpk.GLP_NOFEAS else Ending.FAILED


def _milliseconds(seconds: float) -> int:
    return max(1, min(2**31 - 1, round(seconds * 1000)))


@contextmanager
def _loaded(arrays: LinearArrays, columns: Ints64) -> Iterator[tuple[Any, float]]:
    """Yield a GLPK problem over some columns, and the unit of its objective. Freed on exit."""
    glpk.glp_term_out(glpk.GLP_OFF)
    lp = glpk.glp_create_prob()
    try:
        yield lp, _load(lp, arrays, columns)
    finally:
        glpk.glp_delete_prob(lp)


def _load(lp: Any, arrays: LinearArrays, columns: Ints64) -> float:
    rows = arrays.matrix.shape[0]
    matrix = arrays.matrix[:, columns].tocoo()
    biggest = np.zeros(rows)
    np.maximum.at(biggest, matrix.row, np.abs(matrix.data))
    scale = np.exp2(-np.ceil(np.log2(np.where(biggest > 0, biggest, 1.0))))
    gain = arrays.gain[columns]
    unit = float(np.exp2(np.ceil(np.log2(gain.max())))) if gain.size else 1.0
    glpk.glp_set_obj_dir(lp, glpk.GLP_MAX)
    if rows:
        glpk.glp_add_rows(lp, rows)
    for index in range(rows):
        low = float(arrays.row_lower[index] * scale[index])
        high = float(arrays.row_upper[index] * scale[index])
        glpk.glp_set_row_bnds(lp, index + 1, _bound_type(low, high), low, high)
    if columns.size:
        glpk.glp_add_cols(lp, columns.size)
    for index, coefficient in enumerate((gain / unit).tolist(), start=1):
        glpk.glp_set_col_bnds(lp, index, glpk.GLP_DB, 0.0, 1.0)
        glpk.glp_set_obj_coef(lp, index, coefficient)
    if matrix.nnz:
        glpk.glp_load_matrix(
            lp,
            int(matrix.nnz),
            _c_array(glpk.intArray, (matrix.row + 1).astype(np.int32)),
            _c_array(glpk.intArray, (matrix.col + 1).astype(np.int32)),
            _c_array(glpk.doubleArray, matrix.data * scale[matrix.row]),
        )
    return unit


def _c_array(kind: Any, values: NDArray[Any]) -> Any:
    """Return a C array of the library with the values from index 1 on, as GLPK counts.

    The memory is copied as a block: item by item takes longer than solving the relaxation, and the
    library's own conversion from a list returns memory that it does not own.
    """
    array = kind(values.size + 1)
    values = np.ascontiguousarray(values)
    ctypes.memmove(int(array.this) + values.itemsize, values.ctypes.data, values.nbytes)
    return array


def _bound_type(low: float, high: float) -> int:
    if low == high:
        return int(glpk.GLP_FX)
    if np.isinf(low):
        return int(glpk.GLP_FR if np.isinf(high) else glpk.GLP_UP)
    return int(glpk.GLP_LO if np.isinf(high) else glpk.GLP_DB)
