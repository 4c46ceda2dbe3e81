"""Small changes of the code, each of which a test should find. Made by Cosmic Ray's operators.

Left out, as no test could or should tell them from the code: operators of types (`int | None` is no
sum), options of dataclasses, words of errors, checks of what cannot be (`strict` of `zip`),
constants of a hundred and more moved by one (settings, not rules), those named in
`equivalent.toml`, each with the reason why it changes nothing.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import tomllib
from collections import Counter
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a line may be changed, by what it says: other lines may come and go around it."""

    file: str
    text: str
    number: int
    """Of lines that say the same, in the file."""
    column: int
    """In the line without its indentation."""

    def rank(self, seed: int, more: str = "") -> bytes:
        """Its place in the order of a seed."""
        said = f"{seed} {self.file} {self.number} {self.column} {more} {self.text}"
        return hashlib.sha256(said.encode()).digest()


def chosen(count: int, seed: int) -> list[Mutant]:
    """So many mutants of the rooms, each place as likely as any other; the same for a seed.

    A change of the code draws anew only where it is: what was found about the others stays true.
    """
    places: dict[_Place, list[_Site]] = {}
    for place, site in _sites():
        places.setdefault(place, []).append(site)
    equivalent = {(e["file"], e["before"], e["after"]) for e in _equivalents()}
    found: list[Mutant] = []
    for place in sorted(places, key=lambda place: place.rank(seed)):
        if len(found) == count:
            break
        sites = places[place]
        ranks = [place.rank(seed, f"{one.operator} {n}") for n, one in enumerate(sites)]
        mutant = _made(sites[ranks.index(min(ranks))])
        if mutant is None or (mutant.room_file, mutant.before, mutant.after) in equivalent:
            continue
        found.append(mutant)
    return found


def _equivalents() -> list[dict[str, str]]:
    entries: list[dict[str, str]] = tomllib.loads(_EQUIVALENT.read_text()).get("mutant", [])
    return entries


def _sites() -> Iterator[tuple[_Place, _Site]]:
    names = sorted(name for name in cosmic_ray.plugins.operator_names() if _KINDS.match(name))
    for room in ROOMS:
        for path in sorted((COORDINATOR / room).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            tree, lines = get_ast(text), _lines(text)
            file = str(path.relative_to(COORDINATOR))
            for name in names:
                operator = cosmic_ray.plugins.get_operator(name)()
                positions = [
                    place for node in _nodes(tree) for place in operator.mutation_positions(node)
                ]
                for occurrence, (start, _) in enumerate(positions):
                    said, number, indent = lines[start[0] - 1]
                    place = _Place(file=file, text=said, number=number, column=start[1] - indent)
                    yield (
                        place,
                        _Site(path=path, operator=name, occurrence=occurrence, position=start),
                    )


def _lines(text: str) -> list[tuple[str, int, int]]:
    """What each line says, which of those that say so it is, and its indentation."""
    seen: Counter[str] = Counter()
    found = []
    for line in text.splitlines():
        said = line.strip()
        found.append((said, seen[said], len(line) - len(line.lstrip())))
        seen[said] += 1
    return found


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
