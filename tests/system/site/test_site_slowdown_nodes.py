"""Jobs on whole nodes lend cores of all of them: real programs, with masks from the kernel."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator

import psutil
import pytest
from system.site.live_site import CPUS, EXAMPLES, MARK, LiveSite, thread_masks, wait_until

from wattfold.contract.cpuset import CpuSet
from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

ALL = len(CPUS)
MPI_ENV = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_btl_tcp_if_include": "lo",
    "OMPI_MCA_oob_tcp_if_include": "lo",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
}


@pytest.fixture(scope="module")
def shared(start_site: Callable[..., LiveSite]) -> LiveSite:
    queues = '[[queue]]\nname = "sharing"\nshare = "both"\n'
    return start_site(nodes=2, policy="slowdown-driven", cpu_share=0.4, coordinator=queues)


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    shared.cancel_all()


def whole(site: LiveSite, nodes: int, time_s: float, **spec: object) -> str:
    """An OpenMP program on each of some whole nodes, until it is cancelled."""
    values: dict[str, object] = {
        "kind": pb.JOB_KIND_MALLEABLE,
        "unit": pb.SIZE_UNIT_NODES,
        "size_min": nodes,
        "size_max": nodes,
        "time_ns": round(time_s * 1e9),
        "mode": common_pb2.RESIZE_MODE_TEAM,
        "sharing": pb.CORE_SHARING_BOTH,
    }
    argv = spec.pop("argv", [str(EXAMPLES / "compute"), "100000000"])
    return site.submit(argv, **values | spec)  # type: ignore[arg-type]


def programs(site: LiveSite, job_id: str, name: str = "compute") -> dict[str, list[int]]:
    """The processes of a job that do its work, by node."""
    found: dict[str, list[int]] = {}
    for pid in site.processes():
        try:
            process = psutil.Process(pid)
            told = process.environ()
            if process.name() == name and told.get("WATTFOLD_JOB_ID") == job_id:
                # The socket of its agent is in the folder of its node.
                node = told["WATTFOLD_SHIM_ENDPOINT"].partition(f"{site.folder}/")[2]
                found.setdefault(node.partition("/")[0], []).append(pid)
        except psutil.Error:
            continue
    return found


def masks(pids: list[int]) -> CpuSet:
    """Cores that any thread of these processes may run on."""
    found = CpuSet()
    for pid in pids:
        for one in thread_masks(pid).values():
            found = found | one
    return found


def on_cores(site: LiveSite, job_id: str, sizes: dict[str, int], name: str = "compute") -> None:
    """Wait until coordinator and kernel agree on this number of cores of each node."""

    def told() -> bool:
        shares = site.job(job_id).shares
        return {s.node_id: len(CpuSet.parse(s.cpus)) for s in shares} == sizes

    def kernel() -> bool:
        found = programs(site, job_id, name)
        return {node: len(masks(pids)) for node, pids in found.items()} == sizes

    wait_until(f"job {job_id} to have {sizes}", told)
    wait_until(f"the threads of job {job_id} on {sizes}", kernel)


def apart(site: LiveSite, *jobs: str, name: str = "compute") -> None:
    """Check that no two jobs may run on one core of a node."""
    for node in ("n0", "n1"):
        seen = CpuSet()
        for job_id in jobs:
            mine = masks(programs(site, job_id, name).get(node, []))
            assert seen.isdisjoint(mine), (node, job_id)
            seen = seen | mine


def charged(site: LiveSite) -> None:
    """Check that the sum in the ledger never exceeds the budget."""
    power = site.client.power()
    assert power.committed_uw <= power.budget_uw


BOTH = {"n0": ALL, "n1": ALL}
HALF = {"n0": ALL // 2, "n1": ALL // 2}


def test_a_mate_shrinks_on_all_its_nodes_and_has_them_back(site: LiveSite) -> None:
    owner = whole(site, 2, 3600)
    on_cores(site, owner, BOTH)
    pids = programs(site, owner)
    guest = whole(site, 2, 60)
    on_cores(site, guest, HALF)
    on_cores(site, owner, HALF)
    apart(site, owner, guest)
    charged(site)
    site.client.cancel(guest)
    site.ended(guest)
    on_cores(site, owner, BOTH)
    assert programs(site, owner) == pids, "it was never started again"
    assert site.shown(owner)["resizes"] == 2


@pytest.mark.parametrize("how", ["ends", "cancelled"])
def test_a_guest_gets_the_nodes_of_an_owner_that_ends_first(site: LiveSite, how: str) -> None:
    owner = whole(site, 2, 3600)
    on_cores(site, owner, BOTH)
    guest = whole(site, 2, 60)
    on_cores(site, guest, HALF)
    if how == "cancelled":
        site.client.cancel(owner)
    else:
        for pids in programs(site, owner).values():
            for pid in pids:
                psutil.Process(pid).kill()
    site.ended(owner)
    on_cores(site, guest, BOTH)


def test_a_moldable_guest_keeps_its_size(site: LiveSite) -> None:
    owner = whole(site, 2, 3600)
    on_cores(site, owner, BOTH)
    guest = whole(
        site,
        2,
        60,
        kind=pb.JOB_KIND_MOLDABLE,
        mode=common_pb2.RESIZE_MODE_FIXED,
        sharing=pb.CORE_SHARING_BORROW,
    )
    on_cores(site, guest, HALF)
    site.client.cancel(owner)
    site.ended(owner)
    after = whole(site, 2, 60)
    wait_until("a plan", lambda: site.job(after).reason)
    on_cores(site, guest, HALF)


def test_two_mates_that_end_one_after_the_other(site: LiveSite) -> None:
    mates = [whole(site, 1, 3600), whole(site, 1, 3600)]
    for mate in mates:
        site.running(mate)
    guest = whole(site, 2, 60)
    on_cores(site, guest, HALF)
    first = site.job(mates[0]).shares[0].node_id
    site.client.cancel(mates[0])
    site.ended(mates[0])
    on_cores(site, guest, {**HALF, first: ALL})
    site.client.cancel(mates[1])
    site.ended(mates[1])
    on_cores(site, guest, BOTH)


def test_who_says_nothing_shares_nothing_and_a_queue_says_it_for_its_jobs(site: LiveSite) -> None:
    silent = pb.CORE_SHARING_UNSPECIFIED
    owner = whole(site, 2, 3600, sharing=silent)
    on_cores(site, owner, BOTH)
    waits = whole(site, 2, 60)
    wait_until("a plan", lambda: "first in the queue" in site.job(waits).reason)
    site.client.cancel(owner)
    on_cores(site, waits, BOTH)
    site.client.cancel(waits)
    site.ended(waits)
    owner = whole(site, 2, 3600, sharing=silent, queue="sharing")
    on_cores(site, owner, BOTH)
    guest = whole(site, 2, 60, sharing=silent, queue="sharing")
    on_cores(site, guest, HALF)
    assert site.shown(guest)["spec"]["sharing"] == "CORE_SHARING_BOTH"


def test_more_ranks_than_a_half_has_cores_waits(site: LiveSite) -> None:
    owner = whole(site, 2, 3600)
    on_cores(site, owner, BOTH)
    guest = whole(site, 2, 60, tasks_per_node=ALL)
    wait_until("a plan", lambda: "first in the queue" in site.job(guest).reason)
    on_cores(site, owner, BOTH)


def test_requests_that_contradict_themselves_are_refused(site: LiveSite) -> None:
    with pytest.raises(CliError, match="the minimum is above the maximum"):
        whole(site, 2, 60, size_min=3)
    with pytest.raises(CliError, match="only moldable and malleable jobs can borrow"):
        whole(site, 2, 60, kind=pb.JOB_KIND_RIGID, sharing=pb.CORE_SHARING_BORROW)
    with pytest.raises(CliError, match="only malleable jobs can lend cores"):
        whole(site, 2, 60, kind=pb.JOB_KIND_MOLDABLE)
    with pytest.raises(CliError, match="use mode mask or team to lend cores"):
        whole(site, 2, 60, mode=common_pb2.RESIZE_MODE_FIXED)
    with pytest.raises(CliError, match="does not share its nodes"):
        whole(site, 2, 60, exclusive=True)


def hybrid(site: LiveSite, time_s: float) -> str:
    """MPI + OpenMP over both nodes: a rank on each."""
    launcher = "mpirun --map-by ppr:1:node"
    env = {"PATH": os.environ["PATH"], "HOME": str(site.work), MARK: str(site.folder)}
    return whole(
        site,
        2,
        time_s,
        argv=["/bin/sh", "-c", f"exec {launcher} {EXAMPLES}/hybrid 400 100000000"],
        env=env | MPI_ENV,
        own_launcher=True,
    )


def test_mpi_with_openmp_over_two_nodes_lends_and_borrows(site: LiveSite) -> None:
    if shutil.which("mpirun") is None or not (EXAMPLES / "hybrid").exists():
        pytest.skip("needs mpirun, and the example built with its mpicc")
    owner = hybrid(site, 3600)
    on_cores(site, owner, BOTH, "hybrid")
    guest = hybrid(site, 60)
    on_cores(site, guest, HALF, "hybrid")
    on_cores(site, owner, HALF, "hybrid")
    apart(site, owner, guest, name="hybrid")
    site.client.cancel(guest)
    site.ended(guest)
    on_cores(site, owner, BOTH, "hybrid")


def test_a_node_that_is_lost_while_shared(start_site: Callable[..., LiveSite]) -> None:
    """Its agent is gone: its processes stay, and no other job is placed there."""
    site = start_site(nodes=2, policy="slowdown-driven", cpu_share=0.4)
    owner = whole(site, 2, 3600)
    on_cores(site, owner, BOTH)
    guest = whole(site, 2, 60)
    on_cores(site, guest, HALF)
    on_cores(site, owner, HALF)
    site.kill_agent(1)
    wait_until("the node to be down", lambda: site.node(1).state == pb.NODE_STATE_DOWN)
    waits = whole(site, 1, 60)
    wait_until("a plan", lambda: site.job(waits).reason)
    assert site.job(waits).state == pb.JOB_STATE_PENDING
    site.start_agent(1)
    wait_until("the node to be up", lambda: site.node(1).state == pb.NODE_STATE_UP)
    apart(site, owner, guest)
    site.client.cancel(guest)
    site.ended(guest)
    on_cores(site, owner, BOTH)
    site.cancel_all()
