"""Which scheduler of lists makes the plans: the compiled one once it is ready, else that in numpy.

Compiling takes some seconds, unless numba finds what a run before has compiled. It is done in a
thread of its own, and meanwhile plans are made with numpy: a worker that is ended for being late
would begin anew for ever. Both make the same plans.
"""

from __future__ import annotations

import threading
from importlib.util import find_spec

from wattfold.coordinator.solvers.lists import reference
from wattfold.coordinator.solvers.lists.arrays import Arrays, arrays_of
from wattfold.coordinator.solvers.lists.problem import Job, Node, Option, Problem, Shape
from wattfold.coordinator.solvers.lists.search import Lister

WAIT_S = 1.0
"""The first plan waits for so long, in which what is in numba's cache is loaded."""


class _Compiling:
    """The compiled scheduler on its way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.lists: type[Lister] | None = None

    def begin(self) -> threading.Thread | None:
        """Has it compiled, once; None where numba is not installed."""
        with self._lock:
            if self._thread is None and find_spec("numba") is not None:
                self._thread = threading.Thread(target=self._compile, daemon=True)
                self._thread.start()
                self._thread.join(WAIT_S)
            return self._thread

    def _compile(self) -> None:
        from wattfold.coordinator.solvers.lists.compiled import Lists

        tiny = Problem(
            now_ns=0,
            nodes=(Node((1,)),),
            shapes=(Shape(1, (1,)),),
            jobs=(Job(0, 0, (Option(1),), 0, 1),),
        )
        Lists(arrays_of(tiny)).schedule([0], [0], 0)
        self.lists = Lists


_COMPILING = _Compiling()


def lister(arrays: Arrays) -> Lister:
    """A scheduler of lists for a problem."""
    if _COMPILING.lists is None:
        _COMPILING.begin()
    return (_COMPILING.lists or reference.Lists)(arrays)


def compiled_lists() -> type[Lister] | None:
    """The compiled scheduler; waits until it is. None where numba is not installed."""
    thread = _COMPILING.begin()
    if thread is not None:
        thread.join()
    return _COMPILING.lists


def compiled_lister(arrays: Arrays) -> Lister | None:
    """The same, for a problem."""
    lists = compiled_lists()
    return lists(arrays) if lists is not None else None
