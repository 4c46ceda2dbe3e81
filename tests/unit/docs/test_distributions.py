"""Contents of the two distributions: all Python in one, compiled libraries in the other."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files of the wheel of the root."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_root_installs_every_python_file(installed: set[str]) -> None:
    trees = (
        "proto/src",
        "proto/gen/python",
        "coordinator/src",
        "nodeagent/src",
        "runtime_shims/src",
    )
    ours = {
        str(path.relative_to(ROOT / tree)) for tree in trees for path in (ROOT / tree).rglob("*.py")
    }
    assert "wattfold/shims/certify.py" in ours
    assert "wattfold/shims/charm_start.py" in ours
    assert ours <= installed
    assert "wattfold/__init__.py" not in installed


def test_no_file_is_in_both_distributions(installed: set[str]) -> None:
    shims = tomllib.loads((ROOT / "runtime_shims" / "pyproject.toml").read_text())
    # Only files that CMake installs remain, and none of them is a Python file.
    assert shims["tool"]["scikit-build"]["wheel"]["packages"] == []
    assert not [name for name in installed if name.startswith(("wattfold/shims/lib/",))]
    assert not [name for name in installed if name.endswith((".so", ".a", ".h"))]
