"""``wattfold-agent check`` as an administrator runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from system.account_install import installation_for
from system.agent.agent_process import NOBODY

CODE = "from wattfold.nodeagent.app import main; main()"
FILES = {
    "name": "package-0",
    "enabled": "1",
    "energy_uj": "258218293244",
    "max_energy_range_uj": "262143328850",
    "constraint_0_name": "long_term",
    "constraint_0_power_limit_uw": "180000000",
    "constraint_0_max_power_uw": "180000000",
    "constraint_0_time_window_us": "999424",
}


def tree(root: Path) -> Path:
    """One package, with the permissions of a kernel: energy for root only."""
    folder = root / "powercap" / "intel-rapl:0"
    folder.mkdir(parents=True)
    for name, value in FILES.items():
        (folder / name).write_text(f"{value}\n")
        (folder / name).chmod(0o644)
    (folder / "energy_uj").chmod(0o400)
    return folder.parent


def run(root: Path, *arguments: str, uid: int | None = None) -> subprocess.CompletedProcess[str]:
    python, libraries = sys.executable, ":".join(p for p in sys.path if p)
    drop = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
    if uid is not None:
        installed = installation_for(uid)
        assert installed is not None
        python, libraries = installed.python, installed.libraries
    places = ["--powercap-root", f"{root}/powercap", "--state-dir", f"{root}/state"]
    places += ["--run-dir", f"{root}/run"]
    return subprocess.run(
        [python, "-c", CODE, "check", *places, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=root,
        env={k: v for k, v in os.environ.items() if k != "WATTFOLD_OMP_SHIM"}
        | {"PYTHONPATH": libraries},
        check=False,
        **drop,
    )


def test_a_node_that_is_fit_ends_with_0(tmp_path):
    tree(tmp_path)
    ended = run(tmp_path)
    assert ended.returncode == 0, ended
    assert "package-0: can be capped from 45 to 180 W" in ended.stdout
    assert ended.stderr == ""
    assert not (tmp_path / "state").exists()
    assert not (tmp_path / "run").exists()


def test_json_has_the_same(tmp_path):
    tree(tmp_path)
    report = json.loads(run(tmp_path, "--json").stdout)
    assert (report["able"], report["capping"], report["measuring"]) == (True, "ok", "ok")
    assert report["zones"][0]["cap_uw_max"] == 180_000_000


def test_a_machine_without_zones_ends_with_1(tmp_path):
    ended = run(tmp_path)
    assert ended.returncode == 1
    assert "packages: capping no, measuring no" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--nonsense"], "--nonsense"), (["--floor-w", "-1"], "floor_w"), (["more"], "more")],
)
def test_wrong_usage_ends_with_2(tmp_path, arguments, words):
    ended = run(tmp_path, *arguments)
    assert ended.returncode == 2
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


def test_another_account_can_neither_cap_nor_measure(tmp_path_factory):
    if os.geteuid() != 0 or installation_for(NOBODY) is None:
        pytest.skip("needs root and an interpreter another account may execute")
    import tempfile

    with tempfile.TemporaryDirectory(prefix="wattfold-check-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        for path in (tree(root), root / "powercap" / "intel-rapl:0"):
            path.chmod(0o755)
        ended = run(root, "--json", uid=NOBODY)
        assert ended.returncode == 1, ended
        report = json.loads(ended.stdout)
        assert (report["capping"], report["measuring"], report["starting"]) == ("no", "no", "no")
        remedies = {f["remedy"] for f in report["findings"] if f["subject"] == "package-0"}
        assert any("CAP_DAC_READ_SEARCH" in remedy for remedy in remedies)
        assert any("CAP_DAC_OVERRIDE" in remedy for remedy in remedies)
