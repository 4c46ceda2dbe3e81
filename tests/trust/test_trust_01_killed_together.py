"""Caps fall if any two of agent, guard and the guard's second process are killed or hang.

Real agents run on simulated zones, at moments when no keeper of a job could act. These moments are
after the end of a node's last job and before the caps are lowered, or without any job. No test
depends on timing: processes are stopped in place, or killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from system.agent.agent_process import alive, until, wait_gone
from system.agent.test_agent_jobs import BOTH
from trust.test_trust_01_orderly_stop import JOB, Node, both_at_once, need_fuse, node, stop

from wattfold.nodeagent.ending import children_of
from wattfold.nodeagent.guard import SECOND_NAME
from wattfold.v1 import node_agent_pb2 as pb

__all__ = ["node"]

pytestmark = [pytest.mark.system, need_fuse]
SHORT_S = 1.0
LONG_S = 3600.0


def second_of(guard: int) -> int:
    """The second process of a guard."""
    found = [0]

    def there() -> bool:
        found[0] = seen_second(guard)
        return bool(found[0])

    until(there)
    return found[0]


def seen_second(guard: int) -> int:
    """The second process of a guard; 0 while there is none."""
    for pid in children_of(guard):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() == SECOND_NAME and alive(pid):
                return pid
    return 0


def agent_of(node: Node) -> int:
    assert node.agent.process is not None
    return node.agent.process.pid


def kill_agent(node: Node, guard: int, second: int) -> None:
    node.agent.kill()


def kill_agent_and_guard(node: Node, guard: int, second: int) -> None:
    both_at_once(node, guard)


def kill_guard_before_agent_has_another(node: Node, guard: int, second: int) -> None:
    os.kill(agent_of(node), signal.SIGSTOP)
    os.kill(guard, signal.SIGKILL)
    wait_gone(guard)
    node.agent.kill()


def kill_agent_and_second(node: Node, guard: int, second: int) -> None:
    os.kill(guard, signal.SIGSTOP)
    os.kill(second, signal.SIGKILL)
    node.agent.kill()
    os.kill(guard, signal.SIGCONT)


def hang_agent_and_kill_guard(node: Node, guard: int, second: int) -> None:
    os.kill(agent_of(node), signal.SIGSTOP)
    os.kill(guard, signal.SIGKILL)


def hang_agent_and_guard(node: Node, guard: int, second: int) -> None:
    os.kill(agent_of(node), signal.SIGSTOP)
    os.kill(guard, signal.SIGSTOP)


def hang_agent_and_second(node: Node, guard: int, second: int) -> None:
    os.kill(agent_of(node), signal.SIGSTOP)
    os.kill(second, signal.SIGSTOP)


def hang_guard_and_kill_agent(node: Node, guard: int, second: int) -> None:
    os.kill(guard, signal.SIGSTOP)
    node.agent.kill()


def no_job(node: Node) -> None:
    node.raise_caps(SHORT_S)


def job_ended(node: Node) -> None:
    """Its agent knows it, and nobody has told it to lower the caps."""
    pid = node.agent.launch("short", JOB, BOTH).pid
    node.raise_caps(SHORT_S)
    os.kill(pid, signal.SIGKILL)
    node.agent.ended("short")


def job_ends_unseen(node: Node) -> None:
    """The agent is stopped before it can see it: the last keeper has gone, nobody was told."""
    job = node.agent.launch("short", JOB, BOTH)
    keeper = int(Path(f"/proc/{job.pid}/stat").read_text().rpartition(")")[2].split()[1])
    node.raise_caps(SHORT_S)
    os.kill(agent_of(node), signal.SIGSTOP)
    os.kill(job.pid, signal.SIGKILL)
    # A zombie, because its stopped parent does not reap it.
    assert wait_gone(keeper)


def keeper_killed(node: Node) -> None:
    """The job runs on without the keeper that would stand in."""
    job = node.agent.launch("long", JOB, BOTH)
    keeper = int(Path(f"/proc/{job.pid}/stat").read_text().rpartition(")")[2].split()[1])
    node.raise_caps(SHORT_S)
    os.kill(keeper, signal.SIGKILL)
    until(lambda: "event=keeper_lost" in node.agent.log())


@pytest.fixture
def calm(node: Node) -> Iterator[Node]:
    """Continue all stopped processes after the test."""
    guard = node.guard_pid()
    started = {agent_of(node), guard, seen_second(guard)}
    yield node
    with contextlib.suppress(FileNotFoundError):
        started |= {node.guard_pid()}
    for pid in filter(None, started):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


ENDS = (
    kill_agent,
    kill_agent_and_guard,
    kill_guard_before_agent_has_another,
    kill_agent_and_second,
    hang_agent_and_kill_guard,
    hang_agent_and_guard,
    hang_agent_and_second,
    hang_guard_and_kill_agent,
)


@pytest.mark.parametrize("end_them", ENDS)
def test_caps_without_a_job_fall_whichever_two_are_gone(
    calm: Node, end_them: Callable[[Node, int, int], None]
) -> None:
    guard = calm.guard_pid()
    no_job(calm)
    end_them(calm, guard, second_of(guard))
    until(calm.at_floor)


def refused(call: Callable[[], object]) -> bool:
    """Whether an agent refuses a command."""
    try:
        call()
    except grpc.RpcError as error:
        return error.code() is grpc.StatusCode.FAILED_PRECONDITION  # type: ignore[attr-defined]
    return False


def test_no_lease_begins_before_guard_and_second_hold_its_end(calm: Node) -> None:
    """If the agent hung now, nobody else would know when its caps have to fall."""
    guard = calm.guard_pid()
    second_of(guard)
    os.kill(guard, signal.SIGSTOP)
    assert refused(lambda: calm.agent.lease(LONG_S))
    (outcome,) = calm.agent.caps(package_0=80)
    assert outcome.status == pb.CAP_STATUS_NO_LEASE
    assert calm.at_floor()
    # The guard that hangs is replaced, and its second leaves with it.
    until(lambda: not refused(lambda: calm.raise_caps(SHORT_S)))
    hang_agent_and_guard(calm, calm.guard_pid(), 0)
    until(calm.at_floor)


@pytest.mark.parametrize("also", ["kill guard", "hang agent"])
def test_a_renewal_that_no_guard_confirms_keeps_no_cap_up(calm: Node, also: str) -> None:
    guard = calm.guard_pid()
    second_of(guard)
    calm.raise_caps(SHORT_S)
    os.kill(guard, signal.SIGSTOP)
    renewal = calm.agent.stub.RenewLease.future(calm.agent.renewal(LONG_S), timeout=60)
    os.kill(agent_of(calm), signal.SIGSTOP)
    if also == "kill guard":
        os.kill(guard, signal.SIGKILL)
    until(calm.at_floor)
    renewal.cancel()


def test_a_second_that_hangs_is_replaced_before_a_lease_begins(calm: Node) -> None:
    guard = calm.guard_pid()
    first = second_of(guard)
    os.kill(first, signal.SIGSTOP)
    until(lambda: not refused(lambda: calm.raise_caps(SHORT_S)))
    guard = calm.guard_pid()
    assert seen_second(guard) not in (0, first)
    hang_agent_and_guard(calm, guard, 0)
    until(calm.at_floor)


def test_a_new_guard_is_on_record_when_its_second_holds_the_lease(calm: Node) -> None:
    guard = calm.guard_pid()
    calm.raise_caps(4 * SHORT_S)
    os.kill(guard, signal.SIGKILL)
    until(lambda: calm.guard_pid() != guard)
    hang_agent_and_guard(calm, calm.guard_pid(), 0)
    until(calm.at_floor)


@pytest.mark.parametrize("moment", [job_ended, job_ends_unseen, keeper_killed])
def test_no_moment_at_the_end_of_the_last_job_leaves_caps_behind(
    calm: Node, moment: Callable[[Node], None]
) -> None:
    moment(calm)
    guard = calm.guard_pid()
    both_at_once(calm, guard)
    until(calm.at_floor)
    wait_gone(guard)
    calm.agent.start()
    assert "the agent and its guard were killed" in calm.agent.log()
    assert calm.at_floor()


def test_a_hung_agent_that_goes_on_and_is_killed_later_is_not_taken_for_done(calm: Node) -> None:
    calm.agent.launch("long", JOB, BOTH)
    calm.raise_caps(SHORT_S)
    os.kill(agent_of(calm), signal.SIGSTOP)
    until(calm.at_floor)
    os.kill(agent_of(calm), signal.SIGCONT)
    calm.raise_caps(LONG_S)
    both_at_once(calm, calm.guard_pid())
    until(calm.at_floor)


def test_a_second_that_is_killed_is_replaced(calm: Node) -> None:
    guard = calm.guard_pid()
    first = second_of(guard)
    calm.raise_caps(SHORT_S)
    os.kill(first, signal.SIGKILL)
    until(lambda: seen_second(guard) not in (0, first))
    both_at_once(calm, guard)
    until(calm.at_floor)


def test_a_second_that_does_not_read_is_replaced(calm: Node) -> None:
    guard = calm.guard_pid()
    first = second_of(guard)
    os.kill(first, signal.SIGSTOP)

    def renewed_until_replaced() -> bool:
        for _ in range(200):
            calm.agent.lease(LONG_S)
        return seen_second(guard) not in (0, first)

    until(renewed_until_replaced)


def test_the_second_of_a_guard_that_was_replaced_goes_and_takes_no_cap_away(calm: Node) -> None:
    guard = calm.guard_pid()
    second = second_of(guard)
    calm.raise_caps(LONG_S)
    os.kill(guard, signal.SIGKILL)
    assert wait_gone(second)
    assert calm.limits_w("intel-rapl:0") == (80, 80)
    assert second_of(calm.guard_pid())


def test_a_new_agent_is_rid_of_the_second_of_the_one_before(calm: Node) -> None:
    guard = calm.guard_pid()
    second = second_of(guard)
    calm.raise_caps(LONG_S)
    both_at_once(calm, guard)
    # The lease would hold for an hour: no cap has been lowered yet.
    assert alive(second)
    calm.agent.start()
    assert calm.at_floor()
    calm.raise_caps(LONG_S)
    assert wait_gone(second)
    assert calm.limits_w("intel-rapl:0") == (80, 80)


def test_an_orderly_stop_takes_guard_and_second_along(calm: Node) -> None:
    guard = calm.guard_pid()
    second = second_of(guard)
    calm.raise_caps(LONG_S)
    stop(calm)
    assert wait_gone(second)
    assert not alive(guard)
    assert calm.at_floor()


def test_a_node_that_has_left_stays_as_it_was_found(calm: Node) -> None:
    calm.raise_caps(SHORT_S)
    calm.leave()
    guard = calm.guard_pid()
    second = second_of(guard)
    both_at_once(calm, guard)
    assert wait_gone(second)
    assert calm.as_found()
