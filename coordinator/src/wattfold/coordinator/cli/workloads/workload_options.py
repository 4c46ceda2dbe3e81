"""Common parts of the workload commands: options for invalid rows, their record, failures."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wattfold.coordinator.cli.shared.errors import BadRequestError, CliError
from wattfold.coordinator.cli.shared.parsing import Parsed

if TYPE_CHECKING:
    from wattfold.simulator.workloads.odd_rows import (
        FaultKind,
        OddRowPolicy,
        OddRowReport,
        Treatment,
    )

F = TypeVar("F", bound=Callable[..., Any])

LOG_FILE = click.Path(path_type=Path)


def parse_exception(text: str) -> tuple[FaultKind, Treatment]:
    """Parse `zero-run=skip`. Raises ValueError."""
    from wattfold.simulator.workloads.odd_rows import FaultKind, Treatment

    name, _, treatment = text.partition("=")
    try:
        return FaultKind(name), Treatment(treatment)
    except ValueError:
        rules = ", ".join(rule.value for rule in FaultKind)
        words = ", ".join(item.value for item in Treatment)
        raise ValueError(
            f"not a rule and its treatment: {text!r}; expected RULE=TREATMENT with a rule of "
            f"{rules} and a treatment of {words}"
        ) from None


def odd_row_options(command: F) -> F:
    """Add `--on-odd`, `--rule` and `--odd-rows` to a command."""
    from wattfold.simulator.workloads.odd_rows import Treatment

    for option in (
        click.option(
            "--odd-rows",
            "odd_rows_path",
            type=LOG_FILE,
            metavar="FILE",
            help="CSV file for the invalid rows, with line, rule, outcome, field and value of "
            "each.",
        ),
        click.option(
            "--rule",
            "exceptions",
            type=Parsed("rule", parse_exception),
            multiple=True,
            metavar="RULE=TREATMENT",
            help="Treatment of invalid rows by one rule, for example zero-run=skip. May be "
            "repeated.",
        ),
        click.option(
            "--on-odd",
            type=click.Choice([item.value for item in Treatment]),
            default=Treatment.REPAIR.value,
            show_default=True,
            help="Treatment of invalid rows.",
        ),
    ):
        command = option(command)
    return command


def policy_of(on_odd: str, exceptions: Sequence[tuple[FaultKind, Treatment]]) -> OddRowPolicy:
    """Return the policy that the options request."""
    from wattfold.simulator.workloads.odd_rows import OddRowPolicy, Treatment

    return OddRowPolicy(default=Treatment(on_odd), exceptions=dict(exceptions))


def write_odd_rows(report: OddRowReport, path: Path) -> None:
    """Write every invalid row as a line of CSV."""
    from wattfold.simulator.workloads.swf_writer import whole_file

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("line", "rule", "outcome", "field", "value"))
    for row in report.rows:
        writer.writerow((row.line, row.rule.value, row.outcome.value, row.field_number, row.value))
    with whole_file(path) as stream:
        stream.write(text.getvalue().encode())


def parse_range(text: str) -> tuple[int, int]:
    """Parse `7` or `1-40960`, including both ends. Raises ValueError."""
    first, dash, last = text.partition("-")
    if not (first.isdecimal() and (last.isdecimal() or not dash)) or len(text) > 33:
        raise ValueError(f"not a range: {text!r}; expected for example 7 or 1-128")
    least, greatest = int(first), int(last or first)
    if least > greatest:
        raise ValueError(f"not a range: {text!r}; expected MIN <= MAX")
    return least, greatest


def parse_integers(text: str) -> tuple[int, ...]:
    """Parse `1,3,10`. Raises ValueError."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() and len(part) < 17 for part in parts):
        raise ValueError(f"not a list of whole numbers: {text!r}; expected for example 1,3,10")
    return tuple(int(part) for part in parts)


RANGE = Parsed("range", parse_range)
INTEGERS = Parsed("integers", parse_integers)


@contextmanager
def expected_failures() -> Iterator[None]:
    """Convert failures of workloads and values into the command's own."""
    from wattfold.simulator.workloads.errors import WorkloadError

    try:
        yield
    except WorkloadError as error:
        raise CliError(str(error)) from error
    except ValueError as error:
        raise BadRequestError(str(error)) from error


def warn(text: str) -> None:
    """Write a line to standard error."""
    click.echo(text, file=sys.stderr)
