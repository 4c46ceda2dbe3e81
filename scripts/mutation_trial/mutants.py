"""Small changes of the code that tests should detect, made by the operators of Cosmic Ray.

Mutants that no test can or should distinguish from the code are left out. These are operators in
types (`int | None` is no sum), options of dataclasses, error texts and checks of impossible cases
(`strict` of `zip`). Constants of a hundred and more that change by one are left out too, because
they are settings. ``equivalent.toml`` names further mutants, each with the reason why it changes
nothing.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import cosmic_ray.plugins
from cosmic_ray.ast import get_ast
from cosmic_ray.mutating import mutate_code

ROOT = Path(__file__).resolve().parents[2]
COORDINATOR = ROOT / "coordinator" / "src" / "wattfold" / "coordinator"
AGENT = ROOT / "nodeagent" / "src" / "wattfold" / "nodeagent"
ROOMS = {
    "core": COORDINATOR / "core",
    "policies": COORDINATOR / "policies",
    "adapters": COORDINATOR / "adapters",
    "results": COORDINATOR.parent / "simulator" / "results",
    "nodeagent": AGENT,
}
"""Folders of the code, by their names in `equivalent.toml` and `--rooms`."""
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
        """The file as `equivalent.toml` names it: room and path in the room."""
        return _room_file(ROOT / self.file)

    @property
    def name(self) -> str:
        """Place and change, on one line."""
        return f"{self.file}:{self.line}: {self.before}  ->  {self.after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Site:
    path: Path
    operator: str
    occurrence: int
    position: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A place in a line that may be changed, identified by its text: other lines may change around
    it.
    """

    file: str
    text: str
    number: int
    """Number of the line among lines of equal text in the file."""
    column: int
    """Column in the line without its indentation."""

    def rank(self, seed: int, more: str = "") -> bytes:
        """Its position in the order of a seed."""
        said = f"{seed} {self.file} {self.number} {self.column} {more} {self.text}"
        return hashlib.sha256(said.encode()).digest()


def _room_file(path: Path) -> str:
    room, folder = next(item for item in ROOMS.items() if path.is_relative_to(item[1]))
    return f"{room}/{path.relative_to(folder)}"


def chosen(count: int, seed: int, rooms: Iterable[str] = ROOMS) -> list[Mutant]:
    """Return ``count`` mutants of some rooms, with equal chance for each place; the same for a
    seed.

    A change of the code changes the selection only where it is, so results on other mutants stay
    valid.
    """
    places: dict[_Place, list[_Site]] = {}
    for place, site in _sites(rooms):
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


def _sites(rooms: Iterable[str]) -> Iterator[tuple[_Place, _Site]]:
    names = sorted(name for name in cosmic_ray.plugins.operator_names() if _KINDS.match(name))
    for room in rooms:
        for path in sorted(ROOMS[room].rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            tree, lines = get_ast(text), _lines(text)
            file = _room_file(path)
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
    """The text of each line, its number among equal lines, and its indentation."""
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
    """The mutant of a place; None if nothing changes or if no test should detect the change."""
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
