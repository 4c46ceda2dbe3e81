"""Jobs under a real agent: start, slow down, move, end."""

import os
import signal
import subprocess
from pathlib import Path

import grpc
import pytest
from keeper_orders import held_back
from system.agent.agent_process import (
    alive,
    allowed_cpus,
    family,
    until,
    wait_gone,
)
from system.agent.conftest import CPUS

from wattfold.v1 import common_pb2 as common
from wattfold.v1 import node_agent_pb2 as pb

BOTH = ",".join(map(str, CPUS))
ALL = str(CPUS[0]) + "-" + str(CPUS[-1])
BURN = ["sh", "-c", "(while :; do :; done) & while :; do :; done"]


def refused(call, code: grpc.StatusCode) -> str:
    with pytest.raises(grpc.RpcError) as error:
        call()
    assert error.value.code() is code, error.value.details()
    return error.value.details()


def test_a_cap_slows_a_job_and_power_stays_below_it(any_agent):
    any_agent.lease()
    any_agent.caps(dram_0=35)
    any_agent.launch("burn", BURN, BOTH)
    assert any_agent.caps(package_0=15)[0].status == pb.CAP_STATUS_OK
    any_agent.cpu_rate("burn", 0.5)
    slow = any_agent.cpu_rate("burn", 3)
    # By the model, 8 % of full speed on both cores: 0.16 CPU seconds per second.
    assert slow < 0.3
    message = any_agent.telemetry(lambda m: m.interval_ns > 2_900_000_000, 3000)
    package = next(z for z in message.zones if z.name == "package-0")
    assert package.valid
    # The counter is updated every 50 ms, so a mean over 3 s can differ by a few per cent.
    assert 12_500_000 <= package.power_uw <= 15_800_000
    any_agent.caps(package_0=95)
    # Other processes may use the processors now; a later second will be free enough.
    until(lambda: any_agent.cpu_rate("burn", 1) > 1.5 * max(slow, 0.16))


def test_masks_hold_every_thread_from_the_first_instruction(any_agent):
    one = str(CPUS[1])
    pid = any_agent.launch("held", ["sleep", "100"], one).pid
    assert allowed_cpus(pid) == {one}
    any_agent.signal("held", signal.SIGKILL)
    any_agent.ended("held")
    any_agent.launch("m", ["grep", "Cpus_allowed_list", "/proc/self/status"], one)
    assert any_agent.ended("m").exit_code == 0
    assert (any_agent.work() / "wattfold-m.out").read_text().split()[-1] == one


def test_shrink_and_grow_reach_all_processes(any_agent):
    pid = any_agent.launch("m", BURN, BOTH).pid
    for cpus, shown in ((str(CPUS[0]), str(CPUS[0])), (BOTH, ALL), (str(CPUS[1]), str(CPUS[1]))):
        answer = any_agent.mask("m", cpus)
        assert allowed_cpus(pid) == {shown}
        assert answer.shim == pb.SHIM_STATE_ABSENT


def test_a_stopped_or_slowed_job_dies(any_agent):
    any_agent.lease()
    any_agent.caps(package_0=15)
    ready = any_agent.work() / "ready"
    os.mkfifo(ready)
    ready.chmod(0o666)
    script = "trap '' TERM; echo x > ready; while :; do :; done"
    pid = any_agent.launch("d", ["sh", "-c", script], BOTH).pid
    assert ready.read_text() == "x\n"
    any_agent.signal("d", signal.SIGSTOP)
    assert any_agent.signal("d", signal.SIGTERM, grace_s=0.2)
    end = any_agent.ended("d")
    assert (end.exit_code, end.signal) == (137, 9)
    assert not alive(pid)


def test_what_a_job_leaves_behind_is_ended_with_it(any_agent):
    script = "setsid sleep 1000 & echo $! > child; exit 3"
    any_agent.launch("l", ["sh", "-c", script], BOTH)
    end = any_agent.ended("l")
    assert (end.state, end.exit_code) == (pb.PROCESS_STATE_ENDED, 3)
    assert wait_gone(int((any_agent.work() / "child").read_text()))


def test_energy_and_cpu_time_are_charged_to_the_job(any_agent):
    any_agent.lease()
    any_agent.caps(package_0=95, dram_0=35)
    script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"
    any_agent.launch("e", ["sh", "-c", script], BOTH)
    end = any_agent.ended("e")
    assert end.exit_code == 0
    assert end.cpu_ns > 10_000_000
    assert end.elapsed_ns > 0
    assert end.energy_uj > 0


def test_a_job_that_ends_is_told_at_once(plain_agent):
    plain_agent.launch("q", ["true"], BOTH)
    # The interval is longer than the deadline: only the end of the job can trigger the message.
    message = plain_agent.telemetry(lambda m: len(m.ended) == 1, interval_ms=3_600_000)
    assert message.ended[0].job_id == "q"


def test_masks_are_checked(plain_agent):
    plain_agent.launch("a", ["sleep", "100"], str(CPUS[0]))
    text = refused(
        lambda: plain_agent.launch("b", ["sleep", "1"], BOTH), grpc.StatusCode.FAILED_PRECONDITION
    )
    assert f"CPUs {CPUS[0]} are held by job a" in text
    text = refused(lambda: plain_agent.mask("a", "999"), grpc.StatusCode.INVALID_ARGUMENT)
    assert "999" in text
    text = refused(lambda: plain_agent.mask("a", ""), grpc.StatusCode.INVALID_ARGUMENT)
    assert "empty" in text
    refused(lambda: plain_agent.mask("nobody", BOTH), grpc.StatusCode.NOT_FOUND)
    plain_agent.launch(
        "f", ["sleep", "100"], str(CPUS[1]), mode=common.RESIZE_MODE_FIXED, launch_cpus=1
    )
    plain_agent.signal("a", signal.SIGKILL)
    plain_agent.ended("a")
    text = refused(lambda: plain_agent.mask("f", str(CPUS[0])), grpc.StatusCode.FAILED_PRECONDITION)
    assert "mode fixed" in text


@pytest.mark.parametrize(
    ("argv", "fields", "words"),
    [
        (["no-such-command"], {}, "no-such-command: No such file"),
        (["/etc/passwd"], {}, "/etc/passwd: Permission denied"),
        (["true"], {"cwd": "/no/such"}, "/no/such: No such file"),
        (["true"], {"stdout_path": "/no/such/file"}, "/no/such/file: No such file"),
        (["true"], {"user": "no-such-account"}, "no-such-account"),
        (["true"], {"mode": 0}, "mode"),
        ([], {}, "command is empty"),
    ],
)
def test_what_cannot_start_leaves_nothing(plain_agent, argv, fields, words):
    before = set(family(plain_agent.process.pid))
    text = refused(
        lambda: plain_agent.launch("x", argv, BOTH, **fields), grpc.StatusCode.INVALID_ARGUMENT
    )
    assert words in text
    assert plain_agent.processes() == {}
    assert list(plain_agent.work().iterdir()) == []
    assert list((plain_agent.root / "state" / "jobs").iterdir()) == []
    until(lambda: set(family(plain_agent.process.pid)) == before)
    plain_agent.launch("x", ["true"], BOTH)
    assert plain_agent.ended("x").exit_code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_full_disk_is_named(plain_agent, tmp_path):
    # A file system with a single inode, for its root, so no file can be created.
    mount = ["mount", "-t", "tmpfs", "-o", "nr_inodes=1", "none", str(tmp_path)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("cannot mount here")
    try:
        path = str(tmp_path / "out")
        text = refused(
            lambda: plain_agent.launch("x", ["true"], BOTH, stdout_path=path),
            grpc.StatusCode.INVALID_ARGUMENT,
        )
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
    # The user has chosen that file system; the node can start other jobs.
    assert plain_agent.stub.GetInventory(pb.GetInventoryRequest(), timeout=240).launch_fault == ""
    assert f"{path}: No space left on device" in text
    assert plain_agent.processes() == {}


def test_output_goes_to_the_files_named(plain_agent):
    script = "echo out; echo err >&2"
    plain_agent.launch("o", ["sh", "-c", script], BOTH, stdout_path="both", stderr_path="both")
    plain_agent.ended("o")
    assert (plain_agent.work() / "both").read_text() == "out\nerr\n"


def test_environment_and_signals_are_clean(plain_agent):
    script = "env; grep SigIgn /proc/self/status; ulimit -n"
    plain_agent.launch("e", ["sh", "-c", script], BOTH, env={"GIVEN": "x"}, ranks=3, rank=2)
    plain_agent.ended("e")
    lines = (plain_agent.work() / "wattfold-e.out").read_text().splitlines()
    for line in ("GIVEN=x", "WATTFOLD_JOB_ID=e", "WATTFOLD_RANK=2", "OMP_NUM_THREADS=2"):
        assert line in lines
    assert not any(line.startswith("PYTHONPATH") for line in lines)
    assert int(next(line for line in lines if "SigIgn" in line).split()[1], 16) == 0


def test_a_job_is_not_spared_when_memory_is_short(plain_agent):
    score = Path(f"/proc/{plain_agent.process.pid}/oom_score_adj")
    try:
        score.write_text("-500")
    except PermissionError:
        pytest.skip("needs CAP_SYS_RESOURCE, to spare the agent as a service manager does")
    pid = plain_agent.launch("s", ["/bin/sleep", "1000"], BOTH).pid
    assert score.read_text().strip() == "-500"
    assert Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == "0"


def test_repeated_launches_start_one_process(plain_agent):
    request = pb.LaunchRequest(
        header=plain_agent.header("once"),
        job_id="r",
        argv=["sh", "-c", "echo x >> count"],
        cwd=str(plain_agent.work()),
        cpus=BOTH,
        mode=common.RESIZE_MODE_MASK,
        launch_cpus=2,
    )
    calls = [plain_agent.stub.Launch.future(request) for _ in range(5)]
    answers = [call.result(20) for call in calls]
    assert {(a.pid, a.already_running) for a in answers} == {(answers[0].pid, False)}
    argv = ["sh", "-c", "echo x >> count"]
    again = plain_agent.launch("r", argv, BOTH)
    assert (again.pid, again.already_running) == (answers[0].pid, True)
    plain_agent.ended("r")
    # Also after the end of the job: only ForgetProcess frees the name.
    assert plain_agent.launch("r", argv, BOTH).already_running
    assert (plain_agent.work() / "count").read_text() == "x\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_job_runs_as_the_account_named(plain_agent):
    work = plain_agent.work()
    work.chmod(0o777)
    script = "id -un; echo $HOME"
    plain_agent.launch("u", ["sh", "-c", script], BOTH, user="nobody")
    assert plain_agent.ended("u").exit_code == 0
    assert (work / "wattfold-u.out").read_text().splitlines()[0] == "nobody"
    assert (work / "wattfold-u.out").stat().st_uid == 65534


@pytest.mark.parametrize("kills", [True, False])
def test_an_agent_that_stops_while_a_job_starts(plain_agent, kills):
    """It leaves no job that it should end, and waits for no end of a job that it should leave."""
    running = plain_agent
    if not kills:
        running.stop()
        *running.flags, _ = running.flags
        running.start()
    running.lease()
    first = running.launch("first", ["sleep", "600"], str(CPUS[0])).pid
    with held_back(running.root / "state" / "jobs" / "second.exit.tmp"):
        request = running.launch_request("second", ["sleep", "600"], str(CPUS[1]))
        call = running.stub.Launch.future(request, timeout=240)
        until(lambda: "second" in running.processes())
        running.process.send_signal(signal.SIGTERM)
        until(call.done)  # The server has ended the call, but not the start.
        if kills:
            assert wait_gone(first)
    assert running.process.wait(60) == 0
    log = running.log()
    assert "event=job_started job=second" in log
    assert ("event=job_ended job=second" in log) is kills
    assert alive(first) is not kills
    if not kills:
        running.flags += ["--kill-jobs-on-exit"]
    running.start()
