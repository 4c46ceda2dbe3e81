"""A malleable team shrinks for a newcomer and expands again, according to kernel and shim."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import reduce

import pytest
from system.site.live_site import EXAMPLES, LiveSite, thread_masks, thread_run_ns, wait_until

from wattfold.contract.cpuset import CpuSet
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

BUSY_NS = 3_000_000
SAMPLE_S = 0.003
# A stopped team reports no size: the speed suits two cores and the checks.
NODE = {"nodes": 1, "cpu_share": 0.8}


@pytest.fixture(scope="module", params=["auto", "signals"])
def shared(request: pytest.FixtureRequest, start_site: Callable[..., LiveSite]) -> LiveSite:
    """With the mechanisms of root, and with those of an ordinary account."""
    masks = {"auto": "auto", "signals": "affinity"}[request.param]
    return start_site(agent=f'masks = "{masks}"', throttle=request.param, **NODE)


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    shared.cancel_all()


class MaskWatch:
    """Samples the masks of all threads of some processes; two may never share a core."""

    def __init__(self, *pids: int) -> None:
        self._pids = pids
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.samples = 0
        self.shared: list[tuple[CpuSet, CpuSet]] = []

    def __enter__(self) -> MaskWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        first, second = self._pids
        while not self._stop.wait(SAMPLE_S):
            # Two processes cannot be read at once: the first is read before and after the second.
            before, other, after = _masks(first), _masks(second), _masks(first)
            self.samples += 1
            if before & other & after:
                self.shared.append((before & after, other))


def _masks(pid: int) -> CpuSet:
    return reduce(CpuSet.__or__, thread_masks(pid).values(), CpuSet())


def working_threads(pid: int) -> int:
    """Threads of a process that use CPU time now."""
    before, pause = thread_run_ns(pid), threading.Event()
    pause.wait(0.15)
    after = thread_run_ns(pid)
    return sum(used - before.get(tid, used) > BUSY_NS for tid, used in after.items())


def malleable(site: LiveSite, program: str, *arguments: str) -> str:
    return site.submit(
        [str(EXAMPLES / program), *arguments],
        kind=pb.JOB_KIND_MALLEABLE,
        size_min=1,
        size_max=2,
        mode=common_pb2.RESIZE_MODE_TEAM,
    )


@pytest.mark.parametrize(("program", "arguments"), [("compute", ["10000000"])])
def test_a_team_shrinks_and_expands(site: LiveSite, program: str, arguments: list[str]) -> None:
    job_id = malleable(site, program, *arguments)
    site.running(job_id)
    pid = site.pid(job_id)
    reach(site, job_id, pid, size=2)
    guest = site.submit(["sleep", "1000"])
    site.running(guest)
    guest_pid = site.pid(guest)
    with MaskWatch(pid, guest_pid) as watch:
        reach(site, job_id, pid, size=1)
        assert _masks(guest_pid).isdisjoint(_masks(pid))
        site.client.cancel(guest)
        reach(site, job_id, pid, size=2)
    assert watch.samples > 10
    assert not watch.shared
    shown = site.shown(job_id)
    assert shown["resizes"] == 2
    assert not shown["confined"]
    # The same process all the time.
    assert site.pid(job_id) == pid


def reach(site: LiveSite, job_id: str, pid: int, size: int) -> None:
    """Wait until coordinator, kernel, shim and the threads themselves agree on the size."""
    wait_until(f"{size} cores", lambda: _held(site, job_id) == size)
    wait_until("the kernel's mask", lambda: len(_masks(pid)) == size)
    wait_until("the team", lambda: site.shown(job_id)["team_size"] == size)
    wait_until("the threads that work", lambda: working_threads(pid) == size)


def _held(site: LiveSite, job_id: str) -> int:
    return sum(len(CpuSet.parse(share.cpus)) for share in site.job(job_id).shares)


def test_two_teams_share_a_node_and_end_with_right_results(site: LiveSite) -> None:
    alone = site.ended(site.submit([str(EXAMPLES / "jacobi"), "200", "400"], env={"PATH": "/bin"}))
    first = malleable(site, "jacobi", "200", "400")
    second = malleable(site, "jacobi", "200", "400")
    outputs = set()
    for job_id in (alone.job_id, first, second):
        assert site.ended(job_id).state == pb.JOB_STATE_COMPLETED
        outputs.add((site.work / f"wattfold-{job_id}.out").read_text())
    assert len(outputs) == 1
