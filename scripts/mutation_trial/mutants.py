"""Small changes of the code, each of which a test should find. Made by Cosmic Ray's operators.

Left out, as no test could or should tell them from the code: operators of types (`int | None` is no
sum), options of dataclasses, words of errors, checks of what cannot be (`strict` of `zip`),
constants of a hundred and more moved by one (settings, not rules), those named in
`equivalent.toml`, each with the reason why it changes nothing.
"""

from __future__ import annotations

import difflib
import random
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cosmic_ray.plugins
from cosmic_ray.ast import get_ast
from cosmic_ray.mutating import mutate_code

ROOT = Path(__file__).resolve().parents[2]
COORDINATOR = ROOT / "coordinator" / "src" / "wattfold" / "coordinator"
ROOMS = ("core", "policies")
CONSTANT_MAX = 100
_KINDS = re.compile(
    r"core/(ReplaceComparisonOperator_(Lt|LtE|Gt|GtE|Eq|NotEq)_(Lt|LtE|Gt|GtE|Eq|NotEq)"
    r"|ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_Add|Div_Mul|FloorDiv_Mul|Mod_FloorDiv)"
    r"|ReplaceAndWithOr|ReplaceOrWithAnd|ReplaceUnaryOperator_\w+|ReplaceTrueWithFalse"
    r"|ReplaceFalseWithTrue|ReplaceContinueWithBreak|ReplaceBreakWithContinue|NumberReplacer"
    r"|ZeroIterationForLoop)\Z"
)
_EQUIVALENT = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change: the file (relative to the repository), its new text, the lines of the change."""

    file: str
    line: int
    before: str
    after: str
    code: str

    @property
    def room_file(self) -> str:
        """The file as `equivalent.toml` names it: from the room on."""
        return str((ROOT / self.file).relative_to(COORDINATOR))

    @property
    def name(self) -> str:
        """Where and what, on one line."""
        return f"{self.file}:{self.line}: {self.before}  ->  {self.after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Site:
    path: Path
    operator: str
    occurrence: int
    position: tuple[int, int]


def chosen(count: int, seed: int) -> list[Mutant]:
    """So many mutants of the rooms, each place as likely as any other; the same for a seed."""
    order = random.Random(seed)
    places: dict[tuple[Path, tuple[int, int]], list[_Site]] = {}
    for site in _sites():
        places.setdefault((site.path, site.position), []).append(site)
    left = sorted(places, key=str)
    order.shuffle(left)
    equivalent = {(e["file"], e["before"], e["after"]) for e in _equivalents()}
    found: list[Mutant] = []
    while left and len(found) < count:
        mutant = _made(order.choice(places[left.pop()]))
        if mutant is None or (mutant.room_file, mutant.before, mutant.after) in equivalent:
            continue
        found.append(mutant)
    return found


def _equivalents() -> list[dict[str, str]]:
    entries: list[dict[str, str]] = tomllib.loads(_EQUIVALENT.read_text()).get("mutant", [])
    return entries


def _sites() -> Iterator[_Site]:
    names = sorted(name for name in cosmic_ray.plugins.operator_names() if _KINDS.match(name))
    for room in ROOMS:
        for path in sorted((COORDINATOR / room).rglob("*.py")):
            tree = get_ast(path.read_text(encoding="utf-8"))
            for name in names:
                operator = cosmic_ray.plugins.get_operator(name)()
                positions = [
                    place for node in _nodes(tree) for place in operator.mutation_positions(node)
                ]
                for occurrence, (start, _) in enumerate(positions):
                    yield _Site(path=path, operator=name, occurrence=occurrence, position=start)


def _nodes(node: object) -> Iterator[object]:
    yield node
    for child in getattr(node, "children", ()):
        yield from _nodes(child)


def _made(site: _Site) -> Mutant | None:
    """The mutant of a place, None where the change is none or one that no test should find."""
    text = site.path.read_text(encoding="utf-8")
    operator = cosmic_ray.plugins.get_operator(site.operator)()
    code = mutate_code(text, operator, site.occurrence)
    if code is None or code == text:
        return None
    lines = list(difflib.unified_diff(text.splitlines(), code.splitlines(), n=0, lineterm=""))[2:]
    before = " ".join(line[1:].strip() for line in lines if line.startswith("-"))
    after = " ".join(line[1:].strip() for line in lines if line.startswith("+"))
    setting = site.operator.endswith("NumberReplacer") and _is_setting(text, site.position)
    told = before.startswith(("@dataclass", "raise "))
    if setting or told or before.replace("strict=True", "strict=False") == after:
        return None
    return Mutant(
        file=str(site.path.relative_to(ROOT)),
        line=site.position[0],
        before=before,
        after=after,
        code=code,
    )


def _is_setting(text: str, position: tuple[int, int]) -> bool:
    line = text.splitlines()[position[0] - 1][position[1] :]
    number = re.match(r"[\d_.]+(e-?\d+)?", line)
    return number is None or float(number[0].replace("_", "")) >= CONSTANT_MAX
