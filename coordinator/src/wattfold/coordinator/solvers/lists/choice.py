"""Choice of the list scheduler: the compiled scheduler once it is ready, otherwise numpy.

Compilation takes some seconds, unless numba's cache has the result of an earlier run. It runs in a
thread of its own, and meanwhile plans are made with numpy: a worker that is ended for being late
would restart the compilation for ever. Both make the same plans.
"""

from __future__ import annotations

import threading
from importlib.util import find_spec

from wattfold.coordinator.solvers.lists import reference
from wattfold.coordinator.solvers.lists.arrays import Arrays, arrays_of
from wattfold.coordinator.solvers.lists.problem import (
    Option,
    ProblemJob,
    ProblemNode,
    QueueProblem,
    Shape,
)
from wattfold.coordinator.solvers.lists.search import Lister

WAIT_S = 1.0
"""Time for which the first plan waits, so that numba's cache can be loaded."""


class _ListCompilation:
    """The compilation of the scheduler."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.lists: type[Lister] | None = None

    def begin(self) -> threading.Thread | None:
        """Start the compilation once; None if numba is not installed."""
        with self._lock:
            if self._thread is None and find_spec("numba") is not None:
                self._thread = threading.Thread(target=self._compile, daemon=True)
                self._thread.start()
                self._thread.join(WAIT_S)
            return self._thread

    def _compile(self) -> None:
        from wattfold.coordinator.solvers.lists.compiled import CompiledLists

        tiny = QueueProblem(
            now_ns=0,
            nodes=(ProblemNode((1,)),),
            shapes=(Shape(1, (1,)),),
            jobs=(ProblemJob(0, 0, (Option(1),), 0, 1),),
        )
        CompiledLists(arrays_of(tiny)).schedule([0], [0], 0)
        self.lists = CompiledLists


_COMPILING = _ListCompilation()


def lister(arrays: Arrays) -> Lister:
    """Return a list scheduler for a problem."""
    if _COMPILING.lists is None:
        _COMPILING.begin()
    return (_COMPILING.lists or reference.ReferenceLists)(arrays)


def compiled_lists() -> type[Lister] | None:
    """Return the compiled scheduler when it is ready; None if numba is not installed."""
    thread = _COMPILING.begin()
    if thread is not None:
        thread.join()
    return _COMPILING.lists
