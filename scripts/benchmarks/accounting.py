"""Measure the cost of the agent's scans of the threads of its jobs. Not a test.

    python scripts/benchmarks/accounting.py [--jobs 10] [--threads 50]

Prints the CPU time of a scan without and with context switches, and of the search for processes in
/proc. Also prints the scan interval that keeps the agent below its share of one core.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable

from wattfold.contract.units import NS_PER_MS, NS_PER_S
from wattfold.nodeagent.adapters.jobs import procfs
from wattfold.nodeagent.adapters.jobs.thread_scan import KeptFiles, ThreadScanner
from wattfold.nodeagent.service.jobs.accounting import THREAD_PACE

ROUNDS = 20
SHARE_MAX = 0.5
"""Percent of a core."""
PROGRAM = """
import sys, threading
stop = threading.Event()
def wait():
    while not stop.wait(0.2): pass
threading.stack_size(65536)
for _ in range(int(sys.argv[1]) - 1): threading.Thread(target=wait, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""


def cost_ns(look: Callable[[], object]) -> int:
    """CPU time of one scan, after a first scan that opens the files."""
    look()
    start_ns = time.thread_time_ns()
    for _ in range(ROUNDS):
        look()
    return (time.thread_time_ns() - start_ns) // ROUNDS


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--threads", type=int, default=50, help="of each job")
    options = parser.parse_args()
    command = [sys.executable, "-c", PROGRAM, str(options.threads)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    jobs = [subprocess.Popen(command, **pipes) for _ in range(options.jobs)]
    for job in jobs:
        assert job.stdout is not None
        job.stdout.readline()
    files = KeptFiles()
    scanners = {job.pid: ThreadScanner(files) for job in jobs}
    short_ns = cost_ns(lambda: [s.scan([p], switches=False) for p, s in scanners.items()])
    full_ns = cost_ns(lambda: [s.scan([p]) for p, s in scanners.items()])
    members_ns = cost_ns(lambda: procfs.descendants(os.getpid()))
    for name, ns in (
        ("threads", short_ns),
        ("threads and switches", full_ns),
        ("processes by /proc", members_ns),
    ):
        print(f"{name:<22} {ns / NS_PER_MS:8.2f} ms")
    looks = [full_ns + members_ns, short_ns, short_ns, short_ns]
    interval_ns = sum(THREAD_PACE.interval_ns(ns) for ns in looks)
    print(f"a look every           {interval_ns / len(looks) / NS_PER_S:8.2f} s")
    share = 100 * sum(looks) / interval_ns
    met = share < SHARE_MAX
    verdict = "met" if met else "NOT met"
    print(f"share of a core        {share:8.2f} %  (target: below {SHARE_MAX:g} %: {verdict})")
    for job in jobs:
        job.kill()
        job.wait()
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
