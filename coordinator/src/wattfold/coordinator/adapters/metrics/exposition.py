"""The metrics as text for Prometheus. Runs in the view process, on its copy of the state.

Everything is computed at the scrape, so series of departed nodes, queues and solvers vanish by
themselves. Only this module imports prometheus_client.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from wattfold.contract.metric import COUNTER, GAUGE, HISTOGRAM, INFO, Metric
from wattfold.coordinator.adapters.metrics.catalogue import BY_NAME
from wattfold.coordinator.adapters.metrics.meters import Durations, Figures
from wattfold.coordinator.core.model.job import FINAL_STATES, Job, JobState
from wattfold.coordinator.core.model.node import Duty, NodeState, ZoneKind
from wattfold.coordinator.core.power.ledger import ZoneAccount
from wattfold.coordinator.core.rules.job_arrays.arrays import is_limited, next_task
from wattfold.coordinator.core.rules.jobs.start_conditions import (
    BEGIN_TIME,
    CHEAPER_ENERGY,
    NOT_PLANNED,
)
from wattfold.coordinator.core.rules.power.cap_steps import rising_uw
from wattfold.coordinator.core.rules.power.unaccounted_power import unaccounted_power
from wattfold.coordinator.core.state.state import State

NO_QUEUE, REMOVED_QUEUE = "none", "removed"
"""Labels of jobs without a queue, and of jobs whose queue was removed from the configuration."""
REASONS = (
    "held",
    "dependency",
    "begin_time",
    "cheaper_energy",
    "array",
    "not_planned",
    "planned_start",
    "expected_start",
    "unknown_start",
)
CAUSES = ("base", "cap", "pending_cap", "lost_cap", "lowered_cap", "above_cap")
OPEN_STATES = tuple(state for state in JobState if state not in FINAL_STATES)

Labelled = Iterable[tuple[tuple[str, ...], float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapeInputs:
    """Inputs of a scrape: the state, its time, the measurements and the coordinator's counters."""

    state: State
    now_ns: int
    policy: str
    measured_uw: int
    measured_peak_uw: int
    figures: Figures


def render(view: ScrapeInputs) -> bytes:
    """Return all metrics in the text format 0.0.4."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Scrape(view))
    return generate_latest(registry)


class _Scrape(Collector):
    def __init__(self, view: ScrapeInputs) -> None:
        self._view = view

    def collect(self) -> Iterator[Family]:
        view = self._view
        yield from _infos(view)
        yield from _power(view)
        yield from _nodes(view)
        yield from _jobs(view)
        yield from _counters(view)


@lru_cache(maxsize=1)
def _version() -> str:
    return version("wattfold")


def _infos(view: ScrapeInputs) -> Iterator[Family]:
    for name, label, value in (
        ("wattfold_build", "version", _version()),
        ("wattfold_policy", "policy", view.policy),
    ):
        family = InfoMetricFamily(name, _checked(name, INFO).help)
        family.add_metric([], {label: value})
        yield family


def _power(view: ScrapeInputs) -> Iterator[Family]:
    state, ledger, beyond = view.state, view.state.ledger, unaccounted_power(view.state)
    yield _gauge_uw("wattfold_budget_watts", ledger.budget_uw)
    if ledger.coming_uw:
        yield _gauge_uw("wattfold_budget_announced_watts", ledger.coming_uw)
    if ledger.emergency_uw:
        yield _gauge_uw("wattfold_emergency_limit_watts", ledger.emergency_uw)
        over_uw = max(ledger.committed_uw - ledger.emergency_uw, 0)
        yield _gauge_uw("wattfold_emergency_over_watts", over_uw)
    causes = _committed(state)
    yield _gauges("wattfold_committed_power_watts", (((c,), causes[c] / 1e6) for c in CAUSES))
    yield _gauge_uw("wattfold_committed_power_peak_watts", ledger.peak_uw)
    yield _gauge_uw("wattfold_measured_power_watts", view.measured_uw)
    yield _gauge_uw("wattfold_measured_power_peak_watts", view.measured_peak_uw)
    yield _gauge_uw("wattfold_floor_watts", state.floor_uw())
    yield _gauge_uw("wattfold_headroom_watts", ledger.room_uw)
    yield _gauge_uw("wattfold_free_power_watts", ledger.free_uw)
    if ledger.ramp.limits.rise_uw_per_s:
        yield _gauge_uw("wattfold_ramp_waiting_watts", rising_uw(state))
    shares = ((("yes",), beyond.accepted_uw / 1e6), (("no",), beyond.counted_uw / 1e6))
    yield _gauges("wattfold_outside_power_watts", shares)
    yield _gauge_uw("wattfold_over_budget_watts", beyond.over_uw)
    yield _counter("wattfold_budget_breaches", ledger.breaches)
    caps = _caps(state)
    yield _gauges("wattfold_cap_watts", (((kind.value,), uw / 1e6) for kind, uw in caps.items()))


def _committed(state: State) -> Counter[str]:
    """Return the committed power by cause, in microwatts."""
    causes: Counter[str] = Counter()
    for account in state.ledger.accounts.values():
        causes["base"] += account.base_uw
        for zone in account.zones.values():
            causes.update(zone_causes(zone))
    return causes


def zone_causes(zone: ZoneAccount) -> dict[str, int]:
    """Return the charge of a zone by cause. A cause counts with its excess over the causes before.

    So the sum over the causes is the charge of the zone.
    """
    lowered_uw = max((cap for _, cap in zone.settling), default=0)
    levels = (
        zone.confirmed_uw,
        zone.pending_uw or 0,
        zone.uncertain_uw,
        lowered_uw,
        zone.overdraw_uw,
    )
    highest = list(accumulate(levels, max))
    steps = (after - before for before, after in zip([0, *highest], highest, strict=False))
    return dict(zip(CAUSES[1:], steps, strict=True))


def _caps(state: State) -> Counter[ZoneKind]:
    """Return the confirmed caps of admitted nodes by kind of zone, in microwatts."""
    caps: Counter[ZoneKind] = Counter()
    for node_id, account in state.ledger.accounts.items():
        spec = state.nodes[node_id].spec
        for zone in spec.zones if spec else ():
            held = account.zones.get(zone.name)
            if held is not None and zone.can_cap:
                caps[zone.kind] += held.confirmed_uw
    return caps


def _nodes(view: ScrapeInputs) -> Iterator[Family]:
    nodes = view.state.nodes.values()
    # The lease of a silent node runs on, and its caps stay up until its end.
    ends_ns = [n.lease_until_ns for n in nodes if n.admitted and n.lease_until_ns > view.now_ns]
    yield _gauge("wattfold_leases", len(ends_ns))
    yield _gauge("wattfold_lease_duration_seconds", view.state.lease_ns / 1e9)
    if ends_ns:
        yield _gauge("wattfold_lease_remaining_seconds", (min(ends_ns) - view.now_ns) / 1e9)
    states = Counter(node.state for node in nodes)
    yield _gauges("wattfold_nodes", (((s.value,), states[s]) for s in NodeState))
    duties = Counter(node.duty for node in nodes)
    yield _gauges("wattfold_node_duties", (((d.value,), duties[d]) for d in Duty))
    yield _gauge("wattfold_node_faults", sum(bool(node.fault) for node in nodes))
    emulated = sum(node.spec is not None and node.spec.emulated for node in nodes)
    yield _gauge("wattfold_emulated_nodes", emulated)


def _jobs(view: ScrapeInputs) -> Iterator[Family]:
    state = view.state
    jobs = list(state.index.open.values())
    counts = Counter((job.state, _queue(state, job)) for job in jobs)
    unmade = [(next_task(array, view.now_ns), array.left) for array in state.arrays.values()]
    for task, left in unmade:
        counts[task.state, _queue(state, task)] += left
    queues = dict.fromkeys((NO_QUEUE, *state.queues, *(queue for _, queue in counts)))
    yield _gauges(
        "wattfold_jobs",
        (((s.value, queue), counts[s, queue]) for s in OPEN_STATES for queue in queues),
    )
    reasons = Counter(map(waiting_reason, jobs))
    for task, left in unmade:
        reasons["held" if task.state is JobState.HELD else "array"] += left
    yield _gauges("wattfold_waiting_jobs", (((r,), reasons[r]) for r in REASONS))
    yield _counter("wattfold_jobs_submitted", state.submissions)


def _queue(state: State, job: Job) -> str:
    queue = job.spec.queue
    if not queue:
        return NO_QUEUE
    return queue if queue in state.queues else REMOVED_QUEUE


def waiting_reason(job: Job) -> str:
    """Return one of `REASONS`; empty = the job does not wait. Policies give reasons as texts."""
    if job.state is JobState.HELD:
        return "held"
    if is_limited(job):
        return "array"
    if job.state is JobState.WAITING:
        named = {BEGIN_TIME: "begin_time", CHEAPER_ENERGY: "cheaper_energy"}
        return named.get(job.reason, "dependency")
    if job.state is not JobState.PENDING:
        return ""
    if job.reason == NOT_PLANNED:
        return "not_planned"
    if job.start_promised:
        return "planned_start"
    return "expected_start" if job.expected_start_ns else "unknown_start"


def _counters(view: ScrapeInputs) -> Iterator[Family]:
    figures = view.figures
    yield _gauge("wattfold_planner_failing", view.state.failing_since_ns >= 0)
    yield _histogram("wattfold_planning_round_duration_seconds", figures.rounds)
    yield _histogram("wattfold_journal_commit_duration_seconds", {(): figures.commits})
    yield _counter("wattfold_log_lines_dropped", figures.log_lines_dropped)
    yield _counter("wattfold_energy_joules", figures.energy_uj / 1e6)


def _checked(name: str, kind: str) -> Metric:
    metric = BY_NAME[name]
    assert metric.kind == kind, f"{name} is a {metric.kind}"
    return metric


def _gauges(name: str, samples: Labelled) -> Family:
    metric = _checked(name, GAUGE)
    family = GaugeMetricFamily(name, metric.help, labels=metric.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _gauge(name: str, value: float) -> Family:
    return _gauges(name, [((), value)])


def _gauge_uw(name: str, power_uw: int) -> Family:
    return _gauge(name, power_uw / 1e6)


def _counter(name: str, value: float) -> Family:
    family = CounterMetricFamily(name, _checked(name, COUNTER).help, labels=())
    family.add_metric((), value)
    return family


def _histogram(name: str, found: Mapping[tuple[str, ...], Durations]) -> Family:
    metric = _checked(name, HISTOGRAM)
    family = HistogramMetricFamily(name, metric.help, labels=metric.labels)
    for labels, durations in found.items():
        bounds = [*map(repr, durations.bounds_s), "+Inf"]
        buckets = list(zip(bounds, accumulate(durations.counts), strict=True))
        family.add_metric(labels, buckets, durations.sum_ns / 1e9)
    return family
