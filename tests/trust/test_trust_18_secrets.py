"""The environment of a job is in no list and no log, and is deleted after its start."""

from __future__ import annotations

import asyncio
import os
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from trust.head import Head, files_with, rows
from unit.adapters.test_service import Bench, run
from unit.core.stage import ended, job_spec, node_spec, on, planning_round, reading

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.journal.backup import back_up
from wattfold.coordinator.adapters.journal.journal import Journal
from wattfold.coordinator.adapters.journal.launch_data import LaunchData
from wattfold.coordinator.adapters.journal.replaying import replay
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.plan import Plan

SECRET = "hunter2-of-the-user"
LAUNCH = LaunchData(env=(("API_TOKEN", SECRET), ("PATH", "/bin")))
VERSION_1 = Path(__file__).parents[1] / "data" / "journal-v1.sql"
N0, A = NodeId("n0"), JobId("a")


def submitted(job: str = "a", **fields: object) -> ev.JobSubmitted:
    return ev.JobSubmitted(job_id=JobId(job), spec=job_spec(**fields))


async def start_job(bench: Bench, **fields: object) -> None:
    """Connect a node and start the job on it."""
    service = bench.service
    service.post(ev.NodeRegistered(node_id=N0, address="x"))
    service.post(reports.NodeConnected(spec=node_spec(), caps=(reading(10),), processes=()))
    await service.request(submitted(**fields), LAUNCH)
    plan = Plan(assignments=(on("a", "n0:0-1"),))
    number = service.core.state.solving
    service.post(ev.PlanProposed(plan=plan, round=planning_round(number)))
    await bench.settled()


async def scrubbed(bench: Bench) -> None:
    """Remove deleted data from the files now; the service does this itself after a delay."""
    assert bench.service._tidying is not None
    bench.service._tidying.cancel()
    bench.service._tidy()


def test_it_is_kept_until_the_job_runs_and_then_dropped(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await start_job(bench)
        assert "Launch" in bench.hands.kinds()
        assert bench.service.launch_data(A) == LAUNCH
        bench.service.post(reports.JobLaunched(node_id=N0, job_id=A, pid=1))
        await bench.settled()
        assert bench.service.launch_data(A) is None
        await scrubbed(bench)
        assert files_with(tmp_path, SECRET) == []

    run(tmp_path, test)


def test_that_of_a_job_that_may_be_started_again_is_kept_until_its_end(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await start_job(bench, restartable=True)
        bench.service.post(reports.JobLaunched(node_id=N0, job_id=A, pid=1))
        await bench.service.request(ev.JobRequeueRequested(job_id=A))
        end = ended("a", 143, attempt=1)
        bench.service.post(reports.ProcessEnded(node_id=N0, process=end))
        await bench.settled()
        assert bench.service.core.state.jobs[A].attempt == 2
        assert bench.service.launch_data(A) == LAUNCH
        await bench.service.request(ev.JobCancelRequested(job_id=A))
        assert bench.service.launch_data(A) is None
        await scrubbed(bench)
        assert files_with(tmp_path, SECRET) == []

    run(tmp_path, test)


def test_that_of_a_cancelled_job_is_dropped(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.service.request(submitted(), LAUNCH)
        await bench.service.request(ev.JobCancelRequested(job_id=A))
        await scrubbed(bench)
        assert files_with(tmp_path, SECRET) == []

    run(tmp_path, test)


def test_it_survives_a_crash_before_the_start_and_a_checkpoint(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.service.request(submitted(), LAUNCH)
        bench.service.checkpoint()

    bench = run(tmp_path, test)
    bench.journal.abandon()
    journal = Journal(bench.path)
    replay(journal, CoordinatorCore(1))
    assert journal.launch_data(A) == LAUNCH
    journal.close()
    (checkpoint,) = rows(bench.path, "SELECT body FROM checkpoint")[0]
    events = rows(bench.path, "SELECT body FROM events")
    assert SECRET not in checkpoint
    assert SECRET not in str(events)


def test_a_start_drops_what_a_crash_has_left(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    journal.append(submitted(), 1, LAUNCH)
    journal.append(ev.JobCancelRequested(job_id=A), 2)
    journal.commit()
    journal.abandon()
    again = Journal(path)
    replay(again, CoordinatorCore(1))
    again.close()
    assert files_with(tmp_path, SECRET) == []


def test_neither_dumps_nor_the_planner_have_it(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await start_job(bench)
        assert "JobSubmitted" in bench.service.recorded()
        assert SECRET not in bench.service.recorded()
        snapshot = bench.service.core.snapshot(bench.service.clock.now_ns())
        assert snapshot.jobs
        assert SECRET.encode() not in pickle.dumps(snapshot)
        assert SECRET not in repr(LAUNCH)

    run(tmp_path, test)


def test_a_backup_has_it_only_of_jobs_that_may_start(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await start_job(bench)
        waits = LaunchData(env=(("K", "of-the-one-that-waits"),))
        await bench.service.request(submitted("b", cap_uw=1), waits)
        bench.service.post(reports.JobLaunched(node_id=N0, job_id=A, pid=1))
        await bench.settled()
        await scrubbed(bench)

    bench = run(tmp_path, test)
    bench.journal.close()
    target = tmp_path / "b" / "backup"
    target.parent.mkdir()
    back_up(bench.path, target)
    assert files_with(target.parent, SECRET) == []
    assert files_with(target.parent, "of-the-one-that-waits") == ["backup"]


def test_a_migration_takes_it_out_of_events_checkpoint_and_free_pages(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(VERSION_1.read_text(encoding="utf-8"))
        # Data that an earlier version has left on free pages.
        db.execute("CREATE TABLE gone (body TEXT)")
        db.executemany("INSERT INTO gone VALUES (?)", [("secret-of-1" * 500,)] * 20)
        db.execute("DROP TABLE gone")
        db.commit()
    assert files_with(tmp_path, "secret-of-1") == ["journal.sqlite"]
    journal = Journal(path)
    replay(journal, CoordinatorCore(0))
    assert journal.launch_data(JobId("7")) == LaunchData(
        env=(("API_TOKEN", "secret-of-7"), ("PATH", "/bin"))
    )
    journal.close()
    kept = "journal.sqlite.schema-1"
    for job, files in {
        "1": [kept],  # completed
        "2": [kept],  # running
        "4": ["journal.sqlite", kept],  # held
        "5": [kept],  # cancelled
        "6": ["journal.sqlite", kept],  # being started
    }.items():
        assert files_with(tmp_path, f"secret-of-{job}") == files


# Output for users and programs.


def test_lists_and_logs_do_not_show_it_and_its_owner_may_ask(folder: Path) -> None:
    with Head(folder, "--verbose", "--record", str(folder / "record")) as head:
        job_id = head.submit(API_TOKEN=SECRET)
        for command in (("queue",), ("queue", "--all"), ("show", job_id), ("explain", job_id)):
            done = head.wattfold("--json", *command)
            assert done.returncode == 0, done.stderr
            assert SECRET not in done.stdout
        view = next(head.client.watch(10**8))
        assert view.jobs
        assert SECRET not in str(view)
        assert head.wattfold("show", job_id, "--env").stdout == f"API_TOKEN={SECRET}\n"
        assert head.json("show", job_id, "--env")["env"] == {"API_TOKEN": SECRET}
        assert SECRET not in str(head.json("audit"))
        assert {*files_with(folder, SECRET)} <= {"journal.sqlite-wal", "journal.sqlite"}
        head.client.cancel(job_id)
        refused = head.wattfold("show", job_id, "--env")
        assert refused.returncode == 1
        assert "deleted at the start" in refused.stderr
    assert files_with(folder, SECRET) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="asks as another account")
def test_it_is_not_shown_to_another_account(folder: Path) -> None:
    with Head(folder, "--verbose") as head:
        job_id = head.submit(API_TOKEN=SECRET)
        open_to_all(folder)
        code, text = asyncio.run(as_account(65534, head, "show", job_id, "--env"))
        assert code == 1, text
        assert "not permitted" in text
        assert SECRET not in text
        assert asyncio.run(as_account(65534, head, "queue"))[0] == 0


def open_to_all(folder: Path) -> None:
    """As a site that opens the socket, but not the journal, to its users."""
    for path, mode in ((folder, 0o755), (folder / "run", 0o755), (folder / "run/c.sock", 0o666)):
        path.chmod(mode)


async def as_account(uid: int, head: Head, *arguments: str) -> tuple[int, str]:
    """Run the command under another account, with its own grpc calls."""
    from trust.other_account import ask

    return await ask(uid, head.address, *arguments)
