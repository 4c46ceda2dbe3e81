"""Notifications of the agent to a service manager, over a real socket."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from wattfold.nodeagent.adapters.service_manager import ServiceManager

PID = 4711


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[tuple[socket.socket, dict[str, str]]]:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        listener.settimeout(240)
        yield listener, {"NOTIFY_SOCKET": str(path)}


def test_says_when_it_serves_and_when_it_stops(listening):
    listener, environment = listening
    manager = ServiceManager(environment, PID)
    manager.ready()
    manager.stopping()
    assert [listener.recv(64), listener.recv(64)] == [b"READY=1", b"STOPPING=1"]


def test_an_abstract_address_is_understood():
    name = f"wattfold-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + name)
        listener.settimeout(240)
        ServiceManager({"NOTIFY_SOCKET": "@" + name}, PID).ready()
        assert listener.recv(64) == b"READY=1"


def test_without_a_service_manager_nothing_is_told_and_nothing_waits():
    manager = ServiceManager({"WATCHDOG_USEC": "1000"}, PID)
    manager.ready()
    asyncio.run(asyncio.wait_for(manager.reassure_for_ever(), 30))


def test_one_that_does_not_listen_does_not_stop_the_agent(tmp_path):
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}, PID).ready()


@pytest.mark.parametrize(
    ("environment", "watchdog_ns"),
    [
        ({}, 0),
        ({"WATCHDOG_USEC": "30000000"}, 30_000_000_000),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(PID)}, 30_000_000_000),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(PID + 1)}, 0),
        ({"WATCHDOG_USEC": "soon"}, 0),
    ],
)
def test_the_watchdog_is_that_of_this_process(environment, watchdog_ns):
    assert ServiceManager(environment, PID).watchdog_ns == watchdog_ns


def test_a_watchdog_is_reassured_again_and_again(listening):
    listener, environment = listening
    manager = ServiceManager(environment | {"WATCHDOG_USEC": "2000"}, PID)

    async def hear_three() -> list[bytes]:
        task = asyncio.create_task(manager.reassure_for_ever())
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        heard = [await loop.sock_recv(listener, 64) for _ in range(3)]
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return heard

    assert asyncio.run(asyncio.wait_for(hear_three(), 30)) == [b"WATCHDOG=1"] * 3
