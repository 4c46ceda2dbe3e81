"""Kernels like those of benchmark suites keep their results while their teams change.

Every digit of the lines "exact" must stay, whatever the team. The lines "near" are reductions,
whose order of additions OpenMP leaves open. `scripts/trial_programs` runs a longer version.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from system.shims.programs_build import clang_missing, compile_program

from wattfold.shims.certify_compare import Comparison, difference
from wattfold.shims.certify_run import Program, Resizing, run_alone, run_resized

pytestmark = pytest.mark.system

KERNELS = {"random": "200", "sparse": "250", "hydro": "600"}
RESIZES = 40
RUNS_MAX = 20
EXACT = Comparison(ignore=("^near",))
NEAR = Comparison(relative=1e-12, ignore=("^exact",))


@pytest.fixture(scope="module", params=["gcc", "clang"])
def kernels(
    request: pytest.FixtureRequest, built_shims: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "clang" and (missing := clang_missing(folder)):
        pytest.skip(missing)
    return {
        name: compile_program(
            *(f"kernel_{name}.c", built_shims, folder, "-fopenmp"),
            libraries=("-lm",),
            compiler=request.param,
        )
        for name in KERNELS
    }


@pytest.mark.parametrize("name", KERNELS)
def test_results_stay_while_the_team_changes(
    kernels: dict[str, Path], shim: Path, tmp_path: Path, name: str
) -> None:
    environment = {"OMP_MAX_ACTIVE_LEVELS": "2"}
    program = Program(
        argv=(str(kernels[name]), KERNELS[name]),
        folder=tmp_path,
        threads=4,
        environment=environment,
    )
    alone = run_alone(program, 60)
    assert (alone.exit_code, alone.errors) == (0, "")
    assert alone.outputs["standard output"].startswith(b"exact ")
    chance, seen = random.Random(7), Resizing()
    for _ in range(RUNS_MAX):
        resized = run_resized(program, shim, 60, chance, seen)
        assert (resized.exit_code, resized.errors) == (0, "")
        assert difference(alone.outputs, resized.outputs, EXACT) is None
        assert difference(alone.outputs, resized.outputs, NEAR) is None
        if seen.acknowledged >= RESIZES:
            break
    assert seen.acknowledged >= RESIZES
    assert seen.sizes == {1, 2, 3, 4}
