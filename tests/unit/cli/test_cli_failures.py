"""Expected failures end with one line and the right exit code, without a traceback."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner
from unit.cli.command import Command
from unit.cli.fake_coordinator import FakeCoordinator, serve, socket_address

from wattfold.coordinator.cli.main import cli
from wattfold.coordinator.cli.shared.exit_codes import ExitCode


@pytest.mark.parametrize(
    "arguments",
    [
        ("queue",),
        ("nodes",),
        ("power",),
        ("budget", "set", "5"),
        ("submit", "true"),
        ("cancel", "a", "b"),
        ("watch", "--count", "1"),
        ("profile", "true"),
        ("profiles",),
    ],
)
def test_no_coordinator(short_folder: Path, arguments: tuple[str, ...]) -> None:
    address = socket_address(short_folder)
    result = Command(address)(*arguments)
    assert result.exit_code == ExitCode.UNREACHABLE
    assert result.stdout == ""
    assert result.stderr == (
        f"wattfold: no coordinator at {address} (no such file or directory); start it with "
        "`wattfold-coordinator`, or give another address with --coordinator ADDRESS\n"
    )


@pytest.mark.parametrize(
    ("status", "exit_code", "message"),
    [
        (grpc.StatusCode.NOT_FOUND, 4, "said so"),
        (grpc.StatusCode.INVALID_ARGUMENT, 1, "said so"),
        (grpc.StatusCode.FAILED_PRECONDITION, 1, "said so"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, 1, "said so"),
        (grpc.StatusCode.PERMISSION_DENIED, 1, "not permitted: said so"),
        (grpc.StatusCode.UNAUTHENTICATED, 1, "--token-file FILE"),
        (grpc.StatusCode.UNIMPLEMENTED, 1, "older than this command"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, 9, "did not answer within 10 s"),
        (grpc.StatusCode.UNAVAILABLE, 3, "(said so); the request may have been carried out"),
        (grpc.StatusCode.INTERNAL, 1, "failed: said so (INTERNAL)"),
    ],
)
def test_statuses(
    wattfold: Command,
    fake: FakeCoordinator,
    status: grpc.StatusCode,
    exit_code: int,
    message: str,
) -> None:
    fake.fail = lambda method: (status, "said\nso")
    result = wattfold("power")
    assert result.exit_code == exit_code
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_token_of_the_file_is_sent(short_folder: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    address = socket_address(short_folder)
    server = serve(FakeCoordinator(token="s3cret"), address)
    try:
        refused = Command(address)("power")
        assert refused.exit_code == 1
        assert "requires a token" in refused.stderr
        assert Command(address)("--token-file", str(token), "power").exit_code == 0
        assert Command(address)("power", env={"WATTFOLD_TOKEN_FILE": str(token)}).exit_code == 0
    finally:
        server.stop(grace=None).wait(5)


@pytest.mark.parametrize("content", [None, "", "\n", "a\x01b"])
def test_a_file_without_a_token(wattfold: Command, tmp_path: Path, content: str | None) -> None:
    token = tmp_path / "token"
    if content is not None:
        token.write_text(content)
    result = wattfold("--token-file", str(token), "power")
    assert result.exit_code == 2
    assert str(token) in result.stderr


@pytest.mark.parametrize(
    "arguments", [("nope",), ("queue", "--nope"), ("--coordinator", "x", "queue"), ("show",)]
)
def test_usage_is_one_line(arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == ExitCode.USAGE
    assert result.stderr.startswith("wattfold: ")
    assert result.stderr.count("\n") == 1


def test_help_and_version() -> None:
    runner = CliRunner()
    assert runner.invoke(cli, ["--help"]).exit_code == 0
    assert "wattfold, version" in runner.invoke(cli, ["--version"]).stdout
    nothing = runner.invoke(cli, [])
    assert nothing.exit_code == ExitCode.USAGE
    assert "submit" in nothing.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    result = CliRunner().invoke(cli, ["completion", shell])
    assert result.exit_code == 0
    assert f"_WATTFOLD_COMPLETE={shell}_complete" in result.stdout


def test_the_address_of_the_environment(address: str) -> None:
    result = CliRunner().invoke(cli, ["power"], env={"WATTFOLD_COORDINATOR": address})
    assert result.exit_code == 0
