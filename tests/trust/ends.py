"""Jobs that do not want to end, and a look from outside at what is alive of them.

The look is taken by the marker in the environment, never by what the agent says.
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
    """The program, in a folder that every account may read."""
    program = folder / "unending"
    command = [COMPILER, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]
    subprocess.run([*command, "-o", str(program), str(SOURCE)], check=True)
    return program


def alive(running: AgentProcess, job: str) -> list[int]:
    """Processes that say in their environment that they are of this job of this agent."""
    marker = f"WATTFOLD_SHIM_ENDPOINT=ipc://{running.root}/run/shims/{job}/sock\0".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                # What has ended and is not waited for yet has none.
                text = Path(f"/proc/{name}/environ").read_bytes()
            except OSError:
                continue
            if marker in text + b"\0":
                found.append(int(name))
    return found


def have_compiler() -> bool:
    """Whether the program can be built here."""
    return shutil.which(COMPILER) is not None


@contextmanager
def killed_at_last(running: AgentProcess, job: str) -> Iterator[None]:
    """Leaves nothing of a job behind that a test has found alive."""
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
