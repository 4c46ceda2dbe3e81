"""States of the objects of a training job, saved and restored by their interfaces.

Nothing is imported: PyTorch and numpy are used only if the program has loaded them.
"""

from __future__ import annotations

import inspect
import io
import pickle
import random
import sys
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from wattfold.training.snapshots import Sink

_ARCHIVE = b"PK"
"""First bytes of PyTorch files."""


@dataclass(frozen=True)
class Kept:
    """Functions that save and restore the state of an object. ``chance``: a random generator."""

    take: Callable[[], Any]
    put: Callable[[Any], None]
    chance: bool = False


def kept(name: str, thing: Any) -> Kept:
    """Return how to save an object.

    Raises TypeError for an object without a known kind of state.
    """
    if hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict"):
        return Kept(thing.state_dict, thing.load_state_dict)
    if hasattr(thing, "get_state") and hasattr(thing, "set_state"):
        return Kept(thing.get_state, thing.set_state, chance=True)
    if hasattr(thing, "getstate") and hasattr(thing, "setstate"):
        return Kept(thing.getstate, thing.setstate, chance=True)
    if hasattr(thing, "bit_generator"):
        bits = thing.bit_generator
        return Kept(lambda: bits.state, lambda state: setattr(bits, "state", state), chance=True)
    if isinstance(thing, MutableMapping):
        return Kept(lambda: thing, lambda state: _refill(thing, state))
    if isinstance(thing, list):
        return Kept(lambda: thing, lambda state: thing.__setitem__(slice(None), state))
    if hasattr(thing, "dtype") and hasattr(thing, "__setitem__"):
        return Kept(lambda: thing, lambda state: thing.__setitem__(..., state))
    raise TypeError(
        f"{name}: cannot save an object of type {type(thing).__name__}; use an object with"
        " state_dict and load_state_dict, an array, a dict, a list or a random generator"
    )


def _refill(mapping: MutableMapping[Any, Any], state: dict[Any, Any]) -> None:
    mapping.clear()
    mapping.update(state)


def usual_chance() -> dict[str, Kept]:
    """Return the global random generators of Python and of loaded libraries."""
    found = {"python": kept("random", random)}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        found["numpy"] = kept("numpy.random", numpy.random)
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = Kept(torch.get_rng_state, torch.set_rng_state, chance=True)
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            cuda = torch.cuda
            found["cuda"] = Kept(cuda.get_rng_state_all, _put_cuda, chance=True)
    return found


def _put_cuda(states: list[Any]) -> None:
    """Set the states of the current GPUs, whose number may have changed."""
    torch = sys.modules["torch"]
    for index, state in enumerate(states[: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, index)


def write(sink: Sink, content: dict[str, Any]) -> None:
    """Write states, with PyTorch if it is loaded, because it supports tensors on devices."""
    torch = sys.modules.get("torch")
    if torch is None:
        pickle.dump(content, sink, protocol=5)
    else:
        torch.save(content, sink)


def read(data: bytes) -> dict[str, Any]:
    """Return states written by `write`; tensors are on the CPU, and are copied from there.

    Raises ValueError for a file of PyTorch if it is not loaded.
    """
    # The file belongs to this account, like the program, so it is equally trusted.
    if not data.startswith(_ARCHIVE):
        content: dict[str, Any] = pickle.loads(data)  # noqa: S301
        return content
    torch = sys.modules.get("torch")
    if torch is None:
        raise ValueError("PyTorch wrote it; import torch first")
    more = {"weights_only": False} if _takes_weights_only(torch) else {}
    loaded: dict[str, Any] = torch.load(io.BytesIO(data), map_location="cpu", **more)
    return loaded


def _takes_weights_only(torch: Any) -> bool:
    return "weights_only" in inspect.signature(torch.load).parameters
