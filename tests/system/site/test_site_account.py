"""A whole site under an ordinary account: without cgroups, and closed to other accounts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from system.account_install import Installation, installation_for
from system.site.live_site import CPUS, built

OWNER, OTHER = 65534, 65533
COMMANDS = {
    "wattfold": "wattfold.coordinator.cli.main",
    "wattfold-coordinator": "wattfold.coordinator.app.main",
    "wattfold-agent": "wattfold.nodeagent.app",
}


def as_uid(uid: int, *command: str) -> list[str]:
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *command]


@pytest.fixture(scope="module")
def report() -> Iterator[dict[str, Any]]:
    """A running site of an ordinary account, and its report."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root may become another account (with setpriv)")
    if not built() or len(CPUS) < 2:
        pytest.skip("needs the example programs (scripts/build_shims) and two CPUs")
    home = Path(tempfile.mkdtemp(prefix="wattfold-account-"))
    os.chown(home, OWNER, OWNER)
    home.chmod(0o755)
    installed = installation_for(OWNER)
    if installed is None:
        shutil.rmtree(home)
        pytest.skip("needs an interpreter another account may execute")
    python = own_commands(home, installed)
    script = installed.path(Path(__file__).with_name("as_account.py"))
    site = subprocess.Popen(
        as_uid(OWNER, str(python), str(script), str(home)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=home,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": installed.libraries},
    )
    try:
        assert site.stdout is not None
        line = site.stdout.readline()
        if line:
            yield json.loads(line)
        _, errors = site.communicate(timeout=240)
        assert line, errors
        assert site.returncode == 0, errors
    finally:
        site.kill()
        site.wait()
        shutil.rmtree(home, ignore_errors=True)


def own_commands(home: Path, installed: Installation) -> Path:
    """Commands of this installation for an interpreter that the account may execute."""
    (home / "bin").mkdir()
    python = home / "bin" / "python"
    python.symlink_to(installed.python)
    for command, module in COMMANDS.items():
        script = home / "bin" / command
        script.write_text(f"#!{python}\nfrom {module} import main\nmain()\n")
        script.chmod(0o755)
    return python


def test_jobs_run_and_are_resized(report: dict[str, Any]) -> None:
    assert (report["uid"], report["exit_code"]) == (str(OWNER), 0)
    assert report["team"] == "JOB_STATE_CANCELLED"
    assert (report["masks"], report["throttle"]) == ("affinity", "signals")


def test_another_account_cannot_connect(report: dict[str, Any]) -> None:
    for path in report["sockets"]:
        assert connect_as(OWNER, path) == "connected"
        assert connect_as(OTHER, path) == "PermissionError"


def connect_as(uid: int, path: str) -> str:
    """Return the result of opening a socket with a minimal client under this account."""
    script = (
        "import socket, sys\n"
        "try:\n"
        "    socket.socket(socket.AF_UNIX).connect(sys.argv[1])\n"
        "    print('connected')\n"
        "except OSError as error:\n"
        "    print(type(error).__name__)\n"
    )
    done = subprocess.run(
        as_uid(uid, "/usr/bin/env", "python3", "-c", script, path),
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    return done.stdout.strip()
