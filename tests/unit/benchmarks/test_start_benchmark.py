"""The benchmark of starts fails when job starts miss their targets."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[3] / "scripts" / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    spec = importlib.util.spec_from_file_location("start_benchmark", FOLDER / "start.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("seconds", "agent_ms", "keeper_ms", "met"),
    [(1.0, 4.0, 5.0, True), (1.1, 4.0, 5.0, False), (1.0, 6.0, 5.0, False)],
)
def test_a_missed_target_of_job_starts_fails(
    benchmark: ModuleType, seconds: float, agent_ms: float, keeper_ms: float, met: bool
) -> None:
    jobs = sys.modules["start_jobs"]
    cpu_ms = {"agent": agent_ms, "keepers and jobs": keeper_ms}
    loads = [jobs.Load(jobs=100, elapsed_s=seconds, cpu_ms=cpu_ms)] * 3
    rows = jobs.rows_of("node", loads)
    assert benchmark.exit_status(rows) == (0 if met else 1)
