"""Runs on machines of several classes: job requests, files, stop and resume."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from unit.runs.sample_runs import case, contents
from unit.runs.test_runs import stop_after
from unit.workloads.swf_files import job, log

from wattfold.coordinator.policies import registry
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.machines.node_machine import NodeClass, NodeMachine
from wattfold.simulator.runs.build import jobs_of, simulation_of
from wattfold.simulator.runs.case import SimulationCase, WorkloadSource
from wattfold.simulator.runs.execute import CHECKPOINT, execute
from wattfold.simulator.workloads.errors import WorkloadError

TWO = NodeMachine(
    classes=(
        NodeClass.of_watts("large", 20, 16, idle_w=20),
        NodeClass.of_watts("small", 12, 4, idle_w=30),
    )
)


def shared(folder: Path | None = None, *, jobs: int = 40, policy: str = "easy") -> SimulationCase:
    """Jobs in processors that share nodes if they request less than a node."""
    source = WorkloadSource(
        model="lublin", jobs=jobs, procs_per_node=16, share_nodes=True, cut_sizes=True
    )
    full = BudgetSchedule.constant(TWO.full_uw)
    return replace(case(policy, folder), source=source, machine=TWO, budget=full)


@pytest.mark.parametrize("formats", [("csv",), ("csv", "parquet")], ids="+".join)
def test_a_stopped_run_ends_with_the_bytes_of_one_that_was_not(
    tmp_path: Path, formats: tuple[str, ...]
) -> None:
    whole, halves = shared(tmp_path / "whole"), shared(tmp_path / "halves")
    execute(whole, formats=formats)
    assert execute(halves, formats=formats, on_turn=stop_after(2)).record is None
    assert (tmp_path / "halves" / CHECKPOINT).exists()
    again = execute(halves, formats=formats, resume=True)
    assert again.resumed
    assert contents(tmp_path / "whole") == contents(tmp_path / "halves")


def test_files_have_the_cores_of_jobs_where_nodes_are_shared(tmp_path: Path) -> None:
    execute(shared(tmp_path / "shared"))
    with (tmp_path / "shared" / "jobs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    parts = [row for row in rows if int(row["cores_first"]) < 16]
    assert parts
    for row in rows:
        held = int(row["cores_first"]) * float(row["run_s"])
        assert float(row["core_s"]) == pytest.approx(held)
    execute(case("easy", tmp_path / "counted"))
    assert b"cores_first" not in (tmp_path / "counted" / "jobs.csv").read_bytes()


def test_like_nodes_and_whole_jobs_are_counted(tmp_path: Path) -> None:
    """Nodes of one class are counted, for speed and for policies that only count.

    The files are equal.
    """
    only = NodeMachine(classes=(NodeClass.of_watts("only", 32, 16, idle_w=20),))
    for policy in ("easy", "conservative"):
        by_number = case(policy, tmp_path / f"{policy}-number")
        by_file = replace(by_number, machine=only, folder=tmp_path / f"{policy}-file")
        table, _ = jobs_of(by_file)
        assert isinstance(simulation_of(by_file, table).machine, Machine)
        files = []
        for one in (by_number, by_file):
            assert one.folder is not None
            execute(one)
            files.append({name: contents(one.folder)[name] for name in ("jobs.csv", "series.csv")})
        assert files[0] == files[1]


def test_requests_of_a_file_reach_the_jobs(tmp_path: Path) -> None:
    path = log(tmp_path, *[job(n, n * 10, f4=100, f5=1) for n in range(1, 5)])
    requests = tmp_path / "requests.csv"
    requests.write_text("job_id,cores,memory_mib,gpus,features\n2,4,,,\n4,,8,1,fast new\n99,1,,,\n")
    source = WorkloadSource(log=path, requests=requests)
    made = replace(shared(), source=source)
    units = jobs_of(made)[0].units
    assert units is not None
    assert units.cores.tolist() == [0, 4, 0, 0]
    assert units.memory_bytes.tolist() == [0, 0, 0, 8 << 20]
    assert units.gpus.tolist() == [0, 0, 0, 1]
    assert units.features == ((), (), (), ("fast", "new"))
    with pytest.raises(ValueError, match="but the empty machine holds 0"):
        execute(made)
    requests.write_text("job_id,cores\n1,x\n")
    with pytest.raises(WorkloadError, match=r"requests\.csv:2: not a request"):
        jobs_of(made)
    requests.write_text("job_id,cors\n1,1\n")
    with pytest.raises(WorkloadError, match="any of job_id, cores"):
        jobs_of(made)


def test_a_policy_that_the_service_has_not_says_so() -> None:
    entry = next(registry.entries())
    pooled = replace(entry, variant=replace(entry.variant, service=None))
    with pytest.raises(ValueError, match="the service cannot use it"):
        pooled.service({})


def test_promises_are_kept_on_unlike_nodes_that_jobs_share() -> None:
    record = execute(shared(policy="conservative")).record
    assert record is not None
    assert (record.columns.end_ns > 0).all()


def test_what_was_not_given_is_not_in_the_description_of_a_run() -> None:
    """Files of runs without these settings stay as they were."""
    assert "requests" not in case("easy").identity()["source"]
    assert shared().identity()["source"]["share_nodes"] is True
