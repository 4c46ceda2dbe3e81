"""A reader of the log that stalls delays nobody; what it missed is told when it reads again."""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from believes.test_believes_04_counters import Node, told
from system.agent.agent_process import AgentProcess
from system.agent.conftest import EMULATE
from unit.core.stage import W

from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.coordinator.demo import site as demo_site
from wattfold.log_output import Output
from wattfold.v1 import coordinator_pb2 as pb

LINE = "x" * 99 + "\n"


class Pipe:
    """A pipe that takes nothing more; ``text`` is what was read of what came after that."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        self.filled = fill(self.writer)
        self.text = ""

    def read(self, until: str) -> str:
        """Reads until a text has come."""
        while until not in self.text:
            assert select.select([self.reader], [], [], 240)[0], self.text
            chunk = os.read(self.reader, 1 << 16)
            assert chunk, self.text
            filling = min(self.filled, len(chunk))
            self.filled -= filling
            self.text += chunk[filling:].decode()
        return self.text

    def close(self) -> None:
        os.close(self.reader)
        os.close(self.writer)


def fill(fd: int) -> int:
    """Fills a pipe; the number of bytes."""
    os.set_blocking(fd, False)
    count = 0
    try:
        while True:
            count += os.write(fd, b"." * 4096)
    except BlockingIOError:
        os.set_blocking(fd, True)
    return count


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


def test_lines_wait_in_order_and_those_beyond_the_room_are_counted(pipe: Pipe) -> None:
    output = Output(pipe.writer, bytes_max=10 * len(LINE))
    for number in range(25):
        output.write(f"{number:03}{LINE[3:]}")
    pipe.read("009")
    told = pipe.read("event=log_lines_dropped")
    assert "WARNING event=log_lines_dropped lines=15 " in told
    assert output.drain(240)
    output.write("the next\n")
    words = [line.split()[0][:3] for line in pipe.read("the next").splitlines()]
    assert [word for word in words if word.startswith("0")] == [f"{n:03}" for n in range(10)]
    assert pipe.text.count("log_lines_dropped") == 1
    assert pipe.text.index("log_lines_dropped") < pipe.text.index("the next")


def test_a_reader_that_reads_gets_each_line_before_the_call_returns() -> None:
    reader, writer = os.pipe()
    output = Output(writer)
    for number in range(3):
        output.write(f"{number}\n")
        assert os.read(reader, 100) == f"{number}\n".encode()
    assert os.get_blocking(writer), "whoever shares the pipe writes as before"
    assert output._thread is None
    os.close(reader)
    output.write("for nobody\n")
    os.close(writer)


def test_a_socket_as_of_a_journal_does_not_block_either() -> None:
    ours, theirs = socket.socketpair()
    output = Output(theirs.fileno())
    for _ in range(20_000):
        output.write(LINE)
    seen = 0
    while not output.drain(0):
        if select.select([ours], [], [], 0.02)[0]:
            seen += len(ours.recv(1 << 20))
    ours.close()
    theirs.close()
    assert seen > 0


def test_what_a_full_disk_does_not_take_is_told_when_there_is_room(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open(tmp_path / "log", "wb", buffering=0) as file:
        output = Output(file.fileno())
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        try:
            output.write(LINE)
            output.write(LINE)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        output.write(LINE)
    told, line = (tmp_path / "log").read_text().splitlines()
    assert "event=log_lines_dropped lines=2 " in told
    assert line == LINE.strip()


PROGRAM = """
import logging, sys
from wattfold import log_output
log_output.start()
for number in range(3000):
    logging.warning("line %d", number)
print("all said", flush=True)
sys.stdin.read()
raise KeyError("the end")
"""


def test_what_waits_is_written_at_a_crash_with_its_traceback() -> None:
    done = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.stdout is not None
    assert done.stdout.readline() == "all said\n", "nobody has read a line yet"
    _, text = done.communicate(timeout=240)
    assert done.returncode == 1
    assert 'event=message logger=root text="line 2999"' in text
    assert text.endswith("KeyError: 'the end'\n")


def test_an_agent_serves_while_nobody_reads_its_log(tmp_path: Path, pipe: Pipe) -> None:
    agent = AgentProcess(tmp_path, *EMULATE, "--masks", "affinity", "--throttle", "signals")
    agent.errors = pipe.writer
    agent.start()
    agent.lease()
    agent.telemetry(lambda message: message.lease_remaining_ns > 0)
    assert agent.process is not None
    agent.process.send_signal(signal.SIGTERM)
    text = pipe.read("event=stopping")
    assert "event=zone_found" in text
    assert agent.stop() == 0


def test_a_coordinator_serves_while_nobody_reads_its_log(tmp_path: Path, pipe: Pipe) -> None:
    address = f"unix:{tmp_path}/run/c.sock"
    program = Path(sys.executable).with_name("wattfold-coordinator")
    flags = ["--listen", address, "--state-dir", f"{tmp_path}/state", "--budget-w", "100"]
    process = subprocess.Popen(
        [str(program), *flags], stdout=subprocess.PIPE, stderr=pipe.writer, start_new_session=True
    )
    try:
        demo_site._await_ready(process, "coordinator", Path("/dev/null"))
        client = CoordinatorClient(address)
        spec = pb.JobSpec(argv=["true"], kind=pb.JOB_KIND_RIGID)
        job = client.submit(pb.SubmitRequest(spec=spec))
        client.close()
        text = pipe.read(f"event=job_submitted job={job}")
        assert "event=coordinator_started" in text
    finally:
        process.terminate()
        assert process.wait(240) == 0
        assert process.stdout is not None
        process.stdout.close()


def test_a_limit_that_somebody_keeps_changing_is_told_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = Node()

    def meddle(times: int) -> list[str]:
        for _ in range(times):
            node.model.set_limit("intel-rapl:0", "long_term", 100 * W)
            node.pass_time(5)
        return told(caplog, "cap_drifted")

    assert len(meddle(100)) == 1
    assert node.power.drift_count == 100
    _, second = meddle(30)
    assert "times=120" in second
