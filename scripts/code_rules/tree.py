"""Refuse code that other tools accept: impure code in pure packages, mixed units, open notes.

    python scripts/code_rules/tree.py            # what `scripts/check` runs
    python scripts/code_rules/tree.py FILE ...   # the findings of some files

- The core, the policies, the models, the contract and the rules of the agent do no I/O, use no
  random numbers and read no clock, even through packages that they may import.
- A value goes only to a name of its own unit. The unit is the last part of a name (`cap_uw`), or
  the part before `max` and similar words. Products and quotients have no unit here.
- Comments contain no notes of open work, in tests and scripts of the shell too.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PURE = (
    "coordinator/src/wattfold/coordinator/core/",
    "coordinator/src/wattfold/coordinator/models/",
    "coordinator/src/wattfold/coordinator/policies/",
    "nodeagent/src/wattfold/nodeagent/core/",
    "proto/src/wattfold/contract/",
)
SOURCES = ("coordinator/src/", "nodeagent/src/", "runtime_shims/", "proto/src/", "scripts/")
NOTED = (*SOURCES, "tests/", "packaging/", ".ci/")
"""Files whose comments are read. Their other rules hold for the sources only."""
_SUFFIXES = frozenset({"", ".py", ".pyi", ".sh", ".c", ".h", ".cpp", ".ci", ".C", ".S"})
IMPURE = re.compile(
    r"(open|input|print|eval|exec|__import__|breakpoint"
    r"|numpy\.(random|datetime64 of now|load|save|savez|loadtxt|savetxt|genfromtxt|fromfile|memmap)"
    r"|scipy\.(io|datasets))(\.|\Z)"
)
_PERMITTED = {
    "coordinator/src/wattfold/coordinator/policies/training/settings.py": "open: ",
    "coordinator/src/wattfold/coordinator/core/model/pickled_state.py": "exec: ",
}
"""Permitted use: `price_file` is read with the settings, before a policy exists; a function made of
names of fields, as dataclasses do."""
UNITS = frozenset(
    {
        *("uw", "mw", "w", "kw", "uj", "j", "kj", "kwh", "ns", "us", "ms", "s", "h"),
        *("hz", "khz", "mhz", "bytes", "mib", "eur", "percent", "ppm"),
    }
)
_QUALIFIERS = frozenset({"max", "min", "mean", "median", "peak", "total", "least", "most"})
_CONVERTED = re.compile(r"_*([a-z]+)_(?:from|per)_[a-z]+")
_NOTE = re.compile(r"(#|//|/\*|^\s*\*).*\b([T]ODO|[F]IXME|[X]XX)\b")


def impure(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and reason of every use of I/O, random numbers or a clock."""
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
            imported |= {one.asname: one.name for one in node.names if one.asname}
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{one.name}" for one in node.names]
            imported |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
        elif isinstance(node, ast.Name | ast.Attribute):
            names = [_full_name(node, imported)]
        elif isinstance(node, ast.Call) and {"now", "today"} & {_constant(a) for a in node.args}:
            names = [f"{_full_name(node.func, imported)} of now"]
        for name in names:
            if IMPURE.match(name):
                yield node.lineno, f"{name}: no I/O, chance or clock here; take it as an argument"


def _full_name(node: ast.expr, imported: dict[str, str]) -> str:
    first, _, rest = ast.unparse(node).partition(".")
    return f"{imported.get(first, first)}.{rest}".rstrip(".")


def _constant(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def unit_of(node: ast.expr | None) -> str | None:
    """The unit of a value by the names in it; None if they do not determine it."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _unit_of_name(name)
        case ast.Call(func=ast.Name(id="min" | "max" | "abs" | "int" | "round"), args=parts):
            return next(filter(None, map(unit_of, parts[:1])), None)
        case ast.Call(func=inner) | ast.Subscript(value=inner) | ast.UnaryOp(operand=inner):
            return unit_of(inner)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            return unit_of(left) or unit_of(right)
        case ast.IfExp(body=left, orelse=right):
            return unit_of(left) or unit_of(right)
    return None


def _unit_of_name(name: str) -> str | None:
    # `w_from_uw` gives watts; `NS_PER_S` is a number of nanoseconds.
    converted = _CONVERTED.fullmatch(name.lower())
    if converted is not None and converted[1] in UNITS:
        return converted[1]
    parts = name.lower().strip("_").split("_")
    while parts[-1] in _QUALIFIERS:
        parts.pop()
        if not parts:
            return None
    # A rate (`eur_per_kwh`) or a product (`eur_s`) is a separate unit.
    start = len(parts)
    while start > 1 and (
        parts[start - 1] in UNITS or (start < len(parts) and parts[start - 1] == "per")
    ):
        start -= 1
    return "_".join(parts[start:]) or None


def _meetings(node: ast.AST, within: str) -> Iterator[tuple[str | None, str | None]]:
    """Pairs of units that are assigned, passed, returned, added or compared."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((unit_of(target), unit_of(value)) for target in targets)
        case ast.AugAssign(target=target, op=ast.Add() | ast.Sub(), value=value):
            yield unit_of(target), unit_of(value)
        case ast.AnnAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            yield unit_of(target), unit_of(value)
        case ast.keyword(arg=str(name), value=value):
            yield _unit_of_name(name), unit_of(value)
        case ast.Return(value=value):
            yield _unit_of_name(within), unit_of(value)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            yield unit_of(left), unit_of(right)
        case ast.IfExp(body=left, orelse=right):
            yield unit_of(left), unit_of(right)
        case ast.Compare(left=left, comparators=others):
            yield from ((unit_of(left), unit_of(other)) for other in others)
        case ast.Call(func=ast.Name(id="min" | "max"), args=[first, *others]):
            yield from ((unit_of(first), unit_of(other)) for other in others)


def mixed_units(node: ast.AST, within: str = "") -> Iterator[tuple[int, str]]:
    """Line and reason wherever values of two units meet."""
    for one, other in _meetings(node, within):
        if one and other and one != other:
            line = getattr(node, "lineno", 0)
            yield line, f"_{one} meets _{other}: convert one of them, in a step that says so"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        within = getattr(node, "name", "")
    for child in ast.iter_child_nodes(node):
        yield from mixed_units(child, within)


def findings(name: str, text: str) -> Iterator[tuple[int, str]]:
    """Line and reason of all findings in a file, whose name is relative to the repository."""
    for number, line in enumerate(text.splitlines(), 1):
        if _NOTE.search(line):
            yield number, "a note of work to do: do it, or open an issue"
    if name.endswith(".py") and name.startswith(SOURCES):
        tree = ast.parse(text)
        yield from mixed_units(tree)
        if name.startswith(PURE):
            allowed = _PERMITTED.get(name)
            yield from (
                found for found in impure(tree) if not (allowed and found[1].startswith(allowed))
            )


def tracked() -> Iterator[str]:
    """Names of the files to read."""
    told = subprocess.run(
        ["git", "ls-files", *NOTED], cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = (name for name in told.stdout.splitlines() if Path(name).suffix in _SUFFIXES)
    return (name for name in paths if (ROOT / name).is_file())


def main(names: Iterable[str]) -> int:
    """Print the findings. Return 1 if there are any."""
    failed = False
    for name in names:
        for line, reason in findings(name, (ROOT / name).read_text(encoding="utf-8")):
            print(f"{name}:{line}: {reason}")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or tracked()))
