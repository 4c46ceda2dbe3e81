"""`budget emergency`: its steps, and the emergency in `power` and `budget show`."""

from __future__ import annotations

import pytest
from unit.cli.conftest import Command
from unit.cli.fake_coordinator import FakeCoordinator

W = 1_000_000


def test_a_dry_run_says_who_loses_what_and_when(wattfold: Command, fake: FakeCoordinator) -> None:
    shown = wattfold("budget", "emergency", "20%", "--dry-run").stdout
    limit_w = 0.2 * fake.power.budget_uw / W
    assert shown.startswith(f"An emergency would limit the power to {limit_w:.1f} W;")
    assert "caps are lowered" in shown
    assert "3.0 s" in shown
    assert "20, 21, 22, 23" in shown
    assert "and 4 more" in shown
    assert "Protected: 3." in shown
    assert f"{100 - limit_w:.1f} W above the limit stay committed" in shown
    assert not fake.power.HasField("emergency")


def test_an_emergency_is_shown_with_the_power_until_it_ends(wattfold: Command) -> None:
    assert wattfold("budget", "emergency", "40W").stdout.startswith("An emergency limits the power")
    for command in (("power",), ("budget", "show")):
        text = " ".join(wattfold(*command).stdout.split())
        assert "limit 40.0 W since " in text
        assert "60.0 W as the minimum of the nodes; no job starts; 16 jobs suspended" in text
    assert wattfold.json("power")["emergency"]["limit_uw"] == 40 * W
    assert wattfold("budget", "emergency", "--end").stdout.startswith("The emergency is over.")
    assert "since" not in wattfold("power").stdout
    late = wattfold("budget", "emergency", "--end")
    assert late.exit_code == 1
    assert "no emergency is in force" in late.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give a limit"),
        (("40W", "--end"), "give a limit"),
        (("--end", "--dry-run"), "give a limit"),
        (("0%",), "not a share of the budget"),
        (("101%",), "not a share of the budget"),
        (("some",), "not a power"),
    ],
)
def test_wrong_limits_are_refused(wattfold: Command, arguments: tuple[str, ...], said: str) -> None:
    refused = wattfold("budget", "emergency", *arguments)
    assert refused.exit_code == 2
    assert said in refused.stderr
