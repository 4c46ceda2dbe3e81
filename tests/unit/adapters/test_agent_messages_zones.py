"""Power zones in messages of agents: charged power, refused zones, and caps that are not held."""

from __future__ import annotations

import pytest

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.agents.inventories import MessageError, node_spec
from wattfold.coordinator.adapters.agents.messages import (
    not_held,
    process,
    readings_of_inventory,
    sample,
    tells_more,
)
from wattfold.coordinator.adapters.learning.observations import GpuSample
from wattfold.coordinator.core.model.node import NodeSpec, ZoneKind
from wattfold.v1 import node_agent_pb2 as pb

W = 1_000_000
GPU = "gpu-5a1f2c3d-0000-1111-2222-333344445555"


def inventory(**gpu: object) -> pb.Inventory:
    chosen: dict[str, object] = {"cap_uw_max": 700 * W, "can_cap": False, **gpu}
    return pb.Inventory(
        node_id="n0",
        cpus="0-3",
        zones=[pb.PowerZone(name=GPU, kind=pb.ZONE_KIND_GPU, **chosen)],
    )


def spec(**gpu: object) -> NodeSpec:
    return node_spec(inventory(**gpu), NodeId("n0"))


def test_a_gpu_is_a_zone_of_the_node() -> None:
    (zone,) = spec(can_cap=True, cap_uw_min=200 * W, floor_uw=200 * W).zones
    assert (zone.name, zone.kind, zone.can_cap) == (GPU, ZoneKind.GPU, True)


def test_the_model_of_its_gpus_and_how_they_are_held_come_with_a_node() -> None:
    message = inventory()
    assert (spec().gpu_model, spec().gpu_access) == ("", "")
    message.gpu_model, message.gpu_access = "V100", pb.GPU_ACCESS_CGROUP_V2
    found = node_spec(message, NodeId("n0"))
    assert (found.gpu_model, found.gpu_access) == ("V100", "cgroup v2")
    message.gpu_model = "a model"
    with pytest.raises(MessageError, match="the GPU model 'a model' is not a valid name"):
        node_spec(message, NodeId("n0"))


def test_what_jobs_use_of_gpus_is_read() -> None:
    use = pb.GpuUse(gpu="GPU-a", energy_uj=5 * W, power_uw=90 * W, busy_percent=120)
    job = pb.JobUsage(job_id="j", gpu_uses=[use], gpu_energy_uj=7 * W)
    found = sample(pb.Telemetry(jobs=[job]), spec(), 0).jobs[JobId("j")]
    assert found.gpu_energy_uj == 7 * W
    assert found.gpus == (
        GpuSample(gpu="GPU-a", energy_uj=5 * W, power_uw=90 * W, busy_percent=100),
    )
    ended = process(pb.ProcessInfo(job_id="j", gpu_energy_uj=8 * W))
    assert ended.gpu_energy_uj == 8 * W


def test_a_gpu_that_may_draw_anything_is_refused() -> None:
    assert spec().zones[0].cap_uw_max == 700 * W
    with pytest.raises(MessageError, match="set it in gpu_max_w of the agent"):
        spec(cap_uw_max=0)


def test_a_zone_that_was_not_held_before_contact_is_read() -> None:
    message = inventory(can_cap=True, cap_uw_min=1, floor_uw=1, not_held_uw=650 * W)
    assert readings_of_inventory(message)[0].not_held_uw == 650 * W


def test_what_is_not_held_is_told_once_and_again_when_it_grows() -> None:
    def found(power_uw: int, name: str = GPU) -> dict[str, int]:
        zones = [pb.ZonePower(name=name, not_held_uw=power_uw)]
        return not_held(pb.Telemetry(zones=zones), spec())

    assert found(0) == found(9 * W, name="psys") == {}
    assert found(600 * W + 1) == {GPU: 601 * W}
    assert tells_more({}, found(600 * W))
    assert not tells_more(found(600 * W), found(590 * W))
    assert tells_more(found(600 * W), found(602 * W))
    assert tells_more(found(600 * W), {})
    assert not tells_more({}, {})
