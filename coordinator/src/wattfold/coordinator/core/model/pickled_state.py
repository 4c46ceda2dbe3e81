"""Fast pickling of dataclasses with slots, of which a message holds thousands.

The copies of the state travel in messages to worker processes. By default, pickle gets and sets
each slot by its name, and `dataclasses` lists the fields of a frozen class again for each object.
Here generated functions convert all fields to one tuple and back. Writer and reader of such a
pickle must have the same version of the class, so journals and files do not use it.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

T = TypeVar("T")

_FUNCTIONS = """
def values(self):
    return ({values},)

def set_all(self, state):
    ({values},) = state
"""


def pickled_by_position(cls: type[T]) -> type[T]:
    """Decorate a dataclass with slots, to pickle its objects as tuples of their fields."""
    names = [part.name for part in fields(cls)]  # type: ignore[arg-type]
    made: dict[str, Any] = {}
    # As dataclasses do: the text holds only names of fields.
    exec(_FUNCTIONS.format(values=", ".join(f"self.{name}" for name in names)), made)  # noqa: S102
    set_all = made["set_all"]
    # A frozen class sets no attributes, so its objects are objects of this class while they load.
    loading = type(f"{cls.__name__}Loading", (), {"__slots__": names})

    def restore(self: Any, state: tuple[Any, ...]) -> None:
        object.__setattr__(self, "__class__", loading)
        set_all(self, state)
        self.__class__ = cls

    cls.__getstate__ = made["values"]  # type: ignore[method-assign]
    cls.__setstate__ = restore  # type: ignore[attr-defined]
    return cls
