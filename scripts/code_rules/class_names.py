"""Refuse a class name that stands in two modules of a distribution.

A name that means two things makes readers open the imports to learn which one is meant. The agent
and the coordinator are separate programs and may use the same word for their own side of a thing.

    python scripts/code_rules/class_names.py          # what `scripts/check` runs
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DISTRIBUTIONS = ("coordinator/src", "nodeagent/src", "proto/src", "runtime_shims/src")


def class_places(source: Path) -> dict[str, list[Path]]:
    """Return the modules of each class at the top level of a module, by its name."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path.relative_to(source))
    return found


def findings(source: Path) -> Iterator[str]:
    """Return the names that stand in several modules of a distribution."""
    for name, paths in class_places(source).items():
        if len(paths) > 1:
            yield f"{name} is a class of {', '.join(map(str, paths))}; give each its own name"


def main() -> int:
    """Print the findings. Return 1 if there are any."""
    refused = sorted(text for source in DISTRIBUTIONS for text in findings(ROOT / source))
    print("\n".join(refused), end="\n" if refused else "")
    return int(bool(refused))


if __name__ == "__main__":
    sys.exit(main())
