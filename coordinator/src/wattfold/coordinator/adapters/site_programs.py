"""Programs of the site: how the coordinator runs them.

Each runs in a process group of its own, with a fixed environment and as an unprivileged account.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import signal
from collections.abc import Sequence

OUTPUT_MAX = 4096


class SiteProgramError(Exception):
    """A program could not be started or failed, with the reason for people."""


async def run_program(words: Sequence[str], account: str, text: bytes | None = None) -> str:
    """Run a program and return the last part of its output. Raises SiteProgramError.

    ``text`` is its standard input. ``account`` runs it; empty = the account of the coordinator. If
    the call is cancelled, the process group is killed.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *_as_account(words, account),
            stdin=asyncio.subprocess.DEVNULL if text is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd="/",
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            start_new_session=True,
        )
    except OSError as error:
        raise SiteProgramError(f"cannot start {words[0]}: {error.strerror}") from error
    try:
        _, told = await asyncio.gather(_write(process, text), _read(process))
        status = await process.wait()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if status:
        last = told.strip().rpartition("\n")[2][:200]
        raise SiteProgramError(f"exit status {status}" + (f": {last}" if last else ""))
    return told


async def _write(process: asyncio.subprocess.Process, text: bytes | None) -> None:
    if process.stdin is not None:
        # A program need not read its input; its exit status says whether it succeeded.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.write(text or b"")
            await process.stdin.drain()
        process.stdin.close()


async def _read(process: asyncio.subprocess.Process) -> str:
    """Return the last part of the output."""
    told, stream = b"", process.stdout
    assert stream is not None
    while part := await stream.read(OUTPUT_MAX):
        told = (told + part)[-OUTPUT_MAX:]
    return told.decode(errors="replace")


def _as_account(words: Sequence[str], name: str) -> Sequence[str]:
    """Return words that run a program as an account.

    `setpriv` changes the account after exec. With ``user=`` of subprocess, Python forks instead of
    vfork, and then handlers of gRPC run in the child: of 1,500 calls on a busy server, 439 crashed.
    """
    entry = pwd.getpwnam(name) if name else None
    if entry is None or entry.pw_uid == os.geteuid():
        return words
    groups = ",".join(map(str, os.getgrouplist(name, entry.pw_gid)))
    account = (f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", f"--groups={groups}")
    return ("setpriv", *account, "--", *words)
