"""Columns of lists by name: their values for scripts, and orders by them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """A calendar time, in seconds since 1970."""

    unix_s: float


Value: TypeAlias = str | int | float | Moment | None
"""Value of a column; None = the entry has none."""


@dataclass(frozen=True, slots=True)
class Field(Generic[T]):
    """A column: its value for an entry, and the unit of the value."""

    value: Callable[[T], Value]
    unit: str = ""

    def title(self, name: str) -> str:
        """Return the name of the column with its unit, such as `cap_w`."""
        return f"{name}_{self.unit}" if self.unit else name


Fields: TypeAlias = Mapping[str, Field[T]]


def moment_or_none(unix_s: float) -> Moment | None:
    """Return a time; 0 = there is none."""
    return Moment(unix_s) if unix_s else None


class Order(NamedTuple):
    """An order of a list by a column. Entries without a value come last."""

    name: str
    descending: bool = False

    def apply(self, fields: Fields[T], items: Iterable[T]) -> list[T]:
        """Return the entries in this order. Equal entries keep their order."""
        value = fields[self.name].value
        pairs = [(value(item), item) for item in items]
        known = [(_key(found), item) for found, item in pairs if found is not None]
        known.sort(key=lambda pair: pair[0], reverse=self.descending)
        return [item for _, item in known] + [item for found, item in pairs if found is None]


def _key(value: Value) -> Any:
    """Return the key of a value. Numbers in texts count as numbers: n2 comes before n10."""
    if not isinstance(value, str):
        return value
    parts = _DIGITS.split(value)
    return [int(part) if at % 2 else part for at, part in enumerate(parts)]


class OrderType(click.ParamType[Order]):
    """A column in ascending order, or with a leading minus in descending order."""

    name = "order"

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Order:
        if isinstance(value, Order):
            return value
        name = value.strip().lower()
        order = Order(name.removeprefix("-"), descending=name.startswith("-"))
        if order.name not in self.columns:
            known = ", ".join(self.columns)
            self.fail(f"no column {order.name!r} to sort by; columns: {known}", param, ctx)
        return order

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        del ctx, param
        from click.shell_completion import CompletionItem  # It is needed only in completions.

        # A word that begins with a minus is an option for click, so only names are completed.
        return [CompletionItem(name) for name in self.columns if name.startswith(incomplete)]


def sort_option(
    columns: Sequence[str], default: str | None = None, text: str = ""
) -> Callable[[F], F]:
    """Return the option for the order of a list."""
    return click.option(
        "--sort",
        "order",
        type=OrderType(columns),
        default=default,
        show_default=default is not None,
        metavar="[-]COLUMN",
        help=f"Order of the list by a column, such as {columns[0]}; -{columns[0]} is the "
        f"descending order.{f' {text}' if text else ''}",
    )
