"""The metrics file of a real agent, as the node exporter of Prometheus reads it."""

import os
import re
import shutil
import subprocess
import time
import urllib.request

import pytest
from system.agent.agent_process import agent, until
from system.agent.conftest import CPUS, EMULATE, need_two_cpus
from unit.metrics.scrapes import parsed, value

from wattfold.nodeagent.adapters.metrics.catalogue import CATALOGUE

pytest.importorskip("prometheus_client")
FLAGS = ("--masks", "affinity", "--throttle", "signals", *EMULATE)


@pytest.fixture
def path(tmp_path):
    folder = tmp_path / "collector"
    folder.mkdir()
    return folder / "wattfold.prom"


@pytest.fixture
def running(path):
    need_two_cpus()
    flags = (*FLAGS, "--metrics-file", str(path), "--metrics-interval-s", "1")
    before = os.umask(0o077)
    try:
        with agent(*flags) as running:
            yield running
    finally:
        os.umask(before)


def samples(path):
    return parsed(path.read_bytes())


def test_the_file_agrees_with_the_agent(running, path):
    until(path.exists)
    found = samples(path)
    node = running.node
    assert {name for name, _ in found} == {metric.exposed for metric in CATALOGUE}
    assert all(dict(labels)["node"] == node for _, labels in found)
    assert (
        abs(value(found, "wattfold_agent_written_timestamp_seconds", node=node) - time.time()) < 240
    )
    assert value(found, "wattfold_node_at_floor", node=node) == 1
    assert value(found, "wattfold_node_emulated", node=node) == 1
    assert value(found, "wattfold_node_cores", node=node) == len(CPUS)
    zone = {"node": node, "zone": "package-0"}
    floor_w = value(found, "wattfold_zone_floor_watts", **zone)
    assert value(found, "wattfold_zone_cap_watts", **zone) == floor_w
    cap_w = (floor_w + value(found, "wattfold_zone_maximum_watts", **zone)) // 2
    running.lease(3600)
    running.caps(package_0=cap_w)
    running.launch("first", ["sleep", "600"], str(CPUS[0]))
    until(lambda: value(samples(path), "wattfold_node_held_cores", node=node) == 1)
    later = samples(path)
    assert value(later, "wattfold_zone_cap_watts", **zone) == cap_w
    assert value(later, "wattfold_node_running_jobs", node=node) == 1
    assert 0 < value(later, "wattfold_node_lease_remaining_seconds", node=node) <= 3600
    assert value(later, "wattfold_node_at_floor", node=node) == 0
    energy = "wattfold_zone_energy_joules_total"
    until(lambda: value(samples(path), energy, **zone) > value(found, energy, **zone))


def test_other_accounts_may_read_it_and_it_is_gone_after_a_stop(running, path):
    until(path.exists)
    assert path.stat().st_mode & 0o777 == 0o644
    assert running.stop() == 0
    assert not path.exists()
    running.start()
    until(path.exists)
    running.kill()
    written = path.stat().st_mtime_ns
    assert written
    running.start()
    until(lambda: path.stat().st_mtime_ns > written)


def test_no_link_is_followed_and_a_folder_that_is_lost_stops_nothing(running, path, tmp_path):
    """The folder belongs to another account, which may put anything there."""
    until(path.exists)
    treasure = tmp_path / "treasure"
    treasure.write_text("as it was")
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.symlink_to(treasure)
    until(lambda: not temporary.is_symlink())
    assert treasure.read_text() == "as it was"
    aside = path.parent.rename(tmp_path / "aside")
    until(lambda: "event=metrics_not_written" in running.log())
    assert running.processes() == {}
    aside.rename(path.parent)
    path.unlink()
    until(path.exists)


def test_prometheus_accepts_it_and_the_node_exporter_serves_it(running, path):
    promtool, exporter = map(shutil.which, ("promtool", "prometheus-node-exporter"))
    if promtool is None or exporter is None:
        pytest.skip("needs promtool and prometheus-node-exporter")
    until(path.exists)
    check = subprocess.run(
        [promtool, "check", "metrics"],
        input=path.read_bytes(),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (check.returncode, check.stdout, check.stderr) == (0, b"", b"")
    only = ["--collector.disable-defaults", "--collector.textfile"]
    serves = subprocess.Popen(
        [
            exporter,
            *only,
            f"--collector.textfile.directory={path.parent}",
            "--web.listen-address=127.0.0.1:0",
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        address = next(
            found.group(1)
            for line in serves.stderr
            if (found := re.search(r"address=(127\.0\.0\.1:[1-9]\d*)", line))
        )
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=120) as answer:
            found = parsed(answer.read())
    finally:
        serves.kill()
        serves.wait()
        serves.stderr.close()
    assert value(found, "wattfold_node_cores", node=running.node) == len(CPUS)
    assert value(found, "node_textfile_scrape_error") == 0
