"""`wattfold node`, and unaccounted power in the tables."""

from __future__ import annotations

import time

import pytest
from click.shell_completion import ShellComplete
from unit.cli.command import Command
from unit.cli.fake_coordinator import FakeCoordinator, W

from wattfold.coordinator.cli.main import cli
from wattfold.v1 import coordinator_pb2 as pb


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["drain", "n1"], "n1 drained"),
        (["leave", "n1"], "n1 left"),
        (["leave", "n1", "--no-wait"], "n1 left"),
        (["forget", "n1", "--no-power"], "n1 forgotten (no power)"),
        (["forget", "n1", "--outside-budget"], "n1 forgotten (outside budget)"),
        (["resume", "n1"], "n1 in service"),
    ],
)
def test_orders(wattfold: Command, arguments: list[str], said: str) -> None:
    result = wattfold("node", *arguments, "--reason", "new memory")
    assert (result.stdout.splitlines()[0], result.exit_code) == (said, 0)
    assert wattfold.json("nodes")["nodes"][0]["duty_reason"] == "new memory"


def test_the_answer_as_json(wattfold: Command) -> None:
    assert wattfold.json("node", "drain", "n1")["duty"] == "NODE_DUTY_DRAINING"


@pytest.mark.parametrize("words", [[], ["--no-power", "--outside-budget"]])
def test_forgetting_needs_one_word(wattfold: Command, words: list[str]) -> None:
    result = wattfold("node", "forget", "n1", *words)
    assert result.exit_code == 2
    assert "give exactly one of --no-power and --outside-budget" in result.stderr


def test_an_unknown_node(wattfold: Command) -> None:
    result = wattfold("node", "drain", "n9")
    assert (result.exit_code, result.stderr) == (4, "wattfold: no node 'n9'\n")


def test_a_wait_ends_with_what_is_missing(wattfold: Command, fake: FakeCoordinator) -> None:
    fake.nodes[0].job_ids.append("7")
    result = wattfold("node", "drain", "n1", "--wait", "--timeout", "1ms")
    assert result.exit_code == 1
    assert "the order stays in force: jobs on the node must end first: 7" in result.stderr


def test_orders_show_in_the_table(wattfold: Command, fake: FakeCoordinator) -> None:
    fake.nodes[0].MergeFrom(
        pb.Node(duty=pb.NODE_DUTY_LEAVING, duty_reason="new memory", waits_for="40.0 W are missing")
    )
    fake.nodes[1].MergeFrom(pb.Node(duty=pb.NODE_DUTY_RETURNED, outside_uw=21 * W))
    first, second = wattfold("nodes").stdout.splitlines()[2:]
    assert "leaving" in first
    assert "(new memory, 40.0 W are missing, emulated)" in first
    assert "returned" in second
    assert "+21.0" in second
    assert "outside the ledger, may draw 21.0 W" in second


def test_power_outside_the_sum_is_told(wattfold: Command, fake: FakeCoordinator) -> None:
    assert "outside" not in wattfold("power").stdout
    fake.power.MergeFrom(
        pb.Power(
            outside_uw=90 * W,
            over_uw=20 * W,
            over_reason="n2 is outside",
            outside_node_ids=["n2"],
            unheard_node_ids=["n3"],
        )
    )
    told, over = "90.0 W (n2)", "by 20.0 W: n2 is outside"
    for command in ("power", "budget show"):
        text = wattfold(*command.split()).stdout
        assert told in text
        assert over in text
        assert "n3 (power unknown)" in text
    for command in ("watch --count 1", "budget set 210"):
        text = wattfold(*command.split()).stdout
        assert told in text
        assert f"over the budget {over}" in text


def test_names_of_nodes_are_completed(address: str) -> None:
    shell = ShellComplete(cli, {}, "wattfold", "_WATTFOLD_COMPLETE")
    found = shell.get_completions(["--coordinator", address, "node", "drain"], "n")
    assert [item.value for item in found] == ["n1", "n2"]
    nobody = shell.get_completions(["--coordinator", "unix:/nowhere", "node", "drain"], "n")
    assert nobody == []


@pytest.mark.parametrize("late", [False, True])
def test_power_says_by_how_much_and_why(
    late: bool, wattfold: Command, fake: FakeCoordinator
) -> None:
    until_s = time.time() + (-10 if late else 1000)
    fake.power.MergeFrom(
        pb.Power(
            over_uw=62_500_000,
            over_reason="n0 has left",
            pending_budget_uw=fake.power.budget_uw,
            pending_deadline_s=until_s,
        )
    )
    for command in ("power", "budget show"):
        text = " ".join(wattfold(*command.split()).stdout.split())
        assert "over budget by 62.5 W: n0 has left" in text
    assert ("over the budget by" in wattfold("watch", "--count", "1").stdout) == late


def test_forgetting_a_node_says_what_it_drew_last(wattfold: Command, fake: FakeCoordinator) -> None:
    result = wattfold("node", "forget", "n1", "--no-power")
    assert "n1 has sent no telemetry since the coordinator started" in result.stdout
    fake.last_heard = pb.ForgetNodeResponse(
        last_power_uw=43_200_000, last_heard_s=time.time() - 125
    )
    result = wattfold("node", "forget", "n1", "--no-power")
    assert "n1 last reported 43.2 W, 2m05s ago" in result.stdout
    assert "make sure that the node is off" in result.stdout
    assert wattfold.json("node", "forget", "n1", "--no-power")["last_power_uw"] == 43_200_000
    result = wattfold("node", "forget", "n1", "--outside-budget")
    assert result.stdout == "n1 forgotten (outside budget)\n"
