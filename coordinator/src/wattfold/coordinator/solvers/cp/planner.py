"""CP-SAT for planners: a better plan out of a child process, or why there is none.

OR-Tools is an extra and is loaded by the child alone. Whatever happens there (missing, late, out of
memory, crashed, nothing found) the incumbent stays, and `CpSolver.outcome` names what happened.
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
from wattfold.coordinator.solvers.lists.problem import Plan, Problem, Spread
from wattfold.coordinator.solvers.worker import Success, TimedOut

MEMORY_BYTES = 2 << 30
"""Beyond what the process has when OR-Tools is loaded; OR-Tools itself is told half of it."""
GRACE_S = 0.5
"""After its own limit a search that has not come back is killed."""
START_S = 10.0
"""For the first call of a process, which loads OR-Tools."""
GIVEN_UP = 3
WHOLE_CONFLICTS, REPAIR_CONFLICTS = 100_000, 4_000
WHOLE_DETERMINISTIC, REPAIR_DETERMINISTIC = 0.005, 0.01
"""About a second for a hundred jobs on 64 nodes, and a quarter of one for all repairs of a plan."""


class Outcome(enum.Enum):
    """What came of asking CP-SAT."""

    NOT_ASKED = "not asked"
    BETTER = "better"
    PROVEN = "proven"
    """Nothing better exists than the plan that was found, or than the incumbent."""
    NOTHING = "nothing better"
    UNKNOWN = "no plan found in time"
    LATE = "late"
    CRASHED = "crashed"
    MISSING = "OR-Tools is not installed"
    WRONG = "an invalid plan"


def installed() -> bool:
    """Whether OR-Tools is there; it is not loaded."""
    return importlib.util.find_spec("ortools") is not None


@functools.cache
def _child(_process: int, memory_bytes: int) -> Child:
    """One for all who ask: it takes a second to load OR-Tools. Not that of a forked process."""
    return Child(load, memory_bytes)


@dataclass(slots=True)
class CpSolver:
    """Asks CP-SAT in a child process, which all solvers of this process share."""

    deterministic: float = 0.0
    """Limit of a call in OR-Tools' deterministic time; 0 = the usual one."""
    repairs: Repairs = field(default_factory=Repairs)
    memory_bytes: int = MEMORY_BYTES
    outcome: Outcome = field(default=Outcome.NOT_ASKED, compare=False)
    """Of the last call."""
    detail: str = field(default="", compare=False)
    """What a failure said."""
    _crashes: int = field(default=0, compare=False)

    def whole(
        self, problem: Problem, incumbent: Plan, seed: int, limit_s: float, most: int = 0
    ) -> Plan | None:
        """The paper's model of all jobs; a better plan or None.

        ``most``: of so many jobs at most, as in `search.solve_whole`, and better for them.
        """
        limits = self._limits(WHOLE_DETERMINISTIC, WHOLE_CONFLICTS, limit_s)
        return self._ask(problem, incumbent, limit_s, whole, seed, limits, most)

    def repaired(self, problem: Problem, incumbent: Plan, seed: int, limit_s: float) -> Plan | None:
        """A few jobs at a time; a better plan or None."""
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
        problem: Problem,
        incumbent: Plan,
        limit_s: float,
        function: Callable[..., Answer],
        *arguments: object,
    ) -> Plan | None:
        if not installed():
            self._failed(Outcome.MISSING, "install wattfold[cp]")
            return None
        if self._crashes >= GIVEN_UP:
            return None
        child = _child(os.getpid(), self.memory_bytes)
        grace_s = GRACE_S if child.running else START_S
        result = child.call(function, problem, incumbent, *arguments, deadline_s=limit_s + grace_s)
        if isinstance(result, TimedOut):
            self._failed(Outcome.LATE, f"{result.while_} after {result.deadline_s:g} s")
            return None
        if not isinstance(result, Success):
            self._crashes += 1
            self._failed(Outcome.CRASHED, result.reason)
            return None
        self._crashes = 0
        answer = result.value
        assert isinstance(answer, Answer)
        return self._judged(problem, answer)

    def _judged(self, problem: Problem, answer: Answer) -> Plan | None:
        self.detail = answer.status
        if answer.plan is not None:
            wrong = faults(problem, answer.plan)
            if wrong:
                self._failed(Outcome.WRONG, wrong[0])
                return None
        if answer.proven:
            self.outcome = Outcome.PROVEN
        elif answer.plan is not None:
            self.outcome = Outcome.BETTER
        else:
            known = answer.status in ("OPTIMAL", "FEASIBLE", "EMPTY")
            self.outcome = Outcome.NOTHING if known else Outcome.UNKNOWN
        return answer.plan

    def _failed(self, outcome: Outcome, detail: str) -> None:
        self.outcome, self.detail = outcome, detail


@dataclass(slots=True)
class CpRepair:
    """Repairs as an improver of plans (`problem.Improver`), where few jobs wait.

    ``always``: also where lists do well: without units together, closed nodes and several caps.
    """

    most_waiting: int = 100
    """With more it knows nothing better."""
    always: bool = True
    solver: CpSolver = field(default_factory=CpSolver)

    @property
    def name(self) -> str:
        """``cp-repair``."""
        return "cp-repair"

    def improve(self, problem: Problem, incumbent: Plan, seed: int, limit_s: float) -> Plan | None:
        """A better plan, or None."""
        if len(problem.jobs) > self.most_waiting or not (self.always or _hard(problem)):
            return None
        return self.solver.repaired(problem, incumbent, seed, limit_s)


@dataclass(slots=True)
class CpWhole:
    """The paper's model as an improver of plans: of all jobs, or of the first of many."""

    most_jobs: int = 100
    solver: CpSolver = field(default_factory=CpSolver)

    @property
    def name(self) -> str:
        """``cp``."""
        return "cp"

    def improve(self, problem: Problem, incumbent: Plan, seed: int, limit_s: float) -> Plan | None:
        """A better plan, or None."""
        return self.solver.whole(problem, incumbent, seed, limit_s, self.most_jobs)


def _hard(problem: Problem) -> bool:
    """Whether there is what lists do badly."""
    used = {job.shape for job in problem.jobs}
    shapes = (problem.shapes[shape] for shape in used)
    return any(len(job.options) > 1 for job in problem.jobs) or any(
        shape.closings or (shape.spread is Spread.TOGETHER and shape.units > 1) for shape in shapes
    )
