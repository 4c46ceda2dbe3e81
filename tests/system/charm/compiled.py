"""Our C++ programs, compiled with a real Charm++; tests that need them are skipped without it.

`scripts/charm_cpp SOURCE` builds a Charm++ source tree in both ways and runs these tests. All test
runs use its builds (or ``WATTFOLD_CHARMC``, ``WATTFOLD_CHARMC_SHRINKEXPAND``).
"""

from __future__ import annotations

import enum
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "runtime_shims" / "charm"
BLOCKS = 32
"""Number of objects of the example."""
BLOCK_BYTES = 1000
_TURNS = 80_000
_FACTOR = 6364136223846793005
_WORD = 1 << 64


class Kind(enum.Enum):
    """A way to build Charm++: the folder of its build, and the variable for another build."""

    MAP = ("map", "WATTFOLD_CHARMC")
    REBUILD = ("rebuild", "WATTFOLD_CHARMC_SHRINKEXPAND")

    def charmc(self) -> str | None:
        """Its compiler, if there is one."""
        folder, variable = self.value
        told = os.environ.get(variable)
        return shutil.which(told or str(ROOT / "build/charm" / folder / "bin/charmc"))


def compiled(kind: Kind) -> Path:
    """A folder with charmrun and the example, built once per process.

    Skips the test without them.
    """
    charmc = kind.charmc()
    if charmc is None:
        why = f"needs a Charm++ built for {kind.value[0]} (scripts/charm_cpp, {kind.value[1]})"
        if os.environ.get("WATTFOLD_CHARM_NEEDED"):
            pytest.fail(why)
        pytest.skip(why)
    return Path(_built(charmc).name)


@functools.cache
def _built(charmc: str) -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="wattfold-charm-")
    command = ["make", "-f", str(SOURCES / "Makefile"), f"CHARMC={charmc}", f"OUT={folder.name}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def result_of(rounds: int, block_bytes: int = BLOCK_BYTES) -> int:
    """The result of `blocks` after this number of rounds, wherever its objects were meanwhile."""
    factor, added = _composed(_FACTOR, 1, rounds * _TURNS)
    states = sum(factor * block + added * block for block in range(BLOCKS))
    return (states + block_bytes * sum(range(BLOCKS))) % _WORD


def _composed(factor: int, added: int, times: int) -> tuple[int, int]:
    """Compose x -> factor x + added with itself, ``times`` times."""
    f, a = 1, 0
    while times:
        if times % 2:
            f, a = f * factor % _WORD, (factor * a + added) % _WORD
        factor, added = factor * factor % _WORD, (factor * added + added) % _WORD
        times //= 2
    return f, a
