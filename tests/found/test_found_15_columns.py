"""A column of a simulation depends on its policy and its jobs, never on other columns."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from unit.cli.command import Command

from wattfold.coordinator.cli.simulation.compare import _cases as compare_cases
from wattfold.coordinator.cli.simulation.compare import compare
from wattfold.coordinator.cli.simulation.runs.simulate import simulate
from wattfold.coordinator.cli.simulation.runs.simulate_cases import cases_of
from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.models.pass_model import APPLICATIONS, PassProfile
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.resources.estimates import estimate
from wattfold.simulator.engine.machines.node_machine import NodeMachine
from wattfold.simulator.engine.schedulers.named_scheduler import NamedPolicyScheduler
from wattfold.simulator.runs.build import jobs_of, simulation_of
from wattfold.simulator.runs.case import SimulationCase
from wattfold.simulator.workloads.annotations import RANGE_W

NAMES = registry.simulator_names()
JOBS = ("--model", "lublin", "--jobs", "30", "--cut-sizes")
UNLIKE = """
[[class]]
name = "large"
nodes = 4
cores = 16
base_w = 60
cap_min_w = 75
cap_max_w = 480
[[class]]
name = "small"
nodes = 4
cores = 8
base_w = 30
cap_min_w = 40
cap_max_w = 90
"""


@pytest.fixture
def unlike(tmp_path: Path) -> Path:
    path = tmp_path / "unlike.toml"
    path.write_text(UNLIKE)
    return path


def machines(unlike: Path) -> list[tuple[str, ...]]:
    """Machines and budgets: unlimited, limited, with named nodes."""
    return [
        ("--nodes", "16"),
        ("--nodes", "16", "--budget", "1.6kW"),
        ("--machine", str(unlike)),
        ("--machine", str(unlike), "--budget", "1.8kW"),
    ]


def simulated(words: tuple[str, ...], *names: str) -> list[SimulationCase]:
    """Cases that a `simulate` command runs; equal cases give equal results."""
    chosen = [word for name in names for word in ("--policy", name)]
    options = simulate.make_context("simulate", [*JOBS, *words, *chosen]).params
    return cases_of(options, None)


def compared(words: tuple[str, ...], *names: str) -> list[SimulationCase]:
    options = compare.make_context("compare", [*JOBS, *words, "--policies", ",".join(names)])
    return compare_cases(options.params)


def test_a_column_alone_is_the_column_beside_any_other(unlike: Path) -> None:
    for words in machines(unlike):
        alone = {name: simulated(words, name)[0] for name in NAMES}
        for one, other in permutations(NAMES, 2):
            assert simulated(words, one, other)[0] == alone[one], (words, one, other)


def test_compare_and_simulate_run_the_same_for_every_policy(unlike: Path) -> None:
    for words in machines(unlike):
        assert compared(words, *NAMES) == simulated(words, *NAMES), words


def shown(*words: str) -> Any:
    result = Command("unix:/nonexistent/wattfold.sock")(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_caps_cost_time_in_both_commands() -> None:
    words = (*JOBS, "--nodes", "16", "--budget", "1.35kW")
    [alone] = shown("simulate", *words, "--policy", "easy-uniform")["runs"]
    [one] = shown("compare", *words, "--policies", "easy-uniform")["runs"]
    assert alone["completion_s_mean"] == one["completion_s_mean"]
    [case] = simulated(words[5:], "easy-uniform")
    table, _ = jobs_of(case)
    run = simulation_of(case, table)
    run.run()
    columns = run.record().columns
    slow = columns.first_cap_uw < 30_000_000
    assert slow.any()
    took_ns = columns.end_ns - columns.start_ns
    assert (took_ns > table.run_ns)[slow].all()


def test_a_cap_slows_a_job_on_every_class_of_nodes(unlike: Path) -> None:
    [case] = simulated(("--machine", str(unlike), "--budget", "1.8kW"), "easy")
    table, _ = jobs_of(case)
    machine = case.machine
    assert isinstance(machine, NodeMachine)
    times = simulation_of(case, table)._holdings.running.times  # type: ignore[attr-defined]
    for kind, one in enumerate(machine.classes):
        mix = {(kind, one.cores, one.cores): int(table.size_max[0])}
        full_ns = times.total_ns(0, mix, one.cap_uw_max)
        middle_ns = times.total_ns(0, mix, (one.cap_uw_min + one.cap_uw_max) // 2)
        assert full_ns == pytest.approx(table.run_ns[0], abs=2), "logged times are at full power"
        assert full_ns < middle_ns < times.total_ns(0, mix, one.cap_uw_min)


@pytest.mark.parametrize("range_w", [(75.0, 480.0), (10.0, 1000.0), (100.0, 110.0), (50.0, 50.0)])
@pytest.mark.parametrize("app", sorted(APPLICATIONS))
def test_a_profile_keeps_its_speeds_at_the_ends_of_another_range(
    app: str, range_w: tuple[float, float]
) -> None:
    known = replace(APPLICATIONS[app], range_w=RANGE_W)
    moved = known.on(*range_w)
    assert known.on(*RANGE_W) == known
    assert moved.time_s(4, range_w[1]) == pytest.approx(known.time_s(4, RANGE_W[1]))
    assert moved.time_s(4, moved.p_low_w) == pytest.approx(known.time_s(4, known.p_low_w))
    assert range_w[0] * 0.99 <= moved.p_low_w < moved.p_high_w <= range_w[1]


def test_the_service_takes_no_cap_for_free_without_a_profile(unlike: Path) -> None:
    """A job on nodes of each kind, as PARM sees it: its floor is slower than full power."""
    [case] = simulated(("--machine", str(unlike)), "parm-wse")
    table, _ = jobs_of(case)
    scheduler = simulation_of(case, table).scheduler
    assert isinstance(scheduler, NamedPolicyScheduler)
    scheduler.submit(0, 0)
    [view] = scheduler._views.values()
    assert isinstance(case.machine, NodeMachine)
    kinds: list[NodeKind] = [one.kind for one in case.machine.classes]
    learnt = replace(APPLICATIONS["LeanMD"], range_w=(25.0, 60.0))
    for profile in (None, view.profile, learnt):
        for kind in kinds:
            found: PassProfile = estimate(replace(view, profile=profile), kind).profile
            at_floor_s, at_most_s = (
                found.time_s(1, uw / 1e6) for uw in (kind.least_uw, kind.most_uw)
            )
            assert at_floor_s > 1.05 * at_most_s


def test_results_say_where_profiles_come_from(unlike: Path) -> None:
    words = (*JOBS, "--nodes", "16", "--seed", "7")
    limited = (*words, "--budget", "1.6kW")
    for command in ("simulate", "compare"):
        [run] = shown(command, *limited, *_one(command))["runs"]
        assert (run["profiles"], run["profiles_seed"]) == ("drawn", 7)
        [run] = shown(command, *words, *_one(command))["runs"]
        assert (run["profiles"], run["profiles_seed"]) == (None, None)
        texts = [
            Command("unix:/nonexistent/wattfold.sock")(command, *given, *_one(command)).stdout
            for given in (limited, words)
        ]
        assert "Profiles: drawn from seed 7, not measured." in texts[0]
        assert "Run times: as logged, at full power; no profiles." in texts[1]


def _one(command: str) -> tuple[str, ...]:
    return ("--policy", "easy") if command == "simulate" else ("--policies", "easy")
