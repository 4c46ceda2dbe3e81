"""Every policy starts the same jobs at the same times on counted nodes and on named nodes."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from unit.cli.command import Command
from unit.workloads.swf_files import job, log

from wattfold.coordinator.policies import registry
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.machines.node_machine import NodeClass, NodeMachine
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.runs.build import jobs_of, simulation_of
from wattfold.simulator.runs.case import PolicyChoice, SimulationCase, WorkloadSource

COUNTED = Machine.of_watts(16)
NAMED = NodeMachine(classes=(NodeClass.of_watts("one", 10, 16), NodeClass.of_watts("other", 6, 16)))
"""The same nodes in two classes. They are not counted, because jobs could distinguish them."""
JOBS, FEW = 40, 12
"""Few for the policies that plan the whole queue at every event."""
NS = 1e9


@cache
def source(folder: Path, exact: bool, count: int = JOBS) -> WorkloadSource:
    rng, at, rows = random.Random(5), 0, []
    for number in range(1, count + 1):
        at, run = at + rng.randint(1, 400), rng.randint(60, 3000)
        asked = run if exact else run * rng.choice([1, 2, 3])
        rows.append(job(number, at, f4=run, f5=rng.randint(1, 9), f9=asked))
    return WorkloadSource(log=log(folder, *rows, name=f"exact-{exact}-{count}.swf"))


@cache
def simulated(
    name: str,
    machine: Machine | NodeMachine,
    folder: Path,
    exact: bool = True,
    values: tuple[tuple[str, int | float | str], ...] = (),
) -> RunRecord:
    entry = registry.find(name)
    assert entry is not None
    jobs = source(folder, exact, FEW if name.startswith("constraint") else JOBS)
    case = SimulationCase(
        source=replace(jobs, profiles=entry.family.needs_profiles),
        machine=machine,
        budget=BudgetSchedule.constant(COUNTED.full_uw),
        policy=PolicyChoice(name=entry.variant.simulator_name, settings=values),
    )
    table, _ = jobs_of(case)
    simulation = simulation_of(case, table)
    simulation.run()
    return simulation.record()


def same_starts(one: RunRecord, other: RunRecord) -> bool:
    return np.allclose(one.columns.start_ns, other.columns.start_ns, rtol=0, atol=NS / 1000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.mark.parametrize("entry", list(registry.entries()), ids=lambda e: e.variant.name)
def test_both_engines_start_the_same_or_the_description_says_why_not(
    folder: Path, entry: registry.RegisteredPolicy
) -> None:
    # Policies without a pool version use names on both machines.
    both = entry.variant.pool is not None and not entry.variant.by_name
    for exact in (True, False) if both else (True,):
        name = entry.variant.name
        counted, named = (simulated(name, one, folder, exact) for one in (COUNTED, NAMED))
        agree = same_starts(counted, named)
        assert agree or entry.variant.by_name, f"exact estimates: {exact}"
        waited_ns = counted.columns.start_ns - counted.jobs.submit_ns
        assert (waited_ns > 0).sum() > 2, "some jobs wait"


TOLD = sorted({entry.variant.by_name for entry in registry.entries() if entry.variant.by_name})


@pytest.mark.parametrize("sentence", TOLD)
def test_the_difference_that_a_description_tells_exists(folder: Path, sentence: str) -> None:
    names = [e.variant.name for e in registry.entries() if e.variant.by_name == sentence]
    assert any(
        not same_starts(*(simulated(name, one, folder, exact) for one in (COUNTED, NAMED)))
        for name in names
        for exact in (False, True)
    )


def test_jobs_lend_cores_on_named_nodes_as_on_counted_ones(folder: Path) -> None:
    name = "slowdown-driven"
    alike = NodeMachine(classes=(NodeClass.of_watts("only", 16, 16),))
    counted, file, named = (simulated(name, one, folder) for one in (COUNTED, alike, NAMED))
    assert counted.columns.resizes.sum() > 2
    assert np.array_equal(counted.columns.start_ns, file.columns.start_ns)
    assert np.array_equal(counted.columns.end_ns, file.columns.end_ns)
    assert named.columns.resizes.sum() > 2
    assert not same_starts(named, simulated("easy", NAMED, folder))


@pytest.mark.parametrize("name", ["parm-wse", "equipartition"])
def test_jobs_on_whole_named_nodes_are_resized(folder: Path, name: str) -> None:
    counted, named = (simulated(name, one, folder) for one in (COUNTED, NAMED))
    assert counted.columns.resizes.sum() > 0
    assert named.columns.resizes.sum() > 0


def test_a_setting_that_named_nodes_do_not_have_is_refused(folder: Path) -> None:
    name = "slowdown-driven"
    with pytest.raises(ValueError, match=r"slowdown-driven\.check needs identical nodes"):
        simulated(name, NAMED, folder, values=(("check", "yes"),))
    with pytest.raises(ValueError, match="17 ranks on each node of 16 cores"):
        simulated(name, NAMED, folder, values=(("ranks", 17),))


def test_the_user_of_a_machine_file_is_told_of_the_difference(tmp_path: Path, folder: Path) -> None:
    machine = tmp_path / "two.toml"
    machine.write_text(
        "".join(f'[[class]]\nname = "{n}"\nnodes = 8\ncores = 16\n' for n in ("one", "other"))
    )
    entry = registry.find("slowdown-driven")
    assert entry is not None
    sentence = f"slowdown-driven: {entry.variant.by_name}"
    words = ("--log", str(source(folder, True).log), "--machine", str(machine))
    shown = [
        Command("unix:/nonexistent/wattfold.sock")(*line)
        for line in (
            ("simulate", *words, "--policy", "slowdown-driven"),
            ("compare", *words, "--policies", "slowdown-driven"),
            ("policies", "slowdown-driven"),
        )
    ]
    assert [result.exit_code for result in shown] == [0, 0, 0], shown[0].output
    assert all(sentence in result.stdout for result in shown[:2])
    assert entry.variant.by_name in " ".join(shown[2].stdout.split())
