"""The page about Slurm states what plugin and agent do."""

from __future__ import annotations

import re
from pathlib import Path

from wattfold.nodeagent.core.adoption import MESSAGE_BYTES_MAX
from wattfold.nodeagent.core.launch import ResizeMode

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "slurm.md").read_text(encoding="utf-8")
CONTRACT = (ROOT / "proto" / "README.md").read_text(encoding="utf-8")
PLUGIN = (ROOT / "runtime_shims" / "spank" / "spank_wattfold.c").read_text(encoding="utf-8")


def first_column(heading: str) -> list[str]:
    rows = PAGE.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return [re.findall(r"`([^`]+)`", row)[0] for row in rows]


def test_the_arguments_are_those_of_the_plugin() -> None:
    arguments = re.findall(r'strncmp\(text, "(\w+=)"', PLUGIN)
    assert [argument.partition("=")[0] + "=" for argument in first_column("argument")] == arguments


def test_the_modes_are_those_of_the_plugin() -> None:
    (modes,) = re.findall(r"modes\[\] = \{(.*), NULL\}", PLUGIN)
    assert first_column("mode") == re.findall(r'"(\w+)"', modes)
    assert {mode for mode in first_column("mode") if mode != "off"} <= {m.value for m in ResizeMode}


def test_the_time_limit_is_that_of_the_plugin() -> None:
    (limit_ms,) = re.findall(r"LIMIT_MS_DEFAULT (\d+)", PLUGIN)
    assert f"in milliseconds. Default: {limit_ms} " in PAGE
    assert f"at most {int(limit_ms) / 1000} s" in PAGE


def test_the_length_of_a_message_is_that_of_plugin_and_agent() -> None:
    (plugin,) = re.findall(r"MESSAGE_BYTES_MAX (\d+)", PLUGIN)
    assert int(plugin) == MESSAGE_BYTES_MAX
    assert f"at most {MESSAGE_BYTES_MAX:,} bytes" in CONTRACT


def test_the_path_of_the_socket_is_that_of_an_agent_without_options() -> None:
    assert (
        'agent_path[sizeof(((struct sockaddr_un *)0)->sun_path)] = "/run/wattfold-agent/adopt'
        in (PLUGIN)
    )
    assert "`/run/wattfold-agent/adopt.sock`" in PAGE
