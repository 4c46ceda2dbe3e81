"""Values of the configuration file, checked against the keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wattfold.contract.toml_places import line_of
from wattfold.contract.toml_text import as_float, has_nul, parsed, shown
from wattfold.nodeagent.adapters.config_error import ConfigError
from wattfold.nodeagent.adapters.config_keys import Key

_KIND_NAMES = {float: "a number", int: "an integer", str: "a string", bool: "true or false"}


class Source:
    """A configuration file: its values, and the lines of invalid values for messages."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._text = ""
        self.values: dict[str, Any] = {}
        if path is None:
            return
        try:
            self._text = Path(path).read_text(encoding="utf-8")
            self.values = parsed(self._text)
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None
        except ValueError as error:
            raise ConfigError(f"{path}: {error}") from None
        if not isinstance(self.values.get("emulation", {}), dict):
            raise self.wrong("emulation", "must be a section [emulation]")

    def wrong(self, key: str, why: str, section: str = "") -> ConfigError:
        """Return an error with the line of the key. Two sections may have keys of the same name."""
        line = line_of(self._text, key, section) or line_of(self._text, "", key)
        if not line:
            return ConfigError(f"{self._path or 'command line'}: {key} {why}")
        return ConfigError(f"{self._path}:{line}: {key} {why}")

    def checked(
        self, given: Mapping[str, Any], keys: Mapping[str, Key], section: str = ""
    ) -> dict[str, Any]:
        """Return the values, with defaults for absent keys. Raises ConfigError."""
        for name in given:
            if name not in keys:
                known = ", ".join(sorted(keys))
                raise self.wrong(name, f"is unknown; known keys: {known}", section)
        return {
            name: self._value(name, given.get(name, key.default), key, section)
            for name, key in keys.items()
        }

    def _value(self, name: str, given: Any, key: Key, section: str) -> Any:
        value: Any = given
        if value is None:
            return None
        if key.kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = as_float(value)
        if key.or_list and isinstance(value, list):
            if not all(isinstance(part, str) for part in value):
                raise self.wrong(name, f"= {value!r} must be a list of strings", section)
            return ",".join(value)
        kind: Any = (key.kind, str) if key.or_text else key.kind
        if not isinstance(value, kind) or (isinstance(value, bool) and key.kind is not bool):
            raise self.wrong(name, f"= {value!r} must be {_KIND_NAMES[key.kind]}", section)
        if has_nul(value):
            raise self.wrong(name, f"= {value!r} contains a NUL character", section)
        if key.choices and value not in key.choices:
            raise self.wrong(name, f"= {value!r} must be one of {', '.join(key.choices)}", section)
        if key.low is not None and key.high is not None and not key.low <= value <= key.high:
            raise self.wrong(
                name,
                f"= {shown(value)}{key.unit} is outside {key.low:g}..{key.high:g}{key.unit}",
                section,
            )
        return value
