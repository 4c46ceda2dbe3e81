"""Refuse new connections between the rooms of the policies: imports, files, names.

    python scripts/code_rules/rooms.py            # what `scripts/check` runs

- An arrow is a pair of rooms of `policies/` of which one imports the other. A room is a folder or a
  module of `policies/`.
- A window is an import of a module of a family by code outside `policies/`, unless the module is a
  front (`FRONTS`).
- A room of a family has at most `FILES_MAX` modules.
- Core, adapters, engine and runs do not contain the name of a policy, because the registry knows
  all policies.

Ceilings are in ``rooms.toml``. They only fall: a ceiling above the count is an error too.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "coordinator/src"
POLICIES = "wattfold.coordinator.policies"
SHARED = frozenset(
    {"port", "description", "registry", "resources", "placement", "backfill", "driver", "reasons"}
)
"""Rooms of `policies/` that are not families."""
FRONTS = frozenset({"policy", "description"})
FILES_MAX = 10
NAMELESS = (
    "wattfold.coordinator.core.",
    "wattfold.coordinator.adapters.",
    "wattfold.simulator.engine.",
    "wattfold.simulator.runs.",
)
ORDINARY = frozenset({"priority"})
"""Names of policies that are also words of other subjects."""
_CEILINGS = Path(__file__).with_name("rooms.toml")

Trees = Mapping[str, ast.Module]
"""Modules by their dotted names."""


def trees(sources: Path) -> dict[str, ast.Module]:
    """Return all modules below a folder of sources. Packages have the name of their folder."""
    found = {}
    for path in sorted(sources.rglob("*.py")):
        name = ".".join(path.relative_to(sources).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imported(tree: ast.Module, modules: Iterable[str]) -> Iterator[str]:
    """Yield the imports of a module, also inside functions and for type checkers."""
    known = set(modules)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in known else node.module


def room_of(module: str) -> str:
    """Return the room of a module of the policies; empty for other modules."""
    if not module.startswith(f"{POLICIES}."):
        return ""
    return module.removeprefix(f"{POLICIES}.").split(".")[0]


def arrows(found: Trees) -> set[tuple[str, str]]:
    """Return the pairs of rooms of which the first imports the second."""
    return {
        (room, other)
        for module, tree in found.items()
        if (room := room_of(module))
        for name in imported(tree, found)
        if (other := room_of(name)) and other != room
    }


def windows(found: Trees) -> set[tuple[str, str]]:
    """Return imports of a family from outside that do not use its front."""
    return {
        (module, name)
        for module, tree in found.items()
        if not module.startswith(POLICIES)
        for name in imported(tree, found)
        if (room := room_of(name)) and room not in SHARED
        if not name.rpartition(".")[2].endswith(tuple(FRONTS))
    }


def files(found: Trees) -> dict[str, int]:
    """Return the number of modules of each family, without the package itself."""
    counted: dict[str, int] = defaultdict(int)
    for module in found:
        room = room_of(module)
        if room and room not in SHARED and module != f"{POLICIES}.{room}":
            counted[room] += 1
    return dict(counted)


def policy_names(found: Trees) -> set[str]:
    """Return the names in the descriptions of policies."""
    return {
        keyword.value.value
        for module, tree in found.items()
        if module.startswith(f"{POLICIES}.")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "PolicyVariant"
        for keyword in node.keywords
        if keyword.arg in ("name", "simulated_as")
        and isinstance(keyword.value, ast.Constant)
        and isinstance(keyword.value.value, str)
    }


def named(found: Trees) -> set[tuple[str, str]]:
    """Return the modules of `NAMELESS` that contain the name of a policy as a text."""
    names = policy_names(found) - ORDINARY
    return {
        (module, node.value)
        for module, tree in found.items()
        if module.startswith(NAMELESS)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names
    }


def counts(found: Trees) -> dict[str, int]:
    """Return everything that has a ceiling, by its key in ``rooms.toml``."""
    pairs = arrows(found)
    return {
        "arrows": len(pairs),
        "rooms": len({room_of(module) for module in found} - {""}),
        "windows": len(windows(found)),
        "names": len(named(found)),
        **{f"files of {room}": n for room, n in files(found).items() if n > FILES_MAX},
    }


def findings(found: Trees, ceilings: Mapping[str, int]) -> Iterator[str]:
    """Return counts above their ceilings, and ceilings above their counts."""
    now = counts(found)
    for key in sorted(now.keys() | ceilings.keys()):
        count, most = now.get(key, 0), ceilings.get(key, 0)
        if count > most and key.startswith("files of "):
            yield f"{key}: {count}, at most {most or FILES_MAX}; merge modules of one subject"
        elif count > most:
            yield f"{key}: {count}, at most {most}; see {Path(__file__).name} for the rule"
        elif count < most:
            yield f"{_CEILINGS.name}: {key} is {count}; lower or delete its ceiling of {most}"


def main(arguments: list[str]) -> int:
    """Print the findings. Return 1 if there are any. ``--list`` prints all connections."""
    found = trees(SOURCES)
    if arguments == ["--list"]:
        for pair in [*sorted(arrows(found)), *sorted(windows(found)), *sorted(named(found))]:
            print(" -> ".join(pair))
        return 0
    ceilings: dict[str, int] = tomllib.loads(_CEILINGS.read_text(encoding="utf-8"))["most"]
    refused = [*findings(found, ceilings)]
    print("\n".join(refused), end="\n" if refused else "")
    return int(bool(refused))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
