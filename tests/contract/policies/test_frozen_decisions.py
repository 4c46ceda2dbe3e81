"""Decisions of every registered policy, frozen: a change of the code alone must not change them.

`tests/data/decisions.json` holds a digest for each case. Its key is the identity of the case
(policy and setting of the case), not a digest of modules, so moving code does not void it. After an
intended change of decisions, write the file again and explain each differing case in the commit:

    python tests/contract/policies/test_frozen_decisions.py
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from property.policies.test_policy_properties import random_snapshot

from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.description import Value
from wattfold.simulator.engine.budget import BudgetSchedule, BudgetStep
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.machines.node_machine import NodeClass, NodeMachine, OutageWindow
from wattfold.simulator.runs.case import PolicyChoice, SimulationCase, WorkloadSource
from wattfold.simulator.runs.execute import execute

FILE = Path(__file__).resolve().parents[2] / "data" / "decisions.json"
S = 10**9
COUNTED = Machine.of_watts(16)
CLASSES = (
    NodeClass.of_watts("large", 12, 16, idle_w=20),
    NodeClass.of_watts("small", 8, 4, idle_w=30),
)
NAMED = NodeMachine(classes=CLASSES)
DRAINED = NodeMachine(
    classes=CLASSES,
    windows=(
        OutageWindow(class_name="large", start_ns=3600 * S, end_ns=9000 * S, first=2, count=6),
    ),
)
MALLEABLE = WorkloadSource(model="lublin", jobs=40, gamma=0.2, profiles=True, cut_sizes=True)
"""Jobs with ranges of sizes, so that the versions of a policy differ."""
SHARING = WorkloadSource(
    model="lublin", jobs=40, gamma=0.4, procs_per_node=16, share_nodes=True, cut_sizes=True
)
LIGHT: dict[str, Value] = {"evaluations": 4, "repair": "never", "jobs": 4}
"""Settings that bound a search by work, so that no decision depends on the speed of the machine."""


def cut(full_uw: int) -> BudgetSchedule:
    """Return a budget that falls to 80 % between 1800 s and 5400 s."""
    return BudgetSchedule(
        steps=tuple(
            BudgetStep(at_ns=at_s * S, budget_uw=full_uw * share // 100)
            for at_s, share in ((0, 100), (1800, 80), (5400, 100))
        )
    )


def run(
    entry: registry.RegisteredPolicy,
    machine: Machine | NodeMachine,
    budget: BudgetSchedule,
    source: WorkloadSource,
) -> str:
    """Return the digest of all starts, ends, sizes, caps and energies of a run."""
    light = tuple((key, value) for key, value in LIGHT.items() if entry.family.setting(key))
    choice = PolicyChoice(name=entry.variant.simulator_name, settings=light)
    record = execute(
        SimulationCase(source=source, machine=machine, budget=budget, policy=choice, seed=3)
    ).record
    assert record is not None
    columns, digest = record.columns, hashlib.sha256()
    for values in (
        *(columns.start_ns, columns.end_ns, columns.first_size, columns.last_size),
        *(columns.resizes, columns.first_cap_uw, columns.energy_uj),
    ):
        digest.update(np.asarray(values, dtype="<i8").tobytes())
    digest.update("|".join(map(str, columns.places if columns.places is not None else ())).encode())
    return digest.hexdigest()[:16]


def counted(entry: registry.RegisteredPolicy) -> str:
    budget = BudgetSchedule.constant((COUNTED.full_uw + COUNTED.idle_total_uw) // 2)
    return run(entry, COUNTED, budget, MALLEABLE)


def counted_cut(entry: registry.RegisteredPolicy) -> str:
    return run(entry, COUNTED, cut(COUNTED.full_uw), MALLEABLE)


def named(entry: registry.RegisteredPolicy) -> str:
    return run(entry, NAMED, BudgetSchedule.constant(NAMED.full_uw), SHARING)


def named_cut_and_drained(entry: registry.RegisteredPolicy) -> str:
    return run(entry, DRAINED, cut(NAMED.full_uw), SHARING)


def live(entry: registry.RegisteredPolicy) -> str:
    """Return the digest of plans of the service, with all reasons and expected starts."""
    if entry.variant.service is None:
        return ""
    light = {key: value for key, value in LIGHT.items() if entry.family.setting(key)}
    policy, digest = entry.service(light), hashlib.sha256()
    for seed in random.Random(5).sample(range(10**6), 40):
        seen = random_snapshot(seed)
        plan = policy.propose(seen, seen.now_ns, 10.0)
        for part in (*plan.assignments, *plan.waiting):
            digest.update(repr(part).encode())
    return digest.hexdigest()[:16]


CASES: dict[str, Callable[[registry.RegisteredPolicy], str]] = {
    "counted": counted,
    "counted-cut": counted_cut,
    "named": named,
    "named-cut-drained": named_cut_and_drained,
    "live": live,
}
ENTRIES = {entry.variant.name: entry for entry in registry.entries()}


FROZEN: dict[str, str] = json.loads(FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("key", FROZEN)
def test_decisions_are_as_before(key: str) -> None:
    """A new policy is frozen when the file is written again."""
    policy, _, case = key.partition("|")
    assert CASES[case](ENTRIES[policy]) == FROZEN[key]


def main() -> int:
    """Write the file, and name every case that differs."""
    now = {f"{policy}|{case}": CASES[case](ENTRIES[policy]) for policy in ENTRIES for case in CASES}
    for key in sorted(now):
        if FROZEN.get(key) != now[key]:
            print(f"{key}: {FROZEN.get(key)} -> {now[key]}")
    FILE.write_text(json.dumps(now, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
