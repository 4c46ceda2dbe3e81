"""One simulation of the evaluation, small enough to be sent to another process."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from wattfold.coordinator.simulation.experiments.constraint.settings import (
    CP,
    POLICIES,
    PREDICTED,
    QUICK_WINDOWS,
    TEST_1,
    TEST_2,
    WEEKS,
    WINDOWS,
    Settings,
)

RAW, PRESSED, BUDGET, WEEK = "raw", "pressed", "budget", "weeks"
FAMILIES = (RAW, PRESSED, BUDGET, WEEK)
"""``BUDGET``: pressed windows under a power budget."""
TRACES, NODES, QUEUES = "traces", "nodes_64", "system_queues"
"""What is in the folder that the traces are published as."""
POWERS = "power_predictions.gz"
"""What may be there as well."""


class FolderError(Exception):
    """The folder of traces lacks something, in a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """Where traces, nodes and queues are, and what is in them."""

    path: Path
    digest: str
    traces: tuple[str, ...]

    @classmethod
    def at(cls, path: Path) -> Folder:
        """Reads all of it once. Raises FolderError."""
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
    """Name of a trace, of a window (`Window.name`) or of a week, from 1."""
    policy: str
    """One of `settings.COLUMNS`."""
    settings: Settings
    folder: Folder = field(repr=False)

    @property
    def label(self) -> str:
        """For people and file names."""
        return f"{self.family} {short(self.instance)} {self.policy}"

    def identity(self) -> Mapping[str, object]:
        """All that decides the result."""
        return {
            "family": self.family,
            "instance": self.instance,
            "policy": self.policy,
            "settings": self.settings.document(),
            "traces": self.folder.digest,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is run."""

    settings: Settings
    folder: Folder
    quick: bool = False
    cp: bool | None = None
    """Whether the constraint model runs on all or on no instances; None: on raw traces alone, as it
    takes an hour or more where hundreds wait at every decision."""

    def instances(self, family: str) -> tuple[str, ...]:
        """Their names, in the order of tables."""
        if family == RAW:
            # Nobody waits in the first ones.
            few = self.folder.traces[3:5] or self.folder.traces[:2]
            return few if self.quick else self.folder.traces
        if family == PRESSED:
            return tuple(one.name for one in (QUICK_WINDOWS if self.quick else WINDOWS))
        if family == BUDGET:
            return tuple(one.name for one in ((TEST_1,) if self.quick else (TEST_1, *TEST_2)))
        return tuple(str(week) for week in range(1, 2 if self.quick else WEEKS + 1))

    def policies(self, family: str) -> tuple[str, ...]:
        """What runs on each instance."""
        modelled = family == RAW if self.cp is None else self.cp
        chosen = tuple(one for one in POLICIES if one != CP or modelled)
        return (*chosen, PREDICTED) if family == BUDGET else chosen

    def case(self, family: str, instance: str, policy: str) -> InstanceCase:
        """One of them."""
        return InstanceCase(
            family=family,
            instance=instance,
            policy=policy,
            settings=self.settings,
            folder=self.folder,
        )

    def cases(self, family: str) -> list[InstanceCase]:
        """All of a family."""
        return [
            self.case(family, instance, policy)
            for instance in self.instances(family)
            for policy in self.policies(family)
        ]


def short(instance: str) -> str:
    """A trace without what all of their names have."""
    return instance.removeprefix("hist_").removesuffix(".log_crypt")
