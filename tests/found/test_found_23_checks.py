"""Violations that `scripts/check` missed. Every rule fails on a sample."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from scripts.code_rules import lengths, tree, unused

ROOT = Path(__file__).resolve().parents[2]
CORE = "coordinator/src/wattfold/coordinator/core/sample.py"
POLICY = "coordinator/src/wattfold/coordinator/policies/sample.py"
ADAPTER = "coordinator/src/wattfold/coordinator/adapters/sample.py"
SHIM = "runtime_shims/omp/sample.c"


@pytest.mark.parametrize("file", [CORE, POLICY])
@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np\nnp.random.random()",
        "import numpy\nnumpy.random.default_rng(1)",
        "from numpy import random",
        "from numpy.random import default_rng as rng",
        "import numpy as np\nnp.datetime64('now')",
        "from numpy import datetime64 as when\nwhen('today', 's')",
        "import numpy as np\nnp.loadtxt('jobs')",
        "with open('/etc/hostname') as file:\n    pass",
        "print(1)",
    ],
)
def test_policies_and_core_are_pure(file: str, text: str) -> None:
    ((_, reason), *_) = tree.findings(file, text)
    assert "no I/O, chance or clock here" in reason
    assert not [*tree.findings(ADAPTER, text)]


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np\nnp.datetime64('2024-05-01')",
        "room.open(spec, 1)",
        "import numpy as np\nnp.asarray([1])",
        "self.random",
    ],
)
def test_what_is_pure_passes(text: str) -> None:
    assert not [*tree.findings(CORE, text)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("cap_w = cap_uw", "_w meets _uw"),
        ("self.cap_w = view.caps_uw[0]", "_w meets _uw"),
        ("lasts_s: int = lasts_ns", "_s meets _ns"),
        ("total_uj += spent_j", "_uj meets _j"),
        ("order(cap_uw=given.cap_w)", "_uw meets _w"),
        ("left = budget_uw - used_w", "_uw meets _w"),
        ("late = now_ns > due_s", "_ns meets _s"),
        ("share_ppm = max(share_percent, 1)", "_ppm meets _percent"),
        ("def power_w(self):\n    return self.power_uw", "_w meets _uw"),
        ("cap_uw_max = cap_w_max", "_uw meets _w"),
        ("cap_w = w_from_uw(cap_uw) + base_uw", "_w meets _uw"),
        ("price_eur_per_kwh = cost_eur", "_eur_per_kwh meets _eur"),
        ("wait_ns = least_s if late else most_ns", "_s meets _ns"),
        ("cap_w = -cap_uw", "_w meets _uw"),
        ("when = min(start_ns, end_s)", "_ns meets _s"),
    ],
)
def test_values_go_to_names_of_their_unit_only(text: str, told: str) -> None:
    assert told in [reason.partition(":")[0] for _, reason in tree.findings(ADAPTER, text)]


@pytest.mark.parametrize(
    "text",
    [
        "cap_w = w_from_uw(cap_uw)",
        "energy_uj = power_uw * time_s",
        "lasts_s = lasts_ns / NS_PER_S",
        "WAIT_NS = NS_PER_S",
        "cap_uw = 3",
        "def f():\n    def cap_w():\n        return 1\n    return cap_uw",
        "rate_per_s = count",
    ],
)
def test_conversions_and_products_pass(text: str) -> None:
    assert not [*tree.findings(ADAPTER, text)]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (ADAPTER, "x = 1  # TO" + "DO: more"),
        (SHIM, "/* FIX" + "ME */"),
        (SHIM, "// XX" + "X look again"),
        ("tests/unit/test_sample.py", "# TO" + "DO: assert more"),
        ("scripts/sample", "# FIX" + "ME: quote this"),
    ],
)
def test_work_to_do_stands_in_no_comment(file: str, text: str) -> None:
    assert [reason for _, reason in tree.findings(file, text)] == [
        "a note of work to do: do it, or open an issue"
    ]


def test_comments_of_tests_and_scripts_are_read_too() -> None:
    names = set(tree.tracked())
    assert {"tests/conftest.py", "scripts/setup", "scripts/demo", ".ci/run"} <= names


def test_tests_may_mix_units() -> None:
    assert not [*tree.findings("tests/unit/test_sample.py", "cap_w = cap_uw")]


def test_an_unused_function_is_found_and_an_idle_entry_too(tmp_path: Path) -> None:
    (tmp_path / "sample.py").write_text(
        "def used():\n    pass\n\ndef idle():\n    pass\n\nclass Idle:\n    pass\n\nused()\n"
    )
    found = unused.unused([tmp_path])
    assert found.keys() == {"idle", "Idle"}
    told = sorted(unused.findings(found, ["Idle", "used"]))
    assert told[0].endswith("sample.py:4: function idle is used by no code; delete it")
    assert told[1:] == ["unused.toml: used is used or gone; delete the entry"]


def test_a_long_file_is_refused_and_a_needless_entry_too() -> None:
    found = {"new.py": 401, "short.py": 400, "grown.py": 451, "cut.py": 420, "known.py": 500}
    allowed = {"short.py": 410, "grown.py": 450, "cut.py": 430, "known.py": 500, "gone.py": 402}
    assert [*lengths.findings(found, allowed)] == [
        "new.py: 401 lines, at most 400; split the file by its subjects",
        "grown.py: 451 lines, at most 450; split the file by its subjects",
        "lengths.toml: short.py has 400 lines; delete the entry",
        "lengths.toml: cut.py has 420 lines; lower its entry from 430",
        "lengths.toml: gone.py has 0 lines; delete the entry",
    ]


def test_lengths_are_counted_in_sources_of_every_language(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for name in ("tests/a.py", "runtime_shims/b.c", "scripts/run", "scripts/c.txt", "docs/d.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("line\n" * 3)
    subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True)
    assert lengths.lengths(tmp_path) == {"tests/a.py": 3, "runtime_shims/b.c": 3, "scripts/run": 3}


def test_the_code_as_it_is_passes(capsys: pytest.CaptureFixture[str]) -> None:
    """`scripts/check` runs all tools; this test shows that they can run."""
    check = (ROOT / "scripts" / "check").read_text(encoding="utf-8")
    assert "scripts/code_rules/tree.py" in check
    assert "scripts/code_rules/unused.py" in check
    assert "scripts/code_rules/lengths.py" in check
    assert tree.main([str(Path(tree.__file__).relative_to(ROOT))]) == 0, capsys.readouterr().out
