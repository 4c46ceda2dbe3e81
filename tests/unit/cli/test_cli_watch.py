"""`watch` as lines, and its screen."""

from __future__ import annotations

import io
import json

import grpc
import pytest
from rich.console import Console
from unit.cli.command import Command
from unit.cli.fake_coordinator import NOW_S, FakeCoordinator, W, node

from wattfold.coordinator.cli.site.power_graph import PowerHistory, power_graph
from wattfold.coordinator.cli.site.watch_lines import snapshot_lines
from wattfold.coordinator.cli.site.watch_screen import WatchScreen
from wattfold.v1 import coordinator_pb2 as pb


def running(job_id: str, node_id: str, cpus: str, size: int) -> pb.Job:
    return pb.Job(
        job_id=job_id,
        spec=pb.JobSpec(name=f"name-{job_id}", size_min=1, size_max=4),
        state=pb.JOB_STATE_RUNNING,
        submitted_at_s=NOW_S,
        started_at_s=NOW_S,
        size=size,
        cap_uw=45 * W,
        shares=[pb.NodeShare(node_id=node_id, cpus=cpus)],
    )


def view(nodes: int = 2, jobs: int = 3, measured_w: int = 100) -> pb.ClusterView:
    return pb.ClusterView(
        time_s=NOW_S + measured_w,
        power=pb.Power(
            budget_uw=200 * W, committed_uw=150 * W, measured_uw=measured_w * W, policy="parm"
        ),
        nodes=[node(f"n{i}", cpus="0-3", free_cpus="") for i in range(nodes)],
        jobs=[running(f"job-{i}", f"n{i}", "0-1", 2) for i in range(jobs)],
    )


def drawn(screen: WatchScreen, width: int, height: int) -> list[str]:
    stream = io.StringIO()
    console = Console(file=stream, width=width, height=height, force_terminal=False)
    console.print(screen.render(width, height, age_s=0.5))
    return stream.getvalue().splitlines()


def test_lines_without_a_terminal(wattfold: Command, fake: FakeCoordinator) -> None:
    fake.add(running("job-1", "n1", "0-1", 2))
    result = wattfold("watch", "--count", "2", "--interval", "100ms")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == 2 * 4
    assert lines[0].endswith("budget 200.0 W committed 130.0 W measured 102.0 W policy parm")
    assert lines[1] == "  node n1 up cap 45.0 W draw 51.0 W commit 65.0 W free 0-3"
    assert lines[3] == "  job job-1 name-job-1 running size 2/1-4 done - n1:0-1"


def test_json_lines(wattfold: Command) -> None:
    result = wattfold("watch", "--count", "2", "--json")
    first, second = (json.loads(line) for line in result.stdout.splitlines())
    assert first["power"]["budget_uw"] == 200 * W
    assert second["time_s"] > first["time_s"]
    assert first["last_round"]["outcome"] == "optimal"


def test_a_stream_that_ends_is_a_coordinator_that_went(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    fake.fail = lambda method: (grpc.StatusCode.UNAVAILABLE, "stopping")
    assert wattfold("watch").exit_code == 3


@pytest.mark.parametrize("width", [40, 60, 80, 132, 250])
@pytest.mark.parametrize("height", [10, 16, 24, 50])
def test_the_screen_fits_the_terminal(width: int, height: int) -> None:
    screen = WatchScreen("unix:/run/user/1000/wattfold/coordinator.sock")
    screen.take(view(nodes=20, jobs=20))
    lines = drawn(screen, width, height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width


def test_the_screen_shows_who_holds_which_core() -> None:
    screen = WatchScreen("unix:/c.sock")
    picture = view()
    picture.nodes[0].free_cpus = ""
    picture.nodes[1].free_cpus = "2"
    screen.take(picture)
    text = "\n".join(drawn(screen, 80, 24))
    assert "150.0 W of 200.0 W  75%" in text
    assert "emulated power" in text
    rows = {line.split()[0]: line.split()[-1] for line in text.splitlines() if line[:1] == "n"}
    assert rows == {"n0": "AA??", "n1": "BB·?"}
    assert "A job-0" in text
    assert "B job-1" in text


def test_more_cores_than_columns_are_counted() -> None:
    screen = WatchScreen("unix:/c.sock")
    picture = view(nodes=1, jobs=1)
    picture.nodes[0].cpus = "0-127"
    picture.nodes[0].free_cpus = "64-127"
    picture.jobs[0].shares[0].cpus = "0-63"
    screen.take(picture)
    assert any("A×64 ·×64" in line for line in drawn(screen, 80, 24))


def test_what_does_not_fit_is_counted() -> None:
    screen = WatchScreen("unix:/c.sock")
    screen.take(view(nodes=30, jobs=30))
    lines = drawn(screen, 80, 24)
    shown_nodes = sum(line.startswith("n") for line in lines)
    shown_jobs = sum(" job-" in line for line in lines)
    assert f"{30 - shown_nodes} more nodes · {30 - shown_jobs} more jobs" in lines[-1]


def test_an_ended_job_stays_for_a_while_and_a_lost_coordinator_is_named() -> None:
    screen = WatchScreen("unix:/c.sock")
    picture = view(jobs=1)
    picture.jobs[0].state = pb.JOB_STATE_FAILED
    picture.jobs[0].exit_code = 3
    del picture.jobs[0].shares[:]
    screen.take(picture)
    del picture.jobs[:]
    screen.take(picture)
    screen.lose("the coordinator does not answer")
    text = "\n".join(drawn(screen, 100, 24))
    assert "(exit code 3)" in text
    assert "old: the coordinator does not answer" in text


def test_history_repeats_the_last_value_and_forgets() -> None:
    history = PowerHistory(span_s=10)
    for time_s in (0.0, 1.0, 4.0):
        history.add(time_s, pb.Power(measured_uw=int(time_s) * W))
    shown = [sample and sample.measured_uw // W for sample in history.columns(6, step_s=1.0)]
    assert shown == [None, 0, 1, 1, 1, 4]
    history.add(100.0, pb.Power())
    assert history.columns(2, step_s=50.0)[0] is None


def test_graph_of_half_the_budget() -> None:
    history = PowerHistory()
    history.add(1.0, pb.Power(budget_uw=200 * W, committed_uw=150 * W, measured_uw=100 * W))
    lines = [line.plain for line in power_graph(history, width=10, height=4)]
    assert [line[-1] for line in lines] == ["▔", "░", "█", "█"]
    assert lines[0].startswith("   200 W")


def sleeping_view() -> pb.ClusterView:
    """A cluster of a node that sleeps, and one that boots for two jobs."""
    shown = view(nodes=2, jobs=1)
    asleep, boots = shown.nodes
    for one in (asleep, boots):
        one.state, one.free_cpus = pb.NODE_STATE_DOWN, ""
    asleep.power_state = pb.NODE_POWER_STATE_ASLEEP
    asleep.power_reason = "sleeps because no job needs it"
    boots.power_state = pb.NODE_POWER_STATE_BOOTING
    boots.awaited_by_job_ids.extend(["41", "42"])
    boots.up_expected_s = shown.time_s + 130
    shown.power.asleep_nodes, shown.power.booting_nodes, shown.power.known_nodes = 1, 1, 2
    return shown


def test_the_screen_shows_who_sleeps_and_for_which_job_a_node_boots() -> None:
    screen = WatchScreen("unix:/s")
    screen.take(sleeping_view())
    lines = drawn(screen, 80, 24)
    assert "1 of 2 nodes asleep, 1 boot" in lines[0]
    asleep, boots = (next(line for line in lines if line.startswith(n)) for n in ("n0", "n1"))
    assert asleep.split()[1] == "asleep"
    assert asleep.rstrip().endswith("sleeps because no job needs it")
    assert boots.split()[1] == "booting"
    assert boots.rstrip().endswith("for job 41 and 1 more, up in 2m10s")


def test_lines_show_who_sleeps() -> None:
    lines = snapshot_lines(sleeping_view())
    assert lines[1] == "  1 of 2 nodes asleep, 1 boot"
    assert lines[2].endswith(" free - sleeps because no job needs it")
    assert lines[3].endswith(" free - for job 41 and 1 more, up in 2m10s")


def test_nothing_is_said_of_sleep_while_all_nodes_are_awake() -> None:
    assert not any("asleep" in line for line in snapshot_lines(view()))
