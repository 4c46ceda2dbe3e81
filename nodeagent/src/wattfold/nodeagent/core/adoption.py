"""Messages of Slurm's plugin about a step, and the environment of the step.

A message is one packet of lines ``name=value``. The first line is ``wattfold-adopt=1``. The answer
is ``ok`` with the variables to set, or ``no`` with the reason.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from wattfold.contract.ids import JobId, valid_name
from wattfold.nodeagent.core.errors import InvalidRequest
from wattfold.nodeagent.core.launch import ResizeMode, ShimSetting, runtime_environment
from wattfold.nodeagent.core.tasks import TASKS_MAX, share_of

MESSAGE_BYTES_MAX = 16384
SLURM = "slurm"
"""Owner of jobs that Slurm has started."""
_SET = "WATTFOLD_SET"
_NUMBER_MAX = 2**32 - 1
_PID_MAX = 2**22
_CPUS_MAX = 2**16
_NAMED_STEPS = {2**32 - 4: "extern", 2**32 - 5: "batch", 2**32 - 6: "interactive"}
_MODES = {mode.value: mode for mode in (ResizeMode.FIXED, ResizeMode.MASK, ResizeMode.TEAM)}


def slurm_job_id(number: int) -> JobId:
    """Return the name of a job of Slurm, which no job of a coordinator has."""
    return JobId(f"{SLURM}-{number}")


def slurm_number(job: JobId) -> int:
    """Return the number of a job in Slurm."""
    return int(job.removeprefix(f"{SLURM}-"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOpened:
    """A step of Slurm that prepares to start tasks. ``cpus``: its number of CPUs on this node."""

    job: JobId
    step: str
    uid: int
    tasks: int
    cpus: int
    mode: ResizeMode
    app: str = ""
    """Name of the application; empty = not stated."""
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskForked:
    """A task of a step, before its first instruction."""

    job: JobId
    step: str
    task: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskExited:
    """The end of a task of a step."""

    job: JobId
    step: str
    task: int
    code: int
    signal: int


StepMessage = StepOpened | TaskForked | TaskExited


class _Call(enum.Enum):
    OPEN = "open"
    TASK = "task"
    EXIT = "exit"


def parse_message(packet: bytes) -> StepMessage:
    """Return the message of a packet. Raises InvalidRequest."""
    if len(packet) > MESSAGE_BYTES_MAX:
        raise InvalidRequest(f"the message is longer than {MESSAGE_BYTES_MAX} bytes")
    try:
        lines = packet.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n")
        values = dict(line.split("=", 1) for line in lines)
    except ValueError:
        raise InvalidRequest("the message is not a list of lines name=value") from None
    if values.get("wattfold-adopt") != "1":
        raise InvalidRequest("the message is not of version 1 of the plugin's protocol")
    try:
        call = _Call(values.get("call", ""))
    except ValueError:
        raise InvalidRequest(f"the call {values.get('call')!r} is unknown") from None
    job = slurm_job_id(_number(values, "job", _NUMBER_MAX))
    number = _number(values, "step", _NUMBER_MAX)
    step = _NAMED_STEPS.get(number, str(number))
    if call is _Call.OPEN:
        return _opened(job, step, values)
    task = _number(values, "task", TASKS_MAX)
    if call is _Call.TASK:
        return TaskForked(job=job, step=step, task=task, pid=_number(values, "pid", _PID_MAX))
    return TaskExited(
        job=job,
        step=step,
        task=task,
        code=_number(values, "code", 255),
        signal=_number(values, "signal", 127),
    )


def _opened(job: JobId, step: str, values: Mapping[str, str]) -> StepOpened:
    mode = _MODES.get(values.get("mode", ""))
    if mode is None:
        raise InvalidRequest(f"mode {values.get('mode')!r} must be one of {', '.join(_MODES)}")
    app = values.get("app", "")
    if app and not valid_name(app):
        raise InvalidRequest(
            f"app {app!r} is not a name: expected 1-63 characters of A-Z a-z 0-9 . _ -"
        )
    return StepOpened(
        job=job,
        step=step,
        uid=_number(values, "uid", _NUMBER_MAX),
        tasks=max(1, _number(values, "tasks", TASKS_MAX)),
        cpus=max(1, _number(values, "cpus", _CPUS_MAX)),
        mode=mode,
        app=app,
        env={n.removeprefix("env."): v for n, v in values.items() if n.startswith("env.")},
    )


def _number(values: Mapping[str, str], name: str, most: int) -> int:
    text = values.get(name, "")
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= most):
        raise InvalidRequest(f"{name} = {text!r} is not a whole number up to {most}")
    return int(text)


def accepted(variables: Mapping[str, str] | None = None) -> bytes:
    """Return the answer for a step that is adopted, with variables for its environment."""
    lines = [f"{name}={value}" for name, value in (variables or {}).items()]
    text = "\n".join(["ok", *lines]) + "\n"
    return text.encode("utf-8", "surrogateescape")


def refused(reason: str) -> bytes:
    """Return the answer for a step that is not adopted."""
    return f"no\n{reason}\n".encode("utf-8", "surrogateescape")


def step_variables(opened: StepOpened, shim: ShimSetting) -> dict[str, str]:
    """Return the variables for the tasks of a step. The user's own settings take precedence.

    A step inherits the variables that its batch script was given. They are not settings of the
    user, and may be wrong for the step, so ``WATTFOLD_SET`` records them.
    """
    threads = share_of(opened.cpus, opened.tasks)
    inherited = opened.env.get(_SET, "").split(" ")
    given = {n: v for n, v in opened.env.items() if f"{n}={v}" not in inherited}
    ours = runtime_environment(opened.mode, threads, given)
    env = {
        **ours,
        _SET: " ".join(f"{name}={value}" for name, value in ours.items()),
        "WATTFOLD_JOB_ID": opened.job,
        "WATTFOLD_RESIZE_MODE": opened.mode.value,
        "WATTFOLD_LAUNCH_CPUS": str(threads),
        "WATTFOLD_TASKS": str(opened.tasks),
        "WATTFOLD_SHIM_ENDPOINT": shim.endpoint,
    }
    if shim.library and opened.mode is not ResizeMode.FIXED:
        own = opened.env.get("LD_PRELOAD", "").split(":")
        # The step of a batch script inherits the variable from the script.
        libraries = [shim.library, *(library for library in own if library != shim.library)]
        env["LD_PRELOAD"] = ":".join(filter(None, libraries))
    return env
