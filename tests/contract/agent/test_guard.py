"""The guard process itself, on plain files: when it writes, and when it must not write."""

import asyncio
import fcntl
import json
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from wattfold.nodeagent.adapters.guard_process import SOURCES, START, GuardProcess
from wattfold.nodeagent.adapters.state_store import StateStore
from wattfold.nodeagent.core.errors import WrongState
from wattfold.nodeagent.service.power.guarding import Guarding

pytestmark = pytest.mark.system
END_S = 240.0


class Guarded:
    """A guard and the folder it guards."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.limit = root / "limit"
        self.limit.write_text("95\n")
        (root / "lock").touch()
        (root / "guard.json").write_text('{"instance": "one"}')
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", START, SOURCES, str(root), "one"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"0\n"

    def say(self, **message: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    def die(self) -> None:
        """Close the connection, as the death of the agent does."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def record(self) -> dict[str, object] | None:
        path = self.root / "guard-lapse.json"
        return json.loads(path.read_text()) if path.exists() else None


@pytest.fixture
def guarded(tmp_path):
    found = Guarded(tmp_path)
    yield found
    # Its second exits once it is no longer on record.
    (tmp_path / "guard.json").unlink(missing_ok=True)
    found.process.kill()
    found.process.wait()
    for pipe in (found.process.stdin, found.process.stdout):
        pipe.close()


def wait_until(condition, deadline_s: float = END_S):
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        select.select([], [], [], 0.01)


def test_it_writes_at_the_end_of_the_lease_and_not_before(guarded):
    end_ns = time.monotonic_ns() + 700_000_000
    guarded.say(writes=[[str(guarded.limit), "25"]])
    guarded.say(deadline_ns=end_ns)
    guarded.die()
    found = guarded.limit.read_text()
    while time.monotonic_ns() < end_ns:
        assert found == "95\n"
        select.select([], [], [], 0.01)
        found = guarded.limit.read_text()
    assert guarded.process.wait(END_S) == 0
    assert guarded.limit.read_text() == "25"
    record = guarded.record()
    assert record["late_ns"] < 1_000_000_000
    assert (record["cause"], record["failed"]) == ("the agent was killed", [])


def test_a_lease_that_is_over_ends_at_once_and_what_was_said_last_counts(guarded):
    guarded.say(writes=[[str(guarded.limit), "30"]], deadline_ns=time.monotonic_ns() + 10**12)
    guarded.say(writes=[[str(guarded.limit), "25"]])
    guarded.say(deadline_ns=0)
    assert guarded.process.stdin is not None
    # Killed in the middle of a line.
    guarded.process.stdin.write(b'{"deadline_ns": 9999999999999')
    guarded.die()
    assert guarded.process.wait(END_S) == 0
    assert guarded.limit.read_text() == "25"


def test_a_silent_agent_is_helped_once(guarded):
    guarded.say(writes=[[str(guarded.limit), "25"]], deadline_ns=time.monotonic_ns() + 10**8)
    wait_until(lambda: guarded.record() is not None)
    assert guarded.limit.read_text() == "25"
    assert guarded.record()["cause"] == "the agent did not end its lease"
    # Its agent is still in charge.
    guarded.limit.write_text("30")
    guarded.say(bye=True)
    guarded.die()
    assert guarded.process.wait(END_S) == 0
    assert guarded.limit.read_text() == "30"


def test_the_second_holds_what_is_confirmed(guarded):
    """Agent and guard hang, and nothing is on disk."""
    end_ns = time.monotonic_ns() + 10**8
    guarded.say(writes=[[str(guarded.limit), "25"]], deadline_ns=end_ns)
    assert guarded.process.stdout.readline() == b"%d\n" % end_ns
    guarded.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: guarded.record() is not None)
    assert guarded.limit.read_text() == "25"


def test_after_a_goodbye_nothing_is_written(guarded):
    guarded.say(writes=[[str(guarded.limit), "25"]], deadline_ns=0)
    guarded.say(bye=True)
    guarded.die()
    assert guarded.process.wait(END_S) == 0
    assert guarded.limit.read_text() == "95\n"
    assert guarded.record() is None


def test_an_agent_that_holds_the_lock_is_in_charge(guarded):
    guarded.say(writes=[[str(guarded.limit), "25"]])
    with (guarded.root / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        guarded.die()
        assert guarded.process.wait(END_S) == 0
    assert guarded.limit.read_text() == "95\n"
    assert guarded.record() is None


@pytest.mark.parametrize("content", [None, '{"instance": "two"}', "{"])
def test_an_agent_that_has_come_and_gone_was_in_charge(guarded, content):
    guarded.say(writes=[[str(guarded.limit), "25"]])
    (guarded.root / "guard.json").unlink()
    if content is not None:
        (guarded.root / "guard.json").write_text(content)
    guarded.die()
    assert guarded.process.wait(END_S) == 0
    assert guarded.limit.read_text() == "95\n"


def test_one_failure_does_not_stop_the_others_and_is_tried_again(guarded):
    gone, folder = guarded.root / "gone", guarded.root / "folder"
    folder.mkdir()
    writes = [[str(gone), "1"], [str(folder), "1"], [str(guarded.limit), "25"]]
    guarded.say(writes=writes)
    guarded.die()
    wait_until(lambda: guarded.record() is not None)
    assert guarded.limit.read_text() == "25"
    failed = guarded.record()["failed"]
    assert [text.split(": ")[0] for text in failed] == [str(gone), str(folder)]
    assert not gone.exists()
    folder.rmdir()
    folder.write_text("2")
    wait_until(lambda: folder.read_text() == "1")
    # A new agent can get the lock between two attempts.
    with (guarded.root / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert guarded.process.wait(END_S) == 0


def test_signals_to_its_group_do_not_end_it(guarded):
    guarded.say(writes=[[str(guarded.limit), "25"]])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        os.killpg(guarded.process.pid, number)
    guarded.die()
    assert guarded.process.wait(END_S) == 0
    assert guarded.limit.read_text() == "25"


def test_it_is_small_and_has_a_name(guarded):
    status = Path(f"/proc/{guarded.process.pid}/status").read_text()
    assert "Name:\twattfold-guard\n" in status
    assert int(status.split("VmRSS:")[1].split()[0]) < 32_768


def test_a_state_folder_held_for_a_moment_can_be_had(tmp_path):
    StateStore(tmp_path / "state").close()
    script = (
        "import fcntl,select,sys; f=open(sys.argv[1]); fcntl.flock(f,2);"
        " print('held',flush=True); select.select([],[],[],0.2)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "state/lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        StateStore(tmp_path / "state").close()


def test_what_the_pipe_does_not_take_follows_and_no_lease_is_promised_meanwhile(tmp_path):
    limit = tmp_path / "limit"
    limit.write_text("95")

    async def play() -> int:
        (tmp_path / "lock").touch()
        (tmp_path / "guard.json").write_text('{"instance": "one"}')
        process = await GuardProcess.start(tmp_path, "one")
        os.kill(process.pid, signal.SIGSTOP)
        many = [(Path(f"/nowhere/{n}"), "1") for n in range(5000)]
        process.replace_writes(many, 0)
        process.replace_writes([(limit, "1")], 0)
        process.replace_writes([(limit, "25")], 0)
        assert not process.hold_until(10**18)
        assert process.unread_bytes() > 65536
        os.kill(process.pid, signal.SIGCONT)
        async with asyncio.timeout(END_S):
            while process.unread_bytes():
                await asyncio.sleep(0.01)
        assert process.hold_until(0)
        assert process._process.stdin is not None
        process._process.stdin.close()
        return await process.ended()

    assert asyncio.run(play()) == 0
    assert limit.read_text() == "25"


def test_without_a_guard_no_lease_is_held(tmp_path):
    store = StateStore(tmp_path / "state")

    async def play() -> None:
        guarding = Guarding(store)
        with pytest.raises(WrongState, match="guard"):
            await guarding.hold_until(time.monotonic_ns() + 10**9)
        await guarding.start(tuple)
        await guarding.hold_until(time.monotonic_ns() + 10**9)
        pid = store.read("guard.json")["pid"]
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(WrongState, match="guard"):
            await guarding.hold_until(time.monotonic_ns() + 10**9)
        async with asyncio.timeout(END_S):
            while store.read("guard.json")["pid"] == pid:
                await asyncio.sleep(0.01)
        await guarding.stop()

    asyncio.run(play())
    assert store.read("guard.json") is None
    store.close()


def test_a_guard_that_does_not_read_is_replaced(tmp_path):
    store = StateStore(tmp_path / "state")
    limit = tmp_path / "limit"
    limit.write_text("95")

    async def play() -> int:
        guarding = Guarding(store, check_s=0.1)
        await guarding.start(lambda: [(limit, "25")])
        pid = store.read("guard.json")["pid"]
        os.kill(pid, signal.SIGSTOP)
        guarding.lapsed()
        async with asyncio.timeout(END_S):
            while store.read("guard.json")["pid"] == pid:
                await asyncio.sleep(0.01)
        await guarding.stop()
        return pid

    pid = asyncio.run(play())
    assert not Path(f"/proc/{pid}").exists()
    assert limit.read_text() == "95"
    store.close()


def stop_below_nothing(folder: Path) -> None:
    """Run an agent in its own process that ends without having reached its floor."""
    store = StateStore(folder / "state")
    guarding = Guarding(store)

    async def play() -> None:
        await guarding.start(lambda: [(folder / "limit", "25")])
        # A stop ends the lease at once, whatever its deadline was.
        await guarding.hold_until(time.monotonic_ns() + 10**12)
        guarding.lapsed()
        await guarding.stop(at_floor=False)

    asyncio.run(play())
    assert (folder / "limit").read_text() == "95"
    store.close()


def test_a_stop_that_does_not_reach_the_floor_leaves_it_to_the_guard(tmp_path):
    (tmp_path / "limit").write_text("95")
    agent = multiprocessing.get_context("spawn").Process(
        target=stop_below_nothing, args=(tmp_path,)
    )
    agent.start()
    agent.join()
    assert agent.exitcode == 0
    wait_until(lambda: (tmp_path / "state/guard-lapse.json").exists())
    assert (tmp_path / "limit").read_text() == "25"
    assert json.loads((tmp_path / "state/guard-lapse.json").read_text())["failed"] == []
