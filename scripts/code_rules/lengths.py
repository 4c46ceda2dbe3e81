"""Refuse source files of more than 400 lines. Generated files may be longer.

A longer file is named in ``lengths.toml`` with its number of lines. It may not grow. An entry above
the length of its file, or for a file that may have this length anyway, is an error too.

    python scripts/code_rules/lengths.py          # what `scripts/check` runs
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("coordinator/src", "nodeagent/src", "proto/src", "runtime_shims", "scripts", "tests")
SUFFIXES = (".py", ".sh", ".c", ".cpp", ".h", ".ci", ".C", ".S")
LINES_MAX = 400
_ALLOWED = Path(__file__).with_name("lengths.toml")


def lengths(root: Path) -> dict[str, int]:
    """Return the number of lines of each tracked source file. Files without suffix are scripts."""
    listed = subprocess.run(
        ["git", "ls-files", *SOURCES], cwd=root, capture_output=True, text=True, check=True
    )
    names = (root / name for name in listed.stdout.splitlines())
    return {
        str(path.relative_to(root)): len(path.read_bytes().splitlines())
        for path in names
        if path.is_file() and (path.suffix in SUFFIXES or not path.suffix)
    }


def findings(found: Mapping[str, int], allowed: Mapping[str, int]) -> Iterator[str]:
    """Return files that are too long, and entries that are too high or not needed."""
    for name, count in found.items():
        limit = allowed.get(name, LINES_MAX)
        if count > limit:
            yield f"{name}: {count} lines, at most {limit}; split the file by its subjects"
    for name, limit in allowed.items():
        count = found.get(name, 0)
        if count <= LINES_MAX:
            yield f"{_ALLOWED.name}: {name} has {count} lines; delete the entry"
        elif count < limit:
            yield f"{_ALLOWED.name}: {name} has {count} lines; lower its entry from {limit}"


def main() -> int:
    """Print the findings. Return 1 if there are any."""
    allowed: dict[str, int] = tomllib.loads(_ALLOWED.read_text(encoding="utf-8"))["lines"]
    refused = sorted(findings(lengths(ROOT), allowed))
    print("\n".join(refused), end="\n" if refused else "")
    return int(bool(refused))


if __name__ == "__main__":
    sys.exit(main())
