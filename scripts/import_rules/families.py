"""A contract of import-linter: families of policies import shared packages and not each other.

Every package below ``container`` that is neither in ``shared`` nor in ``above`` is a family, so a
new family needs no line here.
"""

from __future__ import annotations

import grimp
from importlinter import Contract, ContractCheck, fields, output


class Families(Contract):
    """Families import ``shared`` packages only; only ``above`` may import families.

    ``except_imports`` are permitted, each as ``importer -> imported``.
    """

    type_name = "families"

    container = fields.StringField()
    shared = fields.ListField(subfield=fields.StringField())
    above = fields.ListField(subfield=fields.StringField())
    except_imports = fields.ListField(subfield=fields.StringField(), required=False)

    def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:
        """Check every direct import of a family from another part of the container."""
        del verbose
        container = str(self.container)
        rooms = {name.rpartition(".")[2] for name in graph.find_children(container)}
        shared, above = {*self.shared}, {*self.above}  # type: ignore[misc]
        if gone := (shared | above) - rooms:
            raise ValueError(f"there is no {container}.{sorted(gone)[0]}: correct the contract")
        families = rooms - shared - above
        permitted = {*(self.except_imports or ())}  # type: ignore[misc]
        broken = [
            f"{importer} -> {imported}"
            for room in families
            for imported in {f"{container}.{room}", *graph.find_descendants(f"{container}.{room}")}
            for importer in graph.find_modules_that_directly_import(imported)
            if importer.startswith(f"{container}.")
            and importer.removeprefix(f"{container}.").split(".")[0] not in {room, *above}
        ]
        stale = permitted.difference(broken)
        return ContractCheck(
            kept=not stale and permitted.issuperset(broken),
            metadata={"broken": sorted({*broken} - permitted), "stale": sorted(stale)},
        )

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Name every import of a family, and every exception without use."""
        for line in check.metadata["broken"]:
            output.print_error(f"{line}: families stand on shared rooms and not on each other")
        for line in check.metadata["stale"]:
            output.print_error(f"{line}: nothing imports so; delete the exception")
