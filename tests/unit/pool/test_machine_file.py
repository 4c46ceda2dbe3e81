"""Machines from TOML files: accepted keys and error messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from wattfold.coordinator.core.model.amounts import GIB
from wattfold.simulator.engine.machines.machine_file import read_machine

GOOD = """
[[class]]
name = "cpu"
nodes = 3
cores = 16

[[class]]
name = "gpu"
nodes = 2
cores = 8
memory_gib = 1.5
gpus = 2
features = ["k20", "fast"]
base_w = 60
dram_w = 10
cap_min_w = 50
cap_max_w = 190.5
idle_w = 90

[[window]]
class = "gpu"
start_s = 60
end_s = 90.5
first_node = 1

[[window]]
class = "cpu"
start_s = 0
end_s = 10
nodes = 2
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "machine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_all_keys_are_read(tmp_path: Path) -> None:
    machine = read_machine(write(tmp_path, GOOD))
    assert (machine.nodes, machine.cores) == (5, 64)
    plain, gpu = machine.classes
    assert plain.idle_uw == plain.busy_uw(plain.cap_uw_min)
    assert (gpu.name, gpu.count, gpu.cores, gpu.gpus) == ("gpu", 2, 8, 2)
    assert (gpu.memory_bytes, gpu.features) == (3 * GIB // 2, ("k20", "fast"))
    powers = gpu.base_uw, gpu.dram_uw, gpu.cap_uw_min, gpu.cap_uw_max, gpu.idle_uw
    one, other = machine.windows
    assert (one.class_name, one.first, one.count) == ("gpu", 1, 1)
    assert (one.start_ns, one.end_ns) == (60 * 10**9, 90_500_000_000)
    assert (other.class_name, other.first, other.count) == ("cpu", 0, 2)
    assert powers == (60_000_000, 10_000_000, 50_000_000, 190_500_000, 90_000_000)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            "nodes = 3",
            "nodes = 0",
            "class 'cpu': nodes must be a whole number from 1 to 1000000, got 0",
        ),
        ("cores = 16", "cors = 16", "class 'cpu': unknown key 'cors'"),
        ('name = "cpu"', "", "every"),
        ('name = "cpu"', 'name = "gpu"', "unique names"),
        ("base_w = 60", 'base_w = "60"', "base_w must be a number of at least zero, got '60'"),
        ("cap_max_w = 190.5", "cap_max_w = 40", "need 0 < min <= max, got 50 and 40 W"),
        ("idle_w = 90", "idle_w = 190", "at its minimum cap .120 W., got 190 W"),
        ('["k20", "fast"]', '"k20"', "features must be a list of names"),
        ("[[class]]", "[[clas]]", "unknown key 'clas'"),
        ("nodes = 3", "nodes = ", "not TOML"),
        (
            'class = "cpu"',
            'class = "tpu"',
            "a window is on class 'tpu', which does not exist; there are cpu, gpu",
        ),
        ("end_s = 10", "", "window on 'cpu': end_s is missing"),
        ("end_s = 90.5", "end_s = 60", "from 60 s to 60 s"),
        ("first_node = 1", "first_node = 2", "nodes 2 to 1 of class 'gpu', which has 2"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, before: str, after: str, said: str) -> None:
    path = write(tmp_path, GOOD.replace(before, after))
    with pytest.raises(ValueError, match=said) as caught:
        read_machine(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_or_says_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        read_machine(tmp_path / "none.toml")
    with pytest.raises(ValueError, match="at least one"):
        read_machine(write(tmp_path, ""))
