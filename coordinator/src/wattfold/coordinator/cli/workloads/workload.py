"""`wattfold workload`: logs and models of jobs, described, converted, generated, fetched.

These commands need no coordinator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import click

from wattfold.coordinator.cli.shared.lazy_group import LazyGroup


class _WorkloadGroup(LazyGroup):
    COMMANDS: ClassVar[Mapping[str, str]] = {
        "describe": "workloads.workload_describe:describe",
        "convert": "workloads.workload_convert:convert",
        "generate": "workloads.workload_generate:generate",
        "fetch": "workloads.workload_fetch:fetch",
    }


@click.group(cls=_WorkloadGroup)
def workload() -> None:
    """Describe, convert, generate and fetch logs of jobs (Standard Workload Format)."""
