"""Rooms of the policies, circles of imports, and class names. Every rule fails on a sample."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from scripts.code_rules import circles, class_names, rooms

ROOT = Path(__file__).resolve().parents[2]
P = rooms.POLICIES
FOUND = {
    f"{P}.port": "",
    f"{P}.alpha": "",
    f"{P}.alpha.policy": f"from {P}.port import Scheduler\nclass Queue:\n    pass",
    f"{P}.alpha.inner": "",
    f"{P}.alpha.description": "VARIANT = PolicyVariant(name='alpha-one', simulated_as='one')",
    f"{P}.beta.policy": f"def f():\n    from {P}.alpha import inner",
    "wattfold.coordinator.core.rules": "",
    "wattfold.simulator.runs.build": f"from {P}.alpha.policy import Alpha",
}
COUNTS = {"arrows": 2, "rooms": 3}


def findings(changes: dict[str, str], ceilings: dict[str, int] = COUNTS) -> list[str]:
    texts = FOUND | changes
    return [*rooms.findings({name: ast.parse(text) for name, text in texts.items()}, ceilings)]


def test_the_sample_passes() -> None:
    assert findings({}) == []


@pytest.mark.parametrize(
    ("module", "text", "report"),
    [
        (f"{P}.port", f"import {P}.alpha.inner", "arrows: 3, at most 2"),
        (f"{P}.gamma", "", "rooms: 4, at most 3"),
        ("wattfold.simulator.runs.build", f"from {P}.alpha import inner", "windows: 1, at most 0"),
        ("wattfold.coordinator.core.rules", "if name == 'alpha-one': pass", "names: 1, at most 0"),
        ("wattfold.coordinator.core.rules", "DEFAULT = 'one'", "names: 1, at most 0"),
    ],
)
def test_a_new_connection_is_refused(module: str, text: str, report: str) -> None:
    (found,) = findings({module: text})
    assert found.startswith(report)


def test_a_large_family_is_refused() -> None:
    more = {f"{P}.alpha.m{number}": "" for number in range(rooms.FILES_MAX)}
    assert findings(more) == ["files of alpha: 13, at most 10; merge modules of one subject"]


def test_ceilings_only_fall() -> None:
    assert findings({}, COUNTS | {"windows": 1}) == [
        "rooms.toml: windows is 0; lower or delete its ceiling of 1"
    ]


@pytest.mark.parametrize("tool", ["rooms", "class_names", "circles"])
def test_the_check_runs_it_on_the_code(tool: str) -> None:
    assert f"scripts/code_rules/{tool}.py" in (ROOT / "scripts" / "check").read_text("utf-8")


def test_a_class_name_stands_in_one_module(tmp_path: Path) -> None:
    (tmp_path / "queue.py").write_text("class Queue:\n    class Row: ...\n")
    (tmp_path / "table.py").write_text("class Row: ...\n")
    assert [*class_names.findings(tmp_path)] == []
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "rows.py").write_text("class Row: ...\n")
    assert [*class_names.findings(tmp_path)] == [
        "Row is a class of parts/rows.py, table.py; give each its own name"
    ]


def test_a_circle_of_modules_is_refused() -> None:
    modules = {
        "a": "import b",
        "b": "def f():\n    from c import g",
        "c": "if TYPE_CHECKING:\n    import a",
    }
    assert circles.circle(circles.python_graph(modules)) == []
    modules["c"] = "def g():\n    from a import b"
    found = circles.circle(circles.python_graph(modules))
    assert set(found) == {"a", "b", "c"}
    assert found[0] == found[-1]


def test_a_package_may_import_its_modules() -> None:
    modules = {"p": "from p import one", "p.one": "from p import two", "p.two": ""}
    assert circles.circle(circles.python_graph(modules)) == []


def test_a_circle_of_c_modules_is_refused() -> None:
    files = {"a.c": '#include "a.h"', "a.h": '#include "b.h"', "b.h": "", "b.c": '#include "c.h"'}
    assert circles.circle(circles.c_graph(files | {"c.h": ""})) == []
    assert set(circles.circle(circles.c_graph(files | {"c.h": '#include "a.h"'}))) == set("abc")
