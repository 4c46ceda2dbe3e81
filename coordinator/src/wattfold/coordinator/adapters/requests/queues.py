"""Queues at submission: selection of the queue, and its limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError
from wattfold.coordinator.adapters.requests.submissions import TimeLimits
from wattfold.coordinator.adapters.requests.wire_enums import SHARINGS
from wattfold.coordinator.core.model.jobs.core_sharing import CoreSharing
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.queue import DEFAULT_QUEUE, Queue
from wattfold.coordinator.core.rules.jobs.adoption import UNSTARTED
from wattfold.coordinator.core.state.state import State
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.v1 import coordinator_pb2 as pb


def queue_of(name: str, queues: Mapping[str, Queue]) -> Queue | None:
    """Return the queue of a submission, or the default queue. Raises InvalidRequestError."""
    if not name:
        return queues.get(DEFAULT_QUEUE)
    if name not in queues:
        known = f"there are: {', '.join(queues)}" if queues else "this site has no queues"
        raise InvalidRequestError(f"no queue {name!r}; {known}")
    return queues[name]


def limits_in(queue: Queue | None, site: TimeLimits) -> TimeLimits:
    """Return the time limits in a queue: the stricter maximum and the default of the queue."""
    if queue is None:
        return site
    greatest = [ns for ns in (queue.time_limit_max_ns, site.max_ns) if ns]
    max_ns = min(greatest, default=0)
    default_ns = queue.time_limit_ns or site.default_ns
    return TimeLimits(
        default_ns=min(default_ns, max_ns) if max_ns else default_ns,
        max_ns=max_ns,
    )


def queued(spec: JobSpec, queue: Queue | None) -> JobSpec:
    """Return a job as accepted into a queue. Raises InvalidRequestError if it is too large."""
    if queue is None:
        return spec
    for unit, asked, most in (
        ("nodes", _nodes_at_most(spec), queue.nodes_max),
        ("cores", _cores_at_most(spec), queue.cores_max),
    ):
        if most and asked > most:
            raise InvalidRequestError(
                f"the job requests up to {asked} {unit}; queue {queue.name} allows at most "
                f"{most} {unit}"
            )
    outside = [name for name in spec.among if name not in queue.nodes] if queue.nodes else []
    if outside:
        raise InvalidRequestError(
            f"node {outside[0]} is not in queue {queue.name}; `wattfold queues` lists its nodes"
        )
    sharing = queue.sharing if spec.sharing is CoreSharing.AS_KIND else spec.sharing
    priority = spec.priority * queue.priority
    among = spec.among or queue.nodes
    return replace(spec, queue=queue.name, priority=priority, sharing=sharing, among=among)


def _nodes_at_most(spec: JobSpec) -> int:
    """Return the number of requested nodes, whole or for units apart; 0 = no node count."""
    by_node = spec.unit is SizeUnit.NODES or spec.spread is Spread.APART
    return spec.size_max if by_node else 0


def _cores_at_most(spec: JobSpec) -> int:
    """Return the number of requested cores; 0 = the job counts whole nodes."""
    return 0 if spec.unit is SizeUnit.NODES else spec.size_max * max(spec.unit_cores, 1)


_SHARINGS = {sharing: number for number, sharing in SHARINGS.items()}


def queue_messages(state: State) -> Iterable[pb.Queue]:
    """Return all queues with their numbers of jobs."""
    waiting, running = dict[str, int](), dict[str, int]()
    for job in state.index.open.values():
        counts = waiting if job.state in UNSTARTED else running
        counts[job.spec.queue] = counts.get(job.spec.queue, 0) + 1
    for array in state.arrays.values():
        waiting[array.spec.queue] = waiting.get(array.spec.queue, 0) + array.left
    for queue in state.queues.values():
        yield pb.Queue(
            name=queue.name,
            priority=queue.priority,
            weight=queue.weight,
            time_limit_ns=queue.time_limit_ns,
            time_limit_ns_max=queue.time_limit_max_ns,
            cores_max=queue.cores_max,
            nodes_max=queue.nodes_max,
            wait_ns_expected=queue.wait_expected_ns,
            wait_ns_max=queue.wait_max_ns,
            jobs_waiting=waiting.get(queue.name, 0),
            jobs_running=running.get(queue.name, 0),
            price_hold_ns_max=queue.price_hold_ns,
            preempts=queue.preempts,
            node_ids=queue.nodes,
            sharing=_SHARINGS[queue.sharing],
        )
