"""The README on processor maps shows what its example prints."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
README = ROOT / "runtime_shims" / "charm" / "README.md"


@pytest.mark.timeout(120)
@pytest.mark.skipif(
    importlib.util.find_spec("charm4py") is None,
    reason="needs charm4py: pip install 'wattfold[charm]'",
)
def test_the_session_of_the_readme() -> None:
    found = re.search(r"^```console\n\$ python (.*)\n\.\.\.\n(.*)\n```", README.read_text(), re.M)
    assert found
    command = [sys.executable, *shlex.split(found[1])]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=100
    )
    assert found[2] in done.stdout.splitlines()
