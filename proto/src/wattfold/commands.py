"""Entry points of the commands.

A missing package is reported in one line. If the reader of the output closes it, the command ends
silently.

An installation without an extra is the client. Other commands need the packages of an extra, so
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
CLIENT = frozenset({"click", "google", "grpc", "rich"})
"""Packages of an installation without an extra."""
EXTRAS = {
    "aiohttp": "web",
    "cattrs": "coordinator",
    "distributed": "dask",
    "psutil": "agent",
    "pyarrow": "parquet",
    "zmq": "agent",
}
"""Extra that installs a package; the other packages belong to the extra of the command."""
GC_OBJECTS = 50_000
"""Threshold of the first generation of the garbage collector; the default of Python is 700."""


def wattfold() -> NoReturn:
    """Run `wattfold`, the command for users."""
    # Commands import more modules while they run.
    gc.set_threshold(GC_OBJECTS)
    _run("wattfold", "wattfold.coordinator.cli.main", "simulator")


def coordinator() -> NoReturn:
    """Run the service of the head node."""
    _run("wattfold-coordinator", "wattfold.coordinator.app.main", "coordinator")


def agent() -> NoReturn:
    """Run the service of a node."""
    _run("wattfold-agent", "wattfold.nodeagent.app", "agent")


def rsh() -> NoReturn:
    """Run the remote shell inside jobs."""
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
        extras = "" if package in CLIENT else f"[{EXTRAS.get(package, extra)}]"
        print(
            f"{command}: the Python package {package} is missing:"
            f" pip install 'wattfold{extras}' (in a checkout: pip install '.{extras}')",
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
