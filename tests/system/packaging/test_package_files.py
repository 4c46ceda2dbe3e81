"""Files of the Debian and RPM packages: complete, and with the least rights that jobs allow."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGING = ROOT / "packaging"
PACKAGES = ("wattfold", "wattfold-agent", "wattfold-coordinator")
SCRIPTS = sorted((PACKAGING / "packages").glob("*.sh"))
SCORE_MAX = 7.4
STRICT_SCORE_MAX = 5.1


def described(package: str) -> str:
    return (PACKAGING / "packages" / f"{package}.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_names_files_that_exist(package: str) -> None:
    named = re.findall(r"(?:src|\w+install|\w+remove): ([\w/.-]+)", described(package))
    sources = [name for name in named if not name.startswith("/")]
    assert len(sources) >= 2
    assert [name for name in sources if not (ROOT / name).is_file()] == []


def test_the_packages_install_every_unit_and_folder() -> None:
    texts = "".join(map(described, PACKAGES))
    for folder in ("systemd", "tmpfiles.d", "sysusers.d"):
        for path in (PACKAGING / folder).iterdir():
            assert str(path.relative_to(ROOT)) in texts
    for page in (ROOT / "docs/man").iterdir():
        assert f"@FILES@/{page.name}.gz" in texts


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_of_a_package_is_valid_and_used(script: Path) -> None:
    subprocess.run(["sh", "-n", str(script)], check=True)
    assert sum(script.name in described(package) for package in PACKAGES) == 1


@pytest.mark.parametrize(
    ("argument", "processes", "status"),
    [("remove", "", 0), ("remove", "4711\n", 1), ("0", "4711\n", 1), ("upgrade", "4711\n", 0)],
)
def test_the_agent_is_not_removed_under_running_jobs(
    tmp_path: Path, argument: str, processes: str, status: int
) -> None:
    owner = tmp_path / "cgroup/wattfold.slice/wattfold-jobs.service"
    for group, members in (("holder", "1\n"), ("job-17", processes)):
        (owner / group).mkdir(parents=True)
        (owner / group / "cgroup.procs").write_text(members, encoding="utf-8")
    text = (PACKAGING / "packages/agent-prerm.sh").read_text(encoding="utf-8")
    script = tmp_path / "prerm"
    here = text.replace("/sys/fs/cgroup", str(tmp_path / "cgroup"))
    # No systemd and no package is touched.
    here = here.replace("/run/systemd/system", str(tmp_path / "none"))
    script.write_text(here, encoding="utf-8")
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "dpkg").symlink_to("/bin/true")
    done = subprocess.run(
        ["sh", str(script), argument],
        env={"PATH": f"{tools}:{os.defpath}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == status, done.stderr
    assert ("jobs run on this node" in done.stderr) == bool(status)


def test_a_removal_deletes_compiled_files_where_dpkg_does_not_know_the_package(
    tmp_path: Path,
) -> None:
    compiled = tmp_path / "lib" / "__pycache__"
    compiled.mkdir(parents=True)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "dpkg").symlink_to("/bin/false")
    (tools / "rpm").write_text(f"#!/bin/sh\necho {tmp_path}/lib/module.py\n", encoding="utf-8")
    (tools / "rpm").chmod(0o755)
    script = PACKAGING / "packages/coordinator-prerm.sh"
    environment = {"PATH": f"{tools}:{os.defpath}"}
    subprocess.run(["sh", str(script), "upgrade"], env=environment, check=True, timeout=60)
    assert not compiled.exists()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize(("strict", "score_max"), [(False, SCORE_MAX), (True, STRICT_SCORE_MAX)])
def test_the_agent_has_few_rights(tmp_path: Path, strict: bool, score_max: float) -> None:
    units = tmp_path / "etc/systemd/system"
    more = units / "wattfold-agent.service.d"
    more.mkdir(parents=True)
    shutil.copy(PACKAGING / "systemd/wattfold-agent.service", units)
    if strict:
        shutil.copy(PACKAGING / "systemd/wattfold-agent-strict.conf", more)
    line = ["systemd-analyze", "security", "--offline=yes", f"--root={tmp_path}", "--no-pager"]
    done = subprocess.run(
        [*line, "wattfold-agent.service"], capture_output=True, text=True, check=False, timeout=60
    )
    found = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
    if found is None:
        pytest.skip(f"systemd-analyze rates no files here: {done.stderr.strip()}")
    assert float(found[1]) <= score_max
