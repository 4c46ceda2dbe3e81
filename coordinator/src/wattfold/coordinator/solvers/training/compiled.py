"""The loops, compiled by numba. Importing this module needs numba, and compiles.

The result is cached on disk if there is a place for it. numba checks only the file of the outermost
function for changes, but the loops are in several files. So a digest of all of them is stored next
to the cache. If the digest differs, the cache is deleted.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numpy as np
from numba.extending import register_jitable

from wattfold.coordinator.solvers.training import (
    enumeration_loops,
    greedy_loops,
    loop_state,
    recreate_loops,
)

_MODULES = (loop_state, greedy_loops, enumeration_loops, recreate_loops)
_OUTERMOST = (greedy_loops.constructed, recreate_loops.improved)


def _functions(module: ModuleType) -> list[Callable[..., Any]]:
    """Return the functions that a module defines itself."""
    found = inspect.getmembers(module, inspect.isfunction)
    return [one for _, one in found if one.__module__ == module.__name__]


for _module in _MODULES:
    for _part in _functions(_module):
        if _part not in _OUTERMOST:
            register_jitable(_part)


def row(array: Any) -> Any:
    """Return an array of the loops."""
    return np.array(array)


def sources_digest() -> str:
    """Return the digest of all compiled sources."""
    text = "".join(inspect.getsource(module) for module in _MODULES)
    return hashlib.sha256(text.encode()).hexdigest()


def discard_stale(folder: Path, digest: str) -> None:
    """Delete the cache of other sources. Raises OSError."""
    told = folder / "training-loops.digest"
    if told.is_file() and told.read_text(encoding="ascii") == digest:
        return
    for module in _MODULES:
        for kind in ("nbi", "nbc"):
            for path in folder.glob(f"{module.__name__.rpartition('.')[2]}.*.{kind}"):
                path.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    told.write_text(digest, encoding="ascii")


def _compiled(function: Callable[..., Any]) -> Any:
    try:
        made = numba.njit(cache=True)(function)
        kept: str | None = made.stats.cache_path
        if kept is not None:
            discard_stale(Path(kept), sources_digest())
    except (RuntimeError, OSError):  # There is no writable folder.
        return numba.njit(function)
    return made


constructed = _compiled(greedy_loops.constructed)
improved = _compiled(recreate_loops.improved)
