"""Reader of the description of a machine of several classes in a TOML file.

[[class]]
name = "gpu"
nodes = 32
cores = 16
memory_gib = 64
gpus = 2
features = ["k20"]
base_w = 60         # outside packages and DRAM; default 38
dram_w = 18
cap_min_w = 50      # range of the package caps of a node
cap_max_w = 190
idle_w = 90         # default: as a node at its minimum cap
gpu_model = "V100"  # model of its GPUs, required by training jobs
gpu_min_w = 100     # range of the limits of a GPU; default: its power is not counted
gpu_max_w = 250
gpu_idle_w = 36     # power of an unused GPU; default 0

[[window]]          # nodes out of use; times count from the first submission
class = "gpu"
start_s = 86400
end_s = 100800
first_node = 0      # default: all nodes of the class
nodes = 8

[[boot]]            # boots of a class, if nodes sleep; default: as all nodes (`--sleep`)
class = "gpu"
boot_s = 300
boot_w = 400
failures = 0.02     # share of its boots that fail
late = 0.1          # share of its boots that take late_s longer
late_s = 120

A list of nodes (`nodes_file`) also works; it has no powers.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from wattfold.contract.units import ns_from_s, uw_from_w
from wattfold.coordinator.core.model.amounts import GIB
from wattfold.simulator.engine.machines.class_boots import ClassBoots
from wattfold.simulator.engine.machines.node_machine import (
    GpuWatts,
    NodeClass,
    NodeMachine,
    OutageWindow,
)
from wattfold.simulator.engine.machines.nodes_file import is_nodes_file, node_classes

WATTS = {"base_w": "base_w", "dram_w": "dram_w", "cap_min_w": "cap_w_min", "cap_max_w": "cap_w_max"}
COUNTS = ("nodes", "cores", "gpus")
GPU_WATTS = {"gpu_min_w": "min_w", "gpu_max_w": "max_w", "gpu_idle_w": "idle_w"}
KEYS = {"name", "memory_gib", "features", "idle_w", "gpu_model", *GPU_WATTS, *WATTS, *COUNTS}
BOOT_KEYS = {"class", "boot_s", "boot_w", "failures", "late", "late_s"}
WINDOW_KEYS = {"class", "start_s", "end_s", "first_node", "nodes"}
MAX_TIME_S = 4e9
MAX_NODES = 1_000_000
MAX_CORES = 4096


def read_machine(path: Path) -> NodeMachine:
    """Return the machine in a file. Raises ValueError with the file's name and the error."""
    try:
        text = path.read_text(encoding="utf-8")
        if is_nodes_file(text):
            return NodeMachine(classes=node_classes(text))
        document = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: not TOML: {error}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    try:
        return _machine(document)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _machine(document: Mapping[str, Any]) -> NodeMachine:
    _refuse_unknown(document, {"class", "window", "boot"}, "the file")
    tables = document.get("class", [])
    if not isinstance(tables, list) or not tables:
        raise ValueError("expected at least one [[class]] of nodes")
    classes = tuple(_class(table) for table in tables)
    windows = document.get("window", [])
    if not isinstance(windows, list):
        raise ValueError("windows must be [[window]] tables")
    boots = document.get("boot", [])
    if not isinstance(boots, list):
        raise ValueError("boots must be [[boot]] tables")
    machine = NodeMachine(classes=classes, boots=tuple(_boots(table) for table in boots))
    machine = replace(machine, windows=tuple(_window(table, classes) for table in windows))
    if machine.nodes > MAX_NODES:
        raise ValueError(f"{machine.nodes} nodes; a simulation takes up to {MAX_NODES:,}")
    return machine


def _class(table: Mapping[str, Any]) -> NodeClass:
    name = table.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError('every [[class]] needs a name, such as name = "gpu"')
    where = f"class {name!r}"
    _refuse_unknown(table, KEYS, where)
    features = table.get("features", [])
    if not isinstance(features, list) or not all(isinstance(one, str) for one in features):
        raise ValueError(f"{where}: features must be a list of names, got {features!r}")
    watts = {ours: _real(table, key, where) for key, ours in WATTS.items() if key in table}
    return NodeClass.of_watts(
        name,
        _count(table, "nodes", where, minimum=1, most=MAX_NODES),
        _count(table, "cores", where, minimum=1, most=MAX_CORES),
        gpus=_count(table, "gpus", where, minimum=0, most=MAX_CORES) if "gpus" in table else 0,
        memory_bytes=round(_real(table, "memory_gib", where) * GIB) if "memory_gib" in table else 0,
        features=tuple(features),
        gpu=_gpu(table, where),
        idle_w=_real(table, "idle_w", where) if "idle_w" in table else None,
        **watts,
    )


def _gpu(table: Mapping[str, Any], where: str) -> GpuWatts:
    model = table.get("gpu_model", "")
    if not isinstance(model, str):
        raise ValueError(f'{where}: gpu_model must be a name such as "V100", got {model!r}')
    watts = {ours: _real(table, key, where) for key, ours in GPU_WATTS.items() if key in table}
    if watts and "max_w" not in watts:
        raise ValueError(f"{where}: gpu_max_w is missing")
    if watts and "min_w" not in watts:
        watts["min_w"] = watts["max_w"]
    return GpuWatts(model=model, **watts)


def _window(table: Mapping[str, Any], classes: tuple[NodeClass, ...]) -> OutageWindow:
    _refuse_unknown(table, WINDOW_KEYS, "a window")
    name = table.get("class")
    known = {one.name: one.count for one in classes}
    if name not in known:
        raise ValueError(
            f"a window is on class {name!r}, which does not exist; there are {', '.join(known)}"
        )
    where = f"window on {name!r}"
    for key in ("start_s", "end_s"):
        if key not in table:
            raise ValueError(f"{where}: {key} is missing")
    first, count = 0, known[name]
    if "first_node" in table:
        first = _count(table, "first_node", where, minimum=0, most=MAX_NODES)
        count -= first
    if "nodes" in table:
        count = _count(table, "nodes", where, minimum=1, most=MAX_NODES)
    start_s, end_s = (_real(table, key, where) for key in ("start_s", "end_s"))
    if end_s > MAX_TIME_S:
        raise ValueError(f"{where}: end_s is {end_s:g}; a simulation goes up to {MAX_TIME_S:g} s")
    return OutageWindow(
        class_name=name,
        start_ns=ns_from_s(start_s),
        end_ns=ns_from_s(end_s),
        first=first,
        count=count,
    )


def _boots(table: Mapping[str, Any]) -> ClassBoots:
    _refuse_unknown(table, BOOT_KEYS, "a table [[boot]]")
    name = table.get("class")
    if not isinstance(name, str):
        raise ValueError('every [[boot]] needs a class, such as class = "gpu"')
    where = f"boots of class {name!r}"
    found = {
        key: _real(table, key, where) if key in table else default
        for key, default in (("boot_s", 0), ("boot_w", 0), ("failures", -1), ("late", 0))
    }
    return ClassBoots(
        class_name=name,
        boot_ns=ns_from_s(found["boot_s"]),
        boot_uw=uw_from_w(found["boot_w"]),
        failing=found["failures"],
        late=found["late"],
        late_ns=ns_from_s(_real(table, "late_s", where)) if "late_s" in table else 0,
    )


def _refuse_unknown(table: Mapping[str, Any], known: set[str], where: str) -> None:
    odd = sorted(set(table) - known)
    if odd:
        raise ValueError(f"{where}: unknown key {odd[0]!r}; there are {', '.join(sorted(known))}")


def _count(table: Mapping[str, Any], key: str, where: str, *, minimum: int, most: int) -> int:
    value = table.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= most:
        raise ValueError(
            f"{where}: {key} must be a whole number from {minimum} to {most}, got {value!r}"
        )
    return value


def _real(table: Mapping[str, Any], key: str, where: str) -> float:
    value = table[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"{where}: {key} must be a number of at least zero, got {value!r}")
    return float(value)
