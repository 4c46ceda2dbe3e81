"""Measure resizes and residual load of Charm++ programs in C++ that follow a processor map.

`runtime_shims/charm/example/blocks.C` runs with the Charm++ in `build/charm/map`, made by
`scripts/charm_cpp --only-build SOURCE`; ``WATTFOLD_CHARMC`` selects another. The benchmark sends it
maps as an agent does. The measured values are

- *resizes*: half of the PEs are vacated and taken again. The stall is the balancer's own report:
  from the arrival of all PEs at the balancing step until all objects are in place. The other time
  is from the order until its effect was seen, most of which is the wait for the end of a round.
- *residual load*: CPU time of a vacated PE as a share of a core, from the scheduler's own count.
  The first value is for a suspended program, whose other processes are stopped. The other values
  are for short and long rounds, with a balancing step in each.

PEs beyond the cores of this machine share cores. Kale et al. (CCGrid 2002) had 86 ms to shrink from
128 to 64 PEs and 67.6 ms to expand with 1 MB moved per processor, and peaks of 2 %.

    python scripts/benchmarks/maps.py [--repeats 10] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wattfold.nodeagent.adapters.jobs import procfs
from wattfold.nodeagent.service.jobs.charm_program import CharmProgram, NotUpError
from wattfold.nodeagent.service.jobs.processor_maps import new_order

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "runtime_shims" / "charm"
BLOCKS = 32
PES, PE_BYTES = (2, 4, 8), (1_000_000, 4_000_000, 16_000_000)
TARGET_IDLE = 0.001
RESIDUAL_S, WINDOW_S = 10.0, 0.1
SHORT_TURNS, LONG_TURNS = 80_000, 10_000_000
DEADLINE_S = 60.0
PACE_S = 0.002
_PACE = threading.Event()
"""Never set: the awaited condition is outside of this process."""


class BenchmarkError(Exception):
    """The measurement cannot be made; the message says why."""


class Blocks:
    """A running `blocks`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._program = CharmProgram(self.members)

    def members(self) -> list[int]:
        return [self.process.pid, *procfs.descendants(self.process.pid)]

    def pids(self) -> list[int]:
        """Processes of its PEs, in the order of the PEs."""
        return list(asyncio.run(self._program.look()).pids or ())

    def settle(self) -> None:
        """Wait until it answers and has counted its objects."""
        deadline_s = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline_s:
            with contextlib.suppress(NotUpError):
                if sum(asyncio.run(self._program.look()).objects or ()) == BLOCKS:
                    return
            _PACE.wait(PACE_S)
        raise BenchmarkError("the program has not come up")

    def resize(self, pe_map: bytes) -> tuple[float, float, int]:
        """Return the stall, s, the time until the map was in force, s, and the number of moved
        bytes.
        """
        return asyncio.run(self._resize(pe_map))

    async def _resize(self, pe_map: bytes) -> tuple[float, float, int]:
        order, began_s = new_order(pe_map), time.monotonic()
        await self._program.order(order)
        while True:
            seen = await self._program.look()
            if seen.in_force == order.id:
                return seen.stalled_ns / 1e9, time.monotonic() - began_s, seen.moved_bytes
            if time.monotonic() - began_s > DEADLINE_S:
                raise BenchmarkError("the program does not come to a balancing step")
            await asyncio.sleep(PACE_S)


@contextlib.contextmanager
def running(folder: Path, pes: int, block_bytes: int, turns: int) -> Iterator[Blocks]:
    """`blocks` on this number of PEs, until the end of the block."""
    stop = folder / "stop"
    stop.unlink(missing_ok=True)
    start = [sys.executable, "-m", "wattfold.shims.charm_start", "--", "./charmrun", "++local"]
    words = [str(stop), "0", str(block_bytes), str(turns), "+balancer", "WattfoldLB"]
    with (folder / "out").open("wb") as out:
        process = subprocess.Popen(
            [*start, f"+p{pes}", "./blocks", *words], cwd=folder, stdout=out, stderr=out
        )
    blocks = Blocks(process)
    try:
        blocks.settle()
        yield blocks
        stop.touch()
        if process.wait(DEADLINE_S):
            raise BenchmarkError((folder / "out").read_text())
    finally:
        for pid in reversed(blocks.members()) if process.poll() is None else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def resizes(folder: Path, repeats: int) -> list[dict[str, Any]]:
    """Return a row for every number of PEs, amount of data and direction."""
    rows = []
    for pes in PES:
        for pe_bytes in PE_BYTES:
            with running(folder, pes, pe_bytes * pes // BLOCKS, SHORT_TURNS) as blocks:
                half = b"\1" * (pes // 2) + b"\0" * (pes - pes // 2)
                maps = {"shrink": half, "expand": b"\1" * pes}
                found: dict[str, list[tuple[float, float, int]]] = {word: [] for word in maps}
                for _ in range(repeats):
                    for word, pe_map in maps.items():
                        found[word].append(blocks.resize(pe_map))
            for word, results in found.items():
                stalls, took, moved = zip(*results, strict=True)
                rows.append(
                    {
                        "pes": pes,
                        "pe_mb": pe_bytes / 1e6,
                        "way": word,
                        "stall_ms": {"p50": _ms(stalls), "max": max(stalls) * 1e3},
                        "took_ms": {"p50": _ms(took), "max": max(took) * 1e3},
                        "moved_mb": statistics.mean(moved) / 1e6,
                    }
                )
    return rows


def _ms(values: tuple[float, ...]) -> float:
    return statistics.median(values) * 1e3


def residual(folder: Path) -> list[dict[str, Any]]:
    """Return the load of the second of two PEs, vacated."""
    rows = []
    for name, turns in (("short rounds", SHORT_TURNS), ("long rounds", LONG_TURNS)):
        with running(folder, 2, 1000, turns) as blocks:
            blocks.resize(b"\1\0")
            enabled, vacated = blocks.pids()
            rows.append({"program": name, **_load(vacated)})
            if turns == LONG_TURNS:
                # No message comes to the vacated PE now.
                os.kill(enabled, signal.SIGSTOP)
                rows.append({"program": "stands still", **_load(vacated)})
                os.kill(enabled, signal.SIGCONT)
    return rows


def _load(pid: int) -> dict[str, float]:
    loads, began_s = [], time.monotonic()
    at_s, used_ns = began_s, _cpu_ns(pid)
    while at_s - began_s < RESIDUAL_S:
        _PACE.wait(WINDOW_S)
        now_s, now_ns = time.monotonic(), _cpu_ns(pid)
        loads.append((now_ns - used_ns) / 1e9 / (now_s - at_s))
        at_s, used_ns = now_s, now_ns
    return {"mean": statistics.mean(loads), "peak": max(loads)}


def _cpu_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def build(folder: Path) -> None:
    """Build the example and its balancer. Raises BenchmarkError."""
    told = os.environ.get("WATTFOLD_CHARMC", str(ROOT / "build/charm/map/bin/charmc"))
    charmc = shutil.which(told)
    if charmc is None:
        raise BenchmarkError(f"no {told}: scripts/charm_cpp --only-build SOURCE makes it")
    command = ["make", "-f", str(SOURCES / "Makefile"), f"CHARMC={charmc}", f"OUT={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(done.stdout + done.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=10, help="changes each way")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wattfold-maps-") as name:
        folder = Path(name)
        try:
            build(folder)
            before = os.getloadavg()[0]
            loads, changes = residual(folder), resizes(folder, given.repeats)
        except BenchmarkError as error:
            print(f"maps: {error}", file=sys.stderr)
            return 2
    print(f"{os.cpu_count()} CPUs, load average before: {before:.1f}")
    for row in loads:
        print(f"residual, {row['program']}: {row['mean']:.4%} of a core, peak {row['peak']:.2%}")
    for row in changes:
        stall, took = row["stall_ms"], row["took_ms"]
        print(
            f"{row['way']} {row['pes']:2d} PEs, {row['pe_mb']:4.0f} MB a PE: stalled "
            f"{stall['p50']:7.1f} ms (max {stall['max']:7.1f}), in force after "
            f"{took['p50']:7.1f} ms, {row['moved_mb']:6.1f} MB moved"
        )
    if given.json:
        figures = {"cpus": os.cpu_count(), "residual": loads, "resizes": changes}
        given.json.write_text(json.dumps(figures, indent=1) + "\n")
    missed = any(one["program"] == "stands still" and one["mean"] > TARGET_IDLE for one in loads)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
