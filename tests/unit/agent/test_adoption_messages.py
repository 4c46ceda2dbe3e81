"""Messages of Slurm's plugin, and the environment that a step gets."""

from __future__ import annotations

import pytest

from wattfold.nodeagent.core.adoption import (
    MESSAGE_BYTES_MAX,
    StepOpened,
    TaskExited,
    TaskForked,
    accepted,
    parse_message,
    refused,
    slurm_number,
    step_variables,
)
from wattfold.nodeagent.core.errors import InvalidRequest
from wattfold.nodeagent.core.launch import ResizeMode, ShimSetting

SHIM = ShimSetting(library="/lib/shim.so", endpoint="ipc:///run/sock")
OPEN = {"call": "open", "job": "7", "step": "0", "uid": "1000", "tasks": "2", "cpus": "8"}


def packet(**values: str) -> bytes:
    lines = {"wattfold-adopt": "1"} | values
    return "".join(f"{name}={value}\n" for name, value in lines.items()).encode()


def opened(**values: str) -> StepOpened:
    message = parse_message(packet(**OPEN | {"mode": "team"} | values))
    assert isinstance(message, StepOpened)
    return message


def test_an_opened_step():
    message = opened(**{"env.OMP_PLACES": "a=b", "app": "lulesh-2"})
    assert (message.job, message.step, message.uid) == ("slurm-7", "0", 1000)
    assert (message.tasks, message.cpus, message.mode) == (2, 8, ResizeMode.TEAM)
    assert (message.env, message.app) == ({"OMP_PLACES": "a=b"}, "lulesh-2")
    assert slurm_number(message.job) == 7


@pytest.mark.parametrize(
    ("number", "name"),
    [("4294967292", "extern"), ("4294967291", "batch"), ("4294967290", "interactive"), ("3", "3")],
)
def test_steps_with_a_name(number, name):
    assert opened(step=number).step == name


def test_tasks():
    task = parse_message(packet(call="task", job="7", step="0", task="1", pid="42"))
    assert task == TaskForked(job="slurm-7", step="0", task=1, pid=42)
    end = parse_message(packet(call="exit", job="7", step="0", task="1", code="3", signal="0"))
    assert end == TaskExited(job="slurm-7", step="0", task=1, code=3, signal=0)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "not a list of lines"),
        (b"GET / HTTP/1.1", "not a list of lines"),
        (b"a=b\n", "not of version 1"),
        (packet(call="close", job="7", step="0"), "call 'close' is unknown"),
        (packet(**OPEN, mode="fast"), "mode 'fast' must be one of fixed, mask, team"),
        (packet(**OPEN | {"job": "-1"}, mode="team"), "job = '-1' is not a whole number"),
        (packet(**OPEN | {"job": "4294967296"}, mode="team"), "up to 4294967295"),
        (packet(**OPEN | {"uid": "x"}, mode="team"), "uid = 'x'"),
        (packet(**OPEN | {"app": "a b"}, mode="team"), "app 'a b' is not a name"),
        (packet(**OPEN | {"tasks": "9" * 99}, mode="team"), "tasks = "),
        (packet(call="task", job="7", step="0", task="0"), "pid = ''"),
        (b"x" * (MESSAGE_BYTES_MAX + 1), "longer than 16384 bytes"),
    ],
)
def test_wrong_messages_are_refused(message, reason):
    with pytest.raises(InvalidRequest, match=reason):
        parse_message(message)


def test_the_environment_of_a_step():
    env = step_variables(opened(), SHIM)
    assert env["OMP_NUM_THREADS"] == env["WATTFOLD_LAUNCH_CPUS"] == "4", "8 CPUs for 2 tasks"
    assert env["LD_PRELOAD"] == "/lib/shim.so"
    assert env["WATTFOLD_JOB_ID"] == "slurm-7"
    assert env["WATTFOLD_RESIZE_MODE"] == "team"
    assert env["WATTFOLD_SHIM_ENDPOINT"] == "ipc:///run/sock"


def test_settings_of_the_user_take_precedence():
    given = {"env.OMP_NUM_THREADS": "3", "env.LD_PRELOAD": "/own.so:/lib/shim.so"}
    env = step_variables(opened(**given), SHIM)
    assert "OMP_NUM_THREADS" not in env
    assert env["LD_PRELOAD"] == "/lib/shim.so:/own.so", "once, if a script has it already"


def test_a_step_does_not_inherit_the_threads_of_its_script():
    script = step_variables(opened(tasks="1"), SHIM)
    assert script["OMP_NUM_THREADS"] == "8"
    inherited = {f"env.{name}": value for name, value in script.items()}
    assert step_variables(opened(**inherited | {"cpus": "2"}), SHIM)["OMP_NUM_THREADS"] == "1"
    # A script that sets another number means it.
    changed = inherited | {"env.OMP_NUM_THREADS": "3"}
    assert "OMP_NUM_THREADS" not in step_variables(opened(**changed), SHIM)


def test_a_fixed_step_gets_no_shim():
    assert "LD_PRELOAD" not in step_variables(opened(mode="fixed"), SHIM)


def test_answers():
    assert accepted() == b"ok\n"
    assert accepted({"A": "1", "B": "x y"}) == b"ok\nA=1\nB=x y\n"
    assert refused("no cores") == b"no\nno cores\n"
