"""Runs of a case: identical bytes every time, also after a stop, and refused checkpoints."""

from __future__ import annotations

import csv
import os
from dataclasses import replace
from pathlib import Path

import pytest
from unit.runs.sample_runs import FALLS, HALF, MACHINE, S, case, constant, contents
from unit.workloads.swf_files import job, log

from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.engine import Turn
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.record import JobColumns
from wattfold.simulator.messages.restarts import RestartTimes
from wattfold.simulator.results.errors import ResultFileError
from wattfold.simulator.runs.build import jobs_of
from wattfold.simulator.runs.case import (
    POLICIES,
    PolicyChoice,
    WorkloadSource,
)
from wattfold.simulator.runs.execute import (
    CHECKPOINT,
    CheckpointError,
    execute,
)

BOTH = ("csv", "parquet")


def stop_after(turns: int):
    """Return a turn callback that stops a run at the ``turns``-th turn."""
    left = [turns]

    def on_turn(_turn: Turn) -> bool:
        left[0] -= 1
        return left[0] > 0

    return on_turn


# ---- determinism -------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_two_runs_with_one_seed_leave_the_same_bytes(policy: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        made = case(policy, tmp_path / name, jobs=10, budget=constant(policy))
        execute(made, formats=BOTH)
    first = contents(tmp_path / "a")
    assert set(first) == {
        "jobs.csv",
        "jobs.parquet",
        "series.csv",
        "series.parquet",
        "metrics.json",
    }
    assert first == contents(tmp_path / "b")


def test_another_seed_gives_another_run(tmp_path: Path) -> None:
    for seed in (1, 2):
        execute(case("easy", tmp_path / str(seed), seed=seed))
    assert contents(tmp_path / "1")["jobs.csv"] != contents(tmp_path / "2")["jobs.csv"]


def test_a_log_may_lie_elsewhere_but_not_change(tmp_path: Path) -> None:
    rows = [job(number, number * 10, f5=4) for number in range(1, 30)]
    identities = []
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        path = log(tmp_path / name, *(rows if name != "c" else rows[:-1]))
        made = case("easy", source=WorkloadSource(log=path))
        identities.append(made.identity())
    assert identities[0] == identities[1]
    assert identities[0] != identities[2]


# ---- the budget --------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("falls", [False, True], ids=["constant", "falls"])
def test_no_run_is_over_its_budget(policy: str, falls: bool) -> None:
    record = execute(case(policy, budget=FALLS if falls else constant(policy))).record
    assert record is not None
    assert record.over_budget_ns == 0
    assert (record.series.committed_uw <= record.series.budget_uw).all()
    assert record.peak_committed_uw > MACHINE.idle_total_uw
    assert (record.columns.end_ns > 0).all()


# ---- restarts ----------------------------------------------------------------------------------


def resizing(*, price_resizes: bool = False, **changed: object) -> JobColumns:
    """A run whose jobs change their sizes."""
    source = WorkloadSource(model="lublin", jobs=60, profiles=True)
    machine = Machine.of_watts(16, idle_w=20)
    policy = PolicyChoice(name="parm-wse", price_resizes=price_resizes)
    made = replace(case("parm-wse", seed=0), source=source, machine=machine, policy=policy)
    made = replace(made, budget=BudgetSchedule.constant(machine.full_uw), **changed)
    record = execute(made).record
    assert record is not None
    return record.columns


def test_each_resize_stalls_a_job_for_a_restart() -> None:
    columns = resizing(restarts=RestartTimes(save_ns=3 * S, start_ns=4 * S))
    assert columns.resizes.any()
    assert (columns.stalled_ns == columns.resizes * 7 * S).all()


def test_the_policy_reckons_with_restarts_and_not_with_links() -> None:
    at_once = resizing(restarts=RestartTimes(), price_resizes=True)
    free = resizing(resize_costs=False)
    assert at_once.resizes.tolist() == free.resizes.tolist()
    assert at_once.end_ns.tolist() == free.end_ns.tolist()
    long = resizing(restarts=RestartTimes(start_ns=3600 * S))
    assert long.resizes.sum() < free.resizes.sum()


def test_a_run_is_another_one_with_restarts_even_if_they_take_no_time() -> None:
    plain = case("parm-wse").identity()
    assert "restarts" not in plain
    assert {**plain, "restarts": {"save_ns": 0, "start_ns": 0}} == case(
        "parm-wse", restarts=RestartTimes()
    ).identity()


# ---- stop and resume ---------------------------------------------------------------------------


@pytest.mark.parametrize("formats", [("csv",), ("parquet",), BOTH], ids="+".join)
def test_a_stopped_run_ends_with_the_bytes_of_one_that_was_not(
    tmp_path: Path, formats: tuple[str, ...]
) -> None:
    whole = case("easy", tmp_path / "whole", jobs=8000)
    halves = replace(whole, folder=tmp_path / "halves")
    execute(whole, formats=formats)
    stopped = execute(halves, formats=formats, on_turn=stop_after(2))
    assert stopped.record is None
    assert (tmp_path / "halves" / CHECKPOINT).exists()
    again = execute(halves, formats=formats, resume=True, on_turn=stop_after(2))
    assert (again.record, again.resumed) == (None, True)
    assert execute(halves, formats=formats, resume=True).record is not None
    assert contents(tmp_path / "whole") == contents(tmp_path / "halves")


def test_what_was_written_after_the_checkpoint_is_written_again(tmp_path: Path) -> None:
    """A killed run has rows in its file that are newer than its last checkpoint."""
    whole = case("easy", tmp_path / "whole", jobs=8000)
    killed = replace(whole, folder=tmp_path / "killed")
    execute(whole)

    class KilledError(Exception):
        pass

    turns = []

    def on_turn(turn: Turn) -> bool:
        turns.append(turn)
        if len(turns) == 4:
            raise KilledError
        return True

    with pytest.raises(KilledError):
        execute(killed, on_turn=on_turn, checkpoint_every_s=0.0)
    with (tmp_path / "killed" / "jobs.csv").open("ab") as file:
        file.write(b"half a row of a run that was kil")
    assert execute(killed, resume=True).resumed
    assert contents(tmp_path / "whole") == contents(tmp_path / "killed")


def test_resuming_without_a_checkpoint_runs_from_the_start(tmp_path: Path) -> None:
    outcome = execute(case("easy", tmp_path), resume=True)
    assert outcome.record is not None
    assert not outcome.resumed


def test_a_new_run_removes_what_an_earlier_one_left(tmp_path: Path) -> None:
    execute(case("easy", tmp_path, jobs=8000), formats=BOTH, on_turn=stop_after(2))
    execute(case("fcfs", tmp_path), formats=("csv",))
    assert set(contents(tmp_path)) == {"jobs.csv", "series.csv", "metrics.json"}


@pytest.mark.parametrize(
    ("changed", "formats", "message"),
    [
        ({"seed": 9}, ("csv",), "is from another run"),
        ({"policy": PolicyChoice(name="fcfs")}, ("csv",), "is from another run"),
        ({"budget": HALF}, ("csv",), "is from another run"),
        ({}, ("parquet",), "give the --format of the stopped run"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_and_kept(
    tmp_path: Path, changed: dict[str, object], formats: tuple[str, ...], message: str
) -> None:
    stopped = case("easy", tmp_path, jobs=8000)
    execute(stopped, on_turn=stop_after(2))
    before = contents(tmp_path)
    with pytest.raises(CheckpointError, match=message):
        execute(replace(stopped, **changed), resume=True, formats=formats)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("how", ["cut", "changed", "empty", "folder"])
def test_a_damaged_checkpoint_is_one_line(tmp_path: Path, how: str) -> None:
    stopped = case("easy", tmp_path, jobs=8000)
    execute(stopped, on_turn=stop_after(2))
    path = tmp_path / CHECKPOINT
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()
    if how == "folder":
        path.mkdir()
    else:
        path.write_bytes({"cut": data[:-9], "changed": data, "empty": b""}[how])
    with pytest.raises(CheckpointError, match=r"is damaged|cannot be read") as raised:
        execute(stopped, resume=True)
    assert "\n" not in str(raised.value)


def test_a_file_of_jobs_that_was_cut_is_one_line(tmp_path: Path) -> None:
    stopped = case("easy", tmp_path, jobs=8000)
    execute(stopped, on_turn=stop_after(2))
    os.truncate(tmp_path / "jobs.csv", 100)
    with pytest.raises(ResultFileError, match="cannot be continued"):
        execute(stopped, resume=True)


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ResultFileError, match="cannot be used: Not a directory"):
        execute(case("easy", tmp_path / "file" / "run"))


def test_a_run_with_a_solver_can_be_stopped_before_it_has_ended() -> None:
    seen: list[int] = []
    outcome = execute(
        case("parm-wse", jobs=60), on_turn=lambda turn: seen.append(1) or len(seen) < 3
    )
    assert outcome.record is None


# ---- what cannot be run ------------------------------------------------------------------------


def test_jobs_that_the_budget_never_feeds_are_refused() -> None:
    little = BudgetSchedule.constant(MACHINE.idle_total_uw + 70_000_000)
    source = replace(case("easy").source, cut_sizes=False)
    with pytest.raises(ValueError, match="nodes that the budget can power at 60 W"):
        execute(case("easy", budget=little, source=source))
    with pytest.raises(ValueError, match=r"needs at least .* W above idle for its \d+ nodes"):
        execute(case("parm-wse", budget=little, source=replace(source, profiles=True, jobs=200)))


def test_cut_sizes_cut_the_whole_range() -> None:
    table, _ = jobs_of(case("parm-wse", budget=HALF, jobs=200))
    assert table.size_max.max() == case("parm-wse", budget=HALF).nodes_at_full_power
    assert (table.size_min <= table.size_max).all()


@pytest.mark.parametrize("policy", ["easy", "parm-wse"])
def test_a_budget_below_the_charge_of_idle_nodes_is_refused(policy: str) -> None:
    with pytest.raises(
        ValueError, match=r"leaves no power for jobs: 32 idle nodes are charged 640"
    ):
        execute(case(policy, budget=BudgetSchedule.constant(MACHINE.idle_total_uw)))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (job(3, 1e12), "goes no further"),
        (job(3, 0, f4=5e9, f9=6e9), "goes no further"),
        (job(3, 0, f4=1e9, f5=10, f9=1e9), "job 3 holds its nodes"),
    ],
)
def test_times_beyond_64_bits_are_refused(tmp_path: Path, row: str, message: str) -> None:
    source = WorkloadSource(log=log(tmp_path, job(1), job(2), row))
    with pytest.raises(ValueError, match=message):
        execute(case("easy", source=source))


def test_an_estimate_beyond_all_times_makes_no_difference(tmp_path: Path) -> None:
    starts = []
    for estimate in ("4e9", "4e15"):
        rows = [job(n, n, f5=20, f9=estimate) for n in range(1, 8)]
        source = WorkloadSource(log=log(tmp_path, *rows))
        record = execute(case("easy", source=source)).record
        assert record is not None
        starts.append(record.columns.start_ns.tolist())
    assert starts[0] == starts[1]


def test_every_row_of_the_file_of_jobs_is_a_job(tmp_path: Path) -> None:
    outcome = execute(case("conservative", tmp_path))
    rows = list(csv.DictReader((tmp_path / "jobs.csv").read_text().splitlines()))
    assert outcome.record is not None
    assert {int(row["job_id"]) for row in rows} == set(outcome.record.jobs.job_ids.tolist())
    assert [float(row["end_s"]) for row in rows] == sorted(float(row["end_s"]) for row in rows)
