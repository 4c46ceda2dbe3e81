"""Whatever is sent to the coordinator, it answers, goes on, and harms nobody else.

Messages are drawn from the descriptors of the contract (`any_message`), so a new field or a new
call is tried as soon as it is there.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from believes.any_message import Hints, bodies
from believes.any_site import AGENT, COORDINATOR, NODES, AnySite
from believes.sound_node import W, inventory, process, telemetry
from believes.watched import FAULTS, MEMORY, no_traceback
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import node_agent_pb2 as agent_pb

N0, N1 = NODES
REQUESTS = 30
"""Of one example; all meet the state that the ones before have made."""
NOW_S = time.time()
SPEC = pb.JobSpec(
    argv=["/bin/true"], cwd="/", env={"A": "b"}, kind=pb.JOB_KIND_MALLEABLE, size_min=1, size_max=2
)
PROFILE = pb.Profile(
    app="true",
    average_parallelism=8,
    sigma=0.5,
    t1_s=100,
    a=1,
    b=1,
    c=1,
    beta=0.5,
    f_low_ghz=1,
    f_high_ghz=2,
    p_low_w=10,
    p_high_w=60,
    points=[pb.ProfilePoint(size=1, cap_uw=50 * W, seconds=100, power_uw=40 * W)],
    epoch_times=[pb.EpochTime(gpu_model="V100", gpus=1, seconds=10, count=3)],
    gpu_curves=[
        pb.GpuCurve(gpu_model="V100", static_w=50, full_w=250, knee=0.5, beta=0.5, rms_error=0)
    ],
)
BASES = {
    "Submit": pb.SubmitRequest(spec=SPEC),
    "SetBudget": pb.SetBudgetRequest(budget_uw=900 * W),
    "AnnounceBudget": pb.AnnounceBudgetRequest(budget_uw=900 * W, at_s=NOW_S + 7200),
    "ScheduleBudgets": pb.ScheduleBudgetsRequest(
        name="x", budgets=[pb.ScheduledBudget(at_s=NOW_S + 7200, budget_uw=900 * W)]
    ),
    "ForgetNode": pb.ForgetNodeRequest(node_id="n1", word=pb.FORGET_WORD_NO_POWER),
    "PutProfile": pb.PutProfileRequest(profile=PROFILE),
    "Reserve": pb.ReserveRequest(name="r", count=1, end_at_s=NOW_S + 7200, maintenance=True),
    "Watch": pb.WatchRequest(),
}
HINTS: Hints = {
    "job_id": ["1", "2", "3", "4", "5"],
    "job_ids": ["1", "2", "3", "9"],
    "node_id": ["n0", "n1"],
    "node_ids": ["n0", "n1"],
    "among": ["n0", "n1"],
    "features": ["ib"],
    "app": ["true", "other"],
    "gpu_model": ["V100"],
    "name": ["r", "package-0", "psys", "gpu-GPU-a", "nofile", "x"],
    "users": ["root", "nobody"],
    "account": ["nobody"],
    "cwd": ["/"],
    "argv": ["/bin/true"],
    "at_s": [NOW_S + 100, NOW_S + 10**8],
    "due_at_s": [NOW_S + 100, NOW_S + 10**8],
    "start_at_s": [NOW_S + 100],
    "end_at_s": [NOW_S + 200],
    "cpus": ["0", "0-1", "0-3", "2-3"],
    "gpus": ["GPU-a", 1],
    "idempotency_key": ["k"],
    "certificate": ['{"mode": "mask"}'],
    "size": [1, 2, 3],
    "attempt": [1, 2],
    "number": [1, 2],
    "request_id": ["1"],
}
HINTS = {name: list(values) for name, values in HINTS.items()}


def sent_to_users(method: Any) -> st.SearchStrategy[tuple[str, bytes]]:
    base = BASES.get(method.name, getattr(pb, method.input_type.name)())
    if "job_id" in base.DESCRIPTOR.fields_by_name and method.name != "ListAudit":
        base.job_id = "1"
    if "node_id" in base.DESCRIPTOR.fields_by_name and method.name != "ListAudit":
        base.node_id = "n1"
    return st.tuples(st.just(method.name), bodies(base, HINTS))


# Most of what can be wrong is in submissions.
REQUEST = st.sampled_from(
    ["Submit"] * 10 + [method.name for method in COORDINATOR.methods]
).flatmap(lambda name: sent_to_users(COORDINATOR.methods_by_name[name]))


def at_a_site(test: Callable[[AnySite], Awaitable[None]]) -> None:
    """Runs a test with a site of its own: two nodes, a job that runs on n0 and one that waits."""

    async def go() -> None:
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder, no_traceback():
            async with AnySite(Path(folder)) as site:
                await site.runs_on(N0)
                held = pb.SubmitRequest(spec=SPEC, held=True)
                await site.stub.Submit(held)
                await test(site)

    asyncio.run(go())


@settings(max_examples=examples(24))
@given(st.lists(REQUEST, min_size=REQUESTS, max_size=REQUESTS))
def test_any_request_is_answered_or_refused(requests: list[tuple[str, bytes]]) -> None:
    async def test(site: AnySite) -> None:
        for method, body in requests:
            code = await site.call(method, body)
            assert code not in FAULTS, (method, code, body[:200])
        await site.check_looks()
        await site.check()

    at_a_site(test)


ANSWERS = {
    "GetInventory": inventory(),
    "ListProcesses": agent_pb.ListProcessesResponse(processes=[process("1"), process("9")]),
    "StreamTelemetry": telemetry(),
    "SetCaps": agent_pb.SetCapsResponse(
        results=[agent_pb.CapResult(name="package-0", enforced_uw=W, status=agent_pb.CAP_STATUS_OK)]
    ),
    "SetMask": agent_pb.SetMaskResponse(cpus="0-1", processor_map=b"\1"),
    "RenewLease": agent_pb.RenewLeaseResponse(
        caps=[agent_pb.ZoneCap(name="package-0", cap_uw=20 * W)]
    ),
    "Leave": agent_pb.LeaveResponse(
        caps=[agent_pb.ZoneCap(name="package-0", cap_uw=20 * W)],
        failures=[agent_pb.ZoneFailure(name="dram-0", reason="x")],
    ),
}


def answers_of(method: Any) -> st.SearchStrategy[list[bytes]]:
    base = ANSWERS.get(method.name, getattr(agent_pb, method.output_type.name)())
    least = int(method.name == "GetInventory")
    return st.lists(
        bodies(base, HINTS), min_size=least, max_size=4 if method.server_streaming else 1
    )


ANSWER = st.fixed_dictionaries(
    {
        name: answers_of(AGENT.methods_by_name[name])
        for name in ("GetInventory", "ListProcesses", "StreamTelemetry")
    },
    optional={
        method.name: answers_of(method)
        for method in AGENT.methods
        if method.name not in ("GetInventory", "ListProcesses", "StreamTelemetry")
    },
)


@settings(max_examples=examples(24))
@given(st.lists(ANSWER, min_size=3, max_size=3))
def test_any_answer_of_an_agent_harms_its_node_at_most(
    contacts: list[dict[str, list[bytes]]],
) -> None:
    async def test(site: AnySite) -> None:
        for bodies_of in contacts:
            site.sent[N0].bodies = {name: list(bodies) for name, bodies in bodies_of.items()}
            site.contact_anew(N0)
            await site.answered(N0)
            if site.fenced:
                return  # It obeys another coordinator, so this one ends.
            await site.stub.Submit(pb.SubmitRequest(spec=SPEC))
        await site.check_looks()
        site.sent[N0].bodies.clear()
        site.contact_anew(N0)
        await site.end_all()
        for node_id in NODES:
            await site.runs_on(node_id)
        await site.check()

    at_a_site(test)
