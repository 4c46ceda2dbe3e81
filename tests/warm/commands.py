"""What a clone runs for each command of the product, as its script or ``python -m`` would."""

from __future__ import annotations

import faulthandler
import importlib
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

COMMANDS = {
    "wattfold": "wattfold",
    "wattfold-coordinator": "coordinator",
    "wattfold-agent": "agent",
    "wattfold-rsh": "rsh",
}
"""Console scripts and their functions in ``wattfold.commands``."""
AGENT_CODE = "from wattfold.nodeagent.app import main; main()"
CLI = "wattfold.coordinator.cli.main"
DEMO = ["-X", "faulthandler", "-m", "wattfold.coordinator.demo"]
TRIALS = "wattfold.coordinator.demo."
"""Modules that start a site of their own for an evaluation."""
SOURCE_NAME = "warm-start"
WORKER = "wattfold.coordinator.solvers.worker_process"
ZONES = "wattfold.nodeagent.emulation.fuse_tree"
"""Power zones as files; the agent imports it as well."""


def entry(argv: Sequence[str]) -> Callable[[], object] | None:
    """What a clone runs for a command, with ``sys.argv`` set; None if it is not one of ours."""
    words = list(argv)
    program = Path(words[0])
    here = Path(sys.executable)
    if program.parent == here.parent and program.name in COMMANDS:
        return lambda: _run(words, COMMANDS[program.name])
    if program != here:
        return None
    if words[1:3] == ["-c", AGENT_CODE]:
        return lambda: _run_code(["-c", *words[3:]])
    if words[1:5] == DEMO:
        return lambda: _run_demo(words[5:])
    if is_trial(words):
        return lambda: _run_module(words[2:])
    if words[1:3] == ["-m", CLI]:
        return lambda: _run([words[0], *words[3:]], "wattfold")
    if words[1:3] == ["-m", ZONES]:
        return lambda: importlib.import_module(ZONES).main(words[3:])
    if words[1:4] == ["-P", "-m", WORKER]:
        return lambda: _run_module(words[3:])
    return None


def is_source(pid: int) -> bool:
    """Whether a process is the source of a clone's own clones, and no worker of the product."""
    return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() == SOURCE_NAME


def is_trial(argv: Sequence[str]) -> bool:
    """Whether a command is ``python -m`` with a module of `TRIALS`."""
    return argv[1:2] == ["-m"] and argv[2].startswith(TRIALS)


def _run(argv: list[str], function: str) -> object:
    sys.argv = argv
    return getattr(importlib.import_module("wattfold.commands"), function)()


def _run_code(argv: list[str]) -> object:
    sys.argv = argv
    return importlib.import_module("wattfold.nodeagent.app").main()


def _run_demo(words: list[str]) -> object:
    faulthandler.enable()
    return _run_module([DEMO[-1], *words])


def _run_module(words: list[str]) -> object:
    sys.argv = words
    return runpy.run_module(words[0], run_name="__main__", alter_sys=True)
