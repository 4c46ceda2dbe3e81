"""A busy node is a normal node: a shim without a chance to answer has not refused."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest
import zmq
from contract.agent.shim_peer import JOB, NEXT, play, until
from system.agent.test_agent_shims import SHIM

from wattfold.contract.shim_protocol import ShimMessage, ShimMessageType
from wattfold.nodeagent.core.patience import EXTRA_NS_MAX, Patience, Turns, lost_ns

S = 1_000_000_000


def test_the_agents_own_lag_is_not_the_shims(tmp_path):
    """The shim has answered long before the deadline, but the agent reads the answer only
    afterwards.
    """
    deadline_s = 0.2

    async def scene(server, _):
        own = zmq.Context()
        socket = own.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(server.endpoint(JOB))
        try:
            socket.send(ShimMessage(type=ShimMessageType.HELLO).pack())
            await until(lambda: server.attached(JOB) and socket.poll(0))
            first = ShimMessage.unpack(socket.recv())
            socket.send(ShimMessage(type=ShimMessageType.ACK, seq=first.seq).pack())
            await until(lambda: server.acknowledged(JOB, first.seq))
            told = asyncio.create_task(server.tell(JOB, NEXT.seq, lambda _: NEXT, deadline_s))
            began = time.monotonic()
            await asyncio.sleep(0)
            # From here on the agent is blocked, because this is its event loop.
            assert ShimMessage.unpack(socket.recv()).seq == NEXT.seq
            socket.send(ShimMessage(type=ShimMessageType.ACK, seq=NEXT.seq).pack())
            while time.monotonic() < began + 2 * deadline_s + 0.1:
                socket.poll(20)
            assert await told
        finally:
            socket.close()
            own.term()

    play(tmp_path, scene)


def test_a_shim_that_is_stopped_is_waited_for(tmp_path):
    """Emulated caps on a node without control groups stop jobs in this way."""
    env = os.environ | {"SHIM_PATH": ":".join(p for p in sys.path if p)}
    deadline_s = 1.0

    async def scene(server, _):
        env["WATTFOLD_SHIM_ENDPOINT"] = server.endpoint(JOB)
        with subprocess.Popen([sys.executable, "-c", SHIM, "obey"], env=env) as child:
            try:
                await until(lambda: server.view(JOB).regions == 5)
                await until(lambda: server.acknowledged(JOB, 1))
                child.send_signal(signal.SIGSTOP)
                os.waitid(os.P_PID, child.pid, os.WSTOPPED)
                began = time.monotonic()
                told = asyncio.create_task(server.tell(JOB, NEXT.seq, lambda _: NEXT, deadline_s))
                await until(lambda: time.monotonic() > began + deadline_s)
                child.send_signal(signal.SIGCONT)
                assert await told
            finally:
                child.kill()

    play(tmp_path, scene, job_of=lambda _: JOB)


def test_a_shim_that_can_run_and_does_not_answer_is_late(tmp_path):
    env = os.environ | {"SHIM_PATH": ":".join(p for p in sys.path if p)}

    async def scene(server, _):
        env["WATTFOLD_SHIM_ENDPOINT"] = server.endpoint(JOB)
        with subprocess.Popen([sys.executable, "-c", SHIM, "deaf"], env=env) as child:
            try:
                await until(lambda: server.view(JOB).regions == 5)
                assert not await server.tell(JOB, NEXT.seq, lambda _: NEXT, 0.05)
            finally:
                child.kill()

    play(tmp_path, scene, job_of=lambda _: JOB)


@pytest.mark.parametrize(
    ("before", "now", "lost"),
    [
        # It slept.
        (Turns(state="S", waited_ns=5, turns=1), Turns(state="S", waited_ns=5, turns=1), 0),
        # It waited for a core, ran, and sleeps.
        (Turns(state="S", waited_ns=5, turns=1), Turns(state="S", waited_ns=7 * S, turns=4), 3 * S),
        (Turns(state="S", waited_ns=0, turns=1), Turns(state="S", waited_ns=S, turns=2), S),
        # It was ready and had no turn: the kernel counts its wait only after its end.
        (Turns(state="R", waited_ns=5, turns=1), Turns(state="R", waited_ns=5, turns=1), 3 * S),
        # It runs, and has been running the whole time.
        (Turns(state="R", waited_ns=5, turns=1), Turns(state="R", waited_ns=5, turns=9), 0),
        (Turns(state="S", waited_ns=5, turns=1), Turns(state="T", waited_ns=5, turns=1), 3 * S),
    ],
)
def test_time_without_a_chance(before, now, lost):
    assert lost_ns(before, now, elapsed_ns=3 * S) == lost


def test_patience_has_a_limit():
    patience = Patience(began_ns=7, deadline_ns=S // 2)
    assert patience.until_ns(0) == 7 + S // 2
    assert patience.until_ns(S // 10) == 7 + S // 2 + S // 10
    assert patience.until_ns(100 * S) == 7 + S
    assert Patience(began_ns=0, deadline_ns=60 * S).until_ns(100 * S) == 60 * S + EXTRA_NS_MAX
