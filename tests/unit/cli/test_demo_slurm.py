"""The demonstration beside Slurm: its nodes, its jobs, its table."""

from __future__ import annotations

import tomllib

from wattfold.coordinator.demo import layout as layouts
from wattfold.coordinator.demo.beside_slurm import __main__ as demo
from wattfold.coordinator.figures.run_record import Observation, PolicyResult


def test_one_cap_for_all_nodes_uses_the_budget() -> None:
    layout = layouts.emulated()
    names = [f"a{number}" for number in range(layouts.NODES)]
    alone = demo._nodes(demo.ALONE, layout, names)
    settings = [tomllib.loads(node.settings) for node in alone]
    most_w = [
        one["base_power_w"] + one["emulation"]["package_max_w"] + one["emulation"]["dram_max_w"]
        for one in settings
    ]
    assert sum(most_w) == layout.budget_w
    assert all(one["floor_w"] == one["emulation"]["package_max_w"] for one in settings)
    assert all(one["adopt_slurm"] for one in settings)
    beside = demo._nodes(demo.BESIDE, layout, names)
    assert [node.node_id for node in beside] == names
    assert tomllib.loads(beside[0].settings)["floor_w"] == layouts.FLOOR_W


def test_the_jobs_fit_the_nodes() -> None:
    found = demo.jobs(0.5)
    assert [one.spec.name for one in found][:2] == ["jacobi1", "compute2"]
    assert all(1 <= one.spec.size_max <= 2 for one in found)
    assert found[-1].at_s == demo.JOBS[-1][3] * 0.5
    for one in found:
        compile(one.spec.argv[2], one.spec.name, "exec")
    assert demo._quoted("it's") == "'it'\\''s'"


def result(name: str, above: int = 0) -> PolicyResult:
    return PolicyResult(
        policy=name,
        jobs=8,
        mean_completion_s=20.0,
        makespan_s=40.0,
        energy_j=5000.0,
        budget_w=171.0,
        committed_w_peak=171.0,
        measured_w_peak=150.0,
        resizes=0,
        observed=Observation(
            foreign_share=0.01, samples=100, samples_above=above, limits_w_peak=171.0
        ),
    )


def test_the_table_has_both_runs_and_the_budget_is_judged() -> None:
    runs = [result(demo.ALONE), result(demo.BESIDE)]
    lines = demo.table(runs).splitlines()
    assert lines[0] == "| | Slurm, one cap | Slurm and Wattfold |"
    assert all(line.count("|") == 4 for line in lines)
    assert "under 171 W" in demo.title(runs)
    assert demo.kept(runs)
    assert not demo.kept([runs[0], result(demo.BESIDE, above=1)])
