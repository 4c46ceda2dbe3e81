"""A contract of import-linter that denies by default: only listed modules may be imported.

A list of forbidden modules would permit every module its author did not think of (`uuid` and
`urllib` in the core, `random` in a policy). Names without a dot stand for whole packages of the
standard library or of third parties. Names with dots stand for a module and everything below it.
Imports inside the package itself are free.
"""

from __future__ import annotations

import grimp
from importlinter import Contract, ContractCheck, fields, output
from importlinter.domain.imports import Module


class AllowedImports(Contract):
    """``source_modules`` and everything below them may import themselves and ``allowed_modules``
    only.

    ``except_modules`` are excluded from the source.
    """

    type_name = "allowed"

    source_modules = fields.ListField(subfield=fields.ModuleField())
    allowed_modules = fields.ListField(subfield=fields.StringField())
    except_modules = fields.ListField(subfield=fields.ModuleField(), required=False)

    def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:
        """Check every direct import of every module of the source."""
        del verbose
        excepted = _names(self.except_modules or [])  # type: ignore[arg-type]
        sources = _names(self.source_modules)  # type: ignore[arg-type]
        allowed = (*self.allowed_modules, *sources)  # type: ignore[misc]
        broken = [
            (module, imported)
            for source in sources
            for module in sorted(_with_descendants(graph, source))
            if not _is_below(module, excepted)
            for imported in sorted(graph.find_modules_directly_imported_by(module))
            if not _is_below(imported, allowed)
        ]
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Name every import that is not on the list."""
        for module, imported in check.metadata["broken"]:
            output.print_error(
                f"{module} imports {imported}, which is not on the list of what it may"
            )


def _names(modules: list[Module]) -> tuple[str, ...]:
    return tuple(module.name for module in modules)


def _with_descendants(graph: grimp.ImportGraph, name: str) -> set[str]:
    if name not in graph.modules:
        raise ValueError(f"there is no module {name}: mend the contract")
    return {name, *graph.find_descendants(name)}


def _is_below(name: str, parents: tuple[str, ...]) -> bool:
    return any(name == parent or name.startswith(f"{parent}.") for parent in parents)
