"""Choice of the loops for plans: compiled by numba once they are ready, otherwise in Python.

Compilation takes some seconds, unless numba's cache has the result of an earlier run. It runs in a
thread of its own, and meanwhile plans are made in Python, with less effort.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from wattfold.coordinator.solvers.training import greedy_loops, recreate_loops
from wattfold.coordinator.solvers.training.instances import Mix, drawn
from wattfold.coordinator.solvers.training.layout import laid_out

WAIT_S = 1.0
"""Time for which the first plan waits, so that numba's cache can be loaded."""


@dataclass(frozen=True, slots=True)
class Loops:
    """`constructed` and `improved` of the loops, and the type of their sequences."""

    constructed: Callable[..., float]
    improved: Callable[..., float]
    row: Callable[[Any], Any]
    fast: bool


PLAIN = Loops(
    greedy_loops.constructed, recreate_loops.improved, lambda array: array.tolist(), fast=False
)


class _TrainingCompilation:
    """The compilation of the loops."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.loops: Loops | None = None

    def begin(self) -> threading.Thread | None:
        """Start the compilation once; None if numba is not installed."""
        with self._lock:
            if self._thread is None and find_spec("numba") is not None:
                self._thread = threading.Thread(target=self._compile, daemon=True)
                self._thread.start()
                self._thread.join(WAIT_S)
            return self._thread

    def _compile(self) -> None:
        from wattfold.coordinator.solvers.training import compiled

        made = Loops(compiled.constructed, compiled.improved, compiled.row, fast=True)
        tiny = drawn(Mix(nodes=2, jobs=3), seed=1)
        laid = laid_out(tiny, np.arange(3, dtype=np.int64), made.row, swap=0.0, seed=1)
        made.improved(*laid, 1, made.constructed(*laid, 1, 0.5))
        self.loops = made


_COMPILING = _TrainingCompilation()


def loops() -> Loops:
    """Return the loops to plan with now."""
    if _COMPILING.loops is None:
        _COMPILING.begin()
    return _COMPILING.loops or PLAIN


def compiled_loops() -> Loops | None:
    """Return the compiled loops when they are ready; None if numba is not installed."""
    thread = _COMPILING.begin()
    if thread is not None:
        thread.join()
    return _COMPILING.loops
