"""Keys of the configuration of the agent, with ranges, defaults and help texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wattfold.nodeagent.adapters.jobs.job_groups import PIDS_MAX_DEFAULT
from wattfold.shims.locate import OMP_SHIM_VARIABLE

GENERAL = "General options"
POWER = "Power options"
GPUS = "GPU options"
JOBS = "Job options"
EMULATED = "Emulation options"
GROUPS = (GENERAL, POWER, GPUS, JOBS, EMULATED)
"""Headings of the options in the help text, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """Key of the file: its type, range, unit, default and help text.

    Keys with a help text are also options of the command line.
    """

    kind: type
    default: Any = None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    choices: tuple[str, ...] = ()
    or_text: bool = False
    """Whether a switch also takes a text."""
    or_list: bool = False
    """Whether the file may have a list of texts. The command line takes a text with commas."""
    help: str = ""
    metavar: str = ""
    """Name of the value in the help text."""
    group: str = GENERAL
    """Heading of the option in the help text."""


def _power(text: str) -> Key:
    return Key(kind=float, low=0, high=100_000, unit=" W", help=text, metavar="WATTS", group=POWER)


def _gpu_power(text: str) -> Key:
    return Key(kind=float, low=0, high=100_000, unit=" W", help=text, metavar="WATTS", group=GPUS)


_WATTS = Key(kind=float, low=0, high=4095, unit=" W")
TOP = {
    "node_id": Key(
        kind=str, metavar="NAME", help="Name of the node. Default: host name up to the first dot."
    ),
    "listen": Key(
        kind=str,
        metavar="ADDRESS",
        help="Address for the coordinator: unix:/PATH or HOST:PORT. HOST:PORT requires a token."
        " Default: socket agent.sock in the run directory.",
    ),
    "steps_listen": Key(
        kind=str,
        metavar="ADDRESS",
        help="Address for the remote shell wattfold-rsh: unix:/PATH, HOST:PORT or off. Default:"
        " socket steps.sock in the run directory, or the port after that of --listen.",
    ),
    "adopt_slurm": Key(
        kind=bool,
        default=False,
        help="Adopt the steps of jobs that Slurm's plugin spank_wattfold.so hands over through the"
        " socket adopt.sock in the run directory. Default: off.",
    ),
    "token_file": Key(
        kind=str,
        metavar="FILE",
        help="File with the token that the coordinator must send: at least 16 characters,"
        " mode 600. Default: no token.",
    ),
    "insecure": Key(
        kind=bool,
        default=False,
        help="Allow HOST:PORT without a token. For tests only. Default: off.",
    ),
    "state_dir": Key(
        kind=str,
        default="/var/lib/wattfold-agent",
        metavar="DIR",
        help="Directory of the state that survives a restart: original limits, jobs and epoch."
        " Default: /var/lib/wattfold-agent.",
    ),
    "run_dir": Key(
        kind=str,
        default="/run/wattfold-agent",
        metavar="DIR",
        help="Directory of the sockets and of the emulated zones. Default: /run/wattfold-agent.",
    ),
    "metrics_file": Key(
        kind=str,
        metavar="FILE",
        help="File for the metrics, which the node exporter of Prometheus reads (textfile"
        " collector). Its name must end in .prom. Requires the extra metrics. Default: no"
        " metrics.",
    ),
    "metrics_interval_s": Key(
        kind=float,
        default=15.0,
        low=1,
        high=3600,
        unit=" s",
        metavar="SECONDS",
        help="Time between two versions of the metrics, in seconds. Default: 15.",
    ),
    "cpus": Key(
        kind=str,
        metavar="LIST",
        help="CPUs for jobs, such as 0-3,8. Default: all CPUs that the agent itself may use,"
        " except isolated and offline CPUs.",
    ),
    "powercap_root": Key(
        kind=str,
        default="/sys/class/powercap",
        metavar="DIR",
        group=POWER,
        help="Directory of the power zones. Default: /sys/class/powercap, or the directory powercap"
        " in the run directory for emulated zones.",
    ),
    "cgroup_root": Key(
        kind=str,
        default="/sys/fs/cgroup",
        metavar="DIR",
        help="Directory in which the agent creates the control groups of jobs. With cgroup"
        " version 2 under systemd, a group of a unit with Delegate=. Default: /sys/fs/cgroup.",
    ),
    "base_power_w": Key(
        kind=float,
        default=0.0,
        low=0,
        high=100_000,
        unit=" W",
        metavar="WATTS",
        group=POWER,
        help="Power that the node draws outside its capped zones. The budget is charged for it."
        " Default: 0.",
    ),
    "package_idle_w": Key(
        kind=float,
        default=0.0,
        low=0,
        high=100_000,
        unit=" W",
        metavar="WATTS",
        group=POWER,
        help="Power of an idle package. The energy of jobs excludes it. Default: 0, which means the"
        " lowest power measured over one second without jobs.",
    ),
    "floor_w": _power("Cap of each package without a live lease. Default: the minimum cap."),
    "dram_floor_w": _power("Cap of each DRAM zone without a live lease. Default: the minimum cap."),
    "package_min_w": _power(
        "Minimum cap of a package. Default: the minimum that the processor reports, or else a"
        " quarter of the maximum."
    ),
    "package_max_w": _power(
        "Maximum cap of a package. Default: the maximum that the zone reports, or else its current"
        " limit."
    ),
    "dram_min_w": _power(
        "Minimum cap of a DRAM zone. Default: the minimum that the processor reports, or else a"
        " quarter of the maximum."
    ),
    "dram_max_w": _power(
        "Maximum cap of a DRAM zone. Default: the maximum that the zone reports, or else its"
        " current limit."
    ),
    "gpu_floor_w": _gpu_power(
        "Cap of each GPU without a live lease, and of each idle GPU. Default: the minimum limit of"
        " the driver."
    ),
    "gpu_max_w": _gpu_power(
        "Maximum cap of a GPU. Required for GPUs whose driver reports no maximum; the budget is"
        " charged for it. Default: the maximum limit of the driver."
    ),
    "gpus": Key(
        kind=str,
        default="auto",
        or_list=True,
        metavar="auto|off|ID,...",
        group=GPUS,
        help="GPUs for jobs. auto: all GPUs that a driver reports. off: no GPU. Numbers or UUIDs:"
        " GPUs without a usable driver; they are neither capped nor measured. Default: auto.",
    ),
    "gpu_devices": Key(
        kind=str,
        default="",
        or_list=True,
        metavar="PATH,...",
        group=GPUS,
        help="Device node of each GPU listed in --gpus, in the same order. Needed to deny jobs"
        " access to other GPUs. Default: none.",
    ),
    "gpu_vendor": Key(
        kind=str,
        default="nvidia",
        choices=("nvidia", "amd", "intel"),
        group=GPUS,
        help="Vendor of the GPUs listed in --gpus. It selects the environment variable that names"
        " the GPUs of a job. Default: nvidia.",
    ),
    "gpu_model": Key(
        kind=str,
        metavar="NAME",
        group=GPUS,
        help="Model of all GPUs of this node in one word, such as V100. Default: the model that the"
        " driver reports, or V100 for emulated GPUs.",
    ),
    "gpu_names": Key(
        kind=str,
        default="uuid",
        choices=("uuid", "index"),
        group=GPUS,
        help="Form in which programs receive the names of their GPUs. Default: uuid.",
    ),
    "gpu_access": Key(
        kind=str,
        default="auto",
        choices=("auto", "cgroup", "off"),
        group=GPUS,
        help="Denial of access to GPUs of other jobs. cgroup: required, the agent does not start"
        " without it. auto: if control groups permit it. off: never. Default: auto.",
    ),
    "emulated_gpus": Key(
        kind=int,
        default=0,
        low=0,
        high=16,
        metavar="N",
        group=EMULATED,
        help="Number of emulated GPUs, 0 to 16, whose caps slow the jobs that hold them. Requires"
        " --emulate without a machine. Default: 0.",
    ),
    "features": Key(
        kind=str,
        default="",
        or_list=True,
        metavar="NAME,...",
        help="Features of this node that jobs may request by name. Default: none.",
    ),
    "memory_mib": Key(
        kind=int,
        low=1,
        high=1 << 40,
        metavar="MIB",
        group=JOBS,
        help="Memory for all jobs together, in MiB. Default: all memory of the machine.",
    ),
    "memory_limits": Key(
        kind=str,
        default="auto",
        choices=("auto", "cgroup", "watch"),
        group=JOBS,
        help="Enforcement of the memory limit of a job. cgroup: memory controller, required. watch:"
        " the agent adds up the resident memory of the processes and ends the job. auto: cgroup if"
        " possible, or else watch. Default: auto.",
    ),
    "masks": Key(
        kind=str,
        default="auto",
        choices=("auto", "cgroup", "affinity"),
        group=JOBS,
        help="Enforcement of the cores of a job. cgroup: cpuset controller, required. affinity:"
        " affinity of every thread, which a program can change. auto: cgroup if possible, or else"
        " affinity. Default: auto.",
    ),
    "job_groups": Key(
        kind=str,
        default="auto",
        choices=("auto", "cgroup", "off"),
        group=JOBS,
        help="Method of ending all processes of a job. cgroup: one control group for each job,"
        " required. off: signals. auto: cgroup if possible, or else signals. Default: auto.",
    ),
    "pids_max": Key(
        kind=int,
        default=PIDS_MAX_DEFAULT,
        low=16,
        high=4_194_304,
        metavar="N",
        group=JOBS,
        help="Maximum number of processes and threads of a job on this node, at most a quarter of"
        f" the limit of the kernel. Default: {PIDS_MAX_DEFAULT}.",
    ),
    "residual_alarm_percent": Key(
        kind=float,
        default=5.0,
        low=0.1,
        high=100_000,
        unit=" %",
        metavar="PERCENT",
        group=JOBS,
        help="Alarm threshold for CPU time that a job spends on cores it has lost, in percent of"
        " one core. Default: 5.",
    ),
    "residual_window_s": Key(
        kind=float,
        default=5.0,
        low=0.1,
        high=600,
        unit=" s",
        metavar="SECONDS",
        group=JOBS,
        help="Averaging time of the residual alarm, in seconds. Default: 5.",
    ),
    "omp_shim": Key(
        kind=str,
        metavar="FILE",
        group=JOBS,
        help="OpenMP shim library that the agent loads into jobs, or off. Default: the variable"
        f" {OMP_SHIM_VARIABLE}, or else the library of an installed wattfold-shims.",
    ),
    "kill_jobs_on_exit": Key(
        kind=bool,
        default=False,
        group=JOBS,
        help="End all jobs of the node when the agent stops. Default: jobs keep running.",
    ),
    "restore_on_stop": Key(
        kind=bool,
        default=False,
        group=POWER,
        help="Restore the original power limits when the agent stops, even if they exceed the"
        " budget. Default: the node goes to its floors.",
    ),
    "emulate": Key(
        kind=bool,
        default=False,
        or_text=True,
        metavar="MACHINE",
        group=EMULATED,
        help="Emulate power zones. Without MACHINE, their caps slow the jobs. With MACHINE, a name"
        " or a TOML file, the zones behave like those of that machine and jobs are not slowed."
        " Default: real zones.",
    ),
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
    "cpu_share": Key(
        kind=float,
        default=1.0,
        low=0.01,
        high=1,
        metavar="SHARE",
        group=EMULATED,
        help="CPU time that one emulated core gets per second, in seconds, 0.01 to 1. Agents that"
        " share a host need shares that add up to at most 1. Default: 1.",
    ),
    "window_ms": Key(kind=float, default=100.0, low=50, high=60_000, unit=" ms"),
    "energy_range_uj": Key(kind=float, default=262143328850.0, low=1e6, high=4.3e15, unit=" uJ"),
    "throttle": Key(
        kind=str,
        default="auto",
        choices=("auto", "cgroup", "signals"),
        group=EMULATED,
        help="Method of slowing jobs under emulated caps. cgroup: CPU bandwidth controller,"
        " required. signals: SIGSTOP and SIGCONT. auto: cgroup if possible, or else signals."
        " Default: auto.",
    ),
    # Values of each emulated GPU. Default: the values of its model.
    "gpu_min_w": _WATTS,
    "gpu_max_w": _WATTS,
    "gpu_idle_w": _WATTS,
    "gpu_static_w": _WATTS,
    "gpu_full_w": _WATTS,
    "gpu_knee": Key(kind=float, low=0, high=1),
    "gpu_beta": Key(kind=float, low=0, high=1),
}
EMULATION_OPTIONS = ("cpu_share", "throttle")
"""Keys of the section [emulation] that are also options of the command line."""
