"""Test run of a program: undisturbed, or resized at random by a local endpoint.

The endpoint uses the shim's protocol like an agent, on a socket in its own folder. It changes only
team sizes, not affinities or power.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import zmq

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.shim_protocol import (
    FrameError,
    ShimFlags,
    ShimMessage,
    ShimMessageType,
)
from wattfold.shims.working_copy import WorkingCopy, working_copy

STDOUT = "standard output"
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Program to test."""

    argv: tuple[str, ...]
    folder: Path
    """Its working folder: each run starts in an unchanged copy of it."""
    outputs: tuple[str, ...] = ()
    """Its output files that belong to the result, relative to the folder."""
    compare_stdout: bool = True
    """Whether its standard output belongs to the result as well."""
    environment: Mapping[str, str] = field(default_factory=dict)
    threads: int = 2

    def __post_init__(self) -> None:
        if not self.argv:
            raise ValueError("no program to certify")
        if self.threads < 2:
            raise ValueError(f"only teams of 2 or more threads can change, got {self.threads}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """End of a run and its outputs."""

    exit_code: int
    """Negative: ended by that signal. -SIGKILL also after the time limit."""
    seconds: float
    timed_out: bool
    outputs: Mapping[str, bytes]
    errors: str
    """End of its standard error."""


@dataclass(slots=True, kw_only=True)
class Resizing:
    """Observations of the endpoint in one or several runs."""

    runtime: str = ""
    masks: int = 0
    acknowledged: int = 0
    regions: int = 0
    sizes: set[int] = field(default_factory=set)
    """Team sizes in force when they were acknowledged."""


def _static(program: Program) -> dict[str, str]:
    # Passive, as agents launch jobs: spinning on a busy machine would take most of the time.
    return {
        "OMP_NUM_THREADS": str(program.threads),
        "OMP_DYNAMIC": "false",
        "OMP_WAIT_POLICY": "passive",
    }


def run_alone(program: Program, limit_s: float, copy: WorkingCopy | None = None) -> RunResult:
    """Run the program undisturbed in ``copy``, or else in its own copy.

    Raises OSError if the program cannot be started.
    """
    with _started(program, _static(program), copy) as running:
        return _result(program, running, timed_out=not _wait(running.process, limit_s))


def run_resized(
    program: Program,
    shim: Path,
    limit_s: float,
    chance: random.Random,
    seen: Resizing,
    copy: WorkingCopy | None = None,
) -> RunResult:
    """Run the program under random resizes and add the observations to ``seen``.

    Otherwise as `run_alone`.
    """
    with tempfile.TemporaryDirectory(prefix="wf-certify-") as name, zmq.Context() as context:
        endpoint = f"ipc://{name}/s"
        with context.socket(zmq.ROUTER) as router:
            router.setsockopt(zmq.LINGER, 0)
            router.setsockopt(zmq.ROUTER_MANDATORY, 1)
            router.bind(endpoint)
            environment = {
                **_static(program),
                "LD_PRELOAD": f"{shim} {os.environ.get('LD_PRELOAD', '')}".strip(),
                "WATTFOLD_SHIM_ENDPOINT": endpoint,
                "WATTFOLD_RESIZE_MODE": "team",
                "WATTFOLD_LAUNCH_CPUS": str(program.threads),
            }
            with _started(program, environment, copy) as running:
                served = _Endpoint(router, program.threads, chance, seen).serve(
                    running.process, limit_s
                )
                return _result(program, running, timed_out=not served)


LAST_WORDS_MS = 50
"""Time for messages that a program sent at its end, which may arrive after it."""


class _Endpoint:
    """Agent's side of the protocol for one run."""

    def __init__(
        self, router: zmq.Socket[bytes], threads: int, chance: random.Random, seen: Resizing
    ) -> None:
        self._router = router
        self._threads = threads
        self._chance = chance
        self._seen = seen
        self._peers: dict[bytes, int] = {}
        """Peers, and the number of regions that each has run."""
        self._seq = 0
        self._cores = threads

    def serve(self, process: subprocess.Popen[bytes], limit_s: float) -> bool:
        """Resize until the program ends; return False if its time was up first."""
        pidfd = os.pidfd_open(process.pid)
        poller = zmq.Poller()
        poller.register(self._router, zmq.POLLIN)
        poller.register(pidfd, zmq.POLLIN)
        end = time.monotonic() + limit_s
        next_mask = time.monotonic()
        try:
            while (now := time.monotonic()) < end:
                if now >= next_mask:
                    self._resize()
                    # Short and long intervals, so that masks meet regions of any length in any
                    # state.
                    next_mask = now + 0.0005 * 2 ** self._chance.uniform(0, 7)
                ready = dict(poller.poll(int(1000 * max(0.0, min(next_mask, end) - now)) + 1))
                if self._router in ready:
                    self._hear()
                if pidfd in ready:
                    if self._router.poll(LAST_WORDS_MS):
                        self._hear()
                    return True
            return False
        finally:
            os.close(pidfd)
            self._seen.regions += sum(self._peers.values())

    def _resize(self) -> None:
        if not self._peers:
            return
        others = [n for n in range(1, self._threads + 1) if n != self._cores]
        self._cores = self._chance.choice(others)
        self._seq += 1
        for identity in list(self._peers):
            self._send(identity)

    def _send(self, identity: bytes) -> None:
        mask = ShimMessage(
            type=ShimMessageType.MASK,
            flags=ShimFlags.TEAM_FOLLOWS,
            seq=self._seq,
            cores=self._cores,
            text=str(CpuSet.of(range(self._cores))),
        )
        try:
            self._router.send_multipart([identity, mask.pack()], zmq.NOBLOCK)
            self._seen.masks += 1
        except zmq.ZMQError:
            # It has ended, or does not read: a mask without acknowledgement does not count.
            return

    def _hear(self) -> None:
        while self._router.poll(0):
            identity, *frames = self._router.recv_multipart()
            try:
                message = ShimMessage.unpack(frames[0])
            except (FrameError, IndexError):
                continue
            self._peers[identity] = max(self._peers.get(identity, 0), message.regions)
            if message.type is ShimMessageType.HELLO:
                self._seen.runtime = message.text
            elif message.type is ShimMessageType.ACK:
                self._seen.acknowledged += 1
                self._seen.sizes.add(message.cores)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    process: subprocess.Popen[bytes]
    folder: Path
    streams: Path
    """Folder of its standard output and error."""
    started_s: float
    """Start by the monotonic clock."""


@contextmanager
def _started(
    program: Program, environment: Mapping[str, str], copy: WorkingCopy | None
) -> Iterator[_Running]:
    with (
        tempfile.TemporaryDirectory(prefix="wf-certify-") as name,
        nullcontext(copy) if copy is not None else working_copy(program.folder) as place,
    ):
        folder, streams = place.folder, Path(name)
        place.restore()
        process: subprocess.Popen[bytes] | None = None
        try:
            with (
                (streams / "out").open("wb") as out,
                (streams / "err").open("wb") as err,
                _signals_wait(),
            ):
                started_s = time.monotonic()
                process = subprocess.Popen(
                    program.argv,
                    cwd=folder,
                    env={**os.environ, **environment, **program.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
            yield _Running(process=process, folder=folder, streams=streams, started_s=started_s)
        finally:
            if process is not None:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Delay ending signals until after the block.

    So a program that is started in the block is known when a signal is handled, and can be ended
    too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Handlers run only in the main thread.
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in _ENDING}
    # Ignored signals, and signals without a Python handler, stay so.
    handled = {number: handler for number, handler in before.items() if callable(handler)}
    for number in handled:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def _wait(process: subprocess.Popen[bytes], limit_s: float) -> bool:
    try:
        process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _result(program: Program, running: _Running, *, timed_out: bool) -> RunResult:
    seconds = time.monotonic() - running.started_s
    if timed_out:
        os.killpg(running.process.pid, signal.SIGKILL)
    code = running.process.wait()
    files = {name: running.folder / name for name in program.outputs}
    outputs = {name: path.read_bytes() for name, path in files.items() if path.is_file()}
    if program.compare_stdout:
        outputs[STDOUT] = (running.streams / "out").read_bytes()
    return RunResult(
        exit_code=code,
        seconds=seconds,
        timed_out=timed_out,
        outputs=outputs,
        errors=(running.streams / "err").read_bytes()[-2000:].decode(errors="replace"),
    )
