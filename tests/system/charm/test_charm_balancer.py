"""Real Charm++ programs in C++: with our load balancer, and restarting with another size.

They need a Charm++ to compile them with: ``charmc`` in the path, or told by ``WATTFOLD_CHARMC``;
and one built with ``--enable-shrinkexpand``, told by ``WATTFOLD_CHARMC_SHRINKEXPAND``.
"""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from system.agent.agent_process import family, until

from wattfold.nodeagent.service.charm_program import MapWay
from wattfold.nodeagent.service.processor_maps import set_processor_map

STOCK = "WATTFOLD_CHARMC"
RESTARTING = "WATTFOLD_CHARMC_SHRINKEXPAND"
FOLDER = Path(__file__).parent
SOURCES = FOLDER.parents[2] / "runtime_shims" / "charm"
DEADLINE_NS = 50_000_000_000
START_S = 60.0

pytestmark = pytest.mark.timeout(500)


def build(variable, folder):
    """Builds balancer and example with the Charm++ told by a variable."""
    charmc = shutil.which(os.environ.get(variable, "charmc" if variable == STOCK else ""))
    if charmc is None:
        pytest.skip(f"needs the charmc of a Charm++ 8 ({variable})")
    command = ["make", "-f", SOURCES / "Makefile", f"CHARMC={charmc}", f"OUT={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def running(built, folder, *arguments, rebuild=()):
    """blocks, on 4 PEs until the end of the block; its pid and its output."""
    out, stop = folder / "out", folder / "stop"
    start = [
        sys.executable,
        "-m",
        "wattfold.shims.charm_start",
        *rebuild,
        "--",
        "./charmrun",
        "+p4",
    ]
    with out.open("w") as file:
        process = subprocess.Popen(
            [*start, "./blocks", str(stop), *arguments],
            cwd=built,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=os.environ
            | {"PYTHONPATH": ":".join(p for p in sys.path if p), "WATTFOLD_LAUNCH_CPUS": "4"},
        )
    try:
        until(lambda: counts(out), START_S)
        yield process.pid, out
        stop.touch()
        assert process.wait(60) == 0, out.read_text()
    finally:
        for pid in reversed(family(process.pid)) if process.poll() is None else []:
            os.kill(pid, signal.SIGKILL)
        process.wait()


def counts(out):
    lines = re.findall(r"^objects \[(.*)\]$", out.read_text(), re.MULTILINE)
    return [[int(count) for count in line.split(",")] for line in lines]


def test_objects_leave_the_processors_outside_the_map_and_come_back(tmp_path):
    build(STOCK, tmp_path)
    with running(tmp_path, tmp_path, "++local", "+balancer", "WattfoldLB") as (pid, out):
        follow(pid, out)


def follow(pid, out):
    for pe_map in (b"\1\1\0\0", b"\1\1\1\1", b"\0\0\1\1", b"\1\1\1\1"):
        outcome = asyncio.run(set_processor_map("j", lambda: family(pid), pe_map, DEADLINE_NS))
        assert outcome.way is MapWay.MAP
        assert outcome.applied
        objects = [processor.objects for processor in outcome.processors]
        assert sum(objects) == 32
        # By measured load, so not the same number everywhere.
        assert [bool(count) for count in objects] == [bool(use) for use in pe_map]
        assert len({processor.process.pid for processor in outcome.processors}) == 4
        assert outcome.surplus == 0
        # What the objects themselves find.
        until(
            lambda used=pe_map: (
                [bool(count) for count in counts(out)[-1]] == [bool(use) for use in used]
            )
        )


def test_a_program_that_restarts_has_as_many_pes_as_the_map(tmp_path):
    build(RESTARTING, tmp_path)
    balancer = ("+balancer", "RecBipartLB")
    with running(tmp_path, tmp_path, *balancer, rebuild=("--rebuild",)) as (pid, out):
        for pe_map in (b"\1\1\0\0", b"\1\1\1\1"):
            outcome = asyncio.run(set_processor_map("j", lambda: family(pid), pe_map, DEADLINE_NS))
            assert outcome.way is MapWay.RESTART
            assert outcome.applied, out.read_text()
            assert outcome.map == pe_map
            until(lambda wanted=pe_map: len(counts(out)[-1]) == sum(wanted))
            assert sum(counts(out)[-1]) == 32
