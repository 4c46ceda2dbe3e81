"""Memory and GPUs on a real site: one owner at a time, released, enforced, explained."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from system.site.live_site import LiveSite, wait_until

from wattfold.v1 import coordinator_pb2 as pb

AGENT = 'gpus = ["0", "1"]\nfeatures = ["big"]\nmemory_mib = 512\nmemory_limits = "watch"\n'
QUEUES = '[[queue]]\nname = "default"\n[[queue]]\nname = "short"\npriority = 4\ncores_max = 1\n'
SHOW = "echo $CUDA_VISIBLE_DEVICES; exec sleep 1000"


@pytest.fixture(scope="module", params=["parm-wse", "fifo-easy"])
def shared(request: pytest.FixtureRequest, start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=1, policy=request.param, agent=AGENT, coordinator=QUEUES)


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    shared.cancel_all()


def seen(site: LiveSite, job_id: str) -> str:
    """Output of the job about its GPUs."""
    file = site.work / f"wattfold-{job_id}.out"
    return wait_until("its GPUs", lambda: file.read_text()).strip()


def test_gpus_go_from_one_job_to_the_next(site: LiveSite) -> None:
    first = [site.submit(["sh", "-c", SHOW], gpus=1) for _ in range(2)]
    gpus = {tuple(site.running(job_id).shares[0].gpus) for job_id in first}
    assert gpus == {("0",), ("1",)}
    assert {seen(site, job_id) for job_id in first} == {"0", "1"}
    assert list(site.node(0).free_gpus) == []
    third = site.submit(["sh", "-c", SHOW], gpus=1)
    site.client.cancel(first[0])
    site.ended(first[0])
    assert list(site.running(third).shares[0].gpus) == [seen(site, third)]
    assert seen(site, third) not in site.running(first[1]).shares[0].gpus


def test_a_job_waits_for_memory_and_says_so(site: LiveSite) -> None:
    busy = site.submit(["sleep", "1000"], memory_bytes=400 << 20)
    site.running(busy)
    options = ("--memory", "200M", "--features", "big", "--due", "+1h", "--weight", "2")
    waits = site.wattfold("submit", *options, "--", "sleep", "1000").stdout.strip()
    reason = "needs 200 MiB of memory on a node: 112 MiB free on n0"
    wait_until("a reason", lambda: reason in site.job(waits).reason)
    assert f"It {reason}." in site.wattfold("explain", waits).stdout
    sheet = site.wattfold("show", waits).stdout
    assert "200.0 MiB of memory; features big" in sheet
    assert "memory 112.0 MiB of 512.0 MiB free, limits: watched" in site.wattfold("nodes").stdout
    site.client.cancel(busy)
    assert site.running(waits).shares[0].memory_bytes == 200 << 20


def test_a_job_over_its_memory_has_failed_and_says_why(site: LiveSite) -> None:
    eat = "import time; x = bytearray(b'x' * (200 << 20)); time.sleep(1000)"
    job = site.submit([sys.executable, "-c", eat], memory_bytes=50 << 20)
    ended = site.ended(job)
    assert ended.state == pb.JOB_STATE_FAILED
    assert ended.message == "over its memory limit of 50 MiB"


def test_what_no_node_has_is_refused(site: LiveSite, tmp_path: Path) -> None:
    for option, value, why in (
        ("--memory", "1G", "requests 1 GiB of memory on a node; a node has at most 512 MiB"),
        ("--gpus", "3", "requests 3 GPUs on a node; a node has at most 2"),
        ("--features", "small", "no node has the feature 'small'"),
    ):
        told = site.wattfold("submit", option, value, "--", "true", cwd=tmp_path, check=None)
        assert told.returncode != 0
        assert why in told.stderr


def test_requests_outlive_the_coordinator(site: LiveSite) -> None:
    job = site.submit(["sleep", "1000"], gpus=1, memory_bytes=300 << 20)
    before = site.running(job).shares[0]
    site.coordinator.kill()
    site.coordinator.wait()
    site.restart_coordinator()
    wait_until("the node", lambda: site.node(0).state == pb.NODE_STATE_UP)
    assert site.running(job).shares[0] == before
    assert json.loads(site.wattfold("--json", "nodes").stdout)["nodes"][0]["free_gpus"] == ["1"]


def test_queues_are_listed_and_their_limits_hold(site: LiveSite) -> None:
    job = site.wattfold("submit", "--queue", "short", "--", "sleep", "1000").stdout.strip()
    shown = site.shown(job)["spec"]
    assert (shown["queue"], shown["priority"]) == ("short", 4.0)
    other = site.submit(["sleep", "1000"])
    assert site.shown(other)["spec"]["queue"] == "default"
    listed = json.loads(site.wattfold("--json", "queues").stdout)["queues"]
    assert [queue["name"] for queue in listed] == ["default", "short"]
    assert "short" in site.wattfold("queues").stdout
    told = site.wattfold("submit", "--queue", "short", "--cores", "2", "--", "true", check=None)
    assert "queue short allows at most 1 cores" in told.stderr
    gone = site.wattfold("submit", "--queue", "none", "--", "true", check=None)
    assert "no queue 'none'; there are: default, short" in gone.stderr


def test_features_and_queues_follow_a_reload(site: LiveSite) -> None:
    config = site.folder / "coordinator.toml"
    before = config.read_text()
    waits = site.submit(["sleep", "1000"], held=True)

    def names() -> list[str]:
        return [queue.name for queue in site.client.list_queues().queues]

    def reload(text: str) -> None:
        config.write_text(text)
        site.coordinator.send_signal(signal.SIGHUP)

    text = before.replace('name = "short"', 'name = "long"')
    reload(text.replace('id = "n0"', 'id = "n0"\nfeatures = ["late"]'))
    wait_until("the queue", lambda: names() == ["default", "long"])
    wait_until("the feature", lambda: list(site.node(0).features) == ["big", "late"])
    site.client.release(waits)
    site.running(waits)
    site.running(site.submit(["sleep", "1000"], features=["late"], queue="long"))
    reload(before)
    wait_until("the queue", lambda: names() == ["default", "short"])
    wait_until("no feature", lambda: list(site.node(0).features) == ["big"])
