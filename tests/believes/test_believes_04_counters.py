"""A counter that is reset, and a power that cannot be, are neither measured nor charged."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from property.agent.emulated_node import MemoryRecords, Steps, VirtualClock
from system.agent.agent_process import AgentProcess
from system.agent.conftest import EMULATE
from unit.adapters.test_agent_messages_zones import GPU, spec
from unit.core.stage import MAX_W, PACKAGE, W
from unit.core.test_core_not_held import measured, two_busy
from waiting import at_once

from wattfold.contract.ids import JobId, NodeId, ZoneName
from wattfold.contract.plausible import TIMES_MAX, power_uw_max
from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.adapters.agents.messages import sample
from wattfold.coordinator.adapters.learning.observations import JobSample, Observations
from wattfold.nodeagent.adapters.devices.zone_ranges import RangeSetting
from wattfold.nodeagent.adapters.devices.zone_search import discover
from wattfold.nodeagent.adapters.jobs.cpu_time import CpuClock
from wattfold.nodeagent.core.caps import CapRequest
from wattfold.nodeagent.emulation.fixtures import load_fixture
from wattfold.nodeagent.emulation.memory_files import MemoryFiles
from wattfold.nodeagent.emulation.tree_model import TreeModel
from wattfold.nodeagent.service.power.node_total import node_total
from wattfold.nodeagent.service.power.power import SAMPLE_NS, NodePower
from wattfold.v1 import common_pb2
from wattfold.v1 import node_agent_pb2 as pb

S = NS_PER_S
ZONE = ZoneName("package-0")


class Counters(MemoryFiles):
    """A machine; the counter of its first package shows ``shown`` of what it counts."""

    def __init__(self, model: TreeModel) -> None:
        super().__init__(model)
        self.shown: Callable[[int], int] = lambda counted_uj: counted_uj

    def read_counter(self, folder: str, file: str) -> tuple[str, int]:
        text, age_ns = super().read_counter(folder, file)
        return (str(self.shown(int(text))) if folder == "intel-rapl:0" else text), age_ns


class NoGuard:
    async def hold_until(self, deadline_ns: int) -> None: ...

    def lapsed(self) -> None: ...

    def refresh(self) -> None: ...


class Node:
    """The power service of a machine with two packages, capped at 60 W each."""

    def __init__(self) -> None:
        self.model = TreeModel(load_fixture("xeon-e5-2620").machine)
        self.files, self.clock = Counters(self.model), VirtualClock(self.model)
        zones = discover(self.files, RangeSetting())
        records = MemoryRecords(Steps())
        self.power = NodePower(zones, records, "boot", lambda: None, NoGuard(), clock=self.clock)
        self.power.start()
        at_once(self.power.renew(3600 * S))
        names = [name for name in self.power.zones if name.startswith("package")]
        self.power.set_caps([CapRequest(name=name, cap_uw=60 * W) for name in names])
        self.pass_time(30)

    def pass_time(self, samples: int) -> None:
        for _ in range(samples):
            self.clock.advance(SAMPLE_NS)
            self.power.sample()

    @property
    def total_w(self) -> float:
        total = node_total(self.power.zones.values())
        assert total is not None
        return total.power_uw(S) / W


def told(caplog: pytest.LogCaptureFixture, event: str) -> list[str]:
    """The lines that the agent has logged of an event."""
    return [text for text in caplog.messages if text.startswith(f"event={event} ")]


@pytest.mark.parametrize("ahead_uj", [-20_000_000_000, -20_000_000, 50_000_000_000], ids=str)
def test_a_counter_that_is_set_back_or_ahead_counts_nothing_and_is_told_once(
    ahead_uj, caplog
) -> None:
    node = Node()
    state, before_w = node.power.zones[ZONE], node.total_w
    before_uj = state.meter.total_uj
    node.files.shown = lambda counted_uj: max(0, counted_uj + ahead_uj)
    node.pass_time(20)
    assert node.total_w <= before_w + 1
    most_uj = power_uw_max(state.most_uw) * 2 + W
    assert state.meter.total_uj - before_uj <= most_uj // TIMES_MAX
    assert (state.over_uw, node.power.not_held_count) == (0, 0)
    (line,) = told(caplog, "energy_counter_reset")
    assert "zone=package-0" in line
    assert 'means="the step is not counted"' in line


def test_a_counter_that_is_never_right_is_not_valid_and_told_once_a_minute(caplog) -> None:
    node = Node()
    values = iter(range(0, 10**15, 10**12))
    node.files.shown = lambda _counted_uj: next(values)
    node.pass_time(50)
    assert not node.power.zones[ZONE].valid
    assert len(told(caplog, "energy_counter_reset")) == 1
    node.pass_time(600)
    assert "times=600" in told(caplog, "energy_counter_reset")[1]
    node.files.shown = lambda counted_uj: counted_uj
    node.pass_time(2)
    assert node.power.zones[ZONE].valid


def test_a_power_that_a_zone_cannot_draw_does_not_throttle_the_others() -> None:
    stage = two_busy(budget_w=10_000)
    measured(stage, "n0", 255_800)
    assert stage.charge_w("n0") == 10 + TIMES_MAX * MAX_W
    assert stage.charge_w("n1") == 40
    assert stage.core.state.nodes[NodeId("n0")].not_held_uw == {PACKAGE: TIMES_MAX * MAX_W * W}


def telemetry(power_w: float, energy_uj: int = 0, **job: object) -> pb.Telemetry:
    zone = pb.ZonePower(name=GPU, power_uw=round(power_w * W), energy_uj=energy_uj, valid=True)
    return pb.Telemetry(zones=[zone], jobs=[pb.JobUsage(job_id="j", **job)])


def test_the_coordinator_believes_no_power_above_what_a_zone_can_draw() -> None:
    seen, node = Observations(), spec()
    for second in range(1, 60):
        power_w, jump_uj = (255_800, 10**12) if second == 30 else (300, 0)
        energy_uj = second * 300 * W + (10**12 if second >= 30 else 0)
        seen.take(sample(telemetry(power_w, energy_uj + jump_uj), node, second * S))
    assert seen.power_uw == 300 * W
    assert seen.peak_uw == 300 * W
    (zone,) = sample(telemetry(255_800), node, 0).zones.values()
    assert (zone.valid, zone.power_uw) == (False, 0)


@pytest.mark.parametrize("amount", [math.inf, math.nan, -1.0], ids=str)
def test_a_progress_that_is_no_amount_counts_as_not_told(amount: float) -> None:
    progress = common_pb2.Progress(done=amount, total=amount)
    job: JobSample = sample(telemetry(300, progress=progress), spec(), 0).jobs[JobId("j")]
    assert (job.done, job.total) == (0.0, 0.0)


def test_cpu_time_that_no_cpus_can_give_is_not_counted(tmp_path: Path, caplog) -> None:
    now_s = 0.0
    clock = CpuClock(tmp_path / "cpu", "n0", use_cgroups=False)
    assert clock is not None
    (tmp_path / "cpuacct").mkdir()
    (tmp_path / "cpuacct/cpuacct.usage").write_text("0")
    clock = CpuClock(tmp_path, "n0", use_cgroups=True, now_ns=lambda: round(now_s * S))
    job = JobId("j")
    clock.prepare(job)
    usage = tmp_path / "cpuacct/wattfold/n0/j/cpuacct.usage"

    def read(used_s: float) -> float:
        usage.write_text(str(round(used_s * S)))
        return clock.read_ns(job, 0, []) / S

    assert read(50) == 50, "what a job has used before this agent"
    now_s = 1
    assert read(51) == 51
    now_s = 2
    assert read(10**6) == 51
    now_s = 3
    assert read(52) == 52, "one wrong reading"
    now_s = 4
    assert read(10**6) == 52
    now_s = 5
    assert read(10**6 + 1) == 53, "a counter that has jumped goes on from there"
    assert read(5) == 53, "never backwards"
    now_s = 1000
    assert read(10**6 + 500) == 552, "an agent that was stopped for long"
    assert len(told(caplog, "cpu_time_jumped")) == 1


def test_a_running_agent_does_not_report_a_reset_as_power(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path, *EMULATE, "--masks", "affinity", "--throttle", "signals").start()
    counter = tmp_path / "run/powercap/intel-rapl:0/energy_uj"
    powers_uw: list[int] = []

    def seen(message: pb.Telemetry) -> bool:
        # The firmware writes its own value soon: again until the agent has read ours.
        counter.with_name("set-back").write_text("0\n")
        counter.with_name("set-back").rename(counter)
        powers_uw.extend(zone.power_uw for zone in message.zones)
        powers_uw.append(message.node_power.power_uw)
        reset = "event=energy_counter_reset zone=package-0" in agent.log()
        return reset or max(powers_uw) > 1000 * W

    try:
        agent.telemetry(lambda message: message.zones[0].energy_uj > 0)
        agent.telemetry(seen)
        last = agent.telemetry(lambda message: message.interval_ns > 0)
        powers_uw.extend(zone.power_uw for zone in last.zones)
        assert 0 < max(powers_uw) < 1000 * W
    finally:
        assert agent.stop() == 0
