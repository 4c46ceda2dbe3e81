"""Files of the page, read once when the server starts.

A request can only name a file of this table, so no path of a request reaches the file system.
"""

from __future__ import annotations

import importlib.resources
from dataclasses import dataclass
from importlib.resources.abc import Traversable

_TYPES = {
    "css": "text/css",
    "html": "text/html",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file and its media type."""

    data: bytes
    media_type: str


def page_files() -> dict[str, PageFile]:
    """Return the files of the page by their path from its root; `index.html` is the page."""
    root = importlib.resources.files("wattfold.coordinator.cli.web") / "static"
    return dict(_below(root, ""))


def _below(folder: Traversable, path: str) -> list[tuple[str, PageFile]]:
    found = []
    for entry in folder.iterdir():
        name = f"{path}{entry.name}"
        media_type = _TYPES.get(entry.name.rpartition(".")[2])
        if entry.is_dir():
            found += _below(entry, f"{name}/")
        elif media_type is not None:
            found.append((name, PageFile(entry.read_bytes(), media_type)))
    return found
