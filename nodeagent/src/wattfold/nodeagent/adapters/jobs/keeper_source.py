"""Where keepers come from: the fork server of this agent, started before the first of them."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from wattfold.nodeagent import fork_server, logs

_SOURCES = Path(fork_server.__file__).resolve().parents[2]
_START = (
    "import sys; sys.path.append(sys.argv[1]);"
    " from wattfold.nodeagent.fork_server import main; main()"
)
_ANSWER_S = 30.0
_ANSWER_BYTES_MAX = 4096


class KeeperSource:
    """Makes keepers, one at a time. Used from the event loop only.

    A server that was killed is replaced with the next keeper. One whose answer is late or unknown
    is killed: keepers do not depend on it.
    """

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._turn = asyncio.Lock()

    @property
    def pid(self) -> int:
        """The server; 0 if there is none."""
        return self._server.pid if self._server is not None else 0

    async def keeper(self, fds: Mapping[int, int]) -> int:
        """The PID of a new keeper, which gets these descriptors by its numbers for them.

        Raises OSError.
        """
        async with self._turn:
            try:
                return await self._ask(fds)
            except ConnectionError:
                logs.warning("fork_server_lost", means="the next one makes the keeper")
                return await self._ask(fds)

    def close(self) -> None:
        """Ends the server. Its keepers stay."""
        if self._control is not None:
            self._control.close()
        if self._server is not None:
            self._server.kill()
            self._server.wait()
        self._control = self._server = None

    async def _ask(self, fds: Mapping[int, int]) -> int:
        control = self._control or self._start()
        try:
            # Never blocks: a server that has not answered gets no other request.
            socket.send_fds(control, [json.dumps(list(fds)).encode()], list(fds.values()))
            async with asyncio.timeout(_ANSWER_S):
                found = await asyncio.get_running_loop().sock_recv(control, _ANSWER_BYTES_MAX)
            if not found:
                raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        except TimeoutError:
            self.close()
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from None
        except BaseException:
            # Its answer could come yet, and must not become the answer to another request.
            self.close()
            raise
        answer: dict[str, int] = json.loads(found)
        if "errno" in answer:
            raise OSError(answer["errno"], os.strerror(answer["errno"]))
        return answer["pid"]

    def _start(self) -> socket.socket:
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control.setblocking(False)
        try:
            self._server = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _START, str(_SOURCES)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
                env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            )
        except BaseException:
            control.close()
            raise
        finally:
            theirs.close()
        self._control = control
        return control
