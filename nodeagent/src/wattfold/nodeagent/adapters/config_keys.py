"""The keys of the agent's configuration, with their ranges and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wattfold.nodeagent.adapters.job_groups import PIDS_MAX_DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key of the file: its type, range, unit and default."""

    kind: type
    default: Any = None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    choices: tuple[str, ...] = ()
    or_text: bool = False
    """A switch that may name something as well."""
    or_list: bool = False
    """A text, or a list of texts; a text of the command line may be one with commas."""


_TEXT = Key(kind=str)
_POWER = Key(kind=float, low=0, high=100_000, unit=" W")
_WATTS = Key(kind=float, low=0, high=4095, unit=" W")
TOP = {
    "node_id": _TEXT,
    "listen": _TEXT,
    "steps_listen": _TEXT,
    "token_file": _TEXT,
    "insecure": Key(kind=bool, default=False),
    "state_dir": Key(kind=str, default="/var/lib/wattfold-agent"),
    "run_dir": Key(kind=str, default="/run/wattfold-agent"),
    "cpus": _TEXT,
    "powercap_root": Key(kind=str, default="/sys/class/powercap"),
    "cgroup_root": Key(kind=str, default="/sys/fs/cgroup"),
    "base_power_w": Key(kind=float, default=0.0, low=0, high=100_000, unit=" W"),
    "package_idle_w": Key(kind=float, default=0.0, low=0, high=100_000, unit=" W"),
    "floor_w": _POWER,
    "dram_floor_w": _POWER,
    "package_min_w": _POWER,
    "package_max_w": _POWER,
    "dram_min_w": _POWER,
    "dram_max_w": _POWER,
    "gpu_floor_w": _POWER,
    "gpu_max_w": _POWER,
    "gpus": Key(kind=str, default="auto", or_list=True),
    "gpu_devices": Key(kind=str, default="", or_list=True),
    "gpu_vendor": Key(kind=str, default="nvidia", choices=("nvidia", "amd", "intel")),
    "gpu_model": _TEXT,
    "gpu_names": Key(kind=str, default="uuid", choices=("uuid", "index")),
    "gpu_access": Key(kind=str, default="auto", choices=("auto", "cgroup", "off")),
    "emulated_gpus": Key(kind=int, default=0, low=0, high=16),
    "features": Key(kind=str, default="", or_list=True),
    "memory_mib": Key(kind=int, low=1, high=1 << 40),
    "memory_limits": Key(kind=str, default="auto", choices=("auto", "cgroup", "watch")),
    "masks": Key(kind=str, default="auto", choices=("auto", "cgroup", "affinity")),
    "job_groups": Key(kind=str, default="auto", choices=("auto", "cgroup", "off")),
    "pids_max": Key(kind=int, default=PIDS_MAX_DEFAULT, low=16, high=4_194_304),
    "residual_alarm_percent": Key(kind=float, default=5.0, low=0.1, high=100_000, unit=" %"),
    "residual_window_s": Key(kind=float, default=5.0, low=0.1, high=600, unit=" s"),
    "omp_shim": _TEXT,
    "kill_jobs_on_exit": Key(kind=bool, default=False),
    "restore_on_stop": Key(kind=bool, default=False),
    "emulate": Key(kind=bool, default=False, or_text=True),
}
# The defaults are a Xeon E5-2620 running Lulesh, from the tables of PARM (SC14).
EMULATION = {
    "a": Key(kind=float, default=2.63, low=0, high=1000),
    "b": Key(kind=float, default=8.36, low=0, high=1000),
    "c": Key(kind=float, default=13.0, low=0, high=1000, unit=" W"),
    "f_low_ghz": Key(kind=float, default=1.2, low=0.1, high=10, unit=" GHz"),
    "f_high_ghz": Key(kind=float, default=2.0, low=0.1, high=10, unit=" GHz"),
    "package_min_w": Key(kind=float, default=25.0, low=0.125, high=4095, unit=" W"),
    "package_max_w": Key(kind=float, default=95.0, low=0.125, high=4095, unit=" W"),
    "dram_min_w": Key(kind=float, default=8.0, low=0.125, high=4095, unit=" W"),
    "dram_max_w": Key(kind=float, default=35.0, low=0.125, high=4095, unit=" W"),
    "dram_idle_w": Key(kind=float, default=2.0, low=0, high=4095, unit=" W"),
    "dram_dynamic_w": Key(kind=float, default=6.0, low=0, high=4095, unit=" W"),
    "cpu_share": Key(kind=float, default=1.0, low=0.01, high=1),
    "window_ms": Key(kind=float, default=100.0, low=50, high=60_000, unit=" ms"),
    "energy_range_uj": Key(kind=float, default=262143328850.0, low=1e6, high=4.3e15, unit=" uJ"),
    "throttle": Key(kind=str, default="auto", choices=("auto", "cgroup", "signals")),
    # Of each emulated GPU; what is not given is that of its model.
    "gpu_min_w": _WATTS,
    "gpu_max_w": _WATTS,
    "gpu_idle_w": _WATTS,
    "gpu_static_w": _WATTS,
    "gpu_full_w": _WATTS,
    "gpu_knee": Key(kind=float, low=0, high=1),
    "gpu_beta": Key(kind=float, low=0, high=1),
}
