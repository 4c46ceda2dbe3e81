"""Scans of the threads of a real process."""

import os
import subprocess
import sys
import time

import pytest

from wattfold.nodeagent.adapters.jobs.thread_scan import KeptFiles, ThreadScanner

SPIN = """
import os, sys, threading
stop = threading.Event()
def idle(): stop.wait()
for _ in range(3): threading.Thread(target=idle, daemon=True).start()
os.sched_setaffinity(0, {int(sys.argv[1])})
print("ready", flush=True)
while sys.stdin.readline():
    n = 0
    while n < 3_000_000: n += 1
    print("done", flush=True)
"""
CPU = max(os.sched_getaffinity(0))


@pytest.fixture
def spinner():
    process = subprocess.Popen(
        [sys.executable, "-c", SPIN, str(CPU)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.wait()


def work(process):
    process.stdin.write("go\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_work_counts_on_the_core_it_was_done_on(spinner):
    scanner = ThreadScanner(KeptFiles())
    scanner.scan([spinner.pid])
    work(spinner)
    found = scanner.scan([spinner.pid])
    assert found.threads == 4
    assert found.used_ns[CPU] >= 30_000_000
    assert set(+found.used_ns) == {CPU}
    assert found.memory_bytes > 1_000_000
    assert scanner.scan([spinner.pid]).used_ns.total() == 0
    scanner.close()


def test_switches_of_threads_that_wait_are_counted(spinner):
    scanner = ThreadScanner(KeptFiles())
    scanner.scan([spinner.pid])
    work(spinner)
    end_s = time.monotonic() + 30
    # The thread waits for its next order only some time after its report.
    while not scanner.scan([spinner.pid]).voluntary:
        assert time.monotonic() < end_s
    scanner.close()


def test_what_an_adopted_job_did_before_is_not_counted(spinner):
    work(spinner)
    scanner = ThreadScanner(KeptFiles(), adopted=True)
    found = scanner.scan([spinner.pid])
    assert (found.used_ns.total(), found.voluntary, found.threads) == (0, 0, 4)
    work(spinner)
    assert scanner.scan([spinner.pid]).used_ns[CPU] > 0
    scanner.close()


def test_a_process_that_ends_leaves_no_open_file(spinner):
    before = open_files()
    scanner = ThreadScanner(KeptFiles())
    scanner.scan([spinner.pid])
    assert open_files() == before + 8
    spinner.kill()
    spinner.wait()
    assert scanner.scan([spinner.pid]).threads == 0
    assert open_files() == before


def test_open_files_are_bounded(spinner):
    files = KeptFiles(5)
    first, second = ThreadScanner(files), ThreadScanner(files)
    before = open_files()
    for scanner in (first, second, first, second):
        work(spinner)
        found = scanner.scan([spinner.pid])
        assert found.threads == 4
        assert found.used_ns[CPU] > 0
    assert open_files() == before + 5
    first.close()
    assert open_files() == before
    second.scan([spinner.pid])
    assert open_files() == before + 5
    second.close()
    assert open_files() == before
