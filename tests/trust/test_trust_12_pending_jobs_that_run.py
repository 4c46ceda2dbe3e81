"""A running process is never ended because a replay decided differently."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from unit.core.stage import Stage, ended, job_spec, on, planning_round, running, terminate

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.journal.journal import SCHEMA_VERSION, Journal, JournalError
from wattfold.coordinator.adapters.journal.replaying import replay
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.plan import Plan
from wattfold.coordinator.models.pass_model import SizeUnit

VERSION_1 = Path(__file__).parents[1] / "data" / "journal-v1.sql"
N0 = NodeId("n0")


def kinds(actions: list[act.Action]) -> list[type]:
    return [type(action) for action in actions]


def state_of(stage: Stage, job: str) -> JobState:
    return stage.core.state.jobs[JobId(job)].state


@pytest.mark.parametrize("held", [False, True])
def test_a_running_process_of_a_job_held_as_waiting_is_adopted(held: bool) -> None:
    stage = Stage()
    stage.register("n0")
    stage.submit("a", job_spec(1, 4), held=held)
    stage.start(2)
    out = stage.connect("n0", processes=(running("a", "1-2"),))
    assert act.Terminate not in kinds(out)
    job = stage.core.state.jobs[JobId("a")]
    assert (job.state, job.ranks[N0].held) == (JobState.RUNNING, CpuSet.parse("1-2"))
    assert job.target is not None
    assert job.target.on(N0) == CpuSet.parse("1-2")
    stage.leased("n0")
    stage.process_ended("n0", "a")
    assert state_of(stage, "a") is JobState.COMPLETED


def test_its_cores_are_nobody_elses() -> None:
    stage = Stage()
    stage.register("n0")
    stage.submit("a", job_spec(1, 4))
    stage.start(2)
    stage.connect("n0", processes=(running("a", "1-2"),))
    stage.leased("n0")
    stage.submit("b", job_spec(2, 2))
    stage.need_plan()
    out = stage.plan(on("a", "n0:1-2"), on("b", "n0:2-3"))
    assert act.Launch not in kinds(out)


@pytest.mark.parametrize(
    ("low", "high", "cpus"),
    [(3, 4, "1-2"), (1, 1, "1-2"), (1, 4, "3-6")],
    ids=["fewer than its least", "more than its greatest", "outside of the node"],
)
def test_one_that_does_not_fit_the_job_keeps_its_cores_and_is_told(
    low: int, high: int, cpus: str
) -> None:
    stage = Stage()
    stage.register("n0")
    stage.submit("a", job_spec(low, high))
    stage.start(2)
    out = stage.connect("n0", processes=(running("a", cpus),))
    assert act.Terminate not in kinds(out)
    node = stage.core.state.nodes[N0]
    assert node.foreign == {JobId("a"): CpuSet.parse(cpus)}
    assert "a" in node.message
    assert "not started" in node.message
    assert "n0" in stage.core.state.jobs[JobId("a")].reason
    # It must not start a second time meanwhile.
    stage.leased("n0")
    assert not stage.core.snapshot(stage.now_ns).jobs
    stage.need_plan()
    assert act.Launch not in kinds(stage.plan(on("a", "n0:0")))


def test_one_that_clashes_with_a_job_of_the_node_is_not_adopted() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("b", "n0:0-1")
    stage.submit("a", job_spec(1, 4))
    stage.start(2)
    out = stage.connect("n0", processes=(running("b", "0-1"), running("a", "1-2")))
    assert act.Terminate not in kinds(out)
    assert state_of(stage, "a") is JobState.PENDING
    assert state_of(stage, "b") is JobState.RUNNING


def test_the_end_of_a_stray_is_the_end_of_its_job() -> None:
    stage = Stage()
    stage.register("n0")
    stage.submit("a", job_spec(3, 4))
    stage.start(2)
    stage.connect("n0", processes=(running("a", "1-2"),))
    stage.process_ended("n0", "a", exit_code=3)
    job = stage.core.state.jobs[JobId("a")]
    assert (job.state, job.exit_code) == (JobState.FAILED, 3)


def test_where_there_may_be_more_of_it_the_job_is_held_and_told() -> None:
    stage = Stage()
    stage.register("n0")
    stage.submit("a", job_spec(2, 2, unit=SizeUnit.NODES))
    stage.start(2)
    stage.connect("n0", processes=(running("a", "0-3"),))
    stage.process_ended("n0", "a", exit_code=3)
    job = stage.core.state.jobs[JobId("a")]
    assert job.state is JobState.HELD
    assert "ended" in job.reason
    assert "exit status 3" in job.reason


def test_a_stray_of_a_cancelled_job_is_ended() -> None:
    stage = Stage()
    stage.register("n0")
    stage.submit("a", job_spec(3, 4))
    stage.start(2)
    stage.connect("n0", processes=(running("a", "1-2"),))
    assert stage.cancel("a") == [terminate("n0", "a")]


def test_a_process_of_another_journal_is_not_taken_for_a_new_job() -> None:
    stage = Stage()
    stage.register("n0")
    stage.submit("a", job_spec(1, 4))
    stage.connect("n0", processes=(running("a", "1-2"),))
    assert "another journal" in stage.core.state.nodes[N0].message
    stage.process_ended("n0", "a")
    assert state_of(stage, "a") is JobState.PENDING


def test_nor_ended_with_it() -> None:
    stage = Stage()
    stage.register("n0")
    stage.submit("a", job_spec(1, 4))
    assert act.Terminate not in kinds(stage.connect("n0", processes=(running("a", "1-2"),)))
    assert act.Terminate not in kinds(stage.cancel("a"))
    assert act.Terminate not in kinds(stage.connect("n0", processes=(running("a", "1-2"),)))


def test_only_a_process_of_a_job_that_has_ended_is_ended() -> None:
    stage = Stage()
    stage.register("n0")
    stage.submit("a")
    stage.cancel("a")
    stage.start(2)
    out = stage.connect("n0", processes=(running("a", "1-2"),))
    assert terminate("n0", "a") in out


def test_a_process_that_ran_and_ended_unseen_is_the_end_of_its_waiting_job() -> None:
    stage = Stage()
    stage.register("n0")
    stage.submit("a", job_spec(1, 4))
    stage.start(2)
    stage.connect("n0", processes=(ended("a", exit_code=3),))
    job = stage.core.state.jobs[JobId("a")]
    assert (job.state, job.exit_code) == (JobState.FAILED, 3)


def test_a_job_on_whole_nodes_is_adopted_when_all_of_it_was_seen() -> None:
    stage = Stage()
    stage.register("n0", "n1")
    stage.submit("a", job_spec(2, 2, unit=SizeUnit.NODES))
    stage.start(2)
    stage.connect("n0", processes=(running("a", "0-3"),))
    assert state_of(stage, "a") is JobState.PENDING
    stage.connect("n1", processes=(running("a", "0-3"),))
    assert state_of(stage, "a") is JobState.RUNNING
    assert not stage.core.state.nodes[N0].foreign


# The journal stores the accepted part of a plan.


def proposal(stage: Stage) -> ev.PlanProposed:
    plan = Plan(assignments=(on("a", "n0:0-1"), on("b", "n0:1-2")))
    return ev.PlanProposed(plan=plan, round=planning_round(stage.core.state.solving))


def test_a_replay_takes_what_was_taken_and_decides_nothing() -> None:
    live, again = Stage(), Stage()
    for stage in (live, again):
        stage.up("n0")
        stage.submit("a")
        stage.submit("b")
        stage.need_plan()
    taken = live.core.judged(proposal(live), live.now_ns)
    assert [a.job_id for a in taken.starts] == ["a"]
    assert [r.job_id for r in taken.refusals] == ["b"]
    assert live.send(proposal(live)) == again.send(taken)
    assert live.core.state == again.core.state


def test_what_was_taken_holds_where_the_rules_have_changed_since() -> None:
    """The current rules would refuse this power.

    The nodes run the job, so the stored start is accepted.
    """
    stage = Stage(budget_w=25)
    stage.up("n0")
    stage.submit("a")
    stage.need_plan()
    taken = stage.core.judged(proposal(stage), stage.now_ns)
    assert not taken.starts
    forced = ev.PlanAccepted(round=taken.round, starts=(on("a", "n0:0-1"),))
    assert act.Launch in kinds(stage.send(forced))


# A journal of the first version.


def version_1(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(VERSION_1.read_text(encoding="utf-8"))
    return path


def loaded(path: Path) -> CoordinatorCore:
    journal = Journal(path)
    core = CoordinatorCore(0)
    replay(journal, core)
    journal.close()
    return core


def test_a_journal_of_version_1_is_migrated(tmp_path: Path) -> None:
    path = version_1(tmp_path / "journal.sqlite")
    state = loaded(path).state
    assert {job_id: job.state.value for job_id, job in state.jobs.items()} == {
        "1": "completed",
        "2": "running",
        "3": "running",
        "4": "held",
        "5": "cancelled",
        "6": "starting",
        "7": "pending",
    }
    assert state.jobs[JobId("3")].ranks[NodeId("n1")].held == CpuSet.parse("0-1")
    assert state.ledger.budget_uw == 180_000_000
    assert state.keys["key-6"] == "6"
    assert loaded(path).state == state
    journal = Journal(path)
    assert journal.get_meta("schema") == str(SCHEMA_VERSION) == "2"
    journal.close()


def test_it_is_copied_first(tmp_path: Path) -> None:
    path = version_1(tmp_path / "journal.sqlite")
    loaded(path)
    kept = tmp_path / "journal.sqlite.schema-1"
    assert kept.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(kept)) as db:
        assert db.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone() == ("1",)
        assert db.execute("SELECT count(*) FROM events").fetchone()[0] > 20


def test_a_migration_that_fails_leaves_the_journal_as_it_was(tmp_path: Path) -> None:
    path = version_1(tmp_path / "journal.sqlite")
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE events SET body = '{' WHERE kind = 'JobSubmitted' AND id > 18")
        db.commit()
    with pytest.raises(JournalError, match=r"migration from schema 1 .*failed and changed nothing"):
        Journal(path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone() == ("1",)


@pytest.mark.parametrize("found", ["3", "99", "two"])
def test_a_newer_journal_is_refused(tmp_path: Path, found: str) -> None:
    path = tmp_path / "journal.sqlite"
    Journal(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (found,))
        db.commit()
    with pytest.raises(JournalError, match=f"schema {found}.* up to 2.* newer"):
        Journal(path)
