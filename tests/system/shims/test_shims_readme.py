"""The README of the shims shows the output of its example."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
README = ROOT / "runtime_shims" / "README.md"
DIGITS = re.compile(r"(\d\.\d{6})\d*(?=e)")
"""Tolerance, because compilers may differ in the last digits."""


def test_the_session_of_the_readme(built_shims: Path) -> None:
    found = re.search(r"^```console\n\$ (.*)\n\$ (.*)\n(.*\n)```", README.read_text(), re.M)
    assert found
    assert found[1] == "scripts/build_shims"
    command = found[2].replace("build/shims", str(built_shims))
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert DIGITS.sub(r"\1", done.stdout) == DIGITS.sub(r"\1", found[3])
    assert done.stderr == ""
