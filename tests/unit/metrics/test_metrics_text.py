"""The text of the metrics says what the state says, and its size does not depend on the queue."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from unit.core.stage import FLOOR_W, LEASE_NS, S, Stage, W, job_spec, on, planning_round
from unit.metrics.scrapes import scraped, total, value, view

from wattfold.contract.ids import NodeId
from wattfold.contract.metric import COUNTER, HISTOGRAM, INFO, Metric
from wattfold.coordinator.adapters.learning.observations import NodeSample, Observations, ZoneSample
from wattfold.coordinator.adapters.metrics.catalogue import CATALOGUE
from wattfold.coordinator.adapters.metrics.exposition import OPEN_STATES, render, zone_causes
from wattfold.coordinator.adapters.metrics.meters import OTHER, OUTCOMES_MAX, Durations, Meters
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.configuration import RampConfigured
from wattfold.coordinator.core.model.queue import Queue
from wattfold.coordinator.core.model.ramp_limits import RampLimits
from wattfold.coordinator.core.power.ledger import ZoneAccount

LEASE_LEFT_S = LEASE_NS / S + 1.5
"""Upper bound of a new lease: also the reaction of the agent and clock drift."""
POWERS = st.integers(0, 100 * W)


def running_site() -> Stage:
    """Two nodes; one runs a job whose higher caps are confirmed, one job waits."""
    stage = Stage(budget_w=200)
    stage.up("n0", "n1")
    stage.submit("a")
    stage.submit("b", job_spec(uid=1000, user="ada", queue="gone"))
    stage.plan(on("a", "n0:0-3", cap_w=40))
    stage.launched("n0", "a")
    stage.caps_are("n0", 40)
    return stage


def test_power_is_the_power_of_the_ledger() -> None:
    stage = running_site()
    ledger = stage.core.state.ledger
    found = scraped(stage.core.state, stage.now_ns)
    assert value(found, "wattfold_budget_watts") == 200.0
    assert total(found, "wattfold_committed_power_watts") == ledger.committed_uw / W
    assert value(found, "wattfold_committed_power_watts", cause="base") == 20.0
    assert value(found, "wattfold_headroom_watts") == ledger.room_uw / W
    assert value(found, "wattfold_cap_watts", kind="package") == 40 + FLOOR_W
    assert value(found, "wattfold_floor_watts") == stage.core.state.floor_uw() / W
    assert value(found, "wattfold_over_budget_watts") == 0.0


def test_a_lowered_cap_is_a_cause_until_its_window_has_passed() -> None:
    stage = running_site()
    stage.process_ended("n0", "a")
    stage.caps_are("n0", FLOOR_W)
    found = scraped(stage.core.state, stage.now_ns)
    assert value(found, "wattfold_committed_power_watts", cause="lowered_cap") == 30.0
    assert value(found, "wattfold_committed_power_watts", cause="cap") == 2 * FLOOR_W
    stage.after(5)
    found = scraped(stage.core.state, stage.now_ns)
    assert value(found, "wattfold_committed_power_watts", cause="lowered_cap") == 0.0


@given(
    confirmed=POWERS,
    pending=st.none() | POWERS,
    uncertain=POWERS,
    lowered=st.lists(POWERS, max_size=3),
    overdraw=POWERS,
)
def test_the_causes_of_a_zone_add_up_to_its_charge(
    confirmed: int, pending: int | None, uncertain: int, lowered: list[int], overdraw: int
) -> None:
    zone = ZoneAccount(
        confirmed_uw=confirmed,
        pending_uw=pending,
        uncertain_uw=uncertain,
        settling=[(0, cap) for cap in lowered],
        overdraw_uw=overdraw,
    )
    causes = zone_causes(zone)
    assert sum(causes.values()) == zone.charge_uw
    assert min(causes.values()) >= 0


def test_jobs_nodes_and_leases_are_counted() -> None:
    stage = running_site()
    stage.submit("c", held=True)
    stage.register("n2")
    found = scraped(stage.core.state, stage.now_ns)
    assert value(found, "wattfold_jobs", state="running", queue="none") == 1
    assert value(found, "wattfold_jobs", state="pending", queue="removed") == 1
    assert value(found, "wattfold_jobs", state="held", queue="none") == 1
    assert value(found, "wattfold_waiting_jobs", reason="held") == 1
    assert value(found, "wattfold_waiting_jobs", reason="not_planned") == 1
    assert total(found, "wattfold_jobs") == 3
    assert value(found, "wattfold_nodes", state="up") == 2
    assert value(found, "wattfold_nodes", state="connecting") == 1
    assert value(found, "wattfold_node_duties", duty="serving") == 3
    assert value(found, "wattfold_leases") == 2
    remaining_s = value(found, "wattfold_lease_remaining_seconds")
    assert remaining_s == LEASE_LEFT_S


def test_the_lease_of_a_silent_node_counts_until_its_end() -> None:
    stage = running_site()
    for node in stage.core.state.nodes:
        stage.silent(node)
    ends_ns = {node.lease_until_ns for node in stage.core.state.nodes.values()}
    stage.now_ns = min(ends_ns) - 2 * S
    found = scraped(stage.core.state, stage.now_ns)
    assert value(found, "wattfold_leases") == 2
    assert value(found, "wattfold_lease_remaining_seconds") == 2.0
    stage.now_ns = max(ends_ns)
    found = scraped(stage.core.state, stage.now_ns)
    assert value(found, "wattfold_leases") == 0
    assert not total(found, "wattfold_lease_remaining_seconds")


def test_the_number_of_series_does_not_depend_on_jobs_and_users() -> None:
    stage = Stage()
    queues = tuple(Queue(name=f"q{index}") for index in range(3))
    stage.send(ev.QueuesConfigured(queues=queues))
    before = scraped(stage.core.state, stage.now_ns)
    for index in range(400):
        name = f"secret-{index}"
        spec = replace(
            job_spec(queue=f"q{index % 5}", uid=1000 + index % 200, user=f"user{index % 200}"),
            name=name,
            app=f"app{index}",
        )
        stage.submit(f"{index}", spec)
    text = render(view(stage.core.state, stage.now_ns))
    after = scraped(stage.core.state, stage.now_ns)
    assert total(after, "wattfold_jobs") == 400
    # The states of jobs whose queue was removed.
    assert len(after) == len(before) + len(OPEN_STATES)
    assert len(text) < 20_000
    assert not re.search(rb"secret|user\d|app\d", text)


def test_rounds_and_commits_are_histograms() -> None:
    meters = Meters(Observations())
    for solve_ms in (2, 20, 60_000):
        record = replace(planning_round(1), solver="lagrangian", solve_ns=solve_ms * 1_000_000)
        meters.planned(record)
    meters.committed(200_000)
    stage = Stage()
    found = scraped(stage.core.state, 0, meters.figures())
    name, labels = "wattfold_planning_round_duration_seconds", {"solver": "lagrangian"}
    labels["outcome"] = "optimal"
    assert value(found, f"{name}_bucket", le="0.003", **labels) == 1
    assert value(found, f"{name}_bucket", le="30.0", **labels) == 2
    assert value(found, f"{name}_bucket", le="+Inf", **labels) == 3
    assert value(found, f"{name}_count", **labels) == 3
    assert value(found, f"{name}_sum", **labels) == pytest.approx(60.022)
    assert value(found, "wattfold_journal_commit_duration_seconds_count") == 1


def test_outcomes_without_end_share_a_label() -> None:
    meters = Meters(Observations())
    for index in range(3 * OUTCOMES_MAX):
        meters.planned(replace(planning_round(1), outcome=f"outcome {index}"))
    rounds = meters.figures().rounds
    assert len(rounds) == OUTCOMES_MAX + 1
    assert sum(rounds[OTHER].counts) == 2 * OUTCOMES_MAX


def test_a_duration_at_a_bound_belongs_to_it() -> None:
    durations = Durations((0.001, 0.01))
    for duration_ns in (1_000_000, 1_000_001, 11_000_000):
        durations.add(duration_ns)
    assert (durations.counts, durations.sum_ns) == ([1, 1, 1], 13_000_001)


def energy_sample(energy_j: float, at_s: float, valid: bool = True) -> NodeSample:
    zone = ZoneSample(
        power_uw=50 * W,
        energy_uj=round(energy_j * 1e6),
        energy_at_ns=round(at_s * S),
        cap_uw=50 * W,
        valid=valid,
    )
    return NodeSample(
        node_id=NodeId("n0"),
        taken_ns=round(at_s * S),
        base_power_uw=10 * W,
        zones={"package-0": zone},  # type: ignore[dict-item]
        jobs={},
        drift_count=0,
    )


def test_energy_never_falls_and_includes_a_silence() -> None:
    seen = Observations()
    counted = []
    seen.take(energy_sample(1000, 1))
    counted.append(seen.counted_uj)
    seen.take(energy_sample(1050, 2))
    counted.append(seen.counted_uj)
    seen.drop(NodeId("n0"))
    counted.append(seen.counted_uj)
    seen.take(energy_sample(1250, 6))
    counted.append(seen.counted_uj)
    # A restarted agent counts from zero.
    seen.take(energy_sample(3, 7))
    counted.append(seen.counted_uj)
    seen.take(energy_sample(53, 8))
    counted.append(seen.counted_uj)
    assert [uj / 1e6 for uj in counted] == [0, 50, 50, 250, 250, 300]


def test_every_metric_is_exposed_as_the_catalogue_says() -> None:
    stage = running_site()
    stage.send(RampConfigured(limits=RampLimits(rise_uw_per_s=W)))
    stage.core.state.ledger.coming_uw = 150 * W
    stage.core.state.ledger.emergency_uw = 140 * W
    meters = Meters(Observations())
    meters.planned(planning_round(1))
    text = render(view(stage.core.state, stage.now_ns, meters.figures())).decode()
    found = {family.name: family for family in text_string_to_metric_families(text)}
    for metric in CATALOGUE:
        # The parser takes the suffix of a counter away, but not that of an info.
        family = found.pop(metric.exposed if metric.kind == INFO else metric.name)
        assert family.documentation == metric.help
        assert family.type == ("gauge" if metric.kind == INFO else metric.kind)
        labels = {key for sample in family.samples for key in sample.labels} - {"le"}
        assert labels == set(metric.labels), metric.name
    assert not found


UNITS = ("_watts", "_joules", "_seconds", "_ratio")
COUNTED = ("leases", "nodes", "duties", "faults", "jobs", "breaches", "submitted", "dropped")


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_names_follow_the_conventions(metric: Metric) -> None:
    name = metric.name
    assert re.fullmatch(r"wattfold(_[a-z]+)+", name)
    assert not name.endswith(("_total", "_info"))
    if metric.kind == INFO or name == "wattfold_planner_failing":
        return
    assert name.endswith((*UNITS, *COUNTED)), "no base unit, and no number of things"
    if metric.kind == HISTOGRAM:
        assert name.endswith("_duration_seconds")
    assert (metric.kind == COUNTER) == name.endswith(
        ("breaches", "submitted", "dropped", "_joules")
    )


def test_promtool_finds_nothing() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool (package prometheus)")
    stage = running_site()
    text = render(view(stage.core.state, stage.now_ns))
    done = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
