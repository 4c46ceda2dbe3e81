"""The ways an agent can run here: as root with cgroups, without cgroups, as another account."""

import os
from pathlib import Path

import pytest
from system.account_install import installation_for
from system.agent.agent_process import NOBODY, agent

CPUS = sorted(os.sched_getaffinity(0))[:2]
# Static power below the lowest cap, so that a cap has a large effect.
EMULATE = ("--emulate", "--cpus", ",".join(map(str, CPUS)))


def pytest_collection_modifyitems(items):
    for item in items:
        if "system/agent" in str(item.path):
            item.add_marker(pytest.mark.system)


def need_two_cpus():
    if len(CPUS) < 2:
        pytest.skip("needs two CPUs")


def emulation_file(folder: Path) -> str:
    path = folder / "agent.toml"
    path.write_text(
        "[emulation]\npackage_min_w = 15.0\nwindow_ms = 100\nenergy_range_uj = 50000000\n"
    )
    path.chmod(0o644)
    return str(path)


@pytest.fixture(params=["cgroup", "plain", "nobody"])
def any_agent(request, tmp_path_factory):
    """An emulating agent, for every way in which it can confine jobs."""
    need_two_cpus()
    import tempfile

    with tempfile.TemporaryDirectory(prefix="wattfold-conf-") as folder:
        Path(folder).chmod(0o755)
        config = ("--config", emulation_file(Path(folder)), *EMULATE)
        uid = None
        if request.param == "cgroup":
            if os.geteuid() != 0 or not Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").parent.exists():
                pytest.skip("needs root and cgroups")
            config += ("--masks", "cgroup", "--throttle", "cgroup")
        else:
            config += ("--masks", "affinity", "--throttle", "signals")
        if request.param == "nobody":
            if os.geteuid() != 0 or installation_for(NOBODY) is None:
                pytest.skip("needs root and an interpreter another account may execute")
            uid = NOBODY
        with agent(*config, uid=uid) as running:
            yield running


@pytest.fixture
def plain_agent(tmp_path):
    """An emulating agent without cgroups."""
    need_two_cpus()
    flags = ("--masks", "affinity", "--throttle", "signals", *EMULATE)
    with agent("--config", emulation_file(tmp_path), *flags) as running:
        yield running
