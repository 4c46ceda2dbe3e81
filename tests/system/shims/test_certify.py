"""Certification by test runs detects programs that do not tolerate a changing team."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from system.shims.programs_build import compile_program

from wattfold.shims.certify import Certificate, Effort, certify, command_check
from wattfold.shims.certify_compare import Comparison
from wattfold.shims.certify_run import Program

pytestmark = pytest.mark.system

QUICK = Effort(static_runs=2, resized_runs=2, resizes_min=10, runs_max=20)


@pytest.fixture(scope="module")
def odd(built_shims: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program("odd.c", built_shims, tmp_path_factory.mktemp("odd"), "-fopenmp")


def tried(odd: Path, shim: Path, folder: Path, kind: str, **more: object) -> Certificate:
    program = Program(argv=(str(odd), kind), folder=folder, threads=4)
    return certify(program, shim, effort=QUICK, **more)  # type: ignore[arg-type]


def test_a_fit_program_gets_team_mode_and_the_evidence(
    odd: Path, shim: Path, tmp_path: Path
) -> None:
    verdict = tried(odd, shim, tmp_path, "fit")
    assert (verdict.mode, verdict.reason) == ("team", "")
    assert verdict.acknowledged >= QUICK.resizes_min
    assert len(verdict.sizes) > 1
    assert verdict.runtime == "libgomp"
    # The last message of a program, with its count, may be lost.
    assert 0 < verdict.regions <= verdict.resized_runs * 16000
    assert len(verdict.sha256) == 64
    assert verdict.as_dict()["comparison"] == "bit by bit"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("counts", "the result of the resized program differs: standard output line 2: 'threads"),
        ("drifts", "the result of the resized program differs: standard output line 1"),
        ("aborts", "the resized program was ended by signal 6: the number of threads has changed"),
        ("fails", "an undisturbed run failed with exit code 3"),
        ("serial", "the program ran no parallel region"),
    ],
)
def test_an_unfit_program_gets_mask_mode_and_the_reason(
    odd: Path, shim: Path, tmp_path: Path, kind: str, reason: str
) -> None:
    verdict = tried(odd, shim, tmp_path, kind)
    assert verdict.mode == "mask"
    assert verdict.reason.startswith(reason)


def test_a_program_that_hangs_is_ended(odd: Path, shim: Path, tmp_path: Path) -> None:
    verdict = tried(odd, shim, tmp_path, "hangs")
    assert verdict.mode == "mask"
    assert verdict.reason.startswith("the resized program did not end within")


def test_a_tolerance_and_lines_left_out(odd: Path, shim: Path, tmp_path: Path) -> None:
    within = tried(odd, shim, tmp_path, "drifts", comparison=Comparison(relative=1e-6))
    without = tried(odd, shim, tmp_path, "counts", comparison=Comparison(ignore=("^threads",)))
    assert (within.mode, without.mode) == ("team", "team")


def test_a_check_of_the_users_own(odd: Path, shim: Path, tmp_path: Path) -> None:
    script = tmp_path / "check.py"
    script.write_text(
        "import pathlib, sys\n"
        "a, b = (pathlib.Path(p, 'stdout').read_text().split()[:2] for p in sys.argv[1:])\n"
        "sys.exit(f'{a} is not {b}' if a != b else 0)\n"
    )
    check = command_check((sys.executable, str(script)))
    assert tried(odd, shim, tmp_path, "counts", check=check).mode == "team"
    verdict = tried(odd, shim, tmp_path, "drifts", check=check)
    assert verdict.reason.startswith(
        "the result of the resized program differs: the check failed (1): ['sum',"
    )
