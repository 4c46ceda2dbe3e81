"""Widely used programs, as built by their distribution, under a real agent, at a small size.

`scripts/trial_programs` is the full trial. This test runs it with few resizes and without CP2K.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = [pytest.mark.system]

ROOT = Path(__file__).resolve().parents[3]
TRIAL = ROOT / "scripts" / "programs" / "trial.py"
SHIM = ROOT / "build" / "shims" / "libwattfold_omp.so"


def need(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed; scripts/setup dev installs it")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")
    if not SHIM.exists():
        pytest.skip("the shim is not built; scripts/build_shims builds it")


def trial(folder: Path, *options: str) -> dict[str, Any]:
    """The check results by subject, after a trial that ran to its end."""
    report = folder / "report.json"
    done = subprocess.run(
        [sys.executable, str(TRIAL), "--small", "--json", str(report), *options],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    # Not the exit status: it also judges a time that other work on the machine may disturb.
    assert report.exists(), done.stdout + done.stderr
    return {found["what"]: found for found in json.loads(report.read_text())["findings"]}


def test_gromacs_keeps_every_bit_in_mode_mask_and_is_not_fit_for_team(tmp_path: Path) -> None:
    need("gmx")
    found = trial(tmp_path, "--only", "gromacs")
    assert found["mode mask"]["held"], found["mode mask"]["found"]
    assert found["certified"]["held"], found["certified"]["found"]
    # Squeezed while it ran, it continued to its end; the trial judges the cost.
    assert found["squeeze 2 -> 1"]["found"].endswith("1 pairs)")


def test_xtb_keeps_its_result_in_mode_mask_and_is_fit_for_team(tmp_path: Path) -> None:
    need("xtb")
    found = trial(tmp_path, "--only", "xtb")
    assert found["mode mask"]["held"], found["mode mask"]["found"]
    assert found["certified"]["held"], found["certified"]["found"]


@pytest.fixture
def trial_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TRIAL.parent))
    spec = importlib.util.spec_from_file_location("trial_under_test", TRIAL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "trial_under_test", module)
    spec.loader.exec_module(module)
    return module


def test_the_trial_tells_a_wrong_digit_of_a_kernel(trial_module: ModuleType) -> None:
    run = trial_module.Run(
        exit_code=0,
        seconds=1.0,
        hung=False,
        masks=1,
        confined=0,
        outputs={"stdout": b"exact 0x1.8p+1\nnear 1.0000000000000\n"},
        errors="",
    )

    def other(text: bytes) -> Any:
        return trial_module.replace(run, outputs={"stdout": text})

    same = trial_module.same_kernel
    assert same(run, other(b"exact 0x1.8p+1\nnear 1.0000000000001\n")) is None
    assert same(run, other(b"exact 0x1.8p+1\nnear 1.0000000001\n")) is not None
    assert same(run, other(b"exact 0x1.8000000000001p+1\nnear 1.0\n")) is not None
