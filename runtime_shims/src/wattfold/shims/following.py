"""Thread limits of the libraries of a Python program, which follow the cores of the job.

    with follow() as job:
        for step in range(steps):
            job.update()             # nothing to do most of the time
            compute(step)            # NumPy, SciPy, scikit-learn, torch, numba: limited
            job.progress(step + 1, steps)

Limits of OpenMP, torch and numba belong to the thread that sets them. So ``update`` sets them in
the thread that calls it, and only for loaded libraries. At the end of the block, the original
limits are restored.
"""

from __future__ import annotations

import importlib
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any, Protocol, TypeVar

from wattfold.shims.client import Mask, Shim, connect

_T = TypeVar("_T")
_R = TypeVar("_R")


class Limiter(Protocol):
    """Number of threads of a library."""

    def apply(self, cores: int) -> None:
        """Limit the calling thread to this many threads."""
        ...

    def restore(self) -> None:
        """Restore the original limits."""
        ...


class _Threadpools:
    """BLAS and OpenMP libraries, through threadpoolctl."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._found: Any = None

    def apply(self, cores: int) -> None:
        # A new object each time, because libraries may have been loaded since. The first object has
        # the original limits.
        limits = self._module.threadpool_limits(limits=cores)
        self._found = self._found or limits

    def restore(self) -> None:
        if self._found is not None:
            self._found.restore_original_limits()


class _Setting:
    """A library with a get and a set function, and an original limit that it must not exceed."""

    def __init__(self, get: Callable[[], int], put: Callable[[int], object]) -> None:
        self._get = get
        self._put = put
        self._found: int | None = None

    def apply(self, cores: int) -> None:
        if self._found is None:
            self._found = self._get()
        self._put(max(1, min(cores, self._found)))

    def restore(self) -> None:
        if self._found is not None:
            self._put(self._found)


def loaded_limiters() -> dict[str, Limiter]:
    """Return limiters of the loaded libraries; threadpoolctl is loaded if it is installed."""
    limiters: dict[str, Limiter] = {}
    with suppress(ImportError):
        limiters["threadpoolctl"] = _Threadpools(importlib.import_module("threadpoolctl"))
    for name in ("torch", "numba"):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "set_num_threads"):
            limiters[name] = _Setting(module.get_num_threads, module.set_num_threads)
    return limiters


class Following:
    """A program that follows its mask. Created by ``follow``."""

    def __init__(self, shim: Shim, find_limiters: Callable[[], dict[str, Limiter]]) -> None:
        self._shim = shim
        self._find_limiters = find_limiters
        self._limiters: dict[str, Limiter] = {}
        self._listeners: list[Callable[[int], None]] = []
        self._seen: int | None = None
        self._cores = shim.cores()

    @property
    def cores(self) -> int:
        """Number of cores as of the last update: for ``n_jobs`` of joblib, or a pool's size."""
        return self._cores

    def mask(self) -> Mask | None:
        """Return the mask in force, None if none was received."""
        return self._shim.mask()

    def update(self) -> bool:
        """Follow the mask if it has changed; return whether the number of cores has."""
        changes = self._shim.changes()
        if changes == self._seen:
            return False
        first, self._seen = self._seen is None, changes
        before, self._cores = self._cores, self._shim.cores()
        if self._cores == before and not first:
            return False
        self._apply()
        for listener in self._listeners:
            listener(self._cores)
        return self._cores != before

    def on_change(self, listener: Callable[[int], None]) -> None:
        """Register a function that ``update`` calls with a changed number of cores."""
        self._listeners.append(listener)

    def progress(self, done: float, total: float = 0.0) -> None:
        """Report done and total work, in any unit; total 0 means unknown."""
        self._shim.progress(done, total)

    def phase(self, name: str) -> None:
        """Report the phase of the program; empty for none."""
        self._shim.phase(name)

    def request(self, cores: int) -> bool:
        """Request cores, 0 withdraws the request; return whether an agent may receive it."""
        return self._shim.request(cores)

    def map(
        self, executor: Executor, work: Callable[[_T], _R], items: Iterable[_T]
    ) -> Iterator[_R]:
        """Yield results in order, with at most as many items in progress as there are cores.

        This is for pools of processes or threads (also loky's and joblib's executors): their size
        is fixed, and the number of busy workers follows the mask. Create the pool as large as the
        job may become.
        """
        pending: deque[Future[_R]] = deque()
        source = iter(items)
        more = True
        try:
            while more or pending:
                self.update()
                while more and sum(not one.done() for one in pending) < self._cores:
                    try:
                        pending.append(executor.submit(work, next(source)))
                    except StopIteration:
                        more = False
                while pending and pending[0].done():
                    yield pending.popleft().result()
                if running := [one for one in pending if not one.done()]:
                    # Checked periodically, so that a larger mask is used before an item is done.
                    wait(running, timeout=0.1, return_when=FIRST_COMPLETED)
        finally:
            for one in pending:
                one.cancel()

    def restore(self) -> None:
        """Restore the original limits of the libraries."""
        for limiter in self._limiters.values():
            limiter.restore()

    def _apply(self) -> None:
        for name, limiter in self._find_limiters().items():
            self._limiters.setdefault(name, limiter)
        for limiter in self._limiters.values():
            limiter.apply(self._cores)


@contextmanager
def follow(
    shim: Shim | None = None,
    find_limiters: Callable[[], dict[str, Limiter]] = loaded_limiters,
) -> Iterator[Following]:
    """Follow the mask of the job within the block. The arguments are for other transports."""
    following = Following(shim or connect(), find_limiters)
    following.update()
    try:
        yield following
    finally:
        following.restore()
