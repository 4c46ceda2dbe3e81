"""A contract of import-linter against import cycles: no module imports itself indirectly.

Imports for type checkers alone count. A program with such a cycle runs, but its modules are one
unit: none of them can be read, tested or moved without the others. The linter's own contract of
this kind checks packages; this contract checks modules.
"""

from __future__ import annotations

import grimp
from importlinter import Contract, ContractCheck, fields, output


class NoCircles(Contract):
    """``packages``: none of their modules imports itself, directly or indirectly."""

    type_name = "no_circles"

    packages = fields.ListField(subfield=fields.StringField())

    def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:
        """Find a shortest cycle through every module that is in a cycle, each cycle once."""
        del verbose
        modules = sorted(
            module
            for package in self.packages  # type: ignore[attr-defined]
            for module in {package, *graph.find_descendants(package)}
        )
        circles = {
            _turned(circle) for module in modules if (circle := _circle(graph, module)) is not None
        }
        return ContractCheck(kept=not circles, metadata={"circles": sorted(circles)})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Name the modules of every cycle, in the order in which they import each other."""
        for circle in check.metadata["circles"]:
            output.print_error(f"{' imports '.join((*circle, circle[0]))}: a circle")


def _circle(graph: grimp.ImportGraph, module: str) -> tuple[str, ...] | None:
    found = [
        chain
        for imported in graph.find_modules_directly_imported_by(module)
        if (chain := graph.find_shortest_chain(imported, module)) is not None
    ]
    return min(found, key=lambda chain: (len(chain), chain), default=None)


def _turned(circle: tuple[str, ...]) -> tuple[str, ...]:
    """Return the same cycle, starting with its first module by name."""
    first = circle.index(min(circle))
    return circle[first:] + circle[:first]
