"""Programs that switch nodes: behaving fakes that succeed, fail, hang, and lie about the power."""

from __future__ import annotations

import asyncio
import os
import pwd
from pathlib import Path

import pytest

from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.config.settings import load
from wattfold.coordinator.adapters.config.values import ConfigError
from wattfold.coordinator.adapters.node_power.programs import PowerPrograms
from wattfold.coordinator.adapters.node_power.settings import PowerSettings
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports

S = 1_000_000_000


def program(folder: Path, name: str, body: str) -> tuple[str, ...]:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return (str(path),)


def error_of(settings: PowerSettings, *, on: bool, within_s: float = 30.0) -> str:
    """Carry out an order and return the error of its answer."""

    async def run() -> str:
        answers: asyncio.Queue[ev.Event] = asyncio.Queue()
        programs = PowerPrograms(settings, answers.put_nowait)
        programs.perform(
            act.SwitchPower(
                node_id=NodeId("n1"),
                on=on,
                within_ns=round(within_s * S),
                request_id="1-7",
                cause="",
            )
        )
        answer = await answers.get()
        await programs.close()
        assert isinstance(answer, reports.PowerAnswered)
        assert (answer.node_id, answer.request_id) == ("n1", "1-7")
        return answer.error

    return asyncio.run(run())


def test_a_program_gets_its_time_and_the_name_of_the_node(tmp_path: Path) -> None:
    called = tmp_path / "called"
    resume = program(tmp_path, "resume", f'echo "$@" > {called}; env >> {called}')
    assert error_of(PowerSettings(resume=(*resume, "on")), on=True) == ""
    first, *environment = called.read_text().splitlines()
    assert first == "on 30 n1"
    assert not [line for line in environment if line.startswith("WATTFOLD")]


def test_the_end_of_a_failed_program_is_reported_with_its_last_line(tmp_path: Path) -> None:
    suspend = program(tmp_path, "suspend", "echo first; echo no route to $2 >&2; exit 3")
    error = error_of(PowerSettings(suspend=suspend), on=False)
    assert error == "suspend: exit status 3: no route to n1"


def test_a_program_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    suspend = program(tmp_path, "suspend", f"sleep 1000 & echo $$ $! > {pids}; wait")
    error = error_of(PowerSettings(suspend=suspend), on=False, within_s=1.0)
    assert error == "suspend: not done within 1 s"
    for pid in map(int, pids.read_text().split()):
        state = Path(f"/proc/{pid}/stat")
        assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_suspension_is_done_when_the_status_program_says_off(tmp_path: Path) -> None:
    count = tmp_path / "count"
    status = program(
        tmp_path,
        "status",
        f"echo x >> {count}; [ $(wc -l < {count}) -gt 1 ] && echo off || echo on",
    )
    settings = PowerSettings(suspend=program(tmp_path, "suspend", "exit 0"), status=status)
    assert error_of(settings, on=False) == ""
    assert len(count.read_text().split()) == 2


def test_a_suspension_that_lies_fails_by_the_status_program(tmp_path: Path) -> None:
    settings = PowerSettings(
        suspend=program(tmp_path, "suspend", "exit 0"),
        status=program(tmp_path, "status", "echo on"),
    )
    assert error_of(settings, on=False, within_s=0.5) == "suspend: not done within 0.5 s"


def test_a_status_program_that_prints_anything_else_is_reported(tmp_path: Path) -> None:
    settings = PowerSettings(
        suspend=program(tmp_path, "suspend", "exit 0"),
        status=program(tmp_path, "status", "echo chassis unknown"),
    )
    error = error_of(settings, on=False)
    assert error == "suspend: the status program printed 'chassis unknown', not on or off"


def test_a_missing_program_is_reported() -> None:
    error = error_of(PowerSettings(resume=("/nonexistent/resume",)), on=True)
    assert error == "resume: cannot start /nonexistent/resume: No such file or directory"


def config(folder: Path, text: str) -> PowerSettings:
    path = folder / "coordinator.toml"
    path.write_text(text, encoding="utf-8")
    return load(path, {}).power


def test_the_table_of_power_is_read_with_its_units(tmp_path: Path) -> None:
    own = pwd.getpwuid(os.geteuid()).pw_name
    found = config(
        tmp_path,
        f'[power]\nsuspend = "/bin/x off"\nresume = "/bin/x on"\naccount = "{own}"\n'
        "asleep_w = 5\nboot_w = 150\nboot_s = 90\nboots_max = 2\n",
    )
    assert found.suspend == ("/bin/x", "off")
    assert (found.sleep.asleep_uw, found.sleep.boot_uw) == (5_000_000, 150_000_000)
    assert (found.sleep.boot_ns, found.sleep.boots_max) == (90 * S, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('suspend = "/bin/x"', "power.suspend and power.resume are needed together"),
        ('suspend = "/bin/x"\nresume = "/bin/x"', "needs power.asleep_w and power.boot_w"),
        (
            'suspend = "x"\nresume = "/bin/x"\nasleep_w = 1\nboot_w = 2',
            "must begin with the full path of a program",
        ),
        ("boots_max = 0", "boots_max"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(tmp_path, f"[power]\n{text}\n")


def test_without_programs_nothing_runs_as_another_account(tmp_path: Path) -> None:
    assert config(tmp_path, "") == PowerSettings()
