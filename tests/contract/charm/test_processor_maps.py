"""The agent's answers about a processor map, for programs with every kind of CCS support."""

import asyncio
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from wattfold.nodeagent.adapters.shims.ccs import CcsClient, CcsError
from wattfold.nodeagent.adapters.shims.ccs_endpoint import CcsStatementError, find_endpoint
from wattfold.nodeagent.core.errors import InvalidRequest, WrongState
from wattfold.nodeagent.service.jobs.charm_program import CharmProgram, MapWay, NotUpError
from wattfold.nodeagent.service.jobs.processor_maps import set_processor_map
from wattfold.shims.charm_start import free_port, new_key

KEY = "0123456789" * 3 + "98"
PROGRAM = Path(__file__).with_name("speaking_program.py")
LONG_NS, SHORT_NS = 20_000_000_000, 200_000_000


class Job:
    def __init__(self, process, port):
        self.process = process
        self.port = port

    def members(self):
        return [self.process.pid]

    def set(self, digits, deadline_ns=LONG_NS):
        pe_map = bytes(int(digit) for digit in digits)
        return asyncio.run(set_processor_map("j", self.members, pe_map, deadline_ns))


@contextmanager
def program(kind, *, key="", pes=4):
    said = {"WATTFOLD_CCS_PORT": str(free_port()), "WATTFOLD_CCS_KEY": key}
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), kind, str(pes)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {k: v for k, v in said.items() if v},
    )
    try:
        yield Job(process, int(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("key", ["", KEY, new_key()], ids=["open", "key", "new key"])
def test_a_map_is_applied_when_a_second_request_says_so(key):
    with program("maps", key=key) as job:
        for digits, objects in (("1100", [6, 6, 0, 0]), ("1111", [6] * 4), ("0011", [0, 0, 6, 6])):
            outcome = job.set(digits)
            assert outcome.way is MapWay.MAP
            assert outcome.applied
            assert outcome.applied_in_ns > 0
            assert outcome.map == bytes(int(digit) for digit in digits)
            assert [processor.objects for processor in outcome.processors] == objects


def test_a_map_not_applied_in_time_is_not_called_applied():
    with program("slow") as job:
        outcome = job.set("1100", SHORT_NS)
    assert not outcome.applied
    assert outcome.applied_in_ns == 0
    assert outcome.map == b"\1\1\1\1"


@pytest.mark.parametrize("key", ["", KEY], ids=["open", "key"])
def test_a_program_that_restarts_is_believed_by_its_number_of_pes(key):
    with program("restarts", key=key) as job:
        for digits in ("1100", "1111", "1110", "1110"):
            outcome = job.set(digits)
            assert outcome.way is MapWay.RESTART
            assert outcome.applied
            assert outcome.map == bytes(int(digit) for digit in digits)


def test_an_unknown_handler_that_answers_like_success_is_not_success():
    with program("deaf") as job:
        outcome = job.set("1100", SHORT_NS)
    assert not outcome.applied
    assert outcome.map == b"\1\1\1\1"


@pytest.mark.parametrize(
    ("kind", "digits", "why"),
    [
        ("maps", "110", "the map has 3 PEs, but the program has 4"),
        ("maps", "0000", "enables no PE"),
        ("maps", "1120", "0 or 1"),
        ("maps", "", "got 0"),
        ("restarts", "0011", "must come first"),
    ],
)
def test_a_map_that_cannot_be_is_refused(kind, digits, why):
    with program(kind) as job, pytest.raises(InvalidRequest, match=why):
        job.set(digits)


def test_without_the_key_nothing_is_answered():
    with program("maps", key=KEY) as job:

        async def ask(key):
            async with asyncio.timeout(240):
                return await CcsClient(job.port, key=key).pes()

        for key in (None, bytes(16)):
            with pytest.raises(CcsError, match="no reply"):
                asyncio.run(ask(key))
        assert job.process.stdout.readline() == "not signed\n"
        assert job.process.stdout.readline() == "wrong key\n"
        assert job.set("1100").applied


@contextmanager
def stating(**environment):
    """A process with these variables in its environment."""
    # It runs once it writes; an earlier read may find an empty environment.
    command = ["sh", "-c", "echo up; read end"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=os.environ | environment, **pipes) as process:
        assert process.stdout.readline() == b"up\n"
        yield process.pid
        process.stdin.close()


def test_only_a_port_that_a_process_of_the_job_listens_on_is_used():
    with program("maps") as job, stating(WATTFOLD_CCS_PORT=str(job.port)) as liar:
        with pytest.raises(CcsStatementError, match="no process of the job listens"):
            find_endpoint([liar])
        found = find_endpoint([liar, job.process.pid])
        assert found is not None
        assert found.port == job.port


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "no reply"),
        (b"\0\0", "no reply"),
        (b"\0\0\0\x0cshort", "no reply"),
        (b"\xff\xff\xff\xff" + b"x" * 100, "exceeds the limit of 1048576"),
        (b"\0\0\0\0", "without PE counts"),
        (b"\0\0\0\x08\0\0\0\2\0\0\0\1", "without PE counts"),
        (b"\0\0\0\x08\0\0\0\1\xff\xff\xff\xff", "without PE counts"),
    ],
)
def test_a_server_that_talks_nonsense_harms_nobody(answer, why):
    async def ask():
        async def serve(reader, writer):
            await reader.readexactly(40)
            writer.write(answer)
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            client = CcsClient(server.sockets[0].getsockname()[1])
            async with asyncio.timeout(240):
                await client.pes()

    with pytest.raises(CcsError, match=why):
        asyncio.run(ask())


def test_a_job_that_says_nothing_of_ccs_is_refused():
    with pytest.raises(WrongState, match="charm_start"):
        asyncio.run(set_processor_map("j", lambda: [os.getpid()], b"\1", SHORT_NS))


@pytest.mark.parametrize("port", ["70000", "0", "x", "-1", "٣"])
def test_a_port_that_is_none_is_named(port):
    wrong = pytest.raises(CcsStatementError, match="not a port")
    with stating(WATTFOLD_CCS_PORT=port) as pid, wrong:
        find_endpoint([pid])


def test_a_key_that_is_none_is_not_repeated():
    key = "1" * 34
    wrong = pytest.raises(CcsStatementError, match="32 decimal digits")
    with program("maps", key=key) as job, wrong as caught:
        find_endpoint(job.members())
    assert key not in str(caught.value)


def test_a_program_that_has_just_begun_is_not_asked_what_it_would_complain_of():
    with program("deaf") as job:
        patient = CharmProgram(job.members, LONG_NS)
        assert not patient.ready()
        with pytest.raises(NotUpError, match="does not accept maps yet"):
            asyncio.run(patient.look())
        # The program has received no request yet; its first request comes now.
        assert CharmProgram(job.members).ready()
        assert asyncio.run(CharmProgram(job.members).look()).way is MapWay.RESTART
        assert job.process.stdout.readline() == "ccs_getinfo\n"
        assert job.process.stdout.readline() == "getmap_wattfold\n"


def test_a_program_that_does_not_know_maps_is_asked_once():
    async def look_twice(asked):
        assert (await asked.look()).way is MapWay.RESTART
        assert (await asked.look()).pes == (1, 1, 1, 1)

    with program("deaf") as job:
        asyncio.run(look_twice(CharmProgram(job.members)))
        names = [job.process.stdout.readline().strip() for _ in range(3)]
        assert names == ["ccs_getinfo", "getmap_wattfold", "ccs_getinfo"]


def test_a_program_that_says_so_is_asked_at_once():
    with program("marked") as job:
        patient = CharmProgram(job.members, LONG_NS)
        assert patient.ready()
        assert asyncio.run(patient.look()).objects == (6, 6, 6, 6)
