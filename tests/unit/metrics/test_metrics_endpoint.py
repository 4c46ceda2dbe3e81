"""The address of the metrics over real sockets: answers, refusals, and clients that do not read."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from unit.adapters.api_site import ApiSite
from unit.metrics.scrapes import parsed, value

from wattfold.coordinator.adapters.copies.picture_feed import NoPictureError
from wattfold.coordinator.adapters.metrics.endpoint import (
    CONNECTIONS_MAX,
    Endpoint,
    SharedAnswer,
)
from wattfold.coordinator.adapters.metrics.meters import Meters
from wattfold.coordinator.adapters.metrics.settings import (
    address_fault,
    host_and_port,
    library_fault,
)

GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
DEADLINE_S = 240.0


@contextlib.asynccontextmanager
async def served(
    ask: Callable[[], Awaitable[bytes]], request_s: float = DEADLINE_S
) -> AsyncIterator[Endpoint]:
    endpoint = Endpoint("127.0.0.1:0", ask, request_s)
    try:
        yield endpoint
    finally:
        await endpoint.close()


async def connect(endpoint: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(*host_and_port(endpoint.address))


async def answer(endpoint: Endpoint, request: bytes = GET) -> tuple[int, dict[str, str], bytes]:
    reader, writer = await connect(endpoint)
    writer.write(request)
    head, _, body = (await asyncio.wait_for(reader.read(-1), DEADLINE_S)).partition(b"\r\n\r\n")
    writer.close()
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), dict(text.split(": ", 1) for text in lines), body  # type: ignore[misc]


async def whole_answer(endpoint: Endpoint) -> bytes:
    """The text of a scrape; empty if its connection was closed early."""
    with contextlib.suppress(ConnectionError, ValueError, IndexError):
        return (await answer(endpoint))[2]
    return b""


async def some_text() -> bytes:
    return b"up 1\n"


def test_a_scrape_shows_the_state_of_its_moment(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ApiSite(tmp_path) as site:
            meters = Meters(site.seen)
            async with served(lambda: site.pictures.metrics(meters.figures())) as endpoint:
                status, head, body = await answer(endpoint)
                assert (status, head["Content-Length"]) == (200, str(len(body)))
                assert head["Content-Type"].startswith("text/plain; version=0.0.4")
                assert value(parsed(body), "wattfold_budget_watts") == 1000.0
                site.core.state.ledger.budget_uw = 500_000_000
                _, _, body = await answer(endpoint)
                assert value(parsed(body), "wattfold_budget_watts") == 500.0

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"GET /metrics/x HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"HEAD /metrics HTTP/1.0\r\n\r\n", 200),
        (b"GET /metrics?name[]=up HTTP/1.1\r\n\r\n", 200),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /metrics FTP/1.0\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", 431),
    ],
)
def test_other_requests(request_bytes: bytes, status: int) -> None:
    async def scenario() -> None:
        async with served(some_text) as endpoint:
            found, head, body = await answer(endpoint, request_bytes)
            assert found == status
            assert (body == b"") == request_bytes.startswith(b"HEAD")
            assert "Content-Length" in head

    asyncio.run(scenario())


def test_a_view_process_without_answer_is_reported() -> None:
    async def scenario() -> None:
        async def fails() -> bytes:
            raise NoPictureError("no answer in time")

        async with served(fails) as endpoint:
            status, _, body = await answer(endpoint)
            assert (status, body) == (503, b"no answer in time\n")
            # The next scrape asks again.
            assert (await answer(endpoint))[0] == 503

    asyncio.run(scenario())


def test_waiting_scrapes_share_an_answer_that_is_not_older() -> None:
    async def scenario() -> None:
        asked, go_on = 0, asyncio.Event()

        async def ask() -> bytes:
            nonlocal asked
            asked += 1
            number = asked
            await go_on.wait()
            return b"%d" % number

        shared = SharedAnswer(ask, pause_s=0.0)
        first = asyncio.create_task(shared.get())
        while not asked:
            await asyncio.sleep(0)
        later = [asyncio.create_task(shared.get()) for _ in range(20)]
        await asyncio.sleep(0)
        later[0].cancel()
        go_on.set()
        assert await first == b"1"
        assert await asyncio.gather(*later[1:]) == [b"2"] * 19
        assert asked == 2

    asyncio.run(scenario())


def test_clients_that_never_read_or_write_delay_no_scrape() -> None:
    """More silent clients than there are places: each loses its place at its deadline."""

    async def large() -> bytes:
        # More than the kernel takes for a client that does not read.
        return b"x 1\n" * 4_000_000

    async def scenario() -> None:
        async with served(large, request_s=1.0) as endpoint:
            idle = []
            for index in range(CONNECTIONS_MAX + 4):
                client = socket.create_connection(host_and_port(endpoint.address))
                if index % 2:
                    client.sendall(GET)
                idle.append(client)
            # On a busy machine the scrape itself may be late.
            until_s = time.monotonic() + DEADLINE_S
            while (found := await whole_answer(endpoint)) != await large():
                assert time.monotonic() < until_s, f"{len(found)} bytes"
            for client in idle:
                client.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("127.0.0.1:9187", ""),
        ("[::1]:9187", ""),
        ("head:0", ""),
        ("9187", "not HOST:PORT"),
        (":9187", "not HOST:PORT"),
        ("head:", "not HOST:PORT"),
        ("head:-1", "not HOST:PORT"),
        ("head:65536", "outside 0..65535"),
    ],
)
def test_addresses(address: str, fault: str) -> None:
    assert fault in address_fault(address)
    assert bool(fault) == bool(address_fault(address))


def test_an_installation_without_the_package_is_told_the_remedy() -> None:
    assert library_fault() == ""
    assert "install wattfold[metrics]" in library_fault("no_such_package")
