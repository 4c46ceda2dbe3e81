"""Text format of processor maps, exchanged over CCS between agents and Charm++ programs.

A *map* has one byte per PE, 1 if the PE may hold objects. A program that follows maps registers two
handlers on PE 0, from C++ (``runtime_shims/charm``) or from Python (``wattfold.shims.charm_map``).
Both answer with its *state*, a line of text:

    set map:  WFMAP1 <id> <map>
              WFMAP1 77 1100
    state:    WFMAP1 <id wanted> <id in force> <map> <objects> <pids>
              WFMAP1 77 77 1100 8,8,0,0 311,312,313,314
    refusal:  WFMAP1 error <why>

Objects and pids are lists with one number per PE; a pid is 0 if it is unknown or if the process
runs on another node than PE 0. A program on several nodes adds a third list: the node of the job
for each PE, counted from 1, 0 = unknown. If the data of the request is `COST`, programs that
measure it add the cost of the map in force: the time without progress while objects moved, in
nanoseconds, and the bytes of these objects.

    state:    WFMAP1 77 77 1100 8,8,0,0 311,312,313,314 stalled=31000000 moved=4194304

The caller chooses the id, from 1. A map is in force when its id is. Both handlers answer because a
missing handler sends an empty reply, which is not a state.

A program with these handlers keeps an open file in memory (memfd) named ``MARKER``. Agents send no
requests before it exists, because Charm++ prints a line for every request without a handler.
"""

from __future__ import annotations

from dataclasses import dataclass

# The names differ within the eight bytes that CCS signs.
SET_HANDLER = "setmap_wattfold"
STATE_HANDLER = "getmap_wattfold"
COST = b"cost"
MARKER = "wattfold-map"
PES_MAX = 65_536
ID_MAX = 2**63 - 1
PID_MAX = 2**22
PORT_VARIABLE = "WATTFOLD_CCS_PORT"
KEY_VARIABLE = "WATTFOLD_CCS_KEY"

_MAGIC = "WFMAP1"
_STALLED, _MOVED = "stalled", "moved"


class MapError(ValueError):
    """An invalid map, or text that is not a state. The message names the error."""


class MapRefusedError(MapError):
    """The program refused a map; the message is the program's text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOrder:
    """A map with its id."""

    id: int
    map: bytes

    def text(self) -> bytes:
        """Return the data of a request."""
        return f"{_MAGIC} {self.id} {digits(self.map)}".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class MapState:
    """State reported by a program. ``map`` and ``objects`` have one entry per PE and are in force.

    ``stalled_ns`` and ``moved_bytes`` are the cost of that map, -1 = not reported.
    """

    wanted: int
    in_force: int
    map: bytes
    objects: tuple[int, ...]
    pids: tuple[int, ...]
    nodes: tuple[int, ...] = ()
    stalled_ns: int = -1
    moved_bytes: int = -1

    def text(self, *, cost: bool = False) -> bytes:
        """Return the reply of both handlers; ``cost`` adds the cost of the map in force."""
        rows = [row for row in (self.objects, self.pids, self.nodes) if row]
        words = [_MAGIC, str(self.wanted), str(self.in_force), digits(self.map)]
        words += [",".join(map(str, row)) for row in rows]
        known = {_STALLED: self.stalled_ns, _MOVED: self.moved_bytes}
        if cost:
            words += [f"{name}={value}" for name, value in known.items() if value >= 0]
        return " ".join(words).encode()


def first_pes(pes: int, enabled: int) -> bytes:
    """Return a map that enables the first ``enabled`` of ``pes`` PEs.

    Raises MapError if the program has fewer PEs.
    """
    if not 0 < enabled <= pes:
        raise MapError(f"{enabled} enabled PEs are not possible in a program of {pes} PEs")
    return b"\1" * enabled + b"\0" * (pes - enabled)


def digits(pe_map: bytes) -> str:
    """Return a map as 0 and 1, for people and for the wire."""
    return "".join("1" if enabled else "0" for enabled in pe_map)


def parse_digits(text: str) -> bytes:
    """Return the map in a text of ``digits``. Raises MapError."""
    if set(text) - {"0", "1"}:
        raise MapError("a map must consist of 0 and 1")
    return bytes(int(digit) for digit in text)


def check_map(pe_map: bytes, pes: int | None = None) -> bytes:
    """Return the map if it is valid for this number of PEs. Raises MapError."""
    if not 0 < len(pe_map) <= PES_MAX:
        raise MapError(f"a map has 1 to {PES_MAX} PEs, got {len(pe_map)}")
    if set(pe_map) - {0, 1}:
        raise MapError("a map has one byte per PE, 0 or 1")
    if 1 not in pe_map:
        raise MapError(f"map {digits(pe_map)} enables no PE")
    if pes is not None and len(pe_map) != pes:
        raise MapError(f"the map has {len(pe_map)} PEs, but the program has {pes}")
    return pe_map


def refusal(why: str) -> bytes:
    """Return the reply to a refused map."""
    return f"{_MAGIC} error {why}".encode("ascii", "replace")


def parse_order(data: bytes, pes: int) -> MapOrder:
    """Return the map of a request to a program with ``pes`` PEs. Raises MapError."""
    words = _words(data)
    if len(words) != 2:
        raise MapError(f"a request has an id and a map, got {len(words)} words")
    return MapOrder(id=_number(words[0], 1, ID_MAX), map=check_map(parse_digits(words[1]), pes))


def parse_state(data: bytes) -> MapState:
    """Return the state in a reply.

    Raises MapRefusedError for a refusal, MapError for other text.
    """
    words = _words(data)
    if words[:1] == ["error"]:
        raise MapRefusedError(" ".join(words[1:]))
    words, cost = _cost(words)
    if len(words) not in (5, 6):
        raise MapError(f"a state has 5 or 6 words, got {len(words)}")
    pe_map = check_map(parse_digits(words[2]))
    return MapState(
        wanted=_number(words[0], 0, ID_MAX),
        in_force=_number(words[1], 0, ID_MAX),
        map=pe_map,
        objects=_row(words[3], len(pe_map), ID_MAX),
        pids=_row(words[4], len(pe_map), PID_MAX),
        nodes=_row(words[5], len(pe_map), PES_MAX) if len(words) == 6 else (),
        stalled_ns=cost.get(_STALLED, -1),
        moved_bytes=cost.get(_MOVED, -1),
    )


def _cost(words: list[str]) -> tuple[list[str], dict[str, int]]:
    """Return the words of a state without its cost, and the cost."""
    said = [word.split("=", 1) for word in words if "=" in word]
    cost = {name: _number(value, 0, ID_MAX) for name, value in said}
    return [word for word in words if "=" not in word], cost


def _words(data: bytes) -> list[str]:
    try:
        words = data.decode("ascii").split()
    except UnicodeDecodeError:
        words = []
    if words[:1] != [_MAGIC]:
        raise MapError(f"{len(data)} bytes that do not begin with {_MAGIC}")
    return words[1:]


def _row(text: str, length: int, most: int) -> tuple[int, ...]:
    row = tuple(_number(word, 0, most) for word in text.split(","))
    if len(row) != length:
        raise MapError(f"{len(row)} numbers for {length} PEs")
    return row


def _number(text: str, least: int, most: int) -> int:
    # Longer texts are not converted at all.
    if not text.isdecimal() or len(text) > 20 or not least <= int(text) <= most:
        raise MapError(f"{text[:24]!r} is not a number from {least} to {most}")
    return int(text)
