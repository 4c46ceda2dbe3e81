"""The fake coordinator of the command tests, for commands in documents."""

from __future__ import annotations

from unit.cli.conftest import address, fake, short_folder, wattfold

__all__ = ["address", "fake", "short_folder", "wattfold"]
