"""A job with caps of its own waits while the budget is low, and is refused only by the hardware."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc.aio
import pytest
from unit.adapters.api_site import ApiSite
from unit.core.stage import W, node_spec, reading
from unit.policies.snapshots import faults, job, node, snapshot

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies import registry
from wattfold.v1 import coordinator_pb2 as pb

SERVICE = [entry for entry in registry.entries() if entry.variant.service is not None]
FLOORS_W = 2 * (10 + 16)


@pytest.mark.parametrize("entry", SERVICE, ids=lambda entry: entry.variant.name)
@pytest.mark.parametrize("unit", [SizeUnit.CORES, SizeUnit.NODES])
def test_the_job_waits_for_a_budget_and_nobody_waits_for_it(
    entry: registry.RegisteredPolicy, unit: SizeUnit
) -> None:
    policy = entry.service({})
    size = 4 if unit is SizeUnit.CORES else 1
    capped = job("capped", size, size, kind=JobKind.RIGID, unit=unit, cap_uw=45 * W, time_s=60)
    other = job("other", 1, 1, kind=JobKind.RIGID, cap_uw=20 * W, submitted_s=1, time_s=60)
    nodes = [node("n0"), node("n1")]

    def started(budget_w: float) -> set[str]:
        seen = snapshot(nodes, [capped, other], budget_w, now_s=2)
        plan = policy.propose(seen, seen.now_ns, 5.0)
        assert faults(plan, seen) == []
        return {str(one.job_id) for one in plan.assignments}

    # The capped job needs 29 W above the floors, the other job a quarter of 4 W.
    assert started(FLOORS_W + 28) == {"other"}
    assert "capped" in started(FLOORS_W + 60)


def test_only_what_the_nodes_cannot_do_is_refused(tmp_path: Path) -> None:
    """One node of 10 W and packages of 10 to 50 W, under a budget of 30 W."""

    async def go() -> None:
        async with ApiSite(tmp_path) as site, asyncio.timeout(240):
            site.service.post(ev.NodeRegistered(node_id=NodeId("n0"), address="x"))
            up = reports.NodeConnected(spec=node_spec("n0"), caps=(reading(10),), processes=())
            site.service.post(up)
            await site.service.request(ev.BudgetChanged(budget_uw=30 * W))

            async def submit(cap_uw: int) -> str:
                spec = pb.JobSpec(argv=["true"], size_min=4, size_max=4, cap_uw=cap_uw)
                answer = await site.stub.Submit(pb.SubmitRequest(spec=spec))
                return site.core.state.jobs[answer.job_id].state.value

            assert await submit(cap_uw=45 * W) == "pending"
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await submit(cap_uw=51 * W)
            assert "outside the range of the nodes, 10.000..50.000 W" in refused.value.details()

    asyncio.run(go())
