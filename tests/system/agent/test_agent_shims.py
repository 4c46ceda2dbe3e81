"""Changes of mask with a shim in the job that obeys, is deaf, or lies."""

import sys
from pathlib import Path

from system.agent.agent_process import allowed_cpus
from system.agent.conftest import CPUS
from system.agent.test_agent_jobs import BOTH

from wattfold.v1 import common_pb2 as common
from wattfold.v1 import node_agent_pb2 as pb

SHIM = """
import os, sys, zmq
sys.path[:0] = os.environ["SHIM_PATH"].split(":")
from wattfold.contract.shim_protocol import ShimMessage, ShimMessageType as T
socket = zmq.Context().socket(zmq.DEALER)
socket.connect(os.environ["WATTFOLD_SHIM_ENDPOINT"])
socket.send(ShimMessage(type=T.HELLO, text="none").pack())
socket.send(ShimMessage(type=T.STATUS, cores=2, regions=5, done=1.0, total=4.0).pack())
while True:
    mask = ShimMessage.unpack(socket.recv())
    if "obey" in sys.argv:
        socket.send(ShimMessage(type=T.ACK, seq=mask.seq, cores=mask.cores).pack())
"""


def launch(running, kind: str, job: str = "s", cpus: str = BOTH) -> int:
    script = Path(running.work()) / "shim.py"
    script.write_text(SHIM)
    env = {"SHIM_PATH": ":".join(p for p in sys.path if p)}
    argv = [sys.executable, str(script), kind]
    pid = running.launch(job, argv, cpus, env=env, mode=common.RESIZE_MODE_TEAM).pid
    running.telemetry(lambda m: any(u.job_id == job and u.progress.regions == 5 for u in m.jobs))
    return pid


def test_a_shim_that_obeys(plain_agent):
    pid = launch(plain_agent, "obey")
    answer = plain_agent.mask("s", str(CPUS[0]))
    assert answer.shim == pb.SHIM_STATE_ATTACHED
    assert answer.acknowledged_in_ns > 0
    assert allowed_cpus(pid) == {str(CPUS[0])}
    usage = plain_agent.telemetry(lambda m: m.jobs[0].team_size == 1).jobs[0]
    assert usage.shim == pb.SHIM_STATE_ATTACHED
    assert plain_agent.mask("s", BOTH).shim == pb.SHIM_STATE_ATTACHED


def test_a_deaf_shim_is_confined(plain_agent):
    pid = launch(plain_agent, "deaf")
    answer = plain_agent.mask("s", str(CPUS[0]), deadline_s=0.1)
    assert answer.shim == pb.SHIM_STATE_CONFINED
    assert answer.acknowledged_in_ns == 0
    assert allowed_cpus(pid) == {str(CPUS[0])}
    usage = plain_agent.telemetry(lambda m: True).jobs[0]
    assert usage.shim == pb.SHIM_STATE_CONFINED
    assert (usage.progress.done, usage.progress.total) == (1.0, 4.0)


def test_a_restarted_agent_and_the_shim_find_each_other(plain_agent):
    pid = launch(plain_agent, "obey")
    plain_agent.mask("s", str(CPUS[0]))
    plain_agent.kill()
    plain_agent.start()
    assert allowed_cpus(pid) == {str(CPUS[0])}
    assert plain_agent.processes()["s"].cpus == str(CPUS[0])
    assert plain_agent.mask("s", BOTH).cpus.replace("-", ",") == BOTH
