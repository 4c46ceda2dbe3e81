#!/usr/bin/env python3
"""Measure what a scrape of the metrics costs the event loop, with 1,000 nodes and many open jobs.

Between two scrapes, all nodes renew their leases. CPU time of the thread of the loop is measured
without this work. Then clients in another process scrape as fast as they can.

    scripts/benchmarks/metrics.py [--open 0 10000] [--json]

Targets: an answer within 0.5 s, and at most 2 % of the loop for a scrape every second. Exits with
status 1 if one is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
import urllib.request
from dataclasses import asdict, dataclass

from core import NODES, Site

from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.copies.picture_feed import PictureFeed
from wattfold.coordinator.adapters.copies.pictures import Setting
from wattfold.coordinator.adapters.copies.replica_feed import ReplicaFeed, whole
from wattfold.coordinator.adapters.learning.observations import Observations
from wattfold.coordinator.adapters.metrics.endpoint import Endpoint
from wattfold.coordinator.adapters.metrics.meters import Meters
from wattfold.coordinator.core.state.changes import Changes
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.solvers.worker import SolverWorker, step_back

SCRAPES = 30
ANSWER_S_MAX = 0.5
LOOP_SHARE_MAX = 0.02
FLOOD_S = 3
_FLOOD = """
import sys, threading, time, urllib.request
url, until, count = sys.argv[1], time.monotonic() + float(sys.argv[2]), [0]
def scrape():
    while time.monotonic() < until:
        urllib.request.urlopen(url, timeout=60).read()
        count[0] += 1
threads = [threading.Thread(target=scrape) for _ in range(32)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(count[0])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A scrape: time and size of the answer, CPU time of the loop. Then many clients at once."""

    open_jobs: int
    answer_ms: float
    answer_bytes: int
    loop_ms: float
    flood_answers_per_s: float
    flood_loop_share: float

    @property
    def held(self) -> bool:
        """Whether the targets are met."""
        return self.answer_ms <= ANSWER_S_MAX * 1e3 and self.loop_ms <= LOOP_SHARE_MAX * 1e3


def main() -> int:
    arguments = _arguments()
    rows = [asyncio.run(_measure(count)) for count in arguments.open]
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    for row in rows if not arguments.json else ():
        print(
            f"{row.open_jobs} open jobs: answer {row.answer_ms:.1f} ms, {row.answer_bytes} bytes, "
            f"loop {row.loop_ms:.2f} ms; 32 clients: {row.flood_answers_per_s:.0f} answers/s, "
            f"{row.flood_loop_share:.1%} of the loop{'' if row.held else '  MISSED'}"
        )
    return 0 if all(row.held for row in rows) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--open", type=int, nargs="+", default=[0, 10_000], help="Open jobs.")
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    return parser.parse_args()


async def _measure(open_jobs: int) -> Row:
    site, seen = Site(open_jobs), Observations()
    meters, setting = Meters(seen), Setting(clock=Clock(), policy=FifoEasy())
    async with SolverWorker(warm_up=step_back) as worker:
        worker.start()
        feed = ReplicaFeed(worker, lambda: site.core.state, whole)
        pictures = PictureFeed(feed, seen, lambda: setting)
        endpoint = Endpoint("127.0.0.1:0", lambda: pictures.metrics(meters.figures()))
        url = f"http://{endpoint.address}/metrics"
        size = len(await asyncio.to_thread(_scrape, url))
        answer_s, loop_s = [], []
        for _ in range(SCRAPES):
            for index in range(NODES):
                site.renew(index)
            feed.note(site.changes)
            site.changes = Changes()
            cpu_s, began_s = time.thread_time(), time.monotonic()
            await asyncio.to_thread(_scrape, url)
            answer_s.append(time.monotonic() - began_s)
            loop_s.append(time.thread_time() - cpu_s)
        cpu_s, began_s = time.thread_time(), time.monotonic()
        answers = await _flood(url)
        took_s = time.monotonic() - began_s
        share = (time.thread_time() - cpu_s) / took_s
        await endpoint.close()
        await pictures.close()
    return Row(
        open_jobs=open_jobs,
        answer_ms=statistics.median(answer_s) * 1e3,
        answer_bytes=size,
        loop_ms=statistics.median(loop_s) * 1e3,
        flood_answers_per_s=answers / took_s,
        flood_loop_share=share,
    )


def _scrape(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:
        found: bytes = answer.read()
        return found


async def _flood(url: str) -> int:
    """Scrape from 32 threads of another process. Returns the number of answers."""
    command = (sys.executable, "-c", _FLOOD, url, str(FLOOD_S))
    clients = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    printed, _ = await clients.communicate()
    return int(printed)


if __name__ == "__main__":
    sys.exit(main())
