"""Messages, configurations and records that once were a traceback, or kept a service from starting.

The fuzzers beside this file found them; here each is tried in every run.
"""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
from pathlib import Path
from typing import Any

import grpc
import pytest
from believes.any_node import AnyNode
from believes.any_site import NODES, AnySite
from believes.sound_node import inventory, process
from believes.test_believes_18_files import JOB, NOBODY, written
from believes.test_believes_18_messages import SPEC
from believes.watched import MEMORY, no_traceback

from wattfold.contract.ids import EPOCH_MAX, NodeId
from wattfold.contract.toml_text import parsed
from wattfold.coordinator.adapters.agents.inventories import MessageError, node_spec, unknown_parts
from wattfold.coordinator.adapters.agents.messages import processes, readings_of_results
from wattfold.coordinator.adapters.config import settings as head_config
from wattfold.coordinator.models.power_curve import cubic_frequency_ghz
from wattfold.nodeagent.adapters import config as agent_config
from wattfold.nodeagent.adapters.config_error import ConfigError
from wattfold.nodeagent.core.errors import InvalidRequest
from wattfold.nodeagent.core.lease import Lease
from wattfold.nodeagent.service.jobs.records import from_record
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import node_agent_pb2 as agent_pb

N0 = NODES[0]


def newer_inventory() -> agent_pb.Inventory:
    """Of an agent with a mask mechanism, a memory mechanism and a kind of zone that are new."""
    answer = inventory(N0)
    answer.mask_mechanism = answer.memory_mechanism = answer.gpu_access = 9  # type: ignore[assignment]
    answer.throttle_mechanism = 9  # type: ignore[assignment]
    answer.zones.add(name="npu-0", kind=9, cap_uw_max=3_000_000)  # type: ignore[arg-type]
    answer.topology.add(cpu=2**32 - 1)
    return answer


def test_a_node_of_a_newer_agent_is_used_and_charged_for_its_unknown_device() -> None:
    spec = node_spec(newer_inventory(), N0)
    known = node_spec(inventory(N0), N0)
    assert spec.zones == known.zones
    assert spec.base_power_uw == known.base_power_uw + 3_000_000
    assert spec.topology == known.topology
    assert {spec.mask_mechanism, spec.throttle_mechanism, spec.memory_mechanism} == {"unknown (9)"}
    assert unknown_parts(inventory(N0)) == ()
    assert unknown_parts(newer_inventory())[0] == "zone npu-0 of kind 9 with at most 3 W"


def test_a_newer_agent_is_told_of_once_and_runs_jobs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def go() -> None:
        with no_traceback():
            async with AnySite(tmp_path) as site:
                site.sent[N0].bodies["GetInventory"] = [newer_inventory().SerializeToString()]
                site.contact_anew(N0)
                await site.answered(N0)
                await site.runs_on(N0)
                await site.check()

    with caplog.at_level(logging.WARNING):
        asyncio.run(go())
    told = [text for text in caplog.messages if "event=node_parts_unknown" in text]
    assert len(told) == 1
    assert "zone npu-0 of kind 9" in told[0]


def test_an_agent_that_sends_no_messages_costs_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def go() -> None:
        with no_traceback():
            async with AnySite(tmp_path) as site:
                site.sent[N0].bodies["GetInventory"] = [b"\xff"] * 2
                site.contact_anew(N0)
                await site.until(lambda: site.link.connected is True, "contact with the node")

    with caplog.at_level(logging.WARNING):
        asyncio.run(go())
    (told,) = [text for text in caplog.messages if "event=node_silent" in text]
    assert "not a message of this version" in told


@pytest.mark.parametrize("due_at_s", [1e300, float("inf"), float("nan"), 1e11])
def test_a_due_date_beyond_all_calendars_is_refused(due_at_s: float, tmp_path: Path) -> None:
    async def go() -> str:
        with no_traceback():
            async with AnySite(tmp_path) as site:
                request = pb.SubmitRequest(spec=SPEC)
                request.spec.due_at_s = due_at_s
                with pytest.raises(grpc.aio.AioRpcError) as error:
                    await site.stub.Submit(request)
        assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        return error.value.details() or ""

    assert asyncio.run(go()) == "the due date must be within the next ten years"


def test_processes_with_a_core_or_a_job_in_common_are_refused() -> None:
    listed = agent_pb.ListProcessesResponse(processes=[process("1"), process("2")])
    with pytest.raises(MessageError, match="core 0 is held by both job 1 and job 2"):
        processes(listed)
    listed.processes[1].job_id = "1"
    with pytest.raises(MessageError, match="job 1 is listed twice"):
        processes(listed)
    listed.processes[1].job_id, listed.processes[1].resident = "2", True
    assert len(processes(listed)) == 2


def test_a_status_of_a_newer_agent_is_an_error_with_its_number() -> None:
    result = agent_pb.CapResult(name="package-0", status=9)  # type: ignore[arg-type]
    assert readings_of_results([result])[0].error.startswith("unknown (9): ")


def test_no_epoch_leaves_no_room_for_the_next() -> None:
    with pytest.raises(InvalidRequest, match="is outside"):
        Lease().admit(EPOCH_MAX + 1)
    assert Lease().admit(EPOCH_MAX).epoch == EPOCH_MAX
    answer = inventory(N0)
    answer.epoch = EPOCH_MAX + 1
    with pytest.raises(MessageError, match="its epoch"):
        node_spec(answer, N0)


def test_a_power_model_that_would_overflow_is_refused() -> None:
    for value in (1e300, float("nan"), 0.0):
        answer = inventory(N0)
        answer.model.a = value
        with pytest.raises(MessageError, match="power model"):
            node_spec(answer, NodeId("n0"))


def test_a_power_curve_that_is_nearly_a_line_has_its_frequency() -> None:
    assert cubic_frequency_ghz(1e-300, 10, 5, 25) == pytest.approx(2)
    assert cubic_frequency_ghz(1e-30, 10, 5, 25) == pytest.approx(2)


HUGE = "9" * 400


@pytest.mark.parametrize(
    "text",
    [
        *(f"{key} = {HUGE}" for key in ("budget_w", "lease_s", "audit_entries")),
        *(f"{key} = -{HUGE}" for key in ("budget_w", "solver_deadline_s")),
        f"[jobs]\ntime_limit_s = {HUGE}",
        "budget_w = " + "9" * 5000,
        "budget_w = " + "[" * 2000 + "]" * 2000,
        *(f'{key} = "/x\\u0000"' for key in ("token_file", "state_dir", "operators")),
    ],
)
def test_a_value_that_no_coordinator_can_use_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(text, encoding="ascii")
    with pytest.raises(head_config.ConfigError, match=str(path)):
        head_config.load(path, {})


@pytest.mark.parametrize(
    "text",
    [
        *(f"{key} = {HUGE}" for key in ("base_power_w", "pids_max", "memory_mib")),
        "pids_max = " + "9" * 5000,
        "cpus = " + "[" * 2000 + "]" * 2000,
        *(f'{key} = "/x\\u0000"' for key in ("token_file", "state_dir", "run_dir")),
        "memory_mib = true",
    ],
)
def test_a_value_that_no_agent_can_use_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text, encoding="ascii")
    with pytest.raises(ConfigError, match=str(path)):
        agent_config.load(["--config", str(path), "--emulate"])


def test_what_is_no_configuration_is_said_in_plain_words() -> None:
    with pytest.raises(ValueError, match="thousands of digits"):
        parsed("a = " + "9" * 5000)
    with pytest.raises(ValueError, match="nested too deeply"):
        parsed("a = " + "[" * 5000)


@pytest.mark.parametrize("field", ["pes", "attempt", "cpu_ns", "pid", "residual_cpu_ns"])
@pytest.mark.parametrize(
    "value", [float("inf"), float("nan"), -1, 2**64, pytest.param(10**400, id="huge"), True, None]
)
def test_a_number_of_a_job_record_that_cannot_be_makes_it_damaged(field: str, value: Any) -> None:
    assert from_record("1", json.loads(json.dumps(JOB))).pid == NOBODY
    with pytest.raises(ValueError, match=r"whole number|not a record"):
        from_record("1", json.loads(json.dumps(JOB | {field: value})))


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("jobs/1.json", JOB | {"pes": float("inf")}),
        ("jobs/1.json", JOB | {"cpu_ns": 2**64}),
        ("agent.json", {"epoch": 2**64, "coordinator_id": "c"}),
        ("originals.json", {"boot_id": "boot", "zones": [1]}),
        ("originals.json", {"boot_id": "boot", "zones": {"package-0": {"a/b": "x", "c/d": 1e300}}}),
    ],
)
def test_an_agent_starts_with_a_record_that_is_damaged(name: str, record: dict[str, Any]) -> None:
    async def go() -> None:
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder, no_traceback():
            written(Path(folder), {name: record})
            async with AnyNode(Path(folder)) as node:
                await node.check()

    asyncio.run(go())
