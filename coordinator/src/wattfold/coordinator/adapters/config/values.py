"""Checks of the values of a configuration.

Errors carry file and line. An unknown key is refused with the nearest known key.
"""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass
from typing import Any

from wattfold.contract.toml_places import line_of
from wattfold.contract.toml_text import as_float, has_nul, shown


class ConfigError(Exception):
    """The configuration is not usable. The message gives place, value and permitted values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Range and unit of a number, or the choices of a text."""

    kind: type
    low: float = -math.inf
    high: float = math.inf
    unit: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """Text of a configuration, and its name for messages."""

    where: str
    text: str

    def at(self, key: str, table: str = "", index: int = 0) -> At:
        """Return the place of a key, or of the table with that name, for messages.

        ``index`` selects one of several tables with the same name, such as [[node]].
        """
        return At(self, key, table, index)


@dataclass(frozen=True, slots=True)
class At:
    """A place in a file. The text is searched only when a message needs the line."""

    source: Source
    key: str
    table: str
    index: int

    def __str__(self) -> str:
        text, table, index = self.source.text, self.table, self.index
        line = line_of(text, self.key, table, index) or line_of(text, "", self.key)
        line = line or (line_of(text, "", table, index) if table else 0)
        return f"{self.source.where}, line {line}" if line else self.source.where


Where = At | str
"""A place in a file or the command line, for messages."""


def table_of(source: Source, raw: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a table, empty if the file has none. Raises ConfigError if it is another value."""
    table = raw.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{source.at(name)}: {name} must be a table, as in [{name}]")
    return table


def checked_values(
    source: Source,
    values: dict[str, Any],
    known: dict[str, Setting],
    prefix: str,
    extra: set[str] | None = None,
    index: int = 0,
) -> dict[str, Any]:
    """Return the values of a table if all are known and within their ranges. Raises ConfigError.

    ``extra`` are names of tables, for the hint about an unknown table. ``index`` is the position
    among several tables with the same name.
    """
    out: dict[str, Any] = {}
    table = prefix.rstrip(".")
    if not isinstance(values, dict):
        raise ConfigError(f"{source.at(table)}: {prefix}... must be a table")
    for key, value in values.items():
        setting = known.get(key)
        if setting is None:
            tables = (extra or ()) if isinstance(value, dict | list) else ()
            near = difflib.get_close_matches(key, [*known, *tables], n=1)
            hint = f"; did you mean {prefix}{near[0]}?" if near else ""
            where = source.at(key, table, index)
            raise ConfigError(f"{where}: unknown setting {prefix}{key}{hint}")
        out[key] = _value(source.at(key, table, index), f"{prefix}{key}", value, setting)
    return out


_WANTED = {
    float: "a number",
    int: "a whole number",
    str: "a string",
    bool: "true or false",
    list: "a list",
}


def _value(where: Where, name: str, value: Any, setting: Setting) -> Any:
    if setting.kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = as_float(value)
    if not isinstance(value, setting.kind) or isinstance(value, bool) != (setting.kind is bool):
        wanted = _WANTED.get(setting.kind, "")
        raise ConfigError(f"{where}: {name} = {value!r} is not {wanted}")
    if has_nul(value):
        raise ConfigError(f"{where}: {name} = {value!r} contains a NUL character")
    if isinstance(value, bool):
        return value
    if isinstance(value, float | int):
        unit = f" {setting.unit}" if setting.unit else ""
        if not setting.low <= value <= setting.high:
            limits = f"{setting.low:g}..{setting.high:g}{unit}"
            raise ConfigError(f"{where}: {name} = {shown(value)}{unit} is outside {limits}")
    if setting.choices and value not in setting.choices:
        choices = ", ".join(setting.choices)
        raise ConfigError(f"{where}: {name} = {value!r}; choose one of {choices}")
    return value


def whole_numbers(where: Where, name: str, values: list[Any]) -> tuple[int, ...]:
    """Return a list of integers. Raises ConfigError for other values."""
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        raise ConfigError(f"{where}: {name} = {values!r} is not a list of whole numbers")
    return tuple(values)
