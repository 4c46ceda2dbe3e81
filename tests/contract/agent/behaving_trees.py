"""Simulated zone trees behind the port, in memory and through real files of FUSE."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wattfold.nodeagent.adapters.devices.powercap_files import RealFiles, ZoneFiles
from wattfold.nodeagent.emulation import fuse_tree
from wattfold.nodeagent.emulation.fixtures import load_fixture
from wattfold.nodeagent.emulation.memory_files import MemoryFiles
from wattfold.nodeagent.emulation.tree_model import TreeModel

READY_S = 120.0


def why_no_fuse() -> str:
    """Return the reason why this machine cannot mount a tree, or nothing."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "needs a usable /dev/fuse"
    try:
        import mfusepy  # noqa: F401
    except (ImportError, OSError) as error:
        return f"needs mfusepy and libfuse: {error}"
    return ""


@contextmanager
def mounted(fixture: str, folder: Path) -> Iterator[Path]:
    """A fixture as real files, served by its own process."""
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", fuse_tree.__name__, fixture, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], READY_S)
        assert ready
        assert process.stdout.readline() == "ready\n"
        yield folder
    finally:
        process.terminate()
        assert process.wait(240) == 0
        assert not os.path.ismount(folder)
        process.stdout.close()


@contextmanager
def served(how: str, fixture: str, folder: Path) -> Iterator[ZoneFiles]:
    """A fixture behind the port."""
    if how == "memory":
        yield MemoryFiles(TreeModel(load_fixture(fixture).machine))
        return
    with mounted(fixture, folder / "powercap") as root:
        yield RealFiles(root)
