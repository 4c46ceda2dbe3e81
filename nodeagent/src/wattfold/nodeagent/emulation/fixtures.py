"""Fixtures: machines to emulate, as TOML files that give the origin of every value.

A value is a pair, ``[165000000, "captured"]``. A zone that is ``like`` another zone has its values,
except the values that it sets itself. The files in the folder ``fixtures`` show the keys.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from wattfold.contract.toml_text import parsed
from wattfold.contract.units import NS_PER_S, uw_from_w
from wattfold.nodeagent.emulation.machine import (
    ConstraintSpec,
    Disturbance,
    Machine,
    Origin,
    ZoneSpec,
)

_SHIPPED = Path(__file__).with_name("fixtures")
_ZONE_KEYS = {f.name for f in fields(ZoneSpec)} - {"folder", "constraints"}
_LIMIT_KEYS = {f.name for f in fields(ConstraintSpec)} - {"name"}
_TOP_KEYS = {
    "title",
    "source",
    "vendor",
    "load",
    "package_min_w",
    "dram_min_w",
    "zone",
    "disturbance",
}


class FixtureError(Exception):
    """The fixture cannot be used. The message names file, zone and key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixture:
    """A machine, and the origin of every value by its place, such as ``intel-rapl:0/energy_uj``."""

    path: Path
    machine: Machine
    origins: dict[str, Origin]


def shipped() -> list[str]:
    """Return the names of the fixtures of this package."""
    return sorted(path.stem for path in _SHIPPED.glob("*.toml"))


def load_fixture(name: str) -> Fixture:
    """Load a fixture of this package by name, or a file by path. Raises FixtureError."""
    path = Path(name)
    if "/" not in name and path.suffix != ".toml":
        path = _SHIPPED / f"{name}.toml"
        if not path.is_file():
            raise FixtureError(f"no machine {name}; give a path or one of {', '.join(shipped())}")
    try:
        given = parsed(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FixtureError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise FixtureError(f"{path}: {error}") from None
    return _Reader(path).fixture(given)


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._origins: dict[str, Origin] = {}

    def fixture(self, given: dict[str, Any]) -> Fixture:
        try:
            self._known(given, _TOP_KEYS, "")
            zones = self._zones(given.get("zone", []))
            machine = Machine(
                title=str(given["title"]),
                source=str(given["source"]),
                vendor=str(given.get("vendor", "GenuineIntel")),
                load=float(self._take(given, "load", "", 0.5)),
                package_uw_min=self._watts(given, "package_min_w"),
                dram_uw_min=self._watts(given, "dram_min_w"),
                zones=zones,
                disturbances=tuple(_disturbance(d) for d in given.get("disturbance", [])),
            )
            self._check(machine)
        except KeyError as error:
            raise FixtureError(f"{self._path}: {error.args[0]} is missing") from None
        except (TypeError, ValueError, AttributeError) as error:
            raise FixtureError(f"{self._path}: {error}") from None
        return Fixture(path=self._path, machine=machine, origins=self._origins)

    def _zones(self, given: list[dict[str, Any]]) -> tuple[ZoneSpec, ...]:
        whole: dict[str, dict[str, Any]] = {}
        for zone in given:
            base = whole[zone["like"]] if "like" in zone else {}
            own = {k: v for k, v in zone.items() if k != "like"}
            whole[zone["folder"]] = base | own
        return tuple(self._zone(folder, zone) for folder, zone in whole.items())

    def _zone(self, folder: str, given: dict[str, Any]) -> ZoneSpec:
        self._known(given, _ZONE_KEYS | {"folder", "constraint"}, folder)
        limits = given.get("constraint", {})
        values = {k: self._take(given, k, folder) for k in _ZONE_KEYS & given.keys()}
        values["enabled"] = bool(values.pop("enabled"))
        return ZoneSpec(
            folder=folder,
            energy_uj=_readable(values.pop("energy_uj")),
            constraints=tuple(self._constraint(n, c, folder) for n, c in limits.items()),
            **values,
        )

    def _constraint(self, name: str, given: dict[str, Any], folder: str) -> ConstraintSpec:
        where = f"{folder}/{name}"
        self._known(given, _LIMIT_KEYS, where)
        values = {key: _readable(self._take(given, key, where)) for key in given}
        return ConstraintSpec(name=name, **values)

    def _take(self, given: dict[str, Any], key: str, where: str, default: Any = None) -> Any:
        if key not in given and default is not None:
            return default
        place, pair = f"{where}/{key}", given[key]
        if not isinstance(pair, list) or len(pair) != 2:
            raise ValueError(f'{place} must be [value, "origin"]')
        self._origins[place] = Origin(pair[1])
        return pair[0]

    def _watts(self, given: dict[str, Any], key: str) -> int | None:
        return uw_from_w(self._take(given, key, "")) if key in given else None

    def _known(self, given: dict[str, Any], keys: set[str], where: str) -> None:
        for key in given:
            if key not in keys:
                raise ValueError(f"{where}/{key} is unknown; known keys: {', '.join(sorted(keys))}")

    def _check(self, machine: Machine) -> None:
        zones = {zone.folder: zone for zone in machine.zones}
        for zone in machine.zones:
            if zone.energy_range_uj <= 0:
                raise ValueError(f"{zone.folder}/energy_range_uj must be above 0")
            if ":" in zone.parent and zone.parent not in zones:
                raise ValueError(f"{zone.folder} has no zone {zone.parent} above it")
        for disturbance in machine.disturbances:
            names = [c.name for c in zones[disturbance.folder].constraints]
            if disturbance.value_uw is not None and disturbance.constraint not in names:
                raise ValueError(f"{disturbance.folder} has no {disturbance.constraint}")
            if disturbance.every_ns <= 0:
                raise ValueError("every_s of a disturbance must be above 0")


def _readable(value: Any) -> Any:
    return None if value == "unreadable" else value


def _disturbance(given: dict[str, Any]) -> Disturbance:
    value_w = given.get("value_w")
    return Disturbance(
        folder=given["folder"],
        every_ns=int(given["every_s"] * NS_PER_S),
        constraint=given.get("constraint", "long_term"),
        value_uw=None if value_w is None else uw_from_w(value_w),
        absent_ns=int(given.get("absent_s", 0) * NS_PER_S),
        once=bool(given.get("once", False)),
    )
