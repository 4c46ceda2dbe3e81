"""Ownership of jobs, and the fields that each account may see."""

from __future__ import annotations

from dataclasses import dataclass, replace

from google.protobuf.message import Message

from wattfold.coordinator.adapters.door.peers import (
    BY_SOCKET,
    Peer,
    account_of,
    name_of,
    own_account,
)
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError
from wattfold.coordinator.core.model.job import ATTEMPT_ENDED, RETRYING
from wattfold.coordinator.core.model.jobs.spec import UNKNOWN_UID, JobSpec
from wattfold.v1 import coordinator_pb2 as pb

PUBLIC = frozenset(
    {
        *("job_id", "user", "uid", "access", "state", "submitted_at_s", "started_at_s"),
        *("ended_at_s", "size", "cap_uw", "shares", "resizes", "done", "remaining_s", "over_s"),
        *("reason", "spec", "size_ordered", "next_size", "expected_start_at_s", "start_promised"),
        *("dram_cap_uw", "gpu_cap_uw", "array", "manager", "manager_job_id"),
    }
)
"""Fields of a job that all users who can connect may see."""
PUBLIC_OF_SPEC = frozenset(
    {
        *("kind", "unit", "size_min", "size_max", "time_ns", "limit_ns", "priority", "mode"),
        *("exclusive", "cap_uw", "dram_cap_uw", "gpu_cap_uw", "tasks_per_node", "sharing"),
        *("unit_cores", "spread"),
    }
)


def owns(peer: Peer, spec: JobSpec) -> bool:
    """Whether a job belongs to this account. Jobs without a stored UID are compared by name."""
    if not peer.known:
        return False
    if spec.uid == UNKNOWN_UID:
        return bool(spec.user) and peer.account == spec.user
    return peer.uid == spec.uid


def owner_name(spec: JobSpec) -> str:
    """Return the name of the job's owner."""
    return spec.user or (account_of(spec.uid) if spec.uid != UNKNOWN_UID else "the coordinator")


def access_of(peer: Peer, spec: JobSpec) -> pb.JobAccess:
    """Return the access of an account to a job."""
    if owns(peer, spec):
        return pb.JOB_ACCESS_OWN
    return pb.JOB_ACCESS_OPERATOR if peer.operator else pb.JOB_ACCESS_OTHER


def public(job: pb.Job) -> pb.Job:
    """Return the public part of a job."""
    shown = pb.Job()
    _copy(job, shown, PUBLIC)
    shown.ClearField("spec")
    _copy(job.spec, shown.spec, PUBLIC_OF_SPEC)
    if shown.reason.startswith((RETRYING, ATTEMPT_ENDED)):
        # The rest may come from an agent and may contain file names.
        shown.reason = shown.reason.partition(":")[0]
    return shown


def _copy(source: Message, target: Message, names: frozenset[str]) -> None:
    target.CopyFrom(source)
    for field in source.DESCRIPTOR.fields:
        if field.name not in names:
            target.ClearField(field.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRules:
    """Rules for accepting jobs."""

    root_jobs: bool = True


def owned(spec: JobSpec, peer: Peer, rules: JobRules) -> JobSpec:
    """Return a submission as a job of the caller. Raises InvalidRequestError if it is refused."""
    if peer.uid == 0 and peer.address != BY_SOCKET:
        raise InvalidRequestError(
            "jobs of root are accepted only over the unix socket; set another account for "
            "the token (token_account of the coordinator)"
        )
    if peer.uid == 0 and not rules.root_jobs:
        raise InvalidRequestError(
            "jobs of root are not accepted here; submit the job from the account that "
            "should run it, or set root_jobs = true in the configuration of the coordinator"
        )
    name = name_of(peer.uid)
    if not name and peer.uid != own_account().uid:
        raise InvalidRequestError(
            f"your account, number {peer.uid}, has no name on the host of the coordinator; "
            "jobs run under accounts that the nodes know by name"
        )
    return replace(spec, user=name, uid=peer.uid)


def scoped_key(key: str, peer: Peer) -> str:
    """Return an idempotency key as it is stored, so that accounts do not share keys."""
    return key if not key or peer.uid == own_account().uid else f"{peer.uid}:{key}"
