"""`wattfold what-if` in process: from messages of a coordinator to tables and documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from unit.cli.command import Command
from unit.cli.fake_coordinator import NOW_S, FakeCoordinator, W

from wattfold.contract.ids import JobId
from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.coordinator.cli.simulation.site_queue.site_reading import (
    SiteMessages,
    SiteReading,
    read_site,
)
from wattfold.coordinator.core.model.jobs.conditions import Dependency, DependencyState
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.v1 import coordinator_pb2 as pb

S = 10**9
RUNNING, PENDING = pb.JOB_STATE_RUNNING, pb.JOB_STATE_PENDING
FULL_W = 2 * (20 + 60)
"""Charge of both nodes at full power."""


def job(job_id: str, state: pb.JobState, nodes: int = 1, time_s: int = 600, **more: Any) -> pb.Job:
    found = pb.Job(
        job_id=job_id,
        state=state,
        submitted_at_s=NOW_S - 500,
        spec=pb.JobSpec(
            name=f"name-{job_id}",
            app="app",
            kind=pb.JOB_KIND_RIGID,
            unit=pb.SIZE_UNIT_NODES,
            size_min=nodes,
            size_max=nodes,
            time_ns=time_s * S,
            priority=1,
        ),
    )
    if state == RUNNING:
        found.started_at_s, found.size, found.cap_uw = NOW_S - 400, nodes, 60 * W
        found.done, found.remaining_s = 400 / time_s, time_s - 400
        for number in range(nodes):
            found.shares.add(node_id=f"n{number + 1}", cpus="0-3")
    found.MergeFrom(pb.Job(**more))
    return found


@pytest.fixture
def site(fake: FakeCoordinator) -> FakeCoordinator:
    fake.power.policy = "fifo-easy"
    fake.power.budget_uw = FULL_W * W
    fake.power.floor_uw = 100 * W
    for one in (job("1", RUNNING, time_s=1000), job("2", PENDING, 2), job("3", PENDING, 1, 300)):
        fake.add(one)
    return fake


def told(wattfold: Command, *words: str) -> dict[str, Any]:
    done = wattfold("--json", "what-if", *words)
    assert done.exit_code == ExitCode.OK, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def starts(answer: dict[str, Any], column: str) -> dict[str, float | None]:
    """Starts from now on."""
    return {
        one["job_id"]: None if one[column]["start_s"] is None else one[column]["start_s"] - NOW_S
        for one in answer["jobs"]
    }


def test_both_runs_are_shown(site: FakeCoordinator, wattfold: Command) -> None:
    answer = told(wattfold, "--budget", "140W", "--price", "0.5")
    assert answer["time_s"] == NOW_S
    before, after = starts(answer, "as_it_is"), starts(answer, "with_the_change")
    assert before == pytest.approx({"1": -400, "2": 600, "3": 0}, abs=2)
    assert after["2"] is None
    assert after["3"] == pytest.approx(0, abs=2) or after["3"] == pytest.approx(600, abs=2)
    one, two = answer["as_it_is"], answer["with_the_change"]
    assert (one["budget_w"], two["budget_w"]) == (160, 140)
    assert (one["never_start"], two["never_start"]) == (0, 1)
    assert one["cost_eur"] == pytest.approx(one["energy_kwh"] * 0.5)
    assert one["makespan_s"] == pytest.approx(1200, abs=5)
    shown = wattfold("what-if", "--budget", "140W").stdout
    assert "WITH THE CHANGE" in shown
    assert "submitted later" in shown
    first = next(line for line in shown.splitlines() if "name-" in line)
    assert "name-2" in first, "the largest difference comes first"
    assert first.split()[-1] == "never"


def test_limits_of_accounts_count(site: FakeCoordinator, wattfold: Command) -> None:
    lab = site.jobs["1"].spec, site.jobs["3"].spec
    for spec in lab:
        spec.account = "lab"
    site.accounts.append(pb.Account(kind="account", name="lab", members=["*"], jobs_max=1))
    site.accounts.append(pb.Account(kind="user", name="nobody", jobs_max=1))
    answer = told(wattfold, "--nodes", "+2", "--budget", "320W")
    # Job 1 of the same account runs for 600 s more, so job 3 waits although a node is free. Then
    # it is behind job 2.
    assert starts(answer, "as_it_is")["3"] == pytest.approx(1200, abs=2)
    assert starts(answer, "with_the_change") == pytest.approx({"1": -400, "2": 0, "3": 600}, abs=2)


def test_fair_share_keeps_its_factors(site: FakeCoordinator, wattfold: Command) -> None:
    site.jobs["2"].user, site.jobs["3"].user = "ann", "bob"
    site.accounts.append(pb.Account(kind="user", name="ann", share=0.5, priority_factor=0.25))
    site.add(job("4", PENDING, 2, 100, user="bob"))
    answer = told(wattfold, "--policy", "fifo")
    # Job 4 is before job 2, which was submitted earlier.
    found = starts(answer, "with_the_change")
    assert (found["4"], found["2"]) == (pytest.approx(600, abs=2), pytest.approx(700, abs=2))
    assert "keeps its current factors" in "".join(answer["notes"])


def test_one_job_is_shown(site: FakeCoordinator, wattfold: Command) -> None:
    shown = wattfold("what-if", "--nodes", "+1", "--budget", "240W", "--job", "2").stdout
    assert "starts, as it is" in shown
    assert "-10m" in shown or "-9m" in shown
    assert [one["job_id"] for one in told(wattfold, "--nodes=-1", "--job", "2")["jobs"]] == ["2"]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ((), ExitCode.USAGE, "no change is given"),
        (("--budget", "30W"), ExitCode.USAGE, "below 100 W, the minimum power of 2 nodes"),
        (("--nodes", "-3"), ExitCode.USAGE, "3 nodes cannot be closed"),
        (("--nodes", "3"), ExitCode.USAGE, "expected for example +8 or -2"),
        (("--policy", "nonsense"), ExitCode.USAGE, "no policy of the coordinator"),
        (("--set", "parm.alpha=1"), ExitCode.USAGE, "does not apply to fifo-easy"),
        (("--nodes", "-1", "--job", "9"), ExitCode.NO_SUCH_JOB, "no job '9'"),
    ],
)
def test_impossible_changes_are_refused(
    site: FakeCoordinator, wattfold: Command, words: tuple[str, ...], code: ExitCode, text: str
) -> None:
    done = wattfold("what-if", *words)
    assert (done.exit_code, text in done.stderr) == (code, True), done.stderr


def test_the_settings_of_the_site_count(site: FakeCoordinator, wattfold: Command) -> None:
    site.power.planning_settings["fifo.size"] = "min"
    moldable = job("4", PENDING, 1)
    moldable.spec.kind, moldable.spec.size_max = pb.JOB_KIND_MOLDABLE, 2
    site.jobs.clear()
    site.add(moldable)
    answer = told(wattfold, "--set", "fifo.size=max")
    ends = [
        answer["jobs"][0][column]["end_s"] - NOW_S for column in ("as_it_is", "with_the_change")
    ]
    assert ends[0] > ends[1] + 60
    site.power.planning_settings["fifo.nonsense"] = "1"
    done = wattfold("what-if", "--nodes", "-1")
    assert "does not know the setting fifo.nonsense" in done.stderr


# ---- the reading -------------------------------------------------------------------------------


@pytest.fixture
def read(site: FakeCoordinator) -> Callable[..., SiteReading]:
    def reading(**more: Any) -> SiteReading:
        view = pb.ClusterView(
            time_s=NOW_S, power=site.power, nodes=site.nodes, jobs=list(site.jobs.values())
        )
        return read_site(SiteMessages(view=view, **more))

    return reading


def test_running_jobs_keep_place_and_progress(read: Callable[..., SiteReading]) -> None:
    queue = read().queue
    first = queue.jobs[0]
    assert first.seat is not None
    assert queue.now_ns - first.seat.started_ns == 400 * S
    assert first.seat.assignment.expected_total_s == pytest.approx(1000)
    assert first.seat.done == pytest.approx(0.4)
    assert [share.node_id for share in first.seat.assignment.shares] == ["n1"]
    assert queue.floor_uw == 100 * W
    assert [one.job_id for one in queue.jobs if one.seat is None] == ["2", "3"]


def test_nodes_that_do_not_answer_are_left_out_with_their_jobs(
    site: FakeCoordinator, read: Callable[..., SiteReading]
) -> None:
    site.nodes[0].state = pb.NODE_STATE_SILENT
    site.nodes[1].duty = pb.NODE_DUTY_DRAINING
    site.power.outside_uw, site.power.outside_accepted_uw = 9 * W, 2 * W
    reading = read()
    assert [(n.spec.node_id, n.closed) for n in reading.queue.nodes] == [("n2", True)]
    assert reading.queue.budget_uw == (FULL_W - 65 - 7) * W
    text = "\n".join(reading.notes)
    assert "Nodes left out: n1; 72.0 W stay reserved" in text
    assert "Jobs left out, because of their nodes: 1." in text


def test_assumptions_are_named(site: FakeCoordinator, read: Callable[..., SiteReading]) -> None:
    plain = job("4", PENDING)
    plain.spec.time_ns = 0
    limited = job("5", PENDING, access=pb.JOB_ACCESS_OTHER)
    limited.spec.time_ns, limited.spec.limit_ns = 0, 50 * S
    limited.spec.app = ""
    held = job("6", pb.JOB_STATE_HELD)
    held.spec.kind, held.spec.size_max = pb.JOB_KIND_MALLEABLE, 2
    for one in (plain, limited, held):
        site.add(one)
    site.power.planning_settings["predict"] = "last-two"
    site.power.planning_settings["dram_cap_w"] = "12"
    reading = read()
    text = "\n".join(reading.notes)
    assert "1 job has no estimate, profile or time limit: run time of one hour assumed." in text
    assert "1 job has only a time limit" in text
    assert "1 job has another owner" in text
    assert "1 job has several sizes and no profile" in text
    assert "1 job has been held" in text
    assert "predicts run times (last-two)" in text
    assert reading.settings == ()
    assert reading.queue.dram_cap_uw == 12 * W
    jobs = {one.job_id: one for one in reading.queue.jobs}
    assert jobs[JobId("5")].spec.app == "job-5"
    assert jobs[JobId("6")].held


def test_profiles_and_conditions_are_read(
    site: FakeCoordinator, read: Callable[..., SiteReading]
) -> None:
    profile = pb.Profile(
        app="app",
        unit=pb.SIZE_UNIT_NODES,
        average_parallelism=8,
        sigma=0.5,
        t1_s=100,
        a=1.5,
        b=4,
        c=8,
        beta=0.5,
        f_low_ghz=1.2,
        f_high_ghz=2.6,
        p_low_w=15.392,
        p_high_w=44.764,
    )
    late = job("4", PENDING, begin_at_s=NOW_S + 100)
    late.spec.time_ns = 0
    late.after.add(job_id="1", success=True, state=pb.DEPENDENCY_STATE_OPEN)
    late.after.add(job_id="0", state=pb.DEPENDENCY_STATE_NEVER)
    late.after.add(job_id="00", state=pb.DEPENDENCY_STATE_MET)
    site.add(late)
    queue = read(profiles=[profile], queues=[pb.Queue(name="q", preempts=["r"])]).queue
    found = queue.jobs[-1]
    assert found.conditions.begin_ns == queue.now_ns + 100 * S
    never = DependencyState.NEVER
    assert found.conditions.after == (
        Dependency(job_id=JobId("1"), success=True),
        Dependency(job_id=JobId("0"), settled=never),
    )
    assert found.work.profile is not None
    assert found.work.profile.t1_s == pytest.approx(100)
    assert queue.queues[0].preempts == ("r",)
    assert (found.spec.kind, found.spec.unit) == (JobKind.RIGID, SizeUnit.NODES)
