"""A coordinator in guest mode beside a real Slurm: Slurm decides who runs, we hold the watts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from slurm.adopting import PLUGIN, compiled
from system.site.live_site import BASE_W, LiveSite, built, site_plan
from waiting import wait_until

from wattfold.coordinator.demo.beside_slurm.cluster import SlurmCluster, slurm_cluster
from wattfold.v1 import coordinator_pb2 as pb

pytestmark = pytest.mark.skipif(not PLUGIN.exists(), reason="needs spank_wattfold.so")

_SLURM = """
[slurm]
conf = "{conf}"
poll_s = 0.3
comments_s = 0.5
"""


class GuestSite:
    """A site whose jobs belong to Slurm: four nodes of two cores, all on this machine."""

    def __init__(self, slurm: SlurmCluster, site: LiveSite, program: Path) -> None:
        self.slurm = slurm
        self.site = site
        self.program = program

    def team(self, name: str, *words: str) -> Any:
        """Run the OpenMP program until `end`."""
        out = str(self.slurm.root / "work" / name)
        return self.slurm.begin("srun", *words, str(self.program), out, f"{out}-stop")

    def end(self, name: str) -> None:
        (self.slurm.root / "work" / f"{name}-stop").touch()

    def lines(self, name: str) -> list[str]:
        path = self.slurm.root / "work" / f"{name}.0"
        return path.read_text().splitlines() if path.exists() else []

    def jobs(self) -> dict[str, pb.Job]:
        """Return the open jobs of the coordinator."""
        return {job.job_id: job for job in self.site.client.list_jobs().jobs}

    def running(self, count: int) -> list[pb.Job]:
        """Wait until so many jobs run, and return them."""

        def found() -> list[pb.Job] | None:
            jobs = [j for j in self.jobs().values() if j.state == pb.JOB_STATE_RUNNING]
            return jobs if len(jobs) == count else None

        return wait_until(f"{count} jobs run", found) if count else []

    def caps_uw(self) -> list[int]:
        """Return the limits that are in force, read from the devices."""
        nodes = range(len(self.site.plan.nodes))
        return [self.site.limits_uw(index)["package"] for index in nodes]


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestSite]:
    if not built():
        pytest.skip("no example programs; run scripts/build_shims")
    with slurm_cluster(nodes=4) as cluster:
        plan = site_plan(
            nodes=4,
            budget_w=171.0,
            policy="equipartition",
            agent="adopt_slurm = true",
            coordinator=_SLURM.format(conf=cluster.root / "slurm.conf"),
        )
        named = [replace(n, node_id=c) for n, c in zip(plan.nodes, cluster.nodes, strict=True)]
        plan = replace(plan, nodes=tuple(named))
        with LiveSite(plan, tmp_path_factory.mktemp("guest") / "logs") as site:
            for index, name in enumerate(cluster.nodes):
                (cluster.root / name).symlink_to(site.agent_socket(index).parent)
            path = f"{cluster.root}/%n/adopt.sock"
            cluster.plugstack(f"optional {PLUGIN} agent={path} limit_ms=60000\n")
            yield GuestSite(cluster, site, compiled(cluster.root / "work"))
            cluster.cancel_all()
            site.stop()
            site.check_record()


@pytest.fixture
def empty(guest: GuestSite) -> Iterator[GuestSite]:
    """The site without jobs."""
    yield guest
    guest.slurm.cancel_all()
    wait_until("no job is left", lambda: not guest.jobs())


def test_a_job_gets_a_cap_and_its_cores_follow_an_order(empty: GuestSite) -> None:
    step = empty.team("a", "-n1", "-c2", "--wattfold=team")
    (job,) = empty.running(1)
    floor = min(empty.caps_uw())
    wait_until("its node has more than its floor", lambda: max(empty.caps_uw()) > floor)
    wait_until("it is adopted", lambda: empty.jobs()[job.job_id].spec.size_min == 1)
    wait_until("it has two threads", lambda: empty.lines("a")[-1:] == ["team 2"])
    empty.site.wattfold("resize", job.job_id, "1")
    wait_until("it has one thread", lambda: empty.lines("a")[-1:] == ["team 1"])
    empty.end("a")
    assert step.wait(60) == 7
    ended = empty.site.ended(job.job_id)
    assert (ended.state, ended.exit_code) == (pb.JOB_STATE_FAILED, 7)
    wait_until("its node is at its floor", lambda: max(empty.caps_uw()) == floor)


def test_a_job_is_adopted_again_with_its_next_step(empty: GuestSite) -> None:
    work, program = empty.slurm.root / "work", empty.program
    steps = [f"srun --wattfold=team {program} {work}/{n} {work}/{n}-stop; true" for n in "pq"]
    script = "; ".join(steps)
    empty.slurm.call("sbatch", "-n1", "-c2", "-o", "/dev/null", "--wrap", script)
    (job,) = empty.running(1)
    for name in "pq":
        wait_until(f"{name} is adopted", lambda: empty.jobs()[job.job_id].spec.size_min == 1)
        wait_until(f"{name} works", lambda name=name: empty.lines(name)[-1:] == ["team 2"])
        empty.site.wattfold("resize", job.job_id, "1")
        wait_until(f"{name} shrinks", lambda name=name: empty.lines(name)[-1:] == ["team 1"])
        empty.site.wattfold("resize", job.job_id, "auto")
        wait_until(f"{name} grows", lambda name=name: empty.lines(name)[-1:] == ["team 2"])
        empty.end(name)
    assert empty.site.ended(job.job_id).state == pb.JOB_STATE_COMPLETED


def test_eight_jobs_follow_the_budget_down_and_up(empty: GuestSite) -> None:
    """The limits are read from the devices, not from the coordinator."""
    site = empty.site
    for number in range(8):
        empty.team(f"e{number}", "-n1", "-c1", "--wattfold=team")
    empty.running(8)
    full_w, nodes = 171.0, len(site.plan.nodes)

    def drawn_w() -> float:
        """Return the most that the nodes may draw by their devices."""
        limits = [site.limits_uw(index) for index in range(nodes)]
        return sum(BASE_W + sum(zone.values()) / 1e6 for zone in limits)

    wait_until("the jobs use the budget", lambda: drawn_w() > 150)
    assert drawn_w() <= full_w
    since_s = time.time()
    site.wattfold("budget", "set", "100W", "--deadline", "5s")
    site.lowered.append((since_s, time.time() + 5))
    wait_until("the caps are low", lambda: drawn_w() <= 100.0)
    low = [drawn_w() for _ in range(20)]
    assert max(low) <= 100.0
    assert all(empty.jobs()[job.job_id].cap_uw > 0 for job in empty.running(8))
    site.wattfold("budget", "set", "171W")
    seen = [drawn_w()]
    while max(seen) <= 150 and time.time() < since_s + 60:
        seen.append(drawn_w())
    assert 150 < max(seen) <= full_w
    assert len(empty.slurm.call("squeue", "-h", "-t", "R", "-o", "%A").split()) == 8


def test_a_killed_coordinator_and_a_killed_slurmctld_end_no_job(empty: GuestSite) -> None:
    site, slurm = empty.site, empty.slurm
    step = empty.team("k", "-n1", "-c2", "--wattfold=team")
    (job,) = empty.running(1)
    began_s = time.time()
    wait_until("it is adopted", lambda: empty.jobs()[job.job_id].spec.size_min == 1)
    floor = min(empty.caps_uw())
    site.coordinator.kill()
    site.coordinator.wait()
    site.restart_coordinator()
    wait_until("it is known again", lambda: max(empty.caps_uw()) > floor and empty.running(1))
    # A killed slurmctld loses what it has not saved, and with it the job.
    saved = slurm.root / "state" / "job_state"
    wait_until("Slurm has saved the job", lambda: saved.stat().st_mtime > began_s)
    slurm.daemons["slurmctld"].kill()
    slurm.daemons.pop("slurmctld").wait()
    wait_until("Slurm is missed", lambda: not site.client.power().manager.reachable)
    assert step.poll() is None
    assert max(empty.caps_uw()) > floor
    (kept,) = empty.running(1)
    assert kept.job_id == job.job_id
    slurm.start_controller(clear=False)
    wait_until("the controller answers", slurm.is_up)
    wait_until("Slurm is seen", lambda: site.client.power().manager.reachable)
    assert step.poll() is None
    assert empty.running(1)[0].job_id == job.job_id
    empty.end("k")
    assert step.wait(60) == 7
    assert site.ended(job.job_id).exit_code == 7


def test_jobs_without_the_plugin_are_capped_and_orders_are_refused(empty: GuestSite) -> None:
    site, slurm = empty.site, empty.slurm
    step = empty.team("u", "-N2", "-n4", "-c1")
    (job,) = empty.running(1)
    assert [(s.cpus, s.node_id) for s in job.shares] == [("0-1", n) for n in slurm.nodes[:2]]
    assert job.size == 4
    floor = min(empty.caps_uw())
    wait_until("both nodes are raised", lambda: min(empty.caps_uw()[:2]) > floor)
    assert max(empty.caps_uw()[2:]) == floor
    number = job.job_id.removeprefix("slurm-")
    for words, remedy in (
        (("cancel", job.job_id), f"scancel {number}"),
        (("suspend", job.job_id), f"scontrol suspend {number}"),
        (("requeue", job.job_id), f"scontrol requeue {number}"),
        (("hold", job.job_id), f"scontrol hold {number}"),
        (("submit", "true"), "sbatch"),
    ):
        assert remedy in site.wattfold(*words, check=None).stderr
    assert step.poll() is None
    waiting = slurm.call("sbatch", "--parsable", "-N4", "--exclusive", "--wrap", "true").strip()
    state = wait_until("it waits", lambda: empty.jobs().get(f"slurm-{waiting}"))
    assert (state.state, state.reason) == (pb.JOB_STATE_PENDING, "waits in Slurm: Resources")
    slurm.call("scancel", waiting)
    slurm.call("scontrol", "suspend", number)
    site.in_state(job.job_id, pb.JOB_STATE_SUSPENDED)
    slurm.call("scontrol", "resume", number)
    site.in_state(job.job_id, pb.JOB_STATE_RUNNING)
    slurm.call("scancel", number)
    assert site.ended(job.job_id).state == pb.JOB_STATE_CANCELLED
    step.wait(60)
