"""The import rules deny by default: every forbidden import planted in the sources is found.

The rules run on a copy of the sources, never on the sources themselves.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TREES = ("proto/src", "proto/gen/python", "coordinator/src", "nodeagent/src", "runtime_shims/src")
COORDINATOR = "coordinator/src/wattfold/coordinator"
AGENT = "nodeagent/src/wattfold/nodeagent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """A forbidden import: its file, its statement, and words of the expected report."""

    file: str
    statement: str
    told: str


PLANTS = (
    Plant(
        file=f"{COORDINATOR}/cli/jobs/lists/waiting.py",
        statement="import wattfold.coordinator.cli.site.power",
        told="wattfold.coordinator.cli.jobs is not allowed to import wattfold.coordinator.cli.site",
    ),
    Plant(
        file=f"{COORDINATOR}/core/power/ledger.py",
        statement="import uuid",
        told="wattfold.coordinator.core.power.ledger imports uuid",
    ),
    Plant(
        file=f"{COORDINATOR}/core/power/targets.py",
        statement="import urllib.request",
        told="wattfold.coordinator.core.power.targets imports urllib",
    ),
    Plant(
        file=f"{COORDINATOR}/core/state/state.py",
        statement="from wattfold.coordinator.policies import parm",
        told="wattfold.coordinator.core.state.state imports wattfold.coordinator.policies",
    ),
    Plant(
        file=f"{COORDINATOR}/core/rules/nodes/leave.py",
        statement="from wattfold.coordinator.core import reconcile",
        told="core.reconcile imports wattfold.coordinator.core.rules.nodes.leave imports",
    ),
    Plant(
        file=f"{COORDINATOR}/core/power/charge.py",
        statement="if TYPE_CHECKING:\n    from wattfold.coordinator.core.power import targets",
        told="core.power.charge imports wattfold.coordinator.core.power.targets imports "
        "wattfold.coordinator.core.power.charge: a circle",
    ),
    Plant(
        file=f"{COORDINATOR}/core/applier.py",
        statement="from wattfold.coordinator.solvers.allocator import greedy",
        told="wattfold.coordinator.core.applier imports wattfold.coordinator.solvers",
    ),
    Plant(
        file=f"{COORDINATOR}/core/model/job.py",
        statement="import numpy",
        told="wattfold.coordinator.core.model.job imports numpy",
    ),
    Plant(
        file=f"{COORDINATOR}/policies/parm/policy.py",
        statement="import random",
        told="wattfold.coordinator.policies.parm.policy imports random",
    ),
    Plant(
        file=f"{COORDINATOR}/policies/parm/policy.py",
        statement="import importlib",
        told="wattfold.coordinator.policies.parm.policy imports importlib",
    ),
    Plant(
        file=f"{COORDINATOR}/policies/training/round.py",
        statement="from wattfold.coordinator.policies.fifo import policy",
        told="wattfold.coordinator.policies.fifo.policy: families stand on shared rooms",
    ),
    Plant(
        file=f"{COORDINATOR}/policies/driver/rounds.py",
        statement="from wattfold.coordinator.policies.parm import menu",
        told="wattfold.coordinator.policies.parm.menu: families stand on shared rooms",
    ),
    Plant(
        file=f"{COORDINATOR}/adapters/planning.py",
        statement="from wattfold.simulator import choices",
        told="wattfold.coordinator.adapters is not allowed to import wattfold.simulator",
    ),
    Plant(
        file=f"{COORDINATOR}/policies/backfill/reservations.py",
        statement="from wattfold.coordinator.policies.driver import node_assignment",
        told="policies.backfill is not allowed to import wattfold.coordinator.policies.driver",
    ),
    Plant(
        file="coordinator/src/wattfold/simulator/workloads/selection.py",
        statement="from wattfold.simulator.results import metrics",
        told="wattfold.simulator.workloads is not allowed to import wattfold.simulator.results",
    ),
    Plant(
        file=f"{COORDINATOR}/policies/registry.py",
        statement="import pkgutil",
        told="wattfold.coordinator.policies.registry imports pkgutil",
    ),
    Plant(
        file=f"{COORDINATOR}/policies/backfill/counts.py",
        statement="import time",
        told="wattfold.coordinator.policies.backfill.counts imports time",
    ),
    Plant(
        file=f"{COORDINATOR}/policies/resources/room.py",
        statement="from wattfold.coordinator.solvers import worker",
        told="policies.resources.room imports wattfold.coordinator.solvers.worker",
    ),
    Plant(
        file=f"{COORDINATOR}/models/scaling.py",
        statement="import os",
        told="wattfold.coordinator.models.scaling imports os",
    ),
    Plant(
        file="coordinator/src/wattfold/simulator/engine/engine.py",
        statement="from wattfold.coordinator.adapters import journal",
        told="simulator is not allowed to import wattfold.coordinator.adapters",
    ),
    Plant(
        file=f"{COORDINATOR}/solvers/allocator/greedy.py",
        statement="from wattfold.coordinator.core.model import job",
        told="wattfold.coordinator.solvers is not allowed to import wattfold.coordinator.core",
    ),
    Plant(
        file="proto/src/wattfold/contract/units.py",
        statement="import socket",
        told="wattfold.contract.units imports socket",
    ),
    Plant(
        file=f"{AGENT}/core/caps.py",
        statement="import time",
        told="wattfold.nodeagent.core.caps imports time",
    ),
    Plant(
        file=f"{AGENT}/ending.py",
        statement="import asyncio",
        told="wattfold.nodeagent.ending imports asyncio",
    ),
    Plant(
        file="runtime_shims/src/wattfold/training/loop.py",
        statement="import numpy",
        told="wattfold.training.loop imports numpy",
    ),
    Plant(
        file=f"{AGENT}/service/jobs/jobs.py",
        statement="from wattfold.coordinator.core.model import job",
        told="wattfold.nodeagent is not allowed to import wattfold.coordinator",
    ),
)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Report of the linter on a copy with all forbidden imports."""
    root = tmp_path_factory.mktemp("planted")
    for tree in TREES:
        shutil.copytree(
            ROOT / tree, root / tree, ignore=shutil.ignore_patterns("__pycache__", "*.so")
        )
    shutil.copytree(ROOT / "scripts" / "import_rules", root / "scripts" / "import_rules")
    shutil.copy(ROOT / "pyproject.toml", root)
    for plant in PLANTS:
        path = root / plant.file
        path.write_text(f"{path.read_text()}\n\n{plant.statement}\n")
    # The installed sources must be unreachable, because a namespace package spans all its folders.
    here, there = [[str(base / tree) for tree in TREES] for base in (root, ROOT)]
    linter = (
        f"import sys; sys.path[:] = ['.', *{here}, *(p for p in sys.path if p not in {there})]\n"
        "from importlinter.cli import lint_imports\n"
        "sys.exit(lint_imports(no_cache=True))"
    )
    done = subprocess.run(
        [sys.executable, "-c", linter],
        cwd=root,
        env={**os.environ, "COLUMNS": "500"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    return done.stdout


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: f"{plant.file}: {plant.statement}")
def test_an_import_against_the_rules_is_found(plant: Plant, report: str) -> None:
    assert plant.told in " ".join(report.split())


def test_every_rule_has_something_planted_against_it(report: str) -> None:
    assert "BROKEN" in report
    assert "KEPT" not in report
