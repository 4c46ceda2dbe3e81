"""`wattfold node`, and what is drawn outside the sum in the tables."""

from __future__ import annotations

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
    assert (result.stdout, result.exit_code) == (f"{said}\n", 0)
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
    first, second = wattfold("nodes").stdout.splitlines()[1:]
    assert "leaving" in first
    assert "(new memory, 40.0 W are missing, emulated)" in first
    assert "returned" in second
    assert "+21.0" in second
    assert "outside the ledger, may draw 21.0 W" in second


def test_power_outside_the_sum_is_told(wattfold: Command, fake: FakeCoordinator) -> None:
    assert "outside" not in wattfold("power").stdout
    fake.power.MergeFrom(
        pb.Power(
            outside_uw=90 * W, over_uw=20 * W, outside_node_ids=["n2"], unheard_node_ids=["n3"]
        )
    )
    told = "90.0 W (n2), OVER THE BUDGET BY 20.0 W"
    for command in ("power", "budget show"):
        text = wattfold(*command.split()).stdout
        assert told in text
        assert "n3 (power unknown)" in text
    assert told in wattfold("watch", "--count", "1").stdout
    assert told in wattfold("budget", "set", "210").stdout


def test_names_of_nodes_are_completed(address: str) -> None:
    shell = ShellComplete(cli, {}, "wattfold", "_WATTFOLD_COMPLETE")
    found = shell.get_completions(["--coordinator", address, "node", "drain"], "n")
    assert [item.value for item in found] == ["n1", "n2"]
    nobody = shell.get_completions(["--coordinator", "unix:/nowhere", "node", "drain"], "n")
    assert nobody == []
