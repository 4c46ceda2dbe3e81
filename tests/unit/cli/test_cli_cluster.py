"""Nodes, power, budget, profiles."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from unit.cli.command import Command
from unit.cli.fake_coordinator import NOW_S, FakeCoordinator, W, node

from wattfold.v1 import coordinator_pb2 as pb


def test_nodes(wattfold: Command, fake: FakeCoordinator) -> None:
    fake.nodes.append(
        node("n3", state=pb.NODE_STATE_REFUSED, message="its floor does not fit", drift_count=2)
    )
    fake.nodes[0].free_cpus = "3"
    fake.nodes[0].job_ids.append("job-7")
    counts, header, first, _, third = wattfold("nodes").stdout.splitlines()
    assert counts == "2 up, 1 refused"
    assert header.startswith("NODE")
    for text in ("n1", "up", "1/4", "45.0", "30-60", "51.0", "65.0", "job-7 (emulated)"):
        assert text in first
    assert "(its floor does not fit, emulated, drift 2)" in third
    assert wattfold.json("nodes")["nodes"][0]["zones"][0]["cap_uw_max"] == 60 * W


def test_no_nodes(wattfold: Command, fake: FakeCoordinator) -> None:
    fake.nodes.clear()
    assert wattfold("nodes").stdout.startswith("No nodes")


def test_power(wattfold: Command, fake: FakeCoordinator) -> None:
    text = wattfold("power").stdout
    for part in ("200.0 W", "130.0 W", "65%", "102.0 W", "51%", "180.0 W", "parm"):
        assert part in text
    assert wattfold.json("power")["energy_uj"] == 12_345_678_901_234_567
    fake.power.committed_uw = 300 * W
    assert "150%" in wattfold("power").stdout
    assert "by levels" not in text
    assert "emulated" not in text
    fake.power.emulated_nodes, fake.power.known_nodes = 1, 2
    assert "1 of 2 nodes; their power is not real" in wattfold("power").stdout
    fake.power.levelled_jobs, fake.power.dram_beyond_uw = 2, -12 * W
    assert "DRAM -12.0 W (2 jobs)" in wattfold("power").stdout
    fake.power.gpu_beyond_uw = -300 * W
    assert "DRAM -12.0 W, GPUs -300.0 W (2 jobs)" in wattfold("power").stdout


def test_budget_up_and_down(wattfold: Command, fake: FakeCoordinator) -> None:
    assert wattfold("budget", "set", "0.25kW").stdout == "Budget 250.0 W.\n"
    lowered = wattfold("budget", "set", "120", "--deadline", "30s")
    assert lowered.stdout.startswith("Budget is lowered to 120.0 W by ")
    assert "130.0 W is committed now" in lowered.stdout
    assert fake.power.pending_deadline_s == NOW_S + 30
    assert "pending  120.0 W by" in wattfold("budget", "show").stdout
    assert wattfold.json("budget", "show") == {
        "budget_uw": 250 * W,
        "pending_budget_uw": 120 * W,
        "pending_deadline_s": NOW_S + 30,
        "floor_uw": 100 * W,
        "committed_uw": 130 * W,
        "outside_uw": 0,
        "outside_accepted_uw": 0,
        "over_uw": 0,
        "announced": [],
        "emergency": None,
    }


def test_a_budget_for_a_time_to_come(wattfold: Command, fake: FakeCoordinator) -> None:
    assert wattfold("budget", "list").stdout == "No budget is announced.\n"
    at = datetime(2033, 1, 31, 18).astimezone()
    first = wattfold("budget", "set", "150", "--at", "2033-01-31T18:00:00")
    assert f"Announced as 1: 150.0 W from {at}; caps are lowered from " in first.stdout
    assert "parm does not plan for it: jobs are slowed then, or wait." in first.stdout
    fake.power.policy = "constraint"
    rise = wattfold.json("budget", "set", "0.3kW", "--at", "2033-02-01T06:00")
    assert (rise["number"], rise["planned_with"]) == (2, True)
    fake.power.announced[1].obstacle = "nodes draw at least 999.0 W by now"
    listed = wattfold("budget", "list").stdout
    assert str(at) in listed
    assert "nodes draw at least" in listed
    for command in (("power",), ("budget", "show")):
        text = wattfold(*command).stdout
        lowered = (at - timedelta(seconds=20)).timetz()
        assert f"150.0 W from {at}; caps are lowered from {lowered}" in text
        assert "NOT POSSIBLE" in text
    assert wattfold.json("power")["announced"][0]["budget_uw"] == 150 * W
    assert "Still announced: 150.0 W" in wattfold("budget", "set", "180").stdout
    assert wattfold("budget", "cancel", "1").stdout.startswith("Cancelled 1: 150.0 W from ")
    assert [one["number"] for one in wattfold.json("budget", "list")["announced"]] == [2]
    missing = wattfold("budget", "cancel", "7")
    assert missing.exit_code == 4
    assert "no budget by the number 7" in missing.stderr
    assert wattfold.json("budget", "cancel", "2")["cancelled"][0]["number"] == 2


def test_what_is_for_a_change_now_is_refused_for_a_time_to_come(wattfold: Command) -> None:
    for option in (("--deadline", "5s"), ("--accept-outside",)):
        refused = wattfold("budget", "set", "150", "--at", "+2h", *option)
        assert refused.exit_code == 2
        assert "cannot be combined with --at; omit them" in refused.stderr


def test_a_budget_below_the_floor_is_refused(wattfold: Command) -> None:
    result = wattfold("budget", "set", "99", "--json")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "budget 99 W is below the floor of 100 W" in result.stderr


def test_profiles(wattfold: Command, fake: FakeCoordinator) -> None:
    assert wattfold("profiles").stdout.startswith("No profiles")
    missing = wattfold("profiles", "lulesh")
    assert missing.exit_code == 4
    assert "wattfold profile --app lulesh" in missing.stderr
    fake.profiles["lulesh"] = pb.Profile(
        app="lulesh",
        unit=pb.SIZE_UNIT_CORES,
        t1_s=10,
        average_parallelism=3.5,
        sigma=0.5,
        beta=0.3,
        p_low_w=32,
        p_high_w=54,
        rms_error=0.012,
        source="measured",
        updated_at_s=NOW_S,
        points=[pb.ProfilePoint(size=2, cap_uw=45 * W, seconds=5.0, fitted_seconds=5.1)],
    )
    listed = wattfold("profiles").stdout.splitlines()[1]
    for text in ("lulesh", "cores", "3.5", "0.30", "32-54", "1.2%", "measured", "2023-11-1"):
        assert text in listed
    shown = wattfold("profiles", "lulesh").stdout
    assert "beta = 0.300" in shown
    assert "+2.0%" in shown
    assert wattfold.json("profiles", "lulesh")["points"][0]["cap_uw"] == 45 * W
    assert len(wattfold.json("profiles")["profiles"]) == 1


def test_nodes_tell_residual_work_and_cpus_that_are_not_offered(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    left = [
        pb.Residual(node_id="n4", job_id="job-7", cpu=cpu, load=0.25, alarm=True) for cpu in (2, 3)
    ]
    # Below the threshold, the value is in --json only.
    left.append(pb.Residual(node_id="n4", job_id="job-8", cpu=1, load=0.01))
    fake.nodes.append(node("n4", residual=left, isolated_cpus="6", offline_cpus="7"))
    line = wattfold("nodes").stdout.splitlines()[-1]
    assert (
        "job-7 has residual work on CPUs 2-3: 0.50 cores, isolated CPUs 6, offline CPUs 7)" in line
    )
    assert "job-8" not in line
    assert len(wattfold.json("nodes")["nodes"][-1]["residual"]) == 3


def test_nodes_tell_memory_gpus_and_features(wattfold: Command, fake: FakeCoordinator) -> None:
    first = fake.nodes[0]
    first.memory_bytes, first.free_memory_bytes = 8 << 30, 3 << 30
    first.memory_mechanism = "cgroup v2"
    first.gpus.extend("01")
    first.free_gpus.append("1")
    first.features.append("big")
    line = wattfold("nodes").stdout.splitlines()[2]
    assert "memory 3.0 GiB of 8.0 GiB free, limits: cgroup v2" in line
    assert "GPUs 1 of 2 free, features big" in line


@pytest.mark.parametrize(
    ("model", "access", "told"),
    [
        ("V100", "cgroup v2", "V100 GPUs 1 of 2 free, enforced by cgroup v2"),
        ("V100", "told", "V100 GPUs 1 of 2 free, not enforced"),
        ("", "", "GPUs 1 of 2 free)"),
    ],
)
def test_nodes_tell_what_their_gpus_are_and_how_they_are_held(
    wattfold: Command, fake: FakeCoordinator, model: str, access: str, told: str
) -> None:
    first = node("n4", gpus=["0", "1"], free_gpus=["0"], gpu_model=model, gpu_access=access)
    fake.nodes.append(first)
    assert told in wattfold("nodes").stdout.splitlines()[-1]
    assert wattfold.json("nodes")["nodes"][-1].get("gpu_model", "") == model
