"""Leases, epochs, restarts, tampering, tokens."""

import os
import signal
import tempfile
from pathlib import Path

import grpc
import pytest
from system.agent.agent_process import AgentProcess, agent, alive, wait_gone
from system.agent.conftest import EMULATE, emulation_file, need_two_cpus
from system.agent.test_agent_jobs import BOTH, BURN, refused

from wattfold.v1 import node_agent_pb2 as pb
from wattfold.v1 import node_agent_pb2_grpc


def limit_file(running: AgentProcess) -> Path:
    return running.root / "run/powercap/intel-rapl:0/constraint_0_power_limit_uw"


def test_without_a_lease_caps_above_the_floor_are_refused(plain_agent):
    result = plain_agent.caps(package_0=40)[0]
    assert result.status == pb.CAP_STATUS_NO_LEASE
    assert result.enforced_uw == 15_000_000
    assert int(limit_file(plain_agent).read_text()) == 15_000_000


def test_answers_tell_what_is_enforced(plain_agent):
    plain_agent.lease()
    results = plain_agent.caps(package_0=40.06, dram_0=1, gpu_0=5)
    assert [(r.name, r.status) for r in results] == [
        ("package-0", pb.CAP_STATUS_OK),
        ("dram-0", pb.CAP_STATUS_BELOW_MINIMUM),
        ("gpu-0", pb.CAP_STATUS_UNKNOWN_ZONE),
    ]
    assert results[0].enforced_uw == 40_000_000
    assert results[0].settles_in_ns == 100_000_000
    assert plain_agent.caps(package_0=96)[0].status == pb.CAP_STATUS_ABOVE_MAXIMUM
    assert int(limit_file(plain_agent).read_text()) == 40_000_000


def test_a_lease_that_ends_leads_to_the_floor_and_jobs_go_on(plain_agent):
    pid = plain_agent.launch("j", ["sleep", "100"], BOTH).pid
    plain_agent.lease(1.0)
    plain_agent.caps(package_0=60, dram_0=20)
    message = plain_agent.telemetry(lambda m: m.at_floor, interval_ms=3_600_000)
    assert {z.name: z.cap_uw for z in message.zones} == {
        "package-0": 15_000_000,
        "dram-0": 8_000_000,
    }
    assert message.lease_remaining_ns == 0
    assert alive(pid)
    assert {c.name: c.cap_uw for c in plain_agent.lease().caps}["package-0"] == 15_000_000


def test_an_older_coordinator_is_refused_also_after_a_restart(plain_agent):
    plain_agent.epoch = 7
    plain_agent.lease()
    plain_agent.epoch = 6
    text = refused(plain_agent.lease, grpc.StatusCode.ABORTED)
    assert "epoch 6" in text
    assert "epoch 7" in text
    plain_agent.kill()
    plain_agent.start()
    refused(plain_agent.lease, grpc.StatusCode.ABORTED)
    assert plain_agent.stub.GetInventory(pb.GetInventoryRequest()).epoch == 7


def test_a_changed_limit_is_noticed_and_set_again(plain_agent):
    plain_agent.lease()
    plain_agent.caps(package_0=40)
    limit_file(plain_agent).write_text("90000000")
    message = plain_agent.telemetry(lambda m: m.drift_count > 0, interval_ms=3_600_000)
    assert message.drift_count == 1
    assert int(limit_file(plain_agent).read_text()) == 40_000_000


def test_original_limits_are_restored_on_request_even_after_a_crash():
    need_two_cpus()
    with tempfile.TemporaryDirectory(prefix="wattfold-") as folder:
        root = Path(folder)
        running = AgentProcess(root, "--config", emulation_file(root), *EMULATE).start()
        running.lease()
        running.caps(package_0=40)
        running.kill()
        assert int(limit_file(running).read_text()) == 40_000_000
        running.start()
        assert int(limit_file(running).read_text()) == 15_000_000
        assert running.stop() == 0
        assert int(limit_file(running).read_text()) == 15_000_000
        running.flags += ("--restore-on-stop",)
        running.start()
        assert running.stop() == 0
        assert int(limit_file(running).read_text()) == 95_000_000
        assert "event=limits_restored_on_stop" in running.log()


def test_a_killed_agent_adopts_its_jobs(any_agent):
    pid = any_agent.launch("keep", BURN, BOTH).pid
    any_agent.kill()
    assert alive(pid)
    any_agent.start()
    info = any_agent.processes()["keep"]
    assert (info.pid, info.state) == (pid, pb.PROCESS_STATE_RUNNING)
    any_agent.mask("keep", BOTH.split(",")[0])
    any_agent.signal("keep", signal.SIGTERM)
    end = any_agent.ended("keep")
    assert (end.state, end.exit_code, end.signal) == (pb.PROCESS_STATE_ENDED, 143, 15)
    assert end.cpu_ns > 0


def test_a_job_that_ends_while_no_agent_runs_keeps_its_exit_code(any_agent):
    os.mkfifo(any_agent.work() / "go")
    (any_agent.work() / "go").chmod(0o666)
    pid = any_agent.launch("late", ["sh", "-c", "read x < go; exit 42"], BOTH).pid
    any_agent.kill()
    (any_agent.work() / "go").write_text("x\n")
    assert wait_gone(pid)
    any_agent.start()
    end = any_agent.ended("late")
    assert (end.state, end.exit_code) == (pb.PROCESS_STATE_ENDED, 42)
    forget = pb.ForgetProcessRequest(header=any_agent.header(), job_id="late")
    any_agent.stub.ForgetProcess(forget)
    assert any_agent.processes() == {}
    assert list((any_agent.root / "state/jobs").iterdir()) == []


def test_a_job_stopped_by_its_throttle_runs_on_when_the_agent_dies(plain_agent):
    plain_agent.lease()
    plain_agent.caps(package_0=15)
    os.mkfifo(plain_agent.work() / "done")
    script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo x > done"
    plain_agent.launch("t", ["sh", "-c", script], BOTH)
    plain_agent.kill()
    assert (plain_agent.work() / "done").read_text() == "x\n"
    plain_agent.start()
    assert plain_agent.ended("t").exit_code == 0


def test_a_killed_keeper_means_lost(plain_agent):
    pid = plain_agent.launch("k", ["sleep", "100"], BOTH).pid
    keeper = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(keeper, signal.SIGKILL)
    assert wait_gone(keeper)
    assert plain_agent.processes()["k"].state == pb.PROCESS_STATE_RUNNING
    os.kill(pid, signal.SIGKILL)
    end = plain_agent.ended("k")
    assert end.state == pb.PROCESS_STATE_LOST
    assert "keeper" in end.message


def test_damaged_state_harms_only_itself(plain_agent):
    pid = plain_agent.launch("good", ["sleep", "100"], BOTH).pid
    plain_agent.kill()
    jobs = plain_agent.root / "state/jobs"
    (jobs / "bad.json").write_text("{")
    (jobs / "odd.json").write_text('{"state": "running"}')
    plain_agent.start()
    assert list(plain_agent.processes()) == ["good"]
    assert plain_agent.processes()["good"].pid == pid
    assert (jobs / "bad.json.damaged").exists()
    assert (jobs / "odd.json.damaged").exists()


def test_running_jobs_survive_an_orderly_stop():
    need_two_cpus()
    with tempfile.TemporaryDirectory(prefix="wattfold-") as folder:
        root = Path(folder)
        running = AgentProcess(root, "--config", emulation_file(root), *EMULATE).start()
        pid = running.launch("s", ["sleep", "100"], BOTH).pid
        assert running.stop() == 0
        assert alive(pid)
        running.flags += ("--kill-jobs-on-exit",)
        running.start()
        assert running.processes()["s"].pid == pid
        assert running.stop() == 0
        assert wait_gone(pid)


def test_two_agents_on_one_state_are_refused(plain_agent):
    run = f"{plain_agent.root}/other"
    second = AgentProcess(plain_agent.root, *plain_agent.flags, "--run-dir", run)
    with pytest.raises(AssertionError, match="/state: another agent uses"):
        second.start()
    assert second.process is not None
    assert second.process.wait(240) == 1


def test_tcp_needs_the_token(tmp_path):
    need_two_cpus()
    token = tmp_path / "token"
    token.write_text("0123456789abcdef0123\n")
    token.chmod(0o600)
    with agent("--listen", "127.0.0.1:0", "--token-file", str(token), *EMULATE) as running:
        ask = running.stub.GetInventory
        for wrong in ((), (("authorization", "Bearer 0123456789abcdef0124"),)):
            with pytest.raises(grpc.RpcError) as error:
                ask(pb.GetInventoryRequest(), metadata=wrong, timeout=240)
            assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED
            stream = running.stub.StreamTelemetry(
                pb.StreamTelemetryRequest(), metadata=wrong, timeout=240
            )
            with pytest.raises(grpc.RpcError) as error:
                next(stream)
            assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED
        right = (("authorization", "Bearer 0123456789abcdef0123"),)
        answer = ask(pb.GetInventoryRequest(), metadata=right, timeout=240)
        assert answer.node_id == running.node


@pytest.mark.parametrize("flags", [("--floor-w", "1", "--emulate"), ("--listen", "x")])
def test_a_wrong_configuration_exits_with_2(tmp_path, flags):
    running = AgentProcess(tmp_path, *flags)
    with pytest.raises(AssertionError):
        running.start()
    assert running.process is not None
    assert running.process.wait(240) == 2


def test_the_socket_is_private(plain_agent):
    path = plain_agent.root / "run/agent.sock"
    assert path.stat().st_mode & 0o777 == 0o600
    stub = node_agent_pb2_grpc.NodeAgentStub(grpc.insecure_channel(f"unix:{path}"))
    assert stub.GetInventory(pb.GetInventoryRequest()).emulated
