"""The table `[budget]` of the configuration, and the options that simulate its limits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from unit.adapters.test_config import complaint, read
from unit.cli.command import Command

from wattfold.coordinator.core.model.ramp_limits import RampLimits

W = 1_000_000
POWER = "[power]\nsuspend = '/bin/true'\nresume = '/bin/true'\nasleep_w = 5\nboot_w = 150\n"


def test_the_limits_are_read(tmp_path: Path) -> None:
    text = "[budget]\nrise_w_per_s = 2.5\nfall_w_per_s = 5\nstep_w = 40"
    assert read(tmp_path, text).ramp == RampLimits(
        rise_uw_per_s=2_500_000, fall_uw_per_s=5 * W, step_uw=40 * W
    )
    assert read(tmp_path, "").ramp == RampLimits()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[budget]\nstep_w = 4", "budget.step_w needs budget.rise_w_per_s or budget.fall_w_per_s"),
        ("[budget]\nrise_w_per_s = 0", "rise_w_per_s"),
        (
            f"{POWER}[budget]\nrise_w_per_s = 5",
            "the boot of a node adds 145 W at once (power.boot_w less power.asleep_w), but "
            "budget.step_w permits 50 W (default: 10 s of budget.rise_w_per_s)",
        ),
        (f"{POWER}[budget]\nrise_w_per_s = 5\nstep_w = 99", "budget.step_w permits 99 W"),
    ],
)
def test_limits_that_cannot_be_kept_are_refused(tmp_path: Path, text: str, message: str) -> None:
    assert message in complaint(tmp_path, text)


def simulate(*words: str) -> list[dict[str, float]]:
    model = ("--model", "lublin", "--jobs", "30", "--nodes", "8", "--policy", "easy")
    done = Command("unix:/nonexistent/wattfold.sock")(
        "simulate", *model, "--workers", "1", "--no-figures", "--json", *words
    )
    runs: list[dict[str, float]] = json.loads(done.stdout)["runs"]
    return runs


def test_a_share_of_the_budget_is_a_rate() -> None:
    # 5 % of 928 W in a minute.
    (share,), (rate,) = simulate("--rise-limit", "5%/min"), simulate("--rise-limit", "0.773333W")
    assert share["committed_w_mean"] == rate["committed_w_mean"]
    assert share["committed_w_mean"] < simulate()[0]["committed_w_mean"]


@pytest.mark.parametrize("text", ["0%/min", "x%/min", "-3W"])
def test_a_rate_is_above_zero(text: str) -> None:
    done = Command("unix:/nonexistent/wattfold.sock")("simulate", "--rise-limit", text)
    assert done.exit_code != 0
    assert "--rise-limit" in done.output


def test_a_pool_refuses_a_limit_of_the_fall() -> None:
    done = Command("unix:/nonexistent/wattfold.sock")(
        "compare", "--model", "lublin", "--jobs", "5", "--nodes", "8", "--fall-limit", "5W"
    )
    assert "--fall-limit needs --level messages" in done.output
