"""Access rules of every call, owners of jobs, and the fields of a job that other users see."""

from __future__ import annotations

import json
import os
import pwd
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit.core.stage import job_spec

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.contract.soft_limits import SoftLimit
from wattfold.coordinator.adapters.agents.launch_messages import launch_request
from wattfold.coordinator.adapters.config.settings import load
from wattfold.coordinator.adapters.config.values import ConfigError
from wattfold.coordinator.adapters.door.access import refusal, right_of
from wattfold.coordinator.adapters.door.access_settings import (
    AccessError,
    AccessSettings,
    check_folders,
    looked_up,
)
from wattfold.coordinator.adapters.door.ownership import (
    PUBLIC,
    PUBLIC_OF_SPEC,
    JobRules,
    access_of,
    owned,
    owns,
    public,
    scoped_key,
)
from wattfold.coordinator.adapters.door.peer_door import Entrance
from wattfold.coordinator.adapters.door.peers import BY_SOCKET, NOBODY, Peer, own_end, peer_of
from wattfold.coordinator.adapters.journal import launch_data
from wattfold.coordinator.adapters.journal.codec import dump_event, load_event
from wattfold.coordinator.adapters.journal.launch_data import LaunchData
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.jobs.spec import UNKNOWN_UID, JobSpec
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

METHODS = {m.name: m for m in pb.DESCRIPTOR.services_by_name["Coordinator"].methods}
ADA = Peer(uid=1001, account="ada", address=BY_SOCKET)
EVE = Peer(uid=1002, account="eve", address=BY_SOCKET)
ROOT = Peer(uid=0, account="root", address=BY_SOCKET)
OWN = Peer(uid=os.geteuid(), account="own", address=BY_SOCKET)
MEMBER = replace(EVE, in_group=True)
OPERATORS = (ROOT, OWN, MEMBER)

ANYBODY = {
    *(
        "Submit",
        "SubmitMany",
        "ListJobs",
        "ListNodes",
        "ListProfiles",
        "ListAudit",
        "ListQueues",
        "ListAccounts",
        "GetPower",
    ),
    "ListReservations",
}
ANYBODY |= {"Watch", "ListHistory", "GetReport"}
OWNERS = {"Cancel", "Hold", "Release", "Explain", "GetEnvironment"}
OWNERS |= {"Requeue", "SuspendJob", "ResumeJob", "ResizeJob", "SignalJob", "ModifyJob"}
ACCOUNTS = {"OpenShell"}


def spec_of(peer: Peer, **fields: Any) -> JobSpec:
    return replace(job_spec(), user=peer.account, uid=peer.uid, **fields)


def core(*specs: JobSpec) -> CoordinatorCore:
    found = CoordinatorCore(1)
    for number, spec in enumerate(specs, 1):
        found.handle(ev.JobSubmitted(job_id=JobId(str(number)), spec=spec), 1)
    return found


def request_of(name: str, **fields: Any) -> Any:
    message = getattr(pb, METHODS[name].input_type.name)
    known = message.DESCRIPTOR.fields_by_name
    return message(**{key: value for key, value in fields.items() if key in known})


def asked(peer: Peer, name: str, *specs: JobSpec, **fields: Any) -> str:
    request = request_of(name, **{"job_id": "1", **fields})
    return refusal(peer, name, request, core(*specs).state, "staff")


# Calls.


@pytest.mark.parametrize("name", sorted(METHODS))
def test_who_may_make_a_call(name: str) -> None:
    spec = spec_of(ADA)
    for peer in OPERATORS:
        assert (asked(peer, name, spec) == "") == (name not in ACCOUNTS)
    assert (asked(ADA, name, spec) == "") == (name in ANYBODY | OWNERS | ACCOUNTS)
    assert (asked(EVE, name, spec) == "") == (name in ANYBODY)
    assert (asked(NOBODY, name, spec) == "") == (name in ANYBODY)


def test_a_call_that_nobody_has_thought_of_is_for_operators() -> None:
    assert right_of("DeleteEverything") is right_of("SetBudget")
    assert "DeleteEverything is for operators" in refusal(
        ADA, "DeleteEverything", pb.WatchRequest(), core().state, ""
    )


def test_a_refusal_says_whose_it_is_and_who_may() -> None:
    assert asked(EVE, "Cancel", spec_of(ADA)) == (
        "job 1 belongs to ada; only ada and operators may cancel it"
    )
    assert "and members of the group staff; you are eve" in asked(EVE, "SetBudget")


def test_of_a_job_that_there_is_not_the_handler_tells() -> None:
    assert asked(EVE, "Cancel") == ""


def test_what_was_learnt_may_be_dropped_by_who_alone_has_jobs_of_it() -> None:
    drop = {"app": "md", "learnt_only": True}
    own, other = spec_of(ADA, app="md"), spec_of(EVE, app="md")
    assert asked(ADA, "DropProfile", own, **drop) == ""
    assert asked(ADA, "DropProfile", own, spec_of(EVE, app="fem"), **drop) == ""
    assert asked(ADA, "DropProfile", own, other, **drop) != ""
    assert asked(ADA, "DropProfile", **drop) != ""
    assert asked(ADA, "DropProfile", own, app="md") != ""


# Jobs.


def test_a_job_is_of_the_account_with_its_number() -> None:
    spec = spec_of(ADA)
    assert owns(ADA, spec)
    assert not owns(replace(EVE, account="ada"), spec)
    assert owns(replace(ADA, account="renamed"), spec)
    assert not owns(NOBODY, spec)


def test_a_job_of_before_is_of_the_account_with_its_name() -> None:
    spec = replace(job_spec(), user="ada")
    assert spec.uid == UNKNOWN_UID
    assert owns(ADA, spec)
    assert not owns(EVE, spec)
    assert not owns(NOBODY, replace(spec, user=""))
    assert access_of(MEMBER, spec) == pb.JOB_ACCESS_OPERATOR


def test_journals_of_before_have_no_numbers() -> None:
    kind, body = dump_event(ev.JobSubmitted(job_id=JobId("1"), spec=spec_of(ADA)))
    assert '"uid": 1001' in body
    before = load_event(kind, body.replace('"uid": 1001', '"mode_source": ""'))
    assert isinstance(before, ev.JobSubmitted)
    assert (before.spec.user, before.spec.uid) == ("ada", UNKNOWN_UID)


def test_a_submission_is_of_who_asks() -> None:
    nobody = pwd.getpwnam("nobody")
    peer = Peer(uid=nobody.pw_uid, account="whatever", address=BY_SOCKET)
    spec = owned(replace(job_spec(), user="root", uid=0), peer, JobRules())
    assert (spec.user, spec.uid) == ("nobody", nobody.pw_uid)


@pytest.mark.parametrize(
    ("peer", "rules", "why"),
    [
        (ROOT, JobRules(root_jobs=False), "jobs of root are not accepted here"),
        (replace(ROOT, address="ipv4:1.2.3.4:5"), JobRules(), "only over the unix socket"),
        (Peer(uid=4_000_000_000, account="4000000000", address=BY_SOCKET), JobRules(), "no name"),
    ],
)
def test_whose_jobs_are_not_taken(peer: Peer, rules: JobRules, why: str) -> None:
    with pytest.raises(InvalidRequestError, match=why):
        owned(job_spec(), peer, rules)


def test_root_has_jobs_where_it_asks_by_the_socket() -> None:
    assert owned(job_spec(), ROOT, JobRules()).uid == 0


def test_keys_are_those_of_an_account() -> None:
    assert scoped_key("k", ADA) != scoped_key("k", EVE)
    assert scoped_key("k", OWN) == "k"
    assert scoped_key("", ADA) == ""


# Fields of jobs of other users.


@pytest.mark.parametrize("attempt", ["start", "resize", "suspend or resume"])
def test_of_others_jobs_no_text_is_shown_but_whose_and_why(attempt: str) -> None:
    job = pb.Job()
    for field in pb.Job.DESCRIPTOR.fields:
        if field.type == field.TYPE_STRING and not field.is_repeated:
            setattr(job, field.name, "SECRET")
    for field in pb.JobSpec.DESCRIPTOR.fields:
        if field.type == field.TYPE_STRING and not field.is_repeated:
            setattr(job.spec, field.name, "SECRET")
    job.spec.argv.append("SECRET")
    job.spec.env["K"] = "SECRET"
    job.processors.add(pid=4711)
    job.shares.add(node_id="n0", cpus="0-1")
    job.job_id, job.user, job.uid = "7", "ada", 0
    job.manager, job.manager_job_id = "slurm", "12_3"
    job.reason = f"retrying to {attempt}: cannot open /SECRET"
    job.spec.size_min = 3
    shown = public(job)
    assert "SECRET" not in str(shown)
    assert shown.reason == f"retrying to {attempt}"
    assert (shown.job_id, shown.user, shown.uid, shown.spec.size_min) == ("7", "ada", 0, 3)
    assert shown.HasField("uid")
    assert shown.shares[0].node_id == "n0"
    assert not shown.processors


def test_what_is_public_is_there() -> None:
    assert set(pb.Job.DESCRIPTOR.fields_by_name) >= PUBLIC
    assert set(pb.JobSpec.DESCRIPTOR.fields_by_name) >= PUBLIC_OF_SPEC


# Data needed only at the start of a job.


def test_the_shell_goes_with_the_environment() -> None:
    limits = (SoftLimit(name="nofile", soft=7), SoftLimit(name="core"))
    data = LaunchData(env=(("A", "1"),), umask=0o027, limits=limits)
    assert launch_data.load(launch_data.dump(data)) == data
    action = act.Launch(
        node_id=NodeId("n0"),
        job_id=JobId("1"),
        spec=spec_of(ADA),
        cpus=CpuSet.parse("0"),
        launch_cpus=1,
        rank=0,
        ranks=1,
        request_id="r",
        cause="",
    )
    request = launch_request(action, common_pb2.CommandHeader(), data)
    assert (request.user, request.uid, request.umask) == ("ada", 1001, 0o027)
    assert [(m.name, m.HasField("soft"), m.soft) for m in request.resource_limits] == [
        ("nofile", True, 7),
        ("core", False, 0),
    ]
    before = replace(action, spec=replace(job_spec(), user="ada"))
    assert not launch_request(before, common_pb2.CommandHeader(), data).HasField("uid")


@pytest.mark.parametrize("env", [{}, {"A": "1"}, {"env": "x"}, {"umask": "1", "env": "{}"}])
def test_launch_data_of_before_were_variables_alone(env: dict[str, str]) -> None:
    assert launch_data.load(json.dumps(env)) == LaunchData(env=tuple(sorted(env.items())))


# Settings.


def test_who_is_an_operator() -> None:
    assert [peer.operator for peer in (ADA, EVE, NOBODY, *OPERATORS)] == [False] * 3 + [True] * 3
    assert not replace(NOBODY, in_group=True).operator
    given = own_end(1002, "key", 5, in_group=True).replace("\0", "unix-abstract:")
    assert peer_of(given, "key").operator
    assert not peer_of(given.removesuffix("-g"), "key").operator
    assert peer_of("ipv4:127.0.0.1:9", "", ADA) == replace(ADA, address="ipv4:127.0.0.1:9")


def test_accounts_and_groups_are_looked_up() -> None:
    found = looked_up(
        AccessSettings(
            socket_mode="0660", socket_group="daemon", operators="nogroup", token_account="nobody"
        )
    )
    assert (found.entrance.mode, found.entrance.gid) == (0o660, 1)
    assert found.token.in_group
    assert found.rules.root_jobs == (os.geteuid() == 0)
    assert not looked_up(AccessSettings(root_jobs=False)).rules.root_jobs
    assert not looked_up(AccessSettings(token_account="nobody")).token.in_group
    for wrong in ("socket_group", "operators", "token_account"):
        with pytest.raises(AccessError, match=f"{wrong} = 'no-such'"):
            looked_up(AccessSettings(**{wrong: "no-such"}))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('socket_mode = "0777"', "choose one of 0600, 0660, 0666"),
        ("socket_mode = 438", "is not a string"),
        ('socket_group = "staff"', 'needs socket_mode = "0660"'),
        ('root_jobs = "no"', "is not true or false"),
        ("root_jobs = 1", "is not true or false"),
    ],
)
def test_settings_that_make_no_sense(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(ConfigError, match=why):
        load(tmp_path / "c.toml", {})


def test_settings_are_read(tmp_path: Path) -> None:
    text = 'socket_mode = "0660"\nsocket_group = "a"\noperators = "b"\nroot_jobs = false\n'
    (tmp_path / "c.toml").write_text(text + 'token_account = "c"\n')
    assert load(tmp_path / "c.toml", {}).access == AccessSettings(
        socket_mode="0660", socket_group="a", operators="b", token_account="c", root_jobs=False
    )


def test_a_socket_that_others_cannot_get_to_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o700)
    check_folders(folder / "c.sock", Entrance())
    with pytest.raises(AccessError, match="closed"):
        check_folders(folder / "c.sock", Entrance(mode=0o666))
    folder.chmod(0o710)
    with pytest.raises(AccessError):
        check_folders(folder / "c.sock", Entrance(mode=0o660, gid=folder.stat().st_gid + 1))
