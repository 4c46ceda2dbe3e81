"""Settings of the test processes: examples, signals, starts of the product, order of the files."""

from __future__ import annotations

import gc
import multiprocessing.util
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from effort import QUICK, SEARCHING, examples
from hypothesis import HealthCheck, settings
from warm import start

# The duration of an example depends on the load of the machine, not on the code: no deadline.
settings.register_profile(
    "wattfold",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=examples(100),
    derandomize=not SEARCHING,
    database=None,
    print_blob=True,
)
settings.load_profile("wattfold")

# A shell that starts the tests in the background has SIGINT and SIGQUIT ignored, nohup has SIGHUP,
# and every program they start would inherit that: Ctrl-C is tested as on a terminal everywhere.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)

# What commands print is compared as it is without a terminal, whichever terminal starts the tests.
for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(name, None)

start.enable()

WAITING = ("system", "slurm", "trust", "found", "believes")
"""Folders of tests that mostly wait for processes, in the order of their files."""
COMPUTING = ("property", "simulation", "contract", "unit")
"""Folders of tests that mostly compute."""


WHOLE_RUNS = (
    "unit/experiments",
    "unit/pool/test_foretelling",
    "unit/runs",
    "unit/simulation",
    "unit/cli/test_cli_reproduce",
    "unit/cli/test_cli_simulate",
    "unit/cli/test_cli_compare",
    "unit/docs/test_simulation_page",
    "unit/docs/test_readme",
    "unit/results/test_simulation_figures",
    "property/agent/test_kill_every_step",
    "property/core/test_preemption_runs",
    "property/pool/test_slowdown_service_and_pool",
)
"""Folders and files whose tests simulate whole runs; ``scripts/test quick`` leaves them out, and
``tests/simulation``."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Let no search for garbage go through modules and tests, which are there to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mix files that wait with files that compute; files keep the order of their tests."""
    if QUICK:
        long = tuple(f"tests/{name}" for name in WHOLE_RUNS)
        left_out = [item for item in items if item.nodeid.startswith(long)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.nodeid.startswith(long)]
    places = _places([item.nodeid.partition("::")[0] for item in items])
    items.sort(key=lambda item: places[item.nodeid.partition("::")[0]])


def _places(names: list[str]) -> dict[str, float]:
    """Return the places of files from 0 to 1, so that both kinds of tests last to the end.

    Some workers then always have a test that computes while others wait.
    """
    places = {}
    for kind in (WAITING, COMPUTING):
        order = {f"tests/{folder}/": number for number, folder in enumerate(kind)}
        files = [name for name in dict.fromkeys(names) if name.startswith(tuple(order))]
        files.sort(key=lambda name: next(n for start, n in order.items() if name.startswith(start)))
        places |= {name: number / len(files) for number, name in enumerate(files)}
    return dict.fromkeys(names, 1.0) | places


_in_test = False


def _no_process(event: str, _arguments: object = None) -> None:
    """Skip a test of ``scripts/test quick`` that starts a process (an audit hook, PEP 578)."""
    if _in_test and event in ("subprocess.Popen", "os.fork", "os.posix_spawn", "spawn"):
        pytest.skip("starts a process: scripts/test runs it")


if QUICK:
    sys.addaudithook(_no_process)
    multiprocessing.util.spawnv_passfds = lambda *_: _no_process("spawn")  # type: ignore[attr-defined]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Start every process of a test marked ``cold_start`` in the ordinary way."""
    global _in_test
    _in_test = True
    try:
        if item.get_closest_marker("cold_start") is None:
            return (yield)
        with start.cold_starts():
            return (yield)
    finally:
        _in_test = False
