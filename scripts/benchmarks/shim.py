"""Measures what the OpenMP shim costs and how fast it reacts. Not a test.

Figures depend on the machine and on what else runs there.

Three tables: the cost of an empty parallel region with and without the shim; of wattfold_poll; and
the time from sending a mask to its acknowledgement, while a program runs regions of a known length.

    scripts/build_shims && python scripts/benchmarks/shim.py [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import zmq

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.shim_protocol import ShimFlags, ShimMessage, ShimMessageType
from wattfold.shims.locate import find_omp_shim

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_MS = 10_000

PROGRAM = r"""
#include "wattfold.h"
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* usage: probe region COUNT | poll COUNT | busy REGION_NS SECONDS */
int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    const long count = atol(argv[2]);
    const double start = now_ns();
    if (strcmp(argv[1], "region") == 0) {
        for (long i = 0; i < count; i++) {
#pragma omp parallel
            __asm__ volatile("" ::: "memory");
        }
    } else if (strcmp(argv[1], "poll") == 0) {
        for (long i = 0; i < count; i++)
            if (wattfold_poll(NULL)) return 3;
    } else {
        const double end = start + 1e9 * atof(argv[3]);
        while (now_ns() < end) {
#pragma omp parallel
            {
                const double until = now_ns() + (double)count;
                while (now_ns() < until)
                    ;
            }
        }
    }
    printf("%.3f\n", (now_ns() - start) / (double)count);
    return 0;
}
"""


@contextmanager
def agent_socket(folder: Path) -> Iterator[tuple[zmq.Socket[bytes], str]]:
    """A ROUTER as an agent has it, and its endpoint."""
    endpoint = f"ipc://{folder}/shim.sock"
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.setsockopt(zmq.LINGER, 0)
        router.bind(endpoint)
        yield router, endpoint


def build_probe(folder: Path) -> Path:
    """Compiles the program measured. Raises CalledProcessError when gcc does."""
    source, program = folder / "probe.c", folder / "probe"
    source.write_text(PROGRAM)
    include, library = ROOT / "runtime_shims/include", ROOT / "build/shims/libwattfold.a"
    subprocess.run(
        ["gcc", "-O2", "-fopenmp", f"-I{include}", "-o", program, source, library, "-ldl"],
        check=True,
    )
    return program


def environment(threads: int, shim: Path | None, endpoint: str) -> dict[str, str]:
    """Variables of a job in team mode; without a shim those of a plain program."""
    plain = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    if shim is None:
        return plain
    return {
        **plain,
        "LD_PRELOAD": str(shim),
        "WATTFOLD_SHIM_ENDPOINT": endpoint,
        "WATTFOLD_RESIZE_MODE": "team",
        "WATTFOLD_LAUNCH_CPUS": str(threads),
    }


def cost_ns(probe: Path, what: str, count: int, variables: dict[str, str]) -> float:
    """Nanoseconds a call, the run's own measurement."""
    done = subprocess.run(
        [probe, what, str(count)], env=variables, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def overhead(probe: Path, shim: Path, endpoint: str, rounds: int) -> list[dict[str, float]]:
    """Cost of an empty region; plain and shimmed runs take turns, so that load meets both."""
    rows = []
    for threads in (1, 2):
        count = 2_000_000 if threads == 1 else 300_000
        plain, shimmed = [], []
        for _ in range(rounds):
            plain.append(cost_ns(probe, "region", count, environment(threads, None, endpoint)))
            shimmed.append(cost_ns(probe, "region", count, environment(threads, shim, endpoint)))
        rows.append(
            {
                "threads": threads,
                "plain_ns": statistics.median(plain),
                "shim_ns": statistics.median(shimmed),
                "plain_min_ns": min(plain),
                "shim_min_ns": min(shimmed),
            }
        )
    return rows


def wait_for(router: zmq.Socket[bytes], kind: ShimMessageType, seq: int) -> bytes:
    """Waits for a message of a kind and a seq; returns the peer's identity."""
    while router.poll(DEADLINE_MS):
        identity, frame = router.recv_multipart()
        message = ShimMessage.unpack(frame)
        if message.type is kind and message.seq == seq:
            return identity
    raise TimeoutError(f"no {kind.name} {seq} within {DEADLINE_MS} ms")


def reaction(
    probe: Path, shim: Path, router: zmq.Socket[bytes], endpoint: str, region_us: int, masks: int
) -> dict[str, dict[str, float]]:
    """Microseconds from sending a mask to its acknowledgement, by direction."""
    seconds = 5 + masks * (0.002 + 4e-6 * region_us)
    process = subprocess.Popen(
        [probe, "busy", str(region_us * 1000), str(seconds)],
        env=environment(2, shim, endpoint),
        stdout=subprocess.DEVNULL,
    )
    taken: dict[str, list[float]] = {"shrink": [], "grow": []}
    try:
        identity = wait_for(router, ShimMessageType.HELLO, 0)
        for seq in range(1, masks + 1):
            cores = 1 + seq % 2
            mask = ShimMessage(
                type=ShimMessageType.MASK,
                flags=ShimFlags.TEAM_FOLLOWS,
                seq=seq,
                cores=cores,
                text=str(CpuSet.of(range(cores))),
            ).pack()
            start = time.perf_counter_ns()
            router.send_multipart([identity, mask])
            wait_for(router, ShimMessageType.ACK, seq)
            taken["grow" if cores == 2 else "shrink"].append(
                (time.perf_counter_ns() - start) / 1000
            )
            # Two regions pass, so that a shrink meets a team of two.
            let_run(router, 2 * region_us / 1000)
    finally:
        process.kill()
        process.wait()
    return {way: percentiles(values) for way, values in taken.items()}


def let_run(router: zmq.Socket[bytes], milliseconds: float) -> None:
    """Lets the program run on; statuses that come in meanwhile are thrown away later."""
    end = time.perf_counter() + milliseconds / 1000
    while (left := end - time.perf_counter()) > 0:
        if router.poll(max(1, int(left * 1000))):
            router.recv_multipart()


def percentiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "count": len(ordered),
        "p50_us": ordered[len(ordered) // 2],
        "p99_us": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)],
    }


def measure(shim: Path, rounds: int, masks: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        probe = build_probe(folder)
        with agent_socket(folder) as (_, endpoint):
            regions = overhead(probe, shim, endpoint, rounds)
            poll = cost_ns(probe, "poll", 100_000_000, environment(1, shim, endpoint))
        reactions = {}
        for region_us in (100, 1000):
            # A socket of its own for each program: no message of the one before.
            with agent_socket(folder) as (router, endpoint):
                reactions[str(region_us)] = reaction(
                    probe, shim, router, endpoint, region_us, masks
                )
    return {"regions": regions, "poll_ns": poll, "reaction": reactions}


def show(figures: dict[str, object]) -> None:
    print("empty region        plain ns   shim ns   difference (medians; least in brackets)")
    for row in figures["regions"]:  # type: ignore[attr-defined]
        print(
            f"  {row['threads']} thread(s)      {row['plain_ns']:9.1f} {row['shim_ns']:9.1f} "
            f"{row['shim_ns'] - row['plain_ns']:9.1f}   "
            f"({row['plain_min_ns']:.1f} {row['shim_min_ns']:.1f})"
        )
    print(f"wattfold_poll       {figures['poll_ns']:9.2f} ns")
    print("mask to ACK            p50 us    p99 us")
    for region_us, ways in figures["reaction"].items():  # type: ignore[attr-defined]
        for way, numbers in ways.items():
            print(
                f"  {region_us:>4} us {way:<7}    {numbers['p50_us']:9.0f} {numbers['p99_us']:9.0f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--rounds", type=int, default=7, help="runs a table entry (default 7)")
    parser.add_argument("--masks", type=int, default=1000, help="masks a region length")
    options = parser.parse_args()
    shim = find_omp_shim()
    if shim is None:
        parser.exit(1, "no shim found; run scripts/build_shims first\n")
    figures = measure(shim, options.rounds, options.masks)
    show(figures)
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
