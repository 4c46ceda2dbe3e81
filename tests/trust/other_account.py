"""The command as another account: the interpreter is ours, so it is forked, not started anew."""

from __future__ import annotations

import asyncio
import os
import sys

_RUN = """
import os, sys
import wattfold.coordinator.cli.main as main
import wattfold.coordinator.cli.site.audit, wattfold.coordinator.cli.jobs.jobs
import wattfold.coordinator.cli.jobs.control, wattfold.coordinator.cli.site.power
os.setgroups([])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
main.main(sys.argv[2:])
"""


async def ask(uid: int, address: str, *arguments: str) -> tuple[int, str]:
    """Exit status and everything printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _RUN, str(uid), "--coordinator", address, *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200", "HOME": "/"},
    )
    printed, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, printed.decode()
