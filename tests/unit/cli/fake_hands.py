"""The part of the coordinator in memory for jobs that run: suspended, signalled and changed."""

from __future__ import annotations

import threading

import grpc

from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import coordinator_pb2_grpc as pb_grpc


class FakeHands(pb_grpc.CoordinatorServicer):
    """Requests about one job; `signals` and `modifications` are those that arrived.

    `accounts` are its answer to ListAccounts.
    """

    changed: threading.Condition

    def __init__(self) -> None:
        self.signals: list[pb.SignalJobRequest] = []
        self.modifications: list[pb.ModifyJobRequest] = []
        self.accounts: list[pb.Account] = []

    def _enter(self, method: str, context: grpc.ServicerContext) -> None:
        raise NotImplementedError

    def _job(self, job_id: str, context: grpc.ServicerContext) -> pb.Job:
        raise NotImplementedError

    def SuspendJob(self, request, context):  # noqa: N802
        self._enter("SuspendJob", context)
        with self.changed:
            self._job(request.job_id, context).state = pb.JOB_STATE_SUSPENDED
            return pb.SuspendJobResponse()

    def ResumeJob(self, request, context):  # noqa: N802
        self._enter("ResumeJob", context)
        with self.changed:
            self._job(request.job_id, context).state = pb.JOB_STATE_RUNNING
            return pb.ResumeJobResponse()

    def SignalJob(self, request, context):  # noqa: N802
        self._enter("SignalJob", context)
        with self.changed:
            self._job(request.job_id, context)
            self.signals.append(request)
            return pb.SignalJobResponse(node_ids=["n1"])

    def ModifyJob(self, request, context):  # noqa: N802
        self._enter("ModifyJob", context)
        with self.changed:
            self._job(request.job_id, context)
            same = request in self.modifications
            self.modifications.append(request)
            change = pb.JobChange(field="time limit", before="none", after="60 s")
            return pb.ModifyJobResponse(changes=[] if same else [change])

    def ListAccounts(self, request, context):  # noqa: N802
        self._enter("ListAccounts", context)
        return pb.ListAccountsResponse(accounts=self.accounts)

    def ListQueues(self, request, context):  # noqa: N802
        self._enter("ListQueues", context)
        return pb.ListQueuesResponse()
