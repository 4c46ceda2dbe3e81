"""kill -9 before every step of every operation, followed by a guard, a restart and a leave."""

import contextlib
import errno

import pytest
from effort import SEARCHING
from property.agent.emulated_node import EmulatedNode, Killed, S

from wattfold.nodeagent.emulation.fixtures import load_fixture

MACHINES = ("xeon-e5-2620", "client-mmio", "sapphire-rapids-2s", "near-wrap-2s")
STEPS_MAX = 1000
RAISED = {"package-0": 90_000_000, "package-1": 80_000_000, "dram-0": 33_000_000}
LOWERED = {"package-0": 45_000_000, "package-1": 60_000_000, "dram-0": 33_000_000}


def start(node: EmulatedNode) -> None:
    node.start()


def renew(node: EmulatedNode) -> None:
    node.renew(10 * S)


def raise_caps(node: EmulatedNode) -> None:
    node.set_caps(RAISED)


def lower_caps(node: EmulatedNode) -> None:
    node.set_caps(LOWERED)


def sample(node: EmulatedNode) -> None:
    node.pass_time(6)


def drift(node: EmulatedNode) -> None:
    folder = node.folders["package-0"]
    node.meddle(lambda: node.model.set_limit(folder, "long_term", 95_000_000), folder)
    node.pass_time(6)


def lapse(node: EmulatedNode) -> None:
    node.pass_time(120)


def stop(node: EmulatedNode) -> None:
    node.stop()


def leave(node: EmulatedNode) -> None:
    node.leave()


LIFE = (start, renew, raise_caps, sample, drift, lower_caps, lapse, renew, raise_caps, stop)
LIFE += (start, renew, raise_caps, leave, sample, stop, start, renew, lower_caps)


def live_until(node: EmulatedNode, killed_in: int) -> bool:
    """Run a sequence. Return whether the kill occurred before its end."""
    node.steps.left = killed_in
    try:
        for operation in LIFE:
            operation(node)
    except Killed:
        return True
    finally:
        node.steps.left = None
    return False


@pytest.mark.parametrize("name", MACHINES)
def test_a_kill_before_any_step_leaves_nothing_wrong(name):
    """Every step is killed on one of the machines, or on each with `scripts/test search`."""
    machine = load_fixture(name).machine
    stride = 1 if SEARCHING else len(MACHINES)
    for step in range(MACHINES.index(name) % stride, STEPS_MAX * 10, stride):
        node = EmulatedNode(machine)
        if not live_until(node, step):
            assert step > 100
            return
        node.killed()
        node.check()
        node.pass_time(120)
        node.check()
        node.start()
        node.calm()
        node.check()
        assert node.power is not None, f"step {step}"
        assert node.leave() == {}
        assert not node.saved()
        node.check_restored()
    raise AssertionError("the life did not end")


@pytest.mark.parametrize("name", MACHINES)
def test_a_second_kill_while_it_starts_again_does_no_harm(name):
    machine = load_fixture(name).machine
    whole = EmulatedNode(machine)
    assert not live_until(whole, STEPS_MAX * 10)
    for first in (40, 80, 120, 200, 300, 400):
        for second in range(0, 200, 7):
            node = EmulatedNode(machine)
            live_until(node, first)
            if node.power is None:
                with contextlib.suppress(Killed):
                    node.steps.left = second
                    node.start()
            node.killed()
            node.start()
            node.calm()
            node.check()
            assert node.leave() == {}
            assert not node.saved()
            node.check_restored()


def test_a_switch_that_was_unreadable_at_the_start_is_never_touched():
    node = EmulatedNode(load_fixture("client-mmio").machine)
    node.model.fail_next("intel-rapl-mmio:0", "enabled", errno.ENODATA, 1000)
    node.start()
    node.meddle(lambda: node.model.vanish("intel-rapl-mmio:0"), "intel-rapl-mmio:0")
    node.calm()
    node.check()
    assert node.model.read("intel-rapl-mmio:0", "enabled") == "0"
    assert node.model.enforced_uw("intel-rapl:0") == node.granted["package-0"]
    assert node.leave() == {}
    node.check_restored()
