"""`submit --resize map`: a Charm++ job in one command, and checks of its build."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from unit.cli.command import Command
from unit.cli.fake_coordinator import FakeCoordinator

from wattfold.v1 import common_pb2 as common
from wattfold.v1 import coordinator_pb2 as pb

START = [sys.executable, "-m", "wattfold.shims.charm_start"]
MAP = ("submit", "--nodes", "1-3", "--resize", "map")

CHARM4PY = pytest.mark.skipif(
    importlib.util.find_spec("charm4py") is None,
    reason="needs charm4py: pip install 'wattfold[charm]'",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def program(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    path.chmod(0o755)
    return f"./{path.name}"


def argv(fake: FakeCoordinator, mode: int = common.RESIZE_MODE_MAP) -> list[str]:
    spec = fake.submissions[-1].spec
    assert spec.mode == mode
    return list(spec.argv)


@CHARM4PY
def test_a_python_program_is_started_so_that_its_map_can_be_told(
    wattfold: Command, fake: FakeCoordinator, folder: Path
) -> None:
    rod = program(folder / "rod.py", b"placement = follow_map([rod])")
    assert wattfold(*MAP, "--", rod, "400").exit_code == 0
    assert argv(fake) == [*START, "--charm4py", "./rod.py", "400"]
    spec = fake.submissions[-1].spec
    assert (spec.unit, spec.size_min, spec.size_max) == (pb.SIZE_UNIT_NODES, 1, 3)
    assert wattfold(*MAP, "--", sys.executable, "rod.py").exit_code == 0
    assert argv(fake) == [*START, "--charm4py", "rod.py"]


@CHARM4PY
def test_a_python_program_that_follows_no_map_is_warned_of(wattfold: Command, folder: Path) -> None:
    rod = program(folder / "rod.py", b"charm.start(main)")
    result = wattfold(*MAP, "--", sys.executable, rod)
    assert result.exit_code == 0
    assert "./rod.py does not contain follow_map" in result.stderr


def test_an_interpreter_without_charm4py_is_refused_unless_it_is_not_looked_at(
    wattfold: Command, fake: FakeCoordinator, folder: Path
) -> None:
    bare = program(folder / "python3", b"#!/bin/sh\nexit 1\n")
    program(folder / "rod.py", b"follow_map")
    result = wattfold(*MAP, "--", bare, "rod.py")
    assert result.exit_code
    assert "lacks charm4py or wattfold.shims" in result.stderr
    assert wattfold(*MAP, "--no-check", "--", bare, "rod.py").exit_code == 0
    assert argv(fake) == [bare, *START[1:], "--charm4py", "rod.py"]


def test_a_compiled_program_gets_the_balancer_that_takes_maps(
    wattfold: Command, fake: FakeCoordinator, folder: Path
) -> None:
    run = program(folder / "charmrun", b"")
    rod = program(folder / "rod", b"\0" * (1 << 20) + b"getmap_wattfold")
    assert wattfold(*MAP, "--", run, rod, "400").exit_code == 0
    assert argv(fake) == [*START, "--", run, rod, "400", "+balancer", "WattfoldLB"]
    on_cores = ("submit", "--cores", "1-4", "--resize", "map", "--", run, rod)
    assert wattfold(*on_cores, "+balancer", "Mine").exit_code == 0
    assert argv(fake) == [*START, "--", run, "++local", rod, "+balancer", "Mine"]


def test_a_compiled_program_that_takes_no_maps_is_refused_with_what_it_lacks(
    wattfold: Command, fake: FakeCoordinator, folder: Path
) -> None:
    run, rod = program(folder / "charmrun", b""), program(folder / "rod", b"set_bitmap")
    result = wattfold(*MAP, "--", run, rod)
    assert result.exit_code
    assert "./rod does not accept processor maps; link it with -module WattfoldLB" in result.stderr
    # A program that restarts can change its PEs on one node.
    rod = program(folder / "rod", b"set_bitmap MetisLB")
    assert wattfold("submit", "--cores", "1-4", "--resize", "map", "--", run, rod).exit_code == 0
    assert argv(fake) == [*START, "--rebuild", "--", run, rod, "+balancer", "MetisLB"]


REBUILD = ("submit", "--cores", "1-4", "--resize", "rebuild", "--")


def test_a_program_that_restarts_itself_is_started_by_a_shell_of_this_node(
    wattfold: Command, fake: FakeCoordinator, folder: Path
) -> None:
    run, rod = program(folder / "charmrun", b""), program(folder / "rod", b"set_bitmap RecBipartLB")
    assert wattfold(*REBUILD, run, rod, "400").exit_code == 0
    given = [*START, "--rebuild", "--", run, rod, "400", "+balancer", "RecBipartLB"]
    assert argv(fake, common.RESIZE_MODE_REBUILD) == given
    assert wattfold(*REBUILD, run, rod, "+balancer", "Mine").exit_code == 0
    assert argv(fake, common.RESIZE_MODE_REBUILD)[-2:] == ["+balancer", "Mine"]


@pytest.mark.parametrize(
    ("content", "words", "why"),
    [
        (b"getmap_wattfold", (), "rod lacks set_bitmap and cannot restart itself at another size"),
        (b"set_bitmap", (), "no linked load balancer can vacate processors"),
        (b"set_bitmap MetisLB", ("++local",), "omit it"),
    ],
)
def test_what_a_build_lacks_for_a_restart_of_its_own_is_told(
    wattfold: Command, folder: Path, content: bytes, words: tuple[str, ...], why: str
) -> None:
    run, rod = program(folder / "charmrun", b""), program(folder / "rod", content)
    result = wattfold(*REBUILD, run, *words, rod)
    assert result.exit_code
    assert why in " ".join(result.stderr.split())


def test_the_charm_of_charm4py_cannot_restart_itself(wattfold: Command, folder: Path) -> None:
    rod = program(folder / "rod.py", b"follow_map")
    result = wattfold(*REBUILD, rod)
    assert result.exit_code
    assert "built without --enable-shrinkexpand" in " ".join(result.stderr.split())


def test_other_commands_stay_as_they_are(
    wattfold: Command, fake: FakeCoordinator, folder: Path
) -> None:
    script = program(folder / "job.sh", b"#!/bin/sh\n")
    for command in ([script, "x"], [*START, "--charm4py", "rod.py"]):
        assert wattfold(*MAP, "--", *command).exit_code == 0
        assert argv(fake) == command
