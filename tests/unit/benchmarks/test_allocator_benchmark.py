"""The benchmark of the allocator reports missed targets."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[3] / "scripts" / "bench"
SOURCE = Path(__file__).parents[3] / "scripts" / "benchmarks" / "allocator.py"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("allocator_benchmark", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("median_ms", "worst_ms", "gap", "outcome", "met"),
    [
        (4.0, 20.0, 5e-4, "optimal", True),
        (6.0, 20.0, 5e-4, "optimal", False),
        (4.0, 26.0, 5e-4, "optimal", False),
        (4.0, 20.0, 2e-3, "optimal", False),
        (4.0, 20.0, 5e-4, "feasible", False),
    ],
)
def test_a_missed_target_is_told(
    benchmark: ModuleType, median_ms: float, worst_ms: float, gap: float, outcome: str, met: bool
) -> None:
    row = benchmark.Row(
        jobs=200,
        variant="identical",
        seed=0,
        solver="lagrangian",
        options=9600,
        outcome=outcome,
        median_ms=median_ms,
        best_ms=1.0,
        worst_ms=worst_ms,
        gap=gap,
        build_ms=0.1,
    )
    assert benchmark.verdict(200, [row])["met"] is met
    assert benchmark.exit_status([row]) == (0 if met else 1)


def test_families_without_a_target_miss_none(benchmark: ModuleType) -> None:
    def row(variant: str, outcome: str) -> object:
        return benchmark.Row(
            jobs=200,
            variant=variant,
            seed=0,
            solver="lagrangian",
            options=9600,
            outcome=outcome,
            median_ms=4.0,
            best_ms=4.0,
            worst_ms=4.0,
            gap=5e-4,
            build_ms=0.1,
        )

    met = row("identical", "optimal")
    assert benchmark.exit_status([met, row("four-kinds-of-nodes", "feasible")]) == 0
    assert benchmark.exit_status([met, row("aged-array", "feasible")]) == 1


@pytest.mark.parametrize(("first", "last", "status"), [(0, 0, 0), (1, 0, 1), (0, 1, 1)])
def test_bench_passes_on_that_one_of_several_missed(
    tmp_path: Path, first: int, last: int, status: int
) -> None:
    scripts = tmp_path / "scripts"
    (scripts / "benchmarks").mkdir(parents=True)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    shutil.copy(BENCH, scripts / "bench")
    (scripts / "setup").write_text("#!/bin/sh\n")
    (scripts / "setup").chmod(0o755)
    for name, code in (("one", first), ("two", last)):
        (scripts / "benchmarks" / f"{name}.py").write_text(f"raise SystemExit({code})\n")
    done = subprocess.run(["bash", scripts / "bench", "one", "two"], check=False)
    assert done.returncode == status
