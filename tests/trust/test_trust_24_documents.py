"""The check finds an outdated table that repeats the code, and the generator renews it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = "coordinator/src/wattfold/coordinator/core"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the files that the generator reads and writes."""
    for name in ("docs", "coordinator", "nodeagent", "scripts/documents"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def generate(copy: Path, *options: str) -> subprocess.CompletedProcess[str]:
    script = copy / "scripts" / "documents" / "generated.py"
    return subprocess.run(
        [sys.executable, str(script), *options], capture_output=True, text=True, check=False
    )


CHANGES = [
    (f"{CORE}/model/events.py", "class JobHeld:", "class JobKept:", "`JobKept`"),
    (f"{CORE}/model/actions.py", '"""Ask the policy for a plan."""', '"""Ask."""', "Ask."),
    ("pyproject.toml", '"heapq", ', '"heapq", "uuid", ', "`uuid`"),
]
"""A file, what is replaced by what, and what the page then says."""


def test_changes_of_the_code_make_fresh_documents_stale(copy: Path) -> None:
    page = copy / "docs" / "reference.md"
    before = page.read_text()
    for file, old, new, told in CHANGES:
        path = copy / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new).replace("| JobHeld\n", "| JobKept\n"))
        assert told not in before
    stale = generate(copy, "--check")
    assert stale.returncode == 1
    assert "docs/reference.md" in stale.stderr
    assert page.read_text() == before

    assert generate(copy).returncode == 0
    for *_, told in CHANGES:
        assert told in page.read_text()
