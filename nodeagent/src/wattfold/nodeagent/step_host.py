"""Step host: runs the steps of a job, and the shells of its user.

On a node where the program of a job does not start, the keeper starts the host instead of the
command of the job, so that account, cores and accounting are those of the job. On other nodes the
agent starts it beside the job when its user opens a shell (`service/jobs/shells.py`). Steps then
get environment and folder of FIRST, the first process of the job.

The agent passes it connections over a listening socket, to which only the agent can connect. The
peer of each connection has to prove that it has the key of the job (`step_process`). SIGTERM ends
all steps, and then the host itself with exit status 0. It uses only the standard library and
``contract``.

    python -c '...' FOLDER NODE JOB LISTENER [FIRST]
"""

from __future__ import annotations

import array
import contextlib
import os
import selectors
import signal
import socket
import sys
import time
from dataclasses import dataclass

from wattfold.contract.step_protocol import StepError
from wattfold.nodeagent.session_processes import below
from wattfold.nodeagent.step_process import StepConnection
from wattfold.nodeagent.step_surroundings import Surroundings, surroundings

KEY_NAME = "key"
STEPS_MAX = 256
UNPROVEN_MAX = 64
_KEEPER_NAME = "wattfold-keeper"
_LOOK_S = 0.05
_STOP_S = 60.0


def main() -> None:
    """Serve until SIGTERM."""
    folder, node, job, inherited, *first = sys.argv[1:]
    with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="ascii") as file:
        file.write("wattfold-steps")
    with open(os.path.join(folder, KEY_NAME), "rb") as file:
        key = file.read()
    around = surroundings(key, job, node, int(first[0]) if first else 0)
    listener = socket.socket(fileno=int(inherited))
    listener.set_inheritable(False)
    listener.setblocking(False)
    StepHost(listener, around).run()


@dataclass(slots=True)
class _Handover:
    """A connection of the agent that will pass the connection of a remote shell."""

    conn: socket.socket


class StepHost:
    """All steps of a job on this node."""

    def __init__(self, listener: socket.socket, around: Surroundings) -> None:
        self._listener = listener
        self._around = around
        self._selector = selectors.DefaultSelector()
        self._steps: list[StepConnection] = []
        self._stopping = False
        self._wake = _wakeups()
        self._selector.register(listener, selectors.EVENT_READ, None)
        self._selector.register(self._wake, selectors.EVENT_READ, None)

    def run(self) -> None:
        """Serve until SIGTERM, then end all steps."""
        while not self._stopping:
            self._turn(self._wait_s())
        self._stop()

    def _wait_s(self) -> float | None:
        dues = [step.deadline_s for step in self._steps if step.deadline_s is not None]
        return max(0.0, min(dues) - time.monotonic()) if dues else None

    def _turn(self, wait_s: float | None) -> None:
        for key, events in self._selector.select(wait_s):
            if key.fileobj is self._listener:
                self._accept()
            elif key.fd == self._wake:
                self._signalled()
            elif isinstance(key.data, _Handover):
                self._take_over(key.data)
            elif isinstance(key.data, StepConnection) and not key.data.closed:
                key.data.ready(key.fd, events)
        now_s = time.monotonic()
        for step in self._steps:
            step.time_passed(now_s)
        self._steps = [step for step in self._steps if not step.closed]

    def _accept(self) -> None:
        try:
            conn, _ = self._listener.accept()
        except OSError:
            return
        conn.setblocking(False)
        self._selector.register(conn, selectors.EVENT_READ, _Handover(conn))

    def _take_over(self, handover: _Handover) -> None:
        self._selector.unregister(handover.conn)
        with handover.conn as conn:
            try:
                data, rights, _, _ = conn.recvmsg(1, socket.CMSG_SPACE(4))
            except OSError:
                return
        for level, kind, body in rights:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS and data:
                fds = array.array("i")
                fds.frombytes(body[: len(body) - len(body) % fds.itemsize])
                for fd in fds:
                    self._begin(socket.socket(fileno=fd))

    def _begin(self, conn: socket.socket) -> None:
        unproven = [step for step in self._steps if not step.proven]
        if len(unproven) >= UNPROVEN_MAX:
            unproven[0].end()
        if len(self._steps) - len(unproven) >= STEPS_MAX:
            job, node = self._around.job, self._around.node
            why = f"job {job} already runs {STEPS_MAX} steps on {node}, the maximum"
            with contextlib.suppress(OSError):
                conn.setblocking(False)
                conn.send(StepError(text=why).frame().pack())
            conn.close()
            return
        step = StepConnection(conn, self._selector, self._around)
        self._steps.append(step)
        step.begin()

    def _signalled(self) -> None:
        with contextlib.suppress(BlockingIOError):
            numbers = os.read(self._wake, 4096)
            self._stopping |= signal.SIGTERM in numbers
        for step in self._steps:
            step.child_changed()

    def _stop(self) -> None:
        """End all processes of the job here. Agent or keeper kill those that do not obey."""
        for step in self._steps:
            step.end()
        until_s = time.monotonic() + _STOP_S
        root = _root()
        told: set[int] = set()
        while (left := below(root)) and time.monotonic() < until_s:
            for pid in set(left) - told:
                for number in (signal.SIGTERM, signal.SIGCONT):
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, number)
            told.update(left)
            self._turn(_LOOK_S)


def _root() -> int:
    """Return the root of the job's processes: the keeper, which adopts their orphans.

    If the keeper was killed, the adopter of this process has other children too, so the root is
    this process.
    """
    parent = os.getppid()
    with contextlib.suppress(OSError), open(f"/proc/{parent}/comm", encoding="utf-8") as file:
        if file.read().strip() == _KEEPER_NAME:
            return parent
    return os.getpid()


def _wakeups() -> int:
    """Return a descriptor that receives the numbers of arriving signals."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    # Handled instead of ignored, because the commands would inherit ignored signals.
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: None)
    return reader


if __name__ == "__main__":
    main()
