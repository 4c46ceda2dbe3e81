"""The part of the coordinator in memory for the power and its budgets."""

from __future__ import annotations

import grpc

from wattfold.v1 import coordinator_pb2 as pb

NOW_S = 1_700_000_000.0
W = 1_000_000


class FakeBudgets:
    """Refuses budgets below the floor, and announces all others."""

    power: pb.Power

    def GetPower(self, request, context):  # noqa: N802
        self._enter("GetPower", context)
        return self.power

    def SetBudget(self, request, context):  # noqa: N802
        self._enter("SetBudget", context)
        if request.budget_uw < self.power.floor_uw:
            context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"budget {request.budget_uw / W:g} W is below the floor of "
                f"{self.power.floor_uw / W:g} W; ask for more, or take nodes out",
            )
        if request.budget_uw < self.power.committed_uw:
            self.power.pending_budget_uw = request.budget_uw
            self.power.pending_deadline_s = NOW_S + (request.deadline_ns or 10**10) / 1e9
        else:
            self.power.budget_uw = request.budget_uw
        return pb.SetBudgetResponse(power=self.power)

    def BeginEmergency(self, request, context):  # noqa: N802
        self._enter("BeginEmergency", context)
        limit_uw = request.limit_uw or int(request.limit_share * self.power.budget_uw)
        answer = pb.BeginEmergencyResponse(
            limit_uw=limit_uw,
            committed_uw=self.power.committed_uw,
            short_uw=max(self.power.floor_uw - limit_uw, 0),
            protected_job_ids=["3"],
            steps=[
                pb.EmergencyStep(name="caps", within_ns=3 * 10**9, committed_uw=100 * W),
                pb.EmergencyStep(
                    name="suspend",
                    within_ns=2 * 10**9,
                    committed_uw=100 * W,
                    job_ids=map(str, range(20, 36)),
                ),
            ],
        )
        if not request.dry_run:
            self.power.emergency.CopyFrom(
                pb.Emergency(
                    limit_uw=limit_uw,
                    since_s=NOW_S,
                    short_uw=answer.short_uw,
                    suspended_jobs=16,
                    over_uw=answer.short_uw,
                )
            )
        return answer

    def EndEmergency(self, request, context):  # noqa: N802
        self._enter("EndEmergency", context)
        if not self.power.HasField("emergency"):
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no emergency is in force")
        self.power.ClearField("emergency")
        return pb.EndEmergencyResponse(power=self.power)

    def AnnounceBudget(self, request, context):  # noqa: N802
        self._enter("AnnounceBudget", context)
        if request.budget_uw < self.power.floor_uw:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "below the least")
        falls = request.budget_uw < self.power.budget_uw
        made = pb.AnnouncedBudget(
            number=len(self.power.announced) + 1,
            at_s=request.at_s,
            budget_uw=request.budget_uw,
            from_s=request.at_s - (20 if falls else 0),
        )
        self.power.announced.append(made)
        return pb.AnnounceBudgetResponse(announced=made)

    def CancelBudget(self, request, context):  # noqa: N802
        self._enter("CancelBudget", context)
        for one in list(self.power.announced):
            if one.number == request.number:
                self.power.announced.remove(one)
                return pb.CancelBudgetResponse(cancelled=one)
        return context.abort(grpc.StatusCode.NOT_FOUND, f"no budget by the number {request.number}")

    def ScheduleBudgets(self, request, context):  # noqa: N802
        self._enter("ScheduleBudgets", context)
        self.scheduled = request
        before = [one for one in self.power.announced if one.schedule == request.name]
        answer = pb.ScheduleBudgetsResponse(minimum_uw=self.power.floor_uw)
        for one in request.budgets:
            made = pb.AnnouncedBudget(
                at_s=one.at_s, budget_uw=one.budget_uw, from_s=one.at_s, schedule=request.name
            )
            if one.budget_uw < self.power.floor_uw:
                made.obstacle = "below the least"
                answer.refused.append(made)
            else:
                answer.announced.append(made)
        answer.cancelled.extend(before)
        if request.dry_run:
            return answer
        if answer.refused:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "below the least")
        for one in before:
            self.power.announced.remove(one)
        for number, one in enumerate(answer.announced, 101):
            one.number = number
        self.power.announced.extend(answer.announced)
        return answer
