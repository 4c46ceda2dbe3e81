"""CP-SAT for planners: a better plan from a child process, or the reason why there is none.

OR-Tools is an optional dependency, which only the child loads. If it is missing, late, out of
memory, crashed or without a result, the incumbent stays, and `CpSolver.outcome` gives the reason.
After `GIVEN_UP` crashes in a row no process is started any more.
"""

from __future__ import annotations

import enum
import functools
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from wattfold.coordinator.solvers.child import Child
from wattfold.coordinator.solvers.cp.calls import load, repaired, whole
from wattfold.coordinator.solvers.cp.limits import Answer, Limits, Repairs
from wattfold.coordinator.solvers.lists.feasibility import faults
from wattfold.coordinator.solvers.lists.problem import NodeSpread, QueuePlan, QueueProblem
from wattfold.coordinator.solvers.worker import Success, TimedOut

MEMORY_BYTES = 2 << 30
"""Memory of the process in addition to loading OR-Tools; OR-Tools' own limit is half of it."""
GRACE_S = 0.5
"""Time after its own limit at which an unfinished search is killed."""
START_S = 10.0
"""Additional time for the first call of a process, which loads OR-Tools."""
GIVEN_UP = 3
WHOLE_CONFLICTS, REPAIR_CONFLICTS = 100_000, 4_000
WHOLE_DETERMINISTIC, REPAIR_DETERMINISTIC = 0.005, 0.01
"""About a second for 100 jobs on 64 nodes, and a quarter of a second for all repairs of a plan."""


class CpOutcome(enum.Enum):
    """Result of a call of CP-SAT."""

    NOT_ASKED = "not asked"
    BETTER = "better"
    PROVEN = "proven"
    """The found plan, or the incumbent, is proven to be best."""
    NOTHING = "nothing better"
    UNKNOWN = "no plan found in time"
    LATE = "late"
    CRASHED = "crashed"
    MISSING = "OR-Tools is not installed"
    WRONG = "an invalid plan"


def installed() -> bool:
    """Whether OR-Tools is installed; it is not loaded."""
    return importlib.util.find_spec("ortools") is not None


@functools.cache
def _child(_process: int, memory_bytes: int) -> Child:
    """Return the child of this process, not of a forked parent. Shared, because loading is slow."""
    return Child(load, memory_bytes)


@dataclass(slots=True)
class CpSolver:
    """Call of CP-SAT in a child process, which all solvers of this process share."""

    deterministic: float = 0.0
    """Limit of a call in OR-Tools' deterministic time; 0 = the default."""
    repairs: Repairs = field(default_factory=Repairs)
    memory_bytes: int = MEMORY_BYTES
    outcome: CpOutcome = field(default=CpOutcome.NOT_ASKED, compare=False)
    """Result of the last call."""
    detail: str = field(default="", compare=False)
    """Description of a failure."""
    _crashes: int = field(default=0, compare=False)

    def whole(
        self, problem: QueueProblem, incumbent: QueuePlan, seed: int, limit_s: float, most: int = 0
    ) -> QueuePlan | None:
        """Solve the paper's model of all jobs; return a better plan or None.

        ``most``: maximum number of jobs in the model, as in `search.solve_whole`.
        """
        limits = self._limits(WHOLE_DETERMINISTIC, WHOLE_CONFLICTS, limit_s)
        return self._ask(problem, incumbent, limit_s, whole, seed, limits, most)

    def repaired(
        self, problem: QueueProblem, incumbent: QueuePlan, seed: int, limit_s: float
    ) -> QueuePlan | None:
        """Repair a few jobs at a time; return a better plan or None."""
        limits = self._limits(REPAIR_DETERMINISTIC, REPAIR_CONFLICTS, limit_s)
        return self._ask(problem, incumbent, limit_s, repaired, seed, limits, self.repairs)

    def _limits(self, deterministic: float, conflicts: int, limit_s: float) -> Limits:
        return Limits(
            deterministic=self.deterministic or deterministic,
            conflicts=conflicts,
            wall_s=limit_s,
            memory_mb=self.memory_bytes >> 21,
        )

    def _ask(
        self,
        problem: QueueProblem,
        incumbent: QueuePlan,
        limit_s: float,
        function: Callable[..., Answer],
        *arguments: object,
    ) -> QueuePlan | None:
        if not installed():
            self._failed(CpOutcome.MISSING, "install wattfold[cp]")
            return None
        if self._crashes >= GIVEN_UP:
            return None
        child = _child(os.getpid(), self.memory_bytes)
        grace_s = GRACE_S if child.running else START_S
        result = child.call(function, problem, incumbent, *arguments, deadline_s=limit_s + grace_s)
        if isinstance(result, TimedOut):
            self._failed(CpOutcome.LATE, f"{result.while_} after {result.deadline_s:g} s")
            return None
        if not isinstance(result, Success):
            self._crashes += 1
            self._failed(CpOutcome.CRASHED, result.reason)
            return None
        self._crashes = 0
        answer = result.value
        assert isinstance(answer, Answer)
        return self._judged(problem, answer)

    def _judged(self, problem: QueueProblem, answer: Answer) -> QueuePlan | None:
        self.detail = answer.status
        if answer.plan is not None:
            wrong = faults(problem, answer.plan)
            if wrong:
                self._failed(CpOutcome.WRONG, wrong[0])
                return None
        if answer.proven:
            self.outcome = CpOutcome.PROVEN
        elif answer.plan is not None:
            self.outcome = CpOutcome.BETTER
        else:
            known = answer.status in ("OPTIMAL", "FEASIBLE", "EMPTY")
            self.outcome = CpOutcome.NOTHING if known else CpOutcome.UNKNOWN
        return answer.plan

    def _failed(self, outcome: CpOutcome, detail: str) -> None:
        self.outcome, self.detail = outcome, detail


@dataclass(slots=True)
class CpRepair:
    """Repairs as an improver of plans (`problem.Improver`), for short queues.

    ``always``: also for problems that lists solve well, without units together, closed nodes or
    several caps.
    """

    most_waiting: int = 100
    """Maximum number of waiting jobs; with more it returns no plan."""
    always: bool = True
    solver: CpSolver = field(default_factory=CpSolver)

    @property
    def name(self) -> str:
        """``cp-repair``."""
        return "cp-repair"

    def improve(
        self, problem: QueueProblem, incumbent: QueuePlan, seed: int, limit_s: float
    ) -> QueuePlan | None:
        """Return a better plan, or None."""
        if len(problem.jobs) > self.most_waiting or not (self.always or _hard(problem)):
            return None
        return self.solver.repaired(problem, incumbent, seed, limit_s)


@dataclass(slots=True)
class CpWhole:
    """The paper's model as an improver of plans: for all jobs, or for the first of many."""

    most_jobs: int = 100
    solver: CpSolver = field(default_factory=CpSolver)

    @property
    def name(self) -> str:
        """``cp``."""
        return "cp"

    def improve(
        self, problem: QueueProblem, incumbent: QueuePlan, seed: int, limit_s: float
    ) -> QueuePlan | None:
        """Return a better plan, or None."""
        return self.solver.whole(problem, incumbent, seed, limit_s, self.most_jobs)


def _hard(problem: QueueProblem) -> bool:
    """Whether the problem has features that lists handle badly."""
    used = {job.shape for job in problem.jobs}
    shapes = (problem.shapes[shape] for shape in used)
    return any(len(job.options) > 1 for job in problem.jobs) or any(
        shape.closings or (shape.spread is NodeSpread.TOGETHER and shape.units > 1)
        for shape in shapes
    )
