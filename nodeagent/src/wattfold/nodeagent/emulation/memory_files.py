"""The emulated tree behind the port of the agent, without files, for checks and tests."""

from __future__ import annotations

import os
from pathlib import Path

from wattfold.nodeagent.emulation.tree_model import TreeModel


class MemoryFiles:
    """Attributes of a model's zones, as root sees them."""

    def __init__(self, model: TreeModel) -> None:
        self.model = model

    def folders(self) -> list[str]:
        """Return the zones of all interfaces, those of the main interface first."""
        zones = [folder for folder in self.model.folders() if ":" in folder]
        return sorted(zones, key=lambda name: (name.startswith("intel-rapl-mmio"), name))

    def read(self, folder: str, file: str) -> str:
        """Return the text. Raises OSError."""
        return self.model.read(folder, file)

    def read_counter(self, folder: str, file: str) -> tuple[str, int]:
        """Return the current text, with age 0. Raises OSError."""
        return self.model.read(folder, file), 0

    def write(self, folder: str, file: str, text: str) -> None:
        """Replace the value. Raises OSError."""
        self.model.write(folder, file, text)

    def may(self, folder: str, file: str, mode: int) -> bool:
        """Whether the permission bits allow this access."""
        try:
            bits = self.model.files(folder).get(file, 0)
        except OSError:
            return False
        return bool(bits & (0o222 if mode == os.W_OK else 0o444))

    def path(self, folder: str, file: str = "") -> Path:
        """Return a name for people; there is no such file."""
        return Path("/emulated-powercap") / folder / file
