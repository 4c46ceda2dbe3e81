"""Requests about ended jobs: `ListHistory` and `GetReport`."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, NoReturn

import grpc

from wattfold.coordinator.adapters.asking import asker
from wattfold.coordinator.adapters.door.peers import Peer
from wattfold.coordinator.adapters.history.desk import HistoryDesk, NoHistoryError
from wattfold.coordinator.adapters.history.questions import (
    BY,
    LIMIT_DEFAULT,
    SORTS,
    HistoryQuestion,
    ReportQuestion,
)
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import coordinator_pb2_grpc

CRITERIA_MAX = 1000
"""Maximum number of states or jobs in one request."""
_TIME_MAX_S = 1e11


class HistoryRequests(coordinator_pb2_grpc.CoordinatorServicer):
    """The part of the coordinator's service for ended jobs."""

    _history: HistoryDesk

    async def ListHistory(self, request: pb.ListHistoryRequest, context: Any) -> bytes:
        """Return ended jobs. Jobs of other accounts have only public fields."""
        if request.sort and request.sort not in SORTS:
            await _refuse(context, f"no order {request.sort!r}; choose one of {', '.join(SORTS)}")
        if max(len(request.states), len(request.job_ids)) > CRITERIA_MAX:
            await _refuse(context, f"more than {CRITERIA_MAX} states or jobs in one request")
        # An infinite time or NaN is within no range.
        if not all(abs(at_s) <= _TIME_MAX_S for at_s in (request.since_s, request.until_s)):
            await _refuse(
                context,
                f"since_s = {request.since_s:g} and until_s = {request.until_s:g} must be times "
                f"up to {_TIME_MAX_S:g} s",
            )
        question = history_question(request, asker())
        return await _answered(self._history.history(question), context)

    async def GetReport(self, request: pb.GetReportRequest, context: Any) -> bytes:
        """Return sums over ended jobs, for operators over the jobs of all accounts."""
        if request.by and request.by not in BY:
            await _refuse(context, f"no report by {request.by!r}; choose one of {', '.join(BY)}")
        who = asker()
        if request.user not in ("", who.account) and not who.operator:
            text = f"only operators may see a report about {request.user}"
            await _abort(context, grpc.StatusCode.PERMISSION_DENIED, text)
        question = report_question(request, who)
        return await _answered(self._history.report(question), context)


def history_question(request: pb.ListHistoryRequest, viewer: Peer) -> HistoryQuestion:
    """Return a checked request as a question of an account."""
    known = pb.JobState.values()
    return HistoryQuestion(
        viewer=viewer,
        since_ms=round(request.since_s * 1e3),
        until_ms=round(request.until_s * 1e3),
        user=request.user,
        app=request.app,
        queue=request.queue,
        account=request.account,
        node=request.node,
        states=tuple(_word(state) for state in request.states if state in known),
        job_ids=tuple(request.job_ids),
        mine=request.mine,
        limit=request.limit or LIMIT_DEFAULT,
        sort=request.sort or "end",
        ascending=request.ascending,
    )


def report_question(request: pb.GetReportRequest, viewer: Peer) -> ReportQuestion:
    """Return a checked request as a question of an account."""
    return ReportQuestion(
        viewer=viewer,
        by=request.by or BY[0],
        first_day=request.first_day,
        last_day=request.last_day,
        user=request.user,
    )


def _word(state: pb.JobState) -> str:
    return pb.JobState.Name(state).removeprefix("JOB_STATE_").lower().replace("_", "-")


async def _answered(answer: Awaitable[bytes], context: Any) -> bytes:
    try:
        return await answer
    except NoHistoryError as error:
        await _abort(context, grpc.StatusCode.UNAVAILABLE, str(error))


async def _refuse(context: Any, text: str) -> NoReturn:
    await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, text)


async def _abort(context: Any, code: grpc.StatusCode, text: str) -> NoReturn:
    await context.abort(code, text)
    raise AssertionError("abort returned")
