"""Account, umask and limits with which an agent starts a job, and refused launches."""

from __future__ import annotations

import itertools
import os
import pwd
import resource

import grpc
import pytest
from system.agent.agent_process import AgentProcess
from system.agent.conftest import CPUS

from wattfold.v1 import common_pb2 as common

BOTH = ",".join(map(str, CPUS))
OWN = pwd.getpwuid(os.geteuid())
NUMBERS = itertools.count()
HARD = resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def refusal(node: AgentProcess, **fields: object) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        node.launch("x", ["/bin/true"], BOTH, **fields)
    return caught.value.code(), caught.value.details()


def told(node: AgentProcess, script: str, **fields: object) -> list[str]:
    job = f"j{next(NUMBERS)}"
    node.launch(job, ["/bin/sh", "-c", script], BOTH, **fields)
    assert node.ended(job).exit_code == 0
    return (node.work() / f"wattfold-{job}.out").read_text().split()


def test_an_agent_that_is_not_root_says_that_it_cannot(any_agent: AgentProcess) -> None:
    if any_agent.uid is None and os.geteuid() == 0:
        pytest.skip("this agent is root")
    code, text = refusal(any_agent, user="daemon", uid=pwd.getpwnam("daemon").pw_uid)
    assert code is grpc.StatusCode.PERMISSION_DENIED
    assert "'daemon': without root the agent starts only jobs of its own account" in text
    assert "run the agent as root" in text
    code, text = refusal(any_agent, user="root", uid=0)
    assert code is grpc.StatusCode.PERMISSION_DENIED


def test_an_account_with_another_number_here_is_refused(plain_agent: AgentProcess) -> None:
    code, text = refusal(plain_agent, user=OWN.pw_name, uid=OWN.pw_uid + 1)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert f"has uid {OWN.pw_uid} on this node and {OWN.pw_uid + 1} where" in text
    # Without a name, the number alone is used, and never the account of the agent.
    code, text = refusal(plain_agent, uid=3_999_999_999)
    assert "user with uid 3999999999 has no account on this node" in text
    assert not (plain_agent.work() / "wattfold-x.out").exists()


def test_umask_and_limits_are_those_of_the_shell(plain_agent: AgentProcess) -> None:
    limits = [common.ResourceLimit(name=n, soft=s) for n, s in (("nofile", 321), ("core", 0))]
    fields = {"user": OWN.pw_name, "uid": OWN.pw_uid, "umask": 0o077, "resource_limits": limits}
    assert told(plain_agent, "umask; ulimit -Sn; ulimit -Sc", **fields) == ["0077", "321", "0"]
    # As in earlier versions, without any of them.
    usual = str(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    assert told(plain_agent, "umask; ulimit -Sn") == ["0022", usual]


def test_no_limit_is_raised_beyond_the_hard_one(plain_agent: AgentProcess) -> None:
    for limit in (
        common.ResourceLimit(name="nofile"),
        common.ResourceLimit(name="nofile", soft=HARD + 1),
    ):
        found = told(plain_agent, "ulimit -Sn; ulimit -Hn", resource_limits=[limit])
        assert found == [str(HARD), str(HARD)]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"umask": 0o1000}, "umask 0o1000 is outside 0..0o777"),
        ({"resource_limits": [common.ResourceLimit(name="as")]}, "limit 'as' is not one of core"),
        ({"resource_limits": [common.ResourceLimit(name="core")] * 2}, "listed twice"),
    ],
)
def test_what_makes_no_sense_is_refused(
    plain_agent: AgentProcess, fields: dict[str, object], why: str
) -> None:
    code, text = refusal(plain_agent, **fields)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert why in text
