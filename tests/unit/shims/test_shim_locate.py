"""Search for the shim library."""

from __future__ import annotations

from pathlib import Path

from wattfold.shims.locate import OMP_SHIM_FILE, OMP_SHIM_VARIABLE, find_omp_shim


def test_the_environment_wins(tmp_path: Path) -> None:
    told = tmp_path / "mine.so"
    told.touch()
    assert find_omp_shim({OMP_SHIM_VARIABLE: str(told)}) == told


def test_a_wrong_environment_is_not_second_guessed(tmp_path: Path) -> None:
    assert find_omp_shim({OMP_SHIM_VARIABLE: str(tmp_path / "absent.so")}) is None


def test_without_it_the_answer_is_a_file_of_that_name_or_none() -> None:
    found = find_omp_shim({})
    assert found is None or (found.is_file() and found.name == OMP_SHIM_FILE)
