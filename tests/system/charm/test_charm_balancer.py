"""The load balancer in C++, linked into a real Charm++ program; needs a Charm++ to compile it with.

Found as ``charmc`` in the path, or told by ``WATTFOLD_CHARMC``.
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from system.agent.agent_process import family, until

from wattfold.nodeagent.service.processor_maps import MapWay, set_processor_map

CHARMC = shutil.which(os.environ.get("WATTFOLD_CHARMC", "charmc"))
SOURCES = Path(__file__).parents[3] / "runtime_shims" / "charm"
DEADLINE_NS = 50_000_000_000
START_S = 60.0

pytestmark = [
    pytest.mark.timeout(500),
    pytest.mark.skipif(CHARMC is None, reason="needs charmc of a Charm++ 8 (WATTFOLD_CHARMC)"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("charm")
    command = ["make", "-f", SOURCES / "Makefile", f"CHARMC={CHARMC}", f"OUT={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture
def program(built, tmp_path):
    out = tmp_path / "out"
    start = [sys.executable, "-m", "wattfold.shims.charm_start", "--"]
    command = ["./charmrun", "++local", "+p4", "./blocks", str(tmp_path / "stop")]
    with out.open("w") as file:
        process = subprocess.Popen(
            [*start, *command, "+balancer", "WattfoldLB"],
            cwd=built,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": ":".join(p for p in sys.path if p)},
        )
    try:
        until(lambda: counts(out), START_S)
        yield process.pid, out
        (tmp_path / "stop").touch()
        assert process.wait(60) == 0, out.read_text()
    finally:
        for pid in reversed(family(process.pid)) if process.poll() is None else []:
            os.kill(pid, 9)
        process.wait()


def counts(out):
    lines = re.findall(r"^objects \[(.*)\]$", out.read_text(), re.MULTILINE)
    return [[int(count) for count in line.split(",")] for line in lines]


def test_objects_leave_the_processors_outside_the_map_and_come_back(program):
    pid, out = program
    for pe_map in (b"\1\1\0\0", b"\1\1\1\1", b"\0\0\1\1", b"\1\1\1\1"):
        outcome = asyncio.run(set_processor_map("j", lambda: family(pid), pe_map, DEADLINE_NS))
        assert outcome.way is MapWay.MAP
        assert outcome.applied
        objects = [processor.objects for processor in outcome.processors]
        assert sum(objects) == 32
        # By measured load, so not the same number everywhere.
        assert [bool(count) for count in objects] == [bool(use) for use in pe_map]
        assert len({processor.process.pid for processor in outcome.processors}) == 4
        assert not outcome.surplus
        # What the objects themselves find.
        until(
            lambda used=pe_map: (
                [bool(count) for count in counts(out)[-1]] == [bool(use) for use in used]
            )
        )
