"""Submissions of jobs and arrays, one at a time or many in one call."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import grpc

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.asking import asker
from wattfold.coordinator.adapters.door.ownership import JobRules, owned, scoped_key
from wattfold.coordinator.adapters.door.peers import Peer
from wattfold.coordinator.adapters.journal.journal import JournalError
from wattfold.coordinator.adapters.journal.launch_data import LaunchData
from wattfold.coordinator.adapters.requests.accounts import (
    SubmissionRates,
    accounted,
    check_limits,
)
from wattfold.coordinator.adapters.requests.array_requests import (
    check_array,
    submission,
    with_array_variables,
)
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError, due_ns
from wattfold.coordinator.adapters.requests.possible import check_possible
from wattfold.coordinator.adapters.requests.price_holds import held_back
from wattfold.coordinator.adapters.requests.queues import limits_in, queue_of, queued
from wattfold.coordinator.adapters.requests.reservations import check_reservation
from wattfold.coordinator.adapters.requests.start_conditions import (
    UnknownJobError,
    conditions_of,
)
from wattfold.coordinator.adapters.requests.submissions import (
    TimeLimits,
    fingerprint,
    job_spec,
    launch_data,
)
from wattfold.coordinator.adapters.service import Service, WithdrawnError
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import coordinator_pb2_grpc

if TYPE_CHECKING:
    from wattfold.coordinator.models.energy_price import EnergyPrice

WAITING_MAX = 100_000
MANY_MAX = 1_000
"""Maximum number of jobs in one call."""
CHECKED_AT_ONCE = 20
"""Number of jobs after which other tasks of the loop get their turn: about 5 ms."""


class RefusedError(Exception):
    """A submission is refused, with the code of the answer."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class _Checked:
    """A submission that could be accepted, as far as it does not depend on other submissions."""

    request: pb.SubmitRequest
    key: str
    spec: JobSpec
    launch: LaunchData


class SubmitRequests(coordinator_pb2_grpc.CoordinatorServicer):
    """The part of the coordinator's service that accepts jobs."""

    _service: Service
    _limits: TimeLimits
    _rules: JobRules
    _submitting: asyncio.Lock
    _rates: SubmissionRates
    _energy_price: EnergyPrice | None = None
    sends_mail = True
    """Whether the site has a program for mail about jobs."""

    @property
    def _state(self) -> State:
        return self._service.core.state

    def use_price(self, price: EnergyPrice | None) -> None:
        """Hold jobs of later submissions back by this price."""
        self._energy_price = price

    async def Submit(self, request: pb.SubmitRequest, context: Any) -> pb.SubmitResponse:
        """Accept a job or an array for the account of the caller."""
        try:
            checked = self._checked(request, asker())
            async with self._submitting:
                known = self._known(checked)
                if known:
                    return pb.SubmitResponse(job_id=known, warning=self._warning(request))
                event = self._event(checked, self._state.submissions + 1, others=0)
                await self._accept(event, checked.launch)
        except RefusedError as error:
            await _abort(context, error.code, str(error))
        return pb.SubmitResponse(job_id=event.job_id, warning=self._warning(request))

    def _warning(self, request: pb.SubmitRequest) -> str:
        """Return what the site cannot do for an accepted job."""
        if self.sends_mail or not request.spec.mail:
            return ""
        return "this site sends no mail about jobs: its configuration has no mail.program"

    async def SubmitMany(
        self, request: pb.SubmitManyRequest, context: Any
    ) -> pb.SubmitManyResponse:
        """Accept many jobs. Each of them is accepted or refused on its own."""
        if len(request.jobs) > MANY_MAX:
            text = f"{len(request.jobs)} jobs exceed the limit of {MANY_MAX} jobs in a call"
            await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, text)
        who, keys = asker(), set[str]()
        results = [pb.SubmitResult() for _ in request.jobs]
        waits: list[tuple[pb.SubmitResult, JobId, asyncio.Task[None]]] = []
        async with self._submitting:
            first = self._state.submissions + 1
            for count, (one, result) in enumerate(zip(request.jobs, results, strict=True)):
                if count % CHECKED_AT_ONCE == 0:
                    await asyncio.sleep(0)
                result.warning = self._warning(one)
                one.spec.env.update({k: v for k, v in request.env.items() if k not in one.spec.env})
                try:
                    checked = self._checked(one, who)
                    if checked.key and checked.key in keys:
                        text = "the same idempotency key is given twice in this call"
                        raise RefusedError(grpc.StatusCode.INVALID_ARGUMENT, text)
                    if known := self._known(checked):
                        result.job_id = known
                        continue
                    event = self._event(checked, first + len(waits), others=len(waits))
                except RefusedError as error:
                    result.error = str(error)
                    continue
                keys.add(checked.key)
                accepting = asyncio.create_task(self._accept(event, checked.launch))
                waits.append((result, event.job_id, accepting))
            # The events wait in one queue, in this order, and share transactions.
            await asyncio.gather(*(task for *_, task in waits), return_exceptions=True)
        for result, job_id, task in waits:
            failure = task.exception()
            if isinstance(failure, RefusedError):
                result.error = str(failure)
            elif failure is not None:
                raise failure
            else:
                result.job_id = job_id
        return pb.SubmitManyResponse(results=results)

    def _checked(self, request: pb.SubmitRequest, who: Peer) -> _Checked:
        state = self._state
        if state.manager.name:
            text = (
                "the jobs of this site belong to Slurm; submit with sbatch, salloc or srun "
                "(--wattfold=team lets Wattfold resize the job)"
            )
            raise RefusedError(grpc.StatusCode.FAILED_PRECONDITION, text)
        try:
            queue = queue_of(request.spec.queue, state.queues)
            spec = job_spec(request.spec, limits_in(queue, self._limits))
            spec = owned(queued(spec, queue), who, self._rules)
            spec = accounted(spec, request.spec.account, who, state)
            spec = replace(spec, due_ns=due_ns(request.spec, self._service.clock))
            check_array(request)
            launch = with_array_variables(launch_data(request.spec), request.array)
            nodes = [node.spec for node in state.nodes.values() if node.spec]
            features = {node.node_id: node.all_features for node in state.nodes.values()}
            check_possible(spec, nodes, features)
            check_limits(spec, state)
            check_reservation(spec, state, self._service.clock.now_ns())
        except InvalidRequestError as error:
            raise RefusedError(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from None
        key = scoped_key(request.idempotency_key, who)
        return _Checked(request, key, spec, launch)

    def _known(self, checked: _Checked) -> str:
        """Return the job of a repeated submission, empty if it is new. Raises RefusedError."""
        known = self._state.keys.get(checked.key)
        if not (checked.key and known):
            return ""
        asked = self._state.key_prints.get(checked.key)
        if asked and asked != fingerprint(checked.request):
            text = (
                f"the idempotency key was already used for job {known} with another command or "
                "size; use a new key for a new job"
            )
            raise RefusedError(grpc.StatusCode.ALREADY_EXISTS, text)
        return known

    def _event(
        self, checked: _Checked, number: int, *, others: int
    ) -> ev.JobSubmitted | ev.ArraySubmitted:
        """Return the event of a new job. Raises RefusedError.

        ``others`` is the number of jobs that are accepted but not handled yet.
        """
        if self._state.open_jobs + others >= WAITING_MAX:
            text = f"the limit of {WAITING_MAX} waiting and running jobs is reached"
            raise RefusedError(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        request = checked.request
        try:
            conditions = conditions_of(request, self._state, self._service.clock)
        except InvalidRequestError as error:
            unknown = isinstance(error, UnknownJobError)
            code = grpc.StatusCode.NOT_FOUND if unknown else grpc.StatusCode.INVALID_ARGUMENT
            raise RefusedError(code, str(error)) from None
        queue = self._state.queues.get(checked.spec.queue)
        clock = self._service.clock
        conditions = held_back(conditions, checked.spec, queue, self._energy_price, clock)
        refused = self._rates.refusal(checked.spec, self._state, clock.now_ns())
        if refused:
            raise RefusedError(grpc.StatusCode.RESOURCE_EXHAUSTED, refused)
        digest = fingerprint(request) if checked.key else ""
        job_id = JobId(str(number))
        return submission(request, job_id, checked.spec, checked.key, digest, conditions)

    async def _accept(self, event: ev.JobSubmitted | ev.ArraySubmitted, launch: LaunchData) -> None:
        try:
            await self._service.request(event, launch)
        except JournalError as error:
            text = f"not accepted because it could not be stored: {error}"
            raise RefusedError(grpc.StatusCode.RESOURCE_EXHAUSTED, text) from error
        except WithdrawnError as error:
            text = f"not accepted: {error}"
            raise RefusedError(grpc.StatusCode.INTERNAL, text) from error


async def _abort(context: Any, code: grpc.StatusCode, text: str) -> NoReturn:
    await context.abort(code, text)
    raise AssertionError("abort returned")
