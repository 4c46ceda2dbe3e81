"""The command under another account, from an installation that this account can read.

If no such interpreter exists, the current interpreter is used; it then loads its modules as root.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence

from system.account_install import installation_for

_RUN = """
import json, os, resource, sys
import wattfold.coordinator.cli.main as main
import wattfold.coordinator.cli.site.audit, wattfold.coordinator.cli.jobs.jobs
import wattfold.coordinator.cli.jobs.control, wattfold.coordinator.cli.site.power
import wattfold.coordinator.cli.jobs.submit, wattfold.coordinator.cli.site.node
import wattfold.coordinator.cli.profiles.profile_drop, wattfold.coordinator.cli.site.watch
groups, limits = json.loads(sys.argv[2]), json.loads(sys.argv[4])
for name, soft in limits.items():
    which = getattr(resource, name)
    resource.setrlimit(which, (soft, resource.getrlimit(which)[1]))
os.setgroups(groups)
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
os.umask(int(sys.argv[3], 8))
main.main(sys.argv[5:])
"""


async def ask(
    uid: int,
    address: str,
    *arguments: str,
    groups: Sequence[int] = (),
    umask: str = "0022",
    limits: Mapping[str, int] | None = None,
) -> tuple[int, str]:
    """Return the exit status and the whole output.

    ``limits`` are soft limits, named as in `resource`.
    """
    shell = (str(uid), json.dumps(list(groups)), umask, json.dumps(dict(limits or {})))
    installed = installation_for(uid)
    python = installed.python if installed else sys.executable
    libraries = {"PYTHONPATH": installed.libraries} if installed else {}
    process = await asyncio.create_subprocess_exec(
        *(python, "-c", _RUN, *shell, "--coordinator", address, *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **libraries, "NO_COLOR": "1", "COLUMNS": "200", "HOME": "/"},
    )
    printed, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, printed.decode()
