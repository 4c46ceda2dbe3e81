"""The job file records the cores of each job over time, so that a run can be audited."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import pytest
from unit.pool.pools import table
from unit.pool.test_by_node import FULL_W, Parts, run
from unit.runs.sample_runs import case
from unit.runs.test_runs_by_node import TWO, shared

from wattfold.simulator.engine.by_node import places_text
from wattfold.simulator.results.files import write_jobs
from wattfold.simulator.runs.execute import execute


def read_places(text: str) -> dict[int, int]:
    """Cores by node."""
    held = {}
    for part in text.split():
        nodes, cores = part.split("x")
        first, _, last = nodes.partition("-")
        held |= dict.fromkeys(range(int(first), int(last or first) + 1), int(cores))
    return held


@pytest.mark.parametrize("held", [{}, {0: 4}, {0: 8, 1: 8, 2: 8, 3: 2, 5: 2, 6: 2}, {7: 1, 3: 1}])
def test_places_are_read_back(held: dict[int, int]) -> None:
    assert read_places(places_text(held)) == held
    assert places_text({0: 8, 1: 8, 3: 8}) == "0-1x8 3x8"


def audited(path: Path, capacity: list[int]) -> list[str]:
    """Read the places of all jobs and check that no node ever gives more cores than it has."""
    changes: dict[float, list[tuple[int, int]]] = defaultdict(list)
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    for row in rows:
        entries = [entry.split("=") for entry in row["places"].split("|")]
        assert entries[0][0] == row["start_s"]
        ends = [float(time) for time, _ in entries[1:]] + [float(row["end_s"])]
        core_s = 0.0
        for (time, text), end in zip(entries, ends, strict=True):
            held = read_places(text)
            core_s += sum(held.values()) * (end - float(time))
            for node, cores in held.items():
                changes[float(time)].append((node, cores))
                changes[end].append((node, -cores))
        assert core_s == pytest.approx(float(row["core_s"]))
    used = [0] * len(capacity)
    for time in sorted(changes):
        for node, cores in changes[time]:
            used[node] += cores
        assert all(0 <= have <= most for have, most in zip(used, capacity, strict=True)), time
    assert not any(used)
    return [row["places"] for row in rows]


def test_jobs_that_share_nodes_can_be_audited(tmp_path: Path) -> None:
    execute(shared(tmp_path))
    places = audited(tmp_path / "jobs.csv", [16] * 20 + [4] * 12)
    assert len(places) == 40
    assert len(TWO.classes) == 2


def test_lent_cores_can_be_audited(tmp_path: Path) -> None:
    record = run(
        table((0, 2, 100), (0, 2, 100)),
        (0, [Parts(0, [0, 1], 8, FULL_W)]),
        (20, [Parts(0, [0, 1], 4, FULL_W), Parts(1, [0, 1], 4, FULL_W)]),
        (80, [Parts(1, [0, 1], 2, FULL_W), Parts(0, [0, 1], 6, FULL_W)]),
        (90, [Parts(1, [], 0, FULL_W // 2)]),
    )
    write_jobs(record, tmp_path / "jobs.csv")
    assert audited(tmp_path / "jobs.csv", [8] * 4) == [
        "0=0-1x8|20=0-1x4|80=0-1x6",
        "20=0-1x4|80=0-1x2",
    ]


def test_runs_that_count_nodes_have_no_such_column(tmp_path: Path) -> None:
    execute(case("easy", tmp_path))
    assert b"places" not in (tmp_path / "jobs.csv").read_bytes()
