"""Cases of the evaluation: single simulations that can be sent to another process."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from wattfold.simulator.papers.constraint.settings import (
    BASELINES,
    CHOICE_WINDOWS,
    CP,
    HELD_OUT_WINDOWS,
    POLICIES,
    PREDICTED,
    QUICK_WINDOWS,
    TEST_1,
    TEST_2,
    WEEKS,
    WEIGHTED,
    WINDOWS,
    ConstraintAssumptions,
)

RAW, PRESSED, BUDGET, WEEK, WEIGHTS = "raw", "pressed", "budget", "weeks", "weights"
FAMILIES = (RAW, PRESSED, BUDGET, WEEK, WEIGHTS)
"""``BUDGET``: pressed windows under a power budget.

``WEIGHTS``: some of them with other weights.
"""
TRACES, NODES, QUEUES = "traces", "nodes_64", "system_queues"
"""Content of the folder of the published traces."""
POWERS = "power_predictions.gz"
"""Optional content of the folder."""


class FolderError(Exception):
    """The folder of traces lacks a file; its text is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """Folder of traces, nodes and queues, with a digest of its content."""

    path: Path
    digest: str
    traces: tuple[str, ...]

    @classmethod
    def at(cls, path: Path) -> Folder:
        """Read the whole folder once. Raises FolderError."""
        digest = hashlib.sha256()
        try:
            traces = sorted(one.name for one in (path / TRACES).iterdir() if one.is_file())
            others = (POWERS,) if (path / POWERS).is_file() else ()
            for name in (NODES, QUEUES, *others, *(f"{TRACES}/{one}" for one in traces)):
                digest.update(f"{name}\0".encode() + (path / name).read_bytes())
        except OSError as error:
            raise FolderError(
                f"{error.filename or path}: {error.strerror or error}; expected a folder with "
                f"{TRACES}/, {NODES} and {QUEUES}"
            ) from error
        if not traces:
            raise FolderError(f"{path / TRACES}: no trace is in it")
        return cls(path=path.absolute(), digest=digest.hexdigest(), traces=tuple(traces))


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceCase:
    """One policy on one instance."""

    family: str
    instance: str
    """Name of a trace, of a window (`LogWindow.name`) or of a week, from 1."""
    policy: str
    """One of `settings.COLUMNS`."""
    settings: ConstraintAssumptions
    folder: Folder = field(repr=False)

    @property
    def label(self) -> str:
        """Label for people and file names."""
        return f"{self.family} {short(self.instance)} {self.policy}"

    def identity(self) -> Mapping[str, object]:
        """Return all inputs that determine the result."""
        return {
            "family": self.family,
            "instance": self.instance,
            "policy": self.policy,
            "settings": self.settings.document(),
            "traces": self.folder.digest,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintPlan:
    """Plan of the evaluation."""

    settings: ConstraintAssumptions
    folder: Folder
    quick: bool = False
    cp: bool | None = None
    """Whether the constraint model runs on all or on no instances; None: only on raw traces.

    It takes an hour or more if hundreds of jobs wait at every decision.
    """

    def instances(self, family: str) -> tuple[str, ...]:
        """Return the names of instances, in the order of tables."""
        if family == RAW:
            # No job waits in the first traces.
            few = self.folder.traces[3:5] or self.folder.traces[:2]
            return few if self.quick else self.folder.traces
        if family == PRESSED:
            return tuple(one.name for one in (QUICK_WINDOWS if self.quick else WINDOWS))
        if family == WEIGHTS:
            return (*self.halves[0], *self.halves[1])
        if family == BUDGET:
            return tuple(one.name for one in ((TEST_1,) if self.quick else (TEST_1, *TEST_2)))
        return tuple(str(week) for week in range(1, 2 if self.quick else WEEKS + 1))

    @property
    def halves(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Windows of the first half of the jobs, and of the second, for the choice of weights."""
        few = 1 if self.quick else None
        choice, held_out = CHOICE_WINDOWS[:few], HELD_OUT_WINDOWS[:few]
        return tuple(one.name for one in choice), tuple(one.name for one in held_out)

    def policies(self, family: str) -> tuple[str, ...]:
        """Return the policies that run on each instance."""
        if family == WEIGHTS:
            return (*BASELINES, *WEIGHTED)
        modelled = family == RAW if self.cp is None else self.cp
        chosen = tuple(one for one in POLICIES if one != CP or modelled)
        return (*chosen, PREDICTED) if family == BUDGET else chosen

    def case(self, family: str, instance: str, policy: str) -> InstanceCase:
        """Return one case."""
        return InstanceCase(
            family=family,
            instance=instance,
            policy=policy,
            settings=self.settings,
            folder=self.folder,
        )

    def cases(self, family: str) -> list[InstanceCase]:
        """Return all cases of a family."""
        return [
            self.case(family, instance, policy)
            for instance in self.instances(family)
            for policy in self.policies(family)
        ]


def short(instance: str) -> str:
    """Return the name of a trace without its common parts."""
    return instance.removeprefix("hist_").removesuffix(".log_crypt")
