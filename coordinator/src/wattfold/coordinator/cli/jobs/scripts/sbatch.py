"""Translation of `#SBATCH` options into options of `submit`.

docs/job-scripts.md has the table. Options that would change what runs are refused, and the other
unknown options are named in a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from wattfold.coordinator.cli.jobs.scripts import sbatch_conditions as conditions
from wattfold.coordinator.cli.jobs.scripts.job_script import Directive
from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.shared.parsing import SizeRange, parse_size_range

FLAGS = frozenset({"exclusive", "requeue", "no-requeue", "hold"})
SHORT = {
    "A": "account",
    "t": "time",
    "J": "job-name",
    "N": "nodes",
    "n": "ntasks",
    "c": "cpus-per-task",
    "p": "partition",
    "o": "output",
    "e": "error",
    "G": "gpus",
    "C": "constraint",
    "D": "chdir",
    "H": "hold",
    "a": "array",
    "d": "dependency",
    "b": "begin",
}
REFUSED = {
    "gpus-per-task": "give --gpus-per-node, or --gpus for the whole job",
}
"""Options without which another job would run, each with what to do."""
DEFAULT_OUTPUT = "wattfold-%j.out"
_DURATION = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?\Z")
_MEMORY = re.compile(r"(\d+)([KMGT]?)B?\Z", re.IGNORECASE)
_GPUS = re.compile(r"(?:([A-Za-z_][\w.-]*):)?(\d+)\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """Options of `submit`, variables of the job, and warnings."""

    words: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class _Options:
    """The options of a script by name, the last value of each, with its line."""

    name: str
    values: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def refuse(self, option: str, reason: str) -> BadRequestError:
        line = self.lines[option]
        return BadRequestError(f"{self.name}:{line}: #SBATCH --{option}: {reason}")

    def count(self, option: str) -> int | None:
        """Return the number of an option, None without this option."""
        text = self.values.get(option)
        if text is None:
            return None
        if not re.fullmatch(r"[1-9]\d{0,6}", text):
            raise self.refuse(option, f"{text!r} is not a number from 1 to 9999999")
        return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    """Size of a job as Slurm states it. ``tasks`` and ``per_node`` are None if not given."""

    nodes: SizeRange | None
    tasks: int | None
    per_node: int | None
    cpus: int

    @property
    def is_units(self) -> bool:
        """Whether the tasks may be on any nodes."""
        return self.nodes is None and (self.tasks or 1) > 1


_Conversion: TypeAlias = Callable[[_Options, str], list[str]]


def translate(directives: Sequence[Directive], name: str) -> Translated:
    """Translate the `#SBATCH` lines of a script. Raises BadRequestError with file and line."""
    if not directives:
        return Translated()
    options = _read(directives, name)
    size = _size(options)
    words = [*_size_words(options, size), *_memory_words(options, size), *_gpu_words(options, size)]
    for option, convert in _PLAIN.items():
        if option in options.values:
            words.extend(convert(options, options.values[option]))
    if options.unread:
        options.warnings.insert(0, f"not supported: {'; '.join(options.unread)}")
    return Translated(
        words=tuple(words), variables=_variables(size, options), warnings=tuple(options.warnings)
    )


def _read(directives: Sequence[Directive], name: str) -> _Options:
    options = _Options(name)
    for directive in directives:
        for option, value in _pairs(directive, name):
            options.lines[option] = directive.line
            if option in REFUSED:
                raise options.refuse(option, f"not supported; {REFUSED[option]}")
            if option in VALUED or (option in FLAGS and not value):
                options.values[option] = value
            else:
                shown = f"--{option}={value}" if value else f"--{option}"
                options.unread.append(f"{shown} (line {directive.line})")
    return options


def _pairs(directive: Directive, name: str) -> Iterator[tuple[str, str]]:
    """Yield the options of a line with their values; an option without a value has an empty one."""
    rest = list(directive.words)
    while rest:
        word = rest.pop(0)
        option, value = _split(word)
        if not option:
            raise BadRequestError(f"{name}:{directive.line}: #SBATCH {word}: not an option")
        flag = option in FLAGS
        if value is None and not flag and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        if value is None and option in VALUED:
            raise BadRequestError(f"{name}:{directive.line}: #SBATCH --{option} needs a value")
        yield option, value or ""


def _split(word: str) -> tuple[str, str | None]:
    """Split --time=10, --time, -t10 and -t. The value is None if it is no part of the word."""
    if word.startswith("--"):
        option, equals, value = word[2:].partition("=")
        return _completed(option), value if equals else None
    if word.startswith("-") and len(word) > 1:
        return SHORT.get(word[1], word[1]), word[2:].removeprefix("=") or None
    return "", None


def _completed(option: str) -> str:
    """Return the only known option that an abbreviation can mean, or else the text itself."""
    known = FLAGS | VALUED | set(REFUSED)
    if option in known:
        return option
    found = [name for name in known if option and name.startswith(option)]
    return found[0] if len(found) == 1 else option


def _size(options: _Options) -> _Size:
    nodes = None
    if "nodes" in options.values:
        try:
            nodes = parse_size_range(options.values["nodes"])
        except ValueError as error:
            raise options.refuse("nodes", str(error)) from None
    tasks, per_node = options.count("ntasks"), options.count("ntasks-per-node")
    if nodes is None and per_node:
        count = -(-tasks // per_node) if tasks else 1
        nodes = SizeRange(least=count, greatest=count)
    cpus = options.count("cpus-per-task") or 1
    return _Size(nodes=nodes, tasks=tasks, per_node=per_node, cpus=cpus)


def _size_words(options: _Options, size: _Size) -> list[str]:
    if size.is_units:
        return ["--units", str(size.tasks), "--unit-cores", str(size.cpus), "--own-launcher"]
    tasks = _tasks_per_node(options, size)
    words = ["--tasks-per-node", str(tasks)] if tasks > 1 else []
    if size.nodes is None or size.nodes.greatest == 1:
        launcher = ["--own-launcher"] if tasks > 1 else []
        return ["--cores", str(tasks * size.cpus), *words, *launcher]
    if "cpus-per-task" in options.values:
        options.warnings.append(
            f"the job gets whole nodes, so each of the {tasks} tasks of a node gets an equal part "
            f"of its cores instead of {size.cpus}"
        )
    if tasks == 1:
        options.warnings.append(
            "launchers start one process for each core of a node; for one process on each node, "
            "use `mpirun --map-by ppr:1:node` or `mpiexec -ppn 1`"
        )
    if size.nodes.is_range:
        words.extend(["--kind", "moldable"])
    return ["--nodes", _shown(size.nodes), *words, "--own-launcher"]


def _tasks_per_node(options: _Options, size: _Size) -> int:
    """Return the tasks on each node. Raises BadRequestError if nodes differ in their tasks."""
    nodes = size.nodes or SizeRange(least=1, greatest=1)
    if size.tasks is None:
        return size.per_node or 1
    if nodes.is_range or size.tasks % nodes.least:
        raise options.refuse(
            "ntasks",
            f"{size.tasks} tasks cannot be equal parts on {_shown(nodes)} nodes; give "
            "--ntasks-per-node and one number of nodes",
        )
    tasks = size.tasks // nodes.least
    if size.per_node and tasks > size.per_node:
        raise options.refuse(
            "ntasks-per-node",
            f"{size.tasks} tasks on {nodes.least} nodes are {tasks} on each; change one of them",
        )
    return tasks


def _shown(nodes: SizeRange) -> str:
    return f"{nodes.least}-{nodes.greatest}" if nodes.is_range else str(nodes.least)


def _memory_words(options: _Options, size: _Size) -> list[str]:
    if "mem" in options.values:
        if options.values["mem"] == "0":
            raise options.refuse("mem", "0 (all memory) is not supported; use --exclusive")
        if size.is_units:
            raise options.refuse("mem", _PER_NODE)
        return ["--memory", _memory(options, "mem", 1)]
    if "mem-per-cpu" not in options.values:
        return []
    tasks = 1 if size.is_units else _tasks_per_node(options, size)
    return ["--memory", _memory(options, "mem-per-cpu", tasks * size.cpus)]


_PER_NODE = (
    "an amount for each node needs the number of nodes, because --ntasks alone may use any number; "
    "add --nodes, or give --mem-per-cpu or --gpus"
)


def _memory(options: _Options, option: str, times: int) -> str:
    match = _MEMORY.match(options.values[option])
    if match is None or not int(match[1]):
        raise options.refuse(
            option, f"{options.values[option]!r} is not an amount of memory such as 4G"
        )
    return f"{int(match[1]) * times}{match[2].upper() or 'M'}"


def _gpu_words(options: _Options, size: _Size) -> list[str]:
    for option in ("gres", "gpus-per-node"):
        if option in options.values:
            if size.is_units:
                raise options.refuse(option, _PER_NODE)
            count = _gpus(options, option)
            return ["--gpus", str(count)] if count else []
    if "gpus" not in options.values:
        return []
    count, nodes = _gpus(options, "gpus"), size.nodes or SizeRange(least=1, greatest=1)
    parts = (size.tasks or 1) if size.is_units else nodes.least
    if nodes.is_range or count % parts:
        raise options.refuse(
            "gpus", f"{count} GPUs are not equal parts on the nodes; give --gpus-per-node"
        )
    return ["--gpus", str(count // parts)] if count else []


def _gpus(options: _Options, option: str) -> int:
    text = options.values[option]
    if option == "gres":
        if not re.fullmatch(r"gpu(:.+)?", text):
            raise options.refuse(option, f"only GPUs are supported, such as gpu:2, not {text!r}")
        text = text.partition(":")[2] or "1"
        text = f"{text}:1" if re.fullmatch(r"[A-Za-z_][\w.-]*", text) else text
    match = _GPUS.match(text)
    if match is None:
        raise options.refuse(
            option, f"{options.values[option]!r} is not a number of GPUs such as 2"
        )
    if match[1]:
        options.warnings.append(
            f"not supported: the GPU type {match[1]} (line {options.lines[option]}); use --features"
        )
    return int(match[2])


def _variables(size: _Size, options: _Options) -> dict[str, str]:
    found = {}
    fixed = size.nodes is None or not size.nodes.is_range
    if fixed and (size.tasks or size.per_node):
        nodes = size.nodes.least if size.nodes else 1
        found["SLURM_NTASKS"] = str(size.tasks or nodes * (size.per_node or 1))
    if "cpus-per-task" in options.values:
        found["SLURM_CPUS_PER_TASK"] = str(size.cpus)
    return found


def _time(options: _Options, text: str) -> list[str]:
    match = _DURATION.match(text)
    if match is None:
        raise options.refuse(
            "time", f"{text!r} is not a time; expected minutes, MM:SS, HH:MM:SS or D-HH:MM:SS"
        )
    days, first, second, third = match.groups()
    parts = [int(part) for part in (first, second, third) if part is not None]
    if days is not None or len(parts) == 3:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    else:
        hours, minutes, seconds = 0, *(*parts, 0)[:2]
    total = ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    if not total:
        raise options.refuse("time", "a limit of 0 is not supported; omit the option")
    return ["--time", f"{total}s"]


def _features(options: _Options, text: str) -> list[str]:
    if re.search(r"[^\w.&-]", text):
        raise options.refuse(
            "constraint", f"{text!r}: only names joined with & are supported, such as bigmem&avx2"
        )
    return ["--features", text.replace("&", ",")]


def _queue(options: _Options, text: str) -> list[str]:
    if "," in text:
        raise options.refuse("partition", f"{text!r}: give one queue")
    return ["--queue", text]


def _mail(options: _Options, text: str) -> list[str]:
    known, unread = conditions.mail_events(text)
    if unread:
        options.unread.append(f"--mail-type={unread} (line {options.lines['mail-type']})")
    return ["--mail", known] if known else []


def _mail_user(options: _Options, text: str) -> list[str]:
    # Slurm sends no mail without --mail-type either.
    if conditions.mail_events(options.values.get("mail-type", ""))[0]:
        return ["--mail-to", text]
    options.unread.append(f"--mail-user={text} (line {options.lines['mail-user']})")
    return []


def _export(options: _Options, text: str) -> list[str]:
    if text not in ("ALL", "NONE"):
        raise options.refuse("export", f"{text!r}: only ALL and NONE are supported; use --env")
    return ["--export", text.lower()]


def _condition(option: str, convert: Callable[[str], list[str]]) -> _Conversion:
    def words(options: _Options, text: str) -> list[str]:
        try:
            return convert(text)
        except ValueError as error:
            raise options.refuse(option, str(error)) from None

    return words


def _as(option: str) -> _Conversion:
    return lambda _options, text: [option, text]


def _flag(*words: str) -> _Conversion:
    return lambda _options, _text: list(words)


_PLAIN: Mapping[str, _Conversion] = {
    "time": _time,
    "job-name": _as("--name"),
    "account": _as("--account"),
    "partition": _queue,
    "output": _as("--output"),
    "error": _as("--error"),
    "constraint": _features,
    "chdir": _as("--cwd"),
    "export": _export,
    "mail-type": _mail,
    "mail-user": _mail_user,
    "exclusive": _flag("--exclusive"),
    "requeue": _flag("--requeue"),
    "no-requeue": _flag("--requeue=0"),
    "hold": _flag("--hold"),
    "dependency": _condition("dependency", conditions.dependency_words),
    "begin": _condition("begin", conditions.begin_words),
    "array": _as("--array"),
}
VALUED = (_PLAIN.keys() - FLAGS) | {
    *("nodes", "ntasks", "ntasks-per-node", "cpus-per-task"),
    *("mem", "mem-per-cpu", "gres", "gpus-per-node", "gpus"),
}
