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
    for name in ("docs", "coordinator", "scripts/documents"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def generate(copy: Path, *options: str) -> subprocess.CompletedProcess[str]:
    script = copy / "scripts" / "documents" / "generated.py"
    return subprocess.run(
        [sys.executable, str(script), *options], capture_output=True, text=True, check=False
    )


def test_the_documents_are_fresh(copy: Path) -> None:
    assert generate(copy, "--check").returncode == 0


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        (f"{CORE}/model/events.py", "class JobHeld:", "class JobKept:", "`JobKept`"),
        (f"{CORE}/model/actions.py", '"""Ask the policy for a plan."""', '"""Ask."""', "Ask."),
        ("pyproject.toml", '"heapq", ', '"heapq", "uuid", ', "`uuid`"),
    ],
)
def test_a_change_of_the_code_makes_them_stale(
    copy: Path, file: str, old: str, new: str, told: str
) -> None:
    path = copy / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new).replace("| JobHeld\n", "| JobKept\n"))
    stale = generate(copy, "--check")
    assert stale.returncode == 1
    assert "docs/reference.md" in stale.stderr
    assert told not in (copy / "docs" / "reference.md").read_text()

    assert generate(copy).returncode == 0
    assert told in (copy / "docs" / "reference.md").read_text()
    assert generate(copy, "--check").returncode == 0
