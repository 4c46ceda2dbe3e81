"""Whatever is in a configuration or in a state folder, a service starts, or says what is wrong."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

from believes.any_node import AnyNode
from believes.watched import MEMORY, no_traceback
from effort import examples
from found.test_found_22_safety_rules import held_job
from hypothesis import given, settings
from hypothesis import strategies as st

from wattfold.coordinator.adapters.channels import TokenError
from wattfold.coordinator.adapters.config import nodes, queues
from wattfold.coordinator.adapters.config import settings as head_config
from wattfold.coordinator.adapters.door.access_settings import AccessError, looked_up
from wattfold.coordinator.adapters.door.serving import StartError, check_settings
from wattfold.nodeagent.adapters import config as agent_config
from wattfold.nodeagent.adapters.config_error import ConfigError
from wattfold.nodeagent.adapters.config_keys import EMULATION, TOP
from wattfold.nodeagent.service.jobs.records import to_record

HUGE = "9" * 400
VALUES = (
    *("true", "0", "1", "-1", "1.5", "3600", HUGE, f"-{HUGE}", f"{HUGE}.0", "9" * 5000, "1e999"),
    *("inf", "-inf", "nan", "1e300", "0x7fffffffffffffffffff", "1979-05-27", "07:32:00"),
    *('""', '"x"', '"\\u0000"', '"/tmp\\u0000x"', '"\\n"', '"auto"', '"off"', '"0-3"', '"0-99999"'),
    *('"n0=unix:/x"', '"unix:/x"', '"127.0.0.1:1"', '"\U0001f4a5"', f'"{"x" * 5000}"', '"0660"'),
    *("[]", "[1]", '["x"]', "[[]]", "[{ a = 1 }]", "{}", "{ a = 1 }", "[" * 2000 + "]" * 2000),
)
"""As TOML."""
TABLES = ("", "[jobs]", "[[node]]", "[[queue]]", "[placement]", "[emulation]", "[parm]", "[x]")
"""Headers under which keys stand."""


def texts(keys: list[str]) -> st.SearchStrategy[str]:
    """Configurations of some keys with any value, and some lines that are no TOML."""
    key = st.sampled_from([*keys, "x", "a.b", '"\U0001f4a5"'])
    line = st.tuples(key, st.sampled_from(VALUES)).map(" = ".join) | st.sampled_from(TABLES)
    return st.lists(line, max_size=5).map("\n".join)


HEAD_KEYS = [
    *head_config._TOP,
    *head_config._JOBS,
    *nodes._NODE,
    *queues._QUEUE,
    *nodes._PLACEMENT,
    *(setting.key for settings in head_config._POLICIES.values() for setting in settings),
    *head_config._POLICIES,
    *("node", "queue", "jobs", "placement"),
]


@settings(max_examples=examples(250))
@given(texts(HEAD_KEYS))
def test_any_configuration_of_the_coordinator_is_taken_or_refused(text: str) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "c.toml"
        path.write_text(text, encoding="utf-8")
        try:
            config = head_config.load(path, {"state_dir": folder})
            looked_up(config.access)
            check_settings(config, config.listen or f"unix:{folder}/c.sock")
        except (head_config.ConfigError, AccessError, StartError, TokenError):
            return


@settings(max_examples=examples(250))
@given(texts([*TOP, *EMULATION, "emulation"]), st.booleans())
def test_any_configuration_of_an_agent_is_taken_or_refused(text: str, emulate: bool) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "a.toml"
        path.write_text(text, encoding="utf-8")
        try:
            agent_config.load(["--config", str(path), *(["--emulate"] if emulate else [])])
        except ConfigError:
            return


JSON_VALUES = (
    *(None, True, 0, 1, -1, 2**31, 2**64, 10**400, 1.5, 1e300, float("inf"), float("nan")),
    *("", "x", "0-3", "\0", "running", "9" * 400, [], [1], [[]], {}, {"x": 1}, {"0": float("inf")}),
)


@st.composite
def damaged(draw: st.DrawFn, record: Any) -> Any:
    """A record with one value in it changed, or another value in its place."""
    if not draw(st.integers(0, 9)) or not isinstance(record, dict | list) or not record:
        return draw(st.sampled_from(JSON_VALUES))
    made = dict(record) if isinstance(record, dict) else list(record)
    key = draw(st.sampled_from(list(made) if isinstance(made, dict) else range(len(made))))
    made[key] = draw(damaged(made[key]))
    return made


NOBODY = 4_194_303
"""A process number that the kernel gives to no process, by any usual limit."""
JOB = to_record(held_job(pid=NOBODY, pid_ticks=10**15, keeper=NOBODY, keeper_ticks=10**15))
JOB |= {"report": [1, 2, 3, 4], "residual_by_cpu": {"0": 1}, "boot_id": "boot"}
RECORDS = {
    "jobs/1.json": JOB | {"state": "ended"},
    "jobs/2.json": JOB,
    "jobs/2.exit": {"exit_code": 0, "signal": 0, "ended_ns": 5, "cpu_ns": 6, "left": 0},
    "agent.json": {"epoch": 3, "coordinator_id": "c"},
    "originals.json": {
        "boot_id": "boot",
        "left": False,
        "zones": {"package-0": {"intel-rapl:0/constraint_0_power_limit_uw": 95_000_000}},
    },
}


def written(folder: Path, records: dict[str, Any]) -> None:
    (folder / "state" / "jobs").mkdir(parents=True)
    (folder / "state" / "jobs").chmod(0o700)
    for name, record in records.items():
        path = folder / "state" / name
        path.write_text(json.dumps(record), encoding="utf-8")


STATES = st.fixed_dictionaries({name: damaged(record) for name, record in RECORDS.items()})


@settings(max_examples=examples(60))
@given(STATES)
def test_an_agent_starts_with_any_record(records: dict[str, Any]) -> None:
    async def go() -> None:
        with tempfile.TemporaryDirectory(dir=MEMORY) as name, no_traceback():
            folder = Path(name)
            written(folder, records)
            async with AnyNode(folder) as node:
                await node.check()

    asyncio.run(go())


def test_a_record_of_brackets_is_set_aside(tmp_path: Path) -> None:
    written(tmp_path, {})
    (tmp_path / "state" / "jobs" / "1.json").write_text("[" * 100_000, encoding="ascii")
    node = AnyNode(tmp_path)
    assert node.store.read("jobs/1.json") is None
    assert node.store.job_ids() == []
    node.store.close()
