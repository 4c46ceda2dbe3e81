"""Jobs that resist their end, and an independent check for their live processes.

The check uses the marker in the environment, not the reports of the agent.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from system.agent.agent_process import AgentProcess

SOURCE = Path(__file__).with_name("unending.c")
COMPILER = os.environ.get("CC", "gcc")
BOMB_PROCESSES = 250


def built(folder: Path) -> Path:
    """Compile the program in a folder that every account may read."""
    program = folder / "unending"
    command = [COMPILER, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]
    subprocess.run([*command, "-o", str(program), str(SOURCE)], check=True)
    return program


def alive(running: AgentProcess, job: str) -> list[int]:
    """Return processes whose environment names this job of this agent."""
    marker = f"WATTFOLD_SHIM_ENDPOINT=ipc://{running.root}/run/shims/{job}/sock\0".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                # A zombie has no environment.
                text = Path(f"/proc/{name}/environ").read_bytes()
            except OSError:
                continue
            if marker in text + b"\0":
                found.append(int(name))
    return found


def have_compiler() -> bool:
    """Whether a compiler for the program is installed."""
    return shutil.which(COMPILER) is not None


@contextmanager
def killed_at_last(running: AgentProcess, job: str) -> Iterator[None]:
    """Kill processes of a job that are still alive after the test."""
    try:
        yield
    finally:
        while left := alive(running, job):
            for number in (19, 9):
                for pid in left:
                    try:
                        os.kill(pid, number)
                    except ProcessLookupError:
                        continue
