"""The command under another account, from an installation that this account can read.

One interpreter per installation imports the command once, as root, and forks for every call. If no
installation can be read by the account, it is the current one.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

from system.account_install import installation_for

_SERVE = """
import json, os, resource, socket, sys
import wattfold.coordinator.cli.main as main
import wattfold.coordinator.cli.shared.connection.client
import wattfold.coordinator.cli.site.audit, wattfold.coordinator.cli.jobs.jobs
import wattfold.coordinator.cli.jobs.lists.queue
import wattfold.coordinator.cli.jobs.control, wattfold.coordinator.cli.site.power
import wattfold.coordinator.cli.jobs.submission.submit, wattfold.coordinator.cli.site.node
import wattfold.coordinator.cli.profiles.profile_drop, wattfold.coordinator.cli.site.watch
import wattfold.coordinator.cli.jobs.logs, wattfold.coordinator.cli.jobs.modify
end = socket.socket(fileno=int(sys.argv[1]))
while True:
    message, printed, _, _ = socket.recv_fds(end, 1 << 20, 1)
    if not message:
        break
    asked = json.loads(message)
    child = os.fork()
    if child == 0:
        end.close()
        for number in (1, 2):
            os.dup2(printed[0], number)
        os.environ.clear()
        os.environ.update(asked["env"])
        for name, soft in asked["limits"].items():
            which = getattr(resource, name)
            resource.setrlimit(which, (soft, resource.getrlimit(which)[1]))
        os.setgroups(asked["groups"])
        os.setgid(asked["uid"])
        os.setuid(asked["uid"])
        os.umask(int(asked["umask"], 8))
        main.main(asked["arguments"])
        sys.exit()
    os.close(printed[0])
    end.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
"""


@functools.cache
def _server(python: str, libraries: str) -> socket.socket:
    """The socket of an interpreter that forks for every call; it ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        subprocess.Popen(
            [python, "-c", _SERVE, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, **({"PYTHONPATH": libraries} if libraries else {})},
        )
    return ours


async def ask(
    uid: int,
    address: str,
    *arguments: str,
    groups: Sequence[int] = (),
    umask: str = "0022",
    limits: Mapping[str, int] | None = None,
) -> tuple[int, str]:
    """Return the exit status and the whole output. One call at a time.

    ``limits`` are soft limits, named as in `resource`.
    """
    installed = installation_for(uid)
    python, libraries = (
        (installed.python, installed.libraries) if installed else (sys.executable, "")
    )
    paths = {"PYTHONPATH": libraries} if libraries else {}
    server = _server(python, libraries)
    asked = {
        "uid": uid,
        "groups": list(groups),
        "umask": umask,
        "limits": dict(limits or {}),
        "arguments": ["--coordinator", address, *arguments],
        "env": {**os.environ, **paths, "NO_COLOR": "1", "COLUMNS": "200", "HOME": "/"},
    }
    with tempfile.TemporaryFile() as printed:
        socket.send_fds(server, [json.dumps(asked).encode()], [printed.fileno()])
        answer = await asyncio.to_thread(server.recv, 64)
        assert answer, "the server of the command has ended; its output says why"
        printed.seek(0)
        return int(answer), printed.read().decode()
