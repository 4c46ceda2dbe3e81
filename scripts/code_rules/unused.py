"""Refuse unused functions, methods and classes of the product. Vulture finds them by name.

Code used only by tests is unused. It is deleted with its tests, or named in ``unused.toml`` with
the reason why it stays. A name in that file that is used, or no longer exists, is an error too.

    python scripts/code_rules/unused.py          # what `scripts/check` runs
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from vulture import Vulture

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("coordinator/src", "nodeagent/src", "proto/src", "runtime_shims", "scripts")
KINDS = ("function", "method", "property", "class")
DECORATORS = ["@*.command", "@*.group", "@click.command", "@click.group", "@*_group.command"]
"""Decorators whose functions click calls."""
_ALLOWED = Path(__file__).with_name("unused.toml")


def unused(paths: Iterable[Path]) -> dict[str, str]:
    """Return the places of each unused name, as `file:line: kind`, by name."""
    vulture = Vulture(ignore_decorators=DECORATORS)
    vulture.scavenge([str(path) for path in paths])
    return {
        item.name: f"{item.filename}:{item.first_lineno}: {item.typ}"
        for item in vulture.get_unused_code()
        if item.typ in KINDS
    }


def findings(found: dict[str, str], allowed: Iterable[str]) -> Iterator[str]:
    """Return unused names that are not allowed, and allowed names that are used."""
    allowed = set(allowed)
    for name in found.keys() - allowed:
        yield f"{found[name]} {name} is used by no code; delete it"
    for name in allowed - found.keys():
        yield f"{_ALLOWED.name}: {name} is used or gone; delete the entry"


def main() -> int:
    """Print the findings. Return 1 if there are any."""
    allowed: dict[str, str] = tomllib.loads(_ALLOWED.read_text(encoding="utf-8"))["names"]
    told = sorted(findings(unused(ROOT / source for source in SOURCES), allowed))
    print("\n".join(told), end="\n" if told else "")
    return int(bool(told))


if __name__ == "__main__":
    sys.exit(main())
