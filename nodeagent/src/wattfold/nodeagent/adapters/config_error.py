"""What is wrong with a configuration, and who can say where."""

from __future__ import annotations

from typing import Protocol


class ConfigError(Exception):
    """The configuration cannot be used; the message names file, line, key, value and limit."""


class Places(Protocol):
    """Knows where the keys are."""

    def wrong(self, key: str, why: str, section: str = "") -> ConfigError:
        """An error that says where the key is."""
        ...
