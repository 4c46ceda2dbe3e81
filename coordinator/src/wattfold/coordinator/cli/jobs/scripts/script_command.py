"""`submit` as a command that also takes options from the directives of a job script.

Options of the command line win over `#WATTFOLD`, and `#WATTFOLD` wins over `#SBATCH`.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import click

from wattfold.contract.ids import valid_job_name, valid_name
from wattfold.contract.job_variables import JOB_ID_PATTERN, SCRIPT_VARIABLE
from wattfold.coordinator.cli.jobs.scripts import job_script, sbatch
from wattfold.coordinator.cli.jobs.scripts.job_script import Directives, Script
from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.shared.texts.native_text import message_text
from wattfold.v1 import coordinator_pb2 as pb

STDIN = "-"
BATCH_LINE = "wattfold.batch-line"
"""Object of the context of a line of `--batch`."""
BATCH_OPTIONS = "wattfold.batch-options"
"""Key of the words of the command line that every line of `--batch` begins with."""
_META = "wattfold.submission"
_SIZES = frozenset({"cores", "nodes", "units", "unit_cores", "spreads"})
_GROUPS = (_SIZES, frozenset({"export", "no_env"}))
"""Parameters that state one thing. One of them hides those of the lower layers."""
_LINE_ONLY = frozenset({"json", "idempotency_key", "batch"})
"""Options that belong to one call of the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedSubmission:
    """Additions of a script to the options of a submission."""

    stored: Script | None = None
    """A script that travels with the job."""
    from_slurm: bool = False
    """Whether the script has `#SBATCH` lines."""
    variables: Mapping[str, str] = field(default_factory=dict)

    def caller(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of the shell without variables of another Slurm job."""
        dropped = ("SLURM_", "SLURMD_") if self.from_slurm else ()
        return {name: value for name, value in environment.items() if not name.startswith(dropped)}

    def add_variables(self, spec: pb.JobSpec) -> None:
        """Add the stored script, and the names of Slurm that scripts use."""
        if self.stored is not None:
            spec.env[SCRIPT_VARIABLE] = message_text(self.stored.text)
        if self.from_slurm:
            names = {
                "SLURM_JOB_ID": JOB_ID_PATTERN,
                "SLURM_JOB_NAME": spec.name,
                "SLURM_SUBMIT_DIR": message_text(os.getcwd()),
                **self.variables,
            }
            spec.env.update({n: v for n, v in names.items() if n not in spec.env})

    def programs(self, argv: Sequence[str]) -> Sequence[str]:
        """Return the command to look for on this machine."""
        return argv if self.stored is None else self.stored.interpreter


def submission_of(context: click.Context) -> ScriptedSubmission:
    """Return the script of a parsed command line."""
    found = context.meta.get(_META, ScriptedSubmission())
    assert isinstance(found, ScriptedSubmission)
    return found


class ScriptCommand(click.Command):
    """A command whose last argument is a command of a job, with directives if it is a script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line, with the options of the script as defaults."""
        given, _, _ = self.make_parser(ctx).parse_args(list(args))
        asks_for_help = any(p.is_eager and p.name in given for p in self.get_params(ctx))
        if ctx.resilient_parsing or asks_for_help:
            return super().parse_args(ctx, args)
        argv = list(_tuple(given.get("argv")))
        _check_requeue(given)
        if ctx.obj is BATCH_LINE and argv[:1] in ([], [STDIN]):
            raise click.UsageError("no command; a line of a batch is options and a command")
        if given.get("batch"):
            if argv:
                raise click.UsageError("--batch reads the commands from its file; give no command")
            ctx.meta[BATCH_OPTIONS] = _without_batch(args)
            return super().parse_args(ctx, [*_without_end(args), "--", STDIN])
        if not argv and sys.stdin is not None and not sys.stdin.isatty():
            argv, args = [STDIN], [*args, STDIN]
        if not argv:
            return super().parse_args(ctx, args)
        options = args[: len(args) - len(argv)]
        if argv[0] == STDIN:
            script: Script | None = job_script.script_from(_stdin())
        else:
            script = job_script.script_of(argv, Path(_text(given.get("cwd"))))
        if script is not None:
            settings = self._apply(ctx, script, given)
            options = [word for pair in settings for word in ("--env", pair)] + options
            argv = _command(argv, script, moved="cwd" in (ctx.default_map or {}))
        return super().parse_args(ctx, [*_without_end(options), "--", *argv])

    def _apply(self, ctx: click.Context, script: Script, given: Mapping[str, Any]) -> list[str]:
        """Set the options of a script as defaults, and return its settings of variables."""
        directives = job_script.parse_directives(script.text, script.name)
        translated = sbatch.translate(directives.slurm, script.name)
        slurm = self._parsed(ctx, translated.words, f"{script.name}: #SBATCH")
        own: dict[str, Any] = {}
        for directive in directives.own:
            where = f"{script.name}:{directive.line}"
            for name, value in self._parsed(ctx, directive.words, where).items():
                own[name] = [*own.get(name, ()), *value] if isinstance(value, list) else value
        settings = [*own.pop("settings", ())]
        options = _layered(_layered(slurm, own), given, keep_upper=False)
        resized = bool(_SIZES & (own.keys() | given.keys()))
        if directives.slurm:
            _join_outputs(options, given)
        options |= {n: v for n, v in _names(script, options, given).items() if n not in options}
        ctx.default_map = options
        _warn(script.name, directives, translated.warnings)
        ctx.meta[_META] = ScriptedSubmission(
            stored=script if script.path is None else None,
            from_slurm=bool(directives.slurm),
            variables={} if resized else translated.variables,
        )
        return settings

    def _parsed(self, ctx: click.Context, words: Sequence[str], where: str) -> dict[str, Any]:
        """Return the texts of options by parameter. Raises BadRequestError with file and line."""
        try:
            found, rest, _ = self.make_parser(ctx).parse_args(list(words))
            rest = [*_tuple(found.pop("argv", None)), *rest]
            if rest:
                raise click.UsageError(f"{rest[0]!r} is not an option")
            for param in self.get_params(ctx):
                if param.name in found:
                    if param.is_eager or param.name in _LINE_ONLY:
                        raise click.UsageError(f"{param.opts[-1]} is only for the command line")
                    found[param.name], _ = param.consume_value(ctx, found)
                    param.process_value(ctx, found[param.name])
        except click.UsageError as error:
            raise BadRequestError(f"{where}: {error.format_message()}") from None
        return found


def _layered(
    lower: Mapping[str, Any], upper: Mapping[str, Any], *, keep_upper: bool = True
) -> dict[str, Any]:
    """Return options with the upper layer on top. A size there replaces the whole size below."""
    hidden = set(upper).union(*(group for group in _GROUPS if group & upper.keys()))
    kept = {name: value for name, value in lower.items() if name not in hidden}
    return kept | dict(upper) if keep_upper else kept


def _join_outputs(options: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Write both outputs to one file, as Slurm does without --error."""
    output = given.get("output") or options.setdefault("output", sbatch.DEFAULT_OUTPUT)
    if "error" not in given:
        options.setdefault("error", output)


def _names(script: Script, options: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, str]:
    """Return the default names of job and application if the program has another name."""
    if script.path is None:
        base = "script"
    elif script.is_started_by_name:
        base = script.path.name
    else:
        return {}
    name = str(given.get("name") or options.get("name") or base)
    return {
        "name": base if valid_job_name(base) else "script",
        "app": next((text for text in (name, base) if valid_name(text)), "script"),
    }


def _command(argv: list[str], script: Script, *, moved: bool) -> list[str]:
    """Return the command that runs the script, also if it is not executable.

    ``moved``: the script sets the working directory of the job.
    """
    path, at = script.path, script.position
    if path is None:
        return argv
    word = argv[at]
    if moved:
        word = str(path.absolute())
    elif at == 0 and os.sep not in word and not shutil.which(word):
        word = os.path.join(".", word)
    argv = [*argv[:at], word, *argv[at + 1 :]]
    return [*script.interpreter, *argv] if script.is_started_by_name else argv


def _warn(name: str, directives: Directives, warnings: Sequence[str]) -> None:
    """Name everything that has no effect in one line."""
    parts = list(warnings)
    foreign = [f"{shown.words[0]} (line {shown.line})" for shown in directives.foreign]
    if foreign:
        parts.append(f"directives of other schedulers are not read: {', '.join(foreign)}")
    if directives.late:
        lines = ", ".join(map(str, directives.late))
        parts.append(f"#SBATCH after the first command has no effect (line {lines})")
    if parts:
        click.echo(f"wattfold: {name}: {'; '.join(parts)}", err=True)


def _stdin() -> BinaryIO:
    if sys.stdin is None:
        raise BadRequestError("standard input is closed; give a command or a file")
    return sys.stdin.buffer


def _without_batch(args: Sequence[str]) -> list[str]:
    words = iter(_without_end(args))
    kept = []
    for word in words:
        if word == "--batch":
            next(words)
        elif word != "--json" and not word.startswith("--batch="):
            kept.append(word)
    return kept


def _without_end(options: Sequence[str]) -> Sequence[str]:
    return options[:-1] if options and options[-1] == "--" else options


def _tuple(value: Any) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (value,) if isinstance(value, str) else ()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "."


def _check_requeue(given: Mapping[str, object]) -> None:
    """Raise UsageError if `--requeue` took the command as its number, which may be omitted."""
    number = given.get("requeue_max")
    if isinstance(number, str) and not number.lstrip("+-").isdigit():
        raise click.UsageError(
            f"--requeue took {number!r} as the number of restarts; write --requeue=3 before a "
            "command, or another option between them"
        )
