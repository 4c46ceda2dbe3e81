"""The loops of `passes`, compiled by numba. Importing this needs it, and compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.extending import register_jitable

from wattfold.coordinator.solvers.training import passes

for _part in (
    passes.draw,
    passes.enlist,
    passes.clear,
    passes.fits,
    passes.put,
    passes.take_off,
    passes.added,
    passes.best_filled,
    passes.first_shut,
    passes.place,
    passes.fed_option,
    passes.drawn_option,
    passes.free_gpus,
    passes.greedy,
    passes.swapped,
    passes.keep,
    passes.back_to_best,
    passes.stay,
    passes.priced,
    passes.note,
    passes.undo,
    passes.ruin,
    passes.insert,
    passes.drawn_waiting,
    passes.recreated,
    passes.filled_up,
):
    register_jitable(_part)


def row(array: Any) -> Any:
    """An array of the loops' own."""
    return np.array(array)


def _compiled(function: Callable[..., Any]) -> Any:
    """What was compiled is kept on disk where there is a place."""
    try:
        return numba.njit(cache=True)(function)
    except RuntimeError:  # No folder that it could write to.
        return numba.njit(function)


constructed = _compiled(passes.constructed)
improved = _compiled(passes.improved)
