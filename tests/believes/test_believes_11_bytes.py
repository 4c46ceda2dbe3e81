"""Bytes outside of UTF-8 reach the program of a job unchanged; job names are of any script."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from system.site.conftest import start_site
from system.site.live_site import LiveSite, run_command
from unit.adapters.api_site import ApiSite
from unit.cli.command import Command
from unit.cli.conftest import address, fake, short_folder, wattfold
from unit.cli.fake_coordinator import FakeCoordinator

from wattfold.contract.ids import JobId
from wattfold.contract.os_text import is_os_text, os_bytes, os_text, shown_text, utf8_text
from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.coordinator.cli.shared.texts.native_text import message_text, native_text
from wattfold.coordinator.core.model.job import JobState
from wattfold.nodeagent.adapters.jobs.processes import Failure, refusal
from wattfold.nodeagent.adapters.wire import launch_order
from wattfold.nodeagent.core.errors import InvalidRequest
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import node_agent_pb2 as agent_pb

__all__ = ["address", "fake", "short_folder", "start_site", "wattfold"]

ODD = b"M\xfcller-\xff\xc3"
"""Latin-1, a byte of no encoding, and the first half of a character of UTF-8."""
NATIVE = os.fsdecode(ODD)
SHOWN = r"M\xfcller-\xff\xc3"


@given(st.binary().filter(lambda raw: b"\0" not in raw))
def test_every_text_of_the_kernel_comes_back(raw: bytes) -> None:
    text = os_text(raw)
    assert is_os_text(text)
    assert os_bytes(text) == raw
    assert message_text(native_text(text)) == text
    assert utf8_text(text).encode("utf-8", "surrogateescape") == raw
    assert json.loads(json.dumps(text)) == text


@pytest.mark.parametrize("text", ["a\0", "\0zz", "\x007f", "\0FF", "\0\0ff"])
def test_no_other_nul_is_let_through(text: str) -> None:
    assert not is_os_text(text)
    with pytest.raises(ValueError, match="NUL"):
        utf8_text(text)


def test_a_program_gets_the_bytes_of_the_shell(
    start_site: Callable[..., LiveSite], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = start_site(nodes=1)
    folder = tmp_path / NATIVE
    folder.mkdir()
    monkeypatch.setenv("OLDPWD", f"/home/{NATIVE}")
    monkeypatch.setenv(f"N{NATIVE}", f"v{NATIVE}")
    script = "cat /proc/$$/cmdline > argv; cat /proc/$$/environ > env; pwd"
    options = ["--wait", "--output", NATIVE, "--name", "Müller 米"]
    done = site.wattfold("submit", *options, "--", "sh", "-c", script, NATIVE, cwd=folder)
    assert (folder / "argv").read_bytes().split(b"\0")[3] == ODD
    env = (folder / "env").read_bytes().split(b"\0")
    assert {b"OLDPWD=/home/" + ODD, b"N" + ODD + b"=v" + ODD} <= set(env)
    assert (folder / NATIVE).read_bytes() == os.fsencode(folder) + b"\n"
    job_id = done.stdout.split()[0]
    spec = site.shown(job_id)["spec"]
    assert (spec["argv"][3], spec["name"]) == (SHOWN, "Müller 米")
    assert spec["stdout_path"] == SHOWN
    assert spec["cwd"].endswith(SHOWN)
    assert SHOWN in site.wattfold("show", job_id).stdout
    assert "Müller 米" in site.wattfold("queue", "--all").stdout
    lost = site.wattfold("submit", "--wait", "--no-check", "--app=x", f"./{NATIVE}", check=None)
    assert lost.returncode == 127
    assert SHOWN in site.wattfold("show", lost.stdout.split()[0]).stdout


def test_the_environment_is_printed_as_it_is(wattfold: Command, fake: FakeCoordinator) -> None:
    sent = wattfold("submit", "--hold", "--export=none", "--env", f"A={NATIVE}", "true")
    job_id = sent.stdout.strip()
    env = dict(fake.submissions[-1].spec.env)
    assert env["A"] == os_text(ODD)
    assert shown_text(env["A"]) == SHOWN
    assert b"A=" + ODD + b"\n" in wattfold("show", "--env", job_id).stdout_bytes
    assert wattfold.json("show", "--env", job_id)["env"]["A"] == SHOWN


def test_the_service_keeps_what_it_is_sent_and_refuses_another_nul(tmp_path: Path) -> None:
    async def go() -> None:
        async with ApiSite(tmp_path) as site, asyncio.timeout(240):

            async def submit(**fields: object) -> str:
                spec = pb.JobSpec(**{"argv": ["true"], **fields})
                answer = await site.stub.Submit(pb.SubmitRequest(spec=spec))
                return answer.job_id

            argv = ["./" + os_text(ODD), os_text(ODD)]
            job = site.core.state.jobs[await submit(argv=argv, app="x", cwd="/" + os_text(ODD))]
            assert (list(job.spec.argv), job.spec.name) == (argv, SHOWN)
            assert job.state is JobState.PENDING
            for fields in (
                {"argv": ["true", "a\0b"]},
                {"env": {"A": "\0"}},
                {"env": {"A\0": ""}},
                {"cwd": "/\0"},
                {"stdout_path": "\0"},
                {"snapshot_dir": "\0zz"},
                {"name": "a\nb"},
                {"name": "x" * 101},
            ):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await submit(**fields)
                assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT, fields

    asyncio.run(go())


def test_an_agent_refuses_another_nul_and_words_its_failures_in_utf8() -> None:
    order = agent_pb.LaunchRequest(
        job_id="j", argv=["a\0b"], cwd="/", cpus="0", mode=common_pb2.RESIZE_MODE_FIXED
    )
    with pytest.raises(InvalidRequest, match="NUL"):
        launch_order(order)
    del order.argv[:]
    order.argv.append(os_text(ODD))
    path = launch_order(order).argv[0]
    assert SHOWN in str(refusal(JobId("j"), Failure("execute", path, 2)))


def test_other_arguments_are_refused_in_a_line(wattfold: Command) -> None:
    for words in (["show", NATIVE], ["cancel", NATIVE], ["submit", "--name", NATIVE, "true"]):
        result = wattfold(*words)
        assert result.exit_code == ExitCode.USAGE
        assert "udcfc" in result.stderr
        assert result.stderr.count("\n") == 1


def test_a_certificate_shows_them(
    wattfold: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "c.json"
    words = ("--no-store", "--output", str(path), "--threads", "2", "--", "false", NATIVE)
    wattfold("certify", *words, env={"WATTFOLD_OMP_SHIM": "/bin/true"})
    assert json.loads(path.read_text())["certificate"]["argv"] == ["false", SHOWN]


@pytest.mark.cold_start
def test_terminals_in_other_encodings_show_every_name(
    address: str, fake: FakeCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.add(pb.Job(job_id="7", spec=pb.JobSpec(name="米"), state=pb.JOB_STATE_RUNNING))
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    shown = run_command("wattfold", "--coordinator", address, "queue")
    assert shown.returncode == 0, shown.stderr
    assert r"\u7c73" in shown.stdout
    listed = run_command("wattfold", "--coordinator", address, "queue", "--json")
    assert json.loads(listed.stdout)["jobs"][0]["spec"]["name"] == "米"
