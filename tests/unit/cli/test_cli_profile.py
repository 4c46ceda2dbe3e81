"""`profile`: measured points and the stored result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from unit.cli.command import Command
from unit.cli.fake_coordinator import FakeCoordinator, W, node

from wattfold.coordinator.cli.profiles import probing
from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.v1 import coordinator_pb2 as pb


def test_measures_fits_plots_and_stores(
    wattfold: Command, fake: FakeCoordinator, tmp_path: Path
) -> None:
    fake.finish_at_once = True
    picture = tmp_path / "fit.png"
    result = wattfold(
        *("profile", "--json", "--app", "app", "--cores", "1,2,4", "--levels", "3"),
        *("--plot", str(picture), "--", "true"),
    )
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["stored"]
    assert len(document["profile"]["points"]) == 9
    # The fake runs for 8/n + 1 seconds at 60 W.
    assert document["profile"]["t1_s"] == pytest.approx(9.0, rel=0.1)
    assert document["profile"]["rms_error"] < 0.1
    assert picture.read_bytes().startswith(b"\x89PNG")
    stored = fake.profiles["app"]
    assert stored.source == "measured"
    assert all(point.fitted_seconds > 0 for point in stored.points)
    assert stored.points[0].power_uw == pytest.approx(0.9 * 30 * W)
    assert result.stderr.count(" s\n") == 9


def test_probes_are_rigid_exclusive_and_capped(wattfold: Command, fake: FakeCoordinator) -> None:
    fake.finish_at_once = True
    arguments = ("profile", "--cores", "1,2", "--caps", "40,50", "--repeat", "2", "--", "true")
    assert wattfold(*arguments).exit_code == 0
    specs = [request.spec for request in fake.submissions]
    points = [(spec.size_min, spec.size_max, spec.cap_uw // W) for spec in specs]
    assert points == [(1, 1, 40), (1, 1, 50), (2, 2, 40), (2, 2, 50)] * 2
    assert all(spec.kind == pb.JOB_KIND_RIGID and spec.exclusive for spec in specs)
    assert fake.profiles["true"].app == "true"


def test_no_store_only_shows(wattfold: Command, fake: FakeCoordinator) -> None:
    fake.finish_at_once = True
    result = wattfold("profile", "--no-store", "--cores", "1", "--caps", "40,50", "true")
    assert result.exit_code == 0
    assert "beta = " in result.stdout
    assert "Stored" not in result.stdout
    assert "note: one size" in result.stdout
    assert fake.profiles == {}


@pytest.mark.parametrize(
    "arguments",
    [
        ("--plot", "x.txt", "true"),
        ("--plot", "/nowhere/x.png", "true"),
        ("no-such-program",),
        ("--cores", "0", "true"),
        ("--app", "a b", "true"),
    ],
)
def test_mistakes_are_found_before_the_first_run(
    wattfold: Command, fake: FakeCoordinator, arguments: tuple[str, ...]
) -> None:
    assert wattfold("profile", *arguments).exit_code == 2
    assert fake.submissions == []


def test_a_refused_probe_ends_it(wattfold: Command, fake: FakeCoordinator) -> None:
    result = wattfold("profile", "--cores", "8", "--caps", "40", "true")
    assert result.exit_code == 1
    assert "size 8 cannot be measured" in result.stderr
    assert fake.profiles == {}


def test_sizes_are_powers_of_two_and_all_cores() -> None:
    nodes = [node("a", cpus="0-5"), node("b", cpus="0-15", state=pb.NODE_STATE_DOWN)]
    assert probing.default_sizes(nodes) == (1, 2, 4, 6)
    with pytest.raises(CliError, match="no node is up"):
        probing.default_sizes(nodes[1:])


def test_caps_are_in_the_range_of_all_nodes() -> None:
    nodes = [node("a"), node("b")]
    nodes[1].zones[0].cap_uw_min = 35 * W
    assert probing.default_caps_uw(nodes, 3) == (35 * W, 47_500_000, 60 * W)
    assert probing.default_caps_uw(nodes, 1) == (60 * W,)
    nodes[0].zones[0].cap_uw_max = 34 * W
    with pytest.raises(CliError, match="needs at least 35 W, another node allows at most 34 W"):
        probing.default_caps_uw(nodes, 3)


def test_a_plan_has_a_limit() -> None:
    with pytest.raises(CliError, match="above the limit of 1000"):
        probing.plan_probes((1, 2), (40 * W,), 501)
