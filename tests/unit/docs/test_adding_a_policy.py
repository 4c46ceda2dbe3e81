"""The steps of docs/adding-a-policy.md, followed literally in a copy of the tree."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "adding-a-policy.md").read_text(encoding="utf-8")
COPIED = ("coordinator", "nodeagent", "docs", "scripts/documents", "tests", "pyproject.toml")
_FILE = re.compile(r"# file: (\S+)\n(.*)", re.S)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.S | re.M)


def apply(tree: Path, diff: str) -> None:
    """Apply the change to the file named in the first line; the text to replace must occur once."""
    head, _, body = diff.partition("\n")
    path = tree / head.removeprefix("--- ")
    lines = body.splitlines(keepends=True)
    old = "".join(line[1:] for line in lines if line[0] in " -")
    new = "".join(line[1:] for line in lines if line[0] in " +")
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path.name} has not just one of\n{old}"
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with all changes of the page."""
    tree = tmp_path_factory.mktemp("tree")
    for name in COPIED:
        source, target = ROOT / name, tree / name
        if source.is_file():
            shutil.copy(source, target)
        else:
            shutil.copytree(source, target)  # With the bytecode, which is valid for the copy.
    for block in blocks("python"):
        found = _FILE.match(block)
        assert found, "every block of Python is a file"
        path = tree / found[1]
        assert not path.exists()
        path.parent.mkdir(exist_ok=True)
        path.write_text(found[2], encoding="utf-8")
    for block in blocks("diff"):
        apply(tree, block)
    return tree


def here(tree: Path, *words: str, timeout_s: float = 300.0) -> subprocess.CompletedProcess[str]:
    """A Python process that imports the coordinator of the copy."""
    path = str(tree / "coordinator" / "src")
    return subprocess.run(
        [sys.executable, *words],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": path, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def test_it_keeps_the_contract_and_its_own_test(tree: Path) -> None:
    names = ("shortest_first", "shrink_for_waiting")
    own = [f"tests/unit/policies/test_{name}.py" for name in names]
    tests = ["-k", "shortest or shrink-for or shrink_for", "tests/contract/policies", *own]
    done = here(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) >= 24


def test_its_commands_work(tree: Path) -> None:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(lines) == 3
    for line in lines:
        words = shlex.split(line)
        assert words[0] == "wattfold"
        done = here(tree, "-m", "wattfold.coordinator.cli.main", *words[1:])
        assert (done.returncode, done.stderr) == (0, ""), line
        assert "shortest-first" in done.stdout


def test_the_service_takes_it_and_plans_with_it(tree: Path) -> None:
    [toml] = blocks("toml")
    (tree / "c.toml").write_text(toml, encoding="utf-8")
    script = """
import sys
from pathlib import Path
sys.path.insert(0, "tests")
from unit.policies.snapshots import job, node, sizes, snapshot
from wattfold.coordinator.adapters.config.settings import load
policy = load(Path("c.toml"), {}).policy
print(policy)
print(sizes(policy.propose(snapshot([node("n0")], [job("a", 1, 4)]), 0, 1.0)))
"""
    done = here(tree, "-c", script)
    settings = "ShortestFirstSettings(size='min')"
    wanted = [f"ShortestFirst(settings={settings})", "{'a': 1}"]
    assert done.stdout.splitlines() == wanted, done.stderr


def test_the_documents_then_name_it(tree: Path) -> None:
    generator = str(tree / "scripts" / "documents" / "generated.py")
    stale = here(tree, generator, "--check")
    assert stale.returncode == 1
    told = ("docs/simulation.md", "docs/examples/coordinator.toml", "man/wattfold-coordinator.8")
    assert all(name in stale.stderr for name in told), stale.stderr
    assert here(tree, generator).returncode == 0
    for name in ("simulation.md", "examples/coordinator.toml", "man/wattfold.1"):
        text = (tree / "docs" / name).read_text(encoding="utf-8").replace("\\-", "-")
        assert "shortest-first" in text, name
        assert "shrink-for-waiting" in text, name
    assert here(tree, generator, "--check").returncode == 0


def test_the_code_of_the_page_is_as_all_code_is(tree: Path) -> None:
    for block in blocks("python"):
        found = _FILE.match(block)
        assert found
        path = tree / found[1]
        for command in (["format", "--check"], ["check"]):
            done = here(tree, "-m", "ruff", *command, "--no-cache", str(path))
            assert done.returncode == 0, done.stdout + done.stderr
