"""A benchmark that misses a target fails, even if others meet their targets."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "scripts/bench"


@pytest.fixture
def project(tmp_path):
    """A project of two benchmarks with an empty setup."""
    for folder in ("scripts/benchmarks", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(BENCH, tmp_path / "scripts/bench")
    setup = tmp_path / "scripts/setup"
    setup.write_text("#!/bin/sh\n")
    setup.chmod(0o755)
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    for name, status in (("meets", 0), ("misses", 1)):
        text = f"print('{name}'); raise SystemExit({status})\n"
        (tmp_path / f"scripts/benchmarks/{name}.py").write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("names", "status"),
    [(["meets"], 0), (["misses"], 1), (["misses", "meets"], 1), (["meets", "misses"], 1)],
)
def test_one_missed_target_makes_the_whole_run_red(project, names, status):
    command = [project / "scripts/bench", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.stdout.split() == names
    assert done.returncode == status
    assert ("misses missed a target" in done.stderr) is bool(status)
