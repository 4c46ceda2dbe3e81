"""How the commands start: a package that is missing is one line, a reader that went away is none.

A bare `pip install .` has the contract only; what a command needs besides is an extra. So nothing
but the standard library is imported before the command is known to be installed.
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
"""New objects until Python looks for garbage, in place of 700."""


def wattfold() -> NoReturn:
    """The command for people."""
    # Commands import more when they run.
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
            # The interpreter would look for garbage in all modules before it ends.
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
    """A module; no garbage is looked for among what is imported, which takes a tenth of the time."""
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.enable()
