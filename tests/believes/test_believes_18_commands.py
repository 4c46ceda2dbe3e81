"""Whatever is sent to an agent, it answers or refuses, and serves its coordinator afterwards."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import grpc
import pytest
from believes.any_message import Hints, bodies
from believes.any_node import AnyNode, launch
from believes.any_site import AGENT
from believes.sound_node import S, W
from believes.watched import FAULTS, MEMORY, no_traceback
from effort import QUICK, examples
from hypothesis import given, settings
from hypothesis import strategies as st

from wattfold.nodeagent.adapters.host import schedulable_cpus
from wattfold.v1 import common_pb2
from wattfold.v1 import node_agent_pb2 as pb

pytestmark = pytest.mark.skipif(QUICK, reason="starts a process")
COMMANDS = 20
"""Of one example."""
HEADER = common_pb2.CommandHeader(epoch=1, coordinator_id="c")
CPU = str(min(schedulable_cpus()))
BASES = {
    "SetCaps": pb.SetCapsRequest(caps=[pb.ZoneCap(name="package-0", cap_uw=60 * W)]),
    "SetMask": pb.SetMaskRequest(cpus=CPU),
    "Signal": pb.SignalRequest(signal=18),
    "EndAttempt": pb.EndAttemptRequest(signal=15, attempt=1),
    "Suspend": pb.SuspendRequest(attempt=1, suspended=True),
    "RenewLease": pb.RenewLeaseRequest(duration_ns=10 * S),
}
HINTS: Hints = {
    "job_id": ["1", "2", "3"],
    "name": ["package-0", "package-1", "dram-0", "nofile"],
    "cpus": [CPU, str(schedulable_cpus())],
    "attempt": [1, 2],
    "coordinator_id": ["c"],
    "request_id": ["r"],
    "epoch": [1, 2],
    "argv": ["/bin/true"],
    "gpus": ["GPU-a"],
    "node_id": ["n0", "n1"],
    "cwd": ["/"],
}


def sent_to_agent(name: str, folder: Path) -> st.SearchStrategy[tuple[str, bytes]]:
    method = AGENT.methods_by_name[name]
    base: Any = getattr(pb, method.input_type.name)()
    base.CopyFrom(launch(folder) if name == "Launch" else BASES.get(name, base))
    fields = base.DESCRIPTOR.fields_by_name
    if "job_id" in fields:
        base.job_id = "1"
    if "header" in fields:
        base.header.CopyFrom(HEADER)
    return st.tuples(st.just(name), bodies(base, HINTS, header="header" in fields))


async def at_a_node(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as name, no_traceback():
        folder = Path(name) / "a" / "b"
        folder.mkdir(parents=True)
        async with AnyNode(folder) as node:
            code, _ = await node.call("Launch", launch(folder).SerializeToString())
            assert code is grpc.StatusCode.OK
            for _ in range(COMMANDS):
                method, body = data.draw(sent_to_agent(data.draw(METHOD), folder))
                code, _ = await node.call(method, body)
                assert code not in FAULTS, (method, code, body[:200])
            await node.check()


METHOD = st.sampled_from([method.name for method in AGENT.methods])


@settings(max_examples=examples(30))
@given(st.data())
def test_any_command_is_carried_out_or_refused(data: st.DataObject) -> None:
    asyncio.run(at_a_node(data))
