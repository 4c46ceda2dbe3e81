"""Sites of real processes, as in the system tests, and folders with short names for sockets."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.site.conftest import start_site

__all__ = ["folder", "start_site"]


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="wf-"))
    yield made
    shutil.rmtree(made)
