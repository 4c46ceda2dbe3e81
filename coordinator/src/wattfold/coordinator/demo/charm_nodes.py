"""Show a Charm++ job on two nodes that releases a node for an arriving job and gets it back.

It runs on a separate site under equipartition; in the other parts jobs on cores share the nodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.demo.charm_site import Load, LoadJob, LoadSite, held_nodes
from wattfold.coordinator.demo.runner import ENDED, Interruption, RunError
from wattfold.v1 import coordinator_pb2 as pb

LOAD = Load(blocks=8, block_bytes=100_000, work=20_000)
GUEST = ("sleep", "1")


def show(folder: Path, interruption: Interruption, tell: Callable[[str], None]) -> None:
    """Run the jobs, and report each change as a line. Raises RunError, SiteError, CliError."""
    with LoadSite(2, folder, interruption) as site:
        job = site.submit("charm", (1, 2), LOAD)
        tell(f"a Charm++ job runs on {_state(site.on(job, 2))}")
        guest = site.run("guest", GUEST)
        tell(
            f"a job for one node arrives; the first job releases a node: {_state(site.on(job, 1))}"
        )
        tell(f"the other job runs on {', '.join(_running_on(site, guest))}")
        site.until("the end of the other job", lambda: _one(site, guest).state in ENDED)
        tell(f"it has ended; the first job gets the node again: {_state(site.on(job, 2))}")
        site.end(job)
        check_result(job, LOAD)
        tell("the result equals that of an undisturbed run" + _cost(site, "charm"))


def _one(site: LoadSite, job_id: str) -> pb.Job:
    (found,) = site.client.list_jobs([job_id]).jobs
    return found


def _running_on(site: LoadSite, job_id: str) -> list[str]:
    """Return the nodes of a job once it has been placed."""

    def placed() -> list[str]:
        found = _one(site, job_id)
        started = found.state == pb.JOB_STATE_RUNNING or found.state in ENDED
        return [share.node_id for share in found.shares] if started else []

    return site.until("the other job runs", placed)


def _state(job: pb.Job) -> str:
    """Describe the nodes and objects of a job."""
    objects = ", ".join(str(pe.objects) for pe in job.processors)
    return f"{' and '.join(held_nodes(job))} (map {job.processor_map}, objects {objects})"


def _cost(site: LoadSite, app: str) -> str:
    """Describe the cost of node changes of an application."""
    costs = [cost for one in site.client.list_profiles(app).profiles for cost in one.resize_costs]
    if not costs:
        return ""
    stalled_ms = costs[0].stalled_ns / NS_PER_S * 1e3
    return f"; a change of its nodes stalled it for {stalled_ms:.0f} ms on average"


def check_result(job: LoadJob, load: Load) -> None:
    """Raise RunError if the result of the program is wrong."""
    text = job.out.read_text(encoding="utf-8")
    end = re.search(r"^end (\d+) (\d+)$", text, re.MULTILINE)
    steps = int(end[1]) if end else 0
    right = load.blocks * (steps * sum(range(load.work)) + sum(range(steps)))
    if end is None or int(end[2]) != right:
        raise RunError(
            f"job {job.job_id} resulted in {end[2] if end else 'nothing'}, expected {right}"
        )
