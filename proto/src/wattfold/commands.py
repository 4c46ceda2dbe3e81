"""Entry points of the commands.

A missing package is reported in one line. A reader that closes the output ends a command silently.

A bare `pip install .` installs the contract only. The other packages of a command are an extra, so
this module imports only the standard library.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from types import ModuleType
from typing import NoReturn

EXIT_USAGE = 2
EXIT_OUTPUT_CLOSED = 141
"""128 + SIGPIPE, as a shell shows it."""
GC_OBJECTS = 50_000
"""Threshold of the first generation of the garbage collector; the default of Python is 700."""


def wattfold() -> NoReturn:
    """The command for people."""
    # Commands import more modules while they run.
    gc.set_threshold(GC_OBJECTS)
    _run("wattfold", "wattfold.coordinator.cli.main", "coordinator")


def coordinator() -> NoReturn:
    """The service of the head node."""
    _run("wattfold-coordinator", "wattfold.coordinator.app", "coordinator")


def agent() -> NoReturn:
    """The service of a node."""
    _run("wattfold-agent", "wattfold.nodeagent.app", "agent")


def rsh() -> NoReturn:
    """The remote shell inside of jobs."""
    _run("wattfold-rsh", "wattfold.coordinator.cli.rsh.rsh", "agent")


def _run(command: str, module: str, extra: str) -> NoReturn:
    try:
        try:
            sys.exit(_imported(module).main())
        finally:
            sys.stdout.flush()
            # Otherwise the interpreter collects garbage in all modules before it exits.
            gc.freeze()
    except BrokenPipeError:
        # The interpreter flushes once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(EXIT_OUTPUT_CLOSED)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("wattfold."):
            raise
        package = error.name.partition(".")[0]
        print(
            f"{command}: the Python package {package} is missing:"
            f" pip install 'wattfold[{extra}]' (in a checkout: pip install '.[{extra}]')",
            file=sys.stderr,
        )
        sys.exit(EXIT_USAGE)


def _imported(name: str) -> ModuleType:
    """Import a module without garbage collection, which takes a tenth of the time."""
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.enable()
