"""Coordinator and agent on TCP: a connection needs the right token."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from system.site.live_site import run_command, wait_until

from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.coordinator.demo import site as demo_site
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import coordinator_pb2_grpc

TOKEN = "0123456789abcdef-people"
AGENT_TOKEN = "0123456789abcdef-agents"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def token_file(folder: Path, name: str, text: str, mode: int = 0o600) -> Path:
    path = folder / name
    path.write_text(text + "\n")
    path.chmod(mode)
    return path


def account() -> pwd.struct_passwd:
    """Account of the holder of the token: never root by accident."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())


@pytest.fixture(scope="module")
def tcp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A coordinator and an agent on TCP; yields the coordinator's address and folder."""
    folder = tmp_path_factory.mktemp("tcp")
    own, agents = token_file(folder, "token", TOKEN), token_file(folder, "agents", AGENT_TOKEN)
    listen, node = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    started = [
        demo_site._start("wattfold-agent", agent_flags(folder, "t0", node, agents), log, {})
        for log in [folder / "agent.log"]
    ]
    try:
        demo_site._await_ready(started[0], "agent", folder / "agent.log")
        arguments = [
            *("--listen", listen, "--state-dir", str(folder / "head"), "--budget-w", "500"),
            *("--token-file", str(own), "--agent-token-file", str(agents)),
            *("--node", f"t0={node}", "--token-account", account().pw_name),
        ]
        log = folder / "coordinator.log"
        started.insert(0, demo_site._start("wattfold-coordinator", arguments, log, {}))
        demo_site._await_ready(started[0], "coordinator", log)
        yield listen, folder
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(240) for process in started]
        for process in started:
            assert process.stdout is not None
            process.stdout.close()
    assert codes == [0, 0]


def agent_flags(folder: Path, node_id: str, listen: str, token: Path) -> list[str]:
    return [
        *("--node-id", node_id, "--listen", listen, "--token-file", str(token)),
        *("--state-dir", str(folder / node_id), "--run-dir", str(folder / f"{node_id}-run")),
        *("--emulate", "--kill-jobs-on-exit"),
    ]


def power_by_command(address: str, *options: str) -> tuple[int, str]:
    done = run_command("wattfold", "--coordinator", address, *options, "power")
    return done.returncode, done.stderr + done.stdout


def test_without_a_token(tcp: tuple[str, Path]) -> None:
    code, text = power_by_command(tcp[0])
    assert code == 1
    assert "requires a token" in text


def test_with_a_wrong_token(tcp: tuple[str, Path], tmp_path: Path) -> None:
    wrong = token_file(tmp_path, "wrong", TOKEN[:-1] + "x")
    code, text = power_by_command(tcp[0], "--token-file", str(wrong))
    assert code == 1
    assert "requires a token" in text


def test_with_the_right_token(tcp: tuple[str, Path]) -> None:
    code, text = power_by_command(tcp[0], "--token-file", str(tcp[1] / "token"))
    assert code == 0
    assert "500" in text


@pytest.mark.parametrize("metadata", [(), (("authorization", "Bearer wrong"),)])
def test_every_call_asks_for_it(tcp: tuple[str, Path], metadata: tuple[tuple[str, str]]) -> None:
    with grpc.insecure_channel(tcp[0]) as channel:
        stub = coordinator_pb2_grpc.CoordinatorStub(channel)
        calls = {
            stub.Submit: pb.SubmitRequest(),
            stub.Cancel: pb.CancelRequest(),
            stub.ListJobs: pb.ListJobsRequest(),
            stub.SetBudget: pb.SetBudgetRequest(),
            stub.PutProfile: pb.PutProfileRequest(),
        }
        for call, request in calls.items():
            with pytest.raises(grpc.RpcError) as refused:
                call(request, timeout=240, metadata=metadata)
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        with pytest.raises(grpc.RpcError) as refused:
            next(stub.Watch(pb.WatchRequest(), timeout=240, metadata=metadata))
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


@pytest.fixture
def work() -> Iterator[Path]:
    """A folder of the account of the token."""
    made = Path(tempfile.mkdtemp(prefix="wf-tcp-"))
    os.chown(made, account().pw_uid, account().pw_gid)
    yield made
    shutil.rmtree(made)


def test_the_agent_takes_the_coordinators_token(tcp: tuple[str, Path], work: Path) -> None:
    with CoordinatorClient(tcp[0], TOKEN) as client:
        wait_until("the node is up", lambda: client.list_nodes().nodes[0].state == pb.NODE_STATE_UP)
        spec = pb.JobSpec(argv=["/usr/bin/id", "-u"], cwd=str(work), size_min=1)
        job_id = client.submit(pb.SubmitRequest(spec=spec))
        output = work / f"wattfold-{job_id}.out"
        uid = f"{account().pw_uid}\n"
        wait_until("its output", lambda: output.exists() and output.read_text() == uid)
        (job,) = client.list_jobs([job_id], include_ended=True).jobs
        assert (job.user, job.access) == (account().pw_name, pb.JOB_ACCESS_OWN)


@pytest.mark.skipif(os.geteuid() != 0, reason="the token is of the coordinator's account")
def test_the_account_of_the_token_is_no_operator(tcp: tuple[str, Path]) -> None:
    with CoordinatorClient(tcp[0], TOKEN) as client:
        with pytest.raises(CliError, match="the budget is for operators: root; you are nobody"):
            client.set_budget(400_000_000, 0)
        assert client.power().budget_uw == 500_000_000


@pytest.mark.skipif(os.geteuid() != 0, reason="a coordinator of root")
def test_a_token_without_an_account_gives_nobody_a_job_of_root(tmp_path: Path) -> None:
    own = token_file(tmp_path, "token", TOKEN)
    listen = f"127.0.0.1:{free_port()}"
    arguments = ["--listen", listen, "--state-dir", str(tmp_path / "head"), "--budget-w", "500"]
    head = demo_site._start(
        "wattfold-coordinator", [*arguments, "--token-file", str(own)], tmp_path / "log", {}
    )
    try:
        demo_site._await_ready(head, "coordinator", tmp_path / "log")
        with (
            CoordinatorClient(listen, TOKEN) as client,
            pytest.raises(CliError, match="jobs of root are accepted only over the unix socket"),
        ):
            client.submit(pb.SubmitRequest(spec=pb.JobSpec(argv=["true"])))
    finally:
        head.terminate()
        assert head.wait(240) == 0
        assert head.stdout is not None
        head.stdout.close()


def test_an_account_that_there_is_not(tmp_path: Path) -> None:
    own = token_file(tmp_path, "token", TOKEN)
    arguments = ["--listen", "127.0.0.1:0", "--state-dir", str(tmp_path / "s"), "--budget-w", "500"]
    done = run_command(
        "wattfold-coordinator", *arguments, "--token-file", str(own), "--token-account", "no-such"
    )
    assert done.returncode == 2
    assert "token_account = 'no-such': this account does not exist on this host" in done.stderr


def test_a_coordinator_without_the_agents_token(tcp: tuple[str, Path], tmp_path: Path) -> None:
    log, listen = tmp_path / "log", f"unix:{tmp_path}/c.sock"
    agents = token_file(tmp_path, "agents", AGENT_TOKEN)
    node = f"127.0.0.1:{free_port()}"
    agent = demo_site._start("wattfold-agent", agent_flags(tmp_path, "t1", node, agents), log, {})
    arguments = ["--listen", listen, "--state-dir", str(tmp_path / "head"), "--budget-w", "500"]
    coordinator = None
    try:
        demo_site._await_ready(agent, "agent", log)
        coordinator = demo_site._start(
            "wattfold-coordinator", [*arguments, "--node", f"t1={node}"], log, {}
        )
        demo_site._await_ready(coordinator, "coordinator", log)
        with CoordinatorClient(listen) as client:
            wait_until("why", lambda: "token" in client.list_nodes().nodes[0].message)
            assert client.list_nodes().nodes[0].state == pb.NODE_STATE_CONNECTING
    finally:
        for process in filter(None, (coordinator, agent)):
            process.terminate()
            assert process.wait(240) == 0
            assert process.stdout is not None
            process.stdout.close()


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        (TOKEN, 0o644, "has mode 0644, so other accounts may access it; change the mode to 0600"),
        (TOKEN, 0o640, "has mode 0640"),
        ("short", 0o600, "5 characters; at least 16 are required"),
        ("", 0o600, "0 characters"),
    ],
)
@pytest.mark.parametrize("option", ["--token-file", "--agent-token-file"])
def test_a_bad_token_file(tmp_path: Path, option: str, text: str, mode: int, said: str) -> None:
    path = token_file(tmp_path, "token", text, mode)
    listen = "127.0.0.1:0" if option == "--token-file" else f"unix:{tmp_path}/c.sock"
    arguments = ["--listen", listen, "--state-dir", str(tmp_path / "s"), "--budget-w", "500"]
    done = run_command("wattfold-coordinator", *arguments, option, str(path))
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_agent_refuses_a_token_others_may_read(tmp_path: Path) -> None:
    path = token_file(tmp_path, "token", TOKEN, 0o644)
    done = run_command("wattfold-agent", *agent_flags(tmp_path, "x", "127.0.0.1:0", path))
    assert done.returncode == 2
    assert "can be read by others; chmod 600 it" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not os.path.exists(tmp_path / "x")
