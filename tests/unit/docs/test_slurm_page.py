"""The page about Slurm states what plugin and agent do."""

from __future__ import annotations

import re
from pathlib import Path

from wattfold.coordinator.adapters.resource_manager import settings
from wattfold.coordinator.adapters.resource_manager.settings import SlurmSettings
from wattfold.nodeagent.core.adoption import MESSAGE_BYTES_MAX
from wattfold.nodeagent.core.launch import ResizeMode

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "slurm.md").read_text(encoding="utf-8")
MANUAL = (ROOT / "docs/man/wattfold-coordinator.8").read_text(encoding="utf-8")
MODULE = (ROOT / "packaging/slurm/job_submit_wattfold.lua").read_text(encoding="utf-8")
CONTRACT = (ROOT / "proto" / "README.md").read_text(encoding="utf-8")
PLUGIN = (ROOT / "runtime_shims" / "spank" / "spank_wattfold.c").read_text(encoding="utf-8")


def first_column(heading: str) -> list[str]:
    rows = PAGE.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return [re.findall(r"`([^`]+)`", row)[0] for row in rows]


def test_the_arguments_are_those_of_the_plugin() -> None:
    arguments = re.findall(r'strncmp\(text, "(\w+=)"', PLUGIN)
    assert [argument.partition("=")[0] + "=" for argument in first_column("argument")] == arguments


def test_the_settings_are_those_of_the_coordinator() -> None:
    assert first_column("setting of `[slurm]`") == [*settings.TABLE]
    shown = SlurmSettings()
    for name in ("poll_s", "timeout_s", "comments_s", "licence_total", "reservation"):
        default = getattr(shown, name)
        text = f"{default:g}" if isinstance(default, float) else str(default)
        assert re.search(rf"\| `{name}` \|.* Default: {text} \|", PAGE), name
        entry = MANUAL.split(f"\n.B {name}\n")[1].split("\n.TP")[0].split("\n.SS")[0]
        assert entry.endswith(f"Default: {text}."), name


def test_the_policies_are_those_that_choose_caps_of_running_jobs() -> None:
    sentence = PAGE.split("must choose the caps of running jobs: ")[1].split(".")[0]
    assert sorted(re.findall(r"`([^`]+)`", sentence)) == sorted(settings.recapping())


def test_the_watts_of_a_core_are_those_of_the_module() -> None:
    defaults = dict(re.findall(r"tonumber\((\w+)\) or (\d+)", MODULE))
    assert set(defaults) == {"wattfold_watts_per_core", "wattfold_watts_per_node"}
    assert f"`wattfold_watts_per_core` (default: {defaults['wattfold_watts_per_core']})" in PAGE
    assert f"exclusive jobs (default: {defaults['wattfold_watts_per_node']})" in PAGE
    line = 'pcall(dofile, "/usr/share/wattfold/slurm/job_submit_wattfold.lua")'
    package = (ROOT / "packaging/packages/wattfold-coordinator.yaml").read_text(encoding="utf-8")
    assert "dst: /usr/share/wattfold/slurm/job_submit_wattfold.lua" in package
    assert line in PAGE
    assert line in MODULE


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
