"""What a training is made of, taken out of objects and put back: by what they can do.

Nothing is imported: PyTorch and numpy are taken where the program has loaded them.
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
"""How the files of PyTorch begin."""


@dataclass(frozen=True)
class Kept:
    """How the state of one thing is taken and put back. ``chance``: it draws random numbers."""

    take: Callable[[], Any]
    put: Callable[[Any], None]
    chance: bool = False


def kept(name: str, thing: Any) -> Kept:
    """How a thing is kept. Raises TypeError for one without a state that is known."""
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
    """The random generators that everybody shares: of Python, and of what is loaded."""
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
    """Those of as many GPUs as there are now: it may be another number."""
    torch = sys.modules["torch"]
    for index, state in enumerate(states[: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, index)


def write(sink: Sink, content: dict[str, Any]) -> None:
    """Writes states, by PyTorch where it is loaded: it knows tensors on devices."""
    torch = sys.modules.get("torch")
    if torch is None:
        pickle.dump(content, sink, protocol=5)
    else:
        torch.save(content, sink)


def read(data: bytes) -> dict[str, Any]:
    """States that `write` has written; tensors on the CPU, from where they are put in place.

    Raises ValueError for what PyTorch wrote where it is not loaded.
    """
    # Of this account, as the program is: it is no more foreign than that.
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
