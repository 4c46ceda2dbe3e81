"""Check for packages of extras before long work, so that a command does not fail at its end."""

from __future__ import annotations

import importlib.util


def require(*packages: str) -> None:
    """Raise ModuleNotFoundError for the first package that is not installed, without importing it.

    The entry point of the command (`wattfold.commands`) prints which extra installs the package.
    """
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
