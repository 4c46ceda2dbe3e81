"""The rules of imports deny by default: whatever is planted against them is found.

The rules are tried on a copy of the sources, never on the sources themselves.
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
    """An import that must not be: where, what, and words of the report that names it."""

    file: str
    statement: str
    told: str


PLANTS = (
    Plant(
        file=f"{COORDINATOR}/cli/jobs/waiting.py",
        statement="import wattfold.coordinator.cli.site.power",
        told="wattfold.coordinator.cli.jobs is not allowed to import wattfold.coordinator.cli.site",
    ),
    Plant(
        file=f"{COORDINATOR}/core/ledger.py",
        statement="import uuid",
        told="wattfold.coordinator.core.ledger imports uuid",
    ),
    Plant(
        file=f"{COORDINATOR}/core/targets.py",
        statement="import urllib.request",
        told="wattfold.coordinator.core.targets imports urllib",
    ),
    Plant(
        file=f"{COORDINATOR}/core/state.py",
        statement="from wattfold.coordinator.policies import parm",
        told="wattfold.coordinator.core.state imports wattfold.coordinator.policies",
    ),
    Plant(
        file=f"{COORDINATOR}/core/leave.py",
        statement="from wattfold.coordinator.core import job_ends",
        told="core.job_ends imports wattfold.coordinator.core.reconcile imports",
    ),
    Plant(
        file=f"{COORDINATOR}/core/charge.py",
        statement="if TYPE_CHECKING:\n    from wattfold.coordinator.core import targets",
        told="core.charge imports wattfold.coordinator.core.targets imports "
        "wattfold.coordinator.core.charge: a circle",
    ),
    Plant(
        file=f"{COORDINATOR}/core/applier.py",
        statement="from wattfold.coordinator.solvers import greedy",
        told="wattfold.coordinator.core.applier imports wattfold.coordinator.solvers",
    ),
    Plant(
        file=f"{COORDINATOR}/core/job.py",
        statement="import numpy",
        told="wattfold.coordinator.core.job imports numpy",
    ),
    Plant(
        file=f"{COORDINATOR}/policies/parm.py",
        statement="import random",
        told="wattfold.coordinator.policies.parm imports random",
    ),
    Plant(
        file=f"{COORDINATOR}/policies/parm.py",
        statement="import importlib",
        told="wattfold.coordinator.policies.parm imports importlib",
    ),
    Plant(
        file=f"{COORDINATOR}/policies/registry.py",
        statement="import pkgutil",
        told="wattfold.coordinator.policies.registry imports pkgutil",
    ),
    Plant(
        file=f"{COORDINATOR}/policies/backfill.py",
        statement="import time",
        told="wattfold.coordinator.policies.backfill imports time",
    ),
    Plant(
        file=f"{COORDINATOR}/policies/placement.py",
        statement="from wattfold.coordinator.solvers import worker",
        told="wattfold.coordinator.policies.placement imports wattfold.coordinator.solvers.worker",
    ),
    Plant(
        file=f"{COORDINATOR}/models/scaling.py",
        statement="import os",
        told="wattfold.coordinator.models.scaling imports os",
    ),
    Plant(
        file=f"{COORDINATOR}/simulation/pool/engine.py",
        statement="from wattfold.coordinator.adapters import journal",
        told="coordinator.simulation is not allowed to import wattfold.coordinator.adapters",
    ),
    Plant(
        file=f"{COORDINATOR}/solvers/greedy.py",
        statement="from wattfold.coordinator.core import job",
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
        file=f"{AGENT}/keeper.py",
        statement="import asyncio",
        told="wattfold.nodeagent.keeper imports asyncio",
    ),
    Plant(
        file="runtime_shims/src/wattfold/training/loop.py",
        statement="import numpy",
        told="wattfold.training.loop imports numpy",
    ),
    Plant(
        file=f"{AGENT}/service/jobs.py",
        statement="from wattfold.coordinator.core import job",
        told="wattfold.nodeagent is not allowed to import wattfold.coordinator",
    ),
)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the linter says of a copy with everything planted."""
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
    # Of the installed sources none may be in reach: a namespace package is found in all its places.
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
