"""Refuse circles of imports: Python modules, and C modules (a source file with its header).

    python scripts/code_rules/circles.py            # what `scripts/check` runs

Imports inside functions count, because they hide circles; imports for type checkers do not.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("proto/src", "coordinator/src", "nodeagent/src", "runtime_shims/src")
C_SOURCES = ("runtime_shims/csrc", "runtime_shims/spank", "runtime_shims/dlb")
_INCLUDE = re.compile(r'^#include "(?:.*/)?([^"/]+)\.h"', re.MULTILINE)

Graph = dict[str, set[str]]
"""Modules, each with the modules that it uses."""


def python_graph(sources: Mapping[str, str]) -> Graph:
    """Return the imports among modules, given their texts by dotted name."""
    return {name: {*_imported(text, sources)} - {name} for name, text in sources.items()}


def _imported(text: str, known: Mapping[str, str]) -> Iterator[str]:
    pending: list[ast.AST] = [ast.parse(text)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                full = f"{node.module}.{one.name}"
                name = full if full in known else node.module
                yield from [name] if name in known else []
        pending += ast.iter_child_nodes(node)


def c_graph(texts: Mapping[str, str]) -> Graph:
    """Return the includes among C modules, given the texts of their files by file name."""
    found: Graph = {Path(name).stem: set() for name in texts}
    for name, text in texts.items():
        stem = Path(name).stem
        found[stem] |= {one for one in _INCLUDE.findall(text) if one in found} - {stem}
    return found


def circle(graph: Graph) -> list[str]:
    """Return the modules of a circle, the first one also at the end; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [*error.args[1]]
    return []


def main() -> int:
    """Print a circle of each language. Return 1 if there is any."""
    modules = {}
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join(parts).removesuffix(".__init__")
            modules[name] = path.read_text(encoding="utf-8")
    graphs = [python_graph(modules)]
    for folder in C_SOURCES:
        files = [path for path in sorted((ROOT / folder).iterdir()) if path.suffix in {".c", ".h"}]
        graphs.append(c_graph({path.name: path.read_text(encoding="utf-8") for path in files}))
    circles = [found for graph in graphs if (found := circle(graph))]
    for found in circles:
        print("these modules import each other in a circle: " + " <- ".join(found))
    return int(bool(circles))


if __name__ == "__main__":
    sys.exit(main())
