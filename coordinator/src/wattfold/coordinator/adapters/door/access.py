"""Access rights: a table of calls with the users who may make them.

A call that is not in the table is for operators. For jobs of other accounts, a call for all users
shows only the fields that `ownership` declares public.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from wattfold.coordinator.adapters.asking import asker
from wattfold.coordinator.adapters.door.ownership import owner_name, owns
from wattfold.coordinator.adapters.door.peers import Peer, own_account
from wattfold.coordinator.core.rules.job_arrays.array_counts import spec_named
from wattfold.coordinator.core.state.state import State


class Right(enum.Enum):
    """The users who may make a call."""

    ANYBODY = "every user who can connect"
    OWNER = "the account of the job, and operators"
    ACCOUNT = "the account of the job alone"
    PROFILE = "operators; for learnt data also the account of all jobs of the application"
    OPERATOR = "operators"


RIGHTS = {
    "Submit": Right.ANYBODY,
    "SubmitMany": Right.ANYBODY,
    "ListJobs": Right.ANYBODY,
    "ListNodes": Right.ANYBODY,
    "ListProfiles": Right.ANYBODY,
    "ListQueues": Right.ANYBODY,
    "ListAccounts": Right.ANYBODY,
    "ListReservations": Right.ANYBODY,
    "ListAudit": Right.ANYBODY,  # Only operators get the entries of other users, see the handler.
    "GetPower": Right.ANYBODY,
    "ListHistory": Right.ANYBODY,
    "GetReport": Right.ANYBODY,  # Only operators get sums over the jobs of other accounts.
    "Watch": Right.ANYBODY,
    "Cancel": Right.OWNER,
    "Hold": Right.OWNER,
    "Release": Right.OWNER,
    "Requeue": Right.OWNER,
    "SuspendJob": Right.OWNER,
    "ResumeJob": Right.OWNER,
    "ResizeJob": Right.OWNER,
    "SignalJob": Right.OWNER,
    "OpenShell": Right.ACCOUNT,  # A shell of an operator would run under the account of the job.
    "ModifyJob": Right.OWNER,
    "Explain": Right.OWNER,
    "GetEnvironment": Right.OWNER,
    "DropProfile": Right.PROFILE,
}
"""All other calls are for operators."""
_DEEDS = {
    "Cancel": "cancel it",
    "Hold": "hold it",
    "Release": "release it",
    "Requeue": "requeue it",
    "SuspendJob": "suspend it",
    "ResumeJob": "resume it",
    "ResizeJob": "resize it",
    "SignalJob": "signal it",
    "OpenShell": "open a shell in it",
    "ModifyJob": "change it",
    "Explain": "explain it",
    "GetEnvironment": "see its environment",
}
_ORDERS = {
    "SetBudget": "the budget",
    "AnnounceBudget": "the budget",
    "CancelBudget": "the budget",
    "ScheduleBudgets": "the budget",
    "BeginEmergency": "an emergency",
    "EndEmergency": "an emergency",
    "DrainNode": "draining a node",
    "ResumeNode": "resuming a node",
    "LeaveNode": "releasing a node",
    "SleepNode": "suspending a node",
    "WakeNode": "starting a node",
    "DecideNodeSleep": "letting plans decide whether a node sleeps",
    "KeepNodesAwake": "keeping nodes awake",
    "ForgetNode": "removing a node from the ledger",
    "Reserve": "reserving nodes",
    "CancelReservation": "cancelling a reservation",
    "PutProfile": "storing a profile or a certificate for the jobs of all accounts",
    "DropProfile": "dropping a profile for the jobs of all accounts",
}


def right_of(action: str) -> Right:
    """Return the users who may make this call."""
    return RIGHTS.get(action, Right.OPERATOR)


def refusal(peer: Peer, action: str, request: Any, state: State, operators: str) -> str:
    """Return why an account may not make a call; empty if it may.

    ``operators`` is the name of the operators' group. The handler reports missing jobs.
    """
    right = right_of(action)
    if right is Right.ANYBODY or (peer.operator and right is not Right.ACCOUNT):
        return ""
    if right in (Right.OWNER, Right.ACCOUNT):
        spec = spec_named(state, request.job_id)
        if spec is None or owns(peer, spec):
            return ""
        whose = owner_name(spec)
        who = whose if right is Right.ACCOUNT else f"{whose} and operators"
        deed = _DEEDS.get(action, "do that")
        return f"job {request.job_id} belongs to {whose}; only {who} may {deed}"
    if right is Right.PROFILE and request.learnt_only and _alone(peer, request.app, state):
        return ""
    group = f", and members of the group {operators}" if operators else ""
    what = _ORDERS.get(action, action)
    own = own_account().account
    accounts = "root" if own == "root" else f"root and {own}"
    return f"{what} is for operators: {accounts}{group}; you are {peer.account}"


def _alone(peer: Peer, app: str, state: State) -> bool:
    """Whether an application has jobs and all of them belong to this account."""
    whose = [owns(peer, job.spec) for job in state.jobs.values() if job.spec.app == app]
    return bool(whose) and all(whose)


class Gate(grpc.aio.ServerInterceptor):
    """Refuses calls for which the caller lacks the right. Runs after the caller is identified."""

    def __init__(self, state: Callable[[], State], operators: str) -> None:
        self._state = state
        self._operators = operators

    async def intercept_service(self, continuation, details):  # type: ignore[no-untyped-def]
        """Return the handler of a call, preceded by the check of rights."""
        handler = await continuation(details)
        action = details.method.rpartition("/")[2]
        if handler is None or right_of(action) is Right.ANYBODY:
            return handler

        async def checked(request: Any, context: Any) -> Any:
            why = refusal(asker(), action, request, self._state(), self._operators)
            if why:
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, why)
            # A stream would need a check when it begins. All existing streams are open to all
            # users.
            assert handler.unary_unary is not None
            return await handler.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(
            checked,
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )
