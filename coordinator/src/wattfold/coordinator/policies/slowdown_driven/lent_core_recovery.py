"""Return of lent cores under any policy.

Under `slowdown_driven` running jobs lend cores and get them back when the guest has ended. Another
policy that takes over after a restart of the coordinator knows nothing about loans: EASY never
changes a running job, and PARM does not change parts of nodes. So after its plan the following jobs
get free cores:

* jobs on whole nodes that hold only part of a node,
* jobs on cores that were resized before, if the policy does not resize jobs.

The earliest started job goes first, as far as there is power. These cores are assigned before any
job starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.job import Job
from wattfold.coordinator.core.model.jobs.spec import ResizeMode
from wattfold.coordinator.core.model.plan import JobView, Plan, Policy, Snapshot
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.driver.ordered_sizes import fitting
from wattfold.coordinator.policies.driver.site_view import site_of
from wattfold.coordinator.policies.slowdown_driven.policy import NAME as SLOWDOWN_DRIVEN
from wattfold.coordinator.policies.slowdown_driven.runs import FreeResources


def with_cores_back(plan: Plan, world: Snapshot, views: Sequence[JobView], policy: Policy) -> Plan:
    """Return the plan of a policy, with free cores for jobs that had them before.

    ``views`` must cover all running and starting jobs. The jobs of ``world`` are ignored.
    """
    if policy.name == SLOWDOWN_DRIVEN or not world.nodes:
        return plan
    cores = {node.spec.node_id: len(node.spec.cpus) for node in world.nodes}
    given = {one.job_id: one for one in plan.assignments}
    running = {
        view.job_id: replace(view, current=given.get(view.job_id, view.current))
        for view in views
        if view.current is not None
    }
    lacks = {
        job_id
        for job_id, view in running.items()
        if lacks_cores(view, cores, resizes=policy.resizes)
    }
    if not lacks:
        return plan
    ground = FreeResources(site_of(world), world.now_ns)
    ground.adopt(list(enumerate(running.values())), among=lacks)
    has = {run.view.job_id: run.given for run in ground.runs.values()}
    if all(has[job_id] == running[job_id].current for job_id in lacks):
        return plan
    waits = {view.job_id: view for view in views if view.current is None}
    starts = [one for one in plan.assignments if one.job_id not in running]
    kept, displaced = fitting(
        starts, waits, ground.room, "its planned cores return to a job that lent them"
    )
    return replace(plan, assignments=(*has.values(), *kept), waiting=(*plan.waiting, *displaced))


def may_lack_cores(job: Job, policy: Policy) -> bool:
    """Return a quick upper bound of `lacks_cores`: most rounds need no closer check."""
    if policy.name == SLOWDOWN_DRIVEN or not job.resizable:
        return False
    if job.spec.unit is SizeUnit.NODES:
        return not job.spec.alone
    return job.resizes > 0 and not policy.resizes


def lacks_cores(view: JobView, cores: Mapping[NodeId, int], *, resizes: bool) -> bool:
    """Return whether a running job may use more of its nodes and the policy does not give it."""
    spec, current = view.spec, view.current
    in_place = spec.mode not in (ResizeMode.FIXED, ResizeMode.RESTART)
    if current is None or not (view.movable and spec.kind.resized and in_place):
        return False
    if spec.exclusive or view.size_asked:
        return False
    if spec.unit is SizeUnit.NODES:
        return any(len(one.cpus) < cores.get(one.node_id, 0) for one in current.shares)
    return not resizes and view.resized_ns >= 0 and current.size < view.max_size
