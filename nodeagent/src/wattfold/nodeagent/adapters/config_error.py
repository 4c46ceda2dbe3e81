"""Errors of the configuration, with the place of the wrong key."""

from __future__ import annotations

from typing import Protocol


class ConfigError(Exception):
    """The configuration cannot be used. The message names file, line, key, value and limit."""


class Places(Protocol):
    """Locates the keys of the configuration."""

    def wrong(self, key: str, why: str, section: str = "") -> ConfigError:
        """Return an error that names the place of the key."""
        ...
