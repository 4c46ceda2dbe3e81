"""The systemd units: systemd's own checks, and settings that jobs must not inherit."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
UNITS = ROOT / "packaging" / "systemd"
NAMES = sorted(path.name for path in UNITS.glob("*.service"))
_BINARY = re.compile(r"/opt/wattfold/bin/[a-z-]+")
# Tenths: the exposure that systemd 252 computes for the units. A higher value means more rights.
# The agent drops most capabilities itself, which systemd does not see (ADR 81).
_EXPOSURE_MAX = {"wattfold-agent.service": 86, "wattfold-coordinator.service": 18}
# Settings that users' jobs would inherit, because they are children of the agent.
_INHERITED = {
    "CapabilityBoundingSet",
    "NoNewPrivileges",
    "SystemCallArchitectures",
    "RestrictNamespaces",
    "RestrictAddressFamilies",
    "RestrictRealtime",
    "RestrictSUIDSGID",
    "MemoryDenyWriteExecute",
    "LockPersonality",
    "PrivateTmp",
    "PrivateNetwork",
    "PrivateUsers",
    "ProtectHome",
    "ProtectProc",
}


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units, with commands that exist here."""
    for name in NAMES:
        text = (UNITS / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(_BINARY.sub(sys.executable, text), encoding="utf-8")
    return tmp_path


def analyze(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze (package systemd)")
    command = ["systemd-analyze", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)


def settings(name: str) -> configparser.SectionProxy:
    parser = configparser.RawConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNITS / name, encoding="utf-8")
    return parser["Service"]


@pytest.mark.parametrize("name", NAMES)
def test_systemd_finds_nothing_wrong(name: str, installed: Path) -> None:
    done = analyze("verify", "--man=no", f"./{name}", folder=installed)
    ours = [line for line in done.stderr.splitlines() if "wattfold" in line]
    assert ours == []
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("name", "most"), _EXPOSURE_MAX.items())
def test_no_more_is_exposed_than_before(name: str, most: int, installed: Path) -> None:
    done = analyze(
        "security", "--offline=yes", f"--threshold={most}", f"./{name}", folder=installed
    )
    assert "Overall exposure" in done.stdout, done.stderr
    assert done.returncode == 0, done.stdout.splitlines()[-1]


def test_jobs_inherit_no_restriction_from_the_agent() -> None:
    assert set(settings("wattfold-agent.service")) & _INHERITED == set()


def test_the_agent_denies_only_calls_that_no_job_needs() -> None:
    agent = settings("wattfold-agent.service")
    denied = "~@clock @cpu-emulation @module @obsolete @raw-io @reboot @swap"
    assert (agent["SystemCallFilter"], agent["SystemCallErrorNumber"]) == (denied, "EPERM")


def test_jobs_survive_the_agent() -> None:
    assert settings("wattfold-agent.service")["KillMode"] == "process"


def test_the_example_uses_the_control_groups_of_the_unit() -> None:
    jobs = settings("wattfold-jobs.service")
    text = (ROOT / "docs" / "examples" / "agent.toml").read_text(encoding="utf-8")
    named = json.loads(re.search(r"^cgroup_root = (.*)$", text, re.M)[1])
    assert named == f"/sys/fs/cgroup/{jobs['Slice']}/wattfold-jobs.service"
