"""Requests for views, and the reports of agents that come with them."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.copies.job_filter import ALL_JOBS, JobFilter
from wattfold.coordinator.adapters.door.peers import Peer
from wattfold.coordinator.adapters.metrics.meters import Figures

LIST_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReports:
    """Reports of the agents since the last requests.

    ``messages`` holds the newest message of each agent with its send time by the coordinator's
    clock, ``gone`` the unreachable nodes. Power of all nodes is measured in the process that
    receives all messages.
    """

    messages: tuple[tuple[NodeId, bytes, int], ...] = ()
    gone: tuple[NodeId, ...] = ()
    power_uw: int = 0
    peak_uw: int = 0
    energy_uj: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """Requests a `ListJobsResponse`. Without IDs: the newest ``limit`` jobs of a filter."""

    viewer: Peer
    job_ids: tuple[JobId, ...] = ()
    include_ended: bool = False
    limit: int = LIST_MAX
    chosen: JobFilter = ALL_JOBS
    details: bool = False
    """Whether jobs requested by ID include their missing resources, outlook and lent cores."""
    tasks: bool = False
    """Whether a list without IDs contains the tasks of arrays as jobs."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """Requests a `ListNodesResponse`."""


@dataclass(frozen=True, slots=True)
class Power:
    """Requests a `Power`, with all announced budgets or with the next ones."""

    all_announced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Requests a `ClusterView` with the jobs that ended after ``since_ns``."""

    viewer: Peer
    since_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Requests an `ExplainResponse`, which only the owner and operators may read."""

    viewer: Peer
    job_id: JobId


@dataclass(frozen=True, slots=True)
class MetricsText:
    """Requests the text for Prometheus, with the counters of the coordinator."""

    figures: Figures


Question = Jobs | Nodes | Power | Cluster | Explanation | MetricsText
