"""Real C++ programs of Charm++: with our load balancer, and restarting with another size."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

from system.agent.agent_process import family, until
from system.charm.compiled import BLOCKS, Kind, compiled, result_of

from wattfold.nodeagent.service.jobs.charm_program import MapWay
from wattfold.nodeagent.service.jobs.processor_maps import set_processor_map

DEADLINE_NS = 50_000_000_000
START_S = 60.0


@contextmanager
def running(built, folder, *arguments, rebuild=()):
    """blocks on 4 PEs until the end of the block; its pid and its output. Checks its result."""
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
        assert process.wait(240) == 0, out.read_text()
        rounds, total = re.search(r"^end (\d+) (\d+)$", out.read_text(), re.MULTILINE).groups()
        assert int(total) == result_of(int(rounds))
    finally:
        for pid in reversed(family(process.pid)) if process.poll() is None else []:
            os.kill(pid, signal.SIGKILL)
        process.wait()


def counts(out):
    lines = re.findall(r"^objects \[(.*)\]$", out.read_text(), re.MULTILINE)
    return [[int(count) for count in line.split(",")] for line in lines]


def test_objects_leave_the_processors_outside_the_map_and_come_back(tmp_path):
    built = compiled(Kind.MAP)
    with running(built, tmp_path, "++local", "+balancer", "WattfoldLB") as (pid, out):
        follow(pid, out)


def follow(pid, out):
    for pe_map in (b"\1\1\0\0", b"\1\1\1\1", b"\0\0\1\1", b"\1\1\1\1"):
        outcome = asyncio.run(set_processor_map("j", lambda: family(pid), pe_map, DEADLINE_NS))
        assert outcome.way is MapWay.MAP
        assert outcome.applied
        objects = [processor.objects for processor in outcome.processors]
        assert sum(objects) == BLOCKS
        # By measured load, so the numbers differ.
        assert [bool(count) for count in objects] == [bool(use) for use in pe_map]
        assert len({processor.process.pid for processor in outcome.processors}) == 4
        assert outcome.surplus == 0
        # Counts by the objects themselves.
        until(
            lambda used=pe_map: (
                [bool(count) for count in counts(out)[-1]] == [bool(use) for use in used]
            )
        )


def test_a_program_that_restarts_has_as_many_pes_as_the_map(tmp_path):
    built = compiled(Kind.REBUILD)
    balancer = ("+balancer", "RecBipartLB")
    with running(built, tmp_path, *balancer, rebuild=("--rebuild",)) as (pid, out):
        for pe_map in (b"\1\1\0\0", b"\1\1\1\1"):
            outcome = asyncio.run(set_processor_map("j", lambda: family(pid), pe_map, DEADLINE_NS))
            assert outcome.way is MapWay.RESTART
            assert outcome.applied, out.read_text()
            assert outcome.map == pe_map
            until(lambda wanted=pe_map: len(counts(out)[-1]) == sum(wanted))
            assert sum(counts(out)[-1]) == BLOCKS


def test_the_result_of_a_run_nobody_disturbs_is_the_one_expected():
    command = ["./charmrun", "++local", "+p1", "./blocks", "none", "50", "100"]
    done = subprocess.run(
        command, cwd=compiled(Kind.MAP), capture_output=True, text=True, timeout=100
    )
    assert f"end 50 {result_of(50, 100)}\n" in done.stdout
